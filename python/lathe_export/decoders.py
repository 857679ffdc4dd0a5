"""GPT-2 as two graphs: prefill, which reads a prompt, and decode, which reads one token and the keys and values of all
tokens before it. Inputs and outputs have the names that Optimum and ONNX Runtime's generator use.

prefill: input_ids, attention_mask, position_ids                                          int64 [batch, sequence]
decode:  input_ids, position_ids int64 [batch, 1]; attention_mask int64 [batch, past_sequence + 1];
         past_key_values.I.key, past_key_values.I.value     float32 [batch, heads, past_sequence, width of a head]
both give logits float32 [batch, vocabulary], the last position's, and present.I.key, present.I.value, as the next
decode takes them. The mask is 1 a token and 0 padding. Prompts of several lengths are padded in front, so that the last
position is a token in all of them; position_ids count tokens from 0 (their value at padding does not matter)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from . import huggingface
from .convert import Inputs
from .errors import ExportError
from .huggingface import MASKED
from .modules import file_hash

PAST, TOTAL = "past_sequence", "past_sequence + 1"


class Keys:
    """What transformers asks of a cache while a network runs: past keys and values before the new ones."""

    def __init__(self, past: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self.past = past
        self.present: list[tuple[torch.Tensor, torch.Tensor]] = []

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if self.past:
            key, value = torch.cat([self.past[layer][0], key], dim=2), torch.cat([self.past[layer][1], value], dim=2)
        self.present.append((key, value))
        return key, value


class Decoder(nn.Module):
    """The graphs at the top of this file; the past's tensors follow the three inputs, a layer's key before its value."""

    def __init__(self, network: nn.Module, phase: str) -> None:
        super().__init__()
        self.network, self.phase = network, phase

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, position_ids: torch.Tensor, *past: torch.Tensor) -> dict[str, torch.Tensor]:
        allowed = attention_mask[:, None, None, :].to(torch.float32)
        if self.phase == "prefill":
            order = torch.arange(input_ids.shape[1])
            allowed = allowed * (order[None, :] <= order[:, None]).to(torch.float32)
        keys = Keys(list(zip(past[0::2], past[1::2])))
        result = self.network.transformer(
            input_ids=input_ids, attention_mask=(1.0 - allowed) * MASKED, position_ids=position_ids, past_key_values=keys, use_cache=True, return_dict=True
        )
        outputs = {"logits": self.network.lm_head(result.last_hidden_state[:, -1])}
        for layer, pair in enumerate(keys.present):
            outputs |= {f"present.{layer}.{name}": tensor for name, tensor in zip(("key", "value"), pair)}
        return outputs


def build(model: str, random: bool, phase: str) -> tuple[Decoder, dict[str, Any]]:
    """(the module in eval mode, lathe.source)."""
    folder, weights = huggingface.find_weights(model, random)
    network, missing = huggingface.network(huggingface.configuration(model, folder), folder, random, (), "AutoModelForCausalLM")
    if getattr(network.config, "add_cross_attention", False) or getattr(network.config, "reorder_and_upcast_attn", False):
        raise ExportError("unsupported", "cross attention and reordered attention are not exported", str(folder or model), "set both to false in config.json")
    source: dict[str, Any] = {"kind": "huggingface", "name": model, "phase": phase, "transformers": huggingface.transformers_package().__version__}
    if folder is not None:
        source |= {"folder": str(folder)}
    if not random and weights is not None:
        source |= {"weights": str(weights), "weights_hash": file_hash(weights)}
    module = Decoder(network, phase).eval()
    huggingface.refuse_random(network, missing, folder, lambda: module(*example_inputs(module, None, None).tensors.values()))
    return module, source


def _tensors(module: Decoder, batch: int, length: int, padding: torch.Tensor, generator: torch.Generator | None) -> dict[str, torch.Tensor]:
    """Inputs of `length` tokens (decode: of the past), `padding` [batch] of them in front empty."""
    config = module.network.config
    decode = module.phase == "decode"
    total = length + 1 if decode else length
    mask = (torch.arange(total)[None, :] >= padding[:, None]).to(torch.int64)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    tokens = torch.randint(0, config.vocab_size, (batch, total), generator=generator)
    tensors = {"input_ids": tokens, "attention_mask": mask, "position_ids": places}
    if decode:
        tensors |= {"input_ids": tokens[:, -1:].clone(), "position_ids": places[:, -1:].clone()}
        shape = (batch, config.num_attention_heads, length, config.hidden_size // config.num_attention_heads)
        for layer in range(config.num_hidden_layers):
            for name in ("key", "value"):
                tensors[f"past_key_values.{layer}.{name}"] = torch.randn(shape, generator=generator)
    return tensors


def positions_of(module: Decoder) -> int:
    return int(module.network.config.max_position_embeddings)


def _longest(module: Decoder) -> int:
    return positions_of(module) - (1 if module.phase == "decode" else 0)


def example_inputs(module: Decoder, length: int | None, batch: int | None) -> Inputs:
    """Two samples, the second of them padded; the axes that stay free where `length` or `batch` is not given."""
    generator = torch.Generator().manual_seed(19)
    count, width = batch or 2, length or min(16, _longest(module))
    if width > _longest(module):
        raise ExportError("out_of_range", f"the model has {_longest(module)} positions for --sequence-length", "", "give fewer tokens")
    padding = torch.arange(count) % 2 * (width // 2)
    inputs = Inputs(_tensors(module, count, width, padding, generator), by_keyword=False)
    for name in inputs.tensors:
        past = name.startswith("past")
        free = {} if batch else {0: "batch"}
        if not length and past:
            free[2] = PAST
        elif not length and (module.phase == "prefill" or name == "attention_mask"):
            free[1] = "sequence" if module.phase == "prefill" else TOTAL
        if free:
            inputs.dynamic[name] = free
    return inputs


def trials(module: Decoder, inputs: Inputs, generator: torch.Generator) -> list[dict[str, torch.Tensor]]:
    """Inputs to check an export on: whole samples, padded ones of several lengths, and one long sample."""
    axis = 2 if module.phase == "decode" else 1
    batch, length = next(reversed(inputs.tensors.values())).shape[0], next(reversed(inputs.tensors.values())).shape[axis]
    free = {symbol for axes in inputs.dynamic.values() for symbol in axes.values()}
    longest = min(_longest(module), 4 * length) if free - {"batch"} else length
    sizes = [(batch, length), (3 if "batch" in free else batch, longest), (1 if "batch" in free else batch, longest)]
    result = []
    for number, (count, width) in enumerate(sizes):
        padding = torch.randint(0, width, (count,), generator=generator) if number == 1 else torch.zeros(count, dtype=torch.int64)
        result.append(_tensors(module, count, width, padding, generator))
    return result
