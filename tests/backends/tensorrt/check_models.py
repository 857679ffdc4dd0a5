"""Every graph that Lathe writes for four real models parses and builds in TensorRT-RTX, in the precision asked for.

usage: check_models.py LATHE_BINARY SHARED_DATA [MODEL...]

TensorRT-RTX's wheels build engines on a machine without a GPU (running them needs one). For ResNet-50,
EfficientNet-Lite0, MobileNetV1 and MiniLM this exports, simplifies, calibrates and quantises with the real program, then
builds fp32, fp16, bf16, int8 (beside fp16) and mixed (four products left in fp16) and checks that

- no warning of the parser or builder names a node of the graph or a tensor that a node makes;
- Conv, Gemm and MatMul compute in the precision asked for, by the parsed network's layer types: all of them, for int8 as
  many as INT8_PRODUCTS says, for mixed those but the ones left out;
- the constants that the network holds, the weights that the builder stored and the size of the plan are those of that
  precision.

Where the program has a TensorRT backend, it builds the same engines and their plans have the same sizes.
Exit code 77: the Python modules are missing.
"""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import onnx
    import tensorrt_rtx_bindings as trt
except (ImportError, OSError) as error:
    print(f"SKIPPED: {error}; install requirements/python.txt")
    sys.exit(77)

PRECISIONS = ("fp32", "fp16", "bf16", "int8", "mixed")
PRODUCTS = (trt.LayerType.CONVOLUTION, trt.LayerType.DECONVOLUTION, trt.LayerType.MATRIX_MULTIPLY)
# Products that each model's quantised graph has in int8: all of them. Fewer is a step back, more a reason to raise it.
INT8_PRODUCTS = {"resnet50": 54, "lite0": 50, "mobilenet_v1": 28, "minilm": 48}
BYTES = {trt.DataType.FLOAT: 4, trt.DataType.HALF: 2, trt.DataType.BF16: 2, trt.DataType.INT8: 1}
# A plan holds compiled kernels beside its weights. Measured: 0.5 to 8 MB, most for int8.
MOST_KERNEL_BYTES = 12_000_000


class Logger(trt.ILogger):
    """Keeps warnings and errors, and how many bytes of weights the builder says it stored."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.messages = []
        self.weight_bytes = None

    def log(self, severity, text):
        if severity <= trt.ILogger.WARNING:
            self.messages.append(text)
        if found := re.search(r"Total Weights Memory: (\d+) bytes", text):
            self.weight_bytes = int(found.group(1))


def models(shared):
    """Name: how to get the float model, calibration data, further arguments, op types left in float by `mixed`."""
    root = pathlib.Path(__file__).resolve().parents[3]
    preprocess = root / "benchmarks/peers/mobilenet_v1.preprocess.json"
    return {
        "resnet50": {
            "export": ["resnet50", "--weights", f"{shared}/models/resnet50_tiny_imagenet.pth", "--dynamic-batch"],
            "data": f"{shared}/tiny-imagenet/calibration",
        },
        "lite0": {"export": ["efficientnet-lite0", "--dynamic-batch"], "data": f"{shared}/imagenet/calibration"},
        "mobilenet_v1": {
            "file": f"{shared}/models/mobilenet_v1_0.75_224.onnx",
            "data": f"{shared}/imagenet/calibration",
            "calibrate": ["--preprocess", str(preprocess)],
        },
        "minilm": {
            "export": ["all-minilm-l6-v2", "--pooling", "mean", "--normalize"],
            "data": f"{shared}/text/sst2/dev.tsv",
        },
    }


def run(*command):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def write_graphs(lathe, spec, folder):
    """The graphs by precision, the file and precision that `lathe build` makes the same engine from, and how many
    products `mixed` leaves out."""
    simple = folder / "simple.onnx"
    if "export" in spec:
        run(lathe, "export", *spec["export"], "--output", folder / "model.onnx", "--quiet")
    run(lathe, "simplify", spec.get("file", folder / "model.onnx"), "--output", simple, "--quiet")
    run(lathe, "calibrate", simple, "--data", spec["data"], "--samples", 32, "--output", folder / "m.ranges", "--quiet",
        *spec.get("calibrate", []))
    products = [n.name for n in onnx.load(simple, load_external_data=False).graph.node
                if n.op_type in ("Conv", "Gemm", "MatMul")]
    left_out = []
    # Not the first: what follows it is then quantised behind its pooling, where calibration did not look.
    for name in (products[len(products) // 3], products[len(products) // 2], *products[-2:]):
        left_out += ["--exclude", name]
    files = {"fp32": simple}
    for name, extra in (("int8", []), ("mixed", left_out)):
        quantised = folder / f"{name}.q.onnx"
        # In all layers: it is TensorRT's reading of them that is looked at.
        run(lathe, "quantize", simple, "--ranges", folder / "m.ranges", "--target", "tensorrt", "--noisy-layers", "int8",
            "--output", quantised, "--quiet", *extra)
        files[name] = folder / f"{name}.onnx"
        run(lathe, "autocast", quantised, "--to", "fp16", "--output", files[name], "--quiet")
    for name in ("fp16", "bf16"):
        files[name] = folder / f"{name}.onnx"
        run(lathe, "autocast", simple, "--to", name, "--output", files[name], "--quiet")
    excluded = left_out.count("--exclude")
    sources = {name: (folder / f"{name}.q.onnx", "int8") if name in ("int8", "mixed") else (simple, name)
               for name in PRECISIONS}
    return files, sources, excluded


def count_product_weights(path):
    """How many weights the float graph's products have."""
    graph = onnx.load(path).graph
    read = {name for node in graph.node if node.op_type in ("Conv", "Gemm", "MatMul") for name in node.input[1:2]}
    return sum(math.prod(tensor.dims) for tensor in graph.initializer if tensor.name in read)


