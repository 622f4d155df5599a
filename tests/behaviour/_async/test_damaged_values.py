"""A value of which a piece is gone says so wherever it is met, and nothing is built on what is left of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import apsw
import pytest

import plait
from plait import AsyncSession, CorruptError
from plait.logic import slices

SLICE_BYTES = 1000
LONG, ODD = "é" * SLICE_BYTES, "\ud83d\x00" * 150
"""Each of two slices; the second one as it is escaped."""
DAMAGE = {
    "a slice is missing": "DELETE FROM value_slice WHERE n = 1",
    "all slices are missing": "DELETE FROM value_slice",
    "a slice is changed": "UPDATE value_slice SET body = substr(body, 9) WHERE n = 1",
    "the first piece is cut": "UPDATE value_text SET body = substr(body, 1, 100) WHERE version = 2",
    "the first piece is gone": "UPDATE value_text SET body = '' WHERE version = 2",
}


@pytest.fixture(params=[LONG, ODD], ids=["plain", "escaped"])
async def chat(
    file: Path, request: pytest.FixtureRequest, damage: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AsyncSession]:
    """A session whose block was short at first, then long, and then damaged as the test says."""
    monkeypatch.setattr(slices, "cut", partial(slices.cut, budget_bytes=SLICE_BYTES))
    async with plait.open_async(file, durability="process") as sessions:
        context = sessions.session("chat").context
        await context.add("memory")
        for content in "short", request.param:
            await context.replace("memory", content)
    connection = apsw.Connection(str(file))
    connection.execute(damage)
    connection.close()
    async with plait.open_async(file, durability="process") as sessions:
        chat = sessions.session("chat")
        await chat.context.add("memory")
        yield chat


over_all = pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)


@over_all
async def test_it_says_so_and_is_logged(chat: AsyncSession, caplog: pytest.LogCaptureFixture) -> None:
    newest, first = await chat.context.history("memory")
    assert (newest.damaged, first.damaged, first.content) == (True, False, "short")
    assert "'memory'" in caplog.text and "damaged" in caplog.text


@over_all
async def test_nothing_is_added_to_it_and_it_is_not_restored(chat: AsyncSession) -> None:
    with pytest.raises(CorruptError, match="version 2 of block 'memory' is damaged"):
        await chat.context.append("memory", "more")
    with pytest.raises(CorruptError, match="restore an earlier version"):
        await chat.context.restore("memory", 2)
    [tool] = [tool for tool in await chat.tools() if tool.name == "set_context"]
    told = await tool(label="memory", content="more", action="append")
    assert "damaged" in told and [value.version for value in await chat.context.history("memory")] == [2, 1]


@over_all
async def test_an_earlier_version_or_a_new_text_takes_its_place(chat: AsyncSession) -> None:
    assert (await chat.context.restore("memory", 1)).content == "short"
    damaged = (await chat.context.history("memory", before=3, limit=1))[0]
    assert (await chat.context.replace("memory", damaged.content or "anew")).version == 4
    (value,) = await chat.context.history("memory", limit=1)
    assert not value.damaged


@over_all
async def test_what_is_left_of_it_can_take_its_place(chat: AsyncSession) -> None:
    left = await chat.context.block("memory")
    assert left is not None
    assert (await chat.context.replace("memory", left.content)).version == 3
    (value,) = await chat.context.history("memory", limit=1)
    assert (value.content, value.damaged) == (left.content, False)


@over_all
async def test_a_copy_names_it(chat: AsyncSession, tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "copy.db") as target:
        copied = await target.copy_from(chat.sessions, "chat")
        assert [lost for lost in copied.lost if "version 2: it is damaged" in lost]
        assert [value.version async for value in target.session("chat").value_versions()] == [1, 2]


@pytest.mark.parametrize("damage", [DAMAGE["a slice is missing"], DAMAGE["all slices are missing"]])
async def test_the_doctor_names_it(chat: AsyncSession) -> None:
    for fix in False, True:
        found = await chat.sessions.doctor(fix=fix)
        assert [(f.kind, f.detail, f.fixed) for f in found if "cut short" in f.kind] == [
            ("values cut short", "memory, , 2", False)
        ]
