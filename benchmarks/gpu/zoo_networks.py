"""The networks of zoo.py: seeded random weights, exported to ONNX as their users export them.

A network is a module and the inputs of one batch size. Weights are random, but activations stay near one: batch
normalisations take the statistics of a random batch, so that what FP16 loses is told apart from what explodes.
Networks that need a package which is not there (timm, transformers, diffusers) are left out with that reason.
"""

import copy
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

SEED = 11


@dataclass
class Entry:
    """make: the module; inputs: (batch) -> tensors; batches: those that are timed; names: of the inputs in the graph."""

    make: Callable[[], nn.Module]
    inputs: Callable[[int], list[torch.Tensor]]
    batches: tuple[int, ...] = (1, 32)
    names: tuple[str, ...] = ("input",)
    axes: dict[str, dict[int, str]] | None = None  # default: axis 0 of every input and output is "batch"
    image: bool = True  # channels-last pays in PyTorch
    int8: bool = False  # also quantised, as explicit Q/DQ
    half_io: bool = False  # inputs and outputs in FP16, as PyTorch's are: a decoder's states
    family: str = "torchvision"


def pictures(size=224, channels=3):
    def make(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randn(batch, channels, size, size, generator=generator)]

    return make


def tokens(length, words):
    def make(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randint(5, words, (batch, length), generator=generator), torch.ones(batch, length, dtype=torch.int64)]

    return make


def settled(module, example):
    """Gives batch normalisations the mean and variance of a random batch."""
    norms = [m for m in module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if norms:
        momenta = [m.momentum for m in norms]
        for m in norms:
            m.momentum = None
            m.reset_running_stats()
        module.eval()
        for m in norms:
            m.train()
        with torch.no_grad():
            module(*example)
        for m, momentum in zip(norms, momenta):
            m.momentum = momentum
    return module.eval()


class First(nn.Module):
    """Of a module that gives a dictionary or an object, its tensors in order."""

    def __init__(self, module, pick):
        super().__init__()
        self.module, self.pick = module, pick

    def forward(self, *inputs):
        return self.pick(self.module(*inputs))


def torchvision_entry(name, size=224, batches=(1, 32), int8=False, **options):
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options)

    return Entry(make, pictures(size), batches, int8=int8)


def segmenter(name, size=512, batches=(1, 8)):
    def make():
        import torchvision

        module = torchvision.models.get_model(name, weights=None, weights_backbone=None, aux_loss=False, num_classes=21)
        return First(module, lambda result: result["out"])

    return Entry(make, pictures(size), batches)


class Heads(nn.Module):
    """A torchvision detector's backbone and heads, as exports for engines cut it: what follows is boxes, not products."""

    def __init__(self, detector):
        super().__init__()
        self.backbone, self.head = detector.backbone, detector.head

    def forward(self, x):
        features = list(self.backbone(x).values())
        return tuple(self.head(features).values())


def detector(name, size, batches=(1, 8), **options):
    def make():
        import torchvision

        return Heads(torchvision.models.get_model(name, weights=None, weights_backbone=None, **options))

    return Entry(make, pictures(size), batches)


def timm_entry(name, size=224, batches=(1, 32), int8=False):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, exportable=True)

    return Entry(make, pictures(size), batches, int8=int8, family="timm")


def encoder(kind, length, batches=(1, 32), **options):
    """A transformers encoder, exported plainly."""

    def make():
        import transformers

        config = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")(**options)
        model = getattr(transformers, f"{kind}Model")
        config._attn_implementation = "sdpa" if model._supports_sdpa else "eager"
        module = model(config)
        return First(Named(module), lambda result: result.last_hidden_state)

    axes = {"input_ids": {0: "batch"}, "attention_mask": {0: "batch"}}
    return Entry(make, tokens(length, 30000), batches, ("input_ids", "attention_mask"), axes, image=False, family="transformers")


class Named(nn.Module):
    """Passes the inputs by name."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids=input_ids, attention_mask=attention_mask, return_dict=True)


def clip_text(batches=(1, 32)):
    def make():
        import transformers

        return First(Named(transformers.CLIPTextModel(transformers.CLIPTextConfig())), lambda result: result.last_hidden_state)

    return Entry(make, tokens(77, 40000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


class Prefill(nn.Module):
    """A causal language model on a whole prompt: the last position's logits."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, attention_mask):
        return self.module(input_ids=input_ids, attention_mask=attention_mask, use_cache=False, logits_to_keep=1, return_dict=True).logits[:, 0]


