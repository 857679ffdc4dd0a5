"""A detector in several forms, in the runtimes that people run them in, on photos that no tool saw: mAP against the truth, where
the network knows its classes, and against FP32's own detections.

    python benchmarks/peers/judge_detector.py yolox.onnx --head yolox --truth coco/instances.json --data coco/ \\
        --preprocess yolox_nano.preprocess.json --output judged.json --subject int8.onnx --subject nncf.xml

In the environment of requirements/peers.txt and detection.txt. Each file is run by OpenVINO and, where it is ONNX, by ONNX
Runtime, which computes Q/DQ as it is written. Intervals are bootstraps over photos, paired: FP32 on the same drawing.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
from detectors import HEADS, Matches, Photos, in_openvino
from images import choose, preprocess


def in_onnxruntime(file):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda image: session.run(None, {name: image})[0][0]


def interval(values):
    """The middle 95 % of what the drawings gave."""
    return [float(edge) for edge in np.quantile(values, (0.025, 0.975))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="in FP32")
    parser.add_argument("--subject", action="append", default=[], help="file to judge, repeatable")
    parser.add_argument("--head", required=True, choices=HEADS)
    parser.add_argument("--data", required=True, help="folder with images")
    parser.add_argument("--truth", help="COCO's document, of letterboxed images at the top left")
    parser.add_argument("--preprocess", required=True)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    rules = json.loads(Path(options.preprocess).read_text(encoding="utf-8"))
    pixels = {file: preprocess(file, rules) for file in choose(options.data, 0)}
    files = list(pixels)
    photos = Photos(files, pixels.get, options.head, options.truth)
    found, judged = photos.find(in_openvino(options.model), files)
    own = photos.as_truth(found)
    dice = np.random.default_rng(options.seed)
    draws = [dice.integers(0, len(files), len(files)) for _ in range(options.draws)]
    document = {"photos": len(files), "draws": options.draws, "seed": options.seed, "subjects": []}
    document["fp32"] = {"detections": len(own.dataset["annotations"])}
    if photos.coco:
        whole = Matches(photos.coco, found, judged)
        document["fp32"]["map"] = whole.mean_average_precision()
        whole_drawn = np.array([whole.mean_average_precision(draw) for draw in draws])
    for file in options.subject:
        runtimes = {"openvino": in_openvino} | ({"onnxruntime": in_onnxruntime} if file.endswith(".onnx") else {})
        row = {"file": Path(file).name}
        for runtime, make in runtimes.items():
            found, judged = photos.find(make(file), files)
            same = Matches(own, found, judged, [0.5])
            row[runtime] = {"same": same.mean_average_precision(),
                            "same_ci95": interval([same.mean_average_precision(draw) for draw in draws])}
            if photos.coco:
                matches = Matches(photos.coco, found, judged)
                drawn = np.array([matches.mean_average_precision(draw) for draw in draws]) - whole_drawn
                score = matches.mean_average_precision()
                row[runtime] |= {"map": score, "map_delta": score - document["fp32"]["map"], "map_delta_ci95": interval(drawn)}
        document["subjects"].append(row)
        print(json.dumps(row), flush=True)
    Path(options.output).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
