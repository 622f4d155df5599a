"""What doctors of either database look at in a message, and how they tell of what they found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plait import formats
from plait.errors import CorruptError
from plait.logic.prepare import kept_role
from plait.logic.shape import is_list, is_object
from plait.logic.strands import seq_of
from plait.model import Finding, Message
from plait.store.plan import Ask, Plan, Row
from plait.store.plans import common, messages, read
from plait.store.protocol import SessionRef

SHOWN = 20
"""How many places of one kind of damage are named."""


def findings(kind: str, rows: Iterable[Row], fixed: bool) -> Iterator[Finding]:
    """What was found in some rows of a rule's, in the order of their text: databases have no order of their own."""
    details = sorted(", ".join(map(str, row)) for row in rows)
    for detail in details[:SHOWN]:
        yield Finding(kind, detail, fixed)
    if len(details) > SHOWN:
        yield Finding(kind, f"and {len(details) - SHOWN} more", fixed)


def stretch(ref: SessionRef, after_seq: int, limit: int, budget_bytes: int) -> Plan[tuple[int, list[Finding]]]:
    """Look at the next messages of a session; up to which seq (0: there are no more), and what is damaged."""
    head = yield from common.take(ref)
    keys = (yield from read.next_keys(head, after_seq, limit, budget_bytes)) if head is not None else []
    found: list[Finding] = []
    for row in (yield from read.rows_of(keys)):
        reason = yield from damage(row)
        if reason is not None:
            found.append(Finding("damaged message", f"{row[messages.ID]!r} (key {row[messages.KEY]}): {reason}"))
    return (seq_of(keys[-1]) if keys else 0), found


def damage(row: Row) -> Plan[str | None]:
    """Why a message cannot be put together, is not JSON or not what its row says; `None` for a sound one."""
    message = yield from messages.build_one(row, None)
    if not isinstance(message, Message):
        return message.reason
    try:
        return mismatch(message) or (yield from misplaced(row))
    except CorruptError as error:
        return f"its text is not JSON: {error.__cause__}"


def mismatch(message: Message) -> str | None:
    """What a message says of itself that its row does not; `CorruptError` if it says nothing."""
    content: object = message.to_dict()
    if message.format != formats.NATIVE.name:  # a foreign message is called what it was given as
        return None
    if not is_object(content):
        return "it is not a JSON object"
    if content.get("id") != message.id:
        return f"it calls itself {content.get('id')!r:.80}"
    role = content.get("role")
    if not isinstance(role, str) or kept_role(role) != message.role:
        return f"its role is {role!r:.80}, and {message.role!r:.80} in its row"
    return None if is_list(content.get("parts")) else "its parts are not a list"


def misplaced(row: Row) -> Plan[str | None]:
    """Whether media stand elsewhere than at the end of a string, where all of them are taken from."""
    if not row[messages.FLAGS] & messages.WITH_MEDIA:
        return None
    body = yield from messages.without_media(row)
    refs = yield Ask("attachment_refs_of", (row[messages.KEY],))
    places = [at for _, _, at, _ in refs]
    if body is None or not places or places != sorted(set(places)):
        return "its media are not in order"
    if all(body[at : at + 1] == '"' and body[at - 1 : at] in ('"', ",") for at in places):
        return None
    return "its media stand where none can be"
