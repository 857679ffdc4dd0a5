"""From engines to a model repository for a server."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import _lathe
from ._bench import BenchResult
from ._engine import Engine
from ._progress import Reporter, reporter
from ._results import Documented, frame


@dataclass(frozen=True)
class Cluster:
    """How a Kubernetes cluster is to serve the models.

    Attributes:
        image: Of the server's container, with tritonserver 23.10 or later.
        storage: Where the cluster finds the models: "pvc://CLAIM/FOLDER", "s3://BUCKET/FOLDER", ...
        service: Its name, a label of DNS; "": the first model's.
        least_servers, most_servers: Between which the cluster scales.
        queue_time_ms: More servers are started while requests wait for longer than this, on average.
        prometheus: Prometheus' address in the cluster, for KServe to scale by the time in the queue; "": by the load.
        memory_mib: Of each server; 0: 1 GiB and three times the engines' size.
    """

    image: str
    storage: str
    service: str = ""
    least_servers: int = 1
    most_servers: int = 4
    queue_time_ms: float = 5.0
    prometheus: str = ""
    memory_mib: int = 0


@dataclass(frozen=True)
class DeployedModel:
    """A model as it was written into the repository.

    Attributes:
        folder: With config.pbtxt, client.py and the model.
        backend: Triton's: "lathe", "onnxruntime", "openvino", "tensorrt".
        max_batch: Samples; 0: the model has no open axis for them.
        preferred_batches: Run without waiting for more.
        max_queue_delay_us: Microseconds that a request waits for others at most.
        cores: That its instances keep busy.
        sized: By measured latencies; `reason` says how.
        notices: What to know before relying on it.
    """

    name: str
    folder: Path
    engine: Path
    backend: str
    max_batch: int
    preferred_batches: list[int]
    max_queue_delay_us: int
    instances: int
    gpu: bool
    cores: int
    sized: bool
    reason: str
    notices: list[str]


@dataclass(frozen=True)
class DeployResult(Documented):
    """What `lathe.deploy` wrote.

    Attributes:
        repository: tritonserver's --model-repository.
        backend_directory: tritonserver's --backend-directory; None: its own.
        models: One an engine.
        manifests: Of a cluster, inferenceservice.yaml first.
    """

    repository: Path
    backend_directory: Path | None
    models: list[DeployedModel]
    manifests: list[Path]

    def table(self) -> Any:
        """`models` as a pandas DataFrame where pandas is installed, else as a list of dicts."""
        return frame(self.models)


def _model_name(engine: Any) -> str:
    if isinstance(engine, Engine):
        return Path(engine.metadata["name"] or "model").name
    return Path(os.fspath(engine)).stem


def _engine_file(engine: Any, folder: Path, index: int) -> str:
    """An engine in memory is saved in a folder of its own, by the name that `lathe.bench` gives it."""
    if not isinstance(engine, Engine):
        return str(os.fspath(engine))
    place = folder / str(index)
    place.mkdir()
    path = place / f"{_model_name(engine)}.{engine.metadata['precision']}.engine"
    engine.save(path)
    return os.fspath(path)


def deploy(engines: Any, output: str | os.PathLike[str], *, names: Sequence[str] = (),
           bench: str | os.PathLike[str] | BenchResult | None = None, slo: str = "", rate: str = "", backend: str = "",
           plan: str | os.PathLike[str] | None = None, copy_backend: str | os.PathLike[str] | None = None,
           max_queue: int = 0, pictures: bool = False, pixels: bool = False, texts: bool = False, generate: bool = False,
           prefill: str | os.PathLike[str] | None = None, streams: int = 0, cluster: Cluster | None = None,
           progress: bool | Reporter | None = None) -> DeployResult:
    """Write a model repository for NVIDIA Triton, with a KServe v2 client, and with `cluster` Kubernetes' manifests: the
    commands `lathe deploy triton` and `lathe deploy kserve`.

    >>> import lathe, tempfile, torch
    >>> module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    >>> engine = lathe.from_torch(module, torch.zeros(2, 4), name="small")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     deployed = lathe.deploy(engine, folder, backend="onnxruntime")
    >>> deployed.models[0].name, deployed.models[0].backend, deployed.models[0].instances
    ('small', 'onnxruntime', 1)

    Args:
        engines: Engine files or Engines, or one of them.
        output: The model repository, a folder that is made if needed. With `cluster`: a folder for the repository
            (models/), the backend (backends/) and the manifests.
        names: Of the models, in the engines' order; missing ones: the files' names.
        bench: What `lathe.bench` gave for these engines, at several batch sizes, or its JSON file, to size by; None: the
            engine's largest batch and one instance.
        slo: Objective that one machine is to hold: "p99=20ms"; needs `rate` and `bench`.
        rate: Requests of one sample that one machine gets: "300/s".
        backend: "lathe", "onnxruntime", "openvino" or "tensorrt"; "": openvino for engines of the CPU, tensorrt for
            TensorRT's, else lathe.
        plan: A TensorRT plan of the same graph; None: the one in the engine.
        copy_backend: Copy Lathe's backend with the libraries that it needs into FOLDER/lathe.
        max_queue: Refuse requests once so many wait; 0: any number.
        pictures: Clients send JPEG or PNG files, which Lathe's backend decodes and preprocesses.
        pixels: Clients send decoded pictures (uint8, height x width x RGB), which Lathe's backend preprocesses.
        texts: Clients send texts, which Lathe's backend cuts into tokens.
        generate: The engines are decoders: clients send tokens or a text, which Lathe's backend continues, one answer a
            token.
        prefill: With `generate`, the engine file that reads prompts at once; None: the decoder reads them.
        streams: With `generate`, texts continued at once; 0: 8.

    Raises:
        Error: invalid_argument (names that Triton or Kubernetes cannot have, a model that exists already, options that
            contradict each other), not_found (a file; Lathe's backend, which the wheel does not hold; what `bench` has
            not measured), unsupported, verification_failed (the objective cannot be met), io.
    """
    given = [engines] if isinstance(engines, (str, os.PathLike, Engine)) else list(engines)
    options: dict[str, Any] = {
        "output": os.fspath(output), "slo": slo, "rate": rate, "backend": backend, "max_queue": max_queue,
        "pictures": pictures, "pixels": pixels, "texts": texts, "generate": generate, "streams": streams,
    }
    named = list(names)
    options["names"] = named + [_model_name(engine) for engine in given[len(named):]]
    for name, file in (("plan", plan), ("copy_backend", copy_backend), ("prefill", prefill)):
        if file is not None:
            options[name] = os.fspath(file)
    if cluster is not None:
        options["cluster"] = asdict(cluster)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        options["engines"] = [_engine_file(engine, folder, index) for index, engine in enumerate(given)]
        if isinstance(bench, BenchResult):
            (folder / "bench.json").write_text(bench._document, encoding="utf-8")
            options["bench"] = os.fspath(folder / "bench.json")
        elif bench is not None:
            options["bench"] = os.fspath(bench)
        told = _lathe.deploy(options, reporter(progress))
    return DeployResult(**told | {"models": [DeployedModel(**model) for model in told["models"]]})
