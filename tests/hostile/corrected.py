"""Operators of ONNX's own reference (1.23) that compute otherwise than the standard says, written anew from its text.

GlobalMaxPool takes the wrong axes unless there are two spatial ones; LRN leaves channels out beyond the batch size;
Softmax and its kin know opset 13 alone; MaxPool moves windows where the padding differs between the ends.
"""

import itertools
import math

import numpy as np
from onnx.reference.op_run import OpRun


class GlobalMaxPool(OpRun):
    op_domain = ""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class LRN(OpRun):
    op_domain = ""

    def _run(self, x, alpha=None, beta=None, bias=None, size=None):
        sums = np.zeros_like(x)
        for c in range(x.shape[1]):
            begin, end = max(0, c - (size - 1) // 2), min(x.shape[1], c + math.ceil((size - 1) / 2) + 1)
            sums[:, c] = (x[:, begin:end]**2).sum(axis=1)
        return ((x / (bias + alpha / size * sums)**beta).astype(x.dtype),)


class _Rows(OpRun):
    """Over one axis; before opset 13, whose axis is 1 by default, over all axes from it on."""

    op_domain = ""

    def _run(self, x, axis=None):
        before = self.run_params["opsets"][""] < 13
        given = [each.i for each in self.onnx_node.attribute if each.name == "axis"]
        axis = given[0] if given else 1 if before else -1
        if not -x.ndim <= axis < x.ndim:
            raise IndexError(axis)
        if not before:
            return (np.moveaxis(self.rows(np.moveaxis(x, axis, -1)), -1, axis).astype(x.dtype),)
        flat = x.reshape(math.prod(x.shape[:axis % x.ndim]), -1)
        return (self.rows(flat).reshape(x.shape).astype(x.dtype),)


class Softmax(_Rows):
    def rows(self, x):
        exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)


class LogSoftmax(_Rows):
    def rows(self, x):
        less = x - x.max(axis=-1, keepdims=True)
        return less - np.log(np.exp(less).sum(axis=-1, keepdims=True))


class Hardmax(_Rows):
    def rows(self, x):
        result = np.zeros_like(x)
        np.put_along_axis(result, x.argmax(axis=-1)[..., None], 1, axis=-1)
        return result


class MaxPool(OpRun):
    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None, storage_order=None,
             strides=None):
        if len(self.onnx_node.output) > 1:
            raise NotImplementedError("indices")
        count = x.ndim - 2
        strides, dilations = strides or [1] * count, dilations or [1] * count
        pads = list(pads or [0] * (2 * count))
        sizes = []
        for i, size in enumerate(x.shape[2:]):
            covers = (kernel_shape[i] - 1) * dilations[i] + 1
            if auto_pad in (b"SAME_UPPER", "SAME_UPPER", b"SAME_LOWER", "SAME_LOWER"):
                sizes.append(-(-size // strides[i]))
                total = max(0, (sizes[i] - 1) * strides[i] + covers - size)
                less, more = total // 2, total - total // 2
                pads[i], pads[count + i] = (less, more) if "UPPER" in str(auto_pad) else (more, less)
                continue
            if auto_pad in (b"VALID", "VALID"):
                pads[i] = pads[count + i] = 0
            room = size + pads[i] + pads[count + i] - covers
            sizes.append((-(-room // strides[i]) if ceil_mode else room // strides[i]) + 1)
            if ceil_mode and (sizes[i] - 1) * strides[i] >= size + pads[i]:
                sizes[i] -= 1  # a window may not begin behind the input
        least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        result = np.full(x.shape[:2] + tuple(sizes), least, x.dtype)
        for place in itertools.product(*map(range, sizes)):
            chosen = []
            for i, at in enumerate(place):
                begin = at * strides[i] - pads[i]
                every = range(begin, begin + kernel_shape[i] * dilations[i], dilations[i])
                chosen.append([each for each in every if 0 <= each < x.shape[2 + i]])
            if all(chosen):
                window = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *chosen)]
                result[(..., *place)] = window.max(axis=tuple(range(2, x.ndim)))
        return (result,)


OPERATORS = [GlobalMaxPool, LRN, Softmax, LogSoftmax, Hardmax, MaxPool]
