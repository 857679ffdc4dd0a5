"""Writes to FILE cases of true and found masks, with the figures, areas and run lengths that pycocotools gives them.

    python instance_cases.py FILE SEED

200 random cases, and the degenerate ones by name. Exit code 77: pycocotools is not installed here.
"""

import math
import random
from typing import Any

from pycoco import Case, evaluate, np, write_cases
from pycocotools import mask as masks

HEIGHT, WIDTH = 240, 320


def rle(segmentation: Any) -> Case:
    """As pycocotools' COCO.annToRLE."""
    if isinstance(segmentation, list):
        return masks.merge(masks.frPyObjects(segmentation, HEIGHT, WIDTH))
    if isinstance(segmentation["counts"], list):
        return masks.frPyObjects(segmentation, HEIGHT, WIDTH)
    return segmentation


def plain(encoded: Case) -> Case:
    counts = encoded["counts"]
    return {"size": encoded["size"], "counts": counts.decode() if isinstance(counts, bytes) else counts}


def uncompressed(encoded: Case) -> Case:
    pixels = masks.decode(encoded).ravel(order="F")
    borders = np.flatnonzero(np.diff(pixels)) + 1
    counts = np.diff(np.concatenate([[0], borders, [pixels.size]])).tolist()
    return {"size": encoded["size"], "counts": counts if pixels[0] == 0 else [0, *counts]}


def truth(segmentation: Any, label: int = 0, area: float | None = None, crowd: bool = False) -> Case:
    area = float(masks.area(rle(segmentation))) if area is None else area
    return {"box": [0, 0, 1, 1], "segmentation": segmentation, "class": label, "area": area, "crowd": crowd}


def found(segmentation: Any, score: float, label: int = 0) -> Case:
    # Scores are float32 on both sides.
    return {"segmentation": segmentation, "class": label, "score": float(np.float32(score))}


def polygon(rng: random.Random, side: float) -> list[float]:
    """Corners around a point, in any order at times: outlines that cross themselves, and reach out of the picture."""
    x, y = rng.uniform(-20, WIDTH + 20), rng.uniform(-20, HEIGHT + 20)
    angles = [rng.uniform(0, 2 * math.pi) for _ in range(rng.choice([3, 4, 7, 20]))]
    if rng.random() < 0.8:
        angles.sort()
    corners: list[float] = []
    whole = rng.random() < 0.3
    for angle in angles:
        radius = side * rng.uniform(0.3, 1)
        place = [x + radius * math.cos(angle), y + radius * math.sin(angle)]
        corners += [float(round(value)) for value in place] if whole else place
    return corners


