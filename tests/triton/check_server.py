"""Serves a model repository with a real Triton server and holds its answers against the engine's own.

    check_server.py CHECK FOLDER BACKENDS LATHE

FOLDER holds repo/ as `lathe deploy triton` wrote it, and the engine NAME.engine of each model NAME in it. What they answer
comes from `LATHE run`, one sample at a time. Exit 77 where a package or the server is missing.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

try:
    import numpy
    import tritonclient.grpc as grpc_client
    import tritonclient.http as http_client
    import tritonclient.utils.shared_memory as shared_memory
    from tritonclient.utils import InferenceServerException
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)
if not os.environ.get("LATHE_TRITON_SERVER"):
    print("SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set")
    sys.exit(77)
from server import Server, in_parallel

KINDS = {"http": http_client, "grpc": grpc_client}
DATATYPES = {"float32": "FP32", "int64": "INT64", "int32": "INT32"}


class Model:
    """Samples for a model of the repository, and what its engine gives for them."""

    def __init__(self, folder, name, count=24):
        self.name = name
        self.count = count
        random = numpy.random.default_rng(7)
        about = json.loads((folder / "repo" / name / "model.json").read_text())
        # Models of one size take several rows as one sample.
        self.rows_each = int(about["inputs"][0]["shape"].split("x")[0])
        texts = [tensor["name"] for tensor in about["inputs"]] == ["input_ids", "attention_mask"]
        if texts:
            lengths = random.integers(2, 13, count)
            lengths[0] = 12
            mask = (numpy.arange(12) < lengths[:, None]).astype(numpy.int64)
            self.inputs = {"input_ids": random.integers(1, 64, (count, 12)) * mask, "attention_mask": mask}
        else:
            sizes = [int(size) for size in about["inputs"][0]["shape"].split("..")[-1].split("x")[1:]]
            shape = (count * self.rows_each, *sizes)
            self.inputs = {about["inputs"][0]["name"]: random.standard_normal(shape).astype(numpy.float32)}
        numpy.savez(folder / "inputs.npz", **self.inputs)
        subprocess.run([lathe_program(), "run", folder / f"{name}.engine", folder / "inputs.npz", "--batch-size",
                        str(self.rows_each), "-o", folder / "outputs.npz"], check=True, stdout=subprocess.DEVNULL)
        # The server knows no tensor without a size beside the samples.
        self.outputs = {name: values.reshape(len(values), -1) if values.ndim == 1 else values
                        for name, values in numpy.load(folder / "outputs.npz").items()}

    def cut(self, arrays, first, count):
        return {name: values[first * self.rows_each : (first + count) * self.rows_each]
                for name, values in arrays.items()}

    def rows(self, first, count):
        return self.cut(self.inputs, first, count)

    def expected(self, first, count):
        return self.cut(self.outputs, first, count)


def lathe_program():
    return sys.argv[4]


def connect(server, kind):
    return KINDS[kind].InferenceServerClient(getattr(server, kind))


def inputs_of(kind, arrays):
    given = []
    for name, array in arrays.items():
        given.append(KINDS[kind].InferInput(name, list(array.shape), DATATYPES[str(array.dtype)]))
        given[-1].set_data_from_numpy(array)
    return given


def ask(client, kind, model, arrays, names=None, **options):
    names = model.outputs if names is None else names
    outputs = [KINDS[kind].InferRequestedOutput(name) for name in names]
    answer = client.infer(model.name, inputs_of(kind, arrays), outputs=outputs, **options)
    return {name: answer.as_numpy(name) for name in names}


def check_same(found, wanted, where):
    for name, values in wanted.items():
        assert found[name].shape == values.shape, (where, name, found[name].shape, values.shape)
        assert found[name].dtype == values.dtype, (where, name, found[name].dtype)
        assert found[name].tobytes() == values.tobytes(), (where, name, found[name], values)


def check_close(found, wanted, where):
    for name, values in wanted.items():
        assert found[name].shape == values.shape, (where, name, found[name].shape, values.shape)
        # Batches of another size add up in another order.
        assert numpy.allclose(found[name], values, rtol=1e-4, atol=1e-5), (where, name, found[name], values)


def refusal(client, kind, model, arrays, **options):
    try:
        ask(client, kind, model, arrays, **options)
    except InferenceServerException as refused:
        return str(refused)
    raise AssertionError(f"{model.name} took {[(n, a.shape, a.dtype) for n, a in arrays.items()]}")


def answers(folder, backends):
    """One request after the other: the engine's bits, by both protocols and through shared memory."""
    models = [Model(folder, path.name) for path in sorted((folder / "repo").iterdir())]
    with Server(folder / "repo", backends) as server:
        for kind in KINDS:
            with connect(server, kind) as client:
                for model in models:
                    for i in range(0, model.count, model.count // 8 or 1):
                        check_same(ask(client, kind, model, model.rows(i, 1)), model.expected(i, 1), (kind, model.name))
                    if model.rows_each == 1:
                        check_close(ask(client, kind, model, model.rows(0, 3)), model.expected(0, 3), kind)
                shared_answers(client, kind, next(model for model in models if model.name == "m"))
        for model in models:
            asked = server.metric("nv_inference_request_success", model=model.name)
            assert asked >= 2 * min(8, model.count), (model.name, asked)
            stages = {stage: server.metric(f"nv_inference_{stage}_duration_us", model=model.name)
                      for stage in ("request", "queue", "compute_input", "compute_infer", "compute_output")}
            assert 0 < stages["compute_infer"] <= stages["request"], (model.name, stages)
            assert sum(stages.values()) <= 2 * stages["request"] + 1000, (model.name, stages)
        server.stop()
        assert server.code == 0, server.text()[-2000:]
    print(f"{len(models)} models answer as lathe run does")


def unregister(client, seconds=10):
    """A region is in use until the server has let go of the request, which may be after its answer."""
    end = time.monotonic() + seconds
    while True:
        try:
            return client.unregister_system_shared_memory()
        except Exception:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def shared_answers(client, kind, model):
    arrays, wanted = model.rows(1, 1), model.expected(1, 1)
    regions = []
    try:
        given, asked = [], []
        for name, array in [*arrays.items(), *wanted.items()]:
            key = f"lathe-{os.getpid()}-{kind}-{name}"
            region = shared_memory.create_shared_memory_region(key, f"/{key}", array.nbytes)
            regions.append(region)
            client.register_system_shared_memory(key, f"/{key}", array.nbytes)
            if name in arrays:
                shared_memory.set_shared_memory_region(region, [array])
                given.append(KINDS[kind].InferInput(name, list(array.shape), DATATYPES[str(array.dtype)]))
                given[-1].set_shared_memory(key, array.nbytes)
            else:
                asked.append(KINDS[kind].InferRequestedOutput(name))
                asked[-1].set_shared_memory(key, array.nbytes)
        client.infer(model.name, given, outputs=asked)
        for (name, array), region in zip(wanted.items(), regions[len(arrays) :]):
            found = shared_memory.get_contents_as_numpy(region, array.dtype, array.shape)
            check_same({name: found}, {name: array}, ("shared memory", kind))
    finally:
        unregister(client)
        for region in regions:
            shared_memory.destroy_shared_memory_region(region)


def crowd(folder, backends):
    """32 clients at once: every answer is its request's own, and requests did share runs."""
    model = Model(folder, "m")
    scores = model.outputs["scores"]
    distance = numpy.abs(scores[:, None] - scores[None]).max(axis=2) + numpy.eye(len(scores))
    assert distance.min() > 1e-3, "samples whose answers are alike would not show that answers were crossed"
    with Server(folder / "repo", backends) as server:

        def client(number):
            kind = ("http", "grpc")[number % 2]
            random = numpy.random.default_rng(number)
            with connect(server, kind) as connection:
                for _ in range(40):
                    count = int(random.integers(1, 4))
                    first = int(random.integers(0, model.count - count + 1))
                    found = ask(connection, kind, model, model.rows(first, count))
                    check_close(found, model.expected(first, count), (number, first, count))

        in_parallel(32, client)
        with connect(server, "http") as connection:
            statistics = connection.get_inference_statistics("m")["model_stats"][0]
        assert statistics["inference_stats"]["fail"]["count"] == 0, statistics
        assert statistics["execution_count"] < statistics["inference_stats"]["success"]["count"], "nothing shared a run"
        print(f"{statistics['inference_stats']['success']['count']} requests in {statistics['execution_count']} runs")


def texts(folder, backends):
    """Texts of different lengths share runs and get answers of their own lengths."""
    model = Model(folder, "t")
    rows = []
    for i in range(model.count):
        own = int(model.inputs["attention_mask"][i].sum())
        rows.append(({name: values[i : i + 1, :own] for name, values in model.inputs.items()}, own))
    with Server(folder / "repo", backends) as server:

        def client(number):
            with connect(server, "grpc") as connection:
                for turn in range(20):
                    arrays, own = rows[(number + turn) % len(rows)]
                    found = ask(connection, "grpc", model, arrays)
                    i = (number + turn) % len(rows)
                    wanted = {name: values[i : i + 1] for name, values in model.outputs.items()}
                    wanted["states"] = wanted["states"][:, :own]
                    check_close(found, wanted, (number, turn, own))

        in_parallel(8, client)
        with connect(server, "http") as connection:
            statistics = connection.get_inference_statistics("t")["model_stats"][0]
            assert statistics["execution_count"] < statistics["inference_stats"]["success"]["count"], "nothing shared a run"
            long = {name: numpy.ones((1, 13), numpy.int64) for name in model.inputs}
            told = refusal(connection, "http", model, long)
            assert "model t, version 1: input_ids" in told and "1x13 is outside the engine's range" in told, told
            uneven = {"input_ids": numpy.ones((1, 4), numpy.int64), "attention_mask": numpy.ones((1, 5), numpy.int64)}
            told = refusal(connection, "http", model, uneven)
            assert "different lengths: 4 and 5" in told, told
    print("texts of different lengths are answered")


def bad_requests(folder, backends):
    """What cannot be answered is refused with its cause, and others beside it are answered."""
    model = Model(folder, "m")
    good = model.rows(0, 1)["input"]
    with Server(folder / "repo", backends) as server:
        for kind in KINDS:
            with connect(server, kind) as client:
                for arrays, options, reason in (
                    ({"input": good[:, :, :7]}, {}, "unexpected shape for input 'input'"),
                    ({"input": good[0]}, {}, "input"),
                    ({"input": numpy.zeros((33, 3, 8, 8), numpy.float32)}, {}, "batch-size must be <= 32"),
                    ({"input": good.astype(numpy.int64)}, {}, "INT64"),
                    ({}, {}, "input"),
                    ({"input": good, "other": good}, {}, "other"),
                    ({"input": good}, {"names": ["nothing"]}, "nothing"),
                ):
                    told = refusal(client, kind, model, arrays, **options)
                    assert reason in told, (kind, reason, told)
                # Bytes that do not fit the shape.
                torn = inputs_of(kind, {"input": good})
                torn[0].set_shape([1, 3, 8, 9])
                try:
                    client.infer("m", torn)
                    raise AssertionError("bytes that do not fit their shape were taken")
                except InferenceServerException:
                    pass
                check_same(ask(client, kind, model, model.rows(0, 1)), model.expected(0, 1), kind)
    print("bad requests are refused")


def replaced(folder, backends):
    """A new version of a model under load: no request is lost, and each is answered by one version or the other."""
    old, new = Model(folder, "m"), Model(folder, "m2")
    repository = folder / "repo"
    shutil.move(repository / "m2" / "1", folder / "next")
    shutil.rmtree(repository / "m2")
    stop = threading.Event()
    counts = {"old": 0, "new": 0}
    lock = threading.Lock()
    with Server(repository, backends, "--model-control-mode=explicit", "--load-model=m") as server:

        def client(number):
            kind = ("http", "grpc")[number % 2]
            with connect(server, kind) as connection:
                turn = number
                while not stop.is_set():
                    turn = (turn + 1) % old.count
                    found = ask(connection, kind, old, old.rows(turn, 1))["scores"]
                    with lock:
                        for name, model in (("old", old), ("new", new)):
                            if numpy.allclose(found, model.outputs["scores"][turn], rtol=1e-4, atol=1e-5):
                                counts[name] += 1
                                break
                        else:
                            raise AssertionError(f"neither version answers so: {found}")

        def replace(_):
            try:
                with connect(server, "http") as connection:
                    for version in (2, 3, 4):
                        time.sleep(0.5)
                        shutil.copytree(folder / "next" if version % 2 == 0 else repository / "m" / "1",
                                        repository / f".{version}")
                        (repository / f".{version}").rename(repository / "m" / str(version))
                        connection.load_model("m")
                        assert connection.is_model_ready("m", str(version))
                    time.sleep(0.5)
            finally:
                stop.set()

        in_parallel(9, lambda number: replace(number) if number == 8 else client(number))
        with connect(server, "grpc") as connection:
            found = ask(connection, "grpc", old, old.rows(0, 1))
            check_same(found, new.expected(0, 1), "after the last version")
    assert counts["old"] > 20 and counts["new"] > 20, counts
    print(f"{counts['old'] + counts['new']} requests over three new versions")


def killed(folder, backends):
    """A server that is killed under load and started again answers; clients are told, and none waits for ever."""
    model = Model(folder, "m")
    with Server(folder / "repo", backends) as server:
        refused = []
        stop = threading.Event()

        def client(number):
            while not stop.is_set():
                try:
                    with connect(server, "http") as connection:
                        for turn in range(model.count):
                            check_same(ask(connection, "http", model, model.rows(turn, 1)), model.expected(turn, 1), turn)
                except AssertionError:
                    raise
                except Exception as failure:  # the client's libraries have many for a connection that ended
                    refused.append(str(failure))
                    time.sleep(0.05)

        # Batches of others change last bits: one client, so that answers are the engine's own. The servers are started
        # on this thread, with which they end.
        failures = []
        thread = threading.Thread(target=in_parallel, args=(1, client, failures))
        thread.start()
        try:
            for _ in range(2):
                time.sleep(0.4)
                server.kill()
                server.fixed_ports = server.ports
                server.start()
                assert server.wait(60), server.text()[-2000:]
            time.sleep(0.4)
        finally:
            stop.set()
            thread.join()
        assert not failures, failures
        assert refused, "no client noticed"
        with connect(server, "grpc") as connection:
            check_same(ask(connection, "grpc", model, model.rows(0, 1)), model.expected(0, 1), "after the restarts")
    print("killed twice and started again")


def memory(folder, backends, requests=4000):
    """The server's memory stays as it is over thousands of requests of changing sizes."""
    model = Model(folder, "m")
    with Server(folder / "repo", backends) as server:

        def load(count):
            def client(number):
                random = numpy.random.default_rng(number)
                with connect(server, "grpc") as connection:
                    for _ in range(count // 4):
                        size = int(random.integers(1, 9))
                        check_close(ask(connection, "grpc", model, model.rows(0, size)), model.expected(0, size), size)

            in_parallel(4, client)

        load(requests // 2)
        before = server.resident_kib()
        load(requests)
        after = server.resident_kib()
        print(f"{requests} requests: from {before} to {after} KiB")
        assert after - before < 4096, (before, after)


def bad_models(folder, backends):
    """A model that cannot be served is named with cause and cure; others are served."""
    repository = folder / "repo"
    engine = repository / "m" / "1" / "model.engine"
    config = (repository / "m" / "config.pbtxt").read_text()
    cases = {
        "torn": (config, engine.read_bytes()[:-100], "the engine file is damaged"),
        "empty": (config, b"", "engine"),
        "missing": (config, None, "model.engine"),
        "crowded": (config.replace("max_batch_size: 32", "max_batch_size: 64"), engine.read_bytes(),
                    "write max_batch_size: 32"),
        "shape": (config.replace("dims: [3, 8, 8]", "dims: [3, 8, 9]"), engine.read_bytes(), 'input "input"'),
        "type": (config.replace("TYPE_FP32", "TYPE_INT32", 1), engine.read_bytes(), "write data_type: TYPE_FP32"),
        "name": (config.replace('name: "scores"', 'name: "score"'), engine.read_bytes(), "it has: scores"),
        "threads": (config + 'parameters { key: "threads" value { string_value: "all" } }', engine.read_bytes(),
                    "number of threads"),
    }
    for name, (text, content, _) in cases.items():
        (repository / name / "1").mkdir(parents=True)
        (repository / name / "config.pbtxt").write_text(text.replace('name: "m"', f'name: "{name}"'))
        shutil.copy(repository / "m" / "labels.txt", repository / name)
        if content is not None:
            (repository / name / "1" / "model.engine").write_bytes(content)
    with Server(repository, backends, "--exit-on-error=false", "--strict-readiness=false") as server:
        request = urllib.request.Request(f"http://{server.http}/v2/repository/index", b"{}")
        index = {row["name"]: row for row in json.load(urllib.request.urlopen(request, timeout=10))}
        for name, (_, _, reason) in cases.items():
            told = index[name].get("reason", "")
            assert index[name]["state"] == "UNAVAILABLE" and reason in told, (name, reason, index[name])
        model = Model(folder, "m")
        with connect(server, "http") as client:
            check_same(ask(client, "http", model, model.rows(0, 1)), model.expected(0, 1), "beside bad models")
    print(f"{len(cases)} bad models are named")


def completed(folder, backends):
    """Without a config, or with the backend's name alone, the engine tells what it takes."""
    repository = folder / "bare"
    pair = ('backend: "lathe"\ninstance_group { count: 2 kind: KIND_CPU }\n'
            'parameters { key: "threads" value { string_value: "1" } }\n')
    configs = {"named": 'backend: "lathe"\n', "nothing.lathe": None, "pair": pair}
    for name, config in configs.items():
        (repository / name / "1").mkdir(parents=True)
        shutil.copy(folder / "repo" / "m" / "1" / "model.engine", repository / name / "1")
        if config:
            (repository / name / "config.pbtxt").write_text(config)
    model = Model(folder, "m")
    with Server(repository, backends) as server, connect(server, "http") as client:
        for name in configs:
            told = client.get_model_config(name)
            assert told["max_batch_size"] == 32 and told["input"][0]["dims"] == [3, 8, 8], told
            assert "dynamic_batching" in told, told
            model.name = name
            for i in range(6):
                check_close(ask(client, "http", model, model.rows(i, 1)), model.expected(i, 1), name)
    print("configs are completed")


def pictures(folder, backends):
    """Files are decoded and preprocessed in the server as `lathe run` does it; one that is damaged is named."""
    files = sorted(path for path in (folder / "photos").iterdir() if path.suffix in (".png", ".jpg"))
    subprocess.run([lathe_program(), "run", folder / "m.engine", *files, "--batch-size", "1", "-o",
                    folder / "outputs.npz"], check=True, stdout=subprocess.DEVNULL)
    scores = numpy.load(folder / "outputs.npz")["scores"]
    contents = [file.read_bytes() for file in files]
    with Server(folder / "repo", backends) as server:

        def ask_pictures(client, kind, chosen):
            array = numpy.array([[content] for content in chosen], dtype=object)
            given = KINDS[kind].InferInput("input", list(array.shape), "BYTES")
            given.set_data_from_numpy(array)
            return client.infer("m", [given]).as_numpy("scores")

        for kind in KINDS:
            with connect(server, kind) as client:
                for content, wanted in zip(contents, scores):
                    check_same({"scores": ask_pictures(client, kind, [content])}, {"scores": wanted[None]}, kind)
                check_close({"scores": ask_pictures(client, kind, contents)}, {"scores": scores}, kind)
                for chosen, reason in ((contents[:1] + [contents[1][:200]], "input 1"), ([b""], "input 0"),
                                       ([b"no picture"], "input 0"), (contents * 4, "batch-size must be <= 32")):
                    try:
                        ask_pictures(client, kind, chosen)
                        raise AssertionError(f"{[content[:10] for content in chosen]} were taken")
                    except InferenceServerException as refused:
                        assert reason in str(refused), (kind, reason, str(refused))

        def client(number):
            with connect(server, "grpc") as connection:
                for turn in range(20):
                    place = (number + turn) % len(contents)
                    if number == 0:  # its bad pictures share runs with others' good ones
                        try:
                            ask_pictures(connection, "grpc", [contents[place][:150]])
                            raise AssertionError("a damaged picture was taken")
                        except InferenceServerException:
                            continue
                    check_close({"scores": ask_pictures(connection, "grpc", [contents[place]])},
                                {"scores": scores[place : place + 1]}, (number, turn))

        in_parallel(8, client)
        told = subprocess.run([sys.executable, folder / "repo" / "m" / "client.py", "--url", f"http://{server.http}",
                               files[0]], check=True, stdout=subprocess.PIPE, text=True).stdout
        assert float(told.splitlines()[0].split("\t")[2]) == float(f"{scores[0].max():.6g}"), (told, scores[0])
    print(f"{len(files)} pictures are answered")


def sentences(folder, backends):
    """Texts are cut into tokens in the server as `lathe run` does it; one that is none is named."""
    texts = ["a quiet film", "the quiet FILMS", "film", "the film the film the film the film the film the film the film",
             "\u00e9t\u00e9 \u65e5\u672c, film!"]
    wanted = []
    for text in texts:
        subprocess.run([lathe_program(), "run", folder / "t.engine", "--text", text, "-o", folder / "outputs.npz"],
                       check=True, stdout=subprocess.DEVNULL)
        wanted.append(dict(numpy.load(folder / "outputs.npz")))
    with Server(folder / "repo", backends) as server:

        def ask_texts(client, kind, chosen, outputs=("sum", "states")):
            array = numpy.array([[text.encode() if isinstance(text, str) else text] for text in chosen], dtype=object)
            given = KINDS[kind].InferInput("text", list(array.shape), "BYTES")
            given.set_data_from_numpy(array)
            reply = client.infer("t", [given])
            return {name: reply.as_numpy(name) for name in outputs}

        for kind in KINDS:
            with connect(server, kind) as client:
                for text, outputs in zip(texts, wanted):
                    found = ask_texts(client, kind, [text])
                    check_same(found, {name: outputs[name] for name in found}, (kind, text))
                sums = ask_texts(client, kind, texts, ["sum"])
                check_close(sums, {"sum": numpy.concatenate([outputs["sum"] for outputs in wanted])}, kind)
                for chosen, reason in ((["film", b"\xff\xfe"], "text 1"), ([""] * 9, "batch-size must be <= 8"),
                                       ([b"fi\xc3"], "text 0")):
                    try:
                        ask_texts(client, kind, chosen)
                        raise AssertionError(f"{chosen} were taken")
                    except InferenceServerException as refused:
                        assert reason in str(refused), (kind, reason, str(refused))

        def client(number):
            with connect(server, "grpc") as connection:
                for turn in range(20):
                    place = (number + turn) % len(texts)
                    if number == 0:  # its bad texts share runs with others' good ones
                        try:
                            ask_texts(connection, "grpc", [b"\xff"])
                            raise AssertionError("no text was taken")
                        except InferenceServerException:
                            continue
                    found = ask_texts(connection, "grpc", [texts[place]])
                    check_close(found, {name: wanted[place][name] for name in found}, (number, turn))

        in_parallel(8, client)
        with connect(server, "http") as connection:
            statistics = connection.get_inference_statistics("t")["model_stats"][0]
        assert statistics["execution_count"] < statistics["inference_stats"]["success"]["count"], "nothing shared a run"
        told = subprocess.run([sys.executable, folder / "repo" / "t" / "client.py", "--url", f"http://{server.http}",
                               "--text", texts[0]], check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = {line.split("\t")[1]: line.split("\t")[2] for line in told.splitlines() if line.startswith(texts[0])}
        assert numpy.float32(lines["score"].strip("[]")) == wanted[0]["score"][0], told
    print(f"{len(texts)} texts are answered")


CHECKS = {check.__name__: check
          for check in (answers, crowd, texts, bad_requests, replaced, killed, memory, bad_models, completed,
                        pictures, sentences)}

if __name__ == "__main__":
    CHECKS[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
