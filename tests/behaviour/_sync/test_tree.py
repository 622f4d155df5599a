"""Generated from tests/behaviour/_async/test_tree.py by tools/unasync.py: edit that file. The tree: branches, roots, splices, and reads that must agree with one another."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from plait import Session, Sessions, Change, Damaged, Message
from tests.behaviour._sync.helpers import chain, facts, ids_of, readable
from tests.behaviour.values import note, picture
from tests.dose import dose


def grown(chat: Session, dice: random.Random, count: int) -> None:
    """A random tree of `count` messages: mostly chains, some branches, a few roots."""
    known: list[str] = []
    for n in range(count):
        roll = dice.random()
        if roll < 0.05 or not known:
            chat.append(note(f"m{n}"), parent=None)
        elif roll < 0.5:
            chat.append(note(f"m{n}"), parent=dice.choice(known))
        else:
            chat.append(note(f"m{n}"))
        known.append(f"m{n}")


def links(chat: Session) -> dict[str, str | None]:
    """Every message's parent, as the message says."""
    return {message.id: message.parent_id for message in chat.everything()}


def held_together(chat: Session) -> None:
    """Hold that children, roots, leaves, paths and totals all follow from the parents."""
    parents = links(chat)
    seqs = {message.id: message.seq for message in chat.everything()}
    assert [readable(message).id for message in chat.roots()] == [
        id for id, parent in parents.items() if parent is None
    ]
    for id in parents:
        children = [child for child, parent in parents.items() if parent == id]
        assert [readable(message).id for message in chat.children(id)] == children, id
    leaves = [id for id in parents if id not in parents.values()]
    assert [readable(message).id for message in chat.leaves()] == leaves
    for leaf in leaves:
        path = climbed(parents, leaf)
        assert ids_of(chat.history(leaf)) == path
        assert ids_of(chat.history(leaf, newest_first=True)) == path[::-1]
        assert [stat.id for stat in chat.path_stats(leaf)] == path
        assert [message.id for message in (chat.recent(leaf=leaf)).messages] == path
    active = chat.leaf()
    assert (active is None) == (not parents)
    if active is not None:
        assert readable(chat.newest()).id == max(seqs, key=lambda id: seqs[id])
        totals = chat.totals()
        assert (totals.messages, totals.path_messages) == (len(parents), len(climbed(parents, active.id)))


def climbed(parents: dict[str, str | None], id: str) -> list[str]:
    path: list[str] = []
    at: str | None = id
    while at is not None:
        path.append(at)
        at = parents[at]
    return path[::-1]


@pytest.mark.parametrize("seed", range(dose(short=3, soak=30)))
def test_children_is_the_inverse_of_parent_after_random_deletes(chat: Session, seed: int) -> None:
    """B-051, B-052: and the tree says the same when it has been spliced, branched and grown again."""
    dice = random.Random(seed)
    grown(chat, dice, 40)
    for round in range(5):
        before = links(chat)
        active = readable(chat.leaf()).id if before else None
        doomed = set(dice.sample(sorted(before), min(len(before), dice.choice([1, 3, 8]))))
        assert set(chat.delete(sorted(doomed))) == doomed
        expected = {id: survivor(before, doomed, id) for id in before if id not in doomed}
        assert links(chat) == expected
        if active is not None and active in doomed:
            stands = survivor(before, doomed, active)
            leaf = chat.leaf()
            newest = chat.newest()
            assert (leaf.id if leaf else None) == (stands or (newest.id if newest else None))
        held_together(chat)
        chat.append(note(f"r{round}"), parent=dice.choice([*expected, None]))
        chat.append(note(f"s{round}"))
        held_together(chat)


def survivor(parents: dict[str, str | None], doomed: set[str], id: str) -> str | None:
    """The nearest ancestor that stays."""
    at = parents[id]
    while at is not None and at in doomed:
        at = parents[at]
    return at


