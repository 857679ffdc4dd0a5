"""One framework in a process of its own, timed from inside.

Speaks one line of JSON a request on standard input, one a reply on standard output:

  load        {"kind", "model", "source", "code", "device", "precision"} -> {"load_ms", "libraries", "notes"}
  prepare     {"file", "inputs", "sets"}     -> {"peak_rss_bytes", "device_peak_bytes", "notes"}
  burst       {"milliseconds", "max_calls"}  -> {"call_ns", "copy_in_ns", "copy_out_ns", "device_ns"}
  throughput  {"seconds"}                    -> {"requests", "seconds", "streams"}
  requests    {"file", "inputs", "shapes"}   -> {"peak_rss_bytes"}; requests of different shapes, for `turn`
  turn        {"first", "count"}             -> {"call_ns"}
  metric      {"code"}                       -> {}; the function FILE.py:function that `judge` calls
  judge       {"file", "outputs", "samples"} -> {"values"}; one number a sample
  interpreter {"kind"}                       -> {"libraries"}; what `compute` computes with
  compute     {"model", "file", "inputs", "output", "threads"} -> {"outputs"}; the arrays lie in the file `output`

A failure is {"error": {"code", "message", "hint"}}. What is timed is the framework's call with its inputs in memory,
with the monotonic clock of this process; making framework tensors from memory and fetching the outputs are timed
apart. Standard output of the framework goes to standard error, so that it cannot break the protocol.
"""

import gc
import json
import os
import sys
import threading
import time
from dataclasses import dataclass

from lathe_worker.interpreters import make_interpreter, write_outputs
from lathe_worker.metric import judge, load_metric
from lathe_worker.subjects import Unavailable, make_subject


