"""MLPerf's load generator against an engine: in this process through the Python package lathe, or in a Triton server.

    run.py ENGINE --samples inputs.npz [--system session|triton] [--scenario SingleStream|MultiStream|Server|Offline]
           [--mode performance|accuracy] [--seconds 60] [--qps 50] [--latency-ms 30] [--labels labels.npy] --output FOLDER

inputs.npz holds an array for each input of the engine, samples on the first axis (labels.npy: a class for each). FOLDER gets
LoadGen's own logs as it wrote them, and summary.json: its figures, its verdict, whether its constraints were met, and
what ran. A run that LoadGen finds invalid ends with exit code 1: it says why, and its figures prove nothing.

MLPerf's own durations (600 s) and query counts hold where --seconds and --qps ask for them; these runs are not MLPerf
results, whose models, data and rules are others'. A query of MultiStream has 8 samples; accuracy mode sends each sample
once and compares the first output's largest class with --labels.
"""
import argparse
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading

import mlperf_loadgen as loadgen
import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "triton"))

SCENARIOS = {name: getattr(loadgen.TestScenario, name) for name in ("SingleStream", "MultiStream", "Server", "Offline")}
DATATYPES = {"float32": "FP32", "float16": "FP16", "int64": "INT64", "int32": "INT32", "uint8": "UINT8"}


class Samples:
    def __init__(self, file):
        self.arrays = dict(numpy.load(file))
        self.count = len(next(iter(self.arrays.values())))

    def rows(self, indices):
        return {name: values[indices] for name, values in self.arrays.items()}


class Answers:
    """Hands answers to LoadGen: the class of each sample, kept until it was copied."""

    @staticmethod
    def complete(ids, outputs):
        best = numpy.ascontiguousarray(outputs.reshape(len(ids), -1).argmax(axis=1).astype(numpy.int64))
        loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample, best.ctypes.data + 8 * place, 8)
                                      for place, sample in enumerate(ids)])


class SessionSystem:
    """One session on a thread of its own, which takes what waits, up to a batch."""

    def __init__(self, options, samples):
        try:
            import lathe
        except ImportError:
            sys.exit("--system session needs the Python package lathe; --system triton does not")
        self.samples = samples
        self.session = lathe.Engine.load(options.engine).session()
        self.batch = options.batch
        self.waiting = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def issue(self, queries):
        for query in queries:
            self.waiting.put((query.id, query.index))

    def serve(self):
        while True:
            taken = [self.waiting.get()]
            while len(taken) < self.batch and not self.waiting.empty():
                taken.append(self.waiting.get())
            if None in taken:
                return
            ids, indices = zip(*taken)
            outputs = self.session.run(self.samples.rows(list(indices)))
            Answers.complete(ids, outputs if isinstance(outputs, numpy.ndarray) else next(iter(outputs.values())))

    def close(self):
        self.waiting.put(None)
        self.thread.join()

    def about(self):
        return {"system": "session", "batch": self.batch}


class TritonSystem:
    """Lathe's backend in a Triton server on this machine, asked by gRPC; requests in flight are limited."""

    def __init__(self, options, samples):
        import tritonclient.grpc as grpc
        from server import Server

        self.grpc, self.samples, self.batch = grpc, samples, options.batch
        repository = options.output / "repo"
        told = subprocess.run([options.lathe, "deploy", "triton", options.engine, "--name", "m", "-o", repository,
                               "--backend", "lathe", "--json", *(["--from", options.bench] if options.bench else [])],
                              check=True, stdout=subprocess.PIPE, text=True).stdout
        self.deployed = json.loads(told)
        self.server = Server(repository, self.deployed["backend_directory"]).__enter__()
        self.client = grpc.InferenceServerClient(self.server.grpc)
        self.room = threading.Semaphore(options.in_flight)
        self.failures = []
        config = self.client.get_model_config("m", as_json=True)["config"]
        self.output = config["output"][0]["name"]

    def issue(self, queries):
        # A request takes as many samples as came together, MultiStream's and Offline's many.
        for first in range(0, len(queries), self.batch):
            part = queries[first : first + self.batch]
            ids = [query.id for query in part]
            inputs = []
            for name, array in self.samples.rows([query.index for query in part]).items():
                inputs.append(self.grpc.InferInput(name, list(array.shape), DATATYPES[str(array.dtype)]))
                inputs[-1].set_data_from_numpy(array)
            self.room.acquire()
            self.client.async_infer("m", inputs, lambda result, error, ids=ids: self.answered(ids, result, error),
                                    outputs=[self.grpc.InferRequestedOutput(self.output)])

    def answered(self, ids, result, error):
        self.room.release()
        if error:  # LoadGen waits for each answer: one that does not come would hold it for ever
            self.failures.append(str(error))
            Answers.complete(ids, numpy.zeros((len(ids), 1)))
            return
        Answers.complete(ids, result.as_numpy(self.output))

    def close(self):
        self.client.close()
        self.server.stop()
        if self.failures:
            sys.exit(f"{len(self.failures)} requests failed; the first: {self.failures[0]}")

    def about(self):
        model = self.deployed["models"][0]
        return {"system": "triton", "batch": self.batch, "instances": model["instances"],
                "max_batch_size": model["max_batch_size"],
                "max_queue_delay_microseconds": model["max_queue_delay_microseconds"]}


