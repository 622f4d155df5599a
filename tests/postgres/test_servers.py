"""Servers that differ: settings, encodings, poolers, older and newer schemas, texts that PostgreSQL cannot hold."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

import plait
from plait import Sessions
from plait.errors import SchemaError, StoreBusyError, StoreUnavailableError, UsageError
from plait.store.plan import Ask
from plait.store.postgres import settings as given
from plait.store.postgres._sync import connecting
from tests.postgres_server import bare_database, server_url, set_for_all


def text(id: str, words: str = "words") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_isolation = 'repeatable read'",
        "timezone = 'America/St_Johns'",
        "synchronous_commit = off",
        "standard_conforming_strings = off",
        "bytea_output = 'escape'",
        "search_path = 'pg_catalog'",
        "default_transaction_read_only = on",
        "DateStyle = 'SQL, DMY'",
        "client_encoding = 'LATIN1'",
        "lock_timeout = '1ms'",
        "statement_timeout = '20ms'",
        "idle_in_transaction_session_timeout = '200ms'",
        "session_replication_role = 'replica'",
        "row_security = off",
    ],
)
def test_settings_of_the_database_change_nothing(setting: str) -> None:
    """Neither when the tables are made nor afterwards."""
    with bare_database() as url:
        set_for_all(url, setting)
        with plait.open(url) as sessions:
            chat = sessions.session("chat")
            chat.append_many([text("a"), text("b", "\x00\ud800 \\ ' \" é")])
            chat.delete("a")
            assert [message.to_dict() for message in chat.history()] == [text("b", "\x00\ud800 \\ ' \" é")]  # type: ignore[union-attr]
            assert [hit.id for hit in chat.search("é")] == ["b"]
        with psycopg.connect(url, client_encoding="UTF8") as connection:
            words = connection.execute("SELECT text FROM plait.messages").fetchall()
        assert words == [("\ufffd\ufffd \\ ' \" é",)]


def test_a_database_of_another_encoding_is_refused_before_anything_is_made() -> None:
    name, url = f"t{uuid4().hex}", server_url()
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0".encode())
        try:
            with pytest.raises(StoreUnavailableError, match=r"LATIN1.*needs UTF8"), plait.open(f"{url}/{name}"):
                pass
        finally:
            connection.execute(f"DROP DATABASE {name}".encode())


def test_ids_with_characters_that_the_server_cannot_hold_come_back(sessions: Sessions) -> None:
    ids = ["a\x00b", "a\x01b", "a\x01\x01b", "a\x02b", "\x00a\x00", "a"]
    chat = sessions.session("se\x00ssion")
    chat.append_many([text(id) for id in ids])
    assert [message.id for message in chat.history()] == ids
    assert chat.delete("a\x00b") == ["a\x00b"]
    assert [info.id for info in sessions.list().sessions] == ["se\x00ssion"]
    assert [change.session_id for change in sessions.changes().changes] == ["se\x00ssion"] * 6


def test_a_newer_schema_is_refused(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE plait.meta SET value = value + 1000")
        with pytest.raises(SchemaError, match="newer plait"), plait.open(url):
            pass
        connection.execute("UPDATE plait.meta SET value = value - 1000")


def test_an_empty_database_cannot_be_opened_only_to_read() -> None:
    name, url = f"t{uuid4().hex}", server_url()
    with psycopg.connect(f"{url}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            with pytest.raises(StoreUnavailableError, match="no store"), plait.open(f"{url}/{name}", read_only=True):
                pass
        finally:
            connection.execute(f"DROP DATABASE {name}".encode())


def test_a_store_opened_to_read_takes_no_write(sessions: Sessions, url: str) -> None:
    sessions.session("chat").append(text("a"))
    with plait.open(url, read_only=True) as reader:
        assert [hit.id for hit in reader.session("chat").search("words")] == ["a"]
        with pytest.raises(StoreUnavailableError, match="read-only"):
            reader.session("chat").append(text("b"))


def test_a_session_that_somebody_holds_is_busy_after_the_wait_limit(sessions: Sessions, url: str) -> None:
    sessions.session("chat").append(text("a"))
    with plait.open(url, busy_timeout_s=0.2) as other, psycopg.connect(url) as holder:
        holder.execute("SELECT 1 FROM plait.session FOR UPDATE")
        with pytest.raises(StoreBusyError):
            other.session("chat").append(text("b"))
        assert [message.id for message in other.session("chat").history()] == ["a"]
        holder.rollback()
        assert other.session("chat").append(text("b")).inserted


def test_where_something_stands_between_nothing_is_prepared(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    straight = connecting.connect(given.Settings(url))
    assert straight.names is not None
    straight.close()
    monkeypatch.setattr(given, "check", lambda row, pid: given.Server(True, False, direct=row[0] == -1))
    pooled = connecting.connect(given.Settings(url))
    assert pooled.names is None
    pooled.close()


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(StoreUnavailableError, match="check the URL"), plait.open("postgresql://127.0.0.1:1/nowhere"):
        pass


def test_a_url_that_libpq_does_not_take_is_refused_without_its_password() -> None:
    with pytest.raises(UsageError) as refused:
        plait.open("postgresql://me:secret@host/db?what=ever")
    assert "secret" not in str(refused.value)


def test_what_the_index_lacks_is_found_where_the_server_estimates_it_smaller_than_it_is(url: str) -> None:
    """How many messages are indexed is the server's last estimate, 0 until it has looked."""
    with plait.open(url) as sessions:
        chat = sessions.session("chat")
        chat.append_many([text(f"m{n}", "common words") for n in range(20)])
        assert len(chat.search("common", limit=50)) == 20
        chat.append(text("tail", "common words"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE pg_class SET reltuples = 3 WHERE oid = 'plait.message_words'::regclass")
    with plait.open(url, read_only=True) as reader:
        assert {hit.id for hit in reader.session("chat").search("common", limit=50)} == {f"m{n}" for n in range(20)} | {
            "tail"
        }


def test_the_limits_are_those_that_the_documentation_names(url: str) -> None:
    with plait.open(url) as sessions:
        settings = sessions.store.driver.settings  # type: ignore[attr-defined]
    words = (Path(__file__).parents[2] / "docs" / "howto" / "postgresql.md").read_text()
    assert f"each statement may take {settings.statement_timeout_s:g} s" in words
    assert f"up to {settings.max_connections} for threads, and {settings.max_connections} for each event loop" in words


def test_who_finds_all_connections_in_use_waits_for_one_as_long_as_for_a_session(url: str) -> None:
    driver: Any = plait.open(url, busy_timeout_s=0.2, max_connections=1).store.driver  # type: ignore[attr-defined]
    started, go_on = threading.Event(), threading.Event()

    def slow() -> Any:
        rows = yield Ask("search_is_on")
        started.set()
        assert go_on.wait(20)
        return rows

    def quick() -> Any:
        return (yield Ask("search_is_on"))

    with closing(driver), ThreadPoolExecutor(1) as pool:
        first = pool.submit(driver.read, slow)
        try:
            assert started.wait(20)
            with pytest.raises(StoreBusyError, match=r"all 1 connections stayed in use for 0\.2 s"):
                driver.read(quick)
        finally:
            go_on.set()
        assert first.result(20) == driver.read(quick)
