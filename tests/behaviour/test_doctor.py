"""The doctor: each way of damaging a file by hand is named, what can be worked out is mended, a sound file has no finding."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

import plait
from tests.behaviour.values import noise, note, picture

WAYS: dict[str, tuple[str, str, bool]] = {
    "a flipped byte of a payload": (
        "UPDATE chunk SET data = CAST(substr(data, 1, 9) || x'00' || substr(data, 11) AS BLOB) WHERE n = 1",
        "damaged attachment",
        False,
    ),
    "a payload of another hash": (
        "UPDATE attachment SET hash = zeroblob(32) WHERE bytes > 100",
        "damaged attachment",
        False,
    ),
    "a moved media offset": ("UPDATE attachment_ref SET at = at - 3", "damaged message", False),
    "a media offset before the text": ("UPDATE attachment_ref SET at = -1", "damaged message", False),
    "a media offset after the text": ("UPDATE attachment_ref SET at = 1000000000", "damaged message", False),
    "media exchanged": ("UPDATE attachment_ref SET n = 7 WHERE n = 0 AND key IN (SELECT key FROM message WHERE id = 'pics')",
        "damaged message", False),
    "a body that calls itself otherwise": (
        """UPDATE message SET body = replace(body, '"id":"a"', '"id":"z"') WHERE id = 'a'""",
        "damaged message",
        False,
    ),
    "a role in the body": ("UPDATE message SET body = replace(body, 'user', 'usér') WHERE id = 'a'", "damaged message", False),
    "a role in the row": ("UPDATE message SET role = 'tool' WHERE id = 'a'", "damaged message", False),
    "a body without its braces": ("UPDATE message SET body = replace(body, '}', ')') WHERE id = 'a'", "damaged message", False),
    "a body that is a list": (
        "UPDATE message SET body = '[' || substr(replace(hex(zeroblob(length(body))), '0', ' '), 1, length(body) - 2) || ']' WHERE id = 'a'",
        "damaged message",
        False,
    ),
    "parts that are no list": ("UPDATE message SET body = replace(body, '\"parts\"', '\"party\"') WHERE id = 'a'",
        "damaged message", False),
    "another size in the row": ("UPDATE message SET bytes = bytes + 1 WHERE id = 'a'", "damaged message", False),
    "an id in the row": ("UPDATE message SET id = 'z' WHERE id = 'a'", "damaged message", False),
    "path totals": ("UPDATE session SET path_messages = 1, path_bytes = 2, path_tokens = 3 WHERE id = 'c'", "wrong path totals", True),
    "a path total of nothing": ("UPDATE session SET path_messages = 0 WHERE id = 'c'", "wrong path totals", True),
    "session totals": ("UPDATE session SET tokens = tokens + 1 WHERE id = 'c'", "wrong totals", True),
    "a missing index": ("DROP INDEX attachment_ref_attachment", "missing index", True),
    "a missing unique index": ("DROP INDEX session_incarnation", "missing index", True),
    "a missing table of what others say too": ("DROP TABLE message_id", "missing table", True),
    "a missing listing": ("DROP TABLE activity", "missing table", True),
    "a missing table": ("DROP TABLE change", "missing table", False),
    "an id that leads nowhere": ("DELETE FROM message_id WHERE id = 'a'", "messages without id", True),
    "a strand that is not there": ("UPDATE strand SET parent = 99 WHERE parent <> 0", "strands that hang nowhere", False),
    "a fork after what hangs on it": ("UPDATE strand SET fork = 1000 WHERE parent <> 0", "messages before their fork", False),
}  # fmt: skip
"""How to damage a file, what the doctor calls it, and whether it mends that."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store with some of everything: a branch, slices, media of several pieces, state, a fork, a put-ahead payload."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        chat = sessions.session("c")
        chat.append_many([note("a"), note("b"), picture("big", noise(2_500_000), text="é" * 2_500_000), note("d")])
        chat.append(
            {**picture("pics", b"one"), "parts": [*picture("x", b"one")["parts"], *picture("y", b"two")["parts"]]}
        )
        chat.append(note("e"), parent="b")
        chat.append({"role": "user", "content": "of another format"})
        chat.update_state({"k": 1})
        chat.fork("f", at="d")
        put = sessions.put_attachment(b"some text", media_type="text/plain")
        chat.append({"id": "put", "role": "user", "parts": [{"type": "file", "mediaType": "text/plain", "url": put}]})
        chat.totals()
        chat.delete("d")
        chat.checkout("pics")
        sessions.put_attachment(b"unused yet", media_type="image/png")
        assert sessions.doctor() == []
    return path


def damage(file: Path, sql: str) -> None:
    database = apsw.Connection(str(file))
    database.execute(sql)
    assert database.total_changes() or sql.startswith("DROP")
    database.close()


@pytest.mark.parametrize("way", WAYS)
def test_damage_is_found_and_mended_or_told_again(file: Path, way: str) -> None:
    sql, kind, mended = WAYS[way]
    damage(file, sql)
    with plait.open(file) as sessions:
        assert kind in {finding.kind for finding in sessions.doctor()}
        told = {finding.fixed for finding in sessions.doctor(fix=True) if finding.kind == kind}
        assert told == {mended}
        left = {finding.kind for finding in sessions.doctor()}
        assert (kind not in left) if mended else (kind in left)
        if mended:
            assert left == set()


def test_the_doctor_names_the_messages_that_use_a_damaged_payload(file: Path) -> None:
    damage(file, WAYS["a flipped byte of a payload"][0])
    with plait.open(file) as sessions:
        [found] = [finding for finding in sessions.doctor() if finding.kind == "damaged attachment"]
        assert "'big'" in found.detail
