"""Generated from tests/behaviour/_async/test_ids.py by tools/unasync.py: edit that file. Ids are data: of messages, sessions, tenants and owners, whatever they look like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import Session, Sessions, NotFoundError, PlaitError, UsageError
from tests.behaviour._sync.helpers import facts, ids_of, read_back, readable
from tests.behaviour.values import BAD_IDS, LONE, ODD_IDS, note


@pytest.mark.parametrize("id", ODD_IDS, ids=ascii)
def test_an_odd_message_id_is_data(chat: Session, id: str) -> None:
    """B-099: every call that takes a message's id takes this one, and only it is meant."""
    near = {id + "x", id[:-1], id.upper(), id.replace("\0", " "), id.split("\0")[0]} - {id, ""}
    near = {other for other in near if len(other.encode()) <= 512 and other.strip()}
    chat.append_many([note("root"), *map(note, sorted(near)), note(id), note("child")])
    parent = sorted(near)[-1] if near else "root"
    assert readable(chat.get(id)).parent_id == parent
    assert [readable(message).id for message in chat.children(id)] == ["child"]
    assert (chat.append(note("branch"), parent=id)).parent_id == id
    assert ids_of(chat.history(id)) == ["root", *sorted(near), id]
    assert (chat.recent(count=1, leaf=id)).messages == [chat.get(id)]
    assert chat.checkout(id)
    chat.update(note(id, "new words"))
    assert read_back(chat, id) == note(id, "new words")
    fork = chat.fork(at=id)
    assert readable(fork.leaf()).id == id
    assert chat.delete([id]) == [id]
    assert chat.get(id) is None
    assert {other for other in near if chat.get(other) is not None} == near
    assert readable(chat.get("child")).parent_id == parent


@pytest.mark.parametrize("id", ODD_IDS, ids=ascii)
def test_an_odd_session_id_is_data(sessions: Sessions, file: Path, id: str) -> None:
    """B-099: no file but the database and its log appears, and no other session is touched."""
    sessions.session("other").append(note("m", "of the other"))
    sessions.create(id, name="odd")
    session = sessions.session(id)
    session.append(note("m", "of the odd one"))
    sessions.rename(id, "renamed")
    sessions.merge_metadata(id, {"k": 1})
    session.update_state({"k": 2})
    sessions.pin(id)
    assert {info.id for info in sessions.all()} == {"other", id}
    info = sessions.get(id)
    assert info is not None and (info.id, info.name, info.pinned) == (id, "renamed", True)
    fork = session.fork()
    found = fork.info()
    assert found is not None and found.parent_id == id
    assert sessions.delete(id)
    assert sessions.get(id) is None
    assert read_back(sessions.session("other"), "m") == note("m", "of the other")
    assert {path.name for path in file.parent.iterdir()} <= {file.name, file.name + "-wal", file.name + "-shm"}


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
def test_a_bad_session_id_is_refused_and_nothing_is_made(sessions: Sessions, id: Any) -> None:
    """B-049"""
    with pytest.raises(UsageError):
        sessions.session(id)
    with pytest.raises(UsageError):
        sessions.create(id)
    with pytest.raises(UsageError):
        sessions.get_or_create(id)
    with pytest.raises(UsageError):
        sessions.scoped(tenant=id or None)
    with pytest.raises(UsageError):
        sessions.scoped(owner=id or None)
    assert [info for info in sessions.all()] == []


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
def test_reading_what_no_id_can_name_finds_nothing_or_says_why(
    sessions: Sessions, chat: Session, id: Any
) -> None:
    """B-001, B-049: an id that nothing can have is absent like any other, and never breaks the driver."""
    chat.append(note("m"))
    before = facts(chat)
    assert absent(lambda: sessions.get(id)) in (None, "refused")
    assert absent(lambda: chat.get(id)) in (None, "refused")
    assert absent(lambda: chat.children(id)) in ([], "refused")
    assert absent(lambda: chat.delete([id])) in ([], "refused")
    assert absent(lambda: sessions.delete(id)) in (False, "refused")
    assert absent(lambda: chat.recent(leaf=id)) == "refused" or (chat.recent(leaf=id)).messages == []
    try:
        assert ids_of(chat.history(id)) == []
    except UsageError:
        pass
    with pytest.raises((UsageError, NotFoundError)):
        chat.checkout(id)
    with pytest.raises((UsageError, NotFoundError)):
        chat.append(note("n"), parent=id)
    with pytest.raises((UsageError, NotFoundError)):
        chat.import_message(note("n"), parent=id)
    with pytest.raises((UsageError, NotFoundError)):
        chat.fork(at=id)
    with pytest.raises((UsageError, NotFoundError)):
        sessions.rename(id, "x")
    assert facts(chat) == before


