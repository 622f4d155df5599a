"""Runs the tests of LangGraph's own stores, as its source distributions carry them, with plait's store in their place.

    pip download --no-deps --no-binary langgraph-checkpoint,langgraph-checkpoint-sqlite,langgraph-checkpoint-postgres \
        langgraph-checkpoint==4.3.2 langgraph-checkpoint-sqlite==3.1.2 langgraph-checkpoint-postgres==3.2.0 -d SDISTS
    pip install langgraph-checkpoint-sqlite langgraph-checkpoint-postgres pytest pytest-asyncio pytest-mock
    PYTHONPATH=src:. python scripts/langgraph_store_tests.py SDISTS      # -k NAME and what else goes to pytest

Each test whose store is made by `InMemoryStore`, `SqliteStore`, `AsyncSqliteStore`, `PostgresStore` or
`AsyncPostgresStore` gets a `PlaitStore`, on SQLite or on a PostgreSQL server started for the run. `--theirs` runs
the suites as they are, to see what fails without plait.
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
    "langgraph_checkpoint-": ("memory", ["tests/test_store.py"]),
    "langgraph_checkpoint_sqlite-": (
        "sqlite",
        ["tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"],
    ),
    "langgraph_checkpoint_postgres-": ("postgres", ["tests/test_store.py", "tests/test_async_store.py"]),
}
WHICH = "PLAIT_STORE_SUITE"


def replace(which: str) -> None:
    """Put plait's store where a suite will import LangGraph's."""
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
    command = [sys.executable, "-m", "pytest", "-q", "-p", "langgraph_store_tests", "-p", "no:randomly"]
    command += ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "asyncio_mode=auto", "-o", "timeout=120", "--tb=line"]
    print(f"== {sdist.name}: {'its own store' if theirs else 'PlaitStore'}", flush=True)
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
    parser.add_argument("--only", default="", choices=["", "memory", "sqlite", "postgres"])
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
