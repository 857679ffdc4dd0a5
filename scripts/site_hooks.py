"""Hooks of mkdocs.yml: pages that do not lie in docs/, links that lead out of it, and the navigation.

README.md becomes the first page; CHANGELOG.md, CONTRIBUTING.md and SECURITY.md are pages too. `python.md` is made of the
names in the Python package's `__all__`, `cpp.md` of the public headers. A link to another file of the repository, which the
site does not hold, becomes its path; one to a file that is not there stays and fails the strict build.
"""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
# Where a file outside docs/ is on the site.
MOVED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
KIND = re.compile(r"\A( *```)(\w*)[^\n]*")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def public_names():
    """`__all__` of the Python package, read without importing it."""
    tree = ast.parse((ROOT / "python" / "lathe" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return ast.literal_eval(node.value)
    raise SystemExit("python/lathe/__init__.py has no __all__")


def python_page():
    names = sorted(public_names(), key=lambda name: (name[0].isupper(), name))
    entries = "\n\n".join(f"::: lathe.{name}" for name in names)
    return f"# Python\n\n::: lathe\n    options:\n      members: false\n      show_root_heading: false\n\n{entries}\n"


def headers_page():
    parts = ["# C++\n\nThe headers of `include/lathe/`, as they are installed. `find_package(lathe)` gives the target `lathe::lathe`.\n"]
    for header in sorted((ROOT / "include" / "lathe").glob("*.hpp")):
        parts.append(f"## lathe/{header.name}\n\n```cpp\n{header.read_text(encoding='utf-8').rstrip()}\n```\n")
    return "\n".join(parts)


def on_files(files, config):
    for source, page in MOVED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "python.md", content=python_page()))
    files.append(File.generated(config, "cpp.md", content=headers_page()))
    return files


def on_config(config):
    """The navigation, by folder."""
    docs = ROOT / "docs"

    def pages(folder, first=()):
        names = [path.relative_to(docs).as_posix() for path in sorted((docs / folder).glob("*.md"))]
        return [*first, *(name for name in names if name not in first)]

    config.nav = [
        {"Start": "index.md"}, {"Commands": "commands.md"}, {"Results": ["results.md", "gpu-networks.md"]},
        {"How to": pages("howto", ["howto/README.md"])},
        {"Learn": ["lab.md", *pages("notes")]},
        {"Reference": ["python.md", "cpp.md"]},
        {"Design": pages("design", ["design/README.md"])},
        {"Project": ["changelog.md", "contributing.md", "security.md"]},
    ]
    return config


def on_page_markdown(markdown, page, config, files):  # noqa: ARG001
    """Links of the page, which count from the file's place in the repository, count from its place on the site."""
    place = page.file.src_uri
    source = next((name for name, moved in MOVED.items() if moved == place), f"docs/{place}")

    def on_site(match):
        picture, text, target = match.groups()
        path, mark, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        moved = MOVED.get(wanted) or (wanted.removeprefix("docs/") if wanted.startswith("docs/") else None)
        if moved and files.get_file_from_path(moved):
            return f"{picture}[{text}]({posixpath.relpath(moved, posixpath.dirname(place) or '.')}{mark}{anchor})"
        index = f"{moved}/README.md" if moved else ""
        if moved and files.get_file_from_path(index):
            return f"{picture}[{text}]({posixpath.relpath(index, posixpath.dirname(place) or '.')})"
        if (ROOT / wanted).exists() and not wanted.startswith(".."):
            return f"{text} (`{wanted}`)" if f"`{wanted}`" != text else text
        return match[0]

    # Of a fence's kind, such as "sh check", the first word is the language.
    return "".join(KIND.sub(r"\1\2", part) if part.lstrip().startswith("```") else LINK.sub(on_site, part)
                   for part in FENCED.split(markdown))
