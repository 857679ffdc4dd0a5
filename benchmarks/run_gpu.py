"""Lathe's engines on an NVIDIA GPU beside PyTorch on the same GPU, in turns, and whether their numbers are right.

    python3 benchmarks/run_gpu.py resnet50 --lathe build/bin/lathe --models FOLDER --work /tmp/gpu \
        --output benchmarks/results/resnet50.gpu.json

FOLDER holds NETWORK.int8.onnx (explicit Q/DQ, of `lathe quantize --target cuda`) and, if the float model is not to be
the int8 one with its weights dequantised, NETWORK.onnx. The encoders bert_base and minilm get seeded random weights and
need a file for int8 alone. Needs PyTorch with CUDA, onnx and NumPy. From the results benchmarks/make_tables.py makes the
table of GPUs in docs/results.md.

torch.compile takes minutes a shape. `--compile-only` fills its cache (TORCHINDUCTOR_CACHE_DIR), every shape in a process
of its own at once; a run after it finds everything compiled. max-autotune takes longest and may be added to the results
of another run:

    run_gpu.py resnet50 ... --compile-only --against compile-fp16,max-autotune
    run_gpu.py resnet50 ... --large --tail 10000
    run_gpu.py resnet50 ... --add --against max-autotune --precisions fp16,int8

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
import subprocess
import sys
import time
import traceback
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import provenance
from gpu.machine import Samples, clocks, machine, query_gpu
from gpu.networks import NETWORKS, Network
from gpu.torch_graph import Memory, TorchGraph, flat, weight_bytes
from gpu.turns import Turns

ROUNDS = 15
# Relative error of an output above which something is broken, not rounded: against the model (int8: the Q/DQ model) in
# double precision.
MOST_ERROR = {"fp32": 1e-4, "tf32": 1e-2, "fp16": 3e-2, "bf16": 1e-1, "int8": 1e-1}


def log(*words):
    print(*words, flush=True)


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


def used_by_all():
    """Bytes in use on the first GPU, without opening it."""
    return int(query_gpu(["memory.used"]).get("memory.used", "0").split()[0]) << 20


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
        before = used_by_all() if self.device == "cuda" else 0
        self.document = {
            "kind": "gpu", "version": 1, "network": network.spec["title"], "machine": machine(options.device),
            "libraries": {"torch": torch.__version__}, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": "turns of calls, device times between events, CUDA graphs on both sides; see benchmarks/run_gpu.py",
            "clocks": {"before": clocks()}, "subjects": [], "latency": [], "ratios": [], "throughput": [],
            "accuracy": [], "memory": [], "gpu_samples": [], "problems": [],
        }
        provenance.stamp(self.document, options.lathe, [file for file in {*network.files.values()} if file.exists()])
        if options.device == "cuda":
            self.document["libraries"] |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
            torch.zeros(1, device="cuda")
            self.document["context_bytes"] = max(0, used_by_all() - before)

    def left(self):
        return self.options.deadline - time.time()

    def save(self):
        self.document["clocks"]["after"] = clocks()
        target = Path(self.options.output)
        document = self.document
        if self.options.add and target.exists():
            document = added(json.loads(target.read_text(encoding="utf-8")), document)
        new = target.with_suffix(".new")
        new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        os.replace(new, target)

    def problem(self, what, error):
        text = f"{what}: {str(error)[-1500:]}"
        log("PROBLEM", text)
        self.document["problems"].append(text)

    def build(self, name, precision, sizes, twice):
        """An engine and what building it took, first with an empty timing cache, then with the full one."""
        engine, cache = self.work / f"{self.network.name}.{name}.engine", self.work / f"{self.network.name}.{name}.timing"
        if self.options.add and engine.exists():
            return engine, {"name": name}
        if not self.options.add:
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
                if title == "fp64" and not row["relative"] <= MOST_ERROR[name]:
                    self.problem(f"{name} at {self.network.label(size)}",
                                 f"WRONG: relative error {row['relative']:.3g}, expected at most {MOST_ERROR[name]}")
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
                start, memory = time.perf_counter(), Memory(self.device)
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
                row = {"subject": name, "size": self.network.label(size), "weight_bytes": weight_bytes(module),
                       "ready_seconds": time.perf_counter() - start, **memory.taken()}
                self.document["memory"].append(row)
                log("memory", json.dumps(row))
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
        launches, samples = {name: [] for name in references}, Samples() if timed else None
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
                    times[name].append(float(np.median(references[name].burst(calls[name], 3, launches[name]))))
        if samples:
            self.document["gpu_samples"].append({"size": label, **samples.close()})
        whole = {}
        for name, turns in engines.items():
            answer = turns.ask(calls=200, warm=3, timed=False)
            whole[name] = {key: float(np.median(answer[key])) for key in ("call_ms", "host_us") if answer.get(key)}
        for name, values in times.items():
            middle, low, high = median_interval(values)
            row = {"subject": name, "size": label, "device_ms": middle, "ci95_ms": [low, high], "rounds": len(values),
                   "calls": calls[name]}
            if name in engines:
                row |= whole[name]
                row |= {k: float(np.median(v)) for k, v in extra[name].items() if v and k != "call_ms"}
            elif launches[name]:
                row["enqueue_us"] = float(np.median(launches[name]))
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
            for precision in self.network.precisions():
                try:
                    engine, row = self.build(precision, precision, self.network.sizes(), self.options.twice)
                    if precision == self.network.precisions()[0]:
                        self.network.reference(self.network.sizes()[0], False)  # PyTorch's own memory first
                    before = self.used()
                    engines[precision] = self.open(engine)
                    engines[precision].ask(inputs=self.files_of(self.network.sizes()[-1]), calls=1, timed=False)
                    row["process_gpu_bytes"] = self.used() - before
                except Exception as error:
                    self.problem(f"engine {precision}", error)
                    continue
                for size in self.network.sizes():
                    try:
                        self.check(engines[precision], precision, precision, size)
                    except Exception as error:
                        self.problem(f"accuracy of {precision} at {self.network.label(size)}", error)
                self.save()
            self.references.clear()
            if self.device == "cuda":
                torch.cuda.empty_cache()
            for size in self.network.sizes():
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
        size = self.network.sizes()[0]
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
        for precision in self.network.precisions()[::-1]:
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


def added(old, new):
    """The results of another run with those of this one that it lacks."""
    for part, keys in (("latency", ("subject", "size")), ("ratios", ("subject", "reference", "size")),
                       ("memory", ("subject", "size")), ("accuracy", ("subject", "size", "output"))):
        there = {tuple(row.get(key) for key in keys) for row in old.get(part, [])}
        old[part] = old.get(part, []) + [row for row in new[part] if tuple(row.get(k) for k in keys) not in there]
    for part in ("problems", "gpu_samples"):
        old[part] = old.get(part, []) + new[part]
    old["added"] = old.get("added", []) + [{"time": new["time"], "machine": new["machine"]}]
    return old


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
    """Fills torch.compile's cache for the comparison that follows, each shape and mode in a process of its own; their
    GPU times are of no interest. Ends with 1 if one did not finish."""
    wanted = [(network.label(size), name) for size in network.sizes() for name in options.against
              if name.startswith("compile") or name == "max-autotune"]
    if len(wanted) == 1 and options.compile_only == "here":
        made = Run(network, options).torch_subjects(network.sizes()[0])
        sys.exit(0 if made else 1)
    running = []
    for label, name in wanted:
        work = Path(f"{options.work}/compile-{options.network}-{label}-{name}")
        work.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, options.network, "--lathe", options.lathe, "--models", options.models,
                   "--work", str(work), "--compile-only", "here", "--sizes", label, "--against", name, "--device",
                   options.device, "--seconds", str(options.seconds)]
        with open(work / "log.txt", "w", encoding="utf-8") as log_file:
            running.append((label, name, work, subprocess.Popen(command, stdout=log_file, stderr=subprocess.STDOUT)))
    failed = False
    while running:
        time.sleep(0.2)
        late = time.time() > options.deadline
        for row in list(running):
            label, name, work, process = row
            if late and process.poll() is None:
                process.kill()
                process.wait()
            if process.poll() is None:
                continue
            running.remove(row)
            took, status = time.time() - options.begin, process.returncode
            end = (work / "log.txt").read_text(encoding="utf-8", errors="replace")[-300:].strip() if status else ""
            log("compiled", name, label, "status", status, f"{took:.0f} s", end)
            failed |= status != 0
    sys.exit(1 if failed else 0)


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
    parser.add_argument("--compile-only", nargs="?", const="apart", choices=["apart", "here"],
                        help="only fill torch.compile's cache: a process a shape, or in this one")
    parser.add_argument("--sizes", help="batch sizes (1,8) or batches and sequence lengths (1x128,32x128)")
    parser.add_argument("--precisions", help="default: all that there is a model for")
    parser.add_argument("--add", action="store_true", help="add to the results in --output; engines there are used again")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    options = parser.parse_args()
    options.begin = time.time()
    options.deadline = options.begin + options.seconds
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
