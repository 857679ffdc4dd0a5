"""Random networks of the pieces that real ones have, each piece in one of the spellings that exporters write.

`network(seed)` gives an onnx.ModelProto and its inputs (name to array). The same seed gives the same network. Values stay
within a few units, so that a difference between two engines is one of the arithmetic and not of an overflow.
"""

import math

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

F32, I64, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(np.bool_)
TYPES = {F32: T.FLOAT, I64: T.INT64, BOOL: T.BOOL, np.dtype(np.int32): T.INT32}


class Network:
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
        self.used.update(inputs)
        return names[0] if outputs == 1 else names

    def add_input(self, shape, dtype=F32, most=None):
        name = self.name("input")
        if dtype == F32:
            array = self.random.standard_normal(shape).astype(np.float32)
        else:
            array = self.random.integers(0, most, shape).astype(dtype)
        self.inputs[name] = array
        declared = list(shape)
        if shape and self.free:
            declared[0] = "batch"
            if len(shape) > 2 and self.chance(0.3):
                declared[-1] = f"last_{name}"
        self.input_shapes[name] = declared
        value = (name, tuple(shape), dtype)
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

    # Pieces: each takes a value and gives another, or None where it does not fit.

    def affine(self, x, shape, channels):
        scale, shift = self.floats([channels], 1.5, 0.5), self.floats([channels], 0.5)
        mean, variance = self.floats([channels], 0.3), self.floats([channels], 1.5, 0.5)
        return self.node("BatchNormalization", [x, scale, shift, mean, variance], epsilon=1e-5)

    def activation(self, x, shape):
        kind = self.pick(["Relu", "Sigmoid", "Tanh", "swish", "hard_swish", "gelu", "gelu_tanh", "LeakyRelu", "Elu", "Clip",
                          "HardSigmoid", "Softplus", "mish", "PRelu", "Selu", "Erf", "quick_gelu", "relu6", "HardSwish", "Gelu",
                          "Celu", "ThresholdedRelu", "Softsign", "squared_relu", "none"])
        if kind == "swish":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        if kind == "hard_swish":
            if self.chance(0.5):
                return self.node("Mul", [x, self.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
            six = self.clip(self.node("Add", [x, self.constant(np.float32(3))]), 0, 6)
            return self.node("Div", [self.node("Mul", [x, six]), self.constant(np.float32(6))])
        if kind == "HardSwish" and self.opset < 14 or kind == "Gelu" and self.opset < 20 or kind == "Celu" and self.opset < 12:
            return self.node("Relu", [x])
        if kind == "gelu":
            erf = self.node("Erf", [self.node("Div", [x, self.constant(np.float32(math.sqrt(2)))])])
            one = self.node("Add", [erf, self.constant(np.float32(1))])
            if self.chance(0.5):
                return self.node("Mul", [self.node("Mul", [x, one]), self.constant(np.float32(0.5))])
            return self.node("Mul", [self.node("Mul", [x, self.constant(np.float32(0.5))]), one])
        if kind == "gelu_tanh":
            cube = self.node("Pow", [x, self.constant(np.float32(3))])
            inner = self.node("Add", [x, self.node("Mul", [cube, self.constant(np.float32(0.044715))])])
            tanh = self.node("Tanh", [self.node("Mul", [inner, self.constant(np.float32(math.sqrt(2 / math.pi)))])])
            one = self.node("Add", [tanh, self.constant(np.float32(1))])
            return self.node("Mul", [self.node("Mul", [x, self.constant(np.float32(0.5))]), one])
        if kind == "quick_gelu":
            return self.node("Mul", [x, self.node("Sigmoid", [self.node("Mul", [x, self.constant(np.float32(1.702))])])])
        if kind == "mish":
            return self.node("Mul", [x, self.node("Tanh", [self.node("Softplus", [x])])])
        if kind == "squared_relu":
            r = self.node("Relu", [x])
            return self.node("Mul", [r, r]) if self.chance(0.5) else self.node("Pow", [r, self.constant(np.float32(2))])
        if kind in ("Clip", "relu6"):
            return self.clip(x, -0.8, 1.1) if kind == "Clip" else self.clip(x, 0, 6)
        if kind == "PRelu":
            slope = [shape[1]] + [1] * (len(shape) - 2) if len(shape) > 1 else [1]
            return self.node("PRelu", [x, self.floats(self.pick([slope, [1]]) if shape else [], 0.5, 0.05)])
        if kind == "none":
            return x
        attributes = {"LeakyRelu": {"alpha": 0.1}, "Gelu": {"approximate": self.pick(["none", "tanh"])},
                      "ThresholdedRelu": {"alpha": 0.3}}.get(kind, {})
        return self.node(kind, [x], **attributes)

    def clip(self, x, low, high):
        return self.node("Clip", [x, self.constant(np.float32(low)), self.constant(np.float32(high))])

    def convolution(self, x, shape):
        if len(shape) not in (3, 4, 5) or min(shape[2:]) < 2 or math.prod(shape) > 60000:
            return None
        n, c, *sizes = shape
        rank = len(sizes)
        groups = self.pick([1, 1, 1, c, c] + [g for g in (2, 4) if c % g == 0])
        out = groups * self.pick([1, 1, 2]) if groups == c else groups * self.integer(1, max(1, 12 // groups))
        kernel = [self.integer(1, min(5, s)) for s in sizes] if self.chance(0.4) else [self.pick([1, 3])] * rank
        strides = [self.integer(1, 2)] * rank if self.chance(0.8) else [self.integer(1, 3) for _ in sizes]
        dilations = [1] * rank if self.chance(0.8) else [self.integer(1, 2) for _ in sizes]
        attributes = {"kernel_shape": kernel, "strides": strides, "dilations": dilations, "group": groups}
        reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
        if self.chance(0.15) and dilations == [1] * rank:
            attributes["auto_pad"] = self.pick(["SAME_UPPER", "SAME_LOWER", "VALID"])
            pads = [0] * (2 * rank)
        elif self.chance(0.6):
            pads = [r // 2 for r in reach] * 2
            attributes["pads"] = pads
        else:
            pads = [self.integer(0, 2) for _ in range(2 * rank)]
            attributes["pads"] = pads
        if attributes.get("auto_pad", "").startswith("SAME"):
            result = [-(-s // t) for s, t in zip(sizes, strides)]
        else:
            result = [(s + pads[i] + pads[i + rank] - r) // t + 1 for i, (s, r, t) in enumerate(zip(sizes, reach, strides))]
        if min(result) < 1 or any(s < r for s, r in zip(sizes, reach)):
            return None
        for size, length, step, begin, count in zip(sizes, reach, strides, pads, result):
            if all(i * step - begin >= size or i * step - begin + length <= 0 for i in range(count)):
                return None  # every window lies in the padding
        inputs = [x, self.weights([out, c // groups, *kernel], c // groups * math.prod(kernel))]
        if self.chance(0.6):
            inputs.append(self.floats([out], 0.3))
        y, result = self.node("Conv", inputs, **attributes), [n, out, *result]
        if self.chance(0.4):
            y = self.affine(y, result, out)
        elif self.chance(0.2):
            y = self.node("Add", [y, self.floats([1, out] + [1] * rank, 0.3)])
        return self.activation(y, result), result

    def transposed_convolution(self, x, shape):
        if len(shape) not in (3, 4) or math.prod(shape) > 8000:
            return None
        n, c, *sizes = shape
        rank = len(sizes)
        groups = self.pick([1, 1, 1, c])
        out = groups * self.integer(1, 3)
        kernel = [self.integer(1, 4)] * rank
        strides = [self.integer(1, 3)] * rank
        pads = [self.integer(0, (kernel[0] - 1) // 2)] * (2 * rank)
        extra = [self.integer(0, strides[0] - 1)] * rank if self.chance(0.3) else [0] * rank
        result = [(s - 1) * t + k - 2 * pads[0] + e for s, t, k, e in zip(sizes, strides, kernel, extra)]
        if min(result) < 1 or math.prod(result) > 5000:
            return None
        inputs = [x, self.weights([c, out // groups, *kernel], c // groups * math.prod(kernel) / math.prod(strides))]
        if self.chance(0.5):
            inputs.append(self.floats([out], 0.3))
        y = self.node("ConvTranspose", inputs, kernel_shape=kernel, strides=strides, pads=pads, group=groups,
                      output_padding=extra)
        return self.activation(y, [n, out, *result]), [n, out, *result]

    def pooling(self, x, shape):
        if len(shape) not in (3, 4, 5) or min(shape[2:]) < 2:
            return None
        n, c, *sizes = shape
        rank = len(sizes)
        if self.chance(0.15):
            return self.node(self.pick(["GlobalAveragePool", "GlobalMaxPool"]), [x]), [n, c] + [1] * rank
        kernel = [self.integer(1, min(4, s)) for s in sizes]
        strides = [self.integer(1, 3) for _ in sizes]
        pads = [self.integer(0, k // 2) for k in kernel] * 2 if self.chance(0.6) else [self.integer(0, k // 2) for k in kernel + kernel]
        op = self.pick(["MaxPool", "AveragePool"])
        ceil = int(self.chance(0.3))
        attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil}
        if op == "AveragePool":
            attributes["count_include_pad"] = self.integer(0, 1)
        result = []
        for i, (s, k, t) in enumerate(zip(sizes, kernel, strides)):
            room = s + pads[i] + pads[i + rank] - k
            size = (-(-room // t) if ceil else room // t) + 1
            if ceil and (size - 1) * t >= s + pads[i]:
                size -= 1  # a window that begins behind the input is left out
            if room < 0 or size < 1:
                return None
            result.append(size)
        return self.node(op, [x], **attributes), [n, c, *result]

    def linear(self, x, shape):
        if not shape or math.prod(shape) > 30000 or len(shape) < 2:
            return None
        k, out = shape[-1], self.integer(1, 12)
        if len(shape) == 2 and self.chance(0.4):
            transposed = self.integer(0, 1)
            weight = self.weights([out, k] if transposed else [k, out], k)
            attributes = {"transB": transposed}
            if self.chance(0.2):
                attributes.update(alpha=0.5, beta=2.0)
            inputs = [x, weight]
            if self.chance(0.8):
                inputs.append(self.floats(self.pick([[out], [1, out], [1]]), 0.3))
            y = self.node("Gemm", inputs, **attributes)
        else:
            if self.chance(0.3):
                w = self.node("Transpose", [self.weights([out, k], k)], perm=[1, 0])
            else:
                w = self.weights([k, out], k)
            y = self.node("MatMul", [x, w])
            if self.chance(0.7):
                pair = [y, self.floats([out], 0.3)]
                y = self.node("Add", pair if self.chance(0.5) else pair[::-1])
        return self.activation(y, [*shape[:-1], out]), [*shape[:-1], out]

    def places(self, x, shape):
        """A product with weights from the left: over the last axis but one."""
        if len(shape) < 2 or math.prod(shape) > 20000:
            return None
        k, out = shape[-2], self.integer(1, 9)
        lead = [1] * (len(shape) - 2) if self.chance(0.3) else []
        return self.node("MatMul", [self.weights([*lead, out, k], k), x]), [*shape[:-2], out, shape[-1]]

    def normalization(self, x, shape):
        if len(shape) < 2 or shape[-1] < 2:
            return None
        kind = self.pick(["LayerNormalization", "spelled", "rms", "Softmax", "LogSoftmax", "InstanceNormalization", "group", "l2",
                          "MeanVarianceNormalization", "batch", "LpNormalization", "LRN"])
        last = shape[-1]
        if kind == "LayerNormalization" and self.opset >= 17:
            axes = self.integer(1, min(2, len(shape) - 1))
            inputs = [x, self.floats(shape[-axes:], 1.5, 0.5)] + ([self.floats(shape[-axes:], 0.3)] if self.chance(0.7) else [])
            return self.node("LayerNormalization", inputs, axis=self.pick([-axes, len(shape) - axes]), epsilon=1e-4), shape
        if kind in ("LayerNormalization", "spelled"):
            axis = self.pick([-1, -1, 1])
            mean = self.reduce("ReduceMean", x, [axis], 1)
            centred = self.node("Sub", [x, mean])
            square = (self.node("Mul", [centred, centred]) if self.chance(0.5)
                      else self.node("Pow", [centred, self.constant(np.float32(2))]))
            variance = self.node("Add", [self.reduce("ReduceMean", square, [axis], 1), self.constant(np.float32(1e-3))])
            y = (self.node("Div", [centred, self.node("Sqrt", [variance])]) if self.chance(0.6)
                 else self.node("Mul", [centred, self.node("Reciprocal", [self.node("Sqrt", [variance])])]))
            size = [last] if axis == -1 else [shape[1]] + [1] * (len(shape) - 2)
            y = self.node("Mul", [y, self.floats(size, 1.5, 0.5)])
            return (self.node("Add", [y, self.floats(size, 0.3)]) if self.chance(0.7) else y), shape
        if kind == "rms":
            square = self.node("Mul", [x, x]) if self.chance(0.5) else self.node("Pow", [x, self.constant(np.float32(2))])
            mean = self.node("Add", [self.reduce("ReduceMean", square, [-1], 1), self.constant(np.float32(1e-2))])
            root = self.node("Sqrt", [mean])
            y = (self.node("Div", [x, root]) if self.chance(0.5)
                 else self.node("Mul", [x, self.node("Div", [self.constant(np.float32(1)), root])]))
            return self.node("Mul", [self.floats([last], 1.5, 0.5), y]), shape
        if kind in ("Softmax", "LogSoftmax"):
            return self.node(kind, [x], axis=self.integer(-len(shape), len(shape) - 1)), shape
        if kind == "InstanceNormalization" and len(shape) >= 3 and math.prod(shape[2:]) > 3:
            return self.node(kind, [x, self.floats([shape[1]], 1.5, 0.5), self.floats([shape[1]], 0.3)], epsilon=1e-2), shape
        if kind == "LRN" and len(shape) == 4:
            return self.node("LRN", [x], size=self.pick([3, 5]), alpha=0.1, beta=0.75, bias=1.5), shape
        if kind == "group" and len(shape) == 4 and shape[1] % 2 == 0:
            n, c, h, w = shape
            split = self.node("Reshape", [x, self.ints([0, 2, -1])])
            y = self.node("InstanceNormalization", [split, self.constant(np.ones(2, np.float32)),
                                                    self.constant(np.zeros(2, np.float32))], epsilon=1e-2)
            back = (self.node("Reshape", [y, self.node("Shape", [x])]) if self.chance(0.5)
                    else self.node("Reshape", [y, self.ints([-1, c, h, w])]))
            y = self.node("Mul", [back, self.floats([c, 1, 1], 1.5, 0.5)])
            return self.node("Add", [y, self.floats([c, 1, 1], 0.3)]), shape
        if kind == "l2":
            norm = self.reduce("ReduceL2", x, [-1], 1)
            low = self.node("Max", [norm, self.constant(np.float32(0.1))])
            return self.node("Div", [x, low]), shape
        if kind == "LpNormalization" and min(shape) > 1:
            more = self.node("Add", [x, self.constant(np.float32(3))])
            return self.node(kind, [more], axis=self.integer(0, len(shape) - 1), p=self.integer(1, 2)), shape
        if kind == "MeanVarianceNormalization" and len(shape) == 4 and math.prod(shape[2:]) > 3:
            return self.clip(self.node(kind, [x]), -3, 3), shape
        if kind == "batch" and len(shape) >= 2:
            return self.affine(x, shape, shape[1]), shape
        return None

    def attention(self, x, shape):
        if len(shape) != 3 or shape[1] > 40 or shape[2] > 64:
            return None
        n, s, c = shape
        heads, size = self.integer(1, 3), self.integer(2, 5)
        width = heads * size

        def project(of, bias=True):
            y = self.node("MatMul", [of, self.weights([c, width], c)])
            return self.node("Add", [y, self.floats([width], 0.3)]) if bias and self.chance(0.7) else y

        def rows(y):
            y = self.reshape(y, [n, s, width], [n, s, heads, size])
            return self.node("Transpose", [y], perm=[0, 2, 1, 3])

        if self.chance(0.4):  # one product for all three
            y = self.node("MatMul", [x, self.weights([c, 3 * width], c)])
            y = self.reshape(y, [n, s, 3 * width], [n, s, 3, heads, size])
            y = self.node("Transpose", [y], perm=[2, 0, 3, 1, 4])
            q, k, v = (self.node("Gather", [y, self.ints(i)], axis=0) for i in range(3))
            k = self.node("Transpose", [k], perm=[0, 1, 3, 2])
        else:
            q, v = rows(project(x)), rows(project(x))
            y = self.reshape(project(x), [n, s, width], [n, s, heads, size])
            k = (self.node("Transpose", [y], perm=[0, 2, 3, 1]) if self.chance(0.5)
                 else self.node("Transpose", [self.node("Transpose", [y], perm=[0, 2, 1, 3])], perm=[0, 1, 3, 2]))
        scale = np.float32(1 / math.sqrt(size))
        where = self.integer(0, 3)
        if where == 0:
            q = self.node("Mul", [q, self.constant(scale)])
        elif where == 1:
            q, k = (self.node("Mul", [t, self.constant(np.float32(math.sqrt(scale)))]) for t in (q, k))
        scores = self.node("MatMul", [q, k])
        if where == 2:
            scores = self.node("Mul", [scores, self.constant(scale)])
        elif where == 3:
            scores = self.node("Div", [scores, self.constant(np.float32(math.sqrt(size)))])
        mask = self.integer(0, 4)
        if mask == 1:
            scores = self.node("Add", [scores, self.floats(self.pick([[s, s], [1, heads, s, s], [heads, 1, s], [1, 1, 1, s]]), 2.0)])
        elif mask == 2:
            causal = np.triu(np.full((s, s), -1e4, np.float32), 1)
            scores = self.node("Add", [scores, self.constant(causal)])
        elif mask == 3:
            causal = np.tril(np.ones((1, 1, s, s), bool))
            scores = self.node("Where", [self.constant(causal), scores, self.constant(np.float32(self.pick([-1e4, -3.4e38])))])
        elif mask == 4 and self.opset >= 14:
            ones = self.constant(np.full((s, s), -1e4, np.float32))
            scores = self.node("Add", [scores, self.node("Trilu", [ones, self.ints(1)], upper=1)])
        y = self.node("MatMul", [self.node("Softmax", [scores], axis=self.pick([-1, 3])), v])
        y = self.node("Transpose", [y], perm=[0, 2, 1, 3])
        y = self.reshape(y, [n, s, heads, size], [n, s, width])
        return self.node("MatMul", [y, self.weights([width, c], width)]), shape

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

    def excitation(self, x, shape):
        if len(shape) != 4:
            return None
        n, c, h, w = shape
        mean = (self.node("GlobalAveragePool", [x]) if self.chance(0.5) else self.reduce("ReduceMean", x, [2, 3], 1))
        less = self.integer(1, 4)
        y = self.activation(self.node("Conv", [mean, self.weights([less, c, 1, 1], c), self.floats([less], 0.3)]), [n, less, 1, 1])
        y = self.node("Conv", [y, self.weights([c, less, 1, 1], less), self.floats([c], 0.3)])
        y = self.node("Sigmoid", [y]) if self.chance(0.5) else self.node("HardSigmoid", [y], alpha=1 / 6)
        return self.node("Mul", [x, y] if self.chance(0.5) else [y, x]), shape

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

    def product(self, x, shape):
        if len(shape) < 2 or math.prod(shape) > 4000 or shape[-2] > 60:
            return None
        rank = len(shape)
        perm = [*range(rank - 2), rank - 1, rank - 2]
        if self.chance(0.3) and self.opset >= 12:
            letters = "abcdef"[:rank - 2]
            y = self.node("Einsum", [x, x], equation=f"{letters}ij,{letters}kj->{letters}ik")
        else:
            y = self.node("MatMul", [x, self.node("Transpose", [x], perm=perm)])
        return self.node("Mul", [y, self.constant(np.float32(1 / shape[-1]))]), [*shape[:-1], shape[-2]]

    def recurrent(self, x, shape):
        if len(shape) != 3 or shape[0] > 12 or shape[2] > 32:
            return None
        s, n, c = shape
        op, hidden = self.pick(["LSTM", "GRU", "RNN"]), self.integer(1, 5)
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
        direction = self.pick(["forward", "reverse", "bidirectional"])
        d = 2 if direction == "bidirectional" else 1
        inputs = [x, self.weights([d, gates * hidden, c], c), self.weights([d, gates * hidden, hidden], hidden)]
        attributes = {"hidden_size": hidden, "direction": direction}
        if self.chance(0.8):
            inputs.append(self.floats([d, 2 * gates * hidden], 0.3))
        if op == "GRU":
            attributes["linear_before_reset"] = self.integer(0, 1)
        y = self.node(op, inputs, **attributes)
        y = self.node("Transpose", [y], perm=[0, 2, 1, 3])
        return self.reshape(y, [], [s, n, d * hidden]), [s, n, d * hidden]

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
            self.values.pop()
            self.values.append((self.node("Gather", [self.weights([vocabulary, c], 1), ids[0]]), (batch, s, c), F32))
        else:
            self.add_input(shape)
        for _ in range(self.integer(3, 11)):
            # Mostly the latest, so that chains grow; now and then an older one, so that they branch.
            x, shape, _ = self.values[-1] if self.chance(0.75) else self.pick(self.values)
            kind = self.integer(0, 9)
            if kind == 0:
                grown = self.parts(x, list(shape))
            elif kind == 1:
                grown = self.residual(x, list(shape))
            elif kind == 2:
                alike = [v for v in self.values if v[1] == shape and v[0] != x]
                grown = (self.node(self.pick(["Add", "Mul", "Sub"]), [x, self.pick(alike)[0]]), shape) if alike else None
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
                wanted.update(node.input)
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
