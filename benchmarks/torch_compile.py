"""Measures torch.compile(backend="lathe") against the backend "inductor" and PyTorch itself: 20 networks of torchvision and 6
of transformers, with seeded weights, in FP32 on the CPU. Calls take turns, and the ratio is the median over turns side by
side. Of inductor's forms (as it is, weights frozen, kernels searched for too) that takes part which a short trial finds the
fastest for the network.

    torch_compile.py RESULTS.json [--models NAME,...] [--rounds 30] [--threads N] [--search]
    torch_compile.py RESULTS.json --table

Writes after each network, so that an interrupted run keeps what it has, and goes on with those that are missing. --search
lets inductor search for kernels (max-autotune), which takes minutes a network. --table prints what is in the file. Exit 1
where an answer differs from PyTorch's by more than 1e-4 of its largest value, where a graph ran in PyTorch, or where more
than two networks are slower than inductor's best.
"""

import argparse
import json
import logging
import os
import platform
import statistics
import sys
import time
from pathlib import Path

import lathe
import lathe.torch  # noqa: F401, makes the backend known
import torch

TORCHVISION = {name: 224 for name in (
    "alexnet", "vgg11", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "googlenet",
    "squeezenet1_1", "mobilenet_v2", "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0",
    "efficientnet_v2_s", "regnet_y_400mf", "convnext_tiny", "vit_b_16", "swin_t")} | {"inception_v3": 299}


def transformers_model(name):
    """Small forms of six architectures, and tokens or pixels for them. Nothing is downloaded."""
    import transformers

    size = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
    tokens = {"input_ids": torch.randint(100, (1, 64)), "attention_mask": torch.ones(1, 64, dtype=torch.int64)}
    if name == "bert":
        return transformers.BertModel(transformers.BertConfig(**size)), tokens
    if name == "distilbert":
        config = transformers.DistilBertConfig(dim=256, n_layers=4, n_heads=4, hidden_dim=1024)
        return transformers.DistilBertModel(config), tokens
    if name == "roberta":
        return transformers.RobertaModel(transformers.RobertaConfig(**size)), tokens
    if name == "gpt2":
        config = transformers.GPT2Config(n_embd=256, n_layer=4, n_head=4, use_cache=False)
        return transformers.GPT2Model(config), tokens
    if name == "t5-encoder":
        config = transformers.T5Config(d_model=256, num_layers=4, num_heads=4, d_ff=1024)
        return transformers.T5EncoderModel(config), tokens
    if name == "vit":
        return transformers.ViTModel(transformers.ViTConfig(**size)), {"pixel_values": torch.randn(1, 3, 224, 224)}
    raise KeyError(name)


TRANSFORMERS = ("bert", "distilbert", "roberta", "gpt2", "t5-encoder", "vit")


def network(name):
    """The module in evaluation, and its arguments by name."""
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        model, arguments = transformers_model(name)
        return model.eval(), arguments
    import torchvision

    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **extra).eval()
    return model, {"x": torch.randn(1, 3, TORCHVISION[name], TORCHVISION[name])}


def tensors(output):
    """The tensors in an output, in order."""
    if isinstance(output, torch.Tensor):
        return [output]
    parts = output.values() if hasattr(output, "values") else output if isinstance(output, (tuple, list)) else ()
    return [tensor for part in parts for tensor in tensors(part)]


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def call(function, arguments):
    start = time.perf_counter()
    output = function(**arguments) if "x" not in arguments else function(arguments["x"])
    return output, time.perf_counter() - start


INDUCTOR = {"as it is": {}, "frozen": {"freezing": True}, "searched": {"freezing": True, "max_autotune": True}}
MOST_SLOWER = 2
LARGEST_DIFFERENCE = 1e-4


def trial_ms(function, arguments, calls=5):
    """Median milliseconds of a few calls, after two."""
    return statistics.median([call(function, arguments)[1] * 1000 for _ in range(calls + 2)][2:])


def fastest_inductor(model, arguments, forms):
    """(name, function, seconds of its first call, {form: milliseconds}) of the form that is fastest here."""
    tried, found = {}, {}
    for form in forms:
        torch._dynamo.reset()
        function = torch.compile(model, backend="inductor", options=INDUCTOR[form])
        _, seconds = call(function, arguments)
        tried[form] = trial_ms(function, arguments)
        found[form] = (function, seconds)
    best = min(tried, key=tried.__getitem__)
    return best, *found[best], tried


