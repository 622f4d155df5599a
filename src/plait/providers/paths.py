"""The rules for paths and keys that come from outside: relative, normalised, the same place on every system."""

from __future__ import annotations

import os
import unicodedata
from typing import Final

from plait.errors import UsageError

MAX_PATH_BYTES: Final = 1024
"""What object stores take for a key."""
MAX_SEGMENT_BYTES: Final = 255
"""What file systems take for a name."""
OWN_PREFIX: Final = ".plait-"
"""Names that begin so are plait's own: descriptions beside documents, files being written."""

_IGNORED: Final = frozenset((".git", "node_modules", ".ds_store"))
_UNPRINTED: Final = frozenset(("Cc", "Cs", "Zl", "Zp"))
_DIRECTIONS: Final = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_DEVICES: Final = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³"))
)


def path_problem(path: object, *, windows: bool = os.name == "nt") -> str | None:
    """Why `path` may not name a file below a root, or `None` if it may.

    Refused: what is not text, empty, absolute, longer than 1,024 bytes (a name in it: 255), with a backslash, a
    control, a lone surrogate or a direction mark, with an empty, `.` or `..` name (also one that only Unicode
    compatibility makes so), or with a name that is plait's own. Where files lie on Windows also what means
    something else there: colons, device names, names that end in a dot or blank.
    """
    if not isinstance(path, str):
        return f"it must be text, not {type(path).__name__}"
    if not path:
        return "it is empty"
    if unfit := next((char for char in path if is_unprinted(char)), None):
        return f"it holds the character U+{ord(unfit):04X}"
    if len(path.encode()) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES:,} bytes"
    if path.startswith("/"):
        return "it must be relative, without a leading slash"
    return next(filter(None, (_name_problem(name, windows) for name in path.split("/"))), None)


def _name_problem(name: str, windows: bool) -> str | None:
    plain = unicodedata.normalize("NFKC", name)
    if "\\" in plain or "/" in plain:
        return "only / may stand between names"
    if plain in ("", ".", ".."):
        return "an empty name, . or .. may not stand in it"
    if len(name.encode()) > MAX_SEGMENT_BYTES:
        return f"a name in it is longer than {MAX_SEGMENT_BYTES} bytes"
    if is_own(name):
        return f"names that begin with {OWN_PREFIX} are plait's own"
    if windows and (":" in plain or plain[-1] in ". " or plain.split(".")[0].rstrip().casefold() in _DEVICES):
        return "Windows gives it another meaning"
    return None


def is_unprinted(char: str) -> bool:
    """Whether a character is a control, a lone surrogate, a line separator or a direction mark."""
    return unicodedata.category(char) in _UNPRINTED or char in _DIRECTIONS


def is_own(name: str) -> bool:
    """Whether a name is plait's own, however it is spelled."""
    return unicodedata.normalize("NFKC", name).casefold().startswith(OWN_PREFIX)


def check_path(path: str, what: str = "key") -> str:
    """`path`, or `UsageError` naming what is wrong with it."""
    if problem := path_problem(path):
        raise UsageError(f"{what} {str(path)[:80]!r} cannot be used: {problem}")
    return path


def is_ignored(path: str) -> bool:
    """Whether a path leads through what no listing shows: `.git`, `node_modules`, `.DS_Store` and plait's own."""
    return any(name.casefold() in _IGNORED or is_own(name) for name in path.split("/"))


def one_line(text: str) -> str:
    """`text` on one line: each run of white space and of what cannot be printed becomes one blank."""
    return " ".join("".join(" " if is_unprinted(char) else char for char in text).split())
