"""Every option of every command, given what it must not be: an answer or one clear line, never a traceback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait.cli.app import command
from tests.cli.conftest import Run

NEEDED = {
    "import": ["absent.jsonl"],
    "export": ["c"],
    "backup": ["copy.db"],
    "copy": ["a.db", "b.db"],
    "rm": ["absent"],
    "watch": ["--no-follow"],
    "context show": ["memory"],
    "context set": ["memory", "text", "--session", "c"],
    "context append": ["memory", "text", "--session", "c"],
    "context history": ["memory"],
    "context restore": ["memory", "1", "--session", "c"],
    "prompt refresh": ["c"],
}
"""What a command needs beside the option that is tried."""

HOSTILE = [
    "",
    " ",
    "-1",
    "0",
    "1",
    "99999999999999999999999",
    "1.5",
    "NaN",
    "no such",
    "\udcff",
    "a\nb",
    "x" * 5000,
    "é😀",
]


def options() -> list[object]:
    """Each option of each command that takes a value."""
    return [
        pytest.param(name, option.opts[0], id=f"{name} {option.opts[0]}")
        for name, one in commands(command())
        for option in one.params
        if option.param_type_name == "option" and not option.is_flag
    ]


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Each command with its whole name, those in groups too.

    Not `mcp`, which serves until it is ended; of the commands of `prompt`, whose options are all the same, one of
    each kind.
    """
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, f"{name} ")
        elif before + name not in ("mcp", "prompt freeze", "prompt diff"):
            yield before + name, one


@pytest.fixture(autouse=True)
def _store(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLAIT_DEBUG", raising=False)
    with plait.open(db) as sessions:
        session = sessions.session("c", context=["memory"])
        session.append_many([plait.user("one", id="a"), plait.user("two", id="b")])
        session.context.replace("memory", "what is kept")


@pytest.mark.parametrize(("name", "option"), options())
def test_no_value_of_an_option_ends_in_an_internal_error(cli: Run, name: str, option: str) -> None:
    for value in HOSTILE:
        ran = cli(*name.split(), *NEEDED.get(name, []), f"{option}={value}")
        assert "internal error" not in ran.err and "Traceback" not in ran.err, (value, ran.err)
        assert ran.code in (0, 1, 2, 3), value
        if ran.code in (1, 2):
            assert ran.err.splitlines(), value
        for made in ("copy.db", *(entry for entry in os.listdir() if entry not in ("agents.db",))):
            if os.path.isfile(made) and not made.startswith("agents.db"):
                os.unlink(made)


@pytest.mark.parametrize("huge", ["9223372036854775808", "99999999999999999999999"])
def test_a_huge_number_means_all(cli: Run, huge: str) -> None:
    shown = cli("show", "c", "--last", huge, "--json")
    assert [json.loads(line)["id"] for line in shown.out.splitlines()] == ["a", "b"]
    assert cli("show", "c", "--last", huge, "--reverse").code == 0
    assert [json.loads(line)["id"] for line in cli("ls", "--limit", huge, "--json").out.splitlines()] == ["c"]
    header, *_, end = [json.loads(line) for line in cli("export", "c", "--after", huge).out.splitlines()]
    assert header["afterSeq"] == 2**32 - 1 and end["count"] == 0
