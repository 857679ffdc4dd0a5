"""INT8 of a detector by Lathe and by its peers: mAP on photos that no tool saw, and latency in OpenVINO in one interleaved run.

    LATHE_PYTHON=venv/bin/python python3 benchmarks/run_detectors.py --lathe build/bin/lathe --shared ../shared/data \\
        --peers-python peers-venv/bin/python --modelopt-python modelopt-venv/bin/python --work /tmp/detectors --network yolox_nano

--peers-python is a Python with requirements/peers.txt and detection.txt. Networks but YOLOX-nano are given with --model: `nudenet`
is 320n.onnx of PyPI's nudenet 3.4.2, `ppocr_det` PP-OCRv6_det_small.onnx of rapidocr 3.10.0, judged on drawn pages
(peers/pages.py). Their classes are not COCO's, or nobody's: FP32's own detections are their truth. Writes
benchmarks/results/NAME.detector.json, from which benchmarks/make_tables.py makes a table. What is there already in --work is used
again. The machine should do nothing else; --quantize-only may be done before, on a busy one, and --busy then leaves its seconds
out, and with --no-latency what only a quiet machine can tell.

NNCF's results are shown in OpenVINO's form and in ONNX: which of them keeps the accuracy depends on the network.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import provenance
from run_peers import command_line, make, run, shorten

HERE = Path(__file__).resolve().parent
BESIDE = "lathe-effort-1"


@dataclass
class Network:
    """A detector, the head that reads it, what it is calibrated and judged on."""

    title: str
    head: str
    shape: str
    pictures: str = "photos"
    data: str = "coco"
    coco: bool = False  # its classes are COCO's


NETWORKS = {
    "yolox_nano": Network("YOLOX-nano", "yolox", "1x3x416x416", coco=True),
    "nudenet": Network("NudeNet (YOLOv8n)", "yolov8", "1x3x320x320"),
    "ppocr_det": Network("PP-OCRv6 small, text detection", "text-map", "1x3x640x640", "drawn pages", "pages"),
}
PAGES = {"calibration": (60, 1), "validation": (40, 2)}  # how many, seed


def lathe_variants(lathe, model, calibration, samples, rules, work):
    """What a user gets: the model simplified, and every effort of `lathe quantize` from one calibration."""
    rows, ranges, simple = [], work / "lathe.ranges", work / "lathe.simplified.onnx"
    reading = run([lathe, "simplify", model, "--output", simple])
    reading += run([lathe, "calibrate", simple, "--data", calibration, "--samples", str(samples), *rules, "--force",
                    "--output", ranges])
    for effort in ("0", "1", "2"):
        file = work / f"lathe-effort-{effort}.onnx"
        more = ["--effort", effort, "--data", calibration] if effort != "0" else []
        seconds = reading + run([lathe, "quantize", simple, "--ranges", ranges, "--target", "openvino", *more, *rules,
                                 "--output", file])
        rows.append({"tool": "lathe", "variant": f"effort {effort}", "file": file.name, "seconds": seconds,
                     "samples": samples})
    (work / "lathe.json").write_text(json.dumps(rows), encoding="utf-8")


def methods_of(rows, judged, latency, ratios):
    """A row of the result for each file that a tool made: how it did in which runtime. NNCF writes two forms."""
    made = []
    for row in rows:
        method = {key: row[key] for key in ("tool", "version", "variant", "file", "samples", "seconds", "failed") if key in row}
        if row["tool"] == "nncf":
            method["variant"] += " as ONNX" if row["file"].endswith(".onnx") else " as IR"
        method |= judged.get(row["file"], {})
        if row["file"] in latency:
            method |= {"median_ms": latency[row["file"]]["median_ms"], "noisy": latency[row["file"]]["noisy"],
                       "speedup": ratios.get(row["file"])}
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


def pictures_of(network, shared, work):
    """The folders to calibrate and to judge on."""
    if network.data != "pages":
        return shared / network.data / "calibration", shared / network.data / "validation"
    python = os.environ.get("LATHE_PYTHON", sys.executable)
    for name, (pages, seed) in PAGES.items():
        make(work / "pages" / name, [python, HERE / "peers/pages.py", work / "pages" / name, "--pages", pages, "--seed", seed])
    return work / "pages/calibration", work / "pages/validation"


def main():
    parser = command_line(__doc__, networks=NETWORKS)
    parser.add_argument("--model", help="ONNX (default: SHARED/models/NETWORK.onnx)")
    parser.add_argument("--samples", type=int, default=160, help="pictures to calibrate on, if there are as many")
    parser.add_argument("--peers-python", required=True)
    parser.add_argument("--modelopt-python", help="Python with requirements/modelopt.txt; without it ModelOpt is left out")
    parser.add_argument("--ort-variants", default="minmax-u8s8,minmax-u8s8-conv,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--histogram-samples", type=int, default=48, help="pictures of ONNX Runtime's methods but minmax")
    parser.add_argument("--nncf-variants", default="default,mixed,per-tensor,yolo-scopes,yolo-scopes-add,accuracy-control")
    parser.add_argument("--modelopt-variants", default="entropy,max,max-conv")
    parser.add_argument("--busy", action="store_true", help="the machine was busy when it quantised: no seconds")
    parser.add_argument("--no-latency", action="store_true", help="the machine is busy: accuracy alone")
    parser.add_argument("--quantize-only", action="store_true", help="and measure with another call")
    options = parser.parse_args()
    network = NETWORKS[options.network]
    lathe, shared = str(Path(options.lathe).resolve()), Path(options.shared)
    work = Path(options.work) / options.network
    work.mkdir(parents=True, exist_ok=True)
    python = os.environ.get("LATHE_PYTHON", sys.executable)
    original = Path(options.model) if options.model else shared / "models" / f"{options.network}.onnx"
    model = make(work / "model.onnx", [python, HERE / "peers/fix_shape.py", original, work / "model.onnx", network.shape])
    rules = ["--preprocess", HERE / f"peers/{options.network}.preprocess.json"]
    calibration, validation = pictures_of(network, shared, work)
    samples = min(options.samples, sum(file.suffix in (".jpg", ".png") for file in calibration.iterdir()))
    if not (work / "lathe.json").exists():
        lathe_variants(lathe, model, calibration, samples, rules, work)
    common = [model, "--data", calibration, "--samples", str(samples), *rules, "--output", work]
    truth = ["--truth", calibration / "instances.json"] if network.coco else []
    tools = {"ort": (python, options.ort_variants, ["--histogram-samples", min(samples, options.histogram_samples)]),
             "nncf": (options.peers_python, options.nncf_variants, ["--head", network.head, *truth])}
    if options.modelopt_python:
        tools["modelopt"] = (options.modelopt_python, options.modelopt_variants, [])
    rows = json.loads((work / "lathe.json").read_text(encoding="utf-8"))
    for tool, (environment, variants, more) in tools.items():
        make(work / f"{tool}.json", [environment, HERE / f"peers/quantize_{tool}.py", *common, "--variants", variants, *more])
        rows += json.loads((work / f"{tool}.json").read_text(encoding="utf-8"))
    if options.quantize_only:
        return
    if options.busy:
        rows = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    good = [row["file"] for row in rows if not row.get("failed")]
    truth = ["--truth", validation / "instances.json"] if network.coco else []
    make(work / "judged.json", [options.peers_python, HERE / "peers/judge_detector.py", model, "--head", network.head, *truth,
                                "--data", validation, *rules, "--output", work / "judged.json",
                                *(f"--subject={work / name}" for name in good)])
    scores = json.loads((work / "judged.json").read_text(encoding="utf-8"))
    judged = {subject["file"]: {key: value for key, value in subject.items() if key != "file"} for subject in scores["subjects"]}
    document = {"kind": "detector", "version": 2, "network": network.title, "photos": scores["photos"],
                "pictures": network.pictures, "draws": scores["draws"], "seed": scores["seed"], "fp32": scores["fp32"],
                "beside": BESIDE}
    latency, ratios = {}, {}
    if not options.no_latency:
        sources = {"fp32": model} | {Path(name).stem: work / name for name in good if name.startswith("lathe-")}
        for name, source in sources.items():
            make(work / f"{name}.engine", [lathe, "build", source, "--precision", "fp32" if name == "fp32" else "int8", *rules,
                                           "--output", work / f"{name}.engine"])
        others = [name for name in good if not name.startswith("lathe-")]
        bench, latency, ratios = measure(lathe, [work / f"{name}.engine" for name in sources], others, calibration,
                                         work / "bench.json", work)
        document |= {"machine": bench["machine"], "libraries": bench.get("libraries", {}), "time": bench["time"]}
        document["fp32"] |= {"median_ms": latency["fp32.onnx"]["median_ms"], "noisy": latency["fp32.onnx"]["noisy"],
                             "speedup": ratios.get("fp32.onnx")}
    document["methods"] = methods_of(rows, judged, latency, ratios)
    document["command"] = " ".join(shorten(word) for word in [Path(sys.argv[0]).name, *sys.argv[1:]])
    provenance.stamp(document, lathe, [original])
    target = Path(options.results) / f"{options.network}.detector.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
