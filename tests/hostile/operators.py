"""Models of one or two operators with odd attributes, types, shapes and constants: some valid, many not."""

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper

TYPES = {
    np.dtype(np.float32): T.FLOAT, np.dtype(np.float64): T.DOUBLE, np.dtype(np.float16): T.FLOAT16,
    np.dtype(np.int8): T.INT8, np.dtype(np.uint8): T.UINT8, np.dtype(np.int32): T.INT32,
    np.dtype(np.int64): T.INT64, np.dtype(np.bool_): T.BOOL,
}


def model(nodes, inputs, outputs, constants=(), opset=17, name="hostile"):
    """Inputs: name to array (its shape and type are declared); outputs: name to type, of any shape."""
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info(key, TYPES[value.dtype], value.shape) for key, value in inputs.items()],
        [helper.make_tensor_value_info(key, type_, None) for key, type_ in outputs.items()],
        [numpy_helper.from_array(value, key) for key, value in dict(constants).items()])
    for output in graph.output:  # of unknown rank
        output.type.tensor_type.ClearField("shape")
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def numbers(random, shape, dtype=np.float32):
    if np.dtype(dtype).kind == "f":
        return random.uniform(-2, 2, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return random.integers(0, 2, shape).astype(bool)
    return random.integers(0 if np.dtype(dtype).kind == "u" else -5, 6, shape).astype(dtype)


def some_shape(random, most=4):
    return tuple(int(random.choice([1, 1, 2, 3, 4, 5])) for _ in range(random.integers(1, most + 1)))


ODD = [-2**63, -2**31, -7, -2, -1, 0, 1, 2, 3, 9, 2**31, 2**40, 2**63 - 1]
UNARY = ["Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Relu", "Erf", "Floor", "Ceil", "Round",
         "Sign", "Sin", "Cos", "Atan", "Softplus", "Softsign", "HardSigmoid", "Elu", "LeakyRelu", "Selu", "HardSwish",
         "Identity", "Not", "IsNaN", "IsInf", "Shape", "Size", "NonZero", "Acosh", "Mish", "Celu"]
BINARY = ["Add", "Sub", "Mul", "Div", "Pow", "Mod", "PRelu", "Equal", "Less", "Greater", "LessOrEqual", "And", "Or",
          "Xor", "Max", "Min", "Mean", "Sum", "MatMul", "BitShift", "BitwiseAnd"]
BOOLEAN = {"Not": None, "Equal": 1, "Less": 1, "Greater": 1, "LessOrEqual": 1, "And": 1, "Or": 1, "Xor": 1, "IsNaN": 1,
           "IsInf": 1}
REDUCE = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
          "ReduceLogSumExp", "ReduceSumSquare", "ArgMax", "ArgMin"]


def type_out(op, dtype):
    if op in BOOLEAN:
        return T.BOOL
    if op in ("Shape", "Size", "NonZero", "ArgMax", "ArgMin"):
        return T.INT64
    return TYPES[np.dtype(dtype)]


def odd_integers(random, count):
    return [int(random.choice(ODD if random.random() < 0.15 else [-2, -1, 0, 1, 2, 3])) for _ in range(count)]


def unary(random):
    op = str(random.choice(UNARY))
    dtype = np.bool_ if op == "Not" else random.choice([np.float32, np.float32, np.float32, np.int32, np.float64])
    x = numbers(random, some_shape(random), dtype)
    return model([helper.make_node(op, ["x"], ["y"])], {"x": x}, {"y": type_out(op, dtype)}), {"x": x}


def binary(random):
    op = str(random.choice(BINARY))
    dtype = random.choice([np.float32, np.float32, np.int32, np.int64, np.uint8, np.int8])
    if op in ("And", "Or", "Xor"):
        dtype = np.bool_
    a = numbers(random, some_shape(random), dtype)
    shape = a.shape if random.random() < 0.4 else some_shape(random)
    b = numbers(random, shape, dtype)
    if op in ("Div", "Mod") and np.dtype(dtype).kind in "iu":
        b[b == 0] = 7  # an integer divided by 0 is undefined
    attributes = {"fmod": 1} if op == "Mod" and np.dtype(dtype).kind == "f" else {}
    if op == "BitShift":
        attributes = {"direction": "LEFT"}
    node = helper.make_node(op, ["a", "b"], ["y"], **attributes)
    opset = int(random.choice([13, 17, 18]))
    if random.random() < 0.5:
        return model([node], {"a": a}, {"y": type_out(op, dtype)}, {"b": b}, opset), {"a": a}
    return model([node], {"a": a, "b": b}, {"y": type_out(op, dtype)}, {}, opset), {"a": a, "b": b}


