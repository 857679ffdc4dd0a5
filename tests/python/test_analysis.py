"""lathe.inspect, lathe.compare_models, lathe.sensitivity and lathe.plan."""

import json
import math
import os
import sys
import unittest
import unittest.mock

import lathe
import numpy as np
from common import DEMO, FOLDER, MODEL, engine, loud_network, pictures


def bench_file():
    """One engine, whose batches take 2 ms and half a millisecond a sample, spread by a few per cent."""
    latency = [{"subject": "int8", "batch": batch, "median_ms": ms, "mean_ms": 1.01 * ms, "p90_ms": 1.03 * ms,
                "p95_ms": 1.05 * ms, "p99_ms": 1.1 * ms, "min_ms": 0.97 * ms, "max_ms": 1.4 * ms, "count": 1000,
                "noisy": False} for batch, ms in ((1, 2.5), (2, 3), (4, 4), (8, 6), (16, 10))]
    path = FOLDER / "measured.json"
    path.write_text(json.dumps({"kind": "bench", "version": 1, "latency": latency, "throughput": [], "subjects": [
        {"name": "int8", "kind": "engine", "precision": "int8", "file": "int8.engine"}]}), encoding="utf-8")
    return path


class Inspect(unittest.TestCase):
    def test_a_model(self):
        import onnx

        found = lathe.inspect(MODEL)
        self.assertEqual([(value.dtype, value.shape) for value in found.inputs], [("float32", (-1, 3, 64, 64))])
        self.assertTrue(found.assumed_dimensions)
        self.assertEqual(found.nonfinite_weights, [])
        self.assertEqual(sum(found.operators.values()), len(found.layers))
        self.assertEqual(sum(layer.macs for layer in found.layers), found.macs)
        # The first convolution, counted by hand.
        graph = onnx.load(MODEL).graph
        first = next(node for node in graph.node if node.op_type == "Conv")
        weights = next(tensor.dims for tensor in graph.initializer if tensor.name == first.input[1])
        layer = next(layer for layer in found.layers if layer.op == "Conv")
        positions = layer.outputs[0].shape[2] * layer.outputs[0].shape[3]
        self.assertEqual(layer.macs, math.prod(weights) * positions)
        self.assertEqual(found.document["kind"], "model")
        self.assertEqual(len(found.table()), len(found.layers))
        self.assertEqual(lathe.inspect(onnx.load(MODEL)).macs, found.macs)

    def test_what_is_no_model_is_told(self):
        (FOLDER / "no.onnx").write_text("no", encoding="utf-8")
        for model, code in ((FOLDER / "none.onnx", "not_found"), (FOLDER / "no.onnx", "parse_error"),
                            (3, "invalid_argument")):
            with self.assertRaises(lathe.Error) as caught:
                lathe.inspect(model)
            self.assertEqual(caught.exception.code, code)


