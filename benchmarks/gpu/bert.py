"""BERT's encoder as a PyTorch module with seeded random weights: the layers of BERT-base unless told otherwise.

    python3 benchmarks/gpu/bert.py FOLDER

writes FOLDER/bert_base.onnx and, to calibrate it, FOLDER/bert_base.calibration.npz; from these
`lathe simplify`, `lathe calibrate --method minmax --samples 32` and `lathe quantize --target cuda` make the
bert_base.int8.onnx that run_gpu.py takes.
"""

import copy
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (
            part(x).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        if torch.onnx.is_in_onnx_export():
            # The operators that BERT's ONNX files hold.
            scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + mask
            y = scores.softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-12), nn.LayerNorm(width, 1e-12)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, width=768, heads=12, inner=3072, layers=12, words=30522, positions=512, seed=5):
        super().__init__()
        self.word, self.position, self.kind = nn.Embedding(words, width), nn.Embedding(positions, width), nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.pooler = nn.Linear(width, width)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, value in self.named_parameters():
                if value.ndim == 2:
                    value.copy_(torch.randn(value.shape, generator=generator) * 0.02)
                elif name.endswith("bias"):
                    value.copy_(torch.randn(value.shape, generator=generator) * 0.01)
                else:
                    value.copy_(1 + 0.02 * torch.randn(value.shape, generator=generator))

    def forward(self, input_ids, attention_mask, token_type_ids):
        length = input_ids.shape[1]
        places = torch.arange(length, device=input_ids.device).unsqueeze(0)
        x = self.norm(self.word(input_ids) + self.kind(token_type_ids) + self.position(places))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * (-1e4)
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class RoundedInput(nn.Module):
    """A linear layer behind QuantizeLinear and DequantizeLinear: int8 of one scale, zero point 0."""

    def __init__(self, linear, scale):
        super().__init__()
        self.linear, self.scale = linear, scale

    def forward(self, x):
        return self.linear((x / self.scale).round().clamp(-128, 127) * self.scale)


def quantised(net, model):
    """The module with what an int8 ONNX file of it says: int8 weights, dequantised, and the rounding of each linear
    layer's input. Nodes are found by their names, /layers.0/up/MatMul for layers.0.up."""
    from onnx import numpy_helper

    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}

    def scale_of(value):
        node = producers.get(value)
        while node is not None and node.op_type in ("Reshape", "Transpose", "Gather"):
            node = producers.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear":
            return None
        return float(constants[node.input[1]])

    net = copy.deepcopy(net)
    for node in model.graph.node:
        if node.op_type not in ("MatMul", "Gemm"):
            continue
        weight = producers.get(node.input[1])
        scale = scale_of(node.input[0])
        if weight is None or weight.op_type != "DequantizeLinear" or scale is None or weight.input[0] not in constants:
            continue
        values = torch.from_numpy(constants[weight.input[0]].astype("float32"))
        scales = torch.from_numpy(constants[weight.input[1]].astype("float32"))
        rows = node.op_type == "Gemm" and any(a.name == "transB" and a.i for a in node.attribute)
        real = values * (scales[:, None] if rows else scales[None, :])
        path = node.name.strip("/").split("/")[:-1]
        parent = net
        for part in ".".join(path[:-1]).split(".") if len(path) > 1 else []:
            parent = getattr(parent, part)
        linear = getattr(parent, path[-1])
        with torch.no_grad():
            linear.weight.copy_(real if rows else real.T)
        setattr(parent, path[-1], RoundedInput(linear, scale))
    return net


INPUTS = ["input_ids", "attention_mask", "token_type_ids"]


def export(net, path, dynamo=False):
    """Writes ONNX with free batch and sequence sizes, by PyTorch's tracing exporter or its newer one."""
    shape = (2, 16)
    args = (
        torch.arange(32).reshape(shape) % 100,
        torch.ones(shape, dtype=torch.int64),
        torch.zeros(shape, dtype=torch.int64),
    )
    if dynamo:
        batch, sequence = torch.export.Dim("batch"), torch.export.Dim("sequence", max=512)
        extra = {"dynamic_shapes": [{0: batch, 1: sequence}] * 3, "external_data": False}
    else:
        axes = {0: "batch", 1: "sequence"}
        extra = {"dynamic_axes": {name: axes for name in INPUTS} | {"hidden": axes, "pooled": {0: "batch"}}}
    with torch.no_grad():
        torch.onnx.export(
            net, args, str(path), opset_version=17, input_names=INPUTS, output_names=["hidden", "pooled"],
            dynamo=dynamo, **extra,
        )


def inputs(batch, length, words=30522, seed=3):
    """Seeded token numbers; the rows' ends are masked at different places."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, words, (batch, length), generator=generator)
    lengths = torch.tensor([length - (5 * row) % (length // 2) for row in range(batch)])
    mask = (torch.arange(length)[None, :] < lengths[:, None]).to(torch.int64)
    kinds = (torch.arange(length)[None, :] >= lengths[:, None] // 2).to(torch.int64)
    return ids, mask, kinds


def main():
    import numpy as np

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    export(Bert().eval(), folder / "bert_base.onnx")
    samples = dict(zip(INPUTS, (tensor.numpy() for tensor in inputs(32, 128, seed=1000))))
    np.savez(folder / "bert_base.calibration.npz", **samples)


if __name__ == "__main__":
    main()
