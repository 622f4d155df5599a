"""Short ways of asking a session, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from plait import AsyncSession, Damaged, Message


async def ids_of(messages: AsyncIterator[Message | Damaged]) -> list[str]:
    """The ids of what is iterated, in order."""
    return [message.id async for message in messages]


async def dicts_of(messages: AsyncIterator[Message | Damaged]) -> list[dict[str, Any]]:
    """The messages as they were given; fails on a damaged one."""
    return [readable(message).to_dict() async for message in messages]


def readable(message: Message | Damaged | None) -> Message:
    """`message`, which must be there and sound."""
    assert isinstance(message, Message), message
    return message


async def read_back(session: AsyncSession, id: str) -> dict[str, Any]:
    """A message as it was given."""
    return readable(await session.get(id)).to_dict()


async def facts(session: AsyncSession) -> dict[str, Any]:
    """All that a write would change, to hold that nothing did."""
    leaf, info = await session.leaf(), await session.info()
    return {
        "everything": [message async for message in session.everything()],
        "leaf": leaf,
        "info": info,
        "state": await session.state(),
        "path": [stat async for stat in session.path_stats()],
    }


async def chain(session: AsyncSession, count: int, prefix: str = "m") -> list[str]:
    """Append `count` small messages; their ids."""
    new = [
        {"id": f"{prefix}{n}", "role": "user", "parts": [{"type": "text", "text": f"{prefix} {n}"}]}
        for n in range(count)
    ]
    return [result.id for result in await session.append_many(new)]
