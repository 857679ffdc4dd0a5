"""Puts what `lathe tune --results` or `lathe sensitivity --output` wrote into benchmarks/results, for make_tables.py:

    python3 benchmarks/keep_mix.py r50.tune.json --title "ResNet-50, Tiny-ImageNet" --name resnet50
    python3 benchmarks/keep_mix.py bert.tune.json --title BERT-base --name bert_base --gpu "NVIDIA H200"

Refuses a result that is not of a finished run. Keeps file names, not the folders of the machine. No third-party package.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import provenance
from run_peers import strip_paths

RESULTS = Path(__file__).resolve().parent / "results"


def missing(document):
    """What an unfinished result of tune lacks, in words; nothing where it is whole."""
    chosen = [trial for trial in document.get("trials", []) if trial.get("chosen") and "failed" not in trial]
    judged = document.get("judged", {})
    timed = [engine["name"] for engine in judged.get("timed", [])]
    if len(chosen) != 1 or chosen[0]["name"] != document.get("chosen"):
        return "the trial that was chosen"
    if not judged.get("samples") or "drop" not in judged:
        return "the judgement on samples that the search did not see"
    if not document.get("engine_hash") or timed[:2] != ["saved", "FP32"]:
        return "the time of the saved engine beside FP32"
    if not any(name.startswith("INT8") for name in timed[1:]):
        return "the time of the saved engine beside INT8"
    return None


def ending(document):
    """How the file in results ends. Stops at what is no result of a finished run."""
    kind = document.get("kind")
    if kind == "sensitivity" and document.get("layers") and document.get("float_seconds"):
        return "sensitivity"
    if kind != "tune":
        raise SystemExit(f"a {kind} document: give a finished result of lathe tune or lathe sensitivity")
    if lacks := missing(document):
        raise SystemExit(f"the search was not finished: the result lacks {lacks}")
    return "tune.cpu" if document["device"] == "cpu" else "tune.gpu"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result")
    parser.add_argument("--title", required=True, help="of the network, as the other tables name it")
    parser.add_argument("--name", required=True, help="of the file: NAME.tune.cpu.json")
    parser.add_argument("--gpu", help="that it ran on; lathe tune writes down the host alone")
    parser.add_argument("--results", default=str(RESULTS))
    options = parser.parse_args()
    document = json.loads(Path(options.result).read_text(encoding="utf-8"))
    target = Path(options.results) / f"{options.name}.{ending(document)}.json"
    if document.get("device", "cpu") != "cpu" and not options.gpu:
        raise SystemExit("--gpu: name the GPU that it ran on")
    if options.gpu:
        document["machine"]["gpu"] = options.gpu
    document["commit"] = provenance.commit()
    document["hashes"] = {document["model"]["file"].rsplit("/", 1)[-1]: document["model"]["hash"]}
    strip_paths(target, options.title, document)
    print(target)


if __name__ == "__main__":
    main()
