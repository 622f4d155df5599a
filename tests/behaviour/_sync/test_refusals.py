"""Generated from tests/behaviour/_async/test_refusals.py by tools/unasync.py: edit that file. What callers get wrong is refused by a plait error before anything is written, and opens nothing."""

from __future__ import annotations

import datetime as dt
import enum
import io
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import plait
from plait._sync.sessions import Sessions
from tests.behaviour.values import data_url, later


@pytest.mark.parametrize("after", [-1, -5, -(1 << 33)])
def test_a_seq_below_zero_does_not_reach_another_scopes_strands(sessions: Sessions, after: int) -> None:
    sessions.scoped("victim").session("v").append(plait.user("SECRET"))
    mine = sessions.scoped("me").session("c")
    mine.append(plait.user("mine"))
    for read in (mine.everything, mine.transcript):
        with pytest.raises(plait.UsageError, match="after_seq"):
            [message for message in read(after_seq=after)]
    found = sessions.store.everything(mine._ref, after_seq=after, limit=10)
    assert [message.text for message in found if isinstance(message, plait.Message)] == ["mine"]


def test_another_current_folder_does_not_change_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with plait.open("x.db") as here, plait.open("../two/x.db") as there:
        there.session("c").append(plait.user("theirs"))
        here.session("c").append(plait.user("mine"))
        os.chdir(tmp_path / "two")
        texts = [message.text for message in here.session("c").history() if isinstance(message, plait.Message)]
        assert texts == ["mine"]
        assert [message.text for message in there.session("c").history()] == ["theirs"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "message",
    [
        plait.user("\ud83d\ude00"),
        {"role": "\ud83d\ude00", "parts": [{"type": "text", "text": "x"}]},
        {"role": "user", "parts": [{"type": "data", "data": {"\ud83d\ude00": 1}}]},
        {"role": "user", "parts": [{"type": "data", "data": ["a\ud83d\ude00b"]}]},
    ],
)
def test_two_surrogate_halves_side_by_side_are_refused(sessions: Sessions, message: Any) -> None:
    """JSON reads them back as the character they make, so they cannot be kept as they are."""
    with pytest.raises(plait.InvalidMessageError, match="surrogate"):
        sessions.session("c").append(message)
    assert sessions.get("c") is None


@pytest.mark.parametrize(
    "created_at",
    [
        dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=14))),
        dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))),
        dt.datetime(2026, 1, 1),
        dt.date(2026, 1, 1),
        5,
    ],
)
def test_a_time_that_could_not_be_read_is_refused(sessions: Sessions, created_at: Any) -> None:
    with pytest.raises(plait.UsageError):
        sessions.session("c").import_message(plait.user("x"), parent=None, created_at=created_at)
    assert sessions.get("c") is None


def test_an_attachment_that_is_not_what_was_put_is_refused(sessions: Sessions) -> None:
    put = sessions.put_attachment(b"abcdef", media_type="a/b")
    other = sessions.put_attachment(b"other payload", media_type="a/b")
    chat = sessions.session("c")
    for forged in (
        plait.Attachment(put.hash, "a/b", 99, put.upload),
        plait.Attachment(other.hash, "a/b", put.size, put.upload),
    ):
        with pytest.raises(plait.NotFoundError, match="put_attachment"):
            chat.append({"role": "user", "parts": [{"type": "f", "mediaType": "a/b", "data": forged}]})
    assert sessions.get("c") is None
    with pytest.raises(plait.UsageError, match="hash"):
        plait.Attachment("zz", "a/b", 1, put.upload)


