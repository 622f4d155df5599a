"""Sessions of many branches: what a read costs depends on what it is about, not on how many strands there are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.store.plan import Ask
from plait.store.plans.append import NEAR_SEQS
from plait.store.sqlite.executor import Executor
from tests.dose import dose

STRANDS = dose(short=300, soak=4000)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[plait.Session]:
    """A path through `STRANDS` strands of one message each, beside every one of which hangs a leaf."""
    path: Path = tmp_path_factory.mktemp("strands") / "a.db"
    with plait.open(path, durability="relaxed") as sessions:
        chat = sessions.session("c")
        chat.append(plait.user("root", id="a0"))
        chat.append(plait.user("b", id="b0"))
        for n in range(1, STRANDS):
            chat.append(plait.user("a", id=f"a{n}"), parent=f"a{n - 1}")
            chat.append(plait.user("b", id=f"b{n}"))
        yield chat


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the queries that readers ask from now on."""
    names: list[str] = []
    original = Executor.answers[Ask]

    def ask(self: Any, step: Any) -> Any:
        names.append(step.query)
        return original(self, step)

    monkeypatch.setitem(Executor.answers, Ask, ask)
    return names


def ids(messages: Any) -> list[str]:
    return [message.id for message in messages]


def test_children_and_roots_look_only_at_the_strands_that_hang_there(chat: plait.Session, asked: list[str]) -> None:
    middle = STRANDS // 2
    assert ids(chat.children(f"a{middle}")) == [f"b{middle}", f"a{middle + 1}"]
    assert ids(chat.children(f"b{middle}")) == []
    assert ids(chat.roots()) == ["a0"]
    assert 0 < len(asked) < 15, asked


def test_leaves_and_all_branches_ask_a_few_times_for_each_strand(chat: plait.Session, asked: list[str]) -> None:
    assert ids(chat.leaves()) == [f"b{n}" for n in range(STRANDS)]
    assert len(asked) <= 3 * STRANDS + 10
    del asked[:]
    assert len(list(chat.everything())) == 2 * STRANDS
    assert len(asked) <= 4 * STRANDS + 10


def test_a_window_of_a_path_through_many_strands_asks_for_its_own_ranges(chat: plait.Session, asked: list[str]) -> None:
    path = [f"a{n}" for n in range(STRANDS)] + [f"b{STRANDS - 1}"]
    assert ids(chat.history()) == path
    assert ids(chat.history(newest_first=True)) == path[::-1]
    # Each range once in either direction, a look for its parent for each window, and the strands of the path.
    assert len(asked) <= 2 * (STRANDS + 2 * (STRANDS // 50 + 2) + STRANDS // 256 + 5)


def test_a_feed_near_its_end_is_read_without_asking_all_strands(chat: plait.Session, asked: list[str]) -> None:
    """Also when what is new lies beside the active path."""
    changes: list[plait.Change] = []
    page = plait.Changes([], "", True)
    while page.more:
        page = chat.changes(after=page.cursor or None)
        changes += page.changes
    assert [change.version for change in changes] == list(range(1, 2 * STRANDS + 1))
    for back in (1, 2, 3, 20):
        del asked[:]
        found = chat.changes(after=changes[-back].cursor).changes
        assert [change.ids for change in found] == [change.ids for change in changes[len(changes) - back + 1 :]]
        assert "appends_by_seq" not in asked
        assert len(asked) <= 8 + 2 * back, asked


def test_a_fork_copies_many_strands_in_one_transaction(chat: plait.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    store, writes = chat._store, []
    original = store.driver.write

    def write(*args: Any) -> Any:
        writes.append(1)
        return original(*args)

    monkeypatch.setattr(store.driver, "write", write)
    copy = chat.fork()
    assert ids(copy.history()) == [f"a{n}" for n in range(STRANDS)] + [f"b{STRANDS - 1}"]
    assert len(writes) <= 6 + STRANDS // 1000 + 1


def test_what_a_path_far_away_holds_is_counted_once_and_then_followed(tmp_path: Path, asked: list[str]) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        chat = sessions.session("c")
        chat.append_many(plait.user("x" * (n % 7), id=f"m{n}") for n in range(3 * NEAR_SEQS))
        chat.checkout(f"m{NEAR_SEQS}")

        def counts() -> int:
            """How often rows are counted for one look, whose totals must be right."""
            del asked[:]
            window = chat.recent(count=2)
            found = asked.count("range_totals")
            stats = list(chat.path_stats())
            sums = len(stats), sum(stat.bytes for stat in stats), sum(stat.tokens for stat in stats)
            assert (window.total_messages, window.total_bytes, window.total_tokens) == sums
            totals = chat.totals()
            assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == sums
            return found

        assert [counts(), counts()] == [1, 0]
        chat.append(plait.user("a branch", id="b0"))
        counts()
        chat.append(plait.user("goes on", id="b1"))
        assert [counts(), counts()] == [1, 0]
        chat.delete("m3")
        assert counts() == 2
        chat.update(plait.user("longer than before", id="m4"))
        assert counts() == 2
        with plait.open(tmp_path / "a.db") as others:
            others.session("c").append(plait.user("by another process", id="b2"))
        assert counts() == 1
        chat.checkout("m1")
        assert counts() <= 1


def test_branches_below_strands_that_deletes_have_emptied_are_found_in_time_for_their_number(
    tmp_path: Path, asked: list[str]
) -> None:
    """A row of strands of which nothing is left, and as many branches at its end: each climbs it only once."""
    many = STRANDS // 2
    with plait.open(tmp_path / "a.db", durability="relaxed") as sessions:
        chat, above = sessions.session("c"), "root"
        chat.append_many([plait.user("root", id="root"), plait.user("leaf", id="leaf")])
        for n in range(many):
            chat.append(plait.user("a", id=f"a{n}"), parent=above)
            chat.append(plait.user("b", id=f"b{n}"))
            above = f"a{n}"
        for n in range(many):
            chat.append(plait.user("s", id=f"s{n}"), parent=above)
        chat.delete([f"{name}{n}" for n in range(many) for name in "ab"])
        for reads in (chat.leaves, lambda: list(chat.everything())):
            del asked[:]
            found = reads()
            assert {m.parent_id for m in found if m.id.startswith("s")} == {"root"}
            assert len(found) >= many and len(asked) <= 9 * many
