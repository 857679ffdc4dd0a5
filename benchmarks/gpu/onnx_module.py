"""An ONNX graph of a convolution network as a PyTorch module: the same weights on both sides of a comparison."""

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper


def float_model(model):
    """The float model inside a Q/DQ one: constants dequantised, activations' Q and DQ left out."""
    init = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    alias, floats, keep = {}, {}, []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            alias[node.output[0]] = node.input[0]
        elif node.op_type == "DequantizeLinear" and node.input[0] in init:
            values, scale = init[node.input[0]].astype(np.float64), init[node.input[1]].astype(np.float64)
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            if scale.size > 1:
                shape = [1] * values.ndim
                shape[axis] = scale.size
                scale = scale.reshape(shape)
            floats[node.output[0]] = (values * scale).astype(np.float32)
        elif node.op_type == "DequantizeLinear":
            alias[node.output[0]] = node.input[0]
        else:
            keep.append(node)

    def root(name):
        while name in alias:
            name = alias[name]
        return name

    made = onnx.ModelProto()
    made.CopyFrom(model)
    for field in ("node", "initializer", "value_info"):
        made.graph.ClearField(field)
    used = set()
    for node in keep:
        copy = made.graph.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [root(name) for name in node.input]
        used.update(copy.input)
    for name, value in (init | floats).items():
        if name in used:
            made.graph.initializer.append(numpy_helper.from_array(np.array(value, order="C"), name))
    return made


class OnnxModule(torch.nn.Module):
    """Runs the operators of convolution networks, Q/DQ included. Sizes and shapes are Python lists while it runs."""

    def __init__(self, model):
        super().__init__()
        graph = model.graph
        self.constants, self.places = {}, {}
        bounds = {name for node in graph.node if node.op_type == "Clip" for name in node.input[1:]}
        for i, tensor in enumerate(graph.initializer):
            array = numpy_helper.to_array(tensor)
            if array.dtype == np.int64:
                self.constants[tensor.name] = array.tolist()
            elif tensor.name in bounds and array.size == 1:
                self.constants[tensor.name] = float(array.item())
            else:
                self.places[tensor.name] = f"value{i}"
                self.register_buffer(f"value{i}", torch.from_numpy(np.array(array)))
        self.input_name = [value.name for value in graph.input if value.name not in self.places | self.constants][0]
        self.output_name = graph.output[0].name
        self.steps = []
        for node in graph.node:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                value = numpy_helper.to_array(attributes["value"])
                self.constants[node.output[0]] = value.tolist()
            else:
                attributes = {k: list(v) if isinstance(v, (list, tuple)) else v for k, v in attributes.items()}
                self.steps.append((node.op_type, list(node.input), node.output[0], attributes))

    def forward(self, x):
        values = dict(self.constants)
        for name, place in self.places.items():
            values[name] = getattr(self, place)
        values[self.input_name] = x
        for kind, names, output, attributes in self.steps:
            values[output] = step(kind, [values[name] if name else None for name in names], attributes)
        return values[self.output_name]


def pad(x, pads, value=0.0):
    """Pads of ONNX (top, left, bottom, right) that are not alike on both sides."""
    return F.pad(x, (pads[1], pads[3], pads[0], pads[2]), value=value)


def per_axis(scale, x, axis):
    """A scale or zero point, ready to be combined with x."""
    if not isinstance(scale, torch.Tensor) or scale.numel() == 1:
        return scale if not isinstance(scale, torch.Tensor) else scale.reshape(())
    shape = [1] * x.dim()
    shape[axis] = scale.numel()
    return scale.reshape(shape)


def step(kind, i, a):
    """One operator."""
    x = i[0]
    if kind == "Conv":
        pads = a.get("pads", [0, 0, 0, 0])
        if pads[:2] != pads[2:]:
            x, pads = pad(x, pads), [0, 0, 0, 0]
        bias = i[2] if len(i) > 2 else None
        return F.conv2d(x, i[1], bias, a.get("strides", [1, 1]), pads[:2], a.get("dilations", [1, 1]), a.get("group", 1))
    if kind == "Relu":
        return F.relu(x)
    if kind == "Clip":
        return torch.clamp(x, i[1] if len(i) > 1 else None, i[2] if len(i) > 2 else None)
    if kind == "Add":
        return x + i[1]
    if kind == "MaxPool":
        return F.max_pool2d(x, a["kernel_shape"], a["strides"], a.get("pads", [0, 0])[:2])
    if kind == "GlobalAveragePool":
        return x.mean(dim=(2, 3), keepdim=True)
    if kind == "ReduceMean":
        return x.mean(dim=a.get("axes", [2, 3]), keepdim=a.get("keepdims", 1) == 1)
    if kind == "Flatten":
        return x.flatten(1)
    if kind == "Shape":
        return list(x.shape)
    if kind == "Gather":
        return [x[k] for k in i[1]] if isinstance(i[1], list) else x[i[1]]
    if kind == "Unsqueeze":
        return x if isinstance(x, list) else [x]
    if kind == "Concat":
        return [size for part in i for size in part]
    if kind == "Reshape":
        return x.reshape([x.shape[k] if size == 0 else size for k, size in enumerate(i[1])])
    if kind == "Gemm":
        w = i[1].t() if a.get("transB", 0) else i[1]
        return x @ w + i[2] if len(i) > 2 else x @ w
    if kind == "MatMul":
        return x @ i[1]
    if kind == "Softmax":
        return x.softmax(a.get("axis", -1))
    if kind == "Identity":
        return x
    axis = a.get("axis", 1)
    zero = per_axis(i[2], x, axis) if len(i) > 2 and i[2] is not None else 0
    if isinstance(zero, torch.Tensor) and isinstance(i[1], torch.Tensor):
        zero = zero.to(i[1].dtype)
    scale = per_axis(i[1], x, axis)
    if kind == "QuantizeLinear":
        return torch.clamp(torch.round(x / scale) + zero, -128, 127)
    if kind == "DequantizeLinear":
        return (x - zero) * scale
    raise NotImplementedError(f"operator {kind}")
