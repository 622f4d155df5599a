"""Generated from tests/behaviour/_async/test_overlays.py by tools/unasync.py: edit that file. Overlays: what a path shows instead of a range of it, on which paths, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

import plait
from plait import (
    OVERLAY_PREFIX,
    Session,
    Sessions,
    Change,
    ConflictError,
    NotFoundError,
    StaleValueError,
    UsageError,
)
from plait.model import Leaf
from tests.behaviour._sync.helpers import chain, facts, ids_of
from tests.behaviour.values import note

PREFIX = len(OVERLAY_PREFIX)


def seen(session: Session, leaf: str | Leaf | None = plait.LEAF) -> list[str]:
    """What history shows: ids of messages, and summaries; forward and backward alike."""
    shown = [_name(message) for message in session.history(leaf)]
    assert [_name(message) for message in session.history(leaf, newest_first=True)] == shown[::-1]
    assert [_name(message) for batch in session.batches(leaf, count=2) for message in batch] == shown
    assert [_name(message) for message in (session.recent(leaf=leaf)).messages] == shown
    assert len([stat for stat in session.path_stats(leaf)]) == len(shown)
    return shown


def version_of(session: Session) -> int:
    info = session.info()
    assert info is not None
    return info.version


def _name(message: plait.Message | plait.Damaged) -> str:
    assert isinstance(message, plait.Message)
    return message.id if message.overlay is None else f"[{message.text}]"


# -- what is shown ---------------------------------------------------------------


def test_a_summary_is_read_in_place_of_its_range_and_the_transcript_has_it_all(chat: Session) -> None:
    chain(chat, 6)
    added = chat.add_overlay("m1", "m3", summary="S")
    assert added.inserted and not added.covered
    assert seen(chat) == ["m0", "[S]", "m4", "m5"]
    assert ids_of(chat.transcript()) == [f"m{n}" for n in range(6)]
    assert [stat.id for stat in chat.path_stats(raw=True)] == [f"m{n}" for n in range(6)]
    assert (chat.get("m2")) is not None


def test_overlays_belong_to_their_session(sessions: Sessions) -> None:
    """Two sessions with the same ids of messages: what is laid on one is not on the other."""
    one, other = sessions.session("one"), sessions.session("other")
    chain(one, 4)
    chain(other, 4)
    added = (one.add_overlay("m1", "m2", summary="S")).overlay
    assert seen(one) == ["m0", "[S]", "m3"]
    assert seen(other) == ["m0", "m1", "m2", "m3"] and other.overlays() == []
    assert not other.remove_overlay(added.id)
    other.add_overlay("m1", "m2", summary="T")
    one.clear()
    assert one.overlays() == [] and seen(other) == ["m0", "[T]", "m3"]


def test_the_message_of_a_summary_knows_its_overlay_and_its_place(chat: Session) -> None:
    """The source system gave it the time of the read: two reads differed."""
    chain(chat, 5)
    overlay = (chat.add_overlay("m1", "m3", summary="S")).overlay
    message = [item for item in chat.history()][1]
    assert isinstance(message, plait.Message) and message.overlay == overlay
    assert (message.id, message.role, message.text) == (OVERLAY_PREFIX + overlay.id, "assistant", "S")
    assert (message.seq, message.parent_id, message.created_at) == (4, "m0", overlay.created_at)
    assert message.bytes == len(message.to_json().encode()) and message.tokens == overlay.tokens > 0
    assert (overlay.kind, overlay.from_id, overlay.to_id) == ("compaction", "m1", "m3")
    assert (overlay.from_seq, overlay.to_seq, overlay.left, overlay.stale) == (2, 4, 3, False)
    stats = [stat for stat in chat.path_stats(raw=True)][1:4]
    covered = (3, sum(stat.bytes for stat in stats), sum(stat.tokens for stat in stats))
    assert (overlay.covers.messages, overlay.covers.bytes, overlay.covers.tokens) == covered


def test_what_has_no_summary_is_hidden_and_single_messages_are_replaced(chat: Session) -> None:
    chain(chat, 6)
    chat.archive("m0", "m1")
    chat.omit("m3")
    chat.replace("m4", "instead")
    chat.add_overlay("m5", "m5", summary="[unloaded]", kind="unload")
    assert seen(chat) == ["m2", "[instead]", "[[unloaded]]"]
    shown = [message for message in chat.history()]
    assert [message.role for message in shown] == ["user"] * 3, "a user's words stay a user's"


def test_overlays_without_a_summary_can_hide_a_whole_path(chat: Session) -> None:
    chain(chat, 4)
    chat.archive("m0", "m3")
    assert seen(chat) == []
    assert (chat.totals()).view_messages == 0
    chat.append(note("on", "on"))
    assert seen(chat) == ["on"]


def test_totals_tell_the_path_raw_and_as_it_is_shown(chat: Session) -> None:
    chain(chat, 8)
    before = chat.totals()
    assert (before.view_messages, before.view_bytes, before.view_tokens) == (8, before.path_bytes, before.path_tokens)
    chat.add_overlay("m1", "m4", summary="S")
    chat.omit("m6")
    chat.append(note("x", "x"), parent="m7")
    chat.update(note("m3", "longer than it was before"))
    chat.delete(["m2"])
    for leaf in ("m7", "m4", "m3", "x"):
        chat.checkout(leaf)
        totals, stats = chat.totals(), [stat for stat in chat.path_stats()]
        raw = [stat for stat in chat.path_stats(raw=True)]
        assert totals.view_messages == len(stats)
        assert totals.view_bytes == sum(stat.bytes for stat in stats)
        assert totals.view_tokens == sum(stat.tokens for stat in stats)
        assert totals.path_messages == len(raw) and totals.path_tokens == sum(stat.tokens for stat in raw)


def test_the_budget_of_the_recent_window_counts_the_summary_as_it_shows(chat: Session) -> None:
    chain(chat, 10)
    chat.add_overlay("m2", "m7", summary="S")
    shown = [message for message in chat.history()]
    sizes = [message.bytes for message in shown if isinstance(message, plait.Message)]
    for kept in range(1, len(shown) + 1):
        for window in (chat.recent(budget_bytes=sum(sizes[-kept:])), chat.recent(count=kept)):
            assert window.messages == shown[-kept:]
            assert window.truncated == (kept < len(shown))
            assert (window.total_messages, window.view_messages) == (10, len(shown))


def test_an_overlay_reaches_across_windows_and_batches(chat: Session) -> None:
    chain(chat, 400)
    chat.add_overlay("m30", "m330", summary="S")
    assert seen(chat) == [*(f"m{n}" for n in range(30)), "[S]", *(f"m{n}" for n in range(331, 400))]
    window = chat.recent(count=71)
    assert [_name(message) for message in window.messages][:2] == ["m29", "[S]"]


def test_what_lies_under_an_overlay_is_not_read(
    sessions: Sessions, chat: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first stays lazy on a compacted session, and what is hidden costs nothing in either direction."""
    chain(chat, 1000)
    chat.add_overlay("m10", "m979", summary="S")
    load, met = sessions.store.load, list[int]()

    def watched(*args: Any, **options: Any) -> Any:
        rows = load(*args, **options)
        met.extend(row.seq for row in rows)
        return rows

    monkeypatch.setattr(sessions.store, "load", watched)
    for message in chat.history(newest_first=True):
        if message.id == "m990":
            break
    assert set(met) <= set(range(981, 1001)), "nothing from the overlay down is read"
    met.clear()
    assert len(seen(chat)) == 31
    assert set(met) <= {*range(1, 11), *range(981, 1001)}


