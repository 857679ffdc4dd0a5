"""What `pip install .` calls (PEP 517): scikit-build-core's backend, behind scripts/setup.sh.

setup.sh installs the Debian packages that are missing and builds ONNX's C++ library, once for all further builds, before
CMake looks for them. Where LATHE_ONNX_ROOT is set, somebody has done so already and nothing is touched.
"""

import os
import subprocess
import sys
from pathlib import Path

from scikit_build_core import build as _build
from scikit_build_core.build import (  # noqa: F401  (hooks of PEP 517 that pass through)
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

SETUP = Path(__file__).resolve().parent / "setup.sh"
WANTED = ("LATHE_ONNX_ROOT", "LATHE_CUDNN_FRONTEND_ROOT")


def prepare() -> None:
    """Sets the environment variables that CMake reads. SystemExit, with setup.sh's last words, where it fails."""
    if os.environ.get("LATHE_ONNX_ROOT"):
        return
    script = f'. "$0"; for name in {" ".join(WANTED)}; do printf "%s=%s\\n" "$name" "${{!name}}" >&3; done'
    reader, writer = os.pipe()
    with os.fdopen(reader) as answers:
        try:
            ended = subprocess.run(
                ["bash", "-c", f"exec 3>&{writer}; {script}", str(SETUP)],
                env={**os.environ, "LATHE_SETUP": "wheel", "LATHE_PYTHON": sys.executable},
                stdin=subprocess.DEVNULL,
                pass_fds=[writer],
            )
        finally:
            os.close(writer)
        if ended.returncode != 0:
            sys.exit("Lathe: what it is built from could not be installed; the cause is above")
        for line in answers:
            name, _, value = line.rstrip("\n").partition("=")
            if value:
                os.environ[name] = value


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """pyproject.toml names every tool with its version: CMake and Ninja of the machine are not asked for."""
    return []


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    """scikit-build-core's, after prepare()."""
    prepare()
    return _build.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    """scikit-build-core's, after prepare()."""
    prepare()
    return _build.build_editable(wheel_directory, config_settings, metadata_directory)
