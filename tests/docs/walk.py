"""Walks through a Markdown document as its reader would: every command in order, in one folder.

    walk.py DOCUMENT LATHE DATA

Fenced blocks are run by bash, which stops at the first failure: `sh setup` goes before every other block, `sh` is a step,
`sh check` a check, and the rest is prose. A check must succeed where it stands and fail in an empty folder: one that
cannot fail proves nothing. LATHE is called `lathe` there, DATA is the folder of photos. Exit 77 where DATA is absent, or
PyTorch in LATHE_PYTHON (else python3), which the export needs.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FENCE = re.compile(r"^```sh(?: (setup|check))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(text):
    """Kind, commands and line of each block."""
    return [(match[1] or "step", match[2], text.count("\n", 0, match.start()) + 2) for match in FENCE.finditer(text)]


def run(commands, folder, environment):
    start = time.perf_counter()
    result = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return result.returncode, result.stdout, time.perf_counter() - start


def main():
    document, lathe, data = Path(sys.argv[1]), Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    found = blocks(document.read_text(encoding="utf-8"))
    setup = "".join(commands for kind, commands, _ in found if kind == "setup")
    steps = [block for block in found if block[0] != "setup"]
    if not any(kind == "check" for kind, _, _ in steps) or not setup:
        sys.exit(f"{document.name} has no setup or no check: nothing would be proven")
    if not data.is_dir():
        print(f"SKIPPED: no photos at {data}")
        sys.exit(77)
    python = os.environ.get("LATHE_PYTHON", "python3")
    lacking = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('torch', 'onnx', 'efficientnet_lite_pytorch'))))"
    if subprocess.run([python, "-c", lacking], check=False).returncode != 0:
        print(f"SKIPPED: {python} has no PyTorch; LATHE_PYTHON names one that has")
        sys.exit(77)
    environment = os.environ | {"PATH": f"{lathe.parent}:{os.environ['PATH']}", "DATA": str(data)}
    failures = 0
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as empty:
        for kind, commands, line in steps:
            code, output, seconds = run(setup + commands, work, environment)
            print(f"== {document.name}:{line} {kind}: exit {code}, {seconds:.1f} s\n{output}", flush=True)
            if code != 0:
                sys.exit(f"{document.name}:{line}: exit {code} of\n{commands}")
            if kind == "check" and run(setup + commands, empty, environment)[0] == 0:
                print(f"{document.name}:{line}: this check succeeds in an empty folder")
                failures += 1
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
