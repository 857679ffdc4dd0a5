"""Padding costs nothing in INT8 either: a tiny BERT, calibrated and quantised as a user does it, gives the same for a text
alone, beside longer ones and filled up to a fixed length. Run: python test_padding.py LATHE"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "backends/golden"))

try:
    import numpy as np
    import onnx
    import openvino_tokenizers  # noqa: F401
    import torch
    import transformers

    import make_tokenizer
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

LATHE = sys.argv.pop(1) if len(sys.argv) > 1 else "lathe"
LONGEST = 32
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Padding(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)

    def lathe(self, *arguments: str) -> None:
        done = subprocess.run([LATHE, *arguments], cwd=self.work, capture_output=True, text=True, env=os.environ | {"LATHE_PYTHON": sys.executable})
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stdout}{done.stderr}")

    def run_texts(self, engine: str, batch: int) -> np.ndarray:
        self.lathe("run", engine, "texts.txt", "--batch-size", str(batch), "--output", "out.npz")
        with np.load(self.work / "out.npz") as arrays:
            return arrays["embedding"]

    def build(self, model: str, name: str, precision: str, shape: str) -> None:
        self.lathe("build", model, "--precision", precision, "--output", f"{name}.engine", *(word for each in INPUTS for word in ("--shape", f"{each}:{shape}")))

    def test_an_int8_engine_gives_the_same_padded_or_not(self) -> None:
        torch.manual_seed(6)
        draw = np.random.default_rng(6)
        config = transformers.BertConfig(vocab_size=len(set(make_tokenizer.VOCABULARY)), max_position_embeddings=LONGEST, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128)
        network = transformers.BertModel(config, add_pooling_layer=False)
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(3)  # attention that differs from token to token
        network.save_pretrained(self.work / "model")
        make_tokenizer.save_bert(self.work / "model", LONGEST)
        words = [word for word in make_tokenizer.VOCABULARY if word.isascii() and word.isalpha()]
        # Lengths from one word to longer than the model takes, mixed.
        texts = [" ".join(draw.choice(words, size)) for size in draw.permutation(np.arange(1, 41))]
        (self.work / "texts.txt").write_text("\n".join(texts) + "\n")
        self.lathe("export", "model", "--pooling", "mean", "--output", "whole.onnx")
        self.lathe("simplify", "whole.onnx", "--output", "m.onnx")
        self.lathe("calibrate", "m.onnx", "--data", "texts.txt", "--output", "m.ranges")
        self.lathe("quantize", "m.onnx", "--ranges", "m.ranges", "--target", "openvino", "--output", "q.onnx")
        # A layer: the input of queries, keys and values, and those of the three products behind them.
        self.assertGreaterEqual(sum(node.op_type == "QuantizeLinear" for node in onnx.load(self.work / "q.onnx").graph.node), 8)
        self.build("m.onnx", "fp32", "fp32", f"1x1..8x16..40x{LONGEST}")
        self.build("q.onnx", "int8", "int8", f"1x1..8x16..40x{LONGEST}")
        self.build("q.onnx", "fixed", "int8", f"1x{LONGEST}")
        exact = self.run_texts("fp32.engine", 1)
        np.testing.assert_allclose(self.run_texts("fp32.engine", 40), exact, atol=1e-5)
        alone = self.run_texts("int8.engine", 1)
        noise = np.sqrt(np.mean((alone - exact) ** 2))
        self.assertGreater(noise, 1e-4, "an engine that does not round shows nothing")
        # A masked token's weight is exp(-10000) = 0 and scales are fixed, so no term of a sum comes from padding. Sums of
        # floats in another order differ in their last bit; where that lies on the border between two steps, one activation
        # moves by a step, which is what quantisation moves each of them by. Few do (none where this was written: 1e-6, noise
        # 9e-3).
        for name, padded in {"beside others": self.run_texts("int8.engine", 40), "filled up": self.run_texts("fixed.engine", 1)}.items():
            with self.subTest(name):
                difference = padded - alone
                self.assertLessEqual(np.sqrt(np.mean(difference**2)), 0.05 * noise)
                self.assertLessEqual(np.abs(difference).max(), noise)


if __name__ == "__main__":
    unittest.main()
