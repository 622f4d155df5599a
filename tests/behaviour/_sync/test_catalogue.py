"""Generated from tests/behaviour/_async/test_catalogue.py by tools/unasync.py: edit that file. The catalogue: sessions made, named, listed, described, deleted and retired."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from plait import (
    Session,
    Sessions,
    Change,
    ConflictError,
    LeafMovedError,
    NotFoundError,
    RetentionPlan,
    SessionInfo,
    UsageError,
)
from tests.behaviour._sync.helpers import chain, ids_of, readable
from tests.behaviour.values import note, picture
from tests.dose import dose


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = time.time_ns()

    def move(self, **span: float) -> None:
        self.now += int(dt.timedelta(**span).total_seconds() * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    hands = Clock()
    monkeypatch.setattr(time, "time_ns", lambda: hands.now)
    monkeypatch.setattr(time, "time", lambda: hands.now / 1e9)
    return hands


def listed(sessions: Sessions, limit: int = 100) -> list[str]:
    """All session ids, page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = sessions.list(limit=limit, cursor=cursor)
        assert len(page.sessions) <= limit
        found += [info.id for info in page.sessions]
        cursor = page.cursor
        if cursor is None:
            return found


def test_a_session_is_made_by_its_first_write_or_by_name(sessions: Sessions) -> None:
    assert sessions.get("chat") is None
    sessions.session("chat").append(note("m"))
    made = sessions.create("named", name="Name", owner="me", metadata={"k": [1]}, pinned=True)
    assert (made.id, made.name, made.owner, made.metadata, made.pinned, made.parent_id) == (
        "named",
        "Name",
        "me",
        {"k": [1]},
        True,
        None,
    )
    assert made.created_at.tzinfo is not None and made.totals.messages == 0
    assert sessions.get("named") == made
    assert sessions.session("named").info() == made
    without = sessions.create()
    assert listed(sessions) == [without.id, "named", "chat"]


def test_create_refuses_what_exists(sessions: Sessions) -> None:
    sessions.session("chat").append(note("m"))
    for _ in range(2):
        with pytest.raises(ConflictError, match="exists already"):
            sessions.create("chat")
    assert ids_of(sessions.session("chat").history()) == ["m"]


def test_get_or_create_writes_no_messages_and_sets_a_missing_owner_once(sessions: Sessions) -> None:
    made = sessions.get_or_create("chat", name="Name", metadata={"k": 1})
    assert (made.owner, made.totals.messages) == (None, 0)
    owned = sessions.get_or_create("chat", owner="me", name="Other", metadata={"x": 1})
    assert (owned.owner, owned.name, owned.metadata) == ("me", "Name", {"k": 1})
    assert sessions.get_or_create("chat", owner="me") == owned
    assert sessions.get_or_create("chat") == owned
    with pytest.raises(ConflictError, match="owner"):
        sessions.get_or_create("chat", owner="you")
    assert sessions.get("chat") == owned


def test_asking_for_what_is_there_publishes_nothing(sessions: Sessions, changes: list[Change]) -> None:
    sessions.create("chat", name="Name", owner="me", metadata={"k": 1}, pinned=True)
    before = sessions.get("chat")
    sessions.get_or_create("chat", owner="me")
    sessions.rename("chat", "Name")
    sessions.merge_metadata("chat", {"k": 1})
    sessions.merge_metadata("chat", {})
    sessions.pin("chat")
    sessions.session("chat").update_state({})
    assert sessions.get("chat") == before
    assert [change.kind for change in changes] == ["session"]


def test_a_patch_that_changes_the_state_is_published_once(sessions: Sessions, changes: list[Change]) -> None:
    chat = sessions.session("chat")
    for step in (1, 1, True, 1.0, 1.0, None, None):  # 1, 1.0 and true differ in JSON
        chat.update_state({"step": step})
    assert [(change.kind, change.session_id) for change in changes] == [("session", "chat")] * 4


@pytest.mark.parametrize("call", ["rename", "merge_metadata", "pin"])
def test_changing_an_absent_session_is_refused_and_makes_none(sessions: Sessions, call: str) -> None:
    argument: Any = {"rename": "x", "merge_metadata": {"k": 1}, "pin": True}[call]
    with pytest.raises(NotFoundError, match="absent"):
        getattr(sessions, call)("absent", argument)
    assert listed(sessions) == []


