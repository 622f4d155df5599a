"""Row security: a role sees, counts and writes the sessions of its own scopes only, whatever SQL it sends."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import plait
from plait.cli.run import run
from plait.errors import StoreError, UsageError
from plait.store._sync.port import Store
from plait.store._sync.store import PlanStore
from plait.store.postgres import homes, schema
from plait.store.postgres.driver import PostgresDriver
from plait.store.postgres.settings import Settings
from plait.store.protocol import Scope, SessionRef
from plait.testing._sync.contract.appending import AppendTests
from plait.testing._sync.contract.case import ALICE as CASE_ALICE
from plait.testing._sync.contract.case import NEIGHBOURS
from plait.testing._sync.contract.changing import ChangeTests
from plait.testing._sync.contract.feeding import FeedTests
from plait.testing._sync.contract.lives import LifeTests
from plait.testing._sync.contract.searching import SearchTests
from tests import postgres_pooler, postgres_server
from tests.dose import SOAK

ALICE, BOB = ("acme", "alice"), ("acme", "bob")
TABLES = """SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p')
               AND NOT c.relispartition ORDER BY 1"""
EVERYBODYS = {"meta", "tick", "search_on"}
"""Tables of one or a few rows that are the store's, not a session's."""


@contextmanager
def secured(scopes: dict[str, list[tuple[str, str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    """A database with row security; its URL and the URL of a role for each name, which may see those scopes."""
    tag = uuid4().hex[:12]
    with postgres_server.database(fresh=True) as url, psycopg.connect(url, autocommit=True) as connection:
        group = f"plait_{tag}"
        connection.execute(f"CREATE ROLE {group}".encode())
        roles = [f"{name}_{tag}" for name in scopes]
        try:
            connection.execute(schema.secured(group).encode())
            for role, may in zip(roles, scopes.values(), strict=True):
                connection.execute(f"CREATE ROLE {role} LOGIN IN ROLE {group}".encode())
                for tenant, owner in may:
                    connection.execute(
                        "INSERT INTO plait.member (role, tenant, owner) VALUES (%s, %s, %s)", (role, tenant, owner)
                    )
            own = {name: url.replace("postgres@", f"{role}@") for name, role in zip(scopes, roles, strict=True)}
            yield url, own
        finally:
            for role in [*roles, group]:
                connection.execute(f"DROP OWNED BY {role}".encode())
                connection.execute(f"DROP ROLE {role}".encode())


def furnish(sessions: plait.Sessions) -> None:
    chat = sessions.session("chat")
    chat.append_many([plait.user(f"secret words {n}", id=f"m{n}") for n in range(5)])
    image = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw0KGgoAAAA="}
    chat.append({"id": "picture", "role": "user", "parts": [image]})
    chat.append(plait.user("long " * 400_000, id="long"))
    chat.on_compaction(
        plait.compact_function(lambda text: "in short", keep_recent_tokens=5, protect_head=1, min_tail=1)
    )
    chat.compact()
    chat.delete("m1")
    chat.update(plait.user("other secret words", id="m0"))
    chat.update_state({"step": 1})
    chat.fork("copy")
    with chat.lease(ttl_s=60) as turn:
        turn.append(plait.user("leased"))
    sessions.session("gone").append(plait.user("gone words"))
    sessions.delete("gone")
    assert len(chat.search("secret", limit=50)) == 4
    assert sessions.search("words")


def test_two_roles_work_on_one_database_and_neither_sees_the_other() -> None:
    with secured({"alice": [ALICE], "bob": [BOB]}) as (url, own):
        with plait.open(own["alice"], scope=ALICE) as alice, plait.open(own["bob"], scope=BOB) as bob:
            for sessions in (alice, bob):
                furnish(sessions)
            assert [info.id for info in alice.list().sessions] == [info.id for info in bob.list().sessions]
            chat = bob.session("chat")
            assert [m.id for m in chat.transcript()][:4] == ["m0", "m2", "m3", "m4"]
            assert {found.kind for found in [*bob.doctor(), *alice.doctor()]} <= {"stale overlays"}
            alice.session("chat").clear()
            assert chat.get("m0") is not None
        with plait.open(own["alice"], scope=BOB) as wrong:
            assert wrong.list().sessions == [] and wrong.session("chat").leaf() is None
            assert wrong.session("chat").search("secret") == [] == wrong.search("secret")
            assert wrong.changes().changes == []
            with pytest.raises(StoreError):
                wrong.session("chat").append(plait.user("mine"))
            with pytest.raises(StoreError):
                wrong.session("not there yet").append(plait.user("mine"))
        with plait.open(url, scope=BOB) as everybody:
            assert len(everybody.session("chat").search("secret", limit=50)) == 4
            assert everybody.session("not there yet").info() is None
            assert {found.kind for found in everybody.doctor()} <= {"stale overlays"}


def test_no_table_shows_or_takes_rows_of_another_scope_by_raw_sql() -> None:
    with secured({"alice": [ALICE], "bob": [BOB], "nobody": []}) as (url, own):
        with plait.open(own["bob"], scope=BOB) as bob:
            furnish(bob)
        with psycopg.connect(url, autocommit=True) as all:
            tables = [name for (name,) in all.execute(TABLES).fetchall() if name not in EVERYBODYS]
            home = homes.of_session(SessionRef(Scope(*BOB), "chat")).home
            for table, values in MORE.items():
                all.execute(f"INSERT INTO plait.{table} VALUES (%s, {values})".encode(), (home,))
            before = {name: _rows(all, name) for name in tables}
            assert sum(bool(rows) for rows in before.values()) > 28, "there is little to be seen"
            for thief in ("alice", "nobody"):
                with psycopg.connect(own[thief], autocommit=True) as connection:
                    for name in tables:
                        _steal(connection, name, before[name])
            assert {name: _rows(all, name) for name in tables} == before


MORE = {
    "record": "1, 'k', 'secret'",
    "shelf": "7, 7, 0, 1",
    "value": "7, 7, 'memory', 'k', 1, 1",
    "value_text": "7, 1, 6, 1, 0, 0, 'o', '{}', 'secret'",
    "value_slice": "7, 1, 1, 'secret'",
    "value_words": "7, 'secret'",
    "value_progress": "7, 7",
    "value_pending": "7",
    "removal": "7, 1, 0, 0",
    "removal_range": "7, 1, 2",
    "pruned": "7, 1",
    "compaction_claim": "7, 'token', 0",
}
"""Rows that this test needs only to be there, in tables that its sessions leave empty."""


def _rows(connection: psycopg.Connection[Any], table: str) -> list[str]:
    return sorted(str(row) for row in connection.execute(f"SELECT t::text FROM plait.{table} AS t".encode()).fetchall())


def _steal(connection: psycopg.Connection[Any], name: str, theirs: list[str]) -> None:
    """Read, count, change, remove and add rows of a table: none of it reaches what is another's."""
    member = name == "member"
    assert connection.execute(f"SELECT count(*) FROM plait.{name}".encode()).fetchone() in (
        [(0,), (1,)] if member else [(0,)]
    ), name
    (column,) = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attgenerated = '' LIMIT 1",
        (f"plait.{name}",),
    ).fetchone() or ("",)
    for words in (f"UPDATE plait.{name} SET {column} = {column}", f"DELETE FROM plait.{name}"):
        assert connection.execute(words.encode()).rowcount == 0, words
    for row in theirs[:1]:
        with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.GeneratedAlways)):
            connection.execute(f"INSERT INTO plait.{name} SELECT (%s::text::plait.{name}).*".encode(), (row[2:-3],))
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(f"TRUNCATE plait.{name}".encode())


