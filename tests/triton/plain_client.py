"""A client of Triton's HTTP interface (KServe's open inference protocol with binary tensors) that needs Python and numpy
alone: for machines without Triton's own client, and for requests as bytes, which a load generator sends.

Regions of shared memory hold a tensor from their beginning: Shared in the system's memory, CudaShared in a GPU's.
"""
import base64
import ctypes
import http.client
import json
import math
import mmap
import os
import pathlib
import time

import numpy

DATATYPES = {"float32": "FP32", "float16": "FP16", "int64": "INT64", "int32": "INT32", "int8": "INT8", "uint8": "UINT8",
             "bool": "BOOL"}
NUMPY_TYPES = {told: name for name, told in DATATYPES.items()}


class Refused(Exception):
    """The server's answer was an error; its words."""


class Shared:
    """Memory of the system that the server reads and writes, too."""

    kind = "systemsharedmemory"

    def __init__(self, name, size):
        self.name, self.size = f"lathe-{os.getpid()}-{name}", max(1, size)
        self.path = pathlib.Path("/dev/shm") / self.name
        self.file = open(self.path, "w+b")
        self.file.truncate(self.size)
        self.memory = mmap.mmap(self.file.fileno(), self.size)

    def registration(self):
        return {"key": f"/{self.name}", "offset": 0, "byte_size": self.size}

    def write(self, array):
        numpy.frombuffer(self.memory, numpy.uint8, array.nbytes)[:] = numpy.frombuffer(array.tobytes(), numpy.uint8)

    def read(self, dtype, shape):
        return numpy.frombuffer(bytes(self.memory[: math.prod(shape) * numpy.dtype(dtype).itemsize]), dtype).reshape(shape)

    def close(self):
        self.memory.close()
        self.file.close()
        self.path.unlink(missing_ok=True)


def cuda_runtime():
    """CUDA's runtime library, or OSError where there is none."""
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("no CUDA runtime (libcudart.so) is found")


class CudaShared:
    """Memory of the first GPU that the server opens by its handle."""

    kind = "cudasharedmemory"

    def __init__(self, name, size):
        self.name, self.size = f"lathe-{os.getpid()}-{name}", max(1, size)
        self.runtime = cuda_runtime()
        self.memory = ctypes.c_void_p()
        self.check(self.runtime.cudaSetDevice(0), "cudaSetDevice")
        self.check(self.runtime.cudaMalloc(ctypes.byref(self.memory), ctypes.c_size_t(self.size)), "cudaMalloc")
        self.handle = (ctypes.c_char * 64)()
        self.check(self.runtime.cudaIpcGetMemHandle(ctypes.byref(self.handle), self.memory), "cudaIpcGetMemHandle")

    @staticmethod
    def check(code, what):
        if code:
            raise OSError(f"{what} failed with error {code}")

    def registration(self):
        return {"raw_handle": {"b64": base64.b64encode(bytes(self.handle)).decode()}, "device_id": 0,
                "byte_size": self.size}

    def copy(self, to, source, count):
        to_any_from_any = 4  # cudaMemcpyDefault
        self.check(self.runtime.cudaMemcpy(to, source, ctypes.c_size_t(count), to_any_from_any), "cudaMemcpy")

    def write(self, array):
        held = numpy.ascontiguousarray(array)
        self.copy(self.memory, ctypes.c_void_p(held.ctypes.data), held.nbytes)

    def read(self, dtype, shape):
        array = numpy.empty(shape, dtype)
        self.copy(ctypes.c_void_p(array.ctypes.data), self.memory, array.nbytes)
        return array

    def close(self):
        self.runtime.cudaFree(self.memory)


def in_region(region, count):
    return {"shared_memory_region": region.name, "shared_memory_byte_size": count}


def request_parts(arrays, outputs, given=None, wanted=None):
    """Header fields and body of a request. `given`, `wanted`: regions by name of inputs and outputs that lie in shared
    memory, the outputs with the bytes that are asked for: (region, bytes)."""
    given, wanted = given or {}, wanted or {}
    head = {"inputs": [], "outputs": []}
    pieces = []
    for name, array in arrays.items():
        entry = {"name": name, "shape": list(array.shape), "datatype": DATATYPES[str(array.dtype)]}
        if name in given:
            entry["parameters"] = in_region(given[name], array.nbytes)
        else:
            pieces.append(numpy.ascontiguousarray(array).tobytes())
            entry["parameters"] = {"binary_data_size": len(pieces[-1])}
        head["inputs"].append(entry)
    for name in outputs:
        head["outputs"].append({"name": name, "parameters": in_region(*wanted[name]) if name in wanted else {"binary_data": True}})
    text = json.dumps(head, separators=(",", ":")).encode()
    fields = {"Inference-Header-Content-Length": str(len(text)), "Content-Type": "application/octet-stream"}
    return fields, text + b"".join(pieces)


def request_bytes(model, *parts, **options):
    """A whole HTTP request, for a load generator."""
    fields, body = request_parts(*parts, **options)
    lines = [f"POST /v2/models/{model}/infer HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}",
             *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Client:
    """with Client("127.0.0.1:8000") as client: one connection that is kept. Used by one thread at a time."""

    def __init__(self, address, timeout=60):
        self.connection = http.client.HTTPConnection(address, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def call(self, method, path, body=None, fields=None):
        self.connection.request(method, path, body, fields or {})
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            try:
                raise Refused(json.loads(data)["error"])
            except (ValueError, KeyError, TypeError):
                raise Refused(f"status {answer.status}: {data[:300]!r}") from None
        return answer, data

    def get(self, path):
        return json.loads(self.call("GET", path)[1] or b"{}")

    def post(self, path, document):
        return json.loads(self.call("POST", path, json.dumps(document).encode())[1] or b"{}")

    def infer(self, model, arrays, outputs, given=None, wanted=None):
        """Arrays of the outputs that come with the answer; those in shared memory are not among them."""
        fields, body = request_parts(arrays, outputs, given, wanted)
        answer, data = self.call("POST", f"/v2/models/{model}/infer", body, fields)
        length = int(answer.getheader("Inference-Header-Content-Length", len(data)))
        found, at = {}, length
        for entry in json.loads(data[:length])["outputs"]:
            size = entry.get("parameters", {}).get("binary_data_size")
            if size is None:
                continue
            values = numpy.frombuffer(data[at : at + size], NUMPY_TYPES[entry["datatype"]])
            found[entry["name"]] = values.reshape(entry["shape"])
            at += size
        return found

    def register(self, region):
        self.post(f"/v2/{region.kind}/region/{region.name}/register", region.registration())

    def unregister(self, region, patience=10):
        """The server lets go of a region only a moment after it answered the last request with it."""
        end = time.monotonic() + patience
        while True:
            try:
                self.post(f"/v2/{region.kind}/region/{region.name}/unregister", {})
                return
            except Refused as refused:
                if "currently in use" not in str(refused) or time.monotonic() > end:
                    raise
                time.sleep(0.001)

    def load(self, model):
        self.post(f"/v2/repository/models/{model}/load", {})

    def statistics(self, model):
        return self.get(f"/v2/models/{model}/stats")["model_stats"]