def test_metadata_and_state_merge_per_key(
    sessions: Sessions, chat: Session, reopened: Callable[[], Sessions]
) -> None:
    """B-025: two writers of different keys keep both; a None removes its key; nested values are replaced whole."""
    with reopened() as others:
        sessions.create("chat", metadata={"a": 1, "nested": {"x": 1, "y": 2}})
        others.merge_metadata("chat", {"b": 2})
        sessions.merge_metadata("chat", {"c": 3, "nested": {"x": 9}})
        info = others.merge_metadata("chat", {"a": None, "absent": None})
        assert info.metadata == {"nested": {"x": 9}, "b": 2, "c": 3}
        chat.update_state({"a": 1, "b": [1]})
        others.session("chat").update_state({"c": {"d": None}})
        assert chat.update_state({"a": None, "b": [2]}) == {"b": [2], "c": {"d": None}}
        assert others.session("chat").state() == {"b": [2], "c": {"d": None}}
        assert (sessions.merge_metadata("chat", {})).metadata == info.metadata


def test_state_creates_the_session_and_metadata_does_not_mix_with_it(
    sessions: Sessions, chat: Session
) -> None:
    assert chat.state() == {}
    assert chat.update_state({"k": 1}) == {"k": 1}
    info = sessions.get("chat")
    assert info is not None and info.metadata == {} and info.totals.messages == 0


def test_a_listing_has_the_last_active_first_every_time(sessions: Sessions, clock: Clock) -> None:
    """B-022: five sessions, the second one touched, listed ten times."""
    for n in range(5):
        sessions.session(f"s{n}").append(note("m"))
        clock.move(seconds=40)
    sessions.session("s1").append(note("n"))
    for _ in range(10):
        assert listed(sessions) == ["s1", "s4", "s3", "s2", "s0"]


def test_sessions_of_one_instant_have_a_fixed_order_and_are_listed_once(
    sessions: Sessions, clock: Clock
) -> None:
    """B-022, B-023"""
    made = [f"s{n}" for n in range(50)]
    for id in made:
        sessions.create(id)
    whole = listed(sessions)
    assert sorted(whole) == sorted(made)
    for limit in (1, 7, 49, 50, 51):
        assert listed(sessions, limit) == whole


@pytest.mark.parametrize("limit", [1, 7, 30])
def test_an_untouched_session_is_listed_exactly_once_while_others_are_touched_and_deleted(
    sessions: Sessions, clock: Clock, limit: int
) -> None:
    """B-023"""
    for n in range(60):
        sessions.session(f"s{n}").append(note("m"))
        clock.move(seconds=7)
    found: list[str] = []
    cursor: str | None = None
    touched: set[str] = set()
    for step in range(1000):
        page = sessions.list(limit=limit, cursor=cursor)
        found += [info.id for info in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break
        for n in (step, 59 - step):
            if n % 3 == 0 and 0 <= n < 60:
                touched.add(f"s{n}")
                sessions.session(f"s{n}").append(note(f"again{step}"))
            elif n % 3 == 1 and 0 <= n < 60:
                touched.add(f"s{n}")
                sessions.delete(f"s{n}")
        clock.move(seconds=1)
    assert cursor is None
    untouched = {f"s{n}" for n in range(60)} - touched
    assert sorted(id for id in found if id in untouched) == sorted(untouched)


def test_a_listing_does_not_depend_on_content(sessions: Sessions) -> None:
    """B-084: no body, slice or payload is read for it."""
    sessions.session("huge").append_many([note("big", "x" * 5_000_000), picture("p", bytes(3_000_000))])
    sessions.session("small").append(note("m"))
    huge = (sessions.list()).sessions[-1]
    assert (huge.id, huge.totals.messages) == ("huge", 2)
    assert huge.totals.bytes > 9_000_000


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**9])
def test_a_limit_out_of_range_is_refused(sessions: Sessions, limit: int) -> None:
    with pytest.raises(UsageError, match="limit"):
        sessions.list(limit=limit)


