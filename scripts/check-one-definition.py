#!/usr/bin/env python3
"""No two classes, structs, unions or enumerations of one qualified name in different files under src/ and include/.

The linker takes one of two such definitions for both, without a word. Names in unnamed namespaces are a file's own.
    check-one-definition.py [FOLDER...]     (default: src include, from the repository's root)
"""

import collections
import pathlib
import re
import sys

SKIPPED = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
PIECES = re.compile(r"\{|\}|;|\b(?:inline\s+)?namespace\b[^{;=]*|"
                    r"\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+"
                    r"(?:\[\[[^\]]*\]\]\s*|alignas\s*\([^)]*\)\s*|__\w+\s*(?:\([^)]*\))?\s*)*"
                    r"(?P<name>\w+(?:::\w+)*)(?P<rest>[^;{}()=]*)")


def strip(text):
    """Without comments, directives, and what quotes hold; a digit separator is no quote."""
    text = re.sub(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])", "", text)
    text = SKIPPED.sub(lambda found: " " if found.group().startswith("/") else '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.MULTILINE)


def definitions(text):
    """Qualified names of all types that the text defines outside of functions and unnamed namespaces."""
    scopes, opened, found = [], None, []  # a scope is a name, "" for an unnamed namespace, None for any other brace
    for piece in PIECES.finditer(strip(text)):
        word = piece.group()
        if word == "{":
            scopes.append(opened)
            if opened is not None and all(scopes) and opened.startswith("type "):
                found.append("::".join(scope.split(" ", 1)[1] for scope in scopes))
            opened = None
        elif word == "}":
            if scopes:
                scopes.pop()
            opened = None
        elif word == ";":
            opened = None
        elif "namespace" in word.split():
            name = word.split("namespace", 1)[1].strip()
            opened = f"namespace {name}" if name else ""
        else:
            rest = piece.group("rest").strip()
            specialised = rest.startswith("<")
            # A definition goes on with its bases or its body; "struct X f() {" is a function.
            is_definition = not rest or rest.startswith((":", "final"))
            opened = f"type {piece.group('name')}" if is_definition and not specialised else None
    return found


def main(folders):
    places = collections.defaultdict(set)
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix in (".hpp", ".cpp", ".h", ".cu", ".cuh"):
                for name in definitions(path.read_text(encoding="utf-8")):
                    places[name].add(str(path))
    twice = {name: sorted(files) for name, files in places.items() if len(files) > 1}
    for name, files in sorted(twice.items()):
        print(f"{name} is defined in {len(files)} files: {', '.join(files)}; give one another name or namespace")
    if len(places) < 100 and not sys.argv[1:]:
        sys.exit(f"only {len(places)} types found: this script no longer reads the sources")
    sys.exit(1 if twice else 0)


if __name__ == "__main__":
    main(sys.argv[1:] or ["src", "include"])
