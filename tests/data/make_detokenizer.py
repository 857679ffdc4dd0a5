"""Writes golden/detokenizer.json: small tokenizers and what Hugging Face's decode makes of some tokens, whole and continued.
Run: python make_detokenizer.py"""

import json
import random
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["the quiet film", "it's we'll, don't. Really? Yes!", "日本の映画 日本語", "\U0001f600 \U0001f469‍\U0001f52c film", "  two  spaces\n\nand lines", "Ελληνικά e\u0301",
         "films of 1066"]


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(
        vocab_size=330, min_frequency=1, special_tokens=["<|endoftext|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False))
    tokenizer.add_tokens(["<keep>", "日本"])
    return tokenizer


def word_piece():
    words = "[PAD] [UNK] [CLS] [SEP] the quiet film ##s un ##related it ' s a moving , . ! ? n't do not ve ##ly 日 本".split()
    tokenizer = Tokenizer(models.WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens([AddedToken(word, special=True) for word in words[:4]])
    return tokenizer


def main():
    document = []
    for make in (byte_level, word_piece):
        tokenizer = make()
        draw = random.Random(5)
        count = tokenizer.get_vocab_size()
        rows = [tokenizer.encode(text).ids for text in TEXTS]
        rows += [[draw.randrange(count) for _ in range(draw.randrange(1, 24))] for _ in range(200)]
        rows += [[], [0], [count + 7, 5, 6]]
        # What may be said again of a text is only a prefix of what all of it says where no character is torn.
        cases = [{"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=True)} for ids in rows]
        document.append({"huggingface": json.loads(tokenizer.to_str()), "cases": cases})
    Path(__file__).with_name("golden").joinpath("detokenizer.json").write_text(
        json.dumps(document, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
