"""Executes the notebooks of docs/notebooks from top to bottom in a new kernel; a cell that fails, fails the test.

    run_notebooks.py LATHE

They are stored without outputs, which is checked too. Exit 77 where nbclient, the kernel or a package is missing.
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

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"


def execute(file):
    """How many cells ran, and what is wrong with the notebook, or None."""
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count for cell in code):
        return 0, "it is stored with outputs"
    try:
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(FOLDER)}}).execute()
    except CellExecutionError as error:
        return 0, str(error)
    ran = sum(cell.execution_count is not None for cell in code)
    for cell in code:
        for output in cell.outputs:
            print(output.get("text") or output.get("data", {}).get("text/plain", ""), end="")
    return ran, None if ran == len(code) else f"{ran} of {len(code)} cells ran"


def main():
    os.environ["LATHE"] = str(Path(sys.argv[1]).resolve())
    # This very Python's kernel, whatever is installed for the user.
    os.environ["JUPYTER_PATH"] = str(Path(sys.prefix) / "share" / "jupyter")
    files = sorted(FOLDER.glob("*.ipynb"))
    failed = not files
    with tempfile.TemporaryDirectory() as work:
        os.environ |= {"IPYTHONDIR": work, "JUPYTER_RUNTIME_DIR": work, "TMPDIR": work}
        for file in files:
            start = time.perf_counter()
            ran, fault = execute(file)
            print(f"== {file.name}: {ran} cells, {time.perf_counter() - start:.1f} s", fault or "")
            failed |= fault is not None
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
