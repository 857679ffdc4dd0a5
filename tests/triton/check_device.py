"""Lathe's engines of one device in a real Triton server, the whole way: answers, shared memory of the system and of the GPU,
a crowd of clients, bad requests, new versions under load.

    check_device.py FOLDER BACKENDS LATHE [--cuda]

FOLDER holds repo/ as `lathe deploy triton` wrote it, and the engine NAME.engine of each model NAME in it. --cuda: its
engines are of device cuda, so that CUDA shared memory is asked, too. Needs no client of Triton's but for gRPC, which is left
out, and told so, where the packages are missing. Exit 77 where the server is missing. benchmarks/gpu/serve.py makes the
same checks with large networks.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import numpy
from plain_client import Client, CudaShared, DATATYPES, NUMPY_TYPES, Refused, Shared
from server import Server, in_parallel

try:
    import grpc
    from tritonclient.grpc import service_pb2
except ImportError as missing:
    grpc, NO_GRPC = None, f"SKIPPED: {missing}"


class Served:
    """A model of the repository: samples for it, and what its engine gives for each alone (`lathe run`, batch size 1)."""

    def __init__(self, name, inputs, expected):
        self.name, self.inputs = name, inputs
        # The server knows no tensor without a size beside the samples.
        self.expected = {key: values.reshape(len(values), -1) if values.ndim == 1 else values for key, values in expected.items()}
        self.count = len(next(iter(inputs.values())))

    @classmethod
    def of(cls, name, inputs, lathe, engine, work, given=None):
        """`given`: what `lathe run` gets in place of the inputs, such as pictures of the same content."""
        numpy.savez(work / f"{name}.inputs.npz", **inputs)
        subprocess.run([lathe, "run", str(engine), *map(str, given or [work / f"{name}.inputs.npz"]), "--batch-size", "1", "-o",
                        str(work / f"{name}.outputs.npz")], check=True, stdout=subprocess.DEVNULL)
        with numpy.load(work / f"{name}.outputs.npz") as outputs:
            return cls(name, inputs, dict(outputs.items()))

    def rows(self, first, count=1):
        return {key: values[first : first + count] for key, values in self.inputs.items()}

    def wanted(self, first, count=1):
        return {key: values[first : first + count] for key, values in self.expected.items()}

    def whose(self, found, first):
        """Row by row, whose answers these are: the sample with the nearest answer of all. Errors where that is not near,
        for other batch sizes add up in another order, but no more than 16 bits round."""
        owners = []
        for place in range(len(next(iter(found.values())))):
            distance = numpy.zeros(self.count)
            for key, values in found.items():
                scale = numpy.abs(self.expected[key]).max()
                difference = numpy.abs(self.expected[key] - values[place]).reshape(self.count, -1).max(axis=1)
                distance = numpy.maximum(distance, difference / scale)
            owners.append(int(distance.argmin()))
            assert distance.min() < 0.015, (self.name, first + place, distance.min())
        return owners

    def check_apart(self):
        """Samples whose answers are alike would not show that answers were crossed."""
        key = next(iter(self.expected))
        rows = self.expected[key].reshape(self.count, -1)
        distance = numpy.abs(rows[:, None] - rows[None]).max(axis=2) + numpy.eye(self.count) * numpy.abs(rows).max()
        assert distance.min() > 0.03 * numpy.abs(rows).max(), (self.name, distance.min(), numpy.abs(rows).max())


def check_same(found, wanted, where):
    for name, values in wanted.items():
        assert found[name].shape == values.shape, (where, name, found[name].shape, values.shape)
        assert found[name].dtype == values.dtype, (where, name, found[name].dtype)
        assert found[name].tobytes() == values.tobytes(), (where, name, numpy.abs(found[name] - values).max())


class Regions:
    """Shared memory for a request's tensors and its answer's, registered while it is open."""

    def __init__(self, client, make, arrays, wanted):
        self.client, self.all, self.given, self.wanted = client, [], {}, {}
        for into, tensors in ((self.given, arrays), (self.wanted, wanted)):
            for name, array in tensors.items():
                region = make(f"{len(self.all)}-{name}", array.nbytes)
                self.all.append(region)
                client.register(region)
                into[name] = region if into is self.given else (region, array.nbytes)
        for name, array in arrays.items():
            self.given[name].write(array)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for region in self.all:
            self.client.unregister(region)
            region.close()

    def found(self, wanted):
        return {name: self.wanted[name][0].read(array.dtype, array.shape) for name, array in wanted.items()}


class Grpc:
    """One channel, without Triton's own client but its messages."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 1 << 30)])
        self.call = self.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer",
                                             request_serializer=service_pb2.ModelInferRequest.SerializeToString,
                                             response_deserializer=service_pb2.ModelInferResponse.FromString)

    def infer(self, model, arrays, outputs, given=None, wanted=None):
        request = service_pb2.ModelInferRequest(model_name=model)
        for name, array in arrays.items():
            entry = request.inputs.add(name=name, datatype=DATATYPES[str(array.dtype)], shape=array.shape)
            if given:
                self.point(entry, given[name], array.nbytes)
            else:
                request.raw_input_contents.append(numpy.ascontiguousarray(array).tobytes())
        for name in outputs:
            entry = request.outputs.add(name=name)
            if wanted:
                self.point(entry, *wanted[name])
        answer = self.call(request, timeout=60)
        return {entry.name: numpy.frombuffer(data, NUMPY_TYPES[entry.datatype]).reshape(list(entry.shape))
                for entry, data in zip(answer.outputs, answer.raw_output_contents) if data}

    @staticmethod
    def point(entry, region, count):
        entry.parameters["shared_memory_region"].string_param = region.name
        entry.parameters["shared_memory_byte_size"].int64_param = count


