"""Following changes: pages of a feed, an endless one, and the listeners of this process."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

from plait.errors import ClosedError
from plait.logic import arguments
from plait.model import Change, Changes
from plait.pauses import pause_async, rest_async, settle_async
from plait.store._async.port import AsyncFeeding, AsyncRest
from plait.store.forks import LOCK
from plait.store.protocol import Scope, SessionRef

Listener = Callable[[Change], Awaitable[None] | None]
Place = SessionRef | Scope

FEED_ROWS = 256
MOST_ROWS = 1000
FEED_BYTES = 512 << 10
"""How much is read at a time: one snapshot, and one hold of the event loop."""

FIRST_REST_S = 0.002
LONGEST_REST_S = 0.1
LOOK_S = 2.0
"""How long a reader that waits rests before it asks whether anybody has committed, and when it looks unasked.
A store that is told of commits is not asked."""

log = logging.getLogger("plait")


class Read(Protocol):
    """Reads the next changes after a cursor."""

    async def __call__(self, after: str | None, limit: int) -> Changes: ...


class Listeners:
    """Who is told of changes made through one store object, in the order they subscribed."""

    def __init__(self) -> None:
        self._told: list[tuple[Listener, Scope, str | None]] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._told)

    def add(self, listener: Listener, scope: Scope, id: str | None) -> Callable[[], None]:
        """Tell `listener` of a scope's changes, or of one session's; answers what ends that.

        One that listens to the same already is not told twice; then either canceller ends it.
        """
        entry = (listener, scope, id)
        with LOCK:
            if entry not in self._told:
                self._told.append(entry)

        def cancel() -> None:
            with LOCK:
                if entry in self._told:
                    self._told.remove(entry)

        return cancel

    async def tell(self, change: Change, scope: Scope) -> None:
        """Tell those who listen, one after another. One that fails is logged, and the others are told of it."""
        failed: list[tuple[Listener, Exception]] = []
        for listener in self._of(change, scope):
            try:
                await settle_async(listener(change))
            except Exception as error:
                log.exception("a subscriber failed on %s of session %r", change.kind, change.session_id)
                failed.append((listener, error))
        if change.kind == "error":  # or two that fail would tell each other for ever
            return
        for who, why in failed:
            await self._tell_error(Change("error", change.session_id, error=why, during=change.kind), scope, who)

    async def _tell_error(self, change: Change, scope: Scope, who: Listener) -> None:
        for listener in self._of(change, scope):
            if listener is not who:
                try:
                    await settle_async(listener(change))
                except Exception:
                    log.exception("a subscriber failed on %s of session %r", change.kind, change.session_id)

    def _of(self, change: Change, scope: Scope) -> list[Listener]:
        return [told for told, of, id in list(self._told) if of == scope and id in (None, change.session_id)]


async def read_page(
    store: AsyncFeeding, place: Place, read: Read, after: str | None, limit: int, wait_s: float
) -> Changes:
    """The next changes, waiting for some for at most so long."""
    limit = arguments.between("limit", limit, 1, MOST_ROWS)
    wait_s = arguments.seconds("wait_s", wait_s)
    until = time.monotonic() + wait_s
    while True:
        seen = await store.commits(place) if wait_s else None
        page = await read(after, limit)
        left = until - time.monotonic()
        if page.changes or left <= 0:
            return page
        after = page.cursor
        await _next_commit(store, place, seen, left)


async def follow(store: AsyncFeeding, place: Place, read: Read, after: str | None) -> AsyncIterator[Change]:
    """All changes after a cursor and, as they come, those after them; ends when the store is closed."""
    begun = False
    while True:
        try:
            seen = await store.commits(place)
            page = await read(after, FEED_ROWS)
            begun = True
        except ClosedError:
            if begun:
                return
            raise
        for change in page.changes:
            yield change
        after = page.cursor
        if page.more:
            await pause_async()
        elif not await _next_commit(store, place, seen, LOOK_S):
            return


async def _next_commit(store: AsyncFeeding, place: Place, seen: int | None, at_most_s: float) -> bool:
    """Rest until somebody has committed, or so long; `False` if the store was closed meanwhile.

    Nothing is held while it rests: no snapshot, no lock, no thread.
    """
    told: AsyncRest | None = getattr(store, "rest", None)
    rest_s = FIRST_REST_S
    until = time.monotonic() + at_most_s
    try:
        while (left := until - time.monotonic()) > 0:
            if told is None or not await told(place, seen, left):
                await rest_async(min(rest_s, left))
            rest_s = min(1.5 * rest_s, LONGEST_REST_S)
            now = await store.commits(place)
            if now != seen or (now is None and rest_s >= LONGEST_REST_S):
                return True
    except ClosedError:
        return False
    return True
