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
the pairs. Below 1 Lathe is slower. "Reference" is the share of the time that Lathe spends in kernels which nothing
faster replaces yet. "Error" is Lathe's FP16 against PyTorch in FP32, by the norm.
"""


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


def section(document):
    peers = [word for word in ("compile", "max-autotune")
             if any(word in cell for row in document["networks"] for cell in row["batches"].values())]
    rows, ratios, refused = [], [], []
    for network in document["networks"]:
        if not network["batches"] or not any("fp16" in cell for cell in network["batches"].values()):
            words = network["problems"][0] if network["problems"] else "not run"
            refused.append(f"- {network['network']}: {' '.join(words.split())[:240]}")
            continue
        for batch, cell in network["batches"].items():
            if "fp16" not in cell:
                continue
            best = ratio(cell, peers)
            if best:
                ratios.append(best["times_as_fast"])
            int8 = cell.get("int8:fp16")
            share, error = network.get("fp16", {}).get("reference_share"), network.get("relative_error")
            rows.append([network["network"], batch, milliseconds(cell["fp16"]["ms"]),
                         *(milliseconds(cell[peer]["ms"]) if peer in cell else "–" for peer in peers), times(best),
                         times(int8), "–" if share is None else f"{100 * share:.0f} %", "–" if error is None else f"{error:.1e}"])
    machine = document["machine"]
    libraries = ", ".join(f"{name} {version}" for name, version in sorted(document["libraries"].items()))
    text = f"\n## {machine.get('gpu', 'unknown GPU')}\n\n"
    text += markdown(["network", "batch", "Lathe", *peers, "× the faster", "INT8 × FP16", "reference", "error"], rows)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        text += f"\nGeometric mean of {len(ratios)} rows: {mean:.2f}×; slower than the faster of torch.compile's modes in {sum(r < 1 for r in ratios)}.\n"
    if refused:
        text += "\nNot run:\n\n" + "\n".join(refused) + "\n"
    return text + f"\n{document['lathe']}; driver {machine.get('driver', 'unknown')}, {libraries}; {document['time']}.\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    documents = load(ROOT / "benchmarks" / "results", "zoo")
    if not documents:
        sys.exit("no benchmarks/results/*.zoo.json: run benchmarks/gpu/zoo.py on a machine with an NVIDIA GPU")
    page = HEAD + "".join(section(document) for document in documents)
    if options.check:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page:
            sys.exit("docs/gpu-networks.md is not what the results give: run benchmarks/zoo_tables.py")
        return
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
