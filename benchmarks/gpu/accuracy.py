"""Accuracy of engines on an NVIDIA GPU, on the real photos and sentences that benchmarks/pack_accuracy.py gathered.

    python3 benchmarks/gpu/accuracy.py --lathe build/bin/lathe --data FOLDER --work /tmp/accuracy --output results/

Classifiers: `lathe build` for fp32, tf32, bf16, fp16 and (after `lathe quantize`) int8, then `lathe eval` of all against
fp32, on the GPU each. MiniLM: STS-B's sentences through engines of fp32 and fp16 in batches of like length, mean of the
tokens' vectors, length 1, cosine; Spearman's correlation with people's scores.
Writes NETWORK.accuracy.json with the limits below and whether they hold; ends with 5 if one does not. Needs NumPy.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import provenance
from gpu import planes

PRECISIONS = ["fp32", "tf32", "bf16", "fp16", "int8"]
# What must hold against fp32 on the same GPU: top-1 at most so many points lower, so much agreement, so little KL.
LIMITS = {
    "resnet50": {
        "fp16": {"top1_points": 0.1, "agreement": 0.995},
        "int8": {"top1_points": 0.3, "agreement": 0.978, "mean_kl": 0.0018},
    },
    "lite0": {"fp16": {"top1_points": 1.0}, "int8": {"top1_points": 1.0}},
    "mobilenet_v1": {"fp16": {"top1_points": 1.0}, "int8": {"top1_points": 1.0}},
}
# Of Spearman's correlation, from that of FP32 on the CPU.
SPEARMAN_LIMITS = {"fp32": 1e-4, "fp16": 3e-4}
# The GPU's fp32 sums in another order than the CPU's; top-1 may differ by this share.
FP32_LIMIT = 0.0005


def log(*words):
    print(*words, flush=True)


def ranks(values):
    """1-based ranks; equal values share the mean of theirs."""
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    starts = np.flatnonzero(np.r_[True, sorted_values[1:] != sorted_values[:-1]])
    ends = np.r_[starts[1:], len(values)]
    result = np.empty(len(values))
    for start, end in zip(starts, ends):
        result[order[start:end]] = (start + end + 1) / 2
    return result


def spearman_of(vectors, scores):
    """Rank correlation of scores with the cosines of vectors 2i and 2i+1."""
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    cosines = (unit[0::2] * unit[1::2]).sum(1)
    return float(np.corrcoef(ranks(cosines), ranks(np.asarray(scores)))[0, 1])


def machine(device):
    """What the figures were taken on, and `lathe doctor`'s libraries."""
    found = {"cores": len(os.sched_getaffinity(0))}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            found["cpu"] = line.split(":", 1)[1].strip()
            break
    if device == "cuda":
        fields = ["name", "driver_version"]
        text = subprocess.run(["nvidia-smi", "--id=0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=20, check=True).stdout
        found["gpu"], found["driver"] = [word.strip() for word in text.splitlines()[0].split(",")]
    return found


class Check:
    """One network's engines."""

    def __init__(self, name, entry, options):
        self.name, self.entry, self.options = name, entry, options
        self.source = Path(options.data) / name
        self.work = Path(options.work) / name
        self.work.mkdir(parents=True, exist_ok=True)
        self.document = {
            "kind": "gpu-accuracy", "version": 1, "network": entry["title"], "machine": machine(options.device),
            "libraries": options.libraries, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "data": {}, "weights_sha256": entry["weights_sha256"], "cpu_fp32": entry["cpu_fp32"],
            "hashes": {"weights": entry["weights_sha256"]}, "seconds": {}, "checks": [],
        }

    def run(self, *arguments):
        """Lathe's output; RuntimeError with what it says."""
        done = subprocess.run([self.options.lathe, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"lathe {arguments[0]} ended with {done.returncode}: {done.stderr[-1500:]}")
        return done.stdout

    def timed(self, what, function):
        start = time.perf_counter()
        result = function()
        self.document["seconds"][what] = round(time.perf_counter() - start, 2)
        log(self.name, what, f"{self.document['seconds'][what]:.1f} s")
        return result

    def check(self, what, value, limit, holds):
        self.document["checks"].append({"what": what, "value": value, "limit": limit, "holds": bool(holds)})
        log(self.name, "holds" if holds else "DOES NOT HOLD:", what, value, "limit", limit)

    def restore(self):
        """The model with its weights, as it was packed."""
        weights = planes.unpack(planes.read_parts(self.source / "weights.planes"))
        if hashlib.sha256(weights).hexdigest() != self.entry["weights_sha256"]:
            raise RuntimeError(f"{self.source}: the weights are not those that were packed")
        (self.work / "weights.bin").write_bytes(weights)
        shutil.copy(self.source / "model.onnx", self.work / "model.onnx")

    def build(self, precision, shapes):
        """An engine of the model, of the quantised one for int8."""
        model = self.work / ("int8.onnx" if precision == "int8" else "model.onnx")
        engine = self.work / f"{precision}.engine"
        arguments = ["build", model, "--precision", precision, "-o", engine, "--device", self.options.device]
        if (self.source / "preprocess.json").exists():
            arguments += ["--preprocess", self.source / "preprocess.json"]
        for shape in shapes:
            arguments += ["--shape", shape]
        if self.options.device == "cuda":
            arguments += ["--tune", self.options.tune, "--timing-cache",
                          self.options.timing_cache.format(network=self.name, precision=precision)]
        self.timed(f"build {precision}", lambda: self.run(*arguments))
        return engine

    def save(self):
        provenance.stamp(self.document, self.options.lathe, ())
        text = json.dumps(self.document, indent=1) + "\n"
        target = Path(self.options.output) / f"{self.name}.accuracy.json"
        target.with_suffix(".new").write_text(text, encoding="utf-8")
        os.replace(target.with_suffix(".new"), target)

    def photos(self):
        """The labelled folder, unpacked once for all networks."""
        name = self.entry["data"]
        folder = Path(self.options.work) / name
        self.document["data"] = {"name": name, **self.options.manifest["data"][name]}
        if not (folder / ".complete").exists():
            archive = Path(self.options.work) / f"{name}.tar"
            archive.write_bytes(planes.read_parts(Path(self.options.data) / f"{name}.tar"))
            digest = hashlib.sha256()
            with tarfile.open(archive) as tar:
                for member in tar:
                    data = tar.extractfile(member).read()
                    digest.update(member.name.encode() + b"\0" + data)
                    target = folder / member.name
                    if not target.resolve().is_relative_to(folder.resolve()):
                        raise RuntimeError(f"{name}.tar names a file outside its folder: {member.name}")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(data)
            if digest.hexdigest() != self.document["data"]["sha256"]:
                raise RuntimeError(f"{name}.tar holds other files than were packed")
            (folder / ".complete").touch()
        return folder

    def classifier(self):
        """Top-1 and closeness to fp32 of every precision."""
        self.timed("restore", self.restore)
        data = self.timed("photos", self.photos)
        self.timed("quantize", lambda: self.run(
            "quantize", self.work / "model.onnx", "--ranges", self.source / "model.ranges", "--target", "cuda", "-o",
            self.work / "int8.onnx"))
        model = json.loads(self.run("inspect", self.work / "model.onnx", "--json"))
        shape = model["inputs"][0]["name"] + ":" + "..".join(f"{n}x3x224x224" for n in (1, 8, 32))
        engines = {}
        for precision in self.options.precisions:
            try:
                engines[precision] = self.build(precision, [shape])
            except RuntimeError as error:
                self.check(f"{precision} builds", str(error)[-600:], None, False)
        found = self.work / "eval.json"
        others = [engine for precision, engine in engines.items() if precision != "fp32"]
        self.timed("eval", lambda: self.run("eval", *others, "--reference", engines["fp32"], "--data", data,
                                            "--batch-size", "32", "--output", found))
        result = json.loads(found.read_text(encoding="utf-8"))
        for subject in result["subjects"]:
            subject.pop("file", None)
        self.document |= {"subjects": result["subjects"], "classes": result["classes"],
                          "data": self.document["data"] | {"samples": result["data"]["samples"]}}
        rows = {row["name"]: row for row in result["subjects"]}
        base = rows["fp32"]["top1"]
        cpu = self.entry["cpu_fp32"]["top1"]
        self.check("fp32 top-1 as on the CPU", base, [cpu - FP32_LIMIT, cpu + FP32_LIMIT], abs(base - cpu) <= FP32_LIMIT)
        for precision, limits in LIMITS.get(self.name, {}).items():
            if precision not in rows:
                continue
            row, versus = rows[precision], rows[precision]["vs_reference"]
            for key, limit in limits.items():
                if key == "top1_points":
                    lost = round(100 * (base - row["top1"]), 6)
                    self.check(f"{precision}: points of top-1 lost", lost, limit, lost <= limit)
                else:
                    least = key == "agreement"
                    self.check(f"{precision}: {key}", versus[key], limit,
                               versus[key] >= limit if least else versus[key] <= limit)

    def encoder(self):
        """Spearman's correlation on STS-B."""
        from gpu.turns import Turns

        self.timed("restore", self.restore)
        with np.load(self.source / "sentences.npz") as file:
            flat, lengths, scores = file["ids"], file["lengths"], file["scores"]
        starts = np.r_[0, np.cumsum(lengths)]
        rows = [flat[starts[i] : starts[i + 1]] for i in range(len(lengths))]
        order = np.argsort(lengths, kind="stable")
        most = int(lengths.max())
        self.document["data"] = {"name": "STS-B test", "sha256": self.entry["sentences_sha256"], "pairs": len(scores),
                                 "longest": most}
        results = {}
        for precision in [p for p in self.options.precisions if p in self.entry["precisions"]]:
            shapes = [f"{name}:1x4..64x24..64x{most}" for name in ("input_ids", "attention_mask", "token_type_ids")]
            turns = Turns(self.options.lathe, self.build(precision, shapes), self.work / "turns.log")

            def embed(turns=turns):
                vectors = [None] * len(rows)
                for at in range(0, len(order), 64):
                    batch = order[at : at + 64]
                    width = int(lengths[batch].max())
                    ids, mask = np.zeros([2, len(batch), width], np.int64)
                    for k, i in enumerate(batch):
                        ids[k, : lengths[i]] = rows[i]
                        mask[k, : lengths[i]] = 1
                    files = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
                    for key, value in files.items():
                        np.save(self.work / f"{key}.npy", value)
                    turns.ask(inputs={key: str(self.work / f"{key}.npy") for key in files}, calls=1, timed=False,
                              save=str(self.work / "out.npz"))
                    with np.load(self.work / "out.npz") as out:
                        hidden = out["hidden"]
                    weight = mask[:, :, None].astype(np.float64)
                    means = (hidden * weight).sum(1) / weight.sum(1)
                    for k, i in enumerate(batch):
                        vectors[i] = means[k]
                return np.array(vectors)

            vectors = self.timed(f"sentences {precision}", embed)
            turns.close()
            results[precision] = {"spearman": spearman_of(vectors, scores), "finite": bool(np.isfinite(vectors).all()),
                                  "vectors": vectors}
        base = self.entry["cpu_fp32"]["spearman"]
        self.document["subjects"] = []
        for precision, row in results.items():
            vectors = row.pop("vectors")
            if precision == "fp32":
                reference = vectors
            elif "fp32" in results:
                row["relative_to_fp32"] = float(np.linalg.norm(vectors - reference) / np.linalg.norm(reference))
            self.document["subjects"].append({"name": precision, **row})
            limit = SPEARMAN_LIMITS[precision]
            self.check(f"{precision}: Spearman as in fp32 on the CPU ({base:.6f})", row["spearman"], limit,
                       abs(row["spearman"] - base) <= limit)


def libraries(options):
    """Versions as `lathe doctor` tells them."""
    done = subprocess.run([options.lathe, "doctor", "--json"], capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {}
    return {row["backend"]: {key: row[key] for key in ("version", "devices") if key in row}
            for row in found.get("backends", []) if row.get("available")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--data", required=True, help="folder that pack_accuracy.py wrote")
    parser.add_argument("--work", required=True)
    parser.add_argument("--output", required=True, help="folder for NETWORK.accuracy.json")
    parser.add_argument("--networks", help="default: all of the folder")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--tune", default="default", choices=["fast", "default", "full"])
    parser.add_argument("--timing-cache", help="file, with {network} and {precision} in its name if there are several")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="cpu: to try this script out")
    options = parser.parse_args()
    options.precisions = options.precisions.split(",")
    options.timing_cache = options.timing_cache or str(Path(options.work) / "timings.json")
    Path(options.work).mkdir(parents=True, exist_ok=True)
    Path(options.output).mkdir(parents=True, exist_ok=True)
    options.manifest = json.loads((Path(options.data) / "manifest.json").read_text(encoding="utf-8"))
    options.libraries = libraries(options)
    failed = False
    names = options.networks.split(",") if options.networks else list(options.manifest["networks"])
    for name in names:
        entry = options.manifest["networks"][name]
        check = Check(name, entry, options)
        try:
            getattr(check, entry["kind"])()
        except Exception as error:
            check.check("runs", f"{type(error).__name__}: {error}"[-1500:], None, False)
        check.save()
        failed |= not all(row["holds"] for row in check.document["checks"])
    sys.exit(5 if failed else 0)


if __name__ == "__main__":
    main()
