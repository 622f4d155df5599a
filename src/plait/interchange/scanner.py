"""Finding the elements of a JSON array or object in a file without loading or decoding it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

_CHUNK = 1 << 20
_KEY = 1 << 16
# Searches for one character, so that the longest string costs no memory. (Possessive repeats, which
# could skip many strings in one match, match wrongly in the first releases of Python 3.11.)
_DEEP = re.compile(rb'["{}\[\]]')
_TOP = re.compile(rb'["{}\[\],:]')
_END = re.compile(rb'["\\]')
_QUOTE = 0x22


@dataclass(frozen=True, slots=True)
class Child:
    """A value directly inside a container: its bytes (blanks around it removed) and its place.

    `whole` is false if the file ends inside it.
    """

    key: bytes
    at: int
    size: int
    line: int
    whole: bool = True


class Scanner:
    """The children of the container that begins at `at`; the file may be read elsewhere meanwhile.

    `end` is the offset after the container once all children have been seen, or `None` if the
    file ended first.
    """

    def __init__(self, file: IO[bytes], at: int = 0, line: int = 1) -> None:
        self.end: int | None = None
        self._file = file
        self._base = at
        self._buffer = b""
        self._pos = 0
        self._line = line
        self._counted = 0
        self._depth = 0
        self._in_string = False
        self._in_object = False

    def children(self) -> Iterator[Child]:
        """Each child once, in order."""
        key, start, line = b"", 0, 1
        while (char := self._next()) is not None:
            here = self._base + self._pos - 1
            if char in b"{[":
                self._depth += 1
                self._in_object = char == 123 if self._depth == 1 else self._in_object
            elif char in b"}]":
                self._depth -= 1
            if self._depth > 1 or (self._depth == 1 and char in b"}]"):
                continue
            if char == 58:  # a colon: what came before it was the key
                if self._in_object:
                    key = self._key(start, here)
                    start, line = here + 1, self._lines()
                continue
            if start:
                yield from self._child(key, start, here, line, True)
            if self._depth == 0:
                self.end = here + 1
                return
            key, start, line = b"", here + 1, self._lines()
        if start:
            yield from self._child(key, start, self._base + self._pos, line, False)

    def _child(self, key: bytes, start: int, end: int, line: int, whole: bool) -> Iterator[Child]:
        lead, lines = self._blanks(start, end)
        size = self._without_blanks(start + lead, end)
        if size:
            yield Child(key, start + lead, size, line + lines, whole)

    def _blanks(self, start: int, end: int) -> tuple[int, int]:
        """How many blanks come first between two offsets, and how many lines end in them."""
        at, lines = start, 0
        while at < end:
            self._file.seek(at)
            piece = self._file.read(min(4096, end - at))
            blank = piece[: len(piece) - len(piece.lstrip())]
            at, lines = at + len(blank), lines + blank.count(b"\n")
            if len(blank) < len(piece):
                break
        return at - start, lines

    def _without_blanks(self, start: int, end: int) -> int:
        """The size of what lies between two offsets without the blanks at its end."""
        size = end - start
        while size > 0:
            step = min(4096, size)
            self._file.seek(start + size - step)
            tail = self._file.read(step)
            size -= step - len(tail.rstrip())
            if tail.strip():
                break
        return size

    def _key(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        return self._file.read(min(end - start, _KEY)).strip()[1:-1]

    def _lines(self) -> int:
        """The line number where the scan stands."""
        self._line += self._buffer.count(b"\n", self._counted, self._pos)
        self._counted = self._pos
        return self._line

    def _next(self) -> int | None:
        """The next structural character outside strings, or `None` at the end of the file."""
        while True:
            if self._pos >= len(self._buffer) and not self._fill():
                return None
            if self._in_string:
                if not self._finish_string():
                    return None
                continue
            found = (_TOP if self._depth <= 1 else _DEEP).search(self._buffer, self._pos)
            self._pos = found.end() if found else len(self._buffer)
            if found and found[0][0] != _QUOTE:
                return found[0][0]
            self._in_string = found is not None

    def _finish_string(self) -> bool:
        """Go on to the end of the string or of the buffer; false at the end of the file."""
        found = _END.search(self._buffer, self._pos)
        if found is None:
            self._pos = len(self._buffer)
        elif found[0][0] == _QUOTE:
            self._pos, self._in_string = found.end(), False
        elif found.end() < len(self._buffer):
            self._pos = found.end() + 1  # a backslash and what it escapes
        else:
            self._pos = found.start()
            return self._fill()
        return True

    def _fill(self) -> bool:
        """Load the next chunk behind what is not consumed; false at the end of the file."""
        self._lines()
        rest = self._buffer[self._pos :]
        self._base += self._pos
        self._file.seek(self._base + len(rest))
        more = self._file.read(_CHUNK)
        self._buffer, self._pos, self._counted = rest + more, 0, 0
        return bool(more)
