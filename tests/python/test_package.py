"""Engines, sessions, the single steps, errors, logging and the command of the installed package."""

import asyncio
import doctest
import importlib
import importlib.util
import logging
import os
import pickle
import pkgutil
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import lathe
import numpy as np
from common import DEMO, FOLDER, MODEL, engine, loud_network, pictures
from lathe import _lathe


def expected(samples):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: samples})[0]


class Engines(unittest.TestCase):
    def test_tells_what_it_reads_and_writes(self):
        (tensor,) = engine().inputs
        self.assertEqual((tensor.dtype, tensor.min_shape, tensor.shape, tensor.max_shape),
                         ("float32", (1, 3, 64, 64), (8, 3, 64, 64), (64, 3, 64, 64)))
        (output,) = engine().outputs
        self.assertEqual((output.dtype, output.shape[1]), ("float32", 10))
        self.assertEqual(engine().metadata["precision"], "fp32")
        self.assertEqual(engine().metadata["labels"][0], "arrow")
        self.assertEqual(engine().metadata["preprocess"]["resize"], [64, 64])
        self.assertIn("shapes: fp32 on cpu", repr(engine()))

    def test_gives_what_onnx_runtime_gives(self):
        samples = pictures(3)
        np.testing.assert_allclose(engine().session().run(samples), expected(samples), rtol=2e-3, atol=2e-3)

    def test_takes_inputs_in_every_form(self):
        import torch

        samples = pictures(2)
        session = engine().session()
        wanted = session.run(samples)
        name = session.inputs[0].name
        read_only = samples.copy()
        read_only.flags.writeable = False
        for given in ({name: samples}, [samples], (samples,), torch.from_numpy(samples), {name: torch.from_numpy(samples)},
                      read_only, np.asfortranarray(samples), pictures(4)[:2] * 0 + samples):
            np.testing.assert_array_equal(session.run(given), wanted)

    def test_contiguous_inputs_are_read_in_place(self):
        import torch

        samples = pictures(2)
        tensor = torch.from_numpy(samples.copy())
        self.assertEqual(_lathe.addresses([samples, tensor]), [samples.ctypes.data, tensor.data_ptr()])
        self.assertNotEqual(_lathe.addresses(np.asfortranarray(samples)), [samples.ctypes.data])

    def test_outputs_are_the_callers_own(self):
        session = engine().session()
        first = session.run(pictures(1, seed=1))
        kept = first.copy()
        session.run(pictures(1, seed=2))
        np.testing.assert_array_equal(first, kept)
        self.assertTrue(first.flags.writeable)

    def test_a_session_outlives_its_engine(self):
        session = lathe.Engine.load(FOLDER / "shapes.engine").session() if engine() else None
        self.assertEqual(session.run(pictures(1)).shape, (1, 10))

    def test_wrong_inputs_are_told(self):
        session = engine().session()
        for given, code in ((pictures(1).astype(np.float64), "invalid_argument"), (pictures(65), "out_of_range"),
                            ({"nothing": pictures(1)}, "invalid_argument"), ([pictures(1)] * 2, "invalid_argument"),
                            ("text", "invalid_argument"), (None, "invalid_argument"),
                            (np.array(["a"]), "invalid_argument")):
            with self.subTest(given=type(given)), self.assertRaises(lathe.Error) as caught:
                session.run(given)
            self.assertEqual(caught.exception.code, code)
        self.assertEqual(session.run(pictures(1)).shape, (1, 10), "and it still runs")

    def test_other_threads_go_on_while_it_runs(self):
        session = engine().session()
        samples = pictures(64)
        session.run(samples)
        done = threading.Event()
        turns = 0

        def work():
            for _ in range(20):
                session.run(samples)
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.is_set():
            turns += 1
            time.sleep(0)
        thread.join()
        # Without the GIL for 20 runs this thread would get a few turns, between them.
        self.assertGreater(turns, 200)

    def test_threads_share_a_session(self):
        session = engine().session()
        inputs = [pictures(2, seed) for seed in range(4)]
        wanted = [session.run(given) for given in inputs]
        found = [None] * 4

        def work(i):
            for _ in range(20):
                found[i] = session.run(inputs[i])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one, other in zip(found, wanted):
            np.testing.assert_array_equal(one, other)

    def test_runs_under_asyncio(self):
        session = engine().session()
        inputs = [pictures(1, seed) for seed in range(3)]

        async def work():
            return await asyncio.gather(*(session.run_async(given) for given in inputs))

        for one, given in zip(asyncio.run(work()), inputs):
            np.testing.assert_array_equal(one, session.run(given))

    def test_loading_and_unloading_leaks_nothing(self):
        engine()

        def resident():
            return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def load(count):
            for _ in range(count):
                lathe.Engine.load(FOLDER / "shapes.engine").session().run(pictures(1))

        load(20)
        before = resident()
        load(60)
        # An engine is a megabyte: 60 that stayed would be seen.
        self.assertLess(resident() - before, 30 << 20)


