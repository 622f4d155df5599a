"""A database with conversations in it, and the command line run on it in this process or another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import plait
from plait.cli.run import run

HOSTILE = "\x1b[31mred\x1b[0m \x9b2J \x07 \u202ereversed\u202c [bold]markup[/bold] :smile: \x00"
ODD_IDS = [
    "-rf",
    "--help",
    "line\nbreak",
    "\x1b[31mred",
    "r\u202eight",
    "back\\slash",
    "../../etc/x",
    "[bold]",
    "é 注文 😀",
]

THOUGHT = {"type": "reasoning", "text": "Look it up."}
CALL = {
    "type": "tool-getWeather",
    "toolCallId": "c",
    "state": "output-available",
    "input": {"city": "Lyon"},
    "output": {"temp": 17.50, "n": 9007199254740993},
}
PICTURE = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,QUJDRA=="}


@dataclass(frozen=True)
class Ran:
    """What one run of the command line left."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "agents.db"


@pytest.fixture
def cli(db: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `plait` in this process on the test's database."""
    monkeypatch.setenv("PLAIT_DB", str(db))

    def call(*arguments: str | Path) -> Ran:
        capfd.readouterr()
        code = run([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return call


def spawn(db: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Starts `plait` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "plait", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PLAIT_DB": str(db), **environment},
    )


def plaited(db: Path) -> None:
    """A session `chat`: a fork with two answers, tools, media, text in many scripts; the first is active."""
    with plait.open(db) as sessions:
        sessions.create("chat", name="Lyon [bold]trip[/bold] 😀")
        chat = sessions.session("chat")
        chat.append(plait.user("What is the weather in Lyon? 天気", id="u1"))
        chat.append({"id": "a1", "role": "assistant", "parts": [THOUGHT, CALL, {"type": "text", "text": "17.5 °C ☀️"}]})
        chat.append({"id": "u2", "role": "user", "parts": [{"type": "text", "text": HOSTILE}, PICTURE]})
        chat.append(plait.assistant("first answer", id="a2"))
        chat.append(plait.assistant("second answer", id="a2b"), parent="u2")
        chat.checkout("a2")


@pytest.fixture
def chat(db: Path) -> Path:
    """The database with the session `chat` in it."""
    plaited(db)
    return db
