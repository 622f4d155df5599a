"""What stayed the same at the front of a model's input, between one call and the next, and what did not.

Providers keep the leading part of an input that they have seen before, and bill it at a fraction.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from plait.errors import UsageError
from plait.logic import arguments, legal, prompt
from plait.model import Damaged, Message, PrefixReport

TOOLS: Final = "tools"
PROMPT: Final = "prompt"
MESSAGE: Final = "message"
OPEN: Final = "open"
"""A message of a view for a model that says of a call that it has no result."""
OVERLAY: Final = "overlay"
COMPACTION: Final = "compaction"
_SHOWN: Final = (OVERLAY, COMPACTION)
_SAID: Final = ("prompt", "tools")
Stands = Literal["here", "elsewhere", "gone"]
"""Where something of an earlier input is now: on the path (shown or not), on another branch, or not in the session."""


class Piece(Struct, frozen=True, array_like=True):
    """A piece of an input: what it is, which message (with its seq), its bytes and their digest."""

    kind: str
    id: str
    seq: int
    size: int
    digest: bytes


class Seen(Struct, frozen=True, array_like=True):
    """An input as it is remembered: its pieces and, of tools and prompt, the text."""

    pieces: list[Piece]
    tools: bytes
    prompt: bytes


class Lost(NamedTuple):
    """What an earlier input has at its first difference: a message or overlay, its seq, and the input's last one.

    `made` says that it stood for the missing result of the message `id`.
    """

    id: str
    seq: int
    last: str
    made: bool


class Cause(NamedTuple):
    """What broke a prefix: the kind of change, the message it is about, and words for it."""

    kind: str
    message_id: str | None
    detail: str


def seen(tools: str | None, text: str | None, messages: Iterable[Piece]) -> Seen:
    """What is remembered of an input: tools first, as providers order it, then the prompt, then the messages."""
    pieces: list[Piece] = []
    if tools is not None:
        pieces.append(_piece(TOOLS, "", 0, tools))
    if text is not None:
        pieces.append(_piece(PROMPT, "", 0, text))
    return Seen([*pieces, *messages], _bytes(tools or ""), _bytes(text or ""))


def piece_of(message: Message | Damaged) -> Piece | None:
    """What is remembered of a message; nothing of one that cannot be read."""
    if isinstance(message, Damaged):
        return None
    return _piece(_kind(message), message.id, message.seq, message.to_json())


def _kind(message: Message) -> str:
    overlay = message.overlay
    if overlay is None:
        return OPEN if legal.shows_no_result(message) else MESSAGE
    return COMPACTION if overlay.kind == COMPACTION else OVERLAY


def _piece(kind: str, id: str, seq: int, text: str) -> Piece:
    data = _bytes(text)
    return Piece(kind, id, seq, len(data), hashlib.blake2b(data, digest_size=8).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def mark(this: Seen) -> str:
    """An input as text that another process can compare its own with."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.msgpack.encode(this), 6)).decode()


def read_mark(text: str) -> Seen:
    """The input that a mark says; `UsageError` for another text."""
    text = arguments.string("since", text)
    try:
        return msgspec.msgpack.decode(zlib.decompress(base64.urlsafe_b64decode(text)), type=Seen)
    except (ValueError, zlib.error, msgspec.DecodeError):
        raise UsageError("since must be the mark of an earlier prefix report") from None


def lost(before: Seen | None, now: Seen) -> Lost | None:
    """What is not where it was, if that is a message or overlay; `None` if nothing is, or tools or prompt come first."""
    if before is None:
        return None
    at = _first_difference(before.pieces, now.pieces)
    if at == len(before.pieces) or before.pieces[at].kind in _SAID:
        return None
    old = before.pieces[at]
    said = at < len(now.pieces) and now.pieces[at].kind in _SAID
    last = legal.source_of(before.pieces[-1].id)
    return None if said else Lost(legal.source_of(old.id), old.seq, last, _is_made(old))


def compare(
    before: Seen | None, now: Seen, hidden: Sequence[tuple[int, int]], stands: Stands | None = None
) -> PrefixReport:
    """How much of `before` stands at the front of `now`, and what broke it.

    `hidden` are the seqs, first and last, that overlays without a text hide; `stands` is where what `lost` says is now.
    """
    total = sum(piece.size for piece in now.pieces)
    if before is None:
        return PrefixReport(0, 0, total, None, None, "there is no earlier call to compare with", mark(now))
    at = _first_difference(before.pieces, now.pieces)
    same = sum(piece.size for piece in now.pieces[:at])
    was = sum(piece.size for piece in before.pieces)
    if at == len(before.pieces):
        return PrefixReport(same, was, total, None, None, "all of the earlier input stands at the front", mark(now))
    cause = _cause(before, now, at, hidden, stands)
    return PrefixReport(same + _within(before, now, at), was, total, *cause, mark(now))


