"""benchmarks/make_tables.py: what it writes, that it writes it twice alike, and that its check notices."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "make_tables.py"


def entry(subject, batch, median, noisy=False):
    return {"subject": subject, "batch": batch, "median_ms": median, "noisy": noisy}


BENCH = {
    "network": "Net",
    "machine": {"cpu": "Some CPU", "cores": 2, "virtual_machine": True},
    "libraries": {"openvino": "1"},
    "subjects": [
        {"name": "int8", "kind": "engine", "precision": "int8"},
        {"name": "pytorch", "kind": "pytorch", "precision": "fp32"},
    ],
    "latency": [entry("int8", 1, 1.2345), entry("int8", 8, 123.4), entry("pytorch", 1, 12.345, True)],
    "ratios": [{"subject": "int8", "reference": "pytorch", "batch": 1, "speedup": 10.0}],
}


GPU = {
    "network": "Net",
    "machine": {"gpu": "Some GPU", "driver": "1.2"},
    "libraries": {"torch": "3"},
    "clocks": {"after": {"clocks.sm": "1980 MHz"}},
    "subjects": [{"name": "int8", "precision": "int8"}],
    "latency": [
        {"subject": "int8", "size": "1", "device_ms": 0.15},
        {"subject": "compile-fp16", "size": "1", "device_ms": 0.45},
    ],
    "ratios": [
        {"subject": "int8", "reference": "compile-fp16", "size": "1", "times_as_fast": 3.0},
        {"subject": "int8", "reference": "eager-fp16", "size": "1", "times_as_fast": 6.0},
    ],
}


class MakeTables(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.readme = Path(self.folder.name) / "README.md"
        self.results = Path(self.folder.name) / "results"
        self.results.mkdir()
        self.readme.write_text("before\n<!-- table:latency -->\nold\n<!-- /table -->\nafter\n", encoding="utf-8")

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *options):
        command = [sys.executable, SCRIPT, "--readme", self.readme, "--results", self.results, *options]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_writes_the_results_between_the_marks(self):
        (self.results / "net.bench.json").write_text(json.dumps(BENCH), encoding="utf-8")
        self.assertNotEqual(self.run_script("--check").returncode, 0)
        self.assertEqual(self.run_script().returncode, 0)
        text = self.readme.read_text(encoding="utf-8")
        self.assertIn("| **Lathe int8** | int8 | 1.23 | 123 |\n", text)
        self.assertIn("| pytorch | fp32 | ~12.3 (10.00×) | – |\n", text)
        self.assertIn("Some CPU, 2 cores, virtual machine; openvino 1", text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
        self.assertNotIn("old", text)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_without_results_the_table_is_empty(self):
        self.assertEqual(self.run_script().returncode, 0)
        self.assertIn("<!-- table:latency -->\n<!-- /table -->", self.readme.read_text(encoding="utf-8"))

    def test_a_gpus_results_make_its_table(self):
        self.readme.write_text("<!-- table:gpu -->\n<!-- /table -->\n", encoding="utf-8")
        self.assertEqual(self.run_script("--check").returncode, 0)
        (self.results / "net.gpu.json").write_text(json.dumps(GPU), encoding="utf-8")
        self.assertEqual(self.run_script().returncode, 0)
        text = self.readme.read_text(encoding="utf-8")
        self.assertIn("| **Lathe int8** | 0.15 (3.00×) |\n", text)
        self.assertIn("| torch compile-fp16 | 0.45 |\n", text)
        self.assertIn("Some GPU, driver 1.2, 1980 MHz at the end, torch 3", text)
        self.assertEqual(self.run_script("--check").returncode, 0)

    def test_an_unknown_table_is_an_error(self):
        self.readme.write_text("<!-- table:nothing -->\n<!-- /table -->\n", encoding="utf-8")
        result = self.run_script()
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("unknown table 'nothing'", result.stderr)


if __name__ == "__main__":
    unittest.main()