@pytest.mark.parametrize("cursor", ["", "x", "0", "🧵", "AAAA", "MS4yLjM", "a" * 10_000, "../../etc"], ids=ascii)
def test_a_made_up_cursor_is_refused(sessions: Sessions, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        sessions.list(cursor=cursor[:200] if len(cursor) < 10_000 else cursor)


def test_a_cursor_of_another_scope_is_refused(sessions: Sessions) -> None:
    """B-023, B-103"""
    scopes = [("", ""), ("a", ""), ("", "a"), ("a", "b"), ("ab", "")]
    for scope in scopes:
        for n in range(3):
            sessions.scoped(*scope).create(f"s{n}")
    for one in scopes:
        cursor = (sessions.scoped(*one).list(limit=1)).cursor
        assert cursor is not None
        for other in scopes:
            if other == one:
                assert len((sessions.scoped(*other).list(cursor=cursor)).sessions) == 2
            else:
                with pytest.raises(UsageError, match="another scope"):
                    sessions.scoped(*other).list(cursor=cursor)


def test_a_deleted_session_is_gone_at_once_and_its_id_starts_anew(
    sessions: Sessions, changes: list[Change]
) -> None:
    old = sessions.session("chat")
    chain(old, 5)
    sessions.merge_metadata("chat", {"k": 1})
    old.update_state({"k": 1})
    last = readable(old.newest()).seq
    assert sessions.delete("chat")
    assert not sessions.delete("chat")
    assert sessions.get("chat") is None
    assert listed(sessions) == []
    new = sessions.session("chat")
    assert ids_of(new.history()) == [] and new.state() == {}
    assert (new.append(note("m0"))).seq == last + 1
    info = new.info()
    assert info is not None and (info.metadata, info.totals.messages) == ({}, 1)
    assert [change.kind for change in changes].count("delete session") == 1


def test_state_and_deletion_can_expect_that_nothing_has_changed(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    with pytest.raises(LeafMovedError):
        chat.update_state({"k": 1}, expect_version=0)
    chat.append(note("m0"))
    info = chat.info()
    assert info is not None
    assert chat.update_state({"k": 1}, expect_version=info.version) == {"k": 1}
    with pytest.raises(LeafMovedError):
        chat.update_state({"k": 2}, expect_version=info.version)
    assert not sessions.delete("chat", expect_version=info.version)
    assert chat.state() == {"k": 1} and ids_of(chat.history()) == ["m0"]
    assert sessions.delete("chat", expect_version=info.version + 1)


def test_times_are_aware_utc_instants(sessions: Sessions, chat: Session) -> None:
    """B-020"""
    before = dt.datetime.now(dt.timezone.utc)
    result = chat.append(note("m"))
    after = dt.datetime.now(dt.timezone.utc)
    info = chat.info()
    assert info is not None
    for instant in (
        result.message.created_at,
        readable(chat.get("m")).created_at,
        info.created_at,
        info.active_at,
    ):
        assert instant.utcoffset() == dt.timedelta(0)
        assert before - dt.timedelta(milliseconds=1) <= instant <= after


# -- retention -----------------------------------------------------------------


def aged(sessions: Sessions, clock: Clock) -> None:
    """Sessions whose last activity is 40, 30, 20, 10 and 0 days ago."""
    for days in (40, 30, 20, 10, 0):
        sessions.session(f"d{days}").append(note("m"))
        clock.move(days=10)
    clock.move(days=-10)


def removed(plan: RetentionPlan) -> list[str]:
    return sorted(id for id, _ in plan.sessions)


def test_age_removes_exactly_what_was_not_active_and_a_dry_run_says_so(
    sessions: Sessions, clock: Clock
) -> None:
    """B-120: the dry run equals the real run, and a second run finds nothing."""
    aged(sessions, clock)
    for days, expected in ((45, []), (25, ["d30", "d40"]), (15, ["d20"])):
        dry = sessions.retain(max_age=dt.timedelta(days=days), dry_run=True)
        assert removed(dry) == expected and dry.dry_run
        assert set(expected) <= set(listed(sessions))
        done = sessions.retain(max_age=dt.timedelta(days=days))
        assert (removed(done), done.dry_run) == (expected, False)
        assert removed(sessions.retain(max_age=dt.timedelta(days=days))) == []
    assert listed(sessions) == ["d0", "d10"]


def test_count_keeps_the_last_active(sessions: Sessions, clock: Clock) -> None:
    """B-120: 0 keeps none."""
    aged(sessions, clock)
    assert removed(sessions.retain(max_count=9)) == []
    assert removed(sessions.retain(max_count=3)) == ["d30", "d40"]
    both = sessions.retain(max_count=2, max_age=dt.timedelta(days=5))
    assert sorted(both.sessions) == [("d10", "age"), ("d20", "count")]
    assert removed(sessions.retain(max_count=0)) == ["d0"]
    assert listed(sessions) == []


def test_pinned_sessions_stay_and_do_not_count(sessions: Sessions, clock: Clock) -> None:
    """B-120"""
    aged(sessions, clock)
    sessions.pin("d40")
    sessions.pin("d0")
    assert removed(sessions.retain(max_count=2)) == ["d30"]
    assert removed(sessions.retain(max_age=dt.timedelta(days=1))) == ["d10", "d20"]
    sessions.pin("d40", False)
    assert removed(sessions.retain(max_age=dt.timedelta(days=1))) == ["d40"]


def test_reading_and_upkeep_do_not_prolong_a_life_but_a_branch_does(
    sessions: Sessions, clock: Clock
) -> None:
    """B-120: old but just read; old with a fresh branch; bookkeeping is no activity."""
    aged(sessions, clock)
    ids_of(sessions.session("d40").history())
    sessions.get("d40")
    sessions.session("d40").recent(count=1)
    sessions.doctor(fix=True)
    sessions.vacuum()
    sessions.session("d30").append(note("branch"), parent=None)
    assert removed(sessions.retain(max_age=dt.timedelta(days=15))) == ["d20", "d40"]


def test_a_clock_that_went_back_removes_nothing_early(sessions: Sessions, clock: Clock) -> None:
    """B-120"""
    sessions.session("new").append(note("m"))
    clock.move(hours=-1)
    sessions.session("older clock").append(note("m"))
    assert removed(sessions.retain(max_age=dt.timedelta(minutes=30))) == []
    sessions.session("new").append(note("n"))
    clock.move(minutes=40)
    assert removed(sessions.retain(max_age=dt.timedelta(minutes=30))) == ["new", "older clock"]


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"max_age": dt.timedelta(0)},
        {"max_age": dt.timedelta(seconds=-1)},
        {"max_count": -1},
        {"max_age": None, "max_count": None},
    ],
    ids=str,
)
def test_a_rule_that_says_nothing_or_nonsense_removes_nothing(
    sessions: Sessions, clock: Clock, rule: dict[str, Any]
) -> None:
    """B-120"""
    aged(sessions, clock)
    with pytest.raises(UsageError):
        sessions.retain(**rule)
    assert len(listed(sessions)) == 5


