"""Lathe turns a trained network into the fastest engine that keeps its accuracy, and proves both.

`optimize` does the whole job; `simplify`, `calibrate`, `quantize`, `build`, `evaluate` and `compare` are its steps.
`Engine` and `Session` run what came of it. `bench` times engines and frameworks in turns, `report` makes a page of
results, `show` draws a network, `inspect` tells what it is, `compare_models` where two differ, `plan` how many
machines a service needs, `sensitivity` which layer int8 hurts. `autocast` writes FP16 or BF16 where values fit it, `tune`
searches a precision for every layer, `evaluate_task` judges engines by any task, `profile_data` tells how long texts
are, `plan_prices` and `try_plan` go on from `plan`, `doctor` tells what this machine lacks, `deploy` makes a model
repository for Triton. `from_torch` compiles a module of PyTorch, and `torch.compile(module, backend="lathe")` puts
engines behind PyTorch's own compiler (`lathe.torch`). Failures are `Error`, with code, place and cure.
"""

from . import _load

_load.load_openvino()

from . import _lathe  # noqa: E402
from ._analysis import (  # noqa: E402
    ComparedValue, CompareModelsResult, Configuration, InspectResult, Layer, LoadLatency, PlanResult, PlanTrial,
    PlanTrials, PricedKind, PricedMix, PricePlanResult, Stage, Value, compare_models, inspect, plan, plan_prices,
    try_plan,
)
from ._autocast import AutocastResult, CastDecision, Overflow, autocast  # noqa: E402
from ._bench import BenchGap, BenchRatio, BenchResult, BenchRow, bench  # noqa: E402
from ._deploy import Cluster, DeployedModel, DeployResult, deploy  # noqa: E402
from ._engine import Engine, Session, Tensor  # noqa: E402
from ._errors import Error  # noqa: E402
from ._optimize import optimize  # noqa: E402
from ._progress import Reporter, log  # noqa: E402
from ._report import Picture, ReportResult, report, show  # noqa: E402
from ._results import Comparison, Measured, OptimizeResult, QuantizeResult, Row, Scores, SimplifyResult  # noqa: E402
from ._sensitivity import SensitiveLayer, SensitivityResult, sensitivity  # noqa: E402
from ._steps import (  # noqa: E402
    Calibration, Model, build, calibrate, compare, evaluate, from_torch, load_images, quantize, simplify,
)
from ._tools import (  # noqa: E402
    BackendState, DataProfile, DoctorReport, LengthBuckets, PaddingCost, TaskEvaluation, TaskFigure, TaskSubject,
    TrtexecLogs, TrtexecRun, convert_ranges, doctor, evaluate_task, profile_data, read_trtexec_logs,
)
from ._tune import TimedBeside, Trial, TunedLayer, TuneResult, tune  # noqa: E402

__version__: str = _lathe.version
__all__ = [
    "AutocastResult", "BackendState", "BenchGap", "BenchRatio", "BenchResult", "BenchRow", "Calibration",
    "CastDecision", "Cluster", "CompareModelsResult", "ComparedValue", "Comparison", "Configuration", "DataProfile",
    "DeployResult", "DeployedModel", "DoctorReport", "Engine", "Error", "InspectResult", "Layer", "LengthBuckets",
    "LoadLatency", "Measured", "Model", "OptimizeResult", "Overflow", "PaddingCost", "Picture", "PlanResult",
    "PlanTrial", "PlanTrials", "PricePlanResult", "PricedKind", "PricedMix", "QuantizeResult", "ReportResult",
    "Reporter", "Row", "Scores", "SensitiveLayer", "SensitivityResult", "Session", "SimplifyResult", "Stage",
    "TaskEvaluation", "TaskFigure", "TaskSubject", "Tensor", "TimedBeside", "Trial", "TrtexecLogs", "TrtexecRun",
    "TuneResult", "TunedLayer", "Value", "autocast", "bench", "build", "calibrate", "compare", "compare_models",
    "convert_ranges", "deploy", "doctor", "evaluate", "evaluate_task", "from_torch", "inspect", "load_images",
    "optimize", "plan", "plan_prices", "profile_data", "quantize", "read_trtexec_logs", "report", "sensitivity",
    "show", "simplify", "try_plan", "tune",
]

_lathe.send_log_to(log)
