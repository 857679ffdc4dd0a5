"""Whole models with a lie in one field, each a function of a valid model; mutations of bytes and of JSON."""

import copy
import json

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

NUMBERS = [-2**63, -2**31 - 1, -1, 0, 1, 7, 2**31, 2**40, 2**62, 2**63 - 1]
NAMES = ["", "x", "y", "\x1b[2J", "\u202eabc", "a" * 10000, "../../etc/passwd", "%s%n", "\n", "\t", "/", "日本", "input"]


def network():
    """A small classifier of 8x8 pictures, and the seed of every mutation."""
    random = np.random.default_rng(7)
    weight = lambda *shape: (random.standard_normal(shape) * 0.2).astype(np.float32)  # noqa: E731
    nodes = [
        helper.make_node("Conv", ["input", "w1"], ["c1"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("MaxPool", ["r1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", "w2", "b2"], ["c2"], name="second", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("GlobalAveragePool", ["r2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"], name="head"),
    ]
    constants = {"w1": weight(8, 3, 3, 3), "w2": weight(8, 8, 3, 3), "b2": weight(8), "w3": weight(8, 5), "b3": weight(5)}
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("input", T.FLOAT, [1, 3, 8, 8])],
                              [helper.make_tensor_value_info("scores", T.FLOAT, [1, 5])],
                              [numpy_helper.from_array(value, key) for key, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in {"lathe.preprocess": '{"resize":[8,8],"scale":0.0078,"mean":[1,1,1],"std":[1,1,1]}',
                       "lathe.labels": '["ant","bee","cat","dog","eel"]'}.items():
        model.metadata_props.add(key=key, value=value)
    return model


def foreign_network():
    """The same classifier in operators that ONNX Runtime's quantiser and optimisers write."""
    random = np.random.default_rng(9)
    weight = lambda *shape: (random.standard_normal(shape) * 0.2).astype(np.float32)  # noqa: E731
    microsoft = "com.microsoft"
    nodes = [
        helper.make_node("FusedConv", ["input", "w1", "b1"], ["c1"], name="first", domain=microsoft, pads=[1, 1, 1, 1],
                         activation="LeakyRelu", activation_params=[0.1]),
        helper.make_node("QuantizeLinear", ["c1", "step", "zero"], ["r1"]),
        helper.make_node("QLinearConv", ["r1", "step", "zero", "w2", "scales", "zeros", "step", "zero", "sums"], ["c2"], name="second"),
        helper.make_node("DequantizeLinear", ["c2", "step", "zero"], ["r2"]),
        helper.make_node("Reshape", ["r2", "shape"], ["tokens"]),
        helper.make_node("Attention", ["tokens", "qkv", "bias"], ["mixed"], domain=microsoft, num_heads=2),
        helper.make_node("SkipLayerNormalization", ["tokens", "mixed", "gamma", "beta"], ["normal"], domain=microsoft),
        helper.make_node("MatMulNBits", ["normal", "packed", "factors"], ["wide"], domain=microsoft, K=16, N=16, bits=4, block_size=16),
        helper.make_node("FastGelu", ["wide"], ["bent"], domain=microsoft),
        helper.make_node("ReduceMean", ["bent"], ["f"], axes=[1], keepdims=0),
        helper.make_node("FusedGemm", ["f", "w3", "b3"], ["scores"], name="head", domain=microsoft, activation="Relu"),
    ]
    constants = {"w1": weight(16, 3, 3, 3), "b1": weight(16), "step": np.float32(0.05), "zero": np.uint8(128),
                 "w2": random.integers(-99, 99, (16, 16, 1, 1)).astype(np.int8), "scales": np.full(16, 0.01, np.float32),
                 "zeros": np.zeros(16, np.int8), "sums": random.integers(-99, 99, 16).astype(np.int32),
                 "shape": np.array([1, 64, 16]), "qkv": weight(16, 48), "bias": weight(48), "gamma": weight(16), "beta": weight(16),
                 "packed": random.integers(0, 256, (16, 1, 8)).astype(np.uint8), "factors": weight(16), "w3": weight(16, 5), "b3": weight(5)}
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("input", T.FLOAT, [1, 3, 8, 8])],
                              [helper.make_tensor_value_info("scores", T.FLOAT, [1, 5])],
                              [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(microsoft, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def constants_of(random, **shapes):
    return [numpy_helper.from_array((random.standard_normal(shape) * 0.2).astype(np.float32), name)
            for name, shape in shapes.items()]


def text_network(tokenizer):
    """Mean of the tokens' embeddings into two classes; `tokenizer` is what lathe export writes into the metadata."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["words"]),
             helper.make_node("ReduceMean", ["words"], ["mean"], axes=[1], keepdims=0),
             helper.make_node("Gemm", ["mean", "f", "b"], ["scores"], name="head")]
    graph = helper.make_graph(nodes, "texts", [helper.make_tensor_value_info("input_ids", T.INT64, ["N", "S"])],
                              [helper.make_tensor_value_info("scores", T.FLOAT, ["N", 2])],
                              constants_of(np.random.default_rng(8), table=(64, 16), f=(16, 2), b=(2,)))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="lathe.tokenizer", value=json.dumps(tokenizer))
    return model


def detector():
    """Strides 8, 16 and 32 as YOLOX's head has them: 84 cells of a 64 x 64 picture, two classes."""
    nodes = []
    for size in (8, 16, 32):
        nodes += [helper.make_node("Conv", ["images", f"w{size}"], [f"c{size}"], strides=[size, size]),
                  helper.make_node("Reshape", [f"c{size}", "shape"], [f"r{size}"])]
    nodes += [helper.make_node("Concat", ["r8", "r16", "r32"], ["all"], axis=2),
              helper.make_node("Sigmoid", ["all"], ["scaled"]),
              helper.make_node("Transpose", ["scaled"], ["output"], perm=[0, 2, 1])]
    weights = constants_of(np.random.default_rng(9), w8=(7, 3, 8, 8), w16=(7, 3, 16, 16), w32=(7, 3, 32, 32))
    graph = helper.make_graph(nodes, "detector", [helper.make_tensor_value_info("images", T.FLOAT, [1, 3, 64, 64])],
                              [helper.make_tensor_value_info("output", T.FLOAT, [1, 84, 7])],
                              [*weights, numpy_helper.from_array(np.array([0, 7, -1], np.int64), "shape")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="lathe.preprocess", value='{"resize":{"letterbox":[64,64]},"pad":114,"scale":0.0039}')
    return model


def constant(model, random):
    tensors = [each for each in model.graph.initializer if each.dims]
    return tensors[int(random.integers(0, len(tensors)))]


def node(model, random):
    return model.graph.node[int(random.integers(0, len(model.graph.node)))]


def number(random):
    return int(random.choice(NUMBERS))


def lie_dims(model, random):
    tensor = constant(model, random)
    tensor.dims[int(random.integers(0, len(tensor.dims)))] = number(random)


def lie_more_dims(model, random):
    constant(model, random).dims.extend([1] * int(random.choice([1, 40, 1000])))


def lie_raw(model, random):
    tensor = constant(model, random)
    tensor.raw_data = tensor.raw_data[:int(random.integers(0, max(1, len(tensor.raw_data))))]


def lie_type(model, random):
    constant(model, random).data_type = int(random.choice([0, 2, 3, 7, 8, 11, 16, 21, 99, -1, 2**31 - 1]))


def lie_both_data(model, random):
    constant(model, random).float_data.extend([1.0, 2.0])


def lie_external(model, random):
    tensor = constant(model, random)
    tensor.data_location = T.EXTERNAL
    tensor.ClearField("raw_data")
    places = ["w.bin", "../w.bin", "/etc/passwd", "", ".", "/dev/zero", "nowhere", "m.onnx", "x" * 5000]
    for key, value in {"location": str(random.choice(places)), "offset": str(number(random)),
                       "length": str(number(random))}.items():
        tensor.external_data.add(key=key, value=value)


def lie_nonfinite(model, random):
    tensor = constant(model, random)
    values = numpy_helper.to_array(tensor).astype(np.float32)
    values.flat[int(random.integers(0, values.size))] = random.choice([np.nan, np.inf, -np.inf, 1e-42, 3e38])
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def lie_input_shape(model, random):
    dims = model.graph.input[0].type.tensor_type.shape.dim
    dims[int(random.integers(0, 4))].dim_value = number(random)


def lie_input_type(model, random):
    model.graph.input[0].type.tensor_type.elem_type = int(random.choice([0, 2, 6, 7, 8, 10, 11, 16, 21, 99]))


def lie_input_kind(model, random):
    kind = str(random.choice(["sequence", "map", "optional", "none"]))
    type_ = model.graph.input[0].type
    tensor = copy.deepcopy(type_)
    type_.Clear()
    if kind == "sequence":
        type_.sequence_type.elem_type.CopyFrom(tensor)
    elif kind == "map":
        type_.map_type.key_type = T.INT64
        type_.map_type.value_type.CopyFrom(tensor)
    elif kind == "optional":
        type_.optional_type.elem_type.CopyFrom(tensor)


def lie_output_shape(model, random):
    model.graph.output[0].type.tensor_type.shape.dim[int(random.integers(0, 2))].dim_value = number(random)


def lie_rank(model, random):
    model.graph.input[0].type.tensor_type.shape.dim.add(dim_value=1)


def lie_attribute(model, random):
    chosen = [each for each in model.graph.node if each.attribute]
    attribute = chosen[int(random.integers(0, len(chosen)))].attribute[0]
    kind = int(random.integers(0, 4))
    if kind == 0:
        attribute.ints[:] = [number(random) for _ in range(int(random.integers(0, 6)))]
    elif kind == 1:
        attribute.type = int(random.integers(0, 15))
    elif kind == 2:
        attribute.name = str(random.choice(NAMES))
    else:
        attribute.ref_attr_name = "gone"


def lie_operator(model, random):
    node(model, random).op_type = str(random.choice(
        ["", "Foo", "SequenceConstruct", "If", "Loop", "Scan", "Constant", "Optional", "StringNormalizer", "NonZero",
         "Unique", "SplitToSequence", "Adam", "\x1b[31m", "x" * 1000, "Det", "ImageDecoder", "RandomNormal", "Bernoulli"]))


def lie_domain(model, random):
    node(model, random).domain = str(random.choice(["com.microsoft", "ai.onnx.ml", "../..", "a" * 1000, "org.openvinotoolkit"]))


def lie_edges(model, random):
    chosen = node(model, random)
    if not chosen.input:  # an earlier change took them
        chosen.input.append("")
    chosen.input[int(random.integers(0, len(chosen.input)))] = str(
        random.choice(["", "nowhere", "scores", "input", "w1", "c1", "r2", chosen.output[0]]))


def lie_fewer_inputs(model, random):
    chosen = node(model, random)
    del chosen.input[int(random.integers(0, len(chosen.input))):]


def lie_more_inputs(model, random):
    node(model, random).input.extend(["input"] * int(random.choice([1, 50, 5000])))


def lie_more_outputs(model, random):
    node(model, random).output.extend([f"more{i}" for i in range(int(random.choice([1, 1000])))])


def lie_twice(model, random):
    model.graph.node.add().CopyFrom(node(model, random))


def lie_order(model, random):
    order = [copy.deepcopy(each) for each in model.graph.node]
    random.shuffle(order)
    del model.graph.node[:]
    model.graph.node.extend(order)


def lie_name(model, random):
    name = str(random.choice(NAMES))
    old = model.graph.node[1].output[0]
    for each in model.graph.node:
        each.input[:] = [name if value == old else value for value in each.input]
        each.output[:] = [name if value == old else value for value in each.output]
    model.graph.node[1].name = name


def lie_opset(model, random):
    model.opset_import[0].version = int(random.choice([-1, 0, 1, 6, 7, 9, 12, 27, 29, 99, 2**31, 2**62]))


def lie_no_opset(model, random):
    del model.opset_import[:]


def lie_ir(model, random):
    model.ir_version = int(random.choice([-1, 0, 1, 3, 14, 99, 2**40]))


def lie_no_graph(model, random):
    model.ClearField("graph")


def lie_no_output(model, random):
    del model.graph.output[:]


def lie_output_twice(model, random):
    model.graph.output.add().CopyFrom(model.graph.output[0])


def lie_output_is_input(model, random):
    model.graph.output[0].CopyFrom(model.graph.input[0])


def lie_input_is_constant(model, random):
    tensor = constant(model, random)
    model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def lie_metadata(model, random):
    key = str(random.choice(["lathe.preprocess", "lathe.labels", "lathe.tokenizer", "lathe.source", "imgsz", "names"]))
    value = str(random.choice(["", "{", "[]", "{}", "null", "1e999", '{"resize":[-1,0]}', '{"resize":[1000000,1000000]}',
                               '{"mean":[1]}', '{"std":[0,0,0]}', "[" * 100000, '["a",1,null]', '{"kind":"file"}']))
    del model.metadata_props[:]
    model.metadata_props.add(key=key, value=value)


def lie_depth(model, random):
    graph = helper.make_graph([helper.make_node("Identity", ["input"], ["deep"])], "deep", [],
                              [helper.make_tensor_value_info("deep", T.FLOAT, None)])
    for level in range(int(random.choice([3, 30, 90]))):
        inner = helper.make_node("If", ["condition"], [f"deep{level}"], then_branch=graph, else_branch=graph)
        if graph.ByteSize() > 2_000_000:
            break
        graph = helper.make_graph([inner], f"level{level}", [], [helper.make_tensor_value_info(f"deep{level}", T.FLOAT, None)])
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "condition"))
    model.graph.node.extend(graph.node)


def lie_functions(model, random):
    count = int(random.choice([2, 10, 41]))
    model.functions.extend(
        helper.make_function("f", f"F{i}", ["a"], ["b"],
                             [helper.make_node("Identity", ["a"], ["b"])] if i == 0 else
                             [helper.make_node(f"F{i - 1}", ["a"], ["c"], domain="f"),
                              helper.make_node(f"F{i - 1}", ["c"], ["b"], domain="f")],
                             [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)])
        for i in range(count))
    model.opset_import.append(helper.make_opsetid("f", 1))
    model.graph.node.append(helper.make_node(f"F{count - 1}", ["scores"], ["last"], domain="f"))
    model.graph.output[0].name = "last"


def lie_recursion(model, random):
    model.functions.append(helper.make_function("f", "F", ["a"], ["b"], [helper.make_node("F", ["a"], ["b"], domain="f")],
                                                [helper.make_opsetid("f", 1)]))
    model.opset_import.append(helper.make_opsetid("f", 1))
    model.graph.node.append(helper.make_node("F", ["scores"], ["last"], domain="f"))
    model.graph.output[0].name = "last"


def lie_growth(model, random):
    """Concat(t, t) of a constant, again and again."""
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "g0"))
    count = int(random.choice([5, 28, 36, 60]))
    for i in range(count):
        model.graph.node.append(helper.make_node("Concat", [f"g{i}", f"g{i}"], [f"g{i + 1}"], axis=0))
    model.graph.node.append(helper.make_node("ReduceSum", [f"g{count}"], ["grown"]))
    model.graph.node.append(helper.make_node("Add", ["scores", "grown"], ["last"]))
    model.graph.output[0].name = "last"


