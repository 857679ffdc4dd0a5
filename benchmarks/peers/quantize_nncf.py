"""NNCF's post-training quantisation (300 images), in the environment of requirements/peers.txt.

    python benchmarks/peers/quantize_nncf.py model.onnx --data photos/ --output DIR

Variants: `default`; `mixed`, its preset with asymmetric activations; `accurate-bias`, its slower bias correction;
`overflow-fix`, that preset with its weights in half their range for CPUs without VNNI;
`accuracy-control`, which measures top-1 on the labelled calibration images and returns layers to floating point until at
most 0.1 point is lost; for a detector (--head) mAP and 0.5 points, on OpenVINO's form: against --truth, else against FP32's own
detections at IoU 0.5;
`yolo-scopes`, as NNCF's own example for YOLO has it: the preset with asymmetric activations, and products, differences and
sigmoids in floating point; `yolo-scopes-add`, sums too; `per-tensor`, the preset with one scale an activation.
Writes DIR/nncf.xml (OpenVINO's own form, for speed), DIR/nncf.onnx and the like of the other variants (for `lathe eval`)
and DIR/nncf.json with the seconds each took, data loading included, or why it failed.
"""

import csv
from pathlib import Path

import nncf
import numpy as np
import onnx
import openvino
from nncf.quantization.advanced_parameters import OverflowFix, QuantizationParameters
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


# As OpenVINO and as ONNX call them.
SCOPES = {"yolo-scopes": ["Multiply", "Mul", "Subtract", "Sub", "Sigmoid"],
          "yolo-scopes-add": ["Multiply", "Mul", "Subtract", "Sub", "Sigmoid", "Add"]}


def settings(variant, samples):
    """What nncf.quantize gets."""
    how = {"subset_size": samples, "fast_bias_correction": variant != "accurate-bias"}
    if variant in ("mixed", "overflow-fix", "per-tensor", *SCOPES):
        how["preset"] = nncf.QuantizationPreset.MIXED
    if variant == "overflow-fix":
        how["advanced_parameters"] = nncf.AdvancedQuantizationParameters(overflow_fix=OverflowFix.ENABLE)
    if variant == "per-tensor":
        one = QuantizationParameters(per_channel=False)
        how["advanced_parameters"] = nncf.AdvancedQuantizationParameters(activations_quantization_params=one)
    if variant in SCOPES:
        how["ignored_scope"] = nncf.IgnoredScope(types=SCOPES[variant], validate=False)
    return how


def control_accuracy_of_detector(peer, model, files, options):
    """On OpenVINO's form. Layers are ranked by the outputs' error: mAP of a few images tells most of them apart by chance."""
    from detectors import Matches, Photos, in_openvino  # of requirements/detection.txt

    photos = Photos(files, peer.load, options.head, options.truth)
    truth, overlaps = photos.coco, None
    if truth is None:
        truth, overlaps = photos.as_truth(photos.find(in_openvino(options.model), files)[0]), [0.5]

    def validate(compiled, some):
        outputs = []

        def run(image):
            outputs.append(compiled(image)[compiled.output(0)])
            return outputs[-1][0]

        found, judged = photos.find(run, list(some))
        return Matches(truth, found, judged, overlaps).mean_average_precision(), [[each] for each in outputs]

    data = nncf.Dataset(files, peer.load)
    return nncf.quantize_with_accuracy_control(
        model, data, data, validate, max_drop=0.005, subset_size=len(files), preset=nncf.QuantizationPreset.MIXED,
        advanced_accuracy_restorer_parameters=nncf.AdvancedAccuracyRestorerParameters(ranking_subset_size=16))


def control_accuracy(peer, named, files, folder):
    """Of a classifier, on the ONNX form."""
    labels = labels_of(folder)

    def validate(model, some):
        return top1(model, ((peer.load(file), labels[file.name]) for file in some))

    # Inputs to run the model with, and, by the files themselves, what its validation gets.
    judged = nncf.Dataset(files, lambda file: {peer.input: peer.load(file)})
    return nncf.quantize_with_accuracy_control(peer.model, named, judged, validate, max_drop=0.001, subset_size=len(files))


def main():
    parser = command_line(__doc__, "default")
    parser.add_argument("--head", help="a detector's, of detectors.py")
    parser.add_argument("--truth", help="COCO's document of the images in --data")
    options = parser.parse_args()
    peer = Peer("nncf", "nncf", nncf.__version__, options)
    files = peer.images()
    # Two data sets, since NNCF's front end for ONNX wants names and that for OpenVINO does not.
    plain = nncf.Dataset(files, peer.load)
    named = nncf.Dataset(files, lambda file: {peer.input: peer.load(file)})
    core = openvino.Core()

    def save_ir(quantized, target):
        openvino.save_model(quantized, str(target), compress_to_fp16=False)

    for variant in peer.variants:
        stem = "nncf" if variant == "default" else f"nncf-{variant}"
        if variant == "accuracy-control" and options.head:
            with peer.timed(variant, f"{stem}.xml", len(files)) as target:
                save_ir(control_accuracy_of_detector(peer, core.read_model(options.model), files, options), target)
            continue
        if variant == "accuracy-control":
            with peer.timed(variant, f"{stem}.onnx", len(files)) as target:
                onnx.save(control_accuracy(peer, named, files, options.data), str(target))
            continue
        how = settings(variant, options.samples)
        with peer.timed(variant, f"{stem}.xml", len(files)) as target:
            save_ir(nncf.quantize(core.read_model(options.model), plain, **how), target)
        with peer.timed(variant, f"{stem}.onnx", len(files)) as target:
            onnx.save(nncf.quantize(peer.model, named, **how), str(target))
    peer.save()


if __name__ == "__main__":
    main()
