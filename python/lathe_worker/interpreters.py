"""What computes an ONNX model by the rules of ONNX alone, for `lathe compare --against`: the frameworks' own numbers, not
their speed."""

import os

from lathe_worker.subjects import Unavailable


class OnnxRuntimeInterpreter:
    """ONNX Runtime without graph optimisations: each node as the file has it, Q/DQ included."""

    def __init__(self):
        try:
            import onnxruntime
        except ImportError as error:
            raise Unavailable(
                "unsupported",
                f"ONNX Runtime is not installed in the Python that Lathe uses: {error}",
                "pip install onnxruntime, or set LATHE_PYTHON to an interpreter that has it",
            ) from error
        self.runtime = onnxruntime
        self.libraries = {"onnxruntime": onnxruntime.__version__}

    def compute(self, model, names, arrays, threads):
        options = self.runtime.SessionOptions()
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        options.intra_op_num_threads = threads or len(os.sched_getaffinity(0))
        session = self.runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        wanted = {info.name for info in session.get_inputs()}
        feed = {name: array for name, array in zip(names, arrays) if name in wanted}
        return [info.name for info in session.get_outputs()], session.run(None, feed)


class ReferenceInterpreter:
    """ONNX's own reference of its operators, in NumPy: slow, and what the operators mean."""

    def __init__(self):
        try:
            import onnx
            from onnx.reference import ReferenceEvaluator
        except ImportError as error:
            raise Unavailable(
                "unsupported",
                f"ONNX's reference is not installed in the Python that Lathe uses: {error}",
                "pip install onnx, or set LATHE_PYTHON to an interpreter that has it",
            ) from error
        self.read = onnx.load
        self.evaluator = ReferenceEvaluator
        self.libraries = {"onnx": onnx.__version__}

    def compute(self, model, names, arrays, threads):
        del threads
        evaluator = self.evaluator(self.read(model))
        wanted = set(evaluator.input_names)
        feed = {name: array for name, array in zip(names, arrays) if name in wanted}
        return evaluator.output_names, evaluator.run(None, feed)


def make_interpreter(kind):
    """The interpreter that `lathe compare --against` names: "onnxruntime" or "reference"."""
    if kind == "onnxruntime":
        return OnnxRuntimeInterpreter()
    if kind == "reference":
        return ReferenceInterpreter()
    raise Unavailable("invalid_argument", f"unknown interpreter: {kind}")


def write_outputs(path, names, values):
    """Write the arrays densely packed, one after another, and describe them: name, type, shape."""
    import numpy as np

    described = []
    with open(path, "wb") as file:
        for name, value in zip(names, values):
            if isinstance(value, np.generic):
                value = np.asarray(value)
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
                kind = str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__
                raise Unavailable("unsupported", f"the output {name} is no array of numbers but {kind}")
            value.tofile(file)
            described.append({"name": name, "type": value.dtype.name, "shape": list(value.shape)})
    return described
