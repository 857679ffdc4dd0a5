"""Executes the notebooks of docs/notebooks from top to bottom in a new kernel; a cell that fails, fails the test.

    run_notebooks.py LATHE [NAME...]        those that call the program
    run_notebooks.py --package [NAME...]    those that use the Python package `lathe`, which this Python has

Each says in its metadata which it is ("lathe": {"package": …}) and what it needs of the test data; without that it is
skipped, which is told. They are stored without outputs, which is checked too. Exit 77 where nbclient, the kernel or a package
is missing.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

try:
    import ipykernel  # noqa: F401, the kernel
    import nbformat
    import numpy  # noqa: F401, the notebooks need it
    import onnx  # noqa: F401, likewise
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError
except ImportError as error:
    print(f"SKIPPED: {error}; LATHE_PYTHON names a Python that has requirements/notebook.txt")
    sys.exit(77)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
DATA = Path(os.environ.get("LATHE_SHARED_DATA", ROOT.parent / "shared" / "data")).resolve()


def faults(notebook):
    """What is wrong with it as it is stored, or None."""
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count for cell in code):
        return "it is stored with outputs"
    if set(notebook.metadata.get("lathe", {})) != {"package", "needs"}:
        return 'its metadata does not say "lathe": {"package": true or false, "needs": [files of the test data]}'
    uses = any("import lathe" in cell.source for cell in code)
    if uses != notebook.metadata["lathe"]["package"]:
        return "its metadata does not say truly whether it uses the package"
    return None


def execute(notebook):
    """How many cells ran, and what is wrong with the notebook, or None."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    try:
        NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(FOLDER)}}).execute()
    except CellExecutionError as error:
        return 0, str(error)
    ran = sum(cell.execution_count is not None for cell in code)
    for cell in code:
        for output in cell.outputs:
            print(output.get("text") or output.get("data", {}).get("text/plain", ""), end="")
    return ran, None if ran == len(code) else f"{ran} of {len(code)} cells ran"


def main():
    package = sys.argv[1] == "--package"
    if not package:
        os.environ["LATHE"] = str(Path(sys.argv[1]).resolve())
    os.environ["LATHE_SHARED_DATA"] = str(DATA)
    # This very Python's kernel, whatever is installed for the user.
    os.environ["JUPYTER_PATH"] = str(Path(sys.prefix) / "share" / "jupyter")
    done = failed = 0
    with tempfile.TemporaryDirectory() as work:
        os.environ |= {"IPYTHONDIR": work, "JUPYTER_RUNTIME_DIR": work, "TMPDIR": work}
        for file in sorted(FOLDER.glob("*.ipynb")):
            if sys.argv[2:] and file.stem not in sys.argv[2:]:
                continue
            notebook = nbformat.read(file, as_version=4)
            fault = faults(notebook)
            if fault is None and notebook.metadata["lathe"]["package"] != package:
                continue
            missing = [] if fault else [name for name in notebook.metadata["lathe"]["needs"] if not (DATA / name).exists()]
            if missing:
                print(f"SKIPPED: {file.name} needs {', '.join(missing)} of {DATA}")
                continue
            start = time.perf_counter()
            ran = 0
            if fault is None:
                ran, fault = execute(notebook)
            print(f"== {file.name}: {ran} cells, {time.perf_counter() - start:.1f} s", fault or "", flush=True)
            done += fault is None
            failed += fault is not None
    sys.exit(1 if failed or not done else 0)


if __name__ == "__main__":
    main()
