"""The figures within the sentences of README.md and docs/notes/ that benchmarks/results/ gives: one function a name.
No third-party package."""

import re

from markdown_tables import load, milliseconds

MARK = re.compile(r"(<!-- figure:(?P<name>[\w-]+) -->)(?P<text>.*?)(<!-- /figure -->)", re.DOTALL)


def network(folder, ending, name):
    """The one document of a network."""
    return next(document for document in load(folder, ending) if document["network"] == name)


def subject(document, name):
    return next(row for row in document["subjects"] if row["name"] == name)


def latency(document, name, size):
    """The row of a subject at a size (GPU) or batch (CPU)."""
    return next(row for row in document["latency"] if row["subject"] == name and row.get("size", row.get("batch")) == size)


def span(values, digits, between=" to "):
    """Least and greatest."""
    values = list(values)
    return f"{min(values):.{digits}f}{between}{max(values):.{digits}f}"


def ours(document):
    """Latency rows of Lathe's engines: the host's share of handing over is measured for them alone."""
    return [row for row in document["latency"] if row.get("host_us") is not None]


def resnet(folder):
    return network(folder, "gpu", "ResNet-50")


def rate(folder, inputs):
    """The row of the greatest number of GPUs at the smallest batch."""
    rows = [row for row in network(folder, "scaling", "ResNet-50")["rows"] if row["inputs"] == inputs]
    least = min(row["batch"] for row in rows)
    return max((row for row in rows if row["batch"] == least), key=lambda row: row["gpus"])


PICTURE_BYTES = 3 * 224 * 224 * 4  # as float32


def int8_ms(folder, size):
    return latency(resnet(folder), "int8", size)["device_ms"]


def lite0_ms(folder, batch):
    return milliseconds(latency(network(folder, "bench", "EfficientNet-Lite0"), "fp32", batch)["median_ms"])


def judged(folder, name, of, figure):
    """Agreement (%) or KL of an engine of a network, by the CPU's evaluation."""
    versus = subject(network(folder, "eval", name), of)["vs_reference"]
    return f"{100 * versus['agreement']:.{1 if name.startswith('Mobile') else 2}f}" if figure == "agreement" else \
        f"{versus['mean_kl']:.{3 if name.startswith('Mobile') else 4}f}"


def gpu_agreement(folder, of):
    """Of EfficientNet-Lite0's engine on the GPU with FP32, in percent."""
    document = network(folder, "accuracy", "EfficientNet-Lite0")
    return f"{100 * subject(document, of)['vs_reference']['agreement']:.2f} %"


def lite0_gpu_ms(folder):
    return latency(network(folder, "gpu", "EfficientNet-Lite0"), "int8", "32")["device_ms"]


TINY = "ResNet-50, Tiny-ImageNet"


def effort_2_seconds(folder, name):
    tools = network(folder, "quantize", name)["tools"]
    return f"{next(row for row in tools if row['file'] == 'lathe-effort-2.onnx')['seconds']:.0f}"


def sensitivity(folder):
    return network(folder, "sensitivity", TINY)


def damage(folder, nodes):
    """Share of the layers of these names, in percent."""
    return f"{100 * sum(row['damage_share'] for row in sensitivity(folder)['layers'] if row['node'] in nodes):.0f} %"


def minutes(seconds):
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


def trial(folder, ending, name, wanted=None):
    """Of a search for a mix: the trial of that name, or the one that was chosen."""
    trials = network(folder, ending, name)["trials"]
    return next(row for row in trials if (row.get("chosen") if wanted is None else row["name"] == wanted))


def speed_of_saved(folder, name):
    row = next(row for row in network(folder, "tune.gpu", name)["judged"]["timed"] if row["name"] == "INT8 (rest FP16)")
    return f"{row['speedup']:.3f} ({row['speedup_ci95'][0]:.3f}..{row['speedup_ci95'][1]:.3f})"


def noise_and_time(row):
    return f"{row['latency_ms']:.2f} ms and {row['drop']:.3f} %"