LIES = [value for name, value in sorted(globals().items()) if name.startswith("lie_")]


def forge(random, lie):
    model = copy.deepcopy(network() if random.random() < 0.7 else foreign_network())
    lie(model, random)
    return model


def mutate(random, data, text=False):
    """Some bytes changed, cut, doubled or put in. Of text, more often what means something to a parser."""
    data = bytearray(data)
    for _ in range(int(random.choice([1, 1, 2, 5]))):
        if not data:
            return b""
        at = int(random.integers(0, len(data)))
        # Headers and field tags are few among many weights: half of all changes hit the beginning.
        if random.random() < 0.4:
            at = int(random.integers(0, min(len(data), 256)))
        kind = int(random.integers(0, 7))
        if kind == 0:
            data[at] ^= 1 << int(random.integers(0, 8))
        elif kind == 1:
            data[at] = int(random.integers(0, 256))
        elif kind == 2:
            del data[at:]
        elif kind == 3:
            del data[at:at + int(random.integers(1, 9))]
        elif kind == 4:
            data[at:at] = data[at:at + int(random.integers(1, 65))]
        elif kind == 5:
            data[at:at + 8] = [0, 2**32 - 1, 2**63 - 1, 2**64 - 1][int(random.integers(0, 4))].to_bytes(8, "little")
        else:
            pieces = [b"-1", b"1e400", b"NaN", b"\"", b"{", b"[[[[", b"}", b",", b"\x00", b"\xff\xfe", b"9" * 40, b"\n", b":"]
            data[at:at] = pieces[int(random.integers(0, len(pieces)))] if text else bytes(random.integers(0, 256, 4).astype(np.uint8))
    return bytes(data)


