"""Writes to FILE cases of true and found poses, with the figures that pycocotools gives them.

    python keypoint_cases.py FILE SEED

200 random cases, and the degenerate ones by name. Exit code 77: pycocotools is not installed here.
"""

import random

from pycoco import Case, evaluate, np, write_cases
POINTS = 17


def truth(box: list[float], points: list[float], area: float | None = None, crowd: bool = False) -> Case:
    return {"box": box, "points": points, "area": box[2] * box[3] * 0.6 if area is None else area, "crowd": crowd}


def found(points: list[float], score: float) -> Case:
    # Scores are float32 on both sides.
    return {"points": points, "score": float(np.float32(score))}


def points_in(rng: random.Random, box: list[float], hidden: float) -> list[float]:
    points: list[float] = []
    for _ in range(POINTS):
        visible = 0 if rng.random() < hidden else rng.choice([1, 2])
        place = [box[0] + rng.random() * box[2], box[1] + rng.random() * box[3]] if visible else [0.0, 0.0]
        points += [*place, visible]
    return points


def moved(rng: random.Random, points: list[float], wobble: float) -> list[float]:
    return [value if i % 3 == 2 else value + rng.gauss(0, wobble) for i, value in enumerate(points)]


def random_case(rng: random.Random) -> list[Case]:
    """People of all sizes, some without any point, some in crowds; poses moved a little, doubled, invented."""
    coarse = rng.random() < 0.3  # equal scores

    def score() -> float:
        return round(rng.random(), 1) if coarse else rng.random()

    pictures = []
    for _ in range(rng.randint(1, 8)):
        objects, poses = [], []
        for _ in range(rng.choice([0, 1, 2, 5, 12])):
            side = rng.choice([20, 60, 150, 400])
            box = [rng.uniform(0, 400), rng.uniform(0, 400), rng.uniform(1, side), rng.uniform(1, side)]
            points = points_in(rng, box, rng.choice([0.0, 0.3, 0.9, 1.0]))
            objects.append(truth(box, points, crowd=rng.random() < 0.1))
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                poses.append(found(moved(rng, points, rng.choice([0.5, 2, 8, 40])), score()))
        for _ in range(rng.choice([0, 0, 3, 30])):
            box = [rng.uniform(0, 400), rng.uniform(0, 400), 60.0, 90.0]
            poses.append(found(points_in(rng, box, 0.0), score() * 0.5))
        rng.shuffle(poses)
        pictures.append({"truth": objects, "poses": poses})
    return pictures


def degenerate_cases() -> dict[str, list[Case]]:
    rng = random.Random(1)
    box = [50.0, 40.0, 100.0, 180.0]
    points = points_in(rng, box, 0.0)
    none = [0.0, 0.0, 0.0] * POINTS
    inside = points_in(rng, box, 0.0)
    same = [7.0, 9.0, 1.0] * POINTS
    return {
        "no truth": [{"truth": [], "poses": [found(points, 0.9)]}],
        "no poses": [{"truth": [truth(box, points)], "poses": []}],
        "nothing at all": [{"truth": [], "poses": []}],
        "an object without points takes what is near its box": [
            {"truth": [truth(box, none), truth(box, points)], "poses": [found(inside, 0.9), found(points, 0.8), found(inside, 0.7)]}
        ],
        "only objects without points": [{"truth": [truth(box, none)], "poses": [found(inside, 0.9)]}],
        "only crowds": [{"truth": [truth(box, points, crowd=True)], "poses": [found(points, 0.9), found(points, 0.8)]}],
        "equal scores": [{"truth": [truth(box, points)], "poses": [found(inside, 0.5), found(points, 0.5), found(points, 0.5)]}],
        "zero area": [{"truth": [truth(box, points, 0.0)], "poses": [found(points, 0.9)]}],
        "all points in one place": [{"truth": [truth([7.0, 9.0, 0.0, 0.0], same, 40.0 * 40)], "poses": [found(same, 0.9), found(points, 0.95)]}],
        "one visible point": [{"truth": [truth(box, points[:3] + none[3:])], "poses": [found(points, 0.9)]}],
        "more than 20 poses": [
            {"truth": [truth(box, points)], "poses": [found(inside, 0.9 - 0.01 * i) for i in range(25)] + [found(points, 0.1)]}
        ],
        "two poses for one object": [{"truth": [truth(box, points)], "poses": [found(points, 0.9), found(points, 0.8)]}],
        "areas at the borders of the sizes": [
            {"truth": [truth(box, points, 32.0 * 32), truth(box, inside, 96.0 * 96)], "poses": [found(points, 0.9), found(inside, 0.8)]}
        ],
    }


def figures(pictures: list[Case]) -> Case:
    evaluation = evaluate(
        pictures,
        "keypoints",
        [0],
        lambda each: {
            "category_id": 1,
            "keypoints": each["points"],
            "num_keypoints": sum(1 for value in each["points"][2::3] if value > 0),
        },
        lambda each: {"category_id": 1, "keypoints": each["points"]},
        "poses",
    )
    return {"figures": [float(value) for value in evaluation.stats]}


if __name__ == "__main__":
    write_cases(degenerate_cases(), random_case, figures)
