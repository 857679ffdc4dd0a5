"""Text encoders of Hugging Face's transformers: BERT, DistilBERT, MiniLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from . import huggingface
from .errors import ExportError, one_line
from .huggingface import MASKED
from .modules import file_hash

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
HEADS = ("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")


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
    folder, weights = huggingface.find_weights(model, random)
    if pooling == "none" and (normalize or head is not None):
        raise ExportError("invalid_argument", "--normalize and --head work on a pooled embedding", "", "add --pooling mean")
    network = huggingface.network(model, folder, random, HEADS)
    width = getattr(network.config, "hidden_size", None) or getattr(network.config, "dim", None)
    vector = read_head(head) if head is not None else None
    if vector is not None and vector.size != (width or 0) + 1:
        raise ExportError("mismatch", f"the head has {vector.size} numbers, an embedding of {width} needs {(width or 0) + 1}", str(head), "check --head")
    source: dict[str, Any] = {"kind": "huggingface", "name": model, "pooling": pooling, "normalize": normalize, "transformers": huggingface.transformers_package().__version__}
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
    """The most tokens that have a position. RoBERTa counts them from behind its padding's id."""
    positions = getattr(module.network.config, "max_position_embeddings", None)
    if not positions:
        return None
    tables = (table for name, table in module.network.named_modules() if name.endswith("position_embeddings") and isinstance(table, nn.Embedding))
    first = next((table.padding_idx + 1 for table in tables if table.padding_idx is not None), 0)
    return int(positions) - first


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
