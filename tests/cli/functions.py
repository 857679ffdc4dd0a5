"""Every command of the program is a function of the library, or is known to have none: the count of what the command line
can do alone. A new command fails this until it is in one of the two lists.

    functions.py LATHE SOURCE
"""

import re
import subprocess
import sys
from pathlib import Path

# The function that does the command's work, and the header in include/lathe/ that declares it.
FUNCTIONS = {
    "autocast": ("autocast.hpp", "autocast"),
    "bench": ("bench.hpp", "benchmark"),
    "build": ("engine.hpp", "build"),
    "calibrate": ("calibrate.hpp", "run"),
    "compare": ("compare.hpp", "compare_models"),
    "demo": ("optimize.hpp", "optimize"),
    "deploy": ("deploy.hpp", "deploy"),
    "eval": ("evaluate.hpp", "evaluate_engine"),
    "inspect": ("inspect.hpp", "inspect"),
    "optimize": ("optimize.hpp", "optimize"),
    "plan": ("plan.hpp", "plan"),
    "quantize": ("quantize.hpp", "quantize"),
    "report": ("report.hpp", "write_report"),
    "run": ("engine.hpp", "run"),
    "sensitivity": ("sensitivity.hpp", "sensitivity"),
    "show": ("show.hpp", "show"),
    "simplify": ("simplify.hpp", "simplify"),
    "tune": ("tune.hpp", "tune"),
}
# What has no function, and why.
PROGRAM_ALONE = {
    "completion": "about the program itself",
    "convert-ranges": "turns one file into another",
    "doctor": "tells a person what this machine lacks",
    "export": "PyTorch does it, in Python: lathe_export and lathe.from_torch",
    "man": "about the program itself",
    "profile-data": "not moved yet",
    "trtexec-log": "not moved yet",
}


def main():
    program, headers = sys.argv[1], Path(sys.argv[2]) / "include" / "lathe"
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z][a-z-]+)  ", text.partition("Subcommands:")[2], re.M))
    wrong = []
    if len(commands) < 20:
        wrong.append(f"only {len(commands)} commands were read from --help:\n{text}")
    for command in sorted(commands - set(FUNCTIONS) - set(PROGRAM_ALONE)):
        wrong.append(f"lathe {command} has no function in include/lathe: add one, and name it in FUNCTIONS")
    for command in sorted((set(FUNCTIONS) | set(PROGRAM_ALONE)) - commands):
        wrong.append(f"there is no command {command}: take it out of the list")
    for command in sorted(set(FUNCTIONS) & set(PROGRAM_ALONE)):
        wrong.append(f"{command} is in both lists")
    for command, (header, function) in sorted(FUNCTIONS.items()):
        code = re.sub(r"//.*", "", (headers / header).read_text(encoding="utf-8"))
        declared = re.search(rf"\b{function}\(", code)
        if declared is None:
            wrong.append(f"lathe {command}: {header} declares no {function}")
    print("\n".join(wrong) or f"{len(FUNCTIONS)} of {len(commands)} commands are functions of the library")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
