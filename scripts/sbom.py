"""Writes what a wheel or a Debian package is made of as CycloneDX 1.5 JSON. A wheel: the libraries it carries with the
versions of the Debian packages they are from, those compiled into it, and what pip installs beside it. A package: what it
depends on, in the versions that it was built with, those compiled into it, and the OpenVINO that it carries.

    sbom.py WHEEL|DEB
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


def pinned(file, name):
    """The version of a package that is pinned in requirements/."""
    return re.search(rf"^{name}==([^\s;]+)", (ROOT / "requirements" / file).read_text(encoding="utf-8"), re.MULTILINE)[1]


def of_wheel(wheel):
    """Name, version, package URL and components."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = Parser().parsestr(archive.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode())
    carried = sorted({package_of(name) for name in names if re.search(r"\.libs/.*\.so", name)})
    requirements = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    return (metadata["Name"], metadata["Version"], f"pkg:pypi/lathe@{metadata['Version']}",
            [*map(debian, carried + COMPILED_IN), pypi(f"nanobind=={pinned('wheel.in', 'nanobind')}"), *map(pypi, requirements)])


def of_package(package):
    """The same of a Debian package."""
    def told(name):
        return subprocess.run(["dpkg-deb", "--field", package, name], capture_output=True, text=True, check=True).stdout.strip()

    needed = [entry.split()[0] for entry in told("Depends").split(",")]
    return (told("Package"), told("Version"), f"pkg:deb/lathe@{told('Version')}",
            [*map(debian, needed + COMPILED_IN), pypi(f"openvino=={pinned('python.in', 'openvino')}")])


def main():
    file = Path(sys.argv[1])
    name, version, url, components = of_package(file) if file.suffix == ".deb" else of_wheel(file)
    print(json.dumps({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": {
            "type": "library", "name": name, "version": version, "purl": url,
            "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}]}},
        "components": [*components, pypi(f"onnx=={pinned('onnx-source.txt', 'onnx')}")],
    }, indent=2))


if __name__ == "__main__":
    main()
