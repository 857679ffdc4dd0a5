"""What the functions of this package give back."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from ._engine import Engine


class Measured(NamedTuple):
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Documented:
    """A result that a command prints as JSON too."""

    _document: str = field(repr=False)

    @property
    def document(self) -> Mapping[str, Any]:
        """Everything, as the command's --json prints it."""
        document: Mapping[str, Any] = json.loads(self._document)
        return document


@dataclass(frozen=True)
class Row:
    """One engine or framework at one batch size.

    Attributes:
        name: "m.int8", "onnxruntime", ...
        precision: "int8", "fp32", ...
        batch: Samples a call.
        latency_ms: Median milliseconds of a call.
        speedup: How many times as fast as the FP32 engine, pair by pair; None for that engine itself.
        top1: Share 0..1 of right answers; None without labels, and for frameworks.
        top1_change: Against the FP32 engine on the same samples, -1..1.
        metric: What the task is judged by: "top-1", "mAP", "mean IoU", ...; "" where nothing was evaluated, and for
            frameworks.
        score: That figure, at most 1; None where there is none.
        score_change: Against the FP32 engine on the same samples.
        engine: The engine's file; None for frameworks.
    """

    name: str
    precision: str
    batch: int
    latency_ms: Measured
    speedup: Measured | None
    top1: Measured | None
    top1_change: Measured | None
    metric: str
    score: Measured | None
    score_change: Measured | None
    engine: Path | None


def frame(rows: Sequence[Any], without: Sequence[str] = ()) -> Any:
    """Dataclasses as a pandas DataFrame where pandas is installed, else as a list of dicts. The interval of a figure is
    the columns NAME_low and NAME_high."""
    table = []
    for row in rows:
        cells: dict[str, Any] = {}
        for column in fields(row):
            value = getattr(row, column.name)
            if column.name in without:
                continue
            if "Measured" not in str(column.type):
                cells[column.name] = value
                continue
            for part in ("value", "low", "high"):
                key = column.name if part == "value" else f"{column.name}_{part}"
                cells[key] = None if value is None else getattr(value, part)
        table.append(cells)
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame(table)


def measured(figure: tuple[float, float, float] | None) -> Measured | None:
    return None if figure is None else Measured(*figure)


def page_of(path: Path) -> str:
    """The report as a frame of a notebook's page: it is one self-contained file."""
    import html

    text = html.escape(path.read_text(encoding="utf-8"), quote=True)
    return f'<iframe srcdoc="{text}" width="100%" height="900" style="border:0"></iframe>'


@dataclass(frozen=True)
class OptimizeResult:
    """What `lathe.optimize` found.

    Attributes:
        verdict: One line: which engine, how much faster, at what loss.
        reasons: Sentences, the weightiest first.
        engine_path: File of the recommended engine; None where the results support no choice.
        report: The report, one HTML file.
        folder: Where all engines and results are.
        rows: Every engine and framework at every batch size.
    """

    verdict: str
    reasons: list[str]
    engine_path: Path | None
    report: Path
    folder: Path
    rows: list[Row]
    _document: str = field(repr=False)

    @cached_property
    def engine(self) -> Engine:
        """The recommended engine, loaded. Raises Error: not_found where there is none."""
        from ._errors import Error

        if self.engine_path is None:
            raise Error("no engine is recommended", "not_found", str(self.folder), "; ".join(self.reasons))
        return Engine.load(self.engine_path)

    @property
    def document(self) -> Mapping[str, Any]:
        """Everything that was measured, as `lathe optimize --json` prints it."""
        document: Mapping[str, Any] = json.loads(self._document)
        return document

    def table(self) -> Any:
        """`rows` as a pandas DataFrame where pandas is installed, else as a list of dicts. Intervals are columns
        NAME_low and NAME_high."""
        return frame(self.rows, without=("engine",))

    def show(self) -> None:
        """Show the report: in a notebook below the cell, elsewhere in the browser."""
        ipython: Any = sys.modules.get("IPython")
        if ipython is not None and ipython.get_ipython() is not None:
            ipython.display.display(ipython.display.HTML(page_of(self.report)))
            return
        import webbrowser

        webbrowser.open(self.report.resolve().as_uri())

    def _repr_html_(self) -> str:
        return page_of(self.report)

    def __str__(self) -> str:
        return "\n  ".join([self.verdict, *self.reasons]) + f"\nReport: {self.report}"


@dataclass(frozen=True)
class SimplifyResult:
    """What `lathe.simplify` did.

    Attributes:
        model: The simplified model.
        before_nodes, after_nodes: Their number, subgraphs included.
        passes: How often each pass rewrote something.
        max_error: Largest difference on random inputs, relative to the output's largest magnitude.
        warnings: Sentences.
    """

    model: Any
    before_nodes: int
    after_nodes: int
    passes: dict[str, int]
    max_error: float
    warnings: list[str]


@dataclass(frozen=True)
class QuantizeResult:
    """What `lathe.quantize` made.

    Attributes:
        model: With explicit QuantizeLinear and DequantizeLinear; build it with precision="int8".
        quantized_nodes: Conv, ConvTranspose, Gemm and MatMul in int8, of `heavy_nodes`.
        remarks: What would make the result better.
        decisions: For each input of each node a dict: node, op_type, tensor, quantized, reason, explanation, detail.
        corrections: For each step tried a dict: method, kept, detail, sqnr_db_before, sqnr_db_after, seconds.
    """

    model: Any
    quantized_nodes: int
    heavy_nodes: int
    remarks: list[str]
    decisions: list[dict[str, Any]]
    corrections: list[dict[str, Any]]


@dataclass(frozen=True)
class Scores:
    """How often a classifier was right.

    Attributes:
        top1, top5: Shares 0..1 of the labelled samples, with Wilson's interval; None without labels.
        samples: How many were judged.
        nonfinite: Samples with NaN or infinity in the output; they count as wrong.
    """

    name: str
    precision: str
    samples: int
    nonfinite: int
    top1: Measured | None
    top5: Measured | None


@dataclass(frozen=True)
class Comparison:
    """How closely an engine follows a reference on the same samples.

    Attributes:
        agreement: Share of samples with the same likeliest class.
        mean_kl: KL(reference || subject) in nats.
        sqnr_db: Signal to noise of the output; infinite where the outputs are equal.
        top1_change: Subject less reference, -1..1; None without labels.
        p_value: McNemar's exact test that both are right equally often; None without labels.
    """

    reference: Scores
    subject: Scores
    agreement: Measured
    mean_kl: float
    sqnr_db: float
    cosine: float
    max_abs_error: float
    top1_change: Measured | None
    p_value: float | None


def scores(told: dict[str, Any]) -> Scores:
    return Scores(**told | {"top1": measured(told["top1"]), "top5": measured(told["top5"])})
