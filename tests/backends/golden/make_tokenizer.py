"""Writes tokenizer.json beside this file: a small WordPiece tokenizer as `lathe export` packs it, and what Hugging Face's
tokenizers make of some texts, single and in pairs, cut at 12 tokens. Run: python make_tokenizer.py"""

import json
import sys
import tempfile
from pathlib import Path

from transformers import BertTokenizerFast

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
from lathe_export import tokenizer as tokenizers  # noqa: E402

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the quiet film film ##s un ##related it ' s a moving , . ! ? ( ) 5 µ ##m strasse stra ##ß ##e κυριο ##ς ##σ 日 本 cafe 1 ##2 ##3".split()
TEXTS = [
    "The quiet FILMS", "", "   ", "unrelated", "it's a moving, quiet film!", "5 µm", "Straße", "ΚΥΡΙΟς κυριοσ", "日本", "Café cafe\u0301",
    "the\tfilm\n.", "12 123", "nothing known here", "the film the film the film the film the film the film", "a [MASK] film", "\u200bfilm\u00ad \ue000film",
]
PAIRS = [("the film", "a quiet film"), ("the film the film the film the film the film", "a quiet film"), ("a film", "the film the film the film the film the film"), ("", "film")]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(VOCABULARY)) + "\n", encoding="utf-8")
        BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True, model_max_length=12).save_pretrained(folder)
        huggingface = tokenizers.load(folder)
        metadata = tokenizers.metadata(folder, ["input_ids", "attention_mask", "token_type_ids"], 12, False)
        metadata["source"], metadata["digest"] = ["vocab.txt"], "sha256:golden"
        single = [huggingface(text, truncation=True, max_length=12)["input_ids"] for text in TEXTS]
        shorter = [huggingface(text, truncation=True, max_length=6)["input_ids"] for text in TEXTS]
        joined = [huggingface(a, b, truncation=True, max_length=12) for a, b in PAIRS]
    document = {
        "tokenizer": metadata, "texts": TEXTS, "ids": single, "ids_at_most_6": shorter,
        "pairs": PAIRS, "pair_ids": [each["input_ids"] for each in joined], "pair_types": [each["token_type_ids"] for each in joined],
    }
    Path(__file__).with_name("tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


main()
