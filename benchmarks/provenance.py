"""Where a result in benchmarks/results/ comes from: `stamp` writes it, `lacking` says what is missing. No third-party
package."""

import hashlib
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What every result has, and what those have that were measured from SINCE on, when it became a rule.
ALWAYS = ("machine", "time")
NOW = ("command", "lathe_version", "commit", "hashes")
SINCE = "2026-11-26"

# Measured earlier, without even that; none is added, and what is measured anew is taken out.
WITHOUT = ("lite0.quantize", "mobilenet_v1.quantize", "resnet50.quantize", "resnet50.plan_check")


def processor():
    """This machine's, for results that no `lathe` command wrote."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.processor(), "cores": len(os.sched_getaffinity(0)),
            "virtual_machine": "hypervisor" in text}


def commit():
    """Of the sources beside this file, with a + where they were changed; "unknown" outside of a checkout."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"],
                              capture_output=True, text=True, check=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def version(lathe):
    done = subprocess.run([lathe, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def sha256(file):
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def stamp(document, lathe, files):
    """Adds what the document does not have: command, time, machine, the program, the commit, the SHA-256 digests of the
    models (and data in one file) that it was measured on. Returns it."""
    # Whose folders files lay in is nobody's business.
    words = [Path(word).name if "/" in word else word for word in sys.argv]
    document.setdefault("command", shlex.join(["python3", *words]))
    document.setdefault("time", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    document.setdefault("machine", processor())
    if not document.get("lathe_version"):
        document["lathe_version"] = version(lathe)
    document["commit"] = commit()
    document["hashes"] = document.get("hashes", {}) | {Path(file).name: sha256(file) for file in files}
    return document


def lacking(document, name):
    """The fields that a result should have and has not."""
    if name in WITHOUT:
        return []
    wanted = ALWAYS + (NOW if document.get("time", "") >= SINCE else ())
    return [field for field in wanted if not document.get(field)]
