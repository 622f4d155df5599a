"""Ids are data: of messages, sessions, tenants and owners, whatever they look like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import AsyncSession, AsyncSessions, NotFoundError, PlaitError, UsageError
from tests.behaviour._async.helpers import facts, ids_of, read_back, readable
from tests.behaviour.values import BAD_IDS, LONE, ODD_IDS, note


@pytest.mark.parametrize("id", ODD_IDS, ids=ascii)
async def test_an_odd_message_id_is_data(chat: AsyncSession, id: str) -> None:
    """B-099: every call that takes a message's id takes this one, and only it is meant."""
    near = {id + "x", id[:-1], id.upper(), id.replace("\0", " "), id.split("\0")[0]} - {id, ""}
    near = {other for other in near if len(other.encode()) <= 512 and other.strip()}
    await chat.append_many([note("root"), *map(note, sorted(near)), note(id), note("child")])
    parent = sorted(near)[-1] if near else "root"
    assert readable(await chat.get(id)).parent_id == parent
    assert [readable(message).id for message in await chat.children(id)] == ["child"]
    assert (await chat.append(note("branch"), parent=id)).parent_id == id
    assert await ids_of(chat.history(id)) == ["root", *sorted(near), id]
    assert (await chat.recent(count=1, leaf=id)).messages == [await chat.get(id)]
    assert await chat.checkout(id)
    await chat.update(note(id, "new words"))
    assert await read_back(chat, id) == note(id, "new words")
    fork = await chat.fork(at=id)
    assert readable(await fork.leaf()).id == id
    assert await chat.delete([id]) == [id]
    assert await chat.get(id) is None
    assert {other for other in near if await chat.get(other) is not None} == near
    assert readable(await chat.get("child")).parent_id == parent


@pytest.mark.parametrize("id", ODD_IDS, ids=ascii)
async def test_an_odd_session_id_is_data(sessions: AsyncSessions, file: Path, id: str) -> None:
    """B-099: no file but the database and its log appears, and no other session is touched."""
    await sessions.session("other").append(note("m", "of the other"))
    await sessions.create(id, name="odd")
    session = sessions.session(id)
    await session.append(note("m", "of the odd one"))
    await sessions.rename(id, "renamed")
    await sessions.merge_metadata(id, {"k": 1})
    await session.update_state({"k": 2})
    await sessions.pin(id)
    assert {info.id async for info in sessions.all()} == {"other", id}
    info = await sessions.get(id)
    assert info is not None and (info.id, info.name, info.pinned) == (id, "renamed", True)
    fork = await session.fork()
    found = await fork.info()
    assert found is not None and found.parent_id == id
    assert await sessions.delete(id)
    assert await sessions.get(id) is None
    assert await read_back(sessions.session("other"), "m") == note("m", "of the other")
    assert {path.name for path in file.parent.iterdir()} <= {file.name, file.name + "-wal", file.name + "-shm"}


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
async def test_a_bad_session_id_is_refused_and_nothing_is_made(sessions: AsyncSessions, id: Any) -> None:
    """B-049"""
    with pytest.raises(UsageError):
        sessions.session(id)
    with pytest.raises(UsageError):
        await sessions.create(id)
    with pytest.raises(UsageError):
        await sessions.get_or_create(id)
    with pytest.raises(UsageError):
        sessions.scoped(tenant=id or None)
    with pytest.raises(UsageError):
        sessions.scoped(owner=id or None)
    assert [info async for info in sessions.all()] == []


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
async def test_reading_what_no_id_can_name_finds_nothing_or_says_why(
    sessions: AsyncSessions, chat: AsyncSession, id: Any
) -> None:
    """B-001, B-049: an id that nothing can have is absent like any other, and never breaks the driver."""
    await chat.append(note("m"))
    before = await facts(chat)
    assert await absent(lambda: sessions.get(id)) in (None, "refused")
    assert await absent(lambda: chat.get(id)) in (None, "refused")
    assert await absent(lambda: chat.children(id)) in ([], "refused")
    assert await absent(lambda: chat.delete([id])) in ([], "refused")
    assert await absent(lambda: sessions.delete(id)) in (False, "refused")
    assert await absent(lambda: chat.recent(leaf=id)) == "refused" or (await chat.recent(leaf=id)).messages == []
    try:
        assert await ids_of(chat.history(id)) == []
    except UsageError:
        pass
    with pytest.raises((UsageError, NotFoundError)):
        await chat.checkout(id)
    with pytest.raises((UsageError, NotFoundError)):
        await chat.append(note("n"), parent=id)
    with pytest.raises((UsageError, NotFoundError)):
        await chat.import_message(note("n"), parent=id)
    with pytest.raises((UsageError, NotFoundError)):
        await chat.fork(at=id)
    with pytest.raises((UsageError, NotFoundError)):
        await sessions.rename(id, "x")
    assert await facts(chat) == before


