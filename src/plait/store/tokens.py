"""The tokenizer of the search index, the same on every backend: for queries, snippets, and what is not indexed yet."""

from __future__ import annotations

import threading
from typing import Any

import apsw

from plait.logic.phrases import Token

_ARGS = ["unicode61", "remove_diacritics", "2", "categories", "L* N* Co Mn Mc"]
"""As the migration that makes `message_words` says."""

_local = threading.local()


def tokenize(folded: str) -> list[Token]:
    """The words of a folded text, as the index would hold them."""
    tokenizer: apsw.FTS5Tokenizer | None = getattr(_local, "tokenizer", None)
    if tokenizer is None:  # one for each thread: a connection is not to be used in two at once
        _local.connection = apsw.Connection(":memory:")
        tokenizer = _local.tokenizer = _local.connection.fts5_tokenizer("porter", _ARGS)
    found: Any = tokenizer(
        folded.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=True,
        include_colocated=False,
    )
    return found  # type: ignore[no-any-return]
