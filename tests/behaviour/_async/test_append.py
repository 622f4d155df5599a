"""Appending: chains, branches and roots, once per id, in the order of arrival, all or nothing."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import pytest

from plait import (
    AsyncSession,
    AsyncSessions,
    Change,
    ConflictError,
    InvalidMessageError,
    LeafMovedError,
    NotFoundError,
    UsageError,
    user,
)
from tests.behaviour._async.helpers import chain, dicts_of, facts, ids_of, read_back, readable
from tests.behaviour.values import note, picture


async def test_append_makes_a_chain_that_reads_back(chat: AsyncSession) -> None:
    results = [await chat.append(note(f"m{n}", f"words {n}")) for n in range(3)]
    assert [(result.id, result.seq, result.parent_id, result.inserted) for result in results] == [
        ("m0", 1, None, True),
        ("m1", 2, "m0", True),
        ("m2", 3, "m1", True),
    ]
    assert await dicts_of(chat.history()) == [note(f"m{n}", f"words {n}") for n in range(3)]
    assert await chat.leaf() == results[2].message
    assert [stat.id async for stat in chat.path_stats()] == ["m0", "m1", "m2"]


async def test_append_twice_writes_once(chat: AsyncSession, changes: list[Change]) -> None:
    """B-043: the retry of a write whose answer was lost."""
    first = await chat.append(note("m", "the first words"))
    await chat.append(note("n"))
    before = await facts(chat)
    again = await chat.append(note("m", "the first words"))
    assert (again.inserted, again.differs, again.message) == (False, False, first.message)
    assert await facts(chat) == before
    assert [change.kind for change in changes] == ["append", "append"]


async def test_append_of_other_content_under_a_known_id_answers_the_stored_message(
    chat: AsyncSession, changes: list[Change]
) -> None:
    """B-043"""
    await chat.append(note("m", "the first words"))
    before = await facts(chat)
    again = await chat.append(note("m", "other words"))
    assert (again.inserted, again.differs) == (False, True)
    assert again.message.text == "the first words"
    with pytest.raises(ConflictError):
        await chat.append(note("m", "other words"), on_conflict="raise")
    await chat.append(note("m", "the first words"), on_conflict="raise")
    assert await facts(chat) == before
    assert len(changes) == 1


@pytest.mark.parametrize("parent", ["m1", None, "m0"])
async def test_a_repeat_never_moves_a_message_or_the_leaf(chat: AsyncSession, parent: str | None) -> None:
    """B-043: whatever parent the retry names."""
    await chain(chat, 4)
    before = await facts(chat)
    assert not (await chat.append(note("m2", "m 2"), parent=parent)).inserted
    assert await facts(chat) == before


@pytest.mark.parametrize("gone", [True, False], ids=["deleted", "never there"])
async def test_a_repeat_needs_no_parent_any_more(chat: AsyncSession, changes: list[Change], gone: bool) -> None:
    """B-043: the parent of a message that was stored may be deleted before its writer asks again."""
    await chat.append_many([note("a"), note("b", "words")])
    parent = "a" if gone else "nobody"
    if gone:
        await chat.delete("a")
    before, told = await facts(chat), len(changes)
    again = await chat.append(note("b", "words"), parent=parent, on_conflict="raise", state={"k": 1})
    many = await chat.append_many([note("b", "words")], parent=parent)
    brought = await chat.import_message(note("b", "words"), parent=parent)
    same = await chat.upsert(note("b", "words"), parent=parent)
    for result in (again, *many, brought, same):
        assert (result.inserted, result.differs, result.message) == (False, False, readable(await chat.get("b")))
    assert (await facts(chat), len(changes), await chat.state()) == (before, told, {})
    updated = await chat.upsert(note("b", "new words"), parent=parent)
    assert (updated.inserted, updated.message.text) == (False, "new words")
    assert [change.kind for change in changes[told:]] == ["update"]
    for write in (chat.append, chat.upsert, chat.import_message):
        with pytest.raises(NotFoundError, match=parent):
            await write(note("new"), parent=parent)


async def test_a_batch_with_known_messages_inserts_only_the_new_ones(chat: AsyncSession) -> None:
    """B-046: a caller that saves its whole list every turn stores each message once."""
    turns = [note(f"t{n}") for n in range(6)]
    for count in (2, 4, 6):
        await chat.append_many(copy.deepcopy(turns[:count]))
        assert (await chat.totals()).messages == count
    assert await dicts_of(chat.history()) == turns
    assert len(await chat.leaves()) == 1


async def test_a_branch_becomes_the_active_path_and_the_other_stays_readable(chat: AsyncSession) -> None:
    await chat.append_many([note("a"), note("b")])
    branch = await chat.append(note("c"), parent="a")
    assert branch.parent_id == "a"
    assert [readable(message).id for message in await chat.children("a")] == ["b", "c"]
    assert await ids_of(chat.history()) == ["a", "c"]
    assert await ids_of(chat.history("b")) == ["a", "b"]
    assert [readable(message).id for message in await chat.leaves()] == ["b", "c"]


async def test_a_parent_of_none_is_a_root(chat: AsyncSession) -> None:
    await chat.append(note("a"))
    root = await chat.append(note("b"), parent=None)
    assert root.parent_id is None
    assert await ids_of(chat.history()) == ["b"]
    assert [readable(message).id for message in await chat.roots()] == ["a", "b"]


async def test_an_unknown_parent_is_refused_and_nothing_is_stored(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-049: a placeholder never saved, and a message of another session."""
    await sessions.session("other").append(note("elsewhere"))
    await chat.append(note("a"))
    before = await facts(chat)
    for parent in ("never-saved", "elsewhere", "m"):
        with pytest.raises(NotFoundError, match=parent):
            await chat.append(note("m"), parent=parent)
        with pytest.raises(NotFoundError, match=parent):
            await chat.append_many([note("m"), note("n")], parent=parent)
    assert await facts(chat) == before