def test_nobody_puts_a_row_of_his_own_where_anothers_are_or_will_be() -> None:
    with secured({"alice": [ALICE], "bob": [BOB]}) as (_, own):
        with plait.open(own["bob"], scope=BOB) as bob:
            furnish(bob)
        theirs, future = (homes.of_session(SessionRef(Scope(*BOB), id)) for id in ("chat", "not yet"))
        mine = homes.of_session(SessionRef(Scope(*ALICE), "chat"))
        session = """INSERT INTO plait.session (home, session, incarnation, live, next_seq, leaf, version, epoch, messages,
                     bytes, tokens, created_at, active_at, tenant, owner, id)
                     VALUES (%s, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, %s, %s, %s)"""
        with psycopg.connect(own["alice"], autocommit=True) as connection:

            def refused(statement: str, *values: Any) -> None:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode(), values)

            for home in (theirs.home, future.home):
                refused(session, home, *ALICE, "chat")
                refused(session, home, *BOB, "chat")
                refused("INSERT INTO plait.purge VALUES (%s, %s, 1)", home, mine.scope)
                refused("INSERT INTO plait.strand VALUES (%s, 1, 1, 0, 0)", home)
                refused("INSERT INTO plait.pulse VALUES (%s, 1, 1, %s, %s, 1, 0, 0)", home, *ALICE)
                refused("INSERT INTO plait.counter VALUES (%s, 'strand', 2147483647)", home)
            refused("INSERT INTO plait.counter VALUES (%s, 'other', 1)", theirs.home)
            refused("INSERT INTO plait.member (role, tenant, owner) VALUES (current_user, 'acme', 'bob')")
            refused("INSERT INTO plait.tick VALUES (9000000000, '0')")
            refused("INSERT INTO plait.chunk VALUES (%s, 1, 99, '')", theirs.scope)
            connection.execute(session.encode(), (mine.home, *ALICE, "chat"))
            connection.execute(b"SET ROLE NONE")
            assert connection.execute(b"SELECT count(*) FROM plait.session").fetchone() == (1,)
            with psycopg.connect(own["bob"]) as other:
                version = other.info.server_version
                if version >= 150000:
                    assert (other.execute(b"SELECT count(*) FROM plait.messages").fetchone() or (0,))[0] > 5
                    assert connection.execute(b"SELECT count(*) FROM plait.messages").fetchone() == (0,)


