"""Generated from tests/behaviour/_async/test_damage.py by tools/unasync.py: edit that file. A damaged row hides nothing else: it is reported where it stands, and named by the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import psycopg
import pytest

import plait
from plait import Session, Sessions, CorruptError, Damaged
from tests.behaviour._sync.helpers import ids_of, readable
from tests.behaviour.values import noise, note, picture
from tests.dose import dose
from tests.postgres_server import database

DAMAGE = {
    "text cut short": "UPDATE message SET body = substr(body, 1, length(body) - 5) WHERE id = :id",
    "text is not JSON": "UPDATE message SET body = replace(body, '{', '[') WHERE id = :id",
    "text is gone": "UPDATE message SET body = '' WHERE id = :id",
    "text is a blob": "UPDATE message SET body = x'00ff00' WHERE id = :id",
    "text is longer": "UPDATE message SET body = body || 'x' WHERE id = :id",
    "a byte that is no text": "UPDATE message SET body = CAST(substr(CAST(body AS BLOB), 1, 100) || x'ff' || substr(CAST(body AS BLOB), 102) AS TEXT) WHERE id = :id",
    "a byte of a slice that is no text": "UPDATE slice SET body = CAST(substr(CAST(body AS BLOB), 1, 100) || x'ff' || substr(CAST(body AS BLOB), 102) AS TEXT) WHERE n = 1",
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

SERVED = {
    "text is not JSON": "UPDATE message SET body = convert_to(replace(convert_from(body, 'UTF8'), '{', '['), 'UTF8') WHERE id = :id",
    "text is a blob": "UPDATE message SET body = '\\x00ff00' WHERE id = :id",
    "a byte that is no text": "UPDATE message SET body = set_byte(body, 100, 255) WHERE id = :id",
    "a byte of a slice that is no text": "UPDATE slice SET body = set_byte(body, 100, 255) WHERE n = 1",
}
"""The same to a server's tables, where it is said in other words."""

HARMLESS = {"unknown format", "pickle as format"}


def harm(place: str | Path, statement: str) -> None:
    """Damage a store that nobody has open, as somebody's SQL may."""
    if isinstance(place, Path):
        connection = apsw.Connection(str(place))
        connection.execute(statement, {"id": "bad"} if ":id" in statement else None)
        connection.close()
    else:
        with psycopg.connect(place, autocommit=True, options="-c search_path=plait") as served:
            assert served.execute(statement.replace(":id", "'bad'").encode()).rowcount > 0


@pytest.fixture
def damaged(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sessions]:
    """A store of five messages, the middle one with slices and media, damaged as the test says."""
    kind, name = request.param
    with ExitStack() as ends:
        place = ends.enter_context(database()) if kind == "postgres" else tmp_path / "store.db"
        with plait.open(place, durability="process") as sessions:
            big = picture("bad", noise(2_500_000), text="é" * 2_500_000)
            sessions.session("chat").append_many([note("a"), note("b"), big, note("c"), note("d")])
            sessions.session("other").append(note("m"))
        harm(place, SERVED.get(name, DAMAGE[name]) if kind == "postgres" else DAMAGE[name])
        with plait.open(place, durability="process") as sessions:
            yield sessions


def by(*names: str) -> pytest.MarkDecorator:
    """A test for each of these ways to damage a store, in a file; in a short run for some of them on a server too."""
    served = names if dose(short=False, soak=True) else names[::5]
    kinds = [*[("sqlite", name) for name in names], *[("postgres", name) for name in served]]
    return pytest.mark.parametrize("damaged", kinds, ids="-".join, indirect=True)


over_all = by(*[name for name in DAMAGE if name not in HARMLESS])


@over_all
def test_the_rest_is_readable_in_every_way(damaged: Sessions, caplog: pytest.LogCaptureFixture) -> None:
    """B-110, B-013: never a silent None, never a blank conversation, never a stop in the middle."""
    chat = damaged.session("chat")
    for messages in (
        [message for message in chat.history()],
        [message for message in chat.history(newest_first=True)][::-1],
        [message for message in chat.everything()],
        [message for batch in chat.batches() for message in batch],
        (chat.recent()).messages,
    ):
        assert [message.id for message in messages] == ["a", "b", "bad", "c", "d"]
        told(messages[2])
        assert [readable(message).text for message in messages if message.id != "bad"] == ["words"] * 4
        assert readable(messages[3]).parent_id == "bad"
    told(chat.get("bad"))
    assert [message.id for message in chat.children("b")] == ["bad"]
    assert readable(damaged.session("other").get("m")).text == "words"


def told(message: object) -> None:
    """Hold that damage is reported: by a `Damaged` entry, or typed when the content is looked at."""
    if isinstance(message, Damaged):
        assert (message.id, message.seq, message.role, message.parent_id) == ("bad", 3, "user", "b")
        assert message.reason
        return
    with pytest.raises(CorruptError):
        readable(message).to_dict()  # type: ignore[arg-type]