async def test_a_batch_with_one_bad_message_stores_none(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    """B-033: nothing of it, and no lock stays behind for the next writer."""
    batch: list[Any] = [note(f"b{n}") for n in range(10)]
    batch[5] = note("b5", role="user", x=float("nan"))
    with pytest.raises(InvalidMessageError) as caught:
        await chat.append_many(batch)
    assert caught.value.path == "messages[5].x"
    assert await chat.info() is None
    async with reopened() as others:
        await others.session("chat").append(note("other"))
    assert await ids_of(chat.history()) == ["other"]


async def test_a_batch_whose_source_fails_stores_none(chat: AsyncSession) -> None:
    """B-033: the messages come from a generator that raises in the middle."""

    def broken() -> Any:
        yield note("one")
        raise RuntimeError("the source failed")

    with pytest.raises(RuntimeError):
        await chat.append_many(broken())
    assert await chat.info() is None


async def test_a_failing_subscriber_neither_undoes_nor_blocks_a_write(
    sessions: AsyncSessions, chat: AsyncSession, reopened: Callable[[], AsyncSessions], caplog: pytest.LogCaptureFixture
) -> None:
    """B-033"""
    told: list[Change] = []

    def failing(change: Change) -> None:
        raise RuntimeError("the subscriber failed")

    sessions.subscribe(failing)
    sessions.subscribe(told.append)
    await chat.append_many([note("a"), note("b")])
    assert [change.kind for change in told] == ["append", "error", "append", "error"]
    assert told[1].during == "append" and isinstance(told[1].error, RuntimeError)
    assert "the subscriber failed" in caplog.text
    async with reopened() as others:
        await others.session("chat").append(note("c"))
    assert await ids_of(chat.history()) == ["a", "b", "c"]


async def test_a_subscriber_may_write(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-032, B-033: no lock is held while a subscriber runs."""

    async def answer(change: Change) -> None:
        if change.kind == "append" and change.message is not None and change.message.role == "user":
            await chat.append(note(f"re-{change.message.id}", role="assistant"))

    sessions.subscribe(answer)
    await chat.append(note("q"))
    assert await ids_of(chat.history()) == ["q", "re-q"]


async def test_order_is_the_order_of_arrival_with_a_frozen_clock(
    chat: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-017: 500 messages of one instant, single and in batches, read twenty times."""
    frozen = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: frozen)
    for n in range(250):
        await chat.append(note(f"m{n}"))
    await chat.append_many([note(f"m{n}") for n in range(250, 500)])
    await chat.update(note("m250", "updated in the middle"))
    for _ in range(20):
        assert await ids_of(chat.history()) == [f"m{n}" for n in range(500)]
    assert len({message.created_at async for message in chat.history()}) == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("step_ns", [-3_600_000_000_000, -1, 0])
async def test_a_clock_that_goes_back_changes_no_order(
    chat: AsyncSession, monkeypatch: pytest.MonkeyPatch, step_ns: int
) -> None:
    """B-017"""
    now = [time.time_ns()]

    def clock() -> int:
        now[0] += step_ns
        return now[0]

    monkeypatch.setattr(time, "time_ns", clock)
    made = [(await chat.append({"role": "user", "parts": []})).id for _ in range(50)]
    assert await ids_of(chat.history()) == made
    assert len(set(made)) == 50


async def test_an_expected_leaf_or_version_that_holds_lets_the_append_through(chat: AsyncSession) -> None:
    await chat.append(note("a"), expect_leaf=None)
    await chat.append(note("b"), expect_leaf="a")
    info = await chat.info()
    assert info is not None
    await chat.append(note("c"), expect_version=info.version)
    assert await ids_of(chat.history()) == ["a", "b", "c"]


async def test_a_moved_leaf_is_refused_and_says_where_it_is(chat: AsyncSession) -> None:
    """B-031: a conflict is explicit, never "reload and go on"."""
    await chat.append_many([note("a"), note("b")])
    before = await facts(chat)
    for stale in (
        {"expect_leaf": "a"},
        {"expect_leaf": None},
        {"expect_version": 1},
        {"expect_leaf": "b", "expect_version": 7},
    ):
        with pytest.raises(LeafMovedError) as caught:
            await chat.append(note("c"), **stale)  # type: ignore[arg-type]
        assert (caught.value.leaf_id, caught.value.version) == ("b", 2)
    assert await facts(chat) == before


async def test_a_moved_leaf_may_become_a_branch_that_does_not_take_the_leaf(chat: AsyncSession) -> None:
    await chat.append_many([note("a"), note("winner")])
    result = await chat.append_many([note("loser"), note("loser2")], expect_leaf="a", on_moved="branch")
    assert [(item.branched, item.parent_id) for item in result] == [(True, "a"), (True, "loser")]
    assert await ids_of(chat.history()) == ["a", "winner"]
    assert [readable(message).id for message in await chat.leaves()] == ["winner", "loser2"]
    await chat.append(note("next"))
    assert await ids_of(chat.history()) == ["a", "winner", "next"]


async def test_branching_needs_to_know_where(chat: AsyncSession) -> None:
    with pytest.raises(UsageError, match="expect_leaf"):
        await chat.append(note("a"), expect_version=1, on_moved="branch")


async def test_a_handles_own_writes_never_make_it_stale(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions]
) -> None:
    """B-032: whoever writes in between, through whichever handle, and whatever."""
    mine = sessions.session("chat")
    await mine.append(note("a"))
    async with reopened() as others:
        theirs = others.session("chat")
        for n in range(3):
            await theirs.append(note(f"t{n}"))
            await others.merge_metadata("chat", {f"k{n}": n})
            await theirs.update_state({f"s{n}": n})
            await others.rename("chat", f"name {n}")
            await theirs.update(note("a", f"words {n}"))
            await mine.append(note(f"m{n}"))
        await theirs.delete("t1")
        await mine.append(note("last"))
    assert await ids_of(mine.history()) == ["a", "t0", "m0", "m1", "t2", "m2", "last"]


