"""Values on their way to the server and back: what PostgreSQL's text cannot hold, lists, words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from plait import jsontext
from plait.store.postgres.homes import Where
from plait.store.tokens import tokenize, words

ESCAPE = "\x01"
"""PostgreSQL's text holds every character but NUL, which is stored as two of these; this one itself as it and the
next. So texts are in the same order as before."""

_HIDDEN = re.compile("[\x00\x01]")
_SHOWN = re.compile("\x01([\x01\x02])")

MAX_POSITION = 16_383
MAX_POSITIONS = 255
MAX_LEXEME_BYTES = 2046
"""What a tsvector takes: later places of words, and more of one word, are not told apart."""

MAX_VECTOR_BYTES = (1 << 20) - 1 - 128
"""What all words of one may take with their places, beside those that say where it is: later words are left out."""

MANY_TERMS = 256
"""So many terms of a tsquery are joined one after the other."""

SHORT_CHARACTERS = 100_000
"""No text as long as this has more."""


def stored(text: str) -> str:
    """Text as PostgreSQL can hold it."""
    if "\x00" not in text and ESCAPE not in text:
        return text
    return _HIDDEN.sub(lambda match: "\x01\x01" if match[0] == "\x00" else "\x01\x02", text)


def shown(text: str) -> str:
    """The text that was stored."""
    if ESCAPE not in text:
        return text
    return _SHOWN.sub(lambda match: "\x00" if match[1] == "\x01" else "\x01", text)


def body(value: str | bytes, _where: Where) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def numbers(value: str, _where: Where) -> list[int]:
    found: list[int] = jsontext.decode(value)
    return found


def texts(value: str, _where: Where) -> list[str]:
    found: list[str] = jsontext.decode(value)
    return [stored(text) for text in found]


# -- words ---------------------------------------------------------------------


def home_word(home: UUID | None) -> str:
    """What all messages of a home have among their words."""
    return f"'=h{home.hex if home else ''}'"


def scope_word(scope: UUID | None) -> str:
    """What all messages of a scope have among their words."""
    return f"'=s{scope.hex if scope else ''}'"


class Lexemes(str):
    """The words of a text as a tsvector is written, but for those that say where it is."""

    __slots__ = ()


def lexemes(folded: str) -> Lexemes:
    """The words of a folded text with their places."""
    places = _places(folded)
    kept = places if len(folded) <= SHORT_CHARACTERS else _fitting(places)
    return Lexemes(
        " ".join([f"{_lexeme(word)}:{','.join(map(str, spots or [MAX_POSITION]))}" for word, spots in kept.items()])
    )


def _places(folded: str) -> dict[str, list[int]]:
    """Where each word stands, as far as places are told apart, and of words not many more than one tsvector takes."""
    places: dict[str, list[int]] = {}
    room = MAX_VECTOR_BYTES
    for n, word in enumerate(words(folded), 1):
        spots = places.get(word)
        if spots is None and room >= 0:
            spots = places[word] = []
            room -= _size(word, spots)
        if n > MAX_POSITION:
            if room < 0:
                break
        elif spots is not None and len(spots) < MAX_POSITIONS:
            spots.append(n)
    return places


def vector(folded: str, where: Where) -> str:
    """The words of a folded text, or those that were taken out of it already, as a tsvector is written."""
    found = folded if isinstance(folded, Lexemes) else lexemes(folded)
    return " ".join([home_word(where.home), scope_word(where.scope), found])


def _fitting(places: Mapping[str, list[int]]) -> Mapping[str, list[int]]:
    """As many words as one tsvector takes, with all their places if that is possible, otherwise with their first."""
    if sum(_size(word, spots) for word, spots in places.items()) > MAX_VECTOR_BYTES:
        places = {word: spots[:1] for word, spots in places.items()}
    room, found = MAX_VECTOR_BYTES, dict[str, list[int]]()
    for word, spots in places.items():
        room -= _size(word, spots)
        if room < 0:
            break
        found[word] = spots
    return found


def _size(word: str, spots: list[int]) -> int:
    """What a word takes in a tsvector, at most: itself, a byte to align, the number of its places, and these."""
    return min(len(word.encode("utf-8", "replace")), MAX_LEXEME_BYTES) + 3 + 2 * max(len(spots), 1)


def vectors(folded: Sequence[str], where: Where) -> list[str]:
    return [vector(text, where) for text in folded]


def query(match: str, _where: Where) -> str:
    """What plans ask of an index, quoted phrases that must all be there, as a tsquery is written.

    Of more words than a tsvector takes the first are asked for.
    """
    phrases: list[str] = []
    room = MAX_VECTOR_BYTES
    for phrase in re.findall(r'"([^"]*)"', match):
        asked = [_lexeme(word) for _, _, word in tokenize(phrase)]
        room -= sum(len(word.encode()) for word in asked)
        if room < 0:
            break
        if asked:
            phrases.append(f"({' <-> '.join(asked)})")
    return _all_of(phrases)


def _all_of(terms: list[str]) -> str:
    """Terms joined in pairs, and these again: the server goes as deep as one side of a sign is long."""
    while len(terms) > MANY_TERMS:
        terms = [f"({' & '.join(terms[n : n + 2])})" for n in range(0, len(terms), 2)]
    return " & ".join(terms)


def _lexeme(word: str) -> str:
    short = word.encode("utf-8", "replace")[:MAX_LEXEME_BYTES].decode("utf-8", "ignore")
    return "'" + short.replace("\\", "\\\\").replace("'", "''") + "'"


PARAMETERS: Mapping[tuple[str, str], Callable[[Any, Where], Any]] = {
    ("", "body"): body,
    ("", "keys"): numbers,
    ("", "overlays"): numbers,
    ("", "ids"): texts,
    ("", "roles"): texts,
    ("", "words"): query,
    ("", "values"): numbers,
    ("add_words", "words"): vector,
    ("add_value_words", "words"): vector,
    ("messages_indexed_otherwise", "words"): vectors,
    ("values_indexed_otherwise", "words"): vectors,
    ("save_session", "overlays"): lambda value, _: value,
    ("save_sessions", "overlays"): lambda value, _: value,
}
"""How a parameter is sent, by statement (or any) and name; text is sent as `stored`, all else as it is."""
