"""Writes the tables of README.md, docs/results.md, docs/design/, docs/notes/ and docs/howto/ from benchmarks/results/*.json, between
`<!-- table:NAME -->` and `<!-- /table -->`, and single figures within sentences, between `<!-- figure:NAME -->` and
`<!-- /figure -->`.

    python3 benchmarks/make_tables.py            # rewrite them
    python3 benchmarks/make_tables.py --check    # fail if they are not up to date

No third-party package. Order and rounding depend on the JSON alone, so that the check can compare text.
"""

import argparse
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import gpu_tables
import mix_tables
import note_figures
import note_tables
import serving_tables
from markdown_tables import load, markdown, milliseconds, percent

ROOT = Path(__file__).resolve().parent.parent
MARK = re.compile(r"(<!-- table:(?P<name>[\w-]+) -->\n)(?P<body>.*?)(<!-- /table -->)", re.DOTALL)


def machine_line(document):
    """What the figures were taken on."""
    machine = document.get("machine", {})
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(document.get("libraries", {}).items()))
    virtual = ", virtual machine" if machine.get("virtual_machine") else ""
    return f"{machine.get('cpu', 'unknown processor')}, {machine.get('cores', '?')} cores{virtual}; {libraries}"


def peer_settings(document):
    """How each peer was run, peers with the same settings together."""
    names = {}
    for subject in document["subjects"]:
        for note in subject.get("notes", []):
            note = re.sub(r": bf16 took .*", "", note)  # how much faster differs from one to the next
            names.setdefault(note, []).append(subject["name"])
    return "".join(f"{', '.join(those)}: {note}. " for note, those in names.items())


def own_name(name):
    """Engines of Lathe's: int8, lathe-300 of that many images, lathe-effort-2 of `lathe quantize --effort 2`."""
    name = re.sub(r"^lathe-(\d+)$", r"int8, \1 images", name)
    return re.sub(r"^lathe-effort-(\d)$", r"int8, effort \1", name)


NNCF = {".onnx": "its ONNX form", ".xml": "its IR form"}


def forms_of_nncf(document):
    """The subject of NNCF's result in the faster of its two forms at batch 1, and a sentence on both. None and "" where it was
    not measured."""
    times = {entry["subject"]: entry["median_ms"] for entry in document["latency"] if entry["batch"] == 1}
    forms = {subject["name"]: NNCF[Path(subject["file"]).suffix] for subject in document["subjects"]
             if subject["kind"] == "openvino" and Path(subject.get("file", "")).stem == "nncf" and subject["name"] in times}
    if not forms:
        return None, ""
    # Beside int8 pair by pair, where that was measured: steadier than medians.
    beside = {entry["reference"]: entry["speedup"] for entry in document["ratios"]
              if entry["subject"] == "int8" and entry["batch"] == 1}
    long = beside if set(forms) <= set(beside) else times
    best = min(forms, key=long.get)
    others = [f"{forms[name]} takes {long[name] / long[best]:.2f}× as long at batch 1" for name in forms if name != best]
    return best, f"NNCF's result is shown in {'; '.join([forms[best], *others])}. "


def latencies(folder):
    """A document a network: `latency` where it was measured, else `bench`, which holds the frameworks too."""
    found = {document["network"]: document for ending in ("bench", "latency") for document in load(folder, ending)}
    return list(found.values())


def latency_table(folder):
    """Median ms a batch size, and how many times as fast the int8 engine is, pair by pair."""
    text = ""
    for document in latencies(folder):
        nncf, about_nncf = forms_of_nncf(document)
        batches = sorted({entry["batch"] for entry in document["latency"]})
        times = {(entry["subject"], entry["batch"]): entry for entry in document["latency"]}
        ratios = {
            (entry["reference"], entry["batch"]): entry["speedup"]
            for entry in document["ratios"]
            if entry["subject"] == "int8"
        }
        rows = []
        for subject in document["subjects"]:
            name = subject["name"]
            if name.startswith("openvino:") and name not in (nncf, "openvino:int8"):
                continue  # in the peers' table
            cells = []
            for batch in batches:
                entry = times.get((name, batch))
                ratio = ratios.get((name, batch))
                noisy = "~" if entry and entry["noisy"] else ""
                cell = f"{noisy}{milliseconds(entry['median_ms'])}" if entry else "–"
                cells.append(cell + (f" ({ratio:.2f}×)" if ratio and entry else ""))
            title = "openvino:nncf" if name == nncf else name
            title = f"**Lathe {own_name(name)}**" if subject["kind"] == "engine" else title
            rows.append([title, subject["precision"], *cells])
        heading = [document.get("network", "network"), "precision", *(f"batch {batch}" for batch in batches)]
        text += markdown(heading, rows) + "\n" if rows else ""
        text += (
            "Median ms a call; in brackets, how many times as fast Lathe int8 is, pair by pair in one interleaved run; "
            f"~ marks what did not settle within 1 %. {about_nncf}{peer_settings(document)}{machine_line(document)}.\n\n"
            if rows
            else ""
        )
    return text.rstrip("\n") + "\n" if text else ""


