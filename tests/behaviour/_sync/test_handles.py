"""Generated from tests/behaviour/_async/test_handles.py by tools/unasync.py: edit that file. Handles: cheap, cached, bound to one life of a session; and stores: closed once, clear about it."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import (
    Session,
    Sessions,
    ClosedError,
    PlaitError,
    SessionDeletedError,
    StoreUnavailableError,
    UsageError,
)
from tests.behaviour._sync.helpers import chain, ids_of, readable
from tests.behaviour.values import note
from tests.dose import dose


def test_the_same_handle_comes_back_while_one_is_alive(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    assert sessions.session("chat") is chat
    assert sessions.scoped("a").session("chat") is not chat
    assert sessions.scoped("a").session("chat").id == "chat"
    a = sessions.scoped("a").session("chat")
    assert sessions.scoped("a").session("chat") is a
    assert sessions.session("other") is not chat


def test_a_handle_nobody_holds_is_let_go(sessions: Sessions) -> None:
    """B-040: no registry keeps every id that was ever seen."""
    for n in range(2000):
        sessions.session(f"s{n}").leaf()
    gc.collect()
    assert len(sessions._shared.handles) <= 1


def test_making_a_handle_reads_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "absent.db"
    sessions = plait.open(file)
    chat = sessions.session("chat")
    assert chat.id == "chat" and "chat" in repr(chat)
    assert not file.exists()
    sessions.close()
    assert not file.exists()


def test_the_default_session_is_one_session_with_a_reserved_id(sessions: Sessions) -> None:
    default = sessions.session()
    assert sessions.session(None) is default and sessions.session(default.id) is default
    default.append(note("m"))
    assert default.id != ""
    with pytest.raises(UsageError):
        sessions.session("")
    assert [info.id for info in sessions.all()] == [default.id]
    info = sessions.get(default.id)
    assert info is not None and info.totals.messages == 1
    assert ids_of(sessions.scoped("a").session().history()) == []
    sessions.rename(default.id, "mine")
    assert sessions.delete(default.id)
    assert ids_of(sessions.session().history()) == []


def test_a_handle_of_the_next_life_outlasts_the_delete_of_the_one_before(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes the session anew before the deleting call is over has its one handle."""
    sessions.session("chat").append(note("m"))
    delete_session, kept = sessions.store.delete_session, list[Session]()

    def overtaken(*given: Any, **options: Any) -> bool:
        deleted = delete_session(*given, **options)
        kept.append(sessions.session("chat"))
        kept[0].append(note("next"))
        return deleted

    gc.collect()
    monkeypatch.setattr(sessions.store, "delete_session", overtaken)
    assert sessions.delete("chat")
    assert sessions.session("chat") is kept[0]


def test_a_deleted_session_has_a_fresh_handle(sessions: Sessions) -> None:
    held, met = sessions.session("held"), sessions.session("met")
    met.append(note("m"))
    assert sessions.delete("met")
    assert sessions.session("met") is not met and sessions.session("held") is held


ENDS: dict[str, Callable[[Sessions, Session], Any]] = {
    "delete": lambda sessions, chat: sessions.delete("chat"),
    "clear": lambda sessions, chat: sessions.session("chat").clear(),
}

WRITES: dict[str, Callable[[Session], Any]] = {
    "append": lambda chat: chat.append(note("late")),
    "append_many": lambda chat: chat.append_many([note("late"), note("later")]),
    "append known": lambda chat: chat.append(note("m0")),
    "update": lambda chat: chat.update(note("m0", "late")),
    "upsert": lambda chat: chat.upsert(note("m0", "late")),
    "delete": lambda chat: chat.delete("m0"),
    "clear": lambda chat: chat.clear(),
    "checkout": lambda chat: chat.checkout("m0"),
    "import": lambda chat: chat.import_message(note("late"), parent=None),
    "state": lambda chat: chat.update_state({"late": 1}),
    "fork": lambda chat: chat.fork("fork"),
}

READS: dict[str, Callable[[Session], Any]] = {
    "get": lambda chat: chat.get("m0"),
    "leaf": lambda chat: chat.leaf(),
    "newest": lambda chat: chat.newest(),
    "leaves": lambda chat: chat.leaves(),
    "roots": lambda chat: chat.roots(),
    "children": lambda chat: chat.children("m0"),
    "recent": lambda chat: chat.recent(count=1),
    "totals": lambda chat: chat.totals(),
    "info": lambda chat: chat.info(),
    "state": lambda chat: chat.state(),
}