# -- the rule ---------------------------------------------------------------------


def test_a_newer_overlay_contains_older_ones_which_reappear(chat: Session) -> None:
    chain(chat, 8)
    chat.add_overlay("m1", "m2", summary="A")
    chat.omit("m4")
    chat.add_overlay("m1", "m5", summary="B")
    last = (chat.add_overlay("m0", "m6", summary="C")).overlay
    assert seen(chat) == ["[C]", "m7"]
    assert chat.remove_overlay(last.id)
    assert seen(chat) == ["m0", "[B]", "m6", "m7"]
    assert [overlay.summary for overlay in chat.overlays()] == ["A", None, "B"]
    older, hidden, newer = chat.overlays()
    for overlay in (older, newer, hidden):  # what has no summary stays below one
        assert chat.remove_overlay(overlay.id)
        assert not chat.remove_overlay(overlay.id)
    assert seen(chat) == [f"m{n}" for n in range(8)]


def test_of_two_summaries_of_the_same_range_the_newer_shows(chat: Session) -> None:
    chain(chat, 4)
    chat.add_overlay("m1", "m2", summary="older")
    newer = (chat.add_overlay("m1", "m2", summary="newer")).overlay
    assert seen(chat) == ["m0", "[newer]", "m3"]
    chat.remove_overlay(newer.id)
    assert seen(chat) == ["m0", "[older]", "m3"]


