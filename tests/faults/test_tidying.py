"""What tidies up after an operation fails: that changes neither what was done nor what is said of it."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.diagnostics import tidying
from plait.errors import ConflictError, StoreBusyError, StoreUnavailableError
from plait.interchange.values import ImportEntry, Report, Transcript
from plait.store._sync import removing
from plait.store._sync import store as stores
from plait.store._sync.store import PlanStore
from plait.store.plans import attachments, removal
from plait.store.plans import stage as staging
from plait.testing.faults import FaultVFS, invariants
from tests.faults.operations import counted, sweep

IDS = [f"m{n}" for n in range(12)]
LEFT = ("SELECT count(*) FROM purge", "SELECT count(*) FROM removal WHERE state <> 0")
LOGGED = "is left to the next sweep"


def brought(id: str, *entries: str) -> Transcript:
    """A session that is to be imported: more messages of "c", or a new one."""
    at = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    listed = [ImportEntry(name, None, plait.user(name, id=name), None, at, n) for n, name in enumerate(entries, 1)]
    return Transcript(id, "plait", iter(listed), Report(), count=len(listed))


CALLS: dict[str, Callable[[plait.Sessions], Any]] = {
    "delete a session": lambda sessions: sessions.delete("c"),
    "clear": lambda sessions: sessions.session("c").clear(),
    "delete": lambda sessions: sessions.session("c").delete(IDS[3:5]),
    "delete many": lambda sessions: sessions.session("c").delete(IDS[1:10]),
    "fork": lambda sessions: sessions.session("c").fork("copy"),
    "import": lambda sessions: sessions.import_transcript(brought("new", "a", "b")),
    "import into a session": lambda sessions: sessions.import_transcript(brought("c", "a", "b")),
    "go on in a new session": lambda sessions: sessions.compact_and_split("c", "in short", new_session_id="new"),
}
REMOVING = {"delete a session", "clear", "delete many"}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    file = tmp_path / "filled.db"
    with plait.open(file) as sessions:
        chat = sessions.session("c")
        chat.append_many([plait.user("word " * 900, id=id) for id in IDS])
        chat.context.add("memory")
        chat.context.replace("memory", "a block " * 500)
        sessions.session("other").append_many([plait.user("short"), plait.user("and short")])
    return file


@pytest.fixture
def bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long operations have many transactions."""
    monkeypatch.setattr(stores, "PURGE_ROWS", 2)
    monkeypatch.setattr(stores, "SHARE", 100)
    monkeypatch.setattr(removal, "ROWS", 3)
    monkeypatch.setattr(removal, "PART", 2)


def seen(sessions: plait.Sessions) -> Any:
    """What there is of each session."""
    return sorted(
        (info.id, info.totals.messages, [message.id for message in sessions.session(info.id).transcript()])
        for info in sessions.all()
    )


def outcome(file: Path, name: str) -> tuple[Any, Any, list[str]]:
    """What there is before and after a call on which nothing fails, and what subscribers are told."""
    told: list[str] = []
    with plait.open(shutil.copy(file, file.with_name("fine.db"))) as sessions:
        before = seen(sessions)
        sessions.subscribe(lambda change: told.append(change.kind))
        CALLS[name](sessions)
        return before, [(id, *rest) for id, *rest in seen(sessions)], told


@pytest.mark.usefixtures("bit_by_bit")
@pytest.mark.parametrize("name", CALLS)
def test_a_full_disk_leaves_nothing_changed_or_all_done_and_told(
    name: str, vfs: FaultVFS, filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "plait")
    before, after, all_told = outcome(filled, name)
    done_but_untidy = nth = 0
    fired = True
    while fired:
        nth += 1
        caplog.clear()
        told: list[str] = []
        file = Path(shutil.copy(filled, tmp_path / f"{nth}.db"))
        with plait.open(file) as sessions:
            assert seen(sessions) == before
            stop = sessions.subscribe(lambda change, told=told: told.append(change.kind))  # type: ignore[misc]
            vfs.reset()
            vfs.fail("xWrite", error="FULL", nth=nth, times=1_000_000)
            error = attempt(sessions, name)
            fired = bool(vfs.fired)
            vfs.reset()
            stop()
            if error is None:
                assert told == all_told and made_alike(seen(sessions), after), f"done at write {nth}"
                done_but_untidy += LOGGED in caplog.text
            else:
                assert told == [] and seen(sessions) == before, f"failed at write {nth}"
                assert "the disk is full" in str(error) and "nothing was written" not in str(error)
            sessions.delete("other")  # any later removal takes up what was left
        assert [counted(file, question) for question in LEFT] == [0, 0]
        sweep(file)
        assert invariants(file) == []
    assert bool(done_but_untidy) == (name in REMOVING)


