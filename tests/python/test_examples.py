"""examples/python, run as a user runs them."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

import lathe
from common import DEMO, FOLDER, MODEL

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments):
    command = [sys.executable, EXAMPLES / name, *arguments]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=FOLDER, check=False)
    if ran.returncode != 0:
        raise AssertionError(f"{name} ended with {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Examples(unittest.TestCase):
    def test_every_example_is_run_here(self):
        self.assertEqual({path.name for path in EXAMPLES.glob("*.py")},
                         {"behind_torch_compile.py", "classify.py", "int8_step_by_step.py", "optimize_module.py"})

    def test_optimize_module(self):
        told = run("optimize_module.py", "optimized")
        scores = [float(score) for score in re.findall(r"top-1 ([0-9.]+) %", told)]
        self.assertGreaterEqual(len(scores), 2, told)
        self.assertGreater(min(scores), 90, told)
        self.assertIn("class ", told)

    def test_int8_step_by_step_and_classify(self):
        folder = FOLDER / "steps"
        told = run("int8_step_by_step.py", MODEL, DEMO / "calibrate", DEMO / "evaluate", folder)
        self.assertGreater(float(re.search(r"the same class for ([0-9.]+) %", told)[1]), 90, told)
        self.assertRegex(told, r"int8 is [0-9.]+ times as fast")
        self.assertEqual(lathe.Engine.load(folder / "int8.engine").metadata["precision"], "int8")
        # The folders of the labelled pictures are their classes.
        pictures = sorted((DEMO / "evaluate").glob("*/*"))[::9]
        seen = run("classify.py", folder / "int8.engine", *pictures)
        self.assertEqual(len(seen.splitlines()), len(pictures))
        right = [f": {path.parent.name} (" in line for path, line in zip(pictures, seen.splitlines())]
        self.assertGreater(sum(right) / len(right), 0.8, seen)

    def test_behind_torch_compile(self):
        told = run("behind_torch_compile.py")
        self.assertLess(float(re.search(r"largest difference: (\S+)", told)[1]), 1e-4, told)
        self.assertIn("(32, 10)", told)


if __name__ == "__main__":
    unittest.main()
