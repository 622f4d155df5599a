"""A disk that fails at every step of every operation: whole or absent, and usable afterwards."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait.errors import StoreError, StoreUnavailableError
from plait.model import LEAF
from plait.store._sync.port import Store
from plait.testing.faults import FaultVFS, invariants
from plait.testing.faults.vfs import Call, Error
from tests.dose import dose
from tests.faults.operations import OPERATIONS, OTHER, everything, new, outcomes, ref
from tests.stores import open_sqlite

EVERY = dose(short=2, soak=100_000)
"""How many steps of an operation fail one by one before the rest is sampled."""


FAULTS: list[tuple[Call, Error, int, bool]] = [
    ("xWrite", "FULL", 1, False),
    ("xWrite", "FULL", 1_000_000, False),
    ("xWrite", "IOERR", 1_000_000, True),
    ("xSync", "IOERR", 1, False),
    ("xRead", "IOERR", 1, False),
    ("xSync", "IOERR", 1_000_000, False),
    ("xWrite", "IOERR", 1, False),
    ("xFileSize", "IOERR", 1, False),
    ("xTruncate", "IOERR", 1, False),
]


@pytest.mark.parametrize(("call", "error", "times", "torn"), FAULTS[: dose(short=2, soak=len(FAULTS))])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_whole_or_absent(
    name: str, call: Call, error: Error, times: int, torn: bool, vfs: FaultVFS, prepared: Path, tmp_path: Path
) -> None:
    before, after = outcomes(OPERATIONS[name], prepared, tmp_path)
    nth = 1
    while True:
        file = tmp_path / f"{nth}.db"
        shutil.copyfile(prepared, file)
        store = open_sqlite(file, durability="strict")
        store.get(ref(), "a")
        vfs.reset()
        vfs.fail(call, error=error, nth=nth, times=times, torn=torn)
        failed = attempt(store, OPERATIONS[name])
        fired = vfs.fired
        vfs.reset()
        found = everything(store)
        assert found == (before if failed else after), f"{'not undone' if failed else 'not all done'} at step {nth}"
        go_on(store, file, found)
        if not fired:
            break
        nth += 1 if nth < EVERY else nth // 2
    assert not failed
    assert nth > 1 or call not in ("xWrite", "xSync")


def attempt(store: Store, operation: Callable[[Store], Any]) -> bool:
    """Whether the operation failed; with an error of plait's, as it must."""
    try:
        operation(store)
    except StoreError:
        return True
    return False


def go_on(store: Store, file: Path, found: Any) -> None:
    """Hold that the store works on without being reopened, and that its file is sound."""
    store.append(ref("afterwards"), [new("one"), new("two")], parent=LEAF)
    assert store.delete(ref("afterwards"), ["one"]) == ["one"]
    store.close()
    assert invariants(file) == []
    reopened = open_sqlite(file)
    *told, sessions = everything(reopened)
    assert told == found[:-1] and sessions == sorted([*found[-1], "afterwards"])
    assert reopened.get(ref("afterwards"), "two") is not None
    reopened.close()
    file.unlink()


def test_reads_fail_typed_and_work_again(vfs: FaultVFS, prepared: Path, tmp_path: Path) -> None:
    file = tmp_path / "reads.db"
    shutil.copyfile(prepared, file)
    failures = 0
    for nth in range(1, 10):
        store = open_sqlite(file)
        vfs.fail("xRead", nth=nth)
        failures += attempt(store, everything)
        vfs.reset()
        assert store.get(ref(), "a") is not None
        store.close()
    assert failures


@pytest.mark.parametrize("durability", ["strict", "process"])
def test_a_power_cut_keeps_what_was_acknowledged_at_strict(
    durability: str, vfs: FaultVFS, prepared: Path, tmp_path: Path
) -> None:
    file = tmp_path / "power.db"
    shutil.copyfile(prepared, file)
    store = open_sqlite(file, durability=durability)
    acknowledged: list[str] = []
    cuts: list[tuple[Path, int]] = []

    def cut() -> None:
        folder = tmp_path / f"cut{len(cuts)}"
        folder.mkdir()
        cuts.append((folder, len(acknowledged)))
        vfs.power_cut(folder, seed=len(cuts))

    for n in range(dose(short=40, soak=300)):
        for call in ("xWrite", "xSync"):
            vfs.on(call, cut, nth=1 + n % 7)
        store.append(ref("new"), [new(f"m{n}", "w" * (n * 700 % 20_000), OTHER if n % 3 == 0 else None)], parent=LEAF)
        acknowledged.append(f"m{n}")
        vfs.reset()
    store.close()
    assert len(cuts) > 20
    kept = [survivors(folder / "power.db", [f"m{n}" for n in range(len(acknowledged) + 1)]) for folder, _ in cuts]
    for (_, count), found in zip(cuts, kept, strict=True):
        assert found == [f"m{n}" for n in range(len(found))], "not a prefix"
        assert len(found) >= count or durability != "strict"


