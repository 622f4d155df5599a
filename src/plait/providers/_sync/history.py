"""Generated from src/plait/providers/_async/history.py by tools/unasync.py: edit that file. Earlier conversations as a block: how many there are, and what is found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait.logic import arguments
from plait.logic.tooling import hits_text
from plait.providers.history_text import count_sentence

if TYPE_CHECKING:
    from plait._sync.sessions import Sessions

LIMIT: Final = 10


class SessionHistory:
    """All sessions of a scope as a block that the model searches and cannot write.

    `get` says how many sessions there are, `search` answers the best matches (at most `limit`) in messages of all
    branches, each `[role] snippet`, with a line of three dashes between them. Words are looked for as
    `sessions.search` does.
    """

    def __init__(self, sessions: Sessions, *, limit: int = LIMIT) -> None:
        self._sessions = sessions
        self._limit = arguments.number("limit", limit, least=1)

    def get(self) -> str | None:
        """How many sessions there are; `None` without any."""
        count = 0
        for _ in self._sessions.all():
            count += 1
        return count_sentence(count)

    def search(self, query: str) -> str | None:
        """What is found, as a model is to read it; `None` for nothing."""
        return hits_text(self._sessions.search(query, limit=self._limit))
