"""ONNX's reference on a model and inputs, in a process of its own, with what it gets wrong corrected.

Reads lines "MODEL INPUTS OUTPUTS" from standard input, writes OUTPUTS (.npz) and answers "ok" or "none: why".
"""

import resource
import signal
import sys
import warnings

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import corrected

SECONDS = 10


def run(model_file, inputs_file, outputs_file):
    model = onnx.load(model_file)
    inputs = dict(np.load(inputs_file))
    constants = {each.name for each in model.graph.initializer}
    wanted = [each.name for each in model.graph.input if each.name not in constants]
    feeds = {name: inputs[name] for name in wanted}
    for name, value in feeds.items():
        if value.dtype == object:
            raise TypeError(name)
    outputs = ReferenceEvaluator(model, new_ops=corrected.OPERATORS).run(None, feeds)
    names = [each.name for each in model.graph.output]
    for value in outputs:
        if not isinstance(value, (np.ndarray, np.generic)):
            raise TypeError("an output is no tensor")
    np.savez(outputs_file, **{f"output{i}": value for i, value in enumerate(outputs)}, names=np.array(names))


def too_long(*_):
    raise TimeoutError("over 10 s")


def main():
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    signal.signal(signal.SIGALRM, too_long)
    for line in sys.stdin:
        signal.alarm(SECONDS)
        try:
            run(*line.rstrip("\n").split("\t"))
            answer = "ok"
        except Exception as error:  # noqa: BLE001: whatever a hostile model does to it
            answer = f"none: {type(error).__name__} {error}"
        signal.alarm(0)
        print(answer.replace("\n", " ")[:300], flush=True)


if __name__ == "__main__":
    main()
