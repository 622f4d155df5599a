"""Generated from tests/behaviour/_async/test_attachments.py by tools/unasync.py: edit that file. Media beside the message: once per scope, byte for byte, as long as somebody uses it and no longer."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait import Session, Sessions, Change, NotFoundError, UsageError
from tests.behaviour._sync.helpers import dicts_of, facts, ids_of, read_back, readable
from tests.behaviour.values import data_url, noise, note, picture
from tests.dose import dose


def count(file: Path, table: str) -> int:
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0])
    finally:
        connection.close()


def payloads(file: Path) -> int:
    return count(file, "attachment")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


OUT_OF_LINE: dict[str, dict[str, Any]] = {
    "data url": {"type": "file", "mediaType": "image/png", "url": data_url(b"payload")},
    "undeclared type": {"type": "file", "url": data_url(b"payload")},
    "parameters in the header": {"type": "file", "url": "data:image/png;charset=x;name=a b;base64," + b64(b"payload")},
    "no type at all": {"type": "file", "url": "data:;base64," + b64(b"payload")},
    "declared and header differ": {"type": "file", "mediaType": "image/jpeg", "url": data_url(b"payload")},
    "data field": {"type": "media", "mediaType": "application/pdf", "data": b64(b"payload")},
    "json as media": {"type": "x", "mediaType": "application/json", "data": b64(b"payload")},
    "keys around": {
        "a": 1,
        "type": "file",
        "url": data_url(b"payload"),
        "mediaType": "image/png",
        "filename": "x.png",
        "z": [1],
    },
    "a name that begins like a data url": {
        "type": "file",
        "filename": "data: plan.png",
        "title": "data:image/png,plan.png",
        "mediaType": "image/png",
        "url": data_url(b"payload"),
    },
    "data beside no url": {"type": "file", "mediaType": "image/png", "url": None, "data": b64(b"payload")},
    "data beside a url that is no text": {"type": "file", "url": 7, "mediaType": "image/png", "data": b64(b"payload")},
    "twice in one object": {
        "type": "tool-x",
        "output": {"before": data_url(b"payload"), "after": data_url(b"payload")},
    },
    "a data url and data": {
        "type": "file",
        "mediaType": "image/png",
        "data": b64(b"payload"),
        "url": data_url(b"payload"),
        "was": data_url(b"payload", "image/gif"),
    },
    "a text with a picture": {"type": "file", "mediaType": "text/html", "url": "x", "poster": data_url(b"payload")},
    "media in media": {
        "type": "file",
        "url": data_url(b"payload"),
        "thumbnail": {"small": [{"mediaType": "image/png", "data": b64(b"payload")}]},
    },
    "empty payload": {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,"},
    "in a tool's output": {
        "type": "tool-shot",
        "output": {"content": [{"type": "media", "mediaType": "image/png", "data": b64(b"payload")}]},
    },
}

INLINE: dict[str, dict[str, Any]] = {
    "text url": {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64," + b64(b"payload")},
    "text by header": {"type": "file", "url": "data:text/html;base64," + b64(b"payload")},
    "text data": {"type": "file", "mediaType": "text/csv", "data": b64(b"payload")},
    "remote url": {"type": "file", "mediaType": "image/png", "url": "https://example.com/a.png"},
    "not base64": {"type": "file", "mediaType": "image/svg+xml", "url": "data:image/svg+xml,<svg/>"},
    "missing padding": {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,cGF5bG9hZA"},
    "line breaks": {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,cGF5\nbG9hZA=="},
    "base64url": {"type": "file", "mediaType": "image/png", "data": "_-_-"},
    "bits that are not zero": {"type": "file", "mediaType": "image/png", "data": "cGF5bG9hZB=="},
    "remote url and data": {
        "type": "file",
        "mediaType": "image/png",
        "url": "https://x.org/a",
        "data": b64(b"payload"),
    },
    "name of text": {"type": "x", "mediaType": "image/png", "filename": "data:text/plain;base64," + b64(b"payload")},
    "undeclared data": {"type": "x", "data": b64(b"payload")},
    "no text of base64": {"type": "file", "mediaType": "image/png", "data": "%%%"},
    "a number": {"type": "file", "mediaType": "image/png", "data": 7},
}


@pytest.mark.parametrize("part", OUT_OF_LINE.values(), ids=OUT_OF_LINE)
def test_media_are_kept_beside_the_row_and_read_back_to_the_letter(
    chat: Session, file: Path, part: dict[str, Any]
) -> None:
    """B-010, B-083: the part's own media type, header, key order and spelling stay."""
    message = {"id": "m", "role": "user", "parts": [copy.deepcopy(part)]}
    result = chat.append(message)
    assert list(map(repr, result.message.parts)) == [repr(part)]
    assert repr(read_back(chat, "m")) == repr({"id": "m", "role": "user", "parts": [part]})
    assert payloads(file) == 1
    payload = b"" if str(part.get("url")).endswith(",") else b"payload"
    assert b"".join([piece for piece in chat.read_attachment("m")]) == payload
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    body = connection.execute("SELECT body FROM message").fetchall()[0][0]
    connection.close()
    assert not payload or b64(payload) not in body


