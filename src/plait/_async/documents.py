"""The documents loaded into a session's conversation: which it shows, and taking them out again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from plait._async.overlaying import named_overlay
from plait.errors import PlaitError
from plait.logic import view
from plait.logic.documents import Document, Loaded, Place, marker, without
from plait.model import LEAF, Appended, Message
from plait.store.protocol import Path

if TYPE_CHECKING:
    from plait._async.session import AsyncSession

log = logging.getLogger("plait")
UNLOAD: Final = "unload"


class AsyncDocuments:
    """What one handle knows of the loaded documents of its session's active path.

    The conversation says which they are: on every branch those whose text it shows. What was
    loaded through this handle and has not been appended yet is remembered beside that.
    """

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._read: tuple[Path, Loaded] | None = None
        self._live: dict[Document, None] = {}
        self._awaited: set[Document] = set()  # unloaded before the message with their text was appended

    async def loaded(self) -> list[Document]:
        """The documents that the conversation shows, or will once its messages are appended."""
        await self._settle()
        known = await self._known()
        return list(dict.fromkeys([*known.places, *self._live]))

    def load(self, document: Document) -> None:
        """A document was loaded: its text comes with a message that is not appended yet."""
        self._live[document] = None

    async def unload(self, document: Document) -> bool:
        """Show the document's text no longer; `False` if it was not loaded."""
        known = await self._known()
        places = known.places.get(document, [])
        if not places and document not in self._live:
            return False
        self._live.pop(document, None)
        if places:
            await self._hide({document: places})
        else:
            self._awaited.add(document)
        return True

    def forget(self) -> None:
        """The session was cleared."""
        self._read, self._live, self._awaited = None, {}, set()

    async def appended(self, results: Iterable[Appended]) -> None:
        """Look for what was loaded, and hide what was unloaded before that; called after each append, which stands."""
        if (self._live or self._awaited) and any(result.inserted for result in results):
            await self._settle()

    async def _settle(self) -> None:
        """Hide what an unloading in the conversation says, if that is still to be done."""
        try:
            known = await self._known()
            if known.waiting:
                await self._hide(known.waiting)
                self._awaited.difference_update(known.waiting)
        except PlaitError as error:
            log.warning("session %r: what was unloaded is still shown: %s", self._session.id, error)

    async def _known(self) -> Loaded:
        """Read what came since the last time, or everything if that was changed."""
        store, ref = self._session._store, self._session._ref  # pyright: ignore[reportPrivateUsage]
        path = await store.path(ref, LEAF)
        if path is None:
            self._read = None
            return Loaded()
        loaded, after = Loaded(), None
        if self._read is not None and not goes_on(self._read[0], path):
            self._live, self._awaited = {}, set()  # what was to be appended belonged to another branch
        elif self._read is not None and not await store.changed_since(ref, self._read[0]):
            loaded, after = self._read[1].copy(), _last(self._read[0])
        async for message in self._session._shown(path, after_seq=after):  # pyright: ignore[reportPrivateUsage]
            loaded.feed(message)
        self._read = path, loaded
        for document in loaded.places:
            self._live.pop(document, None)
        return loaded

    async def _hide(self, places: dict[Document, list[Place]]) -> None:
        marks: dict[str, dict[int, str]] = {}
        for document, found in places.items():
            for place in found:
                marks.setdefault(place.message_id, {})[place.part] = marker(document.key)
        for message_id, parts in marks.items():
            await self._mark(message_id, parts)
        if marks:
            self._read = None

    async def _mark(self, message_id: str, parts: dict[int, str]) -> None:
        """Lay an overlay on the message in which the results in these parts are their marks."""
        session = self._session
        store, ref = session._store, session._ref  # pyright: ignore[reportPrivateUsage]
        below = await named_overlay(store, ref, message_id)
        shown = view.message(below, "assistant", None) if below is not None else await session.get(message_id)
        changed = without(shown, parts) if isinstance(shown, Message) else None
        if changed is None:
            return
        if below is not None:  # the message has one document less already
            await session.remove_overlay(below.id)
        at = message_id if below is None else below.to_id
        await session.add_overlay(at, at, summary=view.whole(*changed), kind=UNLOAD)


def goes_on(before: Path, path: Path) -> bool:
    """Whether `path` is the one before and what came after it."""
    if before.incarnation != path.incarnation or not before.ranges or len(before.ranges) > len(path.ranges):
        return False
    same = before.ranges[:-1] == path.ranges[: len(before.ranges) - 1]
    last, now = before.ranges[-1], path.ranges[len(before.ranges) - 1]
    return same and last.strand == now.strand and last.lo == now.lo and last.hi <= now.hi


def _last(path: Path) -> int:
    return path.ranges[-1].hi
