"""Parses and builds an ONNX model with TensorRT-RTX, which needs no GPU for that.

usage: check_tensorrt_rtx.py MODEL.onnx [refused]
refused: the parser or builder must reject the model. Exit code 77: the module is missing.
"""

import sys

try:
    try:
        import tensorrt_rtx as tensorrt
    except ImportError:
        import tensorrt_rtx_bindings as tensorrt
except (ImportError, OSError) as error:
    print(f"SKIPPED: {error}; install tensorrt-rtx-cu13-libs and tensorrt-rtx-cu13-bindings")
    sys.exit(77)


def build(path):
    """The size of the engine in bytes, or the reason why there is none."""
    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network = builder.create_network(0)
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(path):
        return "parser: " + "; ".join(parser.get_error(i).desc() for i in range(parser.num_errors))
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    dynamic = False
    for i in range(network.num_inputs):
        value = network.get_input(i)
        if -1 in value.shape:
            shape = [1 if size < 0 else size for size in value.shape]
            profile.set_shape(value.name, shape, shape, shape)
            dynamic = True
    if dynamic:
        config.add_optimization_profile(profile)
    engine = builder.build_serialized_network(network, config)
    return engine.nbytes if engine is not None else "builder gave no engine"


def main():
    result = build(sys.argv[1])
    refused = len(sys.argv) > 2 and sys.argv[2] == "refused"
    print(result)
    if refused != isinstance(result, str):
        sys.exit(f"{sys.argv[1]} was {'built' if refused else 'refused'}: {result}")


main()
