"""What the tables of README and docs/notes are made with. No third-party package."""

import json
from pathlib import Path

import provenance


def load(folder, ending):
    """All documents of a kind (NETWORK.ENDING.json; a network's name holds no dot), in the order of their file names.
    One that does not say where it comes from ends the program."""
    files = sorted(file for file in Path(folder).glob(f"*.{ending}.json") if "." not in file.name.removesuffix(f".{ending}.json"))
    documents = []
    for file in files:
        document = json.loads(file.read_text(encoding="utf-8"))
        if missing := provenance.lacking(document, file.name.removesuffix(".json")):
            raise SystemExit(f"{file.name} does not record {', '.join(missing)}: measure it with the programs in benchmarks/")
        documents.append(document)
    return documents


def milliseconds(value):
    """Three significant digits."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def mebibytes(*values):
    """The sum in MiB, or a dash if any is missing."""
    return "–" if any(value is None for value in values) else f"{sum(values) / 2**20:.0f}"


def markdown(heading, rows):
    """A Markdown table, or nothing for no rows."""
    if not rows:
        return ""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def percent(value, interval=None):
    """68.24 % (66.9–69.5)"""
    if value is None:
        return "–"
    span = f" ({100 * interval[0]:.1f}–{100 * interval[1]:.1f})" if interval else ""
    return f"{100 * value:.2f} %{span}"
