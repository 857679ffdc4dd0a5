"""Writes to FILE outputs of instance segmenters with the masks that PyTorch and torchvision make of them.

    python mask_cases.py FILE SEED

Masks are run lengths, column after column, outside first. Exit code 77: torchvision is not installed here.
"""

import json
import sys
from typing import Any

try:
    import torch
    from torch.nn.functional import interpolate
    from torchvision.models.detection.roi_heads import paste_masks_in_image
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)


def runs(mask: torch.Tensor) -> list[int]:
    lengths, inside = [0], False
    for value in mask.T.flatten().tolist():
        if value != inside:
            lengths.append(0)
            inside = value
        lengths[-1] += 1
    return lengths


def boxes_in(count: int, height: int, width: int) -> torch.Tensor:
    """Left, top, right, bottom; some reach out of the picture."""
    centre = torch.rand(count, 2) * torch.tensor([width, height])
    half = torch.rand(count, 2) ** 2 * torch.tensor([width, height]) / 2 + 0.5
    return torch.cat([centre - half, centre + half], 1)


def prototype_case() -> dict[str, Any]:
    """Ultralytics' process_mask: sigmoid, cropped to the box on the prototypes' grid, enlarged to the input's size."""
    height, width, count = 64, 96, 12
    rows, columns = height // 4, width // 4
    prototypes = interpolate(torch.randn(1, 8, 5, 7), (rows, columns), mode="bicubic")[0]
    coefficients = torch.randn(count, 8) * 3
    boxes = boxes_in(count, height, width)
    masks = (coefficients @ prototypes.view(8, -1)).sigmoid().view(count, rows, columns)
    left, top, right, bottom = (each[:, None, None] / 4 for each in boxes.T)
    x, y = torch.arange(columns)[None, None], torch.arange(rows)[None, :, None]
    masks = masks * (x >= left) * (x < right) * (y >= top) * (y < bottom)
    masks = interpolate(masks[None], (height, width), mode="bilinear", align_corners=False)[0] > 0.5
    return {
        "height": height,
        "width": width,
        "boxes": boxes.tolist(),
        "coefficients": coefficients.tolist(),
        "prototypes": prototypes.flatten().tolist(),
        "masks": [runs(mask) for mask in masks],
    }


def pasted_case() -> dict[str, Any]:
    height, width, count = 90, 120, 12
    masks = interpolate(torch.rand(count, 1, 6, 6), (28, 28), mode="bilinear")
    boxes = boxes_in(count, height, width)
    pasted = paste_masks_in_image(masks, boxes, (height, width))[:, 0] > 0.5
    return {
        "height": height,
        "width": width,
        "boxes": boxes.tolist(),
        "values": masks.flatten().tolist(),
        "masks": [runs(mask) for mask in pasted],
    }


if __name__ == "__main__":
    torch.manual_seed(int(sys.argv[2]))
    torch.set_num_threads(1)
    cases = {"prototypes": [prototype_case() for _ in range(5)], "pasted": [pasted_case() for _ in range(5)]}
    with open(sys.argv[1], "w") as file:
        json.dump(cases, file)
