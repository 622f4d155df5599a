"""Earlier conversations as a block: how many there are, and what is found in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plait.logic import arguments
from plait.logic.tooling import hits_text
from plait.providers.history_text import count_sentence

if TYPE_CHECKING:
    from plait._async.sessions import AsyncSessions

LIMIT: Final = 10


class AsyncSessionHistory:
    """All sessions of a scope as a block that the model searches and cannot write.

    `get` says how many sessions there are, `search` answers the best matches (at most `limit`) in messages of all
    branches, each `[role] snippet`, with a line of three dashes between them. Words are looked for as
    `sessions.search` does.
    """

    def __init__(self, sessions: AsyncSessions, *, limit: int = LIMIT) -> None:
        self._sessions = sessions
        self._limit = arguments.number("limit", limit, least=1)

    async def get(self) -> str | None:
        """How many sessions there are; `None` without any."""
        count = 0
        async for _ in self._sessions.all():
            count += 1
        return count_sentence(count)

    async def search(self, query: str) -> str | None:
        """What is found, as a model is to read it; `None` for nothing."""
        return hits_text(await self._sessions.search(query, limit=self._limit))
