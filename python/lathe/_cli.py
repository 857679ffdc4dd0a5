"""The command `lathe`: the program in this package, with this Python for what needs one."""

from __future__ import annotations

import os
import sys

from . import _load


def main() -> None:
    """Replaces this process by the program."""
    _load.prepare_environment()
    libraries = _load.openvino_libraries()
    if libraries.parent.parent != _load.PACKAGE.parent:
        # The program looks in its own site-packages only.
        known = os.environ.get("LD_LIBRARY_PATH", "")
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{known}" if known else str(libraries)
    program = str(_load.program())
    sys.stdout.flush()
    os.execv(program, ["lathe", *sys.argv[1:]])
