"""Every option of every command, given what it must not be: an answer or one clear line, never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import plait
from plait.cli.app import command
from tests.cli.conftest import Run

NEEDED = {
    "import": ["absent.jsonl"],
    "export": ["c"],
    "backup": ["copy.db"],
    "rm": ["absent"],
    "watch": ["--no-follow"],
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
    group = command()
    return [
        pytest.param(name, option.opts[0], id=f"{name} {option.opts[0]}")
        for name, one in group.commands.items()
        for option in one.params
        if option.param_type_name == "option" and not option.is_flag
    ]


@pytest.fixture(autouse=True)
def _store(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLAIT_DEBUG", raising=False)
    with plait.open(db) as sessions:
        sessions.session("c").append_many([plait.user("one", id="a"), plait.user("two", id="b")])


@pytest.mark.parametrize(("name", "option"), options())
def test_no_value_of_an_option_ends_in_an_internal_error(cli: Run, name: str, option: str) -> None:
    for value in HOSTILE:
        ran = cli(name, *NEEDED.get(name, []), f"{option}={value}")
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
    header, end = [json.loads(line) for line in cli("export", "c", "--after", huge).out.splitlines()]
    assert header["afterSeq"] == 2**32 - 1 and end["count"] == 0
