"""Lathe's engines on an NVIDIA GPU beside PyTorch on the same GPU, in turns, and whether their numbers are right.

    python3 benchmarks/run_gpu.py resnet50 --lathe build/bin/lathe --models FOLDER --work /tmp/gpu \
        --output benchmarks/results/resnet50.gpu.json

FOLDER holds NETWORK.int8.onnx (explicit Q/DQ, of `lathe quantize --target cuda`) and, if the float model is not to be
the int8 one with its weights dequantised, NETWORK.onnx. The encoders bert_base and minilm need no file: they get seeded
random weights (bert_base.int8.onnx adds INT8: benchmarks/gpu/bert.py says how to make it). Needs PyTorch with CUDA, onnx and NumPy. From the results benchmarks/make_tables.py makes the README's
table of GPUs.

How it is measured. Lathe serves from a process of its own. A round lets every subject run some calls, the next round
in the other order; between a subject's calls nothing else runs. A call on either side is: inputs copied from pinned
memory, an event, a CUDA graph, an event, outputs copied back. The time between the events is the device's; Lathe's
holds the conversion of float32 NCHW inputs, PyTorch gets fp16 channels-last inputs ready. A ratio is PyTorch's median
of a round over Lathe's of the same round; of these the median and its 95 % interval (order statistics) are given.
PyTorch: "eager-fp32" without TF32, "eager-fp16" channels-last, "compile-fp16" torch.compile for that very shape
(channels-last; "max-autotune" beside, if asked). All of them as CUDA graphs, cuDNN's search on.
"""

import argparse
import json
import math
import os
import platform
import queue
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))

NETWORKS = {
    "resnet50": {"title": "ResNet-50", "sizes": [1, 8, 32], "precisions": ["fp16", "int8"], "large": [64, 128, 256]},
    "lite0": {"title": "EfficientNet-Lite0", "sizes": [1, 32], "precisions": ["fp16", "int8"]},
    "mobilenet_v1": {"title": "MobileNetV1 0.75", "sizes": [1, 32], "precisions": ["fp16", "int8"]},
    "bert_base": {
        "title": "BERT-base",
        "sizes": [(1, 128), (8, 128), (32, 128), (1, 384), (32, 384)],
        "precisions": ["fp16", "int8"],
        "layers": {"width": 768, "heads": 12, "inner": 3072, "layers": 12},
    },
    "minilm": {
        "title": "MiniLM-L6",
        "sizes": [(1, 128), (8, 128), (32, 128), (1, 384), (32, 384)],
        "precisions": ["fp16"],
        "layers": {"width": 384, "heads": 12, "inner": 1536, "layers": 6},
    },
}
ROUNDS = 15


def log(*words):
    print(*words, flush=True)


