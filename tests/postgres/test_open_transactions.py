"""A transaction that somebody has left open: a feed misses nothing for it, is not late, and shows who it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import plait
from plait import Sessions
from plait.logic import feed
from plait.store.protocol import Scope
from tests.dose import dose

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "postgresql.md"
TURN = "INSERT INTO plait.tick SELECT max(tick) + 1, pg_snapshot_xmax(pg_current_snapshot()) FROM plait.tick"


def told(connection: psycopg.Connection[Any]) -> tuple[int, list[Any]]:
    """What the statements of the guide answer: how many ticks are not over, and which transactions are open."""
    section = HOWTO.read_text(encoding="utf-8").partition("## A transaction left open")[2]
    behind, open_ones = re.findall(r"SELECT .*?;", section, flags=re.DOTALL)[:2]
    ((ticks,),) = connection.execute(behind).fetchall()
    return int(ticks), connection.execute(open_ones).fetchall()


def tick_of(cursor: str) -> int:
    return feed.scope_position(cursor, Scope("", "")).tick


@pytest.mark.parametrize("kind", ["writer", "stranger"])
def test_a_feed_is_neither_late_nor_misses_a_change_for_it_and_its_lag_shows(
    sessions: Sessions, url: str, kind: str
) -> None:
    chat, count = sessions.session("chat"), dose(short=3, soak=8)
    chat.append(plait.user("words", id="first"))
    cursor = sessions.changes(limit=100).cursor
    with psycopg.connect(url) as left_open, psycopg.connect(url, autocommit=True) as watch:
        if kind == "writer":  # as a writer of plait's that stands still: the row of another session is locked
            sessions.session("other").append(plait.user("words", id="other"))
            left_open.execute("SELECT 1 FROM plait.session WHERE id = 'other' FOR NO KEY UPDATE")
        left_open.execute("SELECT pg_current_xact_id()")
        watch.execute("SELECT pg_current_xact_id()")  # so that the next tick is later than the transaction
        before = tick_of(cursor)
        found: list[str] = []
        for n in range(count):
            watch.execute(TURN)
            chat.append(plait.user("words", id=f"m{n}"))
            page = sessions.changes(after=cursor, limit=100)
            found += [id for change in page.changes for id in change.ids if id != "other"]
            cursor = page.cursor
            assert found == [f"m{m}" for m in range(n + 1)], "late, or twice"
        ticks, open_ones = told(watch)
        assert ticks == count, "the lag does not show"
        assert left_open.info.backend_pid in [row[0] for row in open_ones]
        assert tick_of(cursor) <= before + 1
        left_open.rollback()
        watch.execute(TURN)
        assert told(watch)[0] == 0
        page = sessions.changes(after=cursor, limit=100)
        assert page.changes == [] and tick_of(page.cursor) > tick_of(cursor)