def settings_of(options):
    settings = loadgen.TestSettings()
    settings.scenario = SCENARIOS[options.scenario]
    accuracy = options.mode == "accuracy"
    settings.mode = loadgen.TestMode.AccuracyOnly if accuracy else loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = 1000 * options.seconds
    settings.max_duration_ms = 0
    settings.min_query_count = options.queries
    latency_ns = int(1e6 * options.latency_ms)
    settings.single_stream_expected_latency_ns = max(1, int(1e9 / options.qps))
    settings.multi_stream_expected_latency_ns = max(1, int(8e9 / options.qps))
    settings.multi_stream_samples_per_query = 8
    settings.server_target_qps = options.qps
    settings.server_target_latency_ns = latency_ns
    settings.server_target_latency_percentile = 0.99
    settings.offline_expected_qps = options.qps
    return settings


def run(options, samples, system):
    log = loadgen.LogSettings()
    log.log_output.outdir = str(options.output)
    log.enable_trace = False
    queries = loadgen.ConstructQSL(samples.count, samples.count, lambda _: None, lambda _: None)
    under_test = loadgen.ConstructSUT(system.issue, lambda: None)
    try:
        loadgen.StartTestWithLogSettings(under_test, queries, settings_of(options), log)
    finally:
        loadgen.DestroySUT(under_test)
        loadgen.DestroyQSL(queries)


def figures(text):
    """LoadGen's summary as names and numbers; its verdict as it stands there."""
    found = {}
    for name, value in re.findall(r"^\s*([\w/.% ()-]+?)\s*: (.+)$", text, re.MULTILINE):
        value = value.strip()
        found[name] = float(value) if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", value) else value
    return found


def accuracy(folder, labels):
    rows = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    best = {row["qsl_idx"]: int(numpy.frombuffer(bytes.fromhex(row["data"]), numpy.int64)[0]) for row in rows}
    hits = sum(best[index] == label for index, label in enumerate(labels))
    return {"samples": len(labels), "answered": len(best), "top1": hits / len(labels)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", type=pathlib.Path)
    parser.add_argument("--samples", type=pathlib.Path, required=True)
    parser.add_argument("--labels", type=pathlib.Path)
    parser.add_argument("--system", choices=["session", "triton"], default="triton")
    parser.add_argument("--scenario", choices=list(SCENARIOS), default="SingleStream")
    parser.add_argument("--mode", choices=["performance", "accuracy"], default="performance")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--queries", type=int, default=100, help="the least number of queries")
    parser.add_argument("--qps", type=float, default=50, help="Server: arrivals a second; else what is expected")
    parser.add_argument("--latency-ms", type=float, default=30, help="Server: the 99th percentile's bound")
    parser.add_argument("--batch", type=int, default=8, help="samples that a request or a run takes at most")
    parser.add_argument("--in-flight", type=int, default=32, help="Triton: requests at once")
    parser.add_argument("--bench", type=pathlib.Path, help="lathe bench's results, by which Triton is sized")
    parser.add_argument("--lathe", default=os.environ.get("LATHE", "lathe"))
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if options.mode == "accuracy" and options.labels is None:
        parser.error("--mode accuracy needs --labels")
    options.output.mkdir(parents=True, exist_ok=True)
    samples = Samples(options.samples)
    system = (SessionSystem if options.system == "session" else TritonSystem)(options, samples)
    try:
        run(options, samples, system)
    finally:
        system.close()
    text = (options.output / "mlperf_log_summary.txt").read_text()
    summary = {"kind": "mlperf", "version": 1, "engine": options.engine.name, "scenario": options.scenario,
               "mode": options.mode, **system.about()}
    if options.mode == "accuracy":
        summary["accuracy"] = accuracy(options.output, numpy.load(options.labels))
        valid = summary["accuracy"]["answered"] == samples.count
    else:
        summary["figures"] = figures(text)
        valid = summary["figures"].get("Result is") == "VALID"
    summary["valid"] = valid
    (options.output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
    return 0 if valid else 1


if __name__ == "__main__":
    sys.exit(main())
