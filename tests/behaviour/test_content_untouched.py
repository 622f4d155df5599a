"""Lists, totals and stats read no content: held by what SQLite is asked for, not by time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait.providers import StoredSkills
from tests.behaviour.values import noise, note, picture

CONTENT = {("message", "body"), ("slice", "body"), ("chunk", "data")}
OF_VALUES = {("value_text", "body"), ("value_slice", "body")}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The (table, column) pairs that any statement made from now on reads."""
    found: set[tuple[str, str]] = set()

    def authorize(operation: int, one: str | None, two: str | None, *_: Any) -> int:
        if operation == apsw.SQLITE_READ:
            found.add((str(one), str(two)))
        return apsw.SQLITE_OK

    def hook(connection: apsw.Connection) -> None:
        connection.authorizer = authorize

    apsw.connection_hooks.append(hook)
    yield found
    apsw.connection_hooks.remove(hook)


CALLS: dict[str, Callable[[plait.Sessions], Any]] = {
    "list": lambda sessions: sessions.list(),
    "all": lambda sessions: list(sessions.all()),
    "get": lambda sessions: sessions.get("chat"),
    "totals": lambda sessions: sessions.session("chat").totals(),
    "path_stats": lambda sessions: list(sessions.session("chat").path_stats()),
    "path_stats of a branch": lambda sessions: list(sessions.session("chat").path_stats("a")),
    "count 0": lambda sessions: sessions.session("chat").recent(count=0),
    "state": lambda sessions: sessions.session("chat").state(),
    "retention plan": lambda sessions: sessions.retain(max_count=0, dry_run=True),
    "rename": lambda sessions: sessions.rename("chat", "name"),
    "append": lambda sessions: sessions.session("chat").append(note("new")),
    "branch": lambda sessions: sessions.session("chat").append(note("new"), parent="a"),
    "checkout": lambda sessions: sessions.session("chat").checkout("a"),
    "delete": lambda sessions: sessions.session("chat").delete("big"),
    "delete session": lambda sessions: sessions.delete("chat"),
    "clear": lambda sessions: sessions.session("chat").clear(),
}


def _limited(sessions: plait.Sessions, limit: int) -> plait.Session:
    """The session, compacted by itself as soon as it shows more than so many tokens."""
    chat = sessions.session("chat")
    chat.on_compaction(plait.compact_function(lambda prompt: "Goal: none.", keep_recent_tokens=0, protect_head=0))
    chat.compact_after(limit)
    return chat


CALLS["append below a limit"] = lambda sessions: _limited(sessions, 10**9).append(note("new"))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_no_content_is_read(tmp_path: Path, asked: set[tuple[str, str]], call: Callable[[plait.Sessions], Any]) -> None:
    """B-084, B-083, B-087: neither text nor payload, for any of these."""
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append_many([note("a"), note("big", "x" * 3_000_000), picture("p", noise(100_000)), note("d")])
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        asked.clear()
        call(sessions)
    assert asked, "the hook saw nothing"
    assert asked & CONTENT == set()


def test_the_gate_of_compaction_reads_content_only_when_it_opens(tmp_path: Path, asked: set[tuple[str, str]]) -> None:
    """The same append, with the limit at what the view takes and one token below that."""
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat")
        chat.append_many([note(id, "word " * 200) for id in "abcdef"])
        before = chat.totals().view_tokens
        size = chat.append(note("g")).message.tokens
        limit = before + 2 * size
    with plait.open(tmp_path / "a.db", durability="process") as sessions:  # statements are seen when they are made
        asked.clear()
        chat = _limited(sessions, limit)
        chat.append(note("h"))
        assert chat.totals().view_tokens == limit and chat.overlays() == []
        assert asked and asked & CONTENT == set()
        chat.compact_after(limit + size - 1)
        chat.append(note("i"))
        assert len(chat.overlays()) == 1
        assert ("message", "body") in asked


def test_reading_content_is_seen_by_this_test(tmp_path: Path, asked: set[tuple[str, str]]) -> None:
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        sessions.session("chat").append_many([note("big", "x" * 3_000_000), picture("p", noise(100_000))])
        list(sessions.session("chat").history())
    assert asked >= CONTENT


def test_documents_are_listed_without_being_read(tmp_path: Path, asked: set[tuple[str, str]]) -> None:
    """Neither by the block that lists them in the prompt nor by a source of skills."""
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat").with_context("docs", kind="documents")
        chat.context.put("docs", "x" * 3_000_000, key="big/SKILL.md", description="long")
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        chat = sessions.session("chat").with_context("docs", kind="documents")
        asked.clear()
        block = chat.context.block("docs")
        assert block is not None and "big/SKILL.md: long" in (block.content or "")
        assert StoredSkills(sessions, "docs", session="chat").files() == [("big/SKILL.md", 3_000_000)]
        assert asked and asked & OF_VALUES == set()
        assert chat.context.load("docs", "big/SKILL.md") == "x" * 3_000_000
        assert asked & OF_VALUES == OF_VALUES


def test_registries_stay_small_whatever_was_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B-040: handles, session rows in memory, readers."""
    import gc

    from plait.store.sqlite import executor
    from tests.dose import dose

    heads = dose(short=200, soak=executor.MAX_HEADS)
    monkeypatch.setattr(executor, "MAX_HEADS", heads)
    with plait.open(tmp_path / "a.db", durability="relaxed") as sessions:
        for n in range(dose(short=700, soak=50_000)):
            sessions.session(f"s{n}").append(note("m"))
            sessions.session(f"s{n}").leaf()
        gc.collect()
        driver: Any = sessions.store.driver  # type: ignore[attr-defined]
        assert len(sessions._shared.handles) <= 1
        assert len(driver._writer.writing._heads) <= heads + 1
        assert len(driver._idle) <= 2 and driver._busy_readers == 0