@over_all
def test_limits_count_damaged_rows_and_nothing_is_lost_by_them(damaged: Sessions) -> None:
    """B-111: limit 2 gives two, of which one is damaged; the leaf and appending are as ever."""
    chat = damaged.session("chat")
    assert [message.id for message in (chat.recent(count=3)).messages] == ["bad", "c", "d"]
    assert ids_of(chat.transcript(newest_first=True, limit=3)) == ["d", "c", "bad"]
    chat.checkout("bad")
    leaf = chat.leaf()
    assert leaf is not None and leaf.id == "bad"
    assert (chat.append(note("after"))).parent_id == "bad"
    assert ids_of(chat.history()) == ["a", "b", "bad", "after"]
    assert ids_of(chat.everything()) == ["a", "b", "bad", "c", "d", "after"]


@over_all
def test_the_doctor_names_the_message(damaged: Sessions) -> None:
    """B-110"""
    found = damaged.doctor()
    assert any("bad" in finding.detail for finding in found)
    assert not any(f"'{id}'" in finding.detail for finding in found for id in "abcd")
    again = damaged.doctor(fix=True)
    assert any("bad" in finding.detail and not finding.fixed for finding in again)
    assert ids_of(damaged.session("chat").history()) == ["a", "b", "bad", "c", "d"]


@over_all
def test_a_damaged_message_can_be_repaired_or_deleted(damaged: Sessions) -> None:
    chat = damaged.session("chat")
    with pytest.raises(CorruptError, match="update"):
        stored = chat.append(note("bad", "anew"))
        readable(stored.message).to_dict()
        raise AssertionError("the append took a damaged message for a sound one")
    chat.update(note("bad", "anew"))
    assert readable(chat.get("bad")).text == "anew"
    chat.update(picture("bad", b"other"))
    chat.delete("bad")
    assert ids_of(chat.history()) == ["a", "b", "c", "d"]
    assert damaged.doctor(fix=True) == [] or damaged.doctor(fix=True) == []


@by(*sorted(HARMLESS))
def test_an_unknown_format_is_shown_raw_and_runs_nothing(damaged: Sessions) -> None:
    """B-013, B-106: no class is looked up by a stored name."""
    messages = [message for message in damaged.session("chat").history()]
    assert [message.id for message in messages] == ["a", "b", "bad", "c", "d"]
    raw = readable(messages[2])
    assert raw.to_dict()["id"] == "bad"
    assert raw.format in ("of-tomorrow", "pickle")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_corrupt_newest_row_is_the_leaf_and_stays(kind: str, tmp_path: Path) -> None:
    """B-111: it is neither popped as "empty" nor skipped."""
    with ExitStack() as ends:
        place = ends.enter_context(database()) if kind == "postgres" else tmp_path / "store.db"
        newest_row_is_corrupt(place)


def newest_row_is_corrupt(place: str | Path) -> None:
    with plait.open(place) as sessions:
        sessions.session("chat").append_many([note("a"), note("bad")])
    harm(place, "UPDATE message SET body = '{' WHERE id = :id")
    with plait.open(place) as sessions:
        chat: Session = sessions.session("chat")
        for found in (
            chat.leaf(),
            chat.newest(),
            *(chat.recent(count=1)).messages,
            *chat.leaves(),
        ):
            assert isinstance(found, Damaged) and found.id == "bad"
        assert (chat.append(note("c"))).parent_id == "bad"
        assert (chat.totals()).messages == 3


def test_a_file_that_is_no_store_is_refused_and_not_touched(tmp_path: Path) -> None:
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
                with plait.open(path, read_only=read_only) as sessions:
                    sessions.session().append(note("m"))
            assert path.read_bytes() == content
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in files)


@pytest.mark.parametrize("how", ["append", "update", "put"])
@by(*[name for name, statement in DAMAGE.items() if "chunk" in statement])
def test_a_payload_that_lost_bytes_is_mended_by_whoever_brings_them(damaged: Sessions, how: str) -> None:
    """B-110: what is written now is readable, and so is all that uses the payload."""
    chat = damaged.session("chat")
    given = picture("new", noise(2_500_000))
    if how == "append":
        chat.append(given)
    elif how == "update":
        updated = chat.update({**given, "id": "a"})
        assert updated is not None and updated.to_dict() == {**given, "id": "a"}
    else:
        put = damaged.put_attachment(noise(2_500_000), media_type="image/png")
        part = {**given["parts"][-1], "url": put}
        chat.append({**given, "parts": [*given["parts"][:-1], part]})
    assert all(isinstance(message, plait.Message) for message in [message for message in chat.history()])
    stored = chat.get("a" if how == "update" else "new")
    assert isinstance(stored, plait.Message) and stored.parts[-1] == given["parts"][-1]
    assert damaged.doctor() == []


@pytest.mark.parametrize("damaged", [("sqlite", "a piece of the payload is missing")], indirect=True)
def test_a_claim_on_a_payload_that_lost_bytes_is_refused(damaged: Sessions, tmp_path: Path) -> None:
    put = damaged.put_attachment(noise(2_500_000), media_type="image/png")
    harm(tmp_path / "store.db", DAMAGE["a piece of the payload is missing"])
    with pytest.raises(plait.NotFoundError, match="put_attachment"):
        damaged.session("chat").append({"role": "user", "parts": [{"type": "file", "url": put}]})
