"""The frame of the peers' quantisers: their command line, the calibration images, and a row for each result."""

import argparse
import contextlib
import json
import resource
import time
from pathlib import Path

import onnx
from onnx import version_converter
from images import choose, preprocess, rules_of


def command_line(doc, variants):
    """A parser of what all of them take; `variants` are the usual ones."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True, help="folder of calibration images")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--preprocess", help="JSON file, in place of the model's metadata")
    parser.add_argument("--variants", default=variants, help="separated by commas (default: %(default)s)")
    parser.add_argument("--output", required=True, help="folder")
    return parser


class Peer:
    """A tool at work on one model. Its rows are printed as they come; `save` writes them to OUTPUT/NAME.json."""

    def __init__(self, name, tool, version, options):
        self.name, self.tool, self.version, self.options = name, tool, version, options
        self.output = Path(options.output)
        self.output.mkdir(parents=True, exist_ok=True)
        self.model = onnx.load(options.model)
        # Below opset 13 Q/DQ has one scale a tensor: NNCF then falls back to that, ONNX Runtime writes what no runtime takes.
        if next(entry.version for entry in self.model.opset_import if not entry.domain) < 13:
            self.model = version_converter.convert_version(self.model, 13)
            options.model = str(self.output / "opset-13.onnx")
            onnx.save(self.model, options.model)
        self.input = self.model.graph.input[0].name
        self.rules = rules_of(self.model, options.preprocess)
        self.variants = options.variants.split(",")
        self.rows = []

    def images(self, samples=None):
        """Files of the calibration images, spread over the folder."""
        return choose(self.options.data, samples or self.options.samples)

    def load(self, file):
        """One image as a float32 tensor of batch 1."""
        return preprocess(file, self.rules)

    @contextlib.contextmanager
    def timed(self, variant, file, samples):
        """Times what is done in its body, which reads the images too and writes the path given: OUTPUT/FILE. A tool that
        fails on the model gets a row with its own words: that too is a result, and the others still have their turn."""
        row = {"tool": self.tool, "version": self.version, "variant": variant, "file": file, "samples": samples}
        start = time.perf_counter()
        try:
            yield self.output / file
            row["seconds"] = time.perf_counter() - start
            row["peak_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        except Exception as failure:  # whatever a peer throws
            (self.output / file).unlink(missing_ok=True)
            row["failed"] = f"{type(failure).__name__}: {failure}"
        self.rows.append(row)
        print(json.dumps(row), flush=True)

    def save(self):
        """After the last row: who starts the tools takes the file for a sign that all is done."""
        (self.output / f"{self.name}.json").write_text(json.dumps(self.rows, indent=2) + "\n", encoding="utf-8")
