"""Lathe's engines behind PyTorch's compiler: `torch.compile(model, backend="lathe")`.

Where this package is installed PyTorch knows the backend; importing this module makes it known in any other case.

>>> import torch
>>> import lathe.torch
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
>>> compiled = torch.compile(model, backend="lathe")
>>> with torch.no_grad():
...     tuple(compiled(torch.zeros(2, 4)).shape)
(2, 3)
"""

from __future__ import annotations

import contextlib

import torch._dynamo

from ._torch_backend import backend

__all__ = ["backend"]

# PyTorch asserts that a name is new; it is not where the entry point was followed before.
with contextlib.suppress(AssertionError):
    torch._dynamo.register_backend(backend, name="lathe")
