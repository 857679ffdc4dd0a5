"""What a model is, where two differ, and how many machines a service needs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._bench import BenchResult
from ._engine import Engine
from ._errors import Error
from ._inputs import Samples, model_file, samples_of
from ._progress import Reporter, reporter
from ._results import Documented, frame


@dataclass(frozen=True)
class Value:
    """A value of a model's graph. `shape` has -1 for open sizes and is None where the rank is unknown."""

    name: str
    dtype: str
    shape: tuple[int, ...] | None


@dataclass(frozen=True)
class Layer:
    """One node. `macs` are multiply-accumulates of one inference, `parameters` the constants that it reads."""

    name: str
    op: str
    inputs: list[Value]
    outputs: list[Value]
    macs: int
    parameters: int
    precision: str


@dataclass(frozen=True)
class InspectResult(Documented):
    """What `lathe.inspect` tells.

    Attributes:
        opsets: By domain; "" is ONNX's own.
        inputs, outputs: Of the model, without constants.
        operators: How often each occurs, subgraphs included.
        macs: Multiply-accumulates of one inference; with `assumed_dimensions` open sizes counted as 1, and those of
            `unknown_layers` are missing.
        peak_activation_bytes: Most alive at once, in the order of the file, nothing in place.
        layers: Every node, those of subgraphs included.
        nonfinite_weights: Constants with NaN or infinity.
    """

    name: str
    producer: str
    opsets: dict[str, int]
    inputs: list[Value]
    outputs: list[Value]
    operators: dict[str, int]
    parameters: int
    macs: int
    assumed_dimensions: bool
    unknown_layers: int
    weight_bytes: int
    activation_bytes: int
    peak_activation_bytes: int
    layers: list[Layer]
    metadata: dict[str, str]
    nonfinite_weights: list[str]

    def table(self) -> Any:
        """`layers` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.layers, without=("inputs", "outputs"))


def _values(rows: list[dict[str, Any]]) -> list[Value]:
    return [Value(**row) for row in rows]


def inspect(model: Any, *, example: Any = None) -> InspectResult:
    """Tell what a model is, without running it: the command `lathe inspect`. Engines describe themselves
    (`Engine.inputs`, `Engine.metadata`).

    Args:
        model: An ONNX file, an onnx.ModelProto, a Model, or a torch.nn.Module with example inputs.

    Raises:
        Error: not_found, parse_error, invalid_argument (no model).
    """
    with tempfile.TemporaryDirectory() as folder:
        told = _lathe.inspect(os.fspath(model_file(model, Path(folder), example)))
    layers = [Layer(**row | {"inputs": _values(row["inputs"]), "outputs": _values(row["outputs"])})
              for row in told["layers"]]
    return InspectResult(
        **told | {"inputs": _values(told["inputs"]), "outputs": _values(told["outputs"]), "layers": layers})


@dataclass(frozen=True)
class ComparedValue:
    """One value that both models have.

    Attributes:
        node_first, op_first, node_second, op_second: Which make it; "" for inputs.
        output: Whether it is an output of the first model.
        max_abs, max_rel: Largest difference, and relative to the first's value where that is not 0.
        sqnr_db: Signal to noise; infinite where equal.
        agreement: Share of rows with the greatest element at the same place; None for rank 0 and 1.
        problem: Why there are no figures: another shape or type, NaN on one side.
        past: The tolerance.
    """

    name: str
    node_first: str
    op_first: str
    node_second: str
    op_second: str
    output: bool
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    sqnr_db: float
    cosine: float
    agreement: float | None
    problem: str
    past: bool


@dataclass(frozen=True)
class CompareModelsResult(Documented):
    """What `lathe.compare_models` found: `values` in the first model's order, and the name of the first one that is
    past tolerance, "" where none is."""

    values: list[ComparedValue]
    first_past: str

    def table(self) -> Any:
        """`values` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.values)


def _file_of(model: Any, folder: Path, example: Any) -> str:
    folder.mkdir()
    if not isinstance(model, Engine):
        return os.fspath(model_file(model, folder, example))
    path = folder / "model.engine"
    model.save(path)
    return os.fspath(path)


