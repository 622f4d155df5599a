"""Runs tests that frameworks wrote for stores of their own, as their source distributions carry them, on plait.

    pip download --no-deps --no-binary :all: -d SDISTS openai-agents==0.24.0 langgraph-checkpoint==4.3.2 \
        langgraph-checkpoint-sqlite==3.1.2 langgraph-checkpoint-postgres==3.2.0
    pip install 'openai-agents[encrypt,sqlalchemy]' langgraph-checkpoint-sqlite langgraph-checkpoint-postgres \
        pytest pytest-asyncio pytest-mock inline-snapshot aiosqlite
    PYTHONPATH=src:. python scripts/framework_suites.py SDISTS      # -k NAME and what else goes to pytest

LangGraph: each test whose store is made by `InMemoryStore`, `SqliteStore`, `AsyncSqliteStore`, `PostgresStore` or
`AsyncPostgresStore` gets a `PlaitStore`, on SQLite or on a PostgreSQL server started for the run. OpenAI Agents: each
`SQLiteSession` is a `PlaitSession`. `--theirs` runs the suites as they are, to see what fails without plait.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

SUITES = {
    "openai_agents-": (
        "openai",
        [
            "tests/memory",
            "tests/extensions/memory/test_encrypt_session.py",
            *(f"tests/test_{name}.py" for name in ("agent_runner", "agent_runner_streamed", "run_impl_resume_paths")),
            *(f"tests/test_{name}.py" for name in ("soft_cancel", "max_turns", "programmatic_tool_calling")),
            *(f"tests/test_{name}.py" for name in ("tool_batch_failure_history", "native_tool_failure_history")),
            *(f"tests/test_{name}.py" for name in ("tool_failure_boundaries", "hitl_session_scenario")),
            "tests/test_handoff_history_duplication.py",
        ],
    ),
    "langgraph_checkpoint-": ("memory", ["tests/test_store.py"]),
    "langgraph_checkpoint_sqlite-": (
        "sqlite",
        ["tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"],
    ),
    "langgraph_checkpoint_postgres-": ("postgres", ["tests/test_store.py", "tests/test_async_store.py"]),
}
WHICH = "PLAIT_FRAMEWORK_SUITE"


def replace(which: str) -> None:
    """Put plait's store where a suite will import its framework's."""
    if which == "openai":
        replace_session()
    else:
        replace_store(which)


def replace_session() -> None:
    """Put plait's session in the place of the OpenAI Agents SDK's."""
    import agents
    from agents import memory
    from agents.extensions.memory import (
        encrypt_session,
    )  # first: what it does with a SQLiteSession alone is not for others
    from agents.memory import sqlite_session

    import plait
    from plait.adapters.openai_agents import PlaitSession

    class Stand(PlaitSession):
        """Takes what `SQLiteSession` takes; tables have no names of their own here."""

        def __init__(
            self, session_id: str, db_path: Any = ":memory:", *_tables: str, session_settings: Any = None
        ) -> None:
            self._opened = plait.open(db_path)
            super().__init__(self._opened.session(session_id), session_settings=session_settings)

        def close(self) -> None:
            self._opened.close()

    assert encrypt_session.SQLiteSession is not Stand
    for place in (agents, memory, sqlite_session):
        place.SQLiteSession = Stand  # type: ignore[attr-defined]


def replace_store(which: str) -> None:
    """Put plait's store in the place of LangGraph's."""
    import plait
    from plait.adapters.langgraph import PlaitStore

    def url(given: str) -> str:
        return given.replace("postgres://", "postgresql://")

    class Stand(PlaitStore):
        """What is asked of LangGraph's stores when they are made, and no more."""

        def with_migrations(self) -> Any:
            """A list that fixtures may change; the class has none, so that tests of the list itself fail."""
            self.MIGRATIONS: list[Any] = []
            return self

        def setup(self) -> None: ...

    class Store(Stand):
        @classmethod
        @contextmanager
        def from_conn_string(cls, given: str, *, index: Any = None, ttl: Any = None, **other: Any) -> Iterator[Store]:
            with plait.open(url(given)) as sessions:
                yield cls(sessions, index=index, ttl=ttl).with_migrations()

    class AsyncStore(Stand):
        async def setup(self) -> None: ...  # type: ignore[override]
        async def start_ttl_sweeper(self, *given: Any) -> Any:  # type: ignore[override]
            return await self.astart_ttl_sweeper(*given)

        async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override]
            return await self.astop_ttl_sweeper(timeout)

        @asynccontextmanager
        async def _cursor(self) -> AsyncIterator[Any]:
            """For fixtures that drop LangGraph's table of migrations."""
            yield AsyncMock()

        async def sweep_ttl(self) -> int:  # type: ignore[override]
            return await self.asweep_ttl()

        @classmethod
        @asynccontextmanager
        async def from_conn_string(
            cls, given: str, *, index: Any = None, ttl: Any = None, **other: Any
        ) -> AsyncIterator[AsyncStore]:
            async with plait.open_async(url(given)) as sessions:
                yield cls(sessions, index=index, ttl=ttl).with_migrations()

    class InMemory(PlaitStore):
        def __init__(self, *, index: Any = None) -> None:
            sessions = plait.open(":memory:")
            sessions.open()
            super().__init__(sessions, index=index)

    if which == "memory":
        import langgraph.store.memory as place

        place.InMemoryStore = InMemory  # type: ignore[misc, assignment]
    elif which == "sqlite":
        import langgraph.store.sqlite as sqlite
        import langgraph.store.sqlite.aio as aio

        sqlite.SqliteStore = Store
        sqlite.AsyncSqliteStore = aio.AsyncSqliteStore = AsyncStore
    elif which == "postgres":
        import langgraph.store.postgres as postgres

        postgres.PostgresStore, postgres.AsyncPostgresStore = Store, AsyncStore


