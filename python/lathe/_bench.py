"""Engines and frameworks, timed in turns."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _lathe, _load
from ._engine import Engine
from ._inputs import Samples, preprocess_text, samples_of
from ._progress import Reporter, reporter
from ._results import Measured, frame


@dataclass(frozen=True)
class BenchRow:
    """One engine or framework at one batch size.

    Attributes:
        name: "int8", "onnxruntime", ...
        kind: "engine", "pytorch", ...
        precision: "int8", "fp32", ...
        batch: Samples a call.
        latency_ms: Median milliseconds of a call.
        p99_ms: Of 100 calls 99 take at most this.
        calls: How many were timed.
        samples_per_second: With several streams; None where it was not measured.
    """

    name: str
    kind: str
    precision: str
    batch: int
    latency_ms: Measured
    p99_ms: float
    calls: int
    samples_per_second: float | None


@dataclass(frozen=True)
class BenchRatio:
    """How many times as fast as `reference` a subject is: the median over `pairs` of turns that stood side by side."""

    name: str
    reference: str
    batch: int
    speedup: Measured
    pairs: int


@dataclass(frozen=True)
class BenchGap:
    """What was not measured, why, and what to do about it. `batch` is 0 where it was measured at no batch size."""

    name: str
    batch: int
    reason: str
    cure: str


@dataclass(frozen=True)
class BenchResult:
    """What `lathe.bench` measured.

    Attributes:
        rows: Every engine and framework at every batch size.
        ratios: Each engine against each other subject.
        gaps: What was not measured, and why.
        notes: What a reader of the figures should know, such as other work on the machine.
    """

    rows: list[BenchRow]
    ratios: list[BenchRatio]
    gaps: list[BenchGap]
    notes: list[str]
    _document: str = field(repr=False)

    @property
    def document(self) -> Mapping[str, Any]:
        """Everything that was measured, as `lathe bench --json` prints it."""
        document: Mapping[str, Any] = json.loads(self._document)
        return document

    def speedup(self, name: str, reference: str, batch: int | None = None) -> Measured:
        """How many times as fast as `reference` the subject `name` is, at the least batch size unless one is named.

        Raises:
            KeyError: that pair was not measured.
        """
        for ratio in sorted(self.ratios, key=lambda one: one.batch):
            if batch in (None, ratio.batch) and (ratio.name, ratio.reference) == (name, reference):
                return ratio.speedup
            if batch in (None, ratio.batch) and (ratio.reference, ratio.name) == (name, reference):
                turned = ratio.speedup
                return Measured(1 / turned.value, 1 / turned.high, 1 / turned.low)
        raise KeyError(f"{name} against {reference}" + ("" if batch is None else f" at batch {batch}"))

    def table(self) -> Any:
        """`rows` as a pandas DataFrame where pandas is installed, else as a list of dicts. The interval of the median is
        the columns latency_ms_low and latency_ms_high."""
        return frame(self.rows)


def bench(
    engines: Sequence[Any],
    *,
    against: Sequence[str] = (),
    model: str | os.PathLike[str] | None = None,
    source: str = "",
    batch_sizes: Sequence[int] = (),
    duration_s: float = 3.0,
    time_limit_s: float = 10.0,
    data: Any = None,
    columns: str = "",
    preprocess: str | Mapping[str, Any] | None = None,
    samples: int = 0,
    progress: bool | Reporter | None = None,
) -> BenchResult:
    """Time engines and frameworks in turns, in one run: the command `lathe bench`.

    Args:
        engines: Engine files, or engines as `lathe.build` and `lathe.from_torch` give them.
        against: Frameworks to measure beside them: "torch" (or "pytorch"), "torch-compile", "onnxruntime", "openvino";
            the last two also as "NAME=MODELFILE", the others as "NAME=bf16". One that cannot run here is in `gaps`.
        model: ONNX for the frameworks; None: the one that the engines were built from.
        source: FILE.py:function that the model was exported from, for PyTorch. Its code is run, and only if its SHA-256
            digest is the one that the model records.
        batch_sizes: None given: those of 1, 4, 8, 16, 32 that the first engine takes.
        duration_s: Seconds of each throughput measurement; 0: none.
        time_limit_s: Seconds of each latency measurement, at most.
        data: Real inputs in place of random ones, as for `lathe.calibrate`.
        samples: Of the data; 0: all.
        progress: True or False: with or without a bar; None: on a terminal or in a notebook.

    Raises:
        Error: invalid_argument (no engine, an unknown framework, a batch size that the engine does not take), not_found,
            what the engines and the data give.
    """
    _load.prepare_environment()
    with tempfile.TemporaryDirectory() as folder:
        files: list[str] = []
        loaded: Engine | None = None
        for number, engine in enumerate(engines):
            if isinstance(engine, Engine):
                loaded = loaded or engine
                name = str(engine.metadata["name"]) or "engine"
                path = Path(folder) / str(number) / f"{Path(name).name}.{engine.metadata['precision']}.engine"
                path.parent.mkdir()
                engine.save(path)
                files.append(os.fspath(path))
            else:
                files.append(os.fspath(engine))
        options: dict[str, Any] = {
            "engines": files, "against": ["pytorch" if name == "torch" else name for name in against], "source": source,
            "batch_sizes": list(batch_sizes), "duration_s": duration_s, "time_limit_s": time_limit_s, "columns": columns,
            "samples": samples, "program": _load.command(), "command_line": "lathe.bench",
            "model": None if model is None else os.fspath(model),
            "preprocess": preprocess_text(preprocess),
        }
        if data is not None:
            given = samples_of(data)
            if isinstance(given, Samples):
                first = loaded or Engine.load(files[0])
                given = given.save(Path(folder) / "data.npz", [tensor.name for tensor in first.inputs])
            options["data"] = os.fspath(given)
        told = _lathe.bench(options, reporter(progress))
    return BenchResult(
        [BenchRow(**row | {"latency_ms": Measured(*row["latency_ms"])}) for row in told["rows"]],
        [BenchRatio(**ratio | {"speedup": Measured(*ratio["speedup"])}) for ratio in told["ratios"]],
        [BenchGap(**gap) for gap in told["gaps"]], told["notes"], told["document"])
