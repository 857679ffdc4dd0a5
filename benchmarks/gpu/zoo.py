"""Many networks, exported plainly, in Lathe's CUDA engine beside torch.compile: which of them is slower, and where.

    python3 benchmarks/gpu/zoo.py --lathe build/bin/lathe --work /tmp/zoo --output benchmarks/results/fp16.zoo.json

Every network (zoo_networks.py) is exported by torch.onnx.export with seeded weights, built with --precision fp16 for its
batch sizes in one engine, compared with PyTorch in FP32 and timed in turns with torch.compile ("compile": the default
mode; "max-autotune"), both in FP16 as CUDA graphs, as benchmarks/run_gpu.py tells. A decoder's states are FP16 on both
sides too; other inputs and outputs are FP32 in Lathe's engines, as exported. Where a network is marked, its Q/DQ
form (`lathe quantize --target cuda`, calibrated on random inputs, every layer in int8: for the time alone) is timed too.

A network that is refused, fails or runs out of time keeps its row, with what was said. Three steps, so that processor
and GPU are both busy: exports in parallel, torch.compile's caches in parallel, then builds and turns one after another;
without a peer a network is built and timed as soon as it is exported.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ROUNDS = 11
LIMITS = {"fp16": 5e-3}


def log(*words):
    print(time.strftime("%H:%M:%S"), *words, flush=True)


def keep(path, document):
    new = Path(f"{path}.new")
    new.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    os.replace(new, path)


def last_words(text, count=400):
    return text.strip()[-count:]


def run(command, limit):
    """Standard output; RuntimeError with the end of what it said."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}: {last_words(done.stderr, 700)}")
    return done.stdout


def shape_options(entry, batches):
    """--shape of every input: one range from the smallest to the largest batch."""
    options = []
    for index, name in enumerate(entry.names):
        shapes = ["x".join(map(str, entry.inputs(batch)[index].shape)) for batch in batches]
        text = shapes[0] if len(shapes) == 1 else f"{shapes[0]}..{shapes[-1]}..{shapes[-1]}"
        options += ["--shape", f"{name}:{text}"]
    return options


def input_files(entry, batch, work):
    import numpy as np

    files = {}
    for name, tensor in zip(entry.names, entry.inputs(batch)):
        files[name] = str(work / f"{batch}.{name}.npy")
        if not Path(files[name]).exists():
            half = entry.half_io and tensor.is_floating_point()
            np.save(files[name], tensor.half().numpy() if half else tensor.numpy())
    return files


# --- step 1: one network's files -------------------------------------------------------------------------------------


def prepare(name, options):
    import numpy as np
    import torch

    from gpu.zoo_networks import ZOO, export, module_of

    torch.set_num_threads(2)
    entry, work = ZOO[name], Path(options.work) / name
    work.mkdir(parents=True, exist_ok=True)
    module = module_of(name)
    if sum(p.numel() for p in module.parameters()) < 400e6:
        torch.save(module.state_dict(), work / "weights.pt")
    if not (work / "model.onnx").exists():
        export(name, module, str(work / "model.onnx"), 2)
    if entry.int8 and options.int8 and not (work / "int8.onnx").exists():
        arrays = {n: np.concatenate([entry.inputs(b)[i].numpy() for b in (8, 9)]) for i, n in enumerate(entry.names)}
        np.savez(work / "calibration.npz", **arrays)
        for command in (["simplify", "model.onnx", "-o", "simple.onnx"],
                        ["calibrate", "simple.onnx", "--data", "calibration.npz", "-o", "int8.ranges"],
                        ["quantize", "simple.onnx", "--ranges", "int8.ranges", "--target", "cuda", "--effort", "0",
                         "--noisy-layers", "int8", "-o", "int8.onnx"]):
            run([options.lathe, *(str(work / word) if "." in word else word for word in command)], 300)


# --- step 2: torch.compile's cache -----------------------------------------------------------------------------------


def load(name, work):
    """The network on the CPU, with the weights of step 1."""
    import torch

    from gpu.zoo_networks import SEED, ZOO, module_of

    saved = work / "weights.pt"
    if not saved.exists():
        return module_of(name)
    torch.manual_seed(SEED)
    module = ZOO[name].make().eval()
    module.load_state_dict(torch.load(saved, weights_only=True))
    return module


