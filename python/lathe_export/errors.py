"""The failure a user can expect, in the form Lathe's own errors have."""

from __future__ import annotations


class ExportError(Exception):
    """What failed, where, and what to do. `code` is the name of Lathe's ErrorCode."""

    def __init__(self, code: str, message: str, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.hint = hint

    def as_dict(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message, "where": self.where, "hint": self.hint}


# As exit_code() in src/cli/context.cpp.
EXIT_CODES = {
    "invalid_argument": 2,
    "not_found": 3,
    "parse_error": 3,
    "mismatch": 3,
    "unsupported": 4,
    "verification_failed": 5,
    "cancelled": 130,
}


def printable(text: str) -> str:
    """Text for a terminal: a file's names cannot move its cursor or change the order in which it is read."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(error: BaseException, limit: int = 300) -> str:
    """The first line of an exception's text, or its type where it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text if len(text) <= limit else text[: limit - 1] + "…"
