"""The answer to a COMMIT is lost: what became of the write is told of exactly, whoever wrote or deleted meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

import plait
from plait import Sessions
from plait.errors import StoreUnavailableError
from plait.store.postgres import homes
from plait.store.postgres._async.executor import AsyncExecutor
from plait.store.postgres._sync import running
from plait.store.postgres._sync.executor import Executor
from plait.store.protocol import Scope, SessionRef
from tests.postgres.holding import waiting
from tests.postgres_pair import wait_until
from tests.postgres_server import database

PICTURE = b"a picture"


def text(id: str | None = None, words: str = "words") -> dict[str, Any]:
    message = {"role": "user", "parts": [{"type": "text", "text": words}]}
    return message if id is None else {"id": id, **message}


def told(sessions: Sessions, session: str = "chat") -> list[tuple[str | None, str]]:
    """What a session says, after looking at what must hold of it."""
    found = [row for row in sessions.session(session).everything() if isinstance(row, plait.Message)]
    info = sessions.session(session).info()
    assert info is not None and info.totals.messages == len(found)
    return [(message.id, message.text) for message in found]


@pytest.fixture
def other(url: str) -> Iterator[Sessions]:
    """The same store, as another process has it."""
    with plait.open(url) as sessions:
        yield sessions


def lost() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection is lost")


class Cut:
    """Takes the connection away at the first COMMIT, before or after that has reached the server."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Any], *, committed: bool) -> None:
        self.met = False
        commit = Executor._committed

        def committing(executor: Executor) -> Any:
            if self.met:
                return commit(executor)
            self.met = True
            if committed:
                commit(executor)
            executor.connection.pgconn.finish()
            meanwhile()
            raise lost()

        monkeypatch.setattr(Executor, "_committed", committing)


# -- others at the same place --------------------------------------------------


