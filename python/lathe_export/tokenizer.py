"""A model's tokenizer as Lathe carries it: OpenVINO Tokenizers' graphs, made from the Hugging Face tokenizer files.

The metadata key `lathe.tokenizer` holds one JSON object:
    format      "openvino_tokenizers"
    version     of the package that made the graphs
    source      file names the tokenizer was read from, and "digest", their SHA-256
    max_length  most tokens of a sample, special tokens included
    pad_id      what fills up shorter samples
    padding     "behind" a sample's tokens, or "in front" of them where the model continues the text
    inputs      the model inputs that tokens fill: input_ids, attention_mask, token_type_ids, position_ids
    pairs       "separate" where the two texts of a pair are samples of their own (their embeddings are compared), "joint"
                where they are one
    single      the graph for one text: {"xml": ..., "weights": ...}, each zlib-compressed and base64-encoded
    pair        the same for two texts a sample; absent where the tokenizer joins no pairs
    huggingface the tokenizer.json of Hugging Face's own `tokenizers`, for clients of servers (`lathe deploy`); absent where
                the tokenizer has no such form
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from .errors import ExportError, one_line

FILES = ("tokenizer.json", "vocab.txt", "tokenizer_config.json", "special_tokens_map.json", "merges.txt", "vocab.json")
# The letters that lower-casing keeps and case folding replaces (CaseFolding.txt), as far as such texts hold them:
# micro sign, long s, final sigma, the Greek symbols.
UNFOLDED = "\u00b5\u017f\u03c2\u03d0\u03d1\u03d5\u03d6\u03f0\u03f1\u03f5"
FIRST_PRIVATE = 0xE000


@contextlib.contextmanager
def lower_case_as_hugging_face() -> Iterator[None]:
    """OpenVINO Tokenizers folds case (final sigma becomes sigma) where Hugging Face lower-cases. The letters that differ
    are hidden behind private-use characters, which Hugging Face's own clean-up drops from texts, while case is folded."""
    from openvino_tokenizers.tokenizer_pipeline import CharsmapStep, RegexNormalizationStep

    fold = CharsmapStep.get_ov_subgraph

    def lower(step: Any, nodes: list[Any]) -> list[Any]:
        if not step.case_fold:
            return fold(step, nodes)
        nodes = RegexNormalizationStep(r"\p{Co}", "").get_ov_subgraph(nodes)
        hidden = [(letter, chr(FIRST_PRIVATE + i)) for i, letter in enumerate(UNFOLDED)]
        for letter, private in hidden:
            nodes = RegexNormalizationStep(letter, private).get_ov_subgraph(nodes)
        nodes = fold(step, nodes)
        for letter, private in hidden:
            nodes = RegexNormalizationStep(private, letter).get_ov_subgraph(nodes)
        return nodes

    with mock.patch.object(CharsmapStep, "get_ov_subgraph", lower):
        yield


def _packed(model: Any) -> dict[str, str]:
    import openvino

    def pack(data: bytes) -> str:
        return base64.b64encode(zlib.compress(data, 9)).decode("ascii")

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.xml"
        openvino.save_model(model, str(path), compress_to_fp16=False)
        return {"xml": pack(path.read_bytes()), "weights": pack(path.with_suffix(".bin").read_bytes())}


def load(folder: Path) -> Any:
    """The Hugging Face tokenizer of a local folder."""
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise ExportError("unsupported", f"tokenizers need transformers: {one_line(error)}", "", "pip install transformers") from error
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        raise ExportError("parse_error", f"the tokenizer cannot be read: {one_line(error)}", str(folder), "the folder needs tokenizer.json or vocab.txt") from error


def max_length_of(folder: Path, tokenizer: Any, positions: int | None) -> int:
    """The most tokens the model was made for: sentence-transformers' setting, the tokenizer's, the model's positions."""
    lengths = [n for n in (positions, getattr(tokenizer, "model_max_length", None)) if isinstance(n, int) and 0 < n < 1_000_000]
    settings = folder / "sentence_bert_config.json"
    if settings.is_file():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            lengths.append(int(json.loads(settings.read_text(encoding="utf-8"))["max_seq_length"]))
    return min(lengths) if lengths else 512


def metadata(folder: Path, inputs: list[str], positions: int | None, separate: bool, padding: str = "behind") -> dict[str, Any] | None:
    """What goes under `lathe.tokenizer`; nothing for a folder without a tokenizer."""
    files = [folder / name for name in FILES if (folder / name).is_file()]
    if not any(file.name in ("tokenizer.json", "vocab.txt", "vocab.json") for file in files):
        return None
    try:
        import openvino_tokenizers
    except ImportError as error:
        raise ExportError("unsupported", f"the tokenizer needs openvino-tokenizers: {one_line(error)}", "", "pip install openvino-tokenizers, or export with --no-tokenizer") from error
    tokenizer = load(folder)
    length = max_length_of(folder, tokenizer, positions)
    tokenizer.model_max_length = length
    tokenizer.padding_side = "left" if padding == "in front" else "right"
    graphs: dict[str, Any] = {}
    try:
        with lower_case_as_hugging_face():
            for name, count in {"single": 1, "pair": 2}.items():
                try:
                    converted = openvino_tokenizers.convert_tokenizer(tokenizer, number_of_inputs=count, truncation=True)
                except Exception:
                    if name == "single":
                        raise
                    continue
                # Where its pass finds no second text's place it leaves the graph as it is.
                if len(converted.inputs) == count:
                    graphs[name] = _packed(converted)
    except Exception as error:
        raise ExportError("unsupported", f"OpenVINO Tokenizers cannot convert this tokenizer: {one_line(error)}", str(folder), "export with --no-tokenizer and give arrays as data") from error
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        graphs["huggingface"] = json.loads(fast.to_str())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return {
        "format": "openvino_tokenizers", "version": openvino_tokenizers.__version__, "source": [file.name for file in files],
        "digest": "sha256:" + digest.hexdigest(), "max_length": length, "pad_id": int(tokenizer.pad_token_id or 0), "padding": padding, "inputs": inputs,
        "pairs": "separate" if separate else "joint", **graphs,
    }
