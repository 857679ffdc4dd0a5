#!/usr/bin/env python3
"""Hostile models, engines, data and JSON through every command: no crash, no hang, no wrong result with exit code 0.

    run.py LATHE [--cases N] [--seed S] [--only KIND] [--keep FOLDER] [--jobs N]

A case is a file that a stranger could have written and the commands that read it. Every command must end within 20 s
and 2 GB, by itself, with a code of docs/commands.md; where that is not 0, with a sentence and without what libraries
say among themselves; where a model is built and run, with ONNX's reference's numbers. Cases follow from the seed alone:
--only KIND --case NUMBER makes one again, --keep leaves its files. Exit code 77 where Python has no onnx.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
    import onnx  # noqa: F401
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

import forged
import operators

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 20
BYTES = 2 << 30
ADDRESSES = 16 << 30
CODES = {0, 2, 3, 4, 5}
RAW = re.compile(r"json\.exception|std::|FrontEnd|Frontend|OpConversion|Exception from|Check '|terminate called|"
                 r"[Bb]ug in Lathe|core dumped|Assertion|vector::_M|basic_string|bad_alloc|libprotobuf|what\(\)")
TESTS = HERE.parent


class Seeds:
    """Good files of every kind that commands read, made by the program itself."""

    def __init__(self, lathe, folder):
        self.lathe, self.folder = lathe, folder
        (folder / "photos").mkdir()
        pictures = sorted((TESTS / "data" / "golden").glob("*.png"))[:4] + sorted((TESTS / "data" / "golden").glob("*.jpg"))[:6]
        for picture in pictures:
            shutil.copy(picture, folder / "photos")
        self.pictures = [folder / "photos" / picture.name for picture in pictures]
        (folder / "photos" / "labels.csv").write_text(
            "file,class_index\n" + "".join(f"{p.name},{i % 5}\n" for i, p in enumerate(self.pictures)))
        self.model = folder / "m.onnx"
        onnx.save(forged.network(), self.model)
        random = np.random.default_rng(1)
        data = random.standard_normal((6, 3, 8, 8)).astype(np.float32)
        np.save(folder / "data.npy", data)
        np.savez(folder / "data.npz", input=data, labels=np.arange(6) % 5)
        np.savez_compressed(folder / "packed.npz", input=data)
        (folder / "preprocess.json").write_text('{"resize": [8, 8], "crop": [8, 8], "scale": 0.0078, "mean": [1, 1, 1], '
                                                '"std": [1, 1, 1], "layout": "NCHW", "interpolation": "bilinear"}')
        (folder / "texts.tsv").write_text("text\tlabel\na film\t1\nno film\t0\n")
        self.make("simplify m.onnx -o s.onnx")
        self.make("calibrate s.onnx --data data.npy -o s.ranges --json", "calibration.json")
        self.make("convert-ranges s.ranges -o m.cache")
        self.make("convert-ranges s.ranges --format dynamic-ranges -o dynamic.json")
        self.make("quantize s.onnx --ranges s.ranges -o q.onnx --json", "quantize.json")
        self.make("build m.onnx -o m.engine")
        self.make("build q.onnx -o q.engine")
        self.make("bench m.engine q.engine --duration 0 --time-limit 0.2 --batch-sizes 1 --output bench.json")
        self.make("eval q.engine --reference m.engine --data photos --output eval.json")
        self.make("sensitivity s.onnx --data data.npy --output sensitivity.json")
        self.make("autocast m.onnx -o a.onnx --to bf16 --json", "autocast.json")
        self.tokenizer = json.loads((TESTS / "backends" / "golden" / "tokenizer.json").read_text())["tokenizer"]
        onnx.save(forged.text_network(self.tokenizer), folder / "t.onnx")
        (folder / "t.tsv").write_text("label\ttext\n1\tthe quiet film\n0\ta moving film\n1\tunrelated\n")
        self.texts = subprocess.run([lathe, *"build t.onnx -o t.engine --shape 1x4..2x8..4x12".split()], cwd=folder,
                                    capture_output=True).returncode == 0
        onnx.save(forged.detector(), folder / "d.onnx")
        self.make("build d.onnx -o d.engine")
        (folder / "boxes").mkdir()
        for picture in pictures[:2]:
            shutil.copy(picture, folder / "boxes")
        boxes = {"images": [{"id": i + 1, "file_name": each.name, "width": 64, "height": 48} for i, each in enumerate(pictures[:2])],
                 "annotations": [{"id": i, "image_id": i + 1, "category_id": i + 1, "bbox": [2, 3, 20, 10], "area": 200,
                                  "iscrowd": 0} for i in range(2)],
                 "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]}
        (folder / "boxes.json").write_text(json.dumps(boxes))
        (folder / "stages.json").write_text('{"stages": [{"name": "network", "median_ms": 0.8, "p99_ms": 3}, '
                                            '{"name": "decode", "ms": 2, "workers": 4}]}')
        (folder / "prices.json").write_text('{"currency": "USD", "machines": [{"name": "cpu-8", "per_hour": 0.34, "from": "' +
                                            str(folder / "bench.json") + '"}]}')
        (folder / "trace.csv").write_text("seconds\n" + "".join(f"{0.01 * i}\n" for i in range(60)))
        self.logs = sorted((TESTS / "bench" / "logs").glob("trt*.log"))
        self.caches = sorted((TESTS / "calibrate" / "caches").glob("trt*.cache"))

    def make(self, command, output=None):
        done = subprocess.run([self.lathe, *command.split()], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"lathe {command}: {done.returncode}\n{done.stdout}{done.stderr}")
        if output:
            (self.folder / output).write_text(done.stdout)


class Case:
    """Files by name, command lines in which @ is the seeds' folder, and, where it can be asked, a model with inputs."""

    def __init__(self, files, commands, model=None, inputs=None):
        self.files, self.commands, self.model, self.inputs = files, commands, model, inputs


