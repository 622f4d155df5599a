"""Generated from tests/behaviour/_async/test_copy.py by tools/unasync.py: edit that file. Copies between stores: everything goes along, what was read is what is there, a break costs nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait import Session, Sessions, Copied
from plait.errors import ConflictError, LeaseHeldError, NotFoundError, StaleValueError, UsageError
from tests.behaviour.values import LONE, TEXTS, VALUES, noise, note, picture
from tests.dose import dose
from tests.postgres_server import database

ACROSS = [("sqlite", "postgres"), ("postgres", "sqlite")]
PAIRS = dose(short=ACROSS, soak=[*ACROSS, ("sqlite", "sqlite"), ("postgres", "postgres")])


@contextmanager
def place(kind: str, file: Path) -> Iterator[str]:
    if kind == "postgres":
        with database() as url:
            yield url
    else:
        yield str(file)


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Sessions, Sessions]]:
    """Two stores, each on either database."""
    one, two = request.param
    with place(one, tmp_path / "one.db") as source, place(two, tmp_path / "two.db") as target:
        with (
            plait.open(source, durability="process") as origin,
            plait.open(target, durability="process") as copy,
        ):
            yield origin, copy


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[Sessions, Sessions]]:
    """Two stores in files."""
    with (
        plait.open(tmp_path / "one.db", durability="process") as origin,
        plait.open(tmp_path / "two.db", durability="process") as copy,
    ):
        yield origin, copy


def said(session: Session) -> list[Any]:
    """All that a session says, but the versions and the number of its changes."""
    info = session.info()
    assert info is not None
    rows: list[Any] = [
        (m.id, m.seq, m.parent_id, m.role, m.created_at, m.tokens, m.bytes, m.format, m.to_json())  # type: ignore[union-attr]
        for m in session.everything()
    ]
    leaf = session.leaf()
    shown = [(m.id, m.to_json()) for m in session.history()]  # type: ignore[union-attr]
    overlays = [
        (o.id, o.kind, o.summary, o.from_id, o.to_id, o.from_seq, o.to_seq, o.left, o.stale)
        for o in session.overlays(all=True)
    ]
    values = [value for value in session.value_versions()]
    catalogue = (info.name, info.owner, info.parent_id, info.pinned, info.metadata, info.created_at, info.active_at)
    records = session.records()
    return [rows, leaf and leaf.id, shown, overlays, values, catalogue, info.totals, session.state(), records]


def grown(sessions: Sessions, size: int = 60, seed: int = 5) -> Session:
    """A session with everything that one can have: branches, gaps, overlays, media, values, a catalogue entry."""
    chance = random.Random(seed)
    sessions.create("chat", name="Ein Gespräch \x00", owner="ann", metadata={"k": [1, 1.5, None], "": 2**70})
    chat = sessions.session("chat").with_context("memory").with_context("docs", kind="documents")
    ids = [(chat.append(note("first"))).id]
    for n in range(size):
        parent = chance.choice(ids) if n % 7 == 0 else None if n == 50 else plait.LEAF
        ids.append((chat.append(note(f"m{n}", chance.choice(list(TEXTS.values()))), parent=parent)).id)
    chat.append(picture("pic", noise(300_000)))
    chat.append(note("odd", values=list(VALUES.values())))
    chat.append({"role": "user", "content": "of another format"})
    chat.append(note("long", "é" * 900_000))
    chat.delete(chance.sample(ids[1:-12], size // 3))
    path = [m.id for m in chat.transcript()]
    chat.add_overlay(path[-9], path[-8], summary="inner")
    chat.add_overlay(path[-9], path[-6], summary="outer é💡")
    chat.omit(path[-2])
    chat.delete([path[-6]])
    for text in ("one", LONE, "\x00 three"):
        chat.context.replace("memory", text)
    chat.context.put("docs", "x" * 2_000_000, key="a/b", description="a long one")
    chat.write_records(put={b"\x00\xff" + bytes([n, 0]): noise(100 * n, n) for n in range(250)})
    chat.update_state({"turn": 3, "deep": {"a": [1.0]}})
    return chat


def test_everything_of_a_session_goes_along(pair: tuple[Sessions, Sessions]) -> None:
    source, target = pair
    chat = grown(source)
    copied = target.copy_from(source, "chat")
    rows = (said(chat))[0]
    assert copied == Copied("chat", True, len(rows), len(rows), (), True)
    assert said(target.session("chat")) == said(chat)
    again = target.copy_from(source, "chat")
    assert again == Copied("chat", False, 0, len(rows), (), True)
    assert said(target.session("chat")) == said(chat)


def test_a_copy_goes_on_as_its_source_would(pair: tuple[Sessions, Sessions]) -> None:
    source, target = pair
    grown(source, size=20)
    target.copy_from(source, "chat")
    for sessions in pair:
        chat = sessions.session("chat").with_context("memory")
        chat.append(note("after"))
        chat.context.append("memory", "more")
        chat.remove_overlay((chat.overlays())[-1].id)
    there, here = said(source.session("chat")), said(target.session("chat"))
    assert [row[:4] for row in there[0]] == [row[:4] for row in here[0]]
    assert [(v.version, v.content) for v in there[4]] == [(v.version, v.content) for v in here[4]]
    assert [hit.id for hit in target.session("chat").search("words")] == [
        hit.id for hit in source.session("chat").search("words")
    ]


def test_what_has_come_since_is_brought_and_nothing_else_changes(
    pair: tuple[Sessions, Sessions],
) -> None:
    source, target = pair
    chat = grown(source, size=20)
    target.copy_from(source, "chat")
    at = (target.session("chat").leaf()).id  # type: ignore[union-attr]
    chat.append_many([note("n1"), note("n2")])
    chat.append(note("n3"), parent="first")
    chat.checkout("n2")
    chat.add_overlay("n1", "n2", summary="later")
    chat.context.replace("memory", "later")
    chat.update_state({"turn": 4, "deep": None})
    source.rename("chat", "another name")
    cursor = target.session("chat").cursor()
    copied = target.copy_from(source, "chat")
    assert (copied.created, copied.inserted, copied.lost, copied.same) == (False, 3, (), True)
    changes = (target.session("chat").changes(after=cursor)).changes
    assert [c.ids for c in changes if c.kind == "import"] == [("n1",), ("n2",), ("n3",)]
    there, here = said(chat), said(target.session("chat"))
    assert [(row[0], row[2], row[8]) for row in there[0]] == [(row[0], row[2], row[8]) for row in here[0]]
    assert there[1:5] == here[1:5] and there[7] == here[7] and here[1] != at
    assert here[5][0] == "another name"


def test_a_copy_with_something_of_its_own_keeps_it_and_says_so(
    files: tuple[Sessions, Sessions],
) -> None:
    source, target = files
    chat = grown(source, size=20)
    target.copy_from(source, "chat")
    copy = target.session("chat").with_context("memory")
    copy.append(note("own"))
    copy.context.replace("memory", "its own")
    chat.append(note("new"))
    chat.context.replace("memory", "the source's")
    copied = target.copy_from(source, "chat")
    assert (copied.inserted, copied.same) == (1, False)
    assert copy.get("own") is not None and copy.get("new") is not None
    assert (copy.context.history("memory"))[0].content == "its own"
    chat.update(note("new", "updated"))
    assert not (target.copy_from(source, "chat")).same


def test_what_is_appended_while_a_copy_is_made_is_left_for_the_next(
    files: tuple[Sessions, Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    chat = source.session("chat")
    chat.append_many([note(f"m{n}") for n in range(250)])
    append, told = target.store.append, list[tuple[int, int]]()

    def slow(*args: Any, **options: Any) -> Any:
        chat.append(note(f"late{len(told)}"))
        return append(*args, **options)

    monkeypatch.setattr(target.store, "append", slow)
    copied = target.copy_from(source, "chat", progress=lambda *numbers: told.append(numbers))
    assert copied == Copied("chat", True, 250, 250, (), True)
    assert told[-1] == (250, 250)
    assert (target.copy_from(source, "chat")).inserted == 1


def test_a_copy_that_was_broken_off_is_gone_on_with(
    pair: tuple[Sessions, Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of its writes: what was written before is not written again, and nothing shows until it is whole."""
    source, target = pair
    chat = source.session("chat").with_context("memory")
    chat.append_many([note(f"m{n}") for n in range(1100)])
    chat.add_overlay("m1", "m3", summary="sum")
    chat.context.replace("memory", "said")
    store, written = target.store, 0
    real = {
        name: getattr(store, name)
        for name in ("append", "checkout", "add_overlay", "write_value", "put_session", "publish")
    }
    for breaks in real:
        calls = {"left": 2 if breaks == "append" else 1}

        def broken(*args: Any, _name: str = breaks, _calls: dict[str, int] = calls, **options: Any) -> Any:
            _calls["left"] -= 1
            if _calls["left"] == 0:
                raise KeyboardInterrupt
            return real[_name](*args, **options)

        monkeypatch.setattr(store, breaks, broken)
        with pytest.raises(KeyboardInterrupt):
            target.copy_from(source, "chat")
        monkeypatch.setattr(store, breaks, real[breaks])
        assert target.get("chat") is None and (target.list()).sessions == []

    def counted(session: Any, messages: Any, **options: Any) -> Any:
        nonlocal written
        written += len(messages)
        return real["append"](session, messages, **options)

    monkeypatch.setattr(store, "append", counted)
    assert (target.copy_from(source, "chat")).same
    assert written == 0
    assert said(target.session("chat")) == said(chat)


