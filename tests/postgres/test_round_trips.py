"""How often the server is asked: where many things are done together, no more often than for few."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import plait
from plait import Session, Sessions
from plait.store.postgres._sync.connecting import Line


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each round trip."""
    made: list[int] = []
    talk = Line.talk

    def talking(line: Line, items: Any, *rest: Any, **options: Any) -> Any:
        made.append(len(items))
        return talk(line, items, *rest, **options)

    monkeypatch.setattr(Line, "talk", talking)
    return made


OPERATIONS: dict[str, Callable[[Session, int], Any]] = {
    "append many": lambda chat, n: chat.append_many([plait.user("words", id=f"{n}-{i}") for i in range(n)]),
    "append many, ids made": lambda chat, n: chat.append_many([plait.user("words")] * n),
    "append many, as a branch": lambda chat, n: chat.append_many(
        [plait.user("words", id=f"{n}-{i}") for i in range(n)], parent="first"
    ),
    "newest": lambda chat, n: chat.recent(count=n),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_many_messages_take_no_more_round_trips_than_few(sessions: Sessions, trips: list[int], name: str) -> None:
    """The least of three, for a minute that is over in between takes some trips of its own."""

    def taken(n: int, again: int) -> int:
        chat = sessions.session(f"chat {n} {again}")
        chat.append_many([plait.user("words", id=id) for id in ("first", *map(str, range(n)))])
        del trips[:]
        OPERATIONS[name](chat, n)
        return len(trips)

    few, many = (min(taken(n, again) for again in range(3)) for n in (5, 50))
    assert 0 < many <= few + 1, (few, many)


def test_an_id_that_comes_twice_among_many_is_there_once(sessions: Sessions) -> None:
    chat = sessions.session("chat")
    chat.append(plait.user("words", id="there"))
    found = chat.append_many([plait.user("words", id=id) for id in ("a", "b", "a", "there", "c", "b", "c")])
    assert [item.inserted for item in found] == [True, True, False, False, True, False, False]
    assert sorted(row.id for row in chat.everything()) == ["a", "b", "c", "there"]
