"""Lathe on a Ray cluster: calibration, evaluation, inference and serving on several machines.

    import lathe, lathe.ray
    calibration = lathe.ray.calibrate(lathe.Model.load("m.onnx"), "photos/")
    scores = lathe.ray.evaluate("m.engine", "labelled/")
    outputs = lathe.ray.run("m.engine", "photos/")
    lathe.ray.serve("m.engine")

Needs `pip install lathe[ray]` on every machine. RAY_ADDRESS, or `ray.init` before, says which cluster; without either,
this machine is one. Data given as a path must be there on every machine; arrays and iterables are sent along.

A worker is an actor with `cpus` cores and `gpus` GPUs; by default there are as many as the cluster has room for. What a
worker that died was doing, another one does again: each sample is counted once.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

try:
    import ray
except ImportError as failure:
    raise ImportError("lathe.ray needs Ray: pip install lathe[ray]") from failure

from . import _lathe
from ._engine import Engine
from ._errors import Error
from ._inputs import Samples, preprocess_text, samples_of
from ._pool import Pool, connect, worker_count
from ._progress import reporter
from ._ray_serve import serve
from ._results import Scores, scores
from ._steps import Calibration, Model, Progress

__all__ = ["Outputs", "calibrate", "evaluate", "run", "serve"]

BATCH = 16  # samples a run when evaluating, as lathe.evaluate has them
PART = 64  # samples at most that a worker is given at a time: what is lost with it


def _sent(folder: Path) -> Any:
    """The files of a folder as an object that every machine can get."""
    return ray.put({file.name: file.read_bytes() for file in folder.iterdir()})


def _sent_model(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        Model.load(model).save(Path(folder) / "model.onnx")
        return _sent(Path(folder))


def _sent_engine(engine: Engine) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        engine.save(Path(folder) / "model.engine")
        return _sent(Path(folder))


def _received(files: Mapping[str, bytes]) -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory()
    for name, content in files.items():
        (Path(folder.name) / name).write_bytes(content)
    return folder


class _Calibrator:
    """The end that runs the model."""

    def __init__(self, files: Mapping[str, bytes], *options: Any) -> None:
        self._files = files
        self._options = options

    def prepare(self) -> None:
        with _received(self._files) as folder:
            model = _lathe.load_model(os.path.join(folder, "model.onnx"))
        self._worker = _lathe.CalibrationWorker(model, *self._options)

    def work(self, data: Any, columns: str, span: tuple[int, int]) -> bytes:
        return self._worker.run(data, columns, span)


class _Runner:
    """The end that runs an engine."""

    def __init__(self, files: Mapping[str, bytes], threads: int) -> None:
        self._files = files
        self._threads = threads

    def prepare(self) -> None:
        with _received(self._files) as folder:
            self._engine = Engine.load(Path(folder) / "model.engine", threads=self._threads)
        self._session = self._engine.session()

    def work(self, task: str, *arguments: Any) -> Any:
        result: Any = getattr(self, task)(*arguments)
        return result

    def evaluate(self, *arguments: Any) -> tuple[Any, ...]:
        return _lathe.evaluate_part(self._engine._native, *arguments)

    def run(self, *arguments: Any) -> tuple[list[str], dict[str, Any]]:
        names, inputs = _lathe.read_samples(self._engine._native, *arguments)
        return names, run_rows(self._engine, self._session, inputs, len(names))


def run_rows(engine: Engine, session: Any, inputs: dict[str, Any], count: int) -> dict[str, Any]:
    """The outputs of `count` samples, in runs that the engine takes: a short one is filled up with its last sample."""
    least = max(tensor.min_shape[0] for tensor in engine.inputs)
    most = min(tensor.max_shape[0] for tensor in engine.inputs)
    names = [tensor.name for tensor in session.outputs]
    parts: dict[str, list[Any]] = {name: [] for name in names}
    step = max(least, min(most, BATCH))
    for first in range(0, count, step):
        size = min(step, count - first)
        rows = [min(first + place, count - 1) for place in range(max(size, least))]
        found = session.run({name: values[rows] for name, values in inputs.items()})
        for name, values in (found if isinstance(found, dict) else {names[0]: found}).items():
            if values.ndim == 0 or len(values) != len(rows):
                raise Error("the output has no row for each sample", "unsupported", name, "run the engine by itself")
            parts[name].append(values[:size])
    return {name: _joined(name, values) for name, values in parts.items()}


def _joined(name: str, parts: Sequence[Any]) -> Any:
    import numpy as np

    if len({part.shape[1:] for part in parts}) > 1:
        raise Error("the output changes its shape from batch to batch", "unsupported", name,
                    "build the engine for one length, or take an output that does not depend on it")
    return np.concatenate(parts)


def _cut(first: int, count: int, size: int, step: int) -> list[tuple[int, int]]:
    """Parts of about `size` samples that begin at multiples of `step`."""
    size = max(step, size // step * step)
    return [(start, min(size, first + count - start)) for start in range(first, first + count, size)]


def _engine_of(engine: Any) -> Engine:
    return engine if isinstance(engine, Engine) else Engine.load(engine)


def _rows(arrays: Mapping[str, Any], indices: Sequence[int]) -> dict[str, Any]:
    return {name: values[indices] for name, values in arrays.items()}


def calibrate(model: Any, data: Any, *, samples: int = 300, until_settled: bool = True, method: str = "mse",
              percentile: float = 99.99, columns: str = "", preprocess: str | Mapping[str, Any] | None = None,
              workers: int | None = None, cpus: float = 1, gpus: float = 0, progress: Progress = None) -> Calibration:
    """`lathe.calibrate` on a cluster: the same calibration to the bit, and the same file, by any number of workers.

    Args:
        model: A Model, or what `Model.load` takes.
        data: As for `lathe.calibrate`.
        workers: None: as many as the cluster has room for.
        cpus: Cores a worker.
        gpus: GPUs a worker; calibration runs on CPUs, so this only reserves them.

    Raises:
        Error: as `lathe.calibrate`; unsupported where the cluster has no room for a worker; internal where a part's
            workers die again and again.
    """
    connect()
    count = worker_count(workers, cpus, gpus)
    loaded = Model.load(model)
    given = samples_of(data)
    whole: Any = given.arrays if isinstance(given, Samples) else os.fspath(given)
    settings = preprocess_text(preprocess)
    shared = _lathe.SharedCalibration.start(loaded._native, whole, columns, samples, until_settled, method, percentile,
                                            0, settings)
    threads = max(1, int(cpus))
    remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(_Calibrator)
    files = _sent_model(loaded)
    told = reporter(progress)
    if told is not None:
        told.begin("calibrate", samples)
    with Pool(lambda: remote.remote(files, samples, until_settled, threads, settings), count) as pool:
        while (wanted := shared.wanted()) is not None:
            spans = _cut(*wanted, min(PART, -(-wanted[1] // (2 * count))), shared.granularity())

            def piece(span: tuple[int, int]) -> tuple[Any, ...]:
                return whole if isinstance(whole, str) else _rows(whole, shared.samples(span)), columns, span

            for index, part in pool.each([partial(piece, span) for span in spans]):
                shared.add(part)
                if told is not None:
                    told.advance(spans[index][1])
    if told is not None:
        told.end()
    return Calibration(shared.finish())


def _run_parts(task: str, engine: Engine, arguments: Callable[[tuple[int, int]], tuple[Any, ...]], total: int,
               workers: int | None, cpus: float, gpus: float, progress: Progress) -> list[Any]:
    """The results of the task's parts, in order. `arguments(span)`: what a part's worker is given."""
    count = worker_count(workers, cpus, gpus)
    remote = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(_Runner)
    files = _sent_engine(engine)
    threads = max(1, int(cpus)) if engine.metadata["device"] == "cpu" else 0
    spans = _cut(0, total, min(PART, -(-total // (2 * count))), BATCH)
    told = reporter(progress)
    if told is not None:
        told.begin(task, total)
    results: dict[int, Any] = {}

    def piece(span: tuple[int, int]) -> tuple[Any, ...]:
        return task, *arguments(span)

    with Pool(lambda: remote.remote(files, threads), count) as pool:
        for index, result in pool.each([partial(piece, span) for span in spans]):
            results[index] = result
            if told is not None:
                told.advance(spans[index][1])
    if told is not None:
        told.end()
    return [results[index] for index in range(len(spans))]


def evaluate(engine: Any, data: Any, *, labels: Sequence[int] | None = None, columns: str = "", samples: int = 0,
             preprocess: str | Mapping[str, Any] | None = None, workers: int | None = None, cpus: float = 1, gpus: float = 0,
             progress: Progress = None) -> Scores:
    """`lathe.evaluate` on a cluster: the same counts, shares and intervals.

    Args:
        engine: An Engine or its file. One for the CPU runs with `cpus` threads a worker; for a GPU give `gpus=1`.
        data: As for `lathe.evaluate`.

    Raises:
        Error: as `lathe.evaluate` and `calibrate`.
    """
    connect()
    loaded = _engine_of(engine)
    given = samples_of(data)
    settings = preprocess_text(preprocess)
    if isinstance(given, Samples):
        known = list(labels) if labels is not None else given.labels
        first = next(iter(given.arrays.values()))
        if known is not None and len(known) != len(first):
            raise Error(f"{len(known)} labels for {len(first)} samples", "mismatch", "labels", "give one a sample")
        chosen = _lathe.choose_samples(len(first), samples)

        def arguments(span: tuple[int, int]) -> tuple[Any, ...]:
            indices = chosen[span[0]:span[0] + span[1]]
            own = None if known is None else [known[index] for index in indices]
            return _rows(given.arrays, indices), own, columns, 0, settings, None

        total = len(chosen)
    else:
        path = os.fspath(given)

        def arguments(span: tuple[int, int]) -> tuple[Any, ...]:
            return path, None, columns, samples, settings, span

        total = _lathe.count_samples(loaded._native, path, columns, samples, settings)
    parts = _run_parts("evaluate", loaded, arguments, total, workers, cpus, gpus, progress)
    return scores(_lathe.merge_scores(parts))


@dataclass(frozen=True)
class Outputs:
    """What `run` found.

    Attributes:
        names: Of the samples: files, or numbers.
        arrays: By output name; row i is of sample i.
    """

    names: list[str]
    arrays: dict[str, Any]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the arrays as .npz, as `lathe run --output` does."""
        import numpy as np

        np.savez(path, **self.arrays)