class Gives:
    """A file whose `read` answers one thing after another."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def read(self, size: int) -> object:
        return self.answers.pop(0)


NO_MEDIA: dict[str, Callable[[], Any]] = {
    "text": lambda: "text",
    "nothing": lambda: None,
    "a number": lambda: 5,
    "a list of text": lambda: ["text"],
    "a list of numbers": lambda: [1, 2],
    "text among bytes": lambda: [b"bytes", b"", "text"],
    "nothing among bytes": lambda: [b"bytes", None],
    "a text file": lambda: io.StringIO("text"),
    "an empty text file": lambda: io.StringIO(""),
    "text files in a list": lambda: [b"bytes", io.StringIO("text")],
    "a file that has nothing yet": lambda: Gives(None),
    "a file that has nothing more yet": lambda: Gives(b"bytes", None),
    "a file that gives numbers": lambda: Gives(0),
    "a file that is to be awaited": lambda: Gives(later()),
}


@pytest.mark.parametrize("name", NO_MEDIA)
def test_media_that_is_not_bytes_is_refused_and_nothing_is_written(
    sessions: Sessions, file: Path, name: str
) -> None:
    with pytest.raises(plait.UsageError, match="bytes"):
        sessions.put_attachment(NO_MEDIA[name](), media_type="a/b")
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("SELECT (SELECT count(*) FROM upload) + (SELECT count(*) FROM attachment)").get == 0
    connection.close()


def test_a_fork_with_a_name_that_cannot_be_is_no_fork(sessions: Sessions) -> None:
    chat = sessions.session("c")
    chat.append(plait.user("x"))
    name: Any = 5
    with pytest.raises(plait.UsageError):
        chat.fork("f", name=name)
    assert sessions.get("f") is None
    chat.fork("f", name="The other one")
    info = sessions.get("f")
    assert info is not None and info.name == "The other one"


@pytest.mark.parametrize("option", [{"on_moved": "bogus"}, {"on_conflict": "bogus"}, {"source": "Client"}])
def test_a_word_that_is_no_option_is_refused(sessions: Sessions, option: dict[str, Any]) -> None:
    with pytest.raises(plait.UsageError, match=next(iter(option))):
        sessions.session("c").append(plait.user("x"), **option)
    with pytest.raises(plait.UsageError, match=next(iter(option))):
        sessions.session("c").append_many([plait.user("x")], **option)
    assert sessions.get("c") is None


def test_an_item_of_a_list_is_named_by_its_place(sessions: Sessions) -> None:
    roles: Any = ["user", 5]
    with pytest.raises(plait.UsageError, match=r"role\[1\] must be a string, not 5"):
        sessions.search("x", role=roles)


def test_a_counter_that_cannot_be_called_is_refused(sessions: Sessions) -> None:
    chat, counter = sessions.session("c"), 5
    with pytest.raises(plait.UsageError, match="counter must be a function, not 5"):
        chat.compact_after(100, counter=counter)  # type: ignore[arg-type]
    assert (chat.append(plait.user("words"))).inserted


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_a_wait_limit_may_be_as_long_as_one_likes(tmp_path: Path, seconds: float) -> None:
    with plait.open(tmp_path / "a.db", busy_timeout_s=seconds) as sessions:
        sessions.session("c").append(plait.user("x"))


class Count(int):
    """A number of somebody's own kind."""


class Name(str):
    """A word of somebody's own kind."""


class Word(enum.StrEnum):
    """Words that are found in dicts under their plain spelling: an Enum hashes the name of its member."""

    text = "text"
    role = "role"
    OTHER = "other"
    PICTURE = data_url(b"x")


Level = enum.IntEnum("Level", ["ONE"])
Flag = enum.IntFlag("Flag", ["ONE"])
Plain = enum.Enum("Plain", ["ONE"])


class Half(float, enum.Enum):
    ONE = 0.5


