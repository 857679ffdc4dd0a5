"""PyTorch's layers and functions, each in a small network of its own with inputs. Nothing here is fitted to Lathe: these are the
names of torch.nn and of torch, in the forms in which people use them.

    for name, (module, inputs) in networks(): ...

Weights and inputs are drawn from a seed.
"""

import torch
from torch import nn

F = nn.functional


class Function(nn.Module):
    """A function of its layers and inputs."""

    def __init__(self, function, *layers):
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, *inputs):
        return self.function(self.layers, *inputs)


def recurrent():
    for name in ("LSTM", "GRU", "RNN"):
        kind = getattr(nn, name)
        forms = {"three_layers": (dict(num_layers=3, batch_first=True), (3, 20, 8)),
                 "both_directions": (dict(num_layers=2, bidirectional=True, batch_first=True), (3, 20, 8)),
                 "time_first": (dict(num_layers=2), (20, 3, 8)), "no_bias": (dict(bias=False, num_layers=2), (20, 3, 8)),
                 "batch_of_one": (dict(num_layers=2), (20, 1, 8))}
        for form, (options, shape) in forms.items():
            yield f"{name}_{form}", Function(lambda m, x: m[0](x)[0], kind(8, 16, **options)), [shape]
            yield (f"{name}_{form}_state", Function(lambda m, x: first(m[0](x)[1]), kind(8, 16, **options)), [shape])
    yield "LSTM_projected", Function(lambda m, x: m[0](x)[0], nn.LSTM(8, 16, 2, proj_size=5, batch_first=True)), [(3, 20, 8)]
    yield ("LSTM_given_state", Function(lambda m, x, h, c: m[0](x, (h, c))[0], nn.LSTM(8, 16, 2, batch_first=True)),
           [(3, 20, 8), (2, 3, 16), (2, 3, 16)])
    yield "GRU_given_state", Function(lambda m, x, h: m[0](x, h), nn.GRU(8, 16, 2, batch_first=True)), [(3, 20, 8), (2, 3, 16)]
    yield ("RNN_relu", Function(lambda m, x: m[0](x)[0], nn.RNN(8, 16, 2, nonlinearity="relu", batch_first=True)), [(3, 20, 8)])
    yield "LSTMCell", Function(lambda m, x, h, c: m[0](x, (h, c)), nn.LSTMCell(8, 16)), [(3, 8), (3, 16), (3, 16)]
    yield "GRUCell", Function(lambda m, x, h: m[0](x, h), nn.GRUCell(8, 16)), [(3, 8), (3, 16)]
    yield ("LSTM_of_convolution", Function(lambda m, x: m[1](m[0](x).transpose(1, 2))[0].mean(1), nn.Conv1d(8, 16, 3),
                                           nn.LSTM(16, 16, 2, batch_first=True, bidirectional=True)), [(4, 8, 30)])


def first(states):
    return states[0] if isinstance(states, tuple) else states


def transformers():
    def attention(**options):
        return nn.MultiheadAttention(32, 4, batch_first=True, **options)

    text = (2, 10, 32)
    yield "MultiheadAttention", Function(lambda m, x: m[0](x, x, x)[0], attention()), [text]
    yield "MultiheadAttention_weights", Function(lambda m, x: m[0](x, x, x), attention()), [text]
    yield ("MultiheadAttention_masked", Function(lambda m, x, k: m[0](x, x, x, key_padding_mask=k > 1)[0], attention()),
           [text, (2, 10)])
    yield ("MultiheadAttention_of_others", Function(lambda m, x, y: m[0](x, y, y)[0], attention(kdim=16, vdim=16)),
           [text, (2, 7, 16)])
    yield "Transformer", nn.Transformer(32, 4, 2, 2, 64, batch_first=True, dropout=0), [text, (2, 6, 32)]
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
    yield "TransformerEncoder", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [text]
    yield ("TransformerDecoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), 2),
           [text, (2, 6, 32)])


ACTIVATIONS = """ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid ReLU ReLU6 SELU CELU GELU Sigmoid SiLU Mish Softplus
Softshrink Softsign Tanh Tanhshrink Softmin LogSoftmax Softmax2d GLU RReLU PReLU""".split()


