"""Measures torch.compile(backend="lathe") against the backend "inductor" and PyTorch itself: 20 networks of torchvision and 6
of transformers, with seeded weights. Calls take turns, and the ratio is the median over turns side by side.

    torch_compile.py RESULTS.json [--models NAME,...] [--rounds 30] [--threads N]

Writes after each network, so that an interrupted run keeps what it has. Exit 1 where an answer differs from PyTorch's by
more than 1e-4 of its largest value, or where a graph ran in PyTorch.
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


def measure(name, rounds):
    model, arguments = network(name)
    subjects = {"eager": model}
    compile_s, differences, notes = {}, {}, Warnings()
    logging.getLogger("lathe").addHandler(notes)
    wanted = tensors(call(model, arguments)[0])
    torch._dynamo.reset()
    for backend in ("lathe", "inductor"):
        options = {"threads": torch.get_num_threads()} if backend == "lathe" else None
        subjects[backend] = torch.compile(model, backend=backend, options=options)
        output, compile_s[backend] = call(subjects[backend], arguments)
        differences[backend] = max(((one - other).abs().max() / other.abs().max().clamp_min(1e-30)).item()
                                   for one, other in zip(tensors(output), wanted, strict=True) if other.is_floating_point())
    logging.getLogger("lathe").removeHandler(notes)
    for function in subjects.values():
        for _ in range(3):
            call(function, arguments)
    times = {backend: [] for backend in subjects}
    for _ in range(rounds):
        for backend, function in subjects.items():
            times[backend].append(call(function, arguments)[1] * 1000)
    ratios = {other: statistics.median(theirs / ours for theirs, ours in zip(times[other], times["lathe"]))
              for other in ("eager", "inductor")}
    return {
        "network": name, "inputs": {key: list(value.shape) for key, value in arguments.items()},
        "difference": differences, "compile_s": compile_s, "ran_in_pytorch": notes.lines,
        "median_ms": {backend: statistics.median(values) for backend, values in times.items()},
        "times_as_fast": ratios,
    }


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
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    document = {"kind": "torch-compile", "version": 1, "lathe": lathe.__version__, "torch": torch.__version__,
                "machine": machine(), "rounds": options.rounds, "networks": []}
    bad = []
    with torch.no_grad():
        for name in options.models.split(","):
            found = measure(name, options.rounds)
            document["networks"].append(found)
            options.results.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
            if found["difference"]["lathe"] > 1e-4 or found["ran_in_pytorch"]:
                bad.append(name)
            ratios = found["times_as_fast"]
            print(f"{name:22} difference {found['difference']['lathe']:.1e}, {found['median_ms']['lathe']:7.2f} ms, "
                  f"{ratios['eager']:.2f} x eager, {ratios['inductor']:.2f} x inductor"
                  + "".join(f"\n    {line}" for line in found["ran_in_pytorch"]), flush=True)
    if bad:
        sys.exit("not as PyTorch: " + ", ".join(bad))


if __name__ == "__main__":
    main()
