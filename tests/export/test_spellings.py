"""One-layer encoders in every spelling of the installed PyTorch's exporters (TorchScript and dynamo, opsets 14 to 23)
become the same fused operations on the CUDA engine, and give PyTorch's results in the plan's interpreter and on the CPU
engine; padding changes nothing. Run: python test_spellings.py RUN_PLAN"""

from __future__ import annotations

import contextlib
import io
import math
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections import Counter
from pathlib import Path
from typing import Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    import torch.nn.functional as F
    import transformers
    from torch import nn
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

from lathe_export import convert, decoders, encoders, vision

RUN_PLAN = sys.argv.pop(1)
OPSETS = (14, 17, 18, 20, 23)
EXPORTERS = ("torchscript", "dynamo")
WIDTH, HEADS = 16, 2

GELUS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erf": F.gelu,
    "erf, written out": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "tanh": lambda x: F.gelu(x, approximate="tanh"),
    "tanh, x * x * x": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))),
    "tanh, pow": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
    "tanh, factored": lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
}


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-1, -2)


def added(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores(q, k) / math.sqrt(q.shape[-1]) + (1.0 - mask.to(q.dtype)) * -10000.0, -1) @ v


def scaled_q(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores(q / math.sqrt(q.shape[-1]), k) + (1.0 - mask.to(q.dtype)) * -10000.0, -1) @ v


def scaled_k(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores(q, k * q.shape[-1] ** -0.5) + (1.0 - mask.to(q.dtype)) * -10000.0, -1) @ v