def accuracy_table(folder):
    """Accuracy with intervals and closeness to FP32, of what the peers' table does not hold."""
    text = ""
    beside_peers = {document["network"] for document in load(folder, "quantize")}
    for document in load(folder, "eval"):
        if document.get("network") in beside_peers:
            continue
        rows = []
        for subject in document["subjects"]:
            versus = subject.get("vs_reference")
            name = subject["name"]
            ours = name in {"int8", "fp32", "bf16"} or name.startswith("lathe-")
            title = f"**Lathe {own_name(name)}**" if ours else name
            row = [title, percent(subject["top1"], subject.get("top1_ci95"))]
            if versus:
                sqnr = versus["sqnr_db"]
                row += [percent(versus["agreement"]), f"{versus['mean_kl']:.4f}", "∞" if sqnr is None else f"{sqnr:.1f}"]
            else:
                row += ["reference", "", ""]
            rows.append(row)
        heading = [
            f"{document.get('network', 'network')}, {document['data']['samples']} images",
            "top-1 (95 %)",
            "agreement with FP32",
            "mean KL",
            "SQNR dB",
        ]
        text += markdown(heading, rows) + "\n" if rows else ""
    return text.rstrip("\n") + "\n" if text else ""


def points(versus):
    """Top-1 less FP32's in points, with the interval of the paired difference."""
    low, high = versus["top1_delta_ci95"]
    return f"{100 * versus['top1_delta']:+.2f} ({100 * low:+.2f}..{100 * high:+.2f})"


def seconds_of(rows):
    """Of one method's rows: its result's, then in OpenVINO's own form, then of as few photos as Lathe read."""
    def seconds(row):
        if row.get("failed"):
            return "failed"
        return "–" if row["seconds"] is None else f"{row['seconds']:.1f}"

    most = max(row["samples"] for row in rows)
    own = [row for row in rows if row["file"].endswith(".xml")]
    full = [row for row in rows if row not in own and row["samples"] == most]
    text = seconds(full[0])
    text += "".join(f", as IR {seconds(row)}" for row in own if row["samples"] == most)
    fewer = [row for row in rows if row["samples"] < most]
    least = min((row["seconds"] for row in fewer), default=None)
    return text + (f"; {least:.1f} with {fewer[0]['samples']}" if fewer else "")


def peers_table(folder):
    """Every tool's int8 result: its price in seconds, closeness to FP32, and latency in the same runtime."""
    text = ""
    evals = {document.get("network"): document for document in load(folder, "eval")}
    benches = {document.get("network"): document for document in load(folder, "bench")}
    for times in load(folder, "quantize"):
        scores, bench = evals[times["network"]], benches[times["network"]]
        judged = {subject["name"]: subject for subject in scores["subjects"]}
        names = {Path(subject["file"]).stem: subject["name"] for subject in bench["subjects"]
                 if subject["kind"] == "openvino" and subject["file"].endswith(".onnx")}
        names |= {Path(subject["file"]).stem: subject["name"] for subject in bench["subjects"] if subject["kind"] == "engine"}
        latency = {entry["subject"]: entry for entry in bench["latency"] if entry["batch"] == 1}
        ratio = {entry["reference"]: entry for entry in bench["ratios"]
                 if entry["subject"] == "lathe-effort-2" and entry["batch"] == 1}
        methods = {}
        for tool in times["tools"]:
            methods.setdefault((tool["tool"], tool["variant"]), []).append(tool)
        rows = []
        for (tool, variant), results in methods.items():
            title = "**Lathe**" if tool == "lathe" else f"{tool} {results[0]['version']}"
            result = next(row for row in results if row["file"].endswith(".onnx"))
            row = [title, variant, str(result["samples"]), seconds_of(results)]
            name = names.get(Path(result["file"]).stem)
            if result.get("failed") or name is None:
                rows.append(row + ["–"] * 5)
                continue
            versus = judged[Path(result["file"]).stem]["vs_reference"]
            row += [points(versus), percent(versus["agreement"]), f"{versus['mean_kl']:.4f}"]
            row.append(("~" if latency[name]["noisy"] else "") + milliseconds(latency[name]["median_ms"]))
            row.append("" if name == "lathe-effort-2" else f"{ratio[name]['speedup']:.2f}×")
            rows.append(row)
        heading = [f"{times['network']}, {scores['data']['samples']} photos", "method", "photos read", "seconds",
                   "top-1 against FP32, points (95 %)", "agreement", "mean KL", "ms at batch 1", "Lathe effort 2 is faster"]
        text += markdown(heading, rows) + "\n"
    return text.rstrip("\n") + "\n" if text else ""


