"""The UNet of a diffusion model, from a folder or configuration of diffusers' UNet2DConditionModel.

sample                 float32 [batch, channels, height, width], the noisy latent
timestep               int64 [batch]
encoder_hidden_states  float32 [batch, sequence, width of the text encoder]
gives out_sample       float32, as sample: the noise (or what the scheduler was trained to take)

Its loop over time steps, scheduler, text encoder and decoder of latents are not part of the graph."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import huggingface
from .convert import Inputs
from .errors import ExportError, one_line
from .modules import file_hash

CLASS = "UNet2DConditionModel"
# As diffusers writes them: in one file or, with an index, in several; a variant is of another precision, mostly fp16.
WEIGHTS = re.compile(r"diffusion_pytorch_model(\.(?P<variant>[^.-]+))?\.(?P<format>safetensors|bin)")
INDEX = re.compile(r"diffusion_pytorch_model\.(?P<format>safetensors|bin)\.index(\.(?P<variant>[^.-]+))?\.json")
# Settings that give the network inputs beside the three above.
MORE_INPUTS = ("addition_embed_type", "class_embed_type", "encoder_hid_dim_type", "num_class_embeds", "time_cond_proj_dim")


class Unet(nn.Module):
    """The graph at the top of this file."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out_sample": self.network(sample, timestep, encoder_hidden_states, return_dict=False)[0]}


def diffusers_package() -> Any:
    try:
        import diffusers
    except ImportError as error:
        raise ExportError("unsupported", f"a diffusion UNet needs the Python package diffusers: {one_line(error)}", sys.executable, "pip install diffusers, or pip install --require-hashes --no-deps -r requirements/diffusion.txt") from error
    diffusers.utils.logging.set_verbosity_error()
    return diffusers


@dataclass
class Weights:
    path: Path  # the file, or the index of several
    safetensors: bool
    variant: str | None


def weights_of(folder: Path) -> Weights | None:
    """No variant before one, safetensors before .bin, one file before several."""
    found = []
    for path in sorted(folder.iterdir()):
        match = WEIGHTS.fullmatch(path.name) or INDEX.fullmatch(path.name)
        if match and path.is_file():
            found.append(Weights(path, match["format"] == "safetensors", match["variant"]))
    return min(found, key=lambda each: (each.variant is not None, not each.safetensors, each.path.suffix == ".json"), default=None)


def build(model: str, random: bool) -> tuple[Unet, dict[str, Any]]:
    """(the module in eval mode, lathe.source)."""
    folder = huggingface.folder_of(model)
    if folder is None:
        raise ExportError("invalid_argument", f"{model} is no diffusion model", "", "name the folder of a UNet")
    weights = weights_of(folder)
    if not random and weights is None:
        raise ExportError("invalid_argument", f"no weights for {model}: nothing is downloaded", str(folder), "give a folder with diffusion_pytorch_model.safetensors, or --random-weights to measure speed alone")
    config = huggingface.read_json(folder / "config.json")
    for name in MORE_INPUTS:
        if config.get(name) is not None:
            raise ExportError("unsupported", f"a UNet with {name} = {config[name]} takes inputs that are not exported", str(folder / "config.json"), "wrap it in a module that returns tensors, with FILE.py:function")
    diffusers = diffusers_package()
    missing: list[str] = []
    try:
        kind = getattr(diffusers, CLASS)
        if random:
            network = kind.from_config(config)
        else:
            network, told = kind.from_pretrained(
                str(folder), local_files_only=True, torch_dtype=torch.float32, low_cpu_mem_usage=False, use_safetensors=weights.safetensors, variant=weights.variant, output_loading_info=True,
            )
            missing = told["missing_keys"]
    except Exception as error:
        raise ExportError("unsupported", f"diffusers cannot make the model: {one_line(error)}", str(folder)) from error
    source: dict[str, Any] = {"kind": "huggingface", "name": model, "folder": str(folder), "diffusers": diffusers.__version__}
    if not random:
        source |= {"weights": str(weights.path), "weights_hash": file_hash(weights.path)}
        if weights.variant is not None:
            source["variant"] = weights.variant
    module = Unet(network.float()).eval()
    huggingface.refuse_random(network, missing, folder, lambda: module(**example_inputs(module, 1, None, None).tensors))
    return module, source


def _tensors(module: Unet, batch: int, size: tuple[int, int], length: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    config = module.network.config
    width = config.cross_attention_dim
    return {
        "sample": torch.randn(batch, config.in_channels, *size, generator=generator),
        "timestep": torch.randint(0, 1000, (batch,), generator=generator),
        "encoder_hidden_states": torch.randn(batch, length, width if isinstance(width, int) else max(width), generator=generator),
    }


def latent_size(module: Unet) -> tuple[int, int]:
    size = module.network.config.sample_size or 64
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def example_inputs(module: Unet, batch: int | None, size: tuple[int, int] | None, length: int | None) -> Inputs:
    """Two samples; batch size and text length stay free where they are not given, the latent's size is fixed."""
    halvings = 2 ** (len(module.network.config.block_out_channels) - 1)
    height, width = size or latent_size(module)
    if height % halvings or width % halvings:
        raise ExportError("mismatch", f"a latent of {height}x{width} cannot be halved {len(module.network.config.block_out_channels) - 1} times", "--input-size", f"give multiples of {halvings}")
    generator = torch.Generator().manual_seed(19)
    inputs = Inputs(_tensors(module, batch or 2, (height, width), length or 8, generator), by_keyword=True)
    for name in inputs.tensors:
        free = {} if batch else {0: "batch"}
        if not length and name == "encoder_hidden_states":
            free[1] = "sequence"
        if free:
            inputs.dynamic[name] = free
    return inputs


def trials(module: Unet, inputs: Inputs, generator: torch.Generator) -> list[dict[str, torch.Tensor]]:
    """Inputs to check an export on: other values, and where they are free another batch size and text length."""
    batch, length = inputs.tensors["encoder_hidden_states"].shape[:2]
    height, width = inputs.tensors["sample"].shape[2:]
    free = {symbol for axes in inputs.dynamic.values() for symbol in axes.values()}
    sizes = [(batch, length), (1 if "batch" in free else batch, 3 * length if "sequence" in free else length)]
    return [_tensors(module, count, (height, width), tokens, generator) for count, tokens in sizes]
