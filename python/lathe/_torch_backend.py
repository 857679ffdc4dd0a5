"""The backend of torch.compile: engines for the graphs that Dynamo finds, PyTorch itself for those without one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from . import _lathe
from ._errors import Error
from ._progress import reporter
from ._torch_graph import Baked, Lifted, NotServed, export, lift

logger = logging.getLogger("lathe")

# As often as Dynamo by default compiles one function anew.
_ENGINES_LIMIT = 8
_OPTIONS: dict[str, Any] = {"precision": "fp32", "threads": 0}
# Largest difference to PyTorch on the first inputs, relative to the output's largest magnitude.
_TOLERANCES = {"fp32": 1e-3}
_LOOSE_TOLERANCE = 0.1

Function = Callable[..., Any]


def _sentence(failure: Exception) -> str:
    while failure.__cause__ is not None and isinstance(failure.__cause__, Exception):
        failure = failure.__cause__
    if isinstance(failure, (NotServed, Error)):
        return str(failure)
    lines = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {lines[0]}" if lines else type(failure).__name__


def _tell(failure: Exception) -> None:
    logger.warning("torch.compile: a part of the model runs in PyTorch, not in an engine: %s", _sentence(failure))


class Compiled:
    """One engine: of one set of weights, for a range of shapes."""

    def __init__(self, lifted: Lifted, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        self._inputs = lifted.inputs
        self._outputs = lifted.outputs
        self._baked = Baked(lifted, arguments)
        engine = self._build(export(lifted, arguments), arguments, lifted.free, options)
        self._session = engine.session()
        self._names = [row[0] for row in engine.outputs()]
        self._ranges = [(row[3], row[4]) for row in engine.inputs()]
        for name, place in zip((row[0] for row in engine.inputs()), range(len(lifted.inputs)), strict=True):
            if name != f"input_{place}":
                raise NotServed("the exported model has other inputs than the graph")

    def _build(self, model: _lathe.Model, arguments: Sequence[Any], free: list[list[int]],
               options: Mapping[str, Any]) -> _lathe.Engine:
        # The runtime reserves memory for the largest shape, so the range is narrow; past it another engine is built.
        growth = 4 if sum(map(len, free)) == 1 else 2
        ranges, exact = [], []
        for number, axes in enumerate(free):
            best = list(arguments[self._inputs[number]].shape)
            least = [max(1, size // growth) if axis in axes else size for axis, size in enumerate(best)]
            most = [growth * size if axis in axes else size for axis, size in enumerate(best)]
            if axes:
                low, middle, high = ("x".join(map(str, sizes)) for sizes in (least, best, most))
                ranges.append(f"input_{number}:{low}..{middle}..{high}")
                exact.append(f"input_{number}:{middle}")

        def build(shapes: list[str]) -> _lathe.Engine:
            return _lathe.build(model, "torch", "cpu", options["precision"], shapes, options["threads"], reporter(False))

        try:
            return build(ranges)
        except Error as error:
            if not ranges:
                raise
            # The least size may be less than a filter.
            logger.info("torch.compile: an engine for this shape alone, since one for a range cannot be had: %s", error)
            return build(exact)

    def takes(self, arguments: Sequence[Any]) -> bool:
        """Whether it is the engine for these weights and shapes."""
        for place, (least, most) in zip(self._inputs, self._ranges):
            if not all(low <= size <= high for low, size, high in zip(least, arguments[place].shape, most)):
                return False
        return self._baked.unchanged(arguments)

    def outdated(self) -> bool:
        return self._baked.outdated()

    def computed(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        found = self._session.run([arguments[place].detach() for place in self._inputs])
        if len(self._names) == 1:
            return [torch.from_numpy(found)]
        return [torch.from_numpy(found[name]) for name in self._names]

    def __call__(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        computed = self.computed(arguments)
        return tuple(computed[what] if kind == "computed" else arguments[what] if kind == "argument" else what
                     for kind, what in self._outputs)


def _verify(found: Sequence[Any], wanted: Sequence[Any], tolerance: float) -> None:
    """Raises NotServed where an engine's answer is not PyTorch's."""
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(other, torch.Tensor):
            continue
        if one.shape != other.shape or one.dtype != other.dtype:
            raise NotServed(f"the engine gives {tuple(one.shape)} of {one.dtype}, "
                            f"PyTorch {tuple(other.shape)} of {other.dtype}")
        if not other.is_floating_point() or other.numel() == 0:
            continue
        finite = torch.isfinite(other)
        difference = (one.double() - other.double())[finite].abs()
        largest = other.double()[finite].abs()
        error = (difference.max() / largest.max().clamp_min(1e-30)).item() if difference.numel() else 0.0
        if not torch.equal(finite, torch.isfinite(one)) or not (error <= tolerance or difference.max() < 1e-6):
            raise NotServed(f"the engine's answer differs from PyTorch's by {error:.2g} of the largest value")


class Served:
    """A graph as engines serve it."""

    def __init__(self, graph: fx.GraphModule, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        self._graph = graph
        self._options = options
        self._lock = threading.Lock()
        self._engines: list[Compiled] = []
        self._fell_back = False
        first = self._compile(arguments)
        # PyTorch's exporter and ours are large programs: the first answer is held against PyTorch's own.
        with torch.no_grad():
            _verify(first(arguments), self._graph(*arguments), _TOLERANCES.get(options["precision"], _LOOSE_TOLERANCE))

    def _compile(self, arguments: Sequence[Any]) -> Compiled:
        compiled = Compiled(lift(self._graph, arguments), arguments, self._options)
        self._engines = [compiled, *self._engines]
        return compiled

    def _engine_for(self, arguments: Sequence[Any]) -> Compiled:
        for compiled in self._engines:
            if compiled.takes(arguments):
                return compiled
        with self._lock:
            for compiled in self._engines:
                if compiled.takes(arguments):
                    return compiled
            self._engines = [compiled for compiled in self._engines if not compiled.outdated()]
            if len(self._engines) >= _ENGINES_LIMIT:
                raise NotServed(f"it needs more than {_ENGINES_LIMIT} engines, one for each set of weights and sizes")
            logger.info("torch.compile: weights, sizes or numbers are others than before, so another engine is built")
            return self._compile(arguments)

    def __call__(self, *arguments: Any) -> Any:
        if not self._fell_back:
            try:
                return self._engine_for(arguments)(arguments)
            except Exception as failure:
                self._fell_back = True
                _tell(failure)
        return self._graph(*arguments)


def backend(graph: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None,
            **_: Any) -> Function:
    """What `torch.compile(model, backend="lathe")` calls for each graph that it finds in a model.

    Args:
        graph: The graph; its weights are inputs or attributes.
        example_inputs: What it is about to be called with. Symbolic sizes become ranges of the engine.
        options: "precision" ("fp32", "bf16", ...) and "threads" (0: all cores), as `lathe.build` takes them.

    Returns:
        What runs the graph. Its first answer is compared with PyTorch's. Weights are parts of the engine: where they
        are replaced or written over, another engine is built (writes through `.data` PyTorch does not count). A graph
        that no engine serves runs in PyTorch, and a warning of the logger "lathe" says why: gradients that are asked
        for, modules in training, random numbers, tensors elsewhere than in the processor's memory, operations that
        ONNX lacks.

    Raises:
        Error: invalid_argument (an unknown option).
    """
    for name in options or {}:
        if name not in _OPTIONS:
            raise Error(f'the backend "lathe" has no option "{name}"', "invalid_argument", "options",
                        "its options are " + ", ".join(_OPTIONS))
    try:
        return Served(graph, example_inputs, _OPTIONS | dict(options or {}))
    except Exception as failure:
        _tell(failure)
    return graph.forward
