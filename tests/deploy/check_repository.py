"""Holds a model repository against what Triton publishes, and serves it to its own client.

    check_repository.py REPOSITORY [PICTURE ...] [--text=TEXT ...]

Every config.pbtxt must parse as a ModelConfig of Triton's model_config.proto (as tritonclient carries it) and agree with
the model beside it. With pictures or texts, each model is served over KServe v2 by a small server that checks requests
against the config, and client.py's lines for what the model takes are printed as MODEL<tab>line; a model of one size is
asked with an array of that size. Exit 77 where a package is missing.
"""
import importlib.util
import json
import pathlib
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

try:
    import numpy
    import onnxruntime
    import openvino
    from google.protobuf import text_format

    def load_schema():
        # tritonclient.grpc itself would import grpc, which nothing here needs.
        folder = importlib.util.find_spec("tritonclient").submodule_search_locations[0]
        path = pathlib.Path(folder) / "grpc" / "model_config_pb2.py"
        spec = importlib.util.spec_from_file_location("model_config_pb2", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    SCHEMA = load_schema()
except (ImportError, AttributeError) as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

TYPES = {"float32": "FP32", "float16": "FP16", "int64": "INT64", "int32": "INT32", "uint8": "UINT8"}


class Model:
    """A model of the repository, its config and its file checked against each other."""

    def __init__(self, folder):
        self.config = text_format.Parse((folder / "config.pbtxt").read_text(), SCHEMA.ModelConfig())
        config = self.config
        assert config.name == folder.name, config.name
        assert config.backend in ("onnxruntime", "openvino", "tensorrt"), config.backend
        file = folder / "1" / config.default_model_filename
        assert file.is_file(), f"{file} is missing"
        self.batched = config.max_batch_size > 0
        assert len(config.instance_group) == 1 and config.instance_group[0].count >= 1
        if config.instance_group[0].kind == SCHEMA.ModelInstanceGroup.KIND_GPU:
            assert config.backend in ("onnxruntime", "tensorrt"), "Triton's OpenVINO backend runs on the CPU"
        else:
            assert config.instance_group[0].kind == SCHEMA.ModelInstanceGroup.KIND_CPU
        if not self.batched:
            assert not config.HasField("dynamic_batching") and len(config.model_warmup) == 1
        for size in config.dynamic_batching.preferred_batch_size:
            assert 1 <= size <= config.max_batch_size, size
        assert config.model_warmup, "no warm-up"
        for warmup in config.model_warmup:
            assert set(warmup.inputs) == {tensor.name for tensor in config.input}
            for tensor in config.input:
                dims = list(warmup.inputs[tensor.name].dims)
                assert len(dims) == len(tensor.dims) and all(d > 0 for d in dims), dims
                assert all(want in (-1, d) for want, d in zip(tensor.dims, dims)), dims
        for tensor in config.output:
            if not tensor.label_filename:
                continue
            labels = (folder / tensor.label_filename).read_text().splitlines()
            assert len(labels) == tensor.dims[-1], (len(labels), tensor.dims)
        if config.backend == "onnxruntime":
            self.session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            inputs = {x.name: x.shape for x in self.session.get_inputs()}
            outputs = {x.name: x.shape for x in self.session.get_outputs()}
        elif config.backend == "openvino":
            model = openvino.Core().read_model(file)
            inputs = {x.any_name: [-1 if d.is_dynamic else d.get_length() for d in x.partial_shape] for x in model.inputs}
            outputs = {x.any_name: [-1 if d.is_dynamic else d.get_length() for d in x.partial_shape] for x in model.outputs}
            if self.batched:  # as Triton's backend does
                openvino.set_batch(with_layouts(model), config.max_batch_size)
                if config.max_batch_size > 1:
                    assert config.parameters["ENABLE_BATCH_PADDING"].string_value == "YES"
            self.session = openvino.Core().compile_model(model, "CPU")
        else:
            return  # a plan needs a GPU
        self.check_tensors(config.input, inputs)
        self.check_tensors(config.output, outputs)

    def check_tensors(self, wanted, found):
        assert {tensor.name for tensor in wanted} == set(found), (wanted, found)
        for tensor in wanted:
            own = tensor.reshape.shape if tensor.HasField("reshape") else tensor.dims
            dims = ([-1] if self.batched else []) + list(own)
            sizes = [size if isinstance(size, int) else -1 for size in found[tensor.name]]
            assert len(dims) == len(sizes), (tensor.name, dims, sizes)
            assert all(d == s or -1 in (d, s) for d, s in zip(dims, sizes)), (tensor.name, dims, sizes)

    def infer(self, inputs):
        feeds = {}
        for tensor in self.config.input:
            given = inputs.pop(tensor.name)
            kind = SCHEMA.DataType.Name(tensor.data_type).removeprefix("TYPE_")
            assert given["datatype"] == kind, (given["datatype"], kind)
            dims = given["shape"][1:] if self.batched else given["shape"]
            assert all(want in (-1, d) for want, d in zip(tensor.dims, dims)), dims
            array = numpy.array(given["data"], dtype={v: k for k, v in TYPES.items()}[kind]).reshape(given["shape"])
            if self.batched:
                assert array.shape[0] <= self.config.max_batch_size
                if self.config.backend == "openvino":  # padding
                    fill = self.config.max_batch_size - array.shape[0]
                    array = numpy.concatenate([array, numpy.zeros((fill, *array.shape[1:]), array.dtype)])
            feeds[tensor.name] = array
        assert not inputs, f"unknown inputs {list(inputs)}"
        if self.config.backend == "openvino":
            results = self.session(feeds)
            arrays = {tensor.name: results[tensor.name] for tensor in self.config.output}
        else:
            names = [tensor.name for tensor in self.config.output]
            arrays = dict(zip(names, self.session.run(names, feeds)))
        for tensor in self.config.output:
            if tensor.HasField("reshape"):  # what the client sees has the config's dims
                samples = arrays[tensor.name].shape[:1] if self.batched else ()
                arrays[tensor.name] = arrays[tensor.name].reshape(*samples, *tensor.dims)
        return arrays


def with_layouts(model):
    for tensor in model.inputs:
        tensor.node.set_layout(openvino.Layout("N..."))
    return model


def serve(models):
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            _, v2, kind, name, verb = self.path.split("/")
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                assert (v2, kind, verb) == ("v2", "models", "infer"), self.path
                given = {tensor["name"]: tensor for tensor in body["inputs"]}
                count = next(iter(given.values()))["shape"][0]
                outputs = [
                    {"name": key, "shape": [count, *array.shape[1:]], "datatype": TYPES[str(array.dtype)],
                     "data": array[:count].ravel().tolist()}
                    for key, array in models[name].infer(given).items()
                ]
                status, answer = 200, {"model_name": name, "outputs": outputs}
            except (AssertionError, KeyError) as wrong:
                status, answer = 400, {"error": repr(wrong)}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def questions(folder, model, pictures, texts):
    """What to ask client.py of a model, and a file to remove afterwards."""
    about = json.loads((folder / "model.json").read_text())
    if not model.batched:
        words = []
        for tensor in model.config.input:
            kind = {v: k for k, v in TYPES.items()}[SCHEMA.DataType.Name(tensor.data_type).removeprefix("TYPE_")]
            file = folder.parent / f"{tensor.name}.npy"
            numpy.save(file, numpy.ones([abs(d) for d in tensor.dims], kind))
            words.append(f"--array={tensor.name}={file}")
        return words
    if about["tokenizer"]:
        tokenizer = json.loads((folder / about["tokenizer"]["file"]).read_text())
        assert "model" in tokenizer, "no tokenizer.json of Hugging Face's"
        if importlib.util.find_spec("tokenizers") is None:
            print("SKIPPED: no package tokenizers")
            sys.exit(77)
        return texts
    return pictures if about["preprocess"] else []


def main():
    repository = pathlib.Path(sys.argv[1])
    texts = [word for word in sys.argv[2:] if word.startswith("--text")]
    pictures = [word for word in sys.argv[2:] if not word.startswith("--text")]
    folders = sorted(path for path in repository.iterdir() if path.is_dir())
    assert folders, "the repository is empty"
    models = {folder.name: Model(folder) for folder in folders}
    if not pictures and not texts:
        return
    server = serve(models)
    for folder in folders:
        url = f"http://127.0.0.1:{server.server_port}"
        asked = questions(folder, models[folder.name], pictures, texts)
        if not asked:
            continue
        client = subprocess.run([sys.executable, folder / "client.py", "--url", url, "--classes", "1", *asked],
                                capture_output=True, text=True)
        assert client.returncode == 0, client.stderr
        for line in client.stdout.splitlines():
            print(f"{folder.name}\t{line}")
        wrong = pathlib.Path(repository / "wrong.npy")
        numpy.save(wrong, numpy.zeros((1, 7), numpy.float32))
        name = models[folder.name].config.input[0].name
        refused = subprocess.run([sys.executable, folder / "client.py", "--url", url, "--array", f"{name}={wrong}"],
                                 capture_output=True, text=True)
        wrong.unlink()
        assert refused.returncode != 0 and "the server refused (400)" in refused.stderr, refused.stderr
    server.shutdown()


main()