@pytest.mark.parametrize("rescue", ["append", "pin"])
def test_a_session_that_becomes_active_while_retention_runs_is_kept(
    sessions: Sessions,
    clock: Clock,
    reopened: Callable[[], Sessions],
    monkeypatch: pytest.MonkeyPatch,
    rescue: str,
) -> None:
    """B-120: even between the last look at it and its deletion."""
    aged(sessions, clock)
    original = sessions.store.delete_session

    def late(session: Any, **options: Any) -> bool:
        if session.id == "d30":
            with reopened() as others:
                if rescue == "append":
                    others.session("d30").append(note("just in time"))
                else:
                    others.pin("d30")
        return original(session, **options)

    monkeypatch.setattr(sessions.store, "delete_session", late)
    assert removed(sessions.retain(max_age=dt.timedelta(days=15))) == ["d20", "d40"]
    assert sorted(listed(sessions)) == ["d0", "d10", "d30"]


def test_retention_of_one_scope_leaves_the_others(sessions: Sessions, clock: Clock) -> None:
    for scope in ("", "a", "b"):
        sessions.scoped(scope).session("s").append(note("m"))
    clock.move(days=10)
    sessions.scoped("a").retain(max_age=dt.timedelta(days=1))
    assert [len(listed(sessions.scoped(scope))) for scope in ("", "a", "b")] == [1, 0, 1]


def test_nothing_is_removed_or_limited_by_default(sessions: Sessions, clock: Clock) -> None:
    count = dose(short=300, soak=5000)
    for n in range(count):
        sessions.create(f"s{n}")
        clock.move(days=100)
    assert len(listed(sessions)) == count


def test_all_goes_through_every_page(sessions: Sessions) -> None:
    for n in range(250):
        sessions.create(f"s{n}")
    infos: list[SessionInfo] = [info for info in sessions.all()]
    assert [info.id for info in infos] == listed(sessions)
    assert len({info.id for info in infos}) == 250
