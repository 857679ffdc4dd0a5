"""python/lathe_worker: the protocol with a framework of known timing in place of a real one."""

import io
import json
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from lathe_worker import subjects, worker  # noqa: E402


class Known:
    """Calls that say they took 1 ms, the first of them 3 ms."""

    libraries = {"known": "1.0"}
    notes = []

    def __init__(self):
        self.calls = 0
        self.failing = False

    def prepare(self, tensors, arrays):
        self.tensors, self.arrays = tensors, arrays

    def call(self, arrays):
        del arrays
        if self.failing:
            raise ValueError("two\nlines")
        self.calls += 1
        return subjects.Timing(3_000_000 if self.calls == 1 else 1_000_000, 10, 20)

    def stream_choices(self):
        return [1, 2]

    def streams(self, count):
        return [self.call] * count


class Protocol(unittest.TestCase):
    def setUp(self):
        self.known = Known()
        patches = [
            mock.patch.object(worker, "make_subject", lambda *_: self.known),
            mock.patch.object(worker, "read_lists", lambda path, lists: [[tensors] for tensors in lists]),
            mock.patch.object(worker, "read_sets", lambda path, tensors, count: [[None]] * count),
        ]
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def ask(self, *requests):
        replies = io.StringIO()
        worker.serve_requests([json.dumps(request) + "\n" for request in requests], replies)
        return [json.loads(line) for line in replies.getvalue().splitlines()]

    LOAD = {"command": "load", "kind": "known", "model": "", "source": None}
    PREPARE = {"command": "prepare", "file": "f", "sets": 3, "inputs": [{"name": "x", "type": "float32", "shape": [1]}]}

    def test_a_session(self):
        load, prepare, burst = self.ask(
            self.LOAD, self.PREPARE, {"command": "burst", "milliseconds": 5, "max_calls": 100}
        )
        self.assertEqual(load["libraries"], {"known": "1.0"})
        self.assertGreater(prepare["peak_rss_bytes"], 1 << 20)
        # The call in prepare was the 3 ms one; of the burst the first is dropped, then five of 1 ms fill it.
        self.assertEqual(burst["call_ns"], [1_000_000] * 5)
        self.assertEqual(burst["copy_in_ns"], [10] * 5)

    def test_max_calls_bounds_a_burst(self):
        *_, burst = self.ask(self.LOAD, self.PREPARE, {"command": "burst", "milliseconds": 1e6, "max_calls": 7})
        self.assertEqual(len(burst["call_ns"]), 6)

    def test_throughput_counts_all_streams(self):
        *_, served = self.ask(self.LOAD, self.PREPARE, {"command": "throughput", "seconds": 0.05})
        self.assertIn(served["streams"], [1, 2])
        self.assertGreaterEqual(served["seconds"], 0.05)
        self.assertGreater(served["requests"], 0)

    REQUESTS = {
        "command": "requests",
        "file": "f",
        "inputs": [{"name": "x", "type": "int64"}],
        "shapes": [[[1, 4]], [[1, 9]], [[1, 4]]],
    }

    def test_requests_of_different_shapes(self):
        _, taken, turn = self.ask(self.LOAD, self.REQUESTS, {"command": "turn", "first": 1, "count": 2})
        self.assertGreater(taken["peak_rss_bytes"], 1 << 20)
        # One for the memory, one a shape, one that wakes the turn, and the two that are timed.
        self.assertEqual(self.known.calls, 6)
        self.assertEqual(turn["call_ns"], [1_000_000] * 2)

    def test_requests_of_different_shapes_are_not_for_torch_compile(self):
        self.known.compiled = True
        _, refused = self.ask(self.LOAD, self.REQUESTS)
        self.assertIn("every length", refused["error"]["message"])

    def test_failures_are_replies_and_the_worker_lives_on(self):
        self.known.failing = True
        _, failed, again = self.ask(self.LOAD, self.PREPARE, self.LOAD)
        self.assertEqual(failed["error"]["message"], "ValueError: two lines")
        self.assertIn("libraries", again)

    def test_an_unknown_framework(self):
        with self.assertRaises(subjects.Unavailable):
            subjects.make_subject("nobody", None, None)


class Matching(unittest.TestCase):
    def test_by_name_then_by_place(self):
        self.assertEqual(subjects.match_inputs(["b", "a"], ["a", "b"]), [1, 0])
        self.assertEqual(subjects.match_inputs(["p", "q"], ["a", "b"]), [0, 1])
        with self.assertRaises(subjects.Unavailable):
            subjects.match_inputs(["a"], ["a", "b"])



class FasterKernels(unittest.TestCase):
    """torch-compile on the CPU takes max-autotune's kernels where they are faster."""

    def chosen(self, milliseconds):
        subject = subjects.PyTorch.__new__(subjects.PyTorch)
        subject.notes, subject.compiled_as = ["torch.compile"], []
        subject.compile = subject.compiled_as.append
        subject.call = lambda _: subjects.Timing(
            milliseconds["max-autotune" if "max_autotune" in subject.compiled_as[-1] else "default"]
        )
        subject.choose_kernels([])
        return subject

    def test_the_faster_stays(self):
        faster = self.chosen({"default": 3, "max-autotune": 2})
        self.assertEqual(faster.compiled_as, [{"freezing": True}, {"freezing": True, "max_autotune": True}])
        self.assertEqual(faster.notes, ["torch.compile, the faster kernels here: max-autotune"])
        default = self.chosen({"default": 2, "max-autotune": 3})
        self.assertEqual(default.compiled_as[2:], [{"freezing": True}])
        # Another batch size: chosen anew, told once.
        default.choose_kernels([])
        self.assertEqual(default.notes, ["torch.compile, the faster kernels here: default kernels"])


class Int8(unittest.TestCase):
    """torch-compile=int8."""

    def test_only_compiled_and_on_the_cpu(self):
        for kind, device in (("pytorch", "cpu"), ("torch-compile", "cuda")):
            with self.assertRaises(subjects.Unavailable) as caught:
                subjects.make_subject(kind, "", {"kind": "x"}, device, "int8")
            self.assertIn("torch-compile=int8", caught.exception.hint)

    def test_a_convolution_in_int8(self):
        try:
            import numpy
            import torch
            from torchao.quantization import pt2e  # noqa: F401
        except ImportError as error:
            self.skipTest(f"SKIPPED: {error}")
        torch.manual_seed(0)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 64, 8)
        )
        image = torch.randn(2, 3, 8, 8).numpy()
        with mock.patch("lathe_export.rebuild.rebuild", lambda *_: module):
            subject = subjects.make_subject("torch-compile", "", {"kind": "x"}, "cpu", "int8")
        subject.prepare([worker.Tensor("x", "float32", image.shape)], [image])
        with mock.patch.object(subjects, "touch", self.keep):
            timing = subject.call([image])
        self.assertGreater(timing.call, 0)
        self.assertIn("torchao", subject.libraries)
        with torch.no_grad():
            truth = module(torch.from_numpy(image)).numpy()
        error = numpy.abs(self.outputs[0] - truth).max() / numpy.abs(truth).max()
        self.assertGreater(error, 1e-5, "nothing was rounded")
        self.assertLess(error, 0.05)

    def keep(self, outputs):
        self.outputs = outputs


if __name__ == "__main__":
    unittest.main()
