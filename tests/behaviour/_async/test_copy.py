"""Copies between stores: everything goes along, what was read is what is there, a break costs nothing."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait import AsyncSession, AsyncSessions, Copied
from plait.errors import ConflictError, LeaseHeldError, NotFoundError, StaleValueError, UsageError
from tests.behaviour.values import LONE, TEXTS, VALUES, noise, note, picture
from tests.dose import dose
from tests.postgres_server import database

ACROSS = [("sqlite", "postgres"), ("postgres", "sqlite")]
PAIRS = dose(short=ACROSS, soak=[*ACROSS, ("sqlite", "sqlite"), ("postgres", "postgres")])


@contextmanager
def place(kind: str, file: Path) -> Iterator[str]:
    if kind == "postgres":
        with database() as url:
            yield url
    else:
        yield str(file)


@pytest.fixture(params=PAIRS, ids="-".join)
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[AsyncSessions, AsyncSessions]]:
    """Two stores, each on either database."""
    one, two = request.param
    with place(one, tmp_path / "one.db") as source, place(two, tmp_path / "two.db") as target:
        async with (
            plait.open_async(source, durability="process") as origin,
            plait.open_async(target, durability="process") as copy,
        ):
            yield origin, copy


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[tuple[AsyncSessions, AsyncSessions]]:
    """Two stores in files."""
    async with (
        plait.open_async(tmp_path / "one.db", durability="process") as origin,
        plait.open_async(tmp_path / "two.db", durability="process") as copy,
    ):
        yield origin, copy


async def said(session: AsyncSession) -> list[Any]:
    """All that a session says, but the versions and the number of its changes."""
    info = await session.info()
    assert info is not None
    rows: list[Any] = [
        (m.id, m.seq, m.parent_id, m.role, m.created_at, m.tokens, m.bytes, m.format, m.to_json())  # type: ignore[union-attr]
        async for m in session.everything()
    ]
    leaf = await session.leaf()
    shown = [(m.id, m.to_json()) async for m in session.history()]  # type: ignore[union-attr]
    overlays = [
        (o.id, o.kind, o.summary, o.from_id, o.to_id, o.from_seq, o.to_seq, o.left, o.stale)
        for o in await session.overlays(all=True)
    ]
    values = [value async for value in session.value_versions()]
    catalogue = (info.name, info.owner, info.parent_id, info.pinned, info.metadata, info.created_at, info.active_at)
    records = await session.records()
    return [rows, leaf and leaf.id, shown, overlays, values, catalogue, info.totals, await session.state(), records]


async def grown(sessions: AsyncSessions, size: int = 60, seed: int = 5) -> AsyncSession:
    """A session with everything that one can have: branches, gaps, overlays, media, values, a catalogue entry."""
    chance = random.Random(seed)
    await sessions.create("chat", name="Ein Gespräch \x00", owner="ann", metadata={"k": [1, 1.5, None], "": 2**70})
    chat = sessions.session("chat").with_context("memory").with_context("docs", kind="documents")
    ids = [(await chat.append(note("first"))).id]
    for n in range(size):
        parent = chance.choice(ids) if n % 7 == 0 else None if n == 50 else plait.LEAF
        ids.append((await chat.append(note(f"m{n}", chance.choice(list(TEXTS.values()))), parent=parent)).id)
    await chat.append(picture("pic", noise(300_000)))
    await chat.append(note("odd", values=list(VALUES.values())))
    await chat.append({"role": "user", "content": "of another format"})
    await chat.append(note("long", "é" * 900_000))
    await chat.delete(chance.sample(ids[1:-12], size // 3))
    path = [m.id async for m in chat.transcript()]
    await chat.add_overlay(path[-9], path[-8], summary="inner")
    await chat.add_overlay(path[-9], path[-6], summary="outer é💡")
    await chat.omit(path[-2])
    await chat.delete([path[-6]])
    for text in ("one", LONE, "\x00 three"):
        await chat.context.replace("memory", text)
    await chat.context.put("docs", "x" * 2_000_000, key="a/b", description="a long one")
    await chat.write_records(put={b"\x00\xff" + bytes([n, 0]): noise(100 * n, n) for n in range(250)})
    await chat.update_state({"turn": 3, "deep": {"a": [1.0]}})
    return chat


async def test_everything_of_a_session_goes_along(pair: tuple[AsyncSessions, AsyncSessions]) -> None:
    source, target = pair
    chat = await grown(source)
    copied = await target.copy_from(source, "chat")
    rows = (await said(chat))[0]
    assert copied == Copied("chat", True, len(rows), len(rows), (), True)
    assert await said(target.session("chat")) == await said(chat)
    again = await target.copy_from(source, "chat")
    assert again == Copied("chat", False, 0, len(rows), (), True)
    assert await said(target.session("chat")) == await said(chat)


async def test_a_copy_goes_on_as_its_source_would(pair: tuple[AsyncSessions, AsyncSessions]) -> None:
    source, target = pair
    await grown(source, size=20)
    await target.copy_from(source, "chat")
    for sessions in pair:
        chat = sessions.session("chat").with_context("memory")
        await chat.append(note("after"))
        await chat.context.append("memory", "more")
        await chat.remove_overlay((await chat.overlays())[-1].id)
    there, here = await said(source.session("chat")), await said(target.session("chat"))
    assert [row[:4] for row in there[0]] == [row[:4] for row in here[0]]
    assert [(v.version, v.content) for v in there[4]] == [(v.version, v.content) for v in here[4]]
    assert [hit.id for hit in await target.session("chat").search("words")] == [
        hit.id for hit in await source.session("chat").search("words")
    ]


async def test_what_has_come_since_is_brought_and_nothing_else_changes(
    pair: tuple[AsyncSessions, AsyncSessions],
) -> None:
    source, target = pair
    chat = await grown(source, size=20)
    await target.copy_from(source, "chat")
    at = (await target.session("chat").leaf()).id  # type: ignore[union-attr]
    await chat.append_many([note("n1"), note("n2")])
    await chat.append(note("n3"), parent="first")
    await chat.checkout("n2")
    await chat.add_overlay("n1", "n2", summary="later")
    await chat.context.replace("memory", "later")
    await chat.update_state({"turn": 4, "deep": None})
    await source.rename("chat", "another name")
    cursor = await target.session("chat").cursor()
    copied = await target.copy_from(source, "chat")
    assert (copied.created, copied.inserted, copied.lost, copied.same) == (False, 3, (), True)
    changes = (await target.session("chat").changes(after=cursor)).changes
    assert [c.ids for c in changes if c.kind == "import"] == [("n1",), ("n2",), ("n3",)]
    there, here = await said(chat), await said(target.session("chat"))
    assert [(row[0], row[2], row[8]) for row in there[0]] == [(row[0], row[2], row[8]) for row in here[0]]
    assert there[1:5] == here[1:5] and there[7] == here[7] and here[1] != at
    assert here[5][0] == "another name"


async def test_a_copy_with_something_of_its_own_keeps_it_and_says_so(
    files: tuple[AsyncSessions, AsyncSessions],
) -> None:
    source, target = files
    chat = await grown(source, size=20)
    await target.copy_from(source, "chat")
    copy = target.session("chat").with_context("memory")
    await copy.append(note("own"))
    await copy.context.replace("memory", "its own")
    await chat.append(note("new"))
    await chat.context.replace("memory", "the source's")
    copied = await target.copy_from(source, "chat")
    assert (copied.inserted, copied.same) == (1, False)
    assert await copy.get("own") is not None and await copy.get("new") is not None
    assert (await copy.context.history("memory"))[0].content == "its own"
    await chat.update(note("new", "updated"))
    assert not (await target.copy_from(source, "chat")).same


async def test_what_is_appended_while_a_copy_is_made_is_left_for_the_next(
    files: tuple[AsyncSessions, AsyncSessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    chat = source.session("chat")
    await chat.append_many([note(f"m{n}") for n in range(250)])
    append, told = target.store.append, list[tuple[int, int]]()

    async def slow(*args: Any, **options: Any) -> Any:
        await chat.append(note(f"late{len(told)}"))
        return await append(*args, **options)

    monkeypatch.setattr(target.store, "append", slow)
    copied = await target.copy_from(source, "chat", progress=lambda *numbers: told.append(numbers))
    assert copied == Copied("chat", True, 250, 250, (), True)
    assert told[-1] == (250, 250)
    assert (await target.copy_from(source, "chat")).inserted == 1


async def test_a_copy_that_was_broken_off_is_gone_on_with(
    pair: tuple[AsyncSessions, AsyncSessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its writes: what was written before is not written again, and nothing shows until it is whole."""
    source, target = pair
    chat = source.session("chat").with_context("memory")
    await chat.append_many([note(f"m{n}") for n in range(1100)])
    await chat.add_overlay("m1", "m3", summary="sum")
    await chat.context.replace("memory", "said")
    store, written = target.store, 0
    real = {
        name: getattr(store, name)
        for name in ("append", "checkout", "add_overlay", "write_value", "put_session", "publish")
    }
    for breaks in real:
        calls = {"left": 2 if breaks == "append" else 1}

        async def broken(*args: Any, _name: str = breaks, _calls: dict[str, int] = calls, **options: Any) -> Any:
            _calls["left"] -= 1
            if _calls["left"] == 0:
                raise KeyboardInterrupt
            return await real[_name](*args, **options)

        monkeypatch.setattr(store, breaks, broken)
        with pytest.raises(KeyboardInterrupt):
            await target.copy_from(source, "chat")
        monkeypatch.setattr(store, breaks, real[breaks])
        assert await target.get("chat") is None and (await target.list()).sessions == []

    async def counted(session: Any, messages: Any, **options: Any) -> Any:
        nonlocal written
        written += len(messages)
        return await real["append"](session, messages, **options)

    monkeypatch.setattr(store, "append", counted)
    assert (await target.copy_from(source, "chat")).same
    assert written == 0
    assert await said(target.session("chat")) == await said(chat)


