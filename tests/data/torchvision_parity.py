"""Compares the tensors in FOLDER/ours.npz with torchvision's for the files in FOLDER/names.txt.

Exit code 77: torchvision is not installed here.
"""

import json
import sys
from pathlib import Path

try:
    import numpy as np
    import torch
    from PIL import Image
    from torchvision import transforms
    from torchvision.transforms import InterpolationMode
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(77)

folder = Path(sys.argv[1])
settings = json.loads((folder / "preprocess.json").read_text())
names = (folder / "names.txt").read_text().splitlines()
ours = np.load(folder / "ours.npz")["images"]

steps = []
resize = settings.get("resize")
if resize is not None:
    size = resize["short_side"] if isinstance(resize, dict) else resize
    steps.append(transforms.Resize(size, interpolation=InterpolationMode(settings.get("interpolation", "bilinear"))))
if "crop" in settings:
    steps.append(transforms.CenterCrop(settings["crop"]))
# ToTensor divides by 255; a model that takes whole pixel values starts from those.
steps.append(transforms.ToTensor() if settings["scale"] < 1 else transforms.PILToTensor())
pipeline = transforms.Compose(steps)

largest = 0.0
for name, our in zip(names, ours, strict=True):
    tensor = pipeline(Image.open(name).convert("RGB")).float()
    if settings.get("color") == "BGR":
        tensor = tensor.flip(0)
    tensor = transforms.functional.normalize(tensor, settings.get("mean", [0, 0, 0]), settings.get("std", [1, 1, 1]))
    if settings.get("layout") == "NHWC":
        tensor = tensor.permute(1, 2, 0)
    largest = max(largest, float(np.abs(tensor.numpy() - our).max()))
print(f"{len(names)} samples, largest difference {largest:g}")
