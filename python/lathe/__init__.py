"""Lathe turns a trained network into the fastest engine that keeps its accuracy, and proves both.

`optimize` does the whole job; `simplify`, `calibrate`, `quantize`, `build`, `evaluate` and `compare` are its steps.
`Engine` and `Session` run what came of it; `from_torch` compiles a module of PyTorch, and `torch.compile(module,
backend="lathe")` puts engines behind PyTorch's own compiler (`lathe.torch`). Failures are `Error`, with code, place and cure.
"""

from . import _load

_load.load_openvino()

from . import _lathe  # noqa: E402
from ._engine import Engine, Session, Tensor  # noqa: E402
from ._errors import Error  # noqa: E402
from ._optimize import optimize  # noqa: E402
from ._progress import Reporter, log  # noqa: E402
from ._results import Comparison, Measured, OptimizeResult, QuantizeResult, Row, Scores, SimplifyResult  # noqa: E402
from ._steps import (  # noqa: E402
    Calibration, Model, build, calibrate, compare, evaluate, from_torch, load_images, quantize, simplify,
)

__version__: str = _lathe.version
__all__ = [
    "Calibration", "Comparison", "Engine", "Error", "Measured",
    "Model", "OptimizeResult", "QuantizeResult", "Reporter", "Row", "Scores", "Session", "SimplifyResult", "Tensor",
    "build", "calibrate", "compare", "evaluate", "from_torch", "load_images", "optimize", "quantize",
    "simplify",
]

_lathe.send_log_to(log)
