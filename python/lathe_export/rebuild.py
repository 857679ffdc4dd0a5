"""The exact PyTorch module behind an exported ONNX file, from its metadata `lathe.source`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import decoders, diffusion, encoders, modules, vision
from .errors import ExportError


@torch.inference_mode(False)  # whose tensors could not be checked for what the outputs depend on
def rebuild(source: dict[str, Any]) -> nn.Module:
    """The module in eval mode, on the CPU, with the weights that were exported.

    `source` is the JSON object under `lathe.source`. Raises ExportError when a file it names is gone or has changed
    since, or when a package is missing.
    """
    kind = source.get("kind")
    name = source.get("name")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise ExportError("parse_error", 'lathe.source lacks "kind" or "name"', "lathe.source", "export the model again")
    if source.get("random_seed") is not None:
        torch.manual_seed(int(source["random_seed"]))
    if kind == "huggingface":
        # A name may be a path from where the export was started.
        folder = source.get("folder")
        if folder is not None and Path(folder, "config.json").is_file():
            name = folder
        for key in ("weights", "head"):
            if source.get(key) is not None:
                _check_unchanged(Path(source[key]), source.get(f"{key}_hash"))
        if source.get("family") == "decoder":
            return decoders.build(name, source.get("random_seed") is not None, source.get("phase", "prefill"))[0]
        if source.get("family") == "diffusion":
            return diffusion.build(name, source.get("random_seed") is not None)[0]
        if source.get("family") == "vision":
            return vision.build(name, source.get("random_seed") is not None)[0]
        head = Path(source["head"]) if source.get("head") else None
        random = source.get("random_seed") is not None
        return encoders.build(name, random, source.get("pooling", "none"), bool(source.get("normalize")), head)[0]
    if kind == "file":
        path, function = Path(source["file"]), source["function"]
        _check_unchanged(path, source.get("file_hash"))
        module, _ = modules.call_function(path, function, source.get("num_classes"))
    else:
        module = modules.build(kind, name, source.get("num_classes"))
    if source.get("weights") is not None:
        path = Path(source["weights"])
        _check_unchanged(path, source.get("weights_hash"))
        modules.load_weights(module, modules.read_state_dict(path), path)
    return module.eval()


def _check_unchanged(path: Path, expected: str | None) -> None:
    if not path.is_file():
        raise ExportError("not_found", "a file the model was exported from is gone", str(path), "put it back, or export again")
    if expected is not None and modules.file_hash(path) != expected:
        raise ExportError("mismatch", "a file the model was exported from has changed since", str(path), "export the model again")
