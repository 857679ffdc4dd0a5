"""BERT's encoder as a PyTorch module with seeded random weights: the layers of BERT-base unless told otherwise."""

import math

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