class Errors(unittest.TestCase):
    def test_have_code_place_and_cure(self):
        with self.assertRaises(lathe.Error) as caught:
            lathe.Engine.load(FOLDER / "none.engine")
        error = caught.exception
        self.assertEqual(error.code, "not_found")
        self.assertIn("none.engine", error.place)
        self.assertIn(error.message, str(error))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.message, again.code, again.place, again.cure, str(again)),
                         (error.message, error.code, error.place, error.cure, str(error)))

    def test_damaged_files_are_told(self):
        damaged = FOLDER / "damaged.engine"
        engine()
        damaged.write_bytes((FOLDER / "shapes.engine").read_bytes()[:5000])
        with self.assertRaises(lathe.Error) as caught:
            lathe.Engine.load(damaged)
        self.assertEqual(caught.exception.code, "corrupt")
        (FOLDER / "text.onnx").write_text("no model", encoding="utf-8")
        with self.assertRaises(lathe.Error) as caught:
            lathe.Model.load(FOLDER / "text.onnx")
        self.assertEqual(caught.exception.code, "parse_error")


class Steps(unittest.TestCase):
    def test_from_file_to_judged_int8_engine(self):
        simple = lathe.simplify(MODEL)
        self.assertLessEqual(simple.after_nodes, simple.before_nodes)
        self.assertLess(simple.max_error, 1e-3)
        calibration = lathe.calibrate(simple.model, DEMO / "calibrate", samples=32, until_settled=False)
        self.assertEqual(calibration.samples, 32)
        self.assertEqual(calibration.method, "mse")
        self.assertTrue(all(row["low"] <= row["high"] for row in calibration.tensors))
        calibration.save(FOLDER / "c.ranges")
        again = lathe.Calibration.load(FOLDER / "c.ranges")
        self.assertEqual(again.tensors, calibration.tensors)
        quantized = lathe.quantize(simple.model, again)
        self.assertGreater(quantized.quantized_nodes, 3)
        self.assertTrue(any(row["quantized"] for row in quantized.decisions))
        quantized.model.save(FOLDER / "q.onnx")
        int8 = lathe.build(lathe.Model.load(FOLDER / "q.onnx"), precision="int8")
        float32 = lathe.build(simple.model)
        scores = lathe.evaluate(int8, DEMO / "evaluate", samples=100)
        self.assertEqual(scores.samples, 100)
        self.assertGreater(scores.top1.value, 0.8)
        self.assertTrue(scores.top1.low <= scores.top1.value <= scores.top1.high)
        comparison = lathe.compare(float32, int8, DEMO / "evaluate", samples=100)
        self.assertGreater(comparison.agreement.value, 0.9)
        self.assertGreater(comparison.sqnr_db, 10)
        self.assertEqual(comparison.reference.precision, "fp32")

    def test_noisy_layers_stay_in_float_unless_told(self):
        proto, samples = loud_network()
        model = lathe.Model.load(proto)
        calibration = lathe.calibrate(model, samples, until_settled=False, method="minmax")
        auto = lathe.quantize(model, calibration)
        self.assertEqual((auto.quantized_nodes, auto.heavy_nodes), (6, 7))
        self.assertEqual({row["node"] for row in auto.decisions if row["reason"] == "too_noisy"}, {"product0"})
        self.assertEqual(lathe.quantize(model, calibration, noisy_layers="int8").quantized_nodes, 7)

    def test_arrays_and_batches_are_data_too(self):
        model = lathe.simplify(MODEL).model
        files = sorted((DEMO / "evaluate").rglob("*.jpg"))[:384:12]
        arrays = lathe.load_images(files, model.preprocess)
        self.assertEqual(arrays.shape, (32, 3, 64, 64))
        classes = sorted(folder.name for folder in (DEMO / "evaluate").iterdir())
        labels = [classes.index(file.parent.name) for file in files]
        whole = lathe.calibrate(model, arrays, until_settled=False)
        parts = lathe.calibrate(model, [arrays[:20], arrays[20:]], until_settled=False)
        named = lathe.calibrate(model, {engine().inputs[0].name: arrays}, until_settled=False)
        self.assertEqual(whole.tensors, parts.tensors)
        self.assertEqual(whole.tensors, named.tensors)
        of_arrays = lathe.evaluate(engine(), arrays, labels=labels)
        of_pairs = lathe.evaluate(engine(), [(arrays[:20], labels[:20]), (arrays[20:], labels[20:])])
        self.assertEqual(of_arrays, of_pairs)
        self.assertGreater(of_arrays.top1.value, 0.7)
        with self.assertRaises(lathe.Error) as caught:
            lathe.evaluate(engine(), arrays)
        self.assertEqual(caught.exception.code, "invalid_argument")
        for wrong in (3, [], None):
            with self.assertRaises(lathe.Error):
                lathe.calibrate(model, wrong)

    def test_models_in_every_form(self):
        import onnx
        import torch

        proto = lathe.Model.load(onnx.load(MODEL))
        self.assertEqual(proto.preprocess["resize"], [64, 64])
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
        module.train()
        loaded = lathe.Model.load(module, example=torch.zeros(1, 3, 8, 8))
        self.assertTrue(module.training)
        self.assertIsNone(loaded.preprocess)
        samples = torch.randn(3, 3, 8, 8)
        found = lathe.build(loaded).session().run(samples)
        np.testing.assert_allclose(found, module(samples).detach().numpy(), rtol=2e-3, atol=2e-3)
        with self.assertRaises(lathe.Error) as caught:
            lathe.Model.load(module)
        self.assertEqual(caught.exception.place, "example")
        with self.assertRaises(lathe.Error):
            lathe.Model.load(3.5)

    def test_wrong_arguments_are_told(self):
        model = lathe.Model.load(MODEL)
        for call in (lambda: lathe.build(model, precision="fp7"), lambda: lathe.build(model, device="abacus"),
                     lambda: lathe.build(model, shapes=["what"]), lambda: lathe.simplify(MODEL, disabled=["none"]),
                     lambda: lathe.simplify(MODEL, device="abacus"),
                     lambda: lathe.calibrate(model, DEMO / "calibrate", method="none"),
                     lambda: lathe.quantize(model, data=DEMO / "calibrate", target="none"),
                     lambda: lathe.quantize(model, data=DEMO / "calibrate", noisy_layers="loud"),
                     lambda: lathe.load_images([], {"resize": [8, 8]})):
            with self.assertRaises(lathe.Error) as caught:
                call()
            self.assertIn(caught.exception.code, ("invalid_argument", "not_found"))


