"""The conversion itself: traced inputs, torch.onnx, a small clean-up, the metadata, the check against PyTorch."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from .errors import ExportError, one_line
from .modules import file_hash

# Protobuf refuses messages of 2 GiB; weights then go into a second file.
EXTERNAL_BYTES = 1_900_000_000


@dataclass
class Inputs:
    """Example inputs by name, in the order of the module's arguments, and the axes that stay free."""

    tensors: dict[str, torch.Tensor]
    by_keyword: bool
    dynamic: dict[str, dict[int, str]] = field(default_factory=dict)

    def call(self, module: nn.Module) -> Any:
        with torch.inference_mode():
            return module(**self.tensors) if self.by_keyword else module(*self.tensors.values())


def make_inputs(module: nn.Module, example: Any, input_size: tuple[int, int]) -> Inputs:
    """Inputs from the user's example (a tensor, a tuple, or a dict by argument), or one picture of `input_size`; an
    example that is Inputs already stays as it is."""
    if isinstance(example, Inputs):
        return example
    if example is None:
        return Inputs({"input": torch.randn(1, 3, *input_size)}, by_keyword=False)
    by_keyword = isinstance(example, Mapping)
    if isinstance(example, torch.Tensor):
        named = {"input": example}
    elif by_keyword:
        named = dict(example)
    else:
        values = list(example)
        arguments = list(inspect.signature(module.forward).parameters)
        names = ["input"] if len(values) == 1 else arguments[: len(values)]
        if len(names) < len(values):
            names = [f"input_{i}" for i in range(len(values))]
        named = dict(zip(names, values))
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise ExportError("mismatch", f'example input "{name}" is {type(value).__name__}, not a tensor', "", "return (module, tensors)")
    if not named:
        raise ExportError("mismatch", "there are no example inputs", "", "return (module, example inputs)")
    return Inputs({name: value.detach().cpu() for name, value in named.items()}, by_keyword)


def parse_dynamic(texts: list[str], inputs: Inputs) -> dict[str, dict[int, str]]:
    """NAME:AXIS=SYMBOL, several times."""
    dynamic: dict[str, dict[int, str]] = {}
    for text in texts:
        name, colon, rest = text.rpartition(":")
        axis_text, equals, symbol = rest.partition("=")
        if not colon or not equals or not axis_text.isdigit() or not symbol.isidentifier():
            raise ExportError("invalid_argument", f'cannot read --dynamic "{text}"', "", "write NAME:AXIS=SYMBOL, for example input:0=batch")
        if name not in inputs.tensors:
            raise ExportError("invalid_argument", f'the model has no input "{name}"', "--dynamic", "its inputs are " + ", ".join(inputs.tensors))
        axis = int(axis_text)
        if axis >= inputs.tensors[name].ndim:
            raise ExportError("invalid_argument", f'input "{name}" has {inputs.tensors[name].ndim} axes, no axis {axis}', "--dynamic")
        dynamic.setdefault(name, {})[axis] = symbol
    return dynamic


def set_size(inputs: Inputs, name: str, axis: int, size: int) -> None:
    """Repeats or cuts one axis of an example."""
    tensor = inputs.tensors[name]
    if tensor.ndim <= axis or tensor.shape[axis] == 0:
        raise ExportError("mismatch", f'input "{name}" has no axis {axis} to resize', "", "")
    index = torch.arange(size) % tensor.shape[axis]
    inputs.tensors[name] = tensor.index_select(axis, index).clone()


def flatten(output: Any) -> dict[str, torch.Tensor]:
    """The tensors a module returns, named: by key, or output, or output_0, output_1, ..."""
    if isinstance(output, torch.Tensor):
        return {"output": output}
    if isinstance(output, Mapping):
        return {str(key): value for key, value in output.items() if isinstance(value, torch.Tensor)}
    if isinstance(output, (tuple, list)) and all(isinstance(value, torch.Tensor) for value in output):
        return {f"output_{i}": value for i, value in enumerate(output)} if len(output) > 1 else {"output": output[0]}
    raise ExportError(
        "unsupported", f"the module returns {type(output).__name__}, not tensors", "", "wrap it in a module that returns tensors, with FILE.py:function"
    )


def run_reference(module: nn.Module, inputs: Inputs) -> dict[str, torch.Tensor]:
    try:
        return flatten(inputs.call(module))
    except ExportError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in inputs.tensors.items())
        raise ExportError(
            "mismatch", f"the module does not run on its example inputs ({shapes}): {one_line(error)}", "", "set --input-size, or return example inputs"
        ) from error


