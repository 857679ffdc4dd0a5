"""How far long work is, on a terminal or in a notebook, and the library's messages as Python's logging has them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger("lathe")

_LEVELS = [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR]


def log(level: int, message: str) -> None:
    """Called by the library for each of its messages."""
    logger.log(_LEVELS[level], "%s", message)


class Reporter(Protocol):
    """What long functions take as `progress`. An exception that one of these raises ends the work and comes back."""

    def begin(self, stage: str, total: int) -> None:
        """A stage begins; `total` steps are expected, 0 if not known."""

    def advance(self, steps: int) -> None:
        """So many steps more are done."""

    def end(self) -> None:
        """The stage is over."""

    def tell(self, line: str) -> None:
        """A line about work that was done."""


class Bar:
    """A bar of tqdm for each stage. Lines go to `logging`, at level INFO."""

    def __init__(self, tqdm: Callable[..., Any]) -> None:
        self._tqdm = tqdm
        self._bar: Any = None

    def begin(self, stage: str, total: int) -> None:
        self.end()
        self._bar = self._tqdm(total=total or None, desc=stage, leave=False)

    def advance(self, steps: int) -> None:
        if self._bar is not None:
            self._bar.update(steps)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None

    def tell(self, line: str) -> None:
        logger.info("%s", line)


class Quiet:
    """No bar; lines go to `logging`, at level INFO."""

    def begin(self, stage: str, total: int) -> None:
        pass

    def advance(self, steps: int) -> None:
        pass

    def end(self) -> None:
        pass

    def tell(self, line: str) -> None:
        logger.info("%s", line)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"


def reporter(progress: bool | Reporter | None) -> Reporter:
    """`progress` as functions take it: None shows a bar on a terminal and in a notebook where tqdm is installed, True
    shows it anywhere, False nowhere; an object with the four functions of Reporter is used as it is."""
    if progress is False:
        return Quiet()
    if progress is not None and progress is not True:
        return progress
    notebook = _in_notebook()
    if progress is None and not notebook and not sys.stderr.isatty():
        return Quiet()
    try:
        from tqdm import tqdm

        if notebook:
            from tqdm import notebook as drawn

            # tqdm has this class only where ipywidgets is; its bars fail without. Text serves there.
            if drawn.IProgress is not None:
                tqdm = drawn.tqdm
    except ImportError:
        return Quiet()
    return Bar(tqdm)