async def test_a_source_that_was_changed_since_the_break_is_copied_anew(
    files: tuple[AsyncSessions, AsyncSessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    chat = source.session("chat")
    await chat.append_many([note(f"m{n}") for n in range(10)])
    publish = target.store.publish

    async def broken(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(target.store, "publish", broken)
    with pytest.raises(KeyboardInterrupt):
        await target.copy_from(source, "chat")
    monkeypatch.setattr(target.store, "publish", publish)
    await chat.update(note("m3", "other words"))
    await chat.delete(["m5"])
    assert (await target.copy_from(source, "chat")).same
    assert await said(target.session("chat")) == await said(chat)


async def test_a_source_that_changes_at_each_reading_leaves_no_copy(
    files: tuple[AsyncSessions, AsyncSessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    await source.session("chat").append(note("a"))
    append = target.store.append

    async def other(session: Any, messages: Any, **options: Any) -> Any:
        from msgspec.structs import replace

        return await append(session, [replace(m, tokens=m.tokens + 1) for m in messages], **options)

    monkeypatch.setattr(target.store, "append", other)
    with pytest.raises(StaleValueError, match="copy it again"):
        await target.copy_from(source, "chat")
    monkeypatch.undo()
    assert await target.get("chat") is None
    assert await target.doctor() == []


async def test_a_damaged_message_is_left_out_and_named(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db", durability="process") as origin:
        origin.session("chat").append_many([note("a"), note("b"), note("c")])
    connection = apsw.Connection(str(tmp_path / "one.db"))
    connection.execute("UPDATE message SET body = 'no json' WHERE id = 'b'")
    connection.close()
    async with (
        plait.open_async(tmp_path / "one.db") as source,
        plait.open_async(tmp_path / "two.db", durability="process") as target,
    ):
        copied = await target.copy_from(source, "chat")
        assert (copied.messages, copied.same) == (2, True)
        assert len(copied.lost) == 1 and "'b'" in copied.lost[0]
        assert [(m.id, m.parent_id) async for m in target.session("chat").history()] == [("a", None), ("c", "a")]


async def test_all_of_a_scope_goes_along_with_what_its_sessions_share(
    pair: tuple[AsyncSessions, AsyncSessions],
) -> None:
    source, target = pair
    mine, theirs = source.scoped("acme", "alice"), source.scoped("acme", "bob")
    for n in range(dose(short=3, soak=300)):
        await mine.session(f"s{n}").append_many([note("a"), note("b")])
    await mine.session().append(note("in the default session"))
    await mine.create("empty", name="nothing in it")
    await mine.session("s0").with_context("team", shared=True).context.replace("team", "shared words")
    await theirs.session("other").append(note("a"))
    to = target.scoped("acme", "alice")
    found = {copied.session_id: copied async for copied in to.copy_all_from(mine)}
    listed = [info.id async for info in mine.all()]
    assert found.keys() == {*listed, "plait:shared"} and all(copied.same for copied in found.values())
    assert [info.id async for info in to.all()] == listed
    block = await to.session("s1").with_context("team", shared=True).context.block("team")
    assert block is not None and block.content == "shared words"
    assert [scope async for scope in source.scopes()] == [("acme", "alice"), ("acme", "bob")]
    assert [scope async for scope in target.scopes()] == [("acme", "alice")]
    again = [copied async for copied in to.copy_all_from(mine)]
    assert all(copied.same and not copied.inserted for copied in again)


async def test_one_session_that_cannot_be_copied_keeps_no_other_back(
    files: tuple[AsyncSessions, AsyncSessions],
) -> None:
    source, target = files
    for id in ("a", "b", "c"):
        await source.session(id).append(note("m"))
    await target.session("b").append(note("other"))
    async with target.session("b").lease(ttl_s=60):
        found = {copied.session_id: copied async for copied in target.copy_all_from(source)}
        assert (found["a"].same, found["b"].same, found["c"].same) == (True, False, True)
        assert "leased" in found["b"].lost[0]
        with pytest.raises(LeaseHeldError):
            await target.copy_from(source, "b")


async def test_a_lease_is_not_copied(files: tuple[AsyncSessions, AsyncSessions]) -> None:
    source, target = files
    async with source.session("chat").lease(ttl_s=60) as turn:
        await turn.append(note("a"))
        assert (await target.copy_from(source, "chat")).same
    assert (await target.session("chat").append(note("b"))).inserted


async def test_a_session_is_copied_to_another_scope_of_the_same_store(sessions: AsyncSessions) -> None:
    await sessions.session("chat").append(picture("p", noise(10_000)))
    other = sessions.scoped("acme")
    assert (await other.copy_from(sessions, "chat")).same
    await sessions.delete("chat")
    assert [m.to_dict() async for m in other.session("chat").history()] == [picture("p", noise(10_000))]  # type: ignore[union-attr]


async def test_what_is_not_there_is_not_copied(files: tuple[AsyncSessions, AsyncSessions]) -> None:
    source, target = files
    for id in ("absent", "plait:shared", "plait:stage:x"):
        with pytest.raises(NotFoundError):
            await target.copy_from(source, id)
    with pytest.raises(UsageError):
        await target.copy_from("one.db", "chat")  # type: ignore[arg-type]
    assert [copied async for copied in target.copy_all_from(source)] == []
    await source.create("chat", owner="ann")
    await target.create("chat", owner="bob")
    with pytest.raises(ConflictError, match="owner"):
        await target.copy_from(source, "chat")
