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


@lru_cache(maxsize=None)
def engine():
    """An FP32 engine, saved and loaded."""
    path = FOLDER / "shapes.engine"
    lathe.build(lathe.Model.load(MODEL), name="shapes", shapes=["1x3x64x64..8x3x64x64..64x3x64x64"]).save(path)
    return lathe.Engine.load(path)
