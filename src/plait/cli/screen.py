"""One output stream: whether it is a terminal, how wide, what it can show, and lines in styles."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Final, TextIO, TypeAlias

from rich.cells import cell_len, set_cell_size

from plait.cli.escape import json_line

Span: TypeAlias = tuple[str, str]
"""A piece of a line and the name of its style; `""` is plain."""

Spans: TypeAlias = list[Span]

_STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "user": "1;32",
    "assistant": "1;36",
    "system": "1;33",
    "tool": "1;35",
    "call": "36",
    "media": "35",
    "error": "31",
    "active": "1;33",
    "bar": "36",
}
_NARROWEST: Final = 10
"""Lines are broken as if a terminal had at least so many cells."""

_LANES: Final = ("36", "33", "35", "32", "34", "31")


class Screen:
    """Lines written to `stream`, in colour only on a terminal (and not if `NO_COLOR` is set)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        self.color = self.is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.width = shutil.get_terminal_size().columns if self.is_terminal else None
        self.unicode = _shows(stream, "●├─…█▁")
        self.utf8 = _shows(stream, "\U0001f600")

    def line(self, *spans: Span | str) -> None:
        """Write one line; a string is a span without a style."""
        self._stream.write("".join(self._styled(span) for span in spans).rstrip(" ") + "\n")

    def flow(self, *spans: Span | str, indent: str = "    ") -> None:
        """Write one line, broken at blanks where it is wider than the terminal; what follows is set in by `indent`."""
        for line in flowed([span if isinstance(span, tuple) else (span, "") for span in spans], self.width, indent):
            self.line(*line)

    def text(self, text: str) -> None:
        """Write `text` as it is."""
        self._stream.write(text)

    def json(self, text: str) -> None:
        """Write JSON text as one line, as JSON escapes where the stream or a terminal could not take it."""
        self._stream.write(json_line(text, ascii_only=not self.utf8) + "\n")

    def flush(self) -> None:
        self._stream.flush()

    def _styled(self, span: Span | str) -> str:
        if isinstance(span, str):
            return span
        text, style = span
        if not (self.color and style and text):
            return text
        code = _LANES[int(style[5:]) % len(_LANES)] if style.startswith("lane ") else _STYLES.get(style, "1")
        return f"\x1b[{code}m{text}\x1b[0m"


def cells(spans: Spans) -> int:
    """How many terminal cells the spans take."""
    return sum(cell_len(text) for text, _ in spans)


def fit(text: str, width: int | None, *, more: str = "…") -> str:
    """`text` cut to so many terminal cells, ending in `more` if cut; `None` cuts nothing."""
    if width is None or cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - len(more))).rstrip() + more if width > 0 else ""


def wrap(text: str, width: int | None) -> Iterator[str]:
    """The lines of `text`, each broken at blanks (or anywhere if it has none) to fit `width` cells."""
    for line in text.split("\n"):
        if width is None:
            yield line
            continue
        line = line.expandtabs(4)
        width = max(width, _NARROWEST)
        indent = line[: len(line) - len(line.lstrip(" "))][: width // 2]
        for n, (start, end) in enumerate(_pieces(line, width, indent)):
            yield (indent if n else "") + line[start:end]


def flowed(spans: Spans, width: int | None, indent: str) -> Iterator[Spans]:
    """The same for one line in styles, without tabs: what follows the first break is set in by `indent`."""
    if width is None:
        yield spans
        return
    whole = "".join(text for text, _ in spans)
    for n, (start, end) in enumerate(_pieces(whole, max(width, _NARROWEST), indent)):
        yield [*([(indent, "")] if n else []), *_between(spans, start, end)]


def _between(spans: Spans, start: int, end: int) -> Iterator[Span]:
    """What stands from one place to another, places being counted over all spans."""
    at = 0
    for text, style in spans:
        piece = text[max(start - at, 0) : max(end - at, 0)]
        if piece:
            yield piece, style
        at += len(text)


def _pieces(line: str, width: int, indent: str) -> Iterator[tuple[int, int]]:
    """From where to where each piece of a line goes; all but the first stand after `indent`."""
    start, taken, first = 0, 0, len(line) - len(line.lstrip(" "))
    while True:
        end = start + _taken(line, start, width - taken)
        if end >= len(line):
            yield start, len(line)
            return
        blank = line.rfind(" ", start + (1 if taken or start else min(first, width // 2) + 1), end + 1)
        cut = blank if blank > 0 else end
        yield start, start + len(line[start:cut].rstrip(" "))
        start, taken = cut, len(indent)
        while line[start : start + 1] == " ":
            start += 1


def _taken(line: str, start: int, width: int) -> int:
    """How many characters from `start` fit into `width` cells; at least one."""
    piece = line[start : start + width + 1]
    if piece.isascii():
        return min(len(piece), width)
    used = 0
    for at, char in enumerate(piece):
        used += cell_len(char)
        if used > width:
            return max(at, 1)
    return len(piece)


def _shows(stream: TextIO, sample: str) -> bool:
    try:
        sample.encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