FIGURES = {
    # 00
    "resnet-build-fp32": lambda folder: f"{subject(resnet(folder), 'fp32')['build_seconds']:.1f}",
    "resnet-build-int8": lambda folder: f"{subject(resnet(folder), 'int8')['build_seconds']:.1f}",
    "resnet-rebuild": lambda folder: span(
        (row["rebuild_seconds"] for row in resnet(folder)["subjects"]
         if "large" not in row["name"] and row.get("rebuild_seconds") is not None and row.get("arena_bytes")), 1),
    "resnet-host-us": lambda folder: span((row["host_us"] for row in ours(resnet(folder))), 1),
    "resnet-int8-32-ms": lambda folder: f"{int8_ms(folder, '32'):.3f}",
    "resnet-int8-share": lambda folder: f"{100 * subject(resnet(folder), 'int8')['precision_share']['int8']:.1f} %",
    # 03
    "lite0-gpu-int8": lambda folder: gpu_agreement(folder, "int8"),
    "lite0-gpu-bf16": lambda folder: gpu_agreement(folder, "bf16"),
    "lite0-gpu-fp16": lambda folder: gpu_agreement(folder, "fp16"),
    # 01 and 04
    **{f"{short}-{of}-{figure}": (lambda folder, name=name, of=of, figure=figure: judged(folder, name, of, figure))
       for short, name in (("mobilenet", "MobileNetV1 0.75"), ("resnet", "ResNet-50, Tiny-ImageNet"))
       for of in ("int8", "lathe-effort-2") for figure in ("agreement", "kl")},
    "mobilenet-effort-2-seconds": lambda folder: effort_2_seconds(folder, "MobileNetV1 0.75"),
    "resnet-effort-2-seconds": lambda folder: effort_2_seconds(folder, TINY),
    # 03
    "resnet-worst-layer": lambda folder: damage(folder, [sensitivity(folder)["layers"][0]["node"]]),
    "resnet-mix-speed": lambda folder: speed_of_saved(folder, TINY),
    "resnet-mix-kl": lambda folder: f"{trial(folder, 'tune.gpu', TINY)['mean_kl']:.4f}",
    "resnet-int8-gpu-kl": lambda folder: f"{trial(folder, 'tune.gpu', TINY, 'INT8 (rest FP16)')['mean_kl']:.4f}",
    "resnet-int8-cpu-kl": lambda folder: f"{trial(folder, 'tune.cpu', TINY, 'INT8')['mean_kl']:.4f}",
    "bert-mix": lambda folder: "{}: {}".format((row := trial(folder, "tune.gpu", "BERT-base"))["name"], noise_and_time(row)),
    "bert-int8": lambda folder: noise_and_time(trial(folder, "tune.gpu", "BERT-base", "INT8 (rest FP16)")),
    "bert-fp16": lambda folder: f"{trial(folder, 'tune.gpu', 'BERT-base', 'FP16')['latency_ms']:.2f} ms",
    # 04
    "resnet-outstanding": lambda folder: damage(folder, sensitivity(folder)["outstanding"]),
    "resnet-sensitivity-time": lambda folder: minutes(sensitivity(folder)["seconds"]),
    "resnet-sensitivity-times": lambda folder: f"{sensitivity(folder)['seconds'] / sensitivity(folder)['float_seconds']:.0f}",
    # 05
    "resnet-int8-32-enqueue": lambda folder: f"{latency(resnet(folder), 'int8', '32')['enqueue_us']:.0f} µs",
    "gpu-tail": lambda folder: span(
        (row["device_ms"]["p99_over_median"] for document in load(folder, "gpu") for row in document.get("tail", [])), 3),
    "clock-before": lambda folder: resnet(folder)["clocks"]["before"]["clocks.sm"],
    "clock-after": lambda folder: f"{int(resnet(folder)['clocks']['after']['clocks.sm'].split()[0]):,}",
    "lite0-fp32-1": lambda folder: lite0_ms(folder, 1),
    "lite0-fp32-8": lambda folder: lite0_ms(folder, 8),
    # 06
    "resnet-int8-sizes": lambda folder: "{}, {} and {} ms".format(
        *(f"{int8_ms(folder, size):.3f}" for size in ("1", "8", "32"))),
    "resnet-int8-growth": lambda folder: f"{int8_ms(folder, '32') / int8_ms(folder, '1'):.1f}",
    "resnet-most": lambda folder: "{:,.0f}".format(
        max(row["samples_per_second"] for row in network(folder, "scaling", "ResNet-50")["rows"] if row["gpus"] == 1)),
    "scaling-device": lambda folder: f"{rate(folder, 'device')['times']:.2f}",
    "scaling-host": lambda folder: f"{rate(folder, 'host')['times']:.2f}",
    "scaling-host-bytes": lambda folder: f"{rate(folder, 'host')['samples_per_second'] * PICTURE_BYTES / 1e9:.0f} GB",
    "lite0-gpu-ms": lambda folder: f"{lite0_gpu_ms(folder):.3f} ms",
    "lite0-gpu-rate": lambda folder: f"{round(32e3 / lite0_gpu_ms(folder), -3):,.0f}",
}


def rewrite(text, folder, file):
    """The text with every figure made anew. One that no result gives ends the program: nothing holds its old text."""

    def figure(match):
        name = match["name"]
        if name not in FIGURES:
            raise SystemExit(f"{file} asks for an unknown figure '{name}'; known: {', '.join(FIGURES)}")
        try:
            return match[1] + FIGURES[name](folder) + match[4]
        except (StopIteration, ValueError, KeyError, TypeError):
            raise SystemExit(f"{file}: no result gives the figure '{name}'; measure it, or take it out") from None

    return MARK.sub(figure, text)
