"""How far int8 weights may go on a CPU without VNNI, which adds two products of uint8 and int8 in 16 bits.

    python3 benchmarks/run_weight_ranges.py --network lite0 --lathe build/bin/lathe --shared ../shared/data \\
        --work /tmp/ranges --peers-python peers-venv/bin/python

Judges `--weight-range full`, `seven-bits` and `pairs` and, beside them, ONNX Runtime and NNCF as they are by default and
with what they have against that overflow (reduce_range; OverflowFix.ENABLE), all of them run by OpenVINO. Writes
benchmarks/results/NETWORK.weight_ranges.json, from which benchmarks/make_tables.py makes the table of
docs/howto/quantise-for-cpus-without-vnni.md. To be run on a CPU without VNNI (`lathe doctor`): elsewhere nothing overflows.
Accuracy alone: other work beside it changes nothing.
"""

import json
import os
import sys
from pathlib import Path

from judge_variants import Judged
from run_peers import HERE, command_line, make


def main():
    parser = command_line(__doc__)
    parser.add_argument("--efforts", default="0,2")
    parser.add_argument("--samples", default="0", help="to judge on; 0: all (default)")
    parser.add_argument("--peers-python", help="Python with requirements/peers.txt; without it no peers")
    options = parser.parse_args()
    judged = Judged(options.network, options.lathe, options.shared, Path(options.work) / options.network)
    for weights in ("full", "seven-bits", "pairs"):
        for effort in options.efforts.split(","):
            # Corrections see the overflow and cannot undo it; without them the row says enough.
            if weights != "full" or effort == "0":
                judged.quantize(f"lathe.{weights}.effort-{effort}", ["--weight-range", weights, "--effort", effort])
    if options.peers_python:
        common = [judged.model, "--data", judged.calibration, *judged.rules, "--output", judged.work]
        python = os.environ.get("LATHE_PYTHON", sys.executable)
        for tool, program, script, variants in (
                ("ort", python, "quantize_ort.py", "minmax-u8s8,minmax-u8s7"),
                ("nncf", options.peers_python, "quantize_nncf.py", "mixed,overflow-fix")):
            log = make(judged.work / f"{tool}.json", [program, HERE / "peers" / script, *common, "--variants", variants])
            for entry in json.loads(log.read_text(encoding="utf-8")):
                if entry["file"].endswith(".onnx") and "failed" not in entry:
                    judged.build(f"{tool}.{entry['variant']}", judged.work / entry["file"])
    judged.judge(Path(options.results) / f"{options.network}.weight_ranges.json", options.samples)


if __name__ == "__main__":
    main()
