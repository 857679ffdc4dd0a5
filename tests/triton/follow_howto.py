"""Follows docs/howto/serve-with-triton.md to the letter: the commands of its block `sh serve`, in order, in a folder.

    follow_howto.py FOLDER LATHE

FOLDER holds m.engine and photo.jpg. Two things are not as printed: the server is not downloaded again (the command must
name the pinned version, which scripts/setup.sh unpacked), and ports are free ones of the loopback device. Prints what the
client printed. Exit 77 where the server or a package is missing.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys

from server import END_WITH_PARENT, free_ports

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    folder, lathe = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    server = os.environ.get("LATHE_TRITON_SERVER")
    if not server:
        print("SKIPPED: LATHE_TRITON_SERVER, the server's program, is not set")
        return 77
    try:
        import numpy, PIL  # noqa: F401, E401: the client's
    except ImportError as missing:
        print(f"SKIPPED: {missing}")
        return 77
    text = (ROOT / "docs" / "howto" / "serve-with-triton.md").read_text()
    commands = re.search(r"^```sh serve\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)[1].splitlines()
    assert len(commands) == 5, commands
    pin = (ROOT / "requirements" / "triton-server.txt").read_text()
    version = re.search(r"^(nvidia-pytriton==\S+)", pin, re.MULTILINE)[1]
    assert commands[0] == f"python3 -m pip install --no-deps --target triton {version}", commands[0]
    (folder / "triton").symlink_to(pathlib.Path(server).parents[3])
    http, grpc, metrics = free_ports(3)
    ports = f"--http-port={http} --grpc-port={grpc} --metrics-port={metrics} --http-address=127.0.0.1 --grpc-address=127.0.0.1"
    script = "\n".join(commands[1:]).replace("--http-port=8000", ports).replace(":8000", f":{http}")
    environment = os.environ | {"PATH": f"{pathlib.Path(sys.executable).parent}:{lathe.parent}:{os.environ['PATH']}"}
    with open(folder / "log", "w+") as log:
        shell = subprocess.Popen([sys.executable, "-I", "-S", "-c", END_WITH_PARENT, "/bin/bash", "-eu", "-c", script],
                                 cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True,
                                 start_new_session=True)
        try:
            shell.wait(120)  # the server, in the background, holds the pipe open
        finally:
            os.killpg(shell.pid, signal.SIGTERM)
        print(shell.stdout.read())
        if shell.returncode != 0:
            print((folder / "log").read_text()[-4000:])
    return shell.returncode


if __name__ == "__main__":
    sys.exit(main())
