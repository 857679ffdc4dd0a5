"""An engine as a deployment of Ray Serve."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _lathe
from ._engine import Engine
from ._errors import Error

DATATYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
}
NAMES = {kserve: name for name, kserve in DATATYPES.items()}

# The caller's fault, or a queue that is full, or ours.
STATUS = {"invalid_argument": 400, "out_of_range": 400, "parse_error": 400, "mismatch": 400, "not_found": 404,
          "unsupported": 400, "out_of_memory": 503, "cancelled": 503}


def decode(body: bytes, known: Mapping[str, str]) -> dict[str, Any]:
    """The tensors of a KServe v2 request in JSON. `known`: the element type of each input."""
    import numpy as np

    try:
        arrays: dict[str, Any] = {}
        for tensor in json.loads(body)["inputs"]:
            name, shape, datatype = tensor["name"], tensor["shape"], tensor["datatype"]
            if name not in known:
                raise Error("the model has no such input", "invalid_argument", str(name), f"it has {', '.join(known)}")
            if NAMES.get(datatype) != known[name]:
                raise Error(f"the input is {DATATYPES[known[name]]}, not {datatype}", "invalid_argument", name,
                            "convert it before sending")
            arrays[name] = np.asarray(tensor["data"], dtype=known[name]).reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, RecursionError) as failure:
        raise Error("this is no inference request of the KServe v2 protocol", "parse_error", "request",
                    f"{type(failure).__name__}: {failure}") from failure
    missing = [name for name in known if name not in arrays]
    if missing:
        raise Error("an input is missing", "invalid_argument", missing[0], "give every input of the model")
    return arrays


def encode(model: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    for name, values in outputs.items():
        if str(values.dtype) not in DATATYPES:
            raise Error(f"the KServe v2 protocol has no type {values.dtype}", "unsupported", name, "give another output")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise Error("the output holds numbers that are infinite or none, which JSON does not have", "out_of_range",
                        name, "call infer of the handle, which gives arrays")
    return {"model_name": model, "model_version": "1", "outputs": [
        {"name": name, "shape": list(values.shape), "datatype": DATATYPES[str(values.dtype)],
         "data": values.ravel().tolist()} for name, values in outputs.items()]}


class EngineServer:
    """A replica: the engine, and a queue in Lathe's library that puts requests together."""

    def __init__(self, content: bytes, model: str, threads: int, max_batch: int, wait_ms: float, capacity: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.engine"
            file.write_bytes(content)
            self._engine = Engine.load(file, threads=threads)
        self._model = model
        self._batching = _lathe.Batching(self._engine._native, max_batch, round(wait_ms * 1000), capacity, 1)

    async def infer(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Arrays by input name, axis 0 the sample; the outputs likewise. Raises Error."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[dict[str, Any]] = loop.create_future()

        def settle(outputs: dict[str, Any] | None, error: Error | None) -> None:
            if answer.done():  # its client went away
                return
            if error is not None:
                answer.set_exception(error)
            elif outputs is not None:
                answer.set_result(outputs)

        self._batching.submit(dict(inputs),
                              lambda outputs, error: loop.call_soon_threadsafe(settle, outputs, error))
        return await answer

    def statistics(self) -> dict[str, int]:
        """Counts of requests, samples and batches since the replica began."""
        return self._batching.statistics()

    async def __call__(self, request: Any) -> Any:
        from starlette.responses import JSONResponse

        model = f"/v2/models/{self._model}"
        path = request.scope["path"].rstrip("/")
        if request.method == "GET" and path in ("/v2/health/live", "/v2/health/ready", f"{model}/ready"):
            return JSONResponse({"ready": True})
        if request.method == "GET" and path == model:
            return JSONResponse({"name": self._model, "versions": ["1"], "platform": "lathe"} | {
                kind: [{"name": tensor.name, "datatype": DATATYPES.get(tensor.dtype, tensor.dtype),
                        "shape": [-1, *tensor.shape[1:]]} for tensor in tensors]
                for kind, tensors in (("inputs", self._engine.inputs), ("outputs", self._engine.outputs))})
        if request.method != "POST" or path != f"{model}/infer":
            return JSONResponse({"error": f"{request.method} {path} is nothing here; this is {model}"}, 404)
        try:
            arrays = decode(await request.body(), {tensor.name: tensor.dtype for tensor in self._engine.inputs})
            return JSONResponse(encode(self._model, await self.infer(arrays)))
        except Error as failure:
            return JSONResponse({"error": f"{self._model}: {failure}"}, STATUS.get(failure.code, 500))


def serve(engine: Any, *, name: str = "", route: str = "/", replicas: int | tuple[int, int] = 1, cpus: float = 1,
          gpus: float = 0, max_batch: int = 0, wait_ms: float = 1.0, queue: int = 1024) -> Any:
    """Serve an engine with Ray Serve. Requests that wait together share a run, as in `lathe deploy triton`.

    Over HTTP it speaks the KServe v2 protocol in JSON, which `client.py` of `lathe deploy` speaks as well. From Python:
    `handle.infer.remote({input: array}).result()`, axis 0 the sample.

    Args:
        engine: An Engine or its file.
        name: Of the model and of the application; the engine's own where it is empty.
        route: Of HTTP requests.
        replicas: How many, or (least, most): Ray then adds and removes them by the requests that wait.
        cpus, gpus: Of each replica. An engine for the CPU runs with `cpus` threads; for a GPU give `gpus=1`.
        max_batch: Samples in a run; 0: the most that the engine takes.
        wait_ms: How long the oldest request waits for others.
        queue: Requests that may wait in a replica; more are refused with HTTP 503.

    Returns:
        The handle of the application. `ray.serve.delete(name)` ends it.

    Raises:
        Error: as `Engine.load`; invalid_argument.
    """
    from ray import serve as ray_serve

    from ._pool import connect

    loaded = engine if isinstance(engine, Engine) else Engine.load(os.fspath(engine))
    about = loaded.metadata
    model = name or str(about["name"])
    least, most = replicas if isinstance(replicas, tuple) else (replicas, replicas)
    if not 1 <= least <= most:
        raise Error("replicas are a number from 1, or (least, most)", "invalid_argument", f"replicas={replicas}", "")
    connect()
    with tempfile.TemporaryDirectory() as folder:
        loaded.save(Path(folder) / "model.engine")
        content = (Path(folder) / "model.engine").read_bytes()
    threads = max(1, int(cpus)) if about["device"] == "cpu" else 0
    batch = max_batch or min(tensor.max_shape[0] for tensor in loaded.inputs)
    # A replica must be given more than a batch at a time, or there is nothing to put together.
    scaling: dict[str, Any] = {"num_replicas": least} if least == most else {"autoscaling_config": {
        "min_replicas": least, "max_replicas": most, "target_ongoing_requests": 2 * batch}}
    deployment: Any = ray_serve.deployment(EngineServer)
    deployment = deployment.options(
        name=model, ray_actor_options={"num_cpus": cpus, "num_gpus": gpus}, max_ongoing_requests=queue, **scaling)
    return ray_serve.run(deployment.bind(content, model, threads, max_batch, wait_ms, queue), name=model,
                         route_prefix=route)
