"""Overlays in exports and imports: none is lost silently, none is laid where it does not belong."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from pathlib import Path

import plait
from plait import jsontext
from plait.interchange import import_file, write_jsonl
from tests.unit.test_interchange_cloudflare import SCHEMA, put, ui


def grown(sessions: plait.Sessions) -> plait.Session:
    """A session with a branch, and overlays in one another, beside one another and on the branch alone."""
    chat = sessions.session("chat")
    chat.append_many([plait.user(f"text {n}", id=f"m{n}") for n in range(8)])
    chat.append(plait.user("branch", id="x"), parent="m3")
    chat.add_overlay("m1", "x", summary="the branch's")
    chat.checkout("m7")
    chat.add_overlay("m1", "m2", summary="inner")
    chat.omit("m3")
    chat.add_overlay("m1", "m4", summary="outer é💡")
    chat.replace("m6", "instead")
    return chat


def export(chat: plait.Session, path: Path) -> Path:
    with path.open("wb") as file:
        write_jsonl(chat, file)
    return path


def test_an_exported_session_comes_back_with_its_overlays(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one, plait.open(tmp_path / "two.db") as two:
        chat = grown(one)
        path = export(chat, tmp_path / "chat.jsonl")
        (report,) = import_file(two, str(path))
        assert report.report.problems == []
        copy = two.session("chat")
        assert copy.overlays(all=True) == chat.overlays(all=True)
        for leaf in ("m7", "x", "m3"):
            assert [message.to_json() for message in copy.history(leaf)] == [m.to_json() for m in chat.history(leaf)]
        again = io.BytesIO()
        write_jsonl(copy, again)
        assert again.getvalue() == path.read_bytes()
        version = two.get("chat")
        (report,) = import_file(two, str(path))
        assert report.report.problems == [] and two.get("chat") == version, "a second import changes nothing"
        assert two.doctor() == []


def test_a_session_that_exists_gets_the_overlays_it_lacks(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one, plait.open(tmp_path / "two.db") as two:
        chat = grown(one)
        copy = two.session("chat")
        copy.append_many([message.to_dict() for message in chat.transcript("m4")])
        import_file(two, str(export(chat, tmp_path / "chat.jsonl")))
        assert [item.id for item in copy.overlays(all=True)] == [item.id for item in chat.overlays(all=True)]
        assert [message.id for message in copy.history("m7")] == [message.id for message in chat.history("m7")]


def test_an_overlay_whose_end_is_gone_is_laid_on_what_is_left(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one, plait.open(tmp_path / "two.db") as two:
        chat = grown(one)
        chat.delete(["m4", "m1"])
        (report,) = import_file(two, str(export(chat, tmp_path / "chat.jsonl")))
        assert report.report.problems == []
        copy = two.session("chat")
        ends = {item.summary: (item.from_id, item.to_id, item.stale) for item in copy.overlays(all=True)}
        assert ends["outer é💡"] == ("m2", "m3", True)
        assert ends["inner"] == ("m2", "m2", True)
        assert ends["the branch's"] == ("m2", "x", True)
        assert ends["instead"] == ("m6", "m6", False)
        for leaf in ("m7", "x"):
            shown = [message.text for message in chat.history(leaf) if isinstance(message, plait.Message)]
            assert [message.text for message in copy.history(leaf) if isinstance(message, plait.Message)] == shown
        assert two.doctor() == one.doctor()


def test_an_overlay_of_another_branch_whose_last_message_is_gone_is_reported(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one, plait.open(tmp_path / "two.db") as two:
        chat = grown(one)
        chat.delete("x")
        (report,) = import_file(two, str(export(chat, tmp_path / "chat.jsonl")))
        assert [problem.lost for problem in report.report.problems] == [True]
        assert "'x'" in report.report.problems[0].reason
        assert [item.id for item in two.session("chat").overlays()] == [item.id for item in chat.overlays()]


def test_that_an_overlay_is_stale_comes_along(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one, plait.open(tmp_path / "two.db") as two:
        chat = grown(one)
        chat.update(plait.user("changed", id="m2"))
        (report,) = import_file(two, str(export(chat, tmp_path / "chat.jsonl")))
        assert report.report.problems == []
        stale = [item.id for item in chat.overlays(all=True) if item.stale]
        assert len(stale) == 3
        assert [item.id for item in two.session("chat").overlays(all=True) if item.stale] == stale


def test_a_session_without_overlays_is_exported_as_before(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db") as one:
        one.session("s").append(plait.user("hi"))
        header = export(one.session("s"), tmp_path / "s.jsonl").read_text().splitlines()[0]
    assert jsontext.decode(header)["plait"] == 1


def test_compactions_of_the_source_system_are_laid_on_where_they_can_be(tmp_path: Path) -> None:
    path = tmp_path / "agent.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(SCHEMA)
        for n in range(8):
            put(db, ui(f"m{n}", f"text {n}"), n + 1, f"m{n - 1}" if n else None)
        put(db, ui("compaction_k1", "an echo"), 9, "m7")
        put(db, ui("m8", "after the echo"), 10, "compaction_k1")
        put(db, ui("compaction_other", "of a session that is not here"), 11, "m8")
        for row in [
            ("s", "k1", 1, "first", "m1", "m3", 5000),
            ("s", "k2", 2, "extended", "m1", "m5", 6000),
            ("s", "crossing", 3, "no", "m4", "m6", 7000),
            ("s", "bogus", 4, "no", "m1", "nobody", 8000),
            ("s", "reversed", 5, "no", "m7", "m6", 9000),
        ]:
            db.execute("INSERT INTO cf_agents_session_compactions VALUES (?,?,?,?,?,?,?)", row)
    with plait.open(tmp_path / "one.db") as sessions:
        (report,) = import_file(sessions, str(path))
        chat = sessions.session("s")
        texts = [message.text for message in chat.history() if isinstance(message, plait.Message)]
        assert texts == ["text 0", "extended", "text 6", "text 7", "after the echo", "of a session that is not here"]
        after = chat.get("m8")
        assert after is not None and after.parent_id == "m7", "the echo's child goes to the echo's parent"
        assert [item.id for item in chat.overlays()] == ["k1", "k2"]
        assert chat.overlays()[0].created_at.timestamp() == 5
        told = " ".join(problem.reason for problem in report.report.problems)
        assert all(id in told for id in ("crossing", "bogus", "reversed"))
