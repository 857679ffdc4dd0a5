"""Random networks in INT8: `lathe calibrate` and `quantize`, then the CPU engine and the CUDA engine's plan (in the interpreter),
against ONNX Runtime on the same quantised network.

    run_int8.py LATHE RUN_PLAN [FIRST LAST] [--keep FOLDER]

An engine may round otherwise, so its answer may differ by twice what quantisation itself changes, or 3 % of the norm. Those that
differ by more, fail or crash are told, and stay in FOLDER (SEED_TARGET), where reduce.py with --close 0.05 makes them small.
Exit 1 if there was one, 77 where a package is missing.
"""

import pathlib
import shutil
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401: asked for early
    from oracle import arguments, command, dependable, evaluate, run, write
    from networks import network
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

TOGETHER = 40  # networks in one process
KIND = {"openvino": "cpu", "cuda": "plan"}
NOTHING = "there is nothing in this model to calibrate"


def norm(found, wanted):
    """Of the difference, relative to what is wanted; below 1e-3 that is nothing but roundings."""
    if found.size != wanted.size:
        return np.inf
    difference = np.linalg.norm(found.ravel().astype(np.float64) - wanted.ravel())
    return float(difference / max(1e-3, np.linalg.norm(wanted.ravel().astype(np.float64))))


def int8_of(lathe, folder, *more):
    """The INT8 form of model.onnx, calibrated on data.npz, or what a command said; None where nothing of it can be."""
    said = (command(lathe, folder, "calibrate", "model.onnx", "--data", "data.npz", "--output", "ranges")
            or command(lathe, folder, "quantize", "model.onnx", "--ranges", "ranges", *more, "--output", "int8.onnx"))
    if said:
        return None if NOTHING in said else said
    return onnx.load(folder / "int8.onnx")


def quantised(lathe, folder, model, feeds, target):
    """The same of a network whose sizes are those of its inputs."""
    write(folder, model, feeds)
    for value in model.graph.input:
        for dimension, size in zip(value.type.tensor_type.shape.dim, feeds[value.name].shape):
            dimension.Clear()
            dimension.dim_value = size
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "data.npz", **feeds)
    return int8_of(lathe, folder, "--target", target)


def complaints(folder, target, told, wanted, exact):
    found = [f"error: {told}"] if told and (target == "cuda" or "run on the GPU" not in told) else []
    for i, (value, as_float) in enumerate(zip(wanted, exact)):
        file = folder / f"{KIND[target]}_{i}.f32"
        if not file.exists():
            continue
        differs, lost = norm(np.fromfile(file, np.float32), value), norm(value, as_float)
        if not differs <= max(2 * lost, 0.03):
            found.append(f"{KIND[target]} differs: output {i} by {differs:.1e}, quantisation by {lost:.1e}")
    return found


def main():
    given = arguments(__doc__, ["lathe", "run_plan"], 39).parse_args()
    lathe = str(pathlib.Path(given.lathe).resolve())
    root = given.keep or pathlib.Path(tempfile.mkdtemp(prefix="lathe-differential-"))
    judged, bad = {}, 0
    for seed in range(given.first, given.last + 1):
        model, feeds = network(seed)
        try:
            exact = dependable(model, feeds)
        except Exception:  # noqa: BLE001: ONNX Runtime's own refusal of a network that is not valid
            exact = None
        if exact is None:
            continue
        for target in KIND:
            folder = root / f"{seed}_{target}"
            made = quantised(lathe, folder, model, feeds, target)
            if isinstance(made, onnx.ModelProto):
                judged[folder] = (target, evaluate(made, feeds), exact)
                write(folder, made, feeds)
                continue
            if made:
                bad += 1
                print(f"{folder.name}: {made[:400]}", flush=True)
            if not made or not given.keep:
                shutil.rmtree(folder)
            if not made:
                break
    folders = list(judged)
    for begin in range(0, len(folders), TOGETHER):
        part = folders[begin:begin + TOGETHER]
        told = run(given.run_plan, part)
        for folder in part:
            target, wanted, exact = judged[folder]
            found = complaints(folder, target, told.get(folder), wanted, exact)
            for line in found:
                print(f"{folder.name}: {line[:400]}", flush=True)
            bad += bool(found)
            if not found or not given.keep:
                shutil.rmtree(folder)
    if not given.keep:
        shutil.rmtree(root)
    print(f"{len(folders)} networks in INT8, {bad} wrong")
    assert len(folders) > (given.last - given.first + 1) / 2, "too few networks have something to quantise"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
