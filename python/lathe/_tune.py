"""The best mix of precisions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from . import _lathe
from ._engine import Engine
from ._inputs import data_file, model_file, preprocess_text, task_options
from ._progress import Reporter, reporter
from ._results import Documented, Measured, frame, measured
from ._sensitivity import SensitivityResult
from ._steps import Calibration


@dataclass(frozen=True)
class Trial:
    """An engine that was built with a precision for every layer, and what was measured of it.

    Attributes:
        name: "FP32", "INT8, 3 layers FP32", ...
        phase: Why it was tried: "float", "int8", "prefix", "base", "tighten", "polish".
        base: Precision of all that is not INT8.
        float_layers: Not in INT8; none where nothing is in INT8.
        failed: Why it cannot be built here; then the figures are None.
        speedup: Over the FP32 engine.
        drop: Lost against FP32, in `TuneResult.drop_unit`; `loss` is by what mixes are ranked.
        feasible: Keeps the limits.
        pareto: No other trial is both faster and more accurate.
    """

    name: str
    phase: str
    base: str
    float_layers: list[str]
    failed: str
    latency_ms: float | None
    speedup: Measured | None
    drop: float | None
    loss: float | None
    feasible: bool
    pareto: bool
    chosen: bool
    seconds: float


@dataclass(frozen=True)
class TunedLayer:
    """A layer that can be quantised, in the engine that is handed out: `damage` is what it alone loses in INT8,
    `gain_ms` what INT8 saves (None: not measured)."""

    node: str
    precision: str
    damage: float
    gain_ms: float | None


@dataclass(frozen=True)
class TimedBeside:
    """An engine timed in turns with the one that is handed out, which is `speedup` times as fast."""

    name: str
    latency_ms: Measured
    speedup: Measured
    noisy: bool


@dataclass(frozen=True)
class TuneResult(Documented):
    """What `lathe.tune` found.

    Attributes:
        good: No limit was missed beyond doubt, and no plainer engine that keeps it is faster.
        text: One line; `reasons` are sentences.
        engine_path: File of the engine, which is written also where it is not good.
        chosen: Name of the trial that it is.
        metric: That the limit is of; `drop_unit`: "pt", "nats", "%"; `loss_name`: by what mixes are ranked.
        drop: Of the engine in the file, on `judged_samples` that the search did not see.
        seconds: Of all trials and the sensitivity, those of earlier calls included.
        trials: In the order they were made.
        layers: That can be quantised, in graph order.
        timed: The engine in the file itself, FP32, the device's other precisions, INT8.
        notices: What preparing the model met.
    """

    good: bool
    text: str
    reasons: list[str]
    engine_path: Path
    chosen: str
    metric: str
    drop_unit: str
    loss_name: str
    drop: Measured
    search_samples: int
    judged_samples: int
    seconds: float
    trials: list[Trial]
    layers: list[TunedLayer]
    timed: list[TimedBeside]
    notices: list[str]

    @cached_property
    def engine(self) -> Engine:
        """The engine, loaded."""
        return Engine.load(self.engine_path)

    def table(self) -> Any:
        """`trials` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.trials)

    def __str__(self) -> str:
        return "\n  ".join([self.text, *self.reasons]) + f"\nEngine: {self.engine_path}"


