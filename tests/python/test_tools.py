"""lathe.doctor, evaluate_task, profile_data, read_trtexec_logs, ranges for other tools, plan_prices and try_plan."""

import json
import unittest
from pathlib import Path

import lathe
from common import DEMO, FOLDER, MODEL, engine, pictures

LOGS = Path(__file__).resolve().parents[1] / "bench" / "logs"


class Doctor(unittest.TestCase):
    def test_the_processor_is_there(self):
        report = lathe.doctor()
        self.assertTrue(any(backend.available and backend.device == "cpu" for backend in report.backends))
        self.assertTrue(all(backend.cure for backend in report.backends if not backend.available))
        self.assertGreaterEqual(report.cores, 1)
        self.assertIn("avx2", report.features)
        self.assertEqual(report.document["kind"], "doctor")


class EvaluateTask(unittest.TestCase):
    def test_an_engine_beside_itself(self):
        engine()
        file = FOLDER / "shapes.engine"
        found = lathe.evaluate_task([file], DEMO / "evaluate", samples=24)
        self.assertEqual((found.task, found.samples), ("classification", 24))
        top1 = found.subjects[0].figure("top1")
        self.assertTrue(top1.low <= top1.value <= top1.high <= 1)
        scores = lathe.evaluate(engine(), DEMO / "evaluate", samples=24)
        self.assertEqual(top1.value, scores.top1.value)

        other = FOLDER / "other.engine"
        other.write_bytes(file.read_bytes())
        numbers = lathe.evaluate_task([other], DEMO / "evaluate", task="regression", reference=file, samples=8)
        self.assertEqual([subject.name for subject in numbers.subjects], ["shapes", "other"])
        self.assertEqual(numbers.subjects[1].figures[0].key, "r2")
        self.assertAlmostEqual(numbers.subjects[1].figures[0].value, 1, places=5)
        self.assertEqual(numbers.document["task"], "regression")
        with self.assertRaises(KeyError):
            numbers.subjects[1].figure("map")

    def test_wrong_arguments_are_told(self):
        engine()
        file = FOLDER / "shapes.engine"
        for call, code in ((lambda: lathe.evaluate_task([FOLDER / "none.engine"], FOLDER / "nowhere"), "not_found"),
                           (lambda: lathe.evaluate_task([file], FOLDER / "nowhere"), "not_found"),
                           (lambda: lathe.evaluate_task([], DEMO / "evaluate"), "invalid_argument"),
                           (lambda: lathe.evaluate_task([file], DEMO / "evaluate", task={"name": "regression", "size": 3}),
                            "invalid_argument")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class Ranges(unittest.TestCase):
    def test_for_other_tools(self):
        model = lathe.simplify(MODEL).model
        some = lathe.calibrate(model, pictures(8), samples=8)
        every = lathe.calibrate(model, pictures(8), samples=8, all_tensors=True)
        self.assertGreater(len(every.tensors), len(some.tensors))
        cache = FOLDER / "m.cache"
        every.write(cache, tensorrt="8.6.1")
        self.assertTrue(cache.read_text(encoding="utf-8").startswith("TRT-8601-EntropyCalibration2\n"))
        converted = lathe.convert_ranges(cache, format="dynamic-ranges")
        self.assertEqual(converted, FOLDER / "m.json")
        self.assertEqual(len(json.loads(converted.read_text(encoding="utf-8"))), len(every.tensors))
        for call in (lambda: every.write(cache, tensorrt="11.0"), lambda: every.write(cache, "csv"),
                     lambda: lathe.convert_ranges(converted, converted)):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, "invalid_argument")


class ProfileData(unittest.TestCase):
    def test_a_model_without_a_tokenizer_has_no_lengths(self):
        for call, code in ((lambda: lathe.profile_data(MODEL, "texts.tsv"), "unsupported"),
                           (lambda: lathe.profile_data(MODEL, "texts.tsv", buckets=0), "invalid_argument"),
                           (lambda: lathe.profile_data(FOLDER / "none.onnx", "texts.tsv"), "not_found")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class TrtexecLogs(unittest.TestCase):
    def test_figures_and_what_is_missing(self):
        read = lathe.read_trtexec_logs(LOGS / "trt1001_version_compatible.log", LOGS / "failed.log")
        self.assertEqual([run.version for run in read.measured], ["10.0.1"])
        self.assertGreater(read.measured[0].samples_per_second, 0)
        self.assertEqual(len(read.unavailable), 1)
        self.assertEqual(read.document["source"], "trtexec")
        for call, code in ((lambda: lathe.read_trtexec_logs(), "invalid_argument"),
                           (lambda: lathe.read_trtexec_logs(LOGS / "broken_trt7.log"), "parse_error")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class PlanFurther(unittest.TestCase):
    def test_prices_and_a_load_served_here(self):
        engine()
        file = FOLDER / "shapes.engine"
        measured = lathe.bench([file], batch_sizes=[1, 8], duration_s=0.1, time_limit_s=0.3)
        (FOLDER / "rented.json").write_text(json.dumps(measured.document), encoding="utf-8")
        prices = FOLDER / "prices.csv"
        prices.write_text("name,per_hour,currency,from\nsmall,0.5,EUR,rented.json\n", encoding="utf-8")
        priced = lathe.plan_prices(prices, "p99=10s", "10/s")
        self.assertEqual((priced.currency, priced.cheapest.counts, priced.with_spare.counts), ("EUR", [1], [2]))
        self.assertIsNone(priced.cheapest.without_one_ms)
        self.assertGreater(priced.kinds[0].rate_each, 10)
        self.assertEqual(priced.document["prices"]["currency"], "EUR")
        with self.assertRaises(lathe.Error):
            lathe.plan_prices(prices, "p99=10s", "")

        found = lathe.plan(measured, "p99=10s", "200/s")
        self.assertTrue(any("--pause" in warning for warning in found.warnings))
        trials = lathe.try_plan(measured, found.choice, file, "p99=10s", "200/s", seconds=0.6)
        self.assertEqual((trials.from_bench.requests, trials.from_load.requests), (120, 120))
        self.assertGreater(trials.from_load.measured.median_ms, 0)
        tried = FOLDER / "tried.json"
        tried.write_text(json.dumps({"tried": dict(trials.document)}), encoding="utf-8")
        self.assertTrue(lathe.plan(measured, "p99=10s", "200/s", served=tried).meets)


if __name__ == "__main__":
    unittest.main()