def moves(layer):
    """Moves elements, or chooses among them: a DequantizeLinear before it is as good as one behind it."""
    if layer.type != trt.LayerType.POOLING:
        return layer.type in (trt.LayerType.SHUFFLE, trt.LayerType.IDENTITY, trt.LayerType.SLICE)
    layer.__class__ = trt.IPoolingLayer  # whose type is the pooling's
    chooses = layer.type == trt.PoolingType.MAX
    layer.__class__ = trt.ILayer
    return chooses


def is_dequantised(tensor, producers):
    layer = producers.get(tensor.name)
    while layer is not None and moves(layer):
        layer = producers.get(layer.get_input(0).name)
    return layer is not None and layer.type == trt.LayerType.DEQUANTIZE


def inspect(network):
    """Precision of every product, and bytes of constants by type."""
    producers = {network.get_layer(i).get_output(j).name: network.get_layer(i)
                 for i in range(network.num_layers) for j in range(network.get_layer(i).num_outputs)}
    precisions, weights = [], {}

    def add(values):
        if values.dtype in BYTES or hasattr(values, "nbytes"):
            weights[str(values.dtype)] = weights.get(str(values.dtype), 0) + values.nbytes

    for i in range(network.num_layers):
        layer = network.get_layer(i)
        kind = layer.type
        if kind in PRODUCTS:
            factors = [layer.get_input(j) for j in range(min(layer.num_inputs, 2))]
            int8 = len(factors) == 2 and all(is_dequantised(f, producers) for f in factors)
            precisions.append("int8" if int8 else layer.get_output(0).dtype.name)
        if kind == trt.LayerType.CONVOLUTION:
            layer.__class__ = trt.IConvolutionLayer
            add(layer.kernel)
        elif kind == trt.LayerType.CONSTANT:
            layer.__class__ = trt.IConstantLayer
            add(layer.weights)
    return precisions, weights


def build(path):
    """Messages that name nodes, all messages, precisions, bytes of constants, of stored weights and of the plan."""
    graph = onnx.load(path).graph
    names = {name for node in graph.node for name in (node.name, *node.output) if len(name) > 3}
    logger = Logger()
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(path)):
        raise RuntimeError("; ".join(parser.get_error(i).desc() for i in range(parser.num_errors)))
    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        value = network.get_input(i)
        shapes = [[low if size < 0 else size for size in value.shape] for low in (1, 8, 32)]
        if -1 in value.shape:
            profile.set_shape(value.name, *shapes)
    config.add_optimization_profile(profile)
    precisions, weights = inspect(network)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("no engine: " + "; ".join(logger.messages))
    named = [text for text in logger.messages if any(name in text for name in names)]
    return named, logger.messages, precisions, weights, logger.weight_bytes, plan.nbytes


