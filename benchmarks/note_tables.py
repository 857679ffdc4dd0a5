"""The tables of docs/notes/: what the results in benchmarks/results/ say about one idea each. No third-party package."""

from gpu_tables import paragraph
from markdown_tables import load, markdown, mebibytes, milliseconds, percent

OURS = ("fp32", "int8")


def points(value, interval):
    """A change of accuracy in percentage points with its interval."""
    low, high = (100 * end for end in interval)
    return f"{100 * value:+.2f} ({low:+.2f}..{high:+.2f})"


def rows_of(document, name):
    """Latency of one subject by batch size."""
    return {row["batch"]: row for row in document["latency"] if row["subject"] == name}


def int8_on_cpu(folder):
    """What INT8 gains and costs against FP32 on the CPU."""
    judged = {document["network"]: document for document in load(folder, "eval")}
    rows, machines = [], set()
    for document in load(folder, "bench"):
        fp32, int8 = (rows_of(document, name) for name in OURS)
        batches = sorted(set(fp32) & set(int8))
        versus = next((row.get("vs_reference") for row in judged.get(document["network"], {}).get("subjects", [])
                       if row["name"] == "int8"), None)
        if not batches or not versus:
            continue
        machines.add(document["machine"]["cpu"] + f", {document['machine']['cores']} cores")
        gains = " / ".join(f"{fp32[batch]['median_ms'] / int8[batch]['median_ms']:.2f}×" for batch in batches)
        rows.append([document["network"], " / ".join(map(str, batches)), gains, percent(versus["agreement"]),
                     f"{versus['mean_kl']:.4f}", points(versus["top1_delta"], versus["top1_delta_ci95"])])
    heading = ["network", "batch", "INT8 over FP32", "same class", "mean KL", "top-1, points (95 %)"]
    line = f"\nRatios of medians taken in turns in one run; {', '.join(sorted(machines))}.\n"
    return markdown(heading, rows) + line if rows else ""


def int8_on_gpu(folder):
    """What INT8 gains over FP16 on a GPU."""
    rows, documents = [], load(folder, "gpu")
    for document in documents:
        times = {(row["subject"], row["size"]): row["device_ms"] for row in document["latency"]}
        for size in dict.fromkeys(row["size"] for row in document["latency"]):
            fp16, int8 = times.get(("fp16", size)), times.get(("int8", size))
            if fp16 and int8:
                rows.append([document["network"], size, milliseconds(fp16), milliseconds(int8), f"{fp16 / int8:.2f}×"])
    heading = ["network", "batch", "FP16 ms", "INT8 ms", "INT8 over FP16"]
    return markdown(heading, rows) + "\n" + paragraph("Medians of the device time of one graph.", documents) if rows else ""


def steps_on_gpu(folder):
    """How much faster each step makes ResNet-50 than PyTorch in FP32, one operation at a time."""
    rows, documents = [], [one for one in load(folder, "gpu") if one["network"] == "ResNet-50"]
    names = {"eager-fp16": "PyTorch FP16, one kernel an operation", "compile-fp16": "torch.compile FP16, fused",
             "fp32": "Lathe FP32", "tf32": "Lathe TF32", "fp16": "Lathe FP16", "int8": "Lathe INT8"}
    for document in documents:
        times = {(row["subject"], row["size"]): row["device_ms"] for row in document["latency"]}
        sizes = [size for size in dict.fromkeys(row["size"] for row in document["latency"])
                 if ("eager-fp32", size) in times]
        for name, title in names.items():
            cells = [f"{times['eager-fp32', size] / times[name, size]:.1f}×" if (name, size) in times else "–"
                     for size in sizes]
            rows.append([title, *cells])
        heading = [f"{document['network']}, over PyTorch FP32", *(f"batch {size}" for size in sizes)]
    if not rows:
        return ""
    return markdown(heading, rows) + "\n" + paragraph("Ratios of medians of the device time, CUDA graphs on both sides.", documents)


