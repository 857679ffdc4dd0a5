"""ONNX files as people have them go through `lathe optimize MODEL --calibrate DATA --quick` without another option: networks of
torchvision, timm and Hugging Face, and shapes of others (detectors, OCR, voice activity, NHWC), with seeded weights, exported
plainly by torch.onnx in opsets 9 to 24, of fixed and free sizes.

    test_strangers.py LATHE [NAME...]

Exit 77 where a package is missing.
"""

import io
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

try:
    import numpy as np
    import onnx
    import onnxscript  # noqa: F401, the exporter needs it
    import timm
    import torch
    import torchvision
    import transformers
    from torch import nn
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has requirements/python.txt and text.txt")
    sys.exit(77)

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
PICTURES = Path(__file__).resolve().parents[2] / "src" / "demo" / "data" / "calibrate"


@dataclass
class Stranger:
    name: str
    make: Callable[[], nn.Module]
    inputs: dict[str, Any]
    opset: int
    free: tuple[str, ...] = ("batch",)  # which axes the exporter leaves open
    pictures: bool = True  # calibrated on pictures; else on arrays of the inputs
    told: tuple[str, ...] = ()  # of what is said
    seconds: float = 0  # that --quick may take, where the network is large; with room for a busy machine


def image(size=64, batch=1):
    return {"input": torch.randn(batch, 3, size, size)}


def tokens(*names, length=16):
    made = {"input_ids": torch.randint(1, 90, (2, length)), "attention_mask": torch.ones(2, length, dtype=torch.int64),
            "token_type_ids": torch.zeros(2, length, dtype=torch.int64)}
    return {name: made[name] for name in names}


class Picked(nn.Module):
    """The one tensor of a network's answer that an exported file would have."""

    def __init__(self, network, pick, names=()):
        super().__init__()
        self.network, self.pick, self.names = network, pick, names

    def forward(self, *inputs):
        return self.pick(self.network(**dict(zip(self.names, inputs))) if self.names else self.network(*inputs))


def convolutions(*widths, stride=2):
    layers = []
    for above, below in zip(widths, widths[1:]):
        layers += [nn.Conv2d(above, below, 3, stride, 1), nn.BatchNorm2d(below), nn.SiLU()]
    return nn.Sequential(*layers)


class YoloShaped(nn.Module):
    """Boxes and classes as Ultralytics' networks give them: batch x (4 + classes) x candidates."""

    def __init__(self):
        super().__init__()
        self.body, self.head = convolutions(3, 16, 32, 32), nn.Conv2d(32, 4 + 10, 1)

    def forward(self, x):
        y = self.head(self.body(x)).flatten(2)
        return torch.cat([y[:, :4].sigmoid() * 64, y[:, 4:].sigmoid()], 1)


class Ocr(nn.Module):
    """A line of text: convolutions, then an LSTM over columns, a class a column."""

    def __init__(self):
        super().__init__()
        self.body, self.over = convolutions(3, 16, 32), nn.LSTM(32, 24, bidirectional=True, batch_first=True)
        self.out = nn.Linear(48, 37)

    def forward(self, x):
        return self.out(self.over(self.body(x).mean(2).transpose(1, 2))[0]).softmax(-1)


class LineReader(nn.Module):
    """A line of text as PaddleOCR's recognisers read it: the LSTM demands that the height ends in one row."""

    def __init__(self):
        super().__init__()
        self.body, self.rest = convolutions(3, 16, 32), nn.MaxPool2d((3, 1))
        self.over, self.out = nn.LSTM(32, 24, bidirectional=True, batch_first=True), nn.Linear(48, 37)

    def forward(self, x):
        return self.out(self.over(self.rest(self.body(x)).flatten(1, 2).transpose(1, 2))[0]).softmax(-1)


class StepReader(LineReader):
    """Scores first by step, then by sample, as PyTorch's CTC loss takes them."""

    def forward(self, x):
        return super().forward(x).transpose(0, 1)


