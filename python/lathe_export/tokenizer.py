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
import copy
import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from .errors import ExportError, one_line
from .tokenizer_check import refuse_differences

# Where a folder holds one of these it has a tokenizer.
VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json")
# SentencePiece's own files: read where there is no other vocabulary.
SENTENCEPIECE = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "spm.model")
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
    spm = _names(folder, SENTENCEPIECE) if not _names(folder, VOCABULARIES) else []
    cure = "the folder needs tokenizer.json or vocab.txt" if not spm else (
        "pip install sentencepiece protobuf; or save the tokenizer with AutoTokenizer.from_pretrained(…).save_pretrained(…) where those are, which writes tokenizer.json; "
        "or export with --no-tokenizer"
    )
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        what = f"transformers cannot make a tokenizer of {spm[0]}" if spm else "the tokenizer cannot be read"
        raise ExportError("unsupported" if spm else "parse_error", f"{what}: {one_line(error)}", str(folder), cure) from error
    # Where its class finds no file of its own it makes an empty one and does not say so.
    wanted = dict.fromkeys([*(name for name in tokenizer.vocab_files_names.values() if isinstance(name, str)), "tokenizer.json"])
    if not _names(folder, tuple(wanted)):
        found = ", ".join(spm or _names(folder, VOCABULARIES))
        raise ExportError("unsupported", f"the folder has {found}, but a {type(tokenizer).__name__} reads {' or '.join(wanted)}", str(folder), cure)
    return tokenizer


def _names(folder: Path, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if (folder / name).is_file()]


def max_length_of(folder: Path, tokenizer: Any, positions: int | None) -> int:
    """The most tokens the model was made for: sentence-transformers' setting, the tokenizer's, the model's positions."""
    lengths = [n for n in (positions, getattr(tokenizer, "model_max_length", None)) if isinstance(n, int) and 0 < n < 1_000_000]
    settings = folder / "sentence_bert_config.json"
    if settings.is_file():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            lengths.append(int(json.loads(settings.read_text(encoding="utf-8"))["max_seq_length"]))
    return min(lengths) if lengths else 512


def refuse_lower_casing(folder: Path, tokenizer: Any) -> None:
    """sentence-transformers lower-cases texts itself where its setting says so; the tokenizer then has to do it."""
    settings = folder / "sentence_bert_config.json"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        if json.loads(settings.read_text(encoding="utf-8")).get("do_lower_case") and tokenizer("A Ab")["input_ids"] != tokenizer("a ab")["input_ids"]:
            raise ExportError(
                "unsupported", "do_lower_case is set, but the tokenizer keeps capitals", str(settings),
                "set do_lower_case in tokenizer_config.json, or export with --no-tokenizer and give arrays as data",
            )


def with_spaces_as_normalizer(tokenizer: Any) -> Any:
    """OpenVINO Tokenizers does not split at spaces in front of a Metaspace, as XLM-R's, T5's and ALBERT's tokenizers do: it
    would keep tabs, line ends and outer spaces. A copy that makes one space of them and strips the ends says the same."""
    fast = getattr(tokenizer, "backend_tokenizer", None)
    steps = (json.loads(fast.to_str()).get("pre_tokenizer") or {}).get("pretokenizers", []) if fast is not None else []
    if [step["type"] for step in steps] != ["WhitespaceSplit", "Metaspace"] or steps[1].get("prepend_scheme") != "always":
        return tokenizer
    from tokenizers import Regex, normalizers

    result = copy.deepcopy(tokenizer)
    fast = result.backend_tokenizer
    own = [fast.normalizer] if fast.normalizer is not None else []
    fast.normalizer = normalizers.Sequence([*own, normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()])
    fast.pre_tokenizer = fast.pre_tokenizer[1]
    return result


def refuse_ids_beyond(tokenizer: Any, vocabulary: int, where: str) -> None:
    token, largest = max(tokenizer.get_vocab().items(), key=lambda item: item[1])
    if largest >= vocabulary:
        raise ExportError(
            "mismatch", f'the tokenizer\'s token "{token}" has the id {largest}, the model\'s vocabulary ends at {vocabulary - 1}', where,
            "give the tokenizer the model was trained with, or resize the model's embeddings (resize_token_embeddings) and save it; --no-tokenizer leaves the tokenizer out",
        )


def metadata(
    folder: Path, inputs: list[str], positions: int | None, separate: bool, padding: str = "behind", vocabulary: int | None = None, pad_id: int = 0,
) -> dict[str, Any] | None:
    """What goes under `lathe.tokenizer`; nothing for a folder without a tokenizer. `vocabulary`: how many tokens the model
    has; `pad_id`: what fills up samples where the tokenizer does not say."""
    files = [folder / name for name in _names(folder, FILES)]
    if not _names(folder, VOCABULARIES):
        if not _names(folder, SENTENCEPIECE):
            return None
        files += [folder / name for name in _names(folder, SENTENCEPIECE)]
    try:
        import openvino_tokenizers
    except ImportError as error:
        raise ExportError("unsupported", f"the tokenizer needs openvino-tokenizers: {one_line(error)}", "", "pip install openvino-tokenizers, or export with --no-tokenizer") from error
    tokenizer = load(folder)
    if vocabulary is not None:
        refuse_ids_beyond(tokenizer, vocabulary, str(folder))
    refuse_lower_casing(folder, tokenizer)
    length = max_length_of(folder, tokenizer, positions)
    tokenizer.model_max_length = length
    tokenizer.padding_side = "left" if padding == "in front" else "right"
    graphs: dict[str, Any] = {}
    models: list[Any] = []
    source = with_spaces_as_normalizer(tokenizer)
    try:
        with lower_case_as_hugging_face():
            for name, count in {"single": 1, "pair": 2}.items():
                try:
                    converted = openvino_tokenizers.convert_tokenizer(source, number_of_inputs=count, truncation=True)
                except Exception:
                    if name == "single":
                        raise
                    continue
                # Where its pass finds no second text's place it leaves the graph as it is.
                if len(converted.inputs) == count:
                    graphs[name] = _packed(converted)
                    models.append(converted)
    except Exception as error:
        raise ExportError("unsupported", f"OpenVINO Tokenizers cannot convert this tokenizer: {one_line(error)}", str(folder), "export with --no-tokenizer and give arrays as data") from error
    fast = getattr(tokenizer, "backend_tokenizer", None)
    if fast is not None:
        graphs["huggingface"] = json.loads(fast.to_str())
    own = copy.deepcopy(tokenizer)  # a tokenizer notes how it was last used
    for model in models:
        refuse_differences(model, own, length, str(folder))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return {
        "format": "openvino_tokenizers", "version": openvino_tokenizers.__version__, "source": [file.name for file in files],
        "digest": "sha256:" + digest.hexdigest(), "max_length": length, "pad_id": pad_id if tokenizer.pad_token_id is None else int(tokenizer.pad_token_id), "padding": padding, "inputs": inputs,
        "pairs": "separate" if separate else "joint", **graphs,
    }
