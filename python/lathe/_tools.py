"""How long texts are, engines judged by any task, what TensorRT's trtexec printed, ranges for other tools, this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._inputs import preprocess_text, task_options
from ._progress import Reporter, reporter
from ._results import Documented


@dataclass(frozen=True)
class PaddingCost:
    """What filling up costs.

    Attributes:
        computed_tokens: Of all samples, once filled up.
        padding_share: Of the computed tokens, 0..1.
        padding_over_real: Padding over the texts' own tokens.
    """

    computed_tokens: int
    padding_share: float
    padding_over_real: float


@dataclass(frozen=True)
class LengthBuckets:
    """Lengths that requests are filled up to, ascending, with the least padding that so many can have."""

    lengths: list[int]
    cost: PaddingCost


@dataclass(frozen=True)
class DataProfile(Documented):
    """What `lathe.profile_data` tells; lengths are tokens of a sample.

    Attributes:
        tokens: Of all samples.
        percentiles: By 50, 75, 90, 95, 99: so many per cent have at most so many tokens.
        histogram: Samples by length.
        limit: What the model takes at most; `longer_than_limit` samples are cut.
        tokenizer_limit: What the tokenizer gives at most; `at_tokenizer_limit` samples fill it.
        own: Filled up to the longest of each batch only.
        proposals: Of 1, 2, ... lengths; `chosen` is the index of that asked for.
        shapes: Options of `lathe build` for one engine of every length; None: the graph takes one length only.
    """

    samples: int
    tokens: int
    mean: float
    shortest: int
    longest: int
    percentiles: dict[int, int]
    histogram: dict[int, int]
    limit: int
    longer_than_limit: int
    tokenizer_limit: int
    at_tokenizer_limit: int
    own: PaddingCost
    proposals: list[LengthBuckets]
    chosen: int
    shapes: str | None


def profile_data(model: str | os.PathLike[str], data: str | os.PathLike[str], *, columns: str = "", samples: int = 0,
                 batch_size: int = 1, buckets: int = 4, progress: bool | Reporter | None = None) -> DataProfile:
    """How long a dataset's texts are for a model, and which lengths to build engines for: `lathe profile-data`.

    Args:
        model: An ONNX file or an engine with a tokenizer.
        data: Texts: .tsv, .csv, .jsonl or .txt.
        columns: "text=NAME,pair=NAME"; "": usual names.
        samples: Spread evenly over the data; 0: all.
        batch_size: Samples a request, in the data's order; all become as long as the longest.
        buckets: Lengths to propose, 1 to 8.

    Raises:
        Error: unsupported (no tokenizer), invalid_argument, what model and data give (not_found, parse_error, corrupt).
    """
    told = _lathe.profile_data({"model": os.fspath(model), "data": os.fspath(data), "columns": columns,
                                "samples": samples, "batch_size": batch_size, "buckets": buckets}, reporter(progress))

    def proposal(each: dict[str, Any]) -> LengthBuckets:
        return LengthBuckets(each["lengths"], PaddingCost(**each["cost"]))

    return DataProfile(**told | {"own": PaddingCost(**told["own"]),
                                 "proposals": [proposal(each) for each in told["proposals"]]})


@dataclass(frozen=True)
class TaskFigure:
    """A figure of a task. `low` and `high` are of its 95 % interval, where it has one; `value` is None where there is
    none, and of a signal-to-noise ratio where outputs are equal. Shares are 0..1."""

    title: str
    key: str
    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class TaskSubject:
    """An engine as the task judges it.

    Attributes:
        nonfinite: Samples with NaN or infinity; they count as wrong, or as not alike.
        figures: The task's own, its metric first.
        reference: The name of what the next are against; "": nothing.
        against_reference: Closeness, and differences (this less the reference, paired).
    """

    name: str
    precision: str
    nonfinite: int
    figures: list[TaskFigure]
    reference: str
    against_reference: list[TaskFigure]

    def figure(self, key: str) -> TaskFigure:
        """Of `figures` or `against_reference` the one with this key. Raises KeyError, with the keys that exist."""
        for each in self.figures + self.against_reference:
            if each.key == key:
                return each
        raise KeyError(f"no figure '{key}'; there are " + ", ".join(
            each.key for each in self.figures + self.against_reference))


@dataclass(frozen=True)
class TaskEvaluation(Documented):
    """What `lathe.evaluate_task` found. `subjects` begin with the reference, if there is one."""

    task: str
    heading: str
    samples: int
    subjects: list[TaskSubject]


def evaluate_task(engines: Sequence[str | os.PathLike[str]], data: str | os.PathLike[str], *,
                  task: str | Mapping[str, Any] = "", reference: str | os.PathLike[str] | None = None,
                  columns: str = "", samples: int = 0, batch_size: int = 16,
                  preprocess: str | Mapping[str, Any] | None = None, worst: int = 10,
                  progress: bool | Reporter | None = None) -> TaskEvaluation:
    """Judge engines by a task's metric, and against a reference, on the same samples: the command `lathe eval`.

    Args:
        engines: Engine files.
        data: Labelled pictures or arrays; texts; pictures with boxes (COCO, YOLO, Pascal VOC), masks/ beside images/,
            targets/ beside inputs/, texts.csv, or SQuAD's JSON. Without truth the reference's answers are the truth.
        task: "classification", "detection", "instances", "keypoints", "segmentation", "regression",
            "text-recognition", "similarity", "squad" or "FILE.py:function", your own metric, whose code is run; or a
            dict with "name" and how data and outputs are read for it. "": what data and outputs tell.
        reference: The engine whose answers the others should give.
        samples: Spread evenly over the data; 0: all.
        preprocess: How pictures become the input, in place of what the first engine says: a preset's name ("imagenet", ...),
            a dict, or a JSON file.
        worst: Samples that differ most, listed in `document`.

    Raises:
        Error: what the engines give first (not_found, corrupt); invalid_argument (neither truth nor reference),
            unsupported (outputs of no known form), mismatch, what the data gives.
    """
    told = _lathe.evaluate_task({
        "engines": [os.fspath(file) for file in engines], "data": os.fspath(data), "task": task_options(task),
        "reference": None if reference is None else os.fspath(reference), "columns": columns, "samples": samples,
        "batch_size": batch_size, "preprocess": preprocess_text(preprocess), "worst": worst,
    }, reporter(progress))

    def figures(given: list[dict[str, Any]]) -> list[TaskFigure]:
        return [TaskFigure(**each) for each in given]

    return TaskEvaluation(**told | {"subjects": [
        TaskSubject(**each | {"figures": figures(each["figures"]),
                              "against_reference": figures(each["against_reference"])}) for each in told["subjects"]]})


@dataclass(frozen=True)
class TrtexecRun:
    """A run that trtexec measured; milliseconds are medians as it counts them, None where the log does not tell.

    Attributes:
        version: Of TensorRT.
        median_ms: Copy in + compute + copy out of a query, without waiting for earlier ones.
        warnings: What a reader of these figures must know.
    """

    name: str
    log: Path
    model: str
    version: str
    device: str
    precision: str
    batch: int
    samples_per_second: float
    median_ms: float
    mean_ms: float
    min_ms: float
    max_ms: float
    p99_ms: float | None
    copy_in_ms: float | None
    compute_ms: float | None
    copy_out_ms: float | None
    enqueue_ms: float | None
    warnings: list[str]


@dataclass(frozen=True)
class TrtexecLogs(Documented):
    """What `lathe.read_trtexec_logs` read. `document` has the form of `lathe bench`, which `lathe.report` takes.

    Attributes:
        unavailable: Of runs without a summary: (name, reason, cure).
    """

    measured: list[TrtexecRun]
    unavailable: list[tuple[str, str, str]]


def read_trtexec_logs(*logs: str | os.PathLike[str]) -> TrtexecLogs:
    """Read what trtexec of TensorRT 8 to 11 printed: the command `lathe trtexec-log`. A file may hold several runs.

    Raises:
        Error: invalid_argument (no log), not_found, parse_error naming the line, also where no run has figures.
    """
    told = _lathe.read_trtexec_logs([os.fspath(log) for log in logs])
    return TrtexecLogs(**told | {"measured": [TrtexecRun(**each) for each in told["measured"]]})


@dataclass(frozen=True)
class BackendState:
    """A backend, and what to do where it cannot be used. `device` is what `lathe.build` takes."""

    name: str
    device: str
    available: bool
    version: str
    devices: list[str]
    cause: str
    cure: str


@dataclass(frozen=True)
class DoctorReport(Documented):
    """What `lathe.doctor` tells.

    Attributes:
        cores: That this process may use.
        hypervisor: A virtual machine: other guests can disturb timings.
        features: Of the processor, by the flag's name: whether it is there.
    """

    backends: list[BackendState]
    cpu_model: str
    cores: int
    memory_bytes: int
    hypervisor: bool
    features: dict[str, bool]


def doctor() -> DoctorReport:
    """Which backends and devices can be used on this machine, and what to do about the others: `lathe doctor`.

    >>> import lathe
    >>> all(backend.available for backend in lathe.doctor().backends if backend.device == "cpu")
    True
    """
    told = _lathe.doctor()
    return DoctorReport(**told | {"backends": [BackendState(**each) for each in told["backends"]]})


def convert_ranges(ranges: str | os.PathLike[str], output: str | os.PathLike[str] | None = None, *,
                   format: str = "tensorrt-cache", tensorrt: str = "10.3.0",
                   algorithm: str = "EntropyCalibration2") -> Path:
    """Turn calibrated ranges into the form of another tool: the command `lathe convert-ranges`. Returns the file.

    Args:
        ranges: A ranges file of Lathe, a calibration cache of TensorRT, or JSON of dynamic ranges.
        output: None: the input's name with .cache or .json.
        format, tensorrt, algorithm: As `Calibration.write` takes them.

    Raises:
        Error: invalid_argument (also: the output is the input), not_found, parse_error naming line or tensor, io.
    """
    return _lathe.convert_ranges(os.fspath(ranges), "" if output is None else os.fspath(output), format, tensorrt,
                                 algorithm)[0]