def test_nobody_uses_up_what_all_share() -> None:
    """The numbers of ticks, above all: a new session and the next minute of an old one need another one."""
    add = "INSERT INTO plait.tick SELECT {}, pg_snapshot_xmin(pg_current_snapshot()) FROM plait.tick"
    with secured({"alice": [ALICE], "bob": [BOB]}) as (url, own):
        with plait.open(own["bob"], scope=BOB) as bob, psycopg.connect(own["alice"], autocommit=True) as connection:
            bob.session("chat").append(plait.user("first"))
            for tick in ("9223372036854775807", "max(tick) + 3000000000", "max(tick)", "2", "NULL"):
                with pytest.raises(psycopg.Error):
                    connection.execute(add.format(tick).encode())
            for words in ("UPDATE plait.tick SET tick = tick + 1", "DELETE FROM plait.tick"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(words.encode())
            for _ in range(3):  # a client's clock may be ahead
                connection.execute(add.format("max(tick) + 10").encode())
            now = bob.store._clock  # type: ignore[attr-defined]
            for minutes in (0, 2, 600):
                bob.store._clock = lambda minutes=minutes: now() + minutes * 60_000_000  # type: ignore[attr-defined]
                assert bob.session("chat").append(plait.user("later")).inserted
                assert bob.session(f"new {minutes}").append(plait.user("new")).inserted
            with plait.open(url) as owner:
                assert owner.session("mine").append(plait.user("words")).inserted


def test_homes_are_the_same_in_sql() -> None:
    with secured({}) as (url, _), psycopg.connect(url) as connection:
        for tenant, owner, id in [
            ("", "", "a"),
            ("acme", "bob", "é:1:😀"),
            ("1:", ":", "plait:x"),
            ("t", "", "x" * 500),
        ]:
            ref = SessionRef(Scope(tenant, owner), id)
            stage = f"plait:stage:{uuid4().hex}:{id}"
            found = connection.execute(
                "SELECT plait.home_of(%s, %s, %s), plait.home_of(%s, %s, %s), plait.scope_of(%s, %s)",
                (tenant, owner, id, tenant, owner, stage, tenant, owner),
            ).fetchone()
            home = homes.of_session(ref).home
            assert found == (home, home, homes.of_scope(ref.scope))
            assert homes.of_session(SessionRef(ref.scope, stage)).home == home


def test_a_role_of_its_own_goes_through_a_pooler() -> None:
    """Which keeps connections by role: nothing has to be set in a transaction, or can be left over from another's."""
    if postgres_pooler.program() is None:
        pytest.skip("pgbouncer is not installed (Debian: apt-get install pgbouncer)")
    with secured({"alice": [ALICE], "bob": [BOB]}) as (url, own):
        folder = Path(tempfile.mkdtemp(prefix="pooler-", dir=postgres_server.programs().parent))
        base, pid = postgres_pooler.start(
            folder, postgres_server.server_port(), [who.partition("@")[0].rpartition("/")[2] for who in own.values()]
        )
        try:
            address, name = base.rpartition("@")[2], url.rpartition("/")[2]
            behind = {who: f"{at.partition('@')[0]}@{address}/{name}" for who, at in own.items()}
            with plait.open(behind["alice"], scope=ALICE) as alice, plait.open(behind["bob"], scope=BOB) as bob:
                for n in range(10):
                    alice.session("chat").append(plait.user(f"a{n}"))
                    bob.session("chat").append(plait.user(f"b{n}"))
                assert [m.text for m in bob.session("chat").history()] == [f"b{n}" for n in range(10)]
            with plait.open(behind["alice"], scope=BOB) as wrong:
                assert wrong.session("chat").leaf() is None
        finally:
            postgres_pooler.stop(pid)
            shutil.rmtree(folder, ignore_errors=True)


def test_running_it_again_changes_nothing_and_no_table_is_left_out() -> None:
    with secured({"alice": [ALICE]}) as (url, _), psycopg.connect(url, autocommit=True) as connection:
        policies = "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies WHERE schemaname = 'plait' ORDER BY 1, 2"
        before = connection.execute(policies.encode()).fetchall()
        connection.execute(schema.secured("postgres").encode())
        assert connection.execute(policies.encode()).fetchall() == before
        open_tables = TABLES.replace("ORDER BY", "AND NOT c.relrowsecurity ORDER BY")
        assert connection.execute(open_tables.encode()).fetchall() == []
        shut = {table for table, *_, qual, _ in before if qual == "false"}
        assert shut == set(), "a table that the script has no rule for"


@pytest.mark.parametrize("role", ["", "a b", 'a"b', "a'; DROP", "1a", "a" * 64])
def test_a_role_whose_name_needs_quoting_is_refused(role: str) -> None:
    with pytest.raises(UsageError):
        schema.secured(role)


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "--row-security", "plait_app"]) == 0
    assert capsys.readouterr().out == schema.secured("plait_app")
    assert run(["schema", "--row-security", "a b"]) == 2
    assert "role" in capsys.readouterr().err
    assert run(["schema", "--row-security", "a", "--partitions", "4"]) == 2
    assert "exclude each other" in capsys.readouterr().err


