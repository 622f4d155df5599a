"""Searching as the handles offer it: what is asked is checked here, and a hit opened with its context."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from plait import times
from plait.errors import UsageError
from plait.logic import arguments
from plait.model import LEAF, Damaged, Hit, Leaf, Message
from plait.store._async.abilities import searchable
from plait.store.protocol import Path, Scope, Search, SessionRef

if TYPE_CHECKING:
    from plait._async.hybrid import AsyncSearchProvider
    from plait.store._async.port import AsyncStore

BRANCH_STEPS = 1000
"""How far `around` follows a branch that is not the active one."""


class Everywhere:
    """The type of the default of `leaf`: all branches."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "…"


EVERYWHERE = Everywhere()


def question(
    query: str,
    *,
    limit: int,
    offset: int,
    newest_first: bool,
    role: str | Iterable[str] | None,
    since: dt.datetime | None,
    until: dt.datetime | None,
    leaf: str | Leaf | Everywhere = EVERYWHERE,
) -> Search:
    """What is asked, once it is known to be askable."""
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise arguments.refusal("query", "text", query)
    everywhere = isinstance(leaf, Everywhere)
    return Search(
        query=query,
        limit=arguments.number("limit", limit, most=arguments.MOST // 2),
        offset=arguments.number("offset", offset, most=arguments.MOST // 2),
        newest_first=arguments.flag("newest_first", newest_first),
        roles=_roles(role),
        since_us=_instant("since", since),
        until_us=_instant("until", until),
        leaf=None if isinstance(leaf, Everywhere) else arguments.place("leaf", leaf),
        branches=everywhere,
    )


def _instant(name: str, value: dt.datetime | None) -> int | None:
    moment = arguments.maybe(arguments.moment, name, value)
    return None if moment is None else times.to_us(moment)


def _roles(role: str | Iterable[str] | None) -> tuple[str, ...]:
    if role is None:
        return ()
    found = [role] if isinstance(role, str) else sorted(arguments.words("role", role))
    if not found:
        raise UsageError("role must be a role such as 'user', or some of them; leave it out for all")
    return tuple(arguments.text("role", item) for item in found)


async def search(
    store: AsyncStore, within: SessionRef | Scope, asked: Search, provider: AsyncSearchProvider | None
) -> list[Hit]:
    """What holds the words; with a provider also what that finds."""
    if provider is None:
        return await searchable(store).search(within, asked)
    from plait._async.hybrid import hybrid  # what few use is loaded by the first who does

    arguments.methods("provider", provider, "cursor", "update", "clear", "search")
    return await hybrid(searchable(store), within, asked, provider)


async def around(store: AsyncStore, ref: SessionRef, id: str, *, before: int, after: int) -> list[Message | Damaged]:
    """A message with those it answers and those that go on from it, root side first."""
    before, after = arguments.number("before", before), arguments.number("after", after)
    path = await store.path(ref, arguments.id_asked("id", id), raw=True)
    if path is None or path.leaf_id != id:
        return []
    earlier = await _load(store, ref, path, before + 1)
    return earlier + await _following(store, ref, earlier[-1], after) if earlier else []


async def _load(store: AsyncStore, ref: SessionRef, path: Path, count: int) -> list[Message | Damaged]:
    """The newest messages of a path, oldest first."""
    found: list[Message | Damaged] = []
    while len(found) < count:
        last = found[-1].seq if found else None
        window = await store.load(ref, path, before_seq=last, newest_first=True, limit=count - len(found))
        if not window:
            break
        found += window
    return found[::-1]


async def _following(
    store: AsyncStore, ref: SessionRef, message: Message | Damaged, count: int
) -> list[Message | Damaged]:
    """What goes on from a message: on the active path if it is there, else on the branch begun last."""
    active = await store.path(ref, LEAF, raw=True)
    if active is None or not count:
        return []
    found: list[Message | Damaged] = []
    ahead = await store.load(ref, active, after_seq=message.seq - 1, limit=count + 1)
    if ahead and ahead[0].id == message.id:
        found = ahead[1:]
        while ahead and len(found) < count:
            ahead = await store.load(ref, active, after_seq=ahead[-1].seq, limit=count - len(found))
            found += ahead
        return found
    while len(found) < min(count, BRANCH_STEPS):
        children = await store.children(ref, found[-1].id if found else message.id)
        if not children:
            break
        found.append(children[-1])
    return found
