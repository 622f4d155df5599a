"""Generated from tests/behaviour/_async/test_content.py by tools/unasync.py: edit that file. What was appended is what is read, whatever it is: text, JSON values, unknown keys, other people's envelopes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import Session, Sessions, InvalidMessageError
from plait.interchange import import_file, write_jsonl
from tests.behaviour._sync.helpers import dicts_of, read_back, readable
from tests.behaviour.values import BAD_IDS, ENVELOPES, LONE, TEXTS, VALUES, everywhere, note
from tests.dose import dose

GIVEN = {**{f"text: {name}": text for name, text in TEXTS.items()}, **VALUES}


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the letter: 1, 1.0 and true differ, and so does another order of keys."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
def test_a_value_in_every_place_comes_back_as_it_was(
    chat: Session, reopened: Callable[[], Sessions], value: Any
) -> None:
    """B-001, B-003, B-008, B-011: also through another program, and the session can be continued."""
    message = everywhere(value)
    result = chat.append(copy.deepcopy(message))
    assert same(result.message.to_dict(), message)
    assert same(read_back(chat, "m"), message)
    chat.append(note("next"))
    with reopened() as sessions:
        assert same(dicts_of(sessions.session("chat").history()), [message, note("next")])


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
def test_every_way_in_keeps_a_value(sessions: Sessions, chat: Session, value: Any) -> None:
    """B-001, B-008: append_many, update, upsert, import, fork; and what comes out is UTF-8."""
    ways = {name: everywhere(value, name) for name in ("many", "update", "upsert", "import")}
    chat.append_many([note("update"), ways["many"]])
    chat.update(copy.deepcopy(ways["update"]))
    chat.upsert(copy.deepcopy(ways["upsert"]))
    chat.import_message(copy.deepcopy(ways["import"]), parent="upsert")
    fork = chat.fork("fork")
    for session in (chat, fork):
        for name, message in ways.items():
            stored = readable(session.get(name))
            assert same(stored.to_dict(), message), name
            stored.to_json().encode()


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
def test_appending_a_value_again_or_updating_to_it_changes_nothing(chat: Session, value: Any) -> None:
    """B-043: the comparison is exact for every kind of value, so that an echo is known as one."""
    chat.append(everywhere(value))
    before = chat.info()
    again = chat.append(everywhere(value))
    chat.update(everywhere(value))
    assert (again.inserted, again.differs) == (False, False)
    assert chat.info() == before


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), (0.0, -0.0), (["a", "b"], ["b", "a"]), ("\u00e9", "e\u0301")]
)
def test_values_that_python_or_a_reader_takes_for_equal_are_told_apart(
    chat: Session, one: Any, other: Any
) -> None:
    """B-011: `1 == 1.0 == True` in Python, but not in JSON text."""
    chat.append(everywhere(one))
    assert (chat.append(everywhere(other))).differs
    chat.update(everywhere(other))
    assert same(read_back(chat, "m"), everywhere(other))


def test_another_order_of_keys_is_another_message(chat: Session) -> None:
    """B-011: the order of keys is kept, so a message with another order differs and can be updated to."""
    chat.append({"id": "m", "role": "user", "parts": [], "a": 1, "b": 2})
    turned = {"id": "m", "role": "user", "parts": [], "b": 2, "a": 1}
    assert (chat.append(copy.deepcopy(turned))).differs
    chat.update(copy.deepcopy(turned))
    assert list(read_back(chat, "m")) == ["id", "role", "parts", "b", "a"]


def test_the_size_of_a_message_is_its_utf8_size_whatever_it_holds(chat: Session) -> None:
    """B-004: a NUL near the beginning does not end the text for counts, budgets and slices."""
    for n, text in enumerate([*TEXTS.values(), "\0" + "z" * 3_000_000, "a\0" + "é" * 1_600_000]):
        stored = (chat.append(note(f"m{n}", text))).message
        assert stored.bytes == len(stored.to_json().encode())
        assert read_back(chat, f"m{n}") == note(f"m{n}", text)
    sizes = [stat.bytes for stat in chat.path_stats()]
    assert sizes == [readable(message).bytes for message in chat.history()]
    assert sum(sizes) == (chat.totals()).bytes
    window = chat.recent(budget_bytes=3_000_100)
    assert [message.id for message in window.messages] == [f"m{len(sizes) - 1}"]
    assert window.total_bytes == sum(sizes)


def test_unknown_keys_unknown_parts_and_empty_parts_survive_in_order(
    sessions: Sessions, chat: Session
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
    chat.append(copy.deepcopy(message))
    fork = chat.fork("fork")
    for session in (chat, fork):
        stored = readable(session.get("m"))
        assert same(stored.to_dict(), message)
        assert same(stored.parts, parts)


@pytest.mark.parametrize("envelope", ENVELOPES.values(), ids=ENVELOPES)
def test_what_looks_like_machinery_is_plain_data(chat: Session, envelope: dict[str, Any]) -> None:
    """B-106: nothing stored is imported, called, or resolved as a pointer, our own markers included."""
    message = everywhere(envelope)
    message["parts"].append({"type": "text", "text": json.dumps(envelope)})
    message["parts"].append({**envelope, "type": "file"})
    chat.append(copy.deepcopy(message))
    assert same(read_back(chat, "m"), message)
    (stored,) = [message for message in chat.history()]
    assert same(readable(stored).parts, message["parts"])


def test_a_pointer_to_somebody_elses_payload_stays_text(sessions: Sessions, chat: Session) -> None:
    """B-106: the hash of a payload that is in the store opens nothing."""
    attachment = sessions.put_attachment(b"secret", media_type="image/png")
    sessions.session("other").append({"role": "user", "parts": [{"type": "file", "url": attachment}]})
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
    chat.append(copy.deepcopy(message))
    assert same(read_back(chat, "m"), message)


def test_a_forged_mark_beside_the_real_payload_is_kept_too(chat: Session) -> None:
    """B-106: a message that spells the mark plait would use for its own media loses neither."""
    import hashlib

    from tests.behaviour.values import picture

    message = picture("m", b"payload")
    mark = f"plait-media:0:{hashlib.sha256(b'payload').hexdigest()}"
    message["parts"].append({"type": "text", "text": f"{mark} {mark}"})
    chat.append(copy.deepcopy(message))
    assert same(read_back(chat, "m"), message)


def test_a_message_changed_after_the_append_does_not_change_what_is_stored(chat: Session) -> None:
    message = note("m", "before")
    result = chat.append(message)
    message["parts"][0]["text"] = "after"
    assert result.message.to_dict() == read_back(chat, "m") == note("m", "before")
    result.message.to_dict()["parts"].clear()
    assert result.message.to_dict() == note("m", "before")


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "x" * 600, "r\0le", "役", LONE])
def test_any_role_is_kept_in_the_message(chat: Session, role: str) -> None:
    """B-003: also one that a column could not hold."""
    chat.append(note("m", role=role))
    assert (read_back(chat, "m"))["role"] == role


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
def test_what_json_cannot_say_is_refused_at_its_place_and_nothing_is_written(
    sessions: Sessions, chat: Session, way: str, value: Any, is_type: bool
) -> None:
    """B-009, B-010: NaN, bytes, datetimes and the like are never converted or guessed at."""
    chat.append(note("old"))
    sessions.create("named", metadata={"kept": 1})
    before = [message for message in chat.history()], chat.info()
    message = {"id": "old", "role": "tool", "parts": [{"type": "t", "output": {"score": [0, value]}}]}
    with pytest.raises(InvalidMessageError) as caught:
        if way == "append":
            chat.append(message)
        elif way == "append_many":
            chat.append_many([note("good"), message])
        elif way == "update":
            chat.update(message)
        elif way == "upsert":
            chat.upsert(message)
        elif way == "import":
            chat.import_message(message, parent=None)
        elif way == "state":
            chat.update_state({"output": {"score": [0, value]}})
        else:
            sessions.merge_metadata("named", {"output": {"score": [0, value]}})
    assert "output.score[1]" in caught.value.path
    assert "output.score[1]" in str(caught.value)
    assert isinstance(caught.value, TypeError) == is_type
    assert ([message for message in chat.history()], chat.info()) == before
    assert chat.state() == {}
    named = sessions.get("named")
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
def test_a_malformed_message_is_refused_before_anything_is_written(chat: Session, message: Any) -> None:
    with pytest.raises(InvalidMessageError):
        chat.append(message)
    with pytest.raises(InvalidMessageError, match=r"messages\[1\]"):
        chat.append_many([note("good"), message])
    assert chat.info() is None


@pytest.mark.parametrize("depth", [199, 200, 201, 1000, 100_000])
def test_depth_is_kept_up_to_200_and_refused_beyond(chat: Session, depth: int) -> None:
    """B-060: no depth overflows the stack; a message is itself one level, `x` the others."""
    value: Any = "bottom"
    for _ in range(depth - 1):
        value = [value]
    message = {"id": "m", "role": "user", "parts": [], "x": value}
    if depth <= 200:
        chat.append(message)
        assert read_back(chat, "m") == message
    else:
        with pytest.raises(InvalidMessageError, match="nested more than 200 deep"):
            chat.append(message)
        assert chat.info() is None


def test_a_message_that_holds_itself_is_refused(chat: Session) -> None:
    message: dict[str, Any] = note("m")
    message["self"] = [message]
    with pytest.raises(InvalidMessageError):
        chat.append(message)
    assert chat.info() is None


@pytest.mark.parametrize("value", GIVEN.values(), ids=GIVEN)
def test_an_export_and_its_import_keep_every_value(
    store_at: str, sessions: Sessions, chat: Session, tmp_path: Path, value: Any
) -> None:
    """B-001, B-008, B-015: through plait's own lines, which are UTF-8, by the sync face, which alone can."""
    chat.append(everywhere(value))
    sessions.flush()
    file = tmp_path / "chat.jsonl"
    with plait.open(store_at) as twin:
        with file.open("wb") as out:
            write_jsonl(twin.session("chat"), out)
        (report,) = import_file(twin, file, session_id="copy")
    lines = [json.loads(line) for line in file.read_text("utf-8").split("\n") if line]
    assert any(same(line.get("message"), everywhere(value)) for line in lines)
    assert report.result is not None and report.result.inserted == 1
    (copied,) = [message for message in sessions.session("copy").history()]
    assert isinstance(copied, plait.Message) and same(copied.to_dict(), everywhere(value))


