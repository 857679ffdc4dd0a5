"""Writes what a wheel is made of as CycloneDX 1.5 JSON: the libraries it carries with the versions of the Debian packages
they are from, those compiled into it, and what pip installs beside it.

    sbom.py WHEEL
"""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Linked statically, or headers alone.
COMPILED_IN = ["nlohmann-json3-dev", "libcli11-dev"]


def debian(package):
    version = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True, check=True).stdout
    return {"type": "library", "name": package, "version": version, "purl": f"pkg:deb/debian/{package}@{version}"}


def package_of(library):
    """The Debian package of a shared library, by the name that auditwheel gives its copy: NAME-HASH.so.N."""
    name = re.sub(r"-[0-9a-f]{8}(?=[.\-])", "", Path(library).name)
    for candidate in (name, re.sub(r"(\.so\.\d+).*", r"\1", name)):
        found = subprocess.run(["dpkg", "-S", f"*/{candidate}"], capture_output=True, text=True, check=False).stdout
        if found:
            return found.split(":")[0]
    raise SystemExit(f"no Debian package holds {name}")


def pypi(requirement):
    name, _, version = requirement.partition("==")
    return {"type": "library", "name": name, **({"version": version, "purl": f"pkg:pypi/{name}@{version}"} if version else {"purl": f"pkg:pypi/{name}"})}


def main():
    wheel = Path(sys.argv[1])
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode())
    carried = sorted({package_of(name) for name in names if re.search(r"\.libs/.*\.so", name)})
    requirements = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    onnx = re.search(r"^onnx==(\S+)", (ROOT / "requirements/onnx-source.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    nanobind = re.search(r"^nanobind==(\S+)", (ROOT / "requirements/wheel.in").read_text(encoding="utf-8"), re.MULTILINE)[1]
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "library", "name": metadata["Name"], "version": metadata["Version"], "purl": f"pkg:pypi/lathe@{metadata['Version']}",
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]}},
        "components": [*map(debian, carried + COMPILED_IN), pypi(f"onnx=={onnx}"), pypi(f"nanobind=={nanobind}"), *map(pypi, requirements)],
    }, indent=2))


if __name__ == "__main__":
    main()