class Heavy(nn.Module):
    """9 GMACs a picture of 96x96, more than a minute has room for: for --quick."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for width in (3, *[128] * 7) for layer in (nn.Conv2d(width, 128, 3, 1, 1), nn.ReLU())])
        self.out = nn.Linear(128, 10)

    def forward(self, x):
        return self.out(self.body(x).mean((2, 3)))


class Vad(nn.Module):
    """Is somebody speaking? A window of samples and a state that goes on."""

    def __init__(self):
        super().__init__()
        self.ear, self.cell, self.out = nn.Conv1d(1, 16, 32, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, sound, state):
        y, after = self.cell(self.ear(sound.unsqueeze(1)).relu().transpose(1, 2), state)
        return self.out(y[:, -1]).sigmoid(), after


class Nhwc(nn.Module):
    """As TensorFlow's converters write it: pictures with channels last."""

    def __init__(self):
        super().__init__()
        self.body, self.out = convolutions(3, 16, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.out(self.body(x.permute(0, 3, 1, 2)).mean((2, 3))).softmax(-1)


class Denoiser(nn.Module):
    """A picture in, a picture out."""

    def __init__(self):
        super().__init__()
        self.down, self.up = convolutions(3, 16, 32), nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
                                                                     nn.ConvTranspose2d(16, 3, 4, 2, 1))

    def forward(self, x):
        return x + self.up(self.down(x))


class OwnAttention(nn.Module):
    """Attention on what it is added to, without projections."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(16, 32), nn.Linear(32, 5)

    def forward(self, x):
        h = self.into(x).relu()
        return self.out((h + (h @ h.transpose(1, 2) / 32**0.5).softmax(-1) @ h).mean(1))


class Points(nn.Module):
    """PointNet: the largest of all points."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 1))
        self.out = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 7))

    def forward(self, x):
        return self.out(self.body(x).amax(2))


class StepsFirst(nn.Module):
    """A sequence whose first axis is time, as PyTorch's recurrent layers take it by default."""

    def __init__(self):
        super().__init__()
        self.over, self.out = nn.GRU(24, 16, bidirectional=True), nn.Linear(32, 9)

    def forward(self, steps):
        return self.out(self.over(steps)[0]).log_softmax(-1)


class GraphNet(nn.Module):
    """Messages along edges, which are pairs of nodes."""

    def __init__(self):
        super().__init__()
        self.into, self.over, self.out = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 2)

    def forward(self, nodes, edges):
        h = self.into(nodes).relu()
        return self.out(self.over(h + torch.zeros_like(h).index_add(0, edges[1], h[edges[0]])).relu())


class Diffuser(nn.Module):
    """Noise of two samples at one step, a number."""

    def __init__(self):
        super().__init__()
        self.time, self.into, self.out = nn.Linear(8, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, sample, step):
        angles = step.float() / 10 ** torch.arange(4)
        return self.out(nn.functional.mish(self.into(sample) + self.time(torch.cat([angles.sin(), angles.cos()]))))


def tv(name, **options):
    return lambda: getattr(torchvision.models, name)(weights=None, num_classes=10, **options)


def tm(name, **options):
    return lambda: timm.create_model(name, pretrained=False, num_classes=10, **options)


def resnet():
    return torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)


TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}


def bert():
    model = transformers.BertModel(transformers.BertConfig(vocab_size=100, attn_implementation="eager", **TINY))
    return Picked(model, lambda out: out.last_hidden_state, ("input_ids", "attention_mask", "token_type_ids"))


def roberta():
    model = transformers.RobertaForSequenceClassification(
        transformers.RobertaConfig(vocab_size=100, num_labels=3, max_position_embeddings=40, attn_implementation="eager", **TINY))
    return Picked(model, lambda out: out.logits, ("input_ids", "attention_mask"))


def distilbert():
    model = transformers.DistilBertForSequenceClassification(
        transformers.DistilBertConfig(vocab_size=100, dim=32, n_layers=2, n_heads=2, hidden_dim=64, attn_implementation="eager"))
    return Picked(model, lambda out: out.logits, ("input_ids", "attention_mask"))


def vit():
    model = transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=32, patch_size=8, num_labels=10, attn_implementation="eager", **TINY))
    return Picked(model, lambda out: out.logits)


def lraspp():
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    return Picked(model, lambda out: out["out"])


