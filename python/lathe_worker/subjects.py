"""The frameworks, each used the way its own documentation tells a user to."""

import os
import platform
import time
from dataclasses import dataclass


class Unavailable(Exception):
    """Why a framework cannot be measured here, and what would change it."""

    def __init__(self, code, message, hint=""):
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


@dataclass
class Timing:
    """Nanoseconds of one call. The copies are None where the framework makes them inside its call."""

    call: int
    copy_in: int | None = None
    copy_out: int | None = None
    device: int | None = None  # kernels alone, by the GPU's clock


def cores():
    """Cores this process may use."""
    return len(os.sched_getaffinity(0))


class OnnxRuntime:
    """ONNX Runtime with its defaults: all graph optimisations, all cores."""

    def __init__(self, model):
        try:
            import onnxruntime
        except ImportError as error:
            raise Unavailable(
                "unsupported", f"ONNX Runtime is not installed: {error}", "pip install onnxruntime"
            ) from error
        if not model:
            raise Unavailable("invalid_argument", "no ONNX model to run", "give it with --model FILE.onnx")
        self.runtime = onnxruntime
        self.model = model
        self.libraries = {"onnxruntime": onnxruntime.__version__}
        self.notes = ["graph optimisation level all, default threads"]
        self.session = self.make_session(0)
        self.order = []

    def make_session(self, threads):
        options = self.runtime.SessionOptions()
        options.graph_optimization_level = self.runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        if threads:
            options.intra_op_num_threads = threads
        return self.runtime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])

    def prepare(self, tensors, arrays):
        del arrays
        self.order = match_inputs([i.name for i in self.session.get_inputs()], [t.name for t in tensors])
        for info, tensor in zip(self.session.get_inputs(), tensors_for(self.order, tensors)):
            fixed = [size for size in info.shape if isinstance(size, int)]
            if len(fixed) == len(info.shape) and tuple(fixed) != tensor.shape:
                raise Unavailable(
                    "out_of_range",
                    f"the model's input {info.name} is fixed to {'x'.join(map(str, fixed))}",
                    "export the model with --dynamic-batch",
                )

    def call(self, arrays, session=None):
        session = session or self.session
        feed = {info.name: arrays[i] for info, i in zip(session.get_inputs(), self.order)}
        start = time.perf_counter_ns()
        outputs = session.run(None, feed)
        stop = time.perf_counter_ns()
        touch(outputs)
        return Timing(stop - start)

    def stream_choices(self):
        return [1, cores()] if cores() > 1 else [1]

    def streams(self, count):
        if count == 1:
            return [self.call]
        sessions = [self.make_session(1) for _ in range(count)]
        return [lambda arrays, s=s: self.call(arrays, s) for s in sessions]