def compiled(module, entry, batch, mode):
    import torch

    from gpu.zoo_networks import typed

    half = typed(module, torch.float16, "cuda", entry.image)
    inputs = [t.half() if t.is_floating_point() else t for t in entry.inputs(batch)]
    torch._dynamo.reset()
    made = torch.compile(half, dynamic=False, mode=None if mode == "compile" else "max-autotune-no-cudagraphs")
    return made, inputs


def compile_one(name, batch, mode, options):
    import torch

    from gpu.torch_graph import TorchGraph
    from gpu.zoo_networks import ZOO

    torch.backends.cudnn.benchmark = True
    entry = ZOO[name]
    made, inputs = compiled(load(name, Path(options.work) / name), entry, batch, mode)
    TorchGraph(made, inputs, "cuda", entry.image)


# --- step 3: builds and turns ----------------------------------------------------------------------------------------


def where_time_goes(report):
    """Of an explained build, for each point that was tuned: microseconds by provider, and the costliest operations."""
    total, slow = {}, []
    for op in report.get("ops", []):
        for candidate in op["candidates"]:
            if candidate["chosen"]:
                provider = candidate["tactic"].split(":")[0]
                count = op.get("count", 1)
                total[provider] = total.get(provider, 0) + candidate["mixed_us"] * count
                slow.append([round(candidate["mixed_us"], 1), op["shape"], op["name"], candidate["tactic"]])
    everything = sum(total.values()) or 1
    return {"provider_us": {k: round(v, 1) for k, v in total.items()},
            "reference_share": total.get("reference", 0) / everything,
            "slowest": sorted(slow, key=lambda row: -row[0])[:14]}


def build(name, entry, precision, options, row):
    work = Path(options.work) / name
    model = work / ("int8.onnx" if precision == "int8" else "model.onnx")
    engine, cache = work / f"{precision}.engine", work / f"{precision}.timing"
    batches = [b for b in entry.batches if b in options.batches] if options.batches else entry.batches
    command = [options.lathe, "build", str(model), "--device", "cuda", "--precision", precision, "-o", str(engine), "--json",
               "--timing-cache", str(cache), "--tune", options.tune, "--explain", "--allow-fallback"]
    start = time.perf_counter()
    said = run(command + shape_options(entry, batches), options.build_seconds)
    row[precision] = {"build_seconds": time.perf_counter() - start} | where_time_goes(json.loads(said).get("report") or {})
    keep(work / f"{precision}.build.json", json.loads(said))
    return engine, batches


def check(turns, entry, module, batch, work, row):
    import numpy as np
    import torch

    from gpu.zoo_networks import typed

    saved = work / "out.npz"
    turns.ask(inputs=input_files(entry, batch, work), calls=1, timed=False, save=str(saved))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    single = module.to("cuda")
    with torch.no_grad():
        want = arrays_of(single(*[t.cuda() for t in entry.inputs(batch)]))
    single.to("cpu")
    with np.load(saved) as arrays:
        row["relative_error"] = worst_error([arrays[key].astype(np.float64) for key in arrays.files], want)
    # What FP16 costs anyone on these weights.
    half = typed(module, torch.float16, "cuda", entry.image)
    with torch.no_grad():
        halves = half(*[(t.half() if t.is_floating_point() else t).cuda() for t in entry.inputs(batch)])
    row["relative_error_of_torch_fp16"] = worst_error(arrays_of(halves), want)


def arrays_of(outputs):
    return [w.double().cpu().numpy() for w in (outputs if isinstance(outputs, (tuple, list)) else [outputs])]


def worst_error(got, want):
    import numpy as np

    errors = [float(np.linalg.norm(g.reshape(w.shape) - w) / (np.linalg.norm(w) or 1)) for g, w in zip(got, want)]
    return max(errors) if all(map(math.isfinite, errors)) else None


