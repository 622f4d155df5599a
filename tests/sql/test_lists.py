"""Statements that are given a list look up each item of it; none goes through the table once for each."""

from __future__ import annotations

import apsw
import pytest

from plait.store.sqlite import connection as files
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.statements import load

LISTED = {name: statement for name, statement in load().items() if "json_each" in statement.text}


@pytest.mark.parametrize("name", LISTED)
def test_the_list_is_the_outer_loop(name: str) -> None:
    """B-089: with the table outside and the list inside, 100,000 ids cost 10^10 steps."""
    database = files.open_writer(Settings(files.MEMORY))
    statement = LISTED[name]
    rows = database.execute(
        f"EXPLAIN QUERY PLAN {statement.text}", dict.fromkeys(statement.parameters, "[]")
    ).fetchall()
    lines = [str(row[3]) for row in rows]
    list_at = next(n for n, line in enumerate(lines) if "VIRTUAL TABLE" in line)
    before = [line for line in lines[:list_at] if line.startswith(("SEARCH", "SCAN"))]
    assert before == [] or name == "changed_keys" or lines[list_at - 1].startswith("LIST SUBQUERY"), lines


def test_a_list_of_many_ids_costs_steps_in_proportion(tmp_path: object) -> None:
    """B-089: counted in SQLite's own steps."""
    database = files.open_writer(Settings(files.MEMORY))
    ids = [f"m{n}" for n in range(4000)]
    for key, id in enumerate(ids):
        database.execute("INSERT INTO message_id VALUES (1, ?, ?)", (id, key))
    text = load()["find_messages"].text

    def steps(count: int) -> int:
        import json

        statement_steps = 0

        def progress() -> bool:
            nonlocal statement_steps
            statement_steps += 1
            return False

        database.set_progress_handler(progress, 100)
        assert len(database.execute(text, (json.dumps(ids[:count]), 1)).fetchall()) == count
        database.set_progress_handler(None)
        return statement_steps

    assert steps(4000) < 12 * max(steps(400), 1)
    assert isinstance(database, apsw.Connection)
