"""A narrow terminal: what every command prints fits into it, and what is broken is set in."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

import plait
from plait.cli.run import run

COMMANDS = [
    "search order",
    "search order --newest --role user",
    "overlays",
    "stats",
    "ls",
    "show --ids",
    "show --transcript --last 9",
    "show --around u3",
    "watch --from-start --no-follow",
    "context list",
]


class Terminal(io.StringIO):
    """Takes what is printed, and says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def talk(db: Path) -> None:
    """A session with branches, overlays and a block."""
    with plait.open(db) as sessions:
        chat = sessions.session("support-42", context=["memory"])
        for n in range(12):
            chat.append(plait.user(f"Question {n}: where is my order 重跑后50条悬空引用? " + "word " * 20, id=f"u{n}"))
            chat.append(plait.assistant(f"Answer {n}: the order ships. " + "reply " * 30, id=f"a{n}"))
        chat.append(plait.user("order on a branch"), parent="a3")
        chat.checkout("a11")
        chat.add_overlay("a1", "a4", summary="They talked of orders at some length.")
        chat.omit("u8")
        chat.context.replace("memory", "what is kept of all these orders, in some words more than fit")


def test_no_line_is_wider_than_the_terminal(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_DB", str(db))
    monkeypatch.setenv("NO_COLOR", "1")
    talk(db)
    for command in COMMANDS:
        for width in (30, 36, 80):
            monkeypatch.setenv("COLUMNS", str(width))
            terminal = Terminal()
            monkeypatch.setattr(sys, "stdout", terminal)
            assert run(command.split()) == 0, command
            lines = terminal.getvalue().splitlines()
            assert lines and [line for line in lines if cell_len(line) > width] == [], (command, width)
