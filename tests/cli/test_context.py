"""`plait context`: what sessions remember is listed, read, written, and brought back, exactly."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import plait
from tests.cli.conftest import HOSTILE, Run


@pytest.fixture
def chat(db: Path) -> Path:
    """A session with a block, an entry, and a block that its scope shares."""
    with plait.open(db) as sessions:
        sessions.session("old").append(plait.user("hi"))
        chat = sessions.session("chat")
        chat.append(plait.user("hi"))
        chat.with_context("memory").with_context("notes", kind="documents").with_context("team", shared=True)
        chat.context.replace("memory", "Likes tea.")
        chat.context.replace("memory", "Likes cake.\n")
        chat.context.put("notes", "Press it.", key="a/b.md", description="How to press")
        chat.context.replace("team", "Be kind.")
    return db


def values(cli: Run, *arguments: str) -> list[dict[str, Any]]:
    ran = cli("context", *arguments, "--json")
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def content(db: Path, label: str, session: str = "chat", *, shared: bool = False) -> str:
    with plait.open(db) as sessions:
        block = sessions.session(session, context=[plait.BlockSpec(label, shared=shared)]).context.block(label)
        assert block is not None
        return block.content


def test_the_list_shows_blocks_and_entries(chat: Path, cli: Run) -> None:
    ran = cli("context", "list")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("memory  version 2 · ") and lines[0].endswith(" · 7 tokens · 12 bytes")
    assert lines[1] == "  Likes cake."
    assert lines[2].startswith("notes / a/b.md  version 1 · ") and lines[3] == "  How to press"
    assert len(lines) == 4
    assert [value["label"] for value in values(cli, "list", "--shared")] == ["team"]
    assert values(cli, "list", "--session", "old") == []


def test_many_entries_are_all_listed(chat: Path, cli: Run) -> None:
    with plait.open(chat) as sessions:
        context = sessions.session("chat").with_context("many", kind="collection").context
        for n in range(230):
            context.put("many", str(n), key=f"{n:03}")
    found = [value["key"] for value in values(cli, "list", "--session", "chat") if value["label"] == "many"]
    assert found == [f"{n:03}" for n in range(230)]


def test_a_block_is_printed_exactly(chat: Path, cli: Run) -> None:
    assert cli("context", "show", "memory").out == "Likes cake.\n"
    assert cli("context", "show", "memory", "--version", "1").out == "Likes tea."
    assert cli("context", "show", "notes", "--key", "a/b.md", "--session", "chat").out == "Press it."
    assert cli("context", "show", "team", "--shared").out == "Be kind."
    (value,) = values(cli, "show", "notes", "--key", "a/b.md")
    assert (value["content"], value["description"], value["version"]) == ("Press it.", "How to press", 1)


def test_a_block_is_written_and_added_to(chat: Path, cli: Run) -> None:
    ran = cli("context", "set", "memory", "Drinks water.", "--session", "chat")
    assert (ran.code, ran.out) == (0, "memory is at version 3, 7 tokens\n")
    assert cli("context", "append", "memory", "Sleeps.", "--session", "chat").code == 0
    assert content(chat, "memory") == "Drinks water.\nSleeps."
    (value,) = values(cli, "set", "new", "One.", "--session", "old")
    assert (value["version"], value["content"]) == (1, "One.")
    assert cli("context", "set", "team", "Be brief.", "--shared").code == 0
    assert content(chat, "team", "another", shared=True) == "Be brief."


def test_an_entry_is_written_under_its_key(chat: Path, cli: Run) -> None:
    ran = cli("context", "set", "notes", "New.", "--key", "c", "--description", "About c", "--session", "chat")
    assert (ran.code, ran.out) == (0, "notes, key c is at version 1, 3 tokens\n")
    with plait.open(chat) as sessions:
        context = sessions.session("chat").with_context("notes", kind="documents").context
        block = context.block("notes")
        assert block is not None and block.content == "- a/b.md: How to press\n- c: About c"


def test_text_comes_from_a_file_or_from_standard_input(
    chat: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "Line one\r\n\nÜ 用 😀\n"
    (tmp_path / "text").write_bytes(text.encode())
    assert cli("context", "set", "memory", "--file", str(tmp_path / "text"), "--session", "chat").code == 0
    assert content(chat, "memory") == text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from stdin")))
    assert cli("context", "set", "memory", "--file", "-", "--session", "chat").code == 0
    assert content(chat, "memory") == "from stdin"
    (tmp_path / "bad").write_bytes(b"ok \xff")
    ran = cli("context", "set", "memory", "--file", str(tmp_path / "bad"), "--session", "chat")
    assert ran.code == 1 and "UTF-8" in ran.err and content(chat, "memory") == "from stdin"


def test_a_write_can_be_conditional_and_limited(chat: Path, cli: Run) -> None:
    ran = cli("context", "set", "memory", "x", "--session", "chat", "--expect", "1")
    assert ran.code == 1 and "version 2, not 1" in ran.err and len(ran.err.splitlines()) == 1
    assert cli("context", "set", "memory", "x", "--session", "chat", "--expect", "2").code == 0
    ran = cli("context", "append", "memory", "word " * 50, "--session", "chat", "--max-tokens", "10")
    assert ran.code == 1 and content(chat, "memory") == "x"
    assert cli("context", "set", "fresh", "x", "--session", "chat", "--expect", "0").code == 0


def test_the_history_is_newest_first_and_a_version_comes_back(chat: Path, cli: Run) -> None:
    assert [value["content"] for value in values(cli, "history", "memory")] == ["Likes cake.\n", "Likes tea."]
    assert [value["version"] for value in values(cli, "history", "memory", "--limit", "1")] == [2]
    (value,) = values(cli, "restore", "memory", "1", "--session", "chat")
    assert (value["version"], value["content"]) == (3, "Likes tea.")
    assert cli("context", "set", "notes", "Other.", "--key", "a/b.md", "--session", "chat").code == 0
    (value,) = values(cli, "restore", "notes", "1", "--key", "a/b.md", "--session", "chat")
    assert (value["version"], value["content"], value["description"]) == (3, "Press it.", "How to press")
    ran = cli("context", "restore", "memory", "9", "--session", "chat")
    assert ran.code == 1 and "no version 9" in ran.err


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("Likes tea. " * 30, "Likes tea. " * 30 + "\nAnd cake.", "+ And cake."),
        ("Likes tea. " * 30 + "\nAnd cake.", "Likes tea. " * 30 + "\n", "- And cake."),
        ("Likes tea. " * 30 + "green", "Likes tea. " * 30 + "greek yoghurt", "… greek yoghurt"),
        ("x" * 500 + "old", "x" * 500 + "new", "…"),
        ("Likes tea.", "Drinks water.", "Drinks water."),
        ("Likes tea.", "", "- Likes tea."),
        ("", "Likes tea.", "Likes tea."),
    ],
)
def test_the_history_shows_what_each_version_changed(chat: Path, cli: Run, before: str, after: str, shown: str) -> None:
    with plait.open(chat) as sessions:
        context = sessions.session("chat").with_context("diary").context
        context.replace("diary", before)
        context.replace("diary", after)
    for more in ((), ("--limit", "1")):
        lines = cli("context", "history", "diary", *more).out.splitlines()
        assert lines[0].startswith("diary  version 2") and lines[1].startswith("  " + shown), lines
        assert all(len(line) <= 64 for line in lines[1::2])


def test_a_block_of_both_kinds_is_written_as_either(chat: Path, cli: Run) -> None:
    with plait.open(chat) as sessions:
        sessions.session("chat").with_context("notes").context.replace("notes", "One text, too.")
    assert cli("context", "append", "notes", "More.", "--session", "chat").code == 0
    assert cli("context", "set", "notes", "More.", "--key", "new", "--session", "chat").code == 0
    assert content(chat, "notes") == "One text, too.\nMore."


def test_a_memory_can_begin_before_there_is_a_database(db: Path, cli: Run) -> None:
    assert cli("context", "set", "memory", "First.", "--shared").code == 0
    assert content(db, "memory", shared=True) == "First."


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("show", "absent"), 1, "there is no block absent in session chat"),
        (("show", "memory", "--version", "9"), 1, "version 9"),
        (("show", "notes"), 1, "block notes holds entries under keys, such as a/b.md; name one with --key"),
        (("history", "notes"), 1, "name one with --key"),
        (("append", "notes", "more", "--session", "chat"), 1, "name one with --key"),
        (("set", "notes", "more", "--session", "chat"), 1, "name one with --key"),
        (("restore", "notes", "1", "--session", "chat"), 1, "name one with --key"),
        (("show", "memory", "--key", "a"), 1, "block memory is one text, without keys; leave --key out"),
        (("history", "memory", "--key", "a"), 1, "leave --key out"),
        (("set", "memory", "x", "--key", "a", "--session", "chat"), 1, "leave --key out"),
        (("set", "memory", "x", "--description", "About", "--session", "chat"), 2, "--description is for an entry"),
        (("set", "memory", "x", "--expect", "7", "--session", "chat"), 1, "is at version 2: there is no version 7 yet"),
        (
            ("set", "fresh", "x", "--expect", "7", "--session", "chat"),
            1,
            "was never written: there is no version 7 yet",
        ),
        (("show", "notes", "--key", "z"), 1, "key z"),
        (("history", "absent", "--shared"), 1, "in the scope's shared blocks"),
        (("show", "plait:prompt"), 1, "reserved"),
        (("show", "a[b]"), 1, "label must be one line"),
        (("list", "--session", "absent"), 1, "there is no session absent"),
        (("list", "--session", "chat", "--shared"), 2, "exclude each other"),
        (("set", "memory", "x"), 2, "--session ID, or --shared"),
        (("set", "memory", "--session", "chat"), 2, "give the text"),
        (("set", "memory", "x", "--file", "y", "--session", "chat"), 2, "give the text"),
        (("set", "memory", "--file", "absent.txt", "--session", "chat"), 1, "No such file"),
        (("set", "memory", "x", "--session", "absent"), 1, "there is no session absent"),
        (("set", "n", "x", "--key", "k", "--expect", "1", "--session", "chat"), 2, "--expect"),
        (("append", "memory", "x", "--expect", "1"), 2, "--expect"),
        (("restore", "memory", "0", "--session", "chat"), 2, "greater than or equal to 1"),
        (("restore", "memory", "--session", "chat"), 2, "VERSION"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    chat: Path, cli: Run, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ran = cli("context", *arguments)
    assert (ran.code, ran.out) == (code, "") and told in ran.err and len(ran.err.splitlines()) == 1, ran.err
    assert content(chat, "memory") == "Likes cake.\n"


def test_hostile_text_reaches_no_terminal_and_is_kept(chat: Path, cli: Run) -> None:
    with plait.open(chat) as sessions:
        sessions.session("chat").with_context("memory").context.replace("memory", HOSTILE)
        sessions.session("chat").with_context("notes", kind="documents").context.put("notes", HOSTILE, key="k\u200e")
    for command in ("list", "history"):
        ran = cli("context", command, *["memory"] * (command == "history"), "--session", "chat")
        assert ran.code == 0 and not {"\x1b", "\x07", "\u202e", "\x00"} & set(ran.out)
    (value,) = values(cli, "show", "memory", "--session", "chat")
    assert value["content"] == HOSTILE
    assert cli("context", "show", "memory", "--session", "chat").out == HOSTILE  # a pipe gets what is there


def test_reading_needs_no_permission_to_write(chat: Path, cli: Run) -> None:
    chat.chmod(0o444)
    before = chat.read_bytes()
    assert cli("context", "list").code == 0 and cli("context", "show", "memory").code == 0
    assert chat.read_bytes() == before


def test_a_block_that_is_not_there_names_the_list_of_the_same_place(chat: Path, cli: Run) -> None:
    own = cli("context", "show", "nope", "--session", "chat").err
    assert "`plait context list --session chat` lists" in own and "--shared at those that all share" in own
    shared = cli("context", "show", "nope", "--shared").err
    assert "`plait context list --shared` lists" in shared and "--session ID" in shared