async def absent(call: Callable[[], Any]) -> Any:
    """What a call answers, or that plait refused it."""
    try:
        return await call()
    except PlaitError:
        return "refused"


@pytest.mark.parametrize("name", ["../x", "a\0b", LONE, "", "x" * 100_000, "🧵"], ids=ascii)
async def test_names_and_owners_are_data_or_refused(sessions: AsyncSessions, name: str) -> None:
    """B-001: a title with half an emoji does not break the catalogue."""
    await sessions.create("other", name="other")
    try:
        await sessions.create("named", name=name, owner=name or None)
    except UsageError:
        assert await sessions.get("named") is None
    else:
        info = await sessions.get("named")
        assert info is not None and (info.name, info.owner) == (name, name or None)
    try:
        await sessions.rename("other", name)
    except UsageError:
        name = "other"
    assert [info.name async for info in sessions.all() if info.id == "other"] == [name]


@pytest.mark.parametrize("id", ["plait:default", "plait:stage:1", "plait:", "plait:anything"])
async def test_plaits_own_session_ids_are_not_for_callers(sessions: AsyncSessions, id: str) -> None:
    with pytest.raises(UsageError, match="reserved"):
        await sessions.create(id + "x")
    if id != "plait:default":
        with pytest.raises(UsageError, match="reserved"):
            sessions.session(id)


@pytest.mark.parametrize("id", ["plait:shared", "plait:stage:x"])
async def test_what_no_listing_shows_is_neither_found_nor_deleted_by_its_id(sessions: AsyncSessions, id: str) -> None:
    chat = sessions.session("chat").with_context("memory", shared=True)
    await chat.context.replace("memory", "for all")
    with pytest.raises(UsageError, match="plait's own"):
        await sessions.delete(id)
    assert await sessions.get(id) is None
    block = await chat.context.block("memory")
    assert block is not None and block.content == "for all"


async def test_two_sessions_may_use_one_message_id(sessions: AsyncSessions) -> None:
    """B-045: providers reuse short ids."""
    one, other = sessions.session("one"), sessions.session("other")
    await one.append(note("call_1", "mine"))
    await other.append(note("call_1", "yours"))
    await one.update(note("call_1", "mine anew"))
    assert await read_back(other, "call_1") == note("call_1", "yours")
    await sessions.delete("one")
    assert await read_back(other, "call_1") == note("call_1", "yours")
    assert not (await other.append(note("call_1", "yours"))).inserted


async def test_a_missing_id_is_made_returned_and_unique(chat: AsyncSession) -> None:
    """B-049: native messages carry it, foreign ones are kept as they are."""
    native = await chat.append({"role": "user", "parts": []})
    foreign = await chat.append({"role": "user", "content": "hi"})
    null = await chat.append({"id": None, "role": "user", "parts": []})
    assert len({native.id, foreign.id, null.id}) == 3
    assert native.message.to_dict() == {"id": native.id, "role": "user", "parts": []}
    assert next(iter(native.message.to_dict())) == "id"
    assert foreign.message.to_dict() == {"role": "user", "content": "hi"}
    assert readable(await chat.get(foreign.id)).text == "hi"


async def test_an_id_beside_a_message_that_has_another_is_refused(chat: AsyncSession) -> None:
    with pytest.raises(UsageError, match="give one"):
        await chat.append(note("m"), id="n")
    assert await chat.info() is None
