"""The tree: branches, roots, splices, and reads that must agree with one another."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from plait import AsyncSession, AsyncSessions, Change, Damaged, Message
from tests.behaviour._async.helpers import chain, facts, ids_of, readable
from tests.behaviour.values import note, picture
from tests.dose import dose


async def grown(chat: AsyncSession, dice: random.Random, count: int) -> None:
    """A random tree of `count` messages: mostly chains, some branches, a few roots."""
    known: list[str] = []
    for n in range(count):
        roll = dice.random()
        if roll < 0.05 or not known:
            await chat.append(note(f"m{n}"), parent=None)
        elif roll < 0.5:
            await chat.append(note(f"m{n}"), parent=dice.choice(known))
        else:
            await chat.append(note(f"m{n}"))
        known.append(f"m{n}")


async def links(chat: AsyncSession) -> dict[str, str | None]:
    """Every message's parent, as the message says."""
    return {message.id: message.parent_id async for message in chat.everything()}


async def held_together(chat: AsyncSession) -> None:
    """Hold that children, roots, leaves, paths and totals all follow from the parents."""
    parents = await links(chat)
    seqs = {message.id: message.seq async for message in chat.everything()}
    assert [readable(message).id for message in await chat.roots()] == [
        id for id, parent in parents.items() if parent is None
    ]
    for id in parents:
        children = [child for child, parent in parents.items() if parent == id]
        assert [readable(message).id for message in await chat.children(id)] == children, id
    leaves = [id for id in parents if id not in parents.values()]
    assert [readable(message).id for message in await chat.leaves()] == leaves
    for leaf in leaves:
        path = climbed(parents, leaf)
        assert await ids_of(chat.history(leaf)) == path
        assert await ids_of(chat.history(leaf, newest_first=True)) == path[::-1]
        assert [stat.id async for stat in chat.path_stats(leaf)] == path
        assert [message.id for message in (await chat.recent(leaf=leaf)).messages] == path
    active = await chat.leaf()
    assert (active is None) == (not parents)
    if active is not None:
        assert readable(await chat.newest()).id == max(seqs, key=lambda id: seqs[id])
        totals = await chat.totals()
        assert (totals.messages, totals.path_messages) == (len(parents), len(climbed(parents, active.id)))


def climbed(parents: dict[str, str | None], id: str) -> list[str]:
    path: list[str] = []
    at: str | None = id
    while at is not None:
        path.append(at)
        at = parents[at]
    return path[::-1]


@pytest.mark.parametrize("seed", range(dose(short=3, soak=30)))
async def test_children_is_the_inverse_of_parent_after_random_deletes(chat: AsyncSession, seed: int) -> None:
    """B-051, B-052: and the tree says the same when it has been spliced, branched and grown again."""
    dice = random.Random(seed)
    await grown(chat, dice, 40)
    for round in range(5):
        before = await links(chat)
        active = readable(await chat.leaf()).id if before else None
        doomed = set(dice.sample(sorted(before), min(len(before), dice.choice([1, 3, 8]))))
        assert set(await chat.delete(sorted(doomed))) == doomed
        expected = {id: survivor(before, doomed, id) for id in before if id not in doomed}
        assert await links(chat) == expected
        if active is not None and active in doomed:
            stands = survivor(before, doomed, active)
            leaf = await chat.leaf()
            newest = await chat.newest()
            assert (leaf.id if leaf else None) == (stands or (newest.id if newest else None))
        await held_together(chat)
        await chat.append(note(f"r{round}"), parent=dice.choice([*expected, None]))
        await chat.append(note(f"s{round}"))
        await held_together(chat)


def survivor(parents: dict[str, str | None], doomed: set[str], id: str) -> str | None:
    """The nearest ancestor that stays."""
    at = parents[id]
    while at is not None and at in doomed:
        at = parents[at]
    return at


