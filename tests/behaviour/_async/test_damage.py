"""A damaged row hides nothing else: it is reported where it stands, and named by the doctor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

import plait
from plait import AsyncSession, AsyncSessions, CorruptError, Damaged
from tests.behaviour._async.helpers import ids_of, readable
from tests.behaviour.values import noise, note, picture

DAMAGE = {
    "text cut short": "UPDATE message SET body = substr(body, 1, length(body) - 5) WHERE id = :id",
    "text is not JSON": "UPDATE message SET body = replace(body, '{', '[') WHERE id = :id",
    "text is gone": "UPDATE message SET body = '' WHERE id = :id",
    "text is a blob": "UPDATE message SET body = x'00ff00' WHERE id = :id",
    "text is longer": "UPDATE message SET body = body || 'x' WHERE id = :id",
    "a slice is missing": "DELETE FROM slice WHERE n = 2",
    "the last slice is missing": "DELETE FROM slice WHERE n = (SELECT max(n) FROM slice)",
    "a slice is changed": "UPDATE slice SET body = substr(body, 2) WHERE n = 1",
    "the payload is missing": "DELETE FROM attachment",
    "a piece of the payload is missing": "DELETE FROM chunk WHERE n = 1",
    "a piece of the payload is short": "UPDATE chunk SET data = substr(data, 2) WHERE n = 0",
    "unknown format": "UPDATE message SET format = 'of-tomorrow' WHERE id = :id",
    "pickle as format": "UPDATE message SET format = 'pickle', body = body WHERE id = :id",
}
"""B-106, B-110: rows tampered with or damaged, each in the way it can be."""

HARMLESS = {"unknown format", "pickle as format"}


@pytest.fixture
async def damaged(file: Path, request: pytest.FixtureRequest) -> AsyncIterator[AsyncSessions]:
    """A store of five messages, the middle one with slices and media, damaged as the test says."""
    async with plait.open_async(file, durability="process") as sessions:
        big = picture("bad", noise(2_500_000), text="é" * 2_500_000)
        await sessions.session("chat").append_many([note("a"), note("b"), big, note("c"), note("d")])
        await sessions.session("other").append(note("m"))
    connection = apsw.Connection(str(file))
    connection.execute(request.param, {"id": "bad"} if ":id" in request.param else None)
    connection.close()
    async with plait.open_async(file, durability="process") as sessions:
        yield sessions


over_all = pytest.mark.parametrize(
    "damaged",
    [DAMAGE[name] for name in DAMAGE if name not in HARMLESS],
    ids=[name for name in DAMAGE if name not in HARMLESS],
    indirect=True,
)


@over_all
async def test_the_rest_is_readable_in_every_way(damaged: AsyncSessions, caplog: pytest.LogCaptureFixture) -> None:
    """B-110, B-013: never a silent None, never a blank conversation, never a stop in the middle."""
    chat = damaged.session("chat")
    for messages in (
        [message async for message in chat.history()],
        [message async for message in chat.history(newest_first=True)][::-1],
        [message async for message in chat.everything()],
        [message async for batch in chat.batches() for message in batch],
        (await chat.recent()).messages,
    ):
        assert [message.id for message in messages] == ["a", "b", "bad", "c", "d"]
        told(messages[2])
        assert [readable(message).text for message in messages if message.id != "bad"] == ["words"] * 4
        assert readable(messages[3]).parent_id == "bad"
    told(await chat.get("bad"))
    assert [message.id for message in await chat.children("b")] == ["bad"]
    assert readable(await damaged.session("other").get("m")).text == "words"


def told(message: object) -> None:
    """Hold that damage is reported: by a `Damaged` entry, or typed when the content is looked at."""
    if isinstance(message, Damaged):
        assert (message.id, message.seq, message.role, message.parent_id) == ("bad", 3, "user", "b")
        assert message.reason
        return
    with pytest.raises(CorruptError):
        readable(message).to_dict()  # type: ignore[arg-type]


@over_all
async def test_limits_count_damaged_rows_and_nothing_is_lost_by_them(damaged: AsyncSessions) -> None:
    """B-111: limit 2 gives two, of which one is damaged; the leaf and appending are as ever."""
    chat = damaged.session("chat")
    assert [message.id for message in (await chat.recent(count=3)).messages] == ["bad", "c", "d"]
    assert await ids_of(chat.transcript(newest_first=True, limit=3)) == ["d", "c", "bad"]
    await chat.checkout("bad")
    leaf = await chat.leaf()
    assert leaf is not None and leaf.id == "bad"
    assert (await chat.append(note("after"))).parent_id == "bad"
    assert await ids_of(chat.history()) == ["a", "b", "bad", "after"]
    assert await ids_of(chat.everything()) == ["a", "b", "bad", "c", "d", "after"]


@over_all
async def test_the_doctor_names_the_message(damaged: AsyncSessions) -> None:
    """B-110"""
    found = await damaged.doctor()
    assert any("bad" in finding.detail for finding in found)
    assert not any(f"'{id}'" in finding.detail for finding in found for id in "abcd")
    again = await damaged.doctor(fix=True)
    assert any("bad" in finding.detail and not finding.fixed for finding in again)
    assert await ids_of(damaged.session("chat").history()) == ["a", "b", "bad", "c", "d"]


@over_all
async def test_a_damaged_message_can_be_repaired_or_deleted(damaged: AsyncSessions) -> None:
    chat = damaged.session("chat")
    with pytest.raises(CorruptError, match="update"):
        stored = await chat.append(note("bad", "anew"))
        readable(stored.message).to_dict()
        raise AssertionError("the append took a damaged message for a sound one")
    await chat.update(note("bad", "anew"))
    assert readable(await chat.get("bad")).text == "anew"
    await chat.update(picture("bad", b"other"))
    await chat.delete("bad")
    assert await ids_of(chat.history()) == ["a", "b", "c", "d"]
    assert await damaged.doctor(fix=True) == [] or await damaged.doctor(fix=True) == []


@pytest.mark.parametrize("damaged", [DAMAGE[name] for name in sorted(HARMLESS)], ids=sorted(HARMLESS), indirect=True)
async def test_an_unknown_format_is_shown_raw_and_runs_nothing(damaged: AsyncSessions) -> None:
    """B-013, B-106: no class is looked up by a stored name."""
    messages = [message async for message in damaged.session("chat").history()]
    assert [message.id for message in messages] == ["a", "b", "bad", "c", "d"]
    raw = readable(messages[2])
    assert raw.to_dict()["id"] == "bad"
    assert raw.format in ("of-tomorrow", "pickle")


async def test_a_corrupt_newest_row_is_the_leaf_and_stays(file: Path) -> None:
    """B-111: it is neither popped as "empty" nor skipped."""
    async with plait.open_async(file) as sessions:
        await sessions.session("chat").append_many([note("a"), note("b")])
    connection = apsw.Connection(str(file))
    connection.execute("UPDATE message SET body = '{' WHERE id = 'b'")
    connection.close()
    async with plait.open_async(file) as sessions:
        chat: AsyncSession = sessions.session("chat")
        for found in (
            await chat.leaf(),
            await chat.newest(),
            *(await chat.recent(count=1)).messages,
            *await chat.leaves(),
        ):
            assert isinstance(found, Damaged) and found.id == "b"
        assert (await chat.append(note("c"))).parent_id == "b"
        assert (await chat.totals()).messages == 3


async def test_a_file_that_is_no_store_is_refused_and_not_touched(tmp_path: Path) -> None:
    """B-110: whatever lies there, no byte of it is changed."""
    other = tmp_path / "other.db"
    foreign = apsw.Connection(str(other))
    foreign.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
    foreign.close()
    files = {
        other: other.read_bytes(),
        tmp_path / "text.db": b"hello, this is a text file\n" * 100,
        tmp_path / "short.db": b"SQLite format 3\x00",
        tmp_path / "half.db": other.read_bytes()[:2000],
        tmp_path / "nul.db": bytes(100_000),
    }
    for path, content in files.items():
        path.write_bytes(content)
        for read_only in (True, False):
            with pytest.raises(plait.StoreError, match=path.name):
                async with plait.open_async(path, read_only=read_only) as sessions:
                    await sessions.session().append(note("m"))
            assert path.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files)


@pytest.mark.parametrize("by", ["append", "update", "put"])
@pytest.mark.parametrize("damaged", [sql for sql in DAMAGE.values() if "chunk" in sql], indirect=True)
async def test_a_payload_that_lost_bytes_is_mended_by_whoever_brings_them(damaged: AsyncSessions, by: str) -> None:
    """B-110: what is written now is readable, and so is all that uses the payload."""
    chat = damaged.session("chat")
    given = picture("new", noise(2_500_000))
    if by == "append":
        await chat.append(given)
    elif by == "update":
        updated = await chat.update({**given, "id": "a"})
        assert updated is not None and updated.to_dict() == {**given, "id": "a"}
    else:
        put = await damaged.put_attachment(noise(2_500_000), media_type="image/png")
        part = {**given["parts"][-1], "url": put}
        await chat.append({**given, "parts": [*given["parts"][:-1], part]})
    assert all(isinstance(message, plait.Message) for message in [message async for message in chat.history()])
    stored = await chat.get("a" if by == "update" else "new")
    assert isinstance(stored, plait.Message) and stored.parts[-1] == given["parts"][-1]
    assert await damaged.doctor() == []


@pytest.mark.parametrize("damaged", [DAMAGE["a piece of the payload is missing"]], indirect=True)
async def test_a_claim_on_a_payload_that_lost_bytes_is_refused(damaged: AsyncSessions, file: Path) -> None:
    put = await damaged.put_attachment(noise(2_500_000), media_type="image/png")
    connection = apsw.Connection(str(file))
    connection.execute(DAMAGE["a piece of the payload is missing"])
    connection.close()
    with pytest.raises(plait.NotFoundError, match="put_attachment"):
        await damaged.session("chat").append({"role": "user", "parts": [{"type": "file", "url": put}]})
