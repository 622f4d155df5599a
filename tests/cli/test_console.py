"""The command as a process: consoles of every kind, pipes that break, keys that interrupt."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import plait
from tests.cli.conftest import spawn

COMMANDS = [
    "ls",
    "show chat",
    "show chat --full --ids",
    "tree chat",
    "stats chat",
    "export chat",
    "export chat --format markdown",
    "doctor",
    "ls --json",
    "show chat --json",
    "tree chat --json",
    "stats chat --json",
]
ASCII = {"PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


# Runs the commands given as arguments, one string each, and stops at the first that fails: one process for many.
MANY = """
import sys
from plait.cli.run import run
for command in sys.argv[1:]:
    if code := run(command.split()):
        sys.exit(f"{command} ended with {code}")
"""


def many(commands: list[str]) -> list[str]:
    return [sys.executable, "-c", MANY, *commands]


def environment_for(db: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PLAIT_DB": str(db), **more}


def test_an_ascii_console_gets_escapes_and_no_error(chat: Path) -> None:
    """B-006"""
    environment = environment_for(chat, **ASCII)
    ran = subprocess.run(many(COMMANDS), capture_output=True, check=False, timeout=60, env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.isascii()
    assert not set(ran.stdout) & {0x1B, 0x07, 0x00}
    for shown in (rb"\U0001f600", rb"\ud83d\ude00", rb"\u5929\u6c17"):  # as text and as JSON
        assert shown in ran.stdout


def test_ids_and_names_beyond_ascii_are_arguments_in_any_locale(db: Path) -> None:
    with plait.open(db) as sessions:
        sessions.session("注文 😀").append(plait.user("here"))
    code, out, err = ended(spawn(db, "show", "--id=注文 😀", **ASCII))
    assert (code, err) == (0, b"")
    assert b"here" in out
    assert b"\\u6ce8" in out


def test_a_redirected_export_is_utf8_in_any_locale(chat: Path) -> None:
    environment = environment_for(chat, PYTHONUTF8="0", LC_ALL="C", PYTHONIOENCODING="")
    commands = many(["export chat", "export chat --format markdown"])
    ran = subprocess.run(commands, capture_output=True, check=False, timeout=60, env=environment)
    assert ran.returncode == 0
    assert ran.stdout.decode("utf-8").count("天気") == 2


def test_an_export_to_a_file_is_utf8_on_an_ascii_console(chat: Path, tmp_path: Path) -> None:
    code, _, _ = ended(spawn(chat, "export", "chat", "-o", str(tmp_path / "x.jsonl"), **ASCII))
    assert code == 0
    assert "天気" in (tmp_path / "x.jsonl").read_text(encoding="utf-8")


@pytest.fixture
def long(db: Path) -> Path:
    """A session whose text is larger than any pipe."""
    with plait.open(db, durability="relaxed") as sessions:
        messages = [plait.user("word " * 200, id=f"m{number}") for number in range(1000)]
        sessions.session("long").append_many(messages)
    return db


@pytest.mark.parametrize("command", [["show", "long"], ["export", "long"], ["tree", "long", "--all"]], ids=" ".join)
def test_a_reader_that_goes_away_is_no_error(long: Path, command: list[str]) -> None:
    with spawn(long, *command) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) in (0, 141)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to one process there")
@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="started with interrupts ignored")
def test_ctrl_c_is_silent(long: Path) -> None:
    with spawn(long, "show", "long") as process:
        assert process.stdout is not None
        assert process.stdout.readline()  # it runs, and will wait for the pipe to be read
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(60) == 130


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
def test_a_full_disk_below_stdout_is_one_line(chat: Path) -> None:
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "plait", "show", "chat", "--db", str(chat)]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60)
    assert ran.returncode == 1
    assert ran.stderr == b"plait: No space left on device\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_error(chat: Path, closed: str) -> None:
    for command, code, told in (("show chat", 0, 0), ("show nobody", 1, 1), ("rm chat", 0, 1)):
        words = f'"$0" -m plait {command} --db "$1" {closed}'
        ran = subprocess.run(
            ["sh", "-c", words, sys.executable, str(chat)], capture_output=True, check=False, timeout=60
        )
        assert (ran.returncode, ran.stderr.count(b"\n")) == (code, told * (closed in ("<&-", ">&-")))


def test_without_the_extra_one_line_says_how_to_install_it(db: Path) -> None:
    for name in ("typer", "rich"):
        for module in ("plait.cli", "plait.demo"):
            code = f"import sys; sys.modules[{name!r}] = None; import {module}; sys.exit({module}.main())"
            ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=60)
            assert ran.returncode == 1
            assert ran.stdout == b""
            assert ran.stderr.count(b"\n") == 1
            assert b"pip install 'plait[cli]'" in ran.stderr


def test_plait_debug_shows_where_an_error_came_from(chat: Path) -> None:
    code, _, err = ended(spawn(chat, "show", "nope", PLAIT_DEBUG="1"))
    assert code != 0
    assert b"Traceback" in err


# -- in a terminal ---------------------------------------------------------------

pty = pytest.importorskip("pty")


def in_terminal(db: Path, *commands: str, typed: str = "", whole: bool = True, **environment: Any) -> tuple[int, str]:
    """Runs commands with a terminal for stdout and stdin, and with `whole` for stderr; answers what it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        many(list(commands)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs if whole else subprocess.DEVNULL,
        env=environment_for(db, **{"TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "", **environment}),
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    out = b"".join(read_all(ours))
    os.close(ours)
    return process.wait(60), out.decode(errors="replace").replace("\r\n", "\n")


def read_all(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # Linux ends a terminal whose other side is closed so
            return
        if not data:
            return
        yield data


def test_a_terminal_gets_colour_and_no_other_sequence(chat: Path) -> None:
    code, out = in_terminal(chat, "ls", "show", "tree", "stats", whole=False)
    assert code == 0
    pieces = out.split("\x1b")
    assert len(pieces) > 20
    assert all(piece.startswith("[") and piece[1:].lstrip("0123456789;")[:1] == "m" for piece in pieces[1:])


def test_search_marks_in_a_terminal_what_it_found(chat: Path) -> None:
    code, out = in_terminal(chat, "search answer", whole=False)
    assert code == 0
    assert len(re.findall(r"\x1b\[[0-9;]+manswer\x1b\[0?m", out)) == 2, out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_declined(chat: Path, environment: dict[str, Any]) -> None:
    assert "\x1b" not in in_terminal(chat, "show", **environment)[1]


def test_lines_are_broken_to_fit_the_terminal(long: Path) -> None:
    code, out = in_terminal(long, "show --last 3", NO_COLOR="1", COLUMNS="60")
    assert code == 0
    assert max(len(line) for line in out.splitlines()) <= 60
    assert "  word word" in out


def test_an_export_to_a_terminal_lets_nothing_act_on_it(chat: Path) -> None:
    code, out = in_terminal(chat, "export chat", "export chat --format markdown")
    assert code == 0
    assert not set(out) & set("\x1b\x9b\x07\x00\u202e")
    assert out.count("天気") == 2


def test_long_work_shows_its_progress_and_takes_it_away(long: Path, tmp_path: Path) -> None:
    code, out = in_terminal(long, f"export long -o {tmp_path / 'x.jsonl'}")
    assert code == 0
    assert "exporting" in out
    assert "\x1b[?25h" in out, "the cursor is shown again"


def test_a_prompt_on_an_ascii_terminal_has_rules_that_fit(chat: Path) -> None:
    with plait.open(chat) as sessions:
        sessions.session("chat").with_context("soul").context.replace("soul", "You are kind.")
    code, out = in_terminal(chat, "prompt render chat", **ASCII)
    assert code == 0 and "=" * 46 in out.splitlines() and "u2550" not in out


def test_a_server_started_by_hand_says_who_is_to_start_it(chat: Path) -> None:
    pytest.importorskip("mcp")
    code, out = in_terminal(chat, "mcp", typed="\x04")
    assert code == 0 and "an MCP client is to start this" in out


def test_rm_asks_and_takes_no_for_an_answer(chat: Path) -> None:
    code, out = in_terminal(chat, "rm chat", typed="n\n")
    assert code == 1
    assert "delete chat with 5 messages for good? [y/N]" in out
    assert in_terminal(chat, "show chat", "rm chat", typed="y\n")[0] == 0
    with plait.open(chat, read_only=True) as sessions:
        assert sessions.get("chat") is None


def test_the_demo_holds(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "plait.demo"], capture_output=True, check=False, timeout=110, env=environment
    )
    assert ran.returncode == 0, ran.stdout.decode() + ran.stderr.decode()
    assert "All checks held" in ran.stdout.decode()
    assert not list(tmp_path.iterdir())