def answers(server, model, kinds):
    """Every sample alone: the engine's bits by every way. Returns what was compared."""
    ways = {}
    with Client(server.http) as client:
        callers = {"http": client} | ({"grpc": Grpc(server.grpc)} if grpc else {})
        for way, caller in callers.items():
            for i in range(model.count):
                check_same(caller.infer(model.name, model.rows(i), model.expected), model.wanted(i), (model.name, way, i))
            ways[way] = model.count
            for kind in kinds:
                for i in range(min(4, model.count)):
                    arrays, wanted = model.rows(i), model.wanted(i)
                    with Regions(client, kind, arrays, wanted) as regions:
                        caller.infer(model.name, arrays, wanted, regions.given, regions.wanted)
                        check_same(regions.found(wanted), wanted, (model.name, way, kind.__name__, i))
                        # Inputs there and the answer in the message, and the other way round.
                        check_same(caller.infer(model.name, arrays, wanted, given=regions.given), wanted, (model.name, way, i))
                        caller.infer(model.name, arrays, wanted, wanted=regions.wanted)
                        check_same(regions.found(wanted), wanted, (model.name, way, kind.__name__, i, "outputs"))
                ways[f"{way} {kind.__name__}"] = min(4, model.count)
    if not grpc:
        ways["grpc"] = NO_GRPC
    return ways


def crowd(server, model, kinds, clients=32, requests=20):
    """Clients at once, some with their inputs in shared memory: every answer is its request's own, and runs were shared."""
    model.check_apart()
    with Client(server.http) as client:
        before = client.statistics(model.name)[-1]

    def ask(number):
        random = numpy.random.default_rng(number)
        kind = (None, *kinds)[number % (1 + len(kinds))]
        with Client(server.http) as client:
            for turn in range(requests):
                count = int(random.integers(1, 4))
                first = int(random.integers(0, model.count - count + 1))
                arrays = model.rows(first, count)
                if kind is None:
                    found = client.infer(model.name, arrays, model.expected)
                else:
                    with Regions(client, lambda name, size: kind(f"{number}-{turn}-{name}", size), arrays, {}) as regions:
                        found = client.infer(model.name, arrays, model.expected, given=regions.given)
                owners = model.whose(found, first)
                assert owners == list(range(first, first + count)), (model.name, "crossed", number, turn, first, owners)

    in_parallel(clients, ask)
    with Client(server.http) as client:
        after = client.statistics(model.name)[-1]
    asked = after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"]
    runs = after["execution_count"] - before["execution_count"]
    assert asked == clients * requests, (asked, clients * requests)
    assert after["inference_stats"]["fail"]["count"] == before["inference_stats"]["fail"]["count"], after
    assert runs < asked, "nothing shared a run"
    return {"clients": clients, "requests": asked, "runs": runs, "crossed": 0}


def refusal(call, where):
    try:
        call()
    except Refused as refused:
        return str(refused)
    raise AssertionError(f"taken: {where}")


