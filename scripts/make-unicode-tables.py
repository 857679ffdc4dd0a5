#!/usr/bin/env python3
"""Writes src/data/unicode_tables.cpp from what this Python knows of Unicode: make-unicode-tables.py [FILE]"""

import sys
import unicodedata
from pathlib import Path
from typing import Callable

SIGMA, FINAL_SIGMA = "\u03a3", "\u03c2"


def cased(letter: str) -> bool:
    """Python tells it by the sigma behind it, which becomes a final one."""
    return (letter + SIGMA).lower().endswith(FINAL_SIGMA)


def ignorable(letter: str) -> bool:
    return ("A" + letter + SIGMA).lower().endswith(FINAL_SIGMA) and not cased(letter)


def bounds(inside: Callable[[str], bool]) -> list[int]:
    """Where it begins and ends to hold, in turns."""
    found: list[int] = []
    for code in range(0x110000):
        holds = not 0xD800 <= code < 0xE000 and inside(chr(code))
        if holds != (len(found) % 2 == 1):
            found.append(code)
    return found


def table(name: str, numbers: list[int]) -> str:
    lines, line = [], "   "
    for number in numbers:
        if len(line) + len(f" {number},") > 119:
            lines.append(line)
            line = "   "
        line += f" {number},"
    return f"constexpr std::array<char32_t, {len(numbers)}> {name}_bounds{{\n" + "\n".join([*lines, line]) + "\n};\n"


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "src/data/unicode_tables.cpp"
    tables = {"alphanumeric": str.isalnum, "cased": cased, "case_ignorable": ignorable}
    text = f"""// Unicode {unicodedata.unidata_version}, written by scripts/make-unicode-tables.py: code points at which a class begins and ends, in turns.

#include "data/unicode_tables.hpp"

#include <algorithm>
#include <array>

namespace lathe {{

namespace {{

// clang-format off
""" + "\n".join(table(name, bounds(inside)) for name, inside in tables.items()) + """// clang-format on

/// An odd number of bounds lies at or before what is inside.
bool inside(const auto& bounds, char32_t code) {
    return (std::ranges::upper_bound(bounds, code) - bounds.begin()) % 2 == 1;
}

} // namespace

bool is_unicode_alphanumeric(char32_t code) { return inside(alphanumeric_bounds, code); }
bool is_unicode_cased(char32_t code) { return inside(cased_bounds, code); }
bool is_case_ignorable(char32_t code) { return inside(case_ignorable_bounds, code); }

} // namespace lathe
"""
    temporary = target.with_name(target.name + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(target)


main()
