"""`lathe eval --task squad` on a small BertForQuestionAnswering with seeded weights, exported, simplified, built and run,
beside an evaluation written here in PyTorch and Python. Run: python test_squad.py LATHE"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "evaluate"))

try:
    import onnx  # noqa: F401, the export needs it
    import openvino_tokenizers  # noqa: F401
    import torch
    import transformers
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

import squad_reference

LATHE = sys.argv.pop(1) if len(sys.argv) > 1 else "lathe"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = "river city king war built north song light people born the of in a and was who when where what".split()
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *"bcdefghijklmnopqrstuvwxyz0123456789.,?'-()\u20ac\u2018\u2019", "##\u00b0", *("##" + letter for letter in LETTERS)]


def pieces(text: str) -> list[tuple[int, int]]:
    """Begin and end of each word and mark, as BERT's basic tokenizer parts them."""
    found: list[tuple[int, int]] = []
    inside = False
    for at, letter in enumerate(text):
        mark = unicodedata.category(letter).startswith("P") or (letter.isascii() and not letter.isalnum() and not letter.isspace())
        if letter.isspace() or mark or not inside:
            inside = not letter.isspace() and not mark
            if not letter.isspace():
                found.append((at, at + 1))
        else:
            found[-1] = (found[-1][0], at + 1)
    return found


class Reference:
    """Windows, answers and scores as BERT's authors define them."""

    def __init__(self, network: Any, tokenizer: Any, length: int, stride: int, question: int, n_best: int, answer: int) -> None:
        self.network, self.tokenizer = network, tokenizer
        self.length, self.stride, self.question, self.n_best, self.answer = length, stride, question, n_best, answer
        self.windows = 0

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.convert_tokens_to_ids(self.tokenizer.tokenize(text))

    def ask(self, question: str, context: str, may_be_none: bool) -> str:
        asked = self.ids(question)[: self.question]
        tokens = [(token, span) for span in pieces(context) for token in self.ids(context[slice(*span)])]
        room = self.length - len(asked) - 3
        starts = [0]
        while starts[-1] + room < len(tokens):
            starts.append(starts[-1] + min(self.stride, room))
        spans = [range(start, min(start + room, len(tokens))) for start in starts]
        self.windows += len(spans)
        best, best_score, none = "", -float("inf"), float("inf")
        for window, span in enumerate(spans):
            ids = [2, *asked, 3, *(tokens[i][0] for i in span), 3]
            types = [0] * (len(asked) + 2) + [1] * (len(span) + 1)
            with torch.inference_mode():
                given = self.network(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.int64), torch.tensor([types]))
            begin, end = given.start_logits[0].tolist(), given.end_logits[0].tolist()
            none = min(none, begin[0] + end[0])
            first = len(asked) + 2

            def richest(token: int) -> bool:
                scores = [(min(token - other[0], other[-1] - token) + 0.01 * len(other), -i) for i, other in enumerate(spans) if token in other]
                return max(scores)[1] == -window

            top = [sorted(range(len(ids)), key=lambda i, side=side: -side[i])[: self.n_best] for side in (begin, end)]
            for i in top[0]:
                for j in top[1]:
                    if not (first <= i <= j < first + len(span)) or j - i + 1 > self.answer or not richest(span[i - first]):
                        continue
                    if begin[i] + end[j] > best_score:
                        best_score = begin[i] + end[j]
                        best = context[tokens[span[i - first]][1][0]: tokens[span[j - first]][1][1]]
        return "" if may_be_none and none > best_score else best


