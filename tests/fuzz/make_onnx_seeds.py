#!/usr/bin/env python3
"""Write the seed corpus of the ONNX reader's fuzz target: small models, one for each part of the format.

    python tests/fuzz/make_onnx_seeds.py tests/fuzz/corpus/onnx_reader
"""
import os
import sys

from onnx import TensorProto, helper, parser

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'

TEXTS = {
    "conv": HEAD + """agraph (float[N,3,8,8] x) => (float[N,4,6,6] y)
        <float[4,3,3,3] w = {%s}> { c = Conv <strides = [1,1]> (x, w)  y = Relu(c) }""" % ", ".join(["0.5"] * 108),
    "reshape": HEAD + """agraph (float[1,3,4] x) => (float[1,12] y) <int64[2] s = {1, -1}> { y = Reshape(x, s) }""",
    "shapes": HEAD + """agraph (float[batch,3,4] x) => (float[a,b] y) { s = Shape(x)
        i = Constant <value = int64[1] {0}> () f = Gather <axis = 0> (s, i) r = Constant <value = int64[1] {12}> ()
        t = Concat <axis = 0> (f, r) y = Reshape(x, t) }""",
    "if": HEAD + """agraph (bool c, float[2,3] x) => (float[n,m] y) { y = If (c) <
        then_branch = a () => (float[n,m] u) { u = Transpose(x) },
        else_branch = b () => (float[n,m] v) { v = Identity(x) }> }""",
    "loop": HEAD + """agraph (int64 n, bool c, float[2] x) => (float[2] y) { y = Loop (n, c, x) <
        body = b (int64 i, bool d, float[2] p) => (bool e, float[2] q) { e = Identity(d) q = Add(p, p) }> }""",
    "qdq": HEAD + """agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}>
        { q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z) }""",
    "function": '<ir_version: 9, opset_import: ["" : 18, "local" : 1]>\n' + """
        agraph (float[2] x) => (float[2] y) { y = local.f <axis = 0> (x) }
        <domain: "local", opset_import: ["" : 18]> f <axis> (a) => (b) { b = Softmax <axis : int = @axis> (a) }""",
    "sequence": HEAD + """agraph (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }""",
    "lstm": HEAD + """agraph (float[5,2,3] x, float[1,8,3] w, float[1,8,2] r) => (float[s,d,b,h] y)
        { y = LSTM <hidden_size = 2> (x, w, r) }""",
    "old": '<ir_version: 3, opset_import: ["" : 8]>\n'
    + "agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }",
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, text in TEXTS.items():
        with open(os.path.join(sys.argv[1], name + ".onnx"), "wb") as file:
            file.write(parser.parse_model(text).SerializeToString())

    # Parts that the text syntax does not reach.
    node = helper.make_node("Everything", ["x", "", "sparse"], ["y"], domain="com.example", floats=[1.0], ints=[1, -1])
    node.attribute.append(helper.make_attribute("tensor", helper.make_tensor("t", TensorProto.INT4, [3], [1, 2, 3])))
    node.attribute.append(helper.make_attribute("strings", ["a", "b"]))
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("indices", TensorProto.INT64, [1], [2])
    graph = helper.make_graph(
        [node],
        "everything",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", None, 3])],
        [helper.make_tensor_value_info("y", TensorProto.BFLOAT16, None)],
        initializer=[
            helper.make_tensor("h", TensorProto.FLOAT16, [2], [1.0, 2.0]),
            helper.make_tensor("s", TensorProto.STRING, [1], [b"text"]),
            helper.make_tensor("f6", TensorProto.INT32, [2], [1, 2]),
        ],
        sparse_initializer=[helper.make_sparse_tensor(values, indices, [5])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)], ir_version=10
    )
    external = model.graph.initializer.add()
    external.name, external.data_type, external.data_location = "e", TensorProto.FLOAT, TensorProto.EXTERNAL
    external.dims.append(2)
    entry = external.external_data.add()
    entry.key, entry.value = "location", "weights.data"
    with open(os.path.join(sys.argv[1], "external.onnx"), "wb") as file:
        file.write(model.SerializeToString())
    del model.graph.initializer[-1]
    with open(os.path.join(sys.argv[1], "everything.onnx"), "wb") as file:
        file.write(model.SerializeToString())


if __name__ == "__main__":
    main()
