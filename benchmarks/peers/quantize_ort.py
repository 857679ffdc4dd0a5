"""ONNX Runtime's static quantisation, as its documentation has it: pre-process, then quantize_static with Q/DQ.

    python benchmarks/peers/quantize_ort.py model.onnx --data photos/ --output DIR

Writes DIR/ort-METHOD-TYPES.onnx and DIR/ort.json with the seconds each took, data loading included.
"""

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import onnx
import onnxruntime
from images import choose, preprocess, rules_of
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}


class Reader(CalibrationDataReader):
    """Feeds one preprocessed image at a time."""

    def __init__(self, name, files, rules):
        self.name = name
        self.rules = rules
        self.files = iter(files)

    def get_next(self):
        file = next(self.files, None)
        return None if file is None else {self.name: preprocess(file, self.rules)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--samples", type=int, default=300, help="for minmax")
    parser.add_argument("--histogram-samples", type=int, default=100, help="for the others, which keep all activations")
    parser.add_argument("--preprocess")
    parser.add_argument("--variants", default="minmax-u8s8,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    model = onnx.load(options.model)
    rules = rules_of(model, options.preprocess)
    results = []
    for variant in options.variants.split(","):
        method, types = variant.split("-")
        samples = options.samples if method == "minmax" else options.histogram_samples
        target = output / f"ort-{variant}.onnx"
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as scratch:
            prepared = str(Path(scratch) / "prepared.onnx")
            quant_pre_process(options.model, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                str(target),
                Reader(model.graph.input[0].name, choose(options.data, samples), rules),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8 if types == "u8s8" else QuantType.QInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=METHODS[method],
                extra_options={"ActivationSymmetric": types == "s8s8"},
            )
        results.append(
            {
                "tool": "onnxruntime",
                "version": onnxruntime.__version__,
                "variant": variant,
                "file": target.name,
                "samples": samples,
                "seconds": time.perf_counter() - start,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
        print(json.dumps(results[-1]), flush=True)
    (output / "ort.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
