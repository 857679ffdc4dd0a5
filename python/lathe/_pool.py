"""Actors of Ray that share out independent pieces of work. A piece whose actor dies is done by another one."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from ._errors import Error

ATTEMPTS = 5  # for one piece: a piece that kills its worker must not go round for ever


def connect() -> None:
    """To the cluster that RAY_ADDRESS names, or to one of this machine alone."""
    if not ray.is_initialized():
        ray.init(log_to_driver=False)


def worker_count(workers: int | None, cpus: float, gpus: float) -> int:
    """As many as were asked for, or as the cluster has room for. Raises Error: unsupported where there is none."""
    if cpus < 0 or gpus < 0 or cpus + gpus == 0 or (workers is not None and workers < 1):
        raise Error("there must be at least one worker with a share of a CPU or GPU", "invalid_argument",
                    f"workers={workers}, cpus={cpus}, gpus={gpus}", "leave them out for one worker a core")
    rooms = 0
    nodes: Any = ray.nodes  # it has no types
    for node in nodes():
        if node["Alive"]:
            has = node["Resources"]
            rooms += int(min([has.get(name, 0) / share for name, share in (("CPU", cpus), ("GPU", gpus)) if share]))
    if rooms == 0:
        raise Error("no machine of the cluster has room for a worker", "unsupported", f"cpus={cpus}, gpus={gpus}",
                    "ask for less, or add machines: `ray status` shows what there is")
    return rooms if workers is None else workers


class Pool:
    """`make` starts an actor; its method `prepare` gets it ready and `work(*piece)` does a piece."""

    def __init__(self, make: Callable[[], Any], workers: int, patience: float = 300) -> None:
        self._make = make
        self._patience = patience
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, Any]] = {}  # future: (actor, its piece; None while it gets ready)
        for _ in range(workers):
            self._start()

    def _start(self) -> None:
        actor = self._make()
        self._running[actor.prepare.remote()] = (actor, None)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._idle + [actor for actor, _ in self._running.values()]:
            ray.kill(actor)

    def each(self, pieces: Sequence[Callable[[], tuple[Any, ...]]]) -> Iterator[tuple[int, Any]]:
        """Gives (index, result) of each piece once, in the order in which they are done. A piece says its arguments
        when it is dealt out.

        Raises:
            Error: what a worker raises; internal where a piece's workers die ATTEMPTS times; unsupported where no
                worker can be started.
        """
        waiting = deque(range(len(pieces)))
        died: Counter[int | None] = Counter()  # by piece; None: while getting ready
        left = len(pieces)
        since = time.monotonic()
        while left:
            while waiting and self._idle:
                index = waiting.popleft()
                actor = self._idle.pop()
                self._running[actor.work.remote(*pieces[index]())] = (actor, index)
            done, _ = ray.wait(list(self._running), num_returns=1, timeout=5)
            if not done and all(index is None for _, index in self._running.values()):
                if time.monotonic() - since > self._patience:
                    raise Error(f"no worker could be started in {self._patience:.0f} s", "unsupported", "Ray cluster",
                                "`ray status` shows what is free, `ray list actors` why a worker does not start")
                continue
            since = time.monotonic()
            for future in done:
                actor, index = self._running.pop(future)
                try:
                    result = ray.get(future)
                except ray.exceptions.RayTaskError as failure:
                    self._idle.append(actor)
                    if isinstance(failure.cause, Error):
                        raise failure.cause from failure
                    raise
                except ray.exceptions.RayError as failure:  # the actor, its machine or the result was lost
                    died[index] += 1
                    if died[index] == ATTEMPTS:
                        doing = "while they got ready" if index is None else f"over piece {index}"
                        raise Error(f"{ATTEMPTS} workers died {doing}", "internal", "Ray cluster",
                                    f"what Ray says of the last one: {failure}") from failure
                    if index is not None:
                        waiting.append(index)  # others first: what killed one worker may kill the next
                    ray.kill(actor)
                    self._start()
                else:
                    self._idle.append(actor)
                    if index is None:
                        del died[None]
                        continue
                    left -= 1
                    yield index, result