async def test_three_levels_of_three_branches_are_reached_both_ways(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    """B-051: by children and by the history of every leaf, in another process' eyes too."""
    for one in "abc":
        await chat.append(note(one), parent=None)
        for two in "abc":
            await chat.append(note(one + two), parent=one)
            for three in "abc":
                await chat.append(note(one + two + three), parent=one + two)
    async with reopened() as others:
        other = others.session("chat")
        down: set[str] = set()
        todo = [readable(message).id for message in await other.roots()]
        while todo:
            id = todo.pop()
            down.add(id)
            todo += [readable(message).id for message in await other.children(id)]
        up = {id for leaf in await other.leaves() for id in await ids_of(other.history(leaf.id))}
        assert len(await other.leaves()) == 27
        assert down == up and len(down) == 39
        await held_together(other)


async def test_several_roots_are_all_reachable(chat: AsyncSession) -> None:
    """B-062: alternative versions of the first message."""
    for root in "abc":
        await chat.append(note(root), parent=None)
        await chat.append_many([note(root + "1"), note(root + "2")])
    assert [readable(message).id for message in await chat.roots()] == ["a", "b", "c"]
    for root in "abc":
        assert await ids_of(chat.history(root + "2")) == [root, root + "1", root + "2"]
    await chat.delete("b")
    assert [readable(message).id for message in await chat.roots()] == ["a", "b1", "c"]
    assert await ids_of(chat.history("b2")) == ["b1", "b2"]
    await held_together(chat)


@pytest.mark.parametrize(
    "doomed", [["m0"], ["m2"], ["m4"], ["m0", "m1", "m2"], ["m3", "m4"], ["m0", "m2", "m4"]], ids=str
)
async def test_deleting_splices_and_the_leaf_stays_on_its_branch(chat: AsyncSession, doomed: list[str]) -> None:
    """B-052: the leaf, the root, a middle message, runs of them."""
    await chain(chat, 5)
    left = [f"m{n}" for n in range(5) if f"m{n}" not in doomed]
    assert await chat.delete(doomed) == doomed
    assert await ids_of(chat.history()) == left
    assert readable(await chat.leaf()).id == left[-1]
    assert (await chat.append(note("next"))).parent_id == left[-1]
    await held_together(chat)


async def test_deleting_everything_leaves_an_empty_session_that_goes_on(chat: AsyncSession) -> None:
    """B-052"""
    last = await chain(chat, 5)
    await chat.append(note("branch"), parent="m1")
    await chat.delete([*last, "branch"])
    assert await chat.leaf() is None
    assert await ids_of(chat.history()) == []
    assert (await chat.totals()).messages == 0
    result = await chat.append(note("anew"))
    assert (result.seq, result.parent_id) == (7, None)
    await held_together(chat)


async def test_deleting_the_leaf_of_a_branch_returns_to_the_fork_not_to_another_branch(chat: AsyncSession) -> None:
    """The source jumps to the row of highest seq; here the leaf follows its branch."""
    await chat.append_many([note("a"), note("b")])
    await chat.append(note("c"), parent="a")
    await chat.append(note("d"), parent="a")
    await chat.delete("d")
    assert readable(await chat.leaf()).id == "a"
    assert readable(await chat.newest()).id == "c"


async def test_a_seq_is_never_used_again(chat: AsyncSession) -> None:
    """Also not that of the newest, nor after all are gone: the source reuses both."""
    await chain(chat, 3)
    await chat.delete("m2")
    assert (await chat.append(note("a"))).seq == 4
    await chat.delete(["m0", "m1", "a"])
    assert (await chat.append(note("b"))).seq == 5
    await chat.clear()
    assert (await chat.append(note("c"))).seq == 6


async def test_deleting_nothing_changes_and_publishes_nothing(chat: AsyncSession, changes: list[Change]) -> None:
    await chain(chat, 2)
    before = await facts(chat)
    assert await chat.delete([]) == []
    assert await chat.delete(["absent", "", "m"]) == []
    assert await chat.delete("m") == []
    assert await facts(chat) == before
    assert await chat.delete(["absent", "m1", "m1"]) == ["m1"]
    assert [(change.kind, tuple(change.ids)) for change in changes[2:]] == [("delete", ("m1",))]


async def test_deleting_in_a_session_that_is_not_there_makes_none(sessions: AsyncSessions, chat: AsyncSession) -> None:
    assert await chat.delete(["m"]) == []
    assert not await chat.clear()
    assert [info async for info in sessions.all()] == []


async def test_what_is_done_in_one_session_leaves_another_as_it_is(sessions: AsyncSessions) -> None:
    one, two = sessions.session("one"), sessions.session("two")
    for session in (one, two):
        await session.append_many([note("a"), note("b"), note("c")])
    before = [message.to_json() async for message in two.history()]
    await one.add_overlay("a", "b", summary="of the one")
    await one.delete(["c"])
    assert [message.to_json() async for message in two.history()] == before and await two.overlays() == []
    await one.clear()
    assert [message.to_json() async for message in two.history()] == before


async def test_clear_empties_the_session_and_keeps_what_is_said_of_it(
    sessions: AsyncSessions, chat: AsyncSession, changes: list[Change]
) -> None:
    await sessions.create("chat", name="name", metadata={"k": 1}, owner="me")
    await chat.update_state({"s": 1})
    await chat.append_many([note("a"), picture("p", b"payload")])
    assert await chat.clear()
    assert not await chat.clear()
    assert [message async for message in chat.everything()] == []
    assert (
        await chat.leaf() is None
        and await chat.newest() is None
        and await chat.leaves() == []
        and await chat.roots() == []
    )
    info = await chat.info()
    assert info is not None and (info.name, info.metadata, info.owner, await chat.state()) == (
        "name",
        {"k": 1},
        "me",
        {"s": 1},
    )
    assert info.totals.messages == info.totals.bytes == info.totals.tokens == info.totals.path_messages == 0
    assert [change.kind for change in changes][-1] == "clear"
    await chat.append(note("a", "anew"))
    assert await ids_of(chat.history()) == ["a"]


async def test_deleting_one_branch_and_then_the_other_leaves_nothing(chat: AsyncSession, file: object) -> None:
    """B-058: the shared prefix stays as long as it is used; rows, slices and payloads go with their messages."""
    import apsw

    await chat.append_many([note("root"), picture("shared", b"shared")])
    await chat.append_many([picture("one", b"shared"), note("big one", "x" * 4_000_000)], parent="shared")
    await chat.append_many([picture("two", b"only two"), note("big two", "y" * 4_000_000)], parent="shared")
    await chat.delete(["two", "big two"])
    assert await ids_of(chat.history("big one")) == ["root", "shared", "one", "big one"]
    await chat.delete(["one", "big one"])
    assert await ids_of(chat.history()) == ["root", "shared"]
    await chat.delete(["root", "shared"])
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    for table in ("message", "message_id", "slice", "attachment", "chunk", "attachment_ref"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], table
    connection.close()


async def test_deleting_a_session_leaves_nothing_of_it(
    sessions: AsyncSessions, chat: AsyncSession, file: object
) -> None:
    """B-058, B-086"""
    import apsw

    await chat.append_many([picture("p", b"payload"), note("big", "x" * 4_000_000), note("m")])
    await chat.append(note("branch"), parent="p")
    await sessions.merge_metadata("chat", {"k": 1})
    await sessions.delete("chat")
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    for table in (
        "message",
        "message_id",
        "slice",
        "attachment",
        "chunk",
        "attachment_ref",
        "strand",
        "info",
        "activity",
        "purge",
    ):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], table
    connection.close()


