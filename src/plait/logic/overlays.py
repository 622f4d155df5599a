"""What an overlay may be, checked before it is stored, and how one is told from a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast, get_args

from msgspec.structs import replace

from plait import formats, times
from plait.errors import UsageError
from plait.logic import arguments, estimate, view
from plait.logic.chains import Brought
from plait.logic.ids import can_be_stored, check_id
from plait.model import OVERLAY_PREFIX, Message, Overlay, OverlayKind
from plait.store.protocol import NewMessage, NewOverlay

KINDS: Final[tuple[str, ...]] = get_args(OverlayKind)
WITHOUT_TEXT: Final = ("archive", "omit")
OF_ONE_MESSAGE: Final = ("omit", "replace", "unload")
FOREIGN_PREFIX: Final = "compaction_"
"""How another framework's clients name a summary; it counts as one only where the session has that overlay."""
_PREFIXES: Final = (OVERLAY_PREFIX, FOREIGN_PREFIX)


def new(
    id: str,
    ends: tuple[str, str],
    summary: str | None,
    kind: OverlayKind | None,
    at_us: int,
    counter: estimate.Counter | None,
) -> NewOverlay:
    """An overlay ready to be stored; `UsageError` for one that makes no sense."""
    if kind is None:
        kind = "archive" if summary is None else "compaction"
    _check(ends, summary, kind)
    tokens = 0 if summary is None else summary_tokens(summary, kind, counter)
    return NewOverlay(id, kind, *ends, summary, tokens, at_us)


def summary_tokens(summary: str, kind: str, counter: estimate.Counter | None) -> int:
    """What the message costs that shows a summary."""
    whole = view.shown_whole(summary) if kind == "unload" else None
    if whole is not None:
        return estimate.stamp(*whole, counter)
    shown = {"role": "assistant", "parts": [{"type": "text", "text": summary}]}
    return estimate.stamp(shown, formats.NATIVE, counter)


def brought(overlay: Brought, at_us: int, counter: estimate.Counter | None) -> NewOverlay:
    """An overlay of a transcript, ready to be stored; `UsageError` for one that makes no sense."""
    kind = cast("OverlayKind", overlay.kind)
    made_us = at_us if overlay.created_at is None else times.to_us(overlay.created_at)
    found = new(
        check_id(overlay.id, "overlay id"), (overlay.from_id, overlay.to_id), overlay.summary, kind, made_us, counter
    )
    return replace(found, tokens=found.tokens if overlay.tokens is None else overlay.tokens, stale=overlay.stale)


def _check(ends: tuple[str, str], summary: object, kind: str) -> None:
    if kind not in KINDS:
        raise arguments.refusal("kind", f"one of {', '.join(KINDS)}", kind)
    if not all(isinstance(end, str) for end in ends):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("an overlay goes from a message's id to a message's id; both are strings")
    if kind in OF_ONE_MESSAGE and ends[0] != ends[1]:
        raise UsageError(f"an overlay of kind {kind!r} covers one message; give the same id twice")
    if kind in WITHOUT_TEXT:
        if summary is not None:
            raise UsageError(f"an overlay of kind {kind!r} shows nothing; leave summary out, or choose another kind")
    elif not isinstance(summary, str) or not can_be_stored(summary):
        raise UsageError(f"an overlay of kind {kind!r} needs the text that is shown instead, as a string of characters")
    elif kind == "compaction" and not summary.strip():
        raise UsageError("a summary must say something; to hide messages without one, use archive")


def overlay_id(message_id: str) -> str | None:
    """The id of the overlay whose summary a message id may name."""
    for prefix in _PREFIXES:
        if message_id.startswith(prefix):
            return message_id[len(prefix) :]
    return None


def may_echo(messages: Iterable[NewMessage]) -> bool:
    """Whether some of these messages may be summaries written back."""
    for message in messages:  # noqa: SIM110 - a generator costs every append more than what it looks at
        if not message.made_id and message.id.startswith(_PREFIXES):
            return True
    return False


def echo(message: NewMessage, overlay: Overlay | None) -> Message:
    """What is answered for a summary that was written back: the one shown, else what was given."""
    if overlay is not None and overlay.summary is not None:
        return view.message(overlay, "assistant", None)
    return Message(
        message.id,
        message.role,
        0,
        None,
        message.created_at_us,
        message.bytes,
        message.tokens,
        formats.stored(message.format),
        message.body,
    )
