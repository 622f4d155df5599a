"""Whether the search indexes hold the words that messages and values have now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

import apsw

from plait.logic.phrases import Token
from plait.logic.words import fold
from plait.model import Finding
from plait.store.plans import indexing, messages, values
from plait.store.sqlite.executor import Executor
from plait.store.sqlite.statements import Statement, load
from plait.store.tokens import tokenize

COMPARED = 16
"""How many of a message's words are looked up, the longest; besides, their number has to be right."""


def stale_texts(connection: apsw.Connection, statements: dict[str, Statement], *, fix: bool) -> Iterator[Finding]:
    """Messages under whose key the index has other words: the next search indexes them anew if `fix`."""
    executor, everything = Executor(connection, load()), (messages.LARGE_BYTES, 0, 1 << 62, -1)
    for row in connection.execute(load()["messages_up"].text, everything):
        key, id = row[messages.KEY], row[messages.ID]
        entry = connection.execute(statements["index_entry"].text, (key,)).fetchall()
        if not entry:  # not indexed, or known to be out of date
            continue
        text = fold(executor.run(partial(indexing.text_of, row)))
        tokens = tokenize(text)
        if _count(cast("bytes", entry[0][0])) == len(tokens) and _holds(
            connection, statements["index_holds"], key, text, tokens
        ):
            continue
        if fix:
            connection.execute(statements["index_again"].text, (key,))
        yield Finding("stale index entry", f"{id}, {key}", fix)


def stale_values(connection: apsw.Connection, statements: dict[str, Statement], *, fix: bool) -> Iterator[Finding]:
    """Values under whose number the index has other words: the next search indexes them anew if `fix`."""
    executor = Executor(connection, load())
    for number, size in connection.execute(statements["values_in_index"].text).fetchall():
        listed = f"[{number}]"
        rows = connection.execute(load()["values_by_number"].text, (values.LARGE_BYTES, listed)).fetchall()
        text = fold((executor.run(partial(values.content_of, rows[0])) if rows else None) or "")
        tokens = tokenize(text)
        holds = partial(_holds, connection, statements["value_index_holds"])
        if rows and _count(cast("bytes", size)) == len(tokens) and holds(number, text, tokens):
            continue
        if fix:
            connection.execute(statements["value_again"].text, (number,))
        yield Finding("stale index of values", f"{rows[0][1:3] if rows else 'none'}, {number}", fix)


def _count(size: bytes) -> int:
    """The number of words that the index keeps of a message: a varint as SQLite writes it."""
    number = 0
    for byte in size:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return number


def _holds(connection: apsw.Connection, statement: Statement, key: object, text: str, tokens: list[Token]) -> bool:
    """Whether the index has the longest words of a text, which are the rarest and so the quickest to look up."""
    encoded = text.encode("utf-8", "replace")
    longest = sorted({encoded[start:end] for start, end, _ in tokens}, key=lambda word: (-len(word), word))[:COMPARED]
    if not longest:
        return True
    wanted = " ".join(f'"{word.decode()}"' for word in longest)
    return bool(connection.execute(statement.text, (wanted, key)).fetchall())
