"""Range estimators side by side: minmax, percentile, entropy, mse, and for each tensor the one that errs least.

    python3 benchmarks/run_methods.py --network lite0 --lathe build/bin/lathe --shared ../shared/data --work /tmp/methods

Each at effort 0, and efforts 2 and 3, which differ in estimators and samples. Writes benchmarks/results/NETWORK.methods.json,
from which benchmarks/make_tables.py makes a table of docs/design/quantization.md. Accuracy alone: other work beside it
changes nothing. What is there already in --work is used again.
"""

import argparse
from pathlib import Path

from judge_variants import Judged
from run_peers import HERE, NETWORKS

METHODS = ("minmax", "percentile", "entropy", "mse", "auto")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", choices=NETWORKS, required=True)
    parser.add_argument("--lathe", required=True)
    parser.add_argument("--shared", required=True, help="folder of models and images")
    parser.add_argument("--work", required=True)
    parser.add_argument("--samples", default="0", help="to judge on; 0: all (default)")
    parser.add_argument("--results", default=str(HERE / "results"))
    options = parser.parse_args()
    judged = Judged(options.network, options.lathe, options.shared, Path(options.work) / options.network)
    for method in METHODS:
        judged.quantize(method, ["--method", method])
    for effort in ("2", "3"):
        judged.quantize(f"effort-{effort}", ["--effort", effort])
    judged.judge(Path(options.results) / f"{options.network}.methods.json", options.samples)


if __name__ == "__main__":
    main()