def query_gpu(fields):
    """What nvidia-smi says of the first GPU, by field."""
    try:
        text = subprocess.run(
            ["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=20, check=True,
        ).stdout
        return dict(zip(fields, (value.strip() for value in text.splitlines()[0].split(","))))
    except (OSError, subprocess.SubprocessError, IndexError):
        return {}


def clocks():
    """Now, and what holds them back."""
    return query_gpu(["clocks.sm", "clocks.mem", "clocks_event_reasons.active", "temperature.gpu", "power.draw"])


def machine(device):
    """What the figures were taken on."""
    cpu = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    virtual = "hypervisor" in Path("/proc/cpuinfo").read_text()
    found = {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "virtual_machine": virtual}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {
            "gpu": properties.name,
            "multiprocessors": properties.multi_processor_count,
            "gpu_memory_bytes": properties.total_memory,
            "driver": query_gpu(["driver_version"]).get("driver_version", "unknown"),
            "clocks_max": query_gpu(["clocks.max.sm", "clocks.max.mem"]),
        }
    return found


def median_interval(values):
    """Median and the order statistics that hold it with 95 %."""
    values = sorted(values)
    count = len(values)
    total, k = 0.0, 0
    while k < count // 2:
        total += math.comb(count, k) / 2**count
        if total > 0.025:
            break
        k += 1
    k = max(0, k - 1) if k else 0
    return float(np.median(values)), values[k], values[count - 1 - k]


class Turns:
    """A process of Lathe's that runs an engine when asked."""

    def __init__(self, lathe, engine, log_file):
        self.errors = open(log_file, "ab")
        self.process = subprocess.Popen(
            [lathe, "bench", "--turns", str(engine)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, limit=120, **request):
        """One request, its answer; raises RuntimeError with Lathe's own words."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            self.process.kill()
            raise RuntimeError(f"no answer within {limit} s") from None
        if not line:
            raise RuntimeError(f"the process ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
        self.errors.close()


class TorchGraph:
    """A PyTorch module on fixed inputs, as a CUDA graph with the copies around it."""

    def __init__(self, module, inputs, device, channels_last):
        self.device = device
        self.module = module  # the graph reads its weights where they lie
        with torch.no_grad():
            self.host = [tensor.pin_memory() if device == "cuda" else tensor for tensor in inputs]
            self.fixed = [tensor.to(device) for tensor in self.host]
            if channels_last:
                self.fixed = [
                    t.to(memory_format=torch.channels_last) if t.dim() == 4 else t for t in self.fixed
                ]
                self.host = [t.cpu().pin_memory() if device == "cuda" else t for t in self.fixed]
            if device != "cuda":
                self.outputs = flat(module(*self.fixed))
                return
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(4):
                    module(*self.fixed)
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.outputs = flat(module(*self.fixed))
            self.back = [torch.empty_like(t, device="cpu").pin_memory() for t in self.outputs]
            self.start, self.stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def burst(self, calls, warm):
        """Milliseconds between the events of each call."""
        times = []
        for i in range(warm + calls):
            if self.device != "cuda":
                start = time.perf_counter()
                with torch.no_grad():
                    self.module(*self.fixed)
                took = 1e3 * (time.perf_counter() - start)
            else:
                for to, source in zip(self.fixed, self.host):
                    to.copy_(source, non_blocking=True)
                self.start.record()
                self.graph.replay()
                self.stop.record()
                for to, source in zip(self.back, self.outputs):
                    to.copy_(source, non_blocking=True)
                torch.cuda.synchronize()
                took = self.start.elapsed_time(self.stop)
            if i >= warm:
                times.append(took)
        return times


def flat(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def pictures(count, seed=7):
    """Normalised pictures of random blobs at several scales: activations as of photos, different classes."""
    generator = np.random.default_rng(seed)
    x = torch.zeros(count, 3, 224, 224)
    for size, weight in ((4, 1.0), (9, 0.8), (28, 0.5), (112, 0.25)):
        noise = torch.from_numpy(generator.standard_normal([count, 3, size, size]).astype(np.float32))
        x += weight * F.interpolate(noise, size=(224, 224), mode="bicubic", align_corners=False)
    return x.clamp(-2.1, 2.6)


class Network:
    """Files, modules and inputs of a network."""

    def __init__(self, name, options):
        self.name, self.spec, self.options = name, NETWORKS[name], options
        self.work = Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        if "layers" in self.spec:
            self.make_encoder()
        else:
            self.make_convolution()

    def make_encoder(self):
        from gpu import bert

        self.bert = bert
        self.net = bert.Bert(**self.spec["layers"]).eval()
        self.files = {"fp16": self.work / f"{self.name}.onnx"}
        self.input_names = bert.INPUTS
        self.outputs = ["hidden", "pooled"]
        if not self.files["fp16"].exists():
            try:
                bert.export(self.net, self.files["fp16"])
            except Exception as error:
                log("tracing export failed, the newer exporter instead:", error)
                bert.export(self.net, self.files["fp16"], dynamo=True)
        int8 = Path(self.options.models) / f"{self.name}.int8.onnx"
        if int8.exists():
            import onnx

            self.files["int8"] = int8
            self.quantised = bert.quantised(self.net, onnx.load(int8))
        else:
            self.spec = self.spec | {"precisions": [p for p in self.spec["precisions"] if p != "int8"]}

    def make_convolution(self):
        import onnx
        from gpu.onnx_module import OnnxModule, float_model

        models = Path(self.options.models)
        quantised = onnx.load(models / f"{self.name}.int8.onnx")
        given = models / f"{self.name}.onnx"
        single = onnx.load(given) if given.exists() else float_model(quantised)
        self.files = {"int8": models / f"{self.name}.int8.onnx", "fp16": self.work / f"{self.name}.onnx"}
        onnx.save(single, self.files["fp16"])
        self.files["fp32"] = self.files["fp16"]
        self.net, self.quantised = OnnxModule(single).eval(), OnnxModule(quantised).eval()
        self.input_names = [self.net.input_name]

    def shape_of(self, size):
        """Of the inputs, for a batch size or (batch, sequence)."""
        return size if isinstance(size, tuple) else (size, 3, 224, 224)

    def label(self, size):
        return "x".join(map(str, size)) if isinstance(size, tuple) else str(size)

    def inputs(self, size):
        if isinstance(size, tuple):
            return list(self.bert.inputs(*size))
        return [pictures(size, seed=7 + size)]

    def module(self, dtype, device, quantised=False):
        """A copy of the module in another type."""
        import copy

        return copy.deepcopy(self.quantised if quantised else self.net).to(device, dtype)

    def reference(self, size, quantised):
        """Outputs in double precision."""
        module = self.module(torch.float64, self.options.device, quantised)
        with torch.no_grad():
            x = [t.to(self.options.device) for t in self.inputs(size)]
            x = [t.double() if t.is_floating_point() else t for t in x]
            return [t.cpu().numpy() for t in flat(module(*x))]

    def profiles(self, sizes):
        """--shape for the sizes: one range for batches, one for each sequence length."""
        groups = {}
        for size in sizes:
            groups.setdefault(self.shape_of(size)[1:], []).append(size)
        arguments = []
        for group in groups.values():
            least, usual, most = group[0], group[len(group) // 2], group[-1]
            if len(group) == 2:
                usual = most
            shapes = ["x".join(map(str, self.shape_of(size))) for size in (least, usual, most)]
            text = shapes[0] if len(group) == 1 else "..".join(shapes)
            for name in self.input_names:
                arguments += ["--shape", f"{name}:{text}"]
        return arguments


def agreement(got, want):
    """Relative error in the 2-norm, largest error, and for scores the share of equal winners."""
    found = {
        "relative": float(np.linalg.norm(got - want) / np.linalg.norm(want)),
        "most": float(np.abs(got - want).max()),
        "largest_value": float(np.abs(want).max()),
    }
    if want.ndim == 2 and want.shape[1] > 100:
        found["same_winner"] = float((got.argmax(1) == want.argmax(1)).mean())
    return found


class Run:
    """Everything about one network."""

    def __init__(self, network, options):
        self.network, self.options, self.device = network, options, options.device
        self.work = network.work
        self.references = {}
        self.document = {
            "kind": "gpu", "version": 1, "network": network.spec["title"], "machine": machine(options.device),
            "libraries": {"torch": torch.__version__}, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": "turns of calls, device times between events, CUDA graphs on both sides; see benchmarks/run_gpu.py",
            "clocks": {"before": clocks()}, "subjects": [], "latency": [], "ratios": [], "throughput": [],
            "accuracy": [], "problems": [],
        }
        if options.device == "cuda":
            self.document["libraries"] |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}

    def left(self):
        return self.options.deadline - time.time()

    def save(self):
        self.document["clocks"]["after"] = clocks()
        Path(self.options.output).write_text(json.dumps(self.document, indent=1) + "\n", encoding="utf-8")

    def problem(self, what, error):
        text = f"{what}: {str(error)[-1500:]}"
        log("PROBLEM", text)
        self.document["problems"].append(text)

    def build(self, name, precision, sizes, twice):
        """An engine and what building it took, first with an empty timing cache, then with the full one."""
        engine, cache = self.work / f"{self.network.name}.{name}.engine", self.work / f"{self.network.name}.{name}.timing"
        cache.unlink(missing_ok=True)
        command = [self.options.lathe, "build", str(self.network.files[precision]), "--device", self.device,
                   "--precision", precision if self.device == "cuda" else "fp32", "-o", str(engine), "--json"]
        command += self.network.profiles(sizes)
        if self.device == "cuda":
            command += ["--timing-cache", str(cache), "--tune", self.options.tune, "--explain"]
        if self.device != "cuda" and precision == "int8":
            command[command.index("fp32")] = "int8"
        row = {"name": name, "precision": precision, "profile": [self.network.label(s) for s in sizes]}
        for key in ("build_seconds", "rebuild_seconds")[: 1 + twice]:
            start = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, timeout=max(5, min(180, self.left())))
            row[key] = time.perf_counter() - start
            if done.returncode:
                raise RuntimeError(f"lathe build ended with {done.returncode}: {done.stderr[-1200:]}")
            if key == "build_seconds":
                report = json.loads(done.stdout).get("report") or {}
                (self.work / f"{self.network.name}.{name}.build.json").write_text(done.stdout)
                row |= {k: v for k, v in report.items() if k not in ("ops", "build_seconds")}
                row["kernels"] = kernels(report)
            log(name, key, f"{row[key]:.1f} s", done.stderr[-300:].strip())
        row["engine_bytes"] = engine.stat().st_size
        self.document["subjects"].append(row)
        return engine, row

    def files_of(self, size):
        """The inputs as .npy files, by name."""
        files = {}
        for name, tensor in zip(self.network.input_names, self.network.inputs(size)):
            files[name] = str(self.work / f"{self.network.name}.{self.network.label(size)}.{name}.npy")
            if not Path(files[name]).exists():
                np.save(files[name], tensor.numpy())
        return files

    def check(self, turns, name, precision, size):
        """The engine's outputs against double precision."""
        quantised = precision == "int8"
        key = (size, quantised)
        if key not in self.references:
            self.references[key] = self.network.reference(size, quantised)
        saved = self.work / "out.npz"
        turns.ask(inputs=self.files_of(size), calls=1, timed=False, save=str(saved))
        with np.load(saved) as arrays:
            got = [arrays[k] for k in arrays.files]
        against = {"fp64": self.references[key]}
        if quantised and (size, False) in self.references:
            against["fp64 float"] = self.references[size, False]  # the model before it was quantised
        for title, wanted in against.items():
            for index, want in enumerate(wanted):
                # By shape: the order of a graph's outputs is the module's.
                row = {"subject": name, "size": self.network.label(size), "output": index, "against": title}
                row |= agreement(got[index].astype(np.float64).reshape(want.shape), want)
                self.document["accuracy"].append(row)
                log("accuracy", json.dumps(row))
        return self.references[key]

    def torch_subjects(self, size):
        """PyTorch's forms of the network at one size, ready to run."""
        made = {}
        convolution = not isinstance(size, tuple)
        torch.backends.cudnn.benchmark = True
        for name in self.options.against:
            if self.left() < 20:
                self.problem(f"{name} at {self.network.label(size)}", "no time left")
                continue
            try:
                start = time.perf_counter()
                dtype = torch.float32 if name.endswith("fp32") else torch.float16
                if self.device != "cuda":
                    dtype = torch.float32
                module = self.network.module(dtype, self.device)
                if convolution and dtype == torch.float16:
                    module = module.to(memory_format=torch.channels_last)
                    for key, value in module.named_buffers():
                        if value.dim() == 4:
                            setattr(module, key, value.to(memory_format=torch.channels_last))
                if name.startswith("compile") or name == "max-autotune":
                    torch._dynamo.reset()
                    mode = "max-autotune-no-cudagraphs" if name == "max-autotune" else None
                    module = torch.compile(module, dynamic=False, mode=mode)
                inputs = [t.to(dtype) if t.is_floating_point() else t for t in self.network.inputs(size)]
                made[name] = TorchGraph(module, inputs, self.device, convolution and dtype == torch.float16)
                log(name, self.network.label(size), f"ready in {time.perf_counter() - start:.1f} s")
            except Exception:
                self.problem(f"{name} at {self.network.label(size)}", traceback.format_exc())
        return made

    def compare(self, engines, size):
        """Turns at one size: times and ratios."""
        label = self.network.label(size)
        references = self.torch_subjects(size)
        times = {name: [] for name in [*engines, *references]}
        extra = {name: {"call_ms": [], "enqueue_us": [], "copy_in_ms": [], "copy_out_ms": []} for name in engines}
        files = self.files_of(size)
        timed = self.device == "cuda"
        calls = {}
        for name, turns in engines.items():
            first = turns.ask(inputs=files, calls=5, warm=5, timed=timed)
            calls[name] = first["device_ms" if timed else "call_ms"]
        for name, graph in references.items():
            calls[name] = graph.burst(5, 5)
        # About 15 ms a burst, at least 5 calls, at most 40.
        calls = {name: int(min(40, max(5, 15 / max(1e-3, np.median(values))))) for name, values in calls.items()}
        for round_number in range(self.options.rounds):
            order = list(times)
            if round_number % 2:
                order.reverse()
            for name in order:
                if name in engines:
                    answer = engines[name].ask(calls=calls[name], warm=3, timed=timed)
                    times[name].append(float(np.median(answer["device_ms" if timed else "call_ms"])))
                    for key, values in extra[name].items():
                        values += answer.get(key, [])
                else:
                    times[name].append(float(np.median(references[name].burst(calls[name], 3))))
        whole = {}
        for name, turns in engines.items():
            whole[name] = float(np.median(turns.ask(calls=60, warm=3, timed=False)["call_ms"]))
        for name, values in times.items():
            middle, low, high = median_interval(values)
            row = {"subject": name, "size": label, "device_ms": middle, "ci95_ms": [low, high], "rounds": len(values),
                   "calls": calls[name]}
            if name in engines:
                row["call_ms"] = whole[name]
                row |= {k: float(np.median(v)) for k, v in extra[name].items() if v and k != "call_ms"}
            self.document["latency"].append(row)
            log("time", json.dumps(row))
        for name in engines:
            for reference in references:
                ratios = [b / a for a, b in zip(times[name], times[reference])]
                middle, low, high = median_interval(ratios)
                row = {"subject": name, "reference": reference, "size": label, "times_as_fast": middle,
                       "ci95": [low, high], "pairs": len(ratios)}
                self.document["ratios"].append(row)
                log("ratio", json.dumps(row))

    def open(self, engine):
        return Turns(self.options.lathe, engine, self.work / "turns.log")

    def used(self):
        """Memory in use on the whole GPU, in bytes."""
        if self.device != "cuda":
            return 0
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free

    def main(self):
        engines = {}
        try:
            for precision in self.network.spec["precisions"]:
                try:
                    engine, row = self.build(precision, precision, self.network.spec["sizes"], self.options.twice)
                    if precision == self.network.spec["precisions"][0]:
                        self.network.reference(self.network.spec["sizes"][0], False)  # PyTorch's own memory first
                    before = self.used()
                    engines[precision] = self.open(engine)
                    engines[precision].ask(inputs=self.files_of(self.network.spec["sizes"][-1]), calls=1, timed=False)
                    row["process_gpu_bytes"] = self.used() - before
                except Exception as error:
                    self.problem(f"engine {precision}", error)
                    continue
                for size in self.network.spec["sizes"]:
                    try:
                        self.check(engines[precision], precision, precision, size)
                    except Exception as error:
                        self.problem(f"accuracy of {precision} at {self.network.label(size)}", error)
                self.save()
            self.references.clear()
            if self.device == "cuda":
                torch.cuda.empty_cache()
            for size in self.network.spec["sizes"]:
                if engines and self.left() > 15:
                    try:
                        self.compare(engines, size)
                    except Exception:
                        self.problem(f"turns at {self.network.label(size)}", traceback.format_exc())
                    self.save()
            if self.options.tail:
                self.tail(engines)
            for turns in engines.values():
                turns.close()
            engines = {}
            if self.options.large and self.network.spec.get("large"):
                self.large()
        finally:
            for turns in engines.values():
                turns.close()
            self.save()

    def tail(self, engines):
        """Many calls at the smallest size."""
        size = self.network.spec["sizes"][0]
        for name, turns in engines.items():
            if self.left() < 15:
                return
            try:
                answer = turns.ask(inputs=self.files_of(size), calls=self.options.tail, warm=50, timed=self.device == "cuda")
                key = "device_ms" if self.device == "cuda" else "call_ms"
                row = {"subject": name, "size": self.network.label(size), "runs": self.options.tail}
                for part in {key, "call_ms"}:
                    p50, p90, p99, p999 = np.percentile(answer[part], [50, 90, 99, 99.9])
                    row[part] = {"median": p50, "p90": p90, "p99": p99, "p99.9": p999, "max": max(answer[part]),
                                 "p99_over_median": p99 / p50}
                self.document.setdefault("tail", []).append(row)
                log("tail", json.dumps(row))
            except Exception as error:
                self.problem(f"tail of {name}", error)
        self.save()

    def large(self):
        """Samples a second at large batches, by the device's time and with all copies."""
        sizes = self.network.spec["large"]
        for precision in self.network.spec["precisions"][::-1]:
            if self.left() < 45:
                self.problem(f"throughput of {precision}", "no time left")
                continue
            turns = None
            try:
                engine, _ = self.build(f"{precision}-large", precision, sizes, False)
                turns = self.open(engine)
                for size in sizes:
                    answer = turns.ask(inputs=self.files_of(size), calls=20, warm=3, timed=self.device == "cuda")
                    device = float(np.median(answer.get("device_ms", answer["call_ms"])))
                    row = {"subject": precision, "size": self.network.label(size), "device_ms": device,
                           "samples_per_second_device": 1e3 * size / device,
                           "samples_per_second_one_session": 1e3 * size / float(np.median(answer["call_ms"]))}
                    self.document["throughput"].append(row)
                    log("throughput", json.dumps(row))
            except Exception as error:
                self.problem(f"throughput of {precision}", error)
            finally:
                if turns:
                    turns.close()
                self.save()


def kernels(report):
    """How many operations each provider won, and the ten that take longest."""
    won, slow = {}, []
    for op in report.get("ops", []):
        for candidate in op["candidates"]:
            if candidate["chosen"]:
                provider = candidate["tactic"].split(":")[0]
                won[provider] = won.get(provider, 0) + 1
                slow.append([candidate["mixed_us"], op["shape"], op["name"], candidate["tactic"]])
    return {"won": won, "slowest": sorted(slow, key=lambda row: -row[0])[:10]}


def compile_only(network, options):
    """Fills torch.compile's cache for the comparison that follows; its GPU times are of no interest."""
    run = Run(network, options)
    options.against = [name for name in options.against if name.startswith("compile")]
    for size in network.spec["sizes"]:
        run.torch_subjects(size)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--models", default=".", help="folder with NETWORK.int8.onnx")
    parser.add_argument("--work", required=True)
    parser.add_argument("--output", help="default: WORK/NETWORK.gpu.json")
    parser.add_argument("--seconds", type=float, default=600, help="time for all; what does not fit is left out")
    parser.add_argument("--against", default="eager-fp32,eager-fp16,compile-fp16", help="also max-autotune")
    parser.add_argument("--tune", default="default", choices=["fast", "default", "full"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tail", type=int, default=0, help="so many more calls at the smallest size")
    parser.add_argument("--once", dest="twice", action="store_false", help="do not build again with the full cache")
    parser.add_argument("--large", action="store_true", help="throughput at large batches too")
    parser.add_argument("--compile-only", action="store_true", help="only fill torch.compile's cache")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    options = parser.parse_args()
    options.deadline = time.time() + options.seconds
    options.against = [name for name in options.against.split(",") if name]
    options.output = options.output or str(Path(options.work) / f"{options.network}.gpu.json")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    network = Network(options.network, options)
    if options.compile_only:
        compile_only(network, options)
        return
    Run(network, options).main()


if __name__ == "__main__":
    main()
