"""Overlays as a session's handle sees them, and summaries that clients write back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from plait.errors import UsageError
from plait.logic import overlays
from plait.model import OVERLAY_PREFIX, Appended, Message, Overlay
from plait.store._async.abilities import overlaying
from plait.store._async.port import AsyncStore
from plait.store.protocol import NewMessage, SessionRef


async def named_overlay(store: AsyncStore, ref: SessionRef, message_id: str) -> Overlay | None:
    """The session's overlay whose summary a message id names."""
    id = overlays.overlay_id(message_id)
    if id is None or not callable(getattr(store, "add_overlay", None)):
        return None
    return await overlaying(store).overlay(ref, id)


async def real_parent(store: AsyncStore, ref: SessionRef, parent: str) -> str:
    """`parent`, or if it names a summary the last message that the summary is of."""
    overlay = await named_overlay(store, ref, parent)
    return parent if overlay is None else overlay.to_id


async def echoes(
    store: AsyncStore, ref: SessionRef, new: Sequence[NewMessage], source: Literal["server", "client", "import"]
) -> dict[int, Message]:
    """Which of these messages are summaries written back: what is answered for them, by place; they are not written.

    From a client that is harmless. Anybody else who does it would make a message of a summary, and
    gets `UsageError`; an import keeps summaries of overlays that this session does not have.
    """
    found: dict[int, Message] = {}
    for n, message in enumerate(new):
        if message.made_id or overlays.overlay_id(message.id) is None:
            continue
        overlay = await named_overlay(store, ref, message.id)
        ours = message.id.startswith(OVERLAY_PREFIX) and source != "import"
        if overlay is None and not ours:
            continue  # an id like any other
        if source == "server":
            raise UsageError(
                f"message id {message.id!r} names the summary of an overlay, which is not a message; "
                "write the messages only, or pass source='client' to have it ignored"
            )
        found[n] = overlays.echo(message, overlay)
    return found


def with_echoes(results: list[Appended], echoed: dict[int, Message]) -> list[Appended]:
    """The results of a write with those of the summaries put back at their places."""
    left = iter(results)
    total = len(results) + len(echoed)
    return [Appended(echoed[n], inserted=False) if n in echoed else next(left) for n in range(total)]
