#!/usr/bin/env python3
"""Asks a server for a model deployed by `lathe deploy`, over the KServe v2 protocol (HTTP and JSON).

    client.py photo.jpg other.png              pictures, preprocessed as the model was trained
    client.py --text "a quiet film"            texts, tokenised as the model was trained; --text-pair for second texts
    client.py --array input=batch.npy          tensors as they are; one --array a model input
    client.py --url http://host:8000 ...

Needs numpy, Pillow for pictures (OpenCV too where the model was trained with its resize), and the package `tokenizers`
for texts. model.json beside this file says what the model takes, tokenizer.json how texts become tokens. In a service of
your own, `preprocess`, `tokenize` and `infer` are the parts to keep.
"""
import argparse
import json
import pathlib
import sys
import urllib.error
import urllib.request

import numpy

DATATYPES = {
    "bool": "BOOL", "uint8": "UINT8", "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "int8": "INT8",
    "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
}


def resized(image, spec):
    """To exactly [height, width], the shorter side to a length, or as large as fits in a letterbox."""
    from PIL import Image

    size = spec.get("resize")
    if size is None:
        return image
    if isinstance(size, dict) and "letterbox" in size:
        ratio = letterbox_ratio(image.size, size["letterbox"])
        whole = int if spec.get("align") == "top-left" else round
        width, height = (max(1, whole(side * ratio)) for side in image.size)
    elif isinstance(size, dict):
        short, (width, height) = size["short_side"], image.size
        if width <= height:
            width, height = short, int(short * height / width)
        else:
            width, height = int(short * width / height), short
    else:
        height, width = size
    if spec.get("interpolation") == "bilinear-opencv":
        import cv2

        return cv2.resize(numpy.asarray(image), (width, height), interpolation=cv2.INTER_LINEAR)
    filters = {"bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC}
    return image.resize((width, height), filters[spec.get("interpolation", "bilinear")])


def letterbox_ratio(size, letterbox):
    """How much larger a picture of (width, height) becomes in [height, width]."""
    return min(letterbox[1] / size[0], letterbox[0] / size[1])


def cropped(pixels, spec):
    """The middle of the picture, padded where it is too small (torchvision's CenterCrop), or a letterbox filled up."""
    letterbox = spec["resize"]["letterbox"] if isinstance(spec.get("resize"), dict) and "letterbox" in spec["resize"] else None
    if "crop" not in spec and letterbox is None:
        return pixels
    height, width = letterbox or spec["crop"]
    missing = [max(0, height - pixels.shape[0]), max(0, width - pixels.shape[1])]
    around = [(0, m) if spec.get("align") == "top-left" else (m // 2, (m + 1) // 2) for m in missing]
    pixels = numpy.pad(pixels, [*around, (0, 0)], constant_values=spec.get("pad", 0))
    top = int(round((pixels.shape[0] - height) / 2.0))
    left = int(round((pixels.shape[1] - width) / 2.0))
    return pixels[top : top + height, left : left + width]


def preprocess(path, spec):
    """One picture as the model's input, with the batch axis: resize, crop, (pixel * scale - mean) / std."""
    from PIL import Image

    with Image.open(path) as image:
        pixels = numpy.asarray(resized(image.convert("RGB"), spec))
    pixels = cropped(pixels, spec)
    if spec.get("color", "RGB") == "BGR":
        pixels = pixels[:, :, ::-1]
    values = pixels.astype(numpy.float32) * numpy.float32(spec.get("scale", 1.0))
    values = (values - numpy.float32(spec.get("mean", [0, 0, 0]))) / numpy.float32(spec.get("std", [1, 1, 1]))
    if spec.get("layout", "NCHW") == "NCHW":
        values = values.transpose(2, 0, 1)
    return numpy.ascontiguousarray(values[numpy.newaxis])


def tokenize(texts, pairs, about, folder):
    """The model's inputs by name, a row a text, filled up on the right to the longest. Longer texts are cut."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise RuntimeError("texts need the package tokenizers: pip install tokenizers") from None
    settings = about["tokenizer"]
    tokenizer = Tokenizer.from_file(str(folder / settings["file"]))
    tokenizer.no_padding()
    tokenizer.enable_truncation(settings["max_length"])
    rows = tokenizer.encode_batch(list(zip(texts, pairs)) if pairs else list(texts))
    length = max(settings["min_length"], *(len(row.ids) for row in rows))
    parts = {"input_ids": ("ids", settings["pad_id"]), "attention_mask": ("attention_mask", 0),
             "token_type_ids": ("type_ids", 0)}
    inputs = {}
    for tensor in about["inputs"]:
        part, filler = parts[tensor["name"]]
        inputs[tensor["name"]] = numpy.full((len(rows), length), filler, tensor["type"])
        for filled, row in zip(inputs[tensor["name"]], rows):
            filled[: len(row.ids)] = getattr(row, part)
    return inputs


def infer(url, model, inputs):
    """Posts the arrays by name; returns the outputs as arrays by name. A refusal raises RuntimeError with its text."""
    body = {
        "inputs": [
            {"name": name, "shape": list(array.shape), "datatype": DATATYPES[str(array.dtype)],
             "data": array.ravel().tolist()}
            for name, array in inputs.items()
        ]
    }
    return post(f"{url}/v2/models/{model}/infer", json.dumps(body).encode(), {"Content-Type": "application/json"})


def post(url, body, headers):
    """The outputs of the server's answer by name. A refusal raises RuntimeError with its text."""
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request) as reply:
            answer = json.load(reply)
    except urllib.error.HTTPError as refusal:
        raise RuntimeError(f"the server refused ({refusal.code}): {refusal.read().decode(errors='replace')}") from None
    names = {kserve: numpy_name for numpy_name, kserve in DATATYPES.items()}
    return {
        output["name"]: numpy.array(output["data"], dtype=names[output["datatype"]]).reshape(output["shape"])
        for output in answer["outputs"]
    }


def infer_picture(url, model, name, file):
    """Posts a JPEG or PNG as it is to a model that takes such files; returns the outputs as `infer` does."""
    picture = file.read_bytes()
    content = len(picture).to_bytes(4, "little") + picture
    head = json.dumps({"inputs": [{"name": name, "shape": [1, 1], "datatype": "BYTES",
                                   "parameters": {"binary_data_size": len(content)}}]}).encode()
    return post(f"{url}/v2/models/{model}/infer", head + content, {"Inference-Header-Content-Length": str(len(head))})


def infer_pixels(url, model, name, file):
    """Posts a picture's pixels to a model that takes such; returns the outputs as `infer` does."""
    from PIL import Image

    with Image.open(file) as image:
        pixels = numpy.asarray(image.convert("RGB"))
    content = pixels.tobytes()
    head = json.dumps({"inputs": [{"name": name, "shape": [1, *pixels.shape], "datatype": "UINT8",
                                   "parameters": {"binary_data_size": len(content)}}]}).encode()
    return post(f"{url}/v2/models/{model}/infer", head + content, {"Inference-Header-Content-Length": str(len(head))})


def infer_texts(url, model, texts):
    """Posts texts as they are to a model that takes such; returns the outputs as `infer` does."""
    body = {"inputs": [{"name": "text", "shape": [len(texts), 1], "datatype": "BYTES", "data": texts}]}
    return post(f"{url}/v2/models/{model}/infer", json.dumps(body).encode(), {"Content-Type": "application/json"})


def best_classes(scores, labels, count):
    order = numpy.argsort(-scores)[:count]
    return [(labels[i] if i < len(labels) else str(i), float(scores[i])) for i in order]


def print_result(what, outputs, about, count):
    """A line for each of the best classes of a sample, or for each output where the model has no classes."""
    scores = next(iter(outputs.values()))
    if about["labels"] and scores.shape == (len(about["labels"]),):
        for name, score in best_classes(scores, about["labels"], count):
            print(f"{what}\t{name}\t{score:.6g}")
        return
    for name, values in outputs.items():
        print(f"{what}\t{name}\t{numpy.array2string(values, threshold=20, max_line_width=10**6)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="*", type=pathlib.Path)
    parser.add_argument("--text", action="append", default=[])
    parser.add_argument("--text-pair", action="append", default=[], help="the second text of each --text")
    parser.add_argument("--array", action="append", default=[], metavar="NAME=FILE.npy")
    parser.add_argument("--url", default="http://localhost:8000")
    parser.add_argument("--classes", type=int, default=5, help="how many of the best classes to print")
    arguments = parser.parse_args()
    folder = pathlib.Path(__file__).parent
    about = json.loads((folder / "model.json").read_text())
    if [bool(given) for given in (arguments.pictures, arguments.text, arguments.array)].count(True) != 1:
        parser.error("give pictures, or --text, or --array for every input")
    if arguments.text_pair and len(arguments.text_pair) != len(arguments.text):
        parser.error("give one --text-pair for each --text, or none")
    if arguments.array:
        inputs = {name: numpy.load(file) for name, file in (text.split("=", 1) for text in arguments.array)}
        for name, array in infer(arguments.url, about["model"], inputs).items():
            print(f"{name} {array.shape}: {numpy.array2string(array, threshold=20)}")
        return 0
    if arguments.text and about["texts"]:
        if arguments.text_pair:
            parser.error(f"{about['model']} takes single texts")
        outputs = infer_texts(arguments.url, about["model"], arguments.text)
        for i, text in enumerate(arguments.text):
            print_result(text, {name: values[i] for name, values in outputs.items()}, about, arguments.classes)
        return 0
    if arguments.text:
        if about["tokenizer"] is None:
            parser.error(f"{about['model']} came without a tokenizer.json; give --array for every input")
        outputs = infer(arguments.url, about["model"],
                        tokenize(arguments.text, arguments.text_pair, about, folder))
        for i, text in enumerate(arguments.text):
            print_result(text, {name: values[i] for name, values in outputs.items()}, about, arguments.classes)
        return 0
    if about["preprocess"] is None or len(about["inputs"]) != 1:
        parser.error(f"{about['model']} does not take pictures; give --array for every input")
    for picture in arguments.pictures:
        name = about["inputs"][0]["name"]
        if about["pictures"]:
            outputs = infer_picture(arguments.url, about["model"], name, picture)
        elif about["pixels"]:
            outputs = infer_pixels(arguments.url, about["model"], name, picture)
        else:
            outputs = infer(arguments.url, about["model"], {name: preprocess(picture, about["preprocess"])})
        scores = next(iter(outputs.values()))[0]
        for name, score in best_classes(scores, about["labels"], arguments.classes):
            print(f"{picture}\t{name}\t{score:.6g}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {error}")
