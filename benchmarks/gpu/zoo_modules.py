"""Networks of the zoo that no package has: readers of text, detectors, segmenters and enlargers of a usual form."""

import torch
from torch import nn


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
