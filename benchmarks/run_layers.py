"""Does any layer of PyTorch come out wrong? Each of layers/networks.py is exported plainly, built and run, beside PyTorch in FP32.

    LATHE_PYTHON=venv/bin/python venv/bin/python benchmarks/run_layers.py --lathe build/bin/lathe --work /tmp/layers

Every network is exported by torch.onnx.export in both ways, TorchScript's ("script", opset 17) and dynamo's. What is judged is the
engine as it lies in its file: built by one process, loaded and run by another. An answer under 75 dB is wrong, unless ONNX Runtime,
where it is installed, gives the same: then the exporter is. Writes benchmarks/results/NAME.layers.json; exit code 1 if any is wrong.
--only WORD,WORD: those whose name holds one of them. --step export leaves the models and what PyTorch answers in --work, and
--step judge goes on from there, so that a machine with a GPU, whose time is dear, need not export.
"""

import argparse
import contextlib
import ctypes
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import provenance

LIMIT_DB = 75
EXPORTS = ("script", "dynamo")


def decibels(got, want):
    """Signal over error of the worst output; -inf where shapes, numbers of outputs or non-finite values differ."""
    if len(got) != len(want):
        return -np.inf
    worst = np.inf
    for a, b in zip(got, want):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        finite = np.isfinite(b)
        if a.shape != b.shape or not np.array_equal(finite, np.isfinite(a)):
            return -np.inf
        signal, error = (b[finite] ** 2).sum(), ((a - b)[finite] ** 2).sum()
        if error > 0:
            worst = min(worst, 10 * np.log10(signal / error) if signal > 0 else -np.inf)
    return worst


def outputs_of(module, inputs):
    import torch

    with torch.no_grad():
        results = module(*inputs)
    flat = []
    for result in results if isinstance(results, (tuple, list)) else [results]:
        flat += result if isinstance(result, (tuple, list)) else [result]
    return [tensor.numpy() for tensor in flat]


@contextlib.contextmanager
def quiet():
    """Nothing is printed, by C++ either."""
    sys.stdout.flush()
    kept, nothing = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nothing, stream)
    try:
        yield
    finally:
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        for stream, old in zip((1, 2), kept):
            os.dup2(old, stream)
            os.close(old)
        os.close(nothing)


def export(module, inputs, names, way, file):
    """What the exporter said, where it gave up; else ""."""
    import torch

    options = {"dynamo": True} if way == "dynamo" else {"dynamo": False, "opset_version": 17}
    try:
        with quiet():
            torch.onnx.export(module, inputs, str(file), input_names=names, **options)
    except Exception as error:  # of every kind: the network is then left out
        return str(error).strip().split("\n")[0][:200] or type(error).__name__
    return ""


def by_onnx_runtime(model, feeds):
    """Its outputs, or nothing where it is not there or cannot run the model."""
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        taken = {each.name for each in session.get_inputs()}
        return session.run(None, {name: array for name, array in feeds.items() if name in taken})
    except Exception:
        return None


def prepare(networks, words, work):
    """Exports of all networks, with inputs and PyTorch's answers beside them; work/exports.json says what there is."""
    exports = []
    for name, module, inputs in networks:
        if not any(word in name for word in words):
            continue
        folder = work / name
        folder.mkdir(parents=True, exist_ok=True)
        names = [f"i{index}" for index in range(len(inputs))]
        np.savez(folder / "inputs.npz", **{n: tensor.numpy() for n, tensor in zip(names, inputs)})
        np.savez(folder / "wanted.npz", *outputs_of(module, inputs))
        for way in EXPORTS:
            exports.append({"network": name, "export": way, "said": export(module, inputs, names, way, folder / f"{way}.onnx")})
            yield exports[-1]
    (work / "exports.json").write_text(json.dumps(exports, indent=1) + "\n", encoding="utf-8")


def judge(model, options):
    """One exported network: how it came out of the engine."""
    engine, results, data = model.with_suffix(".engine"), model.with_suffix(".out.npz"), model.parent / "inputs.npz"
    with np.load(model.parent / "wanted.npz") as arrays:
        want = [arrays[name] for name in arrays.files]
    row = {"export": model.stem}
    for step, command in (("build", [options.lathe, "build", model, "-o", engine, "--device", options.device, "--precision", "fp32",
                                     "--tune", "fast", "-q"]),
                          ("run", [options.lathe, "run", engine, data, "-o", results, "-q"])):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            return row | {"outcome": "refused" if step == "build" else "failed", "said": done.stderr.strip()[-300:]}
    with np.load(results) as arrays:
        got = [arrays[name] for name in arrays.files]
    row["db"] = min(300.0, max(-300.0, float(decibels(got, want))))
    if row["db"] >= LIMIT_DB:
        return row | {"outcome": "right"}
    with np.load(data) as arrays:
        other = by_onnx_runtime(model, dict(arrays))
    same = other is not None and decibels(got, other) >= LIMIT_DB
    return row | {"outcome": "exporter's" if same else "wrong"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--work", required=True, type=Path)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", help="words, separated by commas")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--step", choices=["all", "export", "judge"], default="all")
    parser.add_argument("--output", type=Path, help="default: benchmarks/results/DEVICE.layers.json; with --only none")
    options = parser.parse_args()

    import torch

    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    words = options.only.split(",") if options.only else [""]
    if options.step == "judge":
        exports = [each for each in json.loads((options.work / "exports.json").read_text(encoding="utf-8"))
                   if any(word in each["network"] for word in words)]
    else:
        from layers.networks import networks

        exports = prepare(networks(), words, options.work)
    if options.step == "export":
        print(f"{sum(not each['said'] for each in exports)} models in {options.work}")
        return
    document = {"kind": "layers", "version": 1, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "device": options.device,
                "machine": provenance.processor(), "libraries": {"torch": torch.__version__}, "limit_db": LIMIT_DB, "networks": []}
    if options.device == "cuda":
        from gpu.machine import machine

        document["machine"] = machine("cuda")
    provenance.stamp(document, options.lathe, [__file__])
    waiting = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for each in exports:
            if each["said"]:
                document["networks"].append(each | {"outcome": "not exported"})
            else:
                model = options.work / each["network"] / f"{each['export']}.onnx"
                waiting.append((each["network"], pool.submit(judge, model, options)))
        for name, future in waiting:
            row = {"network": name} | future.result()
            document["networks"].append(row)
            if row["outcome"] != "right":
                print(name, row["export"], row["outcome"], row.get("said", f"{row.get('db', 0):.0f} dB"), flush=True)
    counts = {}
    for row in document["networks"]:
        counts[row["outcome"]] = counts.get(row["outcome"], 0) + 1
    document["counts"] = counts
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    output = options.output or (None if options.only else Path(__file__).parent / "results" / f"{options.device}.layers.json")
    if output:
        output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if counts.get("wrong", 0) + counts.get("failed", 0) else 0)


if __name__ == "__main__":
    main()
