"""Every argument of every public method, given what it must not be: an ordinary answer or a plait error, never another."""

from __future__ import annotations

import datetime as dt
import inspect
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest

import plait
from plait import AsyncContext, AsyncSession, AsyncSessions, BlockSpec, Message
from plait.interchange.values import ImportEntry, Report, Transcript

HOSTILE: Mapping[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "zero": lambda: 0,
    "five": lambda: 5,
    "minus one": lambda: -1,
    "2**63": lambda: 2**63,
    "-2**63": lambda: -(2**63),
    "10**30": lambda: 10**30,
    "too long to print": lambda: 10**5000,
    "a fraction": lambda: 1.5,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "empty": lambda: "",
    "blank": lambda: " ",
    "NUL": lambda: "\x00",
    "control characters": lambda: "a\x00\x1b[31m\n",
    "half a character": lambda: "\ud800",
    "long": lambda: "x" * 2000,
    "a word": lambda: "no such thing",
    "bytes": lambda: b"bytes",
    "a list": list,
    "a list of numbers": lambda: [1],
    "a list of halves": lambda: ["\ud800", "a"],
    "an object": dict,
    "an object of NaN": lambda: {"a": float("nan")},
    "an object with a number for a key": lambda: {1: 2},
    "a tuple": lambda: ("a", 5),
    "a set": lambda: {"a"},
    "a naive time": lambda: dt.datetime(2026, 1, 1),
    "no time": lambda: dt.timedelta(0),
    "anything": object,
    "what cannot be shown": lambda: _Rude(),
    "a type": lambda: Message,
    "a function": lambda: lambda *_: None,
    "LEAF": lambda: plait.LEAF,
}

VALID: Mapping[str, Callable[[], Any]] = {
    "id": lambda: "a",
    "ids": lambda: ["b"],
    "message": lambda: plait.user("new"),
    "messages": lambda: [plait.user("new")],
    "message_id": lambda: "a",
    "from_id": lambda: "a",
    "to_id": lambda: "b",
    "text": lambda: "text",
    "parent": lambda: "a",
    "patch": lambda: {"k": 1},
    "query": lambda: "a",
    "name": lambda: "name",
    "path": lambda: "copy.db",
    "data": lambda: b"data",
    "media_type": lambda: "image/png",
    "listener": lambda: lambda _: None,
    "change": lambda: plait.Change("session", "chat"),
    "value": dict,
    "summary": lambda: "summary",
    "what": lambda: "what",
    "transcript": lambda: transcript(),
    "conversation": lambda: "text",
    "previous": lambda: "text",
    "target_tokens": lambda: 100,
    "as_": lambda: "openai",
    "summarize": lambda: lambda _: "summary",
    "store": lambda: plait.open_async(":memory:").store,
    "source": lambda: plait.open_async(":memory:"),
    "label": lambda: "memory",
    "content": lambda: "text",
    "key": lambda: "k",
    "version": lambda: 1,
    "keys": lambda: [b"k"],
}
"""For each argument that some method needs, a value that it takes. A method of a new name needs no line elsewhere."""


MANY = 4
"""How much of an answer is gone through: as much as there is, for `watch` then waits for more."""


class _Rude:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


def transcript(**fields: Any) -> Transcript:
    entries = iter([ImportEntry("t", None, plait.user("imported"), None, None, 1)])
    return Transcript(**{"id": "imported", "format": "plait", "entries": entries, "report": Report(), **fields})


def methods(kind: type[Any]) -> list[Any]:
    """Each argument of each public method: its name and that of the method."""
    return [
        pytest.param(name, argument, id=f"{name}-{argument}")
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
        for argument in list(inspect.signature(method).parameters)[1:]
    ]


def arguments(function: Any, hostile: str, value: Any) -> tuple[list[Any], dict[str, Any]]:
    """What to call a function with: a valid value for all that it needs, except for one."""
    by_place, by_name = [], dict[str, Any]()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if name == hostile:
            given = value
        elif parameter.default is parameter.empty:
            given = VALID[name]()
        else:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty:
            by_name[name] = given
        else:
            by_place.append(given)
    return by_place, by_name