@pytest.mark.parametrize("again", [False, True], ids=["gone", "made anew"])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("call", [*WRITES.items(), *READS.items()], ids=lambda item: item[0])
def test_a_handle_of_a_life_that_is_over_is_refused_and_touches_nothing(
    sessions: Sessions,
    reopened: Callable[[], Sessions],
    call: tuple[str, Callable[[Session], Any]],
    end: str,
    again: bool,
) -> None:
    """Lesson 15: late writers cannot bring deleted data back, nor reach the new session of that id."""
    late = sessions.session("chat")
    chain(late, 3)
    with reopened() as others:
        ENDS[end](others, late)
        if again:
            chain(others.session("chat"), 3, "new")
        before = [message.id for message in others.session("chat").everything()], others.get("chat")
        with pytest.raises(SessionDeletedError):
            call[1](late)
        assert (
            [message.id for message in others.session("chat").everything()],
            others.get("chat"),
        ) == before
        assert others.get("fork") is None


def test_a_fresh_handle_goes_on_after_another_program_deleted_the_session(
    sessions: Sessions, reopened: Callable[[], Sessions]
) -> None:
    """The remedy the error names must work, also while the dead handle is still held."""
    held = sessions.session("chat")
    chain(held, 3)
    with reopened() as others:
        others.delete("chat")
        with pytest.raises(SessionDeletedError, match="fresh handle"):
            held.append(note("late"))
        fresh = sessions.session("chat")
        fresh.append(note("anew"))
        assert ids_of(others.session("chat").history()) == ["anew"]
        with pytest.raises(SessionDeletedError):
            held.append(note("late"))


