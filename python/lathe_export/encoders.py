"""Text encoders of Hugging Face's transformers, with or without a head: BERT, MiniLM, RoBERTa, DeBERTa, ModernBERT, and
bodies of decoders (Llama, Qwen) that read a whole text at once."""

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

# How far, relative to the largest value, a network with the mask it is given here may be from its own use: rounding.
ROUNDING = 1e-5
# Windows of attention up to this long are looked past; longer ones would cost more than they tell.
LONGEST_WINDOW = 1024


class Encoder(nn.Module):
    """input_ids, attention_mask (1 a token, 0 padding) and, where the network has them, token_type_ids, all int64
    [batch, sequence], to what the options ask for.

    Networks that add their mask to the scores are given it ready to be added, which makes the plainest graph. Those that
    make more of it (causal masks, windows, DeBERTa) take it as it is: `makes_mask`, which `choose_mask` finds out."""

    def __init__(self, network: nn.Module, pooling: str = "none", normalize: bool = False, head: np.ndarray | None = None) -> None:
        super().__init__()
        self.network, self.pooling, self.normalize = network, pooling, normalize
        self.makes_mask = False
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

    def classifies(self) -> bool:
        """Whether the configuration's class names are those of the output: the network's own head, not --head's."""
        return self.head is None and has_head(self.network)

    def form_mask(self, attention_mask: torch.Tensor) -> torch.Tensor:
        return attention_mask if self.makes_mask else (1.0 - attention_mask[:, None, None, :].to(torch.float32)) * MASKED

    def network_outputs(self, **inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        result = self.network(return_dict=True, **inputs)
        scores = {name: result[name] for name in ("logits", "start_logits", "end_logits") if name in result}
        return scores or {"last_hidden_state": result["last_hidden_state"]}

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        more = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        result = self.network_outputs(input_ids=input_ids, attention_mask=self.form_mask(attention_mask), **more)
        if self.pooling == "none" or "last_hidden_state" not in result:
            return result
        hidden = result["last_hidden_state"]
        if self.pooling == "mean":
            kept = attention_mask.unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * kept).sum(1) / kept.sum(1).clamp(min=1e-9)
        else:
            pooled = hidden[:, 0]
        if self.normalize:
            pooled = pooled / torch.sqrt((pooled * pooled).sum(-1, keepdim=True)).clamp(min=1e-12)
        return {"embedding": pooled} if self.head is None else {"logits": self.head(pooled)}


def has_head(network: nn.Module) -> bool:
    return huggingface.head_of([type(network).__name__], huggingface.TEXT_HEADS) is not None


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
    config = huggingface.configuration(model, folder)
    refuse_others(config, folder)
    network, missing = huggingface.network(config, folder, random, huggingface.TEXT_HEADS)
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
    module = Encoder(network, pooling, normalize, vector).eval()
    choose_mask(module)
    huggingface.refuse_random(network, missing, folder, lambda: module(**example_inputs(module)))
    return module, source


def refuse_others(config: Any, folder: Path | None) -> None:
    where = str(folder / "config.json") if folder is not None else ""
    if getattr(config, "is_encoder_decoder", False):
        raise ExportError("unsupported", f'a "{config.model_type}" has an encoder and a decoder, which are not exported', where, huggingface.SUPPORTED)
    if not isinstance(getattr(config, "vocab_size", None), int):
        raise ExportError("unsupported", f'a "{config.model_type}" is no text encoder', where, huggingface.SUPPORTED)