def reduce(random):
    op = str(random.choice(REDUCE))
    x = np.abs(numbers(random, some_shape(random))) + np.float32(0.1)
    attributes = {"keepdims": int(random.integers(0, 2))}
    opset = int(random.choice([11, 13, 17]))
    if op.startswith("Arg"):
        attributes["axis"] = odd_integers(random, 1)[0]
        if opset > 11 and random.random() < 0.3:
            attributes["select_last_index"] = 1
    elif op != "ReduceSum" or opset < 13:
        attributes["axes"] = odd_integers(random, int(random.integers(1, 3)))
    inputs, constants = ["x"], {}
    if op == "ReduceSum" and opset >= 13:
        inputs.append("axes")
        constants = {"axes": np.array(odd_integers(random, int(random.integers(0, 3))), np.int64)}
    node = helper.make_node(op, inputs, ["y"], **attributes)
    return model([node], {"x": x}, {"y": type_out(op, np.float32)}, constants, opset), {"x": x}


def shapes(random):
    op = str(random.choice(["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Expand", "Tile", "Slice", "Pad", "Concat",
                            "Split", "Flatten", "Gather", "GatherElements", "GatherND", "TopK", "CumSum", "OneHot",
                            "Resize", "DepthToSpace", "SpaceToDepth", "Trilu", "ScatterElements", "ScatterND",
                            "ConstantOfShape", "Range", "Where", "Cast", "Clip", "EyeLike", "ReverseSequence"]))
    x = numbers(random, some_shape(random))
    rank = x.ndim
    constants, attributes, inputs, outputs = {}, {}, ["x"], {"y": T.FLOAT}

    def constant(name, value):
        constants[name] = value
        inputs.append(name)

    def integers(count):
        return np.array(odd_integers(random, count), np.int64)

    if op == "Reshape":
        good = np.array([x.size] if random.random() < 0.5 else [-1, 1], np.int64)
        constant("shape", good if random.random() < 0.5 else integers(int(random.integers(1, 5))))
    elif op == "Transpose":
        order = list(random.permutation(rank))
        attributes["perm"] = [int(i) for i in order] if random.random() < 0.7 else odd_integers(random, rank)
    elif op in ("Squeeze", "Unsqueeze"):
        constant("axes", integers(int(random.integers(1, 3))))
    elif op in ("Expand", "Tile"):
        constant("sizes", integers(rank if random.random() < 0.7 else rank + 1))
    elif op == "Slice":
        count = int(random.integers(1, rank + 1))
        constant("starts", integers(count))
        constant("ends", np.array([int(random.choice([1, 2, 3, 2**31, -1])) for _ in range(count)], np.int64))
        constant("axes", np.arange(count, dtype=np.int64) if random.random() < 0.7 else integers(count))
        constant("steps", integers(count) if random.random() < 0.5 else np.ones(count, np.int64))
    elif op == "Pad":
        attributes["mode"] = str(random.choice(["constant", "reflect", "edge", "wrap"]))
        constant("pads", integers(2 * rank))
    elif op == "Concat":
        inputs.append("x")
        attributes["axis"] = odd_integers(random, 1)[0]
    elif op == "Split":
        attributes["axis"] = odd_integers(random, 1)[0]
        outputs = {"y": T.FLOAT, "z": T.FLOAT}
        if random.random() < 0.5:
            constant("split", integers(2))
    elif op == "Flatten":
        attributes["axis"] = odd_integers(random, 1)[0]
    elif op in ("Gather", "GatherElements"):
        attributes["axis"] = odd_integers(random, 1)[0]
        constant("indices", integers(x.size).reshape(x.shape) if op == "GatherElements" else integers(3))
    elif op == "GatherND":
        constant("indices", integers(2 * min(rank, 2)).reshape(2, -1))
    elif op == "TopK":
        attributes["axis"] = odd_integers(random, 1)[0]
        constant("k", integers(1))
        outputs = {"y": T.FLOAT, "indices": T.INT64}
    elif op == "CumSum":
        constant("axis", integers(1)[0])
        attributes = {"exclusive": int(random.integers(0, 2)), "reverse": int(random.integers(0, 2))}
    elif op == "OneHot":
        indices = random.integers(-3, 4, (2, 3)).astype(np.int64)
        constants = {"depth": integers(1), "values": np.array([0, 1], np.float32)}
        node = helper.make_node(op, ["i", "depth", "values"], ["y"], axis=odd_integers(random, 1)[0])
        return model([node], {"i": indices}, outputs, constants), {"i": indices}
    elif op == "Resize":
        x = numbers(random, (1, 2, 4, 5))
        scale = float(random.choice([0.5, 1.5, 2, 0, -1, 10000, np.inf, np.nan]))
        constants = {"scales": np.array([1, 1, scale, 2], np.float32)}
        node = helper.make_node(op, ["x", "", "scales"], ["y"], mode=str(random.choice(["nearest", "linear"])),
                                coordinate_transformation_mode=str(random.choice(["asymmetric", "half_pixel"])),
                                nearest_mode="floor")
        return model([node], {"x": x}, outputs, constants), {"x": x}
    elif op in ("DepthToSpace", "SpaceToDepth"):
        x = numbers(random, (1, 4, 2, 4))
        attributes["blocksize"] = odd_integers(random, 1)[0]
    elif op == "Trilu":
        constant("k", integers(1)[0])
    elif op == "ScatterElements":
        attributes["axis"] = odd_integers(random, 1)[0]
        constant("indices", np.zeros(x.shape, np.int64) + integers(1)[0])
        constant("updates", numbers(random, x.shape))
    elif op == "ScatterND":
        constant("indices", integers(1).reshape(1, 1))
        constant("updates", numbers(random, (1, *x.shape[1:])))
    elif op == "ConstantOfShape":
        attributes["value"] = numpy_helper.from_array(np.array([1.5], np.float32))
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"], **attributes),
                 helper.make_node("Add", ["x", "c"], ["y"])]
        return model(nodes, {"x": x}, outputs, {"s": integers(int(random.integers(0, 3)))}), {"x": x}
    elif op == "Range":
        constants = {key: np.int64(value) for key, value in zip("abc", odd_integers(random, 3))}
        nodes = [helper.make_node("Range", ["a", "b", "c"], ["r"]), helper.make_node("Cast", ["r"], ["f"], to=T.FLOAT),
                 helper.make_node("ReduceSum", ["f"], ["t"]), helper.make_node("Add", ["x", "t"], ["y"])]
        return model(nodes, {"x": x}, outputs, constants), {"x": x}
    elif op == "Where":
        constants = {"c": numbers(random, some_shape(random), np.bool_), "b": numbers(random, some_shape(random))}
        return model([helper.make_node(op, ["c", "x", "b"], ["y"])], {"x": x}, outputs, constants), {"x": x}
    elif op == "Cast":
        to = int(random.choice([T.INT32, T.INT8, T.UINT8, T.FLOAT16, T.DOUBLE, T.BOOL, T.INT64]))
        return model([helper.make_node(op, ["x"], ["y"], to=to)], {"x": np.abs(x)}, {"y": to}), {"x": np.abs(x)}
    elif op == "Clip":
        constant("low", np.float32(random.choice([-1, 0, 2, np.nan, np.inf])))
        constant("high", np.float32(random.choice([-2, 1, 3, np.inf])))
    elif op == "ReverseSequence":
        x = numbers(random, (3, 2))
        constant("lengths", integers(2))
    node = helper.make_node(op, inputs, list(outputs), **attributes)
    return model([node], {"x": x}, outputs, constants), {"x": x}