@pytest.mark.parametrize("ends", [("m1", "m3"), ("m4", "m6"), ("m3", "m3"), ("m2", "m3"), ("m4", "m5")])
def test_a_crossing_summary_and_one_inside_are_refused_and_write_nothing(
    chat: Session, ends: tuple[str, str]
) -> None:
    chain(chat, 8)
    chat.add_overlay("m2", "m5", summary="S")
    before = facts(chat)
    with pytest.raises(ConflictError, match=r"crosses|inside"):
        chat.add_overlay(*ends, summary="T")
    assert facts(chat) == before


@pytest.mark.parametrize("ends", [("m1", "m3"), ("m4", "m6")])
def test_an_archive_that_crosses_is_refused(chat: Session, ends: tuple[str, str]) -> None:
    chain(chat, 8)
    chat.add_overlay("m2", "m5", summary="S")
    with pytest.raises(ConflictError, match="crosses"):
        chat.archive(*ends)


def test_what_is_covered_already_needs_no_archive(chat: Session) -> None:
    chain(chat, 8)
    inner = (chat.add_overlay("m2", "m3", summary="inner")).overlay
    outer = (chat.add_overlay("m2", "m5", summary="outer")).overlay
    before = facts(chat)
    for added in (
        chat.archive("m2", "m5"),
        chat.archive("m3", "m4"),
        chat.omit("m3"),
        chat.replace("m5", "no"),
        chat.add_overlay("m4", "m4", summary="no", kind="unload"),
    ):
        assert (added.covered, added.inserted, added.overlay.id) == (True, False, outer.id)
    assert facts(chat) == before
    assert [overlay.id for overlay in chat.overlays()] == [inner.id, outer.id]


def test_an_archive_may_contain_summaries(chat: Session) -> None:
    chain(chat, 6)
    chat.add_overlay("m1", "m2", summary="S")
    chat.archive("m0", "m4")
    assert seen(chat) == ["m5"]


# -- branches ----------------------------------------------------------------------


def test_a_branch_that_leaves_inside_a_range_never_shows_its_overlay(chat: Session) -> None:
    """By ids it would: once the covered tail is gone, the branch has all that is left of the range."""
    chain(chat, 6)
    chat.append(note("x", "x"), parent="m3")
    chat.checkout("m5")
    chat.add_overlay("m1", "m4", summary="S")
    assert seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    chat.delete(["m4"])
    assert seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    assert seen(chat, "m5") == ["m0", "[S]", "m5"]
    chat.delete(["m5"])
    assert seen(chat, "x") == ["m0", "m1", "m2", "m3", "x"]
    chat.append(note("y", "y"), parent="m3")
    assert seen(chat, "y") == ["m0", "m1", "m2", "m3", "y"], "a branch made after the deletion, too"


def test_branches_that_share_the_beginning_of_their_ranges_keep_their_overlays_apart(chat: Session) -> None:
    chain(chat, 5)
    chat.append_many([note("x1", "x"), note("x2", "x")], parent="m2")
    chat.add_overlay("m1", "x1", summary="X", leaf="x2")
    chat.add_overlay("m1", "m3", summary="M", leaf="m4")
    chat.add_overlay("m0", "m3", summary="M2", leaf="m4")
    assert seen(chat, "m4") == ["[M2]", "m4"]
    assert seen(chat, "x2") == ["m0", "[X]", "x2"]
    assert [overlay.summary for overlay in chat.overlays("x2")] == ["X"]
    assert [overlay.summary for overlay in chat.overlays("m4")] == ["M", "M2"]
    assert [overlay.summary for overlay in chat.overlays(all=True)] == ["X", "M", "M2"]


def test_a_branch_inside_a_long_summary_can_be_summarized_for_itself(chat: Session) -> None:
    chain(chat, 10)
    chat.add_overlay("m1", "m8", summary="long")
    chat.append(note("x", "x"), parent="m5")
    chat.add_overlay("m1", "m3", summary="short")
    assert seen(chat, "x") == ["m0", "[short]", "m4", "m5", "x"]
    assert seen(chat, "m9") == ["m0", "[long]", "m9"]
    with pytest.raises(ConflictError, match="crosses"):
        chat.add_overlay("m0", "m4", summary="crosses the long one on its path")


def test_a_branch_after_the_range_shows_the_overlay(chat: Session) -> None:
    chain(chat, 6)
    chat.add_overlay("m1", "m3", summary="S")
    chat.append(note("x", "x"), parent="m4")
    chat.append(note("y", "y"), parent="m3")
    assert seen(chat, "x") == ["m0", "[S]", "m4", "x"]
    assert seen(chat, "y") == ["m0", "[S]", "y"]
    assert seen(chat, "m2") == ["m0", "m1", "m2"]