@pytest.mark.parametrize(
    ("value", "remedy"),
    [(Count(1), "plain int"), (Name("x"), "plain str"), ({1}, "list"), (b"x", "base64"), (float("nan"), "null")],
)
def test_every_refusal_names_the_place_the_rule_and_the_remedy(
    sessions: Sessions, value: Any, remedy: str
) -> None:
    chat, odd = sessions.session("c"), {"output": [0, {"score": value}]}
    calls: list[tuple[str, Any]] = [
        ("parts[1].output[1].score", lambda: chat.append({"role": "tool", "parts": [{"type": "t"}, {"type": "u"} | odd]})),
        ("messages[1].metadata.output[1].score", lambda: chat.append_many([plait.user("x"), {**plait.user("y"), "metadata": odd}])),
        ("content[0].output[1].score", lambda: chat.append({"role": "user", "content": [{"type": "text", "text": ""} | odd]})),
        ("patch.output[1].score", lambda: chat.update_state(odd)),
        ("patch.output[1].score", lambda: sessions.merge_metadata("c", odd)),
        ("metadata.output[1].score", lambda: sessions.create("c", metadata=odd)),
    ]  # fmt: skip
    for path, call in calls:
        with pytest.raises(plait.InvalidMessageError) as refused:
            call()
        assert refused.value.path == path
        assert path.removeprefix("messages[1].") in str(refused.value) and remedy in str(refused.value)
    assert sessions.get("c") is None


@pytest.mark.parametrize("value", [Level.ONE, Word.text, Plain.ONE, Flag.ONE, Half.ONE])
def test_a_member_of_an_enum_is_refused_and_not_converted(sessions: Sessions, value: Any) -> None:
    """It equals what is read back in its place, and would be that from then on."""
    chat, odd = sessions.session("c"), {"output": [0, {"score": value}]}
    text: dict[str, Any] = {"type": "text", "text": "x"}
    calls: list[tuple[str, Any]] = [
        ("parts[0].output[1].score", lambda: chat.append({"role": "tool", "parts": [{"type": "t"} | odd]})),
        ("content[0].output[1].score", lambda: chat.append({"role": "user", "content": [text | odd]})),
        ("patch.output[1].score", lambda: chat.update_state(odd)),
        ("metadata.output[1].score", lambda: sessions.create("c", metadata=odd)),
    ]
    if isinstance(value, Word):
        calls += [
            ("role", lambda: chat.append({"role": value, "parts": [text]})),
            ("id", lambda: chat.append({"id": value, "role": "user", "parts": [text]})),
            ("parts[0].type", lambda: chat.append({"role": "user", "parts": [text | {"type": value}]})),
            ("parts[0].text", lambda: chat.append({"role": "user", "parts": [text | {"text": value}]})),
            ("parts[0].url", lambda: chat.append({"role": "user", "parts": [{"type": "file", "url": Word.PICTURE}]})),
            ("content", lambda: chat.append({"role": "user", "content": value})),
        ]
    for path, call in calls:
        with pytest.raises(plait.InvalidMessageError, match="Enum; use its value") as refused:
            call()
        assert refused.value.path == path and isinstance(refused.value, TypeError)
    assert sessions.get("c") is None


@pytest.mark.parametrize("key", [Word.text, Word.OTHER, Name("text")])
def test_a_key_that_is_no_plain_string_is_refused_and_not_converted(sessions: Sessions, key: Any) -> None:
    chat = sessions.session("c")
    part: dict[Any, Any] = {"type": "text", "text": "x"}
    parts: list[dict[Any, Any]] = [
        {k: v for k, v in part.items() if k != key} | {key: "x"},
        {"type": "t", "v": {key: 1}},
    ]
    for item in parts:
        with pytest.raises(plait.InvalidMessageError, match="JSON keys are strings") as refused:
            chat.append({"role": "user", "parts": [item]})
        assert repr(str.__str__(key)) in str(refused.value)
    with pytest.raises(plait.InvalidMessageError, match="JSON keys are strings"):
        chat.append({Word.role: "user", "parts": [part]})
    assert sessions.get("c") is None


def test_dicts_and_lists_of_other_classes_are_what_they_hold(sessions: Sessions) -> None:
    held = OrderedDict({"b": [1, 2.5, None], "a": OrderedDict({"c": True})})
    stored = sessions.session("c").append(OrderedDict({"role": "user", "parts": [{"type": "t", "v": held}]}))
    assert stored.message.parts == [{"type": "t", "v": {"b": [1, 2.5, None], "a": {"c": True}}}]


