"""ModelOpt's post-training quantisation of ONNX, in the environment of requirements/modelopt.txt.

    python benchmarks/peers/quantize_modelopt.py model.onnx --data photos/ --output DIR

Everything but the quantised nodes stays FP32 (its own default would cast them to FP16, which the CPU does not gain from).
METHOD-conv quantises convolutions alone. Writes DIR/modelopt-METHOD.onnx and DIR/modelopt.json with the seconds each took,
data loading included.
"""

import modelopt
import numpy as np
from modelopt.onnx.quantization import quantize
from peer import Peer, command_line


def main():
    options = command_line(__doc__, "entropy,max").parse_args()
    peer = Peer("modelopt", "modelopt", modelopt.__version__, options)
    files = peer.images()
    for variant in peer.variants:
        method, *only = variant.split("-")
        with peer.timed(variant, f"modelopt-{variant}.onnx", len(files)) as target:
            images = np.concatenate([peer.load(file) for file in files])
            quantize(options.model, quantize_mode="int8", calibration_data={peer.input: images},
                     calibration_method=method, op_types_to_quantize=["Conv"] if only else None,
                     calibration_eps=["cpu"], high_precision_dtype="fp32", output_path=str(target), log_level="WARNING")
    peer.save()


if __name__ == "__main__":
    main()
