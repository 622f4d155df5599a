"""`plait watch` as a process of its own, while another one writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import plait
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from tests.cli.conftest import CALL, HOSTILE, Run, spawn

interrupts = pytest.mark.skipif(
    sys.platform == "win32" or signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="no SIGINT to one process there, or started with interrupts ignored",
)
Watching = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def watching(db: Path) -> Iterator[Watching]:
    """Starts `plait watch` on the test's database; what is still running at the end is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(spawn(db, "watch", *arguments))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[bytes]) -> str:
    """The next line, waited for."""
    assert process.stdout is not None
    found = process.stdout.readline().decode()
    assert found.endswith("\n"), process.communicate()
    return found


def until_checkout(process: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """The changes printed up to the next checkout."""
    found = [json.loads(line(process))]
    while found[-1]["kind"] != "checkout":
        found.append(json.loads(line(process)))
    return found


def interrupted(process: subprocess.Popen[bytes]) -> None:
    """Hold that Ctrl-C ends it at once and silently."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


WRITER = """
import sys, plait
with plait.open(sys.argv[1]) as sessions:
    chat = sessions.session("chat")
    chat.append(plait.user("from elsewhere", id="x1"))
    chat.append_many([plait.user(f"words {n}", id=f"y{n}") for n in range(3)])
    chat.update(plait.user("other words", id="y1"))
    chat.delete("y2")
    chat.add_overlay("x1", "y0", summary="in short")
    chat.checkout("x1")
"""


def write(db: Path) -> None:
    subprocess.run([sys.executable, "-c", WRITER, str(db)], check=True)


@interrupts
def test_a_session_is_followed_live_and_gone_on_with_from_a_cursor(chat: Path, watching: Watching) -> None:
    process = watching("chat", "--json", "--from-start")
    there = until_checkout(process)
    assert [change["ids"] for change in there] == [[], ["u1"], ["a1"], ["u2"], ["a2"], ["a2b"], ["a2"]]
    assert (there[-1]["leaf"], there[-1]["message"]) == ("a2", None)
    write(chat)
    live = until_checkout(process)
    interrupted(process)
    assert [(change["kind"], change["ids"]) for change in live[:2]] == [("append", ["x1"]), ("append", ["y0"])]
    again = watching("chat", "--json", f"--after={live[1]['cursor']}")
    rest = until_checkout(again)
    interrupted(again)
    assert [(change["kind"], change["ids"]) for change in rest] == [
        ("append", ["y1"]),
        ("update", ["y1"]),
        ("delete", ["y2"]),
        ("overlay", [rest[3]["overlay"]["id"]]),
        ("checkout", ["x1"]),
    ]
    assert rest[0]["message"]["message"]["parts"][0]["text"] == "other words", "as it is now"
    assert (rest[3]["overlay"]["summary"], rest[3]["removed"]) == ("in short", False)
    for change in [*live, *rest]:  # a cursor knows whether the append of y2 could still be read
        del change["cursor"]
    assert [change for change in live[2:] if change["kind"] != "append"] == rest[1:]
    versions = [change["version"] for change in [*there, *live]]
    assert versions == sorted(set(versions))


@interrupts
def test_without_a_session_all_of_the_scope_are_followed_and_none_of_another(db: Path, watching: Watching) -> None:
    with plait.open(db) as sessions:
        sessions.scoped("other").session("chat").append(plait.user("theirs"))
        sessions.session("one").append(plait.user("first", id="a"))
        process = watching("--from-start")
        assert "one append user first" in line(process)
        sessions.scoped("other").session("chat").append(plait.user("theirs again"))
        sessions.session("two [bold]").append(plait.user(HOSTILE, id="b"))
        found = line(process)
        assert "two [bold] append user" in found and "\x1b" not in found and "\u202e" not in found
        sessions.delete("one")
        assert "one delete session" in line(process)
    interrupted(process)


def test_a_stored_message_is_printed_as_show_prints_it(chat: Path, cli: Run) -> None:
    printed = cli("watch", "chat", "--from-start", "--no-follow", "--json").out
    assert json.dumps(CALL, ensure_ascii=False, separators=(",", ":"))[1:-1] in printed
    shown = cli("show", "chat", "--json").out.splitlines()
    assert len(shown) == 4 and all(f'"message":{one}}}' in printed for one in shown)


def test_each_kind_of_change_says_what_it_is_about(db: Path, cli: Run) -> None:
    with plait.open(db) as sessions:
        chat = sessions.session("chat")
        chat.append_many([plait.user(f"line {n}", id=f"l{n}") for n in range(4)])
        overlay = chat.add_overlay("l1", "l2", summary="one and\ntwo").overlay.id
        gone = chat.archive("l0", "l0").overlay.id
        chat.update(plait.user("changed", id="l1"))
        chat.remove_overlay(gone)
    lines = [line[9:] for line in cli("watch", "chat", "--from-start", "--no-follow").out.splitlines()]
    assert lines[4:] == [
        "overlay compaction of #2 to #3 stale one and two",
        f"overlay {gone}",
        "update user changed",
        "overlay compaction of #2 to #3 stale one and two",
        f"overlay {gone} removed",
    ]
    assert overlay not in "".join(lines)


def test_a_change_of_context_names_the_value_and_its_version(db: Path, cli: Run) -> None:
    with plait.open(db) as sessions:
        store, chat = cast("Contextual", sessions.store), SessionRef(Scope(), "chat")
        for n, (key, text) in enumerate([("", "x"), ("k\x1b[2J", "y"), ("", None)]):
            store.write_value(chat, "memory", key, text, operation=str(n), created_at_us=1)
    lines = [line[9:] for line in cli("watch", "chat", "--from-start", "--no-follow").out.splitlines()]
    assert lines[0] == "context memory (version 1)" and lines[2] == "context memory removed (version 2)"
    assert lines[1].startswith("context memory ") and "\x1b" not in lines[1]
    last = json.loads(cli("watch", "chat", "--from-start", "--no-follow", "--json").out.splitlines()[-1])
    assert (last["label"], last["key"], last["value_version"], last["removed"]) == ("memory", "", 2, True)


def test_a_cursor_whose_changes_were_pruned_ends_and_says_so(chat: Path, watching: Watching) -> None:
    with plait.open(chat) as sessions:
        old = sessions.session("chat").cursor()
        for n in range(3):
            sessions.session("chat").update(plait.user(f"changed {n}", id="u1"))
        assert sessions.prune_changes(max_count=0) > 0
    process = watching("chat", f"--after={old}")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b"")
    assert err.startswith(b"plait: ") and b"pruned" in err and err.count(b"\n") == 1


def test_a_database_that_is_not_there_is_not_made(db: Path, cli: Run) -> None:
    ran = cli("watch", "chat")
    assert ran.code == 1 and ran.out == "" and "there is no database" in ran.err
    assert not db.exists()
