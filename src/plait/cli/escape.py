"""Stored text made safe to print: no control reaches the terminal, nothing is lost to the eye."""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1, bidirectional embeddings, overrides and isolates, line separators, surrogates.
# Marks that real text needs (U+200D in emoji, U+200E and U+200F in Arabic and Hebrew) stay.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u200e\u200f\u061c\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BEYOND_ASCII = re.compile("[\x7f-\U0010ffff]")
_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t", "\\": r"\\"}
_ESCAPE = re.compile(r"\\(?:(?P<name>[nrt\\])|x(?P<x>[0-9a-f]{2})|u(?P<u>[0-9a-f]{4})|U(?P<U>[0-9a-f]{8}))")


def printable(text: str) -> str:
    """Message text for a terminal: newlines and tabs stay, every other control is shown as an escape."""
    return _UNSAFE.sub(lambda found: escaped(found[0]), text.replace("\r\n", "\n"))


def one_line(text: str, limit: int, *, more: str = "…") -> str:
    """The beginning of `text` on one line, at most `limit` characters, ending in `more` if cut."""
    start = text[: 8 * limit + 64]
    line = printable(" ".join(start.split()))
    if len(line) > limit:
        return line[: max(0, limit - len(more))].rstrip() + more
    return line if len(start) == len(text) else line + more


def name(value: str) -> str:
    """An id as it is printed: whatever cannot be told apart by eye is escaped, and backslashes doubled.

    `plain_name` turns it back; no two ids are printed alike but by letters that look alike.
    """
    inner = "".join(char if char.isprintable() and char != "\\" else escaped(char) for char in value)
    if inner != inner.strip(" "):  # a blank at an end cannot be seen
        body = inner.strip(" ")
        before = len(inner) - len(inner.lstrip(" ")) if body else len(inner)
        return r"\x20" * before + body + r"\x20" * (len(inner) - len(body) - before)
    return inner


def plain_name(printed: str) -> str:
    """The id that `name` prints as `printed`."""
    return _ESCAPE.sub(_unescape, printed)


def json_line(text: str, *, ascii_only: bool = False) -> str:
    """JSON text with what a terminal would act on as JSON escapes: the same value for every reader."""
    # Outside of strings JSON holds only ASCII, so each character found stands in one.
    pattern = _BEYOND_ASCII if ascii_only else _UNSAFE_IN_JSON
    return pattern.sub(lambda found: _json_escape(found[0]), text)


def escaped(char: str) -> str:
    """One character as a backslash escape."""
    code = ord(char)
    if char in _NAMED:
        return _NAMED[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unescape(found: re.Match[str]) -> str:
    if found["name"]:
        return {"n": "\n", "r": "\r", "t": "\t", "\\": "\\"}[found["name"]]
    code = int(found["x"] or found["u"] or found["U"], 16)
    return chr(code) if code < 0x110000 else found[0]


def _json_escape(char: str) -> str:
    code = ord(char)
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
