"""What can be said of the documents without a model: links lead somewhere, commands have the options that are shown,
notes are short, printed outputs are what the command prints.

    check_docs.py LATHE

An output is checked where a block `sh same` is followed by a plain one: run in the document's folder, the command must
print those lines; numbers may differ by a tenth, since libraries of other machines round otherwise.
"""

import re
import shlex
import subprocess
import sys
import unittest
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATHE = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("lathe")
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").rglob("*.md"))
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def blocks(text):
    return [(match[1].strip(), match[2]) for match in FENCE.finditer(text)]


def commands(text):
    """Every `lathe …` of the fenced blocks: whole lines, continued ones joined, also behind a pipe or in $(…)."""
    for kind, body in blocks(text):
        if kind not in ("", "sh", "sh setup", "sh check", "sh same"):
            continue
        for line in body.replace("\\\n", " ").splitlines():
            for part in re.split(r"\|\||&&|[|;]|\$\(", line):
                words = part.split("#")[0].split("=$(")[-1].strip()
                if re.match(r"(\./|build/bin/)?lathe [a-z]", words):
                    yield words


@lru_cache(maxsize=None)
def help_of(subcommand):
    result = subprocess.run([LATHE, subcommand, "--help"], capture_output=True, text=True, check=False)
    return result.stdout if result.returncode == 0 else None


def options_of(subcommand):
    """Long and short options that the help lists."""
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", help_of(subcommand) or ""))


def faults(command):
    """What is wrong with a command as it is printed."""
    try:
        words = shlex.split(command)
    except ValueError:  # a quoted part goes on in the next line
        words = command.split()
    subcommand = words[1]
    if help_of(subcommand) is None:
        return [f"no such command: lathe {subcommand}"]
    known = options_of(subcommand)
    given = [word.split("=")[0] for word in words[2:] if re.match(r"--?[A-Za-z]", word)]
    return [f"lathe {subcommand} has no {option}" for option in given if option not in known]


def same(printed, output):
    """The first printed line that the output lacks, or None. Numbers are compared apart from the words."""
    lines = [line.rstrip() for line in output.splitlines()]
    for wanted in printed.splitlines():
        words = NUMBER.sub("#", wanted).split()
        numbers = [float(number) for number in NUMBER.findall(wanted)]
        if not any(words == NUMBER.sub("#", line).split() and
                   all(abs(a - b) <= 0.1 * max(a, b) + 1e-9 for a, b in
                       zip(numbers, map(float, NUMBER.findall(line)), strict=True)) for line in lines):
            return wanted
    return None


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            text = FENCE.sub("", document.read_text(encoding="utf-8"))
            for target in LINK.findall(text):
                if "://" in target or target.startswith("#"):
                    continue
                with self.subTest(document=document.name, link=target):
                    self.assertTrue((document.parent / target.split("#")[0]).exists())

    def test_commands_have_these_options(self):
        found = 0
        for document in DOCUMENTS:
            for command in commands(document.read_text(encoding="utf-8")):
                found += 1
                with self.subTest(document=document.name, command=command):
                    self.assertEqual(faults(command), [])
        self.assertGreater(found, 80)

    def test_every_command_has_a_row_whose_options_exist(self):
        listed = subprocess.run([LATHE, "--help"], capture_output=True, text=True, check=True).stdout.split("Subcommands:")[1]
        existing = set(re.findall(r"^  ([a-z][a-z-]+) ", listed, re.M))
        self.assertGreater(len(existing), 20)
        rows = re.findall(r"^\| `lathe ([a-z-]+)(.*)$", (ROOT / "docs" / "commands.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual({command for command, _ in rows}, existing)
        for command, row in rows:
            for span in re.findall(r"`([^`]+)`", "`" + row):
                # A span may be another command's: `quantize --ranges`.
                whose = next((word for word in span.split() if word in existing), command)
                for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", span):
                    with self.subTest(command=command, option=option):
                        self.assertIn(option, options_of(whose))

    def test_a_wrong_option_is_noticed(self):
        text = "```\nx=$(lathe bench a.engine --batch-size 1 | cat)\nlathe benhc a\nlathe plan --slo p99=1ms\n```\n"
        self.assertEqual([faults(command) for command in commands(text)],
                         [["lathe bench has no --batch-size"], ["no such command: lathe benhc"], []])

    def test_notes_are_short_and_whole(self):
        self.assertEqual([note.name[:2] for note in NOTES], ["00", "01", "02", "03", "04", "05", "06"])
        for note in NOTES:
            text = note.read_text(encoding="utf-8")
            with self.subTest(note=note.name):
                self.assertLessEqual(len(text.splitlines()), 200)
                unfinished = re.search(r"TODO|FIXME|<!-- table:[\w-]+ -->\n<!--", text)
                self.assertIsNone(unfinished)

    def test_printed_outputs_are_printed(self):
        checked = 0
        for document in DOCUMENTS:
            found = blocks(document.read_text(encoding="utf-8"))
            for (kind, command), (following, printed) in zip(found, found[1:]):
                if kind != "sh same":
                    continue
                self.assertEqual(following, "", "a plain block has to follow")
                checked += 1
                result = subprocess.run(["bash", "-c", f'lathe() {{ "{LATHE}" "$@"; }}\n{command}'], cwd=document.parent,
                                        capture_output=True, text=True, check=False)
                with self.subTest(document=document.name, command=command):
                    self.assertIn(result.returncode, (0, 5), result.stderr)
                    self.assertIsNone(same(printed, result.stdout), result.stdout)
        self.assertGreater(checked, 1)

    def test_another_output_is_noticed(self):
        output = "p99 9.55 ms, 2 machines\nqueue  1.0\n"
        self.assertIsNone(same("queue 1.02\np99 9.6 ms, 2 machines\n", output))
        self.assertEqual(same("p99 9.6 ms, 3 machines\n", output), "p99 9.6 ms, 3 machines")
        self.assertEqual(same("p98 9.55 ms, 2 machines\n", output), "p98 9.55 ms, 2 machines")
        self.assertEqual(same("p99 9.55 ms, 2 nodes\n", output), "p99 9.55 ms, 2 nodes")


if __name__ == "__main__":
    unittest.main()
