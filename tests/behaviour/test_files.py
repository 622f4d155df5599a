"""Files as the world keeps them: read-only folders, other journal modes, long logs, backups, locked databases."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait.errors import StoreBusyError
from plait.store._sync.store import PlanStore
from plait.store.sqlite.connection import Settings, open_reader
from plait.store.sqlite.driver import SQLiteDriver
from plait.store.sqlite.writer import CHECKPOINT_IDLE_PAGES
from plait.testing.faults import FaultVFS, invariants
from tests.behaviour import programs
from tests.behaviour.programs import finished, run, start
from tests.behaviour.values import noise, note, picture
from tests.dose import dose


@pytest.mark.parametrize("name", ["a b.db", "50%23.db", "what?.db", "#1.db", "ä€.db"])
def test_a_file_that_may_not_be_locked_is_found_under_any_name(tmp_path: Path, name: str) -> None:
    """It is opened by a URI, in which these characters mean something."""
    with plait.open(tmp_path / name) as sessions:
        sessions.session("chat").append(note("m"))
    connection = open_reader(Settings(str(tmp_path / name), immutable=True))
    assert connection.execute("SELECT count(*) FROM message").fetchall() == [(1,)]
    connection.close()


READER = f"""
plait.open(":memory:").open()
path = sys.argv[1]
{programs.AS_NOBODY}
assert not os.access(os.path.dirname(path), os.W_OK)
def read(**options):
    with plait.open(path, **options) as sessions:
        return [m.id for m in sessions.session("chat").history()]
"""


def test_a_store_is_read_where_nothing_may_be_written(folder: Path) -> None:
    """Lesson 14: reading needs no write permission, neither on the file nor on its folder."""
    path = folder / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append_many([note("a"), picture("p", noise(10_000)), note("big", "x" * 3_000_000)])
    before = path.read_bytes()
    path.chmod(0o444)
    folder.chmod(0o555)
    program = """
assert read(read_only=True) == ["a", "p", "big"]
with plait.open(path, read_only=True) as sessions:
    assert sessions.doctor() == []
    assert [info.id for info in sessions.all()] == ["chat"]
    assert len(b"".join(sessions.session("chat").read_attachment("p"))) == 10_000
    for write in (lambda: sessions.session("chat").append(note("n")), lambda: sessions.delete("chat"), lambda: sessions.vacuum(), lambda: sessions.create("x"), lambda: sessions.session("chat").update_state({"k": 1})):
        try:
            write()
        except plait.StoreUnavailableError as error:
            assert "read" in str(error), error
        else:
            raise AssertionError("written")
try:
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("n"))
except plait.StoreUnavailableError as error:
    assert "permission" in str(error) or "read" in str(error), error
else:
    raise AssertionError("written")
"""
    run(READER + program, path)
    assert path.read_bytes() == before
    assert [item.name for item in folder.iterdir()] == ["a.db"]


def test_a_store_with_a_living_writer_is_read_where_nothing_may_be_written(folder: Path) -> None:
    path = folder / "a.db"
    with plait.open(path, durability="process") as sessions:
        sessions.session("chat").append(note("a"))
        for item in folder.iterdir():
            item.chmod(0o444)
        folder.chmod(0o555)
        program = """
assert read(read_only=True) == ["a"]
with plait.open(path, read_only=True) as sessions:
    for line in sys.stdin:
        print(*[m.id for m in sessions.session("chat").history()], flush=True)
