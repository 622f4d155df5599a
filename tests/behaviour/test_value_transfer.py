"""Named values go along when a session is exported and imported: every version, to the letter."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any, cast

import pytest

import plait
from plait import interchange
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from tests.behaviour.test_abilities import Lacking

operations = itertools.count()
TEXTS = ["likes tea", "", "halves \ud83d\ude00 and \x00 \\x00", None, "x" * 2_000_000, "likes \u202e tea\n{}"]


def write(sessions: plait.Sessions, label: str, key: str, content: str | None, **options: Any) -> None:
    given: dict[str, Any] = {"operation": f"t{next(operations)}", "created_at_us": 1_800_000_000_000_000, **options}
    given["created_at_us"] += next(operations)
    cast("Contextual", sessions.store).write_value(SessionRef(Scope(), "chat"), label, key, content, **given)


def filled(path: Path) -> plait.Sessions:
    sessions = plait.open(path)
    sessions.session("chat").append(plait.user("hi", id="a"))
    for text in TEXTS:
        write(sessions, "memory", "", text, description="d", metadata={"k": [1]}, tokens=5, least_version=3)
    write(sessions, "notes", "gone", "x")
    write(sessions, "notes", "gone", None)
    write(sessions, "notes", "kept", "y", description="half \ud83d")
    return sessions


def exported(sessions: plait.Sessions) -> bytes:
    file = io.BytesIO()
    interchange.write_jsonl(sessions.session("chat"), file)
    return file.getvalue()


def test_an_imported_session_has_every_version_of_every_value(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        (tmp_path / "chat.jsonl").write_bytes(exported(here))
        (report,) = interchange.import_file(there, tmp_path / "chat.jsonl")
        assert report.report.problems == []
        kept = list(there.session("chat").value_versions())
        assert kept == list(here.session("chat").value_versions())
        assert [value.content for value in kept if value.label == "memory"] == TEXTS
        assert exported(there).splitlines()[1:] == exported(here).splitlines()[1:]


def test_importing_again_writes_no_version_twice_and_adds_what_is_new(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        for _ in range(2):
            (tmp_path / "chat.jsonl").write_bytes(exported(here))
            for _ in range(2):
                list(interchange.import_file(there, tmp_path / "chat.jsonl"))
            assert list(there.session("chat").value_versions()) == list(here.session("chat").value_versions())
            write(here, "memory", "", "newer")
            write(here, "notes", "new", "new")


def test_a_value_that_went_its_own_way_is_left_as_it_is(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        write(there, "memory", "", "their own")
        (tmp_path / "chat.jsonl").write_bytes(exported(here))
        list(interchange.import_file(there, tmp_path / "chat.jsonl"))
        found = [(v.label, v.key, v.content) for v in there.session("chat").value_versions()]
        assert found == [
            ("memory", "", "their own"),
            ("notes", "gone", "x"),
            ("notes", "gone", None),
            ("notes", "kept", "y"),
        ]


def test_a_session_without_values_is_written_as_before(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.session("chat").append(plait.user("hi"))
        assert exported(sessions).startswith(b'{"plait":1,')
    with filled(tmp_path / "b.db") as sessions:
        assert exported(sessions).startswith(b'{"plait":3,')


def test_a_store_without_values_takes_the_messages_and_says_what_is_lost(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as whole:
        (tmp_path / "chat.jsonl").write_bytes(exported(here))
        store: Any = Lacking(whole.store, "write_value", "value_names")
        there = plait.Sessions(store)
        (report,) = interchange.import_file(there, tmp_path / "chat.jsonl")
        assert report.report.lost == len(TEXTS) + 3
        assert [message.id for message in there.session("chat").history()] == ["a"]
        assert list(there.session("chat").value_versions()) == []


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (b'"label":"memory"', b'"label":""', "label"),
        (b'"label":"memory"', b'"label":3', "label"),
        (b'"key":"gone"', b'"key":null', "key"),
        (b'"version":2', b'"version":1', "version"),
        (b'"escaped":true', b'"escaped":1', "escaped"),
        (b'"content":"likes tea"', b'"content":"likes \\\\ud8","escaped":true', "content"),
        (b'"metadata":{"k":[1]}', b'"metadata":[]', "metadata"),
    ],
)
def test_a_damaged_line_is_refused_by_its_number_and_nothing_is_imported(
    tmp_path: Path, old: bytes, new: bytes, wrong: str
) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        assert old in exported(here)
        (tmp_path / "chat.jsonl").write_bytes(exported(here).replace(old, new, 1))
        with pytest.raises(plait.UsageError, match=f"line [0-9]+: {wrong}"):
            list(interchange.import_file(there, tmp_path / "chat.jsonl"))
        assert there.get("chat") is None
