"""A process of Lathe's that runs an engine when asked: `lathe bench --turns ENGINE`."""

import json
import queue
import subprocess
import threading


class Turns:
    """A process of Lathe's that runs an engine when asked."""

    def __init__(self, lathe, engine, log_file):
        self.errors = open(log_file, "ab")
        self.process = subprocess.Popen(
            [lathe, "bench", "--turns", str(engine)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, bufsize=1,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def ask(self, limit=120, **request):
        """One request, its answer; raises RuntimeError with Lathe's own words."""
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        try:
            line = self.lines.get(timeout=limit)
        except queue.Empty:
            self.process.kill()
            raise RuntimeError(f"no answer within {limit} s") from None
        if not line:
            raise RuntimeError(f"the process ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer

    def close(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
        self.errors.close()