def measure(name, rounds, forms):
    model, arguments = network(name)
    notes = Warnings()
    wanted = tensors(call(model, arguments)[0])

    def difference(output):
        return max(((one - other).abs().max() / other.abs().max().clamp_min(1e-30)).item()
                   for one, other in zip(tensors(output), wanted, strict=True) if other.is_floating_point())

    form, inductor, seconds, tried = fastest_inductor(model, arguments, forms)
    compile_s = {"inductor": seconds}
    logging.getLogger("lathe").addHandler(notes)
    ours = torch.compile(model, backend="lathe", options={"threads": torch.get_num_threads()})
    output, compile_s["lathe"] = call(ours, arguments)
    logging.getLogger("lathe").removeHandler(notes)
    subjects = {"eager": model, "lathe": ours, "inductor": inductor}
    differences = {"lathe": difference(output), "inductor": difference(call(inductor, arguments)[0])}
    for function in subjects.values():
        for _ in range(3):
            call(function, arguments)
    times = {backend: [] for backend in subjects}
    for _ in range(rounds):
        for backend, function in subjects.items():
            times[backend].append(call(function, arguments)[1] * 1000)
    ratios = {other: statistics.median(theirs / mine for theirs, mine in zip(times[other], times["lathe"]))
              for other in ("eager", "inductor")}
    return {
        "network": name, "inputs": {key: list(value.shape) for key, value in arguments.items()},
        "difference": differences, "compile_s": compile_s, "ran_in_pytorch": notes.lines,
        "inductor": {"form": form, "trial_ms": tried},
        "median_ms": {backend: statistics.median(values) for backend, values in times.items()},
        "times_as_fast": ratios,
    }


def table(document):
    """The results in Markdown."""
    rows = ["| network | PyTorch ms | inductor's best ms | its form | Lathe ms | times as fast | difference |",
            "| --- | ---: | ---: | --- | ---: | ---: | ---: |"]
    for found in document["networks"]:
        ms = found["median_ms"]
        rows.append(f"| {found['network']} | {ms['eager']:.2f} | {ms['inductor']:.2f} | {found['inductor']['form']} | {ms['lathe']:.2f} | "
                    f"{found['times_as_fast']['inductor']:.2f} | {found['difference']['lathe']:.1e} |")
    host = document["machine"]
    slow = slower(document)
    return "\n".join([*rows, "", f"Median ms a call, batch 1, FP32, {host['threads']} threads, in turns; Lathe's ratio to inductor's best is the "
                      f"median over turns. {host['processor']}, {host['cores']} cores; torch {document['torch']}. Slower than inductor's best: "
                      f"{', '.join(slow) or 'none'}."])


def slower(document):
    return [found["network"] for found in document["networks"] if found["times_as_fast"]["inductor"] < 1]


def wrong(document):
    return [found["network"] for found in document["networks"]
            if found["difference"]["lathe"] > LARGEST_DIFFERENCE or found["ran_in_pytorch"]]


def machine():
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return {"processor": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine()),
            "cores": len(os.sched_getaffinity(0)), "threads": torch.get_num_threads(), "load": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--models", default=",".join([*TORCHVISION, *TRANSFORMERS]))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--search", action="store_true", help="inductor searches for its kernels too")
    parser.add_argument("--table", action="store_true", help="print the results as a table, and measure nothing")
    options = parser.parse_args()
    before = json.loads(options.results.read_text(encoding="utf-8")) if options.results.exists() else None
    if options.table:
        if before is None:
            sys.exit(f"there is no {options.results}: measure first")
        print(table(before))
        return
    if options.threads:
        torch.set_num_threads(options.threads)
    document = {"kind": "torch-compile", "version": 1, "lathe": lathe.__version__, "torch": torch.__version__,
                "machine": machine(), "rounds": options.rounds, "networks": []}
    if before is not None:
        differs = [key for key in ("lathe", "torch", "rounds") if before.get(key) != document[key]]
        if differs:
            sys.exit(f"{options.results} holds another run ({', '.join(differs)} differ): name another file")
        document["networks"] = before["networks"]
    done = {found["network"] for found in document["networks"]}
    forms = list(INDUCTOR) if options.search else [form for form in INDUCTOR if form != "searched"]
    with torch.no_grad():
        for name in options.models.split(","):
            if name in done:
                continue
            found = measure(name, options.rounds, forms)
            document["networks"].append(found)
            options.results.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            ratios = found["times_as_fast"]
            print(f"{name:22} difference {found['difference']['lathe']:.1e}, {found['median_ms']['lathe']:7.2f} ms, "
                  f"{ratios['eager']:.2f} x eager, {ratios['inductor']:.2f} x inductor ({found['inductor']['form']})"
                  + "".join(f"\n    {line}" for line in found["ran_in_pytorch"]), flush=True)
    if bad := wrong(document):
        sys.exit("not as PyTorch: " + ", ".join(bad))
    if len(slow := slower(document)) > MOST_SLOWER:
        sys.exit(f"{len(slow)} are slower than inductor's best: " + ", ".join(slow))


if __name__ == "__main__":
    main()
