"""`python -m lathe_export` on small models: what it writes, and what it refuses. Run: python test_export.py (unittest)."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import numpy as np
    import onnx
    import onnxruntime
    import timm  # noqa: F401 (one case needs it)
    import torch
    import torchvision  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

from lathe_export import __main__ as command
from lathe_export import convert, modules
from lathe_export.errors import ExportError
from lathe_export.rebuild import rebuild

NET = textwrap.dedent("""
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, num_classes=10):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
            self.head = nn.Linear(4, num_classes)

        def forward(self, x):
            return self.head(torch.flatten(self.body(x), 1))

    def net(num_classes=10):
        return Net(num_classes), torch.randn(1, 3, 16, 16)

    class Two(nn.Module):
        def forward(self, ids, mask):
            return {"sum": (ids * mask).sum(1, keepdim=True).float(), "kept": ids.float() * 2}

    def two():
        return Two(), {"ids": torch.randint(0, 9, (2, 6)), "mask": torch.ones(2, 6, dtype=torch.int64)}

    class Random(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    def unstable():
        return Random(), torch.zeros(1, 4)

    def nothing():
        return 3
""")


class Export(unittest.TestCase):
    def setUp(self) -> None:
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        self.file = self.folder / "net.py"
        self.file.write_text(NET)
        self.output = self.folder / "out" / "m.onnx"
        self.output.parent.mkdir()

    def export(self, *arguments: str) -> dict:
        with contextlib.redirect_stdout(io.StringIO()):
            return command.run(command.parse_arguments([*arguments, "--output", str(self.output), "--quiet"]))

    def refused(self, code: str, *arguments: str) -> ExportError:
        with self.assertRaises(ExportError) as caught:
            self.export(*arguments)
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        self.assertEqual(list(self.output.parent.iterdir()), [], "nothing may be written on failure")
        return caught.exception

    def metadata(self) -> dict:
        return {prop.key: json.loads(prop.value) for prop in onnx.load(self.output, load_external_data=False).metadata_props}

    def run_onnx(self, x: torch.Tensor) -> np.ndarray:
        return onnxruntime.InferenceSession(str(self.output)).run(None, {"input": x.numpy()})[0]

    def test_both_exporters_and_rebuild(self) -> None:
        for exporter in ("torchscript", "dynamo"):
            with self.subTest(exporter):
                document = self.export(f"{self.file}:net", "--exporter", exporter, "--dynamic-batch", "--seed", "4")
                self.assertLess(document["check"]["max_rel"], 1e-5)
                self.assertEqual(len(document["check"]["inputs"]), 2)
                x = torch.randn(3, 3, 16, 16)
                expected = rebuild(self.metadata()["lathe.source"], f"{self.file}:net")(x).detach().numpy()
                np.testing.assert_allclose(self.run_onnx(x), expected, atol=1e-5)
                self.assertEqual([path.name for path in self.output.parent.iterdir()], ["m.onnx"])

    def test_weights_decide_the_classes(self) -> None:
        module, _ = modules.call_function(self.file, "net", 7)
        torch.save({"epoch": 3, "state_dict": {"module." + key: value for key, value in module.state_dict().items()}}, self.folder / "w.pth")
        labels = self.folder / "classes.csv"
        labels.write_text("class_index,wnid,name\n" + "".join(f'{i},n{i},"class, {i}"\n' for i in range(7)))
        self.export(f"{self.file}:net", "--weights", str(self.folder / "w.pth"), "--labels", str(labels))
        metadata = self.metadata()
        self.assertEqual(metadata["lathe.source"]["num_classes"], 7)
        self.assertEqual(metadata["lathe.labels"][6], "class, 6")
        x = torch.randn(1, 3, 16, 16)
        np.testing.assert_allclose(self.run_onnx(x), module.eval()(x).detach().numpy(), atol=1e-5)
        (self.folder / "w.pth").write_bytes(b"changed")
        with self.assertRaisesRegex(ExportError, "changed since"):
            rebuild(metadata["lathe.source"], f"{self.file}:net")

    def test_names_and_free_axes(self) -> None:
        self.export(f"{self.file}:two", "--dynamic", "ids:0=n", "--dynamic", "mask:0=n", "--dynamic", "ids:1=length", "--dynamic", "mask:1=length")
        graph = onnx.load(self.output).graph
        self.assertEqual([value.name for value in graph.input], ["ids", "mask"])
        self.assertEqual([value.name for value in graph.output], ["sum", "kept"])
        self.assertEqual([dim.dim_param for dim in graph.input[0].type.tensor_type.shape.dim], ["n", "length"])

    def test_fixed_batch_and_opset(self) -> None:
        self.export(f"{self.file}:net", "--batch-size", "5", "--opset", "17")
        model = onnx.load(self.output)
        self.assertEqual(model.graph.input[0].type.tensor_type.shape.dim[0].dim_value, 5)
        self.assertEqual(model.opset_import[0].version, 17)

    def test_external_data_and_its_replacement(self) -> None:
        self.export("resnet18", "--random-weights", "--input-size", "32", "--external-data")
        first = {path.name for path in self.output.parent.iterdir()}
        self.assertEqual(len(first), 2)
        onnx.checker.check_model(str(self.output))
        self.export("resnet18", "--random-weights", "--input-size", "32", "--external-data", "--seed", "1")
        second = {path.name for path in self.output.parent.iterdir()}
        self.assertEqual(len(second), 2, "the old weights go when the new model is in place")
        self.assertNotEqual(first, second)
        preprocess = self.metadata()["lathe.preprocess"]
        self.assertEqual(preprocess["crop"], [32, 32])
        self.assertEqual(preprocess["resize"], {"short_side": 37})

    def test_refusals(self) -> None:
        bad_weights = self.folder / "bad.pth"
        bad_weights.write_bytes(b"not weights")
        foreign = self.folder / "foreign.pth"
        torch.save({"other.weight": torch.zeros(2)}, foreign)
        preprocess = self.folder / "pre.json"
        preprocess.write_text('{"crop": [16, 16], "stdd": 1}')
        two_labels = self.folder / "two.txt"
        two_labels.write_text("a\nb\n")
        net = f"{self.file}:net"
        for code, arguments, said in (
            ("not_found", ["resnet51"], "resnet51"),
            ("invalid_argument", ["resnet50"], "no weights"),
            ("not_found", [f"{self.folder}/none.py:net"], "no such file"),
            ("invalid_argument", [str(self.file)], "name the function"),
            ("not_found", [f"{self.file}:absent"], "absent"),
            ("mismatch", [f"{self.file}:nothing"], "not a torch.nn.Module"),
            ("not_found", [net, "--weights", "none.pth"], "weights"),
            ("parse_error", [net, "--weights", str(bad_weights)], "cannot be read"),
            ("mismatch", [net, "--weights", str(foreign)], "missing"),
            ("parse_error", [net, "--preprocess", str(preprocess)], "stdd"),
            ("mismatch", [net, "--labels", str(two_labels)], "2 class names"),
            ("not_found", [net, "--labels", "none.csv"], "labels"),
            ("invalid_argument", [net, "--dynamic", "input:x"], "--dynamic"),
            ("invalid_argument", [net, "--dynamic", "image:0=n"], "no input"),
            ("invalid_argument", [net, "--dynamic", "input:4=n"], "axis 4"),
            ("invalid_argument", [net, "--weights", "w.pth", "--random-weights"], "contradict"),
            ("verification_failed", [f"{self.file}:unstable"], "differs from PyTorch"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.refused(code, *arguments).message)

    def test_pickled_code_is_not_run(self) -> None:
        class Evil:
            def __reduce__(self):
                return (os.mkdir, (str(marker),))

        marker = self.folder / "executed"
        torch.save(Evil(), self.folder / "evil.pth")
        self.refused("parse_error", f"{self.file}:net", "--weights", str(self.folder / "evil.pth"))
        self.assertFalse(marker.exists())

    def test_json_is_one_document(self) -> None:
        """Also where the user's file and PyTorch's dynamo exporter print to standard output."""
        noisy = self.folder / "noisy.py"
        noisy.write_text(NET + 'print("on import")\nos_write = __import__("os").write\nos_write(1, b"past Python\\n")\n')
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "python")}
        result = subprocess.run(
            [sys.executable, "-m", "lathe_export", f"{noisy}:net", "--exporter", "dynamo", "--json", "--output", str(self.output)],
            env=environment, capture_output=True, text=True, check=True,
        )
        self.assertEqual(json.loads(result.stdout)["kind"], "export")
        self.assertIn("on import", result.stderr)
        self.assertIn("past Python", result.stderr)

    def test_a_killed_export_leaves_the_old_file(self) -> None:
        self.output.write_bytes(b"old")
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "python")}
        process = subprocess.Popen(
            [sys.executable, "-m", "lathe_export", "resnet18", "--random-weights", "--input-size", "64", "--output", str(self.output)],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        process.stdout.readline()  # it is exporting now
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        self.assertEqual(self.output.read_bytes(), b"old")
        self.export(f"{self.file}:net")
        self.assertEqual([path.name for path in self.output.parent.iterdir()], ["m.onnx"], "leftovers go with the next export")


class Preprocessing(unittest.TestCase):
    def test_timm_and_torchvision(self) -> None:
        from lathe_export import preprocessing

        import timm

        settings, _ = preprocessing.of_timm(timm.create_model("mobilenetv3_small_050"), None)
        self.assertEqual((settings["resize"], settings["crop"], settings["interpolation"]), ({"short_side": 256}, [224, 224], "bicubic"))
        settings, remark = preprocessing.of_torchvision("resnet50", Path("resnet50-11ad3fa6.pth"))
        self.assertEqual(settings["resize"], {"short_side": 232})
        self.assertIn("IMAGENET1K_V2", remark)

    def test_identity_of_weights_is_removed(self) -> None:
        helper = onnx.helper
        value = helper.make_tensor_value_info("x", 1, [2])
        graph = helper.make_graph(
            [helper.make_node("Identity", ["w"], ["w2"]), helper.make_node("Identity", ["w2"], ["w3"]), helper.make_node("Add", ["x", "w3"], ["y"])],
            "g", [value], [helper.make_tensor_value_info("y", 1, [2])], [helper.make_tensor("w", 1, [2], [1.0, 2.0])],
        )
        model = helper.make_model(graph)
        convert.tidy(model)
        self.assertEqual([(node.op_type, list(node.input)) for node in model.graph.node], [("Add", ["x", "w"])])


if __name__ == "__main__":
    unittest.main()
