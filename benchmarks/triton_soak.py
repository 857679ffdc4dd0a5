"""Many requests of a real Triton server with Lathe's backend, with faults between them: none lost, none crossed, memory flat.

    triton_soak.py FOLDER BACKENDS LATHE [--requests 100000]

FOLDER and BACKENDS as tests/triton/check_server.py takes them, with a model m. Eight clients ask by HTTP and gRPC; every
second a fault is injected: a bad request, one whose client goes away, a new version of the model. A request is lost when
it is neither answered nor refused, crossed when its answer is another's. The server's memory after the first fifth of the
requests is compared with that at the end.
"""
import argparse
import json
import pathlib
import shutil
import socket
import sys
import threading
import time

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "triton"))


def go_away(server, model):
    """Half a request, and the connection is closed."""
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"POST /v2/models/{model.name}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n{{".encode())


def send_bad(server, model):
    import check_server

    with check_server.connect(server, "grpc") as client:
        told = check_server.refusal(client, "grpc", model, {"input": numpy.zeros((1, 3, 8, 9), numpy.float32)})
        assert "unexpected shape" in told, told


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("backends", type=pathlib.Path)
    parser.add_argument("lathe")
    parser.add_argument("--requests", type=int, default=100000)
    options = parser.parse_args()
    import check_server
    from server import Server

    check_server.lathe_program = lambda: options.lathe
    model = check_server.Model(options.folder, "m")
    clients, faults = 8, {"bad": 0, "gone": 0, "version": 0}
    repository = options.folder / "repo"
    versions = sorted(int(path.name) for path in (repository / "m").iterdir() if path.name.isdigit())
    done = threading.Event()
    memory = []
    with Server(repository, options.backends, "--model-control-mode=explicit", "--load-model=m") as server:

        def new_version():
            following = versions[-1] + 1
            shutil.copytree(repository / "m" / str(versions[-1]), repository / ".next")
            (repository / ".next").rename(repository / "m" / str(following))
            versions.append(following)
            with check_server.connect(server, "http") as client:
                client.load_model("m")

        def inject():
            turn = 0
            while not done.wait(1):
                kind = ("bad", "gone", "bad", "gone", "version")[turn % 5]
                {"bad": lambda: send_bad(server, model), "gone": lambda: go_away(server, model), "version": new_version}[kind]()
                faults[kind] += 1
                turn += 1

        def client(number):
            kind = ("http", "grpc")[number % 2]
            random = numpy.random.default_rng(number)
            with check_server.connect(server, kind) as connection:
                for turn in range(options.requests // clients):
                    count = int(random.integers(1, 5))
                    first = int(random.integers(0, model.count - count + 1))
                    found = check_server.ask(connection, kind, model, model.rows(first, count))
                    check_server.check_close(found, model.expected(first, count), (number, turn))
                    if number == 0 and turn == options.requests // clients // 5:
                        memory.append(server.resident_kib())

        start = time.monotonic()
        injector = threading.Thread(target=check_server.in_parallel, args=(1, lambda _: inject(), failures := []))
        injector.start()
        try:
            check_server.in_parallel(clients, client)
        finally:
            done.set()
            injector.join()
        memory.append(server.resident_kib())
        seconds = time.monotonic() - start
    assert not failures, failures
    print(json.dumps({"kind": "soak", "requests": options.requests, "seconds": round(seconds, 1), "faults": faults,
                      "resident_kib": memory}))
    return 0 if memory[1] - memory[0] < 32768 else 1


if __name__ == "__main__":
    sys.exit(main())
