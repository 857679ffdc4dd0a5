"""What a folder of sentence-transformers does behind its network: modules.json and the pooling's config.json."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import huggingface
from .errors import ExportError, one_line

# Modules that Encoder does, and one that does nothing in inference.
DONE = ("Transformer", "Pooling", "Normalize", "Dropout")
POOLINGS = {"mean_tokens": "mean", "cls_token": "cls"}


def read_modules(path: Path) -> list[tuple[str, str]]:
    """(kind, folder) of each module."""
    try:
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in json.loads(path.read_text(encoding="utf-8"))]
    except OSError as error:
        raise ExportError("io", f"cannot be read: {error.strerror}", str(path)) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ExportError("parse_error", f"not a list of modules with type and path: {one_line(error)}", str(path)) from error


def pooling_of(config: dict[str, Any]) -> str:
    """mean, cls, or the name of what Lathe does not do. Older files have a switch a mode, newer ones a name or several."""
    named = config.get("pooling_mode")
    modes = [name.removeprefix("pooling_mode_") for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    modes += [named] if isinstance(named, str) else named or []
    return "+".join(POOLINGS.get(mode, mode) for mode in modes)


def resolve(folder: Path | None, pooling: str | None, normalize: bool, say: Callable[[str], None]) -> tuple[str, bool]:
    """(pooling, normalize): as asked for, else as the folder says. Raises ExportError where a module would be dropped."""
    if folder is None or pooling == "none":
        return pooling or "none", normalize
    if huggingface.head_of(huggingface.read_json(folder / "config.json").get("architectures"), huggingface.TEXT_HEADS):
        if pooling is not None:
            raise ExportError("invalid_argument", f"--pooling {pooling} does not go with a network that has a head of its own", str(folder), "leave it out")
        return "none", normalize
    path = folder / "modules.json"
    if not path.is_file():
        return pooling or "none", normalize
    modules = read_modules(path)
    others = [kind for kind, _ in modules if kind not in DONE]
    if others:
        raise ExportError("unsupported", f"the folder's module {others[0]}, behind the network, is not exported", str(path), "--pooling none exports the network alone")
    place = next((place for kind, place in modules if kind == "Pooling"), None)
    if place is None:
        return pooling or "none", normalize
    own, normalized = pooling_of(huggingface.read_json(folder / place / "config.json")), any(kind == "Normalize" for kind, _ in modules)
    if pooling is None and own not in POOLINGS.values():
        raise ExportError("unsupported", f'the folder pools by "{own}", which is not exported', str(folder / place), "--pooling mean or cls pools in another way, --pooling none not at all")
    if pooling is None:
        say(f"pooling {own}{', normalised' if normalize or normalized else ''}, as {path.name} says (--pooling none leaves it out)")
        return own, normalize or normalized
    if (pooling, normalize) != (own, normalized):
        say(f"warning: {path.name} says --pooling {own}{' --normalize' if normalized else ''}; what was asked for is exported")
    return pooling, normalize
