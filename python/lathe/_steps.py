"""The steps of `lathe.optimize`, each as a function of its own."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _lathe
from ._engine import Engine
from ._errors import Error
from ._inputs import Samples, is_torch_module, model_file, preprocess_text, samples_of
from ._progress import Reporter, reporter
from ._results import Comparison, Measured, QuantizeResult, Scores, SimplifyResult, measured, scores

Progress = bool | Reporter | None


class Model:
    """A network as read from an ONNX file."""

    def __init__(self, native: _lathe.Model) -> None:
        self._native = native

    @classmethod
    def load(cls, model: Any, *, example: Any = None) -> Model:
        """Read a model: an ONNX file, an onnx.ModelProto, or a torch.nn.Module with example inputs.

        Raises:
            Error: not_found, parse_error (naming the node or tensor), unsupported, io.
        """
        if isinstance(model, Model):
            return model
        with tempfile.TemporaryDirectory() as folder:
            return cls(_lathe.load_model(os.fspath(model_file(model, Path(folder), example))))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as ONNX, which appears whole or not at all. Raises Error: io."""
        self._native.save(os.fspath(path))

    @property
    def preprocess(self) -> Mapping[str, Any] | None:
        """How pictures become its input, as the model says; None where it does not."""
        text = self._native.preprocess()
        preprocess: Mapping[str, Any] | None = json.loads(text) if text else None
        return preprocess


def _native_data(data: Any, labels: Sequence[int] | None = None) -> tuple[Any, list[int] | None]:
    given = samples_of(data)
    if isinstance(given, Samples):
        return given.arrays, list(labels) if labels is not None else given.labels
    return os.fspath(given), None


