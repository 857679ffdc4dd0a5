"""Lathe's engines beside the peers' quantised models: same images, same machine, one interleaved run a network.

    LATHE_PYTHON=venv/bin/python python3 benchmarks/run_peers.py --network lite0 --lathe build/bin/lathe \
        --shared ../shared/data --peers-python peers-venv/bin/python --work /tmp/peers

Writes benchmarks/results/NETWORK.{latency,bench,eval,quantize}.json, from which benchmarks/make_tables.py makes the README's
tables: `latency` is of each framework at its best, `bench` of every method's int8 file in OpenVINO. What is there already in --work is used again; delete it to start afresh. The machine should do nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import provenance

HERE = Path(__file__).resolve().parent

NETWORKS = {
    "lite0": {
        "title": "EfficientNet-Lite0",
        "export": ["efficientnet-lite0", "--dynamic-batch"],
        "calibration": "imagenet/calibration",
        "validation": "imagenet/validation",
    },
    "resnet50": {
        "title": "ResNet-50, Tiny-ImageNet",
        "export": ["resnet50", "--weights", "{shared}/models/resnet50_tiny_imagenet.pth", "--dynamic-batch",
                   "--preprocess", "{here}/peers/resnet50_tiny.preprocess.json"],
        "calibration": "tiny-imagenet/calibration",
        "validation": "tiny-imagenet/validation",
    },
    "mobilenet_v1": {
        "title": "MobileNetV1 0.75",
        "model": "{shared}/models/mobilenet_v1_0.75_224.onnx",
        "preprocess": "{here}/peers/mobilenet_v1.preprocess.json",
        "calibration": "imagenet/calibration",
        "validation": "imagenet/validation",
    },
}


ALL = ["--samples", "300"]


def run(command, **kwargs):
    """Runs a command line, shown first; stops at a failure."""
    command = [str(part) for part in command]
    print("+", " ".join(command), file=sys.stderr, flush=True)
    start = time.perf_counter()
    subprocess.run(command, check=True, **kwargs)
    return time.perf_counter() - start


def make(target, command):
    """Runs the command unless its target is there; returns the target."""
    if not target.exists():
        run(command)
    return target


class Prepared:
    """A network exported and simplified in a folder of its own; what is there already is used again."""

    def __init__(self, name, lathe, shared, work):
        self.network = NETWORKS[name]
        self.lathe = str(Path(lathe).resolve())
        self.work = Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        fill = {"shared": shared, "here": HERE}
        self.rules = ["--preprocess", self.network["preprocess"].format(**fill)] if "preprocess" in self.network else []
        self.calibration = Path(shared) / self.network["calibration"]
        self.validation = Path(shared) / self.network["validation"]
        if "model" in self.network:
            self.model = Path(self.network["model"].format(**fill))
        else:
            export = [part.format(**fill) for part in self.network["export"]]
            self.model = make(self.work / "model.onnx",
                              [self.lathe, "export", *export, "--output", self.work / "model.onnx"])
        self.simple = make(self.work / "simple.onnx",
                           [self.lathe, "simplify", self.model, "--output", self.work / "simple.onnx"])


def command_line(description, networks=tuple(NETWORKS)):
    """A parser with what every run over a network wants; none of them to choose from: no --network."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if networks:
        parser.add_argument("--network", choices=networks, required=True)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--shared", required=True, help="folder of models and images")
    parser.add_argument("--work", required=True)
    parser.add_argument("--results", default=str(HERE / "results"))
    return parser


