"""The documentation site builds without a warning, holds every document, every public name of Python and every header, and
a link that leads nowhere fails the build.

    check_site.py

Exit 77 where MkDocs is missing.
"""

import ast
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from html import unescape
from pathlib import Path

try:
    import mkdocs  # noqa: F401
    import mkdocstrings_handlers.python  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has requirements/docs.txt")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]


def build(folder, site):
    return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(site)], cwd=folder, check=False,
                          capture_output=True, text=True)


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        work = tempfile.TemporaryDirectory()
        cls.addClassCleanup(work.cleanup)
        cls.site = Path(work.name) / "site"
        cls.built = build(ROOT, cls.site)

    def page(self, name):
        return (self.site / name).read_text(encoding="utf-8")

    def test_it_builds_without_a_warning(self):
        self.assertEqual(self.built.returncode, 0, self.built.stderr)
        self.assertNotIn("WARNING", self.built.stderr)

    def test_every_document_is_a_page(self):
        docs = ROOT / "docs"
        for document in sorted(docs.rglob("*.md")):
            page = document.relative_to(docs).with_suffix(".html").as_posix().replace("README.html", "index.html")
            with self.subTest(document=document.name):
                self.assertTrue((self.site / page).exists())
                self.assertIn(page.split("/")[-1], self.page("index.html"))  # in the navigation

    def test_pages_link_to_what_is_there(self):
        checked = 0
        for page in self.site.rglob("*.html"):
            if page.name == "404.html":
                continue
            text = page.read_text(encoding="utf-8")
            for target in re.findall(r'(?:href|src)="([^"#]+)', text):
                if re.match(r"[a-z]+:|//|/|\.?$", unescape(target)):
                    continue
                checked += 1
                with self.subTest(page=page.name, target=target):
                    self.assertTrue((page.parent / unescape(target).split("?")[0]).exists())
        self.assertGreater(checked, 1000)

    def test_every_public_name_of_python_is_described(self):
        tree = ast.parse((ROOT / "python/lathe/__init__.py").read_text(encoding="utf-8"))
        names = next(ast.literal_eval(node.value) for node in tree.body
                     if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
        self.assertGreater(len(names), 30)
        page = self.page("python.html")
        for name in names:
            with self.subTest(name=name):
                self.assertRegex(page, rf'id="lathe\.{name}"')

    def test_every_header_is_there_whole(self):
        page = unescape(re.sub(r"<[^>]+>", "", self.page("cpp.html")))
        for header in (ROOT / "include" / "lathe").glob("*.hpp"):
            with self.subTest(header=header.name):
                self.assertIn(header.read_text(encoding="utf-8").strip(), page)


class Broken(unittest.TestCase):
    def test_a_link_that_leads_nowhere_fails_the_build(self):
        with tempfile.TemporaryDirectory() as work:
            copy = Path(work) / "copy"
            for name in ("docs", "include", "python"):
                shutil.copytree(ROOT / name, copy / name)
            (copy / "scripts").mkdir()
            for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "mkdocs.yml", "scripts/site_hooks.py"):
                shutil.copyfile(ROOT / name, copy / name)
            for link in ("howto/no-such-page.md", "commands.md#no-such-part", "../src/no_such_file.cpp"):
                (copy / "docs" / "lab.md").write_text(f"# Lab\n\n[there]({link})\n", encoding="utf-8")
                built = build(copy, Path(work) / "site")
                with self.subTest(link=link):
                    self.assertNotEqual(built.returncode, 0)
                    self.assertIn(link.split("/")[-1], built.stderr)


if __name__ == "__main__":
    unittest.main()
