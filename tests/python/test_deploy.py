"""lathe.deploy."""

import unittest

import lathe
from common import FOLDER, engine


class Deploy(unittest.TestCase):
    def test_a_repository(self):
        told = lathe.deploy([engine(), FOLDER / "shapes.engine"], FOLDER / "repo", names=["one", "two"],
                            backend="onnxruntime", max_queue=8)
        self.assertEqual([model.name for model in told.models], ["one", "two"])
        self.assertEqual(told.models[1].max_batch, 64)
        self.assertIsNone(told.backend_directory)
        self.assertFalse(told.models[0].sized)
        self.assertIn("max_batch_size: 64", (told.models[0].folder / "config.pbtxt").read_text(encoding="utf-8"))
        self.assertTrue((told.models[0].folder / "client.py").exists())
        self.assertEqual(told.document["models"][1]["engine"].rpartition("/")[2], "shapes.engine")
        self.assertEqual(len(told.table()), 2)

    def test_a_size_by_measurements(self):
        bench = lathe.bench([engine()], against=[], batch_sizes=[1, 8], duration_s=0.1, time_limit_s=0.3)
        sized = lathe.deploy(engine(), FOLDER / "sized", bench=bench, backend="onnxruntime")
        self.assertTrue(sized.models[0].sized)
        self.assertEqual(sized.models[0].name, "shapes")
        self.assertGreater(len(sized.models[0].reason), 10)

    def test_manifests(self):
        cluster = lathe.Cluster("server:1", "pvc://models/m", most_servers=3)
        told = lathe.deploy(engine(), FOLDER / "cluster", cluster=cluster)
        self.assertEqual(told.repository, FOLDER / "cluster" / "models")
        self.assertEqual(told.manifests[0].name, "inferenceservice.yaml")
        self.assertIn("maxReplicas: 3", told.manifests[0].read_text(encoding="utf-8"))

    def test_wrong_arguments_are_told(self):
        bad = lathe.Cluster("server:1", "/models")
        for engines, options, code in (([], {}, "invalid_argument"), (FOLDER / "none.engine", {}, "not_found"),
                                       (engine(), {"backend": "pytorch"}, "invalid_argument"),
                                       (engine(), {"slo": "p99=1s"}, "invalid_argument"),
                                       (engine(), {"streams": 2}, "invalid_argument"),
                                       (engine(), {"generate": True}, "not_found"),
                                       (engine(), {"cluster": bad}, "invalid_argument")):
            with self.subTest(options=options), self.assertRaises(lathe.Error) as caught:
                lathe.deploy(engines, FOLDER / "wrong", **options)
            self.assertEqual(caught.exception.code, code)
        self.assertFalse((FOLDER / "wrong").exists())


if __name__ == "__main__":
    unittest.main()