def compare_models(first: Any, second: Any = None, *, against: str = "", data: Any = None, example: Any = None,
                   shapes: Sequence[str] = (), seed: int = 1, rtol: float = 1e-3, atol: float = 1e-6, min_sqnr_db: float | None = None,
                   outputs_only: bool = False, threads: int = 0,
                   progress: bool | Reporter | None = None) -> CompareModelsResult:
    """Run two models or engines on the same inputs and compare every float value of one name, of engines their outputs:
    the command `lathe compare`. How closely an engine follows another on a dataset is `lathe.compare`.

    Args:
        first: The reference: an ONNX file, an engine or its file, OpenVINO IR (.xml), an onnx.ModelProto, a Model, or a
            torch.nn.Module with example inputs.
        second: Likewise; None with `against`: the first one, run by Lathe.
        against: What computes the first one, of an engine the graph inside: "onnxruntime" (ONNX Runtime on the CPU, each
            node as written), "reference" (ONNX's own reference, slow); "": Lathe.
        data: One set of inputs: an array for a model of one input, a dict by name, an .npz or .npy file; None: random.
        shapes: "NAME:1x3x224x224": sizes of random inputs.
        rtol, atol: A value may differ by atol + rtol times its largest magnitude.
        min_sqnr_db: Instead: the least signal to noise, for quantised models.

    Raises:
        Error: not_found, parse_error, invalid_argument, mismatch (inputs or outputs that do not fit each other),
            unsupported (what `against` needs is not installed).
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        options: dict[str, Any] = {
            "first": _file_of(first, folder / "first", example),
            "second": "" if second is None else _file_of(second, folder / "second", example), "against": against,
            "shapes": list(shapes), "seed": seed, "rtol": rtol, "atol": atol, "min_sqnr_db": min_sqnr_db,
            "outputs_only": outputs_only, "threads": threads,
        }
        if data is not None:
            given = samples_of(data)
            if isinstance(given, Samples):
                given = _saved_inputs(given, folder)
            options["data"] = os.fspath(given)
        told = _lathe.compare_models(options, reporter(progress))
    return CompareModelsResult(**told | {"values": [ComparedValue(**value) for value in told["values"]]})


def _saved_inputs(given: Samples, folder: Path) -> Path:
    import numpy as np

    if given.labels is not None:
        raise Error("these are samples with labels", "invalid_argument", "data", "give one set of inputs")
    if set(given.arrays) != {""}:
        np.savez(folder / "inputs.npz", **given.arrays)
        return folder / "inputs.npz"
    np.save(folder / "inputs.npy", given.arrays[""])
    return folder / "inputs.npy"


@dataclass(frozen=True)
class Configuration:
    """One way to run a service: `machines` with so many `instances` each, batches up to `max_batch`, of which the oldest
    request waits at most `max_wait_ms`. `slo_ms` is the objective's quantile, `utilisation` a share 0..1."""

    max_batch: int
    max_wait_ms: float
    instances: int
    machines: int
    slo_ms: float
    utilisation: float


@dataclass(frozen=True)
class Stage:
    """A stage of the latency budget. Percentiles of stages do not add up; `at_slo_ms` does."""

    name: str
    mean_ms: float
    median_ms: float
    p99_ms: float
    at_slo_ms: float


@dataclass(frozen=True)
class PlanResult(Documented):
    """What `lathe.plan` found.

    Attributes:
        meets: Whether the objective is met; if not, `choice` is the nearest that was found.
        mean_ms, median_ms, p99_ms: Of the whole latency.
        machine_capacity: Requests a second that one machine can serve at most.
        without_one_ms: The objective's quantile when one machine fails; None: the others are overloaded.
        floor_ms: The objective's quantile when nobody waits.
        stages: The latency budget.
        by_batch: The fewest machines for each largest batch that meets the objective.
        not_measured: Stages that the plan takes no time for.
        warnings: What makes the plan uncertain, or why nothing meets the objective; sentences.
    """

    meets: bool
    choice: Configuration
    mean_ms: float
    median_ms: float
    p99_ms: float
    mean_batch: float
    machine_capacity: float
    without_one_ms: float | None
    floor_ms: float
    stages: list[Stage]
    by_batch: list[Configuration]
    not_measured: list[str]
    warnings: list[str]


