#!/usr/bin/env python3
"""What the last run of the tests in a build folder left out, and why: one line a reason.

    not-run.py BUILD [SUMMARY]     (SUMMARY: ctest's output, whose last verdict is printed again at the end)
"""

import collections
import pathlib
import re
import shutil
import sys


def reasons(log):
    """By test, what it says of why it was left out."""
    found = {}
    for part in re.split(r"^\d+/\d+ Testing: ", log, flags=re.MULTILINE)[1:]:
        name = part.split("\n", 1)[0]
        said = re.search(r"SKIPPED: *(.+)", part)
        found[name] = said.group(1).strip() if said else "it does not say why"
    return found


def left_out(build):
    """Names of the tests by reason, in the order of their number."""
    folder = build / "Testing" / "Temporary"
    listed = folder / "LastTestsDisabled.log"
    names = [line.split(":", 1)[1] for line in listed.read_text().splitlines()] if listed.exists() else []
    why = reasons((folder / "LastTest.log").read_text(errors="replace"))
    grouped = collections.defaultdict(list)
    for name in names:
        grouped[why.get(name, "it does not say why")].append(name)
    return grouped


def not_built(build):
    """Parts that have no tests in this build at all."""
    cache = (build / "CMakeCache.txt").read_text(errors="replace") if (build / "CMakeCache.txt").exists() else ""
    if re.search(r"^LATHE_CUDA:\w+=OFF$", cache, re.MULTILINE) or not shutil.which("nvcc"):
        yield "the CUDA engine's device code: built without CUDA here"
    if not shutil.which("nvidia-smi"):
        yield "kernels, engines and TensorRT on a GPU: there is none here; scripts/gpu-check.sh runs them where there is one"
    if not re.search(r"^LATHE_CHECKS:\w+=ON$", cache, re.MULTILINE):
        yield "lint, sanitizers and fuzzing: left out by --quick or LATHE_CHECKS=OFF"


def main():
    build = pathlib.Path(sys.argv[1])
    lines = [f"{len(names)} test{'s' if len(names) > 1 else ''} ({', '.join(names[:3])}"
             f"{', …' if len(names) > 3 else ''}): {reason}" for reason, names in left_out(build).items()]
    lines += not_built(build)
    print("\n== Not run" + ("" if lines else ": nothing"))
    for line in lines:
        print("  " + line)
    if len(sys.argv) > 2:
        verdicts = re.findall(r"^\d+% tests passed.*$", pathlib.Path(sys.argv[2]).read_text(errors="replace"), re.MULTILINE)
        print("\n" + verdicts[-1] if verdicts else "")


if __name__ == "__main__":
    main()