def filled(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    lowest = torch.finfo(torch.float32).min
    return torch.softmax((scores(q, k) / math.sqrt(q.shape[-1])).masked_fill(mask == 0, lowest), -1) @ v


def sdpa_number(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(1.0 - mask.to(q.dtype)) * -10000.0)


def sdpa_boolean(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask != 0)


def sdpa_causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


ATTENTIONS = {function.__name__: function for function in (added, scaled_q, scaled_k, filled, sdpa_number, sdpa_boolean, sdpa_causal)}


class Layer(nn.Module):
    """One encoder layer with the norms behind the sums."""

    def __init__(self, attention: Callable, gelu: Callable) -> None:
        super().__init__()
        self.attention, self.gelu = attention, gelu
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        with torch.no_grad():
            for value in self.parameters():
                value.add_(torch.randn_like(value) * 0.3)  # norms whose factors and terms count, too

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def heads(value: torch.Tensor) -> torch.Tensor:
            return value.view(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

        mixed = self.attention(heads(self.q(x)), heads(self.k(x)), heads(self.v(x)), mask[:, None, None, :])
        x = self.first(x + self.o(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second(x + self.down(self.gelu(self.up(x))))


class Beside(nn.Module):
    """Layers of several spellings that read the same input, their results beside each other: one export for all."""

    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cat([layer(x, mask) for layer in self.layers], dim=-1)


class Spellings(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        torch.manual_seed(3)
        self.folders: dict[str, Path] = {}
        self.expected: dict[str, np.ndarray] = {}

    def add(self, label: str, module: nn.Module, inputs: convert.Inputs, exporter: str, opset: int, tensors: dict[str, torch.Tensor] | None = None) -> None:
        """Exports with free batch and length; `tensors` are what is run (default: the example)."""
        folder = self.work / str(len(self.folders))
        folder.mkdir()
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            convert.export(module, inputs, opset, exporter, folder / "model.onnx")
        model = onnx.load(folder / "model.onnx")
        convert.tidy(model)
        onnx.save(model, folder / "model.onnx")
        run = convert.Inputs(tensors or inputs.tensors, inputs.by_keyword)
        for i, value in enumerate(model.graph.input):
            (folder / f"input_{i}.pb").write_bytes(onnx.numpy_helper.from_array(run.tensors[value.name].numpy(), value.name).SerializeToString())
        self.folders[label] = folder
        self.expected[label] = next(iter(convert.run_reference(module, run).values())).numpy()

    def run_all(self, least: float = 3e-2) -> dict[str, Counter]:
        """What each plan in BF16 is made of; results are compared on the way, its own (weights in BF16) within `least`."""
        done = subprocess.run([RUN_PLAN, *map(str, self.folders.values())], capture_output=True, text=True, check=False)
        texts = re.split(r"^end\n", done.stdout, flags=re.MULTILINE)
        counts = {}
        for (label, folder), text in zip(self.folders.items(), texts):
            self.assertTrue(text.startswith("plan"), f"{label}: {text}")
            for engine, most in {"half": least, "plan": 3e-5, "cpu": 3e-5}.items():
                got = np.fromfile(folder / f"{engine}_0.f32", dtype=np.float32).reshape(self.expected[label].shape)
                np.testing.assert_allclose(got, self.expected[label], rtol=max(1e-7, most / 3), atol=most, err_msg=f"{label} by {engine}")
            counts[label] = Counter(re.findall(r" = ([a-z_]+)", text))
            counts[label]["gelu"] = len(re.findall(r"\bgelu", text))
            counts[label]["cpu apart"] = self.apart_on_cpu(folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return counts

    @staticmethod
    def apart_on_cpu(folder: Path) -> int:
        """Products of two activations and Softmaxes that are layers of their own in the CPU engine. An attention has none of
        them where OpenVINO computes it as one layer (a Subgraph); linear layers are called FullyConnected there."""
        kinds = [line.split("\t")[0] for line in (folder / "cpu_layers.txt").read_text().splitlines()]
        return sum(kind in ("MatMul", "Softmax") for kind in kinds)

    def layer_inputs(self) -> convert.Inputs:
        mask = torch.ones(2, 12, dtype=torch.int64)
        mask[1, 7:] = 0
        free = {0: "batch", 1: "sequence"}
        return convert.Inputs({"x": torch.randn(2, 12, WIDTH), "mask": mask}, False, {"x": dict(free), "mask": dict(free)})

    def expect_fused(self, counts: dict[str, Counter], norms: int = 2, layers: int = 1) -> None:
        """One attention a layer on both engines; what else the CUDA engine's plan holds."""
        whole = {"attention": layers, "layer_norm": norms * layers, "gelu": layers, "softmax": 0, "batched_gemm": 0, "reduce": 0, "cpu apart": 0}
        for label, count in counts.items():
            with self.subTest(label):
                self.assertEqual({name: count[name] for name in whole}, whole, label)

    def test_attention_in_every_spelling(self) -> None:
        for name, attention in ATTENTIONS.items():
            for exporter in EXPORTERS:
                # All of them at the other opsets: below, beside each other.
                for opset in (14, 18, 23) if name == "sdpa_boolean" else (18,):
                    self.add(f"{name}, {exporter}, opset {opset}", Layer(attention, F.gelu).eval(), self.layer_inputs(), exporter, opset)
        counts = self.run_all()
        # PyTorch, and so the Attention operator, makes 0 of rows in which a boolean mask leaves nothing. The kernel does as
        # well; the CPU engine has products, a Softmax and the guard.
        guarded = {label: count for label, count in counts.items() if "boolean" in label}
        for label, count in guarded.items():
            self.assertEqual((count["attention"], count["softmax"], count["layer_norm"], count["gelu"]), (1, 0, 2, 1), label)
        self.expect_fused({label: count for label, count in counts.items() if label not in guarded})

    def test_every_mask_and_gelu_at_every_opset(self) -> None:
        masks = [function for name, function in ATTENTIONS.items() if name != "sdpa_boolean"]
        self.assertEqual(len(masks), len(GELUS))
        module = Beside([Layer(attention, gelu) for attention, gelu in zip(masks, GELUS.values())]).eval()
        for exporter in EXPORTERS:
            for opset in OPSETS:
                self.add(f"{exporter}, opset {opset}", module, self.layer_inputs(), exporter, opset)
        # Six times as many values as elsewhere: the largest of their rounding errors is larger.
        self.expect_fused(self.run_all(least=5e-2), layers=len(masks))

    def test_rows_in_which_nothing_is_left(self) -> None:
        tensors = {"x": torch.randn(2, 5, WIDTH), "mask": torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])}
        for exporter, opset in (("torchscript", 18), ("dynamo", 23)):
            for attention in (sdpa_boolean, filled):
                self.add(f"{attention.__name__}, {exporter}", Layer(attention, F.gelu).eval(), self.layer_inputs(), exporter, opset, tensors)
        # In 16 bits the lowest number of FP32 is minus infinity: such a row has no right result.
        self.run_all(least=np.inf)

    def test_gelu_in_every_spelling(self) -> None:
        for name, gelu in GELUS.items():
            for exporter in EXPORTERS:
                self.add(f"{name}, {exporter}", Layer(added, gelu).eval(), self.layer_inputs(), exporter, 18)
        self.expect_fused(self.run_all())

    def picture(self, channels: int) -> convert.Inputs:
        return convert.Inputs({"x": torch.randn(2, channels, 5, 4) * 2 + 1}, False, {"x": {0: "batch"}})

    def test_group_norm_is_factors_of_its_groups(self) -> None:
        norm = nn.GroupNorm(3, 12, eps=1e-3)
        with torch.no_grad():
            norm.weight.normal_()
            norm.bias.normal_()
        for opset in (14, 18):
            self.add(f"opset {opset}", norm.eval(), self.picture(12), "torchscript", opset)
        for label, count in self.run_all().items():
            self.assertEqual((count["group_factors"], count["layer_norm"], count["reduce"]), (1, 0, 0), label)

    def test_instance_norm_is_factors_of_each_channel(self) -> None:
        norm = nn.InstanceNorm2d(6, affine=True)
        with torch.no_grad():
            norm.weight.normal_()
        self.add("factors", norm.eval(), self.picture(6), "torchscript", 18)
        count = self.run_all()["factors"]
        self.assertEqual((count["group_factors"], count["layer_norm"], count["reduce"]), (1, 0, 0))

    def test_what_is_almost_gelu_stays_what_it_is(self) -> None:
        almost = {
            "another slope": lambda x: 0.5 * x * (1 + torch.tanh(0.9 * (x + 0.044715 * x * x * x))),
            "another factor": lambda x: 0.6 * x * (1 + torch.erf(x / math.sqrt(2.0))),
            "another value": lambda x: 0.5 * (x + 1) * (1 + torch.erf(x / math.sqrt(2.0))),
        }
        for name, function in almost.items():
            self.add(name, Layer(added, function).eval(), self.layer_inputs(), "torchscript", 18)
        for label, count in self.run_all().items():
            self.assertEqual(count["gelu"], 0, label)

    def test_pytorchs_own_encoder_layer(self) -> None:
        for norm_first in (False, True):
            module = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, activation="gelu", batch_first=True, norm_first=norm_first).eval()
            inputs = convert.Inputs({"src": torch.randn(2, 12, WIDTH)}, False)
            # torch.onnx's TorchScript exporter refuses this module since PyTorch 2.15 at the latest.
            for opset in (18, 23):
                self.add(f"norm first {norm_first}, {opset}", module, inputs, "dynamo", opset)
        for label, count in self.run_all().items():
            self.assertEqual((count["layer_norm"], count["gelu"], count["attention"]), (2, 1, 1), label)

    def test_multihead_attention_moves_nothing(self) -> None:
        """Batches first, as torchvision's ViT has it: PyTorch puts the length first around both products."""

        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.norm(x)
                return x + self.attention(y, y, y, need_weights=False)[0]

        inputs = convert.Inputs({"x": torch.randn(3, 12, WIDTH)}, False)
        fast = torch.backends.mha.get_fastpath_enabled()
        self.addCleanup(torch.backends.mha.set_fastpath_enabled, fast)
        torch.backends.mha.set_fastpath_enabled(False)  # one operator, which the TorchScript exporter does not know
        for exporter in EXPORTERS:
            for opset in (17, 20) if exporter == "torchscript" else (18, 23):
                self.add(f"{exporter}, {opset}", Block().eval(), inputs, exporter, opset)
        for label, count in self.run_all().items():
            self.assertEqual((count["attention"], count["gemm"], count["transpose"]), (1, 2, 0), label)

    def distilbert(self) -> encoders.Encoder:
        config = transformers.DistilBertConfig(vocab_size=30, max_position_embeddings=40, dim=WIDTH, n_layers=1, n_heads=HEADS, hidden_dim=32)
        network = transformers.AutoModel.from_config(config, attn_implementation="eager")
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(3)
        return encoders.Encoder(network).eval()

    def encoder(self, activation: str) -> encoders.Encoder:
        config = transformers.BertConfig(vocab_size=30, max_position_embeddings=40, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=HEADS, intermediate_size=32, hidden_act=activation)
        network = transformers.AutoModel.from_config(config, attn_implementation="eager", add_pooling_layer=False)
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(3)
        return encoders.Encoder(network).eval()

    def bert_inputs(self, module: encoders.Encoder) -> convert.Inputs:
        inputs = convert.make_inputs(module, encoders.example_inputs(module, 12), (1, 1))
        inputs.dynamic = {name: {0: "batch", 1: "sequence"} for name in inputs.tensors}
        return inputs

    def test_bert_and_distilbert_as_lathe_exports_them(self) -> None:
        for activation in ("gelu", "gelu_new", "gelu_fast"):
            module = self.encoder(activation)
            for exporter in EXPORTERS:
                for opset in OPSETS if activation == "gelu" else (18,):
                    self.add(f"{activation}, {exporter}, opset {opset}", module, self.bert_inputs(module), exporter, opset)
        module = self.distilbert()
        for exporter in EXPORTERS:
            for opset in (14, 18, 23):
                self.add(f"distilbert, {exporter}, opset {opset}", module, self.bert_inputs(module), exporter, opset)
        self.expect_fused(self.run_all(), norms=3)

    def test_vit_and_gpt2_as_lathe_exports_them(self) -> None:
        sizes = {"hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS, "intermediate_size": 32}
        config = transformers.ViTConfig(**sizes, image_size=24, patch_size=8)
        module = vision.Vision(transformers.AutoModel.from_config(config, attn_implementation="eager")).eval()
        pictures = convert.make_inputs(module, vision.example_inputs(module, 2), (24, 24))
        config = transformers.GPT2Config(vocab_size=30, n_positions=40, n_embd=WIDTH, n_layer=1, n_head=HEADS, bos_token_id=0, eos_token_id=0)
        network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        for exporter in EXPORTERS:
            self.add(f"vit, {exporter}", module, pictures, exporter, 18)
            for phase in ("prefill", "decode"):
                decoder = decoders.Decoder(network, phase).eval()
                self.add(f"gpt2 {phase}, {exporter}", decoder, decoders.example_inputs(decoder, None, None), exporter, 18)
        counts = self.run_all()
        self.expect_fused({label: count for label, count in counts.items() if "decode" not in label}, norms=3)
        for label in (label for label in counts if "decode" in label):
            # One query against keys that begin with the past's.
            seen = {name: counts[label][name] for name in ("attention", "layer_norm", "gelu", "softmax", "reduce", "cpu apart")}
            self.assertEqual(seen, {"attention": 1, "layer_norm": 3, "gelu": 1, "softmax": 0, "reduce": 0, "cpu apart": 0}, label)

    def test_padding_changes_nothing(self) -> None:
        """A batch of mixed lengths against each text alone, on both engines, for masks by number and by Where."""
        lengths, width = [12, 5, 1, 8], 12
        for name, attention in {"added": added, "filled": filled, "sdpa_boolean": sdpa_boolean}.items():
            module = Layer(attention, F.gelu).eval()
            mask = (torch.arange(width)[None, :] < torch.tensor(lengths)[:, None]).to(torch.int64)
            tensors = {"x": torch.randn(len(lengths), width, WIDTH), "mask": mask}
            self.add(f"{name} together", module, self.layer_inputs(), "torchscript", 18, tensors)
            for row, length in enumerate(lengths):
                alone = {key: value[row : row + 1, :length].contiguous() for key, value in tensors.items()}
                self.add(f"{name} {row}", module, self.layer_inputs(), "torchscript", 18, alone)
        module = self.encoder("gelu")
        tokens = torch.randint(1, 30, (len(lengths), width)) * mask
        tensors = {"input_ids": tokens, "attention_mask": mask, "token_type_ids": torch.zeros_like(mask)}
        self.add("bert together", module, self.bert_inputs(module), "torchscript", 18, tensors)
        for row, length in enumerate(lengths):
            alone = {key: value[row : row + 1, :length].contiguous() for key, value in tensors.items()}
            self.add(f"bert {row}", module, self.bert_inputs(module), "torchscript", 18, alone)
        self.run_all()
        for name in ("added", "filled", "sdpa_boolean", "bert"):
            for engine in ("half", "plan", "cpu"):
                together = np.fromfile(self.folders[f"{name} together"] / f"{engine}_0.f32", dtype=np.float32).reshape(len(lengths), width, WIDTH)
                for row, length in enumerate(lengths):
                    alone = np.fromfile(self.folders[f"{name} {row}"] / f"{engine}_0.f32", dtype=np.float32).reshape(length, WIDTH)
                    np.testing.assert_allclose(together[row, :length], alone, atol=1e-5, err_msg=f"{name} {row} by {engine}")


if __name__ == "__main__":
    unittest.main()
