"""Movement, reductions and arithmetic: a piece takes a value and gives another, or None where it does not fit."""

import math

import numpy as np
from onnx import TensorProto as T

from layers import Layers


class Moves(Layers):
    def movement(self, x, shape):
        rank = len(shape)
        kind = self.pick(["Transpose", "Transpose", "Reshape", "Reshape", "Flatten", "Unsqueeze", "Squeeze", "Slice", "Slice", "Pad",
                          "DepthToSpace", "SpaceToDepth", "shuffle", "Tile", "Expand", "Gather", "heads", "windows", "roll",
                          "GatherND", "GatherElements", "Reverse", "stack"])
        if rank == 0:
            return self.unsqueeze(x, [0]), [1]
        if kind == "Transpose":
            perm = [int(i) for i in self.random.permutation(rank)]
            return self.node("Transpose", [x], perm=perm), [shape[i] for i in perm]
        if kind == "Reshape":
            target = self.other_shape(shape)
            return self.reshape(x, shape, target), target
        if kind == "Flatten":
            axis = self.integer(0, rank)
            return self.node("Flatten", [x], axis=axis), [math.prod(shape[:axis]), math.prod(shape[axis:])]
        if kind == "Unsqueeze" and rank < 5:
            axis = self.integer(0, rank)
            return self.unsqueeze(x, [axis]), [*shape[:axis], 1, *shape[axis:]]
        if kind == "Squeeze" and 1 in shape and rank > 1:
            axis = self.pick([i for i in range(rank) if shape[i] == 1])
            return self.squeeze(x, [self.pick([axis, axis - rank])]), [*shape[:axis], *shape[axis + 1:]]
        if kind in ("Slice", "Reverse"):
            axis = self.integer(0, rank - 1)
            size = shape[axis]
            if kind == "Reverse":
                y = self.node("Slice", [x, self.ints([-1]), self.ints([-(2**31)]), self.ints([axis]), self.ints([-1])])
                return y, shape
            begin, step = self.integer(0, size - 1), self.pick([1, 1, 1, 2])
            end = self.integer(begin + 1, size)
            result = [*shape]
            result[axis] = -(-(end - begin) // step)
            told = end if end < size or self.chance(0.5) else 2**63 - 1
            inputs = [x, self.ints([begin - size if begin and self.chance(0.3) else begin]), self.ints([told]), self.ints([axis])]
            if step != 1 or self.chance(0.5):
                inputs.append(self.ints([step]))
            return self.node("Slice", inputs), result
        if kind == "Pad" and rank >= 2:
            pads = [0] * (2 * rank)
            for i in range(rank):
                if self.chance(0.5):
                    pads[i], pads[i + rank] = self.integer(0, 2), self.integer(0, 2)
            mode = self.pick(["constant", "constant", "reflect", "edge"])
            if mode == "reflect" and any(max(pads[i], pads[i + rank]) >= shape[i] for i in range(rank)):
                mode = "edge"
            inputs = [x, self.ints(pads)]
            if mode == "constant" and self.chance(0.5):
                inputs.append(self.constant(np.float32(self.pick([0, 0, 1, -2]))))
            return self.node("Pad", inputs, mode=mode), [shape[i] + pads[i] + pads[i + rank] for i in range(rank)]
        if kind == "DepthToSpace" and rank == 4 and shape[1] % 4 == 0:
            attributes = {"mode": self.pick(["DCR", "CRD"])}
            return self.node(kind, [x], blocksize=2, **attributes), [shape[0], shape[1] // 4, shape[2] * 2, shape[3] * 2]
        if kind == "SpaceToDepth" and rank == 4 and shape[2] % 2 == 0 and shape[3] % 2 == 0:
            return self.node(kind, [x], blocksize=2), [shape[0], shape[1] * 4, shape[2] // 2, shape[3] // 2]
        if kind == "shuffle" and rank == 4 and shape[1] % 2 == 0:
            n, c, h, w = shape
            groups = self.pick([2, c // 2])
            y = self.reshape(x, shape, [n, groups, c // groups, h, w])
            y = self.node("Transpose", [y], perm=[0, 2, 1, 3, 4])
            return self.reshape(y, [n, c // groups, groups, h, w], shape), shape
        if kind == "windows" and rank == 4 and shape[2] % 2 == 0 and shape[3] % 2 == 0:
            n, c, h, w = shape
            y = self.reshape(x, shape, [n, c, h // 2, 2, w // 2, 2])
            y = self.node("Transpose", [y], perm=self.pick([[0, 2, 4, 3, 5, 1], [0, 1, 3, 5, 2, 4]]))
            if self.chance(0.5):
                return self.reshape(y, [], [n * h // 2 * (w // 2), 4, c]), [n * h // 2 * (w // 2), 4, c]
            return self.reshape(y, [], [n, h * w // 4, 4 * c]), [n, h * w // 4, 4 * c]
        if kind == "heads" and rank == 3 and shape[2] % 2 == 0:
            n, s, c = shape
            y = self.reshape(x, shape, [n, s, 2, c // 2])
            return self.node("Transpose", [y], perm=[0, 2, 1, 3]), [n, 2, s, c // 2]
        if kind == "roll" and shape[-1] > 1 and rank > 1:
            axis = self.integer(1, rank - 1)
            cut = self.integer(0, shape[axis] - 1)
            if cut == 0:
                return None
            first = self.node("Slice", [x, self.ints([cut]), self.ints([2**63 - 1]), self.ints([axis])])
            rest = self.node("Slice", [x, self.ints([0]), self.ints([cut]), self.ints([axis])])
            return self.node("Concat", [first, rest], axis=axis), shape
        if kind == "Tile" and math.prod(shape) < 2000:
            repeats = [self.integer(1, 2) for _ in shape]
            return self.node("Tile", [x, self.ints(repeats)]), [s * r for s, r in zip(shape, repeats)]
        if kind == "Expand" and 1 in shape:
            target = [self.integer(1, 3) if s == 1 else s for s in shape]
            told = [1 if self.chance(0.3) else t for t in target]
            target = [s if t == 1 else t for s, t in zip(shape, told)]
            return self.node("Expand", [x, self.ints(told)]), target
        if kind == "Gather":
            axis = self.integer(0, rank - 1)
            if self.chance(0.3):
                index = self.integer(-shape[axis], shape[axis] - 1)
                return self.node("Gather", [x, self.ints(index)], axis=axis), [*shape[:axis], *shape[axis + 1:]]
            indices = self.random.integers(0, shape[axis], self.pick([[3], [1], [2, 2]]))
            return self.node("Gather", [x, self.constant(indices)], axis=axis), [*shape[:axis], *indices.shape, *shape[axis + 1:]]
        if kind == "GatherND" and rank >= 2:
            indices = np.stack([self.random.integers(0, s, 3) for s in shape[:2]], -1)
            return self.node("GatherND", [x, self.constant(indices)]), [3, *shape[2:]]
        if kind == "GatherElements":
            axis = self.integer(0, rank - 1)
            result = [*shape]
            result[axis] = self.integer(1, shape[axis])
            indices = self.random.integers(0, shape[axis], result)
            return self.node("GatherElements", [x, self.constant(indices)], axis=axis), result
        if kind == "stack" and rank < 5:
            axis = self.integer(0, rank)
            parts = [self.unsqueeze(x, [axis]), self.unsqueeze(self.node("Neg", [x]), [axis])]
            return self.node("Concat", parts, axis=axis), [*shape[:axis], 2, *shape[axis:]]
        return None

    def other_shape(self, shape):
        """A shape of as many elements: neighbours joined, or a size cut in two."""
        target = list(shape)
        for _ in range(self.integer(1, 2)):
            if len(target) > 1 and self.chance(0.5):
                i = self.integer(0, len(target) - 2)
                target[i:i + 2] = [target[i] * target[i + 1]]
            else:
                i = self.integer(0, len(target) - 1)
                divisors = [d for d in range(2, target[i]) if target[i] % d == 0]
                if divisors and len(target) < 6:
                    d = self.pick(divisors)
                    target[i:i + 1] = [target[i] // d, d]
        return target

    def resize(self, x, shape):
        if len(shape) not in (3, 4) or math.prod(shape) > 6000:
            return None
        mode = self.pick(["nearest", "nearest", "linear", "linear", "cubic"])
        if mode == "cubic" and len(shape) != 4:
            mode = "linear"
        sizes = [s * self.pick([1, 2, 2, 3]) if self.chance(0.7) else self.integer(1, 2 * s) for s in shape[2:]]
        how = self.pick(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        attributes = {"mode": mode, "coordinate_transformation_mode": how}
        if mode == "nearest":
            attributes["nearest_mode"] = self.pick(["floor", "round_prefer_floor", "round_prefer_ceil", "ceil"])
        if mode == "cubic":
            attributes["cubic_coeff_a"] = self.pick([-0.75, -0.5])
        result = [*shape[:2], *sizes]
        if all(s % t == 0 for s, t in zip(sizes, shape[2:])) and self.chance(0.6):
            scales = np.array([1, 1] + [s / t for s, t in zip(sizes, shape[2:])], np.float32)
            empty = "" if self.opset >= 13 else self.constant(np.zeros(0, np.float32))
            return self.node("Resize", [x, empty, self.constant(scales)], **attributes), result
        empty = "" if self.opset >= 13 else self.constant(np.zeros(0, np.float32))
        return self.node("Resize", [x, empty, "" if self.opset >= 13 else self.constant(np.zeros(0, np.float32)), self.ints(result)], **attributes), result

    def reduction(self, x, shape):
        rank = len(shape)
        if rank == 0:
            return None
        if self.chance(0.2):
            axis, keep = self.integer(-rank, rank - 1), self.integer(0, 1)
            y = self.node("Cast", [self.node(self.pick(["ArgMax", "ArgMin"]), [x], axis=axis, keepdims=keep)], to=T.FLOAT)
            axis %= rank
            y = self.node("Mul", [y, self.constant(np.float32(0.1))])
            return y, [1 if i == axis else s for i, s in enumerate(shape) if keep or i != axis]
        axes = sorted({self.integer(0, rank - 1) for _ in range(self.integer(1, 2))})
        keep = self.integer(0, 1)
        op = self.pick(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare",
                        "ReduceLogSumExp", "ReduceProd"])
        told = [a - rank for a in axes] if self.chance(0.4) else axes
        y = self.reduce(op, x, told, keep)
        size = math.prod(shape[a] for a in axes)
        if op in ("ReduceSum", "ReduceL1", "ReduceSumSquare"):
            y = self.node("Div", [y, self.constant(np.float32(size))])
        if op == "ReduceProd":
            y = self.node("Tanh", [y])
        return y, [1 if i in axes else s for i, s in enumerate(shape) if keep or i not in axes]

    def elementwise(self, x, shape):
        kind = self.pick(["constant", "constant", "unary", "where", "activation", "activation", "clip", "compare", "cast", "minmax", "round",
                          "cumulative", "gate"])
        if kind == "constant":
            sizes = [s if self.chance(0.5) else 1 for s in shape][self.integer(0, max(0, len(shape) - 1)):]
            if self.chance(0.2):
                sizes = []
            op = self.pick(["Add", "Sub", "Mul", "Div"])
            other = self.floats(sizes, 1.5, 0.5)
            return self.node(op, [x, other] if self.chance(0.6) or op == "Div" else [other, x]), shape
        if kind == "unary":
            op = self.pick(["Abs", "Neg", "Exp", "Sqrt", "Log", "Reciprocal", "Sin", "Cos", "Atan", "Erf", "Sinh", "Sign", "Asinh"])
            if op in ("Exp", "Sinh"):
                x = self.clip(x, -3, 1)
            if op in ("Sqrt", "Log", "Reciprocal"):
                x = self.node("Add", [self.node("Abs", [x]), self.constant(np.float32(0.5))])
            return self.node(op, [x]), shape
        if kind == "where":
            than = self.node(self.pick(["Greater", "Less"]), [x, self.constant(np.float32(0.1))])
            return self.node("Where", [than, x, self.node("Mul", [x, self.constant(np.float32(0.2))])]), shape
        if kind == "compare":
            than = self.node(self.pick(["Greater", "Less"]), [x, self.floats([], 0.5)])
            if self.chance(0.4):
                than = self.node("Not", [than])
            if self.chance(0.4):
                than = self.node(self.pick(["And", "Or", "Xor"]), [than, self.node("Less", [x, self.constant(np.float32(0.7))])])
            return self.node("Mul", [self.node("Cast", [than], to=T.FLOAT), x]), shape
        if kind == "clip":
            return self.clip(x, self.pick([-1.0, 0.0]), self.pick([0.5, 1.0])), shape
        if kind == "cast":
            y = self.node("Cast", [self.node("Mul", [x, self.constant(np.float32(7.3))])], to=self.pick([T.INT32, T.INT64]))
            y = self.node("Cast", [y], to=T.FLOAT)
            return self.node("Mul", [y, self.constant(np.float32(0.125))]), shape
        if kind == "minmax":
            return self.node(self.pick(["Max", "Min"]), [x, self.floats([], 0.5)]), shape
        if kind == "round":
            y = self.node("Add", [self.node("Mul", [x, self.constant(np.float32(4))]), self.constant(np.float32(0.0137))])
            y = self.node(self.pick(["Round", "Floor", "Ceil"]), [y])
            return self.node("Mul", [y, self.constant(np.float32(0.25))]), shape
        if kind == "cumulative" and shape and self.opset >= 14:
            axis = self.integer(-len(shape), len(shape) - 1)
            y = self.node("CumSum", [x, self.ints(axis)], exclusive=self.integer(0, 1), reverse=self.integer(0, 1))
            return self.node("Mul", [y, self.constant(np.float32(1 / max(shape[axis], 1)))]), shape
        if kind == "gate" and shape and shape[-1] % 2 == 0:
            axis = len(shape) - 1
            if self.opset >= 18:
                a, b = self.node("Split", [x], 2, axis=axis, num_outputs=2)
            elif self.opset >= 13:
                a, b = self.node("Split", [x, self.ints([shape[-1] // 2] * 2)], 2, axis=axis)
            else:
                a, b = self.node("Split", [x], 2, axis=axis, split=[shape[-1] // 2] * 2)
            half = [*shape[:-1], shape[-1] // 2]
            return self.node("Mul", [a, self.activation(b, half)]), half
        return self.activation(x, shape), shape