async def test_a_branch_at_every_second_message_reads_right(chat: AsyncSession) -> None:
    """B-060: as many strands as messages, on one path."""
    count = dose(short=600, soak=20_000)
    for n in range(count):
        await chat.append(note(f"m{n}"))
        if n % 2:
            await chat.append(note(f"x{n}"))
            await chat.checkout(f"m{n}")
    assert await ids_of(chat.history()) == [f"m{n}" for n in range(count)]
    assert await ids_of(chat.history(newest_first=True)) == [f"m{n}" for n in reversed(range(count))]
    assert [message.id for message in (await chat.recent(count=7)).messages] == [
        f"m{n}" for n in range(count - 7, count)
    ]
    assert len(await chat.leaves()) == count // 2 + 0
    fork = await chat.fork()
    assert await ids_of(fork.history()) == [f"m{n}" for n in range(count)]


async def test_a_long_chain_needs_no_recursion(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-060: append, read both ways, fork, delete, with the usual limit of Python."""
    import sys

    count = dose(short=5_000, soak=200_000)
    limit = sys.getrecursionlimit()
    await chain(chat, count)
    expected = [f"m{n}" for n in range(count)]
    assert await ids_of(chat.history()) == expected
    assert await ids_of(chat.transcript(newest_first=True)) == expected[::-1]
    assert [len(batch) async for batch in chat.batches(count=1000)] == [1000] * (count // 1000)
    fork = await chat.fork("fork")
    assert await ids_of(fork.everything()) == expected
    assert len(await chat.delete(expected[1:-1])) == count - 2
    assert await ids_of(chat.history()) == ["m0", f"m{count - 1}"]
    assert readable(await fork.get("m7")).parent_id == "m6"
    assert await sessions.delete("fork")
    assert sys.getrecursionlimit() == limit


async def test_100_000_ids_in_one_delete(chat: AsyncSession) -> None:
    """B-089: no statement with a placeholder for each id; unknown ids in between are harmless."""
    count = dose(short=3_000, soak=100_000)
    await chain(chat, count)
    asked = [f"m{n}" for n in range(1, count)] + [f"absent{n}" for n in range(100_000)]
    assert len(await chat.delete(asked)) == count - 1
    assert await ids_of(chat.history()) == ["m0"]


async def test_reads_of_an_absent_session_find_nothing(sessions: AsyncSessions, chat: AsyncSession) -> None:
    assert [message async for message in chat.history()] == []
    assert [message async for message in chat.transcript("m")] == []
    assert [batch async for batch in chat.batches()] == []
    assert [message async for message in chat.everything()] == []
    assert [stat async for stat in chat.path_stats()] == []
    window = await chat.recent(budget_bytes=100)
    assert (window.messages, window.truncated, window.total_messages, window.total_bytes) == ([], False, 0, 0)
    found: list[Message | Damaged | None] = [await chat.get("m"), await chat.leaf(), await chat.newest()]
    assert found == [None, None, None]
    assert [await chat.leaves(), await chat.roots(), await chat.children("m")] == [[], [], []]
    assert (await chat.totals()).messages == 0
    assert await chat.info() is None and await chat.state() == {}
    assert [info async for info in sessions.all()] == []


async def test_reads_of_an_absent_leaf_find_nothing(chat: AsyncSession) -> None:
    await chain(chat, 3)
    for leaf in ("absent", "", None):
        assert await ids_of(chat.history(leaf)) == []
        assert [stat async for stat in chat.path_stats(leaf)] == []
        window = await chat.recent(leaf=leaf)
        assert (window.messages, window.truncated, window.total_bytes) == ([], False, 0)
