"""Messages larger than a row: cut into slices and joined again, byte for byte."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait import AsyncSession, Change, Message
from tests.behaviour._async.helpers import dicts_of, facts, read_back, readable
from tests.behaviour.values import ROW_BUDGET_BYTES, noise, note, picture
from tests.dose import dose


def rows(file: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def slices(file: Path) -> list[int]:
    """The numbers of the slices beside the first, in order."""
    return [n for (n,) in rows(file, "SELECT n FROM slice ORDER BY key, n")]


OVERHEAD = len('{"id":"m","role":"user","parts":[{"type":"text","text":""}]}')


@pytest.mark.parametrize(("size", "more"), [(-1, 0), (0, 0), (1, 1), (ROW_BUDGET_BYTES, 1), (ROW_BUDGET_BYTES + 1, 2)])
async def test_a_row_holds_its_budget_exactly(chat: AsyncSession, file: Path, size: int, more: int) -> None:
    text = "x" * (ROW_BUDGET_BYTES - OVERHEAD + size)
    await chat.append(note("m", text))
    assert slices(file) == list(range(1, more + 1))
    assert await read_back(chat, "m") == note("m", text)


@pytest.mark.parametrize("filling", ["x", "é", "重", "🧵", "x🧵", "é重"], ids=ascii)
@pytest.mark.parametrize("shift", range(4))
async def test_no_character_is_ever_split(chat: AsyncSession, file: Path, filling: str, shift: int) -> None:
    text = "z" * shift + filling * (2 * ROW_BUDGET_BYTES // len(filling.encode()) + 1)
    message = note("m", text)
    await chat.append(message)
    pieces = [body for (body,) in rows(file, "SELECT body FROM message UNION ALL SELECT body FROM slice")]
    assert len(pieces) == 3
    assert all(len(piece.encode()) <= ROW_BUDGET_BYTES for piece in pieces)
    assert "".join(pieces) == readable(await chat.get("m")).to_json()
    assert await read_back(chat, "m") == message


PLACES = {
    "text": lambda big: note("m", big),
    "tool output": lambda big: {
        "id": "m",
        "role": "assistant",
        "parts": [{"type": "tool-x", "toolCallId": "c", "output": {"log": big}}],
    },
    "metadata": lambda big: note("m", metadata={"big": big}),
    "key": lambda big: note("m", **{big: 1}),
    "many parts": lambda big: {
        "id": "m",
        "role": "user",
        "parts": [{"type": "text", "text": big[:1000]} for _ in range(len(big) // 1000)],
    },
    "role": lambda big: note("m", role=big),
    "foreign": lambda big: {"role": "user", "content": big},
    "text base64": lambda big: {
        "id": "m",
        "role": "user",
        "parts": [{"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64," + big}],
    },
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_value_of_any_size_in_any_place_comes_back(chat: AsyncSession, place: str) -> None:
    """B-082: not only text, and not only images."""
    for size in dose(short=(1_000_000, 5_000_000), soak=(1_000_000, 20_000_000, 200_000_000)):
        big = "0123456789abcdef重"[:16] * (size // 16) + "重"
        message = PLACES[place](big)
        result = await chat.append(copy.deepcopy(message))
        assert await read_back(chat, result.id) == message
        await chat.delete(result.id)


async def test_a_five_megabyte_text_is_a_row_and_three_slices(chat: AsyncSession, file: Path) -> None:
    await chat.append(note("m", "x" * 5_000_000))
    assert slices(file) == [1, 2, 3]


async def test_surplus_slices_go_when_a_message_shrinks(chat: AsyncSession, file: Path) -> None:
    for size, count in ((5_000_000, 3), (2_000_000, 1), (100, 0), (3_500_000, 2)):
        await chat.upsert(note("m", "x" * size))
        assert slices(file) == list(range(1, count + 1))
        assert readable(await chat.get("m")).text == "x" * size


async def test_a_change_at_the_very_end_of_a_large_message_is_a_change(
    chat: AsyncSession, changes: list[Change]
) -> None:
    """Unchanged is decided on the whole content, never on the first slice."""
    text = "x" * 5_000_000
    await chat.append(note("m", text + "a"))
    before = await facts(chat)
    await chat.update(note("m", text + "a"))
    assert await facts(chat) == before
    await chat.update(note("m", text + "b"))
    assert readable(await chat.get("m")).text == text + "b"
    assert [change.kind for change in changes] == ["append", "update"]


async def test_slices_go_with_their_message(chat: AsyncSession, file: Path) -> None:
    await chat.append_many([note("a", "x" * 4_000_000), note("b", "y" * 4_000_000)])
    await chat.delete("a")
    assert slices(file) == [1, 2]
    await chat.clear()
    assert slices(file) == []


async def test_an_import_and_a_fork_of_a_large_message_are_verbatim(chat: AsyncSession) -> None:
    message = note("m", "é" * 3_000_000)
    await chat.import_message(message, parent=None)
    fork = await chat.fork("fork")
    await chat.delete("m")
    assert await dicts_of(fork.history()) == [message]


async def test_an_image_goes_beside_the_row_and_text_into_slices(chat: AsyncSession, file: Path) -> None:
    await chat.append(picture("p", noise(2_000_000)))
    assert slices(file) == []
    assert rows(file, "SELECT count(*), max(bytes) FROM attachment") == [(1, 2_000_000)]
    assert rows(file, "SELECT length(body) FROM message")[0][0] < 1000


async def test_a_large_message_among_small_ones_is_read_in_both_directions(chat: AsyncSession) -> None:
    messages = [note(f"m{n}", "x" * (3_000_000 if n % 40 == 7 else 10)) for n in range(100)]
    await chat.append_many(messages)
    assert await dicts_of(chat.history()) == messages
    assert await dicts_of(chat.history(newest_first=True)) == messages[::-1]
    newest = await chat.newest()
    assert isinstance(newest, Message) and newest.to_dict() == messages[-1]