def segmentation(rng: random.Random) -> Any:
    polygons = [polygon(rng, rng.choice([3, 10, 40, 120])) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    form = rng.random()
    if form < 0.5:
        return polygons
    encoded = plain(rle(polygons))
    return encoded if form < 0.8 else uncompressed(encoded)


def moved(rng: random.Random, given: Any, wobble: float) -> Any:
    if isinstance(given, list):
        return [[value + rng.gauss(0, wobble) for value in corners] for corners in given]
    pixels = np.roll(masks.decode(rle(given)), (rng.randint(-3, 3), rng.randint(-3, 3)), (0, 1))
    return plain(masks.encode(np.asfortranarray(pixels)))


def random_case(rng: random.Random) -> list[Case]:
    """Objects of all sizes and forms, crowds among them; masks moved a little, of another class, doubled, invented."""
    classes = rng.randint(1, 4)
    coarse = rng.random() < 0.3  # equal scores

    def score() -> float:
        return round(rng.random(), 1) if coarse else rng.random()

    pictures = []
    for _ in range(rng.randint(1, 5)):
        objects, instances = [], []
        for _ in range(rng.choice([0, 1, 2, 5, 10])):
            place = segmentation(rng)
            label = rng.randrange(classes)
            objects.append(truth(place, label, crowd=rng.random() < 0.1))
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                given = moved(rng, place, rng.choice([0, 0.3, 1, 5]))
                instances.append(found(given, score(), label if rng.random() < 0.85 else rng.randrange(classes)))
        for _ in range(rng.choice([0, 0, 3, 20])):
            instances.append(found(segmentation(rng), score() * 0.5, rng.randrange(classes)))
        rng.shuffle(instances)
        pictures.append(picture(objects, instances))
    return pictures


def picture(objects: list[Case], instances: list[Case]) -> Case:
    return {"truth": objects, "instances": instances, "size": {"height": HEIGHT, "width": WIDTH}}


def degenerate_cases() -> dict[str, list[Case]]:
    def rectangle(left: float, top: float, width: float, height: float) -> list[list[float]]:
        return [[left, top, left + width, top, left + width, top + height, left, top + height]]

    a, b = rectangle(10, 10, 50, 40), rectangle(100, 80, 30, 30)
    size = [HEIGHT, WIDTH]
    nothing = {"size": size, "counts": [HEIGHT * WIDTH]}
    line = [[20.0, 20.0, 20.0, 90.0, 20.0, 20.0]]
    return {
        "no truth": [picture([], [found(a, 0.9)])],
        "no instances": [picture([truth(a)], [])],
        "nothing at all": [picture([], []), picture([], [])],
        "only crowds": [picture([truth(a, crowd=True)], [found(a, 0.9)])],
        "many in a crowd": [
            picture(
                [truth(rectangle(0, 0, 200, 200), crowd=True), truth(a)],
                [found(rectangle(5.0 * i, 3.0 * i, 30, 30), 0.9 - 0.01 * i) for i in range(20)] + [found(a, 0.5)],
            )
        ],
        "equal scores": [
            picture([truth(a), truth(b)], [found(b, 0.5), found(rectangle(0, 0, 5, 5), 0.5), found(a, 0.5)]),
            picture([truth(a)], [found(b, 0.5), found(a, 0.5)]),
        ],
        "zero areas": [
            picture(
                [truth(nothing), truth(line), truth(a), truth(a, area=0.0)],
                [found(nothing, 0.9), found(line, 0.8), found(a, 0.7), found(a, 0.6)],
            )
        ],
        "outside of the picture": [picture([truth(rectangle(-90, -50, 60, 40)), truth(rectangle(300, 200, 90, 90))], [found(rectangle(400, 10, 9, 9), 0.9)])],
        "the whole picture": [picture([truth({"size": size, "counts": [0, HEIGHT * WIDTH]})], [found(rectangle(-5, -5, 900, 900), 0.9)])],
        "overlaps of exactly a half and three quarters": [
            picture(
                [truth(rectangle(0, 0, 100, 100)), truth(rectangle(200, 0, 100, 100))],
                [found(rectangle(0, 0, 50, 100), 0.9), found(rectangle(200, 0, 100, 75), 0.8)],
            )
        ],
        "areas at the borders of the sizes": [
            picture(
                [truth(rectangle(0, 0, 32, 32)), truth(rectangle(100, 0, 96, 96)), truth(rectangle(200, 0, 97, 96))],
                [found(rectangle(0, 0, 32, 32), 0.9), found(rectangle(100, 0, 96, 96), 0.8), found(rectangle(200, 0, 97, 96), 0.7)],
            )
        ],
        "two masks for one object": [picture([truth(a)], [found(a, 0.9), found(a, 0.8)])],
        "more than 100 instances": [
            picture([truth(a)], [found(rectangle(2.0 * i, 150, 9, 9), 0.9 - 0.001 * i) for i in range(110)] + [found(a, 0.1)])
        ],
        "runs of no length": [picture([truth({"size": size, "counts": [100, 0, 50, 700, 0, 0, HEIGHT * WIDTH - 850]})], [found(a, 0.9)])],
        "a line beside a polygon": [picture([truth([*a, [80.5, 20.5, 9.0, 70.0]])], [found(a, 0.9)])],
        "a class that only one picture has": [
            picture([truth(a)], [found(a, 0.9), found(b, 0.8, 1)]),
            picture([truth(b, 1)], [found(b, 0.7, 1)]),
        ],
    }


def figures(pictures: list[Case]) -> Case:
    evaluation = evaluate(
        pictures,
        "segm",
        range(4),
        lambda each: {"category_id": each["class"] + 1, "segmentation": each["segmentation"]},
        lambda each: {"category_id": each["class"] + 1, "segmentation": rle(each["segmentation"])},
        "instances",
    )
    for each in pictures:
        for thing in [*each["truth"], *each["instances"]]:
            thing["runs"] = plain(masks.encode(masks.decode(rle(thing["segmentation"]))))["counts"]
    return {"figures": [float(value) for value in evaluation.stats]}


if __name__ == "__main__":
    write_cases(degenerate_cases(), random_case, figures)
