"""Models and data as the functions of this package take them, turned into files and arrays."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from . import _lathe, _load
from ._errors import Error


def preprocess_text(preprocess: str | Mapping[str, Any] | None) -> str:
    """A preset's name and a JSON file as they are, settings as JSON text, nothing as nothing."""
    if preprocess is None:
        return ""
    return preprocess if isinstance(preprocess, str) else json.dumps(dict(preprocess))


def is_torch_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _reading_only(model: Any, names: list[str], by_keyword: bool) -> Any:
    """The module with these arguments alone: PyTorch's exporter makes inputs of numbers that are defaults, too."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    others = [one for one in parameters if one.name not in names] if by_keyword else parameters[len(names):]
    if all(one.default in (None, inspect.Parameter.empty) for one in others):
        return model
    import torch

    class Reading(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = model

        def forward(self, *tensors: Any) -> Any:
            return self.whole(**dict(zip(names, tensors))) if by_keyword else self.whole(*tensors)

    return Reading().eval()


def export_torch(model: Any, example: Any, path: Path, *, dynamic_batch: bool = True, opset: int = 18) -> None:
    """Write a torch.nn.Module as ONNX, traced on `example`: a tensor, a tuple, or a dict by argument."""
    if example is None:
        raise Error("a torch.nn.Module needs example inputs", "invalid_argument", "example",
                    "give example=tensor, a tuple of tensors, or a dict by argument")
    packages = str(_load.PACKAGE / "share" / "lathe" / "python")
    if packages not in sys.path:
        sys.path.append(packages)
    try:
        import onnx
        from lathe_export import convert, errors
    except ImportError as failure:
        raise Error(f"exporting from PyTorch needs a package that is not installed: {failure.name}", "unsupported", "",
                    "pip install lathe[torch]") from failure
    training = model.training
    try:
        inputs = convert.make_inputs(model.eval(), example, (0, 0))
        if dynamic_batch:
            inputs.dynamic = {name: {0: "batch"} for name, tensor in inputs.tensors.items() if tensor.ndim > 0}
        reading = _reading_only(model, list(inputs.tensors), inputs.by_keyword)
        if reading is not model:
            inputs.by_keyword = False
        convert.export(reading, inputs, opset, "torchscript", path)
        exported = onnx.load(str(path))
        convert.tidy(exported)
        onnx.save(exported, str(path))
    except errors.ExportError as failure:
        raise Error(failure.message, failure.code, failure.where, failure.hint) from failure
    finally:
        model.train(training)


def model_file(model: Any, folder: Path, example: Any = None) -> Path:
    """The model as an ONNX file: a path as it is; an onnx.ModelProto or a torch.nn.Module is written to `folder`."""
    if isinstance(model, (str, os.PathLike)):
        return Path(model)
    path = folder / "model.onnx"
    if is_torch_module(model):
        export_torch(model, example, path)
    elif hasattr(model, "SerializeToString"):
        path.write_bytes(model.SerializeToString())
    elif hasattr(model, "save"):
        model.save(path)
    else:
        raise Error(f"a {type(model).__name__} is no model", "invalid_argument", "model",
                    "give an ONNX file, an onnx.ModelProto, a lathe.Model or a torch.nn.Module")
    return path


def _as_array(value: Any) -> Any:
    import numpy as np

    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)


class Samples:
    """Data in memory: arrays by input name ("" for the only input), axis 0 the sample, and labels where there are."""

    def __init__(self, arrays: dict[str, Any], labels: list[int] | None) -> None:
        self.arrays = arrays
        self.labels = labels

    def save(self, path: Path, names: list[str]) -> Path:
        """As .npz, which every command reads."""
        import numpy as np

        named = {names[0] if name == "" else name: array for name, array in self.arrays.items()}
        if self.labels is not None:
            named["labels"] = np.asarray(self.labels, dtype=np.int64)
        np.savez(path, **named)
        return path


def _contiguous(value: Any) -> Any:
    import numpy as np

    return np.ascontiguousarray(_as_array(value))


def _joined(parts: list[Any]) -> Any:
    import numpy as np

    try:
        return np.ascontiguousarray(np.concatenate(parts))
    except ValueError as failure:
        raise Error(f"the batches do not go together: {failure}", "invalid_argument", "data",
                    "give batches of one shape but for axis 0, without or with labels: (inputs, labels)") from failure


def _is_labelled(pair: Any) -> bool:
    """Whether a tuple is samples and their labels, and not two batches."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        return False
    content, labels = pair
    first = next(iter(content.values()), None) if isinstance(content, Mapping) else content
    sizes: tuple[int, ...] = tuple(getattr(first, "shape", ()))
    counted: tuple[int, ...] = (len(labels),) if isinstance(labels, list) else tuple(getattr(labels, "shape", ()))
    return len(sizes) > 1 and counted == sizes[:1]


def samples_of(data: Any) -> Path | Samples:
    """`data` as functions take it: a path; an array of samples, or a dict of them by input name; a pair of such and
    labels; or an iterable of batches (a DataLoader): arrays, dicts of arrays, or such pairs."""
    if isinstance(data, (str, os.PathLike)):
        return Path(data)
    if isinstance(data, Mapping):
        return Samples({str(name): _contiguous(value) for name, value in data.items()}, None)
    if hasattr(data, "shape"):
        return Samples({"": _contiguous(data)}, None)
    if not isinstance(data, Iterable):
        raise Error(f"a {type(data).__name__} is no data", "invalid_argument", "data",
                    "give a path, an array, a dict of arrays, or an iterable of batches")
    arrays: dict[str, list[Any]] = {}
    labels: list[int] = []
    for batch in [data] if _is_labelled(data) else data:
        content, label = batch if isinstance(batch, (tuple, list)) and len(batch) == 2 else (batch, None)
        named = content if isinstance(content, Mapping) else {"": content}
        for name, value in named.items():
            arrays.setdefault(str(name), []).append(_as_array(value))
        if label is not None:
            labels.extend(int(value) for value in _as_array(label).ravel())
    if not arrays:
        raise Error("the iterable gives no batches", "invalid_argument", "data", "give at least one batch")
    return Samples({name: _joined(parts) for name, parts in arrays.items()}, labels or None)


def data_file(data: Any, file: Path, model: Path) -> str:
    """The data as a path: what lies in memory is saved as `file` (.npz), by the names of the model's inputs."""
    given = samples_of(data)
    if isinstance(given, Samples):
        given = given.save(file, _lathe.load_model(os.fspath(model)).inputs())
    return os.fspath(given)


TASK_OPTIONS = ("name", "output_name", "head", "score_threshold", "nms_overlap", "ignored_label", "first_label",
                "target_scale", "peak", "characters", "blank_last")


def task_options(task: str | Mapping[str, Any]) -> dict[str, Any]:
    """A task as the extension takes it: its name, or a dict that says more."""
    if isinstance(task, str):
        return {"name": task}
    for key in task:
        if key not in TASK_OPTIONS:
            raise Error(f"a task has no option '{key}'", "invalid_argument", "task",
                        "choose from " + ", ".join(TASK_OPTIONS))
    return dict(task)
