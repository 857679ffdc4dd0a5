"""lathe.tune."""

import unittest

import lathe
from common import FOLDER, loud_network

QUICK = {"metric": "kl", "max_drop": 1, "budget_s": 0, "time_limit_s": 0.1, "effort": 0, "sensitivity_samples": 8}


class Interrupting(lathe.Reporter):
    """Ctrl-C, as it comes to a user who has seen a trial."""

    def tell(self, line):
        if "FP32" in line:
            raise KeyboardInterrupt


class Tune(unittest.TestCase):
    def test_an_engine_that_was_judged(self):
        model, samples = loud_network()
        found = lathe.tune(model, samples, output=FOLDER / "best.engine", results=FOLDER / "t.json", **QUICK)
        self.assertEqual((found.search_samples, found.judged_samples), (32, 32))
        self.assertEqual((found.metric, found.drop_unit), ("kl", "nats"))
        self.assertEqual(found.trials[0].name, "FP32")
        (chosen,) = (trial for trial in found.trials if trial.chosen)
        self.assertEqual(chosen.name, found.chosen)
        self.assertEqual(found.document["chosen"], found.chosen)
        self.assertEqual(found.layers[0].node, "product0")
        self.assertEqual(max(found.layers, key=lambda layer: layer.damage).node, "product0")
        self.assertEqual(len(found.table()), len(found.trials))
        self.assertEqual(found.engine.session().run(samples[:2]).shape, (2, 256))
        self.assertTrue((FOLDER / "t.json").exists())
        self.assertFalse((FOLDER / "best.engine.journal").exists())
        self.assertIn(found.text, str(found))

    def test_interrupted_it_goes_on(self):
        model, samples = loud_network()
        call = {"output": FOLDER / "stopped.engine", "judge": samples[:16], **QUICK}
        with self.assertRaises(KeyboardInterrupt):
            lathe.tune(model, samples, progress=Interrupting(), **call)
        self.assertTrue((FOLDER / "stopped.engine.journal").exists())
        with self.assertRaises(lathe.Error) as caught:
            lathe.tune(model, samples, **call | {"judge": samples[:8]})
        self.assertEqual(caught.exception.code, "mismatch")
        found = lathe.tune(model, samples, **call)
        self.assertEqual((found.search_samples, found.judged_samples), (64, 16))

    def test_a_ready_sensitivity(self):
        model, samples = loud_network()
        known = lathe.sensitivity(model, samples, samples=16)
        found = lathe.tune(model, samples, output=FOLDER / "known.engine", sensitivity=known, **QUICK)
        damage = {layer.node: layer.mean_kl for layer in known.layers}
        for layer in found.layers:
            self.assertAlmostEqual(layer.damage, damage[layer.node])

    def test_wrong_arguments_are_told(self):
        model, samples = loud_network()
        for options, code in (({"metric": "beauty"}, "invalid_argument"), ({"metric": "top1"}, "invalid_argument"),
                              ({"device": "abacus"}, "invalid_argument"), ({"kernels": "slow"}, "invalid_argument"),
                              ({"judge": FOLDER / "nowhere"}, "not_found"), ({"max_drop": -1}, "invalid_argument"),
                              ({"task": {"nmae": "x"}}, "invalid_argument")):
            with self.subTest(options=options), self.assertRaises(lathe.Error) as caught:
                lathe.tune(model, samples, output=FOLDER / "wrong.engine", **QUICK | options)
            self.assertEqual(caught.exception.code, code)
        self.assertFalse((FOLDER / "wrong.engine").exists())


if __name__ == "__main__":
    unittest.main()
