"""Vision transformers of Hugging Face's transformers (ViT, DeiT, BEiT, Swin, DINOv2), with their image processor as Lathe's `lathe.preprocess`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import huggingface
from .errors import ExportError
from .modules import file_hash

# Pillow's numbers of the filters that Lathe resizes with.
FILTERS = {2: "bilinear", 3: "bicubic"}
HEADS = ("ForImageClassification",)


class Vision(nn.Module):
    """pixel_values float32 [batch, 3, height, width] to logits [batch, classes] or, without a classifier,
    last_hidden_state [batch, 1 + patches, width]."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def classifies(self) -> bool:
        return huggingface.head_of([type(self.network).__name__], HEADS) is not None

    def forward(self, pixel_values: torch.Tensor) -> dict[str, torch.Tensor]:
        result = self.network(pixel_values=pixel_values, return_dict=True)
        name = "logits" if "logits" in result else "last_hidden_state"
        return {name: result[name]}


def build(model: str, random: bool) -> tuple[Vision, dict[str, Any]]:
    """(the module in eval mode, lathe.source)."""
    folder, weights = huggingface.find_weights(model, random)
    network, missing = huggingface.network(huggingface.configuration(model, folder), folder, random, HEADS)
    source: dict[str, Any] = {"kind": "huggingface", "name": model, "transformers": huggingface.transformers_package().__version__}
    if folder is not None:
        source |= {"folder": str(folder)}
    if not random and weights is not None:
        source |= {"weights": str(weights), "weights_hash": file_hash(weights)}
    module = Vision(network).eval()
    huggingface.refuse_random(network, missing, folder, lambda: module(**example_inputs(module, 1)))
    return module, source


def image_size(module: Vision) -> tuple[int, int]:
    size = module.network.config.image_size
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def example_inputs(module: Vision, batch: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(19)
    return {"pixel_values": torch.randn(batch, module.network.config.num_channels, *image_size(module), generator=generator)}


def preprocess(module: Vision, folder: Path | None) -> tuple[dict[str, Any] | None, str]:
    """(what preprocessor_config.json says, as `lathe.preprocess`, or for ViT its own where there is none; where it is from)."""
    path = folder / "preprocessor_config.json" if folder is not None else None
    if path is None or not path.is_file():
        if module.network.config.model_type != "vit":
            return None, "the folder has no preprocessor_config.json"
        return _settings({}, image_size(module)), "ViT's image processor with its own defaults"
    return _settings(huggingface.read_json(path), image_size(module)), str(path)


def _size(value: Any, where: str) -> list[int] | dict[str, int]:
    if isinstance(value, int):
        return [value, value]
    if isinstance(value, dict) and {"height", "width"} <= value.keys():
        return [int(value["height"]), int(value["width"])]
    if isinstance(value, dict) and value.keys() == {"shortest_edge"}:
        return {"short_side": int(value["shortest_edge"])}
    raise ExportError("unsupported", f"the image processor's {where} {value} is not one Lathe does", "preprocessor_config.json", "give --preprocess FILE.json")


def _settings(config: dict[str, Any], image: tuple[int, int]) -> dict[str, Any]:
    refused = "preprocessor_config.json", "give --preprocess FILE.json"
    if config.get("do_resize", True) is False:
        raise ExportError("unsupported", "the image processor does not resize", *refused)
    resample = config.get("resample", 2)
    if resample not in FILTERS:
        raise ExportError("unsupported", f"the image processor resizes with Pillow's filter {resample}, which Lathe does not do", *refused)
    settings: dict[str, Any] = {"resize": _size(config.get("size", {"height": image[0], "width": image[1]}), "size")}
    if config.get("do_center_crop"):
        crop = _size(config.get("crop_size"), "crop_size")
        if not isinstance(crop, list):
            raise ExportError("unsupported", "the image processor crops to one side's size", *refused)
        settings["crop"] = crop
    rescale, normalise = config.get("do_rescale", True), config.get("do_normalize", True)
    return settings | {
        "interpolation": FILTERS[resample], "scale": float(config.get("rescale_factor", 1 / 255)) if rescale else 1.0,
        "mean": [float(x) for x in config.get("image_mean", [0.5] * 3)] if normalise else [0.0] * 3,
        "std": [float(x) for x in config.get("image_std", [0.5] * 3)] if normalise else [1.0] * 3,
        "layout": "NCHW", "color": "RGB",
    }
