"""Random networks whose first axis is open: `lathe build` for 1 to 4 samples, then `lathe run` with 1, 3 and 4, on the CPU, in
float and in INT8 (`lathe calibrate`, `quantize`), against ONNX Runtime.

    run_open.py LATHE [FIRST LAST] [--keep FOLDER]

In INT8 an engine may differ from ONNX Runtime on the same quantised network by twice what quantisation itself changes, or 3 % of
the norm, as in run_int8.py. Those that differ by more, fail or crash are told, and stay in FOLDER (SEED_float, SEED_int8).
Exit 1 if there was one, 77 where a package is missing.
"""

import os
import pathlib
import shutil
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401: asked for early
    from oracle import CLOSE, arguments, command, difference, evaluate, is_stable
    from networks import network
    from run_int8 import int8_of, norm
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

SIZES = (1, 3, 4)


def forget_shapes(graph):
    """Of bodies, which hold those of the sizes that the network was made for."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                body = attribute.g
                del body.value_info[:]
                for value in [*body.input, *body.output]:
                    value.type.tensor_type.ClearField("shape")
                forget_shapes(body)


def opened(model, feeds):
    """The network with an open first axis of every input, and inputs of each size; None where that is not possible."""
    if any(value.ndim < 2 or value.shape[0] != next(iter(feeds.values())).shape[0] for value in feeds.values()):
        return None
    for value in model.graph.input:
        for axis, (dimension, size) in enumerate(zip(value.type.tensor_type.shape.dim, feeds[value.name].shape)):
            dimension.Clear()
            if axis:
                dimension.dim_value = size
            else:
                dimension.dim_param = "batch"
    forget_shapes(model.graph)
    random = np.random.default_rng(0)

    def drawn(like, size):
        shape = (size, *like.shape[1:])
        if like.dtype == np.float32:
            return random.standard_normal(shape).astype(np.float32)
        return random.integers(0, int(like.max()) + 1, shape).astype(like.dtype)

    return {size: {name: drawn(like, size) for name, like in feeds.items()} for size in SIZES}


def swapped(model):
    """The network that takes the other branch of each If; None where there is none."""
    other = onnx.ModelProto()
    other.CopyFrom(model)

    def swap(graph):
        found = False
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.name in ("then_branch", "else_branch"):
                    attribute.name = "else_branch" if attribute.name == "then_branch" else "then_branch"
                    found = True
                if attribute.type == onnx.AttributeProto.GRAPH:
                    found = swap(attribute.g) or found
        return found

    return other if swap(other.graph) else None


def ends_the_process(model, inputs):
    """Whether ONNX Runtime (1.32) does, of one sample of which a Slice by steps takes none, or a kernel divides by its sizes."""
    child = os.fork()
    if child == 0:
        try:
            for feeds in inputs.values():
                evaluate(model, feeds)
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def answers(model, inputs):
    """By size, what ONNX Runtime gives; None where sizes are not what decides, numbers are none or roundings decide."""
    if ends_the_process(model, inputs):
        return None
    try:
        wanted = {size: evaluate(model, feeds) for size, feeds in inputs.items()}
        if other := swapped(model):  # which may hold its size as well
            for size, feeds in inputs.items():
                if any(a.shape != b.shape for a, b in zip(evaluate(other, feeds), wanted[size])):
                    return None
    except Exception:  # noqa: BLE001: a constant of the network holds its size
        return None
    for size, outputs in wanted.items():
        if not all(value.ndim and value.shape[0] == size and np.isfinite(value).all() for value in outputs):
            return None
        if not is_stable(model, inputs[size], outputs):
            return None
    return wanted


def complaint(program, folder, model, inputs, limits):
    """What is wrong with the engine of `model`; limits: size, output and value found to what is wrong there, or ""."""
    shapes = []
    for value in model.graph.input:
        rest = "".join(f"x{size}" for size in inputs[SIZES[0]][value.name].shape[1:])
        shapes += ["--shape", f"{value.name}:{SIZES[0]}{rest}..{SIZES[1]}{rest}..{SIZES[-1]}{rest}"]
    onnx.save(model, folder / "built.onnx")
    if said := command(program, folder, "build", "built.onnx", "-o", "model.engine", *shapes):
        return said
    for size, feeds in inputs.items():
        np.savez(folder / f"in{size}.npz", **feeds)
        if said := command(program, folder, "run", "model.engine", f"in{size}.npz", "-o", f"out{size}.npz"):
            return f"{size} samples: {said}"
        with np.load(folder / f"out{size}.npz") as found:
            for i, value in enumerate(model.graph.output):
                if said := limits(size, i, found[value.name].astype(np.float32)):
                    return f"{size} samples: output {i} {said}"
    return ""


def judged(program, root, seed):
    """What is wrong by kind ("float", "int8") of the engines that were made; None: no such network."""
    model, feeds = network(seed)
    inputs = opened(model, feeds)
    exact = inputs and answers(model, inputs)
    if not exact:
        return None
    said = {}

    def judge(kind, made, wanted, wrong):
        folder = root / f"{seed}_{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        said[kind] = made if isinstance(made, str) else complaint(program, folder, made, inputs, lambda s, i, v: wrong(v, wanted[s][i], s, i))
        if not said[kind]:
            shutil.rmtree(folder)

    judge("float", model, exact,
          lambda found, wanted, size, i: "" if difference(found, wanted) < CLOSE else f"differs by {difference(found, wanted):.1e}")
    work = root / f"{seed}_quantised"
    work.mkdir(parents=True, exist_ok=True)
    onnx.save(model, work / "model.onnx")
    np.savez(work / "data.npz", **inputs[SIZES[-1]])
    made = int8_of(program, work)
    shutil.rmtree(work)
    if made is None:
        return said

    def wrong(found, wanted, size, i):
        differs, lost = norm(found, wanted), norm(wanted, exact[size][i])
        return "" if differs <= max(2 * lost, 0.03) else f"differs by {differs:.1e}, quantisation by {lost:.1e}"

    failed = isinstance(made, str)
    judge("int8", made, None if failed else {size: evaluate(made, feeds) for size, feeds in inputs.items()}, wrong)
    return said


def main():
    given = arguments(__doc__, ["lathe"], 99).parse_args()
    program = str(pathlib.Path(given.lathe).resolve())
    root = given.keep or pathlib.Path(tempfile.mkdtemp(prefix="lathe-differential-"))
    count = {"float": 0, "int8": 0}
    bad = 0
    for seed in range(given.first, given.last + 1):
        for kind, said in (judged(program, root, seed) or {}).items():
            count[kind] += 1
            bad += bool(said)
            if said:
                print(f"{seed}_{kind}: {said}", flush=True)
    if not given.keep:
        shutil.rmtree(root)
    print(f"{count['float']} networks with an open axis, {count['int8']} of them in INT8, {bad} wrong")
    assert count["float"] > (given.last - given.first + 1) / 8, "too few networks have an axis that can be open"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
