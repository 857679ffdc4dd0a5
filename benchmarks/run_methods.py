"""Range estimators side by side: minmax, percentile, entropy, mse, and for each tensor the one that errs least.

    python3 benchmarks/run_methods.py --network lite0 --lathe build/bin/lathe --shared ../shared/data --work /tmp/methods

Each at effort 0, and efforts 2 and 3, which differ in estimators and samples. Writes benchmarks/results/NETWORK.methods.json,
from which benchmarks/make_tables.py makes a table of docs/notes/01. Accuracy alone: other work beside it
changes nothing. What is there already in --work is used again.
"""

from pathlib import Path

from judge_variants import Judged
from run_peers import command_line

METHODS = ("minmax", "percentile", "entropy", "mse", "auto")


def main():
    parser = command_line(__doc__)
    parser.add_argument("--samples", default="0", help="to judge on; 0: all (default)")
    options = parser.parse_args()
    judged = Judged(options.network, options.lathe, options.shared, Path(options.work) / options.network)
    for method in METHODS:
        judged.quantize(method, ["--method", method])
    for effort in ("2", "3"):
        judged.quantize(f"effort-{effort}", ["--effort", effort])
    judged.judge(Path(options.results) / f"{options.network}.methods.json", options.samples)


if __name__ == "__main__":
    main()