def _dynamic_shapes(module: nn.Module, inputs: Inputs) -> Any:
    """What torch.export wants to know of free axes. A symbol may be another plus a number: "past + 1"."""
    symbols = {symbol for axes in inputs.dynamic.values() for symbol in axes.values()}
    dims: dict[str, Any] = {symbol: torch.export.Dim(symbol) for symbol in symbols if symbol.isidentifier()}
    for symbol in symbols - dims.keys():
        base, _, more = symbol.partition(" + ")
        dims[symbol] = dims[base] + int(more)
    shapes = {name: {axis: dims[symbol] for axis, symbol in inputs.dynamic.get(name, {}).items()} for name in inputs.tensors}
    if inputs.by_keyword:
        return shapes
    given = list(shapes.values())
    # *arguments are one tuple.
    parameters = list(inspect.signature(module.forward).parameters.values())
    fixed = sum(parameter.kind is not inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
    return (*given[:fixed], tuple(given[fixed:])) if fixed < len(given) else tuple(given)


def export(module: nn.Module, inputs: Inputs, opset: int, exporter: str, path: Path) -> None:
    """Writes the ONNX file (and, above 2 GB, its weights beside it)."""
    outputs = run_reference(module, inputs)
    arguments: dict[str, Any] = {
        "f": str(path), "opset_version": opset, "input_names": list(inputs.tensors), "output_names": list(outputs),
        "kwargs": dict(inputs.tensors) if inputs.by_keyword else None,
    }
    args = () if inputs.by_keyword else tuple(inputs.tensors.values())
    if exporter == "torchscript":
        axes = {name: dict(symbols) for name, symbols in inputs.dynamic.items()}
        # An output whose axis 0 is the batch keeps the batch's symbol; others get one from shape inference.
        first = next(iter(inputs.tensors))
        batch = inputs.dynamic.get(first, {}).get(0)
        for name, tensor in outputs.items():
            if batch and tensor.ndim and tensor.shape[0] == inputs.tensors[first].shape[0]:
                axes[name] = {0: batch}
        arguments |= {"dynamo": False, "dynamic_axes": axes, "do_constant_folding": True}
    else:
        if inputs.dynamic:
            arguments["dynamic_shapes"] = _dynamic_shapes(module, inputs)
        arguments |= {"dynamo": True, "external_data": False, "optimize": True, "verbose": False}
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, args, **arguments)
    except Exception as error:
        other = "dynamo" if exporter == "torchscript" else "torchscript"
        raise ExportError("unsupported", f"torch.onnx cannot export the model: {one_line(error)}", "", f"try --exporter {other}, or another --opset") from error


def tidy(model: onnx.ModelProto) -> None:
    """Takes out what torch.onnx leaves behind: Identity nodes that give equal weights a second name, and doc strings
    that hold source paths of the exporting machine."""
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    renamed: dict[str, str] = {}
    kept = []
    for node in graph.node:
        if node.op_type == "Identity" and node.domain == "" and node.output[0] not in outputs:
            origin = renamed.get(node.input[0], node.input[0])
            if origin in constants:
                renamed[node.output[0]] = origin
                continue
        kept.append(node)
    # Subgraphs would have to be renamed too; such models keep their Identity nodes.
    if renamed and not any(attribute.HasField("g") or attribute.graphs for node in kept for attribute in node.attribute):
        for node in kept:
            for i, name in enumerate(node.input):
                if name in renamed:
                    node.input[i] = renamed[name]
        del graph.node[:]
        graph.node.extend(kept)
    for node in graph.node:
        node.ClearField("doc_string")
        del node.metadata_props[:]
    graph.ClearField("doc_string")


def set_metadata(model: onnx.ModelProto, values: dict[str, Any]) -> None:
    kept = {prop.key: prop.value for prop in model.metadata_props}
    kept |= {key: json.dumps(value, ensure_ascii=False) for key, value in values.items() if value is not None}
    onnx.helper.set_model_props(model, kept)


@dataclass
class Comparison:
    max_abs: float = 0.0
    max_rel: float = 0.0
    sizes: list[str] = field(default_factory=list)
    not_checked: list[str] = field(default_factory=list)


