"""The search index beside writes that are under way: what is found afterwards is what was written, whoever indexed meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import plait
from plait import Session, SessionDeletedError, Sessions
from plait.store.postgres import adapt
from plait.store.postgres.driver import PostgresDriver
from tests.dose import dose
from tests.postgres.holding import Holding, holding, waiting
from tests.postgres_pair import wait_until


def text(id: str, words: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


@pytest.fixture
def other(url: str) -> Iterator[Sessions]:
    """The same store, as another process has it."""
    with plait.open(url) as sessions:
        yield sessions


@pytest.fixture
def hold() -> Iterator[Holding]:
    with holding() as all:
        yield all


@pytest.fixture
def chat(sessions: Sessions) -> Session:
    """A session whose messages and values are indexed, and that have changed since."""
    chat = sessions.session("chat").with_context("facts", kind="collection")
    chat.append_many([text("k", "alpha"), text("l", "lambda")])
    chat.context.put("facts", "alpha", key="k")
    assert [hit.id for hit in chat.search("alpha")] == ["k"]
    assert "k" in (chat.context.search("facts", "alpha") or "")
    chat.update(text("k", "beta"))
    chat.context.put("facts", "beta", key="k")
    return chat


def elsewhere(other: Sessions) -> None:
    """Search messages and values of another session, which takes on what is pending anywhere."""
    theirs = other.session("another").with_context("facts", kind="collection")
    theirs.append(text("y", "ypsilon"))
    theirs.context.put("facts", "ypsilon", key="y")
    assert [hit.id for hit in theirs.search("ypsilon")] == ["y"]
    assert theirs.context.search("facts", "ypsilon")


def found(sessions: Sessions, words: str) -> tuple[list[str], list[str], bool]:
    """Who says so: of a session, of a scope, and whether a value does."""
    chat = sessions.session("chat").with_context("facts", kind="collection")
    hits = [hit.id for hit in sessions.search(words) if hit.session_id == "chat"]
    return [hit.id for hit in chat.search(words)], hits, "k" in (chat.context.search("facts", words) or "")


CHANGES: dict[str, tuple[Callable[[Session], Any], list[str], bool]] = {
    "an update": (lambda chat: chat.update(text("k", "gamma")), ["k"], False),
    "a delete": (lambda chat: chat.delete("k"), [], False),
    "a value": (lambda chat: chat.context.put("facts", "gamma", key="k"), [], True),
    "a value that is deleted": (lambda chat: chat.context.write_entry("facts", "k", None), [], False),
    "a clear": (lambda chat: chat.clear(), [], False),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_under_way_is_not_lost_to_a_search_elsewhere(
    chat: Session, sessions: Sessions, other: Sessions, hold: Holding, name: str
) -> None:
    change, ids, value = CHANGES[name]
    held = hold(lambda: change(chat))
    elsewhere(other)
    held.commit()
    for store in (sessions, other):
        assert found(store, "gamma") == (ids, ids, value)
        assert found(store, "alpha") == ([], [], False)
    sessions.vacuum(purge=True)
    assert found(other, "gamma") == (ids, ids, value)
    assert sessions.doctor() == []


def test_a_text_that_grows_is_found_as_it_is_whoever_searches_meanwhile(
    chat: Session, sessions: Sessions, other: Sessions, hold: Holding
) -> None:
    """Updates in a row, as a streamed answer makes them, none of them indexed by its own session in between."""
    words = "beta"
    for n in range(4):
        words += f" more{n}"
        held = hold(lambda words=words: chat.update(text("k", words)))  # type: ignore[misc]
        other.session("another").append(text(f"y{n}", "ypsilon"))
        other.session("another").search("ypsilon")
        held.commit()
    assert found(other, "more3")[:2] == (["k"], ["k"]) and found(sessions, "more0")[:2] == (["k"], ["k"])
    assert sessions.doctor() == []


def test_words_of_what_a_session_lost_are_taken_out_by_a_search_elsewhere(
    chat: Session, sessions: Sessions, other: Sessions, url: str
) -> None:
    chat.delete("l")
    sessions.delete("chat")
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM plait.search_pending").fetchone() == (2,)
        elsewhere(other)
        assert connection.execute("SELECT count(*) FROM plait.search_pending").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM plait.message_words").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM plait.value_words").fetchone() == (1,)


def test_an_index_made_anew_lacks_nothing_that_somebody_was_indexing(
    chat: Session, other: Sessions, hold: Holding, url: str
) -> None:
    """Who brings it up to date while it is emptied begins from the start, not from where it was."""
    chat.append(text("n", "new"))
    held = hold(lambda: other.build_search_index(rebuild=True))
    with ThreadPoolExecutor(1) as pool:
        hits = pool.submit(chat.search, "new")
        wait_until(lambda: waiting(url), "the search waits for the index")
        held.commit()
        assert [hit.id for hit in hits.result()] == ["n"]
    for word, id in (("beta", "k"), ("lambda", "l"), ("new", "n")):
        assert [hit.id for hit in chat.search(word)] == [id]
    assert other.doctor() == []


def driver_of(sessions: Sessions) -> PostgresDriver:
    driver = sessions.store.driver  # type: ignore[attr-defined]
    assert isinstance(driver, PostgresDriver)
    return driver


MEANWHILE: dict[str, tuple[Callable[[Sessions, Session], Any], dict[str, list[str]]]] = {
    "an append": (
        lambda _other, theirs: theirs.append(text("o", "omega")),
        {"beta": ["k"], "new": ["n"], "omega": ["o"]},
    ),
    "an update of what is new": (lambda _other, theirs: theirs.update(text("n", "newer")), {"new": [], "newer": ["n"]}),
    "an update of what is pending": (
        lambda _other, theirs: theirs.update(text("k", "gamma")),
        {"beta": [], "gamma": ["k"]},
    ),
    "a delete of what is new": (lambda _other, theirs: theirs.delete("n"), {"new": [], "beta": ["k"]}),
    "a delete of what is pending": (lambda _other, theirs: theirs.delete("k"), {"new": ["n"], "beta": []}),
    "a clear": (lambda _other, theirs: theirs.clear(), {"new": [], "beta": []}),
    "an index that others keep": (lambda _other, theirs: theirs.search("new"), {"new": ["n"], "beta": ["k"]}),
    "that, and an update": (
        lambda _other, theirs: (theirs.search("new"), theirs.update(text("n", "newer"))),
        {"new": [], "newer": ["n"]},
    ),
    "an index made anew": (
        lambda other, _theirs: other.build_search_index(rebuild=True),
        {"new": ["n"], "beta": ["k"]},
    ),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_what_changes_while_texts_are_taken_apart_is_found_as_it_is(
    chat: Session, sessions: Sessions, other: Sessions, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Texts are read and taken apart before the write that indexes them, with nobody waiting: not even who writes there."""
    change, expected = MEANWHILE[name]
    chat.append(text("n", "new"))
    take_apart, left = PostgresDriver.lexemes, [lambda: change(other, other.session("chat"))]

    def interrupted(driver: PostgresDriver, folded: str) -> str:
        found = take_apart(driver, folded)
        if driver is driver_of(sessions) and left:
            left.pop()()
        return found

    monkeypatch.setattr(PostgresDriver, "lexemes", interrupted)
    with suppress(SessionDeletedError):  # after a clear
        chat.search("new", limit=1)
    assert not left
    for store in (sessions, other):
        for word, ids in expected.items():
            assert [hit.id for hit in store.session("chat").search(word)] == ids, word
    assert other.doctor() == []


@pytest.mark.timeout(dose(short=120, soak=1200))
def test_a_message_that_takes_long_to_take_apart_is_indexed(
    sessions: Sessions, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes beyond what the server lets a transaction stand still."""
    chat = sessions.session("chat")
    lines = dose(short=50_000, soak=1_000_000)
    chat.append(
        text("big", "\n".join(f"line {n} of a log that is long, whatever it says" for n in range(lines)) + " needle")
    )
    take_apart = adapt.lexemes

    def slow(folded: str) -> adapt.Lexemes:
        found = take_apart(folded)
        time.sleep(2)
        return found

    with plait.open(url, busy_timeout_s=2) as impatient:
        assert driver_of(impatient).settings.idle_s < 2
        monkeypatch.setattr(adapt, "lexemes", slow)
        impatient.build_search_index()
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SELECT count(*) FROM plait.message_words").fetchone() == (1,)
    monkeypatch.undo()
    assert [hit.id for hit in chat.search("line 7 log")] == ["big"]