@pytest.mark.parametrize("part", INLINE.values(), ids=INLINE)
def test_what_is_no_media_or_cannot_be_spelled_again_stays_inline(
    chat: Session, file: Path, part: dict[str, Any]
) -> None:
    message = {"id": "m", "role": "user", "parts": [part]}
    chat.append(copy.deepcopy(message))
    assert read_back(chat, "m") == message
    assert payloads(file) == 0


def test_metadata_is_not_searched_for_media(chat: Session, file: Path) -> None:
    message = note("m", metadata={"type": "file", "mediaType": "image/png", "url": data_url(b"payload")})
    chat.append(copy.deepcopy(message))
    assert read_back(chat, "m") == message
    assert payloads(file) == 0


@pytest.mark.parametrize("depth", range(12))
def test_media_at_any_depth_come_back(chat: Session, depth: int) -> None:
    value: Any = {"type": "media", "mediaType": "image/png", "data": b64(b"payload")}
    for _ in range(depth):
        value = {"deeper": value}
    message = {"id": "m", "role": "tool", "parts": [{"type": "tool-x", "output": value}]}
    chat.append(copy.deepcopy(message))
    assert read_back(chat, "m") == message


def test_foreign_messages_keep_their_media_too(chat: Session, file: Path) -> None:
    """B-010"""
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url(noise(50_000))}}]}
    result = chat.append(copy.deepcopy(message))
    assert read_back(chat, result.id) == message
    assert payloads(file) == 1


def test_the_same_bytes_are_stored_once_each_message_with_its_own_type(
    sessions: Sessions, chat: Session, file: Path
) -> None:
    """B-083: the source gives every use the media type of the first writer."""
    chat.append(picture("a", b"same", "image/png"))
    chat.append(picture("b", b"same", "image/jpeg"))
    sessions.session("other").append(picture("c", b"same", "image/webp"))
    assert payloads(file) == 1 and count(file, "attachment_ref") == 3
    assert read_back(chat, "b") == picture("b", b"same", "image/jpeg")
    assert read_back(sessions.session("other"), "c") == picture("c", b"same", "image/webp")


def test_fifty_messages_with_one_image_cost_one_payload(chat: Session, file: Path) -> None:
    """B-083: and neither a listing nor the stats touch it."""
    payload = noise(500_000)
    chat.append_many([picture(f"p{n}", payload) for n in range(50)])
    chat.append_many([picture(f"d{n}", noise(20_000, n)) for n in range(50)])
    assert payloads(file) == 51
    totals = chat.totals()
    assert totals.bytes > 50 * 666_000
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    pages = (
        connection.execute("PRAGMA page_count").fetchall()[0][0]
        * connection.execute("PRAGMA page_size").fetchall()[0][0]
    )
    connection.close()
    assert pages < 500_000 + 50 * 20_000 + 1_000_000


def test_a_payload_goes_with_its_last_use_in_every_order(sessions: Sessions, file: Path) -> None:
    """B-121: two sessions, a fork, an edited message; always readable while used, gone when not."""
    import itertools

    uses = ("one", "two", "fork", "edited")
    for round, order in enumerate(itertools.permutations(uses)):
        names = {use: f"{use}{round}" for use in uses}
        one = sessions.session(names["one"])
        one.append(picture("p", b"shared"))
        sessions.session(names["two"]).append(picture("q", b"shared"))
        one.fork(names["fork"])
        edited = sessions.session(names["edited"])
        edited.append(note("e"))
        edited.update(picture("e", b"shared"))
        for n, use in enumerate(order):
            assert payloads(file) == 1
            if use == "edited":
                edited.update(note("e"))
            elif use == "one":
                one.delete("p")
            elif use == "two":
                sessions.session(names["two"]).clear()
            else:
                sessions.delete(names["fork"])
            for left in order[n + 1 :]:
                (id,) = ids_of(sessions.session(names[left]).history())
                assert (
                    b"".join([piece for piece in sessions.session(names[left]).read_attachment(id)]) == b"shared"
                )
        assert payloads(file) == count(file, "chunk") == count(file, "attachment_ref") == 0


