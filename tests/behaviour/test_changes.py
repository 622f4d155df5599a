"""What subscribers are told in the sync face's order; the async one waits for coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import plait
from tests.behaviour.values import note, picture


def test_changes_come_in_order_with_the_stored_message(tmp_path: Path) -> None:
    told: list[plait.Change] = []
    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        cancel = sessions.subscribe(told.append)
        chat = sessions.session("chat")
        chat.append(picture("a", b"payload"))
        chat.append_many([note("b"), note("c")])
        chat.update(note("b", "new"))
        chat.import_message(note("d"), parent="a")
        chat.delete(["c", "absent"])
        sessions.rename("chat", "name")
        chat.clear()
        sessions.delete("chat")
        cancel()
        cancel()
        chat2 = sessions.session("chat")
        chat2.append(note("unheard"))
    summary = [
        (
            change.kind,
            change.session_id,
            change.message.id if change.message else None,
            change.parent_id,
            tuple(change.ids),
        )
        for change in told
    ]
    assert summary == [
        ("append", "chat", "a", None, ("a",)),
        ("append", "chat", "b", "a", ("b",)),
        ("append", "chat", "c", "b", ("c",)),
        ("update", "chat", "b", None, ("b",)),
        ("import", "chat", "d", "a", ("d",)),
        ("delete", "chat", None, None, ("c",)),
        ("session", "chat", None, None, ()),
        ("clear", "chat", None, None, ()),
        ("delete session", "chat", None, None, ()),
    ]
    assert told[0].message is not None and told[0].message.to_dict() == picture("a", b"payload")
    assert told[3].message is not None and told[3].message.text == "new"


def test_a_change_is_told_after_it_is_committed_and_by_all_views_of_the_store(tmp_path: Path) -> None:
    seen: list[str | None] = []
    with plait.open(tmp_path / "a.db", durability="process") as sessions, plait.open(tmp_path / "a.db") as others:

        def look(change: plait.Change) -> None:
            assert change.message is not None
            found = others.scoped("tenant").session("chat").get(change.message.id)
            seen.append(found.id if found else None)

        sessions.scoped("tenant").subscribe(look)
        sessions.scoped("tenant").session("chat").append_many([note("a"), note("b")])
    assert seen == ["a", "b"]


async def test_async_subscribers_are_awaited_one_after_another(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    order: list[str] = []

    async def slow(change: plait.Change) -> None:
        await asyncio.sleep(0)
        order.append(f"slow {change.kind}")

    async def failing(change: plait.Change) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("the subscriber failed")

    def plain(change: plait.Change) -> None:
        order.append(f"plain {change.kind}")

    async with plait.open_async(tmp_path / "a.db", durability="process") as sessions:
        for listener in (slow, failing, plain):
            sessions.subscribe(listener)
        await sessions.session("chat").append(note("a"))
        await sessions.session("chat").delete("a")
    assert order == [f"{who} {kind}" for kind in ("append", "error", "delete", "error") for who in ("slow", "plain")]
    assert caplog.text.count("\nRuntimeError: the subscriber failed") == 2


def test_a_subscriber_that_unsubscribes_others_while_told_is_safe(tmp_path: Path) -> None:
    told: list[str] = []
    with plait.open(tmp_path / "a.db", durability="process") as sessions:

        def first(change: plait.Change) -> None:
            told.append("first")
            cancel_first()
            cancel_second()
            sessions.subscribe(lambda change: told.append("new"))

        cancel_first = sessions.subscribe(first)
        cancel_second = sessions.subscribe(lambda change: told.append("second"))
        sessions.session("chat").append(note("a"))
        before = list(told)
        sessions.session("chat").append(note("b"))
    assert before[0] == "first" and told[len(before) :] == ["new"]


class _Called:
    async def __call__(self, change: plait.Change) -> None:
        raise AssertionError("never run")


async def _async_listener(change: plait.Change) -> None:
    raise AssertionError("never run")


async def _async_generator(change: plait.Change) -> AsyncIterator[None]:
    yield


def _generator(change: plait.Change) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    "listener", [_async_listener, partial(_async_listener), _Called(), _Called().__call__, _generator, _async_generator]
)
def test_a_listener_that_would_never_run_is_refused(tmp_path: Path, listener: Any) -> None:
    with plait.open(tmp_path / "a.db") as sessions, pytest.raises(plait.UsageError, match="listener must be"):
        sessions.subscribe(listener)


@pytest.mark.parametrize("listener", [_generator, _async_generator])
async def test_a_listener_that_nobody_would_iterate_is_refused(tmp_path: Path, listener: Any) -> None:
    async with plait.open_async(tmp_path / "a.db") as sessions:
        with pytest.raises(plait.UsageError, match="listener must be"):
            sessions.subscribe(listener)


def test_a_coroutine_that_a_plain_listener_returns_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.subscribe(lambda change: _async_listener(change))
        sessions.session("chat").append(note("a"))
    assert "nothing does here" in caplog.text


async def test_the_async_face_takes_both_kinds_of_listener(tmp_path: Path) -> None:
    told: list[str] = []

    async def coroutine(change: plait.Change) -> None:
        told.append("async")

    async with plait.open_async(tmp_path / "a.db") as sessions:
        for listener in (
            coroutine,
            partial(coroutine),
            lambda _: told.append("plain"),
            lambda change: coroutine(change),
        ):
            sessions.subscribe(listener)
        await sessions.session("chat").append(note("a"))
    assert told == ["async", "async", "plain", "async"]


def test_a_session_is_listened_to_by_itself_and_nobody_twice(tmp_path: Path) -> None:
    told: list[tuple[str, str]] = []

    def listen(change: plait.Change) -> None:
        told.append((change.session_id, change.kind))

    with plait.open(tmp_path / "a.db", durability="process") as sessions:
        cancel = sessions.session("chat").subscribe(listen)
        sessions.session("chat").subscribe(listen)
        sessions.session("chat").append(note("a"))
        sessions.session("other").append(note("a"))
        sessions.scoped("tenant").session("chat").append(note("a"))
        cancel()
        sessions.session("chat").append(note("b"))
    assert told == [("chat", "append")]
