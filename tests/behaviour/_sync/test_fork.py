"""Generated from tests/behaviour/_async/test_fork.py by tools/unasync.py: edit that file. Forking: a copy of a path that is a session of its own, with nothing lost and nothing shared."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from plait import Session, Sessions, ConflictError, NotFoundError, StaleValueError, UsageError
from tests.behaviour._sync.helpers import chain, dicts_of, facts, ids_of, readable
from tests.behaviour.values import note, picture
from tests.dose import dose


def rich(chat: Session) -> None:
    """A session with everything: branches, media, slices, tool pairs, foreign messages, deletes, equal times."""
    same_time = dt.datetime(2024, 5, 6, 7, 8, 9, tzinfo=dt.timezone.utc)
    chat.import_message(note("i0"), parent=None, created_at=same_time)
    chat.import_message(note("i1"), parent="i0", created_at=same_time)
    chat.append(picture("p", b"payload"))
    chat.append(
        {"id": "call", "role": "assistant", "parts": [{"type": "tool-x", "toolCallId": "c", "input": {}}]}
    )
    chat.append({"role": "tool", "tool_call_id": "c", "content": "result"}, id="result")
    chat.append(note("gone"))
    chat.append(note("big", "é" * 1_600_000))
    chat.append(note("side"), parent="p")
    chat.append(note("end"), parent="big")
    chat.delete("gone")


def test_a_fork_is_the_same_path_with_ids_seqs_times_and_content(
    sessions: Sessions, chat: Session
) -> None:
    """B-054, B-056, B-057"""
    rich(chat)
    fork = chat.fork("fork", name="a copy")
    assert [message for message in fork.history()] == [message for message in chat.history()]
    assert dicts_of(fork.history()) == dicts_of(chat.history())
    assert [stat for stat in fork.path_stats()] == [stat for stat in chat.path_stats()]
    info = fork.info()
    assert info is not None and (info.id, info.name, info.parent_id) == ("fork", "a copy", "chat")
    path = chat.totals()
    assert (info.totals.messages, info.totals.bytes, info.totals.tokens) == (
        path.path_messages,
        path.path_bytes,
        path.path_tokens,
    )
    assert info.totals.path_messages == info.totals.messages
    assert fork.get("side") is None


def test_a_fork_is_listed_first_and_knows_where_it_is_from(sessions: Sessions) -> None:
    source, other = sessions.session("source"), sessions.session("other")
    chain(source, 2)
    chain(other, 1)
    fork = source.fork("fork")
    listed = (sessions.list()).sessions
    assert listed[0].id == "fork" and listed[0].parent_id == "source"
    assert ids_of(fork.history()) == ["m0", "m1"]


def test_fork_and_original_are_independent(sessions: Sessions, chat: Session) -> None:
    """B-056: whatever happens to one leaves the other, until both are gone."""
    rich(chat)
    fork = chat.fork("fork")
    original = dicts_of(chat.history())
    chat.update(note("i0", "changed in the original"))
    chat.delete(["p", "call"])
    assert dicts_of(fork.history()) == original
    fork.update(note("i1", "changed in the fork"))
    fork.append(note("only in the fork"))
    assert chat.get("only in the fork") is None
    assert readable(chat.get("i1")).text == "words"
    sessions.delete("chat")
    assert (ids_of(fork.history()))[-1] == "only in the fork"
    assert readable(fork.get("p")).to_dict() == picture("p", b"payload")


def test_a_fork_of_a_fork_counts_everything_once(sessions: Sessions, chat: Session) -> None:
    """B-057"""
    chain(chat, 5)
    second = (chat.fork("first")).fork("second")
    assert (second.totals()).messages == 5
    assert len(ids_of(second.everything())) == 5
    info = second.info()
    assert info is not None and info.parent_id == "first"


@pytest.mark.parametrize("at", ["m0", "m3", "m9", "b1"])
def test_a_fork_at_a_message_holds_the_path_to_it(chat: Session, at: str) -> None:
    chain(chat, 10)
    chat.append_many([note("b0"), note("b1")], parent="m4")
    fork = chat.fork(at=at)
    assert ids_of(fork.history()) == ids_of(chat.history(at))
    next = fork.append(note("next"))
    assert next.parent_id == at
    assert next.seq > readable(fork.get(at)).seq


def test_a_fork_of_many_equal_times_keeps_the_order(chat: Session) -> None:
    """B-054: 200 messages of one time."""
    same_time = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)
    parent: str | None = None
    for n in range(200):
        parent = (chat.import_message(note(f"m{n}"), parent=parent, created_at=same_time)).id
    fork = chat.fork()
    assert ids_of(fork.history()) == [f"m{n}" for n in range(200)]
    assert {message.created_at for message in fork.history()} == {same_time}  # type: ignore[union-attr]


def test_a_fork_larger_than_one_transaction_is_whole(chat: Session) -> None:
    """B-089"""
    count = dose(short=2500, soak=100_000)
    chain(chat, count)
    chat.append_many([note(f"big{n}", "x" * 1_500_000) for n in range(6)])
    fork = chat.fork("fork")
    assert ids_of(fork.history()) == ids_of(chat.history())
    assert (fork.totals()).messages == count + 6


def test_a_fork_of_nothing_is_an_empty_session(sessions: Sessions, chat: Session) -> None:
    fork = chat.fork("fork")
    assert ids_of(fork.history()) == []
    info = sessions.get("fork")
    assert info is not None and info.parent_id is None
    assert sessions.get("chat") is None
    sessions.create("empty")
    sessions.session("empty").fork("of an empty one")
    info = sessions.get("of an empty one")
    assert info is not None and info.parent_id == "empty"


def test_a_fork_that_cannot_be_changes_nothing(sessions: Sessions, chat: Session) -> None:
    chain(chat, 3)
    sessions.create("taken")
    before = facts(chat)
    with pytest.raises(ConflictError, match="exists already"):
        chat.fork("taken")
    with pytest.raises(ConflictError, match="exists already"):
        chat.fork("chat")
    with pytest.raises(NotFoundError):
        chat.fork("fork", at="absent")
    with pytest.raises(UsageError):
        chat.fork("")
    assert facts(chat) == before
    assert {info.id for info in sessions.all()} == {"chat", "taken"}


@pytest.mark.parametrize("change", ["update", "delete", "clear", "append"])
def test_a_fork_whose_source_changes_while_it_is_copied_fails_typed_or_is_right(
    sessions: Sessions,
    chat: Session,
    reopened: Callable[[], Sessions],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    chain(chat, 30)
    original = sessions.store._copy  # type: ignore[attr-defined]

    def late(*args: Any, **options: Any) -> Any:
        copied = original(*args, **options)
        with reopened() as others:
            other = others.session("chat")
            if change == "update":
                other.update(note("m3", "changed"))
            elif change == "delete":
                other.delete("m3")
            elif change == "clear":
                other.clear()
            else:
                other.append(note("later"))
        return copied

    monkeypatch.setattr(sessions.store, "_copy", late)
    if change == "append":
        fork = chat.fork("fork")
        assert ids_of(fork.history()) == [f"m{n}" for n in range(30)]
    else:
        with pytest.raises(ConflictError) as caught:
            chat.fork("fork")
        assert isinstance(caught.value, StaleValueError) or change == "clear"
        assert sessions.get("fork") is None
        assert sessions.doctor(fix=True) == []
