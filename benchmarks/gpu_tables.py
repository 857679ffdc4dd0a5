"""The tables of results on NVIDIA GPUs: of NETWORK.gpu.json (run_gpu.py), NETWORK.accuracy.json (gpu/accuracy.py)
and NETWORK.scaling.json (gpu/scaling.py)."""

from markdown_tables import load, markdown, mebibytes, milliseconds, percent

COMPILED = ("compile-fp16", "max-autotune")


def paragraph(text, documents):
    """What a table shows, and the machines of its figures: GPU, driver, libraries, clocks at the end; each once."""
    machines = {}
    for document in documents:
        machine, libraries = document.get("machine", {}), document.get("libraries", {})
        parts = [machine.get("gpu", "unknown GPU"), f"driver {machine.get('driver', 'unknown')}"]
        parts += [f"{name} {version}" for name, version in sorted(libraries.items()) if isinstance(version, str)]
        clock = document.get("clocks", {}).get("after", {}).get("clocks.sm")
        machines.setdefault(", ".join(parts), set()).update([clock] if clock else [])
    lines = [line + (f", {' and '.join(sorted(clocks))} at the end" if clocks else "") for line, clocks in machines.items()]
    return f"{text} {'; '.join(lines)}.\n"


def latency(folder):
    """Device ms a size, and how many times as fast Lathe is as the faster of torch.compile's modes, pair by pair."""
    text, documents = "", load(folder, "gpu")
    for document in documents:
        sizes = list(dict.fromkeys(entry["size"] for entry in document["latency"]))
        times = {(entry["subject"], entry["size"]): entry["device_ms"] for entry in document["latency"]}
        ratios = {}
        for entry in document["ratios"]:
            if entry["reference"] in COMPILED:
                key = (entry["subject"], entry["size"])
                ratios[key] = min(ratios.get(key, float("inf")), entry["times_as_fast"])
        engines = [row["name"] for row in document["subjects"]]
        rows = []
        for name in dict.fromkeys(entry["subject"] for entry in document["latency"]):
            cells = []
            for size in sizes:
                ms, ratio = times.get((name, size)), ratios.get((name, size))
                cell = milliseconds(ms) if ms is not None else "–"
                cells.append(cell + (f" ({ratio:.2f}×)" if ratio and ms is not None else ""))
            rows.append([f"**Lathe {name}**" if name in engines else f"torch {name}", *cells])
        text += markdown([document["network"], *(f"batch {size}" for size in sizes)], rows) + "\n" if rows else ""
    if not text:
        return ""
    return text + paragraph(
        "Device ms a call, both sides as CUDA graphs; in brackets, how many times as fast as torch.compile in fp16 (the "
        "faster of its modes, where max-autotune is given), pair by pair in turns on one GPU.", documents)


def fastest(folder):
    """Of each of three networks at its smallest size: network, GPU, precision, device ms, times as fast as the faster of
    torch.compile's modes."""
    found = []
    for document in load(folder, "gpu"):
        if document["network"] not in ("BERT-base", "EfficientNet-Lite0", "ResNet-50"):
            continue
        size = document["latency"][0]["size"]
        engines = {row["name"] for row in document["subjects"]}
        ms = {row["subject"]: row["device_ms"] for row in document["latency"]
              if row["size"] == size and row["subject"] in engines and row["device_ms"] is not None}
        best = min(ms, key=ms.get)
        ratio = min((row["times_as_fast"] for row in document["ratios"]
                     if row["subject"] == best and row["size"] == size and row["reference"] in COMPILED), default=None)
        if ratio is not None:
            found.append((document["network"], document["machine"].get("gpu", "GPU"), best, ms[best], ratio))
    return found


def seconds(row, *keys):
    return " / ".join(f"{row[key]:.1f}" if row.get(key) is not None else "–" for key in keys)


