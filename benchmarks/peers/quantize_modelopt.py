"""ModelOpt's post-training quantisation of ONNX, in the environment of requirements/modelopt.txt.

    python benchmarks/peers/quantize_modelopt.py model.onnx --data photos/ --output DIR

Everything but the quantised nodes stays FP32 (its own default would cast them to FP16, which the CPU does not gain from).
Writes DIR/modelopt-METHOD.onnx and DIR/modelopt.json with the seconds each took, data loading included.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import modelopt
import numpy as np
import onnx
from images import choose, preprocess, rules_of
from modelopt.onnx.quantization import quantize


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--data", required=True)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--preprocess")
    parser.add_argument("--methods", default="entropy,max")
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    model = onnx.load(options.model)
    rules = rules_of(model, options.preprocess)
    results = []
    for method in options.methods.split(","):
        target = output / f"modelopt-{method}.onnx"
        start = time.perf_counter()
        images = np.concatenate([preprocess(file, rules) for file in choose(options.data, options.samples)])
        quantize(options.model, quantize_mode="int8", calibration_data={model.graph.input[0].name: images},
                 calibration_method=method, calibration_eps=["cpu"], high_precision_dtype="fp32",
                 output_path=str(target), log_level="WARNING")
        results.append({
            "tool": "modelopt", "version": modelopt.__version__, "variant": method, "file": target.name,
            "samples": len(images), "seconds": time.perf_counter() - start,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        })
        print(json.dumps(results[-1]), flush=True)
    (output / "modelopt.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
