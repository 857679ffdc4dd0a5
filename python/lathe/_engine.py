"""Engines, and the sessions that run them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _lathe


@dataclass(frozen=True)
class Tensor:
    """What an engine reads or writes.

    Attributes:
        name: As the model names it.
        dtype: Element type: "float32", "int64", ...
        shape: The shape that the engine was tuned for. Sizes of outputs that depend on the input are -1.
        min_shape: The least shape that it takes; equal to `shape` where it is fixed.
        max_shape: The largest.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    min_shape: tuple[int, ...]
    max_shape: tuple[int, ...]


def _tensors(rows: list[tuple[str, str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]]) -> list[Tensor]:
    return [Tensor(name, dtype, best, least, largest) for name, dtype, least, best, largest in rows]


class Session:
    """Runs an engine, one request at a time; made by `Engine.session`. Threads that share a session take turns; for
    requests side by side give each thread its own. A session outlives its engine."""

    def __init__(self, native: _lathe.Session) -> None:
        self._native = native
        self._run = native.run

    @property
    def inputs(self) -> list[Tensor]:
        """What `run` takes, in order."""
        return _tensors(self._native.inputs())

    @property
    def outputs(self) -> list[Tensor]:
        """What `run` gives, in order."""
        return _tensors(self._native.outputs())

    def run(self, inputs: Any) -> Any:
        """Run the model.

        Args:
            inputs: One array for a model of one input; else a dict by name, or a sequence in the order of `inputs`.
                NumPy arrays, CPU tensors of PyTorch, and others with DLPack or the buffer protocol; contiguous ones are
                read in place. Shapes and element types are those of `inputs`.

        Returns:
            A NumPy array for a model of one output, else a dict of them by name; the caller's own.

        Raises:
            Error: invalid_argument (number, name or type), out_of_range (a shape outside the engine's range).

        Other Python threads go on while the model runs.
        """
        return self._run(inputs)

    async def run_async(self, inputs: Any) -> Any:
        """`run` for asyncio: the event loop goes on while the model runs, on a thread of the loop's executor."""
        import asyncio

        return await asyncio.get_running_loop().run_in_executor(None, self._run, inputs)


class Engine:
    """A model compiled for a device and a range of shapes, with preprocessing, class names and provenance: what
    `lathe.build`, `lathe.optimize` and the command `lathe build` make."""

    def __init__(self, native: _lathe.Engine) -> None:
        self._native = native

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, threads: int = 0, devices: Sequence[int] = ()) -> Engine:
        """Read an engine file. One whose compiled form is of another machine is compiled anew, which the log says.

        Args:
            path: The file.
            threads: To run on; 0: as it was built. Another number compiles anew.
            devices: GPUs to run on, by index; none: the first.

        Raises:
            Error: not_found, corrupt, mismatch (of a newer Lathe), unsupported (a device that is not here), io.
        """
        return cls(_lathe.Engine.load(os.fspath(path), threads, list(devices)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the engine file, which appears whole or not at all. Raises Error: io."""
        self._native.save(os.fspath(path))

    @property
    def inputs(self) -> list[Tensor]:
        """What the model reads, in order."""
        return _tensors(self._native.inputs())

    @property
    def outputs(self) -> list[Tensor]:
        """What the model gives, in order."""
        return _tensors(self._native.outputs())

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the engine says of itself: name, device, precision, labels, preprocessing, hashes, versions."""
        metadata: Mapping[str, Any] = json.loads(self._native.metadata())
        return metadata

    def session(self) -> Session:
        """Something that runs it. Raises Error: out_of_memory, unsupported."""
        return Session(self._native.session())

    def __repr__(self) -> str:
        about = self.metadata
        shapes = ", ".join(f"{tensor.name} {'x'.join(map(str, tensor.shape))}" for tensor in self.inputs)
        return f"<lathe.Engine {about['name']}: {about['precision']} on {about['device']}, {shapes}>"
