"""Deleting many messages on a server costs in proportion, whatever its statistics say."""

from __future__ import annotations

from typing import Any

import psycopg

import plait
from plait import Sessions
from plait.store.postgres.statements import load
from tests.behaviour.values import note
from tests.postgres_server import database


def blocks(url: str, sessions: Sessions, count: int) -> int:
    """How many blocks are looked at to free the ids of a session's messages, counted by a server that knows no sizes."""
    sessions.session(f"s{count}").append_many([note(f"m{n}") for n in range(count)])
    with psycopg.connect(url, cursor_factory=psycopg.RawCursor) as connection:
        found = connection.execute(
            "SELECT home, incarnation FROM plait.session WHERE id = $1", [f"s{count}"]
        ).fetchone()
        assert found is not None
        keys = [key for (key,) in connection.execute("SELECT key FROM plait.message WHERE home = $1", [found[0]])]
        statement = load()["drop_message_ids"]
        given: dict[str, Any] = {"home": found[0], "incarnation": found[1], "keys": keys}
        names = [*statement.given, *statement.parameters]
        query = b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement.query
        row = connection.execute(query, [given[name] for name in names]).fetchone()
        assert row is not None
        connection.rollback()
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_four_times_the_messages_cost_about_four_times_as_much() -> None:
    with database(fresh=True) as url, plait.open(url) as sessions:
        few, many = blocks(url, sessions, 300), blocks(url, sessions, 1200)
    assert many < 7 * few, (few, many)