def measure(name, options):
    """Everything about one network; writes WORK/NAME/result.json as it goes."""
    import numpy as np
    import torch

    from gpu.torch_graph import TorchGraph
    from gpu.turns import Turns
    from gpu.zoo_networks import ZOO
    from run_gpu import median_interval

    entry, work = ZOO[name], Path(options.work) / name
    row = {"network": name, "family": entry.family, "problems": [], "batches": {}}
    result = work / "result.json"

    def problem(what, error):
        row["problems"].append(f"{what}: {last_words(str(error), 700)}")
        log(name, "PROBLEM", row["problems"][-1])
        keep(result, row)

    torch.backends.cudnn.benchmark = True
    engines, batches = {}, list(entry.batches)
    loading = ThreadPoolExecutor(1).submit(load, name, work)  # beside the builds
    precisions = ["fp16"] + (["int8"] if entry.int8 and options.int8 else [])
    try:
        for precision in precisions:
            try:
                engine, batches = build(name, entry, precision, options, row)
                engines[precision] = Turns(options.lathe, engine, work / f"{precision}.log")
                log(name, precision, f"built in {row[precision]['build_seconds']:.1f} s, reference kernels "
                    f"{100 * row[precision]['reference_share']:.0f} %")
                if precision == "fp16":
                    check(engines[precision], entry, loading.result(), batches[0], work, row)
                    log(name, "relative error", row["relative_error"], "of PyTorch in FP16", row["relative_error_of_torch_fp16"])
            except Exception as error:
                problem(precision, error)
        keep(result, row)
        for batch in batches:
            peers = {}
            for mode in options.against:
                try:
                    made, inputs = compiled(loading.result(), entry, batch, mode)
                    peers[mode] = TorchGraph(made, inputs, "cuda", entry.image)
                except Exception as error:
                    problem(f"{mode} at {batch}", error)
            cell = row["batches"][str(batch)] = turn(engines, peers, entry, batch, work, options, median_interval, np, problem)
            keep(result, row)
            log(name, "batch", batch, " ".join(f"{k} {v['ms']:.4f}" for k, v in cell.items() if "ms" in v),
                " ".join(f"x{v['times_as_fast']:.2f} of {k.split(':')[1]}" for k, v in cell.items() if k.startswith("fp16:")))
            peers.clear()
            torch.cuda.empty_cache()
    finally:
        for turns in engines.values():
            turns.close()
    keep(result, row)


def turn(engines, peers, entry, batch, work, options, median_interval, np, problem):
    files, calls, live = input_files(entry, batch, work), {}, {}
    for name, turns in engines.items():
        try:
            first = turns.ask(inputs=files, calls=5, warm=5, timed=True)["device_ms"]
            live[name] = lambda n, turns=turns: turns.ask(calls=n, warm=2, timed=True)["device_ms"]
            calls[name] = first
        except Exception as error:
            problem(f"{name} at {batch}", error)
    for name, graph in peers.items():
        live[name] = lambda n, graph=graph: graph.burst(n, 2)
        calls[name] = graph.burst(5, 3)
    calls = {name: int(min(30, max(4, 12 / max(1e-3, np.median(values))))) for name, values in calls.items()}
    times = {name: [] for name in live}
    for number in range(options.rounds):
        for name in list(live)[:: -1 if number % 2 else 1]:
            times[name].append(float(np.median(live[name](calls[name]))))
    cell = {}
    for name, values in times.items():
        middle, low, high = median_interval(values)
        cell[name] = {"ms": middle, "ci95": [low, high]}
    for ours in ("fp16", "int8"):
        for other in [*peers, *(["fp16"] if ours == "int8" else [])]:
            if ours in times and other in times:
                middle, low, high = median_interval([b / a for a, b in zip(times[ours], times[other])])
                cell[f"{ours}:{other}"] = {"times_as_fast": middle, "ci95": [low, high], "pairs": len(times[ours])}
    return cell


# --- all of it --------------------------------------------------------------------------------------------------------


