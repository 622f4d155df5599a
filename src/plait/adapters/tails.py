"""Where, in what a framework is about to send, that begins which no summary of the session covers.

What is sent is not what is stored, piece by piece: of a killed process's calls the one drops what the other closes
with results, thoughts come and go. So the two are compared with that left aside, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from operator import eq
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import plait

Row: TypeAlias = plait.Message | plait.Damaged

NOT_SENT: Final = (
    "session %r is compacted, but the summary is not sent: what goes to the model is not what the session holds, "
    "and goes as it is"
)
"""What is logged where a summary was paid for in vain."""


class Piece(NamedTuple):
    """One thing that is said: `key` tells it from others, `call` is the id of the call that it is or answers."""

    key: Any
    kind: Literal["call", "result", "thought", "words"] = "words"
    call: object = None


Same = Callable[[Any, Any], bool]


def summarized(rows: Sequence[Row]) -> int:
    """How many rows of a history end with its last summary; 0 if there is none."""
    return max((n for n, row in enumerate(rows, 1) if _summary_in(row) is not None), default=0)


async def covered_by(session: plait.AsyncSession, row: Row) -> list[Row]:
    """The rows that the summary stands for which is read at a row of the history, but for those that are archived."""
    here = _summary_in(row)
    assert here is not None
    path = session.transcript(after_seq=here.from_seq - 1, before_seq=here.to_seq + 1)
    return without_archived([row async for row in path], await session.overlays())


def without_archived(rows: Iterable[Row], overlays: Iterable[plait.Overlay]) -> list[Row]:
    """The rows of a path that no overlay without a summary hides."""
    hidden = [one for one in overlays if one.summary is None]
    return [row for row in rows if not any(one.from_seq <= row.seq <= one.to_seq for one in hidden)]


def _summary_in(row: Row) -> plait.Overlay | None:
    overlay = row.overlay if isinstance(row, plait.Message) else None
    return None if overlay is None or overlay.summary is None or overlay.kind == "unload" else overlay


def tail_at(
    given: Sequence[Piece], covered: Sequence[Piece], summary: Piece, tail: Sequence[Piece], *, same: Same = eq
) -> int | None:
    """Where the tail begins in what is given: after what the summary covers, or after the summary; `None` if nowhere.

    `covered` and `tail` are what is stored, up to and from there; more may be given after the tail.
    """
    ends = [*_ends(covered, {*map(_hashed, tail)}), summary]
    closed, unanswered, may_miss = _unanswered(covered), _unanswered(tail), _may_miss(tail)
    for at in range(len(given), 0, -1):
        last = at - 1
        while last > 0 and given[last].kind == "result" and given[last].call in closed:
            last -= 1
        begins = any(same(given[last].key, end.key) for end in ends)
        if begins and _goes_on(given, at, tail, may_miss, unanswered, same):
            return at
    return None


def _may_miss(tail: Sequence[Piece]) -> list[bool]:
    """Of each piece of a tail whether it may not have been sent."""
    unanswered, called = _unanswered(tail), {piece.call for piece in tail if piece.kind == "call"}
    last = {_hashed(piece): n for n, piece in enumerate(tail)}
    return [
        piece.kind == "thought"
        or (piece.kind == "call" and piece.call in unanswered)
        or (piece.kind == "result" and piece.call not in called)
        or last[_hashed(piece)] != n  # sent once, where it was said last
        for n, piece in enumerate(tail)
    ]


def _goes_on(
    given: Sequence[Piece],
    at: int,
    tail: Sequence[Piece],
    may_miss: Sequence[bool],
    unanswered: Container[object],
    same: Same,
) -> bool:
    """Whether the tail is what is given from there on, but for what may be missing and for results that calls got meanwhile."""
    n = 0
    while n < len(tail):
        piece, here = tail[n], given[at] if at < len(given) else None
        if here is not None and same(here.key, piece.key):
            at, n = at + 1, n + 1
        elif here is not None and here.kind == "result" and here.call in unanswered:
            at += 1
        elif may_miss[n]:
            n += 1
        else:
            return False
    return True


def _ends(covered: Sequence[Piece], tail: set[str]) -> Iterable[Piece]:
    """What may stand last of what is covered: its last piece, or if that may be missing the one before as well."""
    unanswered = _unanswered(covered)
    for piece in reversed(covered):
        yield piece
        may_miss = piece.kind == "thought" or (piece.kind == "call" and piece.call in unanswered)
        if not may_miss and _hashed(piece) not in tail:
            return


def _unanswered(pieces: Sequence[Piece]) -> set[object]:
    answered = {piece.call for piece in pieces if piece.kind == "result"}
    return {piece.call for piece in pieces if piece.kind == "call"} - answered


def _hashed(piece: Piece) -> str:
    return repr(piece.key)
