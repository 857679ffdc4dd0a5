"""What ONNX Runtime computes, without its rewriting, and how far from it the outputs of run_plan are."""

import argparse
import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)
KINDS = ("plan", "cpu", "simplified")
CLOSE = 1e-3  # of an output's largest number
LIMIT = 120  # seconds a command


def evaluate(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def difference(found, wanted):
    """Relative to the largest number that is wanted; infinite where the sizes differ or numbers are none."""
    if found.size != wanted.size:
        return np.inf
    if not found.size:
        return 0.0
    found, wanted = found.ravel().astype(np.float64), wanted.ravel().astype(np.float64)
    worst = np.abs(found - wanted).max() / max(1e-2, np.abs(wanted).max())
    return float(worst) if np.isfinite(worst) else np.inf


def is_stable(model, feeds, wanted, noise=1e-6, limit=2e-4, tries=1):
    """Whether inputs that differ in their last bits give the same: else roundings decide, and any answer is right."""
    random = np.random.default_rng(0)
    for _ in range(tries):
        near = {name: np.asarray(value * (1 + noise * random.standard_normal(value.shape)), np.float32)
                if value.dtype == np.float32 else value for name, value in feeds.items()}
        if not all(difference(a, b) < limit for a, b in zip(evaluate(model, near), wanted)):
            return False
    return True


def dependable(model, feeds):
    """The outputs to hold others to; None where numbers are none or roundings decide, an error where it is no network."""
    outputs = evaluate(model, feeds)
    usable = all(np.isfinite(value).all() for value in outputs) and is_stable(model, feeds, outputs)
    return outputs if usable else None


def arguments(about, programs, last):
    """The parser that the scripts begin with: programs, seeds, where to keep what is wrong."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    for program in programs:
        parser.add_argument(program)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("last", nargs="?", type=int, default=last)
    parser.add_argument("--keep", type=pathlib.Path)
    return parser


def command(lathe, folder, *words):
    """What a command that failed said, else None."""
    try:
        done = subprocess.run([lathe, *words, "--quiet"], cwd=folder, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return f"{words[0]} took more than {LIMIT} s"
    if done.returncode:
        said = " ".join(done.stderr.split())
        return f"{words[0]} ended with {done.returncode}: {said}"
    return None


def write(folder, model, feeds):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for i, value in enumerate(model.graph.input):
        tensor = numpy_helper.from_array(np.asarray(feeds[value.name]), value.name)
        (folder / f"input_{i}.pb").write_bytes(tensor.SerializeToString())


def run(program, folders):
    """What run_plan says of each folder that failed (by name). A crash is looked for one by one."""
    told = {}
    done = subprocess.run([program, "--simplified", *map(str, folders)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, errors="replace")
    for name, text in re.findall(r"^failed (.*?)\n(.*?)\nend$", done.stdout, re.S | re.M):
        told[pathlib.Path(name)] = " ".join(text.split())
    if done.returncode not in (0, 1):
        if len(folders) == 1:
            return {folders[0]: f"ended by signal {-done.returncode}"}
        for folder in folders:
            told.update(run(program, [folder]))
    return told


def complaints(folder, wanted, told):
    """What is wrong with the outputs in a folder: one line a kind."""
    found = [f"error: {told}"] if told else []
    for kind in KINDS:
        files = [folder / f"{kind}_{i}.f32" for i in range(len(wanted))]
        worst = [difference(np.fromfile(file, np.float32), value) for file, value in zip(files, wanted) if file.exists()]
        if worst and max(worst) > CLOSE:
            found.append(f"{kind} differs: " + ", ".join(f"{each:.1e}" for each in worst))
    return found


DECLARED = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
            np.dtype(np.int32): TensorProto.INT32, np.dtype(np.bool_): TensorProto.BOOL,
            np.dtype(np.int8): TensorProto.INT8, np.dtype(np.uint8): TensorProto.UINT8}


def value_info(name, array):
    return helper.make_tensor_value_info(name, DECLARED[array.dtype], array.shape)
