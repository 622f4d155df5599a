"""Search by reading every message: what the model store answers, and what an index is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plait import formats, jsontext, times
from plait.logic import snippets
from plait.logic.words import fold, occurrences, parse, texts
from plait.model import Hit
from plait.store.protocol import Search


@dataclass(frozen=True)
class Candidate:
    """A message that may be found, and what a hit says of it."""

    session: str
    id: str
    seq: int
    role: str
    created_at_us: int
    active_at_us: int
    text: str
    on_path: bool = True
    covered: bool = False
    leaf_id: str = ""


@dataclass
class _Match:
    """A candidate that holds the words: its score, and the time by which it is put among other sessions' hits."""

    candidate: Candidate
    score: float
    at_us: int

    @property
    def place(self) -> tuple[int, str, int]:
        return -self.at_us, self.candidate.session, -self.candidate.seq


def text_of(format: str, body: str) -> str:
    """The words that are searched of a message's stored JSON."""
    reader = formats.stored(format) if format else formats.NATIVE
    return texts(reader.parts(jsontext.decode(body)))


def search(candidates: Sequence[Candidate], asked: Search) -> list[Hit]:
    """The hits among the candidates, by looking at each of them."""
    from plait.store.tokens import tokenize  # what a word is, is not what this is an oracle for

    words = parse(asked.query, tokenize)
    if not words:
        return []
    tokens = [tokenize(fold(item.text)) for item in candidates]
    mean = sum(map(len, tokens)) / (len(tokens) or 1) or 1.0
    places = [occurrences(words, found) for found in tokens]
    matches: list[_Match] = []
    for item, found, spots in zip(candidates, tokens, places, strict=True):
        if spots is not None and _takes(asked, item):
            score = sum(_frequency(len(spot), len(found) / mean) for spot in spots)
            matches.append(_Match(item, score, min(item.created_at_us, item.active_at_us)))
    ordered = _newest_first(matches) if asked.newest_first else _best_first(matches)
    finder = snippets.Finder(words, tokenize)
    return [_hit(match, finder) for match in ordered[asked.offset : asked.offset + asked.limit]]


def hits(candidates: Sequence[Candidate], keys: Sequence[tuple[str, str]], asked: Search) -> list[Hit]:
    """Those of the candidates that are named and pass the filters, in the order they are named."""
    from plait.store.tokens import tokenize

    finder = snippets.Finder(parse(asked.query, tokenize), tokenize)
    there = {(item.session, item.id): item for item in candidates if _takes(asked, item)}
    named = [there[key] for key in dict.fromkeys(keys) if key in there]
    return [_hit(_Match(item, 0.0, item.created_at_us), finder) for item in named]


def _takes(asked: Search, item: Candidate) -> bool:
    if asked.roles and item.role not in asked.roles:
        return False
    if asked.since_us is not None and item.created_at_us < asked.since_us:
        return False
    return asked.until_us is None or item.created_at_us < asked.until_us


def _frequency(count: int, length: float) -> float:
    """How well a phrase suits a text: BM25's part that is not about how rare it is."""
    return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))


def _best_first(matches: Sequence[_Match]) -> list[_Match]:
    return sorted(matches, key=lambda match: (-match.score, -match.candidate.created_at_us, -match.candidate.seq))


def _newest_first(matches: Sequence[_Match]) -> list[_Match]:
    """In each session by seq; between sessions by time, where a message is no newer than those after it."""
    left = sorted(matches, key=lambda match: -match.candidate.seq)
    latest: dict[str, int] = {}
    for match in left:
        session = match.candidate.session
        match.at_us = latest[session] = min(match.at_us, latest.get(session, match.at_us))
    return sorted(left, key=lambda match: match.place)


def _hit(match: _Match, finder: snippets.Finder) -> Hit:
    item = match.candidate
    snippet = snippets.make(item.text, finder)
    return Hit(
        session_id=item.session,
        id=item.id,
        seq=item.seq,
        role=item.role,
        created_at=times.from_us(item.created_at_us),
        snippet=snippet.text,
        highlights=snippet.highlights,
        score=match.score,
        on_path=item.on_path,
        covered=item.covered,
        leaf_id=item.leaf_id,
    )