class Squad(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory()
        cls.work = Path(cls.temporary.name)
        folder = cls.work / "model"
        torch.manual_seed(3)
        config = transformers.BertConfig(vocab_size=len(VOCABULARY), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, max_position_embeddings=64)
        cls.network = transformers.BertForQuestionAnswering(config).eval()
        with torch.no_grad():
            for value in cls.network.parameters():
                value.mul_(3)
        cls.network.save_pretrained(folder)
        (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
        cls.tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt"), model_max_length=64)
        cls.tokenizer.save_pretrained(folder)
        cls.lathe("export", str(folder), "--output", "m.onnx")
        cls.lathe("simplify", "m.onnx", "--output", "s.onnx")
        shapes = [option for name in ("input_ids", "attention_mask", "token_type_ids") for option in ("--shape", f"{name}:1x1..4x32..16x64")]
        cls.lathe("build", "s.onnx", "--precision", "fp32", *shapes, "--output", "m.engine")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.temporary.cleanup()

    @classmethod
    def lathe(cls, *arguments: str) -> str:
        done = subprocess.run([LATHE, *arguments], cwd=cls.work, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"lathe {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def dataset(self, version2: bool) -> dict[str, Any]:
        draw = random.Random(8)
        paragraphs = []
        for number in range(4):
            words = [draw.choice([*WORDS, "B" + draw.choice(LETTERS) * 2, "3.5", "king's", "caf\u00e9", "(north-west),", "\u2018song\u2019", "\u20ac5,", "12\u00b0"]) for _ in range(draw.randint(6, 90))]
            context = " ".join(words) + "."
            questions = []
            for at in range(5):
                begin = draw.randrange(len(words))
                answers = [{"text": " ".join(words[begin: begin + n]), "answer_start": 0} for n in (1, 3)]
                entry = {"id": f"{number}-{at}", "question": " ".join(draw.choice(WORDS) for _ in range(draw.randint(2, 20))) + "?", "answers": answers}
                if version2:
                    entry["is_impossible"] = at % 2 == 0
                    if at % 2 == 0:
                        entry["answers"] = []
                questions.append(entry)
            paragraphs.append({"context": context, "qas": questions})
        return {"version": "own", "data": [{"title": "own", "paragraphs": paragraphs}]}

    def check(self, version2: bool) -> None:
        data = self.dataset(version2)
        (self.work / "squad.json").write_text(json.dumps(data))
        document = json.loads(self.lathe(
            "eval", "m.engine", "--task", "squad", "--data", "squad.json", "--max-length", "48", "--doc-stride", "16", "--max-question", "10",
            "--n-best", "12", "--max-answer", "9", "--json"))
        reference = Reference(self.network, self.tokenizer, 48, 16, 10, 12, 9)
        score = squad_reference.score_v2 if version2 else squad_reference.score_v1
        rows = []
        for paragraph in data["data"][0]["paragraphs"]:
            for each in paragraph["qas"]:
                answer = reference.ask(each["question"], paragraph["context"], version2)
                rows.append((score(answer, [given["text"] for given in each["answers"]]), bool(each["answers"])))
        subject = document["subjects"][0]
        self.assertEqual(document["squad_version"], "2.0" if version2 else "1.1")
        self.assertEqual(document["windows"], reference.windows)
        self.assertGreater(reference.windows, len(rows), "some contexts must need more than one window")
        for key, part in (("exact", 0), ("f1", 1)):
            self.assertAlmostEqual(subject[key], sum(row[0][part] for row in rows) / len(rows), places=9)
            if version2:
                for name, wanted in (("has_answer", True), ("no_answer", False)):
                    kept = [row[0][part] for row in rows if row[1] == wanted]
                    self.assertAlmostEqual(subject[name][key], sum(kept) / len(kept), places=9)
        self.assertGreater(subject["f1"], 0, "an evaluation in which nothing is right shows little")

    def test_the_scores_in_python_equal_the_official_scripts(self) -> None:
        golden = json.loads((Path(squad_reference.__file__).parent / "golden/squad_cases.json").read_text(encoding="utf-8"))
        for case in golden["cases"]:
            self.assertEqual(squad_reference.normalize(case["prediction"]), case["normalized"])
            if case["v1"] is not None:
                self.assertEqual(list(squad_reference.score_v1(case["prediction"], case["answers"])), case["v1"], case)
            self.assertEqual(list(squad_reference.score_v2(case["prediction"], case["answers"])), case["v2"], case)

    def test_version_1(self) -> None:
        self.check(False)

    def test_version_2(self) -> None:
        self.check(True)

    def test_refusals(self) -> None:
        (self.work / "bad.json").write_text('{"data": 3}')
        done = subprocess.run([LATHE, "eval", "m.engine", "--task", "squad", "--data", "bad.json"], cwd=self.work, capture_output=True, text=True)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("no SQuAD file", done.stderr)


if __name__ == "__main__":
    unittest.main()
