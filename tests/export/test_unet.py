"""`python -m lathe_export` on a small UNet of diffusers with random weights. Run: python test_unet.py [LATHE [RUN_PLAN]]

With LATHE also through the program: simplified, built, run in OpenVINO, beside PyTorch. With RUN_PLAN (tests/backends)
also as the CUDA engine's plan, computed by the plan's interpreter: no GPU is needed."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import diffusers
    import numpy as np
    import onnx
    import onnxruntime
    import safetensors.torch
    import torch
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it (requirements/diffusion.txt)", file=sys.stderr)
    sys.exit(77)

from lathe_export import __main__ as command
from lathe_export import diffusion
from lathe_export.errors import ExportError
from lathe_export.rebuild import rebuild

SMALL = {
    "sample_size": 16, "in_channels": 4, "out_channels": 4, "block_out_channels": (16, 32), "layers_per_block": 1, "cross_attention_dim": 24,
    "attention_head_dim": 8, "norm_num_groups": 8, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}


RUN_PLAN = sys.argv.pop(2) if len(sys.argv) > 2 else None
LATHE = sys.argv.pop(1) if len(sys.argv) > 1 else None


class UnetExport(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        self.folder, self.out = self.work / "unet", self.work / "out"
        self.out.mkdir()
        torch.manual_seed(5)
        self.network = diffusers.UNet2DConditionModel(**SMALL).eval()
        self.network.save_pretrained(self.folder)

    def export(self, *arguments: str) -> dict:
        with contextlib.redirect_stdout(io.StringIO()):
            return command.run(command.parse_arguments([*arguments, "--output", str(self.out / "m.onnx"), "--quiet"]))

    def inputs(self, batch: int, tokens: int) -> dict[str, np.ndarray]:
        random = np.random.default_rng(6)
        return {
            "sample": random.standard_normal((batch, 4, 16, 16), dtype=np.float32), "timestep": random.integers(0, 1000, batch),
            "encoder_hidden_states": random.standard_normal((batch, tokens, 24), dtype=np.float32),
        }

    def expected(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            return self.network(*(torch.from_numpy(value) for value in inputs.values())).sample.numpy()

    def test_equals_pytorch_at_every_free_size(self) -> None:
        document = self.export(str(self.folder))
        self.assertEqual([each["shape"] for each in document["inputs"]], [["batch", 4, 16, 16], ["batch"], ["batch", "sequence", 24]])
        session = onnxruntime.InferenceSession(str(self.out / "m.onnx"))
        for batch, tokens in ((1, 8), (3, 21)):
            inputs = self.inputs(batch, tokens)
            expected = self.expected(inputs)
            self.assertGreater(expected.std(), 1e-2)
            np.testing.assert_allclose(session.run(["out_sample"], inputs)[0], expected, atol=2e-4)
            other = dict(inputs, timestep=inputs["timestep"] // 2)
            self.assertGreater(np.abs(session.run(None, other)[0] - expected).max(), 1e-4, "the time step must count")
        source = {prop.key: json.loads(prop.value) for prop in onnx.load(self.out / "m.onnx").metadata_props}["lathe.source"]
        inputs = self.inputs(1, 8)
        with torch.inference_mode():
            again = rebuild(source)(*(torch.from_numpy(value) for value in inputs.values()))["out_sample"].numpy()
        np.testing.assert_allclose(again, self.expected(inputs), atol=1e-6)

    def test_random_weights_and_fixed_sizes(self) -> None:
        (self.folder / "diffusion_pytorch_model.safetensors").unlink()
        with self.assertRaises(ExportError) as caught:
            self.export(str(self.folder))
        self.assertEqual(caught.exception.code, "invalid_argument")
        document = self.export(str(self.folder / "config.json"), "--random-weights", "--batch-size", "1", "--sequence-length", "7", "--input-size", "8x24")
        self.assertEqual([each["shape"] for each in document["inputs"]], [[1, 4, 8, 24], [1], [1, 7, 24]])

    def test_a_pipelines_root_gives_its_unet(self) -> None:
        root = self.work / "pipeline"
        self.network.save_pretrained(root / "unet")
        parts = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": diffusers.__version__, "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
        (root / "model_index.json").write_text(json.dumps(parts))
        for name in (str(root), f"hf/{root}", str(root / "model_index.json")):
            document = self.export(name, "--batch-size", "1", "--sequence-length", "7", "--input-size", "8")
            self.assertEqual(document["source"]["folder"], str((root / "unet").resolve()))
        (root / "unet").rename(root / "transformer")
        (self.out / "m.onnx").unlink()
        with self.assertRaises(ExportError) as caught:
            self.export(str(root))
        self.assertEqual(caught.exception.code, "unsupported")
        self.assertIn("unet, vae", caught.exception.hint)
        self.assertEqual(list(self.out.iterdir()), [])

    def test_variants_and_weights_in_several_files(self) -> None:
        inputs = self.inputs(1, 8)
        self.network.half().float()  # so that the half-precision variant has the same weights
        expected = self.expected(inputs)
        for settings, variant in (
            ({"variant": "fp16"}, "fp16"), ({"max_shard_size": "200KB"}, None), ({"max_shard_size": "200KB", "variant": "fp16"}, "fp16"),
            ({"safe_serialization": False, "variant": "fp16"}, "fp16"), ({"safe_serialization": False, "max_shard_size": "200KB"}, None),
        ):
            with self.subTest(settings):
                shutil.rmtree(self.folder)
                self.network.half().save_pretrained(self.folder, **settings)
                self.network.float()
                if "max_shard_size" in settings:
                    self.assertGreater(len(list(self.folder.glob("*-of-*"))), 1)
                document = self.export(str(self.folder))
                self.assertEqual(document["source"].get("variant"), variant)
                actual = onnxruntime.InferenceSession(str(self.out / "m.onnx")).run(["out_sample"], inputs)[0]
                np.testing.assert_allclose(actual, expected, atol=2e-4)
                with torch.inference_mode():
                    again = rebuild(document["source"])(*(torch.from_numpy(value) for value in inputs.values()))["out_sample"].numpy()
                np.testing.assert_allclose(again, expected, atol=1e-5)
        self.network.save_pretrained(self.folder)  # full precision goes before a variant
        self.assertEqual(diffusion.weights_of(self.folder).path.name, "diffusion_pytorch_model.safetensors")

    def test_weights_that_the_file_lacks(self) -> None:
        path = self.folder / "diffusion_pytorch_model.safetensors"
        tensors = safetensors.torch.load_file(path)
        del tensors["conv_in.weight"]
        safetensors.torch.save_file(tensors, path)
        with self.assertRaisesRegex(ExportError, "would be random: conv_in.weight"):
            self.export(str(self.folder))
        self.assertEqual(list(self.out.iterdir()), [])

    def test_refusals(self) -> None:
        def refused(code: str, words: str, *arguments: str) -> None:
            with self.assertRaises(ExportError) as caught:
                self.export(str(self.folder), *arguments)
            self.assertEqual(caught.exception.code, code, caught.exception.message)
            self.assertIn(words, caught.exception.message + caught.exception.hint)
            self.assertEqual(list(self.out.iterdir()), [], "nothing may be written on failure")

        refused("invalid_argument", "--pooling", "--pooling", "mean")
        refused("mismatch", "multiples of 2", "--input-size", "15x16")
        with mock.patch.dict(sys.modules, {"diffusers": None}):
            refused("unsupported", "pip install diffusers")
        config = json.loads((self.folder / "config.json").read_text())
        (self.folder / "config.json").write_text(json.dumps(config | {"addition_embed_type": "text_time"}))
        refused("unsupported", "addition_embed_type")
        (self.folder / "config.json").write_text(json.dumps(config | {"_class_name": "AutoencoderKL"}))
        refused("unsupported", "AutoencoderKL")

    def test_through_lathe(self) -> None:
        if LATHE is None:
            self.skipTest("SKIPPED: no program was named")
        self.export(str(self.folder))
        inputs = self.inputs(2, 11)
        np.savez(self.work / "inputs.npz", **inputs)

        def lathe(*arguments: str) -> str:
            done = subprocess.run([LATHE, *arguments], cwd=self.work, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        lathe("simplify", "out/m.onnx", "--output", "simple.onnx")
        lathe("build", "simple.onnx", "--precision", "fp32", "--shape", "sample:1x4x16x16..2x4x16x16..4x4x16x16", "--shape", "timestep:1..2..4",
              "--shape", "encoder_hidden_states:1x8x24..2x11x24..4x32x24", "--output", "m.engine")
        lathe("run", "m.engine", "inputs.npz", "--batch-size", "2", "--output", "outputs.npz")
        with np.load(self.work / "outputs.npz") as outputs:
            np.testing.assert_allclose(outputs["out_sample"], self.expected(inputs), atol=2e-4)

    def test_the_cuda_engine_takes_it(self) -> None:
        if LATHE is None or RUN_PLAN is None:
            self.skipTest("SKIPPED: no program that plans was named")
        self.export(str(self.folder))
        done = subprocess.run([LATHE, "simplify", "out/m.onnx", "--output", "model.onnx"], cwd=self.work, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        inputs = self.inputs(2, 11)
        for number, value in enumerate(inputs.values()):
            (self.work / f"input_{number}.pb").write_bytes(onnx.numpy_helper.from_array(value).SerializeToString())
        done = subprocess.run([RUN_PLAN, str(self.work)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr)
        # One block in each of the levels with attention, and two going up again; each attends to itself and to the text.
        self.assertEqual((done.stdout.count(" = attention"), done.stdout.count(" = softmax")), (8, 0), done.stdout[-3000:])
        planned = np.fromfile(self.work / "plan_0.f32", dtype=np.float32).reshape(2, 4, 16, 16)
        np.testing.assert_allclose(planned, self.expected(inputs), atol=5e-4)


if __name__ == "__main__":
    unittest.main()