def forge_json(random, document):
    """One value of a document replaced by one of another kind or size, removed, or repeated."""
    places = []

    def walk(value):
        if isinstance(value, dict):
            places.extend((value, key) for key in value)
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            places.extend((value, index) for index in range(len(value)))
            for each in value:
                walk(each)

    document = copy.deepcopy(document)
    walk(document)
    if not places:
        return json.dumps(document)
    for _ in range(int(random.choice([1, 1, 2]))):
        holder, key = places[int(random.integers(0, len(places)))]
        if isinstance(holder, list) and key >= len(holder) or isinstance(holder, dict) and key not in holder:
            continue
        odd = [None, True, -1, 0, 1, 2**31, 2**63, 2**64, -2**63, 1e308, 1e-320, 0.5, "", "x", "\x1b[2J", "a" * 70000, [], {},
               [[]], [0] * 1000, {"kind": "bench"}, [None], "1e999", "NaN"]
        kind = int(random.integers(0, 10))
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder.extend([copy.deepcopy(holder[key])] * 100)
        else:
            holder[key] = odd[int(random.integers(0, len(odd)))]
    text = json.dumps(document)
    return text if random.random() < 0.9 else text.replace("1", "1e999", 1)


def onnx_bytes(model):
    return model.SerializeToString()


def readable(data):
    """The model in the bytes, or None."""
    try:
        return onnx.load_from_string(data)
    except Exception:  # noqa: BLE001: protobuf raises what it likes
        return None
