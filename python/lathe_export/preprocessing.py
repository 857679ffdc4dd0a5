"""What the framework does to a picture before the model, as Lathe's `lathe.preprocess` says it; and class names."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any


from .errors import ExportError, one_line

IMAGENET_MEAN = [0.485, 0.456, 0.406]
IMAGENET_STD = [0.229, 0.224, 0.225]
KEYS = {"resize", "crop", "pad", "align", "interpolation", "scale", "mean", "std", "layout", "color"}


def _settings(resize: Any, crop: list[int] | None, interpolation: str, scale: float, mean: list[float], std: list[float]) -> dict[str, Any]:
    settings = {"resize": resize}
    if crop is not None:
        settings["crop"] = crop
    return settings | {
        "interpolation": interpolation, "scale": scale, "mean": mean, "std": std, "layout": "NCHW", "color": "RGB",
    }


def _torchvision_weights(name: str, weights: Path | None) -> tuple[Any, bool]:
    """(entry of the model's weights enumeration, whether the file is known to be that entry)."""
    import torchvision

    try:
        entries = list(torchvision.models.get_model_weights(name))
    except ValueError:
        return None, False
    for entry in entries:
        if weights is not None and entry.url.rsplit("/", 1)[-1] == weights.name:
            return entry, True
    first = [entry for entry in entries if entry.name == "IMAGENET1K_V1"] or entries
    return (first[0] if first else None), False


def of_torchvision(name: str, weights: Path | None) -> tuple[dict[str, Any] | None, str]:
    """(settings, remark on where they come from)."""
    entry, known = _torchvision_weights(name, weights)
    transform = entry.transforms() if entry is not None else None
    crop, resize = getattr(transform, "crop_size", None), getattr(transform, "resize_size", None)
    if not crop or not resize:
        return None, f"torchvision says no image-classification preprocessing for {name}"
    interpolation = transform.interpolation.value
    if interpolation not in ("bilinear", "bicubic"):
        return None, f"torchvision resizes with {interpolation}, which Lathe does not do"
    crop_size = [crop[0], crop[-1]]
    remark = f"torchvision's transforms of {entry}"
    if weights is not None and not known:
        remark += " (assumed: the weights file is not one of torchvision's; --preprocess FILE.json says otherwise)"
    resize_to = {"short_side": resize[0]} if len(resize) == 1 else [resize[0], resize[1]]
    return _settings(resize_to, crop_size, interpolation, 1 / 255, list(transform.mean), list(transform.std)), remark


def of_timm(module: Any, input_size: tuple[int, int] | None) -> tuple[dict[str, Any] | None, str]:
    """timm.data's evaluation transform, from the model's own data configuration."""
    import timm

    arguments = {"input_size": (3, *input_size)} if input_size else {}
    config = timm.data.resolve_data_config(arguments, model=module)
    height, width = config["input_size"][-2:]
    interpolation = config["interpolation"]
    if interpolation not in ("bilinear", "bicubic"):
        return None, f"timm resizes with {interpolation}, which Lathe does not do"
    scaled = [math.floor(height / config["crop_pct"]), math.floor(width / config["crop_pct"])]
    mode = config.get("crop_mode", "center")
    if mode == "squash":
        resize: Any = scaled
    elif mode == "center" and height == width:
        resize = {"short_side": scaled[0]}
    else:
        return None, f"timm crops in mode {mode} at {height}x{width}, which Lathe does not do"
    return _settings(resize, [height, width], interpolation, 1 / 255, list(config["mean"]), list(config["std"])), "timm's data configuration"


def of_lite(name: str) -> tuple[dict[str, Any], str]:
    size = {"0": 224, "1": 240, "2": 260, "3": 280, "4": 300}[name[-1]]
    # TensorFlow's evaluation crop pads by 32: the middle size/(size+32) of the picture.
    settings = _settings({"short_side": size + 32}, [size, size], "bicubic", 1.0, [127.0] * 3, [128.0] * 3)
    return settings, "EfficientNet-Lite's own"


def resized(settings: dict[str, Any], size: tuple[int, int]) -> dict[str, Any]:
    """The same preprocessing for another input size; the share of the picture that is kept stays the same."""
    height, width = size
    old_height, old_width = settings.get("crop") or settings["resize"]
    changed = dict(settings)
    resize = settings.get("resize")
    if isinstance(resize, dict):
        changed["resize"] = {"short_side": max(1, round(resize["short_side"] * min(height, width) / min(old_height, old_width)))}
    elif resize is not None:
        changed["resize"] = [max(1, round(resize[0] * height / old_height)), max(1, round(resize[1] * width / old_width))]
    if "crop" in settings:
        changed["crop"] = [height, width]
    return changed


def read(path: Path) -> dict[str, Any]:
    """--preprocess FILE.json. Lathe checks it in full when it reads the model; here only what would hide a typo."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError("not_found", f"cannot read the preprocessing: {error.strerror}", str(path), "check --preprocess") from error
    except (ValueError, RecursionError) as error:
        raise ExportError("parse_error", f"not valid JSON: {one_line(error)}", str(path)) from error
    if not isinstance(settings, dict):
        raise ExportError("parse_error", "preprocessing must be a JSON object", str(path))
    unknown = settings.keys() - KEYS
    if unknown:
        raise ExportError("parse_error", f'unknown preprocess key "{sorted(unknown)[0]}"', str(path), "the keys are " + ", ".join(sorted(KEYS)))
    if input_shape(settings) is None:
        raise ExportError("invalid_argument", "preprocess leaves the size open", str(path), 'give "resize": [h, w], or "crop": [h, w]')
    return settings


def input_shape(settings: dict[str, Any]) -> tuple[int, int] | None:
    size = settings.get("crop") or settings.get("resize")
    if isinstance(size, dict):
        size = size.get("letterbox")
    return (int(size[0]), int(size[1])) if isinstance(size, list) and len(size) == 2 else None


def imagenet_names() -> list[str] | None:
    try:
        import torchvision
    except ImportError:
        return None
    names = torchvision.models.ResNet50_Weights.IMAGENET1K_V1.meta["categories"]
    return list(names) if len(names) == 1000 else None


def read_labels(path: Path) -> list[str]:
    """Class names from classes.csv (columns class_index and name), a JSON array, or text with one name a line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ExportError("not_found", f"cannot read the labels: {error.strerror}", str(path), "check --labels") from error
    except UnicodeDecodeError as error:
        raise ExportError("parse_error", "the labels are not UTF-8 text", str(path)) from error
    if path.suffix == ".json":
        try:
            names = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ExportError("parse_error", f"not valid JSON: {one_line(error)}", str(path)) from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ExportError("parse_error", "class names must be a JSON array of texts", str(path))
        return names
    if path.suffix != ".csv":
        names = text.splitlines()
        while names and not names[-1]:
            names.pop()
        return names
    rows = list(csv.DictReader(text.splitlines()))
    if not rows or not {"class_index", "name"} <= rows[0].keys():
        raise ExportError("parse_error", "the class list lacks the column class_index or name", str(path))
    try:
        by_index = {int(row["class_index"]): row["name"] for row in rows}
    except (TypeError, ValueError) as error:
        raise ExportError("parse_error", f"a class_index is not a number: {one_line(error)}", str(path)) from error
    if min(by_index) < 0 or max(by_index) >= 1_000_000:
        raise ExportError("parse_error", "a class_index is out of range", str(path))
    return [by_index.get(index, "") for index in range(max(by_index) + 1)]


def for_model(kind: str, name: str, module: Any, weights: Path | None, input_size: tuple[int, int] | None) -> tuple[dict[str, Any] | None, str]:
    """The preprocessing a model was trained with, as far as its library says, and where that comes from."""
    if kind == "torchvision":
        settings, remark = of_torchvision(name, weights)
    elif kind == "timm":
        return of_timm(module, input_size)
    elif kind == "efficientnet-lite":
        settings, remark = of_lite(name)
    else:
        return None, "a model from a file does not say its preprocessing"
    if settings is not None and input_size is not None and input_shape(settings) != input_size:
        settings = resized(settings, input_size)
    return settings, remark