class PyTorch:
    """PyTorch on the CPU at its best: inference mode, all cores, the memory layout that is faster for this module, and
    compiled with frozen weights."""

    def __init__(self, source, code, precision="fp32", compiled=False):
        try:
            import torch
        except ImportError as error:
            raise Unavailable("unsupported", f"PyTorch is not installed: {error}", "pip install torch") from error
        if not source:
            raise Unavailable(
                "not_found",
                "the model does not say how to rebuild its PyTorch module (metadata lathe.source)",
                "make the ONNX file with `lathe export`, and give it with --model",
            )
        try:
            from lathe_export.errors import ExportError
            from lathe_export.rebuild import rebuild
        except ImportError as error:
            raise Unavailable(
                "unsupported", f"cannot rebuild the PyTorch module: {error}", "install what requirements/python.txt lists"
            ) from error
        self.torch = torch
        try:
            self.module = rebuild(source, code).eval()
        except ExportError as error:
            where = f" ({error.where})" if error.where else ""
            raise Unavailable(error.code, error.message + where, error.hint) from error
        self.compiled = compiled
        self.precision = precision or "fp32"
        self.type = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(self.precision, torch.float32)
        self.libraries = {"torch": torch.__version__}
        self.set_up()
        self.function = self.module

    def without_gradients(self):
        return self.torch.inference_mode()

    def set_up(self):
        torch = self.torch
        torch.set_num_threads(cores())
        self.module = self.module.to(self.type)
        self.layout = None  # chosen where there are pictures
        mode = "torch.compile with frozen weights, static shapes" if self.compiled else "eager"
        self.mode = f"{mode}, inference_mode, {self.precision}, {torch.get_num_threads()} threads"
        self.notes = [self.mode]

    def prepare(self, tensors, arrays):
        if self.layout is None and any(len(tensor.shape) == 4 for tensor in tensors):
            self.choose_layout(arrays)
        if self.compiled:
            self.choose_kernels(arrays)

    def choose_kernels(self, arrays):
        """Inductor's default kernels, or those that it finds by trying (max-autotune): the faster, by the least of a few calls.
        Compiled anew when chosen, since both at once would share a cache; what Inductor keeps on disk makes that short."""
        eager, ways, times = self.notes[0], {"default kernels": {}, "max-autotune": {"max_autotune": True}}, {}
        for name, more in ways.items():
            self.compile({"freezing": True} | more)
            times[name] = min([self.call(arrays).call for _ in range(5)][2:])  # the first compiles, the next meets cold memory
        best = min(times, key=times.get)
        if best != name:
            self.compile({"freezing": True} | ways[best])
            self.call(arrays)
        self.notes = [f"{eager.partition(', the faster kernels')[0]}, the faster kernels here: {best}"]

    def compile(self, options):
        # A fresh compilation for each batch size: kept ones would be replaced by slower kernels for any size.
        self.torch._dynamo.reset()
        self.function = self.torch.compile(self.module, dynamic=False, options=options)

    def choose_layout(self, arrays):
        """The layout in which the eager module is faster, by the least of a few calls in turns."""
        torch = self.torch
        layouts = {"contiguous": torch.contiguous_format, "channels last": torch.channels_last}
        times = {}
        for turn in range(4):
            for name, layout in layouts.items():
                self.layout = layout
                self.module = self.function = self.module.to(memory_format=layout)
                spent = self.call(arrays).call
                if turn > 0:  # the first meets cold memory
                    times[name] = min(spent, times.get(name, spent))
        best = min(times, key=times.get)
        self.layout = layouts[best]
        self.module = self.function = self.module.to(memory_format=self.layout)
        self.notes = [f"{self.mode}, {best} (the faster layout here)"]

    def tensor(self, array):
        tensor = self.torch.from_numpy(array)
        if tensor.is_floating_point():
            tensor = tensor.to(self.type)
        if tensor.dim() == 4 and self.layout is not None:
            tensor = tensor.contiguous(memory_format=self.layout)
        return tensor

    def call(self, arrays):
        torch = self.torch
        with self.without_gradients():
            start = time.perf_counter_ns()
            inputs = [self.tensor(array) for array in arrays]
            bound = time.perf_counter_ns()
            outputs = self.function(*inputs)
            stop = time.perf_counter_ns()
            fetched = [o.float().numpy() if o.dtype == torch.bfloat16 else o.numpy() for o in flatten(outputs, torch)]
            end = time.perf_counter_ns()
        touch(fetched)
        return Timing(stop - bound, bound - start, end - stop)

    def stream_choices(self):
        # One process, one thread of calls that uses all cores: several Python threads would share its thread pool.
        return [1]

    def streams(self, count):
        del count
        return [self.call]


class PyTorchInt8(PyTorch):
    """PyTorch on an x86 CPU in int8 as torchao's guide has it: the exported module quantised for Inductor's x86 backend
    (PT2E: static ranges for each tensor, weights for each output channel), then compiled with frozen weights. The ranges
    are those of the inputs that it is prepared with: they decide the answers, not the time."""

    def set_up(self):
        try:
            from torchao.quantization.pt2e import quantize_pt2e
            from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer
        except ImportError as error:
            raise Unavailable(
                "unsupported",
                f"PyTorch's quantisation for x86 is not installed: {error}",
                "pip install torchao, of a version that goes with this PyTorch",
            ) from error
        if platform.machine() not in ("x86_64", "AMD64"):
            raise Unavailable("unsupported", "torchao's int8 kernels here are those of x86", "leave it out")
        import torchao

        self.quantize, self.x86 = quantize_pt2e, x86_inductor_quantizer
        self.libraries["torchao"] = torchao.__version__
        super().set_up()
        self.mode = self.mode.replace("inference_mode", "no_grad") + ", PT2E for x86, ranges of the benchmark's inputs"
        self.notes = [self.mode]

    def without_gradients(self):
        # Weights are frozen under no_grad alone.
        return self.torch.no_grad()

    def prepare(self, tensors, arrays):
        torch = self.torch
        self.function = self.module
        if self.layout is None and any(len(tensor.shape) == 4 for tensor in tensors):
            self.choose_layout(arrays)
        inputs = tuple(self.tensor(array) for array in arrays)
        quantizer = self.x86.X86InductorQuantizer()
        quantizer.set_global(self.x86.get_default_x86_inductor_quantization_config())
        torch._dynamo.reset()
        with torch.no_grad():
            observed = self.quantize.prepare_pt2e(torch.export.export(self.module, inputs).module(), quantizer)
            observed(*inputs)
            quantized = self.quantize.convert_pt2e(observed)
            layers = sum("quantize_per_tensor" in str(node.target) for node in quantized.graph.nodes)
            if layers == 0:
                raise Unavailable("unsupported", "torchao quantises no layer of this module", "leave it out")
            torch._inductor.config.freezing = True  # as an option of torch.compile it comes too late for int8 weights
            self.function = torch.compile(quantized, dynamic=False)


