"""A metric of the user's own, FILE.py:function, which judges outputs sample by sample."""

import importlib.util
import math
import sys
from pathlib import Path

from lathe_worker.subjects import Unavailable


def load_metric(code):
    """The function that `code`, FILE.py:function, names. Runs the file: only for what the user named on the command line."""
    file, _, name = code.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise Unavailable("not_found", f"no such file or folder: {file}", "check --task")
    spec = importlib.util.spec_from_file_location("lathe_user_metric", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))  # the file may import its neighbours, in the function too
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    except Exception as error:  # noqa: BLE001 - a user's file may raise anything
        raise Unavailable("invalid_argument", f"{file} cannot be run: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise Unavailable("not_found", f"{file} has no function {name}", "--task FILE.py:function")
    return function


def judge(function, outputs, samples):
    """One finite number a sample. `outputs`: arrays by output's name, axis 0 the sample; `samples`: dicts with name and label."""
    try:
        values = function(outputs, samples)
    except Exception as error:  # noqa: BLE001
        raise Unavailable("invalid_argument", f"the metric failed: {type(error).__name__}: {error}") from error
    try:
        values = [float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise Unavailable(
            "invalid_argument", f"the metric gave no list of numbers: {error}", "return one number a sample"
        ) from error
    if len(values) != len(samples):
        raise Unavailable(
            "invalid_argument", f"the metric gave {len(values)} numbers for {len(samples)} samples", "return one number a sample"
        )
    for value, sample in zip(values, samples):
        if not math.isfinite(value):
            raise Unavailable("invalid_argument", f"the metric gave {value} for sample {sample['name']}", "return a finite number")
    return values