def activations():
    for name in ACTIVATIONS:
        options = {"dim": 1} if name in ("Softmin", "LogSoftmax", "GLU") else {}
        yield name, nn.Sequential(nn.Conv2d(4, 8, 3, padding=1), getattr(nn, name)(**options)), [(2, 4, 9, 9)]
    yield "Threshold", nn.Threshold(0.1, 20), [(2, 4, 9)]
    yield "GELU_tanh", nn.GELU("tanh"), [(2, 4, 9)]


def images():
    for rank, size in ((1, (30,)), (2, (18, 15)), (3, (9, 8, 10))):
        x = (2, 8, *size)

        def of(name, rank=rank):
            return getattr(nn, f"{name}{rank}d")

        layers = {"Conv_same": of("Conv")(8, 12, 3, padding="same", dilation=2),
                  "Conv_grouped": of("Conv")(8, 12, 3, stride=2, groups=4), "Conv_depthwise": of("Conv")(8, 8, 5, padding=2, groups=8),
                  "ConvTranspose": of("ConvTranspose")(8, 6, 3, stride=2, padding=1, output_padding=1),
                  "ConvTranspose_grouped": of("ConvTranspose")(8, 6, 4, stride=2, padding=1, groups=2),
                  "ConvTranspose_dilated": of("ConvTranspose")(8, 6, 3, padding=1, dilation=2),
                  "MaxPool": of("MaxPool")(3, 2, padding=1), "MaxPool_ceil": of("MaxPool")(3, 2, ceil_mode=True),
                  "MaxPool_dilated": of("MaxPool")(2, 1, dilation=2), "AvgPool": of("AvgPool")(3, 2, padding=1),
                  "AvgPool_without_padding": of("AvgPool")(3, 2, padding=1, count_include_pad=False, ceil_mode=True),
                  "AdaptiveMaxPool": of("AdaptiveMaxPool")(1), "AdaptiveAvgPool": of("AdaptiveAvgPool")(1),
                  "BatchNorm": of("BatchNorm")(8), "InstanceNorm": of("InstanceNorm")(8, affine=True),
                  **{f"Conv_{mode}": of("Conv")(8, 12, 3, padding=1, padding_mode=mode) for mode in ("reflect", "replicate", "circular")},
                  **{name: of(name)(2) for name in ("ReflectionPad", "ReplicationPad", "ZeroPad", "CircularPad")},
                  "ConstantPad": of("ConstantPad")(2, 3.5)}
        for name, layer in layers.items():
            yield f"{name}{rank}d", layer, [x]
    yield "AdaptiveAvgPool2d_parts", nn.AdaptiveAvgPool2d((3, 5)), [(2, 8, 9, 15)]
    yield "LPPool2d", Function(lambda m, x: m[0](x.abs()), nn.LPPool2d(2, 3, 2)), [(2, 8, 9, 9)]
    for mode in ("nearest", "bilinear", "bicubic", "nearest-exact", "area"):
        corners = {"align_corners": False} if mode in ("bilinear", "bicubic") else {}
        yield (f"interpolate_{mode}", Function(lambda m, x, mode=mode, c=corners: F.interpolate(x, scale_factor=2, mode=mode, **c)),
               [(2, 4, 9, 7)])
        yield (f"interpolate_size_{mode}", Function(lambda m, x, mode=mode, c=corners: F.interpolate(x, size=(5, 13), mode=mode, **c)),
               [(2, 4, 9, 7)])
    yield "Upsample_corners", nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), [(2, 4, 9, 7)]
    yield "Upsample_line", nn.Upsample(scale_factor=3, mode="linear"), [(2, 4, 9)]
    yield "Upsample_volume", nn.Upsample(scale_factor=2, mode="trilinear"), [(2, 4, 5, 6, 7)]
    yield ("interpolate_antialias", Function(lambda m, x: F.interpolate(x, size=(5, 4), mode="bilinear", antialias=True)),
           [(2, 4, 9, 7)])
    yield "GroupNorm", nn.GroupNorm(4, 8), [(2, 8, 9, 9)]
    yield "LayerNorm", nn.LayerNorm(9), [(2, 8, 9)]
    yield "LayerNorm_axes", nn.LayerNorm([9, 9]), [(2, 8, 9, 9)]
    yield "RMSNorm", nn.RMSNorm(9), [(2, 8, 9)]
    yield "LocalResponseNorm", nn.LocalResponseNorm(5), [(2, 8, 9, 9)]
    yield "PixelShuffle", nn.PixelShuffle(3), [(2, 18, 5, 6)]
    yield "PixelUnshuffle", nn.PixelUnshuffle(3), [(2, 2, 9, 6)]
    yield "ChannelShuffle", nn.ChannelShuffle(4), [(2, 8, 5, 6)]
    yield "Unfold", nn.Unfold(3, padding=1, stride=2), [(2, 4, 9, 9)]
    yield "Fold", nn.Fold((9, 9), 3, padding=1, stride=2), [(2, 36, 25)]
    yield ("grid_sample", Function(lambda m, x, grid: F.grid_sample(x, grid.tanh(), align_corners=False)),
           [(2, 4, 9, 7), (2, 5, 6, 2)])
    yield ("affine_grid", Function(lambda m, x, t: F.grid_sample(x, F.affine_grid(t, x.shape, align_corners=False), align_corners=False)),
           [(2, 4, 9, 7), (2, 2, 3)])