STRANGERS = [
    Stranger("tv_resnet_9", resnet, image(), 9, free=()),
    Stranger("tv_squeezenet_11", tv("squeezenet1_1"), image(), 11),
    Stranger("tv_mobilenet_v3_12", tv("mobilenet_v3_small"), image(), 12, free=("batch", "height", "width")),
    Stranger("tv_shufflenet_13", tv("shufflenet_v2_x0_5"), image(batch=2), 13, free=()),
    Stranger("tv_mnasnet_18", tv("mnasnet0_5"), image(), 18),
    Stranger("tv_lraspp_16", lraspp, image(), 16),
    Stranger("timm_resnet10t_14", tm("resnet10t"), image(), 14),
    Stranger("timm_convnext_17", tm("convnext_atto", depths=(1, 1, 1, 1)), image(), 17),
    Stranger("timm_vit_18", tm("vit_tiny_patch16_224", img_size=64, depth=2), image(), 18),
    Stranger("timm_ghostnet_15", tm("ghostnet_050"), image(), 15, free=("batch", "height", "width")),
    Stranger("timm_mobilenetv3_20", tm("mobilenetv3_small_050"), image(), 20, free=()),
    Stranger("hf_bert_14", bert, tokens("input_ids", "attention_mask", "token_type_ids"), 14, free=("batch", "length"), pictures=False),
    Stranger("hf_roberta_17", roberta, tokens("input_ids", "attention_mask"), 17, pictures=False),
    Stranger("hf_distilbert_19", distilbert, tokens("input_ids", "attention_mask"), 19, free=("batch", "length"), pictures=False),
    Stranger("hf_vit_21", vit, image(32, 2), 21),
    Stranger("yolo_shaped_12", YoloShaped, image(), 12),
    Stranger("ocr_13", Ocr, {"line": torch.randn(1, 3, 32, 96)}, 13),
    Stranger("ocr_free_width_13", Ocr, {"line": torch.randn(1, 3, 32, 96)}, 13, free=("batch", "width"), told=("the height is the model's",)),
    Stranger("ocr_free_12", LineReader, {"line": torch.randn(1, 3, 12, 96)}, 12, free=("batch", "height", "width"),
             told=("pictures of 12x", "the network takes no 640x640", "reads a line of text")),
    Stranger("ocr_by_step_12", StepReader, {"line": torch.randn(1, 3, 12, 96)}, 12, told=("reads a line of text",)),
    Stranger("heavy_17", Heavy, image(96), 17, told=("Left out or cut for a verdict within a minute",), seconds=180),
    Stranger("very_heavy_17", Heavy, image(320), 17, told=("Left out or cut for a verdict within a minute",), seconds=180),  # 106 GMACs
    Stranger("vad_16", Vad, {"sound": torch.randn(1, 512), "state": torch.zeros(1, 1, 16)}, 16, free=(), pictures=False),
    Stranger("nhwc_11", Nhwc, {"image": torch.randn(1, 64, 64, 3)}, 11),
    Stranger("denoiser_24", Denoiser, image(batch=2), 24),
    Stranger("mish_16", lambda: nn.Sequential(nn.Linear(32, 64), nn.Mish(), nn.Linear(64, 64), nn.Mish(), nn.Linear(64, 1)),
             {"row": torch.randn(1, 32)}, 16, pictures=False),
    Stranger("own_attention_17", OwnAttention, {"x": torch.randn(1, 10, 16)}, 17, pictures=False),
    Stranger("points_18", Points, {"points": torch.randn(2, 3, 128)}, 18, pictures=False),
    Stranger("steps_first_15", StepsFirst, {"steps": torch.randn(30, 1, 24)}, 15, free=(), pictures=False),
    Stranger("graph_21", GraphNet, {"nodes": torch.randn(20, 8), "edges": torch.randint(0, 20, (2, 50))}, 21, free=(), pictures=False),
    Stranger("diffuser_17", Diffuser, {"sample": torch.randn(2, 16), "step": torch.tensor(981)}, 17, free=(), pictures=False),
    Stranger("untouched_18", lambda: nn.Sequential(nn.Flatten(), nn.Sigmoid()), image(16), 18, told=("int8 is left out",)),
]


def axes(stranger):
    """Open axes by input, as torch.onnx.export takes them."""
    names = {"batch": 0, "length": 1, "height": 2, "width": 3}
    return {name: {names[axis]: axis for axis in stranger.free if names[axis] < tensor.dim()} for name, tensor in stranger.inputs.items()
            if stranger.free}