async def test_update_replaces_content_and_keeps_the_place(chat: AsyncSession, changes: list[Change]) -> None:
    await chain(chat, 3)
    old = readable(await chat.get("m1"))
    new = await chat.update(note("m1", "new words", role="assistant"))
    stored = readable(await chat.get("m1"))
    assert new == stored and stored.to_dict() == note("m1", "new words", role="assistant")
    assert (stored.seq, stored.parent_id, stored.created_at) == (old.seq, old.parent_id, old.created_at)
    assert stored.role == "assistant"
    assert [change.kind for change in changes][3:] == ["update"]
    assert changes[-1].message == stored


async def test_an_unchanged_update_writes_and_publishes_nothing(chat: AsyncSession, changes: list[Change]) -> None:
    await chat.append_many([note("m"), picture("p", b"payload"), note("big", "x" * 2_000_000)])
    before = await facts(chat)
    for message in (note("m"), picture("p", b"payload"), note("big", "x" * 2_000_000)):
        assert readable(await chat.update(message)).to_dict() == message
    assert await facts(chat) == before
    assert [change.kind for change in changes] == ["append"] * 3


async def test_an_update_of_an_unknown_id_answers_none_and_stores_nothing(
    chat: AsyncSession, changes: list[Change]
) -> None:
    assert await chat.update(picture("absent", b"payload")) is None
    assert await chat.info() is None
    await chat.append(note("a"))
    before = await facts(chat)
    assert await chat.update(picture("absent", b"payload")) is None
    assert await facts(chat) == before
    assert [change.kind for change in changes] == ["append"]


