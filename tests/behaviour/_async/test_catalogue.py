"""The catalogue: sessions made, named, listed, described, deleted and retired."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest

from plait import (
    AsyncSession,
    AsyncSessions,
    Change,
    ConflictError,
    LeafMovedError,
    NotFoundError,
    RetentionPlan,
    SessionInfo,
    UsageError,
)
from tests.behaviour._async.helpers import chain, ids_of, readable
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


async def listed(sessions: AsyncSessions, limit: int = 100) -> list[str]:
    """All session ids, page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await sessions.list(limit=limit, cursor=cursor)
        assert len(page.sessions) <= limit
        found += [info.id for info in page.sessions]
        cursor = page.cursor
        if cursor is None:
            return found


async def test_a_session_is_made_by_its_first_write_or_by_name(sessions: AsyncSessions) -> None:
    assert await sessions.get("chat") is None
    await sessions.session("chat").append(note("m"))
    made = await sessions.create("named", name="Name", owner="me", metadata={"k": [1]}, pinned=True)
    assert (made.id, made.name, made.owner, made.metadata, made.pinned, made.parent_id) == (
        "named",
        "Name",
        "me",
        {"k": [1]},
        True,
        None,
    )
    assert made.created_at.tzinfo is not None and made.totals.messages == 0
    assert await sessions.get("named") == made
    assert await sessions.session("named").info() == made
    without = await sessions.create()
    assert await listed(sessions) == [without.id, "named", "chat"]


async def test_create_refuses_what_exists(sessions: AsyncSessions) -> None:
    await sessions.session("chat").append(note("m"))
    for _ in range(2):
        with pytest.raises(ConflictError, match="exists already"):
            await sessions.create("chat")
    assert await ids_of(sessions.session("chat").history()) == ["m"]


async def test_get_or_create_writes_no_messages_and_sets_a_missing_owner_once(sessions: AsyncSessions) -> None:
    made = await sessions.get_or_create("chat", name="Name", metadata={"k": 1})
    assert (made.owner, made.totals.messages) == (None, 0)
    owned = await sessions.get_or_create("chat", owner="me", name="Other", metadata={"x": 1})
    assert (owned.owner, owned.name, owned.metadata) == ("me", "Name", {"k": 1})
    assert await sessions.get_or_create("chat", owner="me") == owned
    assert await sessions.get_or_create("chat") == owned
    with pytest.raises(ConflictError, match="owner"):
        await sessions.get_or_create("chat", owner="you")
    assert await sessions.get("chat") == owned


async def test_asking_for_what_is_there_publishes_nothing(sessions: AsyncSessions, changes: list[Change]) -> None:
    await sessions.create("chat", name="Name", owner="me", metadata={"k": 1}, pinned=True)
    before = await sessions.get("chat")
    await sessions.get_or_create("chat", owner="me")
    await sessions.rename("chat", "Name")
    await sessions.merge_metadata("chat", {"k": 1})
    await sessions.merge_metadata("chat", {})
    await sessions.pin("chat")
    await sessions.session("chat").update_state({})
    assert await sessions.get("chat") == before
    assert [change.kind for change in changes] == ["session"]


async def test_a_patch_that_changes_the_state_is_published_once(sessions: AsyncSessions, changes: list[Change]) -> None:
    chat = sessions.session("chat")
    for step in (1, 1, True, 1.0, 1.0, None, None):  # 1, 1.0 and true differ in JSON
        await chat.update_state({"step": step})
    assert [(change.kind, change.session_id) for change in changes] == [("session", "chat")] * 4


@pytest.mark.parametrize("call", ["rename", "merge_metadata", "pin"])
async def test_changing_an_absent_session_is_refused_and_makes_none(sessions: AsyncSessions, call: str) -> None:
    argument: Any = {"rename": "x", "merge_metadata": {"k": 1}, "pin": True}[call]
    with pytest.raises(NotFoundError, match="absent"):
        await getattr(sessions, call)("absent", argument)
    assert await listed(sessions) == []