def map_points(judged, absent="–"):
    """mAP less FP32's in points, with the interval of the paired difference."""
    if judged is None:
        return absent
    low, high = judged["map_delta_ci95"]
    return f"{100 * judged['map_delta']:+.2f} ({100 * low:+.2f}..{100 * high:+.2f})"


def own_found(judged, absent="–"):
    """mAP at IoU 0.5 against FP32's own detections, in per cent, with its interval."""
    if judged is None:
        return absent
    low, high = judged["same_ci95"]
    return f"{100 * judged['same']:.2f} ({100 * low:.1f}..{100 * high:.1f})"


def detector_rows(document):
    """Of one network: a row for FP32 and one for each method. Columns that no row has are left out by the caller."""
    whole = document["fp32"]
    truth = "map" in whole

    def times(row):
        if row.get("median_ms") is None:
            return ["–", "–"]
        ratio = row.get("speedup")
        return [("~" if row["noisy"] else "") + milliseconds(row["median_ms"]), f"{ratio:.2f}×" if ratio else ""]

    rows = [["**Lathe**", "fp32", "", "", *([f"{100 * whole['map']:.2f} mAP"] if truth else []), f"{whole['detections']} of them", "",
             *times(whole)]]
    for row in document["methods"]:
        title = "**Lathe**" if row["tool"] == "lathe" else f"{row['tool']} {row['version']}"
        seconds = f"{row['seconds']:.0f}" if row.get("seconds") is not None else "–"
        if row.get("failed"):
            rows.append([title, row["variant"], str(row["samples"]), "failed", *["–"] * (5 if truth else 4)])
            continue
        same = own_found(row["openvino"])
        judged = ([map_points(row["openvino"]), same, map_points(row.get("onnxruntime"))] if truth else
                  [same, own_found(row.get("onnxruntime"))])
        rows.append([title, row["variant"], str(row["samples"]), seconds, *judged, *times(row)])
    return rows


def detectors_table(folder):
    """Every tool's int8 detector: mAP less FP32's in points, FP32's own detections found by runtime, and latency in OpenVINO."""
    text = ""
    for document in load(folder, "detector"):
        whole = document["fp32"]
        timed = whole.get("median_ms") is not None
        heading = [f"{document['network']}, {document['photos']} {document['pictures']}", "method", "read", "seconds"]
        found = "FP32's own found, mAP 0.50, % (95 %)"
        heading += (["mAP against FP32, points (95 %)", found, "mAP in ONNX Runtime, points (95 %)"] if "map" in whole else
                    [found, "the same in ONNX Runtime"])
        heading += ["ms at batch 1", f"Lathe {document['beside'].replace('lathe-effort-', 'effort ')} is faster"] if timed else []
        text += markdown(heading, [row[: len(heading)] for row in detector_rows(document)]) + "\n"
        text += f"{machine_line(document)}.\n\n" if timed else "\n"
    return text.rstrip("\n") + "\n" if text else ""