async def test_an_update_needs_an_id(chat: AsyncSession) -> None:
    with pytest.raises(UsageError, match="id"):
        await chat.update({"role": "user", "content": "hi"})


async def test_upsert_appends_once_and_then_updates(chat: AsyncSession, changes: list[Change]) -> None:
    """B-049: a continuation of a message under its id keeps one message."""
    await chat.append(note("a"))
    first = await chat.upsert(note("m", "part"))
    second = await chat.upsert(note("m", "part and the rest"), parent=None)
    third = await chat.upsert(note("m", "part and the rest"))
    assert (first.inserted, second.inserted, third.inserted) == (True, False, False)
    assert second.message.text == "part and the rest"
    assert await ids_of(chat.history()) == ["a", "m"]
    assert await read_back(chat, "m") == note("m", "part and the rest")
    assert [change.kind for change in changes] == ["append", "append", "update"]


async def test_a_message_read_from_one_session_is_written_to_another_as_it_is(
    sessions: AsyncSessions, chat: AsyncSession
) -> None:
    await chat.append_many([picture("p", b"payload"), note("m", role="tool")])
    foreign = await chat.append({"role": "assistant", "content": [{"type": "text", "text": "hi"}], "x": 1})
    other = sessions.session("other")
    for message in [message async for message in chat.history()]:
        assert (await other.append(readable(message))).inserted
    assert await dicts_of(other.history()) == await dicts_of(chat.history())
    assert readable(await other.get(foreign.id)).format == foreign.message.format


async def test_a_checkout_moves_the_leaf_and_writes_no_message(chat: AsyncSession, changes: list[Change]) -> None:
    await chat.append_many([note("a"), note("b"), note("c")])
    assert await chat.checkout("a")
    assert not await chat.checkout("a")
    assert readable(await chat.leaf()).id == "a"
    assert readable(await chat.newest()).id == "c"
    assert (await chat.append(note("d"))).parent_id == "a"
    with pytest.raises(NotFoundError):
        await chat.checkout("absent")
    assert [change.kind for change in changes][3:] == ["checkout", "append"]


async def test_a_checkout_of_nothing_begins_anew_beside_what_is_there(
    chat: AsyncSession, changes: list[Change]
) -> None:
    assert not await chat.checkout(None)
    await chat.append_many([note("a"), note("b")])
    with pytest.raises(LeafMovedError):
        await chat.checkout(None, expect_leaf="a")
    assert await chat.checkout(None, expect_leaf="b")
    assert (await chat.leaf(), await dicts_of(chat.history()), await dicts_of(chat.transcript())) == (None, [], [])
    assert (await chat.recent(count=5)).messages == []
    assert [readable(leaf).id for leaf in await chat.leaves()] == ["b"]
    assert (await chat.append(note("c"), expect_leaf=None)).parent_id is None
    assert [readable(root).id for root in await chat.roots()] == ["a", "c"]
    assert [(change.kind, change.ids, change.leaf_id) for change in changes][2:] == [
        ("checkout", (), None),
        ("append", ("c",), "c"),
    ]
    told = [(change.kind, change.ids, change.leaf_moved) for change in (await chat.changes()).changes]
    assert told[2:] == [("checkout", (), True), ("append", ("c",), True)]


async def test_ids_of_a_framework_that_repeat_are_content_when_they_are_not_to_count(chat: AsyncSession) -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{}"}
    two = await chat.append_many([item, item], own_ids=False)
    assert [one.inserted for one in two] == [True, True]
    assert "fc_1" not in {one.id for one in two}
    assert await dicts_of(chat.history()) == [item, item]
    assert [one.inserted for one in await chat.append_many([item, item])] == [True, False]