def indexed(x, most):
    return (x.abs() * 2).long().clamp(0, most)


def others():
    yield "Bilinear", nn.Bilinear(5, 6, 7), [(3, 5), (3, 6)]
    yield "CosineSimilarity", nn.CosineSimilarity(), [(3, 8), (3, 8)]
    yield "PairwiseDistance", nn.PairwiseDistance(), [(3, 8), (3, 8)]
    yield "Embedding", Function(lambda m, x: m[0](indexed(x, 9)), nn.Embedding(10, 6)), [(3, 7)]
    yield "EmbeddingBag", Function(lambda m, x: m[0](indexed(x, 9)), nn.EmbeddingBag(10, 6)), [(3, 7)]


# Of x and y, both [3, 5, 8].
FUNCTIONS = {
    "einsum": lambda m, x, y: torch.einsum("bij,bkj->bik", x, y),
    "baddbmm": lambda m, x, y: torch.baddbmm(torch.ones(3, 5, 5), x, y.transpose(1, 2)),
    "cdist": lambda m, x, y: torch.cdist(x, y),
    "logsumexp": lambda m, x, y: torch.logsumexp(x, 1) + (100 * y).logsumexp(1),
    "cumsum": lambda m, x, y: x.cumsum(1) * y,
    "topk": lambda m, x, y: (x + y).topk(3, -1)[0],
    "sort": lambda m, x, y: torch.sort(x + y, dim=1, descending=True)[0],
    "argsort": lambda m, x, y: torch.argsort(x + y, dim=1).float(),
    "var": lambda m, x, y: torch.var(x, 1) + y.std(1, unbiased=False),
    "norm": lambda m, x, y: torch.linalg.norm(x, dim=-1) + y.norm(p=1, dim=-1),
    "roll": lambda m, x, y: torch.roll(x, (1, 2), (1, 2)) + y,
    "flip": lambda m, x, y: x.flip(1) - y,
    "tril": lambda m, x, y: torch.tril(x[:, :, :5]) @ torch.triu(y[:, :5], 1),
    "where": lambda m, x, y: torch.where(x > y, x, y * 2),
    "scatter_add": lambda m, x, y: torch.zeros(3, 5, 8).scatter_add(1, indexed(y, 4), x),
    "index_put": lambda m, x, y: torch.index_put(x, (torch.tensor([0, 2]), torch.tensor([1, 3])), y[:2, 0]),
    "gather": lambda m, x, y: x.gather(1, indexed(y, 4)),
    "index_add": lambda m, x, y: x.index_add(1, torch.tensor([0, 2, 0]), y[:, :3]),
    "masked_fill": lambda m, x, y: x.masked_fill(y > 0, -1.5),
    "kthvalue": lambda m, x, y: x.kthvalue(2, 1)[0],
    "stack": lambda m, x, y: torch.stack([x, y], 2).flatten(1, 2),
    "unfold": lambda m, x, y: x.unfold(2, 3, 2).sum(-1) + y[:, :, :3],
    "kron": lambda m, x, y: torch.kron(x[0], y[0]),
    "tensordot": lambda m, x, y: torch.tensordot(x, y, dims=([0, 1], [0, 1])),
    "repeat_interleave": lambda m, x, y: x.repeat_interleave(2, 1) + y.repeat(1, 2, 1),
    "bucketize": lambda m, x, y: torch.bucketize(x, torch.tensor([-1.0, 0, 1])).float() + y,
    "searchsorted": lambda m, x, y: torch.searchsorted(torch.sort(x, -1)[0], y).float(),
    "fmod": lambda m, x, y: torch.fmod(x, y) + torch.remainder(x, y),
    "atan2": lambda m, x, y: torch.atan2(x, y),
    "erf": lambda m, x, y: torch.erf(x) * torch.erfinv(y.tanh() * 0.9),
    "log1p": lambda m, x, y: torch.log1p(x.abs()) * torch.expm1(y),
    "round": lambda m, x, y: torch.round(x * 3) + torch.floor(y) + torch.trunc(x * 2) + torch.frac(y),
    "clamp": lambda m, x, y: x.clamp(min=y, max=y + 1),
    "prod": lambda m, x, y: x.prod(1) + y.amax(1) - y.amin(1),
    "any": lambda m, x, y: ((x > 1).any(1) & (y < 1).all(1)).float(),
    "diff": lambda m, x, y: torch.diff(x, dim=1) + y[:, 1:],
    "meshgrid": lambda m, x, y: sum(torch.meshgrid(x[0, 0], y[0, 0], indexing="ij")),
    "rot90": lambda m, x, y: torch.rot90(x, 1, (1, 2)).sum(1) + y.sum(2),
    "diagonal": lambda m, x, y: torch.diag_embed(x[:, 0]) * torch.diagonal(y, dim1=1, dim2=2).sum(),
    "attention": lambda m, x, y: torch.softmax(x @ y.transpose(1, 2) / 3, -1) @ y,
    "scaled_dot_product_attention": lambda m, x, y: F.scaled_dot_product_attention(x[:, None], y[:, None], y[:, None], is_causal=True),
    "nan_to_num": lambda m, x, y: torch.nan_to_num(x / (y - y), posinf=1, neginf=-1, nan=0),
    "one_hot": lambda m, x, y: F.one_hot(indexed(x, 4), 5).float().sum(1) + y.sum(),
    "normalize": lambda m, x, y: F.normalize(x, dim=1) * y,
    "addcmul": lambda m, x, y: torch.addcmul(x, y, y, value=0.5) + torch.addcdiv(x, y, y.abs() + 1),
    "hypot": lambda m, x, y: torch.hypot(x, y) + torch.sinc(x) + torch.logit(y.sigmoid()) + torch.xlogy(x.abs(), y.abs()),
    "lerp": lambda m, x, y: torch.lerp(x, y, 0.3) + torch.maximum(x, y) - torch.minimum(x, y),
    "bits": lambda m, x, y: ((x * 9).int() & 3 | (y * 9).int() ^ 5).float(),
    "sign": lambda m, x, y: torch.rad2deg(x) + torch.copysign(x, y) + torch.sign(y),
    "unbind": lambda m, x, y: sum(x.unbind(1)) + sum(y.chunk(3, 1)).sum(1),
    "split": lambda m, x, y: torch.cat(x.split([1, 4], 1)[::-1], 1) + y,
    "rfft": lambda m, x, y: torch.fft.rfft(x).abs() + y[:, :, :5],
    "stft": lambda m, x, y: torch.stft(x.flatten(1), 8, 4, window=torch.hann_window(8), return_complex=True).abs(),
    "cross": lambda m, x, y: torch.linalg.cross(x[:, :, :3], y[:, :, :3]),
    "det": lambda m, x, y: torch.linalg.det(x[:, :3, :3]) + y[:, 0, 0],
    "softplus": lambda m, x, y: F.hardtanh(x, -0.3, 0.4) + F.softplus(y, 2, 3) + F.celu(x, 0.7) + F.elu(y, 0.3),
}


def functions():
    for name, function in FUNCTIONS.items():
        yield name, Function(function), [(3, 5, 8), (3, 5, 8)]


def networks():
    """Yields (name, module, inputs); the same numbers in every process."""
    for made in (recurrent, transformers, activations, images, others, functions):
        torch.manual_seed(7)
        for name, module, shapes in made():
            yield name, module.eval(), tuple(torch.randn(shape) for shape in shapes)
