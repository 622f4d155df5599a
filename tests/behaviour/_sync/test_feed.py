"""Generated from tests/behaviour/_async/test_feed.py by tools/unasync.py: edit that file. The durable feed: each change once and in order, from where the reader stopped."""

from __future__ import annotations

import datetime as dt

import pytest

import plait
from plait import Session, Sessions, Change
from tests.behaviour.values import note


def read(feed: Session | Sessions, after: str | None = None, limit: int = 256) -> list[Change]:
    """All changes there are after a cursor."""
    found: list[Change] = []
    while True:
        page = feed.changes(after=after, limit=limit)
        found += page.changes
        after = page.cursor
        if not page.more:
            return found


def test_each_change_comes_once_in_order_with_what_there_is_now(chat: Session) -> None:
    chat.append_many([note("a"), note("b"), note("c")])
    chat.update(note("a", "new"))
    chat.delete(["b", "absent"])
    chat.checkout("a")
    changes = read(chat)
    assert [(change.version, change.kind, change.ids) for change in changes] == [
        (1, "append", ("a",)),
        (3, "append", ("c",)),
        (4, "update", ("a",)),
        (5, "delete", ("b",)),
        (6, "checkout", ("a",)),
    ]
    assert changes[0].message is not None and changes[0].message.text == "new"
    assert changes[1].parent_id == "a"
    for limit in (1, 2, 3):
        assert [change.version for change in read(chat, limit=limit)] == [1, 3, 4, 5, 6]
    for change in changes:
        rest = read(chat, change.cursor)
        assert [later.version for later in rest] == [v for v in (1, 3, 4, 5, 6) if v > (change.version or 0)]
    assert read(chat, chat.cursor()) == []


def test_a_reader_follows_over_clear_delete_and_a_new_life(sessions: Sessions, chat: Session) -> None:
    chat.append(note("a"))
    mark = chat.cursor()
    chat.append(note("gone"))
    chat.clear()
    chat.append(note("b"))
    sessions.delete("chat")
    sessions.session("chat").append(note("c"))
    assert [change.kind for change in read(chat, mark)] == ["clear", "delete session", "append"]


def test_cursors_of_anything_else_are_refused(sessions: Sessions, chat: Session) -> None:
    """B-023"""
    chat.append(note("a"))
    other = sessions.session("other")
    for wrong in ("", "nonsense", "é", other.cursor(), sessions.cursor()):
        with pytest.raises(plait.UsageError):
            chat.changes(after=wrong)
    for wrong in ("", "nonsense", chat.cursor(), sessions.scoped("x").cursor()):
        with pytest.raises(plait.UsageError):
            sessions.changes(after=wrong)


def test_a_cursor_older_than_what_was_pruned_says_so(sessions: Sessions, chat: Session) -> None:
    chat.append(note("a"))
    old = chat.cursor()
    for n in range(5):
        chat.update(note("a", str(n)))
    late = chat.cursor()
    assert sessions.prune_changes(max_age=dt.timedelta(days=1)) == 0
    assert sessions.prune_changes(max_count=2) == 3
    with pytest.raises(plait.CursorExpiredError):
        chat.changes(after=old)
    assert read(chat, late) == []
    assert [change.kind for change in read(chat, limit=1)] == ["append", "update", "update"]
    with pytest.raises(plait.UsageError):
        sessions.prune_changes()


def test_a_scope_hears_of_its_own_sessions_only(sessions: Sessions, chat: Session) -> None:
    """B-103"""
    sessions.scoped("other").session("chat").append(note("theirs"))
    chat.append(note("a"))
    sessions.session("second").append(note("b"))
    assert [(change.session_id, change.version) for change in read(sessions)] == [("chat", 1), ("second", 1)]
    mark = sessions.cursor()
    sessions.delete("second")
    assert [(change.session_id, change.kind) for change in read(sessions, mark)] == [("second", "delete session")]


def test_watching_goes_on_with_what_comes(chat: Session) -> None:
    chat.append(note("a"))
    seen: list[str] = []
    for change in chat.watch():
        seen += change.ids
        if len(seen) == 1:
            chat.append(note("b"))
        else:
            break
    assert seen == ["a", "b"]


def test_watching_ends_when_the_store_is_closed(sessions: Sessions, chat: Session) -> None:
    chat.append(note("a"))
    for _ in chat.watch():
        sessions.close()
    with pytest.raises(plait.ClosedError):
        chat.changes()
