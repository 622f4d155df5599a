"""Skills kept as documents in plait's own store, under keys such as `pirate/SKILL.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait.logic import arguments, blocks, ids
from plait.store._async.abilities import contextual
from plait.store.protocol import Scope, SessionRef

if TYPE_CHECKING:
    from plait._async.sessions import AsyncSessions
    from plait.store._async.port import AsyncContextual


class AsyncStoredSkills:
    """A source of skills: the documents of a stored block, those of one session or those that all of a scope share.

    The block is one of `kind="documents"`; a document's key is the path of a file of a skill.
    """

    def __init__(self, sessions: AsyncSessions, label: str, *, session: str | None = None) -> None:
        self._sessions = sessions
        self._label = blocks.check_label(label)
        checked = arguments.maybe(lambda _, value: ids.check_own_id(value), "session", session)
        self._session = ids.SHARED_SESSION if checked is None else checked
        self.id = f"block {label!r}"

    async def files(self) -> list[tuple[str, int | None]]:
        """The key of every document, with its size."""
        store, ref = self._store()
        found: list[tuple[str, int | None]] = []
        after: str | None = None
        while page := await store.value_stats(ref, self._label, after=after):
            found += [(stat.key, stat.bytes) for stat in page]
            after = page[-1].key
        return found

    async def read(self, path: str) -> str | None:
        """A document."""
        store, ref = self._store()
        found = await store.read_value(ref, self._label, path)
        return None if found is None else found.content

    def _store(self) -> tuple[AsyncContextual, SessionRef]:
        return contextual(self._sessions.store), SessionRef(Scope(*self._sessions.scope), self._session)