def judge(precision, precisions, weights, stored, plan, product_weights, int8_products, excluded):
    """What is wrong, as sentences. int8_products: those of the model in int8; excluded: of them, those `mixed` leaves."""
    wrong = []
    constants = sum(weights.values())
    wanted = {"fp32": "FLOAT", "fp16": "HALF", "bf16": "BF16", "int8": "int8", "mixed": "int8"}[precision]
    count = precisions.count(wanted)
    others = {name: precisions.count(name) for name in set(precisions) - {wanted}}
    if precision in ("fp32", "fp16", "bf16"):
        if others:
            wrong.append(f"products not in {wanted}: {others}")
    else:
        least = int8_products - (excluded if precision == "mixed" else 0)
        if set(others) - {"HALF"} or count < least:
            wrong.append(f"{count} products in int8, beside {others}, of at least {least}")
        if precision == "mixed" and others.get("HALF", 0) < excluded:
            wrong.append(f"{excluded} products were left out of int8, beside it are {others}")
    if stored is None:
        return wrong + ["the builder does not say how many bytes of weights it stored"]
    # Scales are stored by channel, kernels may pad channels: up to a quarter more.
    if not 0.95 * constants <= stored <= 1.25 * constants + 200_000:
        wrong.append(f"the builder stored {stored} bytes of weights, the network's constants are {constants}")
    if not stored <= plan <= stored + MOST_KERNEL_BYTES:
        wrong.append(f"the plan has {plan} bytes, {stored} of them weights")
    typed = {"fp32": ("float32", 4), "fp16": ("float16", 2), "bf16": ("BF16", 2), "int8": ("int8", 1)}
    if precision in typed:
        kind, width = typed[precision]
        found = sum(size for name, size in weights.items() if name.endswith(kind))
        if found < 0.98 * width * product_weights:
            wrong.append(f"{found} bytes of constants in {kind}, but the products have {product_weights} weights")
    return wrong


def has_backend(lathe):
    found = json.loads(run(lathe, "doctor", "--json"))["backends"]
    return any(backend["device"] == "tensorrt" and backend["available"] for backend in found)


def main():
    lathe, shared = sys.argv[1], sys.argv[2]
    if not os.path.isdir(shared):
        print(f"SKIPPED: no {shared}")
        sys.exit(77)
    os.environ.setdefault("LATHE_PYTHON", sys.executable)
    chosen = sys.argv[3:] or list(models(shared))
    backend = has_backend(lathe)
    failures = 0
    for name in chosen:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            files, sources, excluded = write_graphs(lathe, models(shared)[name], folder)
            product_weights = count_product_weights(files["fp32"])
            for precision in PRECISIONS:
                named, messages, precisions, weights, stored, plan = build(files[precision])
                wrong = judge(precision, precisions, weights, stored, plan, product_weights, INT8_PRODUCTS[name], excluded)
                wrong += [f"a message names a node or its output: {text}" for text in named]
                if backend:
                    source, asked = sources[precision]
                    engine = folder / "m.engine"
                    ranges = [] if name != "minilm" else [
                        part for tensor in ("input_ids", "attention_mask", "token_type_ids")
                        for part in ("--shape", f"{tensor}:1x1..8x8..32x32")]
                    # What is left out may be more than a tenth of the arithmetic.
                    allowed = ["--allow-fallback"] if precision == "mixed" else []
                    built = json.loads(run(lathe, "build", source, "--device", "tensorrt", "--precision", asked, "--plan",
                                           folder / "m.plan", "--output", engine, "--json", *ranges, *allowed))
                    own = (folder / "m.plan").stat().st_size
                    if abs(own - plan) > 0.01 * plan + 20_000:
                        wrong.append(f"lathe build's plan has {own} bytes, Python's {plan}")
                    if built["backend"] != "tensorrt":
                        wrong.append(f"built by {built['backend']}")
                text = ", ".join(f"{kind} {size / 1e6:.2f} MB" for kind, size in sorted(weights.items()))
                counts = {kind: precisions.count(kind) for kind in sorted(set(precisions))}
                print(f"{name} {precision}: plan {plan / 1e6:.2f} MB, of it weights {(stored or 0) / 1e6:.2f} MB, constants "
                      f"{text}, products {counts}, {len(messages)} messages" + ("; lathe build too" if backend else ""), flush=True)
                for text in sorted(set(messages)):
                    print(f"  says: {text[:160]}", flush=True)
                for sentence in wrong:
                    print(f"  WRONG: {sentence}", flush=True)
                failures += len(wrong)
    sys.exit(1 if failures else 0)


main()
