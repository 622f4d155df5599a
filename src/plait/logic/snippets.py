"""The piece of a text that shows why it was found, cut where no character is torn apart."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from plait.logic.phrases import LONG_PHRASE, Token
from plait.logic.words import SPACELESS, Tokenize, Words, fold, occurrences, unpointed

LENGTH: Final = 160
"""How long a snippet is, in characters of the text, before it is stretched to whole words."""

BEFORE: Final = 40
"""How much of that stands before the first word found."""

STRETCH: Final = 24
"""How far a cut may move to find a space."""

REPEATS: Final = 256
"""How many words are looked at one by one in a short text before all of it is taken apart; in a long one more."""

_EXTENDERS: Final = "\u0e33\u0eb3\u1160-\u11ff\ud7b0-\ud7fb\uff9e\uff9f\u200c\u200d\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
"""What goes on a character and is no mark: Thai and Lao AM, vowels and finals of Hangul, joiners, tones of skin, tags."""

_LINKERS: Final = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d"
"""Signs of scripts of India that make one character of the letters on either side (Unicode 15.1, rule GB9c)."""

_EXTENDS: Final = re.compile(f"[{_EXTENDERS}]")
_ASCII: Final = re.compile(r"[\x00-\x7f]+")
_PLAIN: Final = re.compile(r"[0-9a-z]+")
_SIMPLE: Final = re.compile("[\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff]+")
"""Han and kana that folding leaves as they are, each three bytes and a word of its own."""

_CUT: Final = re.compile(rf"[\s{SPACELESS}]")
_LAST_CUT: Final = re.compile(rf".*[\s{SPACELESS}]", re.DOTALL)
"""Where words may be parted: at a space, or after a character of a script without spaces."""

_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_ASCII_LINE: Final = bytes(0x20 if code < 0x20 or code == 0x7F else code for code in range(256))


class Snippet(Struct, frozen=True):
    """A piece of a text, and where in it the words found stand."""

    text: str
    highlights: tuple[tuple[int, int], ...]


def make(text: str, finder: Finder, *, length: int = LENGTH) -> Snippet:
    """The piece of `text` around the first place where most of the words stand close together."""
    spans = _merged(finder.found_in(text))
    start, end = _window(text, spans, length)
    prefix, suffix = "…" if start else "", "…" if end < len(text) else ""
    shift = len(prefix) - start
    inside = [(at + shift, to + shift) for at, to in spans if start <= at and to <= end]
    return Snippet(prefix + _shown(text[start:end]) + suffix, tuple(inside))


def _shown(text: str) -> str:
    """The same characters on one line, in text that can be encoded."""
    if text.isascii():
        return text.encode("ascii").translate(_ASCII_LINE).decode("ascii")  # several times as fast as the expression
    return _BLANK.sub(" ", text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


class Finder:
    """Says where the words of one query stand, in one text after another."""

    def __init__(self, words: Words, tokenize: Tokenize) -> None:
        self._words = words
        self._tokenize = tokenize
        self._plain = not words.loose and _is_plain([word for phrase in words.phrases for word in phrase])
        self._stems: dict[str, str] = {}

    def found_in(self, text: str) -> list[tuple[int, int]]:
        """Where the words stand in `text`, as character ranges; of whole characters as people see them.

        Phrases that share words are one range.
        """
        plain = unpointed(text)
        if self._plain and plain.isascii():
            quick = self._in_plain(plain.lower())
            if quick is not None:
                return quick
        folded, bounds = _aligned(text)
        tokens = self._tokenize(folded)
        found = occurrences(self._words, tokens)
        if found is None:
            return []
        places = _shared(sorted(place for phrase in found for place in phrase))
        return _ranges(text, tokens, bounds, places)

    def _in_plain(self, text: str) -> list[tuple[int, int]] | None:
        """The same in lower-case ASCII, where only words that begin alike need to be looked at; `None` if many do."""
        found: list[tuple[int, int]] = []
        room = len(text) // 4 + REPEATS
        for phrase in self._words.phrases:
            spans: list[tuple[int, int]] = []
            for at in _starts(text, phrase[0]):
                room -= len(phrase)
                if room < 0:
                    return None
                if end := self._end(text, at, phrase):
                    spans.append((at, end))
            if not spans:
                return []
            found += spans
        return sorted(found)

    def _end(self, text: str, at: int, phrase: tuple[str, ...]) -> int:
        """Where a phrase ends that begins at a place, 0 if it does not stand there."""
        for wanted in phrase:
            run = _PLAIN.search(text, at)
            if run is None or self._stem(run[0]) != wanted:
                return 0
            at = run.end()
        return at

    def _stem(self, word: str) -> str:
        stem = self._stems.get(word)
        if stem is None:
            stem = self._stems[word] = self._tokenize(word)[0][2]
        return stem


def _is_plain(asked: Sequence[str]) -> bool:
    return len(asked) <= LONG_PHRASE and all(map(_PLAIN.fullmatch, asked))


def _shared(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Places, in order, of which those with a word in common are one: repeated words make many of them."""
    joined: list[tuple[int, int]] = []
    for first, last in places:
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def _starts(text: str, stem: str) -> Iterator[int]:
    """Where words begin that the index may know by this name: an ending changes a letter at most, of `-ble` two."""
    prefix = stem[: max(len(stem) - (2 if stem.endswith("ble") else 1), 1)]
    at = text.find(prefix)
    while at >= 0:
        if at == 0 or not text[at - 1].isalnum():
            yield at
        at = text.find(prefix, at + 1)


