"""Random networks of the pieces that real ones have, each piece in one of the spellings that exporters write.

`network(seed)` gives an onnx.ModelProto and its inputs (name to array). The same seed gives the same network. Values stay
within a few units, so that a difference between two engines is one of the arithmetic and not of an overflow.
"""

import math

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from control import Control
from graph import F32, I64, TYPES, reads


class Network(Control):
    """A network of pieces at random."""

    def parts(self, x, shape):
        """Cut along an axis, each part its own way, joined again."""
        if not shape:
            return None
        axis = self.integer(0, len(shape) - 1) if self.chance(0.4) else min(1, len(shape) - 1)
        size = shape[axis]
        if size < 2:
            return None
        first = self.integer(1, size - 1)
        sizes = [first, size - first]
        if self.chance(0.5):
            a, b = (self.node("Split", [x, self.ints(sizes)], 2, axis=axis) if self.opset >= 13
                    else self.node("Split", [x], 2, axis=axis, split=sizes))
        else:
            a = self.node("Slice", [x, self.ints([0]), self.ints([first]), self.ints([axis])])
            b = self.node("Slice", [x, self.ints([first]), self.ints([2**31 - 1]), self.ints([axis])])
        pieces = []
        for part, length in ((a, first), (b, size - first)):
            own = [*shape]
            own[axis] = length
            if self.chance(0.6):
                grown = self.piece(part, own)
                if grown is not None and len(grown[1]) == len(shape) and all(
                        s == t for i, (s, t) in enumerate(zip(grown[1], shape)) if i != axis):
                    part, own = grown
            pieces.append((part, own[axis]))
        if self.chance(0.3):
            pieces.append((x, size))
        self.random.shuffle(pieces)
        result = [*shape]
        result[axis] = sum(int(length) for _, length in pieces)
        return self.node("Concat", [str(part) for part, _ in pieces], axis=axis), result

    def residual(self, x, shape):
        y, own = x, list(shape)
        for _ in range(self.integer(1, 2)):
            grown = self.piece(y, own)
            if grown is not None and list(grown[1]) == list(shape):
                y, own = grown
        if y == x:
            return None
        return self.node(self.pick(["Add", "Add", "Mul", "Sub", "Max"]), [x, y] if self.chance(0.5) else [y, x]), shape

    def piece(self, x, shape):
        """A piece at random behind x, or None if none was found that fits."""
        kinds = [self.convolution] * 4 + [self.pooling, self.linear, self.linear, self.places, self.normalization,
                 self.normalization, self.attention, self.attention] + [self.movement] * 5 + [
                 self.resize, self.reduction, self.excitation, self.product, self.transposed_convolution, self.recurrent] + [
                 self.elementwise] * 3
        for _ in range(6):
            grown = self.pick(kinds)(x, list(shape))
            if grown is not None and 0 < math.prod(grown[1]) <= 40000 and len(grown[1]) <= 6:
                return grown[0], [int(s) for s in grown[1]]
        return None

    def make(self):
        self.free = self.chance(0.4)
        batch = self.pick([1, 1, 2, 3])
        form = self.pick(["image", "image", "image", "tokens", "tokens", "ids", "line", "rows", "volume"])
        c, s = self.pick([1, 2, 3, 4, 6, 8, 12]), self.integer(2, 9)
        shape = {"image": [batch, c, s, self.integer(2, 9)], "tokens": [batch, s, c], "line": [batch, c, 2 * s], "rows": [batch, c],
                 "volume": [batch, self.pick([1, 2, 4]), self.integer(2, 4), s, self.integer(2, 5)], "ids": None}[form]
        if form == "ids":
            vocabulary = self.integer(5, 20)
            ids = self.add_input([batch, s], self.pick([I64, np.dtype(np.int32)]), vocabulary)
            self.values.append((self.node("Gather", [self.weights([vocabulary, c], 1), ids[0]]), (batch, s, c), F32))
        else:
            self.add_input(shape)
        for _ in range(self.integer(3, 11)):
            # Mostly the latest, so that chains grow; now and then an older one, so that they branch.
            x, shape, _ = self.values[-1] if self.chance(0.75) else self.pick(self.values)
            kind = self.integer(0, 11)
            if kind == 0:
                grown = self.parts(x, list(shape))
            elif kind == 1:
                grown = self.residual(x, list(shape))
            elif kind == 2:
                alike = [v for v in self.values if v[1] == shape and v[0] != x]
                grown = (self.node(self.pick(["Add", "Mul", "Sub"]), [x, self.pick(alike)[0]]), shape) if alike else None
            elif kind == 3:
                grown = self.given(x, list(shape))
            elif kind == 4:
                grown = self.body(x, list(shape))
            else:
                grown = self.piece(x, list(shape))
            if grown is not None and grown[0] != x and 0 < math.prod(grown[1]) <= 40000 and len(grown[1]) <= 6:
                self.values.append((grown[0], tuple(int(s) for s in grown[1]), F32))
        names = {name for name in self.inputs}
        outputs = [v for v in self.values if v[0] not in self.used and v[0] not in names][-4:] or [self.values[-1]]
        if outputs[-1][0] in names:
            outputs = [(self.node("Relu", [outputs[-1][0]]), outputs[-1][1], F32)]
        wanted = {o[0] for o in outputs}
        kept = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.output):
                kept.append(node)
                wanted.update(reads(node))
        constants = [c for c in self.constants if c.name in wanted]
        graph = helper.make_graph(
            kept[::-1], f"random{self.seed}",
            [helper.make_tensor_value_info(n, TYPES[a.dtype], self.input_shapes[n]) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info(o[0], T.FLOAT, None) for o in outputs], constants)
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return model, self.inputs


def network(seed):
    """(onnx.ModelProto, its inputs: name to array)"""
    return Network(seed).make()
