"""Searching by words and by somebody else's means at once, such as vectors: kept up by the feed, ranked together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from plait._async.feeding import FEED_BYTES, FEED_ROWS
from plait.errors import CursorExpiredError, UsageError
from plait.logic.fusion import fused
from plait.logic.words import texts
from plait.model import Change, Hit, Message, SearchText
from plait.store._async.abilities import feeding
from plait.store.protocol import Scope, Search, SessionRef

if TYPE_CHECKING:
    from plait.store._async.port import AsyncSearchable, AsyncStore

DEPTH = 200
"""How far down both rankings are looked at, at least: so the pages of this many hits are cut from one ranking."""


class AsyncSearchProvider(Protocol):
    """Another way to find the messages of one scope, such as the nearness of vectors.

    plait brings it what was written since, before each search, and checks what it finds: it need not
    know of roles, times or branches, and may answer with messages that are gone. To be kept between
    runs it stores its texts and the cursor together.
    """

    async def cursor(self) -> str | None:
        """What the last `update` gave; `None` if there was none, or after `clear`."""
        ...

    async def update(self, changes: Sequence[SearchText], cursor: str) -> None:
        """Take over these changes in their order, and keep the cursor; some may come again."""
        ...

    async def clear(self) -> None:
        """Forget all of it: it is going to be brought anew."""
        ...

    async def search(self, query: str, *, session_id: str | None, limit: int) -> Sequence[tuple[str, str]]:
        """The best messages for a query, best first, each a session id and a message id.

        Of one session or of all; at most `limit`, and fewer only if there are no more.
        """
        ...


async def hybrid(
    store: AsyncSearchable, within: SessionRef | Scope, asked: Search, provider: AsyncSearchProvider
) -> list[Hit]:
    """The hits of words and provider, ranked by reciprocal rank fusion."""
    if asked.newest_first:
        raise UsageError("newest_first has no use for a provider, which ranks; leave one of them out")
    scope = within.scope if isinstance(within, SessionRef) else within
    await _bring_up(store, scope, provider)
    wanted = asked.offset + asked.limit
    depth = max(wanted, DEPTH)
    by_words = await store.search(within, msgspec.structs.replace(asked, limit=depth, offset=0))
    by_provider = await _found(store, within, asked, provider, depth) if asked.limit and asked.query else []
    hits = {_key(hit): hit for hit in [*by_provider, *by_words]}  # the latter know which words were found
    ranked = fused(map(_key, by_words), map(_key, by_provider))
    return [msgspec.structs.replace(hits[key], score=score) for key, score in ranked[asked.offset : wanted]]


def _key(hit: Hit) -> tuple[str, str]:
    return hit.session_id, hit.id


async def _bring_up(store: AsyncStore, scope: Scope, provider: AsyncSearchProvider) -> None:
    """Bring the provider all that was committed, so that it knows as much as the index does."""
    feed, after, more = feeding(store), await provider.cursor(), True
    while more:
        try:
            page = await feed.scope_changes(scope, after=after, limit=FEED_ROWS, budget_bytes=FEED_BYTES)
        except CursorExpiredError:
            await provider.clear()
            after = None
            continue
        changes = [text for change in page.changes for text in _texts(change)]
        if changes or page.cursor != after:
            await provider.update(changes, page.cursor)
        after, more = page.cursor, page.more


def _texts(change: Change) -> Iterator[SearchText]:
    """What a change means to somebody who only knows texts."""
    if change.kind in ("clear", "delete session"):
        yield SearchText(change.session_id)
    elif change.kind == "delete":
        for id in change.ids:
            yield SearchText(change.session_id, id)
    elif change.kind in ("append", "import", "update") and change.message is not None:
        yield SearchText(change.session_id, change.message.id, _words_of(change.message))


def _words_of(message: Message) -> str:
    """The same that the index is given: the text parts."""
    return texts(message.parts)


async def _found(
    store: AsyncSearchable, within: SessionRef | Scope, asked: Search, provider: AsyncSearchProvider, wanted: int
) -> list[Hit]:
    """What the provider finds and the filters let through: more is asked for until that is enough."""
    session_id = within.id if isinstance(within, SessionRef) else None
    limit = wanted
    while True:
        keys = await provider.search(asked.query, session_id=session_id, limit=limit)
        hits = await store.hits(within, keys, asked)
        if len(hits) >= wanted or len(set(keys)) < limit:
            return hits[:wanted]
        limit *= 4
