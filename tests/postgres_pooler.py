"""PgBouncer in transaction mode before the tests' server: each transaction may be on another connection of few."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests import postgres_server as server

SIZE = 4
CONFIG = """
[databases]
* = host=127.0.0.1 port={target}{who}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
auth_type = {auth}
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 1000
server_idle_timeout = 5
logfile = {folder}/pgbouncer.log
pidfile = {folder}/pgbouncer.pid
unix_socket_dir = {folder}
"""


def program() -> str | None:
    """Where PgBouncer is; not on every path of those who may not start it."""
    return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")


def start(folder: Path, target: int, users: Sequence[str] = ()) -> tuple[str, int]:
    """Start one before a server; its URL, without a database, and its process. Clients are `postgres` whatever they say, or else one of `users`."""
    found = program()
    if found is None:
        raise RuntimeError("pgbouncer is not installed")
    port = server.free_port()
    config = folder / "pgbouncer.ini"
    (folder / "users.txt").write_text("".join(f'"{user}" ""\n' for user in users))
    who = {"who": "", "auth": "trust"} if users else {"who": " user=postgres", "auth": "any"}
    config.write_text(CONFIG.format(target=target, port=port, size=SIZE, folder=folder, **who))
    user = server.USER if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    with open(folder / "pgbouncer.out", "w") as out:
        subprocess.run([found, "-d", str(config)], user=user, stdout=out, stderr=out, check=False)
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            pid = int((folder / "pgbouncer.pid").read_text())
            return f"postgresql://postgres@127.0.0.1:{port}", pid
        except (OSError, ValueError):
            if time.monotonic() > deadline:
                raise RuntimeError(f"pgbouncer does not run: {(folder / 'pgbouncer.out').read_text()}") from None
            time.sleep(0.05)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
