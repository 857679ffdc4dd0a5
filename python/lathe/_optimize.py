"""The whole job."""

from __future__ import annotations

import filecmp
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from . import _lathe, _load
from ._errors import Error
from ._inputs import Samples, model_file, preprocess_text, samples_of, task_options
from ._progress import Reporter, reporter
from ._results import Measured, OptimizeResult, Row, measured


def _input_names(path: Path) -> list[str]:
    model = _lathe.load_model(os.fspath(path))
    return model.inputs()


def _saved(samples: Samples, name: str, inputs: list[str], folder: Path) -> Path:
    return samples.save(folder / name, inputs)


def _spare(folder: Path, force: bool, write: Callable[[Path], Path]) -> Path:
    """A file that `write` puts into a folder, moved to `folder`, unless one of its name and other content is there. What
    `write` did not write itself stays where it is."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".lathe-") as place:
        written = write(Path(place))
        if written.parent != Path(place):
            return written
        kept = folder / written.name
        if kept.exists() and not force:
            if not filecmp.cmp(written, kept, shallow=False):
                raise Error("a file of this name and other content is there, and would be written over",
                            "invalid_argument", os.fspath(kept), "give another output, or force=True")
            return kept
        # A large model's weights lie beside it, under a name of their own digest.
        for beside in sorted(Path(place).iterdir()):
            if beside != written:
                os.replace(beside, folder / beside.name)
        os.replace(written, kept)
        return kept


def optimize(
    model: Any,
    *,
    calibrate: Any = None,
    evaluate: Any = None,
    example: Any = None,
    output: str | os.PathLike[str] = "out",
    preprocess: str | Mapping[str, Any] | None = None,
    device: str = "cpu",
    precisions: Sequence[str] = (),
    method: str = "mse",
    samples: int | None = None,
    effort: int | None = None,
    answer_loss: bool = True,
    answer_limit_s: float | None = None,
    exclude: Sequence[str] = (),
    noisy_layers: str = "auto",
    weights: str | None = None,
    activations: str | None = None,
    shapes: Sequence[str] = (),
    columns: str = "",
    task: str | Mapping[str, Any] = "",
    against: Sequence[str] | None = None,
    source: str = "",
    batch_sizes: Sequence[int] = (),
    max_drop: float = 1.0,
    evaluate_samples: int | None = None,
    duration_s: float | None = None,
    time_limit_s: float | None = None,
    quick: bool = False,
    threads: int = 0,
    force: bool = False,
    progress: bool | Reporter | None = None,
) -> OptimizeResult:
    """Simplify, calibrate, quantise, build, evaluate, benchmark and judge a network: the command `lathe optimize`.

    Args:
        model: An ONNX file, an onnx.ModelProto, or a torch.nn.Module (in floating point) with `example` inputs.
        calibrate: Data to calibrate on: a folder of pictures or another path; an array of samples or a dict of them by
            input name; an iterable of batches such as a DataLoader. Needed for int8.
        evaluate: Data to judge on, not those of the calibration: a path, a pair (inputs, labels), or an iterable of
            such pairs; without labels the float network's own answers are the truth. Without it nothing is said of
            accuracy.
        example: Inputs that the module is traced on: a tensor, a tuple, or a dict by argument. Axis 0 becomes free.
        output: Folder for engines, results and report. What has not changed since an earlier call is not done again.
            It may hold the inputs, where none has the name of a result. A model or data in memory are kept there as
            model.onnx, calibrate.npz and evaluate.npz.
        preprocess: How pictures become the input: the name of a preset ("imagenet", ...), a dict, or a JSON file.
        precisions: Engines to build; none: fp32, bf16 and int8 (on a GPU fp32, fp16, int8). fp32 must be there. With
            bf16 and int8 on a CPU that has BF16, int8 whose other layers are BF16 is one more ("int8-bf16") where
            that is faster.
        samples: To calibrate on; None: at most 300, until the ranges settle.
        effort: How much to correct what int8 costs, 0 to 3. None: 1, or 0 where there are too few samples or it takes
            longer than the limit.
        answer_loss: Where int8 loses more than `max_drop` on `evaluate`, a network of effort 2 is made beside
            it ("int8-effort2"), judged and measured like the others.
        answer_limit_s: Seconds that correcting that network may take, at most; else it is left out. None: 90, quick 15.
        exclude: Left in float: node names, op types or regular expressions.
        noisy_layers: "auto": layers whose output int8 would turn into noise, and the last convolutions of detectors and
            segmenters, stay in float, where that costs little;
            "int8": they do not.
        weights: "per-channel" or "per-tensor"; None: what the device runs best.
        activations: "symmetric" or "asymmetric"; None: what the device runs best.
        task: What `evaluate` is judged by: "classification", "keypoints", "detection", "instances",
            "segmentation", "regression", "text-recognition", "similarity", "squad", or FILE.py:function, a metric of your own, whose code is run.
            Empty: what data and outputs tell. A dict says more: "name", "output_name", "head", "score_threshold",
            "nms_overlap" (detection, instances), "ignored_label", "first_label" (segmentation), "target_scale", "peak"
            (regression), "characters", "blank_last" (text recognition).
        against: Frameworks to measure beside the engines ("pytorch", "torch-compile", "onnxruntime", "openvino"); None:
            those usual; (): none.
        source: FILE.py:function that the model was exported from, for PyTorch as a framework beside the engines. Its
            code is run, and only if its SHA-256 digest is the one that the model records.
        max_drop: Largest acceptable loss of the task's metric (top-1, mAP, ...), in points.
        evaluate_samples: To judge on; 0: all. None: all, quick 200.
        duration_s, time_limit_s: Seconds of each throughput and, at most, latency measurement. None: 1.5 and 4, quick
            0.3 and 1.
        quick: A verdict within a minute on two cores, as far as a single inference allows: what would pass the minute
            is cut or left out, and one of the result's reasons tells what was.
        force: Do every step anew, whatever the folder holds, and write over another model.onnx or .npz there.
        progress: True or False: with or without a bar; None: on a terminal or in a notebook.

    Raises:
        Error: invalid_argument (also: a result would be written over an input), not_found, unsupported,
            verification_failed, ...: what the steps give.
        KeyboardInterrupt: on Ctrl-C; the same call goes on from there.
    """
    _load.prepare_environment()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    path = _spare(folder, force, lambda place: model_file(model, place, example))
    options: dict[str, Any] = {
        "model": os.fspath(path), "output": os.fspath(folder), "device": device, "precisions": list(precisions),
        "method": method, "effort": effort, "answer_loss": answer_loss,
        "answer_limit_s": answer_limit_s, "exclude": list(exclude), "noisy_layers": noisy_layers, "weights": weights,
        "activations": activations, "source": source, "shapes": list(shapes), "columns": columns, "task": task_options(task),
        "batch_sizes": list(batch_sizes), "max_drop": max_drop, "evaluate_samples": evaluate_samples,
        "duration_s": duration_s, "time_limit_s": time_limit_s, "threads": threads, "quick": quick,
        "force": force,
        "program": _load.command(), "command_line": "lathe.optimize",
    }
    for name, data in (("calibrate", calibrate), ("evaluate", evaluate)):
        if data is None:
            continue
        given = samples_of(data)
        if isinstance(given, Samples):
            given = _spare(folder, force, partial(_saved, given, f"{name}.npz", _input_names(path)))
        options[name] = os.fspath(given)
    if preprocess is not None:
        options["preprocess"] = preprocess_text(preprocess)
    if samples is not None:
        options["samples"] = samples
    if against is not None:
        options["against"] = list(against)
    told = _lathe.optimize(options, reporter(progress))
    rows = [
        Row(row["name"], row["precision"], row["batch"], Measured(*row["latency_ms"]), measured(row["speedup"]),
            measured(row["top1"]), measured(row["top1_change"]), row["metric"], measured(row["score"]),
            measured(row["score_change"]), Path(row["engine"]) if str(row["engine"]) != "." else None)
        for row in told["rows"]
    ]
    engine = None if str(told["engine"]) == "." else Path(told["engine"])
    return OptimizeResult(told["verdict"], told["reasons"], engine, Path(told["report"]), Path(told["folder"]), rows,
                          told["document"])
