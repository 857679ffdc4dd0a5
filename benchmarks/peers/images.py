"""The same calibration images for every quantiser: chosen and preprocessed as `lathe calibrate` does it."""

import csv
import json
from pathlib import Path

import numpy as np
from PIL import Image


def choose(folder, wanted):
    """Image files of a folder, `wanted` of them spread evenly: sample i is number floor(i * total / wanted)."""
    folder = Path(folder)
    labels = folder / "labels.csv"
    if labels.exists():
        with open(labels, newline="", encoding="utf-8") as file:
            names = [row["file"] for row in csv.DictReader(file)]
    else:
        names = sorted(p.name for p in folder.iterdir() if p.suffix.lower() in {".jpg", ".jpeg", ".png"})
    total = len(names)
    taken = range(total) if not wanted or wanted >= total else [i * total // wanted for i in range(wanted)]
    return [folder / names[i] for i in taken]


def preprocess(path, rules):
    """One image as a float32 tensor of batch 1, by rules in the form of the metadata `lathe.preprocess`."""
    image = Image.open(path).convert("RGB")
    method = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}[rules.get("interpolation", "bilinear")]
    resize = rules.get("resize")
    if isinstance(resize, dict) and "letterbox" in resize:
        (height, width), fill = resize["letterbox"], (int(rules.get("pad", 0)),) * 3
        factor, corner = min(height / image.height, width / image.width), rules.get("align") == "top-left"
        inner = [int(factor * side) if corner else round(factor * side) for side in image.size]
        box, image = image.resize(inner, method), Image.new("RGB", (width, height), fill)
        image.paste(box, (0, 0) if corner else ((width - inner[0]) // 2, (height - inner[1]) // 2))
    elif isinstance(resize, dict):
        short, (width, height) = resize["short_side"], image.size
        if width <= height:
            image = image.resize((short, int(short * height / width)), method)
        else:
            image = image.resize((int(short * width / height), short), method)
    elif resize:
        image = image.resize((resize[1], resize[0]), method)
    if crop := rules.get("crop"):
        width, height = image.size
        top, left = round((height - crop[0]) / 2), round((width - crop[1]) / 2)
        image = image.crop((left, top, left + crop[1], top + crop[0]))
    pixels = np.asarray(image, dtype=np.float32)
    if rules.get("color", "RGB") == "BGR":
        pixels = pixels[:, :, ::-1]
    mean, std = (np.asarray(rules.get(key, [default] * 3), dtype=np.float32) for key, default in (("mean", 0), ("std", 1)))
    values = (pixels * np.float32(rules.get("scale", 1.0)) - mean) / std
    if rules.get("layout", "NCHW") == "NCHW":
        values = values.transpose(2, 0, 1)
    return np.ascontiguousarray(values[np.newaxis], dtype=np.float32)


def rules_of(model, override):
    """The preprocessing in an ONNX model's metadata, or that of a JSON file."""
    if override:
        return json.loads(Path(override).read_text(encoding="utf-8"))
    for entry in model.metadata_props:
        if entry.key == "lathe.preprocess":
            return json.loads(entry.value)
    raise SystemExit("the model has no lathe.preprocess metadata; give --preprocess FILE.json")
