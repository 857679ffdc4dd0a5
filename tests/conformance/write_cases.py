#!/usr/bin/env python3
"""Write ONNX's own backend test cases as files: KIND/NAME/{model.onnx,data.json,test_data_set_N/{input,output}_M.pb}.

The ONNX wheel holds the pytorch-* cases as files, but makes the node and simple cases when they are asked for.
The conformance tests read files, so this writes all of them into one folder:

    python tests/conformance/write_cases.py OUTPUT_FOLDER
    cmake ... -DLATHE_ONNX_TEST_DATA=OUTPUT_FOLDER
"""
import json
import os
import shutil
import sys

import onnx
from onnx import TensorProto, numpy_helper


def serialized(value, value_info):
    """The value as the wheel's cmd_tools.py writes it: the proto its declared type asks for."""
    name, kind = value_info.name, value_info.type.WhichOneof("value")
    if isinstance(value, TensorProto):
        return value.SerializeToString()
    if kind == "map_type":
        return numpy_helper.from_dict(value, name).SerializeToString()
    if kind == "sequence_type":
        return numpy_helper.from_list(value, name).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value, name).SerializeToString()
    return numpy_helper.from_array(value, name).SerializeToString()


def write(folder, case):
    os.makedirs(folder)
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(case.model.SerializeToString())
    with open(os.path.join(folder, "data.json"), "w") as file:
        json.dump({"rtol": case.rtol, "atol": case.atol}, file)
    for number, (inputs, outputs) in enumerate(case.data_sets):
        data = os.path.join(folder, f"test_data_set_{number}")
        os.makedirs(data)
        for what, values, infos in (
            ("input", inputs, case.model.graph.input),
            ("output", outputs, case.model.graph.output),
        ):
            for i, value in enumerate(values):
                with open(os.path.join(data, f"{what}_{i}.pb"), "wb") as file:
                    file.write(serialized(value, infos[i]))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    output = sys.argv[1]
    if os.path.exists(os.path.join(output, "complete")):
        with open(os.path.join(output, "complete")) as file:
            if file.read().strip() == onnx.__version__:
                print(f"{output} already holds the cases of ONNX {onnx.__version__}")
                return
    shutil.rmtree(output, ignore_errors=True)
    os.makedirs(output)

    from onnx.backend.test.case import model as model_cases
    from onnx.backend.test.loader import load_node_model_tests

    count = 0
    for case in [*load_node_model_tests(), *model_cases.collect_testcases()]:
        if case.model is not None:
            write(os.path.join(output, case.kind, case.name), case)
            count += 1
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    for kind in sorted(os.listdir(data)):
        for name in sorted(os.listdir(os.path.join(data, kind))):
            source, target = os.path.join(data, kind, name), os.path.join(output, kind, name)
            if os.path.exists(target):
                continue
            if os.path.isfile(os.path.join(source, "model.onnx")):
                shutil.copytree(source, target)
                count += 1
            elif name.endswith(".onnx"):  # light/: whole networks without recorded inputs
                os.makedirs(target[: -len(".onnx")])
                shutil.copy(source, os.path.join(target[: -len(".onnx")], "model.onnx"))
                count += 1
    with open(os.path.join(output, "complete"), "w") as file:
        file.write(onnx.__version__ + "\n")
    print(f"{count} cases of ONNX {onnx.__version__} in {output}")


if __name__ == "__main__":
    main()
