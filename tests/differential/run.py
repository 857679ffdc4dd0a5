"""Random networks through the CPU engine, the CUDA engine's plan (in the interpreter) and `simplify`, against ONNX Runtime.

    run.py RUN_PLAN [FIRST LAST] [--keep FOLDER]

Networks of the seeds FIRST to LAST (0 to 199) are made, run and compared; those that differ, fail or crash are told, and
stay in FOLDER, where reduce.py makes them small. Exit 1 if there was one, 77 where a package is missing.
"""

import pathlib
import shutil
import sys
import tempfile

try:
    import onnxruntime  # noqa: F401: asked for early
    from oracle import arguments, complaints, dependable, run, write
    from networks import network
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has it", file=sys.stderr)
    sys.exit(77)

TOGETHER = 40  # networks in one process


def main():
    given = arguments(__doc__, ["run_plan"], 199).parse_args()
    root = given.keep or pathlib.Path(tempfile.mkdtemp(prefix="lathe-differential-"))
    wanted, unusable = {}, 0
    for seed in range(given.first, given.last + 1):
        model, feeds = network(seed)
        try:
            outputs = dependable(model, feeds)
        except Exception as error:  # noqa: BLE001: ONNX Runtime's own refusal of a network that is not valid
            outputs = None
            print(f"seed {seed} is no network: {' '.join(str(error).split())[:200]}")
        if outputs is None:
            unusable += 1
            continue
        wanted[root / str(seed)] = outputs
        write(root / str(seed), model, feeds)
    folders, bad = list(wanted), 0
    for begin in range(0, len(folders), TOGETHER):
        part = folders[begin:begin + TOGETHER]
        told = run(given.run_plan, part)
        for folder in part:
            found = complaints(folder, wanted[folder], told.get(folder))
            for line in found:
                print(f"seed {folder.name}: {line[:400]}", flush=True)
            bad += bool(found)
            if not found or not given.keep:
                shutil.rmtree(folder)
    if not given.keep:
        shutil.rmtree(root)
    print(f"{len(folders)} networks, {bad} of them wrong; {unusable} not finite or decided by roundings")
    count = given.last - given.first + 1
    assert unusable <= count * 0.05 + 1, "too few networks are usable"
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