# -- changes below ------------------------------------------------------------------


def test_an_update_and_a_delete_below_mark_it_stale(chat: Session) -> None:
    chain(chat, 8)
    chat.add_overlay("m1", "m2", summary="A")
    chat.add_overlay("m4", "m5", summary="B")
    chat.update(note("m0", "not below"))
    chat.delete("m7")
    assert [overlay.stale for overlay in chat.overlays()] == [False, False]
    chat.update(note("m1", "changed"))
    chat.delete("m5")
    assert [(overlay.stale, overlay.left) for overlay in chat.overlays()] == [(True, 2), (True, 1)]
    assert seen(chat) == ["m0", "[A]", "m3", "[B]", "m6"]


def test_a_summary_laid_over_a_stale_one_is_stale_from_the_beginning(chat: Session) -> None:
    chain(chat, 8)
    chat.add_overlay("m1", "m2", summary="quotes m2")
    chat.delete("m2")
    over = chat.add_overlay("m0", "m4", summary="quotes it again")
    assert over.overlay.stale
    assert not (chat.add_overlay("m5", "m6", summary="of what is there")).overlay.stale


def test_nothing_is_shown_once_nothing_covered_is_left(chat: Session) -> None:
    chain(chat, 6)
    chat.add_overlay("m1", "m3", summary="S")
    chat.delete(["m1", "m2", "m3"])
    assert seen(chat) == ["m0", "m4", "m5"]
    assert (chat.totals()).view_messages == 3
    assert [overlay.left for overlay in chat.overlays()] == [0]


def test_clear_takes_overlays_away_and_they_do_not_return(chat: Session) -> None:
    chain(chat, 4)
    chat.add_overlay("m1", "m2", summary="S")
    chat.clear()
    assert chat.overlays(all=True) == []
    chain(chat, 4)
    assert seen(chat) == ["m0", "m1", "m2", "m3"]


def test_a_fork_takes_along_what_lies_on_its_path(chat: Session) -> None:
    chain(chat, 6)
    chat.append(note("x", "x"), parent="m2")
    chat.add_overlay("m0", "m1", summary="both")
    chat.add_overlay("m2", "x", summary="the branch's")
    chat.checkout("m5")
    inner = (chat.omit("m3")).overlay
    outer = (chat.add_overlay("m2", "m4", summary="outer")).overlay
    chat.delete("m4")
    copy = chat.fork("copy")
    assert seen(copy) == seen(chat) == ["[both]", "[outer]", "m5"]
    assert [overlay.id for overlay in copy.overlays(all=True)][1:] == [inner.id, outer.id]
    copy.remove_overlay(outer.id)
    assert seen(copy) == ["[both]", "m2", "m5"]
    assert seen(chat) == ["[both]", "[outer]", "m5"], "they are independent"
    at = chat.fork("at", at="m3")
    assert seen(at) == ["[both]", "m2"]


# -- refusals -----------------------------------------------------------------------


def test_ranges_are_checked(chat: Session) -> None:
    """The source system stored a range with unknown or reversed ends and reported success."""
    with pytest.raises(NotFoundError):
        chat.add_overlay("m0", "m0", summary="S")
    chain(chat, 5)
    chat.append(note("x", "x"), parent="m1")
    before = facts(chat)
    with pytest.raises(NotFoundError, match="'nobody'"):
        chat.add_overlay("m0", "nobody", summary="S")
    with pytest.raises(UsageError, match="another branch"):
        chat.add_overlay("m0", "m3", summary="S")
    with pytest.raises(UsageError, match="older one first"):
        chat.add_overlay("x", "m0", summary="S")
    with pytest.raises(UsageError, match="needs the text"):
        chat.add_overlay("m0", "m1", kind="compaction")
    with pytest.raises(UsageError, match="shows nothing"):
        chat.add_overlay("m0", "m1", summary="S", kind="archive")
    with pytest.raises(UsageError, match="one message"):
        chat.add_overlay("m0", "m1", summary="S", kind="replace")
    with pytest.raises(UsageError, match="say something"):
        chat.add_overlay("m0", "m1", summary=" \n")
    with pytest.raises(UsageError, match="kind must be"):
        chat.add_overlay("m0", "m1", kind="forget")  # type: ignore[arg-type]
    assert facts(chat) == before


