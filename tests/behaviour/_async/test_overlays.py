"""Overlays: what a path shows instead of a range of it, on which paths, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

import plait
from plait import (
    OVERLAY_PREFIX,
    AsyncSession,
    AsyncSessions,
    Change,
    ConflictError,
    NotFoundError,
    StaleValueError,
    UsageError,
)
from plait.model import Leaf
from tests.behaviour._async.helpers import chain, facts, ids_of
from tests.behaviour.values import note

PREFIX = len(OVERLAY_PREFIX)


async def seen(session: AsyncSession, leaf: str | Leaf | None = plait.LEAF) -> list[str]:
    """What history shows: ids of messages, and summaries; forward and backward alike."""
    shown = [_name(message) async for message in session.history(leaf)]
    assert [_name(message) async for message in session.history(leaf, newest_first=True)] == shown[::-1]
    assert [_name(message) async for batch in session.batches(leaf, count=2) for message in batch] == shown
    assert [_name(message) for message in (await session.recent(leaf=leaf)).messages] == shown
    assert len([stat async for stat in session.path_stats(leaf)]) == len(shown)
    return shown


async def version_of(session: AsyncSession) -> int:
    info = await session.info()
    assert info is not None
    return info.version


def _name(message: plait.Message | plait.Damaged) -> str:
    assert isinstance(message, plait.Message)
    return message.id if message.overlay is None else f"[{message.text}]"


# -- what is shown ---------------------------------------------------------------


async def test_a_summary_is_read_in_place_of_its_range_and_the_transcript_has_it_all(chat: AsyncSession) -> None:
    await chain(chat, 6)
    added = await chat.add_overlay("m1", "m3", summary="S")
    assert added.inserted and not added.covered
    assert await seen(chat) == ["m0", "[S]", "m4", "m5"]
    assert await ids_of(chat.transcript()) == [f"m{n}" for n in range(6)]
    assert [stat.id async for stat in chat.path_stats(raw=True)] == [f"m{n}" for n in range(6)]
    assert (await chat.get("m2")) is not None


async def test_overlays_belong_to_their_session(sessions: AsyncSessions) -> None:
    """Two sessions with the same ids of messages: what is laid on one is not on the other."""
    one, other = sessions.session("one"), sessions.session("other")
    await chain(one, 4)
    await chain(other, 4)
    added = (await one.add_overlay("m1", "m2", summary="S")).overlay
    assert await seen(one) == ["m0", "[S]", "m3"]
    assert await seen(other) == ["m0", "m1", "m2", "m3"] and await other.overlays() == []
    assert not await other.remove_overlay(added.id)
    await other.add_overlay("m1", "m2", summary="T")
    await one.clear()
    assert await one.overlays() == [] and await seen(other) == ["m0", "[T]", "m3"]


async def test_the_message_of_a_summary_knows_its_overlay_and_its_place(chat: AsyncSession) -> None:
    """The source system gave it the time of the read: two reads differed."""
    await chain(chat, 5)
    overlay = (await chat.add_overlay("m1", "m3", summary="S")).overlay
    message = [item async for item in chat.history()][1]
    assert isinstance(message, plait.Message) and message.overlay == overlay
    assert (message.id, message.role, message.text) == (OVERLAY_PREFIX + overlay.id, "assistant", "S")
    assert (message.seq, message.parent_id, message.created_at) == (4, "m0", overlay.created_at)
    assert message.bytes == len(message.to_json().encode()) and message.tokens == overlay.tokens > 0
    assert (overlay.kind, overlay.from_id, overlay.to_id) == ("compaction", "m1", "m3")
    assert (overlay.from_seq, overlay.to_seq, overlay.left, overlay.stale) == (2, 4, 3, False)
    stats = [stat async for stat in chat.path_stats(raw=True)][1:4]
    covered = (3, sum(stat.bytes for stat in stats), sum(stat.tokens for stat in stats))
    assert (overlay.covers.messages, overlay.covers.bytes, overlay.covers.tokens) == covered


async def test_what_has_no_summary_is_hidden_and_single_messages_are_replaced(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.archive("m0", "m1")
    await chat.omit("m3")
    await chat.replace("m4", "instead")
    await chat.add_overlay("m5", "m5", summary="[unloaded]", kind="unload")
    assert await seen(chat) == ["m2", "[instead]", "[[unloaded]]"]
    shown = [message async for message in chat.history()]
    assert [message.role for message in shown] == ["user"] * 3, "a user's words stay a user's"


async def test_overlays_without_a_summary_can_hide_a_whole_path(chat: AsyncSession) -> None:
    await chain(chat, 4)
    await chat.archive("m0", "m3")
    assert await seen(chat) == []
    assert (await chat.totals()).view_messages == 0
    await chat.append(note("on", "on"))
    assert await seen(chat) == ["on"]


async def test_totals_tell_the_path_raw_and_as_it_is_shown(chat: AsyncSession) -> None:
    await chain(chat, 8)
    before = await chat.totals()
    assert (before.view_messages, before.view_bytes, before.view_tokens) == (8, before.path_bytes, before.path_tokens)
    await chat.add_overlay("m1", "m4", summary="S")
    await chat.omit("m6")
    await chat.append(note("x", "x"), parent="m7")
    await chat.update(note("m3", "longer than it was before"))
    await chat.delete(["m2"])
    for leaf in ("m7", "m4", "m3", "x"):
        await chat.checkout(leaf)
        totals, stats = await chat.totals(), [stat async for stat in chat.path_stats()]
        raw = [stat async for stat in chat.path_stats(raw=True)]
        assert totals.view_messages == len(stats)
        assert totals.view_bytes == sum(stat.bytes for stat in stats)
        assert totals.view_tokens == sum(stat.tokens for stat in stats)
        assert totals.path_messages == len(raw) and totals.path_tokens == sum(stat.tokens for stat in raw)


async def test_the_budget_of_the_recent_window_counts_the_summary_as_it_shows(chat: AsyncSession) -> None:
    await chain(chat, 10)
    await chat.add_overlay("m2", "m7", summary="S")
    shown = [message async for message in chat.history()]
    sizes = [message.bytes for message in shown if isinstance(message, plait.Message)]
    for kept in range(1, len(shown) + 1):
        for window in (await chat.recent(budget_bytes=sum(sizes[-kept:])), await chat.recent(count=kept)):
            assert window.messages == shown[-kept:]
            assert window.truncated == (kept < len(shown))
            assert (window.total_messages, window.view_messages) == (10, len(shown))


async def test_an_overlay_reaches_across_windows_and_batches(chat: AsyncSession) -> None:
    await chain(chat, 400)
    await chat.add_overlay("m30", "m330", summary="S")
    assert await seen(chat) == [*(f"m{n}" for n in range(30)), "[S]", *(f"m{n}" for n in range(331, 400))]
    window = await chat.recent(count=71)
    assert [_name(message) for message in window.messages][:2] == ["m29", "[S]"]


async def test_what_lies_under_an_overlay_is_not_read(
    sessions: AsyncSessions, chat: AsyncSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first stays lazy on a compacted session, and what is hidden costs nothing in either direction."""
    await chain(chat, 1000)
    await chat.add_overlay("m10", "m979", summary="S")
    load, met = sessions.store.load, list[int]()

    async def watched(*args: Any, **options: Any) -> Any:
        rows = await load(*args, **options)
        met.extend(row.seq for row in rows)
        return rows

    monkeypatch.setattr(sessions.store, "load", watched)
    async for message in chat.history(newest_first=True):
        if message.id == "m990":
            break
    assert set(met) <= set(range(981, 1001)), "nothing from the overlay down is read"
    met.clear()
    assert len(await seen(chat)) == 31
    assert set(met) <= {*range(1, 11), *range(981, 1001)}