def plan(bench: str | os.PathLike[str] | BenchResult, slo: str, rate: str = "", *,
         trace: str | os.PathLike[str] | None = None, subject: str = "", served: str | os.PathLike[str] | None = None,
         stages: str | os.PathLike[str] | None = None, batch_sizes: Sequence[int] = (), max_wait: str = "",
         instances: int = 0, machines: int = 0, max_utilisation: float = 0.95,
         progress: bool | Reporter | None = None) -> PlanResult:
    """From measured latencies to the machines, batches and waiting time for an objective: the command `lathe plan`.

    Args:
        bench: What `lathe.bench` gave, at several batch sizes, or the JSON file of `lathe bench`.
        slo: Of the whole latency: "p99=20ms", "p99.9=1s".
        rate: Requests of one sample each, over all machines: "1500/s", "90000/min"; with `trace`: stretch it to that.
        trace: File of arrival times in seconds; None: a Poisson process.
        subject: Whose latencies; "": the bench's first engine.
        served: JSON of an earlier `lathe plan --try`.
        stages: JSON of what requests pass outside the engine.
        batch_sizes: Only these largest batches; none: all up to the measured.
        max_wait: Of the oldest request, for others: "2ms"; "": searched.
        instances: Sessions a machine; 0: searched.
        machines: What these can do, instead of the fewest; 0: the fewest.
        max_utilisation: Share of its capacity to load a machine with.

    Raises:
        Error: invalid_argument (no rate, an objective of another form, what was not measured), not_found, parse_error.
            That nothing meets the objective is no error.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = _plan_options(bench, folder, slo=slo, rate=rate, trace=trace, subject=subject, served=served,
                                stages=stages, batch_sizes=list(batch_sizes), max_wait=max_wait, instances=instances,
                                machines=machines, max_utilisation=max_utilisation)
        told = _lathe.plan(options, reporter(progress))
    return PlanResult(**told | {"choice": Configuration(**told["choice"]),
                                "stages": [Stage(**stage) for stage in told["stages"]],
                                "by_batch": [Configuration(**each) for each in told["by_batch"]]})


def _plan_options(bench: str | os.PathLike[str] | BenchResult, folder: str, **options: Any) -> dict[str, Any]:
    """What the library takes: files by their paths, a result of `lathe.bench` as a file in `folder`."""
    for name in ("trace", "served", "stages"):
        if options.get(name) is not None:
            options[name] = os.fspath(options[name])
    if isinstance(bench, BenchResult):
        options["bench"] = os.path.join(folder, "bench.json")
        Path(options["bench"]).write_text(bench._document, encoding="utf-8")
    else:
        options["bench"] = os.fspath(bench)
    return options


@dataclass(frozen=True)
class LoadLatency:
    """Latencies of a load, in ms, and the samples of a batch."""

    mean_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    mean_batch: float


@dataclass(frozen=True)
class PlanTrial:
    """A load as it was served, beside what the simulation says of the same arrivals.

    Attributes:
        sender_late_p99_ms: How much later than planned requests were handed over; it is in both.
    """

    requests: int
    seconds: float
    predicted: LoadLatency
    measured: LoadLatency
    sender_late_p99_ms: float


@dataclass(frozen=True)
class PlanTrials(Documented):
    """What `lathe.try_plan` served.

    Attributes:
        rate: Requests a second: one machine's share.
        from_bench: The first load, beside what the bench lets one expect.
        from_load: The second, beside what the first load showed.
        document: In a file, as {"tried": document}, what `served` of `lathe.plan` takes.
    """

    rate: float
    from_bench: PlanTrial
    from_load: PlanTrial


def try_plan(bench: str | os.PathLike[str] | BenchResult, choice: Configuration, engine: str | os.PathLike[str],
             slo: str, rate: str = "", *, seconds: float = 10, trace: str | os.PathLike[str] | None = None,
             subject: str = "", progress: bool | Reporter | None = None) -> PlanTrials:
    """Serve one machine's share of a plan here, twice, and compare with the prediction: `lathe plan --try`.

    Args:
        bench, slo, rate, trace, subject: As `lathe.plan` was given them.
        choice: What it found.
        engine: An engine file.
        seconds: How long each load is.

    Raises:
        Error: as `lathe.plan`; verification_failed (requests failed), what loading the engine gives.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = _plan_options(bench, folder, slo=slo, rate=rate, trace=trace, subject=subject,
                                choice_max_batch=choice.max_batch, choice_max_wait_ms=choice.max_wait_ms,
                                choice_instances=choice.instances, choice_machines=choice.machines)
        told = _lathe.try_plan(options, os.fspath(engine), seconds, reporter(progress))

    def trial(each: dict[str, Any]) -> PlanTrial:
        return PlanTrial(**each | {"predicted": LoadLatency(**each["predicted"]),
                                   "measured": LoadLatency(**each["measured"])})

    return PlanTrials(**told | {"from_bench": trial(told["from_bench"]), "from_load": trial(told["from_load"])})