class CompareModels(unittest.TestCase):
    def test_simplifying_keeps_values_and_int8_does_not(self):
        simplified = lathe.simplify(MODEL).model
        same = lathe.compare_models(MODEL, simplified, data=pictures(2))
        self.assertEqual(same.first_past, "")
        self.assertTrue(any(value.output for value in same.values))
        calibration = lathe.calibrate(simplified, pictures(8), samples=8)
        rough = lathe.quantize(simplified, calibration).model
        found = lathe.compare_models(simplified, rough, data=pictures(2), rtol=1e-6)
        self.assertIn(found.first_past, [value.name for value in found.values if value.past])
        self.assertEqual(found.document["first_past"], found.first_past)
        worst = min(found.values, key=lambda value: value.sqnr_db)
        self.assertTrue(10 < worst.sqnr_db < 60, worst)
        self.assertEqual(lathe.compare_models(simplified, rough, data=pictures(2), min_sqnr_db=5).first_past, "")
        self.assertEqual(len(found.table()), len(found.values))

    @unittest.mock.patch.dict(os.environ, {"LATHE_PYTHON": sys.executable})
    def test_against_onnx_runtime(self):
        import onnx

        found = lathe.compare_models(MODEL, against="onnxruntime", data=pictures(2))
        self.assertEqual((found.first_past, found.document["against"]), ("", "onnxruntime"))
        self.assertEqual([value.shape for value in found.values if value.output], [(2, 10)])
        other = onnx.load(MODEL)
        next(node for node in other.graph.node if node.op_type == "Relu").op_type = "Abs"
        found = lathe.compare_models(other, MODEL, against="onnxruntime", data=pictures(2))
        self.assertIn("Abs", [value.op_first for value in found.values if value.name == found.first_past])
        with self.assertRaises(lathe.Error) as caught:
            lathe.compare_models(MODEL)
        self.assertEqual(caught.exception.code, "invalid_argument")

    def test_a_module_against_its_engine(self):
        import torch

        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
        inputs = torch.randn(3, 8)
        compiled = lathe.from_torch(module, inputs)
        found = lathe.compare_models(module, compiled, example=inputs, data=inputs)
        self.assertEqual((found.first_past, [value.shape for value in found.values]), ("", [(3, 4)]))
        with torch.no_grad():
            module[0].bias.add_(1)
        self.assertNotEqual(lathe.compare_models(module, compiled, example=inputs, data=inputs).first_past, "")

    def test_wrong_arguments_are_told(self):
        for call, code in ((lambda: lathe.compare_models(MODEL, FOLDER / "none.onnx"), "not_found"),
                           (lambda: lathe.compare_models(MODEL, MODEL, shapes=["nobody:1x2"]), "invalid_argument"),
                           (lambda: lathe.compare_models(MODEL, MODEL, data=(pictures(2), [0, 1])), "invalid_argument"),
                           (lambda: lathe.compare_models(MODEL, MODEL, data={"other": np.zeros(3)}), "mismatch")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class Sensitivity(unittest.TestCase):
    def test_inputs_are_spared(self):
        model, samples = loud_network()
        path = FOLDER / "spared.onnx"
        path.write_bytes(model.SerializeToString())
        content = path.read_bytes()
        with self.assertRaises(lathe.Error):
            lathe.sensitivity(path, samples, output=path)
        self.assertEqual(path.read_bytes(), content)

    def test_the_layer_that_hurts(self):
        # The first layer reads one number that is far larger than the others: in int8 its output is noise.
        model, samples = loud_network()
        output = FOLDER / "sensitivity.json"
        found = lathe.sensitivity(model, samples, calibrate_samples=64, method="minmax", output=output)
        self.assertEqual(found.samples, len(samples))
        self.assertEqual(found.layers[0].node, "product0")
        self.assertEqual(found.outstanding, ["product0"])
        self.assertIn("product0", " ".join(found.advice))
        self.assertGreater(found.layers[0].damage_share, 0.5)
        self.assertLess(found.layers[0].sqnr_db, found.layers[1].sqnr_db)
        self.assertIsNone(found.layers[0].top1_delta)
        self.assertEqual(len(found.table()), len(found.layers))
        self.assertEqual(json.loads(output.read_text(encoding="utf-8"))["layers"], found.document["layers"])
        self.assertFalse((FOLDER / "sensitivity.json.part").exists())

    def test_the_metric_is_chosen_as_on_the_command_line(self):
        simplified = lathe.simplify(MODEL).model
        calibration = lathe.calibrate(simplified, DEMO / "calibrate", samples=16)
        given = {"calibration": calibration, "samples": 16}
        self.assertEqual(lathe.sensitivity(MODEL, DEMO / "evaluate", **given).document["metric"], "sqnr")
        classes = lathe.sensitivity(MODEL, DEMO / "evaluate", task="classification", **given)
        self.assertEqual(classes.document["metric"], "top1")
        with self.assertRaises(lathe.Error) as caught:
            lathe.sensitivity(MODEL, DEMO / "evaluate", task={"nmae": "classification"}, **given)
        self.assertEqual((caught.exception.code, caught.exception.place), ("invalid_argument", "task"))

    def test_labels_and_ready_ranges(self):
        simplified = lathe.simplify(MODEL).model
        calibration = lathe.calibrate(simplified, DEMO / "calibrate", samples=16)
        found = lathe.sensitivity(MODEL, DEMO / "evaluate", calibration=calibration, samples=24, metric="top1")
        self.assertEqual(found.samples, 24)
        self.assertTrue(all(-1 <= layer.top1_delta <= 1 for layer in found.layers if not layer.reason))

    def test_wrong_arguments_are_told(self):
        model, samples = loud_network()
        for call, code in ((lambda: lathe.sensitivity(model, samples, metric="size"), "invalid_argument"),
                           (lambda: lathe.sensitivity(model, samples, metric="top1"), "invalid_argument"),
                           (lambda: lathe.sensitivity(model, samples, target="abacus"), "invalid_argument"),
                           (lambda: lathe.sensitivity(FOLDER / "none.onnx", samples), "not_found"),
                           (lambda: lathe.sensitivity(model, FOLDER / "nowhere"), "not_found")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


class Plan(unittest.TestCase):
    def test_machines_for_an_objective(self):
        found = lathe.plan(bench_file(), "p99=30ms", "1500/s")
        self.assertTrue(found.meets)
        self.assertLessEqual(found.choice.slo_ms, 30)
        # Batches of 16 in 10 ms are 1,600 requests a second, so that one machine is loaded to 94 %.
        self.assertLessEqual(found.choice.machines, 2)
        self.assertLessEqual(found.choice.utilisation, 0.95)
        self.assertAlmostEqual(sum(stage.at_slo_ms for stage in found.stages), found.choice.slo_ms, delta=3)
        self.assertIn("decode", found.not_measured)
        self.assertEqual(found.document["choice"]["machines"], found.choice.machines)
        more = lathe.plan(bench_file(), "p99=30ms", "90000/s").choice.machines
        self.assertGreater(more, 50)
        impossible = lathe.plan(bench_file(), "p99=1ms", "10/s")
        self.assertFalse(impossible.meets)
        self.assertGreater(impossible.floor_ms, 1)

    def test_what_was_measured_here(self):
        measured = lathe.bench([engine()], batch_sizes=[1, 8], duration_s=0.1, time_limit_s=0.3)
        self.assertTrue(lathe.plan(measured, "p99=2s", "5/s").meets)

    def test_wrong_arguments_are_told(self):
        for call, code in ((lambda: lathe.plan(FOLDER / "none.json", "p99=30ms", "1/s"), "not_found"),
                           (lambda: lathe.plan(bench_file(), "p99=30ms"), "invalid_argument"),
                           (lambda: lathe.plan(bench_file(), "30ms", "1/s"), "invalid_argument"),
                           (lambda: lathe.plan(bench_file(), "p99=30ms", "1/s", max_utilisation=2), "invalid_argument"),
                           (lambda: lathe.plan(bench_file(), "p99=30ms", "1/s", subject="fp8"), "not_found"),
                           (lambda: lathe.plan(MODEL, "p99=30ms", "1/s"), "parse_error")):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code)


if __name__ == "__main__":
    unittest.main()
