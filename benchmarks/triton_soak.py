"""Many requests of a real Triton server with Lathe's backend, a fault every second between them: none lost, none crossed,
memory flat, every failure an error with its cause.

    triton_soak.py LATHE [--engine m.engine] [--requests 100000] [--every 1] [--output soak.json]

Without --engine a small classifier is built. Eight clients ask by HTTP and gRPC, and in turns these faults are injected:

    bad         a request of a wrong shape, type, output or size of batch: refused with that reason
    gone        half a request, or ten whole ones, and the connection is closed
    cancelled   a request by gRPC whose client waits for less than its answer takes, 0.2 to 3 ms
    small       an input or output in a shared-memory region that is too small: refused with that reason
    version     a new version of the model, put in place while requests run
    damaged     a new version whose engine is damaged or missing: refused with the cause, the old one goes on serving
    killed      the server is killed (SIGKILL) and started again: clients ask once more, until they are answered

Servers are killed in the first and the last fifth of the requests, in the first before anything else, so that it happens
however fast requests are answered, and again once a thirtieth of the requests was answered since; between those fifths one
server lives, and its memory after three tenths of the requests is compared with that before the last fifth. A request is lost when it is neither answered
nor refused, or refused though it was a good one; crossed when its answer is another's. Exit code 1 if any was, if a fault
was not answered as above, or if memory grew by more than 32 MiB.

A server that ends by itself is started again, and its last words are kept (`server_ended`). With Lathe's backend among them
that is a fault of the backend, and exit code 1.

Where the time went is told (`took`): of each kind of fault and of the server's starts the number, all seconds and the
longest, and the longest that a client waited. A start is mostly the processor's time (OpenVINO and the engine are read
anew): half a second on two idle cores, ten and more where other programs leave a tenth of them.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "triton"))
import provenance

CLIENTS = 8
MOST_GROWTH_KIB = 32768
# Longest that a client asks again once the server is there, and that anything is waited for.
PATIENCE = 60
# Share of the requests that is answered between two kills. Without it a slow machine kills servers that hardly served.
BETWEEN_KILLS = 1 / 30
KINDS = ("killed", "damaged", "bad", "version", "gone", "small", "cancelled")


def small_network(file):
    """A classifier of pictures 3x8x8 whose answers tell its inputs apart."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = numpy.random.default_rng(5)
    weights = {"filters": random.standard_normal((16, 3, 3, 3)), "matrix": random.standard_normal((16 * 64, 10)) / 16}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["input", "filters"], ["features"], pads=[1, 1, 1, 1]),
         helper.make_node("Relu", ["features"], ["positive"]),
         helper.make_node("Flatten", ["positive"], ["row"]),
         helper.make_node("MatMul", ["row", "matrix"], ["scores"])],
        "small", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(values.astype(numpy.float32), name) for name, values in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), file)


def alike(outputs):
    """How near the answers of two samples come, against the scale of one: those that are alike would hide a mix-up."""
    rows = next(iter(outputs.values())).reshape(len(next(iter(outputs.values()))), -1)
    distance = numpy.abs(rows[:, None] - rows[None]).max(axis=2)
    return float((distance + numpy.eye(len(rows)) * distance.max()).min())


class Durations:
    """Of something that happens more than once, in seconds."""

    def __init__(self):
        self.count, self.total, self.longest = 0, 0.0, 0.0

    @contextlib.contextmanager
    def one(self):
        begin = time.monotonic()
        try:
            yield
        finally:
            self.add(time.monotonic() - begin)

    def add(self, seconds):
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    def told(self):
        return {"count": self.count, "seconds": round(self.total, 2), "longest": round(self.longest, 2)}


class Counts:
    """What the clients saw, together."""

    def __init__(self):
        self.lock = threading.Lock()
        self.answered = 0
        self.retried = 0
        self.lost = []
        self.crossed = []
        self.causes = collections.Counter()  # of requests that had to be asked again

    def add(self, **more):
        with self.lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)