async def test_metadata_and_state_merge_per_key(
    sessions: AsyncSessions, chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    """B-025: two writers of different keys keep both; a None removes its key; nested values are replaced whole."""
    async with reopened() as others:
        await sessions.create("chat", metadata={"a": 1, "nested": {"x": 1, "y": 2}})
        await others.merge_metadata("chat", {"b": 2})
        await sessions.merge_metadata("chat", {"c": 3, "nested": {"x": 9}})
        info = await others.merge_metadata("chat", {"a": None, "absent": None})
        assert info.metadata == {"nested": {"x": 9}, "b": 2, "c": 3}
        await chat.update_state({"a": 1, "b": [1]})
        await others.session("chat").update_state({"c": {"d": None}})
        assert await chat.update_state({"a": None, "b": [2]}) == {"b": [2], "c": {"d": None}}
        assert await others.session("chat").state() == {"b": [2], "c": {"d": None}}
        assert (await sessions.merge_metadata("chat", {})).metadata == info.metadata


async def test_state_creates_the_session_and_metadata_does_not_mix_with_it(
    sessions: AsyncSessions, chat: AsyncSession
) -> None:
    assert await chat.state() == {}
    assert await chat.update_state({"k": 1}) == {"k": 1}
    info = await sessions.get("chat")
    assert info is not None and info.metadata == {} and info.totals.messages == 0


async def test_a_listing_has_the_last_active_first_every_time(sessions: AsyncSessions, clock: Clock) -> None:
    """B-022: five sessions, the second one touched, listed ten times."""
    for n in range(5):
        await sessions.session(f"s{n}").append(note("m"))
        clock.move(seconds=40)
    await sessions.session("s1").append(note("n"))
    for _ in range(10):
        assert await listed(sessions) == ["s1", "s4", "s3", "s2", "s0"]


async def test_sessions_of_one_instant_have_a_fixed_order_and_are_listed_once(
    sessions: AsyncSessions, clock: Clock
) -> None:
    """B-022, B-023"""
    made = [f"s{n}" for n in range(50)]
    for id in made:
        await sessions.create(id)
    whole = await listed(sessions)
    assert sorted(whole) == sorted(made)
    for limit in (1, 7, 49, 50, 51):
        assert await listed(sessions, limit) == whole


@pytest.mark.parametrize("limit", [1, 7, 30])
async def test_an_untouched_session_is_listed_exactly_once_while_others_are_touched_and_deleted(
    sessions: AsyncSessions, clock: Clock, limit: int
) -> None:
    """B-023"""
    for n in range(60):
        await sessions.session(f"s{n}").append(note("m"))
        clock.move(seconds=7)
    found: list[str] = []
    cursor: str | None = None
    touched: set[str] = set()
    for step in range(1000):
        page = await sessions.list(limit=limit, cursor=cursor)
        found += [info.id for info in page.sessions]
        cursor = page.cursor
        if cursor is None:
            break
        for n in (step, 59 - step):
            if n % 3 == 0 and 0 <= n < 60:
                touched.add(f"s{n}")
                await sessions.session(f"s{n}").append(note(f"again{step}"))
            elif n % 3 == 1 and 0 <= n < 60:
                touched.add(f"s{n}")
                await sessions.delete(f"s{n}")
        clock.move(seconds=1)
    assert cursor is None
    untouched = {f"s{n}" for n in range(60)} - touched
    assert sorted(id for id in found if id in untouched) == sorted(untouched)


async def test_a_listing_does_not_depend_on_content(sessions: AsyncSessions) -> None:
    """B-084: no body, slice or payload is read for it."""
    await sessions.session("huge").append_many([note("big", "x" * 5_000_000), picture("p", bytes(3_000_000))])
    await sessions.session("small").append(note("m"))
    huge = (await sessions.list()).sessions[-1]
    assert (huge.id, huge.totals.messages) == ("huge", 2)
    assert huge.totals.bytes > 9_000_000


@pytest.mark.parametrize("limit", [0, -1, 1001, 10**9])
async def test_a_limit_out_of_range_is_refused(sessions: AsyncSessions, limit: int) -> None:
    with pytest.raises(UsageError, match="limit"):
        await sessions.list(limit=limit)


@pytest.mark.parametrize("cursor", ["", "x", "0", "🧵", "AAAA", "MS4yLjM", "a" * 10_000, "../../etc"], ids=ascii)
async def test_a_made_up_cursor_is_refused(sessions: AsyncSessions, cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        await sessions.list(cursor=cursor[:200] if len(cursor) < 10_000 else cursor)


async def test_a_cursor_of_another_scope_is_refused(sessions: AsyncSessions) -> None:
    """B-023, B-103"""
    scopes = [("", ""), ("a", ""), ("", "a"), ("a", "b"), ("ab", "")]
    for scope in scopes:
        for n in range(3):
            await sessions.scoped(*scope).create(f"s{n}")
    for one in scopes:
        cursor = (await sessions.scoped(*one).list(limit=1)).cursor
        assert cursor is not None
        for other in scopes:
            if other == one:
                assert len((await sessions.scoped(*other).list(cursor=cursor)).sessions) == 2
            else:
                with pytest.raises(UsageError, match="another scope"):
                    await sessions.scoped(*other).list(cursor=cursor)


async def test_a_deleted_session_is_gone_at_once_and_its_id_starts_anew(
    sessions: AsyncSessions, changes: list[Change]
) -> None:
    old = sessions.session("chat")
    await chain(old, 5)
    await sessions.merge_metadata("chat", {"k": 1})
    await old.update_state({"k": 1})
    last = readable(await old.newest()).seq
    assert await sessions.delete("chat")
    assert not await sessions.delete("chat")
    assert await sessions.get("chat") is None
    assert await listed(sessions) == []
    new = sessions.session("chat")
    assert await ids_of(new.history()) == [] and await new.state() == {}
    assert (await new.append(note("m0"))).seq == last + 1
    info = await new.info()
    assert info is not None and (info.metadata, info.totals.messages) == ({}, 1)
    assert [change.kind for change in changes].count("delete session") == 1


async def test_state_and_deletion_can_expect_that_nothing_has_changed(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat")
    with pytest.raises(LeafMovedError):
        await chat.update_state({"k": 1}, expect_version=0)
    await chat.append(note("m0"))
    info = await chat.info()
    assert info is not None
    assert await chat.update_state({"k": 1}, expect_version=info.version) == {"k": 1}
    with pytest.raises(LeafMovedError):
        await chat.update_state({"k": 2}, expect_version=info.version)
    assert not await sessions.delete("chat", expect_version=info.version)
    assert await chat.state() == {"k": 1} and await ids_of(chat.history()) == ["m0"]
    assert await sessions.delete("chat", expect_version=info.version + 1)


async def test_times_are_aware_utc_instants(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-020"""
    before = dt.datetime.now(dt.timezone.utc)
    result = await chat.append(note("m"))
    after = dt.datetime.now(dt.timezone.utc)
    info = await chat.info()
    assert info is not None
    for instant in (
        result.message.created_at,
        readable(await chat.get("m")).created_at,
        info.created_at,
        info.active_at,
    ):
        assert instant.utcoffset() == dt.timedelta(0)
        assert before - dt.timedelta(milliseconds=1) <= instant <= after


# -- retention -----------------------------------------------------------------


async def aged(sessions: AsyncSessions, clock: Clock) -> None:
    """Sessions whose last activity is 40, 30, 20, 10 and 0 days ago."""
    for days in (40, 30, 20, 10, 0):
        await sessions.session(f"d{days}").append(note("m"))
        clock.move(days=10)
    clock.move(days=-10)


def removed(plan: RetentionPlan) -> list[str]:
    return sorted(id for id, _ in plan.sessions)


async def test_age_removes_exactly_what_was_not_active_and_a_dry_run_says_so(
    sessions: AsyncSessions, clock: Clock
) -> None:
    """B-120: the dry run equals the real run, and a second run finds nothing."""
    await aged(sessions, clock)
    for days, expected in ((45, []), (25, ["d30", "d40"]), (15, ["d20"])):
        dry = await sessions.retain(max_age=dt.timedelta(days=days), dry_run=True)
        assert removed(dry) == expected and dry.dry_run
        assert set(expected) <= set(await listed(sessions))
        done = await sessions.retain(max_age=dt.timedelta(days=days))
        assert (removed(done), done.dry_run) == (expected, False)
        assert removed(await sessions.retain(max_age=dt.timedelta(days=days))) == []
    assert await listed(sessions) == ["d0", "d10"]


async def test_count_keeps_the_last_active(sessions: AsyncSessions, clock: Clock) -> None:
    """B-120: 0 keeps none."""
    await aged(sessions, clock)
    assert removed(await sessions.retain(max_count=9)) == []
    assert removed(await sessions.retain(max_count=3)) == ["d30", "d40"]
    both = await sessions.retain(max_count=2, max_age=dt.timedelta(days=5))
    assert sorted(both.sessions) == [("d10", "age"), ("d20", "count")]
    assert removed(await sessions.retain(max_count=0)) == ["d0"]
    assert await listed(sessions) == []


async def test_pinned_sessions_stay_and_do_not_count(sessions: AsyncSessions, clock: Clock) -> None:
    """B-120"""
    await aged(sessions, clock)
    await sessions.pin("d40")
    await sessions.pin("d0")
    assert removed(await sessions.retain(max_count=2)) == ["d30"]
    assert removed(await sessions.retain(max_age=dt.timedelta(days=1))) == ["d10", "d20"]
    await sessions.pin("d40", False)
    assert removed(await sessions.retain(max_age=dt.timedelta(days=1))) == ["d40"]


async def test_reading_and_upkeep_do_not_prolong_a_life_but_a_branch_does(
    sessions: AsyncSessions, clock: Clock
) -> None:
    """B-120: old but just read; old with a fresh branch; bookkeeping is no activity."""
    await aged(sessions, clock)
    await ids_of(sessions.session("d40").history())
    await sessions.get("d40")
    await sessions.session("d40").recent(count=1)
    await sessions.doctor(fix=True)
    await sessions.vacuum()
    await sessions.session("d30").append(note("branch"), parent=None)
    assert removed(await sessions.retain(max_age=dt.timedelta(days=15))) == ["d20", "d40"]


async def test_a_clock_that_went_back_removes_nothing_early(sessions: AsyncSessions, clock: Clock) -> None:
    """B-120"""
    await sessions.session("new").append(note("m"))
    clock.move(hours=-1)
    await sessions.session("older clock").append(note("m"))
    assert removed(await sessions.retain(max_age=dt.timedelta(minutes=30))) == []
    await sessions.session("new").append(note("n"))
    clock.move(minutes=40)
    assert removed(await sessions.retain(max_age=dt.timedelta(minutes=30))) == ["new", "older clock"]


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
async def test_a_rule_that_says_nothing_or_nonsense_removes_nothing(
    sessions: AsyncSessions, clock: Clock, rule: dict[str, Any]
) -> None:
    """B-120"""
    await aged(sessions, clock)
    with pytest.raises(UsageError):
        await sessions.retain(**rule)
    assert len(await listed(sessions)) == 5


@pytest.mark.parametrize("rescue", ["append", "pin"])
async def test_a_session_that_becomes_active_while_retention_runs_is_kept(
    sessions: AsyncSessions,
    clock: Clock,
    reopened: Callable[[], AsyncSessions],
    monkeypatch: pytest.MonkeyPatch,
    rescue: str,
) -> None:
    """B-120: even between the last look at it and its deletion."""
    await aged(sessions, clock)
    original = sessions.store.delete_session

    async def late(session: Any, **options: Any) -> bool:
        if session.id == "d30":
            async with reopened() as others:
                if rescue == "append":
                    await others.session("d30").append(note("just in time"))
                else:
                    await others.pin("d30")
        return await original(session, **options)

    monkeypatch.setattr(sessions.store, "delete_session", late)
    assert removed(await sessions.retain(max_age=dt.timedelta(days=15))) == ["d20", "d40"]
    assert sorted(await listed(sessions)) == ["d0", "d10", "d30"]


async def test_retention_of_one_scope_leaves_the_others(sessions: AsyncSessions, clock: Clock) -> None:
    for scope in ("", "a", "b"):
        await sessions.scoped(scope).session("s").append(note("m"))
    clock.move(days=10)
    await sessions.scoped("a").retain(max_age=dt.timedelta(days=1))
    assert [len(await listed(sessions.scoped(scope))) for scope in ("", "a", "b")] == [1, 0, 1]


async def test_nothing_is_removed_or_limited_by_default(sessions: AsyncSessions, clock: Clock) -> None:
    count = dose(short=300, soak=5000)
    for n in range(count):
        await sessions.create(f"s{n}")
        clock.move(days=100)
    assert len(await listed(sessions)) == count


async def test_all_goes_through_every_page(sessions: AsyncSessions) -> None:
    for n in range(250):
        await sessions.create(f"s{n}")
    infos: list[SessionInfo] = [info async for info in sessions.all()]
    assert [info.id for info in infos] == await listed(sessions)
    assert len({info.id for info in infos}) == 250