def test_an_update_moves_the_references(chat: Session, file: Path) -> None:
    chat.append(
        {"id": "m", "role": "user", "parts": [picture("x", b"one")["parts"][1], picture("x", b"two")["parts"][1]]}
    )
    assert payloads(file) == 2
    chat.update(
        {"id": "m", "role": "user", "parts": [picture("x", b"two")["parts"][1], picture("x", b"three")["parts"][1]]}
    )
    assert payloads(file) == 2
    assert [b"".join([piece for piece in chat.read_attachment("m", n)]) for n in (0, 1)] == [b"two", b"three"]
    with pytest.raises(NotFoundError):
        [piece for piece in chat.read_attachment("m", 2)]
    with pytest.raises(UsageError):
        [piece for piece in chat.read_attachment("m", -1)]


def test_a_message_read_and_written_back_keeps_its_payload(
    chat: Session, file: Path, changes: list[Change]
) -> None:
    chat.append(picture("p", b"payload"))
    before = facts(chat)
    chat.update(read_back(chat, "p"))
    assert facts(chat) == before
    changed = {**read_back(chat, "p"), "extra": 1}
    chat.update(copy.deepcopy(changed))
    chat.append({**changed, "id": "copy"})
    assert read_back(chat, "p") == changed
    assert (payloads(file), count(file, "attachment_ref")) == (1, 2)
    assert [change.kind for change in changes] == ["append", "update", "append"]


def test_writes_that_do_nothing_store_no_payload(chat: Session, file: Path) -> None:
    """The source keeps an orphan of each."""
    chat.append(note("m"))
    chat.append(picture("m", b"one"))
    chat.import_message(picture("m", b"two"), parent=None)
    assert chat.update(picture("absent", b"three")) is None
    with pytest.raises(NotFoundError):
        chat.append(picture("n", b"four"), parent="absent")
    assert payloads(file) == count(file, "chunk") == 0


SOURCES: dict[str, Any] = {
    "bytes": lambda data: data,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "file": io.BytesIO,
    "one piece": lambda data: [data],
    "tiny pieces": lambda data: (data[n : n + 7] for n in range(0, len(data), 7)),
    "uneven pieces": lambda data: iter([data[:1], b"", data[1:700_000], data[700_000:]]),
    "a pipe that reads short": lambda data: ShortReads(data),
    "a file that reads more than it was asked for": lambda data: LongReads(data),
    "a file of views": lambda data: Views(data),
    "files in a list": lambda data: [io.BytesIO(data[:9]), io.BytesIO(), [data[9:], b""]],
}


class ShortReads(io.RawIOBase):
    """A stream that gives less than was asked for, as pipes and sockets do."""

    def __init__(self, data: bytes) -> None:
        self.rest = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.rest.read(min(size, 100_003))


class LongReads(ShortReads):
    def read(self, size: int = -1) -> bytes:
        return self.rest.read()


