"""benchmarks/gpu: what travels to a GPU machine comes back bit for bit, and rank correlation is right. Skipped (77)
without NumPy."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("SKIPPED: no NumPy")
    sys.exit(77)

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from gpu import planes
from gpu.accuracy import SPEARMAN_LIMITS, ranks, spearman_of


class Planes(unittest.TestCase):
    def test_what_is_packed_comes_back(self):
        generator = np.random.default_rng(1)
        weights = (generator.standard_normal(100_000) * 0.05).astype(np.float32)
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -3.4e38], np.float32)
        for data in (weights.tobytes(), special.tobytes(), b"", b"ab", weights[:3].tobytes() + b"xyz", bytes(4096)):
            self.assertEqual(planes.unpack(planes.pack(data)), data)
        self.assertLess(len(planes.pack(weights.tobytes())), 0.9 * weights.nbytes)

    def test_what_is_damaged_is_refused(self):
        packed = planes.pack(np.arange(1000, dtype=np.float32).tobytes())
        for bad in (b"", b"other", packed[:20], packed[:-200], packed + b"x"):
            with self.assertRaises(Exception):
                planes.unpack(bad)

    def test_parts_are_read_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in (("w.01", b"cd"), ("w.00", b"ab"), ("w.02", b"e"), ("other.00", b"z")):
                (Path(folder) / name).write_bytes(data)
            self.assertEqual(planes.read_parts(Path(folder) / "w"), b"abcde")
            with self.assertRaises(FileNotFoundError):
                planes.read_parts(Path(folder) / "missing")


class Limits(unittest.TestCase):
    def test_results_were_judged_by_the_limits_of_today(self):
        judged = 0
        for file in sorted((BENCHMARKS / "results").glob("*.accuracy.json")):
            for check in json.loads(file.read_text(encoding="utf-8"))["checks"]:
                precision = check["what"].split(":")[0]
                if "Spearman" not in check["what"]:
                    continue
                judged += 1
                self.assertEqual(check["limit"], SPEARMAN_LIMITS[precision], file.name)
                base = float(check["what"].split("(")[1].rstrip(")"))
                self.assertEqual(check["holds"], abs(check["value"] - base) <= check["limit"], file.name)
        self.assertGreater(judged, 0)


class Correlation(unittest.TestCase):
    def test_equal_values_share_their_rank(self):
        self.assertEqual(ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist(), [3.5, 1.0, 3.5, 2.0])

    def test_spearman_follows_the_order_alone(self):
        angles = np.array([0.1, 0.5, 0.9, 1.4])
        vectors = np.empty((8, 2))
        vectors[0::2] = [[2.0, 0.0]] * 4
        vectors[1::2] = np.stack([5 * np.cos(angles), 5 * np.sin(angles)], 1)
        self.assertAlmostEqual(spearman_of(vectors, [5.0, 3.0, 2.9, 0.0]), 1.0)
        self.assertAlmostEqual(spearman_of(vectors, [0.0, 2.9, 3.0, 5.0]), -1.0)
        # ranks of the scores 1, 2, 4, 3 against 4, 3, 2, 1: 1 - 6 (9 + 1 + 4 + 4) / 60
        self.assertAlmostEqual(spearman_of(vectors, [1.0, 2.0, 4.0, 3.0]), 1 - 6 * 18 / 60)


if __name__ == "__main__":
    unittest.main()