"""
        reader = start(READER + program, path)
        assert reader.stdin is not None and reader.stdout is not None
        reader.stdin.write("read\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "a\n"
        sessions.session("chat").append(note("b"))
        reader.stdin.write("read\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "a b\n"
        finished(reader)
        folder.chmod(0o755)


def test_a_log_that_cannot_be_read_is_named_and_not_left_out(folder: Path) -> None:
    """Never the older state of the file as if it were all."""
    path = folder / "a.db"
    program = "with plait.open(sys.argv[1], durability='process') as s:\n    s.session('chat').append(note('a'))\n    os.kill(os.getpid(), 9)\n"
    process = start(program, path)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    (folder / "a.db-shm").unlink()
    assert (folder / "a.db-wal").stat().st_size
    folder.chmod(0o555)
    run(
        READER
        + "try:\n    print(read(read_only=True))\nexcept plait.StoreUnavailableError as e:\n    assert '-wal' in str(e)\nelse:\n    raise AssertionError('read')\n",
        path,
    )
    folder.chmod(0o755)
    with plait.open(path, read_only=True) as sessions:
        assert [message.id for message in sessions.session("chat").history()] == ["a"]


def test_a_read_only_store_sees_what_others_write(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db", durability="process") as writer:
        writer.session("chat").append(note("a"))
        with plait.open(tmp_path / "a.db", read_only=True) as reader:
            writer.session("chat").append(note("b"))
            assert [message.id for message in reader.session("chat").history()] == ["a", "b"]
            with pytest.raises(plait.StoreUnavailableError, match="read-only"):
                reader.session("chat").append(note("c"))


# -- journal modes -------------------------------------------------------------


class WithoutSharedMemory:
    """A file as a network or container file system gives it: it cannot share memory, so there is no WAL."""

    def __init__(self, file: apsw.VFSFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        if name.startswith("xShm") or name in ("xFetch", "xUnfetch"):
            raise AttributeError(name)
        return getattr(self._file, name)


class NetworkVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("plait-network", "")

    def xOpen(self, name: Any, flags: Any) -> Any:
        return WithoutSharedMemory(apsw.VFSFile("", name, flags))


@pytest.fixture
def network_vfs() -> Iterator[str]:
    vfs = NetworkVFS()
    yield "plait-network"
    vfs.unregister()


def test_a_journal_mode_other_than_asked_for_is_reported_and_works(
    tmp_path: Path, network_vfs: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-114: the mode in force is read back, logged, and named by the doctor."""
    driver = SQLiteDriver(Settings(str(tmp_path / "a.db"), durability="process", vfs=network_vfs))
    with caplog.at_level(logging.WARNING, "plait"), plait.Sessions(PlanStore(driver)) as sessions:
        chat = sessions.session("chat")
        chat.append_many([note("a"), note("big", "x" * 3_000_000), picture("p", noise(10_000))])
        chat.fork("fork")
        assert [message.id for message in chat.history()] == ["a", "big", "p"]
        assert driver.journal_mode == "delete"
        assert [finding.kind for finding in sessions.doctor()] == ["journal mode"]
    assert "asked for journal mode wal" in caplog.text
    assert not (tmp_path / "a.db-wal").exists()
    assert invariants(tmp_path / "a.db") == []


def test_the_rollback_journal_can_be_asked_for(tmp_path: Path) -> None:
    """B-114: the documented mode for file systems without WAL, with several stores on one file."""
    path = tmp_path / "a.db"
    with plait.open(path, journal_mode="delete") as one, plait.open(path, journal_mode="delete") as other:
        threads = [
            threading.Thread(
                target=lambda store=store, n=n: [store.session("chat").append(note(f"{n}-{m}")) for m in range(20)]
            )
            for n, store in enumerate((one, other))
        ]
        for thread in threads:
            thread.start()
        for _ in range(20):
            list(one.session("chat").history())
        for thread in threads:
            thread.join()
        assert one.session("chat").totals().path_messages == 40
        assert one.doctor() == [] and one.store.driver.journal_mode == "delete"  # type: ignore[attr-defined]
    assert not (tmp_path / "a.db-wal").exists()
    with plait.open(path) as sessions:
        assert sessions.session("chat").totals().path_messages == 40


# -- durability ----------------------------------------------------------------


