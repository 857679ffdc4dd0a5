"""ONNX Runtime's fused operators, one a model: what the CPU engine and the CUDA engine's plan (in the interpreter) give is
what ONNX Runtime gives. Run: python test_fused_operators.py RUN_PLAN"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Callable

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

RUN_PLAN = sys.argv.pop(1)
MICROSOFT = "com.microsoft"
TYPES = {np.dtype("f2"): TensorProto.FLOAT16, np.dtype("f4"): TensorProto.FLOAT, np.dtype("i4"): TensorProto.INT32, np.dtype("i8"): TensorProto.INT64, np.dtype("u1"): TensorProto.UINT8}
random = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype("f4")


class Case:
    """A node, the values it reads (`inputs` are fed, `weights` constant, by name) and which outputs are asked for.
    `is_right` computes the answer where ONNX Runtime has the operator on GPUs alone."""

    def __init__(
        self,
        op_type: str,
        inputs: dict[str, np.ndarray],
        weights: dict[str, np.ndarray],
        order: str,
        outputs: str = "y",
        domain: str = MICROSOFT,
        opset: int = 17,
        symbols: dict[str, list[str | int]] | None = None,
        is_right: Callable[..., np.ndarray] | None = None,
        **attributes: object,
    ) -> None:
        self.op_type, self.inputs, self.weights = op_type, inputs, weights
        self.order = ["" if name == "-" else name for name in order.split()]
        self.outputs = ["" if name == "-" else name for name in outputs.split()]
        self.domain, self.opset, self.attributes = domain, opset, attributes
        self.symbols = symbols or {}
        self.is_right = is_right
        first = next(iter(inputs.values()))
        self.gives = TYPES[first.dtype] if first.dtype.kind == "f" else TensorProto.FLOAT

    def model(self) -> onnx.ModelProto:
        node = helper.make_node(self.op_type, self.order, self.outputs, domain=self.domain, **self.attributes)
        fed = [
            helper.make_tensor_value_info(name, TYPES[value.dtype], self.symbols.get(name, value.shape))
            for name, value in self.inputs.items()
        ]
        given = [helper.make_tensor_value_info(name, self.gives, None) for name in self.outputs if name]
        for each in given:
            if each.name.startswith("i"):
                each.type.tensor_type.elem_type = TensorProto.INT32
        constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in self.weights.items()]
        graph = helper.make_graph([node], "case", fed, given, constants)
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def gelu(x: np.ndarray, by_tanh: bool = False) -> np.ndarray:
    if by_tanh:
        return x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def bert_attention(**more: object) -> dict[str, np.ndarray]:
    return {"x": floats(2, 5, 12), **more}  # type: ignore[dict-item]


def qkv(length: int = 5, keys: int = 5) -> dict[str, np.ndarray]:
    return {"q": floats(2, length, 12), "k": floats(2, keys, 12), "v": floats(2, keys, 12)}


def packed_weights(outputs: int, inputs: int, block: int, bits: int) -> dict[str, np.ndarray]:
    blocks = -(-inputs // block)
    return {
        "b": random.integers(0, 256, (outputs, blocks, block * bits // 8)).astype("u1"),
        "s": (random.random(outputs * blocks) / 8 + 0.01).astype("f4"),
    }


HIDDEN = {"w": floats(12, 36), "bias": floats(36)}
NORM = {"gamma": floats(12), "beta": floats(12)}
CACHES = {"cos": np.cos(floats(16, 4)), "sin": np.sin(floats(16, 4))}
WIDE_CACHES = {"cos": np.cos(floats(16, 8)), "sin": np.sin(floats(16, 8))}
PLACES = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]], "i8")
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], "i4")
LENGTHS = np.array([4, 3], "i4")
GROUPED = "q k v pk pv last total cos sin"
PAST = {"pk": floats(2, 3, 4, 4), "pv": floats(2, 3, 4, 4)}


def grouped(length: int, past: int, rows: int = 2) -> dict[str, np.ndarray]:
    return {
        "q": floats(rows, length, 64),
        "k": floats(rows, length, 32),
        "v": floats(rows, length, 32),
        "pk": floats(rows, 2, past, 16),
        "pv": floats(rows, 2, past, 16),
        "last": np.full(rows, past + length - 1, "i4"),
    }


def total(length: int) -> dict[str, np.ndarray]:
    return {"total": np.array([length], "i4")}


def of_few_bits(opset: int) -> dict[str, Case]:
    """From opset 21 on their weights stay as small as they are."""
    table = {"b": random.integers(0, 256, (6, 32)).astype("u1"), "s": (random.random((6, 2)) + 0.1).astype("f4")}
    half = {name: value.astype("f2") if name == "s" else value for name, value in packed_weights(6, 64, 32, 4).items()}

    def product(a: np.ndarray, weights: dict[str, np.ndarray], bits: int, order: str = "a b s") -> Case:
        more: dict[str, object] = {"K": a.shape[-1], "N": 6, "bits": bits, "block_size": 32}
        return Case("MatMulNBits", {"a": a}, weights, order, opset=opset, **more)

    return {
        "weights of 4 bits": product(floats(2, 3, 64), packed_weights(6, 64, 32, 4), 4),
        "weights of 4 bits with zero points": product(
            floats(3, 96),
            {**packed_weights(6, 96, 32, 4), "z": random.integers(0, 256, 6 * 2).astype("u1")},
            4,
            "a b s z",
        ),
        "weights of 4 bits whose last block is short": product(floats(3, 80), packed_weights(6, 80, 32, 4), 4),
        "weights of 2 bits": product(floats(3, 64), packed_weights(6, 64, 32, 2), 2),
        "weights of 4 bits in FP16": product(floats(3, 64).astype("f2"), half, 4),
        "weights of 8 bits with a bias": product(
            floats(3, 64), {**packed_weights(6, 64, 32, 8), "c": floats(6)}, 8, "a b s - - c"
        ),
        "embedding of 4 bits": Case(
            "GatherBlockQuantized",
            {"i": np.array([[0, 3], [5, 1]], "i8")},
            table,
            "b i s",
            opset=opset,
            bits=4,
            block_size=32,
            quantize_axis=1,
            gather_axis=0,
        ),
    }


CASES = {
    "gelu": Case("Gelu", {"x": floats(3, 8)}, {}, "x"),
    "gelu of opset 20": Case("Gelu", {"x": floats(3, 8)}, {}, "x", opset=20),
    "bias gelu": Case("BiasGelu", {"x": floats(3, 8)}, {"b": floats(8)}, "x b"),
    "fast gelu": Case("FastGelu", {"x": floats(3, 8)}, {"b": floats(8)}, "x b"),
    "fast gelu without a bias": Case("FastGelu", {"x": floats(3, 8)}, {}, "x", opset=13),
    "quick gelu": Case("QuickGelu", {"x": floats(3, 8)}, {}, "x"),
    "silu": Case("QuickGelu", {"x": floats(3, 8)}, {}, "x", alpha=1.0),
    "a bias and a skip": Case(
        "BiasAdd",
        {"x": floats(2, 5, 8), "z": floats(2, 5, 8)},
        {"b": floats(8)},
        "x b z",
        is_right=lambda x, b, z: x + b + z,
    ),
    "halves of which one gates": Case(
        "BiasSplitGelu",
        {"x": floats(2, 5, 8)},
        {"b": floats(8)},
        "x b",
        is_right=lambda x, b: ((x + b)[..., :4] * gelu((x + b)[..., 4:])).astype("f4"),
    ),
    "softmax of a sum": Case(
        "BiasSoftmax",
        {"x": floats(2, 3, 5, 6), "m": floats(2, 1, 1, 6)},
        {},
        "x m",
        axis=3,
        is_inner_broadcast=0,
        is_right=lambda x, m: softmax(x + m),
    ),
    "product and fast gelu": Case(
        "GemmFastGelu",
        {"x": floats(2, 5, 8)},
        {"w": floats(8, 6), "b": floats(6)},
        "x w b",
        is_right=lambda x, w, b: gelu(x @ w + b, True).astype("f4"),
    ),
    "layer norm before ONNX had it": Case(
        "LayerNormalization", {"x": floats(2, 5, 12)}, NORM, "x gamma beta", domain="", opset=14, axis=-1, epsilon=1e-4
    ),
    "layer norm with statistics": Case(
        "LayerNormalization", {"x": floats(2, 5, 12)}, NORM, "x gamma beta", "y m d", domain="", opset=11, axis=2
    ),
    "rms norm": Case("SimplifiedLayerNormalization", {"x": floats(2, 5, 12)}, NORM, "x gamma", domain="", axis=-1),
    "skip layer norm": Case(
        "SkipLayerNormalization", {"x": floats(2, 5, 12), "z": floats(2, 5, 12)}, NORM, "x z gamma beta"
    ),
    "skip layer norm, its sum": Case(
        "SkipLayerNormalization",
        {"x": floats(2, 5, 12), "z": floats(2, 5, 12)},
        {**NORM, "b": floats(12)},
        "x z gamma beta b",
        "y - - s",
        opset=14,
    ),
    "skip rms norm, its sum": Case(
        "SkipSimplifiedLayerNormalization",
        {"x": floats(2, 5, 12), "z": floats(2, 5, 12)},
        {**NORM, "b": floats(12)},
        "x z gamma b",
        "y - - s",
        epsilon=1e-5,
    ),
    "skip layer norm in FP16": Case(
        "SkipLayerNormalization",
        {"x": floats(2, 5, 12).astype("f2"), "z": floats(2, 5, 12).astype("f2")},
        {name: value.astype("f2") for name, value in NORM.items()},
        "x z gamma beta",
        opset=14,
    ),
    "skip rms norm in FP16": Case(
        "SkipSimplifiedLayerNormalization",
        {"x": floats(2, 5, 12).astype("f2"), "z": floats(2, 5, 12).astype("f2")},
        {"gamma": floats(12).astype("f2")},
        "x z gamma",
    ),
    "heads in FP16": Case(
        "MultiHeadAttention",
        {**{name: value.astype("f2") for name, value in qkv().items()}, "m": MASK},
        {"bias": floats(36).astype("f2")},
        "q k v bias m",
        num_heads=3,
    ),
    "embedding": Case(
        "EmbedLayerNormalization",
        {"i": np.array([[1, 2, 3], [4, 5, 6]], "i4"), "j": np.array([[0, 1, 1], [0, 0, 1]], "i4")},
        {"words": floats(9, 12), "places": floats(8, 12), "kinds": floats(2, 12), **NORM},
        "i j words places kinds gamma beta",
        "y index",
    ),
    "embedding with a mask and places": Case(
        "EmbedLayerNormalization",
        {
            "i": np.array([[1, 2, 3], [4, 5, 6]], "i4"),
            "mask": np.array([[1, 1, 0], [1, 1, 1]], "i4"),
            "at": np.array([[0, 1, 2], [3, 4, 5]], "i4"),
        },
        {"words": floats(9, 12), "places": floats(8, 12), **NORM},
        "i - words places - gamma beta mask at",
        "y index s",
        opset=12,
    ),
    "product": Case(
        "FusedMatMul", {"a": floats(2, 3, 5, 4), "b": floats(2, 3, 6, 4)}, {}, "a b", transB=1, alpha=0.5
    ),
    "product by its older name": Case(
        "TransposeMatMul", {"a": floats(3, 5, 4), "b": floats(3, 6, 4)}, {}, "a b", transB=1, alpha=2.0
    ),
    "product, the left side turned": Case(
        "FusedMatMul", {"a": floats(3, 4, 5), "b": floats(3, 4, 6)}, {}, "a b", transA=1
    ),
    "product, the batches turned": Case(
        "FusedMatMul", {"a": floats(5, 3, 4), "b": floats(3, 4, 6)}, {}, "a b", transBatchA=1, alpha=2.0
    ),
    "product, all turned": Case(
        "FusedMatMul",
        {"a": floats(4, 3, 5), "b": floats(6, 3, 4)},
        {},
        "a b",
        transA=1,
        transB=1,
        transBatchA=1,
        transBatchB=1,
    ),
    "gemm": Case(
        "FusedGemm",
        {"a": floats(3, 4)},
        {"b": floats(5, 4), "c": floats(5)},
        "a b c",
        transB=1,
        alpha=0.5,
        activation="LeakyRelu",
        activation_alpha=0.25,
    ),
    "convolution": Case(
        "FusedConv",
        {"x": floats(1, 3, 6, 6)},
        {"w": floats(4, 3, 3, 3), "b": floats(4)},
        "x w b",
        activation="Clip",
        activation_params=[-0.5, 1.5],
        pads=[1, 1, 1, 1],
    ),
    "convolution and a sum": Case(
        "FusedConv",
        {"x": floats(1, 3, 6, 6), "z": floats(1, 4, 4, 4)},
        {"w": floats(4, 3, 3, 3), "b": floats(4)},
        "x w b z",
        activation="Relu",
    ),
    "trilu": Case("Trilu", {"x": floats(5, 5)}, {}, "x", upper=0),
    "pad": Case("Pad", {"x": floats(2, 3)}, {"p": np.array([0, 1, 1, 0], "i8")}, "x p"),
    "grid sample": Case("GridSample", {"x": floats(1, 2, 4, 5), "g": floats(1, 3, 3, 2)}, {}, "x g", mode="bilinear"),
    "attention": Case("Attention", bert_attention(), HIDDEN, "x w bias", num_heads=3),
    "attention, a mask of keys": Case("Attention", bert_attention(m=MASK), HIDDEN, "x w bias m", num_heads=3),
    "attention, lengths": Case("Attention", bert_attention(m=LENGTHS), HIDDEN, "x w bias m", num_heads=3),
    "attention, a mask of pairs": Case(
        "Attention", bert_attention(m=np.tril(np.ones((2, 5, 5), "i4"))), HIDDEN, "x w bias m", num_heads=3
    ),
    "attention, causal": Case("Attention", bert_attention(), HIDDEN, "x w bias", num_heads=3, unidirectional=1),
    "attention with a past": Case(
        "Attention",
        bert_attention(past=floats(2, 2, 3, 4, 4)),
        HIDDEN,
        "x w bias - past",
        "y present",
        num_heads=3,
        unidirectional=1,
    ),
    "attention, narrow values and a bias": Case(
        "Attention",
        bert_attention(extra=floats(2, 3, 5, 5)),
        {"w": floats(12, 30), "bias": floats(30)},
        "x w bias - - extra",
        num_heads=3,
        qkv_hidden_sizes=[12, 12, 6],
        scale=0.3,
    ),
    "attention of open sizes": Case(
        "Attention",
        bert_attention(m=MASK),
        HIDDEN,
        "x w bias m",
        num_heads=3,
        opset=13,
        symbols={"x": ["n", "l", 12], "m": ["n", "l"]},
    ),
    "quantised attention": Case(
        "QAttention",
        {"x": random.integers(0, 256, (2, 5, 12)).astype("u1"), "m": MASK},
        {
            # Two products with pixels of 255 fit 16 bits, in which processors without VNNI add them.
            "w": random.integers(-63, 64, (12, 36)).astype("i1"),
            "bias": floats(36),
            "sx": np.float32(0.01),
            "sw": (random.random(36) / 50 + 0.002).astype("f4"),
            "zx": np.uint8(120),
            "zw": np.zeros(36, "i1"),
        },
        "x w bias sx sw m zx zw",
        num_heads=3,
    ),
    "heads": Case("MultiHeadAttention", qkv(), {"bias": floats(36)}, "q k v bias", num_heads=3),
    "heads of other keys": Case("MultiHeadAttention", qkv(5, 7), {}, "q k v", num_heads=3, scale=0.4),
    "heads, a mask of keys": Case(
        "MultiHeadAttention", {**qkv(), "m": MASK}, {}, "q k v - m", num_heads=3, mask_filter_value=-1000.0
    ),
    "heads with a past": Case(
        "MultiHeadAttention",
        {**qkv(), **PAST, "extra": floats(1, 3, 5, 9)},
        {"bias": floats(36)},
        "q k v bias - extra pk pv",
        "y k2 v2",
        num_heads=3,
    ),
    "heads, causal": Case("MultiHeadAttention", qkv(), {}, "q k v", num_heads=3, unidirectional=1),
    "heads of a cross attention's cache": Case(
        "MultiHeadAttention",
        {"q": floats(2, 5, 12), "k": floats(2, 3, 7, 4), "v": floats(2, 3, 7, 4)},
        {},
        "q k v",
        num_heads=3,
    ),
    "rotary": Case("RotaryEmbedding", {"x": floats(2, 5, 24), "at": PLACES}, CACHES, "x at cos sin"),
    "rotary, heads apart": Case("RotaryEmbedding", {"x": floats(2, 3, 5, 8), "at": PLACES}, CACHES, "x at cos sin"),
    "rotary, interleaved": Case(
        "RotaryEmbedding", {"x": floats(2, 5, 24), "at": PLACES}, CACHES, "x at cos sin", interleaved=1
    ),
    "rotary from one place on": Case(
        "RotaryEmbedding", {"x": floats(2, 5, 24), "at": np.array([3], "i8")}, CACHES, "x at cos sin"
    ),
    "rotary of a part": Case(
        "RotaryEmbedding",
        {"x": floats(2, 5, 36), "at": PLACES},
        CACHES,
        "x at cos sin",
        rotary_embedding_dim=8,
        num_heads=3,
    ),
    "grouped queries": Case(
        "GroupQueryAttention",
        {key: value for key, value in grouped(5, 0).items() if key not in ("pk", "pv")},
        {**WIDE_CACHES, **total(5)},
        "q k v - - last total cos sin",
        "y k2 v2",
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
    ),
    "grouped queries with a past": Case(
        "GroupQueryAttention",
        grouped(1, 6),
        {**WIDE_CACHES, **total(7)},
        GROUPED,
        "y k2 v2",
        num_heads=4,
        kv_num_heads=2,
        do_rotary=1,
    ),
    "grouped queries in a window": Case(
        "GroupQueryAttention",
        grouped(1, 4),
        total(5),
        "q k v pk pv last total",
        "y k2 v2",
        num_heads=4,
        kv_num_heads=2,
        local_window_size=2,
        softcap=3.0,
    ),
    **{f"{name}, opset {opset}": case for opset in (17, 21) for name, case in of_few_bits(opset).items()},
}


class FusedOperators(unittest.TestCase):
    def run_plan(self, case: Case, folder: Path) -> onnx.ModelProto:
        model = case.model()
        onnx.save(model, folder / "model.onnx")
        for i, (name, value) in enumerate(case.inputs.items()):
            (folder / f"input_{i}.pb").write_bytes(numpy_helper.from_array(value, name).SerializeToString())
        done = subprocess.run([RUN_PLAN, str(folder)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return model

    def check(self, case: Case, folder: Path) -> None:
        model = self.run_plan(case, folder)
        if case.is_right is None:
            session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            expected = session.run(None, case.inputs)
        else:
            expected = [case.is_right(*({**case.inputs, **case.weights}[name] for name in case.order))]
        for i, want in enumerate(expected):
            for engine in ("plan", "cpu"):
                got = np.fromfile(folder / f"{engine}_{i}.f32", want.dtype)
                far = 4e-3 if want.dtype == np.float16 else 2e-4
                np.testing.assert_allclose(got, want.ravel(), rtol=far, atol=far, err_msg=f"{engine}, output {i}")

    def test_rows_of_unequal_length_get_no_answer(self) -> None:
        """Their keys would not stand where the operator has them."""
        case = CASES["grouped queries with a past"]
        case = Case(case.op_type, {**case.inputs, "last": np.array([6, 4], "i4")}, case.weights, GROUPED, **case.attributes)
        with tempfile.TemporaryDirectory() as folder:
            self.run_plan(case, Path(folder))
            for engine in ("plan", "cpu"):
                got = np.fromfile(Path(folder) / f"{engine}_0.f32", "f4").reshape(2, -1)
                self.assertTrue(np.isfinite(got[0]).all())
                self.assertFalse(np.isfinite(got[1]).any())

    def test_they_are_what_they_stand_for(self) -> None:
        for name, case in CASES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                self.check(case, Path(folder))


if __name__ == "__main__":
    unittest.main()
