"""Renders the pictures of `lathe demo` and trains its network, both from nothing: no data of anybody else's.

    train.py DATA_FOLDER

writes shapes.onnx, calibrate/*.jpg and evaluate/CLASS/*.jpg. Ten shapes of any colour, size and angle lie on busy
backgrounds, half covered, in poor light, and with camera noise: hard enough that a network of this size errs, so that a
loss by quantisation can be seen. Needs requirements/python.txt; about five minutes on two cores.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import torch
from PIL import Image
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))
from lathe_export import convert  # noqa: E402

NAMES = ["arrow", "circle", "crescent", "cross", "heart", "hexagon", "ring", "square", "star", "triangle"]
SIDE = 64
FINE = 2 * SIDE  # rendered at twice the size, then averaged
TRAINING, CALIBRATION, EVALUATION = 3000, 64, 400
STEPS, BATCH = 1800, 64

GRID = (np.mgrid[0:FINE, 0:FINE].astype(np.float32) + 0.5) / FINE * 2 - 1


def polygon(x, y, corners):
    """Inside a convex polygon whose corners go round against the clock."""
    inside = np.ones_like(x, dtype=bool)
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1]):
        inside &= (bx - ax) * (y - ay) - (by - ay) * (x - ax) >= 0
    return inside


def regular(count, radius=1.0):
    angles = 2 * np.pi * np.arange(count) / count
    return list(zip(radius * np.cos(angles), radius * np.sin(angles)))


def shape_mask(name, x, y):
    """Which points of the plane the shape of about unit size holds."""
    r = np.hypot(x, y)
    if name == "circle":
        return r < 0.85
    if name == "ring":
        return (r < 0.9) & (r > 0.52)
    if name == "square":
        return np.maximum(abs(x), abs(y)) < 0.74
    if name == "hexagon":
        return polygon(x, y, regular(6, 0.95))
    if name == "triangle":
        return polygon(x, y, regular(3))
    if name == "cross":
        return (np.minimum(abs(x), abs(y)) < 0.27) & (np.maximum(abs(x), abs(y)) < 0.9)
    if name == "crescent":
        return (r < 0.9) & (np.hypot(x - 0.45, y) > 0.7)
    if name == "heart":
        a, b = 1.2 * x, 1.2 * y + 0.1
        return (a * a + b * b - 0.6) ** 3 - 1.6 * a * a * b * b * b < 0
    if name == "arrow":
        head = polygon(x, y, [(0.95, 0.0), (0.05, 0.75), (0.05, -0.75)])
        return head | ((abs(y) < 0.25) & (x > -0.9) & (x < 0.1))
    angle = np.arctan2(y, x)
    return r < 0.42 + 0.5 * np.abs((angle * 5 / (2 * np.pi)) % 1 - 0.5) * 2 ** 0.5  # star


def smooth_noise(random, cells):
    """A random surface, bent over `cells` squares a side."""
    coarse = random.uniform(0, 1, (cells + 1, cells + 1, 3)).astype(np.float32)
    at = (GRID[0, :, 0] + 1) / 2 * cells
    low = np.minimum(at.astype(int), cells - 1)
    part = (at - low)[:, None, None]
    rows = coarse[low] * (1 - part) + coarse[low + 1] * part
    part = (at - low)[None, :, None]
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


def place(random, size, spread):
    """The plane, turned, moved and scaled at random."""
    angle = random.uniform(0, 2 * np.pi)
    y, x = GRID[0] - random.uniform(-spread, spread), GRID[1] - random.uniform(-spread, spread)
    stretch = random.uniform(0.85, 1.15)
    return (x * np.cos(angle) + y * np.sin(angle)) / (size * stretch), (y * np.cos(angle) - x * np.sin(angle)) / (size / stretch)


def render(random, label):
    """One picture, uint8 SIDE x SIDE x 3."""
    picture = smooth_noise(random, int(random.integers(1, 6))) * random.uniform(0.2, 0.8)
    ground = picture.mean((0, 1))
    for _ in range(int(random.integers(0, 3))):  # strokes in the background
        x, y = place(random, 0.5, 0.9)
        stroke = (abs(y) < random.uniform(0.03, 0.15)) & (abs(x) < random.uniform(0.5, 2))
        picture[stroke] = random.uniform(0, 1, 3)
    colour = random.uniform(0, 1, 3)
    if np.abs(colour - ground).max() < 0.35:
        colour = np.where(ground > 0.4, ground - 0.35, ground + 0.5)
    x, y = place(random, random.uniform(0.32, 0.62), 0.3)
    mask = shape_mask(NAMES[label], x, y)
    shade = 1 + random.uniform(-0.35, 0.35) * x + random.uniform(-0.35, 0.35) * y
    picture[mask] = (colour * shade[..., None])[mask]
    if random.uniform() < 0.3:  # something lies over a part of it
        x, y = place(random, 0.4, 0.8)
        picture[(abs(y) < 0.22) & (abs(x) < 1.6)] = random.uniform(0, 1, 3)
    picture *= random.uniform(0.45, 1.25)
    picture = picture.reshape(SIDE, 2, SIDE, 2, 3).mean((1, 3))
    picture += random.normal(0, random.uniform(0, 0.06), picture.shape)
    return (np.clip(picture, 0, 1) * 255 + 0.5).astype(np.uint8)


def pictures(count, seed):
    random = np.random.default_rng(seed)
    labels = np.arange(count) % len(NAMES)
    return np.stack([render(random, label) for label in labels]), labels


class Block(nn.Sequential):
    def __init__(self, inside, outside, stride):
        super().__init__(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())


class Network(nn.Module):
    """11.5 million multiply-accumulates, 108,000 parameters."""

    def __init__(self):
        super().__init__()
        self.stem = Block(3, 20, 2)
        self.down1, self.same1 = Block(20, 40, 2), Block(40, 40, 1)
        self.down2, self.same2 = Block(40, 80, 2), Block(80, 80, 1)
        self.head = nn.Linear(80, len(NAMES))

    def forward(self, x):
        x = self.down1(self.stem(x))
        x = self.down2(x + self.same1(x))
        x = x + self.same2(x)
        return self.head(x.mean((2, 3)))


def to_tensor(images):
    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1


def accuracy(model, images, labels):
    model.eval()
    with torch.no_grad():
        found = torch.cat([model(to_tensor(part)).argmax(1) for part in np.array_split(images, 8)])
    return float((found.numpy() == labels).mean())


def train(images, labels):
    torch.manual_seed(1)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS)
    random = np.random.default_rng(2)
    start = time.perf_counter()
    for step in range(STEPS):
        model.train()
        chosen = random.integers(0, len(images), BATCH)
        batch = to_tensor(images[chosen])
        batch = batch.rot90(step % 4, (2, 3))
        if step % 8 > 3:
            batch = batch.flip(3)
        loss = nn.functional.cross_entropy(model(batch), torch.from_numpy(labels[chosen]), label_smoothing=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {loss.item():.3f}, {time.perf_counter() - start:.0f} s", flush=True)
    return model


def save_jpeg(image, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, quality=75)


def main():
    folder = Path(sys.argv[1])
    images, labels = pictures(CALIBRATION, 11)
    for i, image in enumerate(images):
        save_jpeg(image, folder / "calibrate" / f"{i:02}.jpg")
    images, labels = pictures(EVALUATION, 12)
    read = []
    for i, (image, label) in enumerate(zip(images, labels)):
        path = folder / "evaluate" / NAMES[label] / f"{i:03}.jpg"
        save_jpeg(image, path)
        read.append(np.asarray(Image.open(path)))
    model = train(*pictures(TRAINING, 13))
    print(f"held-out accuracy {accuracy(model, np.stack(read), labels):.4f}")

    inputs = convert.Inputs({"input": torch.zeros(1, 3, SIDE, SIDE)}, by_keyword=False, dynamic={"input": {0: "batch"}})
    path = folder / "shapes.onnx"
    convert.export(model.eval(), inputs, 18, "torchscript", path)
    exported = onnx.load(path)
    convert.tidy(exported)
    convert.set_metadata(exported, {
        "lathe.preprocess": {"resize": [SIDE, SIDE], "scale": 1 / 127.5, "mean": [1, 1, 1], "std": [1, 1, 1]},
        "lathe.labels": NAMES})
    onnx.save(exported, path)
    print(json.dumps({"bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())}))


if __name__ == "__main__":
    main()