def memory(folder):
    """Time to build, bytes on disk and on the GPU, at the largest size that was compared."""
    rows, documents = [], [d for d in load(folder, "gpu") if d.get("memory")]
    for document in documents:
        context = document.get("context_bytes")
        largest = document["memory"][-1]["size"]
        for row in document["subjects"]:
            if "large" in row["name"]:
                continue
            rows.append([
                document["network"], f"**Lathe {row['name']}**", seconds(row, "build_seconds", "rebuild_seconds"),
                mebibytes(row.get("engine_bytes")),
                mebibytes(row.get("weight_bytes"), row.get("arena_bytes"), row.get("workspace_bytes")),
                mebibytes(row.get("process_gpu_bytes")),
            ])
        for row in document["memory"]:
            if row["size"] != largest:
                continue
            rows.append([
                f"{document['network']}, batch {largest}", f"torch {row['subject']}", seconds(row, "ready_seconds"),
                mebibytes(row["weight_bytes"]), mebibytes(row.get("peak_allocated_bytes")),
                mebibytes(row.get("peak_reserved_bytes"), context),
            ])
    if not rows:
        return ""
    heading = ["network", "", "ready in s", "file MiB", "weights and activations MiB", "of the process MiB"]
    return markdown(heading, rows) + "\n" + paragraph(
        "Ready: an engine for all sizes, from an empty timing cache and again with it; PyTorch for one size, with compiled "
        "kernels where a run before had made them. File: the engine, or the weights alone. Of the process: with the "
        "driver's context.", documents)


def throughput(folder):
    """Samples a second at the batch that gives most, and how steady single calls are."""
    rows, documents = [], [d for d in load(folder, "gpu") if d.get("throughput") or d.get("tail")]
    for document in documents:
        tails = {row["subject"]: row for row in document.get("tail", [])}
        best = {}
        for row in document.get("throughput", []):
            other = best.get(row["subject"])
            if other is None or row["samples_per_second_device"] > other["samples_per_second_device"]:
                best[row["subject"]] = row
        for name in dict.fromkeys([*best, *tails]):
            most, tail = best.get(name), tails.get(name, {})
            device = tail.get("device_ms", {})
            rows.append([
                document["network"], f"**Lathe {name}**",
                f"{most['samples_per_second_device']:,.0f} (batch {most['size']})" if most else "–",
                f"{device['p99_over_median']:.3f}" if device else "–", f"{tail['runs']:,}" if tail else "–",
            ])
    if not rows:
        return ""
    heading = ["network", "", "samples/s on the device", "p99/median at the least size", "calls"]
    if all(row[2] == "–" for row in rows):  # no run had the time for it
        heading, rows = heading[:2] + heading[3:], [row[:2] + row[3:] for row in rows]
    return markdown(heading, rows) + "\n" + paragraph("One session, inputs on the GPU.", documents)


def accuracy(folder):
    """Top-1 and closeness to fp32 on the same GPU; Spearman's correlation of sentence encoders."""
    text, documents = "", load(folder, "accuracy")
    for document in documents:
        rows = []
        for row in document.get("subjects", []):
            title = f"**Lathe {row['name']}**"
            if "spearman" in row:
                rows.append([title, f"{row['spearman']:.5f}"])
                continue
            versus = row.get("vs_reference")
            cells = [percent(versus["agreement"]), f"{versus['mean_kl']:.5f}"] if versus else ["reference", ""]
            rows.append([title, percent(row["top1"], row.get("top1_ci95")), *cells])
        data = document["data"]
        if rows and len(rows[0]) == 2:
            heading = [f"{document['network']}, {data['pairs']} pairs of {data['name']}", "Spearman"]
        else:
            heading = [f"{document['network']}, {data.get('samples')} images", "top-1 (95 %)", "agreement with FP32",
                       "mean KL"]
        text += markdown(heading, rows) + "\n" if rows else ""
    if not text:
        return ""
    return text + paragraph("Engines on the GPU, real photos and sentences.", documents)


def scaling(folder):
    """Samples a second on one and more GPUs."""
    rows, documents = [], load(folder, "scaling")
    for document in documents:
        for row in document["rows"]:
            rows.append([document["network"], f"**Lathe {row['precision']}**, batch {row['batch']}", row["inputs"],
                         str(row["gpus"]), f"{row['samples_per_second']:,.0f}", f"{row['times']:.2f}×"])
    if not rows:
        return ""
    return markdown(["network", "", "inputs in", "GPUs", "samples/s", "of one GPU"], rows) + "\n" + paragraph(
        "Several streams a GPU; inputs in host memory are copied within the time.", documents)
