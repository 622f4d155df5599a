"""Sessions that are exported and imported again: what the catalogue says of them comes back too."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import interchange
from plait.interchange.values import ImportEntry, Report, Transcript
from tests.behaviour.values import note

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
LONG_AGO = dt.datetime(2020, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)


def copied(source: plait.Session, target: plait.Sessions, file: Path) -> plait.SessionInfo:
    """Export a session and import it elsewhere; what it is there."""
    with file.open("wb") as out:
        interchange.write_jsonl(source, out)
    [done] = interchange.import_file(target, file)
    info = target.get(done.session_id)
    assert info is not None
    return info


def test_the_default_session_is_imported_under_its_own_name(tmp_path: Path) -> None:
    with plait.open(":memory:") as here, plait.open(":memory:") as there:
        here.session().append(note("a"))
        copied(here.session(), there, tmp_path / "x.jsonl")
        assert list(there.session().history()) == list(here.session().history())
        copied(here.session(), there, tmp_path / "x.jsonl")
        assert [info.id for info in there.all()] == [here.session().id]


def test_a_fork_remembers_its_source_after_an_import(tmp_path: Path) -> None:
    with plait.open(":memory:") as here, plait.open(":memory:") as there:
        here.session("source").append(note("a"))
        here.session("source").fork("fork")
        assert copied(here.session("fork"), there, tmp_path / "x.jsonl").parent_id == "source"
        assert copied(here.session("source"), there, tmp_path / "y.jsonl").parent_id is None


def test_a_copy_was_last_active_when_its_source_was(tmp_path: Path) -> None:
    with plait.open(":memory:") as here, plait.open(":memory:") as there:
        here.session("c").import_message(note("a"), parent=None, created_at=LONG_AGO)
        source = here.get("c")
        assert source is not None and source.active_at > LONG_AGO  # writing it was the activity
        assert copied(here.session("c"), there, tmp_path / "x.jsonl").active_at == source.active_at


def transcript(id: str, *days: int | None) -> Transcript:
    """A session whose messages were made so many days after a certain one."""
    entries = [
        ImportEntry(f"{id}{n}", None, note(f"{id}{n}"), None, None if day is None else LONG_AGO + dt.timedelta(day), n)
        for n, day in enumerate(days, 1)
    ]
    return Transcript(id, "plait", iter(entries), Report(), count=len(entries))


def test_imported_sessions_are_listed_by_when_they_were_active() -> None:
    before = dt.datetime.now(dt.timezone.utc)
    with plait.open(":memory:") as sessions:
        sessions.session("mine").append(note("a"))
        for given in (
            transcript("b", 3, 9, None, 1),
            transcript("c", 5, 4),
            transcript("d", 20),
            transcript("e", None),
        ):
            sessions.import_transcript(given)
        sessions.import_transcript(transcript("future", 1_000_000))
        active = {info.id: info.active_at for info in sessions.all()}
    assert list(active)[2:] == ["mine", "d", "b", "c"]
    assert [active[id] - LONG_AGO for id in "dbc"] == [dt.timedelta(days) for days in (20, 9, 5)]
    assert min(active["e"], active["future"]) >= before and active["future"] <= dt.datetime.now(dt.timezone.utc)


def test_retention_sees_imported_sessions_as_old_as_they_are() -> None:
    with plait.open(":memory:") as sessions:
        for given in (transcript("old", 0), transcript("pinned", 0), transcript("new", None)):
            sessions.import_transcript(given)
        sessions.pin("pinned")
        plan = sessions.retain(max_age=dt.timedelta(days=365), dry_run=True)
        assert plan.sessions == [("old", "age")]
        sessions.import_transcript(transcript("old", 0, 1))  # one message more: it is active now
        assert sessions.retain(max_age=dt.timedelta(days=365), dry_run=True).sessions == []


def test_the_doctor_finds_nothing_wrong_with_what_was_imported(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.import_transcript(transcript("old", 0, 3))
        assert sessions.doctor() == []
        file = io.BytesIO()
        interchange.write_jsonl(sessions.session("old"), file)
        assert b'"activeAt":"2020-02-06T04:05:06.000000Z"' in file.getvalue()


@pytest.mark.parametrize(
    "name",
    [
        "pi-session-v1.jsonl",
        "claude-code-representative.jsonl",
        "claude-code-todos.jsonl",
        "openai-responses-items.json",
        "ui-messages.json",
        "chatgpt-conversations.json",
    ],
)
def test_a_real_transcript_is_exported_and_imported_again_to_the_letter(name: str, tmp_path: Path) -> None:
    path = DATA / name
    if not path.exists():
        pytest.skip("the sample transcripts are not here")
    with plait.open(":memory:") as here, plait.open(":memory:") as there:
        for done in interchange.import_file(here, path):
            first, second = io.BytesIO(), io.BytesIO()
            chat = here.session(done.session_id)
            interchange.write_jsonl(chat, first)
            copied(chat, there, tmp_path / "x.jsonl")
            interchange.write_jsonl(there.session(done.session_id), second)
            assert first.getvalue() == second.getvalue()
            (given,) = [one.entries for one in interchange.read(path) if one.id == done.session_id]
            told = [message.content for message in chat.everything() if isinstance(message, plait.Message)]
            assert told == [entry.message for entry in given]


@pytest.mark.parametrize("write", [interchange.write_jsonl, interchange.write_markdown])
def test_the_asynchronous_face_is_refused_where_files_are_read_and_written(write: Any, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"role": "user", "content": "x"}]', encoding="utf-8")
    sessions = plait.open_async(tmp_path / "a.db")
    with pytest.raises(plait.UsageError, match=r"plait\.open_async"):
        interchange.import_file(sessions, tmp_path / "x.json")  # type: ignore[arg-type]
    with pytest.raises(plait.UsageError, match=r"plait\.open_async"):
        write(sessions.session("c"), io.BytesIO())
    assert not (tmp_path / "a.db").exists()
