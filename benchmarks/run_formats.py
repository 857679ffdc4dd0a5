"""Number formats of int8 side by side: scales of weights by channel or by tensor, activations with a zero point or without.

    python3 benchmarks/run_formats.py --lathe build/bin/lathe --shared ../shared/data --work /tmp/formats

MobileNetV1, whose depthwise filters differ most in size, on photos that it was not calibrated on. Writes
benchmarks/results/mobilenet_v1.formats.json, from which benchmarks/make_tables.py makes a table of docs/notes/01. Accuracy
alone: other work beside it changes nothing. What is there already in --work is used again.
"""

import argparse
import json
from pathlib import Path

from run_peers import HERE, NETWORKS, make, run, strip_paths

CELLS = [(weights, activations) for weights in ("per-channel", "per-tensor") for activations in ("asymmetric", "symmetric")]


def variants():
    """Name and options of every engine."""
    for weights, activations in CELLS:
        for effort in ("0", "2"):
            more = ["--weights", weights, "--activations", activations, "--effort", effort]
            yield f"{weights}.{activations}.effort-{effort}", more
            if (weights, activations, effort) == ("per-tensor", "asymmetric", "2"):
                yield f"{weights}.{activations}.effort-2.unequalized", [*more, "--equalize", "off"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--shared", required=True, help="folder of models and images")
    parser.add_argument("--work", required=True)
    parser.add_argument("--results", default=str(HERE / "results"))
    options = parser.parse_args()
    network = NETWORKS["mobilenet_v1"]
    lathe = str(Path(options.lathe).resolve())
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    rules = ["--preprocess", network["preprocess"].format(here=HERE)]
    calibration = Path(options.shared) / network["calibration"]

    simple = make(work / "simple.onnx", [lathe, "simplify", network["model"].format(shared=options.shared),
                                         "--output", work / "simple.onnx"])
    ranges = make(work / "m.ranges", [lathe, "calibrate", simple, "--data", calibration, "--samples", "300", *rules,
                                      "--output", work / "m.ranges"])
    corrections = {}
    for name, more in variants():
        told = work / f"{name}.json"
        if not told.exists():
            with open(work / "partial.json", "w", encoding="utf-8") as file:
                run([lathe, "quantize", simple, "--ranges", ranges, "--target", "openvino", *more, "--data", calibration,
                     *rules, "--json", "--output", work / f"{name}.onnx"], stdout=file)
            (work / "partial.json").rename(told)
        corrections[name] = json.loads(told.read_text(encoding="utf-8")).get("corrections")
        make(work / f"{name}.engine", [lathe, "build", work / f"{name}.onnx", "--precision", "int8", *rules,
                                       "--output", work / f"{name}.engine"])
    make(work / "fp32.engine", [lathe, "build", simple, "--precision", "fp32", *rules, "--output", work / "fp32.engine"])
    evaluated = work / "eval.json"
    run([lathe, "eval", *(work / f"{name}.engine" for name, _ in variants()), "--reference", work / "fp32.engine",
         "--data", Path(options.shared) / network["validation"], *rules, "--output", evaluated])
    strip_paths(evaluated, network["title"])
    document = json.loads(evaluated.read_text(encoding="utf-8"))
    for subject in document["subjects"]:
        if corrections.get(subject["name"]):
            subject["corrections"] = corrections[subject["name"]]
    target = Path(options.results) / "mobilenet_v1.formats.json"
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.rename(target)
    print(target)


if __name__ == "__main__":
    main()
