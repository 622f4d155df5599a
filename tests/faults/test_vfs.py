"""The failing disk itself: it fails where told to, and its power cuts lose what they should and no more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from plait.testing.faults import FaultVFS
from plait.testing.faults.vfs import Call, Error


@pytest.fixture
def table(vfs: FaultVFS, tmp_path: Path) -> Iterator[apsw.Connection]:
    """A database with one table, that syncs at every commit."""
    connection = apsw.Connection(str(tmp_path / "a.db"))
    connection.execute("PRAGMA journal_mode = wal").fetchall()
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (x)")
    yield connection
    vfs.reset()
    connection.close()


def count(connection: apsw.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        ("xWrite", "FULL", apsw.SQLITE_FULL),
        ("xWrite", "IOERR", apsw.SQLITE_IOERR_WRITE),
        ("xSync", "IOERR", apsw.SQLITE_IOERR_FSYNC),
        ("xWrite", "NOMEM", apsw.SQLITE_NOMEM),
    ],
)
def test_a_call_fails_once_and_then_works(
    vfs: FaultVFS, table: apsw.Connection, call: Call, error: Error, code: int
) -> None:
    vfs.fail(call, error=error)
    with pytest.raises((apsw.Error, MemoryError)) as caught:
        table.execute("INSERT INTO t VALUES (1)")
    assert getattr(caught.value, "extendedresult", code) == code
    assert vfs.fired == 1
    table.execute("INSERT INTO t VALUES (2)")
    assert count(table) == 1


def test_the_nth_call_fails_as_often_as_told(vfs: FaultVFS, table: apsw.Connection) -> None:
    vfs.fail("xSync", nth=2, times=2)
    failed: list[int] = []
    for n in range(5):
        try:
            table.execute("INSERT INTO t VALUES (?)", (n,))
        except apsw.IOError:
            failed.append(n)
    assert failed == [1, 2]
    assert count(table) == 3


def test_a_suffix_chooses_the_file(vfs: FaultVFS, table: apsw.Connection) -> None:
    vfs.fail("xWrite", suffix=".db")
    table.execute("INSERT INTO t VALUES (1)")  # goes to the log
    with pytest.raises(apsw.IOError):
        table.execute("PRAGMA wal_checkpoint").fetchall()


def test_an_action_runs_at_its_call(vfs: FaultVFS, table: apsw.Connection) -> None:
    seen: list[int] = []
    vfs.on("xSync", lambda: seen.append(vfs.counts["xWrite"]))
    before = vfs.counts["xWrite"]
    table.execute("INSERT INTO t VALUES (1)")
    assert seen == [vfs.counts["xWrite"]]
    assert vfs.counts["xWrite"] > before


def test_actions_of_several_threads_run_one_after_another(vfs: FaultVFS, tmp_path: Path) -> None:
    running: list[int] = []
    most = 0

    def act() -> None:
        nonlocal most
        running.append(1)
        most = max(most, len(running))
        time.sleep(0.005)
        running.pop()

    def write(n: int) -> None:
        table = apsw.Connection(str(tmp_path / f"{n}.db"))
        table.execute("CREATE TABLE t (a)")
        table.close()

    vfs.on("xWrite", act, times=1_000)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    assert most == 1


def test_reset_forgets_what_has_not_happened(vfs: FaultVFS, table: apsw.Connection) -> None:
    vfs.fail("xWrite", nth=1)
    vfs.reset()
    table.execute("INSERT INTO t VALUES (1)")
    assert (vfs.fired, count(table)) == (0, 1)


def test_reads_and_openings_fail_too(vfs: FaultVFS, table: apsw.Connection, tmp_path: Path) -> None:
    table.execute("INSERT INTO t VALUES (1)")
    table.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    vfs.fail("xOpen")
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection(str(tmp_path / "a.db"))
    other = apsw.Connection(str(tmp_path / "a.db"))
    vfs.fail("xRead", suffix=".db", times=10)
    with pytest.raises(apsw.IOError):
        other.execute("SELECT * FROM t").fetchall()
    vfs.reset()
    assert count(other) == 1
    other.close()


def test_a_power_cut_keeps_what_was_synced(vfs: FaultVFS, table: apsw.Connection, tmp_path: Path) -> None:
    table.execute("INSERT INTO t VALUES (1)")
    table.execute("PRAGMA synchronous = NORMAL")  # commits no longer sync the log
    for n in range(10):
        table.execute("INSERT INTO t VALUES (?)", (n,))
    counts = {count_after_power_cut(vfs, tmp_path / f"cut{seed}", seed) for seed in range(30)}
    assert min(counts) == 1
    assert max(counts) > 1
    assert count(table) == 11


def count_after_power_cut(vfs: FaultVFS, folder: Path, seed: int) -> int:
    folder.mkdir()
    vfs.power_cut(folder, seed=seed)
    copy = apsw.Connection(str(folder / "a.db"))
    assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    rows = count(copy)
    copy.close()
    return rows


def test_outside_the_block_the_default_disk_is_back(tmp_path: Path) -> None:
    before = apsw.vfs_names()[0]
    with FaultVFS() as vfs:
        assert apsw.vfs_names()[0] == vfs.name
    assert apsw.vfs_names()[0] == before
