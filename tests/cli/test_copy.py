"""`plait copy`: databases into one another, again, in parts, and what it says of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import apsw
import pytest

import plait
from tests.cli.conftest import ODD_IDS, Run, spawn
from tests.postgres_server import database


@pytest.fixture
def full(db: Path) -> Path:
    """A database with sessions of two scopes."""
    with plait.open(db, durability="process") as sessions:
        for id in ("one", "two"):
            sessions.session(id).append_many([plait.user("hello", id="a"), plait.assistant("hi", id="b")])
        sessions.scoped("acme", "alice").session("three").append(plait.user("hello"))
    return db


def ids(db: object, *scope: str) -> list[str]:
    with plait.open(str(db), read_only=True) as sessions:
        return sorted(info.id for info in sessions.scoped(*scope).all())


def test_a_whole_database_goes_to_a_server_and_back(cli: Run, full: Path, tmp_path: Path) -> None:
    with database() as url:
        ran = cli("copy", full, url)
        assert (ran.code, ran.err) == (0, "")
        assert sorted(ran.out.splitlines()) == [
            "one  2 messages, 2 new",
            "three of acme/alice  1 messages, 1 new",
            "two  2 messages, 2 new",
        ]
        assert (ids(url), ids(url, "acme", "alice")) == (["one", "two"], ["three"])
        ran = cli("copy", url, tmp_path / "back.db", "--json")
        rows = [json.loads(line) for line in ran.out.splitlines()]
        assert ran.code == 0 and all(row["same"] and row["created"] and row["lost"] == [] for row in rows)
        assert {(row["tenant"], row["owner"], row["session_id"]) for row in rows} == {
            ("", "", "one"),
            ("", "", "two"),
            ("acme", "alice", "three"),
        }
    with plait.open(full) as there, plait.open(tmp_path / "back.db") as here:
        for id in ("one", "two"):
            messages = [(m.id, m.seq, m.created_at, m.to_json()) for m in there.session(id).history()]  # type: ignore[union-attr]
            assert messages == [(m.id, m.seq, m.created_at, m.to_json()) for m in here.session(id).history()]  # type: ignore[union-attr]


def test_a_scope_or_a_session_is_copied_alone_and_again_what_has_come_since(
    cli: Run, full: Path, tmp_path: Path
) -> None:
    to = tmp_path / "to.db"
    assert cli("copy", full, to, "--tenant", "acme", "--owner", "alice").code == 0
    assert (ids(to), ids(to, "acme", "alice")) == ([], ["three"])
    assert cli("copy", full, to, "--session", "two").code == 0
    assert ids(to) == ["two"]
    with plait.open(full) as sessions:
        sessions.session("two").append(plait.user("more"))
    assert cli("copy", full, to, "--session", "two").out == "two  3 messages, 1 new\n"
    assert cli("copy", full, to, "--session", "two").out == "two  3 messages, 0 new\n"


def test_a_copy_that_is_not_the_same_any_more_is_told_by_the_exit_code(cli: Run, full: Path, tmp_path: Path) -> None:
    to = tmp_path / "to.db"
    cli("copy", full, to)
    with plait.open(full) as sessions:
        sessions.session("two").update(plait.user("other words", id="a"))
    ran = cli("copy", full, to)
    assert ran.code == 1
    assert "two  2 messages, 0 new, not the same as its source" in ran.out.splitlines()


def test_damage_is_named_and_told_by_the_exit_code(cli: Run, full: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(full))
    connection.execute("UPDATE message SET body = 'no json' WHERE id = 'a'")
    connection.close()
    ran = cli("copy", full, tmp_path / "to.db")
    assert ran.code == 3
    assert ran.err.count("'a' (seq 1) is damaged") == 2


def test_odd_names_are_copied_and_printed_so_that_nothing_in_them_acts(cli: Run, db: Path, tmp_path: Path) -> None:
    with plait.open(db, durability="process") as sessions:
        for id in ODD_IDS:
            sessions.session(id).append(plait.user("hello"))
    ran = cli("copy", db, tmp_path / "to.db")
    assert ran.code == 0 and ids(tmp_path / "to.db") == sorted(ODD_IDS)
    assert "\x1b" not in ran.out and "\u202e" not in ran.out


def test_what_is_not_there_is_refused_in_one_line(cli: Run, full: Path, tmp_path: Path) -> None:
    for arguments in (
        [tmp_path / "absent.db", tmp_path / "to.db"],
        [full, tmp_path / "to.db", "--session", "absent"],
        [full, "mysql://host/db"],
        [full, "postgresql://127.0.0.1:1/nowhere"],
    ):
        ran = cli("copy", *arguments)
        assert ran.code == 1 and ran.err.startswith("plait: ") and ran.err.count("\n") == 1, ran.err


def test_a_killed_copy_leaves_whole_sessions_and_is_gone_on_with(cli: Run, db: Path, tmp_path: Path) -> None:
    with plait.open(db, durability="process") as sessions:
        for n in range(40):
            sessions.session(f"s{n:02}").append_many([plait.user("x" * 200, id=f"m{k}") for k in range(50)])
    to = tmp_path / "to.db"
    process = spawn(db, "copy", str(db), str(to))
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with plait.open(to, read_only=True) as sessions:
        assert 0 < len([info for info in sessions.all() if info.totals.messages == 50]) == len(list(sessions.all()))
    assert cli("copy", db, to).code == 0
    assert ids(to) == [f"s{n:02}" for n in range(40)]
    assert cli("doctor", "--db", to).code == 0
