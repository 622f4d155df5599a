"""Searching the values of a session: the index follows behind, and what it lacks is read and compared.

Nothing is indexed before the values of a session are first searched. From then on a write of an
indexed value notes that the index is out of date about it; a new value is one the index has not come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from plait import jsontext
from plait.logic import snippets
from plait.logic.ids import can_be_stored
from plait.logic.words import Tokenize, Words, fold, occurrences, weight
from plait.model import ValueHit
from plait.store.plan import Ask, Do, Enter, Head, Plan, Put, Row, Take
from plait.store.plans import common, values
from plait.store.protocol import SessionRef

STEP_ROWS = 500
STEP_BYTES = 2 << 20
"""How much is indexed in one transaction; others write in between."""

DRAIN_ROWS = 100
"""How many values of deleted sessions are taken out along with a step."""


SNIPPET_CHARACTERS = 100_000
"""How far into a value the words are looked for that a snippet shows."""


class Found(Struct):
    """A value that holds the words: its number and how well it suits them."""

    number: int
    score: float


def behind(ref: SessionRef) -> Plan[bool]:
    """Whether the index is to be brought up to date about a session's values."""
    head: Head | None = yield Take(SessionRef(ref.scope, ref.id))
    if head is None or not head.live:
        return False
    return bool((yield Ask("values_unindexed", (head.session, 1, 1))))


def catch_up(ref: SessionRef) -> Plan[bool]:
    """Index the next of a session's values, anew where they were changed; whether there are more."""
    head: Head | None = yield Take(SessionRef(ref.scope, ref.id))
    more = False
    if head is not None and head.live:
        rows = yield Ask("values_unindexed", (head.session, STEP_ROWS, STEP_ROWS), budget_bytes=STEP_BYTES, size_at=1)
        yield from _index([number for number, _ in rows])
        more = bool((yield Ask("values_unindexed", (head.session, 1, 1))))
    yield from drain(DRAIN_ROWS)
    return more


def _index(numbers: Sequence[int]) -> Plan[None]:
    """Write the words of these values as they are now, and how far the index is then complete."""
    if not numbers:
        return
    listed = jsontext.encode(sorted(numbers))
    yield Do("drop_value_words", (listed,))
    words: list[Row] = []
    for row in (yield Ask("values_by_number", (values.LARGE_BYTES, listed))):
        text = yield from values.content_of(row)
        if text is not None:
            words.append((row[values.VALUE], fold(text)))
    yield Put("add_value_words", words)
    yield Do("drop_value_pending", (listed,))
    yield Do("save_value_progress", (max(numbers) >> 32, max(numbers)))


def drain(limit: int) -> Plan[bool]:
    """Take out of the index some of what it is out of date about and that is gone; whether that was all."""
    rows = yield Ask("values_gone", (limit,))
    for where, group in groupby(rows, itemgetter(1)):
        yield Enter(where)
        listed = jsontext.encode([number for number, _ in group])
        yield Do("drop_value_words", (listed,))
        yield Do("drop_value_pending", (listed,))
    return len(rows) < limit


def indexed() -> Plan[list[SessionRef]]:
    """The sessions whose values were ever searched and that the index is out of date about."""
    rows = yield Ask("sessions_with_pending_values", heavy=True)
    return [values.named(*row) for row in rows]


def cleanse() -> Plan[None]:
    """Write the index anew, so that no page of it holds what was taken out."""
    if (yield Ask("values_were_indexed")):
        yield Do("merge_value_words")


# -- looking -------------------------------------------------------------------


def search(ref: SessionRef, label: str, words: Words, limit: int, tokenize: Tokenize) -> Plan[list[ValueHit]]:
    """The values of a label that hold all the words, the best match first."""
    head = yield from common.take(ref)
    if head is None or not words or limit < 1 or not can_be_stored(label):
        return []
    rows = yield Ask("find_shelf", (head.session,))
    if not rows:
        return []
    found = yield from _unindexed(head, label, words, tokenize)
    found += yield from _indexed(rows[0][0], label, words, -1 if words.loose else limit)
    found.sort(key=lambda item: (-item.score, -item.number))
    return (yield from _shown(found, words, tokenize, limit))


def _indexed(shelf: int, label: str, words: Words, limit: int) -> Plan[list[Found]]:
    args = (words.match, shelf << 32, shelf << 32 | 0xFFFFFFFF, label, limit)
    return [Found(number, score) for number, score in (yield Ask("search_values", args, heavy=True))]


def _unindexed(head: Head, label: str, words: Words, tokenize: Tokenize) -> Plan[list[Found]]:
    """The values that hold the words among those the index does not know as they are now."""
    numbers = [number for number, _ in (yield Ask("values_unindexed", (head.session, -1, -1), heavy=True))]
    found: list[tuple[int, list[int], int]] = []
    for number in numbers:
        for row in (yield Ask("value_by_number", (values.LARGE_BYTES, label, number), heavy=True)):
            tokens = tokenize(fold((yield from values.content_of(row)) or ""))
            places = occurrences(words, tokens)
            if places is not None:
                found.append((number, [len(spots) for spots in places], len(tokens)))
    return (yield from _scored(found, words)) if found else []


def _scored(found: Sequence[tuple[int, list[int], int]], words: Words) -> Plan[list[Found]]:
    """What the index would give them, nearly: BM25 as FTS5 reckons it, with their own mean length."""
    weights: list[float] = []
    for match in words.weighed:
        ((holding, total),) = yield Ask("count_value_words", (match,), heavy=True)
        weights.append(weight(holding, total, len(found)))
    mean = sum(length for _, _, length in found) / len(found) or 1.0
    scored: list[Found] = []
    for number, counts, length in found:
        parts = [n * 2.2 / (n + 1.2 * (0.25 + 0.75 * length / mean)) for n in counts]
        scored.append(Found(number, sum(weight * part for weight, part in zip(weights, parts, strict=False))))
    return scored


def _shown(found: Sequence[Found], words: Words, tokenize: Tokenize, limit: int) -> Plan[list[ValueHit]]:
    """Hits as a user sees them, each looked at once more as it is now."""
    finder = snippets.Finder(words, tokenize)
    hits: list[ValueHit] = []
    for item in found:
        listed = jsontext.encode([item.number])
        for row in (yield Ask("values_by_number", (values.LARGE_BYTES, listed), heavy=True)):
            value = yield from values.build(row)
            if value.content is None or (words.loose and occurrences(words, tokenize(fold(value.content))) is None):
                continue
            snippet = snippets.make(value.content[:SNIPPET_CHARACTERS], finder)
            hits.append(ValueHit(value, snippet.text, snippet.highlights, item.score))
        if len(hits) == limit:
            break
    return hits
