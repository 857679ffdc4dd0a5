"""The networks that run_gpu.py compares: files for Lathe, modules for PyTorch, inputs for both."""

import copy
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from gpu.torch_graph import flat

NETWORKS = {
    "resnet50": {"title": "ResNet-50", "sizes": [1, 8, 32], "precisions": ["fp16", "int8", "fp32", "tf32"],
                 "large": [64, 128, 256]},
    "lite0": {"title": "EfficientNet-Lite0", "sizes": [1, 32], "precisions": ["fp16", "int8"]},
    "mobilenet_v1": {"title": "MobileNetV1 0.75", "sizes": [1, 32], "precisions": ["fp16", "int8"]},
    "bert_base": {
        "title": "BERT-base",
        "sizes": [(1, 128), (8, 128), (32, 128), (1, 384), (32, 384)],
        "precisions": ["fp16", "int8"],
        "layers": {"width": 768, "heads": 12, "inner": 3072, "layers": 12},
    },
    "minilm": {
        "title": "MiniLM-L6",
        "sizes": [(1, 128), (8, 128), (32, 128), (1, 384), (32, 384)],
        "precisions": ["fp16"],
        "layers": {"width": 384, "heads": 12, "inner": 1536, "layers": 6},
    },
}


def pictures(count, seed=7):
    """Normalised pictures of random blobs at several scales: activations as of photos, different classes."""
    generator = np.random.default_rng(seed)
    x = torch.zeros(count, 3, 224, 224)
    for size, weight in ((4, 1.0), (9, 0.8), (28, 0.5), (112, 0.25)):
        noise = torch.from_numpy(generator.standard_normal([count, 3, size, size]).astype(np.float32))
        x += weight * F.interpolate(noise, size=(224, 224), mode="bicubic", align_corners=False)
    return x.clamp(-2.1, 2.6)


class Network:
    """Files, modules and inputs of a network."""

    def __init__(self, name, options):
        self.name, self.spec, self.options = name, NETWORKS[name], options
        self.work = Path(options.work)
        self.work.mkdir(parents=True, exist_ok=True)
        if "layers" in self.spec:
            self.make_encoder()
        else:
            self.make_convolution()

    def make_encoder(self):
        from gpu import bert

        self.bert = bert
        self.quantised = None
        self.net = bert.Bert(**self.spec["layers"]).eval()
        self.files = dict.fromkeys(("fp16", "fp32", "tf32", "bf16"), self.work / f"{self.name}.onnx")
        quantised = Path(self.options.models) / f"{self.name}.int8.onnx"  # bert.py says how to make it
        if quantised.exists():
            import onnx

            self.files["int8"] = quantised
            if not self.options.compile_only:
                self.quantised = bert.quantised(self.net, onnx.load(quantised))
        self.input_names = bert.INPUTS
        if not self.files["fp16"].exists() and not self.options.compile_only:
            try:
                bert.export(self.net, self.files["fp16"])
            except Exception as error:
                print("tracing export failed, the newer exporter instead:", error, flush=True)
                bert.export(self.net, self.files["fp16"], dynamo=True)

    def make_convolution(self):
        import onnx
        from gpu.onnx_module import OnnxModule, float_model

        models = Path(self.options.models)
        quantised = onnx.load(models / f"{self.name}.int8.onnx")
        given = models / f"{self.name}.onnx"
        single = onnx.load(given) if given.exists() else float_model(quantised)
        self.files = {"int8": models / f"{self.name}.int8.onnx", "fp16": self.work / f"{self.name}.onnx"}
        onnx.save(single, self.files["fp16"])
        self.files |= dict.fromkeys(("fp32", "tf32", "bf16"), self.files["fp16"])
        self.net, self.quantised = OnnxModule(single).eval(), OnnxModule(quantised).eval()
        self.input_names = [self.net.input_name]

    def shape_of(self, size):
        """Of the inputs, for a batch size or (batch, sequence)."""
        return size if isinstance(size, tuple) else (size, 3, 224, 224)

    def label(self, size):
        return "x".join(map(str, size)) if isinstance(size, tuple) else str(size)

    def inputs(self, size):
        if isinstance(size, tuple):
            return list(self.bert.inputs(*size))
        return [pictures(size, seed=7 + size)]

    def module(self, dtype, device, quantised=False):
        """A copy of the module in another type."""
        return copy.deepcopy(self.quantised if quantised else self.net).to(device, dtype)

    def reference(self, size, quantised):
        """Outputs in double precision, of the Q/DQ model where PyTorch can run it, else of the float one."""
        module = self.module(torch.float64, self.options.device, quantised and self.quantised is not None)
        with torch.no_grad():
            x = [t.to(self.options.device) for t in self.inputs(size)]
            x = [t.double() if t.is_floating_point() else t for t in x]
            return [t.cpu().numpy() for t in flat(module(*x))]

    def profiles(self, sizes):
        """--shape for the sizes: one range for batches, one for each sequence length."""
        groups = {}
        for size in sizes:
            groups.setdefault(self.shape_of(size)[1:], []).append(size)
        arguments = []
        for group in groups.values():
            least, usual, most = group[0], group[len(group) // 2], group[-1]
            if len(group) == 2:
                usual = most
            shapes = ["x".join(map(str, self.shape_of(size))) for size in (least, usual, most)]
            text = shapes[0] if len(group) == 1 else "..".join(shapes)
            for name in self.input_names:
                arguments += ["--shape", f"{name}:{text}"]
        return arguments

    def sizes(self):
        """Those of the options, else all: batch sizes, or (batch, sequence)."""
        if not self.options.sizes:
            return self.spec["sizes"]
        given = [tuple(map(int, word.split("x"))) for word in self.options.sizes.split(",")]
        return [size if len(size) > 1 else size[0] for size in given]

    def precisions(self):
        """Those of the options, else all that there is a model for."""
        asked = self.options.precisions.split(",") if self.options.precisions else self.spec["precisions"]
        return [name for name in asked if name in self.files or self.options.precisions]