async def outcome(function: Any, argument: str, value: Any) -> Literal["answer", "refusal"]:
    """Call it, and go through what it answers; any error but plait's own is raised."""
    by_place, by_name = arguments(function, argument, value)
    with suppress(plait.PlaitError):
        answer = function(*by_place, **by_name)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, AsyncIterator):
            seen = 0
            async for _ in answer:
                seen += 1
                if seen == MANY:
                    break
        return "answer"
    return "refusal"


async def fill(sessions: AsyncSessions) -> None:
    """Put a little of everything into a store."""
    chat = sessions.session("chat")
    await chat.append_many([plait.user(text, id=text) for text in "abc"])
    await chat.append({"id": "d", "role": "user", "parts": [media()]}, parent="a")
    await chat.update_state({"a": 1})
    await chat.with_context("memory").context.replace("memory", "what is there")
    chat.context.remove("memory")
    await sessions.merge_metadata("chat", {"m": 1})
    await sessions.create("a", name="one to be changed")


def media() -> dict[str, Any]:
    return {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AAAA"}


async def contents(sessions: AsyncSessions) -> list[Any]:
    """All that a write would change."""
    found: list[Any] = []
    async for info in sessions.all():
        session = sessions.session(info.id)
        found += [info, await session.state(), await session.leaf(), [entry async for entry in session.everything()]]
    return found


async def try_all(method: str, argument: str, bound: Callable[[AsyncSessions], Any]) -> None:
    """Give an argument each hostile value; what is refused has changed nothing."""
    left = dict(HOSTILE)
    while left:
        async with plait.open_async(":memory:") as sessions:
            await fill(sessions)
            before = await contents(sessions)
            changed = False
            while left and not changed:
                what, make = left.popitem()
                try:
                    result = await outcome(getattr(bound(sessions), method), argument, make())
                except Exception as error:
                    raise AssertionError(f"{method}({argument}={what}) raised {type(error).__name__}") from error
                changed = await contents(sessions) != before
                assert not (changed and result == "refusal"), f"{method}({argument}={what}) was refused and yet wrote"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is no refusal makes a file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("method", "argument"), methods(AsyncSession))
async def test_no_argument_of_a_session_raises_but_a_plait_error(method: str, argument: str) -> None:
    await try_all(method, argument, lambda sessions: sessions.session("chat"))


@pytest.mark.parametrize(("method", "argument"), methods(AsyncSessions))
async def test_no_argument_of_a_store_raises_but_a_plait_error(method: str, argument: str) -> None:
    await try_all(method, argument, lambda sessions: sessions)


@pytest.mark.parametrize(("method", "argument"), methods(AsyncContext))
async def test_no_argument_of_a_context_raises_but_a_plait_error(method: str, argument: str) -> None:
    kinds = {"put": "documents", "load": "documents", "search": "collection"}
    spec = BlockSpec("memory", kind=kinds.get(method, "text"))  # type: ignore[arg-type]
    await try_all(method, argument, lambda sessions: sessions.session("chat", context=[spec]).context)


@pytest.mark.parametrize("value", HOSTILE)
async def test_no_argument_of_opening_raises_but_a_plait_error(value: str) -> None:
    for function in (plait.open_async, AsyncSessions):
        for argument in inspect.signature(function).parameters:
            await outcome(function, argument, HOSTILE[value]())
    assert os.listdir() == []


BROUGHT = ["entries", "overlays", "values", "records"]
FIELDS = ["id", "name", "owner", "pinned", "metadata", "state", "created_at", "leaf", "count", *BROUGHT]


@pytest.mark.parametrize("field", FIELDS)
async def test_no_field_of_a_transcript_raises_but_a_plait_error(field: str) -> None:
    for what, make in HOSTILE.items():
        async with plait.open_async(":memory:") as sessions:
            await fill(sessions)
            before = await contents(sessions)
            if await outcome(sessions.import_transcript, "transcript", transcript(**{field: make()})) == "refusal":
                assert await contents(sessions) == before, what


@pytest.mark.parametrize("field", BROUGHT)
async def test_nothing_that_a_transcript_brings_raises_but_a_plait_error(field: str) -> None:
    for what, make in HOSTILE.items():
        async with plait.open_async(":memory:") as sessions:
            await fill(sessions)
            before = await contents(sessions)
            given = transcript(**{field: [make()]})
            assert await outcome(sessions.import_transcript, "transcript", given) == "refusal", what
            assert await contents(sessions) == before, what


