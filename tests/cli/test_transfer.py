"""Import and export on the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import plait
from tests.cli.conftest import Run
from tests.cli.test_commands import one_line, rows

Entry = tuple[str, str | None, int]


def contents(db: Path, session: str = "chat") -> list[Entry]:
    with plait.open(db, read_only=True) as sessions:
        return [(one.to_json(), one.parent_id, one.seq) for one in sessions.session(session).everything()]  # type: ignore[union-attr]


def test_an_export_imported_elsewhere_is_the_same_tree(cli: Run, chat: Path, tmp_path: Path) -> None:
    copy, file = tmp_path / "copy.db", tmp_path / "chat.jsonl"
    assert cli("export", "chat", "-o", file).code == 0
    assert cli("import", file, "--db", copy).code == 0
    assert contents(copy) == contents(chat)
    again = cli("export", "chat", "--db", copy).out.encode()
    assert again.splitlines()[1:] == file.read_bytes().splitlines()[1:]


def test_importing_again_adds_nothing(cli: Run, chat: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    cli("export", "chat", "-o", file)
    before = contents(chat)
    assert rows(cli("import", file, "--json").out)[0]["inserted"] == 0
    assert contents(chat) == before


def test_a_copy_is_continued_after_a_seq(cli: Run, chat: Path, tmp_path: Path) -> None:
    file, copy = tmp_path / "chat.jsonl", tmp_path / "copy.db"
    cli("export", "chat", "-o", file)
    with plait.open(chat) as sessions:
        sessions.session("chat").append(plait.user("more", id="u3"))
    assert cli("export", "chat", "-o", file, "--after", "5").code == 0
    assert cli("import", file, "--db", copy).code == 0
    assert contents(copy) == contents(chat)


def test_a_continuation_that_fails_leaves_the_copy_as_it_was(
    cli: Run, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_bytes(b"earlier\n")

    def broken(self: plait.Session) -> dict[str, object]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(plait.Session, "state", broken)
    assert "No space left" in one_line(cli("export", "chat", "-o", file, "--after", "1").err)
    assert file.read_bytes() == b"earlier\n"
    assert cli("export", "chat", "-o", tmp_path / "new.jsonl").code == 1
    assert sorted(path.name for path in tmp_path.glob("*.jsonl*")) == ["chat.jsonl"]
    assert not list(tmp_path.glob("*.part"))


def test_an_existing_file_is_replaced_only_by_force(cli: Run, chat: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.md"
    file.write_text("mine")
    refused = cli("export", "chat", "--format", "markdown", "-o", file)
    assert refused.code == 1
    assert "--force" in one_line(refused.err)
    assert file.read_text() == "mine"
    assert cli("export", "chat", "--format", "markdown", "-o", file, "--force").code == 0
    assert "first answer" in file.read_text(encoding="utf-8")


def test_exporting_a_leaf_exports_that_path(cli: Run, chat: Path) -> None:
    lines = rows(cli("export", "chat", "--leaf", "a2b").out)
    assert [line["id"] for line in lines[1:-1]] == ["u1", "a1", "u2", "a2b"]
    markdown = cli("export", "chat", "--leaf", "a2b", "--format", "markdown").out
    assert "second answer" in markdown
    assert "first answer" not in markdown


def test_markdown_after_a_seq_begins_there(cli: Run, chat: Path) -> None:
    out = cli("export", "chat", "--format", "markdown", "--after", "3").out
    assert "first answer" in out
    assert "weather" not in out


def test_what_could_not_be_placed_is_told_by_line_and_the_rest_is_there(cli: Run, db: Path, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    good = [json.dumps({"role": "user", "content": f"message {number}"}) for number in range(3)]
    file.write_text("\n".join([good[0], "{broken", good[1], good[2][:20]]))
    ran = cli("import", file, "--session", "s")
    assert ran.code == 3
    assert [line.split(": ")[1] for line in ran.err.splitlines()] == [f"{file}:2", f"{file}:4"]
    with plait.open(db, read_only=True) as sessions:
        assert [message.text for message in sessions.session("s").history()] == ["message 0", "message 1"]  # type: ignore[union-attr]


@pytest.mark.parametrize("content", [b"", b"just words\n", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), b"[1, 2, 3]"])
def test_a_file_that_is_no_transcript_is_one_line_and_exit_1(
    cli: Run, db: Path, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_bytes(content)
    ran = cli("import", file)
    assert (ran.code, ran.out) == (1, "")
    assert str(file) in one_line(ran.err)


def test_of_a_file_of_which_nothing_can_be_read_no_session_is_made(cli: Run, db: Path, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        file = tmp_path / folder / "broken.jsonl"
        file.parent.mkdir()
        file.write_bytes(b"x\n\xff\n")
        ran = cli("import", file, "--format", "openai")
        assert ran.code == 3 and "nothing, 2 lost" in ran.out and ":2:" in ran.err
        assert rows(cli("import", file, "--format", "openai", "--json").out)[0]["inserted"] == 0
    assert cli("ls").out == ""


def test_what_cannot_be_read_twice_is_refused_with_what_to_do(cli: Run, db: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"role":"user","content":"a"}\n')
    os.close(writing)
    try:
        ran = cli("import", f"/dev/fd/{reading}")
    finally:
        os.close(reading)
    assert ran.code == 1 and "save what it says in a file" in one_line(ran.err)


def test_a_file_that_cannot_be_read_keeps_no_other_out(cli: Run, db: Path, tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    good.write_text(json.dumps([plait.user("hello", id="u1")]))
    ran = cli("import", tmp_path / "absent.json", good, "--json")
    assert ran.code == 1
    assert "absent.json" in one_line(ran.err)
    assert [one["messages"] for one in rows(ran.out)] == [1]


def test_an_unknown_format_is_named_with_those_there_are(cli: Run, db: Path, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text("[]")
    ran = cli("import", file, "--format", "yaml")
    assert ran.code == 1
    assert "yaml" in one_line(ran.err)
    assert "claude-code" in ran.err


SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.mark.skipif(not SHARED.is_dir(), reason="the real transcripts are not here")
def test_real_transcripts_are_pleasant_in_every_view(cli: Run, db: Path) -> None:
    files = sorted(SHARED.glob("*.json*"))
    ran = cli("import", "--json", *files)
    assert ran.code == 0
    for one in rows(ran.out):
        id = one["session_id"]
        assert len(rows(cli("tree", f"--id={id}", "--json").out)) == one["messages"]
        for command in ("show", "tree", "stats"):
            shown = cli(command, f"--id={id}")
            assert (shown.code, shown.err) == (0, "")
            assert "internal" not in shown.out[:200]
            assert "\x1b" not in shown.out