if os.environ.get(WHICH):  # as a plugin of pytest, before it imports the suite
    replace(os.environ[WHICH])


def run(sdist: Path, which: str, files: list[str], *, theirs: bool, arguments: list[str]) -> None:
    here = Path(__file__).parent
    search = [str(here), str(here.parent / "src"), str(here.parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), WHICH: "" if theirs else which}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "framework_suites", "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "asyncio_mode=auto", "-o", "timeout=120", "--tb=line"]
    print(f"== {sdist.name}: {'as it is' if theirs else 'on plait'}", flush=True)
    subprocess.run([*command, *files, *arguments], cwd=sdist, env=environment, check=False)


@contextmanager
def server(conftest: Path) -> Iterator[None]:
    """A PostgreSQL server whose address the suite is told."""
    from tests import postgres_server

    postgres_server.begin()
    try:
        with postgres_server.database() as found:
            text = conftest.read_text("utf-8")
            for name in ("DEFAULT_URI", "DEFAULT_POSTGRES_URI"):
                text = text.replace("\n\n\n@pytest.fixture", f"\n{name} = {found!r}\n\n\n@pytest.fixture", 1)
            conftest.write_text(text, encoding="utf-8")
            yield
    finally:
        postgres_server.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdists", type=Path, help="the folder with the *.tar.gz")
    parser.add_argument("--theirs", action="store_true", help="run the suites as they are")
    parser.add_argument("--only", default="", choices=["", *{which for which, _ in SUITES.values()}])
    asked, rest = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix="plait-suites-") as folder:
        for archive in sorted(asked.sdists.glob("*.tar.gz")):
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
        for prefix, (which, files) in SUITES.items():
            for sdist in Path(folder).glob(f"{prefix}*"):
                if asked.only in ("", which):
                    with server(sdist / "tests/conftest.py") if which == "postgres" else nullcontext():
                        run(sdist, which, files, theirs=asked.theirs, arguments=rest)


if __name__ == "__main__":
    main()
