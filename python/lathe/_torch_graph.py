"""A graph that Dynamo found, made into what ONNX can express: tensors in, tensors out, weights inside."""

from __future__ import annotations

import operator
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import fx

from . import _lathe


class NotServed(Exception):
    """Why a graph does not become an engine: a sentence."""


def _version(tensor: torch.Tensor) -> int:
    """Counts writes in place. Tensors made in inference mode have no count."""
    return 0 if tensor.is_inference() else tensor._version


@dataclass(frozen=True)
class Lifted:
    """A graph with its weights as attributes.

    Attributes:
        module: Reads the arguments at `inputs` and gives what it computed.
        inputs: Positions of the arguments that stay arguments.
        free: For each of them the axes whose size may change.
        weights: Positions of the arguments that became attributes.
        numbers: Positions of numbers that became constants.
        held: Weights that were attributes before.
        outputs: For each output of the graph: ("computed", place in the module's result), ("argument", position) or
            ("value", what it is).
    """

    module: fx.GraphModule
    inputs: list[int]
    free: list[list[int]]
    weights: list[int]
    numbers: list[int]
    held: list[torch.Tensor]
    outputs: list[tuple[str, Any]]


class Baked:
    """The weights and numbers that went into an engine."""

    def __init__(self, lifted: Lifted, arguments: Sequence[Any]) -> None:
        self._weights = [(place, arguments[place], _version(arguments[place])) for place in lifted.weights]
        self._held = [(tensor, _version(tensor)) for tensor in lifted.held]
        self._numbers = [(place, arguments[place]) for place in lifted.numbers]

    def outdated(self) -> bool:
        """Whether a weight was written over, so that nobody can ask for the old one any more."""
        return any(_version(tensor) != version for _, tensor, version in self._weights) or any(
            _version(tensor) != version for tensor, version in self._held)

    def unchanged(self, arguments: Sequence[Any]) -> bool:
        """Whether a call has the same."""
        return (all(arguments[place] is tensor for place, tensor, _ in self._weights)
                and all(arguments[place] == number for place, number in self._numbers) and not self.outdated())


def _check_tensor(tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch._subclasses.FakeTensor):
        raise NotServed("it was compiled without a call, so its weights are not known")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise NotServed(f"it reads a {type(tensor).__name__}")
    if tensor.device.type != "cpu":
        raise NotServed(f"it reads tensors on {tensor.device}, and the backend serves those in the processor's memory")
    if tensor.layout != torch.strided:
        raise NotServed(f"it reads a tensor of the layout {tensor.layout}")
    if torch.is_grad_enabled() and tensor.requires_grad:
        raise NotServed("gradients are asked for, and an engine has none: call it under torch.no_grad()")


def _is_weight(node: fx.Node, value: Any) -> bool:
    """Parameters and buffers, which Dynamo hands in like inputs but marks as staying the same."""
    static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") is not None
    return isinstance(value, torch.Tensor) and (static or isinstance(value, torch.nn.Parameter))


def _symbol(size: Any) -> str | None:
    """The symbol that a size is, where it is one and not a number."""
    return str(size) if isinstance(size, torch.SymInt) and not str(size).lstrip("-").isdigit() else None