def test_the_handle_that_clears_goes_on(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    chain(chat, 3)
    chat.clear()
    chat.append(note("anew"))
    assert ids_of(sessions.session("chat").history()) == ["anew"]


def test_deleting_here_gives_a_fresh_handle_at_once(sessions: Sessions) -> None:
    held = sessions.session("chat")
    chain(held, 3)
    sessions.delete("chat")
    fresh = sessions.session("chat")
    assert fresh is not held
    fresh.append(note("anew"))
    with pytest.raises(SessionDeletedError):
        held.leaf()


def test_a_handle_that_never_met_its_session_binds_to_the_next_life(
    sessions: Sessions, reopened: Callable[[], Sessions]
) -> None:
    early = sessions.session("chat")
    assert early.leaf() is None
    with reopened() as others:
        chain(others.session("chat"), 2)
        assert ids_of(early.history()) == ["m0", "m1"]


SESSIONS_CALLS: dict[str, Callable[[Sessions], Any]] = {
    "open": lambda sessions: sessions.open(),
    "flush": lambda sessions: sessions.flush(),
    "create": lambda sessions: sessions.create("x"),
    "get_or_create": lambda sessions: sessions.get_or_create("x"),
    "get": lambda sessions: sessions.get("x"),
    "list": lambda sessions: sessions.list(),
    "rename": lambda sessions: sessions.rename("chat", "x"),
    "merge_metadata": lambda sessions: sessions.merge_metadata("chat", {"k": 1}),
    "pin": lambda sessions: sessions.pin("chat"),
    "delete": lambda sessions: sessions.delete("chat"),
    "retain": lambda sessions: sessions.retain(max_count=0),
    "put_attachment": lambda sessions: sessions.put_attachment(b"x", media_type="image/png"),
    "backup": lambda sessions: sessions.backup("never-written.db"),
    "doctor": lambda sessions: sessions.doctor(),
    "vacuum": lambda sessions: sessions.vacuum(),
}


@pytest.mark.parametrize("call", SESSIONS_CALLS.values(), ids=SESSIONS_CALLS)
def test_a_closed_store_says_so(sessions: Sessions, call: Callable[[Sessions], Any]) -> None:
    """B-041"""
    sessions.session("chat").append(note("m"))
    sessions.close()
    with pytest.raises(ClosedError):
        call(sessions)


@pytest.mark.parametrize("call", {**WRITES, **READS}.values(), ids={**WRITES, **READS})
def test_a_handle_of_a_closed_store_says_so(sessions: Sessions, call: Callable[[Session], Any]) -> None:
    """B-041"""
    chat = sessions.session("chat")
    chain(chat, 3)
    sessions.close()
    with pytest.raises(ClosedError):
        call(chat)
    with pytest.raises(ClosedError):
        ids_of(chat.history())
    with pytest.raises(ClosedError):
        ids_of(chat.everything())


def test_an_iterator_whose_store_is_closed_says_so(sessions: Sessions) -> None:
    chain(sessions.session("chat"), 700)
    with pytest.raises(ClosedError):
        for message in sessions.session("chat").history():
            if message.id == "m3":
                sessions.close()


def test_closing_and_opening_may_be_repeated(tmp_path: Path) -> None:
    """B-041"""
    sessions = plait.open(tmp_path / "a.db")
    sessions.close()
    sessions.close()
    sessions = plait.open(tmp_path / "a.db")
    sessions.open()
    sessions.open()
    sessions.session().append(note("m"))
    with sessions:
        pass
    sessions.close()
    with plait.open(tmp_path / "a.db") as again:
        assert ids_of(again.session().history()) == ["m"]


def test_many_stores_opened_and_closed_leave_no_file_open(tmp_path: Path) -> None:
    """B-041"""
    import os

    def once(n: int) -> None:
        with plait.open(tmp_path / "a.db", durability="process") as sessions:
            sessions.session("chat").append(note(f"m{n}"))
            assert readable(sessions.session("chat").leaf()).id == f"m{n}"

    once(0)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for n in range(1, dose(short=25, soak=1000)):
        once(n)
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert after <= before + 2


BAD_OPTIONS: dict[str, dict[str, Any]] = {
    "durability": {"durability": "eventually"},
    "journal_mode": {"journal_mode": "off"},
    "busy_timeout_s": {"busy_timeout_s": -1},
    "busy timeout that is no number": {"busy_timeout_s": float("nan")},
    "statement_timeout_s": {"statement_timeout_s": "long"},
    "no connection": {"max_connections": 0},
    "half a connection": {"max_connections": 1.5},
    "scope": {"scope": ("", "\ud800")},
}


@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_a_bad_option_is_refused_by_name_before_anything_is_made(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        plait.open(tmp_path / "a.db", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["", "a\0b", "mysql://u:secret@host/db", "postgres:/x://y", "http://u:secret@h/"])
def test_an_address_that_is_no_store_is_refused_without_telling_secrets(url: str) -> None:
    """B-108"""
    with pytest.raises(PlaitError) as caught:
        with plait.open(url):
            pass
    assert "secret" not in str(caught.value) and "secret" not in repr(caught.value)


def test_a_place_that_cannot_be_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "a.db"):
        with pytest.raises(StoreUnavailableError, match=str(tmp_path)):
            with plait.open(path):
                pass
    with pytest.raises(StoreUnavailableError, match="does not exist"):
        with plait.open(tmp_path / "absent.db", read_only=True):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_url_names_the_same_file_as_a_path(tmp_path: Path) -> None:
    with plait.open(f"sqlite:///{tmp_path}/a.db") as sessions:
        sessions.session().append(note("m"))
    with plait.open(tmp_path / "a.db") as sessions:
        assert ids_of(sessions.session().history()) == ["m"]


def test_a_store_in_memory_is_gone_when_it_is_closed() -> None:
    with plait.open(":memory:") as sessions:
        chain(sessions.session("chat"), 60)
        sessions.session("chat").fork("fork")
        assert len(ids_of(sessions.session("fork").history())) == 60
        assert sessions.doctor() == []
        sessions.vacuum()
        sessions.flush()
    with plait.open(":memory:") as sessions:
        assert [info for info in sessions.all()] == []


def test_any_store_serves_the_faces() -> None:
    """`plait.Sessions(store)` takes any implementation; what it lacks is refused by name."""
    from plait.testing._sync.model_store import ModelStore

    sessions = Sessions(ModelStore())
    chain(sessions.session("chat"), 3)
    assert ids_of(sessions.session("chat").history(newest_first=True)) == ["m2", "m1", "m0"]
    for ability in (
        (sessions.backup("x"), sessions.doctor(), sessions.vacuum())
        if inspect.iscoroutinefunction(sessions.flush)
        else ()
    ):
        with pytest.raises(plait.UnsupportedError):
            ability
