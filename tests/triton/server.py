"""A real Triton server for the tests: on the loopback device alone, on free ports, ended with its parent."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


# Run in the new process before it becomes the server. subprocess's preexec_fn would not do: with it Python forks, and gRPC's
# threads, where the clients here have any, do not survive that.
END_WITH_PARENT = """
import ctypes, os, signal, sys
pr_set_pdeathsig = 1
ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Server:
    """with Server(repository, backends) as server: server.http and server.grpc are "127.0.0.1:port"."""

    def __init__(self, repository, backends, *options, ports=None, patience=60):
        self.program = os.environ["LATHE_TRITON_SERVER"]
        self.arguments = [f"--model-repository={repository}", f"--backend-directory={backends}",
                          "--exit-timeout-secs=10", *options]
        self.fixed_ports = ports
        self.patience = patience  # seconds until it is ready
        self.process = None
        self.log = tempfile.NamedTemporaryFile(prefix="triton-", suffix=".log")

    def __enter__(self):
        for _ in range(3):  # another process may take a port that was free
            self.start()
            if self.wait(self.patience):
                return self
            text = self.text()
            self.stop()
            if "ddress already in use" not in text or self.fixed_ports:
                break
        raise RuntimeError("the server did not start:\n" + "\n".join(line for line in text.splitlines() if line[:1] in ("E", "W", "I")))

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.ports = self.fixed_ports or free_ports(3)
        listening = [f"--{kind}-{key}={value}" for kind, port in zip(("http", "grpc", "metrics"), self.ports)
                     for key, value in (("address", "127.0.0.1"), ("port", port))]
        self.http, self.grpc, self.metrics = (f"127.0.0.1:{port}" for port in self.ports)
        self.process = subprocess.Popen([sys.executable, "-I", "-S", "-c", END_WITH_PARENT, self.program, *self.arguments,
                                         *listening], stdout=self.log, stderr=subprocess.STDOUT)

    def wait(self, seconds):
        """True once it is ready; False if it ended before or the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://{self.http}/v2/health/ready", timeout=5).read()
                return True
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        return False

    def stop(self):
        """Ends it as an operator would; an exit code that is not 0 is an error."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.code = self.process.returncode
        self.process = None

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])

    def metric(self, name, **labels):
        """The sum of a metric over all its rows with these labels."""
        text = urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10).read().decode()
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        rows = [line for line in text.splitlines()
                if line.startswith(name + "{") and all(want in line for want in wanted)]
        return sum(float(row.rsplit(" ", 1)[1]) for row in rows)


def in_parallel(count, work, failures=None):
    """work(number) on so many threads; the first failure is raised, or all are added to `failures`."""
    told = failures is not None
    failures = failures if told else []

    def run(number):
        try:
            work(number)
        except BaseException as failure:  # reported by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures and not told:
        raise failures[0]
