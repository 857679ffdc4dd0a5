"""FP16 or BF16, node by node."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._errors import Error
from ._inputs import data_file, model_file, preprocess_text
from ._progress import Reporter, reporter
from ._results import Documented, frame
from ._steps import Calibration, Model


@dataclass(frozen=True)
class CastDecision:
    """What was decided for one node that has floating-point tensors, and why.

    Attributes:
        reason: Stable name: "cast", "activation_overflow", "deep_reduction", ...; `explanation` is a sentence, `detail`
            numbers or names behind it.
        absmax: Largest magnitude of its measured tensors.
        terms: How many it adds up for each number of its result; None: it adds up nothing, or the number is not known.
        error_bound: Of the sum, relative to the sum of its terms' magnitudes; None: it adds up nothing.
    """

    node: str
    op: str
    cast: bool
    reason: str
    explanation: str
    detail: str
    absmax: float
    terms: int | None
    error_bound: float | None


@dataclass(frozen=True)
class Overflow:
    """A tensor with values above the format's largest: `share` of them, known between two bounds."""

    tensor: str
    constant: bool
    absmax: float
    share: tuple[float, float]


@dataclass(frozen=True)
class AutocastResult(Documented):
    """What `lathe.autocast` made.

    Attributes:
        model: With Casts; `build` computes BF16 as written, see `lathe autocast --help` for who honours what.
        measured: By the ranges of values; else by what operations do.
        format: "fp16" or "bf16".
        cast_nodes: In 16 bits; `fp32_nodes` are the others that have floats.
        casts: Cast nodes that were added.
        samples: Measured on.
        decisions: Of each node, where values were measured.
        overflow: Tensors that the format cannot hold, the largest first.
        kept_ops: What stays FP32, with how often, where operations decided.
    """

    model: Model
    measured: bool
    format: str
    opset: int
    cast_nodes: int
    fp32_nodes: int
    casts: int
    remarks: list[str]
    samples: int
    decisions: list[CastDecision]
    overflow: list[Overflow]
    kept_ops: dict[str, int]

    def table(self) -> Any:
        """`decisions` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.decisions)


def autocast(model: Any, data: Any = None, *, to: str = "fp16", ranges: str | os.PathLike[str] | Calibration | None = None,
             output: str | os.PathLike[str] | None = None, io_types: str = "keep", headroom: float = 2.0,
             error_limit: float = 0.01, accumulate: str = "fp32", open_size: int = 256, exclude: Sequence[str] = (),
             samples: int = 100, columns: str = "", preprocess: str | Mapping[str, Any] | None = None, example: Any = None,
             threads: int = 0, force: bool = False, progress: bool | Reporter | None = None) -> AutocastResult:
    """Write FP16 or BF16 into a model: the command `lathe autocast`. With `data` or `ranges` each node is judged by the
    range of its values and the depth of its sums; without, by what it does.

    >>> import lathe, torch
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Softmax(-1)).eval()
    >>> found = lathe.autocast(module, example=torch.zeros(2, 4))
    >>> found.cast_nodes, found.kept_ops
    (1, {'Softmax': 1})
    >>> measured = lathe.autocast(module, torch.ones(8, 4), example=torch.zeros(2, 4), exclude=["Softmax"])
    >>> {decision.op: decision.reason for decision in measured.decisions}
    {'Gemm': 'cast', 'Softmax': 'excluded_by_user'}

    Args:
        model: In FP32, best a simplified one, without measurements also one with Q/DQ: an ONNX file, an onnx.ModelProto,
            a Model, or a torch.nn.Module with `example` inputs.
        data: To measure the model on, as `lathe.calibrate` takes it.
        to: "fp16" or "bf16".
        ranges: Of every activation (`lathe calibrate --all-tensors`), instead; a file beside `data`: it is made, or
            reused.
        output: ONNX file to write; None: the result's `model` alone.
        io_types: Of the model's floating-point inputs and outputs: "keep" (FP32), or `to`.
        headroom: Measured magnitudes count so many times, for data not seen.
        error_limit: Largest bound of the relative error of a sum that is not kept in FP32.
        accumulate: Sums of products: "fp32", as matrix units do, or "own" for the 16-bit type.
        open_size: Of open axes that are summed over.
        exclude: Left in FP32: node names, op types or regular expressions.
        samples: To measure on, spread evenly; 0: all.
        force: Measure anew, whatever `ranges` holds.

    Raises:
        Error: invalid_argument (another format, what judges measured values where there are none), not_found, mismatch
            (ranges of another model), out_of_range, verification_failed, what the data give.
    """
    if accumulate not in ("fp32", "own"):
        raise Error(f"sums are not kept in '{accumulate}'", "invalid_argument", "accumulate", "choose from fp32, own")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = model_file(model, folder, example)
        options: dict[str, Any] = {
            "model": os.fspath(path), "to": to, "io_types": io_types, "headroom": headroom, "error_limit": error_limit,
            "wide_sums": accumulate == "fp32", "open_size": open_size, "exclude": list(exclude), "samples": samples,
            "columns": columns, "threads": threads, "force": force,
        }
        if data is not None:
            options["data"] = data_file(data, folder / "data.npz", path)
        if isinstance(ranges, Calibration):
            ranges.save(folder / "ranges")
            ranges = folder / "ranges"
        if ranges is not None:
            options["ranges"] = os.fspath(ranges)
        options["preprocess"] = preprocess_text(preprocess)
        if output is not None:
            options["output"] = os.fspath(output)
        told = _lathe.autocast(options, reporter(progress))
    return AutocastResult(**told | {
        "model": Model(told["model"]), "decisions": [CastDecision(**row) for row in told["decisions"]],
        "overflow": [Overflow(**row) for row in told["overflow"]]})
