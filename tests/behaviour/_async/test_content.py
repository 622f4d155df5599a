"""What was appended is what is read, whatever it is: text, JSON values, unknown keys, other people's envelopes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions, InvalidMessageError
from plait.interchange import import_file, write_jsonl
from tests.behaviour._async.helpers import dicts_of, read_back, readable
from tests.behaviour.values import BAD_IDS, ENVELOPES, LONE, TEXTS, VALUES, everywhere, note
from tests.dose import dose

GIVEN = {**{f"text: {name}": text for name, text in TEXTS.items()}, **VALUES}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the letter: 1, 1.0 and true differ, and so does another order of keys."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
async def test_a_value_in_every_place_comes_back_as_it_was(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions], value: Any
) -> None:
    """B-001, B-003, B-008, B-011: also through another program, and the session can be continued."""
    message = everywhere(value)
    result = await chat.append(copy.deepcopy(message))
    assert same(result.message.to_dict(), message)
    assert same(await read_back(chat, "m"), message)
    await chat.append(note("next"))
    async with reopened() as sessions:
        assert same(await dicts_of(sessions.session("chat").history()), [message, note("next")])


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
async def test_every_way_in_keeps_a_value(sessions: AsyncSessions, chat: AsyncSession, value: Any) -> None:
    """B-001, B-008: append_many, update, upsert, import, fork; and what comes out is UTF-8."""
    ways = {name: everywhere(value, name) for name in ("many", "update", "upsert", "import")}
    await chat.append_many([note("update"), ways["many"]])
    await chat.update(copy.deepcopy(ways["update"]))
    await chat.upsert(copy.deepcopy(ways["upsert"]))
    await chat.import_message(copy.deepcopy(ways["import"]), parent="upsert")
    fork = await chat.fork("fork")
    for session in (chat, fork):
        for name, message in ways.items():
            stored = readable(await session.get(name))
            assert same(stored.to_dict(), message), name
            stored.to_json().encode()


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
async def test_appending_a_value_again_or_updating_to_it_changes_nothing(chat: AsyncSession, value: Any) -> None:
    """B-043: the comparison is exact for every kind of value, so that an echo is known as one."""
    await chat.append(everywhere(value))
    before = await chat.info()
    again = await chat.append(everywhere(value))
    await chat.update(everywhere(value))
    assert (again.inserted, again.differs) == (False, False)
    assert await chat.info() == before


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (["a", "b"], ["b", "a"]), ("\u00e9", "e\u0301")]
)
async def test_values_that_python_or_a_reader_takes_for_equal_are_told_apart(
    chat: AsyncSession, one: Any, other: Any
) -> None:
    """B-011: `1 == 1.0 == True` in Python, but not in JSON text."""
    await chat.append(everywhere(one))
    assert (await chat.append(everywhere(other))).differs
    await chat.update(everywhere(other))
    assert same(await read_back(chat, "m"), everywhere(other))


async def test_another_order_of_keys_is_another_message(chat: AsyncSession) -> None:
    """B-011: the order of keys is kept, so a message with another order differs and can be updated to."""
    await chat.append({"id": "m", "role": "user", "parts": [], "a": 1, "b": 2})
    turned = {"id": "m", "role": "user", "parts": [], "b": 2, "a": 1}
    assert (await chat.append(copy.deepcopy(turned))).differs
    await chat.update(copy.deepcopy(turned))
    assert list(await read_back(chat, "m")) == ["id", "role", "parts", "b", "a"]


async def test_the_size_of_a_message_is_its_utf8_size_whatever_it_holds(chat: AsyncSession) -> None:
    """B-004: a NUL near the beginning does not end the text for counts, budgets and slices."""
    for n, text in enumerate([*TEXTS.values(), "\0" + "z" * 3_000_000, "a\0" + "é" * 1_600_000]):
        stored = (await chat.append(note(f"m{n}", text))).message
        assert stored.bytes == len(stored.to_json().encode())
        assert await read_back(chat, f"m{n}") == note(f"m{n}", text)
    sizes = [stat.bytes async for stat in chat.path_stats()]
    assert sizes == [readable(message).bytes async for message in chat.history()]
    assert sum(sizes) == (await chat.totals()).bytes
    window = await chat.recent(budget_bytes=3_000_100)
    assert [message.id for message in window.messages] == [f"m{len(sizes) - 1}"]
    assert window.total_bytes == sum(sizes)


async def test_unknown_keys_unknown_parts_and_empty_parts_survive_in_order(
    sessions: AsyncSessions, chat: AsyncSession
) -> None:
    """B-015: a signature on a part with empty text is what a provider asks for later."""
    parts = [
        {"type": "text", "text": "", "x_signature": "sig/1=="},
        {
            "type": "tool-call",
            "toolCallId": "c",
            "extra": {"k": [1]},
            "providerMetadata": {"google": {"thoughtSignature": "s"}},
        },
        {"type": "brand-new", "v": 1},
        {"type": "text", "text": "one"},
        {"type": "text", "text": "two", "signature": "only the second has one"},
        {"type": "step-start"},
    ]
    message = {
        "x-before": None,
        "id": "m",
        "role": "assistant",
        "parts": parts,
        "createdAt": "2024-01-01",
        "x-after": [{}],
    }
    await chat.append(copy.deepcopy(message))
    fork = await chat.fork("fork")
    for session in (chat, fork):
        stored = readable(await session.get("m"))
        assert same(stored.to_dict(), message)
        assert same(stored.parts, parts)


@pytest.mark.parametrize("envelope", ENVELOPES.values(), ids=ENVELOPES)
async def test_what_looks_like_machinery_is_plain_data(chat: AsyncSession, envelope: dict[str, Any]) -> None:
    """B-106: nothing stored is imported, called, or resolved as a pointer, our own markers included."""
    message = everywhere(envelope)
    message["parts"].append({"type": "text", "text": json.dumps(envelope)})
    message["parts"].append({**envelope, "type": "file"})
    await chat.append(copy.deepcopy(message))
    assert same(await read_back(chat, "m"), message)
    (stored,) = [message async for message in chat.history()]
    assert same(readable(stored).parts, message["parts"])


async def test_a_pointer_to_somebody_elses_payload_stays_text(sessions: AsyncSessions, chat: AsyncSession) -> None:
    """B-106: the hash of a payload that is in the store opens nothing."""
    attachment = await sessions.put_attachment(b"secret", media_type="image/png")
    await sessions.session("other").append({"role": "user", "parts": [{"type": "file", "url": attachment}]})
    forged = [
        f"attachment:sha256:{attachment.hash}",
        f"plait-media:0:{attachment.hash}",
        repr(attachment),
        attachment.hash,
    ]
    message = {
        "id": "m",
        "role": "user",
        "parts": [{"type": "file", "mediaType": "image/png", "url": url, "data": url} for url in forged],
    }
    await chat.append(copy.deepcopy(message))
    assert same(await read_back(chat, "m"), message)


async def test_a_forged_mark_beside_the_real_payload_is_kept_too(chat: AsyncSession) -> None:
    """B-106: a message that spells the mark plait would use for its own media loses neither."""
    import hashlib

    from tests.behaviour.values import picture

    message = picture("m", b"payload")
    mark = f"plait-media:0:{hashlib.sha256(b'payload').hexdigest()}"
    message["parts"].append({"type": "text", "text": f"{mark} {mark}"})
    await chat.append(copy.deepcopy(message))
    assert same(await read_back(chat, "m"), message)


async def test_a_message_changed_after_the_append_does_not_change_what_is_stored(chat: AsyncSession) -> None:
    message = note("m", "before")
    result = await chat.append(message)
    message["parts"][0]["text"] = "after"
    assert result.message.to_dict() == await read_back(chat, "m") == note("m", "before")
    result.message.to_dict()["parts"].clear()
    assert result.message.to_dict() == note("m", "before")


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "x" * 600, "r\0le", "役", LONE])
async def test_any_role_is_kept_in_the_message(chat: AsyncSession, role: str) -> None:
    """B-003: also one that a column could not hold."""
    await chat.append(note("m", role=role))
    assert (await read_back(chat, "m"))["role"] == role


NOT_JSON: dict[str, tuple[Any, bool]] = {
    "nan": (float("nan"), False),
    "infinity": (float("inf"), False),
    "negative infinity": (float("-inf"), False),
    "bytes": (b"\xff\xfe", True),
    "bytearray": (bytearray(b"x"), True),
    "tuple": ((1, 2), True),
    "set": ({1}, True),
    "object": (object(), True),
    "complex": (1j, True),
    "datetime": (__import__("datetime").datetime(2024, 1, 1), True),
    "date": (__import__("datetime").date(2024, 1, 1), True),
    "decimal": (__import__("decimal").Decimal("1.5"), True),
    "uuid": (__import__("uuid").UUID(int=1), True),
    "integer key": ({1: "a"}, True),
    "none key": ({None: "a"}, True),
    "bool key": ({True: "a"}, True),
    "tuple key": ({(1, 2): "a"}, True),
    "ellipsis": (..., True),
}


@pytest.mark.parametrize("way", ["append", "append_many", "update", "upsert", "import", "state", "metadata"])
@pytest.mark.parametrize(("value", "is_type"), NOT_JSON.values(), ids=NOT_JSON)
async def test_what_json_cannot_say_is_refused_at_its_place_and_nothing_is_written(
    sessions: AsyncSessions, chat: AsyncSession, way: str, value: Any, is_type: bool
) -> None:
    """B-009, B-010: NaN, bytes, datetimes and the like are never converted or guessed at."""
    await chat.append(note("old"))
    await sessions.create("named", metadata={"kept": 1})
    before = [message async for message in chat.history()], await chat.info()
    message = {"id": "old", "role": "tool", "parts": [{"type": "t", "output": {"score": [0, value]}}]}
    with pytest.raises(InvalidMessageError) as caught:
        if way == "append":
            await chat.append(message)
        elif way == "append_many":
            await chat.append_many([note("good"), message])
        elif way == "update":
            await chat.update(message)
        elif way == "upsert":
            await chat.upsert(message)
        elif way == "import":
            await chat.import_message(message, parent=None)
        elif way == "state":
            await chat.update_state({"output": {"score": [0, value]}})
        else:
            await sessions.merge_metadata("named", {"output": {"score": [0, value]}})
    assert "output.score[1]" in caught.value.path
    assert "output.score[1]" in str(caught.value)
    assert isinstance(caught.value, TypeError) == is_type
    assert ([message async for message in chat.history()], await chat.info()) == before
    assert await chat.state() == {}
    named = await sessions.get("named")
    assert named is not None and named.metadata == {"kept": 1}


MALFORMED: dict[str, Any] = {
    "no role": {"id": "m", "parts": []},
    "role is a number": {"id": "m", "role": 7, "parts": []},
    "empty role": {"id": "m", "role": "", "parts": []},
    "parts is a dict": {"id": "m", "role": "user", "parts": {"type": "text"}},
    "parts is null": {"id": "m", "role": "user", "parts": None},
    "a part is text": {"id": "m", "role": "user", "parts": ["hello"]},
    "a part without type": {"id": "m", "role": "user", "parts": [{"text": "hello"}]},
    "a part with a number as type": {"id": "m", "role": "user", "parts": [{"type": 1}]},
    "nothing": {},
    "no message of any format": {"hello": "world"},
    "a list": [],
    "text": "hello",
    "none": None,
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_message_is_refused_before_anything_is_written(chat: AsyncSession, message: Any) -> None:
    with pytest.raises(InvalidMessageError):
        await chat.append(message)
    with pytest.raises(InvalidMessageError, match=r"messages\[1\]"):
        await chat.append_many([note("good"), message])
    assert await chat.info() is None


@pytest.mark.parametrize("depth", [199, 200, 201, 1000, 100_000])
async def test_depth_is_kept_up_to_200_and_refused_beyond(chat: AsyncSession, depth: int) -> None:
    """B-060: no depth overflows the stack; a message is itself one level, `x` the others."""
    value: Any = "bottom"
    for _ in range(depth - 1):
        value = [value]
    message = {"id": "m", "role": "user", "parts": [], "x": value}
    if depth <= 200:
        await chat.append(message)
        assert await read_back(chat, "m") == message
    else:
        with pytest.raises(InvalidMessageError, match="nested more than 200 deep"):
            await chat.append(message)
        assert await chat.info() is None


async def test_a_message_that_holds_itself_is_refused(chat: AsyncSession) -> None:
    message: dict[str, Any] = note("m")
    message["self"] = [message]
    with pytest.raises(InvalidMessageError):
        await chat.append(message)
    assert await chat.info() is None


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
async def test_an_export_and_its_import_keep_every_value(
    store_at: str, sessions: AsyncSessions, chat: AsyncSession, tmp_path: Path, value: Any
) -> None:
    """B-001, B-008, B-015: through plait's own lines, which are UTF-8, by the sync face, which alone can."""
    await chat.append(everywhere(value))
    await sessions.flush()
    file = tmp_path / "chat.jsonl"
    with plait.open(store_at) as twin:
        with file.open("wb") as out:
            write_jsonl(twin.session("chat"), out)
        (report,) = import_file(twin, file, session_id="copy")
    lines = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
    assert any(same(line.get("message"), everywhere(value)) for line in lines)
    assert report.result is not None and report.result.inserted == 1
    (copied,) = [message async for message in sessions.session("copy").history()]
    assert isinstance(copied, plait.Message) and same(copied.to_dict(), everywhere(value))


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
async def test_a_bad_message_id_is_refused_with_nothing_stored(chat: AsyncSession, id: Any) -> None:
    """B-049: in the message or beside it, in every write."""
    with pytest.raises(InvalidMessageError):
        await chat.append({**note("m"), "id": id})
    with pytest.raises(InvalidMessageError):
        await chat.append({"role": "user", "content": "a chat message"}, id=id)
    with pytest.raises(InvalidMessageError):
        await chat.append({"role": "user", "parts": []}, id=id)
    with pytest.raises(InvalidMessageError):
        await chat.import_message({**note("m"), "id": id}, parent=None)
    with pytest.raises(InvalidMessageError):
        await chat.update({**note("m"), "id": id})
    assert await chat.info() is None


async def test_what_is_refused_costs_no_more_than_it_is_and_is_named_shortly(chat: AsyncSession) -> None:
    """A long key with very many items below it: each of their places would be named by it."""
    wide: Any = {"role": "user", "parts": [{"type": "x", "z": float("nan"), "k" * 40_000: [0] * 40_000}]}
    long: Any = {"role": "user", "parts": [{"type": "x", "k" * 40_000: {"a": float("nan")}}]}
    odd: Any = {"role": "user", "parts": [{"type": "x", ("k" * 40_000,): 1}]}
    for message in (wide, long, odd):
        with pytest.raises(InvalidMessageError) as caught:
            await chat.append(message)
        assert len(str(caught.value)) < 2_000 and len(caught.value.path) <= 500
    assert await chat.info() is None


async def test_any_number_of_attachments_in_a_message_come_back(chat: AsyncSession) -> None:
    count = dose(short=5_000, soak=50_000)
    parts = [{"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{n:08d}"} for n in range(count)]
    stored = (await chat.append({"role": "user", "parts": parts})).message
    read = await chat.get(stored.id)
    assert isinstance(read, plait.Message) and read.content["parts"] == parts