@pytest.mark.parametrize("id", ["", " \n", "\x00", "x" * 600, "\ud800", 5])
def test_an_id_that_cannot_be_is_named_as_the_place(sessions: Sessions, id: Any) -> None:
    with pytest.raises(plait.InvalidMessageError) as refused:
        sessions.session("c").append_many([plait.user("x"), {**plait.user("y"), "id": id}])
    assert refused.value.path == "messages[1].id"
    assert sessions.get("c") is None


@pytest.mark.parametrize("content", [5, {"text": "x"}, True, float("nan")])
def test_content_that_is_no_text_is_named_as_the_place(sessions: Sessions, content: Any) -> None:
    with pytest.raises(plait.InvalidMessageError, match="content") as refused:
        sessions.session("c").append({"role": "user", "content": content})
    assert refused.value.path == "content"


def test_an_attachment_where_none_is_looked_for_is_named(sessions: Sessions) -> None:
    put = sessions.put_attachment(b"abcdef", media_type="a/b")
    deep: dict[str, Any] = {"url": put}
    for _ in range(8):
        deep = {"o": deep}
    good = {"type": "file", "url": put}
    messages: dict[str, dict[str, Any]] = {
        "parts[0].o[0]": {"parts": [{"type": "x", "o": [put]}]},
        "parts[1]" + ".o" * 8 + ".url": {"parts": [good, {"type": "x", **deep}]},
        "metadata.cover": {"parts": [good], "metadata": {"cover": put}},
        "cover": {"parts": [], "cover": put},
    }
    for path, message in messages.items():
        with pytest.raises(plait.InvalidMessageError, match="8 deep") as refused:
            sessions.session("c").append({"role": "user", **message})
        assert refused.value.path == path and isinstance(refused.value, TypeError)
    with pytest.raises(plait.InvalidMessageError, match=r"patch\.cover is an attachment"):
        sessions.session("c").update_state({"cover": put})
    assert sessions.get("c") is None


@pytest.mark.parametrize("media_type", ["", "png", "a/b,c", "a/b\r\nc: d", "a/\x00", "a/\ud800", 5])
def test_a_media_type_that_no_header_can_hold_is_refused(sessions: Sessions, media_type: Any) -> None:
    with pytest.raises(plait.UsageError, match="media_type"):
        sessions.put_attachment(b"x", media_type=media_type)


ABSENT: dict[str, tuple[Callable[[plait.Sessions], Any], str]] = {
    "rename": (lambda sessions: sessions.rename("absent", "x"), r"sessions\.list\(\)"),
    "add_usage": (lambda sessions: sessions.add_usage("absent", input_tokens=1), r"sessions\.list\(\)"),
    "compact_and_split": (lambda sessions: sessions.compact_and_split("absent", "x"), r"sessions\.list\(\)"),
    "copy_from": (lambda sessions: sessions.copy_from(sessions.scoped("a"), "absent"), r"sessions\.list\(\)"),
    "add_overlay": (lambda sessions: sessions.session("absent").add_overlay("a", "b"), r"sessions\.list\(\)"),
    "overlay on nothing": (lambda sessions: sessions.session("chat").add_overlay("a", "b"), r"history\(\)"),
    "append": (lambda sessions: sessions.session("chat").append(plait.user("x"), parent="a"), "parent=None"),
    "checkout": (lambda sessions: sessions.session("chat").checkout("absent"), r"leaves\(\)"),
    "fork": (lambda sessions: sessions.session("chat").fork(at="absent"), r"leaves\(\)"),
    "restore": (
        lambda sessions: sessions.session("chat").with_context("memory").context.restore("memory", 7),
        r"context\.history",
    ),
}


@pytest.mark.parametrize("call", ABSENT)
def test_who_names_what_is_not_there_is_told_where_to_look(tmp_path: Path, call: str) -> None:
    work, remedy = ABSENT[call]
    with plait.open(tmp_path / "a.db") as sessions:
        sessions.session("chat").append(plait.user("x", id="m"))
        with pytest.raises(plait.NotFoundError, match=f"there is no .*; .*{remedy}"):
            work(sessions)
