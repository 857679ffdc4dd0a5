"""scripts/wheel_backend.py, which pip calls: what it leaves alone, asks for, and says where that fails."""

import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import wheel_backend  # noqa: E402


class Prepare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.setup = Path(folder.name) / "setup.sh"
        for patch in (mock.patch.object(wheel_backend, "SETUP", self.setup), mock.patch.dict(os.environ)):
            patch.start()
            self.addCleanup(patch.stop)
        for name in wheel_backend.WANTED:
            os.environ.pop(name, None)

    def test_what_somebody_set_up_is_taken(self):
        self.setup.write_text("exit 9\n", encoding="utf-8")
        os.environ["LATHE_ONNX_ROOT"] = "/there"
        wheel_backend.prepare()
        self.assertEqual(os.environ["LATHE_ONNX_ROOT"], "/there")

    def test_the_answers_become_cmake_s_environment(self):
        self.setup.write_text(
            'set -eu\necho some words\nLATHE_ONNX_ROOT="/cache of/$LATHE_SETUP"\nLATHE_CUDNN_FRONTEND_ROOT=\n'
            '[ -x "$LATHE_PYTHON" ]\n', encoding="utf-8")
        wheel_backend.prepare()
        self.assertEqual(os.environ["LATHE_ONNX_ROOT"], "/cache of/wheel")
        self.assertNotIn("LATHE_CUDNN_FRONTEND_ROOT", os.environ)

    def test_a_failure_ends_the_build(self):
        self.setup.write_text("echo as root: apt-get install -y something >&2\nexit 1\n", encoding="utf-8")
        with self.assertRaisesRegex(SystemExit, "could not be installed"):
            wheel_backend.prepare()
        self.assertNotIn("LATHE_ONNX_ROOT", os.environ)

    def test_pip_has_every_hook(self):
        for name in ("build_wheel", "build_sdist", "build_editable", "prepare_metadata_for_build_wheel"):
            self.assertTrue(callable(getattr(wheel_backend, name)), name)
        self.assertEqual(wheel_backend.get_requires_for_build_wheel(), [])


if __name__ == "__main__":
    unittest.main()