class _Lifting:
    """The making of a Lifted."""

    def __init__(self, graph: fx.GraphModule, arguments: Sequence[Any]) -> None:
        self._old = graph
        self._arguments = arguments
        self._new = fx.Graph()
        self._nodes: dict[fx.Node, fx.Node] = {}
        self._attributes: dict[str, Any] = {}
        self._placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]

    def _lift_arguments(self) -> tuple[list[int], list[list[int]], list[int], list[int]]:
        inputs, free, weights, numbers = [], [], [], []
        sizes: dict[str, tuple[fx.Node, int]] = {}
        for place, (node, value) in enumerate(zip(self._placeholders, self._arguments, strict=True)):
            if not isinstance(value, torch.Tensor):
                continue
            _check_tensor(value)
            if _is_weight(node, value):
                weights.append(place)
                continue
            inputs.append(place)
            self._nodes[node] = self._new.placeholder(f"input_{len(inputs) - 1}")
            symbols = {axis: _symbol(size) for axis, size in enumerate(node.meta["example_value"].shape)}
            free.append([axis for axis, symbol in symbols.items() if symbol])
            for axis, symbol in symbols.items():
                if symbol:
                    sizes.setdefault(symbol, (self._nodes[node], axis))
        for place in weights:
            name = f"weight_{place}"
            self._attributes[name] = self._arguments[place]
            self._nodes[self._placeholders[place]] = self._new.get_attr(name)
        for place, node in enumerate(self._placeholders):
            if node in self._nodes:
                continue
            symbol = _symbol(node.meta.get("example_value"))
            if symbol in sizes:
                self._nodes[node] = self._new.call_function(torch.ops.aten.sym_size.int, sizes[symbol])
            else:
                numbers.append(place)
        return inputs, free, weights, numbers

    def _lift_outputs(self, node: fx.Node) -> list[tuple[str, Any]]:
        told: list[tuple[str, Any]] = []
        computed: list[fx.Node] = []
        storages = {value.untyped_storage()._cdata for other in self._placeholders
                    if isinstance(value := other.meta.get("example_value"), torch.Tensor)}
        for output in node.args[0]:  # type: ignore[union-attr]
            if not isinstance(output, fx.Node):
                told.append(("value", output))
            elif output.op == "placeholder":
                told.append(("argument", self._placeholders.index(output)))
            elif not isinstance(value := output.meta.get("example_value"), torch.Tensor):
                raise NotServed("it returns a number that depends on the input")
            elif value.untyped_storage()._cdata in storages:
                raise NotServed("it returns a view of its input")
            elif value.dtype == torch.bfloat16 or value.is_complex() or value.is_quantized:
                raise NotServed(f"it returns {value.dtype}")
            else:
                if self._nodes[output] not in computed:
                    computed.append(self._nodes[output])
                told.append(("computed", computed.index(self._nodes[output])))
        if not computed:
            raise NotServed("it computes no tensor")
        self._new.output(tuple(computed))
        return told

    def lift(self) -> Lifted:
        inputs, free, weights, numbers = self._lift_arguments()
        if not inputs:
            raise NotServed("it reads no tensor")
        baked = {self._placeholders[place]: self._arguments[place] for place in numbers}
        held, outputs = [], []
        for node in self._old.graph.nodes:
            if node.op == "output":
                outputs = self._lift_outputs(node)
            elif node.op != "placeholder":
                if node.op in ("get_attr", "call_module"):
                    value = operator.attrgetter(node.target)(self._old)
                    self._attributes[node.target] = value
                    parts = [*value.parameters(), *value.buffers()] if isinstance(value, torch.nn.Module) else [value]
                    for part in parts:
                        if isinstance(part, torch.Tensor):
                            _check_tensor(part)
                            held.append(part)
                # A number stands in the arguments themselves, so it is put in once they are copied.
                copy = self._new.node_copy(node, lambda other: self._nodes.get(other, other))
                copy.args = fx.map_arg(copy.args, lambda other: baked.get(other, other))
                copy.kwargs = fx.map_arg(copy.kwargs, lambda other: baked.get(other, other))
                copy.meta = {}  # of Dynamo's tracing, whose symbols are not the export's
                self._nodes[node] = copy
        module = fx.GraphModule(self._attributes, self._new)
        return Lifted(module, inputs, free, weights, numbers, held, outputs)


def lift(graph: fx.GraphModule, arguments: Sequence[Any]) -> Lifted:
    """Raises NotServed for what no engine of ours gives: gradients, other devices, numbers as outputs."""
    return _Lifting(graph, arguments).lift()


def _is_random(node: fx.Node) -> bool:
    """Whether it draws numbers: dropout that is switched off does not."""
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = dict(zip(names, node.args)) | node.kwargs
    return not (given.get("train") is False or given.get("training") is False
                or ("dropout_p" in names and given.get("dropout_p", 0.0) == 0.0))


def _check_program(program: torch.export.ExportedProgram) -> None:
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate or signature.parameters_to_mutate:
        raise NotServed("it writes to its inputs or weights, as BatchNormalization in training does: call eval() first")
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            if _is_random(node):
                raise NotServed(f"it draws random numbers ({node.target}): call eval() first where that is dropout")


def export(lifted: Lifted, arguments: Sequence[Any]) -> _lathe.Model:
    """The graph as a model of Lathe's, its inputs named input_0, input_1, ... Raises NotServed, and what PyTorch's
    exporter raises."""
    # Not the tensors themselves: torch.export marks what it is given, and Dynamo's guards look at such marks.
    tensors = tuple(arguments[place].detach() for place in lifted.inputs)
    shapes = tuple({axis: torch.export.Dim.AUTO for axis in axes} for axes in lifted.free)
    # Apart from Dynamo's own tracing, whose symbols would otherwise get the export's guards.
    with (tempfile.TemporaryDirectory() as folder, torch._guards.tracing(None), torch.no_grad(),
          warnings.catch_warnings()):
        warnings.simplefilter("ignore")
        # Without writes in place: those to inputs and weights then stand in the signature.
        program = torch.export.export(lifted.module, tensors, dynamic_shapes=shapes).run_decompositions({})
        _check_program(program)
        written = torch.onnx.export(program, dynamo=True, optimize=True, verbose=False)
        if written is None:
            raise NotServed("PyTorch's exporter to ONNX gave nothing")
        for given, value in enumerate(written.model.graph.inputs):
            value.name = f"input_{given}"
        for given, value in enumerate(written.model.graph.outputs):
            # An output that is a constant or another output keeps the value that it is.
            value.name = value.name or f"output_{given}"
        path = Path(folder) / "model.onnx"
        written.save(str(path))
        return _lathe.load_model(str(path))
