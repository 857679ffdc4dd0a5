"""Writes tokenizer.json, bpe.json and bpe_prompt.json beside this file: a small WordPiece tokenizer and two byte-level BPE
ones, as RoBERTa's and GPT-2's, as `lathe export` packs them, and what Hugging Face's tokenizers make of some texts,
single and in pairs, cut at 12 tokens. Run: python make_tokenizer.py"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import tokenizers as huggingface_tokenizers
from transformers import AddedToken, BertTokenizerFast, GPT2Tokenizer, RobertaTokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "python"))
from lathe_export import tokenizer as tokenizers  # noqa: E402

VOCABULARY = "[PAD] [UNK] [CLS] [SEP] [MASK] the quiet film film ##s un ##related it ' s a moving , . ! ? ( ) 5 µ ##m strasse stra ##ß ##e κυριο ##ς ##σ 日 本 cafe 1 ##2 ##3".split()
TEXTS = [
    "The quiet FILMS", "", "   ", "unrelated", "it's a moving, quiet film!", "5 µm", "Straße", "ΚΥΡΙΟς κυριοσ", "日本", "Café cafe\u0301",
    "the\tfilm\n.", "12 123", "nothing known here", "the film the film the film the film the film the film", "a [MASK] film", "\u200bfilm\u00ad \ue000film",
]
PAIRS = [("the film", "a quiet film"), ("the film the film the film the film the film", "a quiet film"), ("a film", "the film the film the film the film the film"), ("", "film")]
# What byte-level BPE parts by rules of its own: spaces, apostrophes, digits, and letters of several bytes.
BYTE_TEXTS = [
    *TEXTS, " the film", "the film ", "two  spaces   three", "the\n\nfilm\r\n\r\n x", " \t the", "it's we'll I'd HE'S don't 's", "3.5% of 1,066", "a_b __init__",
    "\U0001f600 film \U0001f469\u200d\U0001f52c\U0001f1e9\U0001f1ea!", "日本語のテキスト、漢字。", "全角\u3000空白\u3000\u3000x", "nbsp\u00a0here \u2003em\u2028line\u0085next", "Ελληνικά κύριος", "हिन्दी ก็ שלום",
    "m² ½ Ⅷ x²", "\ufeffx\u200dy", "film<mask> film", "a <mask> film", "<s>film</s>", "<|endoftext|>film", "\x7f\x01", "\U0001f600" * 10, "日本" * 10, "http://a.b/c?d=e&f",
]
CORPUS = ["the quiet film", "a moving film, quiet and unrelated", "it's the film that we'll see", "films of 1066 and 1984 in the city", "日本の映画 日本語", "\U0001f600 \U0001f600 the film", "  two  spaces", "Ελληνικά"]


def byte_level_bpe(specials: list[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Vocabulary and merges learnt from CORPUS; the special tokens come first."""
    learner = huggingface_tokenizers.Tokenizer(huggingface_tokenizers.models.BPE())
    learner.pre_tokenizer = huggingface_tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(huggingface_tokenizers.pre_tokenizers.ByteLevel.alphabet())
    learner.train_from_iterator(CORPUS, huggingface_tokenizers.trainers.BpeTrainer(vocab_size=400, min_frequency=1, special_tokens=specials, initial_alphabet=alphabet, show_progress=False))
    model = json.loads(learner.to_str())["model"]
    return model["vocab"], [tuple(pair) for pair in model["merges"]]


def save_roberta(folder: Path, length: int) -> None:
    vocabulary, merges = byte_level_bpe(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    RobertaTokenizer(vocab=vocabulary, merges=merges, mask_token=AddedToken("<mask>", lstrip=True), model_max_length=length).save_pretrained(folder)


def save_gpt2(folder: Path, length: int) -> None:
    vocabulary, merges = byte_level_bpe(["<|endoftext|>"])
    GPT2Tokenizer(vocab=vocabulary, merges=merges, model_max_length=length).save_pretrained(folder)


def save_bert(folder: Path, length: int) -> None:
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(VOCABULARY)) + "\n", encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt"), do_lower_case=True, model_max_length=length).save_pretrained(folder)


def write(name: str, save: Any, source: str, inputs: list[str], texts: list[str], padding: str = "behind") -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save(folder, 12)
        huggingface = tokenizers.load(folder)
        metadata = tokenizers.metadata(folder, inputs, 12, False, padding)
        metadata["source"], metadata["digest"] = [source], "sha256:golden"
        single = [huggingface(text, truncation=True, max_length=12)["input_ids"] for text in texts]
        shorter = [huggingface(text, truncation=True, max_length=6)["input_ids"] for text in texts]
        joined = [huggingface(a, b, truncation=True, max_length=12) for a, b in PAIRS]
    document = {
        "tokenizer": metadata, "texts": texts, "ids": single, "ids_at_most_6": shorter,
        "pairs": PAIRS, "pair_ids": [each["input_ids"] for each in joined], "pair_types": [each["token_type_ids"] for each in joined if "token_type_ids" in each],
    }
    Path(__file__).with_name(name).write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    write("tokenizer.json", save_bert, "vocab.txt", ["input_ids", "attention_mask", "token_type_ids"], TEXTS)
    write("bpe.json", save_roberta, "tokenizer.json", ["input_ids", "attention_mask"], BYTE_TEXTS)
    write("bpe_prompt.json", save_gpt2, "tokenizer.json", ["input_ids", "attention_mask", "position_ids"], BYTE_TEXTS, "in front")


if __name__ == "__main__":
    main()