def _ranges(
    text: str, tokens: Sequence[Token], bounds: Sequence[int] | None, places: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Where places among the tokens stand in a text; many can be in one character, whose ends are looked for once."""
    starts: dict[int, int] = {}
    ends: dict[int, int] = {}
    found: list[tuple[int, int]] = []
    for first, last in places:
        start, end = tokens[first][0], tokens[last][1]
        if bounds is not None:
            start, end = bounds[start], bounds[end - 1] + 1
        if start not in starts:
            starts[start] = _whole_before(text, start)
        if end not in ends:
            ends[end] = _whole_after(text, end)
        found.append((starts[start], ends[end]))
    return found


def _aligned(text: str) -> tuple[str, list[int] | None]:
    """The folded text and, unless it is the same, the place in `text` that each of its bytes comes from."""
    if text.isascii():
        return fold(text), None
    pieces: list[str] = []
    origin: list[int] = []
    known: dict[str, tuple[str, int]] = {}  # a text is made of few characters, and folding one takes its time
    for start, end in _clusters(text):
        run = text[start:end]
        if run.isascii():
            pieces.append(fold(run))
            origin.extend(range(start, end))
        elif _SIMPLE.fullmatch(run):
            pieces.append(f" {' '.join(run)} ")
            origin.append(start)
            origin.extend([place for place in range(start, end) for _ in range(4)])  # three bytes and the space after
        else:
            found = known.get(run)
            if found is None:
                piece = fold(run)
                found = known[run] = piece, len(piece.encode("utf-8", "replace"))
            pieces.append(found[0])
            origin.extend([start] * found[1])
    return "".join(pieces), origin


def _clusters(text: str) -> list[tuple[int, int]]:
    """Runs of plain ASCII or of simple characters, and each other character with what combines with it."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(text):
        run = _ASCII.match(text, at) or _SIMPLE.match(text, at)
        end = run.end() if run else at + 1
        if run and end < len(text) and joins(text, end):
            end -= 1  # the last one has an accent of its own
            if end > at:
                found.append((at, end))
            at, end = end, end + 1
        while end < len(text) and joins(text, end, since=at):
            end += 1
        found.append((at, end))
        at = end
    return found


def joins(text: str, at: int, *, since: int = 0) -> bool:
    """Whether the characters before and at a place belong together: a cut there would tear a character apart.

    `since` is a place before it where nothing is joined: a flag is two letters, counted from there.
    """
    if at <= 0 or at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if after < "\x80":
        return after == "\n" and before == "\r"
    kind = unicodedata.category(after)
    if _EXTENDS.match(after) or kind in ("Mn", "Me", "Mc"):
        return True
    if before in _LINKERS and kind == "Lo":
        return True
    if before == "\u200d":
        return kind[0] not in "PZ"  # a joiner at the end of a word joins nothing
    return _is_regional(before) and _is_regional(after) and _regionals_before(text, at, since) % 2 == 1


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _regionals_before(text: str, at: int, since: int) -> int:
    count = 0
    while at - count > since and _is_regional(text[at - count - 1]):
        count += 1
    return count


def _whole_before(text: str, at: int) -> int:
    while joins(text, at):
        at -= 1
    return at


def _whole_after(text: str, at: int) -> int:
    while joins(text, at):
        at += 1
    return at


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges that touch or overlap made one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _window(text: str, spans: Sequence[tuple[int, int]], length: int) -> tuple[int, int]:
    """The piece to show: around the place where most of what was found is close together."""
    if len(text) <= length:
        return 0, len(text)
    at, first_end = _densest(spans, length - BEFORE)
    start = max(0, min(at - BEFORE, len(text) - length))
    end = min(len(text), max(start + length, first_end))
    return _cut_before(text, start), _cut_after(text, end)


def _densest(spans: Sequence[tuple[int, int]], length: int) -> tuple[int, int]:
    """The range after which most others follow within `length`; the first such one."""
    if len(spans) < 2:
        return spans[0] if spans else (0, 0)
    best, most, last = 0, 0, 0
    for n, (start, _) in enumerate(spans):
        last = max(last, n)
        while last < len(spans) and spans[last][1] <= start + length:
            last += 1
        if last - n > most or not most:
            best, most = n, max(last - n, 1)
    return spans[best]


def _cut_before(text: str, at: int) -> int:
    """A place to begin at or a little before `at`: after a space if one is near."""
    near = _LAST_CUT.match(text, max(at - STRETCH, 0), at)
    return _whole_before(text, near.end() if near else at if at > STRETCH else 0)


def _cut_after(text: str, at: int) -> int:
    """A place to end at or a little after `at`: before a space if one is near."""
    near = _CUT.search(text, at, at + STRETCH)
    return _whole_after(text, near.start() if near else at if len(text) - at > STRETCH else len(text))