def test_three_levels_of_three_branches_are_reached_both_ways(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    """B-051: by children and by the history of every leaf, in another process' eyes too."""
    for one in "abc":
        chat.append(note(one), parent=None)
        for two in "abc":
            chat.append(note(one + two), parent=one)
            for three in "abc":
                chat.append(note(one + two + three), parent=one + two)
    with reopened() as others:
        other = others.session("chat")
        down: set[str] = set()
        todo = [readable(message).id for message in other.roots()]
        while todo:
            id = todo.pop()
            down.add(id)
            todo += [readable(message).id for message in other.children(id)]
        up = {id for leaf in other.leaves() for id in ids_of(other.history(leaf.id))}
        assert len(other.leaves()) == 27
        assert down == up and len(down) == 39
        held_together(other)


def test_several_roots_are_all_reachable(chat: Session) -> None:
    """B-062: alternative versions of the first message."""
    for root in "abc":
        chat.append(note(root), parent=None)
        chat.append_many([note(root + "1"), note(root + "2")])
    assert [readable(message).id for message in chat.roots()] == ["a", "b", "c"]
    for root in "abc":
        assert ids_of(chat.history(root + "2")) == [root, root + "1", root + "2"]
    chat.delete("b")
    assert [readable(message).id for message in chat.roots()] == ["a", "b1", "c"]
    assert ids_of(chat.history("b2")) == ["b1", "b2"]
    held_together(chat)


@pytest.mark.parametrize(
    "doomed", [["m0"], ["m2"], ["m4"], ["m0", "m1", "m2"], ["m3", "m4"], ["m0", "m2", "m4"]], ids=str
)
def test_deleting_splices_and_the_leaf_stays_on_its_branch(chat: Session, doomed: list[str]) -> None:
    """B-052: the leaf, the root, a middle message, runs of them."""
    chain(chat, 5)
    left = [f"m{n}" for n in range(5) if f"m{n}" not in doomed]
    assert chat.delete(doomed) == doomed
    assert ids_of(chat.history()) == left
    assert readable(chat.leaf()).id == left[-1]
    assert (chat.append(note("next"))).parent_id == left[-1]
    held_together(chat)


def test_deleting_everything_leaves_an_empty_session_that_goes_on(chat: Session) -> None:
    """B-052"""
    last = chain(chat, 5)
    chat.append(note("branch"), parent="m1")
    chat.delete([*last, "branch"])
    assert chat.leaf() is None
    assert ids_of(chat.history()) == []
    assert (chat.totals()).messages == 0
    result = chat.append(note("anew"))
    assert (result.seq, result.parent_id) == (7, None)
    held_together(chat)


def test_deleting_the_leaf_of_a_branch_returns_to_the_fork_not_to_another_branch(chat: Session) -> None:
    """The source jumps to the row of highest seq; here the leaf follows its branch."""
    chat.append_many([note("a"), note("b")])
    chat.append(note("c"), parent="a")
    chat.append(note("d"), parent="a")
    chat.delete("d")
    assert readable(chat.leaf()).id == "a"
    assert readable(chat.newest()).id == "c"


def test_a_seq_is_never_used_again(chat: Session) -> None:
    """Also not that of the newest, nor after all are gone: the source reuses both."""
    chain(chat, 3)
    chat.delete("m2")
    assert (chat.append(note("a"))).seq == 4
    chat.delete(["m0", "m1", "a"])
    assert (chat.append(note("b"))).seq == 5
    chat.clear()
    assert (chat.append(note("c"))).seq == 6


def test_deleting_nothing_changes_and_publishes_nothing(chat: Session, changes: list[Change]) -> None:
    chain(chat, 2)
    before = facts(chat)
    assert chat.delete([]) == []
    assert chat.delete(["absent", "", "m"]) == []
    assert chat.delete("m") == []
    assert facts(chat) == before
    assert chat.delete(["absent", "m1", "m1"]) == ["m1"]
    assert [(change.kind, tuple(change.ids)) for change in changes[2:]] == [("delete", ("m1",))]


def test_deleting_in_a_session_that_is_not_there_makes_none(sessions: Sessions, chat: Session) -> None:
    assert chat.delete(["m"]) == []
    assert not chat.clear()
    assert [info for info in sessions.all()] == []


def test_what_is_done_in_one_session_leaves_another_as_it_is(sessions: Sessions) -> None:
    one, two = sessions.session("one"), sessions.session("two")
    for session in (one, two):
        session.append_many([note("a"), note("b"), note("c")])
    before = [message.to_json() for message in two.history()]
    one.add_overlay("a", "b", summary="of the one")
    one.delete(["c"])
    assert [message.to_json() for message in two.history()] == before and two.overlays() == []
    one.clear()
    assert [message.to_json() for message in two.history()] == before


def test_clear_empties_the_session_and_keeps_what_is_said_of_it(
    sessions: Sessions, chat: Session, changes: list[Change]
) -> None:
    sessions.create("chat", name="name", metadata={"k": 1}, owner="me")
    chat.update_state({"s": 1})
    chat.append_many([note("a"), picture("p", b"payload")])
    assert chat.clear()
    assert not chat.clear()
    assert [message for message in chat.everything()] == []
    assert (
        chat.leaf() is None
        and chat.newest() is None
        and chat.leaves() == []
        and chat.roots() == []
    )
    info = chat.info()
    assert info is not None and (info.name, info.metadata, info.owner, chat.state()) == (
        "name",
        {"k": 1},
        "me",
        {"s": 1},
    )
    assert info.totals.messages == info.totals.bytes == info.totals.tokens == info.totals.path_messages == 0
    assert [change.kind for change in changes][-1] == "clear"
    chat.append(note("a", "anew"))
    assert ids_of(chat.history()) == ["a"]


def test_deleting_one_branch_and_then_the_other_leaves_nothing(chat: Session, file: object) -> None:
    """B-058: the shared prefix stays as long as it is used; rows, slices and payloads go with their messages."""
    import apsw

    chat.append_many([note("root"), picture("shared", b"shared")])
    chat.append_many([picture("one", b"shared"), note("big one", "x" * 4_000_000)], parent="shared")
    chat.append_many([picture("two", b"only two"), note("big two", "y" * 4_000_000)], parent="shared")
    chat.delete(["two", "big two"])
    assert ids_of(chat.history("big one")) == ["root", "shared", "one", "big one"]
    chat.delete(["one", "big one"])
    assert ids_of(chat.history()) == ["root", "shared"]
    chat.delete(["root", "shared"])
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    for table in ("message", "message_id", "slice", "attachment", "chunk", "attachment_ref"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], table
    connection.close()


def test_deleting_a_session_leaves_nothing_of_it(
    sessions: Sessions, chat: Session, file: object
) -> None:
    """B-058, B-086"""
    import apsw

    chat.append_many([picture("p", b"payload"), note("big", "x" * 4_000_000), note("m")])
    chat.append(note("branch"), parent="p")
    sessions.merge_metadata("chat", {"k": 1})
    sessions.delete("chat")
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


def test_a_branch_at_every_second_message_reads_right(chat: Session) -> None:
    """B-060: as many strands as messages, on one path."""
    count = dose(short=600, soak=20_000)
    for n in range(count):
        chat.append(note(f"m{n}"))
        if n % 2:
            chat.append(note(f"x{n}"))
            chat.checkout(f"m{n}")
    assert ids_of(chat.history()) == [f"m{n}" for n in range(count)]
    assert ids_of(chat.history(newest_first=True)) == [f"m{n}" for n in reversed(range(count))]
    assert [message.id for message in (chat.recent(count=7)).messages] == [
        f"m{n}" for n in range(count - 7, count)
    ]
    assert len(chat.leaves()) == count // 2 + 0
    fork = chat.fork()
    assert ids_of(fork.history()) == [f"m{n}" for n in range(count)]


def test_a_long_chain_needs_no_recursion(sessions: Sessions, chat: Session) -> None:
    """B-060: append, read both ways, fork, delete, with the usual limit of Python."""
    import sys

    count = dose(short=5_000, soak=200_000)
    limit = sys.getrecursionlimit()
    chain(chat, count)
    expected = [f"m{n}" for n in range(count)]
    assert ids_of(chat.history()) == expected
    assert ids_of(chat.transcript(newest_first=True)) == expected[::-1]
    assert [len(batch) for batch in chat.batches(count=1000)] == [1000] * (count // 1000)
    fork = chat.fork("fork")
    assert ids_of(fork.everything()) == expected
    assert len(chat.delete(expected[1:-1])) == count - 2
    assert ids_of(chat.history()) == ["m0", f"m{count - 1}"]
    assert readable(fork.get("m7")).parent_id == "m6"
    assert sessions.delete("fork")
    assert sys.getrecursionlimit() == limit


def test_100_000_ids_in_one_delete(chat: Session) -> None:
    """B-089: no statement with a placeholder for each id; unknown ids in between are harmless."""
    count = dose(short=3_000, soak=100_000)
    chain(chat, count)
    asked = [f"m{n}" for n in range(1, count)] + [f"absent{n}" for n in range(100_000)]
    assert len(chat.delete(asked)) == count - 1
    assert ids_of(chat.history()) == ["m0"]


def test_reads_of_an_absent_session_find_nothing(sessions: Sessions, chat: Session) -> None:
    assert [message for message in chat.history()] == []
    assert [message for message in chat.transcript("m")] == []
    assert [batch for batch in chat.batches()] == []
    assert [message for message in chat.everything()] == []
    assert [stat for stat in chat.path_stats()] == []
    window = chat.recent(budget_bytes=100)
    assert (window.messages, window.truncated, window.total_messages, window.total_bytes) == ([], False, 0, 0)
    found: list[Message | Damaged | None] = [chat.get("m"), chat.leaf(), chat.newest()]
    assert found == [None, None, None]
    assert [chat.leaves(), chat.roots(), chat.children("m")] == [[], [], []]
    assert (chat.totals()).messages == 0
    assert chat.info() is None and chat.state() == {}
    assert [info for info in sessions.all()] == []


def test_reads_of_an_absent_leaf_find_nothing(chat: Session) -> None:
    chain(chat, 3)
    for leaf in ("absent", "", None):
        assert ids_of(chat.history(leaf)) == []
        assert [stat for stat in chat.path_stats(leaf)] == []
        window = chat.recent(leaf=leaf)
        assert (window.messages, window.truncated, window.total_bytes) == ([], False, 0)