WRONG: list[tuple[str, Callable[[AsyncSessions], Any]]] = [
    ("patch", lambda sessions: sessions.session("chat").update_state([1])),
    ("ids", lambda sessions: sessions.session("chat").delete(5)),
    ("ids[0]", lambda sessions: sessions.session("chat").delete([5])),
    ("count", lambda sessions: sessions.session("chat").recent(count="5")),
    ("count", lambda sessions: sessions.session("chat").recent(count=True)),
    ("budget_bytes", lambda sessions: sessions.session("chat").recent(budget_bytes="5")),
    ("leaf", lambda sessions: sessions.session("chat").history(leaf=5)),
    ("count", lambda sessions: sessions.session("chat").batches(count=0)),
    ("count", lambda sessions: sessions.session("chat").batches(count=-1)),
    ("bytes", lambda sessions: sessions.session("chat").batches(bytes="x")),
    ("after_seq", lambda sessions: sessions.session("chat").transcript(after_seq="a")),
    ("limit", lambda sessions: sessions.session("chat").transcript(limit=-1)),
    ("newest_first", lambda sessions: sessions.session("chat").history(newest_first="no")),
    ("id", lambda sessions: sessions.session("chat").checkout(5)),
    ("at", lambda sessions: sessions.session("chat").fork(at=5)),
    ("parent", lambda sessions: sessions.session("chat").append(plait.user("x"), parent=5)),
    ("messages", lambda sessions: sessions.session("chat").append_many(5)),
    ("expect_version", lambda sessions: sessions.session("chat").append(plait.user("x"), expect_version="1")),
    ("expect_leaf", lambda sessions: sessions.session("chat").append(plait.user("x"), expect_leaf=5)),
    ("format", lambda sessions: sessions.session("chat").append(plait.user("x"), format=5)),
    (
        "created_at",
        lambda sessions: sessions.session("chat").import_message(plait.user("x"), parent=None, created_at=5),
    ),
    ("n", lambda sessions: sessions.session("chat").read_attachment("d", "0")),
    ("cursor", lambda sessions: sessions.list(cursor=5)),
    ("limit", lambda sessions: sessions.list(limit="5")),
    ("metadata", lambda sessions: sessions.create(metadata=5)),
    ("pinned", lambda sessions: sessions.create(pinned=5)),
    ("name", lambda sessions: sessions.rename("chat", None)),
    ("patch", lambda sessions: sessions.merge_metadata("chat", [1])),
    ("max_age", lambda sessions: sessions.retain(max_age=5)),
    ("max_count", lambda sessions: sessions.retain(max_count="5")),
    ("dry_run", lambda sessions: sessions.retain(max_count=5, dry_run="no")),
    ("media_type", lambda sessions: sessions.put_attachment(b"", media_type=5)),
    ("path", lambda sessions: sessions.backup(5)),
    ("fix", lambda sessions: sessions.doctor(fix="no")),
    ("listener", lambda sessions: sessions.subscribe(5)),
    ("session id", lambda sessions: sessions.session(5)),
    ("session id", lambda sessions: sessions.session("")),
    ("tenant", lambda sessions: sessions.scoped(5)),
]


@pytest.mark.parametrize(("argument", "call"), WRONG)
async def test_a_refusal_names_the_argument(argument: str, call: Callable[[AsyncSessions], Any]) -> None:
    async with plait.open_async(":memory:") as sessions:
        await fill(sessions)
        with pytest.raises(plait.UsageError) as caught:
            answer = call(sessions)
            if inspect.isawaitable(answer):
                answer = await answer
            async for _ in answer:
                pass
        assert str(caught.value).startswith(argument)


async def test_a_number_larger_than_any_is_as_good_as_all() -> None:
    async with plait.open_async(":memory:") as sessions:
        await fill(sessions)
        chat = sessions.session("chat")
        ids = [entry.id async for entry in chat.history()]
        for huge in (2**63, 10**30):
            window = await chat.recent(count=huge, budget_bytes=huge)
            assert [entry.id for entry in window.messages] == ids
            assert [entry.id async for entry in chat.transcript(limit=huge, before_seq=huge)] == ids
            assert [entry.id async for entry in chat.transcript(after_seq=huge)] == []
            assert [entry.id async for entry in chat.everything(after_seq=huge)] == []
            assert [len(batch) async for batch in chat.batches(count=huge, bytes=huge)] == [len(ids)]
            assert (await sessions.retain(max_count=huge)).sessions == []