def simplify(model: Any, *, disabled: Sequence[str] = (), device: str = "cpu", samples: int = 3, seed: int = 1,
             tolerance: float = 1e-3, example: Any = None, progress: Progress = None) -> SimplifyResult:
    """Fold constants, BatchNormalization and shape arithmetic, and remove what does nothing. The result is run against
    the original on random inputs; the model given stays as it is.

    Args:
        model: An ONNX file, an onnx.ModelProto, a Model, or a torch.nn.Module with example inputs.
        disabled: Passes to leave out, by name (`lathe simplify --list-passes`).
        device: What it is for: "cpu", "cuda" or "tensorrt"; some passes pay on CPUs alone.
        samples: Sets of random inputs to verify on, at least 1.
        tolerance: Largest difference allowed, relative to the output's largest magnitude.

    Raises:
        Error: verification_failed (naming the pass), invalid_argument (an unknown pass or device), unsupported.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = model_file(model, Path(folder), example)
        told = _lathe.simplify(os.fspath(path), list(disabled), device, samples, seed, tolerance, reporter(progress))
    return SimplifyResult(**told | {"model": Model(told["model"])})


class Calibration:
    """The ranges of a model's tensors, with histograms: quantising by another method needs no second run."""

    def __init__(self, native: _lathe.Calibration) -> None:
        self._native = native

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read what `save` or `lathe calibrate` wrote. Raises Error: not_found, parse_error, corrupt, unsupported."""
        return cls(_lathe.Calibration.load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a ranges file, whole or not at all. Raises Error: io."""
        self._native.save(os.fspath(path))

    def write(self, path: str | os.PathLike[str], format: str = "tensorrt-cache", *, tensorrt: str = "10.3.0",
              algorithm: str = "EntropyCalibration2") -> None:
        """Write the int8 ranges for another tool, whole or not at all.

        Args:
            format: "tensorrt-cache", which wants the ranges of every tensor (`calibrate(all_tensors=True)`), or
                "dynamic-ranges", JSON with the largest magnitude a tensor.
            tensorrt: Of a cache: the version that will read it, which takes no other's.
            algorithm: Of a cache: the kind of calibrator that will read it.

        Raises:
            Error: invalid_argument (a version without such caches, a name that none can hold), io.
        """
        _lathe.write_ranges(self._native, os.fspath(path), format, tensorrt, algorithm)

    @property
    def method(self) -> str:
        """"minmax", "percentile", "entropy" or "mse"."""
        return self._native.method()

    @property
    def samples(self) -> int:
        """How many were seen."""
        return self._native.samples()

    @property
    def tensors(self) -> list[dict[str, Any]]:
        """For each tensor a dict: name, min, max (of all values), low, high (the range), clipped_fraction, sqnr_db."""
        return self._native.tensors()

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What a person should know of data and activations: name, tensor, detail, severity."""
        return self._native.findings()


def calibrate(model: Model, data: Any, *, samples: int = 300, until_settled: bool = True, method: str = "mse",
              percentile: float = 99.99, columns: str = "", preprocess: str | Mapping[str, Any] | None = None,
              all_tensors: bool = False, threads: int = 0, progress: Progress = None) -> Calibration:
    """Run a model, best a simplified one, on data, and record the range of every tensor that quantisation may need.

    Args:
        data: A folder of pictures or another path that `lathe calibrate --data` takes; an array of samples (axis 0) or
            a dict of them by input name; or an iterable of batches, such as a DataLoader.
        samples: To read at most, spread evenly; 0: all.
        until_settled: Stop earlier, once more samples no longer change the ranges.
        method: "minmax", "percentile", "entropy" or "mse".
        preprocess: How pictures become the input, in place of what the model says: a preset's name ("imagenet", ...),
            a dict, or a JSON file.
        all_tensors: Every float32 activation, as calibration caches hold them and `autocast` asks for them, not only
            what quantisation may need; reads all of `samples`.

    Raises:
        Error: invalid_argument (nothing to calibrate), out_of_range (NaN in the weights), what the data gives.
    """
    given, _ = _native_data(data)
    if all_tensors:
        return Calibration(_lathe.calibrate_every_tensor(model._native, given, columns, samples, method, percentile,
                                                         threads, preprocess_text(preprocess), reporter(progress)))
    return Calibration(_lathe.calibrate(model._native, given, columns, samples, until_settled, method, percentile,
                                        threads, preprocess_text(preprocess), reporter(progress)))


def quantize(model: Model, calibration: Calibration | None = None, *, data: Any = None, target: str = "openvino",
             exclude: Sequence[str] = (), effort: int = 0, noisy_layers: str = "auto", columns: str = "",
             preprocess: str | Mapping[str, Any] | None = None, threads: int = 0, progress: Progress = None) -> QuantizeResult:
    """Write int8 into a copy of the model as QuantizeLinear and DequantizeLinear.

    Args:
        calibration: Of this model; None: calibrates on `data`.
        data: As for `calibrate`; needed without a calibration, and for an effort over 0.
        target: "openvino", "onnxruntime", "tensorrt" or "cuda".
        exclude: Left in float: node names, op types or regular expressions.
        effort: How much to correct what int8 costs, 0 to 3; every step is kept only if it gains.
        noisy_layers: "auto": layers whose output int8 would turn into noise, and the last convolutions of detectors and
            segmenters, stay in float, where that costs little;
            "int8": they do not.

    Raises:
        Error: invalid_argument, mismatch (a calibration of another model), not_found, out_of_range, unsupported.
    """
    given = None if data is None else _native_data(data)[0]
    if calibration is None:
        calibration = calibrate(model, given, columns=columns, preprocess=preprocess, threads=threads,
                                progress=progress)
    told = _lathe.quantize(model._native, calibration._native, target, list(exclude), effort, noisy_layers, given,
                           columns, preprocess_text(preprocess), threads, reporter(progress))
    return QuantizeResult(**told | {"model": Model(told["model"])})


def build(model: Model, *, precision: str | None = None, device: str = "cpu", name: str = "", shapes: Sequence[str] = (),
          threads: int = 0, progress: Progress = None) -> Engine:
    """Compile a model.

    Args:
        precision: "fp32", "bf16", "fp16", "int8" (of a quantised model) or, on a GPU, "tf32". None: int8 of a quantised
            model, else fp32. What is named must be there, for 90 % of the multiplications on a GPU.
        device: "cpu", "cuda", ... (see `lathe doctor`).
        shapes: "[INPUT:]MIN..OPT..MAX", such as "1x3x224x224..8x3x224x224..32x3x224x224", of inputs with open sizes.
        threads: 0: all cores.

    Raises:
        Error: invalid_argument, unsupported (with the reason), out_of_range.
    """
    return Engine(_lathe.build(model._native, name, device, precision or "", list(shapes), threads, reporter(progress)))


def from_torch(module: Any, example: Any, *, precision: str | None = None, device: str = "cpu", name: str = "",
               shapes: Sequence[str] = (), threads: int = 0, progress: Progress = None) -> Engine:
    """Compile a torch.nn.Module, as it is in evaluation. For PyTorch's own compiler see `lathe.torch`.

    Args:
        module: In floating point. It is traced, so Python's branches are those that `example` takes.
        example: Inputs: a tensor, a tuple, or a dict by argument. Axis 0 of each becomes free.
        precision, device, name, shapes, threads: As `build` takes them.

    Raises:
        Error: invalid_argument (no module, no example), unsupported (naming what ONNX lacks), as `build`.
    """
    if not is_torch_module(module):
        raise Error(f"a {type(module).__name__} is no torch.nn.Module", "invalid_argument", "module",
                    "ONNX models are read by lathe.Model.load and compiled by lathe.build")
    return build(Model.load(module, example=example), precision=precision, device=device, name=name, shapes=shapes,
                 threads=threads, progress=progress)


def evaluate(engine: Engine, data: Any, *, labels: Sequence[int] | None = None, columns: str = "", samples: int = 0,
             preprocess: str | Mapping[str, Any] | None = None, progress: Progress = None) -> Scores:
    """How often a classifier is right.

    Args:
        data: Labelled: a path, or as for `calibrate` with `labels` or an iterable of (inputs, labels).
        labels: Class indices of an array's samples.
        samples: To judge on, spread evenly; 0: all.

    Raises:
        Error: invalid_argument (no labels), mismatch, out_of_range (a label that the output has no class for).
    """
    given, known = _native_data(data, labels)
    return scores(_lathe.evaluate(engine._native, given, known, columns, samples, preprocess_text(preprocess),
                                  reporter(progress)))


def compare(reference: Engine, subject: Engine, data: Any, *, labels: Sequence[int] | None = None, columns: str = "",
            samples: int = 0, preprocess: str | Mapping[str, Any] | None = None, progress: Progress = None) -> Comparison:
    """Run two engines on the same samples, labelled or not.

    Raises:
        Error: as `evaluate`; mismatch where the outputs' shapes differ.
    """
    given, known = _native_data(data, labels)
    told = _lathe.compare(reference._native, subject._native, given, known, columns, samples, preprocess_text(preprocess),
                          reporter(progress))
    return Comparison(**told | {"reference": scores(told["reference"]), "subject": scores(told["subject"]),
                                "agreement": Measured(*told["agreement"]), "top1_change": measured(told["top1_change"])})


def load_images(files: Sequence[str | os.PathLike[str]], preprocess: Mapping[str, Any]) -> Any:
    """Decode, resize, crop and normalise JPEG or PNG files as `preprocess` says: float32, Nx3xHxW (or NxHxWx3).

    Raises:
        Error: invalid_argument (no files, no size), parse_error (a damaged picture), not_found, unsupported.
    """
    return _lathe.load_images([os.fspath(file) for file in files], json.dumps(preprocess))
