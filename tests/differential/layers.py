"""Layers, each in one of the spellings that exporters write: a piece takes a value and gives another, or None where it does
not fit."""

import math

import numpy as np

from graph import Graph


class Layers(Graph):
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
