"""Builds the wheel, installs it into a new virtual environment, and runs the package's tests, doctests and type check
there. Exit 77 where this Python lacks what the build needs.

    run.py SOURCE BUILD
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
        sys.exit(f"exit {code}")


def cached(build, name):
    """A variable of the build's CMake cache."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(name + ":"):
            return line.split("=", 1)[1]
    return ""


def main():
    source, build = Path(sys.argv[1]), Path(sys.argv[2])
    work = build / "tests" / "python"
    wheels, venv = work / "wheels", work / "venv"
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
    tests = source / "tests" / "python"
    environment = os.environ | {"LATHE_DEMO": str(source / "src" / "demo" / "data")}
    environment.pop("LATHE_PYTHON", None)
    environment.pop("LATHE_PYTHON_DIR", None)
    run(python, tests / "test_package.py", cwd=work, env=environment)
    run(python, tests / "test_optimize.py", cwd=work, env=environment)
    run(python, tests / "test_results.py", cwd=work, env=environment)
    run(python, tests / "test_analysis.py", cwd=work, env=environment)
    for name in ("autocast", "deploy", "tools", "tune", "torch"):
        run(python, tests / f"test_{name}.py", cwd=work, env=environment)
    run(python, tests / "test_examples.py", cwd=work, env=environment)
    if importlib.util.find_spec("nbclient"):
        run(python, source / "tests" / "docs" / "run_notebooks.py", "--package", cwd=work, env=environment)
    else:
        print("SKIPPED: the notebooks; LATHE_PYTHON names a Python that has requirements/notebook.txt")
    if importlib.util.find_spec("ray"):
        run(python, tests / "test_ray.py", cwd=work, env=environment)
    else:
        print("SKIPPED: lathe.ray; LATHE_PYTHON names a Python that has requirements/ray.txt")
    run(sys.executable, "-m", "mypy", "--config-file", source / "pyproject.toml", "--cache-dir", work / "mypy", "lathe",
        cwd=source / "python")


if __name__ == "__main__":
    main()