# -- the rule ---------------------------------------------------------------------


async def test_a_newer_overlay_contains_older_ones_which_reappear(chat: AsyncSession) -> None:
    await chain(chat, 8)
    await chat.add_overlay("m1", "m2", summary="A")
    await chat.omit("m4")
    await chat.add_overlay("m1", "m5", summary="B")
    last = (await chat.add_overlay("m0", "m6", summary="C")).overlay
    assert await seen(chat) == ["[C]", "m7"]
    assert await chat.remove_overlay(last.id)
    assert await seen(chat) == ["m0", "[B]", "m6", "m7"]
    assert [overlay.summary for overlay in await chat.overlays()] == ["A", None, "B"]
    older, hidden, newer = await chat.overlays()
    for overlay in (older, newer, hidden):  # what has no summary stays below one
        assert await chat.remove_overlay(overlay.id)
        assert not await chat.remove_overlay(overlay.id)
    assert await seen(chat) == [f"m{n}" for n in range(8)]


async def test_of_two_summaries_of_the_same_range_the_newer_shows(chat: AsyncSession) -> None:
    await chain(chat, 4)
    await chat.add_overlay("m1", "m2", summary="older")
    newer = (await chat.add_overlay("m1", "m2", summary="newer")).overlay
    assert await seen(chat) == ["m0", "[newer]", "m3"]
    await chat.remove_overlay(newer.id)
    assert await seen(chat) == ["m0", "[older]", "m3"]


