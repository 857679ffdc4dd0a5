"""Number formats of int8 side by side: scales of weights by channel or by tensor, activations with a zero point or without.

    python3 benchmarks/run_formats.py --lathe build/bin/lathe --shared ../shared/data --work /tmp/formats

MobileNetV1, whose depthwise filters differ most in size, on photos that it was not calibrated on. Writes
benchmarks/results/mobilenet_v1.formats.json, from which benchmarks/make_tables.py makes a table of docs/notes/01. Accuracy
alone: other work beside it changes nothing. What is there already in --work is used again.
"""

from pathlib import Path

from judge_variants import Judged
from run_peers import command_line

CELLS = [(weights, activations) for weights in ("per-channel", "per-tensor") for activations in ("asymmetric", "symmetric")]


def variants():
    """Name and options of every engine."""
    for weights, activations in CELLS:
        for effort in ("0", "2"):
            more = ["--weights", weights, "--activations", activations, "--effort", effort]
            yield f"{weights}.{activations}.effort-{effort}", more
            if (weights, activations, effort) == ("per-tensor", "asymmetric", "2"):
                yield f"{weights}.{activations}.effort-2.unequalized", [*more, "--equalize", "off"]


def main():
    options = command_line(__doc__, networks=()).parse_args()
    judged = Judged("mobilenet_v1", options.lathe, options.shared, options.work)
    for name, more in variants():
        judged.quantize(name, more)
    judged.judge(Path(options.results) / "mobilenet_v1.formats.json")


if __name__ == "__main__":
    main()