async def test_many_messages_can_be_given_their_ids_and_change_the_state_in_their_write(chat: AsyncSession) -> None:
    items = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    results = await chat.append_many(items, ids=["x", "y"], state={"k": 1})
    assert [result.id for result in results] == ["x", "y"] and await chat.state() == {"k": 1}
    assert await dicts_of(chat.history()) == items  # the ids stand beside them
    info = await chat.info()
    assert info is not None
    with pytest.raises(LeafMovedError):
        await chat.append_many(items, ids=["v", "w"], expect_version=info.version - 1, state={"k": 2})
    for wrong in (["v"], ["v", "w", "x"], "vw"):
        with pytest.raises(UsageError, match="one for each message"):
            await chat.append_many(items, ids=wrong, state={"k": 2})
    assert await ids_of(chat.history()) == ["x", "y"] and await chat.state() == {"k": 1}


async def test_an_import_keeps_parent_and_time_and_repeats_nothing(chat: AsyncSession, changes: list[Change]) -> None:
    import datetime as dt

    long_ago = dt.datetime(2001, 2, 3, 4, 5, 6, 789012, tzinfo=dt.timezone(dt.timedelta(hours=5, minutes=30)))
    first = await chat.import_message(note("i1"), parent=None, created_at=long_ago)
    second = await chat.import_message(note("i2"), parent="i1")
    again = await chat.import_message(note("i2"), parent=None, created_at=long_ago)
    assert (first.seq, second.seq, again.inserted) == (1, 2, False)
    assert readable(await chat.leaf()).id == "i2"
    stored = readable(await chat.get("i1")).created_at
    assert stored == long_ago and stored.utcoffset() == dt.timedelta(0)
    assert [(change.kind, change.parent_id) for change in changes] == [("import", None), ("import", "i1")]


async def test_an_import_refuses_itself_as_parent_a_missing_parent_and_a_naive_time(chat: AsyncSession) -> None:
    """B-020, B-054"""
    import datetime as dt

    await chat.append(note("a"))
    before = await facts(chat)
    with pytest.raises(UsageError, match="its own parent"):
        await chat.import_message(note("m"), parent="m")
    with pytest.raises(NotFoundError):
        await chat.import_message(note("m"), parent="absent")
    with pytest.raises(UsageError, match="zone"):
        await chat.import_message(note("m"), parent="a", created_at=dt.datetime(2024, 1, 1))
    assert await facts(chat) == before


async def test_an_import_may_leave_the_leaf(chat: AsyncSession) -> None:
    await chat.append_many([note("a"), note("b")])
    await chat.import_message(note("c"), parent="a", activate=False)
    await chat.import_message(note("d"), parent="b", activate=False)
    assert readable(await chat.leaf()).id == "b"
    assert (await chat.append(note("e"))).parent_id == "b"
    assert await ids_of(chat.history()) == ["a", "b", "e"]


async def test_an_import_is_verbatim_where_an_append_sanitizes(chat: AsyncSession) -> None:
    part = {"type": "text", "text": "x", "providerMetadata": {"openai": {"itemId": "rs_1"}}}
    hollow = {"type": "reasoning", "text": ""}
    for id, write in (("appended", chat.append), ("imported", chat.import_message)):
        options: Any = {"parent": None} if id == "imported" else {}
        await write({"id": id, "role": "assistant", "parts": [copy.deepcopy(part), dict(hollow)]}, **options)
    assert (await read_back(chat, "appended"))["parts"] == [{"type": "text", "text": "x"}]
    assert (await read_back(chat, "imported"))["parts"] == [part, hollow]


async def test_a_message_and_what_it_does_to_the_state_are_one_write(sessions: AsyncSessions) -> None:
    chat, seen = sessions.session("chat"), list[str]()
    chat.subscribe(lambda change: seen.append(change.kind))
    await chat.append(user("Count."), id="a", state={"count": 1})
    await chat.append(user("Count on."), id="b", state={"count": 2, "other": [None]})
    assert await chat.state() == {"count": 2, "other": [None]}
    assert seen == ["append", "session", "append", "session"]
    assert not (await chat.append(user("Count."), id="a", state={"count": 1})).inserted
    with pytest.raises(LeafMovedError):
        await chat.append(user("Late."), expect_leaf="a", state={"count": 9})
    beside = await chat.append(user("Late."), expect_leaf="a", on_moved="branch", state={"count": 9})
    assert beside.branched
    for bad in ([1], "x", {"k": float("nan")}, {1: 2}):
        with pytest.raises((UsageError, TypeError)):
            await chat.append(user("Bad."), state=bad)  # type: ignore[arg-type]
    assert await chat.state() == {"count": 2, "other": [None]}
    assert len(seen) == 5 and (await chat.totals()).messages == 3
