"""NNCF's post-training quantisation with its defaults (300 images), in the environment of requirements/peers.txt.

    python benchmarks/peers/quantize_nncf.py model.onnx --data photos/ --output DIR

Writes DIR/nncf.xml (OpenVINO's own form, for speed), DIR/nncf.onnx (for `lathe eval`) and DIR/nncf.json with the
seconds each took, data loading included.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import nncf
import onnx
import openvino
from images import choose, preprocess, rules_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--preprocess")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    model = onnx.load(options.model)
    rules = rules_of(model, options.preprocess)
    name = model.graph.input[0].name
    files = choose(options.data, options.samples)
    results = []

    def note(target, seconds):
        results.append(
            {
                "tool": "nncf",
                "version": nncf.__version__,
                "variant": "default",
                "file": target,
                "samples": len(files),
                "seconds": seconds,
                "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
        print(json.dumps(results[-1]), flush=True)

    start = time.perf_counter()
    quantized = nncf.quantize(
        openvino.Core().read_model(options.model),
        nncf.Dataset(files, lambda file: preprocess(file, rules)),
        subset_size=options.samples,
    )
    openvino.save_model(quantized, str(output / "nncf.xml"), compress_to_fp16=False)
    note("nncf.xml", time.perf_counter() - start)

    start = time.perf_counter()
    quantized = nncf.quantize(
        model, nncf.Dataset(files, lambda file: {name: preprocess(file, rules)}), subset_size=options.samples
    )
    onnx.save(quantized, str(output / "nncf.onnx"))
    note("nncf.onnx", time.perf_counter() - start)
    (output / "nncf.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
