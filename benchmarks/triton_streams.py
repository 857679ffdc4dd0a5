"""Tokens a second that a real Triton server makes of several texts at once, with decoders that are built for one sample (texts
take turns) and for several (they share runs), in turns.

    triton_streams.py LATHE ONE.engine SEVERAL.engine [--tokens 48] [--streams 1,4,8] [--rounds 3] [--output streams.json]

Both engines are of one decoder (`lathe export gpt2 --phase decode`). Prompts are seeded, 4 to 20 tokens long, and read a token
at a time, so that every token that is counted was a step of the decoder; tokens of prompts are counted, too. That both give
every text the same tokens is checked. A figure is the median of the rounds.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "triton"))
import provenance
from server import Server


def continued(server, model, prompt, count):
    """The tokens that follow."""
    body = json.dumps({"input_ids": prompt, "max_tokens": count}).encode()
    answer = urllib.request.urlopen(f"http://{server.http}/v2/models/{model}/generate_stream", body, timeout=600)
    return [json.loads(line[6:])["token"] for line in answer if line.startswith(b"data: ")]


def measure(server, model, prompts, count):
    """Tokens a second of these prompts side by side, and what followed each."""
    found, failures = [None] * len(prompts), []

    def work(place):
        try:
            found[place] = continued(server, model, prompts[place], count)
        except Exception as failure:  # told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(prompts))]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    if failures:
        raise failures[0]
    return sum(len(prompt) + count - 1 for prompt in prompts) / took, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe")
    parser.add_argument("one", type=pathlib.Path)
    parser.add_argument("several", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--streams", default="1,4,8", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    if not os.environ.get("LATHE_TRITON_SERVER"):
        print("SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set")
        return 77
    random = numpy.random.default_rng(3)
    prompts = [random.integers(1, 1000, int(random.integers(4, 21))).tolist() for _ in range(max(options.streams))]
    rates = {model: {streams: [] for streams in options.streams} for model in ("one", "several")}
    first = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in rates:
            told = subprocess.run([options.lathe, "deploy", "triton", getattr(options, name), "--generate", "--streams",
                                   str(max(options.streams)), "--name", name, "-o", folder, "--json"], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
        with Server(folder, json.loads(told)["backend_directory"], patience=300) as server:
            for name in rates:
                measure(server, name, prompts[:2], 8)  # warm
            for _ in range(options.rounds):
                for streams in options.streams:
                    for name, row in rates.items():
                        rate, found = measure(server, name, prompts[:streams], options.tokens)
                        row[streams].append(rate)
                        for place, tokens in enumerate(found):
                            assert first.setdefault(place, tokens) == tokens, (name, streams, place, first[place], tokens)
                        print(f"{name}, {streams} streams: {rate:.1f} tokens/s", flush=True)
    document = {"kind": "triton-streams", "version": 1, "tokens": options.tokens, "rounds": options.rounds,
                "tokens_per_second": {name: {str(streams): round(statistics.median(values), 1) for streams, values in row.items()}
                                      for name, row in rates.items()}}
    print(json.dumps(document["tokens_per_second"]))
    if options.output:
        provenance.stamp(document, options.lathe, [options.one, options.several])
        options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