class Soak:
    def __init__(self, options, folder):
        import check_server
        from server import Server

        self.check = check_server
        self.options, self.folder = options, folder
        lathe = options.lathe
        check_server.lathe_program = lambda: lathe
        engine = options.engine
        if engine is None:
            small_network(folder / "small.onnx")
            subprocess.run([lathe, "build", folder / "small.onnx", "-o", folder / "small.engine"], check=True,
                           stdout=subprocess.DEVNULL)
            engine = folder / "small.engine"
        self.engine = engine
        if engine != folder / "m.engine":
            shutil.copy(engine, folder / "m.engine")
        repository = folder / "repo"
        deployed = json.loads(subprocess.run(
            [lathe, "deploy", "triton", folder / "m.engine", "--backend", "lathe", "-o", repository, "--json"],
            check=True, stdout=subprocess.PIPE, text=True).stdout)
        self.backends = options.backends or deployed["backend_directory"]
        self.home = repository / "m"
        self.model = check_server.Model(folder, "m", count=64)
        if alike(self.model.outputs) < 1e-3:
            raise SystemExit(f"{engine}: two of the samples have answers so alike that crossed ones would not show")
        self.input = next(iter(self.model.inputs))
        self.versions = [1]
        self.faults = dict.fromkeys(KINDS, 0)
        self.reasons = {}  # what was told, an example for each kind of fault
        self.server_ended = []
        self.wrong = []  # faults that were not answered as they should be
        self.took = collections.defaultdict(Durations)
        self.longest_request = 0.0
        self.counts = Counts()
        # A server that is killed: even while one runs, odd in between.
        self.life = 0
        self.read = 0  # of the server's log, what earlier ones wrote
        self.server = Server(repository, self.backends, "--model-control-mode=explicit", "--load-model=m")

    # Faults. Each says what it was told, and raises AssertionError where that is not what it should be.

    def refused(self, kind, inputs, outputs, wanted, **options):
        with self.check.connect(self.server, kind) as client:
            try:
                client.infer("m", inputs, outputs=outputs, **options)
            except self.check.InferenceServerException as told:
                assert wanted in str(told), f"the reason should hold {wanted!r}: {told}"
                return str(told)
        raise AssertionError(f"a request was answered that should have been refused with {wanted!r}")

    def asked_for(self, kind, name=None):
        return [self.check.KINDS[kind].InferRequestedOutput(name or next(iter(self.model.outputs)))]

    def bad(self, turn):
        kind = ("http", "grpc")[turn % 2]
        rows = self.model.rows(0, 1)
        good = rows[self.input]
        longer = good.shape[:-1] + (good.shape[-1] + 1,)
        name, arrays, output, wanted = (
            ("shape", {self.input: numpy.zeros(longer, good.dtype)}, None, "unexpected shape"),
            ("type", {self.input: good.astype(numpy.int64)}, None, "INT64"),
            ("output", rows, "nothing", "nothing"),
            ("batch", {self.input: numpy.repeat(good, 1000, axis=0)}, None, "batch-size must be <="),
            ("input", {}, None, "input"),
        )[turn // 2 % 5]
        return name, self.refused(kind, self.check.inputs_of(kind, arrays), self.asked_for(kind, output), wanted)

    def gone(self, turn):
        host, port = self.server.http.split(":")
        body = b"{"
        if turn % 2 == 1:
            values = self.model.rows(2, 1)[self.input]
            body = json.dumps({"inputs": [{"name": self.input, "shape": values.shape, "datatype": "FP32",
                                           "data": values.ravel().tolist()}]}).encode()
        length = 5000 if turn % 2 == 0 else len(body)
        head = f"POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode()
        for _ in range(10 if turn % 2 == 1 else 1):
            with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
                connection.sendall(head + body)
        return "ten whole requests" if turn % 2 == 1 else "half a request", "the connection was closed"

    def cancelled(self, turn):
        milliseconds = (0.2, 0.5, 1, 2, 3)[turn % 5]
        with self.check.connect(self.server, "grpc") as client:
            try:
                found = self.check.ask(client, "grpc", self.model, self.model.rows(turn % 8, 1),
                                       client_timeout=milliseconds / 1000)
            except self.check.InferenceServerException as late:
                assert "Deadline Exceeded" in str(late), late
                return "late", str(late)
        self.check.check_close(found, self.model.expected(turn % 8, 1), "in time after all")
        return "in time", "answered in time after all"

    def small(self, turn):
        """Both the server's check of an input and the backend's of an output that does not fit."""
        kind = ("http", "grpc")[turn % 2]
        memory = self.check.shared_memory
        rows, wanted = self.model.rows(5, 2), self.model.expected(5, 2)
        array = rows[self.input] if turn // 2 % 2 == 0 else wanted[next(iter(wanted))]
        room = array.nbytes // 2
        key = f"lathe-soak-{os.getpid()}-{turn}"
        region = memory.create_shared_memory_region(key, f"/{key}", room)
        try:
            with self.check.connect(self.server, kind) as client:
                client.register_system_shared_memory(key, f"/{key}", room)
                try:
                    given, asked = self.check.inputs_of(kind, rows), self.asked_for(kind)
                    if turn // 2 % 2 == 0:
                        for each, (name, values) in zip(given, rows.items()):
                            if name == self.input:
                                each.set_shared_memory(key, values.nbytes)
                        return "input", self.refused(kind, given, asked, "shared memory region")
                    asked[0].set_shared_memory(key, room)
                    return "output", self.refused(kind, given, asked, "shared memory size specified with the request")
                finally:
                    client.unregister_system_shared_memory(key)
        finally:
            memory.destroy_shared_memory_region(region)

    def put(self, change):
        """The next version: a copy of the last, changed, renamed into place as a whole."""
        following = self.versions[-1] + 1
        shutil.copytree(self.home / str(self.versions[-1]), self.home.parent / ".next")
        change(self.home.parent / ".next" / "model.engine")
        (self.home.parent / ".next").rename(self.home / str(following))
        return following

    def version(self, _):
        following = self.put(lambda _: None)
        with self.check.connect(self.server, "http") as client:
            client.load_model("m")
            assert client.is_model_ready("m", str(following)), f"version {following} is not ready"
        self.versions.append(following)
        while len(self.versions) > 3:  # the server has unloaded it
            shutil.rmtree(self.home / str(self.versions.pop(0)))
        return "loaded", f"version {following} serves"

    def damaged(self, turn):
        def cut(engine):
            engine.write_bytes(engine.read_bytes()[:-100])

        def flip(engine):
            content = bytearray(engine.read_bytes())
            content[len(content) // 2] ^= 0x10
            engine.write_bytes(content)

        def empty(engine):
            engine.write_bytes(b"")

        name, change, wanted = (("cut", cut, "the engine file is damaged"), ("flipped", flip, "the engine file is damaged"),
                                ("missing", pathlib.Path.unlink, "cannot open"), ("empty", empty, "engine"))[turn % 4]
        following = self.put(change)
        try:
            with self.check.connect(self.server, "http") as client:
                try:
                    client.load_model("m")
                except self.check.InferenceServerException as told:
                    assert wanted in str(told) and f"version {following}" in str(told), f"not {wanted!r}: {told}"
                    assert client.is_model_ready("m", str(self.versions[-1])), "the old version does not serve any more"
                    found = self.check.ask(client, "http", self.model, self.model.rows(7, 1))
                    self.check.check_close(found, self.model.expected(7, 1), "of the old version")
                    return name, str(told)
            raise AssertionError(f"a damaged engine ({name}) was loaded")
        finally:
            shutil.rmtree(self.home / str(following))

    def killed(self, _):
        self.life += 1
        self.server.kill()
        self.start_again()
        return "SIGKILL", "the server was started again"

    def start_again(self):
        self.read = len(self.server.text())
        self.server.fixed_ports = self.server.ports
        with self.took["server start"].one():
            self.server.start()
            assert self.server.wait(PATIENCE), "the server did not start again:\n" + self.server.text()[-2000:]
        self.life += 1

    def ended(self):
        """A server that ended by itself: what it said last, and another one."""
        if self.server.process.poll() is None:
            return False
        self.life += 1
        told = self.server.text()[self.read :]
        # " 2# function in /folder/library"
        stack = [line.split("# ", 1)[1].replace(str(pathlib.Path(line.split(" in ")[-1]).parent) + "/", "")
                 for line in told.splitlines() if line[:2].strip().isdigit() and line[2:4] == "# "]
        self.server_ended.append({"code": self.server.process.returncode, "faults": sum(self.faults.values()),
                                  "words": stack or [line.replace(str(self.folder), "") for line in told.splitlines()[-3:]]})
        self.start_again()
        return True

    # Requests.

    def connect(self, kind):
        if kind == "http":
            return self.check.connect(self.server, kind)
        # Of its own: channels of one address otherwise share how long they wait before they connect again.
        return self.check.grpc_client.InferenceServerClient(
            self.server.grpc, channel_args=[("grpc.use_local_subchannel_pool", 1)])

    def wait_for_a_server(self):
        """While it is started again. Asking then would only take the processor from it."""
        end = time.monotonic() + PATIENCE
        while self.life % 2 == 1 and time.monotonic() < end:
            time.sleep(0.02)

    def once(self, connection, kind, first, count):
        # Over HTTP the client waits for a minute by itself.
        patience = {"client_timeout": PATIENCE} if kind == "grpc" else {}
        return self.check.ask(connection, kind, self.model, self.model.rows(first, count), **patience)

    def client(self, number):
        """Its share of the requests, each until it is answered; gives up after one that is lost."""
        kind = ("http", "grpc")[number % 2]
        random = numpy.random.default_rng(number)
        share = self.options.requests // CLIENTS + (number < self.options.requests % CLIENTS)
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self.connect(kind))
            for turn in range(share):
                count = int(random.integers(1, 5))
                first = int(random.integers(0, self.model.count - count + 1))
                end = time.monotonic() + PATIENCE
                while True:
                    before = self.life
                    begin = time.monotonic()
                    try:
                        found = self.once(connection, kind, first, count)
                        with self.counts.lock:
                            self.longest_request = max(self.longest_request, time.monotonic() - begin)
                        break
                    except Exception as failure:  # the clients' libraries have many for a connection that ended
                        cause = f"{kind}: {failure or type(failure).__name__}"
                        # A server that ended was killed, or the other thread will notice it in a moment.
                        noticed = time.monotonic() + 10
                        while self.life == before and before % 2 == 0 and time.monotonic() < noticed:
                            time.sleep(0.02)
                        # None ended since it was sent: a good request was refused.
                        if (before == self.life and before % 2 == 0) or time.monotonic() > end:
                            self.counts.add(lost=[f"client {number}, request {turn}: {cause}"])
                            return
                    self.counts.add(retried=1, causes=collections.Counter([cause.split("(")[0][:120]]))
                    time.sleep(0.05)
                    self.wait_for_a_server()
                    if self.life != before:
                        end = time.monotonic() + PATIENCE
                    stack.close()
                    connection = stack.enter_context(self.connect(kind))
                try:
                    self.check.check_close(found, self.model.expected(first, count), (number, turn))
                except AssertionError as differs:
                    self.counts.add(crossed=[str(differs)[:300]])
                self.counts.add(answered=1)

    def inject(self, kind, turn):
        self.faults[kind] += 1
        try:
            with self.took[kind].one():
                name, told = getattr(self, kind)(turn)
            self.reasons.setdefault(f"{kind}: {name}", told.replace(f"{self.folder}/", "").strip())
        except Exception as failure:
            if not self.ended():
                self.wrong.append(f"{kind} {turn}: {failure or type(failure).__name__}")

    def run(self):
        """The document of results."""
        memory, turns, next_kind = [], collections.Counter(), 0
        next_kill = 0
        with self.server:
            start = time.monotonic()
            clients = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
            for client in clients:
                client.start()
            due = start + self.options.every
            # Servers end with the thread that started them, so faults are this thread's.
            while any(client.is_alive() for client in clients):
                self.ended()
                if time.monotonic() < due:
                    clients[0].join(max(0.001, min(0.05, due - time.monotonic())))
                    continue
                due = max(due + self.options.every, time.monotonic())
                done = self.counts.answered / self.options.requests
                try:
                    kib = self.server.resident_kib()
                except (OSError, StopIteration):  # it ended just now
                    continue
                memory.append({"seconds": round(time.monotonic() - start, 1), "requests": self.counts.answered,
                               "life": self.life // 2, "versions": self.faults["version"], "kib": kib})
                kind = KINDS[next_kind % len(KINDS)]
                if kind == "killed" and (0.2 <= done < 0.8 or done < next_kill):
                    next_kind += 1
                    kind = KINDS[next_kind % len(KINDS)]
                next_kind += 1
                if kind == "killed":
                    next_kill = done + BETWEEN_KILLS
                self.inject(kind, turns[kind])
                turns[kind] += 1
            seconds = time.monotonic() - start
            # Still there after all of it, and no request waits in it.
            with self.check.connect(self.server, "http") as client:
                self.check.check_close(self.once(client, "http", 0, 1), self.model.expected(0, 1), "at the end")
            with self.took["server stop"].one():
                self.server.stop()
            if self.server.code != 0:
                self.wrong.append(f"the server ended with code {self.server.code}:\n{self.server.text()[-1000:]}")
        return self.document(seconds, memory)

    def document(self, seconds, memory):
        requests = self.options.requests
        steady = [row for row in memory if 0.3 * requests <= row["requests"] < 0.8 * requests]
        # Of the life that answered most, if the server ended by itself in between.
        lives = collections.Counter(row["life"] for row in steady)
        steady = [row for row in steady if row["life"] == lives.most_common(1)[0][0]]
        grown = steady[-1]["kib"] - steady[0]["kib"] if len(steady) > 1 else None
        counts = self.counts
        return {
            "kind": "soak", "version": 1, "requests": requests, "answered": counts.answered, "lost": len(counts.lost),
            "crossed": len(counts.crossed), "asked_again": counts.retried, "clients": CLIENTS, "seconds": round(seconds, 1),
            "seconds_between_faults": self.options.every, "faults": self.faults, "told": self.reasons,
            "wrong": self.wrong, "server_ended": self.server_ended, "lost_examples": counts.lost[:5],
            "crossed_examples": counts.crossed[:5],
            "asked_again_after": dict(counts.causes.most_common(10)),
            "took": {name: durations.told() for name, durations in self.took.items()},
            "longest_request": round(self.longest_request, 2),
            "memory": {"grown_kib": grown, "from": steady[0] if steady else None, "to": steady[-1] if steady else None,
                       "series": [" ".join(f"{name} {value}" for name, value in row.items())
                                  for row in memory[:: max(1, len(memory) // 20)]]},
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe")
    parser.add_argument("--engine", type=pathlib.Path, help="of one input of numbers; default: a small classifier")
    parser.add_argument("--backends", help="the server's folder of backends; default: where lathe deploy says it is")
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--every", type=float, default=1, help="seconds from a fault to the next")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if options.requests < CLIENTS or options.every <= 0:
        parser.error(f"at least {CLIENTS} requests, and some time between faults")
    with tempfile.TemporaryDirectory(prefix="lathe-soak-") as folder:
        soak = Soak(options, pathlib.Path(folder))
        document = soak.run()
        provenance.stamp(document, options.lathe, [soak.engine])
    text = json.dumps(document, indent=1) + "\n"
    if options.output:
        options.output.write_text(text)
    print(text, end="")
    grown = document["memory"]["grown_kib"]
    ours = any("triton_lathe" in word for end in document["server_ended"] for word in end["words"])
    good = (not ours and document["answered"] == document["requests"] and not document["lost"] and not document["crossed"]
            and not document["wrong"] and (grown is None or grown < MOST_GROWTH_KIB))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
