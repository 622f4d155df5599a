"""Whether the search index has the words that messages and values have now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import psycopg
from msgspec import Struct

from plait import jsontext
from plait.logic.strands import seq_of
from plait.logic.words import fold
from plait.model import Finding
from plait.store.plan import Ask, Plan
from plait.store.plans import common, indexing, messages, read, values
from plait.store.postgres import homes
from plait.store.postgres.asking import BYTES, ROWS, Reader, rows_of, statements
from plait.store.postgres.homes import Where
from plait.store.postgres.statements import load
from plait.store.protocol import SessionRef

Texts = dict[int, tuple[str, str]]
"""By their numbers what things are called, and their folded words."""


class Kind(Struct, frozen=True):
    """What is indexed: how its words are read, what compares them (in `inspect.sql`) and what has them indexed anew."""

    finding: str
    texts: Callable[[SessionRef, Sequence[int]], Plan[Texts]]
    compare: str
    again: str


def stale(connection: psycopg.Connection[Any], driver: Reader, ref: SessionRef, *, fix: bool) -> Iterator[Finding]:
    """What of a session the index has other words of: the next search indexes it anew if `fix`."""
    look = partial(_compared, connection, driver, ref, fix=fix)
    seq = 0
    while keys := driver.read(partial(_next_keys, ref, seq)):
        yield from look(MESSAGES, keys)
        seq = seq_of(keys[-1])
    indexed = statements("inspect.sql")["values_in_index"]
    numbers = [number for (number,) in rows_of(connection, indexed, (), homes.of_session(ref))]
    for at in range(0, len(numbers), ROWS):
        yield from look(VALUES, numbers[at : at + ROWS])


def _compared(
    connection: psycopg.Connection[Any],
    driver: Reader,
    ref: SessionRef,
    kind: Kind,
    numbers: Sequence[int],
    *,
    fix: bool,
) -> Iterator[Finding]:
    where = homes.of_session(ref)
    texts = driver.read(partial(kind.texts, ref, numbers))
    doubtful = _differing(connection, kind, texts, where)
    if doubtful:  # it may have been written and indexed between the two looks: then it says something else now
        now = driver.read(partial(kind.texts, ref, doubtful))
        doubtful = _differing(connection, kind, {n: now[n] for n in doubtful if now.get(n) == texts[n]}, where)
    if fix and doubtful:
        rows_of(connection, load()[kind.again], (jsontext.encode(doubtful),), where)
    for number in doubtful:
        yield Finding(kind.finding, f"{texts[number][0]}, {number}", fix)


def _differing(connection: psycopg.Connection[Any], kind: Kind, texts: Texts, where: Where) -> list[int]:
    """The numbers of those whose indexed words are others than these, and are not known to be."""
    numbers, words = jsontext.encode(list(texts)), [text for _, text in texts.values()]
    return [n for (n,) in rows_of(connection, statements("inspect.sql")[kind.compare], (numbers, words), where)]


def _next_keys(ref: SessionRef, after_seq: int) -> Plan[list[int]]:
    head = yield from common.take(SessionRef(ref.scope, ref.id))
    return (yield from read.next_keys(head, after_seq, ROWS, BYTES)) if head is not None else []


def _message_texts(ref: SessionRef, keys: Sequence[int]) -> Plan[Texts]:
    found: Texts = {}
    yield from common.take(SessionRef(ref.scope, ref.id))
    for row in (yield from read.rows_of(list(keys))):
        found[row[messages.KEY]] = row[messages.ID], fold((yield from indexing.text_of(row)))
    return found


def _value_texts(ref: SessionRef, numbers: Sequence[int]) -> Plan[Texts]:
    yield from common.take(SessionRef(ref.scope, ref.id))
    found: Texts = dict.fromkeys(numbers, ("none", ""))  # what the index alone has
    for row in (yield Ask("values_by_number", (values.LARGE_BYTES, jsontext.encode(list(numbers))), heavy=True)):
        found[row[values.VALUE]] = (
            repr(row[values.LABEL : values.VERSION]),
            fold((yield from values.content_of(row)) or ""),
        )
    return found


MESSAGES = Kind("stale index entry", _message_texts, "messages_indexed_otherwise", "add_search_pending")
VALUES = Kind("stale index of values", _value_texts, "values_indexed_otherwise", "add_values_pending")