class Views(ShortReads):
    def read(self, size: int = -1) -> Any:
        return memoryview(self.rest.read(size))


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1, 2_500_000])
@pytest.mark.parametrize("source", SOURCES)
def test_media_put_ahead_from_any_source_are_used_and_streamed(
    sessions: Sessions, chat: Session, file: Path, source: str, size: int
) -> None:
    data = noise(size if source != "tiny pieces" else min(size, 2000))
    attachment = sessions.put_attachment(SOURCES[source](data), media_type="image/png")
    assert (attachment.size, attachment.media_type, attachment.hash) == (
        len(data),
        "image/png",
        hashlib.sha256(data).hexdigest(),
    )
    result = chat.append(
        {"id": "m", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": attachment}]}
    )
    assert result.message.parts[0]["url"] == data_url(data)
    assert read_back(chat, "m") == {
        "id": "m",
        "role": "user",
        "parts": [{"type": "file", "mediaType": "image/png", "url": data_url(data)}],
    }
    pieces = [piece for piece in chat.read_attachment("m")]
    assert b"".join(pieces) == data
    assert all(len(piece) <= 1 << 20 for piece in pieces)
    chat.delete("m")
    assert payloads(file) == count(file, "chunk") == count(file, "upload") == 0


def test_an_attachment_may_stand_in_url_or_data_and_more_than_once(
    sessions: Sessions, chat: Session
) -> None:
    attachment = sessions.put_attachment(b"payload", media_type="image/png")
    parts = [{"type": "file", "url": attachment}, {"type": "media", "mediaType": "image/png", "data": attachment}]
    chat.append({"id": "m", "role": "user", "parts": parts})
    stored = read_back(chat, "m")
    assert [stored["parts"][0]["url"], stored["parts"][1]["data"]] == [data_url(b"payload"), b64(b"payload")]
    both = {"type": "file", "mediaType": "image/png", "data": attachment, "url": attachment, "in": {"url": attachment}}
    chat.append({"id": "both", "role": "user", "parts": [copy.deepcopy(both)]})
    assert (read_back(chat, "both"))["parts"] == [
        both | {"data": b64(b"payload"), "url": data_url(b"payload"), "in": {"url": data_url(b"payload")}}
    ]
    other = sessions.put_attachment(b"payload", media_type="image/png")
    again = chat.append({"id": "n", "role": "user", "parts": [{"type": "file", "url": other}]})
    assert again.message.parts[0]["url"] == data_url(b"payload")


def test_an_upload_that_fails_in_the_middle_is_no_attachment(
    sessions: Sessions, chat: Session, file: Path
) -> None:
    """B-122: what was put of it goes away with the next sweep, and harms nobody before."""

    def broken() -> Any:
        yield noise(1_500_000)
        raise OSError("the client went away")

    with pytest.raises(OSError, match="went away"):
        sessions.put_attachment(broken(), media_type="image/png")
    chat.append(picture("p", noise(1_500_000)))
    sessions.doctor(fix=True)
    assert read_back(chat, "p") == picture("p", noise(1_500_000))


def test_upkeep_leaves_what_is_about_to_be_used(
    sessions: Sessions, chat: Session, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-122: an upload waits for its message a day; then it goes, and its handle is refused."""
    attachment = sessions.put_attachment(b"fresh", media_type="image/png")
    stale = sessions.put_attachment(b"stale", media_type="image/png")
    sessions.doctor(fix=True)
    sessions.vacuum(purge=True)
    chat.append({"id": "m", "role": "user", "parts": [{"type": "file", "url": attachment}]})
    assert payloads(file) == 2
    day_us = 25 * 3600 * 1_000_000
    clock = sessions.store._clock  # type: ignore[attr-defined]
    monkeypatch.setattr(sessions.store, "_clock", lambda: clock() + day_us)
    assert [finding.kind for finding in sessions.doctor(fix=True)] == ["left over"]
    assert payloads(file) == 1
    assert read_back(chat, "m") == {
        "id": "m",
        "role": "user",
        "parts": [{"type": "file", "url": data_url(b"fresh")}],
    }
    with pytest.raises(NotFoundError, match="put_attachment"):
        chat.append({"id": "n", "role": "user", "parts": [{"type": "file", "url": stale}]})
    assert chat.get("n") is None


def test_an_attachment_of_another_scope_opens_nothing(sessions: Sessions) -> None:
    attachment = sessions.scoped("a").put_attachment(b"secret of a", media_type="image/png")
    sessions.scoped("a").session("s").append({"role": "user", "parts": [{"type": "file", "url": attachment}]})
    with pytest.raises(NotFoundError):
        sessions.scoped("b").session("s").append({"role": "user", "parts": [{"type": "file", "url": attachment}]})
    assert sessions.scoped("b").get("s") is None


@pytest.mark.parametrize("media_type", ["", "png", None, 7])
def test_an_attachment_needs_a_media_type(sessions: Sessions, media_type: Any) -> None:
    with pytest.raises(UsageError, match="media_type"):
        sessions.put_attachment(b"x", media_type=media_type)


def test_reading_an_attachment_of_nothing_is_refused(chat: Session) -> None:
    with pytest.raises(NotFoundError, match="has no attachment"):
        [piece for piece in chat.read_attachment("m")]
    chat.append(note("m"))
    with pytest.raises(NotFoundError, match="has no attachment"):
        [piece for piece in chat.read_attachment("m")]


def test_a_large_payload_is_kept_in_pieces(chat: Session, file: Path) -> None:
    payload = noise(dose(short=3_700_000, soak=100_000_000))
    chat.append(picture("p", payload))
    assert count(file, "chunk") == -(-len(payload) // (1 << 20))
    assert dicts_of(chat.history()) == [picture("p", payload)]
    assert readable(chat.get("p")).bytes == len(readable(chat.get("p")).to_json())


def test_bytes_have_one_layer_of_base64(chat: Session) -> None:
    """B-010: a payload that is itself base64 text comes back as that text's bytes."""
    inner = b64(b"%PDF-1.7").encode()
    chat.append(picture("p", inner, "application/pdf"))
    (piece,) = [piece for piece in chat.read_attachment("p")]
    assert piece == inner
    assert (read_back(chat, "p"))["parts"][1]["url"] == data_url(inner, "application/pdf")