@pytest.mark.parametrize("ends", [("m1", "m3"), ("m4", "m6"), ("m3", "m3"), ("m2", "m3"), ("m4", "m5")])
async def test_a_crossing_summary_and_one_inside_are_refused_and_write_nothing(
    chat: AsyncSession, ends: tuple[str, str]
) -> None:
    await chain(chat, 8)
    await chat.add_overlay("m2", "m5", summary="S")
    before = await facts(chat)
    with pytest.raises(ConflictError, match=r"crosses|inside"):
        await chat.add_overlay(*ends, summary="T")
    assert await facts(chat) == before


@pytest.mark.parametrize("ends", [("m1", "m3"), ("m4", "m6")])
async def test_an_archive_that_crosses_is_refused(chat: AsyncSession, ends: tuple[str, str]) -> None:
    await chain(chat, 8)
    await chat.add_overlay("m2", "m5", summary="S")
    with pytest.raises(ConflictError, match="crosses"):
        await chat.archive(*ends)


async def test_what_is_covered_already_needs_no_archive(chat: AsyncSession) -> None:
    await chain(chat, 8)
    inner = (await chat.add_overlay("m2", "m3", summary="inner")).overlay
    outer = (await chat.add_overlay("m2", "m5", summary="outer")).overlay
    before = await facts(chat)
    for added in (
        await chat.archive("m2", "m5"),
        await chat.archive("m3", "m4"),
        await chat.omit("m3"),
        await chat.replace("m5", "no"),
        await chat.add_overlay("m4", "m4", summary="no", kind="unload"),
    ):
        assert (added.covered, added.inserted, added.overlay.id) == (True, False, outer.id)
    assert await facts(chat) == before
    assert [overlay.id for overlay in await chat.overlays()] == [inner.id, outer.id]