@pytest.mark.parametrize(("level", "synchronous"), [("strict", 3), ("process", 1), ("relaxed", 0)])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_each_level_of_durability_is_what_sqlite_is_told(
    tmp_path: Path, level: Any, synchronous: int, mode: Any
) -> None:
    with plait.open(tmp_path / "a.db", durability=level, journal_mode=mode) as sessions:
        sessions.session("chat").append(note("a"))
        connection = sessions.store.driver._writer.ready().connection  # type: ignore[attr-defined]
        assert connection.execute("PRAGMA synchronous").fetchall() == [(synchronous,)]
        assert connection.execute("PRAGMA journal_mode").fetchall() == [(mode,)]
        assert connection.execute("PRAGMA page_size").fetchall() == [(8192,)]


@pytest.mark.parametrize("level", ["strict", "process", "relaxed"])
def test_flush_syncs_the_log_at_every_level(tmp_path: Path, level: Any) -> None:
    with FaultVFS() as vfs, plait.open(tmp_path / "a.db", durability=level) as sessions:
        sessions.session("chat").append(note("a"))
        vfs.reset()
        sessions.flush()
        assert vfs.counts["xSync"] == 1
        sessions.flush()
        assert vfs.counts["xSync"] == 2


def test_flush_of_what_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.session("chat").append(note("a"))
    with plait.open(tmp_path / "a.db", read_only=True) as sessions:
        sessions.flush()
    with plait.open(":memory:") as sessions:
        sessions.flush()


def test_a_killed_process_loses_nothing_it_was_told_is_written(tmp_path: Path) -> None:
    for level in ("strict", "process"):
        path = tmp_path / f"{level}.db"
        program = "s = plait.open(sys.argv[1], durability=sys.argv[2])\nfor n in range(50):\n    s.session('chat').append(note(f'm{n}'))\nos.kill(os.getpid(), 9)\n"
        process = start(program, path, level)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        with plait.open(path) as sessions:
            assert sessions.session("chat").totals().path_messages == 50


# -- the log -------------------------------------------------------------------


def test_the_log_stays_bounded_while_readers_are_abandoned(tmp_path: Path) -> None:
    """B-033, B-110: an iterator nobody goes on with holds no snapshot, so the log can be reused."""
    import asyncio

    path, mib = tmp_path / "a.db", dose(short=100, soak=1000)
    with plait.open(path, durability="process") as sessions, plait.open(path, read_only=True) as other:
        chat = sessions.session("chat")
        chat.append_many([note(f"m{n}") for n in range(700)])
        abandoned = [
            iter(chat.history()),
            iter(other.session("chat").history(newest_first=True)),
            iter(other.session("chat").everything()),
        ]
        for iterator in abandoned:
            next(iterator)

        async def leave_one() -> Any:
            kept = plait.open_async(path, read_only=True)
            iterator = aiter(kept.session("chat").history())
            await anext(iterator)
            return kept, iterator

        loop = asyncio.new_event_loop()
        kept, iterator = loop.run_until_complete(leave_one())
        largest = 0
        for n in range(mib):
            chat.append(note(f"big{n}", "x" * (1 << 20)))
            largest = max(largest, (tmp_path / "a.db-wal").stat().st_size)
        assert largest < 80 << 20
        assert largest < (mib << 20) // 2 + (16 << 20)
        for left in abandoned:
            assert sum(1 for _ in left) >= 699
        loop.run_until_complete(iterator.aclose())
        loop.run_until_complete(kept.close())
        loop.close()


# -- busy ----------------------------------------------------------------------


def test_a_database_locked_past_the_limit_is_a_typed_error_that_may_be_retried(tmp_path: Path) -> None:
    """B-027: reads go on meanwhile, nothing is written by half, and the retry succeeds."""
    path = tmp_path / "a.db"
    with plait.open(path, durability="process", busy_timeout_s=0.05) as sessions:
        chat = sessions.session("chat")
        chat.append(note("a"))
        blocker = apsw.Connection(str(path))
        blocker.execute("BEGIN IMMEDIATE")
        for write in (
            lambda: chat.append(note("b")),
            lambda: chat.delete("a"),
            lambda: sessions.create("x"),
            lambda: chat.fork("fork"),
        ):
            with pytest.raises(plait.StoreBusyError, match="locked") as caught:
                write()
            assert caught.value.retryable
        assert [message.id for message in chat.history()] == ["a"]
        blocker.execute("ROLLBACK")
        blocker.close()
        assert chat.append(note("b")).inserted
        assert [info.id for info in sessions.all()] == ["chat"]


