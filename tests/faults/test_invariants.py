"""The invariants see what is broken: a check that finds nothing wrong with anything proves nothing."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from plait.testing.faults import invariants

DAMAGE = [
    "UPDATE counter SET value = 0 WHERE name = 'strand'",
    "UPDATE counter SET value = 0 WHERE name = 'incarnation'",
    "UPDATE session SET messages = messages + 1 WHERE id = 's'",
    "UPDATE session SET bytes = bytes - 1 WHERE id = 's'",
    "UPDATE session SET path_tokens = 1000 WHERE id = 's'",
    "UPDATE session SET next_seq = 2 WHERE id = 's'",
    "UPDATE session SET version = 1 WHERE id = 's'",
    "UPDATE session SET leaf = 99 << 32 | 1 WHERE id = 's'",
    "UPDATE session SET live = 0 WHERE id = 's'",
    "UPDATE session SET active_at = 0 WHERE id = 's'",
    "DELETE FROM session WHERE id = 'other'",
    "DELETE FROM activity",
    "UPDATE activity SET bucket = bucket + 1",
    "DELETE FROM message WHERE id = 'b'",
    "UPDATE message SET id = 'q' WHERE id = 'b'",
    "UPDATE message SET bytes = bytes + 1 WHERE id = 'b'",
    "UPDATE message SET body = '{' || substr(body, 1, length(body) - 1) WHERE id = 'b'",
    "UPDATE message SET version = 1 WHERE id = 'b'",
    "UPDATE message SET flags = 0 WHERE id = 'big'",
    "UPDATE message SET flags = 0 WHERE id = 'p'",
    "UPDATE message SET flags = 4 WHERE id = 'b'",
    "DELETE FROM message_id WHERE id = 'b'",
    "UPDATE message_id SET key = key + 1000 WHERE id = 'b'",
    "DELETE FROM strand WHERE strand = 1",
    "UPDATE strand SET fork = 1000 WHERE parent > 0",
    "UPDATE strand SET parent = strand WHERE parent > 0",
    "UPDATE strand SET incarnation = 1000 WHERE strand = 1",
    "DELETE FROM slice WHERE n = 1",
    "UPDATE slice SET n = n + 10",
    "INSERT INTO slice VALUES (12345, 1, 'text')",
    "DELETE FROM attachment",
    "UPDATE attachment SET owner = 'somebody'",
    "UPDATE attachment SET hash = zeroblob(32)",
    "UPDATE attachment SET hash = NULL",
    "DELETE FROM attachment_ref",
    "UPDATE attachment_ref SET n = 1",
    "UPDATE chunk SET data = zeroblob(length(data))",
    "DELETE FROM chunk",
    "INSERT INTO chunk VALUES (99, 0, x'00')",
    "INSERT INTO upload VALUES ('claim', 99, 0)",
    "INSERT INTO info SELECT 99, NULL, NULL, NULL, 0, '{}', '{}'",
    "INSERT INTO info SELECT session, NULL, NULL, NULL, 0, '[]', '{}' FROM session WHERE id = 's'",
    "INSERT INTO change SELECT session, 1, incarnation, 'update', 'o', 0, '{}' FROM session WHERE id = 's'",
    "UPDATE session SET overlays = 7 WHERE id = 's'",
    "UPDATE session SET hidden_tokens = 7 WHERE id = 's'",
    "UPDATE overlay SET left_messages = left_messages + 1",
    "UPDATE overlay SET place = place + 1",
    "UPDATE overlay SET incarnation = 99",
    "DELETE FROM overlay",
    "DELETE FROM overlay_range",
    "UPDATE overlay_range SET strand = 99 WHERE lo = 2",
    "INSERT INTO change SELECT session, version + 1, incarnation, 'update', 'o', 0, '{}' FROM session WHERE id = 's'",
]


def test_a_sound_file_has_nothing_wrong(prepared: Path) -> None:
    assert invariants(prepared) == []


@pytest.mark.parametrize("statement", DAMAGE)
def test_damage_is_reported(statement: str, prepared: Path) -> None:
    connection = apsw.Connection(str(prepared))
    connection.execute(statement)
    assert connection.changes() > 0
    connection.close()
    assert invariants(prepared) != []


def test_a_damaged_page_is_reported(prepared: Path) -> None:
    size = prepared.stat().st_size
    with prepared.open("r+b") as file:
        file.seek(size // 2 // 8192 * 8192)
        file.write(b"\xff" * 8192)
    try:
        assert invariants(prepared) != []
    except apsw.CorruptError:
        pass  # it could not even be read