def windows(random):
    op = str(random.choice(["Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool",
                            "GlobalMaxPool", "LRN", "InstanceNormalization", "BatchNormalization"]))
    spatial = int(random.choice([1, 2, 2, 3]))
    channels = int(random.choice([1, 2, 4]))
    x = numbers(random, (2, channels, *(int(random.integers(3, 8)) for _ in range(spatial))))
    attributes, constants, inputs = {}, {}, ["x"]
    odd = random.random() < 0.3

    def sizes(count, usual):
        values = [int(random.choice(usual)) for _ in range(count)]
        if odd and random.random() < 0.4:
            values[int(random.integers(0, count))] = int(random.choice(ODD))
        return values

    if op in ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"):
        kernel = [int(random.integers(1, 4)) for _ in range(spatial)]
        attributes["strides"] = sizes(spatial, [1, 2])
        if random.random() < 0.7:
            attributes["pads"] = sizes(2 * spatial, [0, 1]) if min(kernel) > 1 else [0] * (2 * spatial)
        else:
            attributes["auto_pad"] = str(random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
        if op in ("Conv", "ConvTranspose"):
            groups = int(random.choice([1, channels]))
            attributes["group"] = groups if not odd else sizes(1, [1, 3])[0]
            attributes["dilations"] = sizes(spatial, [1, 1, 2])
            per_group = channels // groups
            shape = (2 * groups, per_group, *kernel) if op == "Conv" else (channels, 2, *kernel)
            constants["w"] = numbers(random, shape)
            inputs.append("w")
        else:
            attributes["kernel_shape"] = sizes(spatial, [2, 3]) if odd else kernel
            if op != "LpPool":
                attributes["ceil_mode"] = int(random.integers(0, 2))
            if op == "AveragePool":
                attributes["count_include_pad"] = int(random.integers(0, 2))
    elif op == "LRN":
        attributes = {"size": sizes(1, [1, 3])[0], "alpha": 0.1, "beta": 0.5}
    elif op in ("InstanceNormalization", "BatchNormalization"):
        count = channels if not odd else int(random.integers(1, 5))
        names = ["scale", "b", "mean", "var"][:2 if op.startswith("Inst") else 4]
        for name in names:
            constants[name] = np.abs(numbers(random, (count,))) + np.float32(0.1)
        inputs += names
    opset = 17
    node = helper.make_node(op, inputs, ["y"], **attributes)
    return model([node], {"x": x}, {"y": T.FLOAT}, constants, opset), {"x": x}


def products(random):
    op = str(random.choice(["Gemm", "Softmax", "LogSoftmax", "Hardmax", "LayerNormalization", "Einsum", "Dropout",
                            "QuantizeLinear"]))
    opset = int(random.choice([11, 13, 17]))
    x = numbers(random, some_shape(random))
    outputs = {"y": T.FLOAT}
    if op == "Gemm":
        x = numbers(random, (3, 4))
        trans = int(random.integers(0, 2))
        constants = {"w": numbers(random, (4, 5) if random.random() < 0.7 else (5, 4)),
                     "c": numbers(random, [(5,), (1, 5), (3, 5), (2,), (3, 1)][int(random.integers(0, 5))])}
        node = helper.make_node(op, ["x", "w", "c"], ["y"], transB=trans, alpha=0.5, beta=2.0)
        return model([node], {"x": x}, outputs, constants, opset), {"x": x}
    if op == "LayerNormalization":
        constants = {"s": numbers(random, x.shape[-1:]), "b": numbers(random, x.shape[-1:])}
        node = helper.make_node(op, ["x", "s", "b"], ["y"], axis=odd_integers(random, 1)[0])
        return model([node], {"x": x}, outputs, constants, 17), {"x": x}
    if op == "Einsum":
        x = numbers(random, (2, 3))
        equation = str(random.choice(["ij,jk->ik", "ij,jk->ki", "ij,jk", "ij,jj->i", "ij,->", "...j,jk->...k", "->", "zz"]))
        constants = {"w": numbers(random, (3, 4))}
        return model([helper.make_node(op, ["x", "w"], ["y"], equation=equation)], {"x": x}, outputs, constants), {"x": x}
    if op == "QuantizeLinear":
        constants = {"s": np.float32(random.choice([0.1, 0.01, 0, -1, np.nan, np.inf])), "z": np.uint8(3)}
        nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
                 helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]
        return model(nodes, {"x": x}, outputs, constants, 13), {"x": x}
    attributes = {} if op == "Dropout" else {"axis": odd_integers(random, 1)[0]}
    return model([helper.make_node(op, ["x"], ["y"], **attributes)], {"x": x}, outputs, {}, opset), {"x": x}


KINDS = [unary, binary, binary, reduce, shapes, shapes, shapes, shapes, windows, windows, products]


def case(random):
    """A model and its inputs."""
    return KINDS[int(random.integers(0, len(KINDS)))](random)
