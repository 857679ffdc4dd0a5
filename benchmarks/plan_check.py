#!/usr/bin/env python3
"""How well `lathe plan` predicts: measures an engine, plans several loads, serves each here, and compares.

    plan_check.py LATHE ENGINE --output check.json [--batch-sizes 1,2,4,8] [--loads 0.3,0.6,0.8] [--seconds 30]

A load is a share of what one machine can serve at most. Each is planned with its batch size and without waiting, and with a
wait of half a single run's time. The bench is taken again before every load, so that a machine that drifts is compared
with what it was just then. Exit code 5 if a p99 is further off than --tolerance. Run it on a quiet machine.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode not in (0, 5):
        sys.exit(f"{' '.join(map(str, command))}: {result.stderr}")
    return result.stdout


def bench(arguments, folder):
    file = folder / "bench.json"
    run(arguments.lathe, "bench", arguments.engine, "--batch-sizes", arguments.batch_sizes, "--duration", 0,
        "--time-limit", arguments.bench_seconds, "--output", file, "--quiet")
    document = json.loads(file.read_text())
    points = {row["batch"]: row["mean_ms"] for row in document["latency"]}
    return file, points, document["machine"]


def check(arguments, folder, load, wait_share):
    file, points, machine = bench(arguments, folder)
    batch = max(points)
    rate = load * 1000 * batch / points[batch]
    wait_ms = wait_share * points[min(points)]
    plan = json.loads(run(
        arguments.lathe, "plan", "--json", "--slo", "p99=10s", "--rate", f"{rate:.3f}/s", "--from", file,
        "--machines", 1, "--instances", 1, "--batch", batch, "--max-wait", f"{wait_ms:.3f}ms",
        "--try", arguments.engine, "--try-seconds", arguments.seconds))
    tried = plan["tried"]
    return {"load": load, "rate": rate, "max_batch": batch, "max_wait_ms": wait_ms, **tried}, machine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("engine", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--batch-sizes", default="1,2,4,8")
    parser.add_argument("--loads", default="0.3,0.6,0.8")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--bench-seconds", type=float, default=5)
    parser.add_argument("--tolerance", type=float, default=0.15)
    arguments = parser.parse_args()
    rows, worst, machine = [], 0.0, None
    print(f"{'load':>5} {'wait ms':>8} {'requests':>8} {'p50 ms':>16} {'p99 ms':>16} {'p99 off':>8} {'mean batch':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for load in map(float, arguments.loads.split(",")):
            for wait_share in (0, 0.5):
                row, machine = check(arguments, pathlib.Path(folder), load, wait_share)
                off = row["p99_ratio"] - 1
                worst = max(worst, abs(off))
                pair = lambda key: f"{row['predicted'][key]:.2f} / {row['measured'][key]:.2f}"
                print(f"{load:5.2f} {row['max_wait_ms']:8.2f} {row['requests']:8d} {pair('median_ms'):>16} "
                      f"{pair('p99_ms'):>16} {100 * off:+7.1f} % {pair('mean_batch'):>12}", flush=True)
                rows.append(row)
    print(f"predicted / measured; the furthest p99 is {100 * worst:.1f} % off")
    if arguments.output:
        document = {"kind": "plan_check", "engine": arguments.engine.name, "machine": machine, "rows": rows, "worst": worst}
        arguments.output.write_text(json.dumps(document, indent=2) + "\n")
    return 0 if worst <= arguments.tolerance else 5


if __name__ == "__main__":
    sys.exit(main())