def test_a_source_that_was_changed_since_the_break_is_copied_anew(
    files: tuple[Sessions, Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    chat = source.session("chat")
    chat.append_many([note(f"m{n}") for n in range(10)])
    publish = target.store.publish

    def broken(*args: Any, **options: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(target.store, "publish", broken)
    with pytest.raises(KeyboardInterrupt):
        target.copy_from(source, "chat")
    monkeypatch.setattr(target.store, "publish", publish)
    chat.update(note("m3", "other words"))
    chat.delete(["m5"])
    assert (target.copy_from(source, "chat")).same
    assert said(target.session("chat")) == said(chat)


def test_a_source_that_changes_at_each_reading_leaves_no_copy(
    files: tuple[Sessions, Sessions], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = files
    source.session("chat").append(note("a"))
    append = target.store.append

    def other(session: Any, messages: Any, **options: Any) -> Any:
        from msgspec.structs import replace

        return append(session, [replace(m, tokens=m.tokens + 1) for m in messages], **options)

    monkeypatch.setattr(target.store, "append", other)
    with pytest.raises(StaleValueError, match="copy it again"):
        target.copy_from(source, "chat")
    monkeypatch.undo()
    assert target.get("chat") is None
    assert target.doctor() == []


def test_a_damaged_message_is_left_out_and_named(tmp_path: Path) -> None:
    with plait.open(tmp_path / "one.db", durability="process") as origin:
        origin.session("chat").append_many([note("a"), note("b"), note("c")])
    connection = apsw.Connection(str(tmp_path / "one.db"))
    connection.execute("UPDATE message SET body = 'no json' WHERE id = 'b'")
    connection.close()
    with (
        plait.open(tmp_path / "one.db") as source,
        plait.open(tmp_path / "two.db", durability="process") as target,
    ):
        copied = target.copy_from(source, "chat")
        assert (copied.messages, copied.same) == (2, True)
        assert len(copied.lost) == 1 and "'b'" in copied.lost[0]
        assert [(m.id, m.parent_id) for m in target.session("chat").history()] == [("a", None), ("c", "a")]


def test_all_of_a_scope_goes_along_with_what_its_sessions_share(
    pair: tuple[Sessions, Sessions],
) -> None:
    source, target = pair
    mine, theirs = source.scoped("acme", "alice"), source.scoped("acme", "bob")
    for n in range(dose(short=3, soak=300)):
        mine.session(f"s{n}").append_many([note("a"), note("b")])
    mine.session().append(note("in the default session"))
    mine.create("empty", name="nothing in it")
    mine.session("s0").with_context("team", shared=True).context.replace("team", "shared words")
    theirs.session("other").append(note("a"))
    to = target.scoped("acme", "alice")
    found = {copied.session_id: copied for copied in to.copy_all_from(mine)}
    listed = [info.id for info in mine.all()]
    assert found.keys() == {*listed, "plait:shared"} and all(copied.same for copied in found.values())
    assert [info.id for info in to.all()] == listed
    block = to.session("s1").with_context("team", shared=True).context.block("team")
    assert block is not None and block.content == "shared words"
    assert [scope for scope in source.scopes()] == [("acme", "alice"), ("acme", "bob")]
    assert [scope for scope in target.scopes()] == [("acme", "alice")]
    again = [copied for copied in to.copy_all_from(mine)]
    assert all(copied.same and not copied.inserted for copied in again)


def test_one_session_that_cannot_be_copied_keeps_no_other_back(
    files: tuple[Sessions, Sessions],
) -> None:
    source, target = files
    for id in ("a", "b", "c"):
        source.session(id).append(note("m"))
    target.session("b").append(note("other"))
    with target.session("b").lease(ttl_s=60):
        found = {copied.session_id: copied for copied in target.copy_all_from(source)}
        assert (found["a"].same, found["b"].same, found["c"].same) == (True, False, True)
        assert "leased" in found["b"].lost[0]
        with pytest.raises(LeaseHeldError):
            target.copy_from(source, "b")


def test_a_lease_is_not_copied(files: tuple[Sessions, Sessions]) -> None:
    source, target = files
    with source.session("chat").lease(ttl_s=60) as turn:
        turn.append(note("a"))
        assert (target.copy_from(source, "chat")).same
    assert (target.session("chat").append(note("b"))).inserted


def test_a_session_is_copied_to_another_scope_of_the_same_store(sessions: Sessions) -> None:
    sessions.session("chat").append(picture("p", noise(10_000)))
    other = sessions.scoped("acme")
    assert (other.copy_from(sessions, "chat")).same
    sessions.delete("chat")
    assert [m.to_dict() for m in other.session("chat").history()] == [picture("p", noise(10_000))]  # type: ignore[union-attr]


def test_what_is_not_there_is_not_copied(files: tuple[Sessions, Sessions]) -> None:
    source, target = files
    for id in ("absent", "plait:shared", "plait:stage:x"):
        with pytest.raises(NotFoundError):
            target.copy_from(source, id)
    with pytest.raises(UsageError):
        target.copy_from("one.db", "chat")  # type: ignore[arg-type]
    assert [copied for copied in target.copy_all_from(source)] == []
    source.create("chat", owner="ann")
    target.create("chat", owner="bob")
    with pytest.raises(ConflictError, match="owner"):
        target.copy_from(source, "chat")
