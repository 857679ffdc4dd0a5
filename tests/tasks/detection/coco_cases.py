"""Writes to FILE cases of truth and detections, with the figures that pycocotools gives them.

    python coco_cases.py FILE SEED

200 random cases, and the degenerate ones by name. Exit code 77: pycocotools is not installed here.
"""

import random

from pycoco import Case, evaluate, np, write_cases


def truth(box: list[float], label: int, area: float | None = None, crowd: bool = False) -> Case:
    return {"box": box, "class": label, "area": box[2] * box[3] if area is None else area, "crowd": crowd}


def found(box: list[float], label: int, score: float) -> Case:
    # Scores are float32 on both sides.
    return {"box": box, "class": label, "score": float(np.float32(score))}


def random_case(rng: random.Random) -> list[Case]:
    """Pictures with objects of all sizes; detections moved a little, of another class, doubled, invented."""
    classes = rng.randint(1, 6)
    whole = rng.random() < 0.3  # whole pixels: many equal overlaps
    coarse = rng.random() < 0.3  # equal scores

    def box(side: float) -> list[float]:
        values = [rng.uniform(0, 400), rng.uniform(0, 400), rng.uniform(1, side), rng.uniform(1, side)]
        return [float(round(value)) for value in values] if whole else values

    def score() -> float:
        return round(rng.random(), 1) if coarse else rng.random()

    pictures = []
    for _ in range(rng.randint(1, 12)):
        objects, detections = [], []
        for _ in range(rng.choice([0, 1, 2, 5, 15])):
            place = box(rng.choice([20, 40, 120, 300]))
            label = rng.randrange(classes)
            area = place[2] * place[3] * rng.choice([1, 1, 0.6])
            objects.append(truth(place, label, area, rng.random() < 0.1))
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                wobble = rng.choice([0.0, 0.03, 0.1, 0.4])
                moved = [
                    place[0] + rng.uniform(-wobble, wobble) * place[2],
                    place[1] + rng.uniform(-wobble, wobble) * place[3],
                    place[2] * (1 + rng.uniform(-wobble, wobble)),
                    place[3] * (1 + rng.uniform(-wobble, wobble)),
                ]
                detections.append(found(moved, label if rng.random() < 0.85 else rng.randrange(classes), score()))
        for _ in range(rng.choice([0, 0, 3, 130])):
            detections.append(found(box(200), rng.randrange(classes), score() * 0.5))
        rng.shuffle(detections)
        pictures.append({"truth": objects, "detections": detections})
    return pictures


def degenerate_cases() -> dict[str, list[Case]]:
    a, b = [10.0, 10.0, 50.0, 40.0], [100.0, 80.0, 30.0, 30.0]
    nothing: Case = {"truth": [], "detections": []}
    return {
        "no truth": [{"truth": [], "detections": [found(a, 0, 0.9)]}],
        "no detections": [{"truth": [truth(a, 0)], "detections": []}],
        "nothing at all": [nothing, nothing],
        "a class that only one picture has": [
            {"truth": [truth(a, 0)], "detections": [found(a, 0, 0.9), found(b, 1, 0.8)]},
            {"truth": [truth(b, 1)], "detections": [found(b, 1, 0.7)]},
        ],
        "only crowds": [{"truth": [truth(a, 0, crowd=True)], "detections": [found(a, 0, 0.9)]}],
        "many in a crowd": [
            {
                "truth": [truth([0.0, 0.0, 200.0, 200.0], 0, crowd=True), truth(a, 0)],
                "detections": [found([5.0 * i, 3.0 * i, 30.0, 30.0], 0, 0.9 - 0.01 * i) for i in range(20)] + [found(a, 0, 0.5)],
            }
        ],
        "equal scores": [
            {"truth": [truth(a, 0), truth(b, 0)], "detections": [found(b, 0, 0.5), found([0.0, 0.0, 5.0, 5.0], 0, 0.5), found(a, 0, 0.5)]},
            {"truth": [truth(a, 0)], "detections": [found(b, 0, 0.5), found(a, 0, 0.5)]},
        ],
        "zero areas": [
            {
                "truth": [truth([10.0, 10.0, 0.0, 40.0], 0), truth([10.0, 10.0, 0.0, 0.0], 0), truth(a, 0)],
                "detections": [found([10.0, 10.0, 0.0, 40.0], 0, 0.9), found([10.0, 10.0, 0.0, 0.0], 0, 0.8), found(a, 0, 0.7)],
            }
        ],
        "overlaps of exactly a half and three quarters": [
            {
                "truth": [truth([0.0, 0.0, 100.0, 100.0], 0), truth([200.0, 0.0, 100.0, 100.0], 0)],
                "detections": [found([0.0, 0.0, 50.0, 100.0], 0, 0.9), found([200.0, 0.0, 100.0, 75.0], 0, 0.8)],
            }
        ],
        "areas at the borders of the sizes": [
            {
                "truth": [truth([0.0, 0.0, 32.0, 32.0], 0), truth([100.0, 0.0, 96.0, 96.0], 0), truth([300.0, 0.0, 97.0, 96.0], 0)],
                "detections": [found([0.0, 0.0, 32.0, 32.0], 0, 0.9), found([100.0, 0.0, 96.0, 96.0], 0, 0.8), found([300.0, 0.0, 97.0, 96.0], 0, 0.7)],
            }
        ],
        "two detections for one object": [{"truth": [truth(a, 0)], "detections": [found(a, 0, 0.9), found(a, 0, 0.8)]}],
        "more than 100 detections": [
            {"truth": [truth(a, 0)], "detections": [found([float(i), 0.0, 9.0, 9.0], 0, 0.9 - 0.001 * i) for i in range(120)] + [found(a, 0, 0.1)]}
        ],
        "duplicates of an object": [
            {"truth": [truth(a, 0), truth(a, 0), truth(a, 0)], "detections": [found(a, 0, 0.9), found(a, 0, 0.9)]},
        ],
    }


def figures(pictures: list[Case]) -> Case:
    labels = sorted({each["class"] for picture in pictures for part in ("truth", "detections") for each in picture[part]}) or [0]
    evaluation = evaluate(
        pictures,
        "bbox",
        labels,
        lambda each: {"category_id": each["class"] + 1},
        lambda each: {"category_id": each["class"] + 1, "bbox": each["box"]},
        "detections",
    )
    by_class = {}
    for index, label in enumerate(evaluation.params.catIds):
        values = evaluation.eval["precision"][:, :, index, 0, 2]
        values = values[values > -1]
        by_class[str(label - 1)] = float(np.mean(values)) if values.size else -1.0
    return {"figures": [float(value) for value in evaluation.stats], "classes": by_class}


if __name__ == "__main__":
    write_cases(degenerate_cases(), random_case, figures)