def summary_table(folder):
    """A row a network: the int8 engine of the CPU's benchmarks beside ONNX Runtime, the fastest engine of the GPU's
    beside torch.compile."""
    rows = []
    evals = {document.get("network"): document for document in load(folder, "eval")}
    for document in latencies(folder):
        times = {entry["subject"]: entry for entry in document["latency"] if entry["batch"] == 1}
        ratios = {entry["reference"]: entry["speedup"] for entry in document["ratios"]
                  if entry["subject"] == "int8" and entry["batch"] == 1}
        nncf, _ = forms_of_nncf(document)
        beside = [f"{ratios[name]:.2f}× {title}" for name, title in
                  (("onnxruntime", "ONNX Runtime fp32"), ("onnxruntime:ort-minmax-u8s8", "its int8"),
                   (nncf, "OpenVINO with NNCF")) if name in ratios]
        judged = {subject["name"]: subject for subject in evals.get(document["network"], {}).get("subjects", [])}
        versus = judged.get("lathe-effort-2", {}).get("vs_reference")
        if "int8" in times:
            rows.append([document["network"], "2 cores" if document["machine"].get("cores") == 2 else "CPU", "int8",
                         milliseconds(times["int8"]["median_ms"]), ", ".join(beside), points(versus) if versus else "–"])
    for network, gpu, precision, ms, ratio in gpu_tables.fastest(folder):
        rows.append([network, gpu, precision, milliseconds(ms), f"{ratio:.2f}× torch.compile fp16", "–"])
    return markdown(["network, one sample", "machine", "engine", "ms", "as fast as", "top-1 against FP32, points (95 %)"], rows)


def layers_table(folder):
    """What became of each small network that benchmarks/run_layers.py exports."""
    rows, text = [], ""
    for document in load(folder, "layers"):
        counts = document["counts"]
        machine = document["machine"]
        rows.append([document["device"], machine.get("gpu", machine.get("cpu", "unknown")),
                     *(str(counts.get(name, 0)) for name in ("right", "wrong", "failed", "refused", "exporter's", "not exported"))])
        refused = [f"{row['network']} ({row['export']})" for row in document["networks"] if row["outcome"] == "refused"]
        text += f"\nRefused on {document['device']}: {', '.join(refused) or 'none'}.\n"
    if not rows:
        return ""
    head = ["device", "machine", "right", "wrong", "failed", "refused", "wrong in ONNX Runtime too", "not exported"]
    return markdown(head, rows) + text


TABLES = {
    "layers": layers_table,
    "summary": summary_table,
    "latency": latency_table,
    "peers": peers_table,
    "detectors": detectors_table,
    "accuracy": accuracy_table,
    "gpu": gpu_tables.latency,
    "gpu-memory": gpu_tables.memory,
    "gpu-throughput": gpu_tables.throughput,
    "gpu-accuracy": gpu_tables.accuracy,
    "gpu-scaling": gpu_tables.scaling,
    **mix_tables.TABLES,
    **serving_tables.TABLES,
    **note_tables.TABLES,
}


def rewrite(text, folder, file):
    """The text with every known table's body and figure made anew. A table that stood there
    and that no result gives any more ends the program."""

    def body(match):
        name = match["name"]
        if name not in TABLES:
            raise SystemExit(f"{file} asks for an unknown table '{name}'; known: {', '.join(TABLES)}")
        made = TABLES[name](folder)
        if not made and match["body"].strip():
            raise SystemExit(f"{file}: no result gives the table '{name}'; measure it, or take it out")
        return match[1] + made + match[4]

    return note_figures.rewrite(MARK.sub(body, text), folder, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--document", action="append", help="file to rewrite; README.md, docs/results.md, "
                        "docs/design/*.md, docs/notes/*.md and docs/howto/*.md if not given")
    parser.add_argument("--results", default=str(ROOT / "benchmarks" / "results"))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    folders = [ROOT / "docs" / name for name in ("design", "notes", "howto")]
    documents = options.document or [ROOT / "README.md", ROOT / "docs" / "results.md",
                                     *(file for folder in folders for file in sorted(folder.glob("*.md")))]
    stale = []
    for file in map(Path, documents):
        old = file.read_text(encoding="utf-8")
        new = rewrite(old, options.results, file.name)
        if new != old and options.check:
            stale.append(file.name)
        elif new != old:
            file.write_text(new, encoding="utf-8")
    if stale:
        sys.exit(f"not what benchmarks/results gives: {', '.join(stale)}; run python3 benchmarks/make_tables.py")


if __name__ == "__main__":
    main()
