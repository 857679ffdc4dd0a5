"""Further inputs (conditions, masks, lengths, other sequences) and bodies (Loop, Scan, If): pieces as those of moves.py."""

import math

import numpy as np
from onnx import TensorProto as T
from onnx import helper

from graph import BOOL, F32, I64
from moves import Moves


class Control(Moves):
    def given(self, x, shape):
        """x with something that comes from an input of its own."""
        kind = self.pick(["alike", "join", "film", "mask", "gather", "cross", "scalar", "where", "product", "position"])
        if len(self.inputs) > 3 or not shape or math.prod(shape) > 5000:
            return None
        rank = len(shape)
        if kind == "alike":
            sizes = shape if self.chance(0.6) else shape[self.integer(0, rank - 1):]
            y = self.add_input(sizes, declared=sizes)[0]
            return self.node(self.pick(["Add", "Mul", "Sub", "Max"]), [x, y] if self.chance(0.5) else [y, x]), shape
        if kind == "join" and rank > 1:
            axis = self.integer(1, rank - 1)
            own = [*shape]
            own[axis] = self.integer(1, 4)
            parts = [x, self.add_input(own, declared=own)[0]]
            result = [*shape]
            result[axis] += own[axis]
            return self.node("Concat", parts if self.chance(0.5) else parts[::-1], axis=axis), result
        if kind == "film" and rank > 2:
            size = self.integer(1, 6)
            y = self.add_input([shape[0], size], declared=[shape[0], size])[0]
            y = self.node("Gemm", [y, self.weights([size, shape[1]], size), self.floats([shape[1]], 0.3)])
            y = self.unsqueeze(self.activation(y, [shape[0], shape[1]]), list(range(2, rank)))
            return self.node(self.pick(["Mul", "Add"]), [x, y]), shape
        if kind == "mask" and rank == 3:
            n, s, c = shape
            dtype = self.pick([I64, BOOL, F32])
            mask = self.add_input([n, s], dtype, 2, declared=[n, s])[0]
            y = self.unsqueeze(mask if dtype == F32 else self.node("Cast", [mask], to=T.FLOAT), [1])
            y = self.node("Mul", [self.node("Sub", [self.constant(np.float32(1)), y]), self.constant(np.float32(-4))])
            scores = self.node("MatMul", [x, self.node("Transpose", [x], perm=[0, 2, 1])])
            scores = self.node("Mul", [scores, self.constant(np.float32(1 / math.sqrt(c)))])
            y = self.node("Softmax", [self.node("Add", [scores, y])], axis=-1)
            return self.node("MatMul", [y, x]), shape
        if kind == "gather" and rank > 1:
            axis = self.integer(0, rank - 1)
            sizes = self.pick([[], [1], [3], [2, 2]])
            index = self.add_input(sizes, I64, shape[axis], declared=sizes)[0]
            return self.node("Gather", [x, index], axis=axis), [*shape[:axis], *sizes, *shape[axis + 1:]]
        if kind == "cross" and rank == 3:
            n, s, c = shape
            length, size = self.integer(1, 6), self.integer(1, 5)
            y = self.add_input([n, length, size], declared=[n, length, size])[0]
            q = self.node("MatMul", [x, self.weights([c, 4], c)])
            k = self.node("Transpose", [self.node("MatMul", [y, self.weights([size, 4], size)])], perm=[0, 2, 1])
            scores = self.node("Softmax", [self.node("Mul", [self.node("MatMul", [q, k]), self.constant(np.float32(0.5))])], axis=-1)
            return self.node("MatMul", [scores, self.node("MatMul", [y, self.weights([size, c], size)])]), shape
        if kind == "scalar":
            sizes = self.pick([[], [1]])
            return self.node(self.pick(["Mul", "Add"]), [x, self.add_input(sizes, declared=sizes)[0]]), shape
        if kind == "where":
            sizes = self.pick([shape, shape[-1:], [1]])
            mask = self.add_input(sizes, BOOL, 2, declared=sizes)[0]
            other = self.constant(np.float32(0.3)) if self.chance(0.5) else self.node("Neg", [x])
            return self.node("Where", [mask, x, other] if self.chance(0.5) else [mask, other, x]), shape
        if kind == "product" and rank > 1 and shape[-1] < 40:
            own = [*shape[:-2], shape[-1], self.integer(1, 5)] if self.chance(0.5) else [shape[-1], self.integer(1, 5)]
            y = self.node("MatMul", [x, self.add_input(own, declared=own)[0]])
            return self.node("Mul", [y, self.constant(np.float32(1 / math.sqrt(shape[-1])))]), [*shape[:-1], own[-1]]
        if kind == "position" and rank == 3:
            n, s, c = shape
            step = self.add_input([n], I64, 50, declared=[n])[0]
            half = self.constant((1 / 10 ** np.arange(4)).astype(np.float32))
            angle = self.node("Mul", [self.unsqueeze(self.node("Cast", [step], to=T.FLOAT), [1]), half])
            y = self.node("Concat", [self.node("Sin", [angle]), self.node("Cos", [angle])], axis=self.pick([1, -1]))
            y = self.node("MatMul", [y, self.weights([8, c], 8)])
            return self.node("Add", [x, self.unsqueeze(y, [1])]), shape
        return None

    def inside(self, make):
        """The nodes that make() adds, for a body; what it makes of constants stays outside and is read from there."""
        self.nodes, outside = [], self.nodes
        try:
            return make(), self.nodes
        finally:
            self.nodes = outside

    def same(self, x, shape, steps):
        """Pieces behind x that keep its shape, with values that stay small."""
        for _ in range(steps):
            grown = self.piece(x, shape)
            if grown is not None and list(grown[1]) == list(shape):
                x = grown[0]
        return self.node("Tanh", [x])

    def body(self, x, shape):
        if not shape or math.prod(shape) > 2000:
            return None
        return self.pick([self.loop, self.loop, self.scan, self.branch])(x, list(shape))

    def loop(self, x, shape):
        step, on, state = self.name("step"), self.name("on"), self.name("state")
        scanned = self.chance(0.4)

        def make():
            y = self.same(state, shape, self.integer(1, 2))
            if self.chance(0.3):
                y = self.node("Add", [y, self.node("Cast", [step], to=T.FLOAT)])
            if self.chance(0.3):
                y = self.node("Sub", [y, x])
            outputs = [self.node("Identity", [on]), y]
            return outputs + [self.node("Mul", [y, self.constant(np.float32(0.5))])] * scanned

        outputs, nodes = self.inside(make)
        graph = helper.make_graph(
            nodes, self.name("body"),
            [helper.make_tensor_value_info(step, T.INT64, []), helper.make_tensor_value_info(on, T.BOOL, []),
             helper.make_tensor_value_info(state, T.FLOAT, shape)],
            [helper.make_tensor_value_info(outputs[0], T.BOOL, [])]
            + [helper.make_tensor_value_info(o, T.FLOAT, shape) for o in outputs[1:]])
        count = self.integer(1, 4)
        found = self.node("Loop", [self.ints(count), self.constant(np.array(True)), x], 1 + scanned, body=graph)
        if scanned:
            return found[1], [count, *shape]
        return found, shape

    def scan(self, x, shape):
        if len(shape) < 2 or shape[0] > 8:
            return None
        state, part = self.name("state"), self.name("part")
        rest = shape[1:]

        def make():
            y = self.same(self.node("Add", [state, part]), rest, 1)
            return [y, self.node("Mul", [y, part])]

        outputs, nodes = self.inside(make)
        graph = helper.make_graph(
            nodes, self.name("body"), [helper.make_tensor_value_info(n, T.FLOAT, rest) for n in (state, part)],
            [helper.make_tensor_value_info(o, T.FLOAT, rest) for o in outputs])
        direction = {"scan_input_directions": [1]} if self.chance(0.3) else {}
        last, each = self.node("Scan", [self.floats(rest, 0.5), x], 2, body=graph, num_scan_inputs=1, **direction)
        return (each, shape) if self.chance(0.6) else (last, rest)

    def branch(self, x, shape):
        def one():
            return [self.same(x, shape, 1)]

        bodies = []
        for _ in range(2):
            outputs, nodes = self.inside(one)
            bodies.append(helper.make_graph(nodes, self.name("branch"), [],
                                            [helper.make_tensor_value_info(outputs[0], T.FLOAT, shape)]))
        if self.chance(0.5):
            condition = self.constant(np.array(self.chance(0.5)))
        else:
            mean = self.node("ReduceMean", [x], keepdims=0)
            condition = self.node("Greater", [mean, self.constant(np.float32(self.pick([-5, 0, 5])))])
        return self.node("If", [condition], then_branch=bodies[0], else_branch=bodies[1]), shape
