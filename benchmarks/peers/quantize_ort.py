"""ONNX Runtime's static quantisation, as its documentation has it: pre-process, then quantize_static with Q/DQ.

    python benchmarks/peers/quantize_ort.py model.onnx --data photos/ --output DIR

Variants are METHOD-TYPES, and METHOD-TYPES-conv for convolutions alone, the rest in float.
TYPES are those of activations and weights; s7 is what its documentation advises on CPUs without VNNI (reduce_range).
Writes DIR/ort-METHOD-TYPES.onnx and DIR/ort.json with the seconds each took, data loading included.
"""

import tempfile
from pathlib import Path

import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from peer import Peer, command_line

METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}


class Reader(CalibrationDataReader):
    """Feeds one preprocessed image at a time."""

    def __init__(self, peer, files):
        self.peer = peer
        self.files = iter(files)

    def get_next(self):
        file = next(self.files, None)
        return None if file is None else {self.peer.input: self.peer.load(file)}


def main():
    parser = command_line(__doc__, "minmax-u8s8,minmax-s8s8,percentile-s8s8,entropy-s8s8")
    parser.add_argument("--histogram-samples", type=int, default=100,
                        help="for all but minmax, which keep all activations")
    options = parser.parse_args()
    peer = Peer("ort", "onnxruntime", onnxruntime.__version__, options)
    for variant in peer.variants:
        method, types, *only = variant.split("-")
        files = peer.images(options.samples if method == "minmax" else options.histogram_samples)
        with peer.timed(variant, f"ort-{variant}.onnx", len(files)) as target, tempfile.TemporaryDirectory() as scratch:
            prepared = str(Path(scratch) / "prepared.onnx")
            quant_pre_process(options.model, prepared, skip_symbolic_shape=True)
            quantize_static(
                prepared,
                str(target),
                Reader(peer, files),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                reduce_range=types == "u8s7",
                activation_type=QuantType.QInt8 if types == "s8s8" else QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                calibrate_method=METHODS[method],
                op_types_to_quantize=["Conv"] if only == ["conv"] else None,
                extra_options={"ActivationSymmetric": types == "s8s8"},
            )
    peer.save()


if __name__ == "__main__":
    main()
