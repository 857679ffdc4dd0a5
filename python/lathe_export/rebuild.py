"""The exact PyTorch module behind an exported ONNX file, from its metadata `lathe.source`.

A model file is data: by itself it chooses among architectures that are installed, and weights. Code in a file is run only
where the user names that file, and only if it is the one that the model was exported from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from . import decoders, diffusion, encoders, modules, vision
from .errors import ExportError


@torch.inference_mode(False)  # whose tensors could not be checked for what the outputs depend on
def rebuild(source: dict[str, Any], code: str | None = None) -> nn.Module:
    """The module in eval mode, on the CPU, with the weights that were exported.

    `source` is the JSON object under `lathe.source`; `code` is the FILE.py:function whose code the user allows to run, for
    a model exported from such a file. Raises ExportError when the model is made by code and none is given or it is another,
    when a file is gone or has changed since, or when a package is missing.
    """
    if not isinstance(source, dict):
        raise ExportError("parse_error", "lathe.source is not an object", "lathe.source", "export the model again")
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
        module = _run_code(source, code)
    else:
        module = modules.build(kind, name, source.get("num_classes"))
    if source.get("weights") is not None:
        path = Path(source["weights"])
        _check_unchanged(path, source.get("weights_hash"))
        modules.load_weights(module, modules.read_state_dict(path), path)
    return module.eval()


def _run_code(source: dict[str, Any], code: str | None) -> nn.Module:
    """Whatever path the model names is not looked at."""
    name, digest = source["name"], source.get("file_hash")
    if not code:
        raise ExportError(
            "unsupported", "the PyTorch module is code in a file of its own, and no model's word for it is run", name,
            "if you trust that code, add --source FILE.py:function",
        )
    path, function = modules.split_file_model(code)
    if not isinstance(digest, str) or not digest:
        raise ExportError("unsupported", "the model does not record the digest of the code that made it", name, "export the model again")
    if function != source.get("function"):
        raise ExportError("mismatch", f"the model was exported from another function, {source.get('function')}", code, "check --source")
    return modules.call_function(path, function, source.get("num_classes"), digest)[0]


def _check_unchanged(path: Path, expected: Any) -> None:
    if not isinstance(expected, str):
        raise ExportError("parse_error", "the model does not record the digest of its weights", str(path), "export the model again")
    if not path.is_file():
        raise ExportError("not_found", "a file the model was exported from is gone", str(path), "put it back, or export again")
    if modules.file_hash(path) != expected:
        raise ExportError("mismatch", "a file the model was exported from has changed since", str(path), "export the model again")
