"""`plait compact`: a command or a function of the user's summarizes; every message stays."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import plait
from tests.cli.conftest import Run


@pytest.fixture
def long(db: Path) -> Path:
    with plait.open(db) as sessions:
        chat = sessions.session("long")
        for n in range(20):
            chat.append(plait.user(f"turn {n} " + "word " * 60, id=f"m{n}"))
    return db


def answered(cli: Run, *arguments: str) -> dict[str, object]:
    ran = cli("compact", "long", *arguments, "--json", "--keep-recent-tokens", "300")
    assert (ran.code, ran.err) == (0, "")
    found: dict[str, object] = json.loads(ran.out)
    return found


def test_a_dry_run_needs_no_summarizer_and_changes_nothing(long: Path, cli: Run) -> None:
    plan = answered(cli, "--dry-run")
    assert (plan["compacted"], plan["from"], plan["calls"]) == (False, "m3", 0)
    ran = cli("compact", "long", "--dry-run")
    assert ran.out.startswith("nothing to compact")  # 20,000 tokens stay
    with plait.open(long) as sessions:
        assert sessions.session("long").overlays() == []


def test_a_command_is_given_the_prompt_and_prints_the_summary(long: Path, cli: Run) -> None:
    script = "import sys; sys.stdout.write('Seen: ' + str('turn 5 ' in sys.stdin.read()))"
    done = answered(cli, "--command", f'{sys.executable} -c "{script}"')
    assert done["compacted"] is True and done["calls"] == 1
    with plait.open(long) as sessions:
        chat = sessions.session("long")
        assert [message.text for message in chat.history()][3] == "Seen: True"
        assert len(list(chat.transcript())) == 20


def test_a_function_is_imported(long: Path, cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_model.py").write_text("async def short(prompt):\n    return 'Goal: none.'\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert answered(cli, "--function", "my_model:short")["compacted"] is True
    said = cli("compact", "long", "--function", "my_model:short", "--keep-recent-tokens", "300")
    assert said.out.startswith("nothing to compact")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--command"),
        (("--command", "cat", "--function", "a:b"), "--command"),
        (("--function", "no_such_module:f"), "no_such_module"),
        (("--function", "json:nothing"), "json:nothing"),
        (("--function", "json"), "module:name"),
        (("--command", "false"), "plait: the command ended with code 1"),
        (("--function", "os:getcwd"), "the summarizer failed: TypeError: "),
    ],
)
def test_what_cannot_summarize_is_said_in_a_line(long: Path, cli: Run, arguments: tuple[str, ...], words: str) -> None:
    ran = cli("compact", "long", *arguments, "--keep-recent-tokens", "300")
    assert ran.code != 0 and words in ran.err and ran.err.count("\n") == 1
    with plait.open(long) as sessions:
        assert sessions.session("long").overlays() == []
