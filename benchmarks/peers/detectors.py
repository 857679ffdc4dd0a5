"""Detections of a network and their mAP, for tools that want a function which judges (requirements/detection.txt).

Networks are run in FP32 but for what is quantised: on processors with BF16 OpenVINO would otherwise compute the rest in it."""

import contextlib
import io

import cv2
import numpy as np
import openvino
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

LEAST_SCORE, OVERLAP, MOST = 0.001, 0.65, 300  # of which COCO counts 100 a class
SURE = 0.25  # from that score on FP32's own detections are a truth


def yolox(output, size):
    """One image's output [cells, 5 + classes]: strides 8, 16, 32, cells in that order; score = objectness x class, every
    class of a cell for itself."""
    grids, strides = [], []
    for stride in (8, 16, 32):
        side = size // stride
        rows, columns = np.mgrid[:side, :side]
        grids.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        strides.append(np.full((side * side, 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    centre, extent = (output[:, :2] + grid) * stride, np.exp(output[:, 2:4]) * stride
    return by_class(centre, extent, output[:, 4:5] * output[:, 5:])


def yolov8(output, _size):
    """One image's output [4 + classes, anchors]: centre and extent in pixels, scores."""
    return by_class(output[:2].T, output[2:4].T, output[4:].T)


def by_class(centre, extent, scores):
    """Every class of a place that scores enough is a detection of its own; of a class those stay that no better one overlaps
    too much."""
    places, labels = np.nonzero(scores >= LEAST_SCORE)
    boxes = np.concatenate([centre - extent / 2, extent], axis=1)[places]
    kept = suppress(boxes, scores[places, labels], labels)[:MOST]
    return boxes[kept], scores[places, labels][kept], labels[kept]


def text_map(output, _size):
    """One image's output [1, height, width], the probability of text: of each connected region above 0.3 its rectangle, grown
    by 1.5 of area over perimeter as networks of differentiable binarisation are trained to need (Liao et al., "Real-time Scene
    Text Detection with Differentiable Binarization", 2020), and the mean probability in it as score, 0.6 at least. These are
    PaddleOCR's numbers."""
    chances = output[0]
    count, regions, facts, _ = cv2.connectedComponentsWithStats((chances > 0.3).astype(np.uint8), connectivity=8)
    boxes, scores = [], []
    for region in range(1, count):
        left, top, width, height, _ = facts[region]
        window = np.s_[top : top + height, left : left + width]
        score = float(chances[window][regions[window] == region].mean())
        if min(width, height) < 3 or score < 0.6:
            continue
        by = 1.5 * width * height / (2 * (width + height))
        boxes.append([left - by, top - by, width + 2 * by, height + 2 * by])
        scores.append(score)
    order = np.argsort(-np.asarray(scores), kind="stable")[:MOST]
    return np.reshape(boxes, (-1, 4))[order], np.asarray(scores)[order], np.zeros(len(order), np.int64)


# From one image's output and the input's size to boxes (left, top, width, height) in pixels of the input, scores and classes,
# best first.
HEADS = {"yolox": yolox, "yolov8": yolov8, "text-map": text_map}


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


class Photos:
    """Preprocessed images (1x3xSxS) by file, and how boxes of the input go back to the picture. `truth`: COCO's document, whose
    classes are then the network's; without it boxes stay in pixels of the input and are judged there, against a network's own."""

    def __init__(self, files, load, head, truth=None):
        self.load, self.decode = load, HEADS[head]
        self.coco = quietly(COCO, str(truth)) if truth else None
        known = {image["file_name"]: image for image in self.coco.dataset["images"]} if truth else {}
        self.ids = {file: known[file.name]["id"] if truth else i for i, file in enumerate(files)}
        self.sizes = {file: (known[file.name]["height"], known[file.name]["width"]) for file in files} if truth else {}
        self.categories = sorted(self.coco.getCatIds()) if truth else None

    def find(self, run, files):
        """COCO's list of detections in these images by a function from the preprocessed image to its output, and their ids."""
        found = []
        for file in files:
            pixels = self.load(file)
            size = pixels.shape[2]
            boxes, scores, labels = self.decode(run(pixels), size)
            if file in self.sizes:  # a letterbox whose image is at the top left
                height, width = self.sizes[file]
                factor, sides = min(size / height, size / width), np.array([width, height])
                low = np.clip(boxes[:, :2] / factor, 0, sides)
                boxes = np.concatenate([low, np.clip((boxes[:, :2] + boxes[:, 2:]) / factor, 0, sides) - low], axis=1)
            for box, score, label in zip(boxes, scores, labels, strict=True):
                found.append({"image_id": self.ids[file], "category_id": self.categories[label] if self.categories else int(label),
                              "bbox": box.tolist(), "score": float(score)})
        return found, [self.ids[file] for file in files]

    def as_truth(self, found):
        """Detections that are sure, as a COCO document of their own."""
        notes = [{**each, "id": i + 1, "area": each["bbox"][2] * each["bbox"][3], "iscrowd": 0}
                 for i, each in enumerate(each for each in found if each["score"] >= SURE)]
        made = COCO()
        classes = self.categories or sorted({note["category_id"] for note in notes})
        made.dataset = {"images": [{"id": i} for i in self.ids.values()], "annotations": notes,
                        "categories": [{"id": name, "name": str(name)} for name in classes]}
        quietly(made.createIndex)
        return made


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
