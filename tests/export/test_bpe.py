"""Byte-level BPE from tokenizer.json to `lathe run --text`: a tiny RoBERTa and a tiny GPT-2 with seeded weights, exported,
built and run on texts, beside transformers. Run: python test_bpe.py LATHE"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS / "backends/golden"))

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
LONGEST = 24
# One of them is longer than the models take.
TEXTS = ["the quiet film", " it's  unrelated", "\U0001f600 日本の映画\u3000!", "a moving film, " * 9, "x"]
WIDTH = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 32}


def perturbed(network: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
    with torch.no_grad():
        for value in network.parameters():
            value.mul_(3)  # attention that differs from token to token
    return network.eval()


class ByteLevelBpe(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        self.folder = self.work / "model"
        torch.manual_seed(4)

    def lathe(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([LATHE, *arguments], cwd=self.work, capture_output=True, text=True, env=os.environ | {"LATHE_PYTHON": sys.executable})
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        return done

    def run_texts(self, engine: str, texts: list[str], *more: str) -> np.ndarray:
        said = [word for text in texts for word in ("--text", text)]
        self.lathe("run", engine, *said, "--output", "out.npz", *more)
        with np.load(self.work / "out.npz") as arrays:
            return arrays["logits"]

    def shapes(self, names: list[str], shape: str) -> list[str]:
        return [word for name in names for word in ("--shape", f"{name}:{shape}")]

    def compare(self, names: list[str], expected: np.ndarray) -> None:
        """Together (so padded), one by one, and filled up to one length."""
        self.assertGreater(np.abs(expected[1:] - expected[0]).max(), 1e-3, "the texts must count far more than the tolerance")
        self.lathe("build", "m.onnx", "--precision", "fp32", "--output", "m.engine", *self.shapes(names, f"1x1..4x8..8x{LONGEST}"))
        self.lathe("build", "m.onnx", "--precision", "fp32", "--output", "fixed.engine", *self.shapes(names, f"1x{LONGEST}"))
        np.testing.assert_allclose(self.run_texts("m.engine", TEXTS, "--batch-size", "5"), expected, atol=2e-5)
        # Longer outputs than logits differ in shape from text to text.
        for row, text in enumerate(TEXTS):
            np.testing.assert_allclose(self.run_texts("m.engine", [text]), expected[row : row + 1], atol=2e-5, err_msg=text)
        np.testing.assert_allclose(self.run_texts("fixed.engine", TEXTS, "--batch-size", "1"), expected, atol=2e-5)

    def tokenizer_written(self) -> dict:
        told = {prop.key: json.loads(prop.value) for prop in onnx.load(self.work / "m.onnx").metadata_props}
        return told.get("lathe.tokenizer", {})

    def test_roberta(self) -> None:
        make_tokenizer.save_roberta(self.folder, 512)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        # RoBERTa's positions begin behind its padding's id: two of the table's rows are no token's.
        config = transformers.RobertaConfig(**WIDTH, vocab_size=len(tokenizer), max_position_embeddings=LONGEST + 2, type_vocab_size=1, num_labels=3, pad_token_id=1, bos_token_id=0, eos_token_id=2)
        network = perturbed(transformers.RobertaForSequenceClassification(config))
        network.save_pretrained(self.folder)
        self.lathe("export", "model", "--output", "m.onnx")
        written = self.tokenizer_written()
        self.assertEqual((written["max_length"], written["pad_id"], written["padding"], written["inputs"]), (LONGEST, 1, "behind", ["input_ids", "attention_mask"]))
        with torch.inference_mode():
            expected = np.concatenate([network(**tokenizer(text, truncation=True, max_length=LONGEST, return_tensors="pt")).logits.numpy() for text in TEXTS])
        self.compare(["input_ids", "attention_mask"], expected)
        (self.work / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\nthe quiet film\ta moving film\t1\nx\tunrelated, and quiet\t0\n")
        self.lathe("run", "m.engine", "pairs.tsv", "--output", "out.npz")
        pairs = [("the quiet film", "a moving film"), ("x", "unrelated, and quiet")]
        with torch.inference_mode():
            expected = np.concatenate([network(**tokenizer(*pair, truncation=True, max_length=LONGEST, return_tensors="pt")).logits.numpy() for pair in pairs])
        with np.load(self.work / "out.npz") as arrays:
            np.testing.assert_allclose(arrays["logits"], expected, atol=2e-5)

    def test_gpt2(self) -> None:
        make_tokenizer.save_gpt2(self.folder, 1024)
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        config = transformers.GPT2Config(vocab_size=len(tokenizer), n_positions=LONGEST, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
        network = perturbed(transformers.GPT2LMHeadModel(config))
        network.save_pretrained(self.folder)
        self.lathe("export", "model", "--phase", "decode", "--output", "m.onnx")
        self.assertEqual(self.tokenizer_written(), {}, "a past is no text")
        self.lathe("export", "model", "--phase", "prefill", "--no-tokenizer", "--output", "m.onnx")
        self.assertEqual(self.tokenizer_written(), {})
        self.lathe("export", "model", "--phase", "prefill", "--output", "m.onnx")
        written = self.tokenizer_written()
        names = ["input_ids", "attention_mask", "position_ids"]
        self.assertEqual((written["max_length"], written["padding"], written["inputs"]), (LONGEST, "in front", names))
        with torch.inference_mode():
            expected = np.concatenate([network(**tokenizer(text, truncation=True, max_length=LONGEST, return_tensors="pt")).logits[:, -1].numpy() for text in TEXTS])
        self.compare(names, expected)
        said = self.lathe("run", "m.engine", "--text", "film", "--text", "", code=2)
        self.assertIn("no tokens", said.stderr)


if __name__ == "__main__":
    unittest.main()
