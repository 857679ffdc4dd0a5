"""Lathe's engines in a real Triton server on a GPU: whether the answers are right, and how many a second.

    LATHE_TRITON_SERVER=.../tritonserver python3 benchmarks/gpu/serve.py --lathe build/bin/lathe --work /tmp/serve \
        --output serve.json [--device cpu --small --networks resnet50]

For each network: seeded random weights are exported by PyTorch, built in FP16, timed by `lathe bench` (inputs in the
device's memory, and in the host's), deployed by `lathe deploy triton --from` that measurement, and served. Then

* answers equal `lathe run`'s bit by bit over HTTP and gRPC, with tensors in the message, in the system's shared memory and
  in CUDA's; 32 clients at once get each its own; bad requests are refused with their cause; new versions under load lose
  none (tests/triton/check_device.py);
* http_load, a native client in a closed loop, sends requests of one and of several samples over 16 to 256 connections until
  more of them bring nothing: the throughput at saturation, with the server's own times by stage, and the processors that
  server and client took.

BERT-base takes 128 tokens as int64. ResNet-50 takes pictures of 224x224 as uint8, as they are; its limit is the lower of the
device-input throughput and of what the bus copies (page-locked memory, measured here).

What fails is kept with its words, the rest is done. The time is bounded by --seconds. Needs PyTorch, onnx, torchvision,
NumPy, Pillow; gRPC is left out, and told so, without Triton's client.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "tests" / "triton")]
import numpy as np
import provenance

SEED = 21
WANTED = {"bert_base": 0.85, "resnet50": 0.90}
COUNT = 24  # samples of each network
BEGIN = time.monotonic()


def log(*words):
    print(f"{time.monotonic() - BEGIN:6.1f} s", *words, flush=True)


def run(command, limit=300):
    """Standard output; RuntimeError with the end of what it said."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(str(command[0])).name} {command[1]} ended with {done.returncode}: "
                           f"{(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


# --- networks --------------------------------------------------------------------------------------------------------


def export_bert(file, small):
    import torch

    from gpu import bert

    class Pooled(torch.nn.Module):
        """A classifier's part of it: one row a sample."""

        def __init__(self):
            super().__init__()
            self.bert = bert.Bert(layers=2, width=128, heads=4, inner=512) if small else bert.Bert()

        def forward(self, *inputs):
            return self.bert(*inputs)[1]

    net = Pooled().eval()
    ids = torch.arange(2 * 128).reshape(2, 128) % 100
    args = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    with torch.no_grad():
        torch.onnx.export(net, args, str(file), opset_version=17, input_names=bert.INPUTS, output_names=["pooled"],
                          dynamic_axes={name: {0: "batch"} for name in (*bert.INPUTS, "pooled")}, dynamo=False)


PREPROCESS = {"resize": [224, 224], "interpolation": "bilinear", "scale": 1 / 255, "mean": [0.485, 0.456, 0.406],
              "std": [0.229, 0.224, 0.225], "layout": "NCHW", "color": "RGB"}


def export_resnet(file, small):
    import onnx
    import torch
    import torchvision

    from gpu.zoo_networks import settled

    torch.manual_seed(SEED)
    net = torchvision.models.get_model("resnet18" if small else "resnet50", weights=None)
    net = settled(net, [torch.randn(8, 3, 224, 224)])
    with torch.no_grad():
        torch.onnx.export(net, (torch.randn(2, 3, 224, 224),), str(file), opset_version=17, input_names=["input"],
                          output_names=["scores"], dynamic_axes={"input": {0: "batch"}, "scores": {0: "batch"}}, dynamo=False)
    model = onnx.load(str(file))
    model.metadata_props.add(key="lathe.preprocess", value=json.dumps(PREPROCESS))
    onnx.save(model, str(file))


def bert_samples():
    random = np.random.default_rng(SEED)
    lengths = random.integers(64, 129, COUNT)
    mask = (np.arange(128) < lengths[:, None]).astype(np.int64)
    return {"input_ids": random.integers(5, 30000, (COUNT, 128)) * mask, "attention_mask": mask,
            "token_type_ids": np.zeros((COUNT, 128), np.int64)}


