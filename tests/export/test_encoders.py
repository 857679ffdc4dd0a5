"""`python -m lathe_export` on text encoders: small random ones, MiniLM's tokenizer. Run: python test_encoders.py [SHARED]"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shutil
import sys
import tempfile
import unittest
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

try:
    import numpy as np
    import onnx
    import onnxruntime
    import openvino
    import openvino_tokenizers
    import safetensors.torch
    import tokenizers as tokenizers_package
    import torch
    import transformers
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

from lathe_export import __main__ as command
from lathe_export import encoders, huggingface, sentences, tokenizer_check
from lathe_export import tokenizer as tokenizers
from lathe_export.errors import ExportError
from lathe_export.rebuild import rebuild

SHARED = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else Path(__file__).resolve().parents[3] / "shared/data"
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] the film quiet moving a".split()
SIZES = {"vocab_size": len(WORDS), "max_position_embeddings": 40}
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 0}
LONG = BERT | {"vocab_size": len(WORDS), "max_position_embeddings": 100, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
# Networks that make their own mask of the plain one: class, configuration.
MASK_MAKERS = {
    "deberta": ("DebertaModel", LONG | RELATIVE),
    "deberta-v2": ("DebertaV2Model", LONG | RELATIVE | {"position_buckets": 8, "share_att_key": True, "norm_rel_ebd": "layer_norm"}),
    "deberta-v2, classifier": ("DebertaV2ForSequenceClassification", LONG | RELATIVE | {"num_labels": 3}),
    "llama": ("LlamaModel", LONG),
    "qwen2": ("Qwen2Model", LONG | {"num_key_value_heads": 1}),
    "qwen2, classifier": ("Qwen2ForSequenceClassification", LONG | {"num_key_value_heads": 2, "num_labels": 3}),
    "gpt_neox": ("GPTNeoXModel", LONG),
    "gpt2, classifier": ("GPT2ForSequenceClassification", {"vocab_size": len(WORDS), "n_positions": 100, "n_embd": 16, "n_layer": 2, "n_head": 2, "num_labels": 3, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}),
    "clip_text_model": ("CLIPTextModel", LONG),
    # The window is longer than the short samples: it shows in long ones alone.
    "modernbert": ("ModernBertModel", LONG | {"local_attention": 48, "cls_token_id": 2, "sep_token_id": 3}),
    "bert as decoder": ("BertModel", LONG | {"is_decoder": True}),
}


class Encoders(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.work = Path(temporary.name)
        self.folder = self.work / "model"
        self.output = self.work / "out" / "m.onnx"
        self.output.parent.mkdir()
        torch.manual_seed(2)

    def save(self, network: transformers.PreTrainedModel, tokenizer: bool = True) -> transformers.PreTrainedModel:
        with torch.no_grad():
            for value in network.parameters():
                value.mul_(3)  # attention that differs from token to token
        network.save_pretrained(self.folder)
        if tokenizer:
            (self.folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
            transformers.BertTokenizerFast(vocab=str(self.folder / "vocab.txt"), model_max_length=40).save_pretrained(self.folder)
        return network.eval()

    def bert(self) -> transformers.PreTrainedModel:
        return self.save(transformers.BertModel(transformers.BertConfig(**SIZES, **BERT), add_pooling_layer=False))

    def export(self, *arguments: str) -> dict:
        with contextlib.redirect_stdout(io.StringIO()):
            return command.run(command.parse_arguments([*arguments, "--output", str(self.output), "--quiet"]))

    def refused(self, code: str, *arguments: str) -> None:
        with self.assertRaises(ExportError) as caught:
            self.export(*arguments)
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        self.assertEqual(list(self.output.parent.iterdir()), [], "nothing may be written on failure")

    def metadata(self) -> dict:
        return {prop.key: json.loads(prop.value) for prop in onnx.load(self.output).metadata_props}

    def run_onnx(self, inputs: dict[str, np.ndarray]) -> np.ndarray:
        return onnxruntime.InferenceSession(str(self.output)).run(None, inputs)[0]

    @staticmethod
    def tokens(lengths: list[int], width: int) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(1)
        mask = (np.arange(width)[None, :] < np.array(lengths)[:, None]).astype(np.int64)
        ids = generator.integers(1, len(WORDS), mask.shape) * mask
        return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}

    def test_hidden_states_equal_the_networks_own(self) -> None:
        network = self.bert()
        document = self.export(str(self.folder))
        self.assertEqual(len(document["check"]["inputs"]), 3)
        graph = onnx.load(self.output).graph
        self.assertEqual([value.name for value in graph.input], ["input_ids", "attention_mask", "token_type_ids"])
        for value in graph.input:
            self.assertEqual([dim.dim_param for dim in value.type.tensor_type.shape.dim], ["batch", "sequence"])
        inputs = self.tokens([7, 3, 1], 7)
        with torch.inference_mode():
            expected = network(**{name: torch.from_numpy(value) for name, value in inputs.items()}).last_hidden_state.numpy()
        actual = self.run_onnx(inputs)
        for row, length in enumerate([7, 3, 1]):  # what stands at padding nobody reads
            np.testing.assert_allclose(actual[row, :length], expected[row, :length], atol=2e-5)

    def test_padding_changes_nothing(self) -> None:
        self.bert()
        self.export(str(self.folder), "--pooling", "mean", "--normalize")
        inputs = self.tokens([9, 4, 1], 12)
        together = self.run_onnx(inputs)
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
        for row, length in enumerate([9, 4, 1]):
            alone = self.run_onnx({name: value[row : row + 1, :length] for name, value in inputs.items()})
            np.testing.assert_allclose(together[row], alone[0], atol=1e-6)
        other = inputs | {"attention_mask": np.ones_like(inputs["attention_mask"])}
        self.assertGreater(np.abs(self.run_onnx(other) - together).max(), 1e-3, "the mask must count")

    def test_pooling_head_and_rebuild(self) -> None:
        network = self.bert()
        weights = np.random.default_rng(3).normal(size=17)
        np.savez(self.work / "head.npz", w=weights)
        self.export(str(self.folder), "--pooling", "cls", "--head", str(self.work / "head.npz"))
        inputs = self.tokens([5, 8], 8)
        logits = self.run_onnx(inputs)
        with torch.inference_mode():
            hidden = network(**{name: torch.from_numpy(value) for name, value in inputs.items()}).last_hidden_state.numpy()
        np.testing.assert_allclose(logits[:, 1] - logits[:, 0], hidden[:, 0] @ weights[:-1] + weights[-1], atol=1e-4)
        source = self.metadata()["lathe.source"]
        with torch.inference_mode():
            again = rebuild(source)(**{name: torch.from_numpy(value) for name, value in inputs.items()})["logits"].numpy()
        np.testing.assert_allclose(again, logits, atol=1e-5)
        self.assertEqual(self.metadata()["lathe.tokenizer"]["pairs"], "joint")
        (self.work / "head.npz").write_bytes(b"changed")
        with self.assertRaisesRegex(ExportError, "changed since"):
            rebuild(source)

    def test_classifiers_and_distilbert(self) -> None:
        config = transformers.DistilBertConfig(**SIZES, dim=16, n_layers=2, n_heads=2, hidden_dim=32, num_labels=3, architectures=["DistilBertForSequenceClassification"])
        network = self.save(transformers.DistilBertForSequenceClassification(config))
        document = self.export(str(self.folder))
        self.assertEqual([entry["name"] for entry in document["inputs"]], ["input_ids", "attention_mask"])
        inputs = self.tokens([6, 2], 6)
        del inputs["token_type_ids"]
        with torch.inference_mode():
            expected = network(**{name: torch.from_numpy(value) for name, value in inputs.items()}).logits.numpy()
        np.testing.assert_allclose(self.run_onnx(inputs), expected, atol=2e-5)

    def own_results(self, network: transformers.PreTrainedModel, inputs: dict[str, np.ndarray]) -> np.ndarray:
        with torch.inference_mode():
            result = network(**{name: torch.from_numpy(value) for name, value in inputs.items()})
        return (result.logits if "logits" in result else result.last_hidden_state).numpy()

    def test_networks_that_make_their_own_mask(self) -> None:
        for kind, (name, settings) in MASK_MAKERS.items():
            for exporter in ("torchscript", "dynamo") if kind == "modernbert" else ("torchscript",):
                with self.subTest(kind, exporter=exporter):
                    shutil.rmtree(self.folder, ignore_errors=True)
                    made = getattr(transformers, name)
                    self.save(made(made.config_class(**settings)), tokenizer=False)
                    document = self.export(str(self.folder), "--exporter", exporter)
                    self.assertEqual([entry["name"] for entry in document["inputs"]][:2], ["input_ids", "attention_mask"])
                    # As people use it, with the attention that transformers chooses.
                    network = made.from_pretrained(self.folder).eval()
                    for lengths, width in (([80, 33, 1], 80), ([5], 5)):
                        inputs = {key: value for key, value in self.tokens(lengths, width).items() if key in [entry["name"] for entry in document["inputs"]]}
                        expected, actual = self.own_results(network, inputs), self.run_onnx(inputs)
                        self.assertEqual(actual.shape, expected.shape)
                        for row, length in enumerate(lengths):
                            kept = slice(length) if expected.ndim == 3 else slice(None)
                            np.testing.assert_allclose(actual[row][kept], expected[row][kept], atol=3e-5 * np.abs(expected).max())

    def test_pooling_over_a_mask_maker(self) -> None:
        made = transformers.ModernBertModel
        network = self.save(made(made.config_class(**MASK_MAKERS["modernbert"][1])), tokenizer=False)
        self.export(str(self.folder), "--pooling", "mean", "--normalize")
        inputs = self.tokens([90, 4], 90)
        del inputs["token_type_ids"]
        hidden = self.own_results(network, inputs)
        means = np.stack([hidden[row, :length].mean(0) for row, length in enumerate([90, 4])])
        np.testing.assert_allclose(self.run_onnx(inputs), means / np.linalg.norm(means, axis=1, keepdims=True), atol=1e-5)

    def test_networks_that_add_their_mask_are_given_it_ready(self) -> None:
        for name in ("Bert", "Roberta", "XLMRoberta", "Albert", "Electra", "MPNet"):
            config = getattr(transformers, f"{name}Config")(**SIZES, **BERT, pad_token_id=1)
            module = encoders.Encoder(getattr(transformers, f"{name}Model")(config).eval())
            module.makes_mask = True
            encoders.choose_mask(module)
            self.assertFalse(module.makes_mask, name)

    def test_networks_that_are_no_text_encoders(self) -> None:
        sizes = {"vocab_size": 10, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
        for config, words in (
            (transformers.T5Config(vocab_size=10, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2), '"t5" has an encoder and a decoder'),
            (transformers.BartConfig(**sizes, architectures=["BartForSequenceClassification"]), '"bart" has an encoder and a decoder'),
            (transformers.ConvNextConfig(hidden_sizes=[8] * 4, depths=[1] * 4), '"convnext" is no text encoder'),
            (transformers.CLIPConfig(), '"clip" is no text encoder'),
            (transformers.GPT2Config(vocab_size=10, n_positions=20, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0, architectures=["GPT2ForSequenceClassification"]), "Cannot handle batch sizes"),
        ):
            config.save_pretrained(self.folder)
            with self.assertRaises(ExportError) as caught:
                self.export(str(self.folder), "--random-weights")
            self.assertEqual(caught.exception.code, "unsupported")
            self.assertIn(words, caught.exception.message)
            self.assertIn("DeiT", caught.exception.hint)
            self.assertEqual(list(self.output.parent.iterdir()), [])

    def test_networks_without_a_constant_result_are_refused(self) -> None:
        module = encoders.Encoder(transformers.BertModel(transformers.BertConfig(**SIZES, **BERT)).train())
        with self.assertRaisesRegex(ExportError, "other results each time"):
            encoders.choose_mask(module)

    def test_class_names(self) -> None:
        names = {0: "bad", 1: "so-so", 2: "good"}
        for kind, settings, pooling, expected in (
            ("SequenceClassification", {"id2label": names}, (), list(names.values())),
            ("SequenceClassification", {"num_labels": 3}, (), None),  # LABEL_0 is no name
            ("SequenceClassification", {"id2label": names}, ("--random-weights",), None),
            ("TokenClassification", {"id2label": names}, (), None),  # scores of tokens
            ("", {"id2label": names}, (), None),
            ("", {"id2label": {i: f"dimension {i}" for i in range(16)}}, ("--pooling", "mean"), None),  # an embedding has no classes
        ):
            with self.subTest(kind, settings=settings, pooling=pooling):
                shutil.rmtree(self.folder, ignore_errors=True)
                made = getattr(transformers, f"BertFor{kind}" if kind else "BertModel")
                self.save(made(transformers.BertConfig(**SIZES, **BERT, **settings)))
                document = self.export(str(self.folder), *pooling)
                self.assertEqual(self.metadata().get("lathe.labels"), expected)
                self.assertEqual(document["labels"], len(expected or []))
        np.savez(self.work / "head.npz", w=np.ones(17))
        self.save(transformers.BertModel(transformers.BertConfig(**SIZES, **BERT, id2label={0: "no", 1: "yes"})))
        self.export(str(self.folder), "--pooling", "mean", "--head", str(self.work / "head.npz"))
        self.assertNotIn("lathe.labels", self.metadata(), "the head's classes are not the configuration's")

    def test_weights_that_the_folder_lacks(self) -> None:
        def with_architecture(name: str) -> None:
            config = json.loads((self.folder / "config.json").read_text())
            (self.folder / "config.json").write_text(json.dumps(config | {"architectures": [name]}))

        self.bert()
        self.export(str(self.folder))  # it lacks a pooler, which nothing reads
        self.output.unlink()
        with_architecture("BertForQuestionAnswering")
        self.refused("mismatch", str(self.folder))
        with_architecture("BertForSequenceClassification")
        with self.assertRaisesRegex(ExportError, "classifier.weight, classifier.bias") as caught:
            self.export(str(self.folder))
        self.assertIn("bert.pooler.dense.bias", caught.exception.message)
        self.assertIn("architectures", caught.exception.hint)
        self.export(str(self.folder), "--random-weights")
        self.output.unlink()
        weights = self.folder / "model.safetensors"
        tensors = safetensors.torch.load_file(weights)
        del tensors["encoder.layer.1.output.dense.weight"]
        safetensors.torch.save_file(tensors, weights, metadata={"format": "pt"})
        with_architecture("BertModel")
        with self.assertRaisesRegex(ExportError, "random: encoder.layer.1.output.dense.weight"):
            self.export(str(self.folder))
        self.assertEqual(list(self.output.parent.iterdir()), [])

    def test_weights_below_a_pretraining_head(self) -> None:
        config = transformers.BertConfig(**SIZES, **BERT)
        network = self.save(transformers.BertForMaskedLM(config))  # its decoder is tied to the embeddings, the body has no pooler
        self.export(str(self.folder))
        inputs = self.tokens([5], 5)
        with torch.inference_mode():
            expected = network.bert(**{name: torch.from_numpy(value) for name, value in inputs.items()}).last_hidden_state.numpy()
        np.testing.assert_allclose(self.run_onnx(inputs), expected, atol=2e-5)

    def sentence_transformer(self, *kinds: str, pooling: dict[str, Any] | None = None) -> transformers.PreTrainedModel:
        network = self.bert()
        modules = [{"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(["Transformer", *kinds])]
        (self.folder / "modules.json").write_text(json.dumps(modules))
        (self.folder / "1_Pooling").mkdir(exist_ok=True)
        (self.folder / "1_Pooling/config.json").write_text(json.dumps(pooling or {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}))
        return network

    def test_pooling_of_sentence_transformers(self) -> None:
        cls = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        for kinds, pooling, arguments, expected in (
            (("Pooling", "Normalize"), None, (), ("mean", True)),
            (("Pooling", "Dropout"), None, (), ("mean", False)),
            (("Pooling",), None, ("--normalize",), ("mean", True)),
            (("Pooling",), cls, (), ("cls", False)),
            (("Pooling",), {"pooling_mode": "cls"}, (), ("cls", False)),
            (("Pooling", "Normalize"), None, ("--pooling", "cls"), ("cls", False)),
            (("Pooling", "Dense"), None, ("--pooling", "none"), ("none", False)),
            ((), None, (), ("none", False)),
        ):
            with self.subTest(kinds=kinds, pooling=pooling, arguments=arguments):
                network = self.sentence_transformer(*kinds, pooling=pooling)
                self.export(str(self.folder), *arguments)
                source = self.metadata()["lathe.source"]
                self.assertEqual((source["pooling"], source["normalize"]), expected)
                inputs = self.tokens([7, 3], 7)
                hidden = self.own_results(network, inputs)
                if expected[0] != "none":
                    hidden = np.stack([hidden[row, :length].mean(0) if expected[0] == "mean" else hidden[row, 0] for row, length in enumerate([7, 3])])
                    hidden = hidden / np.linalg.norm(hidden, axis=1, keepdims=True) if expected[1] else hidden
                    np.testing.assert_allclose(self.run_onnx(inputs), hidden, atol=2e-5)
                    self.assertEqual(self.metadata()["lathe.tokenizer"]["pairs"], "separate")

    def test_what_sentence_transformers_do_and_lathe_does_not(self) -> None:
        self.sentence_transformer("Pooling", "Dense", "Normalize")
        self.refused("unsupported", str(self.folder))
        self.refused("unsupported", str(self.folder), "--pooling", "mean")
        for pooling in ({"pooling_mode_max_tokens": True}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, {"pooling_mode": "lasttoken"}, {"no": "mode"}):
            self.sentence_transformer("Pooling", pooling=pooling)
            self.refused("unsupported", str(self.folder))
        for text in ("", "[", "[1]", "{}", '[{"type": 1}]'):
            (self.folder / "modules.json").write_text(text)
            if text == "{}":
                self.export(str(self.folder))  # no modules
                self.output.unlink()
            else:
                self.refused("parse_error", str(self.folder))

    def test_pooling_that_differs_from_sentence_transformers_is_told(self) -> None:
        self.sentence_transformer("Pooling", "Normalize")
        for pooling, normalize, words in (("cls", True, "warning: modules.json says --pooling mean --normalize"), ("mean", False, "warning"), ("mean", True, ""), (None, False, "pooling mean, normalised")):
            told: list[str] = []
            sentences.resolve(self.folder, pooling, normalize, told.append)
            self.assertEqual(len(told), bool(words))
            self.assertTrue("".join(told).startswith(words), told)

    def test_a_classifier_is_not_pooled(self) -> None:
        self.sentence_transformer("Pooling")
        self.save(transformers.BertForSequenceClassification(transformers.BertConfig(**SIZES, **BERT, num_labels=3)))
        document = self.export(str(self.folder))
        self.assertEqual((document["source"]["pooling"], document["outputs"][0]["name"]), ("none", "logits"))
        self.output.unlink()
        self.refused("invalid_argument", str(self.folder), "--pooling", "mean")

    def test_configuration_alone(self) -> None:
        self.folder.mkdir()
        transformers.BertConfig(**SIZES, **BERT).save_pretrained(self.folder)
        self.refused("invalid_argument", str(self.folder))
        document = self.export(str(self.folder), "--random-weights", "--seed", "5", "--batch-size", "2", "--sequence-length", "8")
        self.assertEqual(document["inputs"][0]["shape"], [2, 8])
        self.assertIsNone(document["tokenizer"])
        self.assertEqual(self.metadata()["lathe.source"]["random_seed"], 5)
        self.assertNotIn("lathe.tokenizer", self.metadata())

    def test_a_local_folder_goes_before_known_names(self) -> None:
        network = self.bert()
        inputs = self.tokens([5], 5)
        with torch.inference_mode():
            expected = network(**{name: torch.from_numpy(value) for name, value in inputs.items()}).last_hidden_state.numpy()
        for place, names in {
            "gpt2": ("gpt2", "./gpt2", "./gpt2/", "hf/gpt2", "gpt2/config.json"), "hf/mine": ("hf/mine", "./hf/mine"), "all-minilm-l6-v2": ("all-minilm-l6-v2", "hf/all-minilm-l6-v2"),
            "hf/bert-base": ("hf/bert-base",),
        }.items():
            shutil.copytree(self.folder, self.work / "here" / place)
            for name in names:
                with contextlib.chdir(self.work / "here"):
                    self.export(name, "--pooling", "none")
                np.testing.assert_allclose(self.run_onnx(inputs), expected, atol=2e-5, err_msg=name)
                source = self.metadata()["lathe.source"]
                with torch.inference_mode():  # from another folder, where the name says nothing, or something else
                    again = rebuild(source)(**{key: torch.from_numpy(value) for key, value in inputs.items()})["last_hidden_state"].numpy()
                np.testing.assert_allclose(again, expected, atol=1e-5, err_msg=name)
        self.output.unlink()
        (self.work / "here/gpt2/config.json").unlink()
        with contextlib.chdir(self.work / "here"):  # a folder without a model is none
            self.refused("invalid_argument", "gpt2")
            self.refused("not_found", "hf/nothing")

    def test_refusals(self) -> None:
        self.bert()
        np.savez(self.work / "short.npz", w=np.zeros(5))
        folder = str(self.folder)
        self.refused("invalid_argument", folder, "--normalize")
        self.refused("mismatch", folder, "--pooling", "mean", "--head", str(self.work / "short.npz"))
        self.refused("not_found", folder, "--pooling", "mean", "--head", str(self.work / "none.npz"))
        self.refused("invalid_argument", folder, "--weights", str(self.folder / "model.safetensors"))
        self.refused("invalid_argument", "resnet18", "--random-weights", "--pooling", "mean")
        self.refused("not_found", "hf/" + str(self.work / "nothing"))
        self.refused("invalid_argument", "bert-base")

    def unigram(self, *normalizers: Any, split: bool) -> Any:
        """A Unigram tokenizer as XLM-R, T5 and ALBERT have it, in the model's folder; `split` at spaces first."""
        learner = tokenizers_package.Tokenizer(tokenizers_package.models.Unigram())
        learner.normalizer = tokenizers_package.normalizers.Sequence([tokenizers_package.normalizers.NFKC(), *normalizers])
        pre = tokenizers_package.pre_tokenizers
        learner.pre_tokenizer = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace()]) if split else pre.Metaspace()
        specials = ["<s>", "<pad>", "</s>", "<unk>"]
        learner.train_from_iterator(
            ["the quiet film is moving", "a moving film, and the best of all! isn't it?", "naïve café 123"] * 20,
            tokenizers_package.trainers.UnigramTrainer(vocab_size=90, special_tokens=specials, unk_token="<unk>", show_progress=False),
        )
        learner.post_processor = tokenizers_package.processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=learner, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", model_max_length=40)
        tokenizer.save_pretrained(self.folder)
        return tokenizer

    def roberta(self, **settings: Any) -> None:
        self.save(transformers.RobertaModel(transformers.RobertaConfig(**BERT, **{"vocab_size": 100, "max_position_embeddings": 42, "pad_token_id": 1} | settings)), tokenizer=False)

    def compiled(self, kind: str) -> Any:
        packed = self.metadata()["lathe.tokenizer"][kind]
        for name, suffix in (("xml", ".xml"), ("weights", ".bin")):
            (self.work / kind).with_suffix(suffix).write_bytes(zlib.decompress(base64.b64decode(packed[name])))
        return openvino.Core().compile_model(str(self.work / f"{kind}.xml"), "CPU")

    def test_unigram_behind_a_split_at_spaces(self) -> None:
        self.roberta()
        own = self.unigram(split=True)
        self.export(str(self.folder))
        single, pair = self.compiled("single"), self.compiled("pair")
        written = self.metadata()["lathe.tokenizer"]["huggingface"]
        self.assertEqual((written["truncation"], written["padding"], written["pre_tokenizer"]["type"]), (None, None, "Sequence"), "as in the folder")
        for text in (" the  film ", "\tthe\r\nfilm\u3000", "", " ", "the\u2028film", "  a", "moving film " * 30):
            self.assertEqual(single([text])["input_ids"][0].tolist(), own(text, truncation=True)["input_ids"], ascii(text))
            self.assertEqual(pair([[text], ["a\tb "]])["input_ids"][0].tolist(), own(text, "a\tb ", truncation=True)["input_ids"], ascii(text))

    def test_a_tokenizer_whose_graph_gives_other_tokens(self) -> None:
        self.roberta()
        self.unigram(split=False)  # it keeps two spaces, OpenVINO Tokenizers makes one of them
        with self.assertRaises(ExportError) as caught:
            self.export(str(self.folder))
        self.assertEqual(caught.exception.code, "unsupported")
        self.assertRegex(caught.exception.message, r"for '  two  inside  ': \[.*\] in place of \[")
        self.assertIn("--no-tokenizer", caught.exception.hint)
        self.assertEqual(list(self.output.parent.iterdir()), [])
        self.export(str(self.folder), "--no-tokenizer")

    def test_the_check_sees_pairs_types_and_what_is_cut(self) -> None:
        self.bert()
        own = tokenizers.load(self.folder)
        for count, length, change in ((1, 40, {}), (2, 40, {}), (1, 20, {"length": 21}), (2, 20, {"types": True})):
            own.model_max_length = length
            converted = openvino_tokenizers.convert_tokenizer(own, number_of_inputs=count, truncation=True)

            def changed(*texts: str, truncation: bool, max_length: int) -> dict[str, list[int]]:
                told = own(*texts, truncation=truncation, max_length=change.get("length", max_length))
                return told | ({"token_type_ids": [0] * len(told["input_ids"])} if "types" in change else {})

            if not change:
                tokenizer_check.refuse_differences(converted, changed, length, "")
                continue
            with self.assertRaisesRegex(ExportError, "token_type_ids" if "types" in change else "input_ids"):
                tokenizer_check.refuse_differences(converted, changed, length, "")

    def test_sentencepiece_alone(self) -> None:
        for name in tokenizers.SENTENCEPIECE:
            with self.subTest(name):
                shutil.rmtree(self.folder, ignore_errors=True)
                self.save(transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**SIZES, **BERT)), tokenizer=False)
                (self.folder / name).write_bytes(b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02")
                with self.assertRaises(ExportError) as caught:
                    self.export(str(self.folder))
                self.assertIn(name, caught.exception.message)
                self.assertIn("--no-tokenizer", caught.exception.hint)
                self.assertEqual(list(self.output.parent.iterdir()), [])
                self.assertIsNone(self.export(str(self.folder), "--no-tokenizer")["tokenizer"])
                self.output.unlink()

    def test_ids_beyond_the_vocabulary(self) -> None:
        self.bert()
        tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        tokenizer.add_tokens(["[extra]"])
        tokenizer.save_pretrained(self.folder)
        with self.assertRaisesRegex(ExportError, rf'"\[extra\]" has the id {len(WORDS)}, the model\'s vocabulary ends at {len(WORDS) - 1}'):
            self.export(str(self.folder))
        self.refused("mismatch", str(self.folder))

    def test_lower_casing_outside_the_tokenizer(self) -> None:
        self.roberta()
        self.unigram(split=True)
        (self.folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": true}')
        self.refused("unsupported", str(self.folder))
        shutil.rmtree(self.folder)
        self.bert()  # whose tokenizer lower-cases
        (self.folder / "sentence_bert_config.json").write_text('{"max_seq_length": 20, "do_lower_case": true}')
        self.assertEqual(self.export(str(self.folder))["tokenizer"]["max_length"], 20)

    def test_padding_that_the_network_reads(self) -> None:
        def classifier(pad_token_id: int) -> None:
            shutil.rmtree(self.folder, ignore_errors=True)
            sizes = {"vocab_size": 100, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 2}
            self.save(transformers.GPT2ForSequenceClassification(transformers.GPT2Config(**sizes, num_labels=3, pad_token_id=pad_token_id)), tokenizer=False)
            self.unigram(split=True)

        classifier(5)  # the tokenizer pads with 1
        self.refused("mismatch", str(self.folder))
        classifier(1)
        self.export(str(self.folder))
        self.assertEqual(self.metadata()["lathe.tokenizer"]["pad_id"], 1)
        self.roberta(pad_token_id=5)  # masked padding counts for nothing
        self.unigram(split=True)
        self.export(str(self.folder))

    def test_minilms_tokens_equal_its_own_tokenizers(self) -> None:
        try:
            folder = huggingface.folder_of("all-minilm-l6-v2")
        except ExportError as error:
            self.skipTest(error.message)
        sts, sst = SHARED / "text/stsb/sts-test.csv", SHARED / "text/sst2/test.tsv"
        if not sts.is_file() or not sst.is_file():
            self.skipTest(f"no {sts}")
        texts = [part for line in sts.read_text(encoding="utf-8").split("\n") if line for part in line.split("\t")[5:7]]
        texts += [line.split("\t")[0] for line in sst.read_text(encoding="utf-8").split("\n")[1:] if line]
        texts += ["κύριος", "5 µm", "ſtraße", "\u00adx", "x\u200dy", "A" * 120, "word " * 400, "日本語 テスト", "e\u0301", "\ufeffx"]
        packed = tokenizers.metadata(folder, ["input_ids"], 512, True)
        with tempfile.TemporaryDirectory() as work:
            for name, suffix in (("xml", ".xml"), ("weights", ".bin")):
                Path(work, "t").with_suffix(suffix).write_bytes(zlib.decompress(base64.b64decode(packed["single"][name])))
            core = openvino.Core()
            core.add_extension(str(Path(openvino_tokenizers.__file__).parent / "lib/libopenvino_tokenizers.so"))
            ours = core.compile_model(str(Path(work, "t.xml")), "CPU")
            own = tokenizers.load(folder)
            for start in range(0, len(texts), 64):
                batch = texts[start : start + 64]
                expected = own(batch, padding=True, truncation=True, max_length=256, return_tensors="np")
                actual = ours(batch)
                for key in ("input_ids", "attention_mask", "token_type_ids"):
                    for row, text in enumerate(batch):
                        self.assertEqual(actual[key][row].tolist(), expected[key][row].tolist(), text)


if __name__ == "__main__":
    unittest.main()
