#!/usr/bin/env python3
"""Runs the steps of the Dockerfile without a daemon: each stage in a folder that debootstrap fills, by chroot.

    run-dockerfile.py WORK [--stage NAME=FOLDER]... [--cache FOLDER] [--base FOLDER] [--share PATH]...
                      [--env NAME]... [-- ARGUMENTS]
    run-dockerfile.py --list

Needs root and debootstrap. WORK/STAGE holds what a stage's image would; a stage that is there is not made again.
--stage build=FOLDER takes FOLDER for what the stage would have made. --cache is what RUN --mount=type=cache sees (a new
folder of WORK). --base is a copy of Debian 12 that debootstrap made (made where it is not there). --share is a file or
folder of this machine that steps see read-only at the same place, --env a variable that they get: how this machine reaches
archives, say. At the end the last stage's entry point runs with ARGUMENTS (its CMD), as the image's user, and its exit code
is this one's. Mounts are of a namespace of their own, so nothing stays mounted.
Of the Dockerfile's language FROM, COPY, RUN, ENV, WORKDIR, USER, ENTRYPOINT and CMD are known, in the forms used there;
anything else is refused with its line.
"""

import argparse
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BASES = {"debian:12": "bookworm", "debian:12-slim": "bookworm"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Stage:
    name: str
    base: str
    steps: list[tuple[int, str, str]] = field(default_factory=list)


def read(file):
    """The stages with their steps: (line, instruction, the rest)."""
    stages = []
    whole = re.sub(r"\\\n", " ", file.read_text(encoding="utf-8"))
    for number, line in enumerate(whole.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            match = re.fullmatch(r"(\S+)(?: AS (\S+))?", rest)
            if not match or match[1] not in BASES:
                sys.exit(f"{file.name}:{number}: FROM {rest} is not known; known are {', '.join(BASES)}")
            stages.append(Stage(match[2] or f"stage{len(stages)}", match[1]))
        elif not stages or word not in ("COPY", "RUN", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"):
            sys.exit(f"{file.name}:{number}: {word} is not known to {Path(__file__).name}")
        else:
            stages[-1].steps.append((number, word, rest))
    return stages


def ignored():
    """For copytree, what .dockerignore leaves out: patterns of the clone's first level, with **/ of every."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()

    def left_out(folder, names):
        patterns = [line.removeprefix("**/") for line in lines if line.startswith("**/") or Path(folder) == ROOT]
        return {name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)}

    return left_out


def inside(root, path):
    return root / path.lstrip("/")


def copy(rest, root, folders):
    """COPY SOURCE TARGET, from the clone or --from an earlier stage."""
    words = shlex.split(rest)
    base = ROOT
    if words[0].startswith("--from="):
        base = folders[words.pop(0).removeprefix("--from=")]
    source, target = words
    to = inside(root, target)
    if source == ".":
        shutil.copytree(base, to, ignore=ignored(), symlinks=True, dirs_exist_ok=True)
        return
    found = sorted(base.glob(source.lstrip("/")))
    if not found:
        sys.exit(f"COPY {rest}: {base} holds no {source}")
    to.mkdir(parents=True, exist_ok=True)
    for file in found:
        shutil.copy2(file, to / file.name)


def chrooted(root, command, *, env, user, folder, mounts, cache, shared):
    """Runs a command (a list) in `root`; its exit code. Mounts end with it."""
    lines = ["set -e", f"mount --bind /dev {shlex.quote(str(root / 'dev'))}", f"mount -t proc proc {shlex.quote(str(root / 'proc'))}",
             f"mount --rbind -o ro /sys {shlex.quote(str(root / 'sys'))}"]
    for target in mounts:
        inside(root, target).mkdir(parents=True, exist_ok=True)
        lines.append(f"mount --bind {shlex.quote(str(cache))} {shlex.quote(str(inside(root, target)))}")
    for path in shared:
        at = inside(root, str(path))
        if path.is_dir():
            at.mkdir(parents=True, exist_ok=True)
        else:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.touch()
        lines.append(f"mount --bind -o ro {shlex.quote(str(path))} {shlex.quote(str(at))}")
    wanted = shlex.join(["env", "-i", *(f"{name}={value}" for name, value in env.items()), "sh", "-c", f"cd {shlex.quote(folder)} && exec \"$@\"", "sh",
                         *command])
    as_user = f"--userspec={user}:{user} " if user != "root" else ""
    lines.append(f"exec chroot {as_user}{shlex.quote(str(root))} {wanted}")
    return subprocess.run(["unshare", "--mount", "--propagation", "private", "bash", "-c", "\n".join(lines)], check=False).returncode


def fill(base, suite, root):
    """`root` becomes a fresh copy of Debian."""
    if not (base / "etc/debian_version").exists():
        subprocess.run(["debootstrap", "--variant=minbase", suite, str(base)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)


def main():
    arguments, rest = sys.argv[1:], None
    if "--" in arguments:
        at = arguments.index("--")
        arguments, rest = arguments[:at], arguments[at + 1:]
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--stage", action="append", default=[])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--share", type=Path, action="append", default=[])
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    stages = read(ROOT / "Dockerfile")
    if options.list:
        for stage in stages:
            print(f"{stage.name}: {stage.base}, {len(stage.steps)} steps")
        return 0
    if options.work is None:
        parser.error("give a folder to work in")
    if os.geteuid() != 0:
        sys.exit("run-dockerfile.py: chroot needs root")
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    cache = (options.cache or work / "cache").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    base = (options.base or work / "debian").resolve()
    folders = {name: Path(folder).resolve() for name, _, folder in (text.partition("=") for text in options.stage)}
    shared = [Path("/etc/resolv.conf"), Path("/etc/hosts"), *options.share]
    for path in shared:
        if not path.exists():
            sys.exit(f"run-dockerfile.py: there is no {path} to share")
    passed = {name: os.environ[name] for name in options.env}
    code = 0
    for stage in stages:
        if stage.name in folders:
            print(f"== {stage.name}: taken from {folders[stage.name]}", flush=True)
            continue
        root = folders[stage.name] = work / stage.name
        env = {"PATH": PATH, "HOME": "/root"} | passed
        user, folder, entry, default = "root", "/", [], []
        done = (root / ".steps-done").exists()
        if not done:
            if root.exists():
                sys.exit(f"{root} is left of an interrupted run; remove it")
            fill(base, BASES[stage.base], root)
        for number, word, text in stage.steps:
            print(f"== {stage.name}:{number}: {word} {text}", flush=True)
            if word == "ENV":
                name, _, value = text.partition("=")
                env[name] = value
            elif word == "WORKDIR":
                folder = text
                inside(root, folder).mkdir(parents=True, exist_ok=True)
            elif word == "USER":
                user, env["HOME"] = text, f"/home/{text}"
            elif word == "ENTRYPOINT":
                entry = json.loads(text)
            elif word == "CMD":
                default = json.loads(text)
            elif done:
                continue
            elif word == "COPY":
                copy(text, root, folders)
            else:
                mounts = re.findall(r"--mount=type=cache,target=(\S+)", text)
                command = re.sub(r"--mount=\S+\s+", "", text)
                code = chrooted(root, ["sh", "-c", command], env=env, user=user, folder=folder, mounts=mounts, cache=cache, shared=shared)
                if code:
                    sys.exit(f"Dockerfile:{number}: RUN ended with {code}")
        (root / ".steps-done").touch()
        if entry:
            words = entry + (default if rest is None else rest)
            print(f"== {stage.name}: as {user} in {folder}:", shlex.join(words), flush=True)
            code = chrooted(root, words, env=env, user=user, folder=folder, mounts=[], cache=cache, shared=shared)
    return code


if __name__ == "__main__":
    sys.exit(main())
