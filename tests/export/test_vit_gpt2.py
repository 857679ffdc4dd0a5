"""`python -m lathe_export` on ViT, GPT-2 and BERT-large: small random ones. Run: python test_vit_gpt2.py"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import numpy as np
    import onnx
    import onnxruntime
    import torch
    import transformers
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

from lathe_export import __main__ as command
from lathe_export import huggingface
from lathe_export.errors import ExportError
from lathe_export.rebuild import rebuild

VIT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 24, "patch_size": 8}
GPT2 = {"vocab_size": 50, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 49}


class Exports(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        self.folder = self.work / "model"
        self.out = self.work / "out"
        self.out.mkdir()
        torch.manual_seed(2)

    def save(self, network: transformers.PreTrainedModel) -> transformers.PreTrainedModel:
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(3)  # attention that differs from token to token
        network.save_pretrained(self.folder)
        return network.eval()

    def export(self, *arguments: str, name: str = "m") -> dict:
        with contextlib.redirect_stdout(io.StringIO()):
            return command.run(command.parse_arguments([*arguments, "--output", str(self.out / f"{name}.onnx"), "--quiet"]))

    def session(self, name: str = "m") -> onnxruntime.InferenceSession:
        return onnxruntime.InferenceSession(str(self.out / f"{name}.onnx"))

    def metadata(self, name: str = "m") -> dict:
        return {prop.key: json.loads(prop.value) for prop in onnx.load(self.out / f"{name}.onnx").metadata_props}

    def refused(self, code: str, *arguments: str) -> None:
        with self.assertRaises(ExportError) as caught:
            self.export(*arguments)
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        self.assertEqual(list(self.out.iterdir()), [], "nothing may be written on failure")


class VisionTransformers(Exports):
    def classifier(self) -> transformers.PreTrainedModel:
        names = {0: "cat", 1: "dog", 2: "hen"}
        return self.save(transformers.ViTForImageClassification(transformers.ViTConfig(**VIT, id2label=names, label2id={v: k for k, v in names.items()})))

    def test_logits_labels_and_preprocessing(self) -> None:
        network = self.classifier()
        processor = {"size": {"height": 24, "width": 24}, "resample": 3, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25], "rescale_factor": 1 / 255}
        (self.folder / "preprocessor_config.json").write_text(json.dumps(processor))
        document = self.export(str(self.folder), "--dynamic-batch")
        self.assertEqual(document["inputs"], [{"name": "pixel_values", "shape": ["batch", 3, 24, 24]}])
        self.assertEqual(len(document["check"]["inputs"]), 2)
        pictures = torch.randn(5, 3, 24, 24)
        with torch.inference_mode():
            expected = network(pictures).logits.numpy()
        self.assertGreater(np.ptp(expected, axis=0).max(), 1e-2, "the pictures must count")
        np.testing.assert_allclose(self.session().run(None, {"pixel_values": pictures.numpy()})[0], expected, atol=2e-5)
        told = self.metadata()
        self.assertEqual(told["lathe.labels"], ["cat", "dog", "hen"])
        self.assertEqual(told["lathe.preprocess"], {
            "resize": [24, 24], "interpolation": "bicubic", "scale": 1 / 255, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.25], "layout": "NCHW", "color": "RGB",
        })
        with torch.inference_mode():
            again = rebuild(told["lathe.source"])(pictures)["logits"].numpy()
        np.testing.assert_allclose(again, expected, atol=1e-5)

    def test_preprocessing_equals_the_image_processor(self) -> None:
        self.classifier()
        processor = transformers.ViTImageProcessor(size={"height": 24, "width": 24})
        processor.save_pretrained(self.folder)
        self.export(str(self.folder))
        told = self.metadata()["lathe.preprocess"]
        from PIL import Image

        picture = Image.fromarray(np.random.default_rng(4).integers(0, 256, (40, 31, 3), dtype=np.uint8))
        height, width = told["resize"]
        resized = np.asarray(picture.resize((width, height), {"bilinear": 2, "bicubic": 3}[told["interpolation"]]), dtype=np.float64)
        ours = ((resized * told["scale"] - told["mean"]) / told["std"]).transpose(2, 0, 1)
        theirs = processor(picture, return_tensors="np")["pixel_values"][0]
        self.assertLess(np.abs(ours - theirs).max(), 1.01 / 255 / 0.5)  # one level of the resize's rounding

    def test_configuration_alone(self) -> None:
        self.folder.mkdir()
        transformers.ViTConfig(**VIT).save_pretrained(self.folder)
        self.refused("invalid_argument", str(self.folder))
        self.refused("invalid_argument", str(self.folder), "--random-weights", "--pooling", "mean")
        self.refused("invalid_argument", str(self.folder), "--random-weights", "--input-size", "32")
        for exporter in ("torchscript", "dynamo"):
            document = self.export(str(self.folder), "--random-weights", "--batch-size", "3", "--exporter", exporter)
            self.assertEqual(document["outputs"], [{"name": "last_hidden_state", "example_shape": [3, 10, 16]}])
            self.assertIsNone(self.metadata().get("lathe.labels"))
            self.assertEqual(self.metadata()["lathe.preprocess"]["mean"], [0.5, 0.5, 0.5])

    def test_kin_of_vit(self) -> None:
        names = {0: "cat", 1: "dog", 2: "hen"}
        windows = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [2, 2], "num_heads": [1, 2], "window_size": 2}
        processor = {"size": {"height": 40, "width": 40}, "do_center_crop": True, "resample": 3, "image_mean": [0.4, 0.5, 0.6], "image_std": [0.2, 0.3, 0.25]}
        for kind, settings in (
            ("DeiTForImageClassification", VIT), ("DeiTForImageClassificationWithTeacher", VIT), ("BeitForImageClassification", VIT | {"use_relative_position_bias": True}),
            ("Dinov2ForImageClassification", VIT), ("SwinForImageClassification", windows), ("SwinModel", windows),
        ):
            with self.subTest(kind):
                shutil.rmtree(self.folder, ignore_errors=True)
                made = getattr(transformers, kind)
                network = self.save(made(made.config_class(**settings, id2label=names)))
                size = settings["image_size"]
                self.export(str(self.folder), "--dynamic-batch")
                self.assertNotIn("lathe.preprocess", self.metadata(), "ViT's own defaults are not these networks'")
                (self.folder / "preprocessor_config.json").write_text(json.dumps(processor | {"crop_size": size}))
                self.export(str(self.folder), "--dynamic-batch")
                told = self.metadata()
                self.assertEqual((told["lathe.preprocess"]["resize"], told["lathe.preprocess"]["crop"]), ([40, 40], [size, size]))
                self.assertEqual(told.get("lathe.labels"), list(names.values()) if "Classification" in kind else None)
                pictures = torch.randn(5, 3, size, size)
                with torch.inference_mode():
                    result = network(pictures)
                expected = (result.logits if "logits" in result else result.last_hidden_state).numpy()
                np.testing.assert_allclose(self.session().run(None, {"pixel_values": pictures.numpy()})[0], expected, atol=3e-5 * np.abs(expected).max())

    def test_weights_that_the_folder_lacks(self) -> None:
        self.save(transformers.ViTModel(transformers.ViTConfig(**VIT)))
        config = json.loads((self.folder / "config.json").read_text())
        (self.folder / "config.json").write_text(json.dumps(config | {"architectures": ["ViTForImageClassification"]}))
        self.refused("mismatch", str(self.folder))

    def test_a_processor_that_lathe_cannot_follow(self) -> None:
        self.classifier()
        for settings, code in (({"resample": 1}, "unsupported"), ({"do_resize": False}, "unsupported"), ({"size": 32}, "mismatch")):
            (self.folder / "preprocessor_config.json").write_text(json.dumps(settings))
            self.refused(code, str(self.folder))


class Decoders(Exports):
    def decoder(self) -> transformers.PreTrainedModel:
        return self.save(transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2)))

    def generate(self, prompts: list[list[int]], count: int) -> np.ndarray:
        """Greedy tokens by the two graphs, for prompts padded in front."""
        prefill, decode = self.session("prefill"), self.session("decode")
        width = max(map(len, prompts))
        mask = np.array([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], dtype=np.int64)
        tokens = np.array([[0] * (width - len(prompt)) + prompt for prompt in prompts], dtype=np.int64)
        places = np.maximum(mask.cumsum(1) - 1, 0)
        names = [value.name for value in prefill.get_outputs()]
        outputs = dict(zip(names, prefill.run(None, {"input_ids": tokens, "attention_mask": mask, "position_ids": places})))
        made = []
        while True:
            made.append(outputs["logits"].argmax(-1))
            if len(made) == count:
                return np.stack(made, axis=1)
            mask = np.concatenate([mask, np.ones_like(mask[:, :1])], axis=1)
            places = places[:, -1:] + 1
            past = {name.replace("present", "past_key_values"): value for name, value in outputs.items() if name != "logits"}
            given = {"input_ids": made[-1][:, None], "attention_mask": mask, "position_ids": places, **past}
            outputs = dict(zip(names, decode.run(names, given)))

    def compare_generation(self, exporter: str) -> None:
        network = self.decoder()
        for phase in ("prefill", "decode"):
            document = self.export(str(self.folder), "--phase", phase, "--exporter", exporter, name=phase)
            self.assertEqual(len(document["check"]["inputs"]), 3)
            self.assertEqual([entry["name"] for entry in document["outputs"]], ["logits"] + [f"present.{i}.{kind}" for i in range(2) for kind in ("key", "value")])
        shapes = {entry["name"]: entry["shape"] for entry in document["inputs"]}
        self.assertEqual(shapes["input_ids"], ["batch", 1])
        self.assertEqual(shapes["attention_mask"], ["batch", "past_sequence + 1"])
        self.assertEqual(shapes["past_key_values.1.value"], ["batch", 2, "past_sequence", 8])
        prompts = [[5, 9, 2, 30, 7, 11], [17, 3], [8]]
        made = self.generate(prompts, 8)
        network.generation_config.eos_token_id = None
        for row, prompt in enumerate(prompts):
            expected = network.generate(torch.tensor([prompt]), max_new_tokens=8, do_sample=False, pad_token_id=0)
            self.assertEqual(made[row].tolist(), expected[0, len(prompt):].tolist(), f"prompt {prompt}")
        self.assertGreater(len(set(made.ravel().tolist())), 2, "tokens that differ, or the comparison says little")

    def test_greedy_tokens_equal_generate(self) -> None:
        self.compare_generation("torchscript")

    def test_greedy_tokens_equal_generate_by_the_dynamo_exporter(self) -> None:
        self.compare_generation("dynamo")

    def test_fixed_sizes_and_rebuild(self) -> None:
        self.decoder()
        document = self.export(str(self.folder), "--phase", "decode", "--batch-size", "2", "--sequence-length", "7")
        self.assertEqual(document["inputs"][1]["shape"], [2, 8])
        self.assertEqual(document["inputs"][3]["shape"], [2, 2, 7, 8])
        source = self.metadata()["lathe.source"]
        generator = np.random.default_rng(6)
        given = {
            "input_ids": np.array([[3], [4]]), "attention_mask": np.ones((2, 8), dtype=np.int64), "position_ids": np.array([[7], [7]]),
            **{f"past_key_values.{i}.{kind}": generator.normal(size=(2, 2, 7, 8)).astype(np.float32) for i in range(2) for kind in ("key", "value")},
        }
        with torch.inference_mode():
            expected = rebuild(source)(*(torch.from_numpy(value) for value in given.values()))
        for value, output in zip(self.session().run(list(expected), given), expected.values()):
            np.testing.assert_allclose(value, output.numpy(), atol=2e-5)

    def test_a_body_alone_has_the_tied_head(self) -> None:
        network = self.save(transformers.GPT2Model(transformers.GPT2Config(**GPT2)))
        self.export(str(self.folder))
        tokens = np.array([[3, 9, 4]])
        with torch.inference_mode():
            expected = (network(torch.from_numpy(tokens)).last_hidden_state[:, -1] @ network.wte.weight.T).numpy()
        given = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "position_ids": np.arange(3)[None]}
        np.testing.assert_allclose(self.session().run(["logits"], given)[0], expected, atol=3e-5 * np.abs(expected).max())

    def test_a_classifier_is_no_language_model(self) -> None:
        self.save(transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**GPT2, num_labels=3, pad_token_id=0)))
        self.refused("invalid_argument", str(self.folder), "--phase", "decode")
        document = self.export(str(self.folder))
        self.assertEqual(document["outputs"], [{"name": "logits", "example_shape": [2, 3]}])

    def test_refusals(self) -> None:
        self.decoder()
        self.refused("invalid_argument", str(self.folder), "--pooling", "mean")
        self.refused("out_of_range", str(self.folder), "--sequence-length", "41")
        self.refused("invalid_argument", "resnet18", "--random-weights", "--phase", "decode")
        self.refused("invalid_argument", "gpt2")


class BertLarge(Exports):
    def test_its_proportions_in_small(self) -> None:
        """BERT-large's heads of 64 over 16 heads need width 1,024: here one layer of it, so that the sizes are its own."""
        kind, settings = huggingface.CONFIGURATIONS["bert-large"]
        self.folder.mkdir()
        sizes = {**settings, "num_hidden_layers": 1, "vocab_size": 40, "max_position_embeddings": 64}
        getattr(transformers, kind)(**sizes).save_pretrained(self.folder)
        document = self.export(str(self.folder), "--random-weights")
        self.assertEqual(document["outputs"][0]["example_shape"][-1], 1024)
        self.assertEqual(len(document["check"]["inputs"]), 3)


if __name__ == "__main__":
    unittest.main()
