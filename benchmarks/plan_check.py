#!/usr/bin/env python3
"""How well `lathe plan` predicts: measures an engine, plans several loads, serves each here, and compares.

    plan_check.py LATHE ENGINE --output check.json [--batch-sizes 1,2,4,8] [--loads 0.3,0.6] [--rounds 7]

A load is a share of what one machine can serve at most. Each is planned with its batch size and without waiting, and with a
wait of half a single run's time. A round is a bench and two loads after it: the first is compared with what the plan makes of
the bench, and shows how long batches take when served; the second, of other arrivals, with what the plan makes of that. The
result is the median over the rounds. Exit code 5 if a p99 predicted from the first load is further off than --tolerance.
Build the engine with --threads that leave a core to whoever sends the requests, and run this on a quiet machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import provenance


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode not in (0, 5):
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.stdout


def bench(arguments, folder):
    file = folder / "bench.json"
    run(arguments.lathe, "bench", arguments.engine, "--batch-sizes", arguments.batch_sizes, "--duration", 0, "--pause", arguments.pause,
        "--time-limit", arguments.bench_seconds, "--output", file, "--quiet")
    document = json.loads(file.read_text())
    points = {row["batch"]: row["mean_ms"] for row in document["latency"]}
    return file, points, document["machine"]


def one_round(arguments, folder, load, wait_share):
    file, points, machine = bench(arguments, folder)
    batch = max(points)
    rate = load * 1000 * batch / points[batch]
    wait_ms = wait_share * points[min(points)]
    plan = json.loads(run(
        arguments.lathe, "plan", "--json", "--slo", "p99=10s", "--rate", f"{rate:.3f}/s", "--from", file,
        "--machines", 1, "--instances", 1, "--batch", batch, "--max-wait", f"{wait_ms:.3f}ms",
        "--try", arguments.engine, "--try-seconds", arguments.seconds))
    return {"rate": rate, "max_batch": batch, "max_wait_ms": wait_ms, **plan["tried"]}, machine


def both(rows):
    """Medians over the rounds of one comparison."""
    def median(side, key):
        return statistics.median(row[side][key] for row in rows)

    ratios = [row["p99_ratio"] for row in rows]
    return {"p99_ratio": statistics.median(ratios), "p99_ratio_by_round": ratios,
            **{side: {key: median(side, key) for key in rows[0][side]} for side in ("predicted", "measured")}}


def check(arguments, folder, load, wait_share):
    rounds = [one_round(arguments, folder, load, wait_share) for _ in range(arguments.rounds)]
    rows = [row for row, _ in rounds]
    factors = [row["served"]["all"]["factor"] for row in rows]
    return {"load": load, "wait_share": wait_share, "requests": rows[0]["requests"],
            "rate": statistics.median(row["rate"] for row in rows), "max_batch": rows[0]["max_batch"],
            "served_over_benched": statistics.median(factors),
            "from_bench": both(rows), "from_served": both([row["again"] for row in rows])}, rounds[-1][1]


def worst_of(rows):
    """The furthest that a median p99 is off, by what it was predicted from."""
    return {side: max(abs(row[side]["p99_ratio"] - 1) for row in rows) for side in ("from_bench", "from_served")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("engine", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--batch-sizes", default="1,2,4,8")
    parser.add_argument("--loads", default="0.3,0.6")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6, help="of load in a round")
    parser.add_argument("--bench-seconds", type=float, default=1, help="of each batch size in a round")
    parser.add_argument("--pause", type=float, default=2, help="ms before the calls that stand for an idle server's")
    parser.add_argument("--tolerance", type=float, default=0.15)
    arguments = parser.parse_args()
    rows, machine = [], None
    print("p99 ms predicted / measured, medians of the rounds; how far off, and that by round in percent")
    print(f"{'load':>5} {'wait':>5} {'from the bench':>26} {'from the first load':>26}   by round")
    with tempfile.TemporaryDirectory() as folder:
        for load in map(float, arguments.loads.split(",")):
            for wait_share in (0, 0.5):
                row, machine = check(arguments, pathlib.Path(folder), load, wait_share)

                def told(side):
                    this = row[side]
                    return (f"{this['predicted']['p99_ms']:.2f} / {this['measured']['p99_ms']:.2f} "
                            f"{100 * (this['p99_ratio'] - 1):+6.1f} %")

                by_round = " ".join(f"{100 * (one - 1):+.0f}" for one in row["from_served"]["p99_ratio_by_round"])
                print(f"{load:5.2f} {wait_share:5.2f} {told('from_bench'):>26} {told('from_served'):>26}   {by_round}", flush=True)
                rows.append(row)
                if arguments.output:  # after each: a check takes long
                    document = {"kind": "plan_check", "engine": arguments.engine.name, "machine": machine,
                                "rounds": arguments.rounds, "seconds": arguments.seconds, "rows": rows, "worst": worst_of(rows)}
                    provenance.stamp(document, arguments.lathe, [arguments.engine])
                    arguments.output.write_text(json.dumps(document, indent=2) + "\n")
    worst = worst_of(rows)
    print(f"the furthest p99 is {100 * worst['from_bench']:.1f} % off from the bench, "
          f"{100 * worst['from_served']:.1f} % from the first load")
    return 0 if worst["from_served"] <= arguments.tolerance else 5


if __name__ == "__main__":
    sys.exit(main())
