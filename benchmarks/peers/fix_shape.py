"""A model whose one input has a fixed shape, as the peers measure best.

    python benchmarks/peers/fix_shape.py model.onnx fixed.onnx 1x3x640x640
"""

import sys

import onnx


def main():
    model = onnx.load(sys.argv[1])
    sizes = [int(size) for size in sys.argv[3].split("x")]
    known = {tensor.name for tensor in model.graph.initializer}
    (value,) = [each for each in model.graph.input if each.name not in known]
    for dimension, size in zip(value.type.tensor_type.shape.dim, sizes, strict=True):
        dimension.dim_value = size
    for each in model.graph.output:
        each.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    onnx.save(onnx.shape_inference.infer_shapes(model), sys.argv[2])


if __name__ == "__main__":
    main()