def made_alike(found: list[Any], wanted: list[Any]) -> bool:
    """Whether two stores hold the same, but for ids that were made."""
    return [(id, count, [name for name in ids if len(name) < 4]) for id, count, ids in found] == [
        (id, count, [name for name in ids if len(name) < 4]) for id, count, ids in wanted
    ]


def attempt(sessions: plait.Sessions, name: str) -> StoreUnavailableError | None:
    try:
        CALLS[name](sessions)
    except StoreUnavailableError as error:
        return error
    return None


def refuse(*_args: Any, **_options: Any) -> Any:
    raise ConflictError("what went wrong")


def fail(*_args: Any, **_options: Any) -> Any:
    raise StoreBusyError("what went wrong in tidying")


COPY = "copy"
WRONG: dict[str, tuple[object, str]] = {
    "fork": (staging, "publish_copy"),
    "import": (PlanStore, "publish"),
    "import into a session": (PlanStore, "merge"),
    "go on in a new session": (PlanStore, "publish"),
    "delete many": (removal, "take_away"),
    COPY: (PlanStore, "merge"),
}


@pytest.fixture
def sessions(filled: Path) -> Iterator[plait.Sessions]:
    with plait.open(filled) as sessions:
        yield sessions


def do(name: str, sessions: plait.Sessions) -> Any:
    """One of the calls, or a copy into a store that has the session already."""
    if name != COPY:
        return CALLS[name](sessions)
    with plait.open(":memory:") as copy:
        copy.session("c").append(plait.user("word " * 900, id=IDS[0]))
        return copy.copy_from(sessions, "c")


@pytest.mark.usefixtures("bit_by_bit")
@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_not_replaced_by_one_of_tidying_up(
    name: str, sessions: plait.Sessions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(*WRONG[name], refuse)
    monkeypatch.setattr(PlanStore, "discard", fail)
    monkeypatch.setattr(removing, "purge", fail)
    with pytest.raises(ConflictError, match=r"what went wrong$"):
        do(name, sessions)
    assert LOGGED in caplog.text


@pytest.mark.parametrize("name", ["import into a session", COPY])
def test_what_was_merged_is_not_undone_by_a_stage_that_cannot_be_given_up(
    name: str, sessions: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlanStore, "discard", fail)
    assert do(name, sessions).inserted == (len(IDS) - 1 if name == COPY else 2)


@pytest.mark.parametrize("left", ["abandoned", "lapsed_uploads"])
def test_what_others_left_keeps_nobody_from_writing(
    left: str, sessions: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "abandoned", fail)
    monkeypatch.setattr(attachments, "sweep", fail)
    if left == "abandoned":
        assert sessions.session("c").fork("copy").totals().messages == len(IDS)
    else:
        assert sessions.put_attachment(b"payload", media_type="image/png").size == 7


def test_a_compaction_stands_though_its_claim_cannot_be_given_back(
    sessions: plait.Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = sessions.session("c")
    chat.on_compaction(lambda _messages: plait.Summary("in short", IDS[0], IDS[5]))
    monkeypatch.setattr(PlanStore, "release_compaction", fail)
    assert chat.compact().overlay is not None


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupt_goes_out(signal: type[BaseException]) -> None:
    with pytest.raises(signal), tidying("this"):
        raise signal


def test_what_is_removed_keeps_nobody_long_who_removes_something_else(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = "SELECT count(*) FROM message"
    monkeypatch.setattr(stores, "PURGE_ROWS", 1)
    with plait.open(filled) as sessions:
        with monkeypatch.context() as patch:
            patch.setattr(PlanStore, "_tidy", fail)
            with pytest.raises(StoreBusyError):
                sessions.session("c").clear()
        assert counted(filled, rows) == len(IDS) + 2
        assert sessions.delete("other")
        assert counted(filled, rows) == len(IDS) - stores.SHARE
        sessions.vacuum()
    assert counted(filled, rows) == 0
    assert invariants(filled) == []
