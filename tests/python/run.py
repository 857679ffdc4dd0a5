"""Builds the wheel and installs it into a new virtual environment (the step "wheel"), or runs a part of the package's
tests there: "notebooks", "types", or tests/python/test_NAME.py. Exit 77 where this Python lacks what the step needs.

    run.py SOURCE BUILD STEP
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

try:
    import mypy  # noqa: F401
    import nanobind  # noqa: F401
    import openvino  # noqa: F401
    import scikit_build_core  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has requirements/wheel.txt")
    sys.exit(77)


def run(*command, **options):
    start = time.perf_counter()
    print("==", *command, flush=True)
    code = subprocess.run([str(word) for word in command], check=False, **options).returncode
    print(f"   {time.perf_counter() - start:.1f} s", flush=True)
    if code != 0:
        sys.exit(77 if code == 77 else f"exit {code}")


def cached(build, name):
    """A variable of the build's CMake cache."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


def make_wheel(source, build, work, venv):
    wheels = work / "wheels"
    for folder in (wheels, venv):
        shutil.rmtree(folder, ignore_errors=True)
    # Beside the build folder and as deep, so that ccache sees the same commands.
    objects = build.parent / (build.name + "-wheel")
    environment = os.environ | {
        "LATHE_ONNX_ROOT": cached(build, "LATHE_ONNX_ROOT"), "CMAKE_GENERATOR": "Ninja",
        # The build's own tools, or ccache would find none of its objects.
        "CMAKE_EXECUTABLE": cached(build, "CMAKE_COMMAND"), "CC": cached(build, "CMAKE_C_COMPILER"),
        "CXX": cached(build, "CMAKE_CXX_COMPILER"),
        "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1",
        "CMAKE_CXX_COMPILER_LAUNCHER": cached(build, "CMAKE_CXX_COMPILER_LAUNCHER"),
        "CMAKE_CUDA_COMPILER_LAUNCHER": cached(build, "CMAKE_CUDA_COMPILER_LAUNCHER"),
    }
    defines = {name: cached(build, name) for name in ("LATHE_CUDA", "LATHE_CUDNN_FRONTEND_ROOT")}
    run(sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-index", "--no-build-isolation",
        f"--config-settings=build-dir={objects}", *(f"--config-settings=cmake.define.{name}={value}" for name, value in defines.items() if value),
        "-w", wheels, source, env=environment)
    wheel = next(wheels.glob("lathe-*.whl"))
    print(f"   {wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB")

    run(sys.executable, "-m", "venv", venv)
    python = venv / "bin" / "python"
    # What the wheel depends on is taken from this Python's packages: the test needs no network, and OpenVINO lies elsewhere
    # than the wheel does, which is the harder case.
    site = next((venv / "lib").glob("python*")) / "site-packages"
    (site / "test_dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps", wheel)


def needs(package, what):
    if importlib.util.find_spec(package) is None:
        print(f"SKIPPED: {what}; LATHE_PYTHON names a Python that has {package}")
        sys.exit(77)


def main():
    source, build, step = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    work = build / "tests" / "python"
    venv = work / "venv"
    if step == "wheel":
        make_wheel(source, build, work, venv)
        return
    if step == "types":
        run(sys.executable, "-m", "mypy", "--config-file", source / "pyproject.toml", "--cache-dir", work / "mypy", "lathe",
            cwd=source / "python")
        return
    environment = os.environ | {"LATHE_DEMO": str(source / "src" / "demo" / "data")}
    environment.pop("LATHE_PYTHON", None)
    environment.pop("LATHE_PYTHON_DIR", None)
    arguments = [source / "tests" / "python" / f"test_{step}.py"]
    if step == "notebooks":
        needs("nbclient", "the notebooks")
        arguments = [source / "tests" / "docs" / "run_notebooks.py", "--package"]
    elif step == "ray":
        needs("ray", "lathe.ray")
    folder = work / step
    folder.mkdir(exist_ok=True)
    run(venv / "bin" / "python", *arguments, cwd=folder, env=environment)


if __name__ == "__main__":
    main()
