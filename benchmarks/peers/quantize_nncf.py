"""NNCF's post-training quantisation (300 images), in the environment of requirements/peers.txt.

    python benchmarks/peers/quantize_nncf.py model.onnx --data photos/ --output DIR

Variants: `default`; `accurate-bias`, its slower bias correction; `accuracy-control`, which measures top-1 on the labelled
calibration images and returns layers to floating point until at most 0.1 point is lost.
Writes DIR/nncf.xml (OpenVINO's own form, for speed), DIR/nncf.onnx and the like of the other variants (for `lathe eval`)
and DIR/nncf.json with the seconds each took, data loading included.
"""

import argparse
import csv
import json
import resource
import time
from pathlib import Path

import nncf
import numpy as np
import onnx
import openvino
from images import choose, preprocess, rules_of


def labels_of(folder):
    """Class indices by file name."""
    with open(Path(folder) / "labels.csv", newline="", encoding="utf-8") as file:
        return {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}


def top1(model, samples):
    """Share of (image, class) pairs whose greatest score is the class's, and each pair's own result."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model=model.SerializeToString()), "CPU")
    output = compiled.output(0)
    hits = [float(np.argmax(compiled(image)[output]) == index) for image, index in samples]
    return sum(hits) / len(hits), hits


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--preprocess")
    parser.add_argument("--variants", default="default", help="of default, accurate-bias, accuracy-control")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    model = onnx.load(options.model)
    rules = rules_of(model, options.preprocess)
    name = model.graph.input[0].name
    files = choose(options.data, options.samples)
    results = []

    def note(variant, target, seconds):
        results.append(
            {
                "tool": "nncf",
                "version": nncf.__version__,
                "variant": variant,
                "file": target,
                "samples": len(files),
                "seconds": seconds,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
        print(json.dumps(results[-1]), flush=True)

    # Two data sets, since NNCF's front end for ONNX wants names and that for OpenVINO does not.
    plain = nncf.Dataset(files, lambda file: preprocess(file, rules))
    named = nncf.Dataset(files, lambda file: {name: preprocess(file, rules)})
    core = openvino.Core()
    for variant in options.variants.split(","):
        stem = "nncf" if variant == "default" else f"nncf-{variant}"
        start = time.perf_counter()
        if variant == "accuracy-control":
            labels = labels_of(options.data)
            judged = nncf.Dataset(files, lambda file: (preprocess(file, rules), labels[file.name]))
            quantized = nncf.quantize_with_accuracy_control(
                model, named, judged, top1, max_drop=0.001, subset_size=options.samples
            )
            onnx.save(quantized, str(output / f"{stem}.onnx"))
            note(variant, f"{stem}.onnx", time.perf_counter() - start)
            continue
        fast = variant == "default"
        quantized = nncf.quantize(
            core.read_model(options.model), plain, subset_size=options.samples, fast_bias_correction=fast
        )
        openvino.save_model(quantized, str(output / f"{stem}.xml"), compress_to_fp16=False)
        note(variant, f"{stem}.xml", time.perf_counter() - start)

        start = time.perf_counter()
        quantized = nncf.quantize(model, named, subset_size=options.samples, fast_bias_correction=fast)
        onnx.save(quantized, str(output / f"{stem}.onnx"))
        note(variant, f"{stem}.onnx", time.perf_counter() - start)
    (output / "nncf.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
