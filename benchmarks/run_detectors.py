"""INT8 of a YOLOX detector by Lathe and by its peers: mAP on photos that no tool saw, and latency in OpenVINO in one interleaved
run.

    LATHE_PYTHON=venv/bin/python python3 benchmarks/run_detectors.py --lathe build/bin/lathe --shared ../shared/data \\
        --peers-python peers-venv/bin/python --modelopt-python modelopt-venv/bin/python --work /tmp/detectors

--peers-python is a Python with requirements/peers.txt and detection.txt. Writes benchmarks/results/NAME.detector.json, from
which benchmarks/make_tables.py makes a table. What is there already in --work is used again. The machine should do nothing
else; --quantize-only may be done before, on a busy one, and --busy then leaves its seconds out, and with --no-latency what
only a quiet machine can tell.

Every tool is shown in the form and the runtime that suit it. NNCF's own form is OpenVINO's; its ONNX form keeps its accuracy
in ONNX Runtime, but OpenVINO 2026.4 turns it into another network (mAP near 0), so that it is judged in both and timed in
the first.
"""

import json
import os
import sys
from pathlib import Path

import provenance
from run_peers import command_line, make, run, shorten

HERE = Path(__file__).resolve().parent
BESIDE = "lathe-effort-1"


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


def methods_of(rows, judged, latency, ratios):
    """A row of the result for each tool's variant: what it made, how its forms did in which runtime."""
    methods = {}
    for row in rows:
        files = methods.setdefault((row["tool"], row["variant"]), {})
        files[Path(row["file"]).suffix] = row
    made = []
    for files in methods.values():
        own = files.get(".xml") or files[".onnx"]
        method = {key: own[key] for key in ("tool", "version", "variant", "file", "samples", "seconds", "failed") if key in own}
        method |= judged.get(own["file"], {})
        if ".xml" in files and (other := judged.get(files.get(".onnx", {}).get("file"))):
            method |= {"onnxruntime": other["onnxruntime"], "onnx_in_openvino": other["openvino"]}
        if own["file"] in latency:
            method |= {"median_ms": latency[own["file"]]["median_ms"], "noisy": latency[own["file"]]["noisy"],
                       "speedup": ratios.get(own["file"])}
        made.append(method)
    return made


def measure(lathe, ours, others, calibration, target, work):
    """Medians and ratios by file name, in one interleaved run."""
    against = ",".join(f"openvino={work / name}" for name in others)
    if not target.exists():
        run([lathe, "bench", *ours, *(["--against", against] if others else []), "--data", calibration, "--batch-sizes", "1",
             "--duration", "3", "--time-limit", "12", "--output", target])
    bench = json.loads(target.read_text(encoding="utf-8"))
    files = {subject["name"]: Path(subject["file"]).name.replace(".engine", ".onnx") for subject in bench["subjects"]
             if subject.get("file")}
    best = next(name for name, file in files.items() if file == f"{BESIDE}.onnx")
    latency = {files[entry["subject"]]: entry for entry in bench["latency"] if entry["subject"] in files}
    ratios = {files[entry["reference"]]: entry["speedup"] for entry in bench["ratios"]
              if entry["subject"] == best and entry["reference"] in files}
    return bench, latency, ratios


def main():
    parser = command_line(__doc__, networks=())
    parser.add_argument("--name", default="yolox_nano")
    parser.add_argument("--title", default="YOLOX-nano")
    parser.add_argument("--model", help="ONNX (default: SHARED/models/NAME.onnx)")
    parser.add_argument("--preprocess", default=str(HERE / "peers/yolox.preprocess.json"))
    parser.add_argument("--samples", type=int, default=160, help="photos to calibrate on")
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--modelopt-python", help="Python with requirements/modelopt.txt; without it ModelOpt is left out")
    parser.add_argument("--ort-variants", default="minmax-u8s8,minmax-u8s8-conv,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--histogram-samples", type=int, default=100, help="photos of ONNX Runtime's methods but minmax")
    parser.add_argument("--nncf-variants", default="default,mixed,per-tensor,yolo-scopes,yolo-scopes-add,accuracy-control")
    parser.add_argument("--busy", action="store_true", help="the machine was busy when it quantised: no seconds")
    parser.add_argument("--no-latency", action="store_true", help="the machine is busy: accuracy alone")
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
        tools["modelopt"] = (options.modelopt_python, "entropy,max,max-conv")
    rows = json.loads((work / "lathe.json").read_text(encoding="utf-8"))
    for tool, (environment, variants) in tools.items():
        more = ["--histogram-samples", options.histogram_samples] if tool == "ort" else []
        make(work / f"{tool}.json", [environment, HERE / f"peers/quantize_{tool}.py", *common, "--variants", variants, *more])
        rows += json.loads((work / f"{tool}.json").read_text(encoding="utf-8"))
    if options.quantize_only:
        return
    if options.busy:
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    good = [row["file"] for row in rows if not row.get("failed")]
    make(work / "judged.json", [options.peers_python, HERE / "peers/judge_yolox.py", model, "--data", validation, *rules,
                                "--output", work / "judged.json", *(f"--subject={work / name}" for name in good)])
    scores = json.loads((work / "judged.json").read_text(encoding="utf-8"))
    judged = {subject["file"]: {key: value for key, value in subject.items() if key != "file"} for subject in scores["subjects"]}
    document = {"kind": "detector", "version": 1, "network": options.title, "photos": scores["photos"],
                "draws": scores["draws"], "seed": scores["seed"], "fp32": {"map": scores["fp32"]}, "beside": BESIDE}
    latency, ratios = {}, {}
    if not options.no_latency:
        sources = {"fp32": model} | {Path(name).stem: work / name for name in good if name.startswith("lathe-")}
        for name, source in sources.items():
            make(work / f"{name}.engine", [lathe, "build", source, "--precision", "fp32" if name == "fp32" else "int8", *rules,
                                           "--output", work / f"{name}.engine"])
        # Of a tool whose own form is OpenVINO's the other is not timed.
        own = [name for name in good if not name.startswith("lathe-")
               and not (name.endswith(".onnx") and name.replace(".onnx", ".xml") in good)]
        bench, latency, ratios = measure(lathe, [work / f"{name}.engine" for name in sources], own, calibration,
                                         work / "bench.json", work)
        document |= {"machine": bench["machine"], "libraries": bench.get("libraries", {}), "time": bench["time"]}
        document["fp32"] |= {"median_ms": latency["fp32.onnx"]["median_ms"], "noisy": latency["fp32.onnx"]["noisy"],
                             "speedup": ratios.get("fp32.onnx")}
    document["methods"] = methods_of(rows, judged, latency, ratios)
    document["command"] = " ".join(shorten(word) for word in [Path(sys.argv[0]).name, *sys.argv[1:]])
    provenance.stamp(document, lathe, [model])
    target = Path(options.results) / f"{options.name}.detector.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
