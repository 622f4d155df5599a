"""The schema as SQL: made by hand it is the one that opening makes; spread over nodes, every table has its place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import plait
from plait.cli.run import run
from plait.errors import UsageError
from plait.store._sync.port import Store
from plait.store._sync.store import PlanStore
from plait.store.postgres import schema
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings
from plait.store.postgres.statements import migrations
from plait.testing import StoreTests
from plait.testing._sync.contract.recording import RecordTests
from tests import postgres_server
from tests.dose import SOAK

CITUS = "PLAIT_TEST_CITUS_DSN"
"""The URL of an empty database with Citus, all of whose plait tables the tests may empty."""

LOOK = """SELECT table_name, column_name, data_type, is_nullable, collation_name, column_default
            FROM information_schema.columns WHERE table_schema = 'plait'
           UNION ALL SELECT tablename, indexname, indexdef, '', '', '' FROM pg_indexes WHERE schemaname = 'plait'
           ORDER BY 1, 2"""


def test_a_schema_made_by_hand_is_the_one_that_opening_makes_and_is_opened() -> None:
    name, url = f"t{uuid4().hex}", postgres_server.server_url()
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())
        try:
            with psycopg.connect(f"{url}/{name}", autocommit=True) as mine, postgres_server.database() as opened:
                mine.execute(schema.whole().encode())
                with psycopg.connect(opened) as theirs:
                    assert mine.execute(LOOK).fetchall() == theirs.execute(LOOK).fetchall()
            with plait.open(f"{url}/{name}") as sessions:
                assert sessions.session("chat").append(plait.user("hello")).inserted
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_every_table_is_spread_by_the_first_column_of_its_key_or_lies_on_every_node() -> None:
    made = "".join(script for _, script in migrations())
    tables = dict(re.findall(r"CREATE TABLE plait\.(\w+) \((.*?)^\)", made, flags=re.DOTALL | re.MULTILINE))
    spread = dict(re.findall(r"create_distributed_table\('plait\.(\w+)', '(\w+)'", schema.distributed("citus")))
    everywhere = re.findall(r"create_reference_table\('plait\.(\w+)'", schema.distributed("citus"))
    assert sorted([*spread, *everywhere]) == sorted([*tables, "meta"])
    assert set(spread.values()) == {"home", "scope"}
    for table, column in spread.items():
        assert f"PRIMARY KEY ({column}, " in tables[table], table


def test_the_command_prints_either_and_refuses_another_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert capsys.readouterr().out == schema.whole()
    assert run(["schema", "--distributed", "citus"]) == 0
    assert capsys.readouterr().out == schema.distributed("citus")
    assert run(["schema", "--distributed", "other"]) == 2
    assert "must be citus" in capsys.readouterr().err


@contextmanager
def empty_database() -> Iterator[str]:
    """The URL of a database in which there is nothing of plait's."""
    name, url = f"t{uuid4().hex}", postgres_server.server_url()
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0".encode())
        try:
            yield f"{url}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


COLUMNS = """SELECT table_name, column_name, data_type, is_nullable, collation_name FROM information_schema.columns
              WHERE table_schema = 'plait' AND table_name !~ '_[0-9]+$' ORDER BY 1, 2"""
KEYS = """SELECT c.relname, pg_get_constraintdef(k.oid) FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = k.conrelid
           WHERE k.connamespace = 'plait'::regnamespace AND k.contype IN ('p', 'u') AND NOT c.relispartition ORDER BY 1, 2"""


def test_tables_in_parts_are_the_same_tables() -> None:
    with empty_database() as url, postgres_server.database() as opened:
        with psycopg.connect(url, autocommit=True) as mine, psycopg.connect(opened) as theirs:
            mine.execute(schema.whole(4).encode())
            for look in (COLUMNS, KEYS):
                assert mine.execute(look.encode()).fetchall() == theirs.execute(look.encode()).fetchall()
            parts = """SELECT c.relname, count(*) FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhparent
                        WHERE c.relkind = 'p' GROUP BY 1"""
            assert dict(mine.execute(parts.encode()).fetchall()) == dict.fromkeys(schema.PARTED, 4)
        with plait.open(url) as sessions:
            for n in range(12):
                sessions.session(f"chat {n}").append_many([plait.user(f"words {n}", id=f"m{i}") for i in range(10)])
            assert len(sessions.search("words", limit=200)) == 120
            sessions.session("chat 1").delete("m3")
            assert sessions.doctor() == []
            sessions.vacuum()
        with psycopg.connect(url) as mine:
            spread = "SELECT count(DISTINCT tableoid), count(*) FROM plait.message"
            assert mine.execute(spread.encode()).fetchall() == [(4, 119)]


@pytest.mark.parametrize("count", [0, -1, 1025])
def test_a_number_of_parts_that_makes_no_sense_is_refused(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError):
        schema.whole(count)
    assert run(["schema", "--partitions", str(count)]) == 2
    assert "between 1 and 1024" in capsys.readouterr().err


@pytest.fixture(scope="module")
def parted() -> Iterator[str]:
    """A database whose tables are in three parts each."""
    with empty_database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(schema.whole(3).encode())
        yield url


PARTED_TESTS: tuple[type, ...] = (StoreTests,) if SOAK else (RecordTests,)
"""The whole contract with the full dose."""


class TestPartedStore(*PARTED_TESTS):  # type: ignore[misc]
    """The contract of a store whose tables are in parts."""

    @pytest.fixture
    def store(self, parted: str) -> Iterator[Store]:
        store = PlanStore(PostgresDriver(Settings(parted)))
        store.open()
        self.url = parted
        yield store
        store.close()
        postgres_server.empty(parted)

    def payload_count(self, store: Store) -> int | None:
        return payloads(self.url)


@pytest.mark.skipif(CITUS not in os.environ, reason=f"{CITUS} names no database with Citus")
class TestCitusStore(StoreTests):
    """The whole contract of a store, with its tables spread over nodes."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        self.url = os.environ[CITUS]
        store = PlanStore(PostgresDriver(Settings(self.url)))
        store.open()
        with psycopg.connect(self.url, autocommit=True) as connection:
            _spread(connection)
        postgres_server.empty(self.url)
        yield store
        store.close()

    def payload_count(self, store: Store) -> int | None:
        return payloads(self.url)


def payloads(url: str) -> int | None:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM plait.attachment").fetchone()
    return int(row[0]) if row else None


def _spread(connection: psycopg.Connection[Any]) -> None:
    if not connection.execute("SELECT 1 FROM pg_dist_partition LIMIT 1").fetchall():
        connection.execute(schema.distributed("citus").encode())
