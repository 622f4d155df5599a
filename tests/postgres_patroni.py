"""Two servers that Patroni looks after, with etcd between them: who is the primary is decided there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from tests import postgres_server as server
from tests.postgres_pair import kill_server, wait_until

TTL_S = 20
"""How long a primary is waited for that says nothing any more: the least that Patroni takes."""

CLUSTER: dict[str, Any] = {
    "ttl": TTL_S,
    "loop_wait": 1,
    "retry_timeout": 3,
    "synchronous_mode": True,
    "postgresql": {
        "use_pg_rewind": True,
        "parameters": {"fsync": "off", "shared_buffers": "32MB", "max_connections": "100", "wal_log_hints": "on"},
    },
}
TRUSTED = [f"host {database} all 127.0.0.1/32 trust" for database in ("all", "replication")]


def program(name: str) -> str:
    """Where a program is, beside this Python too; skips the test where it is not installed."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed (Debian: etcd-server; PyPI: patroni[etcd3,psycopg3])")
    return found


class Cluster:
    """The members `a` and `b`; `url` finds the one that takes writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = {name: server.free_port() for name in ("a", "b", "rest a", "rest b", "etcd", "peer")}
        hosts = ",".join(f"127.0.0.1:{self.ports[name]}" for name in "ab")
        self.url = f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self) -> None:
        client, peer = (f"http://127.0.0.1:{self.ports[name]}" for name in ("etcd", "peer"))
        self._run(
            "etcd",
            program("etcd"),
            *("--data-dir", str(self.folder / "etcd"), "--name", "e", "--initial-cluster", f"e={peer}"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        )
        for name in "ab":
            self.start(name)
            wait_until(lambda: self.primary() is not None, "there is a primary")
        self.wait_for_both()

    def start(self, name: str) -> None:
        """Let Patroni look after one of the two (again)."""
        path = self.folder / f"{name}.yml"
        path.write_text(json.dumps(self._settings(name)))  # which YAML is, too
        self._run(name, program("patroni"), str(path))

    def _settings(self, name: str) -> dict[str, Any]:
        at = {kind: f"127.0.0.1:{self.ports[kind]}" for kind in self.ports}
        user = {role: {"username": role, "password": "unused"} for role in ("replication", "rewind")}
        return {
            "scope": "plait",
            "name": name,
            "restapi": {"listen": at[f"rest {name}"], "connect_address": at[f"rest {name}"]},
            "etcd3": {"host": at["etcd"]},
            "bootstrap": {"dcs": CLUSTER, "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"]},
            "postgresql": {
                "listen": at[name],
                "connect_address": at[name],
                "data_dir": str(self.folder / f"data-{name}"),
                "bin_dir": str(self.folder / "bin"),
                "pg_hba": TRUSTED,
                "pgpass": str(self.folder / f"{name}.pass"),
                "authentication": {"superuser": {"username": "postgres", "password": "unused"}, **user},
                "parameters": {"unix_socket_directories": str(self.folder)},
            },
        }

    def _run(self, name: str, *command: str) -> None:
        user = server.USER if os.geteuid() == 0 else None
        with open(self.folder / f"{name}.log", "ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log, user=user, cwd=self.folder)

    def members(self) -> dict[str, dict[str, Any]]:
        """What the members know of one another."""
        for name in "ab":
            try:
                with urlopen(f"http://127.0.0.1:{self.ports[f'rest {name}']}/cluster", timeout=5) as answer:
                    return {member["name"]: member for member in json.load(answer)["members"]}
            except (URLError, OSError):
                continue
        return {}

    def primary(self) -> str | None:
        """Who takes writes, as far as is known."""
        for name, member in self.members().items():
            if member["role"] == "leader" and member["state"] == "running":
                return name
        return None

    def wait_for_both(self) -> None:
        """Until nothing is acknowledged that only the primary has."""
        wait_until(
            lambda: sorted(member["role"] for member in self.members().values()) == ["leader", "sync_standby"],
            "both servers are there",
        )

    def wait_for_another(self, old: str) -> None:
        """Until there is another primary than the one that was."""
        wait_until(lambda: self.primary() not in (None, old), f"another primary than {old}", TTL_S * 5)

    def switch_over(self) -> None:
        """Have the two change places, as for maintenance."""
        old = self.primary()
        new = "b" if old == "a" else "a"
        body = json.dumps({"leader": old, "candidate": new}).encode()
        url = f"http://127.0.0.1:{self.ports[f'rest {old}']}/switchover"
        with urlopen(Request(url, body, {"Content-Type": "application/json"}), timeout=60):
            wait_until(lambda: self.primary() == new, "they have changed places")

    def kill(self, name: str) -> None:
        """End a member with all that belongs to it, as if its machine were gone."""
        self._running[name].kill()
        self._running.pop(name).wait()
        kill_server(int((self.folder / f"data-{name}" / "postmaster.pid").read_text().split()[0]))

    def stop(self) -> None:
        for name in ("a", "b", "etcd"):
            if name in self._running:
                self._running[name].terminate()
                self._running.pop(name).wait(60)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Two servers for one test, taken down after it; the test is skipped where a program is missing."""
    for name in ("etcd", "patroni"):
        program(name)
    with server.folder_of_servers("patroni") as folder:
        found = Cluster(folder)
        try:
            found.begin()
            yield found
        finally:
            found.stop()
