"""lathe.optimize of the installed package, and lathe demo."""

import json
import os
import signal
import subprocess
import sys
import threading
import unittest
from pathlib import Path

import lathe
from common import DEMO, FOLDER, MODEL, loud_network

QUICK = {"against": (), "batch_sizes": [1], "duration_s": 0.1, "time_limit_s": 0.3, "precisions": ["fp32", "int8"]}


class Recorder:
    """Keeps what it is told."""

    def __init__(self):
        self.stages, self.lines, self.steps = [], [], 0

    def begin(self, stage, total):
        self.stages.append(stage)

    def advance(self, steps):
        self.steps += steps

    def end(self):
        pass

    def tell(self, line):
        self.lines.append(line)


class Optimize(unittest.TestCase):
    def test_the_whole_job_then_reused(self):
        seen = Recorder()
        job = {"calibrate": DEMO / "calibrate", "evaluate": DEMO / "evaluate", "output": FOLDER / "job", **QUICK}
        result = lathe.optimize(MODEL, progress=seen, **job)
        self.assertIn("INT8", result.verdict)
        self.assertGreater(len(result.reasons), 0)
        self.assertEqual([(row.name, row.batch) for row in result.rows], [("shapes.fp32", 1), ("shapes.int8", 1)])
        float32, int8 = result.rows
        self.assertIsNone(float32.speedup)
        self.assertGreater(int8.speedup.value, 0)
        self.assertGreater(float32.top1.value, 0.85)
        self.assertLess(abs(int8.top1_change.value), 0.1)
        self.assertEqual((int8.metric, int8.score, int8.score_change), ("top-1", int8.top1, int8.top1_change))
        self.assertTrue(int8.engine.exists())
        self.assertEqual(result.document["kind"], "optimize")
        self.assertTrue(result.report.exists())
        self.assertIn("<iframe", result._repr_html_())
        self.assertIn(result.verdict, str(result))
        table = result.table()
        self.assertEqual(list(table["name"]), ["shapes.fp32", "shapes.int8"])
        self.assertAlmostEqual(table["latency_ms"][1], int8.latency_ms.value)
        self.assertIsNotNone(result.engine_path)
        self.assertEqual(result.engine.session().run(lathe.load_images([next((DEMO / "calibrate").glob("*.jpg"))],
                                                                       result.engine.metadata["preprocess"])).shape, (1, 10))
        self.assertTrue(any(line.startswith("simplify") for line in seen.lines))
        self.assertIn("calibrate", " ".join(seen.stages))

        again = Recorder()
        second = lathe.optimize(MODEL, progress=again, **job)
        self.assertEqual(second.verdict, result.verdict)
        self.assertTrue(any("reused" in line for line in again.lines))

    def test_inputs_and_files_of_others_are_spared(self):
        import onnx

        folder = FOLDER / "spared"
        folder.mkdir()
        model = folder / "m.onnx"
        model.write_bytes(MODEL.read_bytes())
        # The calibration data would be written over by a result.
        data = folder / "m.int8.onnx"
        data.write_bytes(b"mine")
        with self.assertRaises(lathe.Error) as caught:
            lathe.optimize(model, calibrate=data, output=folder, **QUICK)
        self.assertEqual(caught.exception.code, "invalid_argument")
        self.assertEqual(data.read_bytes(), b"mine")
        # A model in memory is kept as model.onnx, but not over another one.
        other = folder / "model.onnx"
        other.write_bytes(b"another model")
        call = {"calibrate": DEMO / "calibrate", "output": folder, **QUICK}
        with self.assertRaises(lathe.Error) as caught:
            lathe.optimize(onnx.load(MODEL), **call)
        self.assertEqual((caught.exception.code, caught.exception.place), ("invalid_argument", str(other)))
        self.assertIn("force=True", caught.exception.cure)
        self.assertEqual(other.read_bytes(), b"another model")
        lathe.optimize(onnx.load(MODEL), force=True, **call)
        self.assertNotEqual(other.read_bytes(), b"another model")
        lathe.optimize(onnx.load(MODEL), **call)
        self.assertEqual([path.name for path in folder.iterdir() if path.name.startswith(".")], [])

    def test_a_module_and_arrays(self):
        import torch

        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3), torch.nn.ReLU(),
                                     torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 4))
        samples = torch.randn(32, 3, 16, 16)
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(samples, module(samples).argmax(1)), batch_size=8)
        result = lathe.optimize(module, example=samples[:1], calibrate=samples.numpy(), evaluate=loader,
                                output=FOLDER / "module", **QUICK)
        self.assertEqual(result.rows[0].top1.value, 1.0)

    def test_the_task_and_a_metric_of_ones_own(self):
        import numpy

        model, samples = loud_network()
        data = {"calibrate": samples, "evaluate": (samples[:16], samples[16:32]), "output": FOLDER / "tasks"}
        numbers = lathe.optimize(model, **data, task={"name": "regression", "peak": 1.0}, **QUICK)
        self.assertEqual({row.metric for row in numbers.rows}, {"R2"})
        own = FOLDER / "own.py"
        own.write_text("def half(outputs, samples):\n    return [0.5] * len(samples)\n")
        halves = lathe.optimize(model, **data, task=f"{own}:half", **QUICK)
        self.assertEqual({(row.metric, row.score.value) for row in halves.rows}, {("half", 0.5)})
        self.assertTrue(numpy.isfinite(numbers.rows[-1].score_change.value))

    def test_samples_and_labels_in_any_form(self):
        import torch
        from lathe._inputs import samples_of

        inputs, labels = torch.arange(24.0).reshape(6, 4), torch.tensor([0, 1, 2, 0, 1, 2])
        loader = [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]
        for data in ((inputs, labels), (inputs.numpy(), labels.tolist()), ({"": inputs}, labels), loader, tuple(loader)):
            given = samples_of(data)
            self.assertEqual(given.labels, labels.tolist())
            self.assertTrue((given.arrays[""] == inputs.numpy()).all())
        unlabelled = samples_of((inputs[:3], inputs[3:]))
        self.assertEqual((unlabelled.arrays[""].shape, unlabelled.labels), ((6, 4), None))
        for wrong in ((inputs, labels[:5]), [inputs, inputs[:, :3]], [], 3):
            with self.assertRaises(lathe.Error) as caught:
                samples_of(wrong)
            self.assertEqual(caught.exception.code, "invalid_argument")

    def test_number_formats_and_noisy_layers_are_the_callers(self):
        import onnx
        from onnx import numpy_helper

        model, samples = loud_network()

        def quantized(**options):
            """Products in int8, the most scales that a weight has, and the types of zero points of activations."""
            result = lathe.optimize(model, calibrate=samples, method="minmax", output=FOLDER / "loud", **QUICK, **options)
            graph = onnx.load(next(result.folder.glob("*.int8.onnx"))).graph
            constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
            made = {name: node for node in graph.node for name in node.output}
            products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
            inner = [node for node in products
                     if node.input[0] in made and made[node.input[0]].op_type == "DequantizeLinear"]
            scales = max(constants[made[node.input[1]].input[1]].size for node in inner)
            zeros = {str(constants[made[node.input[0]].input[2]].dtype) for node in inner}
            return len(inner), scales, zeros

        self.assertEqual(quantized(), (6, 256, {"uint8"}))
        self.assertEqual(quantized(noisy_layers="int8", weights="per-tensor", activations="symmetric"), (7, 1, {"int8"}))

    def test_says_what_is_missing(self):
        for arguments, words in (({}, "calibrate"), ({"calibrate": "nowhere"}, "nowhere"),
                                 ({"calibrate": DEMO / "calibrate", "precisions": ["bf16"]}, "fp32"),
                                 ({"calibrate": DEMO / "calibrate", "against": ["abacus"]}, "abacus"),
                                 ({"calibrate": DEMO / "calibrate", "preprocess": "imagnet"}, "imagenet"),
                                 ({"calibrate": DEMO / "calibrate", "noisy_layers": "loud"}, "auto, int8"),
                                 ({"calibrate": DEMO / "calibrate", "weights": "per-chanel"}, "per-channel"),
                                 ({"calibrate": DEMO / "calibrate", "activations": "none"}, "asymmetric"),
                                 ({"calibrate": DEMO / "calibrate", "task": "regression"}, "--evaluate"),
                                 ({"calibrate": DEMO / "calibrate", "evaluate": DEMO / "evaluate", "task": "abacus"}, "squad"),
                                 ({"calibrate": DEMO / "calibrate", "task": {"heat": 1}}, "heat"),
                                 ({"calibrate": DEMO / "calibrate", "source": "net.py"}, "FILE.py:function"),
                                 ({"calibrate": DEMO / "calibrate", "source": "nowhere.py:net"}, "nowhere.py")):
            with self.assertRaises(lathe.Error) as caught:
                lathe.optimize(MODEL, output=FOLDER / "missing", **arguments)
            self.assertIn(words, str(caught.exception))

    def test_control_c_ends_it_and_it_goes_on(self):
        job = {"calibrate": DEMO / "calibrate", "evaluate": DEMO / "evaluate", "output": FOLDER / "stopped",
               **QUICK, "time_limit_s": 5, "duration_s": 5}
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            lathe.optimize(MODEL, progress=False, **job)
        timer.join()
        seen = Recorder()
        result = lathe.optimize(MODEL, progress=seen, **job | {"time_limit_s": 0.3, "duration_s": 0.1})
        self.assertTrue(any("reused" in line for line in seen.lines), seen.lines)
        self.assertEqual(len(result.rows), 2)

    def test_what_progress_raises_comes_back(self):
        class Stops(Recorder):
            def begin(self, stage, total):
                raise RuntimeError("enough of " + stage)

        with self.assertRaisesRegex(RuntimeError, "enough"):
            lathe.optimize(MODEL, calibrate=DEMO / "calibrate", output=FOLDER / "raises", progress=Stops(), **QUICK)

    def test_demo_gives_a_verdict(self):
        command = Path(sys.executable).parent / "lathe"
        result = subprocess.run([command, "demo", "--output", FOLDER / "demo", "--json"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        self.assertTrue(document["verdict"]["text"])
        self.assertEqual(document["eval"]["subjects"][0]["samples"], 400)
        self.assertTrue((FOLDER / "demo" / "report.html").exists())


if __name__ == "__main__":
    unittest.main()