@pytest.fixture(scope="module")
def member() -> Iterator[tuple[str, str]]:
    """A database with row security; its URL, and the URL of a role that may see the scopes of the contract's tests."""
    with secured({"tester": [(scope.tenant, scope.owner) for scope in [CASE_ALICE, *NEIGHBOURS]]}) as (url, own):
        yield url, own["tester"]


class TestAsAMember(AppendTests, ChangeTests, LifeTests, FeedTests, SearchTests):
    """Much of the contract of a store, as a role that may see the scopes of its tests and no other."""

    @pytest.fixture
    def store(self, member: tuple[str, str]) -> Iterator[Store]:
        store = PlanStore(PostgresDriver(Settings(member[1])))
        store.open()
        yield store
        store.close()
        with psycopg.connect(member[0], autocommit=True) as connection:
            rows = connection.execute(TABLES).fetchall()
            script = "".join(f"DELETE FROM plait.{name};" for (name,) in rows if name not in ("meta", "member", "tick"))
            connection.execute(script.encode())

    def test_ids_are_data(self, store: Store) -> None:
        """All but those with the two characters that PostgreSQL's text has in another spelling."""
        for id in ("a\x00b", "a\x01b"):
            with pytest.raises(StoreError):
                self.add(store, "a", session=self.ref(id))
            self.add(store, id)


if not SOAK:  # which tests of it that say most: the others with the full dose
    del TestAsAMember