def tune(model: Any, data: Any, *, output: str | os.PathLike[str], calibrate: Any = None, judge: Any = None,
         calibration: Calibration | None = None, example: Any = None, metric: str = "",
         task: str | Mapping[str, Any] = "", max_drop: float = 0.3, min_speedup: float = 0.0, budget_s: float = 600.0,
         slack: float = 0.03, device: str = "cpu", batch_size: int = 1, time_limit_s: float = 1.5,
         shapes: Sequence[str] = (), sensitivity: SensitivityResult | str | os.PathLike[str] | None = None,
         sensitivity_samples: int = 64, effort: int | None = None, samples: int = 1000, calibrate_samples: int = 300,
         method: str = "mse", columns: str = "", length: int = 128, preprocess: str | Mapping[str, Any] | None = None,
         timing_cache: str | os.PathLike[str] | None = None, kernels: str = "default",
         results: str | os.PathLike[str] | None = None, report: str | os.PathLike[str] | None = None,
         force: bool = False, threads: int = 0, progress: bool | Reporter | None = None) -> TuneResult:
    """Search a precision for every layer, by accuracy on real data and latency of built engines: the command
    `lathe tune`.

    >>> import lathe, tempfile, torch
    >>> module = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).eval()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = lathe.tune(module, torch.randn(64, 64), output=f"{folder}/best.engine", example=torch.zeros(1, 64),
    ...                        metric="kl", max_drop=1, budget_s=0, time_limit_s=0.1)
    ...     scores = found.engine.session().run(torch.zeros(1, 64))
    >>> found.trials[0].name, found.judged_samples, scores.shape
    ('FP32', 32, (1, 8))

    Args:
        model: In floating point: an ONNX file, an onnx.ModelProto, a Model, or a torch.nn.Module with `example` inputs.
        data: To search on, and (every second sample) to judge on, best labelled; as `lathe.optimize` takes `evaluate`.
        output: Engine file: the best so far at every moment. FILE.journal beside it keeps what is known, so that the
            same call goes on after an interruption.
        calibrate: To calibrate on; None: the samples that are searched on.
        judge: Other data to judge the winner on; `data` is then all searched on.
        calibration: Ready ranges of this model, or of it simplified, instead of calibrating.
        metric: What `max_drop` limits: "top1" and "agreement" (points), "kl" (nats), "sqnr" (noise in % of the signal),
            "task" (points of the task's metric); "": the task's where one is named or told by data or outputs, else
            "top1".
        task: As `lathe.optimize` takes it.
        max_drop: Largest loss against FP32.
        min_speedup: Over FP32; 0: any.
        budget_s: Seconds for all trials together; those that every search needs are made in any case.
        slack: Share of the best speed that may be given for more accuracy within `max_drop`.
        batch_size: That latency is measured at.
        time_limit_s: Seconds that an engine is timed in a trial; the best is timed again, for longer.
        shapes: "[INPUT:]MIN..OPT..MAX"; none: batches 1..8..32.
        sensitivity: What `lathe.sensitivity` gave, or its JSON file, instead of measuring it.
        effort: How much to correct what INT8 costs before the search, 0 to 3; None: 2, or 0 where there are too few
            samples.
        timing_cache: GPU: file of kernel times.
        kernels: GPU: how long kernels may be timed: "fast", "default" or "full".
        results: JSON file to write, for `lathe.report`.
        report: HTML page to write.
        force: Begin anew, whatever FILE.journal holds.

    Raises:
        Error: not_found, invalid_argument (a metric or device of another name, "top1" without labels, too few samples),
            unsupported, mismatch (a journal of another model or other options), what the data and building give. That
            a limit is missed is no error: see `TuneResult.good`.
        KeyboardInterrupt: on Ctrl-C; the same call goes on from there.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = model_file(model, folder, example)
        options: dict[str, Any] = {
            "model": os.fspath(path), "output": os.fspath(output), "metric": metric, "task": task_options(task),
            "max_drop": max_drop, "min_speedup": min_speedup, "budget_s": budget_s, "slack": slack, "device": device,
            "batch_size": batch_size, "time_limit_s": time_limit_s, "shapes": list(shapes),
            "sensitivity_samples": sensitivity_samples, "effort": effort, "samples": samples,
            "calibrate_samples": calibrate_samples, "method": method, "columns": columns, "length": length,
            "kernels": kernels, "force": force, "threads": threads,
        }
        for name, given in (("data", data), ("calibrate", calibrate), ("judge", judge)):
            if given is not None:
                options[name] = data_file(given, folder / f"{name}.npz", path)
        for name, file in (("timing_cache", timing_cache), ("results", results), ("report", report)):
            if file is not None:
                options[name] = os.fspath(file)
        if calibration is not None:
            calibration.save(folder / "ranges")
            options["ranges"] = os.fspath(folder / "ranges")
        if isinstance(sensitivity, SensitivityResult):
            (folder / "sensitivity.json").write_text(sensitivity._document, encoding="utf-8")
            sensitivity = folder / "sensitivity.json"
        if sensitivity is not None:
            options["sensitivity"] = os.fspath(sensitivity)
        options["preprocess"] = preprocess_text(preprocess)
        told = _lathe.tune(options, reporter(progress))
    trials = [Trial(**trial | {"speedup": measured(trial["speedup"])}) for trial in told["trials"]]
    timed = [TimedBeside(**each | {"latency_ms": Measured(*each["latency_ms"]), "speedup": Measured(*each["speedup"])})
             for each in told["timed"]]
    return TuneResult(**told | {"drop": Measured(*told["drop"]), "trials": trials, "timed": timed,
                                "layers": [TunedLayer(**layer) for layer in told["layers"]]})
