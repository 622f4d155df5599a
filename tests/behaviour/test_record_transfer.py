"""Records go along when a session is exported and imported: what a framework keeps beside the messages."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import interchange
from plait.errors import UsageError
from tests.behaviour.test_abilities import Lacking

RECORDS = {b"step/1": b"{}", b"\x00\xff": b"", b"k" * 2048: b"\x00" * 3_000_000, b"z": bytes(range(256)) * 8_000}


def filled(path: Path) -> plait.Sessions:
    sessions = plait.open(path)
    sessions.session("chat").write_records(RECORDS, append=[(None, [("a", plait.user("hi"))])], leaf="a")
    return sessions


def exported(sessions: plait.Sessions) -> bytes:
    file = io.BytesIO()
    assert interchange.write_jsonl(sessions.session("chat"), file).records == len(RECORDS)
    return file.getvalue()


def kept(sessions: plait.Sessions) -> dict[bytes, bytes]:
    return sessions.session("chat").read_records(list(RECORDS))


def test_an_imported_session_has_every_record(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        (tmp_path / "chat.jsonl").write_bytes(exported(here))
        for _ in range(2):
            (report,) = interchange.import_file(there, tmp_path / "chat.jsonl")
            assert report.report.problems == []
        assert kept(there) == RECORDS
        assert exported(there).splitlines()[1:] == exported(here).splitlines()[1:]
        there.session("chat").write_records({b"z": b"their own"})
        list(interchange.import_file(there, tmp_path / "chat.jsonl"))
        assert kept(there) == {**RECORDS, b"z": b"their own"}


def test_there_may_be_more_records_than_a_page_has(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        many = {b"%05d" % n: b"%d" % n for n in range(2_500)}
        here.session("chat").write_records(many)
        with (tmp_path / "chat.jsonl").open("wb") as file:
            assert interchange.write_jsonl(here.session("chat"), file).records == len(many)
        list(interchange.import_file(there, tmp_path / "chat.jsonl"))
        assert there.session("chat").read_records(list(many)) == many


def test_a_store_without_records_takes_the_messages_and_says_what_is_lost(tmp_path: Path) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as whole:
        (tmp_path / "chat.jsonl").write_bytes(exported(here))
        store: Any = Lacking(whole.store, "write_records", "read_records", "records")
        there = plait.Sessions(store)
        (report,) = interchange.import_file(there, tmp_path / "chat.jsonl")
        assert report.report.lost == len(RECORDS)
        assert [message.id for message in there.session("chat").history()] == ["a"]
        file = io.BytesIO()
        assert interchange.write_jsonl(there.session("chat"), file).records == 0


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (b'"key":"c3RlcC8x"', b'"key":""', "key"),
        (b'"key":"c3RlcC8x"', b'"key":"c3Rl cC8x"', "key"),
        (b'"key":"c3RlcC8x"', b'"key":null', "key"),
        (b'"body":"e30="', b'"body":"e30"', "body"),
        (b'"body":"e30="', b'"body":3', "body"),
    ],
)
def test_a_line_that_is_no_record_is_an_error(tmp_path: Path, old: bytes, new: bytes, wrong: str) -> None:
    with filled(tmp_path / "a.db") as here, plait.open(tmp_path / "b.db") as there:
        text = exported(here)
        assert text.count(old) == 1
        (tmp_path / "chat.jsonl").write_bytes(text.replace(old, new))
        with pytest.raises(UsageError, match=rf"line \d+: {wrong} "):
            list(interchange.import_file(there, tmp_path / "chat.jsonl"))
        assert there.session("chat").info() is None
