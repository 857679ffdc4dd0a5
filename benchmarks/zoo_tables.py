"""docs/gpu-networks.md from benchmarks/results/*.zoo.json (benchmarks/gpu/zoo.py).

    python3 benchmarks/zoo_tables.py            writes the page
    python3 benchmarks/zoo_tables.py --check    fails where the page is not what the results give
"""

import argparse
import math
import sys
from pathlib import Path

from markdown_tables import load, markdown, milliseconds

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "gpu-networks.md"
HEAD = """# Networks on the GPU

Made by `benchmarks/zoo_tables.py` from `benchmarks/results/*.zoo.json`; `benchmarks/gpu/zoo.py` tells how it is measured. Every network has
seeded random weights and is exported plainly by `torch.onnx.export`. Times are the device's, in ms a call, both sides in
FP16 as CUDA graphs, taken in turns; "×" is how many times as fast Lathe is as torch.compile, with the 95 % interval of
the pairs. Bold: slower. "Reference" is the share of the time that Lathe spends in kernels which nothing
faster replaces yet. "Error" is Lathe's FP16 against PyTorch in FP32, by the norm; in brackets PyTorch's own FP16. Rows
without a peer were timed alone, when the machine's time was short; times and ratios are of the newest run that measured
Lathe and the peer, those of INT8 of the newest run that timed it. The run of mixer_b16 at batch 32 had a head of zeros: its error says nothing.
EfficientViT-B0's linear attention has sums of products of 1.5e7, more than FP16 holds, and gives no numbers in it; PyTorch's own
code computes that part in FP32 (`lathe autocast` writes the same into the graph, from samples).
MobileOne and RepVGG are exported with their branches, which `merge-branches` makes one convolution; torch.compile runs them as they
are written. timm's `reparameterize_model` does in PyTorch what that pass does, so these ratios are not in the mean.
"Like" is a network of that form and size with weights of its own making: yolov8n_like and yolox_s_like at 640 pixels.
RT-DETR gives its queries in the order of scores that random weights leave close together: FP16 changes it, PyTorch's too.
deberta_v3_small has 24 heads and 6,144 inner numbers, as transformers' configuration says by default.
GPT-2's decode reads and writes its states in FP16, as PyTorch does, at batch 1; at batch 8 the newest run had them in FP32.
"""


PEERS = ("compile", "max-autotune")
# Their parallel branches are one convolution to Lathe and as many as written to PyTorch, whose users may merge them first.
BRANCHED = ("mobileone_s0", "repvgg_b0")


def ratio(cell, peers):
    """Against the fastest of the peers: the smallest of the ratios."""
    found = [cell[f"fp16:{peer}"] for peer in peers if f"fp16:{peer}" in cell]
    if not found:
        return None
    return min(found, key=lambda row: row["times_as_fast"])


def times(row):
    if row is None:
        return "–"
    low, high = row["ci95"]
    text = f"{row['times_as_fast']:.2f} ({low:.2f}–{high:.2f})"
    return f"**{text}**" if high < 1 else text


def newest(documents):
    """Of each network and batch the newest cell, with what older ones alone have (ratios to peers, and of INT8), and of each
    network that the newest document that has it did not time what was said."""
    cells, said, when = {}, {}, {}
    for document in sorted(documents, key=lambda each: each["time"]):
        for network in document["networks"]:
            name = network["network"]
            if network["problems"]:
                said[name] = document["time"], " ".join(network["problems"][0].split())[:240]
            for batch, cell in network["batches"].items():
                if "fp16" in cell:
                    _, older = cells.get((name, int(batch)), (None, {}))
                    both = {**older, **cell}
                    if any(peer in older and peer not in cell for peer in PEERS):
                        both["fp16"] = older["fp16"]  # a ratio stands beside the two times that it is of
                    cells[name, int(batch)] = (network, both)
                    when[name] = document["time"]
    return cells, {name: words for name, (time, words) in said.items() 
                   if time > when.get(name, "") and not (words == "no time left" and name in when)}


def section(gpu, documents):
    cells, refused = newest(documents)
    peers = [word for word in PEERS if any(word in cell for network, cell in cells.values())]
    rows, ratios = [], []
    for (name, batch), (network, cell) in sorted(cells.items()):
        best = ratio(cell, peers)
        if best and name not in BRANCHED:
            ratios.append(best["times_as_fast"])
        share, error = network.get("fp16", {}).get("reference_share"), network.get("relative_error")
        torch = network.get("relative_error_of_torch_fp16")
        rows.append([name, str(batch), milliseconds(cell["fp16"]["ms"]),
                     *(milliseconds(cell[peer]["ms"]) if peer in cell else "–" for peer in peers), times(best),
                     times(cell.get("int8:fp16")), "–" if share is None else f"{100 * share:.0f} %",
                     "–" if error is None else f"{error:.1e}" + ("" if torch is None else f" ({torch:.1e})")])
    text = f"\n## {gpu}\n\n"
    text += markdown(["network", "batch", "Lathe", *peers, "× the faster", "INT8 × FP16", "reference", "error"], rows)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        slower = sum(r < 1 for r in ratios)
        text += f"\nGeometric mean of {len(ratios)} rows (without {' and '.join(BRANCHED)}): {mean:.2f}×; slower than the fastest mode of torch.compile that was timed in {slower}.\n"
    if refused:
        text += "\nRefused, or failed:\n\n" + "\n".join(f"- {name}: {words}" for name, words in sorted(refused.items())) + "\n"
    runs = []
    for document in documents:
        libraries = ", ".join(f"{name} {version}" for name, version in sorted(document["libraries"].items()))
        runs.append(f"{document['time']} ({document['lathe']}, driver {document['machine'].get('driver', 'unknown')}, {libraries})")
    return text + "\nRuns: " + "; ".join(sorted(runs)) + ".\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    documents = load(ROOT / "benchmarks" / "results", "zoo")
    if not documents:
        sys.exit("no benchmarks/results/*.zoo.json: run benchmarks/gpu/zoo.py on a machine with an NVIDIA GPU")
    cards = sorted({document["machine"].get("gpu", "unknown GPU") for document in documents})
    page = HEAD + "".join(section(card, [d for d in documents if d["machine"].get("gpu", "unknown GPU") == card]) for card in cards)
    if options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            sys.exit("docs/gpu-networks.md is not what the results give: run benchmarks/zoo_tables.py")
        return
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
