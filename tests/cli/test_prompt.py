"""`plait prompt`: rendered, frozen, made anew, compared; only freeze and refresh keep anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import plait
from tests.cli.conftest import HOSTILE, Run

RULE = "═" * 46


@pytest.fixture
def chat(db: Path) -> Path:
    with plait.open(db) as sessions:
        chat = sessions.session("chat")
        chat.append(plait.user("hi"))
        chat.with_context("soul").with_context("team", shared=True).with_context("notes", kind="collection")
        chat.context.replace("soul", "You are kind.")
        chat.context.replace("team", "We ship on Friday.")
        chat.context.put("notes", "An entry.", key="k")
    return db


def write(db: Path, text: str) -> None:
    with plait.open(db) as sessions:
        sessions.session("chat").with_context("soul").context.replace("soul", text)


def test_what_is_stored_is_rendered_and_nothing_kept(chat: Path, cli: Run) -> None:
    expected = f"{RULE}\nSOUL [writable]\n{RULE}\nYou are kind.\n\n{RULE}\nTEAM [writable]\n{RULE}\nWe ship on Friday."
    before = chat.read_bytes()
    assert cli("prompt", "render", "chat").out == expected
    assert json.loads(cli("prompt", "render", "--json").out) == {"prompt": expected, "bytes": len(expected.encode())}
    assert chat.read_bytes() == before
    ran = cli("prompt", "diff", "chat")
    assert ran.code == 1 and "has no frozen prompt" in ran.err


def test_blocks_may_be_named_with_what_they_are_for(chat: Path, cli: Run) -> None:
    ran = cli("prompt", "render", "chat", "--collection", "notes=Things noted", "--block", "soul")
    assert "SOUL [writable]" in ran.out and "NOTES (Things noted) [searchable]" in ran.out and "TEAM" not in ran.out
    assert "1 entries indexed." in ran.out
    ran = cli("prompt", "render", "chat", "--block", "team", "--shared")
    assert "We ship on Friday." in ran.out


def test_a_function_may_declare_them(chat: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_blocks.py").write_text(
        "class Soul:\n    def get(self):\n        return 'From code.'\n\n"
        "def declare(session):\n    session.with_context('identity', provider=Soul())\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert cli("prompt", "render", "chat", "--function", "my_blocks:declare").out.endswith("From code.")
    ran = cli("prompt", "render", "chat", "--function", "my_blocks:absent")
    assert ran.code == 1 and "there is no my_blocks:absent" in ran.err


def test_skills_are_a_block(chat: Path, cli: Run, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "skills" / "pirate").mkdir(parents=True)
    (tmp_path / "skills" / "pirate" / "SKILL.md").write_text("---\nname: pirate\ndescription: Talks.\n---\nArr.")
    assert "- pirate: Talks." in cli("prompt", "render", "chat", "--skills", str(tmp_path / "skills")).out


def test_skills_that_are_not_there_leave_the_frozen_prompt_as_it_is(chat: Path, cli: Run, tmp_path: Path) -> None:
    frozen, before = cli("prompt", "freeze", "chat").out, chat.read_bytes()
    for command in ("refresh", "freeze"):
        ran = cli("prompt", command, "chat", "--skills", str(tmp_path / "typo"))
        assert ran.code == 1 and ran.out == "" and "cannot be read" in ran.err
    assert chat.read_bytes() == before and cli("prompt", "freeze", "chat").out == frozen


def test_a_prompt_of_nothing_says_why(chat: Path, cli: Run, tmp_path: Path) -> None:
    (tmp_path / "pirate" / "SKILL.md").mkdir(parents=True)  # a folder of that name, not the file
    for where in (tmp_path, tmp_path / "pirate"):
        ran = cli("prompt", "render", "chat", "--skills", str(where))
        assert (ran.code, ran.out) == (0, "") and "no blocks" not in ran.err
        assert f"--skills {where} holds no skill: there is no NAME/SKILL.md in it" in ran.err
    ran = cli("prompt", "refresh", "chat", "--skills", str(tmp_path))
    assert ran.code == 0 and "the frozen prompt is empty: the named blocks hold nothing to render" in ran.err


def test_a_frozen_prompt_stays_until_it_is_refreshed(chat: Path, cli: Run) -> None:
    frozen = cli("prompt", "freeze", "chat").out
    assert "You are kind." in frozen
    assert cli("prompt", "diff", "chat").out == ""
    write(chat, "You are brief.")
    assert cli("prompt", "freeze", "chat").out == frozen
    changed = cli("prompt", "diff", "chat")
    assert changed.code == 0
    assert [line for line in changed.out.splitlines() if line[:1] in ("+", "-") and line[:3] not in ("---", "+++")] == [
        "-You are kind.",
        "+You are brief.",
    ]
    found = json.loads(cli("prompt", "diff", "chat", "--json").out)
    assert found["changed"] and found["frozen"] == frozen and "You are brief." in found["now"]
    refreshed = cli("prompt", "refresh", "chat").out
    assert "You are brief." in refreshed and cli("prompt", "diff", "chat").out == ""
    assert not json.loads(cli("prompt", "diff", "chat", "--json").out)["changed"]
    with plait.open(chat) as sessions:
        assert sessions.session("chat").with_cached_prompt().freeze_system_prompt() == refreshed


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("freeze",), 2, "name a session"),
        (("refresh",), 2, "name a session"),
        (("render", "absent"), 1, "there is no session absent"),
        (("render", "chat", "--id", "chat"), 2, "name the session once"),
        (("render", "chat", "--block", "a[b]"), 1, "label must be one line"),
        (("render", "chat", "--block", ""), 1, "label"),
        (("render", "chat", "--block", "a", "--block", "A"), 1, "same header"),
        (("render", "chat", "--block", "a", "--documents", "a=other"), 2, "block a is named twice"),
        (("render", "chat", "--skills", "nosuch://x"), 1, "cannot be opened"),
        (("render", "chat", "--skills", "/no/such/folder"), 1, "there is no folder '/no/such/folder'"),
        (("diff", "chat", "--skills", "/no/such/folder"), 1, "--skills /no/such/folder cannot be read"),
        (("freeze", "chat", "--skills", "/no/such/folder"), 1, "--skills /no/such/folder cannot be read"),
        (("render", "chat", "--function", "os:getcwd"), 1, "os:getcwd failed: TypeError"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    chat: Path, cli: Run, arguments: tuple[str, ...], code: int, told: str
) -> None:
    if "--skills" in arguments:
        pytest.importorskip("fsspec")
    ran = cli("prompt", *arguments)
    assert (ran.code, ran.out) == (code, "") and told in ran.err and len(ran.err.splitlines()) == 1, ran.err


def test_hostile_blocks_are_shown_safely_in_a_diff(chat: Path, cli: Run) -> None:
    cli("prompt", "freeze", "chat")
    write(chat, HOSTILE + "\n--- frozen\n+++ now\n")
    ran = cli("prompt", "diff", "chat")
    assert ran.code == 0 and not {"\x1b", "\x07", "\u202e", "\x00"} & set(ran.out)


def test_a_prompt_made_without_the_programs_words_says_so(chat: Path, cli: Run) -> None:
    assert cli("prompt", "freeze", "chat", "--block", "soul=Identity").err == ""
    told = "without what your program says of its blocks; --function MODULE:NAME or --block LABEL=ABOUT"
    assert told in cli("prompt", "diff", "chat").err
    assert cli("prompt", "diff", "chat", "--block", "soul=Identity").err == ""
    assert told in cli("prompt", "refresh", "chat").err
    assert cli("prompt", "diff", "chat").err == ""