class Decode(nn.Module):
    """One token behind a past of keys and values, which go in and out in the past's type, whatever the weights'."""

    def __init__(self, module, layers):
        super().__init__()
        self.module, self.layers = module, layers

    def forward(self, input_ids, *past):
        import transformers

        cache = transformers.DynamicCache()
        own, given = self.module.dtype, past[0].dtype
        for layer in range(self.layers):
            cache.update(past[2 * layer].to(own), past[2 * layer + 1].to(own), layer)
        result = self.module(input_ids=input_ids, past_key_values=cache, use_cache=True, return_dict=True)
        present = result.past_key_values
        out = [result.logits[:, -1]]
        for layer in range(self.layers):
            pair = present.layers[layer]
            out += [pair.keys.to(given), pair.values.to(given)]
        return tuple(out)


def gpt2_module(layers=12):
    import transformers

    config = transformers.GPT2Config(n_layer=layers)
    config._attn_implementation = "sdpa"
    return transformers.GPT2LMHeadModel(config)


def gpt2_prefill(length, batches=(1, 8)):
    return Entry(lambda: Prefill(gpt2_module()), tokens(length, 50000), batches, ("input_ids", "attention_mask"), None, image=False,
                 family="transformers")


def gpt2_decode(past, batches=(1, 8), layers=12):
    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        ids = torch.randint(5, 50000, (batch, 1), generator=generator)
        return [ids] + [torch.randn(batch, 12, past, 64, generator=generator) for _ in range(2 * layers)]

    names = ("input_ids", *(f"past.{i}.{part}" for i in range(layers) for part in ("key", "value")))
    return Entry(lambda: Decode(gpt2_module(layers), layers), inputs, batches, names, None, image=False, half_io=True,
                 family="transformers")


def llama_prefill(length, batches=(1, 4)):
    def make():
        import transformers

        config = transformers.LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22,
                                          num_attention_heads=32, num_key_value_heads=4)
        config._attn_implementation = "sdpa"
        return Prefill(transformers.LlamaForCausalLM(config))

    return Entry(make, tokens(length, 31000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


def unet(batches=(2,)):
    """Stable Diffusion 1.5's."""

    def make():
        import diffusers

        module = diffusers.UNet2DConditionModel(sample_size=64, cross_attention_dim=768, attention_head_dim=8)
        return First(module, lambda result: result.sample)

    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randn(batch, 4, 64, 64, generator=generator), torch.full((batch,), 500.0),
                torch.randn(batch, 77, 768, generator=generator)]

    return Entry(make, inputs, batches, ("sample", "timestep", "encoder_hidden_states"), None, family="diffusers")


def vae_decoder(batches=(1,)):
    def make():
        import diffusers

        blocks = 4
        module = diffusers.AutoencoderKL(down_block_types=("DownEncoderBlock2D",) * blocks, up_block_types=("UpDecoderBlock2D",) * blocks,
                                         block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=4)
        return nn.Sequential(module.post_quant_conv, module.decoder)

    return Entry(make, lambda batch: [torch.randn(batch, 4, 64, 64, generator=torch.Generator().manual_seed(SEED))], batches,
                 family="diffusers")


def transformers_model(kind, inputs, pick, batches, names=("input",), image=False, **options):
    """A model of transformers that takes its inputs in order."""

    def make():
        import transformers

        config = getattr(transformers, kind.removesuffix("Model").split("For")[0].removesuffix("Encoder") + "Config")(**options)
        model = getattr(transformers, kind)
        if model._supports_sdpa:
            config._attn_implementation = "sdpa"
        return First(model(config), pick)

    return Entry(make, inputs, batches, names, image=image, family="transformers")


def waves(length):
    def make(batch):
        return [torch.randn(batch, length, generator=torch.Generator().manual_seed(SEED + batch))]

    return make


def rt_detr(batches=(1, 8)):
    """Detector with deformable attention (GridSample) and the best 300 of its queries (TopK)."""

    def make():
        import transformers

        backbone = transformers.RTDetrResNetConfig(embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2],
                                                   layer_type="basic", out_features=["stage2", "stage3", "stage4"])
        config = transformers.RTDetrConfig(backbone_config=backbone, encoder_in_channels=[128, 256, 512], decoder_layers=3,
                                           hidden_expansion=0.5)
        return First(transformers.RTDetrForObjectDetection(config), lambda result: (result.logits, result.pred_boxes))

    return Entry(make, pictures(640), batches, family="transformers")