@dataclass(frozen=True)
class PricedMix:
    """So many machines of each kind, in the order of `PricePlanResult.kinds`.

    Attributes:
        slo_ms: The objective's quantile at the rate; None: overloaded.
        of_held: The rate as a share of what the mix holds within the objective.
        failing: The kind whose machine is missed most.
        without_one_ms: The quantile without one of those; None: overloaded.
    """

    counts: list[int]
    per_hour: float
    slo_ms: float | None
    of_held: float
    failing: str
    without_one_ms: float | None


@dataclass(frozen=True)
class PricedKind:
    """A kind of machine, and what one holds within the objective.

    Attributes:
        rate_each: Requests a second; 0: none, and no `choice`.
        choice: How it is run for that.
        alone: Machines of this kind only; None: not at all.
    """

    name: str
    per_hour: float
    rate_each: float
    choice: Configuration | None
    alone: int | None
    alone_per_hour: float


@dataclass(frozen=True)
class PricePlanResult(Documented):
    """What `lathe.plan_prices` found.

    Attributes:
        rate: Requests a second.
        cheapest: None: no kind holds the objective at any rate.
        with_spare: The cheapest with which the objective holds when any one machine fails.
    """

    currency: str
    rate: float
    kinds: list[PricedKind]
    cheapest: PricedMix | None
    with_spare: PricedMix | None


def plan_prices(prices: str | os.PathLike[str], slo: str, rate: str, *, stages: str | os.PathLike[str] | None = None,
                batch_sizes: Sequence[int] = (), max_wait: str = "", instances: int = 0, max_utilisation: float = 0.95,
                progress: bool | Reporter | None = None) -> PricePlanResult:
    """The cheapest machines of several kinds for an objective: `lathe plan --prices`.

    Args:
        prices: JSON or CSV of kinds of machine, each with its price an hour and its bench.
        slo, rate, stages, batch_sizes, max_wait, instances, max_utilisation: As `lathe.plan` takes them.

    Raises:
        Error: invalid_argument (no rate, an objective of another form), not_found, parse_error naming the place. That
            no kind holds the objective is no error.
    """
    told = _lathe.plan_prices({
        "prices": os.fspath(prices), "slo": slo, "rate": rate, "stages": None if stages is None else os.fspath(stages),
        "batch_sizes": list(batch_sizes), "max_wait": max_wait, "instances": instances,
        "max_utilisation": max_utilisation,
    }, reporter(progress))

    def mix(each: dict[str, Any] | None) -> PricedMix | None:
        return None if each is None else PricedMix(**each)

    def kind(each: dict[str, Any]) -> PricedKind:
        return PricedKind(**each | {"choice": None if each["choice"] is None else Configuration(**each["choice"])})

    return PricePlanResult(**told | {"kinds": [kind(each) for each in told["kinds"]], "cheapest": mix(told["cheapest"]),
                                     "with_spare": mix(told["with_spare"])})
