"""No command of the program does what the library cannot: each command's work is a function in include/lathe, or one in
Python where PyTorch does it. Left are those that only print the program's own options. A new command fails this until it
is in one of the lists.

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
    "convert-ranges": ("ranges.hpp", "convert_ranges"),
    "demo": ("optimize.hpp", "optimize"),
    "deploy": ("deploy.hpp", "deploy"),
    "doctor": ("doctor.hpp", "doctor"),
    "eval": ("evaluate_task.hpp", "evaluate_task"),
    "inspect": ("inspect.hpp", "inspect"),
    "optimize": ("optimize.hpp", "optimize"),
    "plan": ("plan.hpp", "plan"),
    "profile-data": ("lengths.hpp", "profile_data"),
    "quantize": ("quantize.hpp", "quantize"),
    "report": ("report.hpp", "write_report"),
    "run": ("engine.hpp", "run"),
    "sensitivity": ("sensitivity.hpp", "sensitivity"),
    "show": ("show.hpp", "show"),
    "simplify": ("simplify.hpp", "simplify"),
    "trtexec-log": ("trtexec.hpp", "read_trtexec_logs"),
    "tune": ("tune.hpp", "tune"),
}
# What options of a command do by a function of their own.
OF_OPTIONS = {
    "calibrate --all-tensors": ("ranges.hpp", "calibrate_every_tensor"),
    "calibrate --format": ("ranges.hpp", "write_ranges"),
    "plan --prices": ("plan.hpp", "plan_prices"),
    "plan --try": ("plan.hpp", "try_plan"),
}
# PyTorch does the work, so the function is of the Python package: its file, and what it is called there.
IN_PYTHON = {"export": ("_inputs.py", "export_torch")}
# Prints the options of the program itself.
OF_THE_PROGRAM = {"completion", "man"}


def main():
    program, headers = sys.argv[1], Path(sys.argv[2]) / "include" / "lathe"
    text = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z][a-z-]+)  ", text.partition("Subcommands:")[2], re.M))
    known = FUNCTIONS.keys() | IN_PYTHON.keys() | OF_THE_PROGRAM
    wrong = []
    if len(commands) < 20:
        wrong.append(f"only {len(commands)} commands were read from --help:\n{text}")
    for command in sorted(commands - known):
        wrong.append(f"lathe {command} has no function in include/lathe: add one, and name it in FUNCTIONS")
    for command in sorted(known - commands):
        wrong.append(f"there is no command {command}: take it out of the list")
    for command, (header, function) in sorted((FUNCTIONS | OF_OPTIONS).items()):
        code = re.sub(r"//.*", "", (headers / header).read_text(encoding="utf-8"))
        declared = re.search(rf"\b{function}\(", code)
        if declared is None:
            wrong.append(f"lathe {command}: {header} declares no {function}")
    for command, (file, function) in sorted(IN_PYTHON.items()):
        text = (Path(sys.argv[2]) / "python" / "lathe" / file).read_text(encoding="utf-8")
        if re.search(rf"^def {function}\(", text, re.M) is None:
            wrong.append(f"lathe {command}: python/lathe/{file} has no {function}")
    print("\n".join(wrong) or f"{len(known)} of {len(commands)} commands: {len(FUNCTIONS)} are functions of the library, "
                              f"{len(IN_PYTHON)} of the Python package, {len(OF_THE_PROGRAM)} print the program's own options")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