MODEL_COMMANDS = [
    "inspect h.onnx", "simplify h.onnx -o s.onnx", "calibrate h.onnx --data @/data.npy -o r",
    "quantize h.onnx --ranges @/s.ranges -o q.onnx", "autocast h.onnx -o a.onnx --to fp16",
    "autocast h.onnx -o a.onnx --data @/data.npy", "compare h.onnx @/m.onnx", "inspect h.onnx --json",
    "sensitivity h.onnx --data @/data.npy --output s.json", "quantize h.onnx --ranges @/m.cache --target tensorrt -o q.onnx",
    "quantize --lint h.onnx --target openvino"]
ENGINE_COMMANDS = ["inspect h.engine --layers", "run h.engine @/data.npy -o o.npz", "bench h.engine --duration 0 --time-limit 0.1",
                   "eval h.engine --data @/photos", "deploy triton h.engine -o repository", "compare h.engine @/m.engine"]


def of_operators(random, seeds):
    model, inputs = operators.case(random)
    return Case({"h.onnx": forged.onnx_bytes(model)},
                [str(random.choice(["inspect h.onnx", "simplify h.onnx -o s.onnx"]))], "h.onnx", inputs)


def model_case(random, data):
    commands = [str(command) for command in random.choice(MODEL_COMMANDS, 2, replace=False)]
    asked = random.random() < 0.5 and forged.readable(data) is not None
    inputs = {"input": np.random.default_rng(3).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    return Case({"h.onnx": data, "w.bin": b"\0" * 400}, commands, "h.onnx" if asked else None, inputs)


def of_forged_models(random, seeds):
    lie = forged.LIES[int(random.integers(0, len(forged.LIES)))]
    model = forged.forge(random, lie)
    if random.random() < 0.2:
        forged.LIES[int(random.integers(0, len(forged.LIES)))](model, random) if len(model.graph.node) > 4 and \
            len(model.graph.initializer) > 2 and len(model.graph.input) and len(model.graph.output) and \
            len(model.opset_import) and len(model.graph.input[0].type.tensor_type.shape.dim) > 3 and \
            len(model.graph.output[0].type.tensor_type.shape.dim) > 1 and lie is not forged.lie_functions else None
    return model_case(random, forged.onnx_bytes(model))


def of_model_bytes(random, seeds):
    source = str(random.choice(["m.onnx", "m.onnx", "q.onnx", "a.onnx"]))
    return model_case(random, forged.mutate(random, (seeds.folder / source).read_bytes()))


def of_engine_bytes(random, seeds):
    source = str(random.choice(["m.engine", "q.engine"]))
    data = forged.mutate(random, (seeds.folder / source).read_bytes())
    return Case({"h.engine": data}, [str(c) for c in random.choice(ENGINE_COMMANDS, 2, replace=False)])


def of_data(random, seeds):
    kind = str(random.choice(["npy", "npz", "packed.npz", "picture", "picture", "labels", "tsv"]))
    if kind == "picture":
        picture = seeds.pictures[int(random.integers(0, len(seeds.pictures)))]
        name = "h" + picture.suffix
        return Case({name: forged.mutate(random, picture.read_bytes())},
                    [str(random.choice([f"run @/m.engine {name}", f"calibrate @/s.onnx --data {name} -o r"]))])
    if kind == "labels":
        files = {f"photos/{p.name}": p.read_bytes() for p in seeds.pictures[:2]}
        files["photos/labels.csv"] = forged.mutate(random, (seeds.folder / "photos" / "labels.csv").read_bytes(), True)
        return Case(files, ["eval @/m.engine --data photos"])
    if kind == "tsv":
        return Case({"h.tsv": forged.mutate(random, (seeds.folder / "texts.tsv").read_bytes(), True)},
                    ["run @/m.engine h.tsv", "profile-data @/m.engine h.tsv"])
    source = {"npy": "data.npy", "npz": "data.npz", "packed.npz": "packed.npz"}[kind]
    name = "h" + pathlib.Path(source).suffix
    return Case({name: forged.mutate(random, (seeds.folder / source).read_bytes())},
                [str(random.choice([f"run @/m.engine {name} -o o.npz", f"calibrate @/s.onnx --data {name} -o r",
                                    f"eval @/m.engine --data {name}"]))])


JSON_FILES = {
    "preprocess.json": ["run @/m.engine @/photos --preprocess h.json"],
    "dynamic.json": ["quantize @/s.onnx --ranges h.json --target tensorrt -o q.onnx", "convert-ranges h.json -o c.cache"],
    "bench.json": ["report h.json -o p.html", "plan --slo p99=50ms --rate 20/s --from h.json",
                   "deploy triton @/m.engine -o repository --from h.json"],
    "eval.json": ["report h.json -o p.html", "report @/bench.json h.json -o p.html"],
    "calibration.json": ["report h.json -o p.html"],
    "quantize.json": ["report h.json -o p.html"],
    "autocast.json": ["report h.json -o p.html"],
    "sensitivity.json": ["report h.json -o p.html", "sensitivity @/s.onnx --data @/data.npy --output h.json"],
}


def of_json(random, seeds):
    source = str(random.choice(list(JSON_FILES)))
    text = (seeds.folder / source).read_text()
    if random.random() < 0.7:
        data = forged.forge_json(random, json.loads(text)).encode()
    else:
        data = forged.mutate(random, text.encode(), True)
    return Case({"h.json": data}, [str(random.choice(JSON_FILES[source]))])


def of_text_files(random, seeds):
    kind = str(random.choice(["ranges", "cache", "log"]))
    if kind == "ranges":
        return Case({"h.ranges": forged.mutate(random, (seeds.folder / "s.ranges").read_bytes())},
                    ["quantize @/s.onnx --ranges h.ranges -o q.onnx", "convert-ranges h.ranges -o c.cache"])
    if kind == "cache":
        cache = (seeds.folder / "m.cache") if random.random() < 0.5 else seeds.caches[int(random.integers(0, len(seeds.caches)))]
        return Case({"h.cache": forged.mutate(random, cache.read_bytes(), True)},
                    ["quantize @/s.onnx --ranges h.cache --target tensorrt -o q.onnx", "convert-ranges h.cache -o d.json"])
    log = seeds.logs[int(random.integers(0, len(seeds.logs)))]
    return Case({"h.log": forged.mutate(random, log.read_bytes(), True)}, ["trtexec-log h.log --output t.json"])


def of_texts(random, seeds):
    kind = int(random.integers(0, 3))
    if kind == 0:
        model = forged.text_network(json.loads(forged.forge_json(random, seeds.tokenizer)))
        data = {"h.onnx": forged.onnx_bytes(model)}
        return Case(data, [str(random.choice(["profile-data h.onnx --data @/t.tsv", "calibrate h.onnx --data @/t.tsv -o r",
                                              "inspect h.onnx", "build h.onnx -o h.engine"]))])
    suffix, text = [(".tsv", (seeds.folder / "t.tsv").read_text()), (".csv", 'text,label\n"a, film",1\nthe film,0\n'),
                    (".jsonl", '{"text": "a film", "label": 1}\n{"text": "the film", "label": 0}\n')][int(random.integers(0, 3))]
    if kind == 1 or not seeds.texts:
        return Case({"h" + suffix: forged.mutate(random, text.encode(), True)}, [f"profile-data @/t.onnx --data h{suffix}"])
    return Case({"h" + suffix: forged.mutate(random, text.encode(), True)},
                [str(random.choice([f"run @/t.engine h{suffix}", f"eval @/t.engine --data h{suffix}"]))])


def of_boxes(random, seeds):
    text = (seeds.folder / "boxes.json").read_text()
    data = forged.forge_json(random, json.loads(text)).encode() if random.random() < 0.7 else forged.mutate(random, text.encode(), True)
    files = {f"boxes/{each.name}": each.read_bytes() for each in sorted((seeds.folder / "boxes").iterdir())}
    return Case({**files, "boxes/instances.json": data}, ["eval @/d.engine --data boxes --task detection"])


def of_plans(random, seeds):
    source = str(random.choice(["stages.json", "prices.json", "trace.csv"]))
    text = (seeds.folder / source).read_text()
    data = forged.forge_json(random, json.loads(text)).encode() if source.endswith("json") and random.random() < 0.7 else \
        forged.mutate(random, text.encode(), True)
    command = {"stages.json": "--rate 20/s --from @/bench.json --stages h.json", "prices.json": "--rate 20/s --prices h.json",
               "trace.csv": "--trace h.csv --rate 20/s --from @/bench.json"}[source]
    return Case({"h.json": data, "h.csv": data}, ["plan --slo p99=50ms " + command])


# How many of each.
KINDS = {"operators": (of_operators, 400), "forged-models": (of_forged_models, 250), "model-bytes": (of_model_bytes, 180),
         "engine-bytes": (of_engine_bytes, 100), "data": (of_data, 110), "json": (of_json, 110), "text-files": (of_text_files, 50),
         "texts": (of_texts, 60), "boxes": (of_boxes, 30), "plans": (of_plans, 40)}


class Reference:
    """Answers of reference.py; started anew where it died."""

    def __init__(self):
        self.process = None

    def ask(self, model, inputs, outputs):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen([sys.executable, str(HERE / "reference.py")], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write(f"{model}\t{inputs}\t{outputs}\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip() or "none: the reference died"
        except OSError:
            return "none: the reference died"

    def close(self):
        if self.process is not None:
            self.process.kill()


def differs(expected, got, tolerance):
    """Why two arrays are not the same, by the largest magnitude of what is expected, or None."""
    if expected.shape != got.shape:
        return f"shape {got.shape}, not {expected.shape}"
    if expected.dtype.kind != got.dtype.kind:
        return f"type {got.dtype}, not {expected.dtype}"
    if expected.size == 0:
        return None
    if expected.dtype.kind not in "fc":
        return None if np.array_equal(expected, got) else "other integers"
    expected, got = expected.astype(np.float64), got.astype(np.float64)
    largest = np.finfo(np.float32).max
    expected = np.where(np.abs(expected) > largest, np.copysign(np.inf, expected), expected)
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(got)):
        return "NaN or infinity appears or disappears"
    if not np.array_equal(np.isnan(expected), np.isnan(got)) or not np.array_equal(expected[np.isinf(expected)], got[np.isinf(expected)]):
        return "other infinities"
    if not finite.any():
        return None
    scale = max(1e-6, float(np.abs(expected[finite]).max()))
    worst = float(np.abs(expected[finite] - got[finite]).max()) / scale
    return f"relative difference {worst:.3g}" if worst > tolerance else None


class Suite:
    def __init__(self, lathe, seeds, seed, keep):
        self.lathe, self.seeds, self.seed, self.keep = lathe, seeds, seed, keep
        self.local = threading.local()
        self.references = []
        self.compared = self.commands = 0
        self.codes = collections.Counter()
        self.lock = threading.Lock()

    def random(self, kind, number):
        return np.random.default_rng([self.seed, list(KINDS).index(kind), number])

    def reference(self):
        if not hasattr(self.local, "reference"):
            self.local.reference = Reference()
            self.references.append(self.local.reference)
        return self.local.reference

    def command(self, line, folder, failures):
        """Its exit code; what is wrong with it goes to `failures`."""
        arguments = [part.replace("@", str(self.seeds.folder)) for part in line.split()]
        begin = time.monotonic()
        with open(folder / ".out", "wb") as out, open(folder / ".err", "wb") as err:
            process = subprocess.Popen([self.lathe, *arguments], cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                       env={**os.environ, "PYTHONSAFEPATH": "1"}, start_new_session=True)
            resource.prlimit(process.pid, resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))  # for the machine's sake
            timer = threading.Timer(SECONDS * 3, lambda: os.killpg(process.pid, 9))
            timer.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            timer.cancel()
        seconds = time.monotonic() - begin
        code = process.returncode
        errors = (folder / ".err").read_bytes().decode("utf-8", "replace")
        wrong = []
        # On a machine that does other work, time that others take is not the program's.
        if usage.ru_utime + usage.ru_stime > SECONDS or seconds > SECONDS * 3:
            wrong.append(f"took {seconds:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of a processor")
        if usage.ru_maxrss * 1024 > BYTES:
            wrong.append(f"took {usage.ru_maxrss / 2**20:.1f} GB")
        if code < 0:
            wrong.append(f"signal {-code}")
        elif code not in CODES and not (code == 1 and re.search(r"memory|may be used", errors)):
            wrong.append(f"exit code {code}")
        if code > 0 and not re.search(r"\S+ \S+", errors):
            wrong.append("no sentence on standard error")
        if RAW.search(errors):
            wrong.append("raw text of a library")
        if re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", errors):
            wrong.append("control characters")
        for each in wrong:
            failures.append(f"lathe {line}: {each}\n    {errors.strip()[:600]}")
        with self.lock:
            self.commands += 1
            self.codes[code] += 1
        return code

    def compare(self, case, folder, failures):
        np.savez(folder / "inputs.npz", **case.inputs)
        if self.command(f"build {case.model} -o h.engine", folder, failures) != 0:
            return
        # That is told, and what a NaN among the weights becomes is left to who computes.
        if re.search(r"hold \d+ NaN and \d+ infinit", (folder / ".err").read_text(errors="replace")):
            return
        if self.command("run h.engine inputs.npz -o outputs.npz --batch-size 64", folder, failures) != 0:
            return
        answer = self.reference().ask(folder / case.model, folder / "inputs.npz", folder / "expected.npz")
        if answer != "ok":
            return
        expected = np.load(folder / "expected.npz")
        got = np.load(folder / "outputs.npz")
        # Half-precision values are rounded where each implementation holds them.
        kinds = {each.data_type for each in onnx.load(folder / case.model).graph.initializer}
        tolerance = 3e-2 if kinds & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16} else 2e-3
        with self.lock:
            self.compared += 1
        for i, name in enumerate(expected["names"]):
            name = str(name)
            if name not in got.files:
                continue
            why = differs(expected[f"output{i}"], got[name], tolerance)
            if why:
                failures.append(f"exit code 0 and another result than ONNX's reference: output {name}: {why}")

    def run(self, kind, number):
        random = self.random(kind, number)
        failures = []
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{kind}-{number}-", dir=self.keep or self.seeds.folder.parent))
        try:
            case = KINDS[kind][0](random, self.seeds)
            for name, data in case.files.items():
                (folder / name).parent.mkdir(exist_ok=True)
                (folder / name).write_bytes(data)
            for line in case.commands:
                self.command(line, folder, failures)
            if case.model:
                self.compare(case, folder, failures)
        finally:
            if not (self.keep and failures):
                shutil.rmtree(folder, ignore_errors=True)
        return [f"--only {kind} --case {number}: {failure}" for failure in failures]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe")
    parser.add_argument("--cases", type=int, default=sum(count for _, count in KINDS.values()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--case", type=int)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    whole = sum(count for _, count in KINDS.values())
    cases = []
    for kind, (_, count) in KINDS.items():
        if options.only not in (None, kind):
            continue
        share = count if options.only else max(1, round(count * options.cases / whole))
        cases += [(kind, number) for number in (range(share) if options.case is None else [options.case])]
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lathe-hostile-") as folder:
        seeds_folder = pathlib.Path(folder) / "seeds"
        seeds_folder.mkdir()
        suite = Suite(os.path.abspath(options.lathe), Seeds(os.path.abspath(options.lathe), seeds_folder), options.seed, options.keep)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            failures = [each for found in pool.map(lambda job: suite.run(*job), cases) for each in found]
        for reference in suite.references:
            reference.close()
    for failure in failures:
        print(failure)
    codes = ", ".join(f"{count} ended with {code}" for code, count in sorted(suite.codes.items()))
    print(f"{len(cases)} cases of seed {options.seed}, {suite.commands} commands ({codes}), {suite.compared} compared with ONNX's "
          f"reference, {time.monotonic() - begin:.0f} s; {len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
