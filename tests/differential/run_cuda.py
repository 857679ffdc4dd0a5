"""Random networks on a GPU: `lathe build` and `lathe run` in FP32, FP16 and INT8, against ONNX Runtime.

    run_cuda.py LATHE [FIRST LAST] [--precision P ...] [--keep FOLDER] [--jobs N] [--seconds S]

FP32 may differ by 1e-3 of an output's largest number, as in run.py; FP16 by 5e-2, and is asked only of networks whose outputs
move by less than 1e-2 of that where the inputs move by a few of FP16's roundings. INT8 is held to the quantised network, as in
run_int8.py. Those that differ, are refused or crash are told and stay in FOLDER (SEED_PRECISION). Exit 1 if there was one, 77
where a package or the GPU is missing.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401: asked for early
    from oracle import CLOSE, arguments, command, dependable, difference, evaluate, is_stable
    from networks import network
    from run_int8 import norm, quantised
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

ALLOWED = {"fp32": CLOSE, "fp16": 5e-2}


def outputs_of(lathe, folder, model, feeds, precision):
    """The engine's outputs, or what a command said."""
    shapes = [word for name, value in feeds.items() if value.ndim
              for word in ("--shape", f"{name}:{'x'.join(map(str, value.shape))}")]
    onnx.save(model, folder / "model.onnx")
    for i, value in enumerate(feeds.values()):
        (folder / f"{i}.raw").write_bytes(np.ascontiguousarray(value).tobytes())
    files = ",".join(f"{name}:{i}.raw" for i, name in enumerate(feeds))
    floats = [] if precision == "int8" else ["--precision", precision]
    said = command(lathe, folder, "build", "model.onnx", "--device", "cuda", "--tune", "fast", *floats, *shapes,
                   "--output", "model.engine")
    said = said or command(lathe, folder, "run", "model.engine", "--loadInputs", files, "--output", "outputs.npz")
    if said:
        return said
    with np.load(folder / "outputs.npz") as found:
        return [found[value.name] for value in model.graph.output]


def complaint(lathe, folder, model, feeds, exact, precision):
    """What is wrong with the engine of one precision; None if nothing is."""
    wanted = exact
    if precision == "int8":
        model = quantised(lathe, folder, model, feeds, "cuda")
        if not isinstance(model, onnx.ModelProto):
            return model
        wanted = evaluate(model, feeds)
    found = outputs_of(lathe, folder, model, feeds, precision)
    if isinstance(found, str):
        return found
    for value, actual, array, as_float in zip(model.graph.output, found, wanted, exact):
        if precision == "int8":
            allowed, worst = max(2 * norm(array, as_float), 0.03), norm(actual, array)
        else:
            allowed, worst = ALLOWED[precision], difference(actual, array)
        if not worst <= allowed:
            return f"output {value.name} differs by {worst:.1e}, allowed {allowed:.1e}"
    return None


def judge(lathe, root, seed, asked):
    """(whether the network is one that can be judged, complaints)"""
    model, feeds = network(seed)
    try:
        wanted = dependable(model, feeds)
        if wanted is None:
            return False, []
        in_half = is_stable(model, feeds, wanted, noise=3e-3, limit=1e-2, tries=5)
    except Exception:  # noqa: BLE001: ONNX Runtime's own refusal of a network that is not valid
        return False, []
    complaints = []
    for precision in asked:
        if precision != "fp32" and not in_half:
            continue
        folder = root / f"{seed}_{precision}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        said = complaint(lathe, folder, model, feeds, wanted, precision)
        if said:
            complaints.append(f"{precision}: {said}")
        else:
            shutil.rmtree(folder)
    return True, complaints


def main():
    parser = arguments(__doc__, ["lathe"], 39)
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count() or 1), help="networks at a time")
    parser.add_argument("--precision", nargs="+", choices=["fp32", "fp16", "int8"], default=["fp32", "fp16", "int8"])
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no network after these")
    given = parser.parse_args()
    if subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode if shutil.which("nvidia-smi") else True:
        print("SKIPPED: no NVIDIA GPU", file=sys.stderr)
        return 77
    lathe = str(pathlib.Path(given.lathe).resolve())
    root = given.keep or pathlib.Path(tempfile.mkdtemp(prefix="lathe-differential-"))
    begin, judged, bad = time.monotonic(), 0, 0

    def one(seed):
        return judge(lathe, root, seed, given.precision) if time.monotonic() - begin < given.seconds else (False, [])

    with ThreadPoolExecutor(given.jobs) as pool:
        seeds = range(given.first, given.last + 1)
        for seed, (usable, found) in zip(seeds, pool.map(one, seeds)):
            judged += usable
            bad += bool(found)
            for line in found:
                print(f"seed {seed}: {line[:500]}", flush=True)
    if not given.keep:
        shutil.rmtree(root)
    print(f"{judged} networks on the GPU, {bad} of them wrong")
    assert judged or given.seconds < np.inf, "no network is usable"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
