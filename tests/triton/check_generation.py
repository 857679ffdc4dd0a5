"""Texts that a real Triton server continues with a decoder, held against `LATHE run`.

    check_generation.py streams FOLDER BACKENDS LATHE

FOLDER holds repo/ as `lathe deploy triton --generate` wrote it: the models d (with the engine p.engine for prompts), e
(without one) and long (one instance), and d.engine. Exit 77 where a package or the server is missing.
"""
import contextlib
import itertools
import json
import pathlib
import queue
import subprocess
import sys
import urllib.request

from check_server import Server, connect, grpc_client, in_parallel, lathe_program, numpy


class Stream:
    """A gRPC stream on which texts are continued, one at a time."""

    def __init__(self, server):
        self.client = grpc_client.InferenceServerClient(server.grpc)
        self.answers = queue.Queue()
        self.client.start_stream(callback=lambda result, error: self.answers.put((result, error)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_stream()
        self.client.close()

    def send(self, model, prompt, **options):
        """prompt: token ids, or a text. options: max_tokens, eos, temperature, top_k, seed."""
        types = {"max_tokens": numpy.int32, "eos": numpy.int64, "temperature": numpy.float32, "top_k": numpy.int32,
                 "seed": numpy.int64}
        names = {numpy.int32: "INT32", numpy.int64: "INT64", numpy.float32: "FP32"}
        given = []
        if isinstance(prompt, (str, bytes)):
            given.append(grpc_client.InferInput("text", [1], "BYTES"))
            given[-1].set_data_from_numpy(numpy.array([prompt if isinstance(prompt, bytes) else prompt.encode()], dtype=object))
        elif prompt is not None:
            given.append(grpc_client.InferInput("input_ids", [len(prompt)], "INT64"))
            given[-1].set_data_from_numpy(numpy.array(prompt, numpy.int64))
        for name, value in options.items():
            given.append(grpc_client.InferInput(name, [1], names[types[name]]))
            given[-1].set_data_from_numpy(numpy.array([value], types[name]))
        self.client.async_stream_infer(model, given)

    def next(self):
        """(token, None or the error, whether it is the last)"""
        result, error = self.answers.get(timeout=60)
        if error is not None:
            return None, str(error), True
        return int(result.as_numpy("token")[0]), None, result.get_response().parameters["triton_final_response"].bool_param

    def all(self, model, prompt, **options):
        """(tokens, None or the error)"""
        self.send(model, prompt, **options)
        tokens = []
        while True:
            token, error, last = self.next()
            if error is not None:
                return tokens, error
            tokens.append(token)
            if last:
                return tokens, None


def streams(folder, backends):
    """Texts continued: the tokens of lathe run, one an answer, side by side, cancelled, refused with the cause."""
    random = numpy.random.default_rng(3)
    prompts = [random.integers(0, 64, int(random.integers(1, 9))).tolist() for _ in range(16)]

    def run(engine, *options):
        told = subprocess.run([lathe_program(), "run", folder / engine, *options, "--json"], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        return [sample["tokens"] for sample in json.loads(told)["samples"]]

    ids = [part for prompt in prompts for part in ("--ids", ",".join(map(str, prompt)))]
    wanted = run("d.engine", *ids, "--max-tokens", "24")
    assert wanted == run("d.engine", *ids, "--max-tokens", "24", "--prefill", folder / "p.engine")
    assert len({tuple(tokens) for tokens in wanted}) > 8, f"answers that are alike would not show a mix-up: {wanted}"
    sampled = run("d.engine", *ids, "--max-tokens", "24", "--temperature", "2", "--top-tokens", "9", "--seed", "5")
    assert sampled != wanted
    with Server(folder / "repo", backends) as server:
        with Stream(server) as stream:
            for model in ("d", "e", "j"):  # with an engine for prompts, without, and with texts that share runs
                for prompt, tokens in zip(prompts[:4], wanted):
                    assert stream.all(model, prompt, max_tokens=24) == (tokens, None)
                prompt, tokens = prompts[0], wanted[0]
                end = tokens[5]
                assert stream.all(model, prompt, max_tokens=24, eos=end) == (tokens[: tokens.index(end) + 1], None)
                assert stream.all(model, prompt, max_tokens=24, temperature=2, top_k=9, seed=5) == (sampled[0], None)
                for prompt, options, reason in (
                    ([1] * 70, {"max_tokens": 2}, "a prompt of 70 tokens is longer than"),
                    ([1, 2], {"max_tokens": 1000}, "1000 tokens behind a prompt of 2 are more than the"),
                    ([1, 64], {"max_tokens": 2}, "input_ids 1"),
                    ([1, 2], {"max_tokens": 0}, "max_tokens"),
                    ([1, 2], {"max_tokens": 2, "temperature": -1}, "temperature"),
                    (None, {"max_tokens": 2}, "input_ids" if model == "e" else "prompt"),
                ):
                    tokens, error = stream.all(model, prompt, **options)
                    assert not tokens and error and reason in error, (prompt, options, error)
                # In the middle: at place 34 the network's scores are no numbers any more.
                tokens, error = stream.all(model, [3] * 8, max_tokens=32)
                assert len(tokens) == 27 and f"model {model}, version 1" in error and "is NaN" in error, (tokens, error)
                assert stream.all(model, prompts[1], max_tokens=24) == (wanted[1], None), "after the errors"
            # The text's tokens are the tokenizer's, which lathe run cuts with too.
            text = "a quiet film"
            tokens, error = stream.all("d", text, max_tokens=6)
            assert (tokens, error) == (run("d.engine", "--prefill", folder / "p.engine", "--text", text, "--max-tokens", "6")[0], None)
            tokens, error = stream.all("d", b"\xff", max_tokens=6)
            assert not tokens and "UTF-8" in error, error

        def client(number):
            with Stream(server) as stream:
                for turn in range(6):
                    place = (number * 3 + turn) % len(prompts)
                    found = stream.all(("d", "j", "e", "j")[turn % 4], prompts[place], max_tokens=24)
                    assert found == (wanted[place], None), (number, turn, found, wanted[place])

        in_parallel(8, client)
        cancelled_streams(server, prompts)
        told = subprocess.run([lathe_program(), "run", folder / "d.engine", "--prefill", folder / "p.engine", "--text", text, "--max-tokens",
                               "24", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        sample = json.loads(told)["samples"][0]
        for model in ("d", "j"):
            streamed_by_http(server, model, {"input_ids": prompts[2]}, wanted[2])
            assert streamed_by_http(server, model, {"text": text}, sample["tokens"]) == sample["text"]
        assert sample["text"], sample
        server.stop()
        assert server.code == 0, server.text()[-2000:]
    print(f"{len(prompts)} texts are continued")


def cancelled_streams(server, prompts):
    """Clients that go away in the middle: their generation ends, and the others' does not."""
    def statistics():
        with connect(server, "http") as connection:
            return connection.get_inference_statistics("long")["model_stats"][0]["inference_stats"]

    # By HTTP: this server can end by itself when a stream is cancelled by gRPC (Triton's issues 7368 and 8034).
    # "long" has one instance, so that a text behind one that was cancelled waits for its end.
    whole = [event["token"] for event in events_by_http(server, "long", {"input_ids": prompts[0]}, 3000)]
    assert len(whole) == 3000, len(whole)
    first_two = list(events_by_http(server, "long", {"input_ids": prompts[1]}, 2))
    assert len(first_two) == 2, first_two
    for turn in range(20):
        failed = statistics()["fail"]["count"]
        with contextlib.closing(events_by_http(server, "long", {"input_ids": prompts[0]}, 3000)) as events:
            assert [event["token"] for event in itertools.islice(events, 3)] == whole[:3]
        assert list(events_by_http(server, "long", {"input_ids": prompts[1]}, 2)) == first_two
        # One that went on to its last token would have succeeded.
        assert statistics()["fail"]["count"] == failed + 1, statistics()


def events_by_http(server, model, prompt, most):
    """Triton's generate_stream: an event a token. Left before its end, the connection is closed."""
    body = json.dumps({**prompt, "max_tokens": most}).encode()
    request = urllib.request.Request(f"http://{server.http}/v2/models/{model}/generate_stream", body)
    with urllib.request.urlopen(request, timeout=60) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


def streamed_by_http(server, model, prompt, wanted):
    """The text of the tokens `wanted`."""
    events = list(events_by_http(server, model, prompt, 24))
    assert [event["token"] for event in events] == wanted, (events, wanted)
    return "".join(event["text"] for event in events)


if __name__ == "__main__":
    {"streams": streams}[sys.argv[1]](pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
