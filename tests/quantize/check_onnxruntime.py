"""Runs MODEL.onnx on IMAGE-like seeded inputs in ONNX Runtime beside its float original and compares the outputs.

usage: check_onnxruntime.py FLOAT.onnx QUANTIZED.onnx LEAST_COSINE [OP=COUNT ...]
OP=COUNT: the optimised graph must hold at least so many nodes of that type. Exit code 77: a module is missing.
"""

import collections
import os
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"SKIPPED: {error}; set LATHE_PYTHON to a Python that has it")
    sys.exit(77)


def session(path, optimised=""):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if optimised:
        options.optimized_model_filepath = optimised
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def main():
    float_path, quantized_path, least_cosine = sys.argv[1], sys.argv[2], float(sys.argv[3])
    wanted = dict(argument.split("=") for argument in sys.argv[4:])
    onnx.checker.check_model(quantized_path, full_check=True)
    with tempfile.TemporaryDirectory() as folder:
        optimised = os.path.join(folder, "optimised.onnx")
        quantized = session(quantized_path, optimised)
        counts = collections.Counter(node.op_type for node in onnx.load(optimised).graph.node)
    for op, count in wanted.items():
        if counts[op] < int(count):
            sys.exit(f"only {counts[op]} {op} of {count}: {dict(counts)}")
    reference = session(float_path)
    random = numpy.random.default_rng(7)
    feeds = {}
    for value in reference.get_inputs():
        shape = [size if isinstance(size, int) else 2 for size in value.shape]
        # Smooth noise: neighbouring pixels are alike, as in photographs.
        noise = random.uniform(-1, 1, shape).astype(numpy.float32)
        if noise.ndim == 4:
            coarse = noise[:, :, :: 16, :: 16].repeat(16, 2).repeat(16, 3)
            noise = coarse[:, :, : noise.shape[2], : noise.shape[3]]
        feeds[value.name] = noise
    for expected, actual in zip(reference.run(None, feeds), quantized.run(None, feeds)):
        a, b = expected.ravel().astype(float), actual.ravel().astype(float)
        if not numpy.isfinite(b).all():
            sys.exit("the quantised model gives NaN or infinity")
        cosine = float(a @ b / max(numpy.linalg.norm(a) * numpy.linalg.norm(b), 1e-30))
        print(f"cosine {cosine:.5f}, {dict(counts)}")
        if cosine < least_cosine:
            sys.exit(f"cosine {cosine} under {least_cosine}")


main()