def test_appends_do_not_stand_in_the_way_of_compare_and_set(chat: Session) -> None:
    chain(chat, 6)
    version = version_of(chat)
    chat.append(note("x", "x"))
    chat.update(note("m5", "outside the range"))
    chat.omit("m4")
    assert (chat.add_overlay("m1", "m3", summary="S", expect_version=version)).inserted


@pytest.mark.parametrize("change", ["update", "delete", "overlay", "removal"])
def test_a_change_in_the_range_stands_in_the_way_of_compare_and_set(chat: Session, change: str) -> None:
    chain(chat, 6)
    there = (chat.omit("m2")).overlay
    version = version_of(chat)
    if change == "update":
        chat.update(note("m2", "changed"))
    elif change == "delete":
        chat.delete("m2")
    elif change == "overlay":
        chat.omit("m3")
    else:
        chat.remove_overlay(there.id)
    with pytest.raises(StaleValueError):
        chat.add_overlay("m1", "m3", summary="S", expect_version=version)
    assert chat.add_overlay("m1", "m3", summary="S")


def test_an_overlay_laid_on_while_a_consistent_read_goes_on_ends_it(chat: Session) -> None:
    chain(chat, 200)
    met: list[str] = []
    with pytest.raises(StaleValueError):
        for message in chat.history(consistent=True):
            met.append(message.id)
            if message.id == "m0":
                chat.omit("m150")
    assert 0 < len(met) < 150
    met = []
    for message in chat.history():
        met.append(message.id)
        if message.id == "m0":
            chat.omit("m151")
    assert met[149:152] == ["m149", "m151", "m152"], "what lies on the path is fixed when the reading begins"


# -- summaries written back -----------------------------------------------------------


def test_a_summary_that_a_client_sends_back_is_ignored(chat: Session) -> None:
    """Stored as a message it would be shown twice, and be a parent."""
    chain(chat, 5)
    overlay = (chat.add_overlay("m1", "m4", summary="S")).overlay
    before = facts(chat)
    echo = [message for message in chat.history()][1]
    assert isinstance(echo, plait.Message)
    for result in (
        chat.append(echo, source="client"),
        chat.append({**echo.to_dict(), "parts": []}, source="client"),
        chat.upsert(echo, source="client"),
        chat.append({**echo.to_dict(), "id": f"compaction_{overlay.id}"}, source="client"),
        chat.append({**echo.to_dict(), "id": OVERLAY_PREFIX + "removed"}, source="client"),
    ):
        assert not result.inserted and not result.differs
    assert chat.update(echo, source="client") is None
    assert facts(chat) == before
    first, second = chat.append_many([echo, note("x", "x")], source="client")
    assert (first.inserted, second.inserted, second.parent_id) == (False, True, "m4")
    answer = chat.append(note("y", "y"), parent=echo.id)
    assert answer.parent_id == "m4", "the last message that the summary is of"


def test_anybody_else_who_writes_a_summary_is_told(chat: Session) -> None:
    chain(chat, 5)
    chat.add_overlay("m1", "m3", summary="S")
    echo = [message for message in chat.history()][1]
    assert isinstance(echo, plait.Message)
    before = facts(chat)
    with pytest.raises(UsageError, match="not a message"):
        chat.append(echo)
    with pytest.raises(UsageError, match="not a message"):
        chat.append_many([note("x", "x"), echo])
    with pytest.raises(UsageError, match="not a message"):
        chat.update(echo)
    assert not (chat.import_message(echo, parent="m4")).inserted
    assert facts(chat) == before


def test_a_summary_of_another_session_is_kept_by_an_import(chat: Session) -> None:
    chain(chat, 2)
    for id in (f"{OVERLAY_PREFIX}foreign", "compaction_foreign"):
        assert (chat.import_message(note(id, "what went before"), parent="m1")).inserted
        assert seen(chat) == ["m0", "m1", id]
    assert (chat.append(note("compaction_mine", "an id like any other"))).inserted


# -- what subscribers are told --------------------------------------------------------


def test_subscribers_are_told_of_overlays(sessions: Sessions, chat: Session) -> None:
    chain(chat, 4)
    told: list[Change] = []
    sessions.subscribe(told.append)
    overlay = (chat.add_overlay("m1", "m2", summary="S")).overlay
    chat.omit("m1")
    chat.remove_overlay(overlay.id)
    assert [(change.kind, change.overlay, change.removed) for change in told] == [
        ("overlay", overlay, False),
        ("overlay", overlay, True),
    ]