def export(stranger, file):
    torch.manual_seed(0)
    network = stranger.make().eval()
    with torch.no_grad(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        if stranger.opset <= 20:  # the last that the older exporter writes
            torch.onnx.export(network, tuple(stranger.inputs.values()), str(file), input_names=list(stranger.inputs),
                              opset_version=stranger.opset, dynamic_axes=axes(stranger), dynamo=False)
        else:
            open_axes = axes(stranger)
            shapes = tuple(dict.fromkeys(open_axes.get(name, {}), torch.export.Dim.DYNAMIC) for name in stranger.inputs)
            torch.onnx.export(network, tuple(stranger.inputs.values()), str(file), input_names=list(stranger.inputs),
                              opset_version=stranger.opset, dynamo=True,
                              dynamic_shapes=(shapes,) if isinstance(network, Picked) else shapes, external_data=False)


def data(stranger, folder):
    """Where it is calibrated: pictures, or samples of each input."""
    if stranger.pictures:
        return PICTURES
    random = np.random.default_rng(1)
    samples = {}
    for name, tensor in stranger.inputs.items():
        one = (tensor[:1] if stranger.free else tensor).numpy()
        if one.ndim == 0:  # a number is that of all
            samples[name] = one
            continue
        whole = name in ("state", "steps", "nodes", "edges")
        stack = np.stack([one] * 24) if whole else np.concatenate([one] * 24)
        if stack.dtype == np.float32:
            stack = random.normal(size=stack.shape).astype(np.float32)
        elif name == "input_ids":
            stack = random.integers(1, 90, stack.shape)
        samples[name] = stack
    file = folder / f"{stranger.name}.npz"
    np.savez(file, **samples)
    return file


def run(lathe, stranger, folder):
    """What went wrong, or None."""
    model = folder / f"{stranger.name}.onnx"
    export(stranger, model)
    written = onnx.load(model, load_external_data=False).opset_import[0].version
    if written != stranger.opset:
        return f"torch wrote opset {written}, not {stranger.opset}"
    output = folder / stranger.name  # engines, measurements, report
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LATHE_PYTHON")}
    start = time.perf_counter()
    done = subprocess.run([lathe, "optimize", model, "--calibrate", data(stranger, folder), "--quick", "--output", output],
                          capture_output=True, text=True, check=False, env=environment, cwd=folder)
    took = time.perf_counter() - start
    if done.returncode != 0:
        return f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    engines = {file.name.split(".")[-2] for file in output.glob("*.engine")}
    wanted = {"fp32"} if "int8 is left out" in stranger.told else {"fp32", "int8"}
    if not wanted <= engines or ("int8" in engines) != ("int8" in wanted):
        return f"engines of {sorted(engines)}, not {sorted(wanted)}\n{done.stdout}{done.stderr}"
    if not (output / "report.html").exists():
        return "no report"
    if 0 < stranger.seconds < took:
        return f"--quick took {took:.1f} s, more than {stranger.seconds:g} s\n{done.stdout}{done.stderr}"
    missing = [words for words in stranger.told if words not in done.stdout + done.stderr]
    return f"it does not say {missing}\n{done.stdout}{done.stderr}" if missing else None


def main():
    lathe, wanted = str(Path(sys.argv[1]).resolve()), sys.argv[2:]
    failed = []
    torch.set_num_threads(2)
    chosen = [stranger for stranger in STRANGERS if not wanted or stranger.name in wanted]
    with tempfile.TemporaryDirectory() as folder:
        for stranger in chosen:
            start = time.perf_counter()
            try:
                fault = run(lathe, stranger, Path(folder))
            except Exception as error:  # noqa: BLE001, an exporter's failure is told with the network's name
                fault = f"{type(error).__name__}: {str(error)[-400:]}"  # an exporter tells the whole graph
            print(f"{stranger.name}: {fault or 'ok'} ({time.perf_counter() - start:.1f} s)", flush=True)
            failed += [stranger.name] if fault else []
    if failed or not chosen:
        sys.exit(f"{len(failed)} of {len(chosen)} failed: {', '.join(failed)}")
    print(f"{len(chosen)} strangers went through")


if __name__ == "__main__":
    main()