def memory_on_gpu(folder):
    """Weights, activations and the file by precision."""
    rows, documents = [], [one for one in load(folder, "gpu") if one["network"] == "ResNet-50"]
    for document in documents:
        for row in document["subjects"]:
            if row.get("arena_bytes") and "large" not in row["name"]:
                rows.append([row["name"], mebibytes(row["weight_bytes"]), mebibytes(row["arena_bytes"]),
                             mebibytes(row.get("arena_lower_bound")), mebibytes(row["engine_bytes"])])
    heading = ["ResNet-50, profile 1..8..32", "weights MiB", "activations MiB", "no plan can be below", "engine file MiB"]
    return markdown(heading, rows) + "\n" + paragraph("", documents).lstrip() if rows else ""


def kernels_on_gpu(folder):
    """Whose kernels won the operations of an engine."""
    rows, documents = [], load(folder, "gpu")
    for document in documents:
        for row in document["subjects"]:
            won = {name: count for name, count in row.get("kernels", {}).get("won", {}).items() if name != "apart"}
            if not won or "large" in row["name"]:
                continue
            own = sum(count for name, count in won.items() if name.startswith("lathe"))
            cells = [own, won.get("cudnn", 0), won.get("cublaslt", 0), won.get("reference", 0)]
            rows.append([document["network"], row["name"], *(str(count) for count in cells)])
    heading = ["network", "precision", "Lathe's own", "cuDNN", "cuBLASLt", "plain"]
    return markdown(heading, rows) + "\n" + paragraph("Over all tuned sizes.", documents) if rows else ""


def spread_on_cpu(folder):
    """How single calls scatter: median with interval, tail, extremes."""
    rows, machines = [], set()
    for document in load(folder, "bench"):
        for name in OURS:
            for batch, row in rows_of(document, name).items():
                if batch not in (1, 16):
                    continue
                machines.add(document["machine"]["cpu"] + f", {document['machine']['cores']} cores")
                low, high = row["ci95_ms"]
                rows.append([document["network"], name, str(batch), milliseconds(row["median_ms"]),
                             f"{milliseconds(low)}..{milliseconds(high)}", "no" if row["noisy"] else "yes",
                             f"{row['p90_ms'] / row['median_ms']:.2f}", f"{row['p99_ms'] / row['median_ms']:.2f}",
                             f"{row['max_ms'] / row['median_ms']:.2f}", f"{row['count']:,}"])
    heading = ["network", "precision", "batch", "median ms", "95 % of the median", "settled", "p90", "p99", "max", "calls"]
    line = f"\np90, p99 and max as multiples of the median; {', '.join(sorted(machines))}, a shared virtual machine.\n"
    return markdown(heading, rows) + line if rows else ""


def parts_on_gpu(folder):
    """Where the wall clock of one call goes."""
    rows, documents = [], [one for one in load(folder, "gpu") if one["network"] == "ResNet-50"]
    for document in documents:
        for row in document["latency"]:
            if row["subject"] in ("fp16", "int8") and row.get("call_ms"):
                rows.append([row["subject"], row["size"], milliseconds(row["device_ms"]), milliseconds(row["copy_in_ms"]),
                             milliseconds(row["copy_out_ms"]), f"{row['enqueue_us']:.0f}", milliseconds(row["call_ms"]),
                             percent(row["device_ms"] / row["call_ms"]).split(".")[0] + " %"])
    heading = ["ResNet-50", "batch", "device ms", "copy in ms", "copy out ms", "enqueue µs", "whole call ms", "of it device"]
    return markdown(heading, rows) + "\n" + paragraph("Medians, inputs and outputs in the host's memory.", documents) if rows else ""


def batches_on_cpu(folder):
    """What a larger batch does to latency and throughput."""
    rows, machines = [], set()
    for document in load(folder, "bench"):
        rates = {(row["subject"], row["batch"]): row["samples_per_second"] for row in document.get("throughput", [])}
        for name in OURS:
            latency = rows_of(document, name)
            if not latency:
                continue
            machines.add(document["machine"]["cpu"] + f", {document['machine']['cores']} cores")
            cells = [f"{milliseconds(row['median_ms'])} / {rates[name, batch]:.0f}" if (name, batch) in rates
                     else milliseconds(row["median_ms"]) for batch, row in sorted(latency.items())]
            heading = ["median ms a call / samples a second", "", *(f"batch {batch}" for batch in sorted(latency))]
            rows.append([document["network"], name, *cells])
    return markdown(heading, rows) + f"\n{', '.join(sorted(machines))}, all cores for one call.\n" if rows else ""


