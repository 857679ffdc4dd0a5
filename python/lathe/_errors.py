"""The exception that every function of this package raises for a failure that a caller can expect."""

from __future__ import annotations


class Error(Exception):
    """What failed, where, and what to do.

    Attributes:
        message: What failed, one sentence.
        code: Kind of failure: "invalid_argument", "not_found", "parse_error", "unsupported", "corrupt", "mismatch",
            "out_of_range", "io", "out_of_memory", "verification_failed", "cancelled" or "internal".
        place: File, node, tensor or argument; may be empty.
        cure: What to do about it; may be empty.

    >>> import lathe
    >>> try:
    ...     lathe.Engine.load("nowhere.engine")
    ... except lathe.Error as error:
    ...     print(error.code, error.place)
    not_found nowhere.engine
    """

    def __init__(self, message: str, code: str = "internal", place: str = "", cure: str = "") -> None:
        self.message = message
        self.code = code
        self.place = place
        self.cure = cure
        text = message + (f" ({place})" if place else "") + (f": {cure}" if cure else "")
        super().__init__(text)

    def __reduce__(self) -> tuple[type[Error], tuple[str, str, str, str]]:
        return type(self), (self.message, self.code, self.place, self.cure)