@pytest.mark.parametrize("durability", ["process", "relaxed"])
def test_a_power_cut_keeps_what_was_flushed(durability: str, vfs: FaultVFS, prepared: Path, tmp_path: Path) -> None:
    file = tmp_path / "power.db"
    shutil.copyfile(prepared, file)
    store = open_sqlite(file, durability=durability)
    flushed: list[str] = []
    cuts: list[tuple[Path, int]] = []
    for n in range(dose(short=3, soak=10)):
        for m in range(400):  # enough for checkpoints, and for the log to begin anew
            flushed.append(f"m{n}-{m}")
            store.append(ref("new"), [new(flushed[-1], "w" * (m * 700 % 20_000))], parent=LEAF)
        store.flush()
        folder = tmp_path / f"cut{n}"
        folder.mkdir()
        cuts.append((folder, len(flushed)))
        vfs.power_cut(folder, seed=n)
    store.close()
    for folder, count in cuts:
        assert survivors(folder / "power.db", flushed[:count]) == flushed[:count]


def survivors(file: Path, ids: list[str]) -> list[str]:
    """Which messages a file holds, that must be sound and open as always."""
    assert invariants(file) == []
    store = open_sqlite(file)
    found = [id for id in ids if store.get(ref("new"), id) is not None]
    store.append(ref("new"), [new("after the cut")], parent=LEAF)
    store.close()
    return found


def test_a_doctor_that_cannot_mend_says_why(vfs: FaultVFS, prepared: Path, tmp_path: Path) -> None:
    """A full disk undoes the whole transaction, so that nothing is left to be rolled back."""
    damaged = apsw.Connection(str(prepared))
    damaged.execute("DELETE FROM activity; DELETE FROM message_id")
    damaged.close()
    told: list[str] = []
    nth, fired = 0, True
    while fired:
        nth += 1
        file = Path(shutil.copy(prepared, tmp_path / f"{nth}.db"))
        store = open_sqlite(file)
        store.get(ref(), "a")
        vfs.reset()
        vfs.fail("xWrite", error="FULL", nth=nth, times=1_000_000)
        try:
            store.doctor(fix=True)
        except StoreUnavailableError as error:
            told.append(str(error))
        fired = bool(vfs.fired)
        vfs.reset()
        store.doctor(fix=True)
        assert store.doctor(fix=True) == []
        store.close()
    assert len(told) > 1 and all("the disk is full" in text for text in told)


def test_a_store_in_memory_goes_on_after_a_backup_that_failed(vfs: FaultVFS, tmp_path: Path) -> None:
    with plait.open(":memory:") as sessions:
        sessions.session("c").append(plait.user("a"))
        vfs.fail("xWrite", error="FULL", times=1_000_000)
        with pytest.raises(StoreUnavailableError, match="the disk is full"):
            sessions.backup(tmp_path / "backup.db")
        vfs.reset()
        assert len(list(sessions.session("c").history())) == 1
        sessions.backup(tmp_path / "backup.db")
    assert [path.name for path in tmp_path.iterdir()] == ["backup.db"]


PAGES = [new(f"m{n}", "w" * 1_000_000) for n in range(20)]
"""Enough for two checkpoints."""


@pytest.fixture
def unhandled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What threads have raised that nobody caught."""
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    return raised


def test_a_checkpoint_that_cannot_open_the_file_is_made_up_for(
    vfs: FaultVFS, tmp_path: Path, unhandled: list[object]
) -> None:
    file = tmp_path / "a.db"
    store = open_sqlite(file)
    store.append(ref(), PAGES[:1], parent=LEAF)
    vfs.fail("xOpen", error="CANTOPEN", suffix=".db", times=1_000_000)
    for message in PAGES[1:10]:
        store.append(ref(), [message], parent=LEAF)
    checkpoint(store).join()
    assert vfs.fired and not unhandled
    before = file.stat().st_size
    vfs.reset()
    for message in PAGES[10:]:
        store.append(ref(), [message], parent=LEAF)
    checkpoint(store).join()
    assert file.stat().st_size > before + 10_000_000
    store.close()
    assert not unhandled and invariants(file) == []


def test_a_checkpoint_for_which_there_is_no_thread_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "plait-checkpoint":
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    store = open_sqlite(tmp_path / "a.db")
    for message in PAGES[:10]:
        assert store.append(ref(), [message], parent=LEAF)[0].inserted
    store.close()
    assert refused and invariants(tmp_path / "a.db") == []


def checkpoint(store: Any) -> threading.Thread:
    """The thread of the newest checkpoint."""
    thread = store.driver._writer._checkpoint_thread
    assert isinstance(thread, threading.Thread)
    return thread
