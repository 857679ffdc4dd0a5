"""All scenarios and modes of MLPerf's load generator (run.py) with one engine of a classifier, and its accuracy by
`lathe eval` on the same pictures beside them.

    suite.py NAME ENGINE --data FOLDER --lathe build/bin/lathe --work DIR --output NAME.mlperf.json
             [--samples 200] [--systems triton,session] [--modes accuracy,performance] [--seconds 10] [--qps 20] [--expected 100]

FOLDER holds pictures and labels.csv (file,class_index). They become the engine's input as the engine's own preprocessing has
it: `lathe run` of a model that hands its input through, built with that preprocessing. LoadGen's own logs stay in DIR.

Exit code 1 where accuracy mode did not answer each sample, or is more than one sample off what `lathe eval` says: runs of
another batch size differ in last bits. Performance runs that LoadGen finds invalid (too slow, too short) are kept with its
verdict. `busy` is true where the machine had other work than this (its load before the first run exceeded a quarter of its
cores): then times prove nothing.
"""
import argparse
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy
import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import provenance

SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")


def lathe_json(lathe, *arguments):
    done = subprocess.run([lathe, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"lathe {arguments[0]} ended with exit code {done.returncode}")
    return json.loads(done.stdout)


def chosen(folder, count):
    """So many labelled pictures, spread evenly, and their classes."""
    with open(folder / "labels.csv", newline="", encoding="utf-8") as stream:
        rows = [(row["file"], int(row["class_index"])) for row in csv.DictReader(stream)]
    count = min(count, len(rows))
    return [rows[place * len(rows) // count] for place in range(count)]


def preprocess(lathe, engine, files, work):
    """The pictures as the engine's input, by the engine's own preprocessing."""
    about = lathe_json(lathe, "inspect", engine)
    if len(about["inputs"]) != 1 or not about.get("preprocess"):
        sys.exit(f"{engine}: an engine of one input with preprocessing is needed; build it with --preprocess")
    given = about["inputs"][0]
    name, sizes = given["name"], ["N", *given["max"][1:]]
    through = helper.make_graph([helper.make_node("Identity", [name], ["same"])], "through",
                                [helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)],
                                [helper.make_tensor_value_info("same", TensorProto.FLOAT, sizes)])
    onnx.save(helper.make_model(through, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), work / "through.onnx")
    (work / "preprocess.json").write_text(json.dumps(about["preprocess"]))
    subprocess.run([lathe, "build", work / "through.onnx", "-o", work / "through.engine", "--preprocess",
                    work / "preprocess.json", "--quiet"], check=True)
    subprocess.run([lathe, "run", work / "through.engine", *files, "-o", work / "through.npz", "--quiet"], check=True,
                   stdout=subprocess.DEVNULL)
    pictures = numpy.load(work / "through.npz")["same"]
    if len(pictures) != len(files):
        sys.exit(f"{len(files)} pictures gave {len(pictures)} inputs")
    numpy.savez(work / "samples.npz", **{name: pictures})


def judged(lathe, engine, data, rows, work):
    """`lathe eval` on the same pictures."""
    folder = work / "chosen"
    folder.mkdir()
    for file, _ in rows:
        (folder / file).symlink_to((data / file).resolve())
    with open(folder / "labels.csv", "w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("file", "class_index"), *rows])
    subject = lathe_json(lathe, "eval", engine, "--data", folder)["subjects"][0]
    return {"top1": subject["top1"], "samples": len(rows)}


def one_run(options, system, scenario, mode, work):
    folder = work / f"{system}-{scenario}-{mode}"
    done = subprocess.run(
        [sys.executable, HERE / "run.py", options.engine, "--samples", work / "samples.npz", "--labels", work / "labels.npy",
         "--system", system, "--scenario", scenario, "--mode", mode, "--seconds", str(options.seconds), "--qps",
         str(options.qps if scenario == "Server" else options.expected), "--latency-ms", str(options.latency_ms), "--queries",
         str(options.queries), "--lathe", options.lathe, "--output", folder], stdout=subprocess.PIPE, text=True)
    summary = folder / "summary.json"
    if not summary.exists():
        sys.exit(f"run.py ended with exit code {done.returncode} and left no summary: {system}, {scenario}, {mode}")
    return json.loads(summary.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--lathe", default=os.environ.get("LATHE", "lathe"))
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--systems", default="triton,session")
    parser.add_argument("--modes", default="accuracy,performance")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--queries", type=int, default=100, help="of performance mode, at least")
    parser.add_argument("--qps", type=float, default=20, help="arrivals of Server")
    parser.add_argument("--expected", type=float, default=100, help="samples a second of the others: at least what they "
                        "reach, since LoadGen makes as many queries as that takes for --seconds")
    parser.add_argument("--latency-ms", type=float, default=100, help="Server: the 99th percentile's bound")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    shutil.rmtree(options.work, ignore_errors=True)
    options.work.mkdir(parents=True)
    rows = chosen(options.data, options.samples)
    numpy.save(options.work / "labels.npy", numpy.array([label for _, label in rows]))
    preprocess(options.lathe, options.engine, [options.data / file for file, _ in rows], options.work)
    document = {"kind": "mlperf", "version": 1, "network": options.name, "load_average": round(load, 2),
                "busy": load > len(os.sched_getaffinity(0)) / 4, "seconds": options.seconds, "queries": options.queries,
                "qps": options.qps, "expected": options.expected, "latency_ms": options.latency_ms,
                "eval": judged(options.lathe, options.engine, options.data, rows, options.work), "runs": []}
    wrong = []
    for system in options.systems.split(","):
        for scenario in SCENARIOS:
            for mode in options.modes.split(","):
                run = one_run(options, system, scenario, mode, options.work)
                document["runs"].append(run)
                told = f"{system}, {scenario}, {mode}"
                if mode == "accuracy":
                    off = abs(run["accuracy"]["top1"] - document["eval"]["top1"]) * len(rows)
                    if run["accuracy"]["answered"] != len(rows) or off > 1.5:
                        wrong.append(f"{told}: {run['accuracy']}, and lathe eval says {document['eval']}")
                print(f"{told}: {run.get('accuracy') or run['figures']['Result is']}", file=sys.stderr)
    provenance.stamp(document, options.lathe, [options.engine, options.work / "samples.npz"])
    options.output.write_text(json.dumps(document, indent=1) + "\n")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
