"""A primary server and its standby, of one test's own, to be killed and promoted."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests import postgres_server as server

STANDBY = "s1"
LONGEST_S = 60
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "listen_addresses": "127.0.0.1",
    "wal_sender_timeout": "0",
    "wal_receiver_status_interval": "1s",
}


def wait_until(holds: Callable[[], bool], what: str, longest_s: float = LONGEST_S) -> None:
    """Look again and again; a server says nothing of itself."""
    deadline = time.monotonic() + longest_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not so after {longest_s:.0f} s")
        time.sleep(0.02)


def children(pid: int) -> Iterator[tuple[int, str]]:
    """The processes that a process has started, and what each says it is."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                yield int(entry.name), title


def kill_server(pid: int) -> None:
    """End a server and its processes as a power cut would."""
    below = [child for child, _ in children(pid)]
    for victim in [pid, *below]:
        _signal(victim, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{victim}/exe").exists() for victim in below), "the server is gone")


class Pair:
    """Two servers on ports of their own; `url` finds the one that takes writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {"a": server.free_port(), "b": server.free_port()}
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        self.url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def one(self, name: str) -> str:
        """The URL of one of the two."""
        return f"postgresql://postgres@127.0.0.1:{self.ports[name]}/postgres"

    def ask(self, name: str, query: str) -> Any:
        """Ask one of the two."""
        with psycopg.connect(self.one(name), autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else None

    def start(self, *, synchronous: bool) -> None:
        """Begin with `a` as the primary of `b`."""
        data = self.folder / "a"
        run = server.run
        run(
            self.folder,
            "initdb",
            "-D",
            str(data),
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        )
        self._start("a")
        source = f"host=127.0.0.1 port={self.ports['a']} user=postgres application_name={STANDBY}"
        run(
            self.folder,
            "pg_basebackup",
            "-d",
            source,
            "-D",
            str(self.folder / "b"),
            "-R",
            "-c",
            "fast",
            "-C",
            "-S",
            STANDBY,
        )
        self._start("b")
        if synchronous:
            self.ask("a", f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
            self.ask("a", "SELECT pg_reload_conf()")
        state = "sync" if synchronous else "async"
        states = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
        wait_until(lambda: self.ask("a", states) == [(state,)], "the standby follows")

    def _start(self, name: str) -> None:
        options = " ".join(f"-c {key}={value}" for key, value in SETTINGS.items())
        options += f" -p {self.ports[name]} -k {self.folder}"
        log = str(self.folder / f"{name}.log")
        server.run(self.folder, "pg_ctl", "-D", str(self.folder / name), "-l", log, "-w", "-o", options, "start")

    def pid(self, name: str) -> int:
        return int((self.folder / name / "postmaster.pid").read_text().split()[0])

    def kill(self, name: str) -> None:
        """End one of the two as a power cut would."""
        kill_server(self.pid(name))

    def stall(self, name: str, kind: str) -> list[int]:
        """Stop the processes of one of the two that are of a kind; their numbers."""
        found = [child for child, title in children(self.pid(name)) if kind in title]
        assert found, f"{name} has no {kind}"
        for pid in found:
            _signal(pid, signal.SIGSTOP)
        return found

    def resume(self, pids: list[int]) -> None:
        for pid in pids:
            _signal(pid, signal.SIGCONT)

    def promote(self, name: str) -> None:
        """Let the standby be the primary."""
        server.run(self.folder, "pg_ctl", "-D", str(self.folder / name), "-w", "promote")

    def stop(self) -> None:
        for name in ("a", "b"):
            if (self.folder / name / "postmaster.pid").exists():
                self.resume([child for child, _ in children(self.pid(name))])
                server.run(self.folder, "pg_ctl", "-D", str(self.folder / name), "-m", "immediate", "stop", check=False)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    """Two servers for one test, taken down after it; the test is skipped where there is no server."""
    with server.folder_of_servers("pair") as folder:
        found = Pair(folder)
        try:
            found.start(synchronous=synchronous)
            yield found
        finally:
            found.stop()