def absent(call: Callable[[], Any]) -> Any:
    """What a call answers, or that plait refused it."""
    try:
        return call()
    except PlaitError:
        return "refused"


@pytest.mark.parametrize("name", ["../x", "a\0b", LONE, "", "x" * 100_000, "🧵"], ids=ascii)
def test_names_and_owners_are_data_or_refused(sessions: Sessions, name: str) -> None:
    """B-001: a title with half an emoji does not break the catalogue."""
    sessions.create("other", name="other")
    try:
        sessions.create("named", name=name, owner=name or None)
    except UsageError:
        assert sessions.get("named") is None
    else:
        info = sessions.get("named")
        assert info is not None and (info.name, info.owner) == (name, name or None)
    try:
        sessions.rename("other", name)
    except UsageError:
        name = "other"
    assert [info.name for info in sessions.all() if info.id == "other"] == [name]


@pytest.mark.parametrize("id", ["plait:default", "plait:stage:1", "plait:", "plait:anything"])
def test_plaits_own_session_ids_are_not_for_callers(sessions: Sessions, id: str) -> None:
    with pytest.raises(UsageError, match="reserved"):
        sessions.create(id + "x")
    if id != "plait:default":
        with pytest.raises(UsageError, match="reserved"):
            sessions.session(id)


@pytest.mark.parametrize("id", ["plait:shared", "plait:stage:x"])
def test_what_no_listing_shows_is_neither_found_nor_deleted_by_its_id(sessions: Sessions, id: str) -> None:
    chat = sessions.session("chat").with_context("memory", shared=True)
    chat.context.replace("memory", "for all")
    with pytest.raises(UsageError, match="plait's own"):
        sessions.delete(id)
    assert sessions.get(id) is None
    block = chat.context.block("memory")
    assert block is not None and block.content == "for all"


def test_two_sessions_may_use_one_message_id(sessions: Sessions) -> None:
    """B-045: providers reuse short ids."""
    one, other = sessions.session("one"), sessions.session("other")
    one.append(note("call_1", "mine"))
    other.append(note("call_1", "yours"))
    one.update(note("call_1", "mine anew"))
    assert read_back(other, "call_1") == note("call_1", "yours")
    sessions.delete("one")
    assert read_back(other, "call_1") == note("call_1", "yours")
    assert not (other.append(note("call_1", "yours"))).inserted


def test_a_missing_id_is_made_returned_and_unique(chat: Session) -> None:
    """B-049: native messages carry it, foreign ones are kept as they are."""
    native = chat.append({"role": "user", "parts": []})
    foreign = chat.append({"role": "user", "content": "hi"})
    null = chat.append({"id": None, "role": "user", "parts": []})
    assert len({native.id, foreign.id, null.id}) == 3
    assert native.message.to_dict() == {"id": native.id, "role": "user", "parts": []}
    assert next(iter(native.message.to_dict())) == "id"
    assert foreign.message.to_dict() == {"role": "user", "content": "hi"}
    assert readable(chat.get(foreign.id)).text == "hi"


def test_an_id_beside_a_message_that_has_another_is_refused(chat: Session) -> None:
    with pytest.raises(UsageError, match="give one"):
        chat.append(note("m"), id="n")
    assert chat.info() is None
