"""Runs a model and its cast form in ONNX's reference evaluator, which computes each node in its own type in NumPy.

usage: check_reference.py FLOAT.onnx CAST.onnx INPUTS.npz LARGEST_RELATIVE_ERROR [overflows]
With "overflows", the model must give NaN or infinity if all of it is cast: else the case would show nothing.
Exit code 77: a module is missing.
"""

import sys
import warnings

try:
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    print(f"SKIPPED: {error}; set LATHE_PYTHON to a Python that has it")
    sys.exit(77)


def blindly_cast(model):
    """Every float32 tensor as float16, with casts at the edges."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float16), tensor.name))
    for value in [*graph.input, *graph.output]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    del graph.value_info[:]
    return model


def main():
    warnings.simplefilter("ignore")
    plain, cast = onnx.load(sys.argv[1]), onnx.load(sys.argv[2])
    with numpy.load(sys.argv[3]) as arrays:
        inputs = {name: arrays[name] for name in arrays.files}
    limit = float(sys.argv[4])
    expected = ReferenceEvaluator(plain).run(None, inputs)
    if "overflows" in sys.argv[5:]:
        halves = {name: value.astype(numpy.float16) if value.dtype == numpy.float32 else value for name, value in inputs.items()}
        if all(numpy.isfinite(each).all() for each in ReferenceEvaluator(blindly_cast(plain)).run(None, halves)):
            sys.exit("cast blindly, the model does not overflow: this case shows nothing")
    for name, wanted, given in zip([each.name for each in cast.graph.output], expected, ReferenceEvaluator(cast).run(None, inputs)):
        if given.dtype != wanted.dtype:
            sys.exit(f"{name} is {given.dtype}, not {wanted.dtype}")
        given = numpy.asarray(given, dtype=numpy.float64)
        if not numpy.isfinite(given).all():
            sys.exit(f"{name} holds NaN or infinity")
        error = numpy.abs(given - wanted).max() / numpy.abs(wanted).max()
        print(f"{name}: relative error {error:.2e}, limit {limit:g}")
        if error > limit:
            sys.exit(f"{name} is off by {error:.2e}, more than {limit:g}")
        if error == 0:
            sys.exit(f"{name} is exact to the last bit: was anything computed in 16 bits?")


main()
