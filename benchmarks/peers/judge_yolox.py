"""mAP of a YOLOX network in several forms, in the runtimes that people run them in, on photos that no tool saw.

    python benchmarks/peers/judge_yolox.py yolox.onnx --data coco/ --preprocess yolox.preprocess.json --output judged.json \\
        --subject int8.onnx --subject nncf.xml

In the environment of requirements/peers.txt and detection.txt. Each file is run by OpenVINO and, where it is ONNX, by ONNX
Runtime, which computes Q/DQ as it is written. Intervals are bootstraps over photos, paired: FP32 on the same drawing.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
from images import choose, preprocess
from pycocotools.coco import COCO
from yolox import Matches, find, in_openvino, quietly

SURE = 0.25  # from that score on FP32's own detections are a truth


def in_onnxruntime(file):
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda image: session.run(None, {name: image})[0][0]


def as_truth(coco, found):
    """FP32's detections as a COCO document of their own."""
    sure = [each for each in found if each["score"] >= SURE]
    notes = [{**each, "id": i + 1, "area": each["bbox"][2] * each["bbox"][3], "iscrowd": 0} for i, each in enumerate(sure)]
    made = COCO()
    made.dataset = {**coco.dataset, "annotations": notes}
    quietly(made.createIndex)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="in FP32")
    parser.add_argument("--subject", action="append", default=[], help="file to judge, repeatable")
    parser.add_argument("--data", required=True, help="folder with images and COCO's instances.json")
    parser.add_argument("--preprocess", required=True)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", required=True)
    options = parser.parse_args()
    rules = json.loads(Path(options.preprocess).read_text(encoding="utf-8"))
    coco = quietly(COCO, str(Path(options.data) / "instances.json"))
    images = [(file, preprocess(file, rules)) for file in choose(options.data, 0)]
    files, pixels = [file for file, _ in images], dict(images)
    found, judged = find(in_openvino(options.model), files, pixels.get, coco)
    whole, own = Matches(coco, found, judged), as_truth(coco, found)
    dice = np.random.default_rng(options.seed)
    draws = [dice.integers(0, len(files), len(files)) for _ in range(options.draws)]
    whole_drawn = np.array([whole.mean_average_precision(draw) for draw in draws])
    document = {"photos": len(files), "draws": options.draws, "seed": options.seed,
                "fp32": whole.mean_average_precision(), "subjects": []}
    for file in options.subject:
        runtimes = {"openvino": in_openvino} | ({"onnxruntime": in_onnxruntime} if file.endswith(".onnx") else {})
        row = {"file": Path(file).name}
        for runtime, make in runtimes.items():
            found, judged = find(make(file), files, pixels.get, coco)
            matches = Matches(coco, found, judged)
            drawn = np.array([matches.mean_average_precision(draw) for draw in draws]) - whole_drawn
            score = matches.mean_average_precision()
            row[runtime] = {"map": score, "map_delta": score - document["fp32"],
                            "map_delta_ci95": [float(edge) for edge in np.quantile(drawn, (0.025, 0.975))],
                            "same": Matches(own, found, judged, [0.5]).mean_average_precision()}
        document["subjects"].append(row)
        print(json.dumps(row), flush=True)
    Path(options.output).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
