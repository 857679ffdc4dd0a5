"""lathe.ray on a cluster of four machines on this one: everything equals what one machine finds, also when workers and
machines die.

    test_ray.py [unittest's arguments]
    LATHE_RAY_KILLS=50 test_ray.py Killed        workers killed at random so many times in each of the three functions
"""

import json
import os
import random
import signal
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
# Workers find this file's classes (Obstinate) and the package that is tested.
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])

import lathe
import numpy as np
import ray
import ray.serve
from common import DEMO, FOLDER, MODEL, engine, pictures
from ray.cluster_utils import Cluster

import lathe.ray
from lathe._pool import ATTEMPTS, Pool

CALIBRATE = DEMO / "calibrate"
EVALUATE = DEMO / "evaluate"
MACHINES = 4


def setUpModule():
    global cluster
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False,
                                                            "object_store_memory": 200 << 20})
    for _ in range(MACHINES - 1):
        cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    cluster.wait_for_nodes()


def tearDownModule():
    engine.cache_clear()
    ray.shutdown()
    cluster.shutdown()


def file_of(calibration):
    with tempfile.TemporaryDirectory() as folder:
        calibration.save(Path(folder) / "m.ranges")
        return (Path(folder) / "m.ranges").read_bytes()


def working():
    """Processes of workers that are at work now."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                title = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if title.startswith((b"ray::_Calibrator.work", b"ray::_Runner.work")):
                yield int(process.name)


class Killer(threading.Thread):
    """Kills workers that are at work, at random times."""

    def __init__(self, most):
        super().__init__(daemon=True)
        self.most = most
        self.killed = 0
        self.over = threading.Event()
        self.random = random.Random(0)

    def run(self):
        while self.killed < self.most and not self.over.wait(0.01):
            # Only once one is at work, or quick work would be over before a random time has passed.
            if not any(working()) or self.over.wait(self.random.uniform(0.0, 0.2)):
                continue
            found = list(working())
            try:
                os.kill(self.random.choice(found), signal.SIGKILL)
            except (IndexError, ProcessLookupError):
                continue
            self.killed += 1
            self.over.wait(self.random.uniform(0.5, 1.5))


class Equal(unittest.TestCase):
    def test_calibration_is_one_machines_to_the_bit(self):
        model = lathe.simplify(MODEL).model
        for data, numbers in ((CALIBRATE, (1, 2, 4)), (pictures(70), (2,))):
            alone = file_of(lathe.calibrate(model, data))
            for workers in numbers:
                self.assertEqual(file_of(lathe.ray.calibrate(model, data, workers=workers)), alone, workers)
        alone = file_of(lathe.calibrate(model, CALIBRATE, samples=50, until_settled=False, method="entropy"))
        self.assertEqual(file_of(lathe.ray.calibrate(model, CALIBRATE, samples=50, until_settled=False,
                                                     method="entropy", workers=2)), alone)

    def test_scores_and_intervals_are_one_machines(self):
        for data, more in ((EVALUATE, {}), (EVALUATE, {"samples": 33}), (pictures(90), {"labels": [3] * 90})):
            alone = lathe.evaluate(engine(), data, **more)
            self.assertEqual(lathe.ray.evaluate(engine(), data, workers=2, **more), alone)

    def test_outputs_come_in_the_order_of_the_samples(self):
        engine()
        samples = pictures(100)
        session = lathe.Engine.load(FOLDER / "shapes.engine", threads=1).session()
        alone = np.concatenate([session.run(samples[first:first + 16]) for first in range(0, 100, 16)])
        found = lathe.ray.run(FOLDER / "shapes.engine", samples)  # four workers
        self.assertEqual(found.names, [str(index) for index in range(100)])
        (name,) = found.arrays
        np.testing.assert_array_equal(found.arrays[name], alone)
        found.save(FOLDER / "outputs.npz")
        np.testing.assert_array_equal(np.load(FOLDER / "outputs.npz")[name], alone)

        files = lathe.ray.run(FOLDER / "shapes.engine", CALIBRATE, workers=2)
        self.assertEqual(files.names, sorted(path.name for path in CALIBRATE.iterdir()))
        shown = lathe.load_images([CALIBRATE / files.names[-1]], engine().metadata["preprocess"])
        np.testing.assert_allclose(files.arrays[name][-1:], session.run(shown), rtol=1e-4, atol=1e-4)

    def test_an_engine_of_a_fixed_batch(self):
        fixed = lathe.build(lathe.Model.load(MODEL), shapes=["8x3x64x64"])
        samples = pictures(21)
        (found,) = lathe.ray.run(fixed, samples, workers=2).arrays.values()
        np.testing.assert_allclose(found, engine().session().run(samples), rtol=1e-4, atol=1e-4)


class Refused(unittest.TestCase):
    def fails(self, code, call):
        with self.assertRaises(lathe.Error) as caught:
            call()
        self.assertEqual(caught.exception.code, code)
        return str(caught.exception)

    def test_what_a_worker_finds_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            for place in range(20):
                (Path(folder) / f"{place:02}.png").write_bytes(next(CALIBRATE.iterdir()).read_bytes())
            (Path(folder) / "07.png").write_bytes(b"\x89PNG\r\n\x1a\nno picture")
            self.assertIn("07.png", self.fails("parse_error", lambda: lathe.ray.run(engine(), folder, workers=1)))
            model = lathe.Model.load(MODEL)
            self.assertIn("07.png", self.fails("parse_error", lambda: lathe.ray.calibrate(model, folder, workers=1)))
        self.fails("not_found", lambda: lathe.ray.evaluate(engine(), "/nowhere"))
        self.fails("mismatch", lambda: lathe.ray.evaluate(engine(), pictures(4), labels=[1]))
        self.fails("invalid_argument", lambda: lathe.ray.evaluate(engine(), pictures(4), workers=1))
        self.fails("mismatch", lambda: lathe.ray.run(engine(), pictures(4)[:, :, :, :60], workers=1))

    def test_a_cluster_without_room(self):
        self.fails("unsupported", lambda: lathe.ray.run(engine(), pictures(4), gpus=1))
        self.fails("unsupported", lambda: lathe.ray.run(engine(), pictures(4), cpus=2))
        self.fails("invalid_argument", lambda: lathe.ray.run(engine(), pictures(4), workers=0))

    def test_a_part_that_kills_its_workers_does_not_go_round_for_ever(self):
        told = self.fails("internal", lambda: list(Pool(ray.remote(Obstinate).remote, 1).each([lambda: (0,)] * 3)))
        self.assertIn(f"{ATTEMPTS} workers died over piece", told)


class Obstinate:
    def prepare(self):
        pass

    def work(self, _):
        os._exit(1)


class Killed(unittest.TestCase):
    """Workers killed in each function: LATHE_RAY_KILLS, 2 where it is not set."""

    def survives(self, call):
        wanted = int(os.environ.get("LATHE_RAY_KILLS", "2"))
        killed = 0
        deadline = time.monotonic() + 30 * wanted
        while killed < wanted:
            self.assertLess(time.monotonic(), deadline)
            killer = Killer(wanted - killed)
            killer.start()
            try:
                call()
            finally:
                killer.over.set()
                killer.join()
            killed += killer.killed
        self.assertEqual(killed, wanted)

    def test_calibration_counts_no_sample_twice(self):
        model = lathe.simplify(MODEL).model
        samples = pictures(2000)
        alone = file_of(lathe.calibrate(model, samples, samples=0, until_settled=False))
        self.survives(lambda: self.assertEqual(
            file_of(lathe.ray.calibrate(model, samples, samples=0, until_settled=False, workers=2)), alone))

    def test_evaluation_counts_no_sample_twice(self):
        samples = pictures(2000)
        labels = [index % 10 for index in range(2000)]
        alone = lathe.evaluate(engine(), samples, labels=labels)
        self.survives(lambda: self.assertEqual(lathe.ray.evaluate(engine(), samples, labels=labels, workers=2), alone))

    def test_outputs_are_complete(self):
        samples = pictures(2000)
        (alone,) = lathe.ray.run(engine(), samples, workers=1).arrays.values()

        def compare():
            (found,) = lathe.ray.run(engine(), samples, workers=3).arrays.values()
            np.testing.assert_array_equal(found, alone)

        self.survives(compare)

    def test_a_machine_goes(self):
        model = lathe.simplify(MODEL).model
        samples = pictures(1000)
        alone = file_of(lathe.calibrate(model, samples, samples=0, until_settled=False))
        node = cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
        cluster.wait_for_nodes()
        gone = threading.Timer(2, lambda: cluster.remove_node(node, allow_graceful=False))
        gone.start()
        found = lathe.ray.calibrate(model, samples, samples=0, until_settled=False)
        gone.join()
        self.assertEqual(file_of(found), alone)


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ray.serve.start(http_options={"port": 18473})
        cls.handle = lathe.ray.serve(engine(), name="shapes", wait_ms=20)
        cls.url = "http://127.0.0.1:18473/v2/models/shapes"
        cls.name = engine().inputs[0].name
        cls.output = engine().outputs[0].name

    @classmethod
    def tearDownClass(cls):
        ray.serve.shutdown()

    def post(self, body, path="/infer"):
        request = urllib.request.Request(self.url + path, data=body, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def request(self, array, **changes):
        tensor = {"name": self.name, "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}
        return json.dumps({"inputs": [tensor | changes]}).encode()

    def test_requests_share_runs_and_get_their_own_answers(self):
        samples = pictures(48)
        wanted = engine().session().run(samples)
        before = self.handle.statistics.remote().result()
        replies = [self.handle.infer.remote({self.name: samples[index:index + 1]}) for index in range(48)]
        for index, reply in enumerate(replies):
            np.testing.assert_allclose(reply.result()[self.output][0], wanted[index], rtol=1e-3, atol=1e-3)
        after = self.handle.statistics.remote().result()
        self.assertEqual(after["samples"] - before["samples"], 48)
        self.assertLess(after["batches"] - before["batches"], 48)
        several = self.handle.infer.remote({self.name: samples[:5]}).result()
        np.testing.assert_allclose(several[self.output], wanted[:5], rtol=1e-3, atol=1e-3)

    def test_speaks_kserve(self):
        samples = pictures(2)
        code, answer = self.post(self.request(samples))
        self.assertEqual(code, 200, answer)
        (output,) = answer["outputs"]
        self.assertEqual((output["name"], output["datatype"], output["shape"]), (self.output, "FP32", [2, 10]))
        np.testing.assert_allclose(np.reshape(output["data"], output["shape"]), engine().session().run(samples), rtol=1e-3,
                                   atol=1e-3)
        with urllib.request.urlopen(self.url) as reply:
            about = json.load(reply)
        self.assertEqual(about["inputs"], [{"name": self.name, "datatype": "FP32", "shape": [-1, 3, 64, 64]}])

    def test_bad_requests_are_told(self):
        samples = pictures(1)
        for body, code, words in (
                (b"{", 400, "no inference request"), (b"[]", 400, "no inference request"),
                (b'{"inputs": []}', 400, "missing"), (self.request(samples, name="nowhere"), 400, "no such input"),
                (self.request(samples, name=["x"]), 400, "no inference request"),
                (self.request(samples, datatype="INT8"), 400, "FP32"), (self.request(samples, data=[1.0]), 400, "reshape"),
                (self.request(samples, data="x"), 400, "no inference request"),
                (self.request(pictures(1)[:, :, :32].copy()), 400, "not within"), (self.request(pictures(65)), 400, "65")):
            answered, told = self.post(body)
            self.assertEqual(answered, code, told)
            self.assertIn(words, told["error"])
        self.assertEqual(self.post(b"", "/nothing")[0], 404)
        self.assertEqual(self.post(self.request(samples))[0], 200)
        with self.assertRaises(lathe.Error):
            lathe.ray.serve(engine(), replicas=0)


if __name__ == "__main__":
    unittest.main()