def choose_mask(module: Encoder) -> None:
    """Compares the module with its network as Hugging Face uses it, given the plain mask, on padded samples: some short, and
    some longer than the windows of its attention. Takes the form of the mask that changes nothing at tokens."""
    generator = torch.Generator().manual_seed(21)
    short = min(16, positions_of(module) or 16)
    batches = [_samples(module, [width, width // 2 + 1, 1], width, generator) for width in sorted({short, beyond_windows(module, short)})]
    try:
        with torch.inference_mode():
            own = [module.network_outputs(**batch) for batch in batches]
    except Exception as error:
        raise ExportError(
            "unsupported", f'a "{module.network.config.model_type}" does not run on input_ids and attention_mask alone: {one_line(error)}', type(module.network).__name__, huggingface.SUPPORTED
        ) from error
    for module.makes_mask in (False, True):
        if all(_equal_at_tokens(module, batch, expected) for batch, expected in zip(batches, own)):
            return
    raise ExportError(
        "unsupported", f'a "{module.network.config.model_type}" gives other results each time it runs', type(module.network).__name__, huggingface.SUPPORTED
    )


def _equal_at_tokens(module: Encoder, batch: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    mask = batch["attention_mask"]
    try:
        with torch.inference_mode():
            actual = module.network_outputs(**batch | {"attention_mask": module.form_mask(mask)})
    except Exception:  # a network that takes no mask of this form
        return False
    for name, reference in expected.items():
        a_text = name == "logits" and reference.ndim == 2  # not a token
        kept = slice(None) if a_text else mask.bool()
        difference = (actual[name] - reference)[kept].abs().max()
        if not difference <= ROUNDING * reference[kept].abs().max():  # also for NaN
            return False
    return True


def beyond_windows(module: Encoder, least: int) -> int:
    """A number of tokens, `least` or more, that is longer than the windows of attention that the configuration speaks of."""
    settings = module.network.config.to_dict()
    windows = [value for name, value in settings.items() if ("window" in name or "local" in name) and type(value) is int and value <= LONGEST_WINDOW]
    return min(max([least, *(window + 8 for window in windows)]), positions_of(module) or LONGEST_WINDOW)


def _samples(module: Encoder, lengths: list[int], width: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Random texts of these lengths, padded behind to `width` with the network's own padding."""
    config = module.network.config
    ends = torch.tensor(lengths)[:, None]
    places = torch.arange(width)[None, :]
    padding = pad_of(module)
    tokens = torch.randint(0, config.vocab_size, (len(lengths), width), generator=generator)
    samples = {"input_ids": torch.where(places < ends, tokens, padding), "attention_mask": (places < ends).to(torch.int64)}
    if has_types(module):
        samples["token_type_ids"] = (places >= ends // 2).to(torch.int64)
    return samples


def pad_of(module: Encoder) -> int:
    """What the network takes for padding; classifiers on decoders find a text's end by it."""
    padding = getattr(module.network.config, "pad_token_id", None)
    return padding if isinstance(padding, int) and 0 <= padding < module.network.config.vocab_size else 0


def refuse_padding(module: Encoder, padding: int) -> None:
    """Refuses a tokenizer that pads with what its network does not take for padding, where that changes results."""
    own = pad_of(module)
    if padding == own:
        return
    batch = _samples(module, [2, 5], 5, torch.Generator().manual_seed(22))
    other = batch | {"input_ids": torch.where(batch["attention_mask"] == 0, padding, batch["input_ids"])}
    with torch.inference_mode():
        expected = module.network_outputs(**batch)
    if not _equal_at_tokens(module, other, expected):
        raise ExportError(
            "mismatch", f"the network takes the id {own} for padding, the tokenizer pads with {padding}, and the results differ", "", f'set "pad_token_id" to {padding} in config.json',
        )


def has_types(module: Encoder) -> bool:
    return (getattr(module.network.config, "type_vocab_size", 0) or 0) > 1


def example_inputs(module: Encoder, length: int = 16) -> dict[str, torch.Tensor]:
    """Two samples, the second of them padded."""
    tokens = torch.arange(2 * length).reshape(2, length) % module.network.config.vocab_size
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2:] = 0
    inputs = {"input_ids": tokens, "attention_mask": mask}
    if has_types(module):
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
    longest = beyond_windows(module, min(positions_of(module) or 4 * length, 4 * length))
    sizes = [(batch, length), (3, longest), (1, longest)] if free else [(batch, length)] * 2
    result = []
    for number, (count, width) in enumerate(sizes):
        lengths = torch.randint(1, width + 1, (count,), generator=generator).tolist() if number == 1 else [width] * count
        result.append(_samples(module, lengths, width, generator))
    return result