def formats_of_int8(folder):
    """Accuracy by number format: scales of weights by channel or tensor, activations with a zero point or without."""
    rows, photos = [], set()
    for document in load(folder, "formats"):
        photos.add(f"{document['network']}, {document['data']['samples']} photos, engines on a CPU")
        for subject in document["subjects"]:
            versus = subject.get("vs_reference")
            weights, *rest = subject["name"].split(".")
            activations, how = (rest[0], ", ".join(part.replace("-", " ") for part in rest[1:])) if rest else ("", "")
            cells = [percent(versus["agreement"]), f"{versus['mean_kl']:.4f}", f"{versus['sqnr_db']:.1f}"] if versus else \
                ["", "", ""]
            rows.append([weights if rest else "FP32", activations, how, percent(subject["top1"], subject["top1_ci95"]),
                         *cells])
    heading = ["weights", "activations", "", "top-1 (95 %)", "same class", "mean KL", "SQNR dB"]
    return markdown(heading, rows) + f"\n{'; '.join(sorted(photos))}.\n" if rows else ""


def weight_ranges(folder):
    """Accuracy on a CPU without VNNI by how far weights go."""
    names = {"lathe.full.effort-0": "Lathe, `full`, effort 0", "ort.minmax-u8s8": "ONNX Runtime",
             "ort.minmax-u8s7": "ONNX Runtime, reduce_range", "nncf.mixed": "NNCF", "nncf.overflow-fix": "NNCF, overflow fix",
             "lathe.seven-bits.effort-0": "Lathe, `seven-bits`, effort 0",
             "lathe.pairs.effort-0": "**Lathe, `pairs`, effort 0**",
             "lathe.seven-bits.effort-2": "Lathe, `seven-bits`, effort 2",
             "lathe.pairs.effort-2": "**Lathe, `pairs`, effort 2**"}
    rows, photos, machines = [], [], set()
    for document in load(folder, "weight_ranges"):
        photos.append(f"{document['network']} on {document['data']['samples']:,} photos")
        machines.add(document["machine"]["cpu"] + " with " + ", ".join(
            flag for flag in document["machine"]["flags"] if flag.startswith(("avx", "amx"))))
        subjects = {subject["name"]: subject for subject in document["subjects"]}
        for name, title in names.items():
            versus = subjects.get(name, {}).get("vs_reference")
            if versus:
                rows.append([document["network"], title, percent(versus["agreement"]), f"{versus['mean_kl']:.4f}",
                             points(versus["top1_delta"], versus["top1_delta_ci95"])])
    heading = ["network", "weights", "same class as FP32", "mean KL", "top-1, points (95 %)"]
    line = f"\n{'; '.join(photos)}; all run by OpenVINO on {'; '.join(sorted(machines))}.\n"
    return markdown(heading, rows) + line if rows else ""


def methods_of_ranges(folder):
    """Closeness to FP32 by range estimator, a column for each network."""
    names = {"minmax": "`minmax`", "percentile": "`percentile`", "entropy": "`entropy`", "mse": "`mse`", "auto": "`auto`",
             "effort-2": "`mse`, effort 2", "effort-3": "`auto`, effort 3"}
    heading, rows = ["method"], [[title] for title in names.values()]
    for document in load(folder, "methods"):
        heading.append(f"{document['network']}, {document['data']['samples']:,} photos")
        subjects = {subject["name"]: subject["vs_reference"] for subject in document["subjects"] if "vs_reference" in subject}
        for name, row in zip(names, rows):
            versus = subjects[name]
            row.append(f"{percent(versus['agreement'])}, {versus['mean_kl']:.4f}, {versus['sqnr_db']:.1f} dB")
    return markdown(heading, rows) if len(heading) > 1 else ""


TABLES = {
    "note-methods": methods_of_ranges,
    "note-formats": formats_of_int8,
    "note-weight-ranges": weight_ranges,
    "note-int8-cpu": int8_on_cpu,
    "note-int8-gpu": int8_on_gpu,
    "note-steps-gpu": steps_on_gpu,
    "note-memory-gpu": memory_on_gpu,
    "note-kernels-gpu": kernels_on_gpu,
    "note-spread-cpu": spread_on_cpu,
    "note-parts-gpu": parts_on_gpu,
    "note-batches-cpu": batches_on_cpu,
}
