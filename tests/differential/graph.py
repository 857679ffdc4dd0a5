"""A graph that grows: names, constants, inputs, and the forms that differ between opsets."""

import math

import numpy as np
from onnx import AttributeProto
from onnx import TensorProto as T
from onnx import helper, numpy_helper

F32, I64, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
TYPES = {F32: T.FLOAT, I64: T.INT64, BOOL: T.BOOL, np.dtype(np.int32): T.INT32}


def reads(node):
    """The names of the values that a node takes, those that its bodies take from outside among them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            own = {value.name for value in attribute.g.input}
            for inner in attribute.g.node:
                yield from (name for name in reads(inner) if name not in own)
                own.update(inner.output)


class Graph:
    """A graph that grows. Values are (name, shape, dtype), shapes those of the inputs that the network is run with."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.seed = seed
        self.opset = int(self.pick([11, 13, 13, 17, 17, 18, 20, 21]))
        self.nodes, self.constants, self.inputs = [], [], {}
        self.input_shapes, self.values, self.used = {}, [], set()
        self.count = 0

    def pick(self, options):
        return options[int(self.random.integers(len(options)))]

    def chance(self, probability):
        return self.random.random() < probability

    def integer(self, least, most):
        """From least to most, both possible."""
        return int(self.random.integers(least, most + 1))

    def name(self, stem="v"):
        self.count += 1
        return f"{stem}{self.count}"

    def constant(self, array, stem="c"):
        """An initializer, or the output of a Constant node."""
        name = self.name(stem)
        if self.chance(0.2):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(array), name)))
        else:
            self.constants.append(numpy_helper.from_array(np.array(array), name))
        return name

    def ints(self, numbers):
        return self.constant(np.array(numbers, np.int64))

    def floats(self, shape, scale=1.0, least=None):
        array = self.random.uniform(-scale if least is None else least, scale, shape).astype(np.float32)
        return self.constant(array)

    def weights(self, shape, fan):
        return self.constant((self.random.standard_normal(shape) / math.sqrt(max(fan, 1))).astype(np.float32))

    def node(self, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}_{self.count}", **attributes))
        self.used.update(reads(self.nodes[-1]))
        return names[0] if outputs == 1 else names

    def add_input(self, shape, dtype=F32, most=None, declared=None):
        """Integers from 0 to most - 1. Its sizes are told as `declared`; by default the batch may be free."""
        name = self.name("input")
        if dtype == F32:
            array = np.asarray(self.random.standard_normal(shape), np.float32)
        else:
            array = np.asarray(self.random.integers(0, most, shape), dtype)
        self.inputs[name] = array
        if declared is None:
            declared = list(shape)
            if shape and self.free:
                declared[0] = "batch"
                if len(shape) > 2 and self.chance(0.3):
                    declared[-1] = f"last_{name}"
        self.input_shapes[name] = list(declared)
        value = (name, tuple(shape), dtype)
        if dtype == F32:
            self.values.append(value)
        return value

    # Forms that differ between opsets.

    def axes_of(self, op, x, axes, since, **attributes):
        """An operator whose axes are an attribute before opset `since`, and an input from it on."""
        if self.opset < since:
            return self.node(op, [x], axes=axes, **attributes)
        return self.node(op, [x, self.ints(axes)], **attributes)

    def unsqueeze(self, x, axes):
        return self.axes_of("Unsqueeze", x, axes, 13)

    def squeeze(self, x, axes):
        return self.axes_of("Squeeze", x, axes, 13)

    def reduce(self, op, x, axes, keepdims):
        return self.axes_of(op, x, axes, 13 if op == "ReduceSum" else 18, keepdims=keepdims)

    def reshape(self, x, shape, target):
        """The target as a constant (with 0 or -1 where that says the same) or computed from x's own sizes."""
        target = list(target)
        kind = self.integer(0, 3)
        if kind == 1 and 0 not in target:
            target[self.integer(0, len(target) - 1)] = -1
        elif kind == 2:
            for i in range(min(len(shape), len(target))):
                if shape[i] == target[i] and self.chance(0.5):
                    target[i] = 0
        elif kind == 3 and shape and target and shape[0] == target[0]:
            size = self.node("Gather", [self.node("Shape", [x]), self.ints(0) if self.chance(0.5) else self.ints([0])], axis=0)
            scalar = self.nodes[-1].input[1]
            is_scalar = any(c.name == scalar and not c.dims for c in self.constants) or any(
                n.output[0] == scalar and not n.attribute[0].t.dims for n in self.nodes if n.op_type == "Constant")
            if is_scalar:
                size = self.unsqueeze(size, [0])
            parts = [size] + [self.ints([d]) for d in target[1:]]
            return self.node("Reshape", [x, self.node("Concat", parts, axis=0)])
        if self.free and kind == 0 and shape and target and shape[0] == target[0] and len(target) > 1:
            target[0] = -1  # as torch.onnx writes it for a batch that is free
        return self.node("Reshape", [x, self.ints(target)])
