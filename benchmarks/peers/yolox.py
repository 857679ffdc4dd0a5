"""COCO's mAP of a YOLOX network, for tools that want a function which judges (requirements/detection.txt).

Networks are run in FP32 but for what is quantised: on processors with BF16 OpenVINO would otherwise compute the rest in it."""

import contextlib
import io

import numpy as np
import openvino
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

LEAST_SCORE, OVERLAP, MOST = 0.001, 0.65, 300  # of which COCO counts 100 a class


def decode(output, size, classes):
    """Boxes (left, top, width, height) in pixels of the input, scores and classes, of one image's output
    [cells, 5 + classes]: strides 8, 16, 32, cells in that order; score = objectness x class, every class of a
    cell for itself."""
    grids, strides = [], []
    for stride in (8, 16, 32):
        side = size // stride
        rows, columns = np.mgrid[:side, :side]
        grids.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        strides.append(np.full((side * side, 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    centre, extent = (output[:, :2] + grid) * stride, np.exp(output[:, 2:4]) * stride
    scores = output[:, 4:5] * output[:, 5 : 5 + classes]
    cells, labels = np.nonzero(scores >= LEAST_SCORE)
    boxes = np.concatenate([centre - extent / 2, extent], axis=1)[cells]
    return boxes, scores[cells, labels], labels


def suppress(boxes, scores, labels):
    """Positions of the detections that stay, best first: of a class those that no better one overlaps too much."""
    kept = []
    for label in np.unique(labels):
        left = np.flatnonzero(labels == label)
        left = left[np.argsort(-scores[left], kind="stable")]
        while left.size:
            best, left = left[0], left[1:]
            kept.append(best)
            low = np.maximum(boxes[left, :2], boxes[best, :2])
            high = np.minimum(boxes[left, :2] + boxes[left, 2:], boxes[best, :2] + boxes[best, 2:])
            both = np.prod(np.maximum(high - low, 0), axis=1)
            either = np.prod(boxes[left, 2:], axis=1) + np.prod(boxes[best, 2:]) - both
            left = left[both <= OVERLAP * either]
    return sorted(kept, key=lambda i: -scores[i])


def in_openvino(model):
    """A function from one image to the output's first sample. `model`: what OpenVINO reads, or an ONNX model."""
    core = openvino.Core()
    read = core.read_model(model=model.SerializeToString()) if hasattr(model, "SerializeToString") else core.read_model(model)
    compiled = core.compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda image: compiled(image)[compiled.output(0)][0]


def quietly(action, *values):
    """pycocotools prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return action(*values)


def find(run, files, load, coco):
    """COCO's list of detections in these images, by a function from the preprocessed image (1x3xSxS, in the top left of a
    letterbox) to [cells, 5 + classes]; and the images' ids."""
    by_name = {image["file_name"]: image for image in coco.dataset["images"]}
    categories, found, judged = sorted(coco.getCatIds()), [], []
    for file in files:
        image, pixels = by_name[file.name], load(file)
        judged.append(image["id"])
        size = pixels.shape[2]
        factor = min(size / image["height"], size / image["width"])
        boxes, scores, labels = decode(run(pixels), size, len(categories))
        kept = suppress(boxes, scores, labels)[:MOST]
        sides = np.array([image["width"], image["height"]])
        low = np.clip(boxes[:, :2] / factor, 0, sides)
        boxes = np.concatenate([low, np.clip((boxes[:, :2] + boxes[:, 2:]) / factor, 0, sides) - low], axis=1)
        for i in kept:
            found.append({"image_id": image["id"], "category_id": categories[labels[i]],
                          "bbox": boxes[i].tolist(), "score": float(scores[i])})
    return found, judged


class Matches:
    """Detections laid against the truth once, so that mAP of any drawing of images is a matter of counting."""

    def __init__(self, coco, found, judged, overlaps=None):
        self.judge = COCOeval(coco, quietly(coco.loadRes, found), "bbox") if found else None
        if self.judge is None:
            return
        parameters = self.judge.params
        parameters.imgIds, parameters.maxDets = sorted(set(judged)), [100]
        parameters.areaRng, parameters.areaRngLbl = parameters.areaRng[:1], parameters.areaRngLbl[:1]
        if overlaps is not None:
            parameters.iouThrs = np.asarray(overlaps)
        quietly(self.judge.evaluate)
        self.all = self.judge.evalImgs
        self.images = len(parameters.imgIds)

    def mean_average_precision(self, drawn=None):
        """0 to 1. `drawn`: positions of images, some more than once; absent: each once."""
        if self.judge is None:
            return 0.0
        places = range(self.images) if drawn is None else drawn
        self.judge.evalImgs = [self.all[first + i] for first in range(0, len(self.all), self.images) for i in places]
        quietly(self.judge.accumulate)
        precision = self.judge.eval["precision"]
        known = precision[precision > -1]
        return float(known.mean()) if known.size else 0.0


def mean_average_precision(model, files, load, truth):
    """Of an ONNX model on these images of a COCO file; 0 to 1."""
    coco = quietly(COCO, str(truth))
    return Matches(coco, *find(in_openvino(model), files, load, coco)).mean_average_precision()