@pytest.mark.parametrize("id", BAD_IDS.values(), ids=BAD_IDS)
def test_a_bad_message_id_is_refused_with_nothing_stored(chat: Session, id: Any) -> None:
    """B-049: in the message or beside it, in every write."""
    with pytest.raises(InvalidMessageError):
        chat.append({**note("m"), "id": id})
    with pytest.raises(InvalidMessageError):
        chat.append({"role": "user", "content": "a chat message"}, id=id)
    with pytest.raises(InvalidMessageError):
        chat.append({"role": "user", "parts": []}, id=id)
    with pytest.raises(InvalidMessageError):
        chat.import_message({**note("m"), "id": id}, parent=None)
    with pytest.raises(InvalidMessageError):
        chat.update({**note("m"), "id": id})
    assert chat.info() is None


def test_what_is_refused_costs_no_more_than_it_is_and_is_named_shortly(chat: Session) -> None:
    """A long key with very many items below it: each of their places would be named by it."""
    wide: Any = {"role": "user", "parts": [{"type": "x", "z": float("nan"), "k" * 40_000: [0] * 40_000}]}
    long: Any = {"role": "user", "parts": [{"type": "x", "k" * 40_000: {"a": float("nan")}}]}
    odd: Any = {"role": "user", "parts": [{"type": "x", ("k" * 40_000,): 1}]}
    for message in (wide, long, odd):
        with pytest.raises(InvalidMessageError) as caught:
            chat.append(message)
        assert len(str(caught.value)) < 2_000 and len(caught.value.path) <= 500
    assert chat.info() is None


def test_any_number_of_attachments_in_a_message_come_back(chat: Session) -> None:
    count = dose(short=5_000, soak=50_000)
    parts = [{"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{n:08d}"} for n in range(count)]
    stored = (chat.append({"role": "user", "parts": parts})).message
    read = chat.get(stored.id)
    assert isinstance(read, plait.Message) and read.content["parts"] == parts