class TextReader(nn.Module):
    """Convolutions, two bidirectional LSTMs and a classifier of each column (Shi et al., CRNN, 2015)."""

    def __init__(self, classes=97):
        super().__init__()
        layers, channels = [], 1
        for width, pool in ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1)), (512, (2, 1))):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            if pool:
                layers.append(nn.MaxPool2d(pool, pool))
            channels = width
        self.features = nn.Sequential(*layers)
        self.reader = nn.LSTM(512, 256, num_layers=2, bidirectional=True)
        self.classes = nn.Linear(512, classes)

    def forward(self, x):
        columns = self.features(x).squeeze(2).permute(2, 0, 1)
        return self.classes(self.reader(columns)[0]).permute(1, 0, 2)


class Stylist(nn.Module):
    """A picture in another style (Johnson et al., 2016): reflected borders, instance normalisation, upsampling."""

    def __init__(self):
        super().__init__()

        def conv(a, b, size, stride=1):
            return [nn.ReflectionPad2d(size // 2), nn.Conv2d(a, b, size, stride), nn.InstanceNorm2d(b, affine=True)]

        class Residual(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = nn.Sequential(*conv(128, 128, 3), nn.ReLU(), *conv(128, 128, 3))

            def forward(self, x):
                return x + self.body(x)

        self.body = nn.Sequential(
            *conv(3, 32, 9), nn.ReLU(), *conv(32, 64, 3, 2), nn.ReLU(), *conv(64, 128, 3, 2), nn.ReLU(),
            *[Residual() for _ in range(5)], nn.Upsample(scale_factor=2), *conv(128, 64, 3), nn.ReLU(),
            nn.Upsample(scale_factor=2), *conv(64, 32, 3), nn.ReLU(), nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9))

    def forward(self, x):
        return self.body(x)


def conv_silu(a, b, size=1, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, size, stride, size // 2, bias=False), nn.BatchNorm2d(b, eps=1e-3), nn.SiLU())


class Pooled(nn.Module):
    """Spatial pyramid of max pools of growing windows, as three of 5x5 one behind the other."""

    def __init__(self, a, b):
        super().__init__()
        self.enter, self.leave = conv_silu(a, a // 2), conv_silu(2 * a, b)

    def forward(self, x):
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class SplitBlock(nn.Module):
    """A convolution's channels in two halves, of which one goes through residual pairs; all are joined (YOLOv8's C2f)."""

    def __init__(self, a, b, count, shortcut):
        super().__init__()
        self.enter, self.leave, self.shortcut = conv_silu(a, b), conv_silu((2 + count) * b // 2, b), shortcut
        self.pairs = nn.ModuleList(nn.Sequential(conv_silu(b // 2, b // 2, 3), conv_silu(b // 2, b // 2, 3)) for _ in range(count))

    def forward(self, x):
        parts = list(self.enter(x).chunk(2, 1))
        for pair in self.pairs:
            parts.append(parts[-1] + pair(parts[-1]) if self.shortcut else pair(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class AnchorFree(nn.Module):
    """A detector of YOLOv8's form and size (n), decoded as its export is: boxes from 16 bins a side, sigmoid scores."""

    def __init__(self, classes=80, widths=(16, 32, 64, 128, 256), bins=16):
        super().__init__()
        a, b, c, d, e = widths
        self.stem = nn.Sequential(conv_silu(3, a, 3, 2), conv_silu(a, b, 3, 2), SplitBlock(b, b, 1, True))
        self.p3 = nn.Sequential(conv_silu(b, c, 3, 2), SplitBlock(c, c, 2, True))
        self.p4 = nn.Sequential(conv_silu(c, d, 3, 2), SplitBlock(d, d, 2, True))
        self.p5 = nn.Sequential(conv_silu(d, e, 3, 2), SplitBlock(e, e, 1, True), Pooled(e, e))
        self.up4, self.up3 = SplitBlock(d + e, d, 1, False), SplitBlock(c + d, c, 1, False)
        self.down4, self.down5 = conv_silu(c, c, 3, 2), conv_silu(d, d, 3, 2)
        self.out4, self.out5 = SplitBlock(c + d, d, 1, False), SplitBlock(d + e, e, 1, False)
        inner = max(c, min(classes, 100))
        self.boxes = nn.ModuleList(
            nn.Sequential(conv_silu(w, 64, 3), conv_silu(64, 64, 3), nn.Conv2d(64, 4 * bins, 1)) for w in (c, d, e))
        self.scores = nn.ModuleList(
            nn.Sequential(conv_silu(w, inner, 3), conv_silu(inner, inner, 3), nn.Conv2d(inner, classes, 1)) for w in (c, d, e))
        self.bins = bins
        self.register_buffer("steps", torch.arange(bins, dtype=torch.float32))

    def forward(self, x):
        p3 = self.p3(self.stem(x))
        p4 = self.p4(p3)
        p5 = self.p5(p4)
        up4 = self.up4(torch.cat([nn.functional.interpolate(p5, scale_factor=2), p4], 1))
        out3 = self.up3(torch.cat([nn.functional.interpolate(up4, scale_factor=2), p3], 1))
        out4 = self.out4(torch.cat([self.down4(out3), up4], 1))
        out5 = self.out5(torch.cat([self.down5(out4), p5], 1))
        maps = [torch.cat([box(f), score(f)], 1) for box, score, f in zip(self.boxes, self.scores, (out3, out4, out5))]
        centres, strides = [], []
        for stride, m in zip((8, 16, 32), maps):
            h, w = m.shape[2:]
            y, x_at = torch.meshgrid(torch.arange(h, device=x.device) + 0.5, torch.arange(w, device=x.device) + 0.5, indexing="ij")
            centres.append(torch.stack([x_at, y]).reshape(2, -1))
            strides.append(torch.full((1, h * w), float(stride), device=x.device))
        at, scale = torch.cat(centres, 1).to(x.dtype), torch.cat(strides, 1).to(x.dtype)
        flat = torch.cat([m.flatten(2) for m in maps], 2)
        box, score = flat.split([4 * self.bins, flat.shape[1] - 4 * self.bins], 1)
        sides = box.view(x.shape[0], 4, self.bins, -1).transpose(1, 2).softmax(1)
        sides = (sides * self.steps.view(1, -1, 1, 1)).sum(1)
        low, high = at - sides[:, :2], at + sides[:, 2:]
        return torch.cat([torch.cat([(low + high) / 2, high - low], 1) * scale, score.sigmoid()], 1)


class CrossStage(nn.Module):
    """Two branches of half the width, one through residual pairs (YOLOX's CSP layer)."""

    def __init__(self, a, b, count, shortcut=True):
        super().__init__()
        half = b // 2
        self.main, self.side, self.leave, self.shortcut = conv_silu(a, half), conv_silu(a, half), conv_silu(b, b), shortcut
        self.pairs = nn.ModuleList(nn.Sequential(conv_silu(half, half), conv_silu(half, half, 3)) for _ in range(count))

    def forward(self, x):
        main = self.main(x)
        for pair in self.pairs:
            main = main + pair(main) if self.shortcut else pair(main)
        return self.leave(torch.cat([main, self.side(x)], 1))


class FocusDetector(nn.Module):
    """A detector of YOLOX's form and size (s), undecoded: pixels dealt to channels first, a head in two branches."""

    def __init__(self, classes=80, w=32):
        super().__init__()
        self.stem = conv_silu(12, w, 3)
        stages, a = [], w
        for b, count in ((2 * w, 1), (4 * w, 3), (8 * w, 3)):
            stages.append(nn.Sequential(conv_silu(a, b, 3, 2), CrossStage(b, b, count)))
            a = b
        stages.append(nn.Sequential(conv_silu(a, 16 * w, 3, 2), self.pyramid(16 * w), CrossStage(16 * w, 16 * w, 1, False)))
        self.stages = nn.ModuleList(stages)
        c, d, e = 4 * w, 8 * w, 16 * w
        self.lateral5, self.up4 = conv_silu(e, d), CrossStage(2 * d, d, 1, False)
        self.lateral4, self.up3 = conv_silu(d, c), CrossStage(2 * c, c, 1, False)
        self.down4, self.out4 = conv_silu(c, c, 3, 2), CrossStage(2 * c, d, 1, False)
        self.down5, self.out5 = conv_silu(d, d, 3, 2), CrossStage(2 * d, e, 1, False)
        self.heads = nn.ModuleList()
        for width in (c, d, e):
            def branch():
                return nn.Sequential(conv_silu(c, c, 3), conv_silu(c, c, 3))
            self.heads.append(nn.ModuleList([conv_silu(width, c), branch(), branch(), nn.Conv2d(c, classes, 1), nn.Conv2d(c, 4, 1), nn.Conv2d(c, 1, 1)]))

    @staticmethod
    def pyramid(a):
        class Pyramid(nn.Module):
            def __init__(self):
                super().__init__()
                self.enter, self.leave = conv_silu(a, a // 2), conv_silu(2 * a, a)

            def forward(self, x):
                x = self.enter(x)
                return self.leave(torch.cat([x] + [nn.functional.max_pool2d(x, k, 1, k // 2) for k in (5, 9, 13)], 1))

        return Pyramid()

    def forward(self, x):
        x = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
        x, features = self.stem(x), []
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        p3, p4, p5 = features[1:]
        top = self.lateral5(p5)
        middle = self.lateral4(self.up4(torch.cat([nn.functional.interpolate(top, scale_factor=2), p4], 1)))
        out3 = self.up3(torch.cat([nn.functional.interpolate(middle, scale_factor=2), p3], 1))
        out4 = self.out4(torch.cat([self.down4(out3), middle], 1))
        out5 = self.out5(torch.cat([self.down5(out4), top], 1))
        outputs = []
        for f, (enter, scores, boxes, classes, box, objectness) in zip((out3, out4, out5), self.heads):
            f = enter(f)
            s, b = scores(f), boxes(f)
            outputs.append(torch.cat([box(b), objectness(b).sigmoid(), classes(s).sigmoid()], 1).flatten(2))
        return torch.cat(outputs, 2).permute(0, 2, 1)


class Segmenter(nn.Module):
    """U-Net (Ronneberger et al., 2015) with batch normalisation and transposed convolutions."""

    def __init__(self, widths=(32, 64, 128, 256)):
        super().__init__()

        def block(a, b):
            return nn.Sequential(*[layer for c in (a, b) for layer in (nn.Conv2d(c, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())])

        self.down = nn.ModuleList(block(a, b) for a, b in zip((3, *widths), widths))
        self.middle = block(widths[-1], 2 * widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.join = nn.ModuleList(block(2 * w, w) for w in reversed(widths))
        self.classes = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for up, join, skip in zip(self.up, self.join, reversed(kept)):
            x = join(torch.cat([skip, up(x)], 1))
        return self.classes(x)


class Enlarger(nn.Module):
    """Twice the size by residual-in-residual dense blocks (Wang et al., ESRGAN, 2018)."""

    def __init__(self, blocks=4, width=64, growth=32):
        super().__init__()
        self.first, self.trunk, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.grow = nn.Conv2d(width, 4 * width, 3, padding=1)
        self.dense = nn.ModuleList(
            nn.ModuleList(nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1) for i in range(5)) for _ in range(3 * blocks))

    def forward(self, x):
        first = y = self.first(x)
        for at, block in enumerate(self.dense):
            if at % 3 == 0:
                outer = y
            parts = [y]
            for conv in block[:4]:
                parts.append(nn.functional.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
            y = y + 0.2 * block[4](torch.cat(parts, 1))
            if at % 3 == 2:
                y = outer + 0.2 * y
        y = nn.functional.pixel_shuffle(self.grow(first + self.trunk(y)), 2)
        return self.last(nn.functional.leaky_relu(y, 0.2))


def causal(kind, length, batches=(1, 4), **options):
    """A causal language model of transformers on a whole prompt."""

    def make():
        import transformers

        config = getattr(transformers, f"{kind}Config" if kind != "Gemma3" else "Gemma3TextConfig")(**options)
        model = getattr(transformers, f"{kind}ForCausalLM")
        config._attn_implementation = "sdpa" if model._supports_sdpa else "eager"
        return Prefill(model(config))

    return Entry(make, tokens(length, 30000), batches, ("input_ids", "attention_mask"), None, image=False, family="transformers")


class Translate(nn.Module):
    """Encoder and decoder at once: the logits of a target that is given."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, input_ids, decoder_input_ids):
        return self.module(input_ids=input_ids, decoder_input_ids=decoder_input_ids, use_cache=False, return_dict=True).logits


def translator(kind, source, target, batches=(1, 8), **options):
    def make():
        import transformers

        config = getattr(transformers, f"{kind}Config")(**options)
        config._attn_implementation = "sdpa"
        return Translate(getattr(transformers, f"{kind}ForConditionalGeneration" if kind != "Marian" else "MarianMTModel")(config))

    def inputs(batch):
        generator = torch.Generator().manual_seed(SEED + batch)
        return [torch.randint(5, 30000, (batch, length), generator=generator) for length in (source, target)]

    return Entry(make, inputs, batches, ("input_ids", "decoder_input_ids"), None, image=False, family="transformers")


def video(name, size=112, batches=(1, 8)):
    def make():
        import torchvision

        return getattr(torchvision.models.video, name)(weights=None)

    def inputs(batch):
        return [torch.randn(batch, 3, 16, size, size, generator=torch.Generator().manual_seed(SEED + batch))]

    return Entry(make, inputs, batches, image=False)


ZOO = {
    "resnet18": torchvision_entry("resnet18", int8=True),
    "resnet50": torchvision_entry("resnet50", int8=True),
    "mobilenet_v2": torchvision_entry("mobilenet_v2", int8=True),
    "mobilenet_v3_large": torchvision_entry("mobilenet_v3_large", int8=True),
    "efficientnet_b0": torchvision_entry("efficientnet_b0", int8=True),
    "efficientnet_v2_s": torchvision_entry("efficientnet_v2_s", int8=True),
    "regnet_y_1_6gf": torchvision_entry("regnet_y_1_6gf", int8=True),
    "resnext50_32x4d": torchvision_entry("resnext50_32x4d", int8=True),
    "googlenet": torchvision_entry("googlenet", int8=True, aux_logits=False, init_weights=False),
    "inception_v3": torchvision_entry("inception_v3", 299, int8=True, aux_logits=False, init_weights=False),
    "shufflenet_v2_x1_0": torchvision_entry("shufflenet_v2_x1_0", int8=True),
    "squeezenet1_1": torchvision_entry("squeezenet1_1", int8=True),
    "mnasnet1_0": torchvision_entry("mnasnet1_0", int8=True),
    "densenet121": torchvision_entry("densenet121", int8=True),
    "vgg16": torchvision_entry("vgg16", int8=True),
    "alexnet": torchvision_entry("alexnet", int8=True),
    "convnext_tiny": torchvision_entry("convnext_tiny", int8=True),
    "vit_b_16": torchvision_entry("vit_b_16"),
    "vit_b_32": torchvision_entry("vit_b_32"),
    "swin_t": torchvision_entry("swin_t"),
    "maxvit_t": torchvision_entry("maxvit_t", batches=(1, 16)),
    "deeplabv3_resnet50": segmenter("deeplabv3_resnet50"),
    "fcn_resnet50": segmenter("fcn_resnet50"),
    "lraspp_mobilenet_v3_large": Entry(
        lambda: First(__import__("torchvision").models.get_model("lraspp_mobilenet_v3_large", weights=None, weights_backbone=None),
                      lambda result: result["out"]), pictures(512), (1, 8)),
    "ssdlite320": detector("ssdlite320_mobilenet_v3_large", 320, (1, 32)),
    "retinanet_resnet50_fpn": detector("retinanet_resnet50_fpn", 512, (1, 8)),
    "deit_small": timm_entry("deit_small_patch16_224"),
    "mixer_b16": timm_entry("mixer_b16_224"),
    "efficientnet_lite0": timm_entry("efficientnet_lite0", int8=True),
    "mobilevit_s": timm_entry("mobilevit_s", 256),
    "repvgg_b0": timm_entry("repvgg_b0", int8=True),
    "ghostnet_100": timm_entry("ghostnet_100", int8=True),
    "res2net50": timm_entry("res2net50_26w_4s", int8=True),
    "resnest50d": timm_entry("resnest50d", int8=True),
    "poolformer_s12": timm_entry("poolformer_s12"),
    "edgenext_small": timm_entry("edgenext_small", 256),
    "eva02_tiny": timm_entry("eva02_tiny_patch14_224"),
    "levit_128s": timm_entry("levit_128s"),
    "efficientvit_m1": timm_entry("efficientvit_m1"),
    "efficientvit_b0": timm_entry("efficientvit_b0"),
    "efficientformerv2_s0": timm_entry("efficientformerv2_s0"),
    "convnextv2_atto": timm_entry("convnextv2_atto"),
    "inception_next_tiny": timm_entry("inception_next_tiny"),
    "mobilevitv2_050": timm_entry("mobilevitv2_050", 256),
    "mobileone_s0": timm_entry("mobileone_s0", int8=True),
    "pvt_v2_b0": timm_entry("pvt_v2_b0"),
    "davit_tiny": timm_entry("davit_tiny"),
    "coat_lite_tiny": timm_entry("coat_lite_tiny"),
    "focalnet_tiny": timm_entry("focalnet_tiny_srf"),
    "rexnet_100": timm_entry("rexnet_100"),
    "swinv2_tiny": timm_entry("swinv2_tiny_window8_256", 256),
    "cait_xxs24": timm_entry("cait_xxs24_224"),
    "mambaout_femto": timm_entry("mambaout_femto"),
    "nfnet_l0": timm_entry("nfnet_l0"),
    "samvit_base": timm_entry("samvit_base_patch16", 1024, (1, 2)),
    "dla34": timm_entry("dla34", int8=True),
    "mobilenetv4_small": timm_entry("mobilenetv4_conv_small", int8=True),
    "fastvit_t8": timm_entry("fastvit_t8", 256),
    "tiny_vit_5m": timm_entry("tiny_vit_5m_224"),
    "twins_svt_small": timm_entry("twins_svt_small"),
    "xcit_nano": timm_entry("xcit_nano_12_p16_224"),
    "hiera_tiny": timm_entry("hiera_tiny_224"),
    "yolov8n_like": Entry(AnchorFree, pictures(640), (1, 8), int8=True, family="own"),
    "yolox_s_like": Entry(FocusDetector, pictures(640), (1, 8), int8=True, family="own"),
    "unet": Entry(Segmenter, pictures(256), (1, 16), int8=True, family="own"),
    "esrgan": Entry(Enlarger, pictures(128), (1, 4), family="own"),
    "r3d_18": video("r3d_18"),
    "mvit_v2_s": video("mvit_v2_s", 224, (1, 4)),
    "resnetv2_50": timm_entry("resnetv2_50"),
    "hrnet_w18_small": timm_entry("hrnet_w18_small", int8=True),
    "distilbert": encoder("DistilBert", 128),
    "bert_base": encoder("Bert", 128),
    "bert_large": encoder("Bert", 384, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "roberta_base": encoder("Roberta", 128, vocab_size=50265, max_position_embeddings=514),
    "clip_text": clip_text(),
    "gpt2_prefill_512": gpt2_prefill(512),
    "gpt2_decode_512": gpt2_decode(512),
    "llama_1b_prefill_256": llama_prefill(256),
    "rt_detr_r18": rt_detr(),
    "crnn_bilstm": Entry(TextReader, lambda batch: [torch.randn(batch, 1, 32, 320, generator=torch.Generator().manual_seed(SEED))],
                         family="own"),
    "style_transfer": Entry(Stylist, pictures(256), (1, 8), family="own"),
    "segformer_b0": transformers_model("SegformerForSemanticSegmentation", pictures(512), lambda result: result.logits, (1, 8),
                                       image=True),
    "wav2vec2_base": transformers_model("Wav2Vec2Model", waves(32000), lambda result: result.last_hidden_state, (1, 8)),
    "whisper_tiny_encoder": Entry(
        lambda: First(__import__("transformers").WhisperModel(__import__("transformers").WhisperConfig()).encoder,
                      lambda result: result.last_hidden_state),
        lambda batch: [torch.randn(batch, 80, 3000, generator=torch.Generator().manual_seed(SEED))], (1, 8), image=False,
        family="transformers"),
    "t5_small_encoder": encoder("T5Encoder", 128),
    "dinov2_small": transformers_model("Dinov2Model", pictures(224), lambda result: result.last_hidden_state, (1, 32), image=True,
                                       hidden_size=384, num_attention_heads=6, image_size=224),
    "siglip_base": transformers_model("SiglipVisionModel", pictures(224), lambda result: result.pooler_output, (1, 32), image=True),
    "depth_anything_small": transformers_model("DepthAnythingForDepthEstimation", pictures(518), lambda result: result.predicted_depth,
                                               (1, 4), image=True),
    "modernbert_base": encoder("ModernBert", 128),
    "mobilebert": encoder("MobileBert", 128),
    "pythia_160m_256": causal("GPTNeoX", 256, hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12),
    "qwen3_0_6b_256": causal("Qwen3", 256, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16,
                             num_key_value_heads=8, head_dim=128, vocab_size=32000),
    "gemma3_270m_256": causal("Gemma3", 256, hidden_size=640, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=4,
                              num_key_value_heads=1, head_dim=256, vocab_size=32000),
    "bart_base": translator("Bart", 128, 32, vocab_size=50265, encoder_layers=6, decoder_layers=6, d_model=768, encoder_ffn_dim=3072,
                            decoder_ffn_dim=3072, encoder_attention_heads=12, decoder_attention_heads=12),
    "sd15_unet": unet(),
    "sd15_vae_decoder": vae_decoder(),
}


# Families of timm that no entry above has, by the package's own name, at 224 pixels unless said.
FAMILIES = {
    "beit_base_patch16_224": 224,
    "botnet26t_256": 256,
    "caformer_s18": 224,
    "coatnet_0_rw_224": 224,
    "convit_tiny": 224,
    "convmixer_768_32": 224,
    "crossvit_tiny_240": 240,
    "cspdarknet53": 256,
    "cspresnext50": 256,
    "dpn68": 224,
    "ecaresnet50t": 224,
    "efficientformer_l1": 224,
    "efficientvim_m1": 224,
    "ese_vovnet19b_dw": 224,
    "fasternet_t0": 224,
    "gcvit_xxtiny": 224,
    "gernet_s": 224,
    "ghostnetv2_100": 224,
    "gmlp_s16_224": 224,
    "halonet26t": 256,
    "hgnetv2_b0": 224,
    "lambda_resnet26t": 256,
    "legacy_seresnet18": 224,
    "mixnet_s": 224,
    "mvitv2_tiny": 224,
    "nest_tiny": 224,
    "nextvit_small": 224,
    "pit_s_224": 224,
    "rdnet_tiny": 224,
    "regnetz_b16": 224,
    "repvit_m1": 224,
    "resmlp_12_224": 224,
    "resnetblur50": 224,
    "selecsls42b": 224,
    "sequencer2d_s": 224,
    "seresnet50": 224,
    "shvit_s1": 224,
    "skresnet18": 224,
    "starnet_s1": 224,
    "swiftformer_xs": 224,
    "tf_efficientnet_b0": 224,
    "tinynet_a": 192,
    "tnt_s_patch16_224": 224,
    "tresnet_m": 224,
    "visformer_small": 224,
    "vit_small_patch16_dinov3": 256,
    "vitamin_small_224": 224,
    "volo_d1_224": 224,
    "xception41": 299,
}
ZOO |= {name: timm_entry(name, size) for name, size in FAMILIES.items()}


def module_of(name: str) -> nn.Module:
    """The network with its seeded weights, in evaluation mode and FP32, on the CPU."""
    entry = ZOO[name]
    torch.manual_seed(SEED)
    module = entry.make().eval()
    for linear in (m for m in module.modules() if isinstance(m, nn.Linear) and not m.weight.any()):
        nn.init.normal_(linear.weight, std=0.02)  # a head that begins at zero would hide every error before it
    return settled(module, entry.inputs(2))


def typed(module: nn.Module, dtype: Any, device: str, image: bool) -> nn.Module:
    module = copy.deepcopy(module).to(device, dtype)
    return module.to(memory_format=torch.channels_last) if image and dtype == torch.float16 else module


def export(name: str, module: nn.Module, path: str, batch: int) -> None:
    """As a user does: torch.onnx.export by TorchScript, else the newer exporter; the batch axis is free."""
    entry = ZOO[name]
    inputs = [t.half() if entry.half_io and t.is_floating_point() else t for t in entry.inputs(batch)]
    axes = {key: {0: "batch"} for key in entry.names}
    with torch.no_grad():
        results = module(*inputs)
    outputs = [f"output{i}" for i in range(len(results))] if isinstance(results, (tuple, list)) else ["output0"]
    axes |= {key: {0: "batch"} for key in outputs}
    options = {"input_names": list(entry.names), "output_names": outputs, "opset_version": 17}
    try:
        torch.onnx.export(module, tuple(inputs), path, dynamic_axes=axes, dynamo=False, **options)
    except Exception as error:
        print("the TorchScript exporter failed, the newer one instead:", str(error).splitlines()[-1][:200], flush=True)
        free = [{0: torch.export.Dim.DYNAMIC} for _ in inputs]
        # A *past of the module takes its shapes as one tuple.
        shapes = (free[0], tuple(free[1:])) if isinstance(module, Decode) else tuple(free)
        torch.onnx.export(module, tuple(inputs), path, dynamo=True, dynamic_shapes=shapes, **options | {"opset_version": 18})