async def test_an_archive_may_contain_summaries(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.add_overlay("m1", "m2", summary="S")
    await chat.archive("m0", "m4")
    assert await seen(chat) == ["m5"]


# -- branches ----------------------------------------------------------------------


async def test_a_branch_that_leaves_inside_a_range_never_shows_its_overlay(chat: AsyncSession) -> None:
    """By ids it would: once the covered tail is gone, the branch has all that is left of the range."""
    await chain(chat, 6)
    await chat.append(note("x", "x"), parent="m3")
    await chat.checkout("m5")
    await chat.add_overlay("m1", "m4", summary="S")
    assert await seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    await chat.delete(["m4"])
    assert await seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    assert await seen(chat, "m5") == ["m0", "[S]", "m5"]
    await chat.delete(["m5"])
    assert await seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    await chat.append(note("y", "y"), parent="m3")
    assert await seen(chat, "y") == ["m0", "m1", "m2", "m3", "y"], "a branch made after the deletion, too"


async def test_branches_that_share_the_beginning_of_their_ranges_keep_their_overlays_apart(chat: AsyncSession) -> None:
    await chain(chat, 5)
    await chat.append_many([note("x1", "x"), note("x2", "x")], parent="m2")
    await chat.add_overlay("m1", "x1", summary="X", leaf="x2")
    await chat.add_overlay("m1", "m3", summary="M", leaf="m4")
    await chat.add_overlay("m0", "m3", summary="M2", leaf="m4")
    assert await seen(chat, "m4") == ["[M2]", "m4"]
    assert await seen(chat, "x2") == ["m0", "[X]", "x2"]
    assert [overlay.summary for overlay in await chat.overlays("x2")] == ["X"]
    assert [overlay.summary for overlay in await chat.overlays("m4")] == ["M", "M2"]
    assert [overlay.summary for overlay in await chat.overlays(all=True)] == ["X", "M", "M2"]


async def test_a_branch_inside_a_long_summary_can_be_summarized_for_itself(chat: AsyncSession) -> None:
    await chain(chat, 10)
    await chat.add_overlay("m1", "m8", summary="long")
    await chat.append(note("x", "x"), parent="m5")
    await chat.add_overlay("m1", "m3", summary="short")
    assert await seen(chat, "x") == ["m0", "[short]", "m4", "m5", "x"]
    assert await seen(chat, "m9") == ["m0", "[long]", "m9"]
    with pytest.raises(ConflictError, match="crosses"):
        await chat.add_overlay("m0", "m4", summary="crosses the long one on its path")


async def test_a_branch_after_the_range_shows_the_overlay(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.add_overlay("m1", "m3", summary="S")
    await chat.append(note("x", "x"), parent="m4")
    await chat.append(note("y", "y"), parent="m3")
    assert await seen(chat, "x") == ["m0", "[S]", "m4", "x"]
    assert await seen(chat, "y") == ["m0", "[S]", "y"]
    assert await seen(chat, "m2") == ["m0", "m1", "m2"]


# -- changes below ------------------------------------------------------------------


async def test_an_update_and_a_delete_below_mark_it_stale(chat: AsyncSession) -> None:
    await chain(chat, 8)
    await chat.add_overlay("m1", "m2", summary="A")
    await chat.add_overlay("m4", "m5", summary="B")
    await chat.update(note("m0", "not below"))
    await chat.delete("m7")
    assert [overlay.stale for overlay in await chat.overlays()] == [False, False]
    await chat.update(note("m1", "changed"))
    await chat.delete("m5")
    assert [(overlay.stale, overlay.left) for overlay in await chat.overlays()] == [(True, 2), (True, 1)]
    assert await seen(chat) == ["m0", "[A]", "m3", "[B]", "m6"]


async def test_a_summary_laid_over_a_stale_one_is_stale_from_the_beginning(chat: AsyncSession) -> None:
    await chain(chat, 8)
    await chat.add_overlay("m1", "m2", summary="quotes m2")
    await chat.delete("m2")
    over = await chat.add_overlay("m0", "m4", summary="quotes it again")
    assert over.overlay.stale
    assert not (await chat.add_overlay("m5", "m6", summary="of what is there")).overlay.stale


async def test_nothing_is_shown_once_nothing_covered_is_left(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.add_overlay("m1", "m3", summary="S")
    await chat.delete(["m1", "m2", "m3"])
    assert await seen(chat) == ["m0", "m4", "m5"]
    assert (await chat.totals()).view_messages == 3
    assert [overlay.left for overlay in await chat.overlays()] == [0]


async def test_clear_takes_overlays_away_and_they_do_not_return(chat: AsyncSession) -> None:
    await chain(chat, 4)
    await chat.add_overlay("m1", "m2", summary="S")
    await chat.clear()
    assert await chat.overlays(all=True) == []
    await chain(chat, 4)
    assert await seen(chat) == ["m0", "m1", "m2", "m3"]


async def test_a_fork_takes_along_what_lies_on_its_path(chat: AsyncSession) -> None:
    await chain(chat, 6)
    await chat.append(note("x", "x"), parent="m2")
    await chat.add_overlay("m0", "m1", summary="both")
    await chat.add_overlay("m2", "x", summary="the branch's")
    await chat.checkout("m5")
    inner = (await chat.omit("m3")).overlay
    outer = (await chat.add_overlay("m2", "m4", summary="outer")).overlay
    await chat.delete("m4")
    copy = await chat.fork("copy")
    assert await seen(copy) == await seen(chat) == ["[both]", "[outer]", "m5"]
    assert [overlay.id for overlay in await copy.overlays(all=True)][1:] == [inner.id, outer.id]
    await copy.remove_overlay(outer.id)
    assert await seen(copy) == ["[both]", "m2", "m5"]
    assert await seen(chat) == ["[both]", "[outer]", "m5"], "they are independent"
    at = await chat.fork("at", at="m3")
    assert await seen(at) == ["[both]", "m2"]


# -- refusals -----------------------------------------------------------------------


async def test_ranges_are_checked(chat: AsyncSession) -> None:
    """The source system stored a range with unknown or reversed ends and reported success."""
    with pytest.raises(NotFoundError):
        await chat.add_overlay("m0", "m0", summary="S")
    await chain(chat, 5)
    await chat.append(note("x", "x"), parent="m1")
    before = await facts(chat)
    with pytest.raises(NotFoundError, match="'nobody'"):
        await chat.add_overlay("m0", "nobody", summary="S")
    with pytest.raises(UsageError, match="another branch"):
        await chat.add_overlay("m0", "m3", summary="S")
    with pytest.raises(UsageError, match="older one first"):
        await chat.add_overlay("x", "m0", summary="S")
    with pytest.raises(UsageError, match="needs the text"):
        await chat.add_overlay("m0", "m1", kind="compaction")
    with pytest.raises(UsageError, match="shows nothing"):
        await chat.add_overlay("m0", "m1", summary="S", kind="archive")
    with pytest.raises(UsageError, match="one message"):
        await chat.add_overlay("m0", "m1", summary="S", kind="replace")
    with pytest.raises(UsageError, match="say something"):
        await chat.add_overlay("m0", "m1", summary=" \n")
    with pytest.raises(UsageError, match="kind must be"):
        await chat.add_overlay("m0", "m1", kind="forget")  # type: ignore[arg-type]
    assert await facts(chat) == before


async def test_appends_do_not_stand_in_the_way_of_compare_and_set(chat: AsyncSession) -> None:
    await chain(chat, 6)
    version = await version_of(chat)
    await chat.append(note("x", "x"))
    await chat.update(note("m5", "outside the range"))
    await chat.omit("m4")
    assert (await chat.add_overlay("m1", "m3", summary="S", expect_version=version)).inserted


@pytest.mark.parametrize("change", ["update", "delete", "overlay", "removal"])
async def test_a_change_in_the_range_stands_in_the_way_of_compare_and_set(chat: AsyncSession, change: str) -> None:
    await chain(chat, 6)
    there = (await chat.omit("m2")).overlay
    version = await version_of(chat)
    if change == "update":
        await chat.update(note("m2", "changed"))
    elif change == "delete":
        await chat.delete("m2")
    elif change == "overlay":
        await chat.omit("m3")
    else:
        await chat.remove_overlay(there.id)
    with pytest.raises(StaleValueError):
        await chat.add_overlay("m1", "m3", summary="S", expect_version=version)
    assert await chat.add_overlay("m1", "m3", summary="S")


async def test_an_overlay_laid_on_while_a_consistent_read_goes_on_ends_it(chat: AsyncSession) -> None:
    await chain(chat, 200)
    met: list[str] = []
    with pytest.raises(StaleValueError):
        async for message in chat.history(consistent=True):
            met.append(message.id)
            if message.id == "m0":
                await chat.omit("m150")
    assert 0 < len(met) < 150
    met = []
    async for message in chat.history():
        met.append(message.id)
        if message.id == "m0":
            await chat.omit("m151")
    assert met[149:152] == ["m149", "m151", "m152"], "what lies on the path is fixed when the reading begins"


# -- summaries written back -----------------------------------------------------------


async def test_a_summary_that_a_client_sends_back_is_ignored(chat: AsyncSession) -> None:
    """Stored as a message it would be shown twice, and be a parent."""
    await chain(chat, 5)
    overlay = (await chat.add_overlay("m1", "m4", summary="S")).overlay
    before = await facts(chat)
    echo = [message async for message in chat.history()][1]
    assert isinstance(echo, plait.Message)
    for result in (
        await chat.append(echo, source="client"),
        await chat.append({**echo.to_dict(), "parts": []}, source="client"),
        await chat.upsert(echo, source="client"),
        await chat.append({**echo.to_dict(), "id": f"compaction_{overlay.id}"}, source="client"),
        await chat.append({**echo.to_dict(), "id": OVERLAY_PREFIX + "removed"}, source="client"),
    ):
        assert not result.inserted and not result.differs
    assert await chat.update(echo, source="client") is None
    assert await facts(chat) == before
    first, second = await chat.append_many([echo, note("x", "x")], source="client")
    assert (first.inserted, second.inserted, second.parent_id) == (False, True, "m4")
    answer = await chat.append(note("y", "y"), parent=echo.id)
    assert answer.parent_id == "m4", "the last message that the summary is of"


async def test_anybody_else_who_writes_a_summary_is_told(chat: AsyncSession) -> None:
    await chain(chat, 5)
    await chat.add_overlay("m1", "m3", summary="S")
    echo = [message async for message in chat.history()][1]
    assert isinstance(echo, plait.Message)
    before = await facts(chat)
    with pytest.raises(UsageError, match="not a message"):
        await chat.append(echo)
    with pytest.raises(UsageError, match="not a message"):
        await chat.append_many([note("x", "x"), echo])
    with pytest.raises(UsageError, match="not a message"):
        await chat.update(echo)
    assert not (await chat.import_message(echo, parent="m4")).inserted
    assert await facts(chat) == before


async def test_a_summary_of_another_session_is_kept_by_an_import(chat: AsyncSession) -> None:
    await chain(chat, 2)
    for id in (f"{OVERLAY_PREFIX}foreign", "compaction_foreign"):
        assert (await chat.import_message(note(id, "what went before"), parent="m1")).inserted
        assert await seen(chat) == ["m0", "m1", id]
    assert (await chat.append(note("compaction_mine", "an id like any other"))).inserted


# -- what subscribers are told --------------------------------------------------------


async def test_subscribers_are_told_of_overlays(sessions: AsyncSessions, chat: AsyncSession) -> None:
    await chain(chat, 4)
    told: list[Change] = []
    sessions.subscribe(told.append)
    overlay = (await chat.add_overlay("m1", "m2", summary="S")).overlay
    await chat.omit("m1")
    await chat.remove_overlay(overlay.id)
    assert [(change.kind, change.overlay, change.removed) for change in told] == [
        ("overlay", overlay, False),
        ("overlay", overlay, True),
    ]
