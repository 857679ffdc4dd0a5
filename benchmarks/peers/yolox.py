"""COCO's mAP of a YOLOX network, for tools that want a function which judges (requirements/detection.txt)."""

import contextlib
import io

import cv2
import numpy as np
import openvino
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

LEAST_SCORE, OVERLAP, MOST = 0.001, 0.65, 100


def decode(output, size, classes):
    """Boxes (left, top, width, height) in pixels of the input, scores and classes, of one image's output
    [cells, 5 + classes]: strides 8, 16, 32, cells in that order; score = objectness x class."""
    grids, strides = [], []
    for stride in (8, 16, 32):
        side = size // stride
        rows, columns = np.mgrid[:side, :side]
        grids.append(np.stack([columns.ravel(), rows.ravel()], axis=1))
        strides.append(np.full((side * side, 1), stride))
    grid, stride = np.concatenate(grids), np.concatenate(strides)
    centre, extent = (output[:, :2] + grid) * stride, np.exp(output[:, 2:4]) * stride
    scores = output[:, 4:5] * output[:, 5 : 5 + classes]
    cells, labels = np.nonzero(scores > LEAST_SCORE)
    boxes = np.concatenate([centre - extent / 2, extent], axis=1)[cells]
    return boxes, scores[cells, labels], labels


def mean_average_precision(model, files, load, truth):
    """Of an ONNX model (1x3xSxS in the top left of a letterbox, 1x cells x (5 + classes) out) on these images of a COCO
    file; 0 to 1."""
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model=model.SerializeToString()), "CPU")
    size = compiled.input(0).shape[2]
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(truth))
    by_name = {image["file_name"]: image for image in coco.dataset["images"]}
    categories, found, judged = sorted(coco.getCatIds()), [], []
    for file in files:
        image = by_name[file.name]
        judged.append(image["id"])
        factor = min(size / image["height"], size / image["width"])
        boxes, scores, labels = decode(compiled(load(file))[compiled.output(0)][0], size, len(categories))
        kept = cv2.dnn.NMSBoxesBatched(boxes.tolist(), scores.tolist(), labels.tolist(), LEAST_SCORE, OVERLAP)
        for i in sorted(kept, key=lambda i: -scores[i])[:MOST]:
            found.append({"image_id": image["id"], "category_id": categories[labels[i]],
                          "bbox": (boxes[i] / factor).tolist(), "score": float(scores[i])})
    with contextlib.redirect_stdout(io.StringIO()):
        judge = COCOeval(coco, coco.loadRes(found), "bbox")
        judge.params.imgIds = judged
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return float(judge.stats[0])
