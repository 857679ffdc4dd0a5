"""lathe.bench, lathe.report and lathe.show, and which commands have no function yet."""

import json
import re
import subprocess
import sys
import unittest

import lathe
from common import DEMO, FOLDER, MODEL, engine, pictures

QUICK = {"batch_sizes": [1, 8], "duration_s": 0.1, "time_limit_s": 0.3}

# The functions for the commands. What is left may only become less.
FUNCTIONS = {
    "autocast": lathe.autocast, "bench": lathe.bench, "build": lathe.build, "calibrate": lathe.calibrate,
    "compare": lathe.compare_models, "deploy": lathe.deploy, "eval": lathe.evaluate,
    "inspect": lathe.inspect, "optimize": lathe.optimize, "plan": lathe.plan,
    "quantize": lathe.quantize, "report": lathe.report, "run": lathe.Session.run, "sensitivity": lathe.sensitivity,
    "show": lathe.show, "simplify": lathe.simplify, "tune": lathe.tune,
}
WITHOUT_FUNCTION = {"completion", "convert-ranges", "demo", "doctor", "export", "man", "profile-data", "trtexec-log"}


class Commands(unittest.TestCase):
    def test_every_command_is_a_function_or_known_not_to_be_one(self):
        command = [sys.executable, "-m", "lathe", "--help"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        commands = set(re.findall(r"^  ([a-z][a-z-]+)  ", text, re.M))
        self.assertGreater(len(commands), 15, text)
        self.assertEqual(commands - set(FUNCTIONS), WITHOUT_FUNCTION)
        self.assertLessEqual(len(WITHOUT_FUNCTION), 8)


class Bench(unittest.TestCase):
    def test_engines_and_frameworks(self):
        engine().save(FOLDER / "one.engine")
        result = lathe.bench([FOLDER / "one.engine", engine()], against=["onnxruntime", "torch"], **QUICK)
        self.assertEqual({(row.name, row.batch) for row in result.rows},
                         {(name, batch) for name in ("one", "shapes.fp32", "onnxruntime") for batch in (1, 8)})
        for row in result.rows:
            self.assertTrue(0 < row.latency_ms.low <= row.latency_ms.value <= row.latency_ms.high)
            self.assertGreaterEqual(row.p99_ms, row.latency_ms.value)
            self.assertGreater(row.calls, 10)
        self.assertEqual({row.kind for row in result.rows}, {"engine", "onnxruntime"})
        self.assertGreater(result.rows[0].samples_per_second, 0)
        # The demo's network was made from no source file, so PyTorch cannot run it, which is told.
        self.assertEqual([gap.name for gap in result.gaps], ["pytorch"])
        self.assertTrue(result.gaps[0].reason)
        forth = result.speedup("one", "onnxruntime", 8)
        back = result.speedup("onnxruntime", "one", 8)
        self.assertAlmostEqual(forth.value * back.value, 1)
        self.assertTrue(back.low <= back.value <= back.high)
        with self.assertRaises(KeyError):
            result.speedup("one", "nobody")
        table = result.table()
        self.assertEqual(len(table), 6)
        self.assertIn("latency_ms_low", table.columns)
        self.assertEqual(result.document["kind"], "bench")

    def test_real_inputs(self):
        result = lathe.bench([engine()], data=pictures(8), batch_sizes=[4], duration_s=0, time_limit_s=0.2)
        self.assertEqual([(row.batch, row.samples_per_second) for row in result.rows], [(4, None)])

    def test_wrong_arguments_are_told(self):
        for call, code in ((lambda: lathe.bench([]), "invalid_argument"),
                           (lambda: lathe.bench([FOLDER / "none.engine"]), "not_found"),
                           (lambda: lathe.bench([engine()], against=["abacus"]), "invalid_argument"),
                           (lambda: lathe.bench([engine()], batch_sizes=[1000]), "out_of_range")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class Report(unittest.TestCase):
    def test_a_page_of_results(self):
        result = lathe.bench([engine()], **QUICK)
        file = FOLDER / "bench.json"
        file.write_text(json.dumps(result.document), encoding="utf-8")
        written = lathe.report([file], FOLDER / "page.html", title="A page")
        self.assertEqual(written.path, FOLDER / "page.html")
        self.assertIn("A page", written.path.read_text(encoding="utf-8"))
        self.assertEqual(written.charts, [])
        for call, code in ((lambda: lathe.report([]), "invalid_argument"),
                           (lambda: lathe.report([file], file), "invalid_argument"),
                           (lambda: lathe.report([FOLDER / "none.json"]), "not_found"),
                           (lambda: lathe.report([MODEL], FOLDER / "x.html"), "parse_error")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class Show(unittest.TestCase):
    def test_models_and_engines(self):
        picture = lathe.show(MODEL, FOLDER / "model.html")
        self.assertGreater(picture.nodes, 5)
        self.assertEqual((picture.timed, picture.explained), (0, 0))
        self.assertIn("Conv", picture.path.read_text(encoding="utf-8"))
        self.assertIn("<iframe", picture._repr_html_())
        timed = lathe.show(engine(), FOLDER / "engine.html")
        self.assertGreater(timed.timed, 3)

    def test_reasons_of_quantize(self):
        model = lathe.simplify(MODEL).model
        simple = FOLDER / "simple.onnx"
        model.save(simple)
        lathe.calibrate(model, DEMO / "calibrate", samples=16).save(FOLDER / "simple.ranges")
        command = [sys.executable, "-m", "lathe", "quantize", simple, "--ranges", FOLDER / "simple.ranges",
                   "--output", FOLDER / "shown.onnx", "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        (FOLDER / "quantize.json").write_text(told.stdout, encoding="utf-8")
        picture = lathe.show(simple, FOLDER / "reasons.html", results=[FOLDER / "quantize.json"])
        self.assertGreater(picture.explained, 3)
        self.assertIn("is int8: ", picture.path.read_text(encoding="utf-8"))

    def test_wrong_arguments_are_told(self):
        (FOLDER / "other.json").write_text('{"kind": "quantize", "decisions": []}', encoding="utf-8")
        for call, code in ((lambda: lathe.show(FOLDER / "none.onnx"), "not_found"),
                           (lambda: lathe.show(FOLDER / "other.json", FOLDER / "x.html"), "parse_error"),
                           (lambda: lathe.show(MODEL, FOLDER / "x.html", results=[FOLDER / "other.json"]), "mismatch"),
                           (lambda: lathe.show(3), "invalid_argument")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


if __name__ == "__main__":
    unittest.main()
