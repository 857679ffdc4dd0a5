"""Engines behind PyTorch's own compiler: the module stays a module.

    python behind_torch_compile.py
"""

import lathe
import torch
from torch import nn

torch.manual_seed(0)
module = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)).eval()
fast = torch.compile(module, backend="lathe")
inputs = torch.randn(32, 64)
with torch.no_grad():
    difference = (fast(inputs) - module(inputs)).abs().max().item()
print(f"largest difference: {difference:.1e}")

# The same as an engine, to save and to run where there is no PyTorch.
engine = lathe.from_torch(module, inputs)
print("engine:", [tensor.name for tensor in engine.inputs], "to", engine.session().run(inputs.numpy()).shape)
