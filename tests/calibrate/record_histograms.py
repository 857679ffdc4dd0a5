#!/usr/bin/env python3
"""Records real activation histograms for the estimator tests: record_histograms.py MODEL.onnx IMAGES OUT.json

Runs MobileNetV1 in ONNX Runtime on eight photographs and bins some of its tensors with NumPy, by the rule that
src/calibrate/histogram.hpp states: an implementation independent of the one under test.
"""
import json
import math
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from PIL import Image

BINS_PER_SIDE = 4096


def preprocess(path):
    image = Image.open(path).convert("RGB")
    width, height = image.size
    short = min(width, height)
    image = image.resize((int(256 * width / short), int(256 * height / short)), Image.BILINEAR)
    left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
    pixels = np.asarray(image.crop((left, top, left + 224, top + 224)), np.float32)
    return (pixels / np.float32(127.5) - np.float32(1)).transpose(2, 0, 1)[None]


def histogram(values):
    values = values.ravel().astype(np.float64)
    absmax = np.abs(values).max()
    exponent = math.frexp(absmax)[1] - int(math.log2(BINS_PER_SIDE))
    nonzero = values[values != 0]
    index = np.floor(nonzero / 2.0**exponent).astype(int)
    first, last = min(0, int(index.min())), int(index.max())
    counts = np.bincount(index - first, minlength=max(last + 1, 0) - first)
    return {"exponent": exponent, "first": first, "zeros": int((values == 0).sum()), "min": float(values.min()),
            "max": float(values.max()), "counts": counts.tolist()}


def main(model_path, images, out):
    model = onnx.load(model_path)
    def spread(kinds, count):
        nodes = [n for n in model.graph.node if n.op_type in kinds]
        return [nodes[i].output[0] for i in np.unique(np.linspace(0, len(nodes) - 1, count).astype(int))]

    chosen = spread(("Clip", "Relu"), 5) + spread(("Conv", "Gemm", "MatMul"), 3)
    names = [model.graph.input[0].name] + chosen
    known = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in chosen if n not in known)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    paths = sorted(p for p in pathlib.Path(images).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png"))[:8]
    seen = {n: [] for n in names}
    for path in paths:
        sample = preprocess(path)
        seen[names[0]].append(sample)
        for name, value in zip(chosen, session.run(chosen, {names[0]: sample})):
            seen[name].append(value)
    rows = [json.dumps({"name": n, **histogram(np.concatenate(v))}, separators=(",", ":")) for n, v in seen.items()]
    pathlib.Path(out).write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
