"""A transaction that somebody has left open: a feed misses nothing for it, is not late, and shows who it is."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import plait
from plait import Sessions
from plait.logic import feed
from plait.store.postgres.statements import load
from plait.store.protocol import Scope
from tests.dose import dose

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "postgresql.md"


def turn(connection: psycopg.Connection[Any]) -> None:
    """Let the tick go on, as the first writer of a minute does."""
    ((newest,),) = connection.execute("SELECT max(tick) FROM plait.tick").fetchall()
    turned = psycopg.RawCursor(connection).execute(load()["turn_tick"].query, [newest + 1])
    assert turned.fetchall() == [(newest + 1,)]


def told(connection: psycopg.Connection[Any]) -> dict[int, Any]:
    """What the statement of the guide answers: which transactions hold the feed back, those of other tests too."""
    section = HOWTO.read_text(encoding="utf-8").partition("## A transaction left open")[2]
    (question,) = re.findall(r"SELECT .*?;", section, flags=re.DOTALL)
    return {pid: rest for pid, *rest in connection.execute(question).fetchall()}


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
        ((first,),) = watch.execute("SELECT max(tick) FROM plait.tick").fetchall()
        found: list[str] = []
        for n in range(count):
            turn(watch)
            chat.append(plait.user("words", id=f"m{n}"))
            page = sessions.changes(after=cursor, limit=100)
            found += [id for change in page.changes for id in change.ids if id != "other"]
            cursor = page.cursor
            assert found == [f"m{m}" for m in range(n + 1)], "late, or twice"
        pid = left_open.info.backend_pid
        assert told(watch)[pid][-1] > dt.timedelta(0), "the lag does not show"
        assert tick_of(cursor) <= first + 1
        left_open.rollback()
        assert pid not in told(watch)
        while tick_of(cursor) < first + count:  # the server is shared: what other tests write holds it back for a while
            turn(watch)
            page = sessions.changes(after=cursor, limit=100)
            assert page.changes == []
            cursor = page.cursor