# -- backup --------------------------------------------------------------------


def test_a_backup_made_while_others_write_is_whole_and_self_contained(tmp_path: Path) -> None:
    """B-113: it opens elsewhere without side files, is consistent, and holds all that was committed before it."""
    path = tmp_path / "a.db"
    program = """
with plait.open(sys.argv[1], durability="process") as sessions:
    chat = sessions.session("chat")
    print("ready", flush=True)
    n = 0
    while not os.path.exists(sys.argv[1] + ".stop"):
        chat.append_many([note(f"{sys.argv[2]}-{n}-a"), note(f"{sys.argv[2]}-{n}-b", "x" * 20_000)])
        n += 1
"""
    with plait.open(path, durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append_many([note(f"m{n}", "x" * 5000) for n in range(2000)])
        chat.append(picture("p", noise(3_000_000)))
        writers = [start(program, path, n) for n in range(2)]
        for writer in writers:
            assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        for n in range(2):
            marker = chat.append(note(f"marker {n}"))
            copy = tmp_path / "elsewhere" / f"{n}.db"
            copy.parent.mkdir(exist_ok=True)
            sessions.backup(copy)
            assert os.listdir(copy.parent) == [copy.name]
            assert invariants(copy) == []
            with plait.open(copy) as backup:
                ids = [message.id for message in backup.session("chat").history()]
                assert marker.id in ids and len(backup.session("chat").leaves()) == 1
                for worker in range(2):
                    own = [id for id in ids if id.startswith(f"{worker}-")]
                    assert len(own) % 2 == 0
                assert len(b"".join(backup.session("chat").read_attachment("p"))) == 3_000_000
                assert backup.doctor() == []
            shutil.rmtree(copy.parent)
        Path(f"{path}.stop").touch()
        for writer in writers:
            finished(writer)


def test_a_backup_replaces_no_file_and_a_failed_one_leaves_none(tmp_path: Path) -> None:
    """B-113"""
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.session("chat").append(note("a"))
        (tmp_path / "taken").write_text("precious")
        with pytest.raises(plait.UsageError, match="exists already"):
            sessions.backup(tmp_path / "taken")
        with pytest.raises(plait.UsageError, match="exists already"):
            sessions.backup(tmp_path / "a.db")
        with pytest.raises(plait.PlaitError):
            sessions.backup(tmp_path / "absent" / "b.db")
        assert (tmp_path / "taken").read_text() == "precious"
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {"a.db", "a.db-wal", "a.db-shm", "taken"}


def test_a_backup_killed_in_the_middle_is_not_mistaken_for_one(tmp_path: Path) -> None:
    """B-113"""
    path = tmp_path / "a.db"
    with plait.open(path, durability="process") as sessions:
        sessions.session("chat").append_many([note(f"m{n}", "x" * 500_000) for n in range(40)])
    program = """
import apsw
class Killing(apsw.Connection):
    pass
original = os.link
os.link = lambda *args, **options: os.kill(os.getpid(), 9)
with plait.open(sys.argv[1]) as sessions:
    sessions.backup(sys.argv[2])
"""
    process = start(program, path, tmp_path / "b.db")
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "b.db").exists()
    with plait.open(path) as sessions:
        sessions.backup(tmp_path / "b.db")
    assert invariants(tmp_path / "b.db") == []


