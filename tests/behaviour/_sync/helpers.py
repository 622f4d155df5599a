"""Generated from tests/behaviour/_async/helpers.py by tools/unasync.py: edit that file. Short ways of asking a session, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plait import Session, Damaged, Message


def ids_of(messages: Iterator[Message | Damaged]) -> list[str]:
    """The ids of what is iterated, in order."""
    return [message.id for message in messages]


def dicts_of(messages: Iterator[Message | Damaged]) -> list[dict[str, Any]]:
    """The messages as they were given; fails on a damaged one."""
    return [readable(message).to_dict() for message in messages]


def readable(message: Message | Damaged | None) -> Message:
    """`message`, which must be there and sound."""
    assert isinstance(message, Message), message
    return message


def read_back(session: Session, id: str) -> dict[str, Any]:
    """A message as it was given."""
    return readable(session.get(id)).to_dict()


def facts(session: Session) -> dict[str, Any]:
    """All that a write would change, to hold that nothing did."""
    leaf, info = session.leaf(), session.info()
    return {
        "everything": [message for message in session.everything()],
        "leaf": leaf,
        "info": info,
        "state": session.state(),
        "path": [stat for stat in session.path_stats()],
    }


def chain(session: Session, count: int, prefix: str = "m") -> list[str]:
    """Append `count` small messages; their ids."""
    new = [
        {"id": f"{prefix}{n}", "role": "user", "parts": [{"type": "text", "text": f"{prefix} {n}"}]}
        for n in range(count)
    ]
    return [result.id for result in session.append_many(new)]