def main():
    parser = command_line(__doc__)
    parser.add_argument("--peers-python", required=True, help="Python with requirements/peers.txt")
    parser.add_argument("--modelopt-python", help="Python with requirements/modelopt.txt; without it ModelOpt is left out")
    parser.add_argument("--nncf-variants", default="default,mixed,accurate-bias,accuracy-control")
    parser.add_argument("--efforts", default="0,2", help="of Lathe; 0 is always measured")
    parser.add_argument("--batch-sizes", default="1,8,16")
    parser.add_argument("--duration", default="3")
    parser.add_argument("--time-limit", default="10")
    parser.add_argument("--against", help="frameworks beside the engines (default: PyTorch, ONNX Runtime and OpenVINO in "
                        "FP32, for `latency` PyTorch in BF16 and INT8 too)")
    parser.add_argument("--ort-variants", default="minmax-u8s8,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--steps", default="latency,bench,eval",
                        help="what to do when all is quantised: latency and bench want a quiet machine, eval does not "
                             "(default: %(default)s; empty: quantise only)")
    options = parser.parse_args()
    python = os.environ.get("LATHE_PYTHON", sys.executable)
    prepared = Prepared(options.network, options.lathe, options.shared, Path(options.work) / options.network)
    network, lathe, work, rules = prepared.network, prepared.lathe, prepared.work, prepared.rules
    calibration, validation, model, simple = prepared.calibration, prepared.validation, prepared.model, prepared.simple
    quantize_log = []
    quantized = work / "int8.onnx"
    if not (work / "lathe.json").exists():
        log = []
        # As a user would: effort 0 stops reading by itself. All 300 beside it, and for the corrections.
        efforts = [("effort 0", quantized, [], []), ("effort 0, --samples 300", work / "lathe-300.onnx", ALL, [])]
        for effort in options.efforts.split(","):
            if effort != "0":
                more = ["--effort", effort, "--data", calibration, *rules]
                efforts.append((f"effort {effort}", work / f"lathe-effort-{effort}.onnx", ALL, more))
        for variant, target, samples, more in efforts:
            ranges = target.with_suffix(".ranges")
            seconds = run([lathe, "calibrate", simple, "--data", calibration, *samples, *rules, "--force",
                           "--output", ranges])
            seconds += run([lathe, "quantize", simple, "--ranges", ranges, "--target", "openvino", *more,
                            "--output", target])
            log.append({"tool": "lathe", "variant": variant, "file": target.name, "seconds": seconds,
                        "samples": json.loads(ranges.read_text(encoding="utf-8"))["samples_seen"]})
        (work / "lathe.json").write_text(json.dumps(log), encoding="utf-8")
    make(work / "ort.json", [python, HERE / "peers/quantize_ort.py", model, "--data", calibration, *rules,
                             "--variants", options.ort_variants, "--output", work])
    make(work / "nncf.json", [options.peers_python, HERE / "peers/quantize_nncf.py", model, "--data", calibration,
                              *rules, "--variants", options.nncf_variants, "--output", work])
    tools = ["lathe", "ort", "nncf"]
    if options.modelopt_python:
        make(work / "modelopt.json", [options.modelopt_python, HERE / "peers/quantize_modelopt.py", model,
                                      "--data", calibration, *rules, "--output", work])
        tools.append("modelopt")
    for name in tools:
        quantize_log += json.loads((work / f"{name}.json").read_text(encoding="utf-8"))
    # The fastest peers with as many images as Lathe read: their time alone, since nothing tells them that these suffice.
    fewer = work / "as-many-images"
    common = [model, "--data", calibration, *rules, "--samples", str(quantize_log[0]["samples"]), "--output", fewer]
    make(fewer / "ort.json", [python, HERE / "peers/quantize_ort.py", *common, "--variants", "minmax-u8s8"])
    make(fewer / "nncf.json", [options.peers_python, HERE / "peers/quantize_nncf.py", *common])
    timed_alone = []
    for name in ("ort", "nncf"):
        timed_alone += json.loads((fewer / f"{name}.json").read_text(encoding="utf-8"))

    engines = {"fp32": simple, "int8": quantized}
    engines |= {Path(entry["file"]).stem: work / entry["file"] for entry in quantize_log
                if entry["file"] != quantized.name and entry["file"].endswith(".onnx") and "failed" not in entry}
    for name, source in engines.items():
        precision = "fp32" if name == "fp32" else "int8"
        make(work / f"{name}.engine", [lathe, "build", source, "--precision", precision, *rules,
                                       "--output", work / f"{name}.engine"])

    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    document = {"kind": "quantize-times", "version": 1, "network": network["title"],
                "tools": quantize_log + timed_alone}
    provenance.stamp(document, lathe, [simple, quantized])
    (results / f"{options.network}.quantize.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    files = {step: results / f"{options.network}.{step}.json" for step in options.steps.split(",") if step}
    ours = [work / f"{name}.engine" for name in engines if name == "int8" or name.startswith("lathe-")]
    timing = ["--model", model, "--batch-sizes", options.batch_sizes, "--duration", options.duration,
              "--time-limit", options.time_limit]
    frameworks = options.against or "pytorch,torch-compile,onnxruntime,openvino"
    if "latency" in files:
        # NNCF in both its forms: the table shows the faster one.
        against = [options.against or f"{frameworks},pytorch=bf16,torch-compile=bf16,torch-compile=int8",
                   f"onnxruntime={work / 'ort-minmax-u8s8.onnx'}", f"openvino={work / 'nncf.onnx'}",
                   f"openvino={work / 'nncf.xml'}", f"openvino={quantized}"]
        run([lathe, "bench", *ours, work / "fp32.engine", "--against", ",".join(against), *timing,
             "--output", files["latency"]])
    if "bench" in files:
        # Each tool's result in the same runtime, and ONNX Runtime's and NNCF's in their own forms.
        against = [frameworks, f"onnxruntime={work / 'ort-minmax-u8s8.onnx'}", f"openvino={work / 'nncf.xml'}",
                   *(f"openvino={source}" for name, source in engines.items()
                     if name != "fp32" and not name.startswith("lathe-"))]
        run([lathe, "bench", *ours, work / "fp32.engine", "--against", ",".join(against), *timing,
             "--output", files["bench"]])
    if "eval" in files:
        others = [work / f"{name}.engine" for name in engines if name != "fp32"]
        run([lathe, "eval", *others, "--reference", work / "fp32.engine", "--data", validation, *rules,
             "--output", files["eval"]])
    for file in files.values():
        strip_paths(file, network["title"], lathe=lathe, models=[simple, quantized])


def strip_paths(file, title, document=None, lathe=None, models=()):
    """Names the network, and keeps file names only: whose folders they lay in is nobody's business. With `lathe` also
    records where the result comes from."""
    if document is None:
        document = json.loads(file.read_text(encoding="utf-8"))
    document["network"] = title
    document["command"] = " ".join(shorten(part) for part in document["command"].split(" "))
    for subject in [*document.get("subjects", []), document.get("model", {})]:
        if subject.get("file"):
            subject["file"] = Path(subject["file"]).name
    if document.get("engine"):
        document["engine"] = Path(document["engine"]).name
    for key in ("path", "judge"):
        if document.get("data", {}).get(key):
            path = Path(document["data"][key])
            document["data"][key] = path.name if path.suffix else f"{path.parent.name}/{path.name}"
    for entry in document.get("unavailable", []):
        entry["reason"] = " ".join(shorten(part) for part in entry["reason"].split(" "))
    if lathe:
        provenance.stamp(document, lathe, models)
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    partial.replace(file)


def shorten(text):
    """a=/x/y/z,b=/p/q as a=z,b=q."""
    return ",".join("=".join(Path(part).name if "/" in part else part for part in item.split("="))
                    for item in text.split(","))


if __name__ == "__main__":
    main()
