"""pycocotools' figures of cases, for the scripts beside this one. Exit code 77: it is not installed here."""

import contextlib
import io
import json
import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

try:
    import numpy as np  # noqa: F401: for those scripts
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

Case = dict[str, Any]


def evaluate(
    pictures: list[Case], kind: str, labels: Iterable[int], true: Callable[[Case], Case], found: Callable[[Case], Case], part: str
) -> COCOeval:
    """What COCOeval makes of "truth" and `part` of the pictures; `true` and `found` add to an object's fields."""
    annotations, results = [], []
    for image, picture in enumerate(pictures):
        for each in picture["truth"]:
            fields = {"id": len(annotations) + 1, "image_id": image + 1, "bbox": each["box"], "area": each["area"]}
            annotations.append(fields | {"iscrowd": int(each["crowd"])} | true(each))
        for each in picture[part]:
            results.append({"image_id": image + 1, "score": each["score"]} | found(each))
    with contextlib.redirect_stdout(io.StringIO()):
        data = COCO()
        data.dataset = {
            "images": [{"id": image + 1} | picture.get("size", {}) for image, picture in enumerate(pictures)],
            "annotations": annotations,
            "categories": [{"id": label + 1, "name": str(label)} for label in labels],
        }
        data.createIndex()
        detected = data.loadRes(results) if results else COCO()
        if not results:
            detected.dataset = {**data.dataset, "annotations": []}
            detected.createIndex()
        evaluation = COCOeval(data, detected, kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def write_cases(
    degenerate: dict[str, list[Case]], random_case: Callable[[random.Random], list[Case]], figures: Callable[[list[Case]], Case]
) -> None:
    """The degenerate cases and 200 random ones, with their figures, to the file and by the seed of the command line."""
    rng = random.Random(int(sys.argv[2]))
    cases = list(degenerate.items())
    cases += [(f"random {index}", random_case(rng)) for index in range(200)]
    written = [{"name": name, "pictures": pictures} | figures(pictures) for name, pictures in cases]
    with open(sys.argv[1], "w") as file:
        json.dump(written, file)
