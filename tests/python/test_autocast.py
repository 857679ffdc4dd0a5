"""lathe.autocast."""

import unittest

import lathe
import numpy as np
from common import DEMO, FOLDER, MODEL, loud_network, pictures


class Autocast(unittest.TestCase):
    def test_measured_values_decide(self):
        simplified = lathe.simplify(MODEL).model
        found = lathe.autocast(simplified, pictures(8), samples=8, output=FOLDER / "half.onnx")
        self.assertTrue(found.measured)
        self.assertEqual((found.format, found.samples, found.document["by"]), ("fp16", 8, "range"))
        self.assertEqual(sum(decision.cast for decision in found.decisions), found.cast_nodes)
        self.assertEqual(sum(not decision.cast for decision in found.decisions), found.fp32_nodes)
        self.assertGreater(found.cast_nodes, 0)
        self.assertEqual(len(found.table()), len(found.decisions))
        compared = lathe.compare_models(simplified, FOLDER / "half.onnx", data=pictures(2), rtol=1)
        output = next(value for value in compared.values if value.output)
        self.assertTrue(30 < output.sqnr_db < 120, output)
        same = lathe.compare_models(found.model, FOLDER / "half.onnx", data=pictures(2))
        self.assertEqual(same.first_past, "")

    def test_ready_ranges_and_pictures(self):
        simplified = lathe.simplify(MODEL).model
        ranges = FOLDER / "all.ranges"
        first = lathe.autocast(simplified, DEMO / "calibrate", ranges=ranges, samples=8, to="bf16")
        self.assertEqual(first.format, "bf16")
        self.assertTrue(ranges.exists())
        again = lathe.autocast(simplified, ranges=lathe.Calibration.load(ranges), exclude=["Gemm"])
        reasons = {decision.op: decision.reason for decision in again.decisions}
        self.assertEqual(reasons["Gemm"], "excluded_by_user")

    def test_what_overflows_is_told(self):
        model, samples = loud_network()
        found = lathe.autocast(model, samples * 100, headroom=1.0)
        largest = found.overflow[0]
        self.assertEqual((largest.tensor, largest.constant), ("v0", False))
        self.assertAlmostEqual(largest.absmax, float(np.abs(samples * 100).max()), delta=1)
        self.assertTrue(0 < largest.share[0] <= largest.share[1] < 1)
        first = next(decision for decision in found.decisions if decision.node == "product0")
        self.assertEqual((first.cast, first.reason), (False, "activation_overflow"))

    def test_operations_decide(self):
        found = lathe.autocast(MODEL)
        self.assertFalse(found.measured)
        self.assertEqual(found.decisions, [])
        self.assertGreater(found.casts, 0)

    def test_wrong_arguments_are_told(self):
        for options, code in (({"to": "int8"}, "invalid_argument"), ({"to": "fp17"}, "invalid_argument"),
                              ({"headroom": 3.0}, "invalid_argument"), ({"accumulate": "fp8"}, "invalid_argument"),
                              ({"data": FOLDER / "nowhere"}, "not_found"),
                              ({"data": pictures(2), "exclude": ["nosuch"]}, "not_found")):
            with self.subTest(options=list(options)), self.assertRaises(lathe.Error) as caught:
                lathe.autocast(MODEL, **options)
            self.assertEqual(caught.exception.code, code)


if __name__ == "__main__":
    unittest.main()
