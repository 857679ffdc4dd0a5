"""Throughput of an engine on one and more GPUs, by `lathe bench --scaling`.

    python3 benchmarks/gpu/scaling.py "ResNet-50" --lathe build/bin/lathe --model resnet50.int8.onnx --precision int8 \
        --shape input:64x3x224x224..64x3x224x224..128x3x224x224 --batch-sizes 64,128 --devices 0,1 --work /tmp/scaling \
        --output benchmarks/results/resnet50.scaling.json

Writes a document of kind gpu-scaling: samples a second by precision, batch, number of GPUs and where the inputs lie, and
how many times that of one GPU. Several models go into one file with --add.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import provenance
from gpu.machine import machine


def run(command):
    """A command's end is awaited; RuntimeError with its last words if it fails."""
    print("+", *command, flush=True)
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[1]} ended with {done.returncode}: {done.stderr[-1500:]}")
    print(done.stdout[-3000:], flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("title", help="the network's name in the table")
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--precision", required=True)
    parser.add_argument("--shape", required=True, help="as of lathe build")
    parser.add_argument("--batch-sizes", default="64")
    parser.add_argument("--devices", required=True, help="indices, separated by commas")
    parser.add_argument("--duration", default="2")
    parser.add_argument("--work", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--add", action="store_true", help="add to the rows in --output")
    options = parser.parse_args()
    work = Path(options.work)
    work.mkdir(parents=True, exist_ok=True)
    engine, found = work / f"scaling.{options.precision}.engine", work / "scaling.bench.json"
    run([options.lathe, "build", options.model, "--device", "cuda", "--precision", options.precision, "--shape", options.shape,
         "--devices", options.devices, "--timing-cache", work / "timings.json", "-o", engine])
    run([options.lathe, "bench", engine, "--devices", options.devices, "--scaling", "--batch-sizes", options.batch_sizes,
         "--duration", options.duration, "--time-limit", "0.5", "--output", found])
    result = json.loads(found.read_text(encoding="utf-8"))
    rows = [{"precision": options.precision, "batch": row["batch"], "inputs": row["inputs"], "gpus": row["devices"],
             "samples_per_second": row["samples_per_second"], "times": row["times_one_device"]}
            for row in result["scaling"]]
    document = {"kind": "gpu-scaling", "version": 1, "network": options.title, "machine": machine("cuda"),
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rows": rows}
    provenance.stamp(document, options.lathe, [options.model])
    target = Path(options.output)
    if options.add and target.exists():
        document["rows"] = json.loads(target.read_text(encoding="utf-8"))["rows"] + rows
    new = target.with_suffix(".new")
    new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(new, target)


if __name__ == "__main__":
    main()