class PyTorchOnGpu(PyTorch):
    """PyTorch on the first GPU, at its best: channels last, page-locked inputs. TF32 is off, as in an fp32 engine.

    A call copies its inputs to the GPU and its outputs back, as an engine's call does.
    """

    def set_up(self):
        torch = self.torch
        if not torch.cuda.is_available():
            raise Unavailable("unsupported", "PyTorch sees no GPU here", "install PyTorch with CUDA, or leave it out")
        self.stages = {}
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        self.module = self.module.to("cuda", self.type, memory_format=torch.channels_last)
        self.libraries["cuda"] = torch.version.cuda
        self.libraries["cudnn"] = str(torch.backends.cudnn.version())
        mode = "torch.compile with its default mode, static shapes" if self.compiled else "eager"
        self.notes = [
            f"{mode}, inference_mode, {self.precision}, channels last, no TF32, page-locked inputs; calls include both "
            "copies"
        ]

    def staged(self, array):
        """The same values in page-locked memory, made once an input set."""
        torch = self.torch
        key = id(array)
        if key not in self.stages:
            tensor = torch.from_numpy(array)
            if tensor.is_floating_point():
                tensor = tensor.to(self.type)
            if tensor.dim() == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            self.stages[key] = (array, tensor.pin_memory())
        return self.stages[key][1]

    def prepare(self, tensors, arrays):
        del tensors, arrays
        self.stages = {}
        self.torch.cuda.reset_peak_memory_stats()
        if self.compiled:
            self.compile({})

    def device_peak_bytes(self):
        return self.torch.cuda.max_memory_allocated()

    def call(self, arrays):
        torch = self.torch
        stages = [self.staged(array) for array in arrays]
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.inference_mode():
            start = time.perf_counter_ns()
            inputs = [stage.to("cuda", non_blocking=True) for stage in stages]
            before.record()
            outputs = self.function(*inputs)
            after.record()
            fetched = [o.float().cpu().numpy() for o in flatten(outputs, torch)]
            end = time.perf_counter_ns()
        touch(fetched)
        return Timing(end - start, device=int(before.elapsed_time(after) * 1e6))


def make_subject(kind, model, source, device="cpu", precision="fp32", code=None):
    """The framework named as `lathe bench --against` names it; `code` is the FILE.py:function that the user allows to run."""
    if kind == "onnxruntime":
        return OnnxRuntime(model)
    if kind in ("pytorch", "torch-compile"):
        framework = PyTorch if device == "cpu" else PyTorchOnGpu
        if precision == "int8":
            if device != "cpu" or kind != "torch-compile":
                raise Unavailable(
                    "unsupported", "PyTorch is measured in int8 on the CPU, compiled", "write torch-compile=int8"
                )
            framework = PyTorchInt8
        return framework(source, code, precision, compiled=kind == "torch-compile")
    raise Unavailable("invalid_argument", f"unknown framework: {kind}")


def match_inputs(wanted, given):
    """For each wanted input the index of the given one: by name, or by place where the names differ."""
    if len(wanted) != len(given):
        raise Unavailable(
            "invalid_argument", f"the model has {len(wanted)} inputs, the engine {len(given)}", "compare like with like"
        )
    if set(wanted) == set(given):
        return [given.index(name) for name in wanted]
    return list(range(len(wanted)))


def tensors_for(order, tensors):
    """The tensors in the order of the model's inputs."""
    return [tensors[i] for i in order]


def flatten(outputs, torch):
    """Every tensor in a module's output."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    values = outputs.values() if isinstance(outputs, dict) else outputs
    return [tensor for value in values for tensor in flatten(value, torch)]


def touch(arrays):
    """Read an element of each output, so that none can have been left uncomputed."""
    for array in arrays:
        if array.size:
            float(array.reshape(-1)[-1])
