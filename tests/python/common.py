"""What the tests of the package share: the demo's network and pictures, and engines of it, built once."""

import os
import tempfile
from functools import lru_cache
from pathlib import Path

import lathe
import numpy as np

DEMO = Path(os.environ["LATHE_DEMO"])
MODEL = DEMO / "shapes.onnx"
_FOLDER = tempfile.TemporaryDirectory()
FOLDER = Path(_FOLDER.name)


def pictures(count, seed=0):
    """Random samples as the network takes them."""
    return np.random.default_rng(seed).normal(size=(count, 3, 64, 64)).astype(np.float32)


def loud_network():
    """Layers of which the first reads one number that is far larger than the others and counts for nothing: in int8 its
    output would be noise. Gives the model and samples."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    widths = [64, 32] + [256] * 6
    weights = [random.normal(size=(above, below)) / above**0.5 for above, below in zip(widths, widths[1:])]
    weights[0][0] = 0
    nodes = []
    for index in range(len(weights)):
        nodes.append(helper.make_node("MatMul", [f"v{index}", f"w{index}"], [f"m{index}"], name=f"product{index}"))
        nodes.append(helper.make_node("Relu", [f"m{index}"], [f"v{index + 1}"]))
    graph = helper.make_graph(
        nodes, "loud", [helper.make_tensor_value_info("v0", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info(f"v{len(weights)}", TensorProto.FLOAT, ["batch", 256])],
        [numpy_helper.from_array(weight.astype(np.float32), f"w{index}") for index, weight in enumerate(weights)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    samples = random.normal(size=(64, 64)).astype(np.float32)
    samples[:, 0] *= 2000
    onnx.checker.check_model(model)
    return model, samples


@lru_cache(maxsize=None)
def engine():
    """An FP32 engine, saved and loaded."""
    path = FOLDER / "shapes.engine"
    lathe.build(lathe.Model.load(MODEL), name="shapes", shapes=["1x3x64x64..8x3x64x64..64x3x64x64"]).save(path)
    return lathe.Engine.load(path)
