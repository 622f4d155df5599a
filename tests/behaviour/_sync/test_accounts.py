"""Generated from tests/behaviour/_async/test_accounts.py by tools/unasync.py: edit that file. What a session used, whether it has ended, and going on from it in a new one."""

from __future__ import annotations

from typing import Any, cast

import pytest

import plait
from plait import Sessions
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef


def test_usage_adds_up(sessions: Sessions) -> None:
    sessions.create("s", metadata={"own": 1})
    sessions.add_usage("s", input_tokens=10, output_tokens=2, cost=0.5)
    info = sessions.add_usage("s", input_tokens=5, cost=0.25)
    assert info.usage == plait.Usage(15, 2, 0.75)
    found = sessions.get("s")
    assert found is not None and found.usage == info.usage and found.metadata["own"] == 1


def test_adding_nothing_changes_nothing(sessions: Sessions) -> None:
    before = sessions.create("s")
    assert sessions.add_usage("s") == before


def test_usage_of_an_absent_session_is_refused(sessions: Sessions) -> None:
    with pytest.raises(plait.NotFoundError):
        sessions.add_usage("nobody", input_tokens=1)
    assert sessions.get("nobody") is None


@pytest.mark.parametrize("noted", [3, "x", [], {"input_tokens": "many", "cost": None}, {"other": 1}])
def test_what_others_wrote_in_its_place_counts_as_nothing(sessions: Sessions, noted: Any) -> None:
    noted_there = {"plait:usage": noted, "plait:ended": noted}
    sessions.store.put_session(
        SessionRef(Scope("", ""), "s"), created_at_us=1, create="new", metadata=noted_there
    )
    found = sessions.get("s")
    assert found is not None and (found.usage, found.status, found.end_reason) == (plait.Usage(), "active", None)
    assert (sessions.add_usage("s", output_tokens=7)).usage == plait.Usage(output_tokens=7)


@pytest.mark.parametrize("key", ["plait:usage", "plait:ended", "plait:", "plait:of a later version"])
def test_what_plait_notes_is_not_written_as_metadata(sessions: Sessions, key: str) -> None:
    sessions.create("s", metadata={"plait": 1, "own": {key: 1}})
    before = sessions.add_usage("s", input_tokens=3)
    for patch in ({key: {"input_tokens": 9}}, {"own": 2, key: None}):
        with pytest.raises(plait.UsageError, match="begin with 'plait:'"):
            sessions.merge_metadata("s", patch)
        with pytest.raises(plait.UsageError, match="begin with 'plait:'"):
            sessions.create("t", metadata=patch)
        with pytest.raises(plait.UsageError, match="begin with 'plait:'"):
            sessions.get_or_create("t", metadata=patch)
    assert sessions.get("s") == before
    assert sessions.get("t") is None


def test_a_session_ends_with_a_reason_and_is_reopened(sessions: Sessions) -> None:
    sessions.create("s")
    assert ((sessions.end("s")).status, (sessions.end("s", "limit")).end_reason) == ("ended", "limit")
    sessions.session("s").append(plait.user("still heard"))
    reopened = sessions.reopen("s")
    assert (reopened.status, reopened.end_reason, reopened.metadata) == ("active", None, {})
    with pytest.raises(plait.NotFoundError):
        sessions.end("nobody")


def test_going_on_in_a_new_session_takes_along_what_stands_beside_the_messages(sessions: Sessions) -> None:
    old = sessions.session("old")
    old.append(plait.user("hello", id="a"))
    sessions.rename("old", "A trip")
    sessions.merge_metadata("old", {"model": "m-1"})
    sessions.add_usage("old", input_tokens=9)
    store = cast("Contextual", sessions.store)
    for n, text in enumerate(["first", "likes tea"]):
        ref = SessionRef(Scope(*sessions.scope), "old")
        store.write_value(ref, "memory", "", text, operation=str(n), created_at_us=1)
    new = sessions.compact_and_split("old", "They said hello.")
    info = new.info()
    assert info is not None and (info.name, info.parent_id, info.metadata) == ("A trip", "old", {"model": "m-1"})
    (message,) = [message for message in new.history()]
    assert (message.role, message.text.split("\n")[1:]) == ("assistant", ["", "They said hello."])
    assert [(value.content, value.version) for value in new.value_versions()] == [("likes tea", 2)]
    ended = sessions.get("old")
    assert ended is not None and ended.end_reason == "compaction" and ended.usage.input_tokens == 9
    assert [message.id for message in old.history()] == ["a"]
    again = sessions.compact_and_split("old", "Once more.", name="Other")
    assert [info.name for info in sessions.all() if info.id == again.id] == ["Other"]


def test_a_session_that_cannot_go_on_is_left_as_it_is(sessions: Sessions) -> None:
    sessions.create("old")
    sessions.create("taken")
    with pytest.raises(plait.ConflictError):
        sessions.compact_and_split("old", "x", new_session_id="taken")
    with pytest.raises(plait.NotFoundError):
        sessions.compact_and_split("nobody", "x")
    found = sessions.get("old")
    assert found is not None and found.status == "active"
    assert sorted([info.id for info in sessions.all()]) == ["old", "taken"]


def test_what_values_said_earlier_is_kept_until_it_is_pruned(sessions: Sessions) -> None:
    store = cast("Contextual", sessions.store)
    for n in range(4):
        ref = SessionRef(Scope(*sessions.scope), "s")
        store.write_value(ref, "memory", "", f"v{n}", operation=str(n), created_at_us=1)
    with pytest.raises(plait.UsageError):
        sessions.prune_values()
    assert sessions.prune_values(max_count=1) == 2
    assert [value.content for value in sessions.session("s").value_versions()] == ["v2", "v3"]
