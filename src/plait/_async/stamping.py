"""Counting the tokens of a session's messages anew, after its counter was changed."""

from __future__ import annotations

from typing import Final

from plait import formats
from plait.errors import CorruptError, StaleValueError
from plait.logic import estimate
from plait.logic.estimate import Counter
from plait.logic.overlays import summary_tokens
from plait.model import LEAF, Message
from plait.pauses import pause_async
from plait.store._async.abilities import overlaying, restamping
from plait.store._async.port import AsyncRestamping, AsyncStore
from plait.store.protocol import SessionRef

ROWS: Final = 256
"""How many messages are counted at a time, between two reads of the store."""
TRIES: Final = 10
"""How often messages that are changed while they are counted are counted again."""


async def restamp(store: AsyncStore, ref: SessionRef, counter: Counter | None) -> int:
    """Count all messages and summaries anew with `counter`; how many stamps changed."""
    able, changed, after = restamping(store), 0, 0
    while True:
        last, count = await _page(able, ref, counter, after)
        changed += count
        if last is None:
            return changed + await _summaries(able, ref, counter)
        after = last
        await pause_async()


async def _page(store: AsyncRestamping, ref: SessionRef, counter: Counter | None, after: int) -> tuple[int | None, int]:
    """Count the next messages; the seq of the last of them (`None`: there are none), and how many stamps changed."""
    for tries in range(TRIES):
        path = await store.path(ref, LEAF, raw=True)
        window = await store.everything(ref, after_seq=after, limit=ROWS) if path is not None else []
        if path is None or not window:
            return None, 0
        counted = [(item, _count(item, counter)) for item in window if isinstance(item, Message)]
        stamps = [(item.id, tokens) for item, tokens in counted if tokens != item.tokens]
        try:
            return window[-1].seq, await store.restamp(ref, stamps, since_version=path.version) if stamps else 0
        except StaleValueError:
            if tries == TRIES - 1:
                raise
    raise AssertionError


def _count(message: Message, counter: Counter | None) -> int:
    try:
        return estimate.stamp(message.to_dict(), formats.stored(message.format), counter)
    except CorruptError:  # what cannot be read keeps its stamp
        return message.tokens


async def _summaries(store: AsyncRestamping, ref: SessionRef, counter: Counter | None) -> int:
    """Count what overlays show."""
    if not callable(getattr(store, "overlays", None)):
        return 0
    path = await store.path(ref, LEAF, raw=True)
    found = await overlaying(store).overlays(ref, everywhere=True) if path is not None else []
    stamps = [
        (overlay.id, tokens)
        for overlay in found
        if overlay.summary is not None
        and (tokens := summary_tokens(overlay.summary, overlay.kind, counter)) != overlay.tokens
    ]
    return await store.restamp(ref, [], summaries=stamps, since_version=path.version) if path and stamps else 0