def test_a_vacuum_gives_space_back_and_a_purge_leaves_no_word(tmp_path: Path) -> None:
    path, word = tmp_path / "a.db", b"unmistakable-secret-word"
    with plait.open(path, durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append_many([note(f"m{n}", "x" * 100_000) for n in range(100)])
        chat.append(note("secret", word.decode()))
        chat.append(note("kept"))
        chat.delete([f"m{n}" for n in range(100)] + ["secret"])
        before = path.stat().st_size + Path(f"{path}-wal").stat().st_size
        sessions.vacuum(purge=True)
        assert path.stat().st_size < before // 4
        for name in os.listdir(tmp_path):
            assert word not in (tmp_path / name).read_bytes(), name
        assert [message.id for message in chat.history()] == ["kept"]
    assert invariants(path) == []


CHECKPOINTING = """
import fcntl, sys
with open(sys.argv[1] + "-shm", "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)  # as SQLite does while it moves the log into the file
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_a_purge_waits_for_a_checkpoint_of_another_process(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        sessions.session("chat").append(note("a"))
        command = [sys.executable, "-c", CHECKPOINTING, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None and other.stdout is not None
            assert other.stdout.readline() == "held\n"
            threading.Timer(0.2, other.stdin.close).start()
            sessions.vacuum(purge=True)
    with plait.open(path, busy_timeout_s=0.1) as sessions:
        sessions.session("chat").append(note("b"))
        command = [sys.executable, "-c", CHECKPOINTING, str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None and other.stdout is not None
            assert other.stdout.readline() == "held\n"
            sessions.vacuum()
            with pytest.raises(StoreBusyError):
                sessions.vacuum(purge=True)
            other.stdin.close()


def test_files_are_made_with_the_users_own_mask(tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        with plait.open(tmp_path / "a.db") as sessions:
            sessions.session("chat").append(note("a"))
            modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(mask)
    assert modes == {0o600}


def test_nothing_is_removed_by_opening_an_old_store(tmp_path: Path) -> None:
    """B-125, B-120: a store left alone for years is as it was."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        long_ago = dt.datetime(1999, 1, 1, tzinfo=dt.timezone.utc)
        sessions.session("chat").import_message(note("a"), parent=None, created_at=long_ago)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE session SET active_at = 1; UPDATE activity SET bucket = 0")
    connection.close()
    for _ in range(2):
        with plait.open(path) as sessions:
            assert [message.id for message in sessions.session("chat").history()] == ["a"]
            assert sessions.doctor(fix=True) == []
            assert len(list(sessions.all())) == 1


def test_the_writer_looks_after_the_log_each_time_it_has_grown(tmp_path: Path) -> None:
    """Once for each thousand pages, and also when the log has begun anew meanwhile."""
    with plait.open(tmp_path / "log.db", durability="process") as sessions:
        sessions.session("chat").append(plait.user("hello"))
        writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]
        asked: list[int] = []
        writer._checkpoint = lambda: asked.append(writer.wal_pages)
        try:
            for pages in (1001, 1300, 2001, 3, 500, 1001, 1200, 8, 1002):
                writer._note_pages(writer.writing.connection, "main", pages)
                writer._checkpoint_past(CHECKPOINT_IDLE_PAGES)
                if writer._checkpoint_thread is not None:
                    writer._checkpoint_thread.join()
        finally:
            del writer._checkpoint
        assert asked == [1001, 2001, 1001, 1002]


def test_a_link_to_a_store_is_the_store(tmp_path: Path) -> None:
    """Also its log, which lies beside the file and not beside the link."""
    (tmp_path / "data").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "data")
    (tmp_path / "link.db").symlink_to(tmp_path / "data" / "a.db")  # to what is not there yet
    for path in (tmp_path / "link.db", tmp_path / "way" / "a.db", tmp_path / "data" / "a.db"):
        with plait.open(path, durability="process") as sessions, plait.open(tmp_path / "link.db") as others:
            sessions.session("chat").append(note(str(path)))
            others.session("chat").append(note(f"{path}'s other"))
            with plait.open(tmp_path / "link.db", read_only=True) as readers:
                assert [m.id for m in readers.session("chat").history(newest_first=True)][1] == str(path)
    assert {item.name for item in tmp_path.iterdir()} == {"data", "way", "link.db"}
    assert [item.name for item in (tmp_path / "data").iterdir()] == ["a.db"]
    assert invariants(tmp_path / "data" / "a.db") == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read_only", [False, True])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, read_only: bool) -> None:
    """A pipe would be waited for until somebody writes into it."""
    os.mkfifo(tmp_path / "pipe")
    for path, words in (("pipe", "pipe"), (".", "folder"), ("absent/a.db", "absent"), ("/dev/null", "device")):
        with pytest.raises(plait.StoreUnavailableError, match=words):
            plait.open(tmp_path / path, read_only=read_only).open()
    assert [item.name for item in tmp_path.iterdir()] == ["pipe"]