def _first_difference(before: Sequence[Piece], now: Sequence[Piece]) -> int:
    for n, (one, other) in enumerate(zip(before, now, strict=False)):
        if one != other:
            return n
    return min(len(before), len(now))


def _within(before: Seen, now: Seen, at: int) -> int:
    """The bytes that a changed prompt or list of tools begins with as before; a changed message counts for none."""
    if at >= len(now.pieces) or before.pieces[at].kind != now.pieces[at].kind:
        return 0
    kind = now.pieces[at].kind
    if kind not in _SAID:
        return 0
    old, new = (before.prompt, now.prompt) if kind == PROMPT else (before.tools, now.tools)
    return _common(old, new)


def _common(old: bytes, new: bytes) -> int:
    lo, hi = 0, min(len(old), len(new))
    while lo < hi:
        middle = (lo + hi + 1) // 2
        lo, hi = (middle, hi) if old[:middle] == new[:middle] else (lo, middle - 1)
    return lo


def _cause(before: Seen, now: Seen, at: int, hidden: Sequence[tuple[int, int]], stands: Stands | None) -> Cause:
    old = before.pieces[at]
    new = now.pieces[at] if at < len(now.pieces) else None
    if old.kind == TOOLS or (new is not None and new.kind == TOOLS):
        return Cause("tools", None, "the tools are other ones than before")
    if old.kind == PROMPT or (new is not None and new.kind == PROMPT):
        return Cause("prompt", None, _prompt_change(_text(before.prompt), _text(now.prompt)))
    if new is not None and new.id == old.id:
        return _other(old, new)
    if stands == "elsewhere":
        return _left(old, new)
    if new is not None and new.kind in _SHOWN:
        return Cause(new.kind, new.id, f"{new.id!r} is shown in the place of messages")
    if stands == "gone" and old.kind not in _SHOWN:
        return _deleted(old)
    if _is_made(old):
        return _answered(old)
    return _moved(before, now, at, hidden)


def _is_made(piece: Piece) -> bool:
    """Whether a piece is a message that stands for a missing result."""
    return piece.kind == OPEN and legal.source_of(piece.id) != piece.id


def _other(old: Piece, new: Piece) -> Cause:
    """The cause where a message reads otherwise than before."""
    if _is_made(old) or (old.kind, new.kind) == (OPEN, MESSAGE):
        return _answered(old)
    source = legal.source_of(new.id)
    if (old.kind, new.kind) == (MESSAGE, OPEN):
        return Cause("result", source, f"a call of message {source!r} has no result any more")
    maybe = ", or a result came for one of its open calls" if new.kind == OPEN else ""
    return Cause("update", source, f"message {source!r} was updated{maybe}")


def _answered(old: Piece) -> Cause:
    source = legal.source_of(old.id)
    return Cause("result", source, f"a result came for a call of message {source!r} that was open")


def _deleted(old: Piece) -> Cause:
    source = legal.source_of(old.id)
    return Cause("delete", source, f"message {source!r} is not there any more")


def _left(old: Piece, new: Piece | None) -> Cause:
    """The cause where what stood at a place is on another branch now."""
    gone = legal.source_of(old.id)
    what = f"overlay {gone!r}" if old.kind in _SHOWN else f"message {gone!r}"
    what = f"the missing result of {what}" if _is_made(old) else what
    if new is None:
        return Cause("branch", gone, f"the conversation ends before {what} now: another message is its leaf")
    come = legal.source_of(new.id)
    return Cause("branch", come, f"the conversation goes on with {come!r} in the place of {what}")


def _moved(before: Seen, now: Seen, at: int, hidden: Sequence[tuple[int, int]]) -> Cause:
    """The cause where another message stands at a place than before, or none does."""
    old = before.pieces[at]
    new = now.pieces[at] if at < len(now.pieces) else None
    still = {piece.id for piece in now.pieces[at:]}
    earlier = {piece.id for piece in before.pieces[at:]}
    if old.kind in _SHOWN:
        return Cause("overlay", old.id, f"overlay {old.id!r} was taken away or replaced")
    if new is not None and old.id in still and new.id not in earlier:
        return Cause("insert", new.id, f"message {new.id!r} was put before {old.id!r}")
    if any(first <= old.seq <= last for first, last in hidden):
        return Cause("overlay", old.id, f"message {old.id!r} is hidden by an overlay")
    if new is None or new.id in earlier:
        return _deleted(old)
    return Cause("branch", new.id, f"the conversation goes on with message {new.id!r} in the place of {old.id!r}")


def _prompt_change(old: str, new: str) -> str:
    """Which sections of a prompt are other ones."""
    was = {prompt.section_header(text).split(" [")[0]: text for text in prompt.sections(old)}
    now = {prompt.section_header(text).split(" [")[0]: text for text in prompt.sections(new)}
    changed = [name for name in [*was, *(name for name in now if name not in was)] if was.get(name) != now.get(name)]
    if changed:
        return "the prompt was refreshed: " + ", ".join(changed)
    return "the prompt is another one, with the same sections in another order" if was else "the prompt is another one"
