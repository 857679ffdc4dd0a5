"""Makes a network that run.py kept small: the fewest nodes that are still wrong, with the values before them as inputs.

    reduce.py RUN_PLAN FOLDER KIND [PATTERN] [--close SHARE]

KIND is plan, cpu or simplified; or error with a pattern (a regular expression) that the message has. The small network
is printed, and stays in FOLDER/small. Outputs within SHARE of the largest number (0.001) are right; of one in INT8 give 0.05.
"""

import argparse
import pathlib
import re

import numpy as np
import onnx
from onnx import helper, numpy_helper

import oracle
from graph import reads


class Reducer:
    def __init__(self, program, folder, kind, pattern):
        self.program, self.folder, self.kind, self.pattern = program, folder, kind, pattern
        self.model = onnx.load(folder / "model.onnx")
        self.nodes = list(self.model.graph.node)
        feeds = {}
        for i, value in enumerate(self.model.graph.input):
            tensor = onnx.TensorProto.FromString((folder / f"input_{i}.pb").read_bytes())
            feeds[value.name] = numpy_helper.to_array(tensor)
        whole = onnx.ModelProto()
        whole.CopyFrom(self.model)
        self.made = [name for node in self.nodes for name in node.output if name]
        del whole.graph.output[:]
        whole.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.made)
        self.values = dict(zip(self.made, oracle.evaluate(whole, feeds))) | feeds

    def part(self, cuts, outputs):
        """The nodes between the values `cuts`, which become inputs, and `outputs`."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if any(name in needed and name not in cuts for name in node.output):
                nodes.append(node)
                needed.update(reads(node))
        given = [value.name for value in self.model.graph.input]
        inputs = [name for name in dict.fromkeys([*cuts, *given]) if name in needed]
        graph = helper.make_graph(
            nodes[::-1], "small", [oracle.value_info(name, self.values[name]) for name in inputs],
            [oracle.value_info(name, self.values[name]) for name in outputs],
            [constant for constant in self.model.graph.initializer if constant.name in needed])
        for output in graph.output:
            output.type.tensor_type.ClearField("shape")
        return helper.make_model(graph, opset_imports=self.model.opset_import, ir_version=8)

    def is_wrong(self, cuts, outputs):
        if any(self.values[name].dtype != np.float32 for name in outputs):
            return False
        model = self.part(cuts, outputs)
        feeds = {value.name: self.values[value.name] for value in model.graph.input}
        try:
            wanted = oracle.evaluate(model, feeds)
        except Exception:  # noqa: BLE001: no network
            return False
        small = self.folder / "small"
        oracle.write(small, model, feeds)
        told = oracle.run(self.program, [small]).get(small)
        found = oracle.complaints(small, wanted, told)
        if self.kind == "error":
            return told is not None and re.search(self.pattern, told) is not None
        return any(line.startswith(self.kind) for line in found)

    def reduce(self):
        outputs, cuts = [value.name for value in self.model.graph.output], []
        if not self.is_wrong(cuts, outputs):
            raise SystemExit("the network is not wrong in that way with its inputs' sizes fixed")
        for name in list(outputs):
            fewer = [each for each in outputs if each != name]
            if fewer and self.is_wrong(cuts, fewer):
                outputs = fewer
        outputs = next(([name] for name in self.made if self.is_wrong(cuts, [name])), outputs)
        for name in reversed(self.made):
            inside = {each for node in self.part(cuts, outputs).graph.node for each in node.output}
            if name in inside and name not in outputs and self.is_wrong([*cuts, name], outputs):
                cuts.append(name)
        self.is_wrong(cuts, outputs)
        return self.part(cuts, outputs)

    def told(self, model):
        constants = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = self.values[node.output[0]]

        def named(name):
            if name not in constants:
                return name
            value = constants[name]
            return str(value.tolist()) if value.size < 9 else f"constant {list(value.shape)}"

        yield f"opset {model.opset_import[0].version}"
        for value in model.graph.input:
            yield f"input {value.name}: {list(self.values[value.name].shape)}"
        for node in model.graph.node:
            if node.op_type != "Constant":
                attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
                yield (f"{', '.join(node.output)} = {node.op_type}({', '.join(map(named, node.input))}) {attributes} -> "
                       f"{list(self.values[node.output[0]].shape)}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("run_plan")
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("kind", choices=[*oracle.KINDS, "error"])
    arguments.add_argument("pattern", nargs="?", default="")
    arguments.add_argument("--close", type=float, default=oracle.CLOSE)
    given = arguments.parse_args()
    oracle.CLOSE = given.close
    reducer = Reducer(given.run_plan, given.folder, given.kind, given.pattern)
    for line in reducer.told(reducer.reduce()):
        print(line)
