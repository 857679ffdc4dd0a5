"""Finds OpenVINO's library before the extension is loaded, and the parts of this package that are programs or data."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def openvino_libraries() -> Path:
    """The folder with libopenvino.so of the installed package openvino, which is not imported: that takes long."""
    spec = importlib.util.find_spec("openvino")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        folder = Path(place) / "libs"
        if folder.is_dir():
            return folder
    raise ImportError("lathe needs the package openvino, which is not installed: pip install openvino")


def load_openvino() -> None:
    """The extension finds OpenVINO in its own site-packages by itself; loaded here, it is found wherever it is."""
    folder = openvino_libraries()
    if folder.parent.parent == PACKAGE.parent:
        return
    for file in sorted(folder.glob("libopenvino.so.*")):
        ctypes.CDLL(str(file))


def program() -> Path:
    """The lathe program of this package."""
    return PACKAGE / "bin" / "lathe"


def command() -> list[str]:
    """What starts the program where this Python's packages are; nothing where no Python is known."""
    return [sys.executable, "-m", "lathe"] if sys.executable else []


def prepare_environment() -> None:
    """Processes that the library starts (PyTorch, ONNX Runtime) run in this Python, unless the user named another."""
    if sys.executable:
        os.environ.setdefault("LATHE_PYTHON", sys.executable)
    packages = PACKAGE / "share" / "lathe" / "python"
    if packages.is_dir():
        os.environ.setdefault("LATHE_PYTHON_DIR", str(packages))
