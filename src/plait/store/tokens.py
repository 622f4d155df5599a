"""The tokenizer of the search index, the same on every backend: for queries, snippets, and what is not indexed yet."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any

import apsw

from plait.logic.phrases import Token

_ARGS = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"]
"""As the migration that makes `message_words` says."""

_local = threading.local()


PIECE_CHARACTERS = 1 << 18
"""How much of a text is taken apart at a time where nobody asks for places: a list of tokens takes 40 times the text."""

_SPACE = re.compile(r"\s")


def tokenize(folded: str) -> list[Token]:
    """The words of a folded text, as the index would hold them."""
    return _tokens(folded, with_places=True)  # type: ignore[no-any-return]


def words(folded: str) -> Iterator[str]:
    """The same words without their places, some thousands in memory at a time: no word reaches over a space."""
    start = 0
    while start < len(folded):
        space = _SPACE.search(folded, start + PIECE_CHARACTERS)
        end = space.start() if space else len(folded)
        yield from _tokens(folded[start:end], with_places=False)
        start = end


def _tokens(folded: str, *, with_places: bool) -> Any:
    tokenizer: apsw.FTS5Tokenizer | None = getattr(_local, "tokenizer", None)
    if tokenizer is None:  # one for each thread: a connection is not to be used in two at once
        _local.connection = apsw.Connection(":memory:")
        tokenizer = _local.tokenizer = _local.connection.fts5_tokenizer("porter", _ARGS)
    return tokenizer(
        folded.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=with_places,
        include_colocated=False,
    )
