"""NNCF's post-training quantisation (300 images), in the environment of requirements/peers.txt.

    python benchmarks/peers/quantize_nncf.py model.onnx --data photos/ --output DIR

Variants: `default`; `mixed`, its preset with asymmetric activations; `accurate-bias`, its slower bias correction;
`overflow-fix`, that preset with its weights in half their range for CPUs without VNNI;
`accuracy-control`, which measures top-1 on the labelled calibration images and returns layers to floating point until at
most 0.1 point is lost, for a YOLOX (its images' truth is COCO's instances.json) mAP and 0.5 points;
`yolo-scopes`, as NNCF's own example for YOLO has it: the preset with asymmetric activations, and Mul, Sub and Sigmoid in
floating point.
Writes DIR/nncf.xml (OpenVINO's own form, for speed), DIR/nncf.onnx and the like of the other variants (for `lathe eval`)
and DIR/nncf.json with the seconds each took, data loading included, or why it failed.
"""

import csv
from pathlib import Path

import nncf
import numpy as np
import onnx
import openvino
from nncf.quantization.advanced_parameters import OverflowFix
from peer import Peer, command_line


def labels_of(folder):
    """Class indices by file name."""
    with open(Path(folder) / "labels.csv", newline="", encoding="utf-8") as file:
        return {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}


def top1(model, samples):
    """Share of (image, class) pairs whose greatest score is the class's, and each pair's own result."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model=model.SerializeToString()), "CPU")
    output = compiled.output(0)
    hits = [float(np.argmax(compiled(image)[output]) == index) for image, index in samples]
    return sum(hits) / len(hits), hits


def main():
    options = command_line(__doc__, "default").parse_args()
    peer = Peer("nncf", "nncf", nncf.__version__, options)
    files = peer.images()
    # Two data sets, since NNCF's front end for ONNX wants names and that for OpenVINO does not.
    plain = nncf.Dataset(files, peer.load)
    named = nncf.Dataset(files, lambda file: {peer.input: peer.load(file)})
    core = openvino.Core()
    for variant in peer.variants:
        stem = "nncf" if variant == "default" else f"nncf-{variant}"
        if variant == "accuracy-control":
            with peer.timed(variant, f"{stem}.onnx", len(files)) as target:
                # Inputs to run the model with, and, by the files themselves, what its validation gets.
                judged = nncf.Dataset(files, lambda file: {peer.input: peer.load(file)})
                truth = Path(options.data) / "instances.json"
                if truth.exists():
                    from yolox import mean_average_precision

                    def validate(model, some):
                        return mean_average_precision(model, some, peer.load, truth), None
                else:
                    labels = labels_of(options.data)

                    def validate(model, some):
                        return top1(model, ((peer.load(file), labels[file.name]) for file in some))

                quantized = nncf.quantize_with_accuracy_control(
                    peer.model, named, judged, validate, max_drop=0.005 if truth.exists() else 0.001,
                    subset_size=options.samples
                )
                onnx.save(quantized, str(target))
            continue
        how = {"subset_size": options.samples, "fast_bias_correction": variant != "accurate-bias"}
        if variant in ("mixed", "overflow-fix", "yolo-scopes"):
            how["preset"] = nncf.QuantizationPreset.MIXED
        if variant == "overflow-fix":
            how["advanced_parameters"] = nncf.AdvancedQuantizationParameters(overflow_fix=OverflowFix.ENABLE)
        if variant == "yolo-scopes":
            how["ignored_scope"] = nncf.IgnoredScope(types=["Mul", "Sub", "Sigmoid"], validate=False)
            with peer.timed(variant, f"{stem}.onnx", len(files)) as target:
                onnx.save(nncf.quantize(peer.model, named, **how), str(target))
            continue
        with peer.timed(variant, f"{stem}.xml", len(files)) as target:
            quantized = nncf.quantize(core.read_model(options.model), plain, **how)
            openvino.save_model(quantized, str(target), compress_to_fp16=False)
        with peer.timed(variant, f"{stem}.onnx", len(files)) as target:
            onnx.save(nncf.quantize(peer.model, named, **how), str(target))
    peer.save()


if __name__ == "__main__":
    main()