def peak_resident_bytes():
    """Peak resident memory of this process so far."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


@dataclass
class Tensor:
    """Name, element type and shape of one model input."""

    name: str
    type: str
    shape: tuple


def read_lists(path, lists):
    """Arrays for each list of tensors as `lathe` wrote them, densely packed. Read into own memory."""
    import numpy as np

    types = {"boolean": "bool"}
    sets = []
    with open(path, "rb") as file:
        for tensors in lists:
            arrays = []
            for tensor in tensors:
                dtype = np.dtype(types.get(tensor.type, tensor.type))
                size = int(np.prod(tensor.shape, dtype=np.int64))
                array = np.fromfile(file, dtype=dtype, count=size)
                if array.size != size:
                    raise Unavailable("invalid_argument", f"the input file ends early: {path}")
                arrays.append(array.reshape(tensor.shape))
            sets.append(arrays)
    return sets


def read_sets(path, tensors, count):
    """The input sets: `count` times all tensors."""
    return read_lists(path, [tensors] * count)


class Worker:
    """The state between requests: the subject and its inputs."""

    def __init__(self):
        self.subject = None
        self.sets = []
        self.next_set = 0
        self.mix = []
        self.function = None
        self.interpreter = None

    def start_interpreter(self, request):
        self.interpreter = make_interpreter(request["kind"])
        return {"libraries": self.interpreter.libraries}

    def compute(self, request):
        """All outputs of an ONNX model, computed once."""
        tensors = [Tensor(t["name"], t["type"], tuple(t["shape"])) for t in request["inputs"]]
        (arrays,) = read_lists(request["file"], [tensors])
        names = [tensor.name for tensor in tensors]
        outputs, values = self.interpreter.compute(request["model"], names, arrays, request["threads"])
        return {"outputs": write_outputs(request["output"], outputs, values)}

    def metric(self, request):
        self.function = load_metric(request["code"])
        return {}

    def judge(self, request):
        tensors = [Tensor(t["name"], t["type"], tuple(t["shape"])) for t in request["outputs"]]
        (arrays,) = read_lists(request["file"], [tensors])
        outputs = {tensor.name: array for tensor, array in zip(tensors, arrays)}
        return {"values": judge(self.function, outputs, request["samples"])}

    def load(self, request):
        start = time.perf_counter_ns()
        self.subject = make_subject(
            request["kind"],
            request.get("model"),
            request.get("source"),
            request.get("device", "cpu"),
            request.get("precision", "fp32"),
            request.get("code"),
        )
        return {
            "load_ms": (time.perf_counter_ns() - start) / 1e6,
            "libraries": self.subject.libraries,
            "notes": self.subject.notes,
        }

    def prepare(self, request):
        tensors = [Tensor(t["name"], t["type"], tuple(t["shape"])) for t in request["inputs"]]
        self.sets = []
        gc.collect()
        # The first call sees one set only: the memory taken until then is the framework's, not ours.
        first = read_sets(request["file"], tensors, 1)
        self.subject.prepare(tensors, first[0])
        self.subject.call(first[0])
        peak = peak_resident_bytes()
        self.sets = read_sets(request["file"], tensors, request["sets"])
        self.next_set = 0
        device_peak = getattr(self.subject, "device_peak_bytes", None)
        return {
            "peak_rss_bytes": peak,
            "device_peak_bytes": device_peak() if device_peak else None,
            "notes": self.subject.notes,
        }

    def burst(self, request):
        enough = request["milliseconds"] * 1e6
        calls, copies_in, copies_out, devices = [], [], [], []
        kept = 0
        # The collector's pauses are Python's, not the framework's.
        gc.collect()
        gc.disable()
        try:
            for i in range(request["max_calls"]):
                if kept >= enough:
                    break
                timing = self.subject.call(self.sets[self.next_set])
                self.next_set = (self.next_set + 1) % len(self.sets)
                if i == 0 and timing.call < enough:
                    continue
                kept += timing.call
                calls.append(timing.call)
                if timing.copy_in is not None:
                    copies_in.append(timing.copy_in)
                    copies_out.append(timing.copy_out)
                if timing.device is not None:
                    devices.append(timing.device)
        finally:
            gc.enable()
        return {"call_ns": calls, "copy_in_ns": copies_in, "copy_out_ns": copies_out, "device_ns": devices}

    def requests(self, request):
        """Requests of different shapes. Every shape is run once here, so that no turn meets a new one."""
        if getattr(self.subject, "compiled", False):
            raise Unavailable(
                "unsupported", "torch.compile makes kernels of their own for every length", "compare with pytorch"
            )
        lists = [
            [Tensor(t["name"], t["type"], tuple(shape)) for t, shape in zip(request["inputs"], shapes)]
            for shapes in request["shapes"]
        ]
        self.mix = read_lists(request["file"], lists)
        self.subject.prepare(lists[0], self.mix[0])
        self.subject.call(self.mix[0])
        peak = peak_resident_bytes()
        seen = set()
        for tensors, arrays in zip(lists, self.mix):
            shapes = tuple(tensor.shape for tensor in tensors)
            if shapes not in seen:
                seen.add(shapes)
                self.subject.call(arrays)
        return {"peak_rss_bytes": peak}

    def turn(self, request):
        """The calls of some requests in a row, after one that is not timed."""
        first = request["first"]
        gc.collect()
        gc.disable()
        try:
            self.subject.call(self.mix[first])
            return {"call_ns": [self.subject.call(arrays).call for arrays in self.mix[first : first + request["count"]]]}
        finally:
            gc.enable()

    def throughput(self, request):
        seconds = request["seconds"]
        best = None
        # Which number of streams serves most is found by a short trial of each; the winner gets the full time.
        choices = self.subject.stream_choices()
        for streams in choices if len(choices) > 1 else []:
            trial = self.serve(streams, min(1.0, seconds / 4))
            if best is None or trial["requests"] / trial["seconds"] > best["requests"] / best["seconds"]:
                best = trial
        return self.serve(best["streams"] if best else choices[0], seconds)

    def serve(self, streams, seconds):
        """Requests finished by `streams` threads, each calling again and again for `seconds`."""
        callers = self.subject.streams(streams)
        for number, call in enumerate(callers):
            call(self.sets[number % len(self.sets)])
        counts = [0] * streams
        failures = []
        start = time.perf_counter()
        deadline = start + seconds

        def run(number):
            try:
                index = number
                while time.perf_counter() < deadline:
                    callers[number](self.sets[index % len(self.sets)])
                    counts[number] += 1
                    index += streams
            except Exception as error:  # noqa: BLE001 - handed to the main thread below
                failures.append(error)

        threads = [threading.Thread(target=run, args=(n,)) for n in range(1, streams)]
        for thread in threads:
            thread.start()
        run(0)
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return {"requests": sum(counts), "seconds": time.perf_counter() - start, "streams": streams}


def serve_requests(requests, replies):
    """Answers until the requests end."""
    worker = Worker()
    commands = {
        "load": worker.load,
        "prepare": worker.prepare,
        "burst": worker.burst,
        "throughput": worker.throughput,
        "requests": worker.requests,
        "turn": worker.turn,
        "metric": worker.metric,
        "judge": worker.judge,
        "interpreter": worker.start_interpreter,
        "compute": worker.compute,
    }
    for line in requests:
        request = json.loads(line)
        try:
            reply = commands[request["command"]](request)
        except Unavailable as error:
            reply = {"error": {"code": error.code, "message": error.message, "hint": error.hint}}
        except MemoryError:
            reply = {"error": {"code": "out_of_memory", "message": "out of memory", "hint": "use smaller batches"}}
        except Exception as error:  # noqa: BLE001 - the framework may raise anything; the parent reports it
            text = f"{type(error).__name__}: {error}".strip()
            first = " ".join(text.split())[:500]
            reply = {"error": {"code": "unsupported", "message": first, "hint": ""}}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def main():
    """Serve standard input; keep standard output for the protocol alone."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        serve_requests(sys.stdin, replies)
    except (BrokenPipeError, KeyboardInterrupt):
        pass