class Package(unittest.TestCase):
    def test_messages_go_to_logging(self):
        with self.assertLogs("lathe", logging.WARNING) as logs:
            _lathe.calibrate  # noqa: B018, the library is there
            importlib.import_module("lathe._progress").log(2, "careful")
        self.assertEqual(logs.records[0].getMessage(), "careful")

    def test_importing_takes_nothing_heavy_along(self):
        command = "import sys, lathe; print(*(name for name in ('openvino', 'torch', 'pandas', 'numpy', 'asyncio') if name in sys.modules))"
        loaded = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout
        self.assertEqual(loaded.strip(), "")

    def test_every_public_name_is_described(self):
        for name in lathe.__all__:
            self.assertTrue((getattr(lathe, name).__doc__ or "").strip(), name)
        self.assertTrue((Path(lathe.__file__).parent / "py.typed").exists())

    def test_examples_in_the_documentation_run(self):
        run = 0
        for found in pkgutil.iter_modules(lathe.__path__, "lathe."):
            if found.name in ("lathe._lathe", "lathe.__main__"):
                continue
            if found.name in ("lathe.ray", "lathe._pool") and importlib.util.find_spec("ray") is None:
                continue
            result = doctest.testmod(importlib.import_module(found.name))
            self.assertEqual(result.failed, 0, found.name)
            run += result.attempted
        self.assertGreater(run, 0)

    def test_the_command_is_the_program(self):
        lathe_command = Path(sys.executable).parent / "lathe"
        for command in ([lathe_command], [sys.executable, "-m", "lathe"]):
            result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
            self.assertEqual(result.stdout.strip(), f"lathe {lathe.__version__}")
        result = subprocess.run([lathe_command, "inspect", "nothing.onnx"], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 3)
        # The Python side is found in the package.
        result = subprocess.run([lathe_command, "export", "no_such_model", "--output", FOLDER / "m.onnx"],
                                capture_output=True, text=True, check=False)
        self.assertNotIn("lathe_export was not found", result.stderr)
        self.assertIn("no_such_model", result.stderr)


if __name__ == "__main__":
    unittest.main()