def part(step, name, options, limit, *more):
    """A step for a network in a process of its own; what went wrong, or ""."""
    work = Path(options.work) / name
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "--step", step, "--networks", name, *more, *options.passed]
    start = time.time()
    with open(work / f"{step}{''.join(more).replace('-', '_')}.txt", "w", encoding="utf-8") as said:
        try:
            status = subprocess.run(command, stdout=None if step == "measure" else said, stderr=subprocess.STDOUT, timeout=max(1, limit),
                                    check=False).returncode
        except subprocess.TimeoutExpired:
            status = "time limit"
    text = Path(said.name).read_text(encoding="utf-8", errors="replace")
    if status:
        log(name, step, *more, "ended with", status, f"after {time.time() - start:.0f} s", last_words(text, 300))
        return f"{step} {' '.join(more)} ended with {status}: {last_words(text, 600)}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--output", help="default: WORK/fp16.zoo.json")
    parser.add_argument("--networks", help="names, separated by commas; default: all")
    parser.add_argument("--batches", help="of each network's batch sizes, these alone")
    parser.add_argument("--against", default="compile,max-autotune", help="compile, max-autotune, or nothing (\"\")")
    parser.add_argument("--tune", default="default", choices=["fast", "default", "full"])
    parser.add_argument("--no-int8", dest="int8", action="store_false")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    parser.add_argument("--seconds", type=float, default=3600, help="time for all; what does not fit is said to be left out")
    parser.add_argument("--build-seconds", type=float, default=240)
    parser.add_argument("--steps", default="prepare,compile,measure", help="those to do now; files of the others lie in --work")
    parser.add_argument("--step", choices=["prepare", "compile", "measure"], help="one step of one network (internal)")
    parser.add_argument("--mode", help="with --step compile: BATCH:MODE")
    options = parser.parse_args()
    begun = time.time()
    options.passed = [word for key in ("lathe", "work", "against", "tune") for word in (f"--{key}", getattr(options, key))]
    options.passed += ["--rounds", str(options.rounds), "--build-seconds", str(options.build_seconds)]
    options.passed += ["--batches", options.batches] if options.batches else []
    options.passed += [] if options.int8 else ["--no-int8"]
    options.batches = [int(word) for word in options.batches.split(",")] if options.batches else None
    options.against = [word for word in options.against.split(",") if word]
    if options.step:
        name = options.networks
        if options.step == "prepare":
            prepare(name, options)
        elif options.step == "compile":
            batch, mode = options.mode.split(":")
            compile_one(name, int(batch), mode, options)
        else:
            measure(name, options)
        return

    import provenance
    from gpu.machine import Samples, machine
    from gpu.zoo_networks import ZOO

    import torch

    names = options.networks.split(",") if options.networks else list(ZOO)
    Path(options.work).mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(options.work) / "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    output = Path(options.output or Path(options.work) / "fp16.zoo.json")
    left = lambda: options.seconds - (time.time() - begun)
    document = {"kind": "gpu-zoo", "version": 1, "machine": machine("cuda"), "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "lathe": run([options.lathe, "--version"], 20).strip(),
                "libraries": {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())},
                "method": "turns, device times between events, CUDA graphs on both sides; see benchmarks/gpu/zoo.py", "networks": []}
    provenance.stamp(document, options.lathe, [__file__])  # which makes the models, from seeds
    problems = {name: [] for name in names}
    steps = options.steps.split(",")
    preparing = ThreadPoolExecutor(options.jobs)
    ready = {name: preparing.submit(part, "prepare", name, options, min(300, left())) for name in names if "prepare" in steps}

    def prepared(name):
        if name in ready and (said := ready.pop(name).result()):
            problems[name].append(said)
        return not problems[name]

    if options.against:  # torch.compile uses the GPU: all of it before the first timing
        log("exported", sum(map(prepared, names)), "of", len(names), f"in {time.time() - begun:.0f} s")
    with ThreadPoolExecutor(options.jobs) as pool:
        waiting = []
        for name in names:
            if problems[name] or "compile" not in steps:
                continue
            for batch in ZOO[name].batches:
                if options.batches and batch not in options.batches:
                    continue
                for mode in options.against:
                    waiting.append((name, pool.submit(lambda n, b, m: part("compile", n, options, min(900, left()), "--mode", f"{b}:{m}"),
                                                      name, batch, mode)))
        for name, future in waiting:
            future.result()  # said in the log; the measurement compiles again and says it there
    if waiting:
        log("compiled after", f"{time.time() - begun:.0f} s")
    if "measure" not in steps:
        log("exported", sum(map(prepared, names)), "of", len(names), f"in {time.time() - begun:.0f} s")
        return
    samples = Samples()
    for name in names:
        prepared(name)
        row = {"network": name, "family": ZOO[name].family, "problems": problems[name], "batches": {}}
        if left() < 20:
            row["problems"].append("no time left")
        elif not problems[name]:
            said = part("measure", name, options, left())
            result = Path(options.work) / name / "result.json"
            if result.exists():
                row = json.loads(result.read_text(encoding="utf-8"))
            if said:
                row["problems"].append(said)
        document["networks"].append(row)
        keep(output, document)
    document["gpu_samples"] = samples.close()
    document["seconds"] = time.time() - begun
    keep(output, document)
    for row in document["networks"]:
        cells = [f"{batch}: " + " ".join(f"{k}={v['ms']:.3f}" if "ms" in v else f"{k}=x{v['times_as_fast']:.2f}" for k, v in cell.items())
                 for batch, cell in row["batches"].items()]
        print(row["network"], "|", " | ".join(cells), "|", f"error {row.get('relative_error')}", "|", "; ".join(p[:160] for p in row["problems"]))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
