"""A network of PyTorch becomes the fastest engine that keeps its accuracy: the whole job in one call.

    python optimize_module.py [OUTPUT_FOLDER]

The network and its data are made here; with your own, `module`, `calibrate` and `evaluate` are all that changes.
"""

import sys

import lathe
import torch
from torch import nn


def pictures(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a bright bar: upright is class 0, lying is class 1."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 3, 32, 32, generator=random)
    labels = torch.randint(2, (count,), generator=random)
    for image, label in zip(images, labels):
        place = int(torch.randint(4, 28, (1,), generator=random))
        (image[:, :, place] if label == 0 else image[:, place, :]).add_(2.0)
    return images, labels


torch.manual_seed(0)
module = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
    nn.Flatten(), nn.Linear(32 * 8 * 8, 2))
images, labels = pictures(512, seed=1)
optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
for _ in range(6):
    for batch, wanted in zip(images.split(64), labels.split(64)):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(batch), wanted).backward()
        optimizer.step()

held_back = pictures(400, seed=2)
result = lathe.optimize(
    module.eval(), example=images[:1], calibrate=images, evaluate=held_back,
    output=sys.argv[1] if len(sys.argv) > 1 else "optimized", batch_sizes=[1], duration_s=0.5, time_limit_s=1)
print(result)
for row in result.rows:
    if row.score is not None:
        print(f"{row.name}, {row.batch} at once: {row.latency_ms.value:.3f} ms, {row.metric} {100 * row.score.value:.1f} %")

session = result.engine.session()
answer = session.run(held_back[0][:1].numpy())
print("class", int(answer.argmax()), "of", answer.shape)
