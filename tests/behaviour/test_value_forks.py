"""A fork that is being made while values are written has what they said when it appeared."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, cast

import pytest

import plait
from plait.store._sync.port import Contextual
from plait.store._sync.store import PlanStore
from plait.store.plans import values
from plait.store.protocol import Scope, SessionRef
from plait.testing.faults import invariants

operations = itertools.count()


def put(store: Any, key: str, content: str | None) -> None:
    given: dict[str, Any] = {"operation": f"f{next(operations)}", "created_at_us": 1_800_000_000_000_000}
    cast("Contextual", store).write_value(SessionRef(Scope(), "chat"), "notes", key, content, **given)


def said(sessions: plait.Sessions, id: str) -> dict[str, str | None]:
    """What each value of a session says, with its newest version."""
    return {f"{value.key} {value.version}": value.content for value in sessions.session(id).value_versions()}


@pytest.mark.parametrize("with_message", [False, True])
def test_what_is_written_while_a_fork_is_made_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_message: bool
) -> None:
    monkeypatch.setattr(values, "COPY_ROWS", 2)  # so that the copy takes several steps
    copied = PlanStore._copy_values

    def meanwhile(store: PlanStore, session: SessionRef, hidden: SessionRef) -> None:
        put(store, "before", "changed before")
        copied(store, session, hidden)
        put(store, "changed", "changed after " + "x" * 2_000_000)
        put(store, "deleted", None)
        put(store, "new", "made after")
        put(store, "gone at once", "made")
        put(store, "gone at once", None)

    with plait.open(tmp_path / "a.db") as sessions:
        if with_message:
            sessions.session("chat").append(plait.user("hello"))
        for key in ("before", "changed", "deleted", "same", "same too"):
            put(sessions.store, key, f"{key} as it was")
        monkeypatch.setattr(PlanStore, "_copy_values", meanwhile)
        sessions.session("chat").fork("copy")
        found = said(sessions, "copy")
        newest = {key.split(" ")[0]: content for key, content in found.items() if key.endswith((" 1", " 2"))}
        assert newest["before"] == "changed before" and newest["new"] == "made after"
        assert newest["changed"] == "changed after " + "x" * 2_000_000 and newest["deleted"] is None
        assert found["same 1"] == "same as it was" and not any(key.startswith("gone") for key in found)
        assert sessions.doctor() == []
    assert invariants(tmp_path / "a.db") == []


def test_a_fork_of_a_session_without_a_message_takes_its_values_along(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        put(sessions.store, "k", "v")
        sessions.session("chat").fork("copy")
        assert said(sessions, "copy") == {"k 1": "v"}
        assert [message.id for message in sessions.session("copy").history()] == []


def test_a_backup_holds_the_values(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        put(sessions.store, "k", "v\x00\ud83d")
        sessions.backup(tmp_path / "b.db")
    with plait.open(tmp_path / "b.db", read_only=True) as sessions:
        assert said(sessions, "chat") == {"k 1": "v\x00\ud83d"}