@pytest.mark.parametrize("many", [False, True], ids=["worked out beforehand", "step by step"])
def test_what_another_writer_stored_under_the_same_id_is_not_taken_for_ones_own(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    chat = sessions.session("chat")
    chat.append(text("first"))
    Cut(monkeypatch, lambda: other.session("chat").append(text("x", "their words")), committed=False)
    (found,) = chat.append_many([text("x", "my words")]) if many else [chat.append(text("x", "my words"))]
    assert (found.inserted, found.differs, found.message.text) == (False, True, "their words")
    assert told(other) == [("first", "words"), ("x", "their words")]


def test_the_same_words_under_the_same_id_are_another_writers_where_they_are(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = sessions.session("chat")
    chat.append(text("first"))
    Cut(monkeypatch, lambda: other.session("chat").append(text("x")), committed=False)
    assert not chat.append(text("x")).inserted
    assert told(other) == [("first", "words"), ("x", "words")]


def test_a_new_session_that_another_writer_made_is_not_taken_for_ones_own(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cut(monkeypatch, lambda: other.session("chat").append(text("theirs")), committed=False)
    assert sessions.session("chat").append(text("mine")).inserted
    assert told(other) == [("theirs", "words"), ("mine", "words")]
    with monkeypatch.context() as patch:
        Cut(patch, lambda: other.create("made", name="theirs"), committed=False)
        with pytest.raises(plait.ConflictError, match="exists already"):
            sessions.create("made", name="mine")


def test_a_batch_that_never_arrived_is_written_though_another_writer_has_one_of_its_ids(
    url: str, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, met = AsyncExecutor._send_all, []
    names = sorted(
        (f"chat {n}" for n in range(3)), key=lambda name: str(homes.of_session(SessionRef(Scope("", ""), name)).home)
    )

    async def sending(executor: AsyncExecutor) -> Any:
        if len(executor._held) > 6 and not met:
            met.append(executor)
            executor.connection.pgconn.finish()
            await asyncio.to_thread(lambda: other.session(names[0]).append(text("x", "their words")))
            raise lost()
        return await send(executor)

    async def run() -> list[Any]:
        async with plait.open_async(url) as store:
            for name in names:
                await store.session(name).append(text("first"))
            monkeypatch.setattr(AsyncExecutor, "_send_all", sending)
            return await asyncio.gather(*(store.session(name).append(text("x", "my words")) for name in names))

    found = asyncio.run(run())
    assert met
    assert [(item.inserted, item.message.text) for item in found] == [
        (False, "their words"),
        (True, "my words"),
        (True, "my words"),
    ]
    assert [told(other, name)[1:] for name in names] == [[("x", item.message.text)] for item in found]


# -- others who change it at once ----------------------------------------------

Meanwhile = Callable[[Sessions], Any]
CHANGES: dict[str, Meanwhile] = {
    "update": lambda other: other.session("chat").update(text("x", "their words")),
    "append": lambda other: other.session("chat").append(text("after")),
    "checkout": lambda other: other.session("chat").checkout("first"),
    "clear": lambda other: other.session("chat").clear(),
    "delete session": lambda other: other.delete("chat"),
}
TRACELESS = {"clear", "delete session"}
"""Those after which nothing is left that says whose the last message was."""


@pytest.mark.parametrize("many", [False, True], ids=["worked out beforehand", "step by step"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_committed_is_known_though_another_writer_has_changed_it(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, change: str, many: bool
) -> None:
    chat = sessions.session("chat")
    chat.append(text("first"))
    after: list[Any] = []

    def meanwhile() -> None:
        CHANGES[change](other)
        after.append([row.id for row in other.session("chat").everything()])

    Cut(monkeypatch, meanwhile, committed=True)
    if change in TRACELESS:
        with pytest.raises(StoreUnavailableError, match="is not known"):
            chat.append_many([text("x")]) if many else chat.append(text("x"))
    else:
        (found,) = chat.append_many([text("x")]) if many else [chat.append(text("x"))]
        assert (found.inserted, found.message.text) == (True, "words")
    assert [[row.id for row in other.session("chat").everything()]] == after, "it was written twice"


@pytest.mark.parametrize("many", [False, True], ids=["worked out beforehand", "step by step"])
@pytest.mark.parametrize("given", [False, True], ids=["made id", "given id"])
def test_a_message_that_was_deleted_at_once_is_not_brought_back(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, given: bool, many: bool
) -> None:
    """Under a given id another writer may have stored the one that was deleted: nobody can tell any more."""
    chat = sessions.session("chat")
    chat.append(text("first"))

    def meanwhile() -> None:
        (id,) = [id for id, _ in told(other)[1:]]
        other.session("chat").delete([str(id)])

    def append() -> bool:
        message = text("x" if given else None)
        return (chat.append_many([message])[0] if many else chat.append(message)).inserted

    Cut(monkeypatch, meanwhile, committed=True)
    if given:
        with pytest.raises(StoreUnavailableError, match=r"is not known.*since then it was removed"):
            append()
    else:
        assert append()
    assert told(other) == [("first", "words")]


def branch_off(other: Sessions) -> None:
    other.session("chat").append(text("x", "their words"), parent="root")


def and_delete_it(other: Sessions) -> None:
    branch_off(other)
    other.session("chat").delete(["x"])


@pytest.mark.parametrize("meanwhile", [branch_off, and_delete_it, CHANGES["checkout"], CHANGES["clear"]])
def test_what_was_not_committed_is_written_whatever_another_writer_has_done_instead(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, meanwhile: Meanwhile
) -> None:
    chat = sessions.session("chat")
    chat.append_many([text("root"), text("first")])
    Cut(monkeypatch, lambda: meanwhile(other), committed=False)
    try:
        found = chat.append(text("x"))
    except plait.SessionDeletedError:
        assert meanwhile is CHANGES["clear"]
        return
    assert found.inserted == (meanwhile is not branch_off)
    assert [id for id, _ in told(other)].count("x") == 1


# -- what leaves no message ----------------------------------------------------


def test_a_record_that_was_kept_is_known_by_its_transaction(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat, theirs = sessions.session("chat"), other.session("chat")
    chat.append(text("first"))

    def keep(key: bytes, meanwhile: Callable[[], Any], *, committed: bool) -> list[bytes]:
        with monkeypatch.context() as patch:
            Cut(patch, meanwhile, committed=committed)
            return list(chat.write_records(keep={key: b"v"}).kept)

    assert keep(b"mine", lambda: None, committed=True) == []
    assert keep(b"lost", lambda: None, committed=False) == []
    assert keep(b"theirs", lambda: theirs.write_records(keep={b"theirs": b"v"}), committed=False) == [b"theirs"]
    with pytest.raises(StoreUnavailableError, match="is not known"):
        keep(b"gone", lambda: theirs.write_records(delete=[b"gone"]), committed=True)
    assert set(chat.records()) == {(key, b"v") for key in (b"mine", b"lost", b"theirs")}


@pytest.mark.parametrize("committed", [True, False])
def test_a_lease_that_was_broken_is_told_of_as_broken(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    with monkeypatch.context() as patch:
        lease = other.session("chat").lease()
        lease.__enter__()
        Cut(patch, lambda: None, committed=committed)
        assert sessions.session("chat").break_lease()
        assert not sessions.session("chat").break_lease()


def test_a_lease_that_was_taken_after_one_was_broken_is_left_alone(
    sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    other.session("chat").lease().__enter__()
    Cut(monkeypatch, lambda: other.session("chat").lease().__enter__(), committed=True)
    with pytest.raises(StoreUnavailableError, match="is not known"):
        sessions.session("chat").break_lease()
    assert sessions.session("chat").lease_info() is not None


# -- commits that are still under way ------------------------------------------

Operation = Callable[[Sessions], Any]
SLOW: dict[str, tuple[Operation, Callable[[Any], bool]]] = {
    "append to a new session, made id": (lambda sessions: sessions.session("new").append(text()), lambda x: x.inserted),
    "append to a new session": (lambda sessions: sessions.session("new").append(text("x")), lambda x: x.inserted),
    "append": (lambda sessions: sessions.session("chat").append(text()), lambda x: x.inserted),
    "create": (lambda sessions: sessions.create("new", name="n"), lambda x: x.name == "n"),
    "records of a new session": (
        lambda sessions: sessions.session("new").write_records(keep={b"k": b"v"}),
        lambda x: not x.kept,
    ),
    "begin a payload": (lambda sessions: sessions.put_attachment(PICTURE, media_type="image/png"), lambda x: True),
    "a piece of a payload": (lambda sessions: sessions.put_attachment(PICTURE, media_type="image/png"), lambda x: True),
}
BEFORE = {"begin a payload": 1, "a piece of a payload": 2}
"""How many transactions come before the one that is lost."""


@contextmanager
def slow_commit(patch: pytest.MonkeyPatch, name: str) -> Iterator[Callable[[], None]]:
    """Loses the connection at a COMMIT, which the server goes on with until it is told to be done with it."""
    kept: list[Any] = []
    commit, end, count = Executor._committed, running.end, itertools.count()

    def committing(executor: Executor) -> Any:
        if next(count) != BEFORE.get(name, 0):
            return commit(executor)
        executor._held.pop()
        executor._send_all()
        kept.append(executor.connection)
        executor.connection = SimpleNamespace(closed=True)  # type: ignore[assignment]
        raise lost()

    def ending(connection: Any) -> None:
        if connection not in kept:
            end(connection)

    patch.setattr(Executor, "_committed", committing)
    patch.setattr(running, "end", ending)
    try:
        yield lambda: kept[0].pgconn.exec_(b"COMMIT")
    finally:
        end(kept[0])


@pytest.mark.parametrize("name", SLOW)
def test_a_commit_that_takes_longer_than_its_connection_lasts_is_waited_for(
    url: str, sessions: Sessions, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    operation, right = SLOW[name]
    sessions.session("chat").append(text("first"))
    found: list[Any] = []
    with slow_commit(monkeypatch, name) as done:
        writer = threading.Thread(target=lambda: found.append(operation(sessions)))
        writer.start()
        wait_until(lambda: waiting(url) or not writer.is_alive(), "the write is looked for")
        done()
        writer.join()
    assert found and right(found[0])
    stored = [told(sessions, info.id) for info in sessions.list().sessions]
    assert sum(map(len, stored)) == 1 + name.startswith("append")


@pytest.mark.parametrize("name", SLOW)
def test_a_commit_that_takes_too_long_is_told_of_as_not_known(
    url: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with plait.open(url, busy_timeout_s=0.2) as sessions:
        sessions.session("chat").append(text("first"))
        with slow_commit(monkeypatch, name) as done:
            with pytest.raises(StoreUnavailableError, match="whether it was is not known"):
                SLOW[name][0](sessions)
            done()
        stored = [told(sessions, info.id) for info in sessions.list().sessions]
    assert sum(map(len, stored)) == 1 + name.startswith("append")


def test_a_look_leaves_nothing_behind() -> None:
    with database(fresh=True) as url, plait.open(url) as sessions, pytest.MonkeyPatch.context() as patch:
        sessions.list()
        Cut(patch, lambda: None, committed=False)
        with pytest.raises(StoreUnavailableError), plait.open(url, busy_timeout_s=0) as hasty:
            hasty.session("new").append(text())
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT * FROM plait.counter").fetchall() == []