def random_like(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Random values of the kind the example has: normal for floats, the example's range for integers."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)
    if tensor.dtype == torch.bool:
        return torch.rand(tensor.shape, generator=generator) < 0.5
    low, high = int(tensor.min()), int(tensor.max())
    return torch.randint(low, high + 1, tensor.shape, generator=generator, dtype=torch.int64).to(tensor.dtype)


def compare(module: nn.Module, inputs: Inputs, path: Path, tolerance: float, given: list[dict[str, torch.Tensor]] | None = None) -> Comparison:
    """Runs PyTorch and ONNX Runtime on the same inputs: those given, or random ones at the exported shapes and with
    every free axis at another size. The relative error of an output is max |a - b| / max |b|, b PyTorch's."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ExportError("unsupported", "the check needs ONNX Runtime", "", "pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ExportError("verification_failed", f"ONNX Runtime cannot load the exported model: {one_line(error)}", str(path.name)) from error
    generator = torch.Generator().manual_seed(20)
    result = Comparison()
    trials = [dict(inputs.tensors)]
    symbols = {symbol: tensor.shape[axis] for name, tensor in inputs.tensors.items() for axis, symbol in inputs.dynamic.get(name, {}).items()}
    if symbols:
        other = Inputs(dict(inputs.tensors), inputs.by_keyword)
        for name, axes in inputs.dynamic.items():
            for axis, symbol in axes.items():
                set_size(other, name, axis, 2 * symbols[symbol] + (1 if axis == 0 else 0))
        trials.append(other.tensors)
    for number, tensors in enumerate(given or trials):
        values = tensors if given else {name: random_like(tensor, generator) for name, tensor in tensors.items()}
        trial = Inputs(values, inputs.by_keyword)
        shapes = ", ".join(f"{name} {'x'.join(map(str, tensor.shape))}" for name, tensor in trial.tensors.items())
        try:
            expected = run_reference(module, trial)
        except ExportError as error:
            if number == 0:
                raise
            result.not_checked.append(f"{shapes}: {one_line(error)}")  # the module itself refuses this size
            continue
        wanted = {value.name for value in session.get_inputs()}
        try:
            actual = session.run(list(expected), {name: tensor.numpy() for name, tensor in trial.tensors.items() if name in wanted})
        except Exception as error:
            raise ExportError(
                "verification_failed", f"the exported model does not run on {shapes}: {one_line(error)}", "", "try the other --exporter, or leave that axis fixed"
            ) from error
        for (name, reference), output in zip(expected.items(), actual):
            _compare_output(name, reference.numpy(), output, tolerance, shapes, result)
        result.sizes.append(shapes)
    return result


def _compare_output(name: str, reference: np.ndarray, output: np.ndarray, tolerance: float, shapes: str, result: Comparison) -> None:
    if reference.shape != output.shape:
        raise ExportError("verification_failed", f'output "{name}" is {output.shape}, PyTorch gives {reference.shape}', shapes)
    if reference.size == 0:
        return
    expected = reference.astype(np.float64)
    if not np.isfinite(expected).all():
        raise ExportError(
            "verification_failed", f'PyTorch\'s own output "{name}" is not finite, so nothing can be compared', shapes, "check the weights"
        )
    difference = float(np.abs(output.astype(np.float64) - expected).max())
    relative = difference / max(float(np.abs(expected).max()), 1e-30) if difference else 0.0
    if not relative <= tolerance:  # also for NaN
        raise ExportError(
            "verification_failed",
            f'output "{name}" differs from PyTorch\'s: max abs error {difference:.3g}, relative {relative:.3g}, past the tolerance {tolerance:g}',
            shapes, "try the other --exporter; --tolerance sets the limit",
        )
    result.max_abs = max(result.max_abs, difference)
    result.max_rel = max(result.max_rel, relative)


class OutputFiles:
    """The exported file appears under its name only when whole and checked. Work is done in a folder beside it that
    is removed at the end, and by the next export if this one is killed."""

    def __init__(self, target: Path) -> None:
        self.target = target
        if target.is_dir():
            raise ExportError("invalid_argument", "cannot write a file here: it is a folder", str(target), "give a file name with --output")
        if not target.parent.is_dir():
            raise ExportError("not_found", "the folder to write into does not exist", str(target.parent), "create it, or write elsewhere with --output")
        for stale in target.parent.glob(f".{target.name}.*.tmp"):
            owner = stale.name.removeprefix(f".{target.name}.").removesuffix(".tmp")
            if stale.is_dir() and owner.isdigit() and not Path(f"/proc/{owner}").exists():
                shutil.rmtree(stale, ignore_errors=True)
        self.folder = target.parent / f".{target.name}.{os.getpid()}.tmp"

    def __enter__(self) -> OutputFiles:
        try:
            self.folder.mkdir()
        except OSError as error:
            raise ExportError("io", f"cannot write here: {error.strerror}", str(self.target.parent), "check the permissions and the free space") from error
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def save(self, model: onnx.ModelProto, external: bool) -> Path:
        """Writes the model into the working folder; its weights into a second file if they are too large for one."""
        path = self.folder / "whole.onnx"
        size = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
        if external or size > EXTERNAL_BYTES:
            weights = self.folder / "weights.data"
            for tensor in model.graph.initializer:
                if len(tensor.raw_data) < 1024:
                    continue
                with open(weights, "ab") as file:
                    file.write(b"\0" * (-file.tell() % 4096))
                    offset = file.tell()
                    file.write(tensor.raw_data)
                onnx.external_data_helper.set_external_data(tensor, "weights.data", offset, len(tensor.raw_data))
                tensor.ClearField("raw_data")
            if weights.exists():
                # Named by content: the old model keeps its own weights until the new one is in place.
                name = f"{self.target.stem}.{file_hash(weights)[7:19]}.data"
                weights.rename(self.folder / name)
                for tensor in model.graph.initializer:
                    for entry in tensor.external_data:
                        if entry.key == "location":
                            entry.value = name
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return path

    def commit(self, path: Path) -> list[Path]:
        """Moves the files to their final names, the model last. Returns them."""
        old = set(self.target.parent.glob(f"{self.target.stem}.????????????.data"))
        files = []
        for data in sorted(self.folder.glob("*.data")):
            final = self.target.parent / data.name
            self._sync(data)
            os.replace(data, final)
            files.append(final)
        self._sync(path)
        os.replace(path, self.target)
        for data in old - set(files):
            data.unlink(missing_ok=True)
        return [self.target, *files]

    @staticmethod
    def _sync(path: Path) -> None:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