def pictures():
    """Blobs at several scales: different classes, and what a picture's pixels are like."""
    from PIL import Image

    random = np.random.default_rng(SEED)
    made = []
    for _ in range(COUNT):
        sum_ = np.zeros((224, 224, 3), np.float32)
        for size, weight in ((3, 1.0), (9, 0.7), (28, 0.4), (112, 0.2)):
            noise = Image.fromarray((255 * random.random((size, size, 3))).astype(np.uint8))
            sum_ += weight * np.asarray(noise.resize((224, 224), Image.Resampling.BICUBIC), np.float32)
        made.append(np.clip(sum_ / 2.3, 0, 255).astype(np.uint8))
    return np.stack(made)


class Network:
    """`option` is what `lathe deploy triton` is told beside the usual."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.work = Path(options.work) / name
        self.work.mkdir(parents=True, exist_ok=True)
        self.model, self.engine = self.work / f"{name}.onnx", self.work / f"{name}.engine"
        largest = options.batches[-1]
        self.is_bert = name == "bert_base"
        if self.is_bert:
            self.shapes = [f"{key}:1x128..{largest}x128..{largest}x128" for key in ("input_ids", "attention_mask", "token_type_ids")]
            self.several, self.deploy_options = min(8, largest), []
        else:
            self.shapes = [f"input:1x3x224x224..{largest}x3x224x224..{largest}x3x224x224"]
            self.several, self.deploy_options = min(8, largest), ["--pixels"]

    def export(self):
        if not self.model.exists():
            run([sys.executable, __file__, "--export", self.name, "--work", self.options.work,
                 *(["--small"] if self.options.small else [])])

    def build(self):
        begin = time.monotonic()
        command = [self.options.lathe, "build", self.model, "--device", self.options.device, "-o", self.engine, "--json"]
        if self.options.device == "cuda":
            command += ["--precision", "fp16", "--tune", self.options.tune, "--timing-cache", self.work / "timing"]
        run(command + [word for shape in self.shapes for word in ("--shape", shape)])
        return round(time.monotonic() - begin, 1)

    def bench(self, name):
        """Samples a second by where the inputs are and by batch size."""
        file = self.work / f"{name}.bench.json"
        run([self.options.lathe, "bench", self.engine, "--batch-sizes", ",".join(map(str, self.options.batches)), "--duration",
             str(self.options.bench_seconds), "--time-limit", "0.5", "--output", file])
        document = json.loads(file.read_text())
        found = {}
        for row in document["throughput"]:
            place = row["inputs"] if self.options.device == "cuda" else "host"
            found.setdefault(place, {})[str(row["batch"])] = round(row["samples_per_second"], 1)
        return file, found

    def deploy(self, bench):
        told = run([self.options.lathe, "deploy", "triton", self.engine, "--name", self.name, "--backend", "lathe", "--from", bench,
                    "-o", self.options.repository, "--json", *self.deploy_options])
        document = json.loads(told)
        return document["backend_directory"], document["models"][0]

    def served(self):
        from check_device import Served

        if self.is_bert:
            return Served.of(self.name, bert_samples(), self.options.lathe, self.engine, self.work)
        from PIL import Image

        pixels = pictures()
        files = [self.work / f"{place:03}.png" for place in range(COUNT)]
        for file, picture in zip(files, pixels):
            Image.fromarray(picture).save(file)
        return Served.of(self.name, {"input": pixels}, self.options.lathe, self.engine, self.work, given=files)


# --- measurement -----------------------------------------------------------------------------------------------------


def bus_bytes_per_second():
    """What a copy from page-locked memory to the GPU moves; None without PyTorch for CUDA."""
    import torch

    if not torch.cuda.is_available():
        return None
    host = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    best = 0.0
    for _ in range(4):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(4):
            there.copy_(host, non_blocking=True)
        torch.cuda.synchronize()
        best = max(best, 4 * host.numel() / (time.perf_counter() - begin))
    return best


def processor_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Load:
    """http_load on one model: requests as files, each with the answer that is expected."""

    def __init__(self, options, server, served, work):
        self.options, self.server, self.served, self.work = options, server, served, work
        self.program = options.load
        work.mkdir(parents=True, exist_ok=True)

    def requests(self, samples, kind):
        """Files of requests of so many samples; `kind`: where inputs and outputs lie, None: in the message. Returns the
        files and the regions, which are closed afterwards."""
        from check_device import Regions
        from plain_client import Client, request_bytes

        client = Client(self.server.http)
        files, regions = [], []
        for place in range(0, self.served.count - samples + 1, samples):
            arrays, wanted = self.served.rows(place, samples), self.served.wanted(place, samples)
            file, expected = self.work / f"{samples}.{place}.request", self.work / f"{samples}.{place}.expected"
            options = {}
            if kind:
                regions.append(Regions(client, lambda name, size, place=place: kind(f"load-{samples}-{place}-{name}", size), arrays,
                                       wanted))
                options = {"given": regions[-1].given, "wanted": regions[-1].wanted}
            file.write_bytes(request_bytes(self.served.name, arrays, wanted, **options))
            expected.write_bytes(b"".join(values.astype(np.float32).tobytes() for values in wanted.values()))
            files.append(f"{file}" if kind else f"{file}={expected}")
        return files, regions, client

    def once(self, files, connections, seconds):
        from plain_client import Client

        server = self.server.process.pid
        with Client(self.server.http) as client:
            before, begin = client.statistics(self.served.name)[-1], time.monotonic()
            processor = processor_seconds(server)
            own = os.times()
            done = subprocess.run([self.program, str(self.server.ports[0]), str(connections), str(self.options.load_threads),
                                   "0.5", str(seconds), *files], capture_output=True, text=True, timeout=seconds + 60, check=False)
            if not done.stdout.startswith("{"):
                raise RuntimeError(f"http_load ended with {done.returncode}: {done.stderr[-500:]}")
            row = json.loads(done.stdout)
            if row["refused"] or row["wrong"] or row["missing"]:
                raise RuntimeError(f"of {row['all']} requests {row['refused']} were refused, {row['wrong']} answered wrongly, "
                                   f"{row['missing']} not answered: {row['first_refusal']}")
            took = time.monotonic() - begin
            after = client.statistics(self.served.name)[-1]
        children = os.times()
        row["server_processors"] = round((processor_seconds(server) - processor) / took, 2)
        row["client_processors"] = round((children.children_user + children.children_system - own.children_user -
                                          own.children_system) / took, 2)
        runs = after["execution_count"] - before["execution_count"]
        if runs > 0:
            row["samples_a_run"] = round((after["inference_count"] - before["inference_count"]) / runs, 1)
        counted = after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"]
        for stage in ("queue", "compute_input", "compute_infer", "compute_output"):
            spent = after["inference_stats"][stage]["ns"] - before["inference_stats"][stage]["ns"]
            row[f"{stage}_us"] = round(spent / 1000 / max(1, counted), 1)
        return row

    def saturate(self, samples, kind, seconds):
        """More connections until they bring nothing; then measured again, longer."""
        files, regions, client = self.requests(samples, kind)
        try:
            rows = []
            for connections in self.options.connections:
                rows.append(self.once(files, connections, seconds / 3))
                log(f"  {self.served.name}: {samples} samples, {kind.__name__ if kind else 'in the message'}, {connections} "
                    f"connections: {rows[-1]['requests_per_second'] * samples:.0f} samples/s, "
                    f"{rows[-1].get('samples_a_run')} a run, server {rows[-1]['server_processors']} and client "
                    f"{rows[-1]['client_processors']} processors")
                if len(rows) > 1 and rows[-1]["requests_per_second"] < 1.02 * max(r["requests_per_second"] for r in rows[:-1]):
                    break
            best = max(rows, key=lambda row: row["requests_per_second"])
            row = self.once(files, best["connections"], seconds)
            row |= {"samples": samples, "tensors": kind.__name__ if kind else "message",
                    "samples_per_second": round(row["requests_per_second"] * samples, 1),
                    "tried": {str(r["connections"]): round(r["requests_per_second"] * samples, 1) for r in rows}}
            return row
        finally:
            for region in regions:
                region.__exit__()
            client.__exit__()


class Run:
    """All of it; what fails is kept in `document`, which is written after every step."""

    def __init__(self, options):
        self.options = options
        self.document = {"kind": "gpu-serving", "version": 1, "device": options.device, "small": options.small, "networks": {},
                         "failures": []}
        self.end = BEGIN + options.seconds

    def left(self):
        return self.end - time.monotonic()

    def keep(self):
        new = Path(f"{self.options.output}.new")
        new.write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")
        os.replace(new, self.options.output)

    def step(self, name, work, row=None, key=None):
        """Runs it; the result goes into row[key]. None if it failed."""
        if self.left() < 10:
            self.document["failures"].append({"step": name, "words": "no time was left for it"})
            return None
        try:
            result = work()
        except Exception as failure:  # kept, and the others go on
            words = "".join(traceback.format_exception(failure))[-3000:]
            self.document["failures"].append({"step": name, "words": words})
            log(name, "FAILED:", words[-1200:])
            self.keep()
            return None
        if row is not None:
            row[key or name] = result
        log(name, json.dumps(result)[:700] if isinstance(result, (dict, list, int, float, str)) else "done")
        self.keep()
        return result

    def all(self):
        from check_device import answers, bad_requests, crowd, replaced
        from plain_client import CudaShared, Shared
        from server import Server

        options = self.options
        networks = [Network(name, options) for name in options.networks]
        with ThreadPoolExecutor() as pool:
            exports = [pool.submit(network.export) for network in networks]
            if options.device == "cuda":
                self.step("bus", bus_bytes_per_second, self.document, "bus_bytes_per_second")
            exported = [self.step(f"{network.name}: export", lambda future=future: future.result() or "done")
                        for network, future in zip(networks, exports)]
        ready, backends = [], None
        for network, done in zip(networks, exported):
            if done is None:
                continue
            row = self.document["networks"].setdefault(network.name, {})
            if self.step(f"{network.name}: build", network.build, row, "build_seconds") is None:
                continue
            benched = self.step(f"{network.name}: bench", lambda network=network: network.bench("before"))
            if benched is None:
                continue
            row["bench"] = benched[1]
            log(network.name, benched[1])
            deployed = self.step(f"{network.name}: deploy", lambda network=network, file=benched[0]: network.deploy(file))
            served = deployed and self.step(f"{network.name}: lathe run", network.served)
            if not served:
                continue
            backends, row["deployed"] = deployed
            network.several = min(network.several, row["deployed"]["max_batch_size"])
            ready.append((network, row, served))
        if not ready:
            return
        gpu = options.device == "cuda"
        kinds = (Shared, CudaShared) if gpu and options.cuda_shared else (Shared,)
        server = Server(options.repository, backends, "--model-control-mode=explicit", "--load-model=*",
                        f"--http-thread-count={options.http_threads}", "--allow-gpu-metrics=false", patience=150)
        try:
            if self.step("server", lambda: server.__enter__() and "ready") is None:
                return
            for network, row, served in ready:
                self.step(f"{network.name}: answers", lambda served=served: answers(server, served, kinds), row, "answers")
                self.step(f"{network.name}: crowd", lambda served=served: crowd(server, served, kinds), row, "crowd")
                self.step(f"{network.name}: bad requests", lambda served=served: bad_requests(server, served, kinds), row,
                          "bad_requests")
            for network, row, served in ready:
                load = Load(options, server, served, network.work / "load")
                rows = row.setdefault("load", [])
                for samples in sorted({network.several, 1}, reverse=True):
                    for kind in (None, *kinds):
                        name = f"{network.name}: load of {samples}, {kind.__name__ if kind else 'message'}"
                        measured = self.step(name, lambda load=load, samples=samples, kind=kind:
                                             load.saturate(samples, kind, options.load_seconds))
                        if measured:
                            rows.append(measured)
                            self.judge(network, row)
            for network, row, served in ready:
                self.step(f"{network.name}: new versions under load",
                          lambda served=served: replaced(server, served, Path(options.repository)), row, "replaced")
        finally:
            server.stop()
            code = getattr(server, "code", None)
            self.document["server"] = {"exit_code": code}
            log("server ended with", code, "" if code == 0 else server.text()[-3000:])
            self.keep()
        for network, row, _ in ready:
            again = self.step(f"{network.name}: bench after", lambda network=network: network.bench("after"))
            if again:
                row["bench_after"] = again[1]
                self.judge(network, row)

    def judge(self, network, row):
        """Loads against what the engine does with inputs in the device's memory, or the bus, whichever is less."""
        place = "device" if self.options.device == "cuda" else "host"
        engine = max(rate for bench in (row["bench"], row.get("bench_after", {})) for rate in bench.get(place, {}).values())
        limits = {"engine": engine}
        if not network.is_bert and self.document.get("bus_bytes_per_second"):
            limits["bus"] = self.document["bus_bytes_per_second"] / (224 * 224 * 3)
        limit = min(limits.values())
        row["limits_samples_per_second"] = limits
        row["shares"] = {}
        for each in row["load"]:
            share = round(each["samples_per_second"] / limit, 4)
            row["shares"][each["tensors"]] = max(share, row["shares"].get(each["tensors"], 0))
        row["wanted_share"] = WANTED[network.name]
        row["holds"] = row["shares"].get("message", 0) >= row["wanted_share"]
        log(f"{network.name}: of {limit:.0f} samples/s", row["shares"], f"(wanted {row['wanted_share']:.0%} with tensors in the message)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe")
    parser.add_argument("--work", default="/tmp/lathe-serve")
    parser.add_argument("--output", default="serve.json")
    parser.add_argument("--networks", default="bert_base,resnet50", type=lambda text: text.split(","))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="fewer layers, to try the script")
    parser.add_argument("--batches", default="1,8,32,64", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--tune", default="default")
    parser.add_argument("--seconds", type=float, default=500, help="for all of it")
    parser.add_argument("--bench-seconds", type=float, default=1.5)
    parser.add_argument("--load-seconds", type=float, default=4)
    parser.add_argument("--load", help="the program http_load; else it is compiled into --work")
    parser.add_argument("--load-threads", type=int, default=4)
    parser.add_argument("--http-threads", type=int, default=16)
    parser.add_argument("--connections", default="32,64,128,256", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--no-cuda-shared", dest="cuda_shared", action="store_false")
    parser.add_argument("--export", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.export:
        file = Path(options.work) / options.export / f"{options.export}.onnx"
        {"bert_base": export_bert, "resnet50": export_resnet}[options.export](file.with_suffix(".new.onnx"), options.small)
        os.replace(file.with_suffix(".new.onnx"), file)
        return 0
    if not options.lathe:
        print("--lathe is missing: the program", file=sys.stderr)
        return 2
    if not os.environ.get("LATHE_TRITON_SERVER"):
        print("SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set")
        return 77
    Path(options.work).mkdir(parents=True, exist_ok=True)
    options.repository = str(Path(options.work) / "repo")
    if not options.load:
        options.load = str(Path(options.work) / "http_load")
        run(["c++", "-std=c++20", "-O2", "-pthread", BENCHMARKS / "http_load.cpp", "-o", options.load])
    whole = Run(options)
    provenance.stamp(whole.document, options.lathe, [])
    if options.device == "cuda":
        from gpu.machine import machine

        whole.document["machine"] = machine("cuda")
    try:
        whole.all()
    finally:
        # Its models were made here; their digests say that another run's are the same.
        whole.document = provenance.stamp(whole.document, options.lathe, [
            file for name in options.networks if (file := Path(options.work) / name / f"{name}.onnx").exists()])
        whole.document["seconds"] = round(time.monotonic() - BEGIN, 1)
        whole.keep()
    held = [row.get("holds") for row in whole.document["networks"].values()]
    log("failures:", len(whole.document["failures"]), "goals held:", held)
    return 1 if whole.document["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
