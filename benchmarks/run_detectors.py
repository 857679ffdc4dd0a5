"""INT8 of a detector by Lathe and by its peers: mAP on photos that no tool saw, and latency in OpenVINO in one interleaved
run.

    LATHE_PYTHON=venv/bin/python python3 benchmarks/run_detectors.py --lathe build/bin/lathe --shared ../shared/data \\
        --peers-python peers-venv/bin/python --work /tmp/detectors

--peers-python is a Python with requirements/peers.txt and detection.txt. Writes benchmarks/results/NAME.detector.json, from
which benchmarks/make_tables.py makes a table. What is there already in --work is used again. The machine should do nothing
else; --quantize-only may be done before, on a busy one, and --busy then leaves its seconds out.
"""

import json
import os
import sys
from pathlib import Path

import provenance
from run_peers import command_line, make, run, shorten

HERE = Path(__file__).resolve().parent


def lathe_variants(lathe, model, calibration, samples, rules, work):
    """What a user gets: every effort of `lathe quantize`, from one calibration."""
    rows, ranges = [], work / "lathe.ranges"
    reading = run([lathe, "calibrate", model, "--data", calibration, "--samples", str(samples), *rules, "--force",
                   "--output", ranges])
    for effort in ("0", "1", "2"):
        file = work / f"lathe-effort-{effort}.onnx"
        more = ["--effort", effort, "--data", calibration] if effort != "0" else []
        seconds = reading + run([lathe, "quantize", model, "--ranges", ranges, "--target", "openvino", *more, *rules,
                                 "--output", file])
        rows.append({"tool": "lathe", "variant": f"effort {effort}", "file": file.name, "seconds": seconds,
                     "samples": samples})
    (work / "lathe.json").write_text(json.dumps(rows), encoding="utf-8")


def method_of(row, judged, latency, ratios):
    """A row of the result: what a tool made, how it did."""
    name = Path(row["file"]).stem
    method = {key: row[key] for key in ("tool", "version", "variant", "samples", "seconds", "failed") if key in row}
    if name in judged:
        versus = judged[name]["vs_reference"]
        method |= {"map": judged[name]["map"], "map_delta": versus["map_delta"], "map_delta_ci95": versus["map_delta_ci95"],
                   "same": versus["agreement"]}
    if name in latency:
        method |= {"median_ms": latency[name]["median_ms"], "noisy": latency[name]["noisy"], "speedup": ratios.get(name)}
    return method


def main():
    parser = command_line(__doc__, networks=())
    parser.add_argument("--name", default="yolox_nano")
    parser.add_argument("--title", default="YOLOX-nano")
    parser.add_argument("--model", help="ONNX (default: SHARED/models/NAME.onnx)")
    parser.add_argument("--preprocess", default=str(HERE / "peers/yolox.preprocess.json"))
    parser.add_argument("--samples", type=int, default=160, help="photos to calibrate on")
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--modelopt-python", help="Python with requirements/modelopt.txt; without it ModelOpt is left out")
    parser.add_argument("--ort-variants", default="minmax-u8s8,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--nncf-variants", default="default,mixed,yolo-scopes,accuracy-control")
    parser.add_argument("--busy", action="store_true", help="the machine was busy when it quantised: no seconds")
    parser.add_argument("--quantize-only", action="store_true", help="and measure with another call")
    options = parser.parse_args()
    lathe, shared = str(Path(options.lathe).resolve()), Path(options.shared)
    work = Path(options.work) / options.name
    work.mkdir(parents=True, exist_ok=True)
    model = Path(options.model) if options.model else shared / "models" / f"{options.name}.onnx"
    rules = ["--preprocess", options.preprocess]
    calibration, validation = shared / "coco/calibration", shared / "coco/validation"
    if not (work / "lathe.json").exists():
        lathe_variants(lathe, model, calibration, options.samples, rules, work)
    common = [model, "--data", calibration, "--samples", str(options.samples), *rules, "--output", work]
    python = os.environ.get("LATHE_PYTHON", sys.executable)
    tools = {"ort": (python, options.ort_variants), "nncf": (options.peers_python, options.nncf_variants)}
    if options.modelopt_python:
        tools["modelopt"] = (options.modelopt_python, "entropy,max")
    rows = json.loads((work / "lathe.json").read_text(encoding="utf-8"))
    for tool, (environment, variants) in tools.items():
        make(work / f"{tool}.json", [environment, HERE / f"peers/quantize_{tool}.py", *common, "--variants", variants])
        rows += json.loads((work / f"{tool}.json").read_text(encoding="utf-8"))
    rows = [row for row in rows if row["file"].endswith(".onnx")]
    if options.busy:
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    if options.quantize_only:
        return
    engines = {"fp32": model} | {Path(row["file"]).stem: work / row["file"] for row in rows if not row.get("failed")}
    for name, source in engines.items():
        make(work / f"{name}.engine", [lathe, "build", source, "--precision", "fp32" if name == "fp32" else "int8", *rules,
                                       "--output", work / f"{name}.engine"])
    ours = [work / f"{name}.engine" for name in engines]
    run([lathe, "eval", *ours[1:], "--reference", ours[0], "--data", validation, *rules, "--output", work / "eval.json"])
    scores = json.loads((work / "eval.json").read_text(encoding="utf-8"))
    run([lathe, "bench", *ours, "--data", calibration, "--batch-sizes", "1", "--duration", "3", "--time-limit", "12",
         "--output", work / "bench.json"])
    bench = json.loads((work / "bench.json").read_text(encoding="utf-8"))
    judged = {subject["name"]: subject for subject in scores["subjects"]}
    latency = {entry["subject"]: entry for entry in bench["latency"]}
    best = "lathe-effort-1"
    ratios = {entry["reference"]: entry["speedup"] for entry in bench["ratios"] if entry["subject"] == best}
    document = {"kind": "detector", "version": 1, "network": options.title, "machine": bench["machine"],
                "libraries": bench.get("libraries", {}), "time": bench["time"],
                "photos": judged["fp32"]["samples"], "fp32": {"map": judged["fp32"]["map"], "median_ms": latency["fp32"]["median_ms"],
                                                             "noisy": latency["fp32"]["noisy"], "speedup": ratios.get("fp32")},
                "beside": best, "methods": [method_of(row, judged, latency, ratios) for row in rows]}
    document["command"] = " ".join(shorten(word) for word in [Path(sys.argv[0]).name, *sys.argv[1:]])
    provenance.stamp(document, lathe, [model])
    target = Path(options.results) / f"{options.name}.detector.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