def run(engine: Any, data: Any, *, columns: str = "", samples: int = 0, preprocess: str | Mapping[str, Any] | None = None,
        workers: int | None = None, cpus: float = 1, gpus: float = 0, progress: Progress = None) -> Outputs:
    """Run an engine on data: outputs in the order of the samples, whichever worker computed them.

    Args:
        engine, data: As for `evaluate`; labels are not needed.

    Raises:
        Error: as `evaluate`; unsupported for outputs without a row a sample, or whose shape changes with the batch.
    """
    connect()
    loaded = _engine_of(engine)
    given = samples_of(data)
    settings = preprocess_text(preprocess)
    if isinstance(given, Samples):
        chosen = _lathe.choose_samples(len(next(iter(given.arrays.values()))), samples)
        total = len(chosen)

        def arguments(span: tuple[int, int]) -> tuple[Any, ...]:
            return _rows(given.arrays, chosen[span[0]:span[0] + span[1]]), columns, 0, settings, None
    else:
        path = os.fspath(given)
        total = _lathe.count_samples(loaded._native, path, columns, samples, settings)

        def arguments(span: tuple[int, int]) -> tuple[Any, ...]:
            return path, columns, samples, settings, span

    if total == 0:
        raise Error("there are no samples", "invalid_argument", "data", "give data that is not empty")
    parts = _run_parts("run", loaded, arguments, total, workers, cpus, gpus, progress)
    names = [name for part, _ in parts for name in part]
    if isinstance(given, Samples):
        names = [str(index) for index in chosen]
    arrays = {name: _joined(name, [part[name] for _, part in parts]) for name in parts[0][1]}
    return Outputs(names, arrays)