def bad_requests(server, model, kinds):
    """What cannot be answered is refused with its cause, and the next request is answered. Returns the causes."""
    good = model.rows(0)
    name, array = next(iter(good.items()))
    other = numpy.float32 if array.dtype != numpy.float32 else numpy.int32
    told = {}
    with Client(server.http) as client:
        cases = {
            "shape": lambda: client.infer(model.name, {**good, name: array[..., :-1]}, model.expected),
            "type": lambda: client.infer(model.name, {**good, name: array.astype(other)}, model.expected),
            "no input": lambda: client.infer(model.name, {}, model.expected),
            "no such input": lambda: client.infer(model.name, {**good, "other": array}, model.expected),
            "no such output": lambda: client.infer(model.name, good, ["nothing"]),
            "too many samples": lambda: client.infer(
                model.name, {key: numpy.repeat(values, 4096, axis=0) for key, values in good.items()}
                if array.nbytes < 1 << 14 else {key: numpy.repeat(values, 300, axis=0) for key, values in good.items()},
                model.expected),
        }
        for case, call in cases.items():
            told[case] = refusal(call, case)[:300]
        for kind in kinds:
            small = kind("small", array.nbytes // 2)
            client.register(small)
            told[f"{kind.__name__} too small"] = refusal(
                lambda: client.infer(model.name, good, model.expected, given={name: small}), "too small")[:300]
            client.unregister(small)
            told[f"{kind.__name__} unknown"] = refusal(
                lambda: client.infer(model.name, good, model.expected, given={name: small}), "unknown")[:300]
            small.close()
        check_same(client.infer(model.name, good, model.expected), model.wanted(0), "after bad requests")
    return told


def replaced(server, model, repository, versions=2, clients=8):
    """New versions of the model under load: no request is lost or crossed. The server is in explicit mode."""
    stop = threading.Event()
    counts = [0] * clients

    def ask(number):
        with Client(server.http) as client:
            turn = number
            while not stop.is_set():
                turn = (turn + 1) % model.count
                found = client.infer(model.name, model.rows(turn), model.expected)
                owners = model.whose(found, turn)
                assert owners == [turn], (model.name, "crossed", turn, owners)
                counts[number] += 1

    def replace():
        try:
            with Client(server.http) as client:
                newest = max(int(path.name) for path in (repository / model.name).iterdir() if path.name.isdigit())
                for version in range(newest + 1, newest + 1 + versions):
                    shutil.copytree(repository / model.name / str(newest), repository / f".{model.name}.{version}")
                    (repository / f".{model.name}.{version}").rename(repository / model.name / str(version))
                    client.load(model.name)
                    assert client.statistics(model.name)[-1]["version"] == str(version), client.statistics(model.name)
                    time.sleep(0.3)
        finally:
            stop.set()

    begin = time.monotonic()
    in_parallel(clients + 1, lambda number: replace() if number == clients else ask(number))
    assert min(counts) > 0, counts
    return {"versions": versions, "requests": sum(counts), "lost": 0, "seconds": round(time.monotonic() - begin, 2)}


def samples_for(about, count):
    """Seeded samples for a model, from what the repository's model.json says of its inputs."""
    random = numpy.random.default_rng(7)
    made = {}
    for tensor in about["inputs"]:
        sizes = [int(size) for size in tensor["shape"].split("..")[-1].split("x")[1:]]
        made[tensor["name"]] = random.standard_normal((count, *sizes)).astype(numpy.float32)
    return made


def served(path, options):
    """A model of the repository with samples of its kind."""
    about = json.loads((path / "model.json").read_text())
    engine = options.folder / f"{path.name}.engine"
    if not about["pixels"]:
        return Served.of(path.name, samples_for(about, 24), options.lathe, engine, options.folder)
    from PIL import Image

    blocks = numpy.random.default_rng(7).integers(0, 256, (24, 4, 4, 3), dtype=numpy.uint8)
    pixels = blocks.repeat(5, axis=1).repeat(6, axis=2)
    files = [options.folder / f"{path.name}.{place:03}.png" for place in range(len(pixels))]
    for file, picture in zip(files, pixels):
        Image.fromarray(picture).save(file)
    return Served.of(path.name, {about["inputs"][0]["name"]: pixels}, options.lathe, engine, options.folder, given=files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("backends")
    parser.add_argument("lathe")
    parser.add_argument("--cuda", action="store_true")
    options = parser.parse_args()
    if not os.environ.get("LATHE_TRITON_SERVER"):
        print("SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set")
        sys.exit(77)
    kinds = (Shared, CudaShared) if options.cuda else (Shared,)
    repository = options.folder / "repo"
    models = [served(path, options) for path in sorted(repository.iterdir())]
    with Server(repository, options.backends, "--model-control-mode=explicit", "--load-model=*") as server:
        for model in models:
            for check in (lambda: answers(server, model, kinds), lambda: crowd(server, model, kinds),
                          lambda: bad_requests(server, model, kinds), lambda: replaced(server, model, repository)):
                print(model.name, json.dumps(check()))


if __name__ == "__main__":
    main()