def test_a_backup_where_files_have_one_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-114: a file system without hard links; and it still replaces nothing."""

    def link(_: str, path: str) -> None:
        if "late" in path:  # somebody makes it in between
            (tmp_path / "late.db").write_text("precious")
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.session("chat").append(note("a"))
        sessions.backup(tmp_path / "b.db")
        with pytest.raises(plait.UsageError, match="exists already"):
            sessions.backup(tmp_path / "late.db")
        with pytest.raises(plait.StoreUnavailableError, match="absent"):
            sessions.backup(tmp_path / "absent" / "b.db")
    assert (tmp_path / "late.db").read_text() == "precious"
    assert invariants(tmp_path / "b.db") == []
    assert not [item for item in tmp_path.iterdir() if "part" in item.name]


async def test_a_crowd_lets_the_log_grow_and_an_idle_writer_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after a batch the queue is empty, but its callers are about to come again: that is not idle."""
    moved = threading.Event()
    async with plait.open_async(tmp_path / "log.db") as sessions:
        writer: Any = sessions.store.driver._writer  # type: ignore[attr-defined]

        def grow(*_: object) -> int:
            writer.wal_pages += CHECKPOINT_IDLE_PAGES + 1
            return 0

        monkeypatch.setattr(writer, "_checkpoint", moved.set)
        monkeypatch.setattr(writer, "_note_pages", grow)
        await asyncio.gather(*(sessions.session(f"s{n}").append(note("a")) for n in range(5)))
        writer._checkpoint_past(writer.wal_pages)
        assert await asyncio.to_thread(moved.wait, 60)


def test_a_cursor_from_before_a_backup_was_put_back_is_refused_while_it_is_ahead(tmp_path: Path) -> None:
    """Of a session and of a scope alike; `docs/howto/upkeep.md` says what comes after."""
    with plait.open(tmp_path / "now.db") as sessions:
        chat = sessions.session("c")
        chat.append_many([plait.user("kept") for _ in range(5)])
        sessions.backup(tmp_path / "backup.db")
        chat.append_many([plait.user("lost") for _ in range(5)])
        ahead, ahead_of_all = chat.cursor(), sessions.cursor()
    with plait.open(tmp_path / "backup.db") as sessions:
        chat = sessions.session("c")
        for new in (0, 4):
            chat.append_many([plait.user("new") for _ in range(new)])
            for feed, cursor in ((chat, ahead), (sessions, ahead_of_all)):
                with pytest.raises(plait.UsageError, match=r"ahead of session 'c'.*begin anew with cursor"):
                    feed.changes(after=cursor)
        cursor = sessions.cursor()
        chat.append(plait.user("and on", id="on"))
        assert [change.ids for change in sessions.changes(after=cursor).changes] == [("on",)]


NO_DESCRIPTORS = """
import resource
with plait.open(sys.argv[1]) as sessions:
    sessions.session("chat").append(plait.user("a"))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True:
        held.append(os.open(os.devnull, os.O_RDONLY))
except OSError:
    pass
for path in sys.argv[1:]:
    try:
        plait.open(path).open()
    except plait.StoreUnavailableError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process")
def test_a_file_that_cannot_be_opened_for_want_of_descriptors_is_not_blamed_on_its_permissions(tmp_path: Path) -> None:
    told = run(NO_DESCRIPTORS, tmp_path / "a.db", tmp_path / "new.db").splitlines()
    assert len(told) == 2
    assert all("too many files are open" in line and "permissions" not in line for line in told)
