"""Writes FILE.npz with random pictures ("in<i>") and what OpenCV's INTER_LINEAR makes of them ("out<i>").

Exit code 77: OpenCV is not installed here.
"""

import sys

try:
    import cv2
    import numpy as np
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

random = np.random.default_rng(int(sys.argv[2]))
sizes = [
    ((480, 640), (312, 416)), ((427, 640), (277, 416)), ((640, 480), (320, 240)), ((13, 7), (64, 64)), ((1, 1), (5, 5)),
    ((1000, 1), (10, 10)), ((101, 100), (50, 50)), ((50, 60), (50, 61)), ((50, 60), (75, 60)), ((30, 40), (30, 40)),
]  # fmt: skip
sizes += [(tuple(random.integers(1, 400, 2)), tuple(random.integers(1, 400, 2))) for _ in range(40)]
arrays = {}
for index, ((height, width), (new_height, new_width)) in enumerate(sizes):
    picture = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
    arrays[f"in{index}"] = picture
    arrays[f"out{index}"] = cv2.resize(picture, (int(new_width), int(new_height)), interpolation=cv2.INTER_LINEAR)
np.savez(sys.argv[1], **arrays)
