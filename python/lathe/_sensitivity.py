"""Which layer hurts when it is quantised."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._inputs import data_file, model_file, preprocess_text, task_options
from ._progress import Reporter, reporter
from ._results import Documented, frame
from ._steps import Calibration


@dataclass(frozen=True)
class SensitiveLayer:
    """A layer quantised alone, all others in FP32; or one that stays in float, for `reason`, and has no figures.

    Attributes:
        role: For people: "first convolution", "classifier", ...
        macs: Multiply-accumulates of one sample.
        sqnr_db: Signal to noise of the output; infinite: no noise.
        mean_kl: KL(float || quantised) in nats.
        agreement: Share of samples with the same likeliest class.
        top1_delta: Share of right answers, against the float model; None without labels.
        task_delta: Of the task's metric, against the float model; None where no task judged.
        task_agreement: The metric against the float model's own answers, 1: the same; None where no task judged.
        damage_share: Of the damage of all layers together, by the metric.
        macs_share: Of the work of all layers.
    """

    node: str
    op: str
    role: str
    reason: str
    macs: int
    sqnr_db: float
    mean_kl: float
    agreement: float
    top1_delta: float | None
    task_delta: float | None
    task_agreement: float | None
    damage_share: float
    macs_share: float


@dataclass(frozen=True)
class SensitivityResult(Documented):
    """What `lathe.sensitivity` found.

    Attributes:
        layers: Most harmful first, those that stay in float last.
        outstanding: Names of the layers that do most of the damage.
        advice: What to do, in sentences.
        notices: What preparing the model met.
        samples: Judged on; `resumed_samples` of them by an earlier call.
    """

    layers: list[SensitiveLayer]
    outstanding: list[str]
    advice: list[str]
    notices: list[str]
    samples: int
    resumed_samples: int
    seconds: float

    def table(self) -> Any:
        """`layers` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.layers)


def sensitivity(model: Any, data: Any, *, calibration: Calibration | None = None, calibrate: Any = None,
                example: Any = None, metric: str = "", task: str | Mapping[str, Any] = "", target: str = "openvino", samples: int = 500,
                calibrate_samples: int = 300, method: str = "mse", columns: str = "", length: int = 128,
                preprocess: str | Mapping[str, Any] | None = None, batch_size: int = 0, output_name: str = "",
                output: str | os.PathLike[str] | None = None, force: bool = False, threads: int = 0,
                progress: bool | Reporter | None = None) -> SensitivityResult:
    """Quantise one layer at a time, the others in FP32, and see what becomes of the output: the command
    `lathe sensitivity`.

    Args:
        model: In floating point: an ONNX file, an onnx.ModelProto, a Model, or a torch.nn.Module with example inputs.
        data: To judge on, best labelled; as `lathe.optimize` takes `evaluate`.
        calibration: Ready ranges of this model, or of it simplified, instead of calibrating.
        calibrate: To calibrate on; None: `data`.
        metric: To rank by: "sqnr" (noise at the output), "kl", "agreement" (classes changed), "top1" (right answers
            lost), "task" (what the task's metric loses); "": the task's where one is named or told by data or outputs,
            else "sqnr".
        task: As `lathe.optimize` takes it.
        target: Quantise as this runtime wants it: "openvino", "onnxruntime", "tensorrt", "cuda".
        samples: To judge on, spread evenly; 0: all.
        length: Tokens a sample, of texts.
        batch_size: Samples at once, where that is open; 0: one a core.
        output: JSON file to write; FILE.part beside it keeps what is done, so that the same call goes on.
        force: Begin anew, whatever FILE.part holds.

    Raises:
        Error: not_found, invalid_argument (an unknown metric, target or method; "top1" without labels), what the data
            give.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = model_file(model, folder, example)
        options: dict[str, Any] = {
            "model": os.fspath(path), "metric": metric, "task": task_options(task), "target": target, "samples": samples, "method": method,
            "calibrate_samples": calibrate_samples, "columns": columns, "length": length, "batch_size": batch_size,
            "output_name": output_name, "force": force, "threads": threads,
        }
        for name, given in (("data", data), ("calibrate", calibrate)):
            if given is not None:
                options[name] = data_file(given, folder / f"{name}.npz", path)
        if calibration is not None:
            calibration.save(folder / "ranges")
            options["ranges"] = os.fspath(folder / "ranges")
        options["preprocess"] = preprocess_text(preprocess)
        if output is not None:
            options["output"] = os.fspath(output)
        told = _lathe.sensitivity(options, reporter(progress))
    return SensitivityResult(**told | {"layers": [SensitiveLayer(**layer) for layer in told["layers"]]})
