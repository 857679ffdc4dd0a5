"""Results and networks as pages."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._engine import Engine
from ._inputs import model_file
from ._progress import Reporter, reporter
from ._results import page_of


@dataclass(frozen=True)
class ReportResult:
    """What `lathe.report` wrote.

    Attributes:
        path: The page, one self-contained HTML file.
        charts: Pictures of its charts, where they were asked for.
        verdict: One line; "" where the results hold too little for one.
    """

    path: Path
    charts: list[Path]
    verdict: str


def report(results: Sequence[str | os.PathLike[str]], output: str | os.PathLike[str] = "report.html", *,
           charts: str | os.PathLike[str] | None = None, title: str = "", max_drop: float | None = None,
           progress: bool | Reporter | None = None) -> ReportResult:
    """Turn results into one self-contained HTML file: the command `lathe report`.

    Args:
        results: JSON files of `lathe optimize`, `bench`, `eval`, `calibrate` and others, at most one of each kind.
        output: The page; an earlier one is written over.
        charts: Folder for every chart as PNG, which needs Chromium; None: none.
        title: "": the model's name.
        max_drop: Judge afresh: the largest acceptable loss of top-1, in points.

    Raises:
        Error: invalid_argument (no results; two benchmarks, which must not be compared; the output is an input),
            not_found, parse_error, mismatch (a file that is no result), io, unsupported (charts without Chromium).
    """
    return ReportResult(*_lathe.report([os.fspath(file) for file in results], os.fspath(output),
                                       "" if charts is None else os.fspath(charts), title, max_drop, reporter(progress)))


@dataclass(frozen=True)
class Picture:
    """What `lathe.show` drew.

    Attributes:
        path: The page, one self-contained HTML file.
        nodes: Of the network.
        timed: Of them, those with a time.
        explained: Of them, those with reasons.
    """

    path: Path
    nodes: int
    timed: int
    explained: int

    def _repr_html_(self) -> str:
        return page_of(self.path)


def show(model: Any, output: str | os.PathLike[str] = "graph.html", *, results: Sequence[str | os.PathLike[str]] = (),
         example: Any = None, progress: bool | Reporter | None = None) -> Picture:
    """Draw a network, layers from the top down, as one self-contained HTML file: the command `lathe show`. In a notebook
    the result is the page.

    Args:
        model: An ONNX file, an engine file, an Engine, an onnx.ModelProto, a Model, or a torch.nn.Module with example
            inputs. The layers of engines are timed.
        output: The page; an earlier one is written over.
        results: JSON of `lathe quantize` (reasons of each edge), `lathe optimize` or profiles (times of layers).

    Raises:
        Error: not_found, parse_error, corrupt, invalid_argument (the output is an input), mismatch (results of another
            model), io.
    """
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(model, Engine):
            path = Path(folder) / f"{Path(str(model.metadata['name']) or 'engine').name}.engine"
            model.save(path)
        else:
            path = model_file(model, Path(folder), example)
        return Picture(*_lathe.show(os.fspath(path), os.fspath(output), [os.fspath(file) for file in results],
                                    reporter(progress)))
