"""A conversation of any format, written as another framework's: what comes out, and what each crossing keeps."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait import formats, jsontext, times
from plait.formats.crossing import NAMES
from plait.formats.pieces import Call, Media, Result, Said, Thought, Words, joined, own_of, said_by
from plait.logic.usage import tokens_used
from plait.model import Damaged, Json, Message
from tests.docs.pages import DOCS
from tests.dose import dose

FORMAT_OF = {"claude": "claude-code", "ui": "plait"}
AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.timezone.utc)
ODD: list[Any] = [None, True, 3, "", "text", [], [None, [1], {"type": 3}], {}, {"type": []}, {"a": {"b": 1}}]
READABLE = ["openai", "langchain", "pydantic-ai", "adk", "claude", "ui"]


def read(contents: Iterable[Json], format: str | None = None) -> Iterator[Message]:
    """Messages as a session would give them."""
    parent = None
    for seq, content in enumerate(contents, 1):
        reader = formats.named(format) if format else formats.recognize(content)
        text, id = jsontext.encode(content), reader.id(content) or f"m{seq}"
        at = times.to_us(AT) + seq * 1_000_000
        yield Message(id, reader.role(content), seq, parent, at, len(text.encode()), 0, reader, text)
        parent = id


def write(contents: Iterable[Json], as_: Any) -> list[Json]:
    return list(plait.messages_as(read(contents), as_, session_id="s"))


def there_and_back(contents: Iterable[Json], as_: str) -> list[Said]:
    """What is read in what a crossing wrote, after it was stored."""
    return said(read(write(contents, as_), FORMAT_OF.get(as_, as_)))


def said(messages: Iterable[Message]) -> list[Said]:
    return [one for message in messages for one in said_by(message)]


def call(id: str, name: str = "weather", input: Any = None) -> Json:
    given = {"city": "Lyon"} if input is None else input
    return {"type": "dynamic-tool", "toolName": name, "toolCallId": id, "state": "input-available", "input": given}


def result(id: str, output: Any) -> Json:
    return {"type": "dynamic-tool", "toolCallId": id, "state": "output-available", "output": output}


PNG = "data:image/png;base64,iVBORw0KGgo="
ASK = plait.user("What is the weather?", id="u1")
IMAGE = {"type": "file", "mediaType": "image/png", "url": PNG}
PDF = {
    "type": "file",
    "mediaType": "application/pdf",
    "url": "data:application/pdf;base64,JVBERi0=",
    "filename": "a.pdf",
}


def turn(*parts: Json) -> list[Json]:
    return [ASK, {"id": "a1", "role": "assistant", "parts": list(parts)}]


def tool_turn(*results: Json, calls: tuple[Json, ...] = (call("c1"),)) -> list[Json]:
    return [*turn(*calls), {"id": "t1", "role": "tool", "parts": list(results)}]


# --- what each crossing keeps: the table of the docs is measured here


def words(found: list[Said]) -> Any:
    return [(one.kind, piece.text) for one in found for piece in one.pieces if isinstance(piece, Words)]


def calls(found: list[Said]) -> Any:
    pieces = [piece for one in found for piece in one.pieces]
    return [(piece.id, piece.name, piece.input) for piece in pieces if isinstance(piece, Call)]


def by_provider(found: list[Said]) -> Any:
    """Each call that a provider ran, with what it got, which may stand apart in the same reply."""
    joined(found)
    ran = [piece for one in found for piece in one.pieces if isinstance(piece, Call) and piece.by_provider]
    return [(piece.name, piece.input, piece.result.output if piece.result else None) for piece in ran]


def results(found: list[Said]) -> list[Result]:
    return [piece for one in found for piece in one.pieces if isinstance(piece, Result)]


def media(pieces: Iterable[object]) -> Any:
    return [(piece.data_url, piece.filename) for piece in pieces if isinstance(piece, Media)]


def spoken_media(found: list[Said]) -> Any:
    return [(one.kind, *item) for one in found for item in media(one.pieces)]


def of_google(kinds: Any) -> Any:
    """The signatures of Google's on pieces of these kinds."""

    def look(found: list[Said]) -> Any:
        pieces = [piece for one in found for piece in one.pieces if isinstance(piece, kinds)]
        return [own["thoughtSignature"] for piece in pieces if (own := own_of(piece, "google"))]

    return look


def thoughts(found: list[Said]) -> Any:
    return [(piece.text, piece.own) for one in found for piece in one.pieces if isinstance(piece, Thought)]


OPENAI = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "gAAA"}}
ANTHROPIC = {"anthropic": {"signature": "EqQB"}}
GOOGLE = {"google": {"thoughtSignature": "U0lH"}}
USED = {"metadata": {"usage": {"inputTokens": 7, "outputTokens": 3}}}

FEATURES: dict[str, tuple[list[Json], Any]] = {
    "what a user and a model say": ([*turn({"type": "text", "text": "Sun."}), plait.user("Thanks.")], words),
    "that a system says it": ([plait.system("Be brief."), ASK], words),
    "calls: id, name, arguments": ([*tool_turn(result("c1", "sun")), *turn({"type": "text", "text": "x"})[1:]], calls),
    "arguments that are no object": (tool_turn(result("c1", "sun"), calls=(call("c1", input=[1, 2]),)), calls),
    "calls in parallel, each with its result": (
        tool_turn(result("c2", "two"), result("c1", "one"), calls=(call("c1"), call("c2"))),
        lambda found: (calls(found), sorted((one.id, one.text) for one in results(found))),
    ),
    "the tool's name on its result": (
        tool_turn({**result("c1", "sun"), "toolName": "weather"}),
        lambda found: [one.name for one in results(found)],
    ),
    "results that are JSON, as values": (
        tool_turn(result("c1", [{"n": 1.5}])),
        lambda found: [one.output for one in results(found)],
    ),
    "that a call failed": (
        tool_turn({"type": "dynamic-tool", "toolCallId": "c1", "state": "output-error", "errorText": "no"}),
        lambda found: [(one.text, one.failed) for one in results(found)],
    ),
    "a user's images": ([{"role": "user", "parts": [{"type": "text", "text": "Look"}, IMAGE]}], spoken_media),
    "a user's files, with their names": ([{"role": "user", "parts": [PDF]}], spoken_media),
    "images in results": (
        tool_turn(result("c1", [{"type": "text", "text": "here"}, IMAGE])),
        lambda found: [(words_in(one), media(one.pieces)) for one in results(found)],
    ),
    "images that a model made": (turn({"type": "text", "text": "Here."}, IMAGE), spoken_media),
    "reasoning that is not signed": (
        turn({"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "x"}),
        thoughts,
    ),
    "reasoning of OpenAI": (
        turn({"type": "reasoning", "text": "Hm.", "providerMetadata": OPENAI}, {"type": "text", "text": "x"}),
        thoughts,
    ),
    "reasoning signed by Anthropic": (
        turn({"type": "reasoning", "text": "Hm.", "providerMetadata": ANTHROPIC}, {"type": "text", "text": "x"}),
        thoughts,
    ),
    "Google's signatures on calls": (
        tool_turn(result("c1", "sun"), calls=({**call("c1"), "callProviderMetadata": GOOGLE},)),
        of_google(Call),
    ),
    "Google's signatures on thoughts and words": (
        turn(
            {"type": "reasoning", "text": "Hm.", "providerMetadata": GOOGLE},
            {"type": "text", "text": "x", "providerMetadata": GOOGLE},
        ),
        of_google((Thought, Words)),
    ),
    "calls that the provider ran": (
        turn({**call("w1", "web_search"), "providerExecuted": True, "state": "output-available", "output": "found"}),
        by_provider,
    ),
    "usage": (
        [ASK, {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "x"}], **USED}],
        lambda found: [tokens for one in found if (tokens := tokens_used(one.message.usage))],
    ),
    "the messages' ids": (turn({"type": "text", "text": "x"}), lambda found: [one.message.id for one in found]),
    "parts of an interface's own (`data-…`)": (
        turn({"type": "text", "text": "x"}, {"type": "data-chart", "data": {"n": 1}}),
        lambda found: [one for s in found for one in s.message.parts if str(one.get("type")) == "data-chart"],
    ),
}


def words_in(one: Result) -> list[str]:
    return [piece.text for piece in one.pieces if isinstance(piece, Words)]


def foreign(contents: list[Json]) -> Iterator[Message]:
    """Native messages under another name, so that no writer takes them as they are."""
    yield from read(contents, "not-native")


class Renamed:
    """Native messages that no writer knows as its own."""

    name = "not-native"

    def __getattr__(self, name: str) -> Any:
        return getattr(formats.NATIVE, name)


@pytest.fixture
def renamed() -> Iterator[None]:
    cancel = formats.register(Renamed())  # type: ignore[arg-type]
    yield
    cancel()


def table() -> dict[str, dict[str, str]]:
    """The docs' table: for each feature the cells by `as_`."""
    text = (DOCS / "reference" / "adapters.md").read_text(encoding="utf-8")
    rows = [re.split(r" \| ", row.strip("| ")) for row in re.findall(r"^\|.+\|$", text, re.MULTILINE)]
    head = next(row for row in rows if row[0] == "keeps")
    names = [name.strip("`") for name in head[1:]]
    return {row[0]: dict(zip(names, row[1:], strict=True)) for row in rows if row[0] in FEATURES}


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("as_", READABLE)
@pytest.mark.parametrize("feature", FEATURES)
def test_a_crossing_keeps_what_the_docs_say(feature: str, as_: str) -> None:
    contents, look = FEATURES[feature]
    before = look(said(foreign(contents)))
    assert before, "the feature must be there to be kept"
    written = list(plait.messages_as(foreign(contents), as_, session_id="s"))  # type: ignore[arg-type]
    after = look(said(read(written, FORMAT_OF.get(as_, as_))))
    assert (after == before) == table()[feature][as_].startswith("yes"), (before, after)


def test_the_table_has_every_feature_and_format() -> None:
    assert list(table()) == list(FEATURES)
    assert all(list(cells) == list(NAMES) for cells in table().values())


# --- exactly within a format

OWN: dict[str, list[Json]] = {
    "openai": [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"b": 1, "a":1.0}', "id": "fc_1"},
        {"type": "function_call_output", "call_id": "c", "output": "1"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
        {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": []},
    ],
    "pydantic-ai": [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi"}], "instructions": "Be brief."},
        {"kind": "response", "parts": [{"part_kind": "brand-new", "v": 1}], "usage": {}, "model_name": "m"},
    ],
    "claude": [
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "sessionId": "s",
            "message": {"role": "user", "content": "Hi"},
        },
        {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    ],
    "ui": [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}], "extra": 1},
        {"id": "m2", "role": "assistant", "parts": [call("c"), {"type": "brand-new"}]},
    ],
}


@pytest.mark.parametrize("as_", OWN)
def test_messages_of_the_format_itself_come_out_as_they_are(as_: str) -> None:
    written = write(OWN[as_], as_)
    assert [jsontext.encode(item) for item in written] == [jsontext.encode(item) for item in OWN[as_]]


@pytest.mark.parametrize("as_", OWN)
def test_what_comes_out_is_the_callers_own(as_: str) -> None:
    messages = list(read(OWN[as_]))
    for item in plait.messages_as(messages, as_):  # type: ignore[arg-type]
        item["changed"] = True
    assert [message.content for message in messages] == OWN[as_]


def test_a_conversation_in_two_formats_keeps_the_messages_of_one_and_writes_the_others() -> None:
    begun = [*OWN["openai"][:3]]
    gone_on = [{"kind": "request", "parts": [{"part_kind": "tool-return", "tool_call_id": "c", "content": "1"}]}]
    written = write([*begun, *gone_on], "openai")
    assert written == [*begun, {"type": "function_call_output", "call_id": "c", "output": "1"}]


def test_a_result_takes_its_tools_name_from_a_call_in_another_format() -> None:
    begun = [
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": {}, "tool_call_id": "c"}]}
    ]
    _, request = write([*begun, {"type": "function_call_output", "call_id": "c", "output": "1"}], "pydantic-ai")
    assert request["parts"][0]["tool_name"] == "f"


# --- shapes


def test_pieces_of_one_reply_become_one_message() -> None:
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "b", "output": "2"},
        {"role": "assistant", "content": "Done."},
    ]
    kinds = [[part["part_kind"] for part in message["parts"]] for message in write(items, "pydantic-ai")]
    assert kinds == [["thinking", "tool-call", "tool-call"], ["tool-return", "tool-return"], ["text"]]


def test_two_replies_stay_two() -> None:
    replies = [plait.user("Hi"), plait.assistant("One."), plait.assistant("Two.")]
    assert [len(message["parts"]) for message in write(replies, "pydantic-ai")] == [1, 1, 1]


def test_a_reply_with_its_results_in_it_becomes_its_steps() -> None:
    done = {**call("c1"), "state": "output-available", "output": "sun"}
    step, first, last = (
        {"type": "step-start"},
        {"type": "text", "text": "Let me see."},
        {"type": "text", "text": "Sun."},
    )
    for parts in ([first, done, last], [step, first, done, step, last]):
        written = write(turn(*parts), "openai")[1:]
        assert [item.get("type", item.get("role")) for item in written] == [
            "assistant",
            "function_call",
            "function_call_output",
            "assistant",
        ]


def test_a_reply_of_many_messages_is_one_for_an_interface_with_the_results_in_its_calls() -> None:
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "[]"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {"type": "function_call_output", "call_id": "a", "output": "2"},
        {"role": "assistant", "content": "Done."},
    ]
    user, reply = write(items, "ui")
    assert user["role"] == "user"
    outputs = [part["output"] for part in reply["parts"] if part["type"] == "dynamic-tool"]
    assert outputs == ["1", "2"]  # ids repeat: in their order
    assert reply["parts"][-1] == {"type": "text", "text": "Done."}


def test_a_systems_prompt_in_a_users_request_is_the_systems() -> None:
    request = {
        "kind": "request",
        "parts": [
            {"part_kind": "system-prompt", "content": "Be brief."},
            {"part_kind": "user-prompt", "content": "Hi"},
        ],
    }
    assert write([request], "openai") == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert next(read([request])).text == "Hi"


def test_entries_of_claude_code_make_one_chain() -> None:
    entries = write([*tool_turn(result("c1", "sun")), *OWN["claude"][:1], plait.assistant("Hi.")], "claude")
    assert [entry["parentUuid"] for entry in entries[1:3]] == [entry["uuid"] for entry in entries[:2]]
    assert entries[-1]["parentUuid"] == "u1"
    assert entries[-1]["sessionId"] == "s"  # that of the entries that are there


def test_the_same_conversation_is_written_the_same_each_time() -> None:
    contents = FEATURES["calls in parallel, each with its result"][0]
    for as_ in NAMES:
        assert write(contents, as_) == write(contents, as_)


# --- normal inputs


@pytest.mark.parametrize("as_", NAMES)
def test_nothing_comes_of_nothing(as_: Any) -> None:
    assert write([], as_) == []
    nobody = [{"type": "file-history-snapshot", "messageId": "x"}]
    assert write(nobody, as_) == (nobody if as_ == "claude" else [])
    assert list(plait.messages_as([Damaged("x", 1, "user", None, "bad")], as_)) == []


@pytest.mark.parametrize("as_", NAMES)
def test_a_damaged_message_hides_nothing_else(as_: Any) -> None:
    good = next(read([plait.user("Hi", id="m")]))
    broken = Message("b", "user", 2, None, 0, 1, 0, formats.NATIVE, "{nope")
    assert len(list(plait.messages_as([broken, good, broken], as_))) == 1


@pytest.mark.parametrize("as_", NAMES)
@pytest.mark.parametrize(
    "key", ["type", "text", "toolCallId", "toolName", "input", "output", "state", "url", "mediaType"]
)
def test_odd_parts_raise_nothing(as_: Any, key: str) -> None:
    for part in (call("c"), result("c", "1"), IMAGE, {"type": "text", "text": "x"}, {"type": "reasoning", "text": "x"}):
        for odd in ODD:
            contents = [
                {"id": "m", "role": role, "parts": [{**part, key: odd}]} for role in ("user", "assistant", "tool")
            ]
            written = list(plait.messages_as(map(_renamed, read(contents, "plait")), as_))
            assert jsontext.decode(jsontext.encode(written)) == written


def _renamed(message: Message) -> Message:
    return message.with_content(message.content, format=Renamed())  # type: ignore[arg-type]


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(plait.UsageError, match="'openai' or 'langchain'"):
        plait.messages_as([], "openais")  # type: ignore[arg-type]


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(plait.UsageError, match="Message objects"):
        list(plait.messages_as([{"role": "user"}], "ui"))  # type: ignore[list-item]


# --- random conversations

TEXTS = st.text(max_size=20) | st.sampled_from(["", " ", "\x00", "\ud99c", "日本"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
FILES = st.sampled_from([IMAGE, PDF, {"type": "file", "mediaType": "image/*", "url": "https://x/a.png"}])
WORDS = st.builds(lambda text: {"type": "text", "text": text}, TEXTS)
THOUGHTS = st.builds(lambda text: {"type": "reasoning", "text": text}, TEXTS)


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    contents: list[Json] = []
    for n in range(draw(st.integers(0, 4))):
        contents.append({"id": f"u{n}", "role": "user", "parts": draw(st.lists(WORDS | FILES, min_size=1, max_size=3))})
        for step in range(draw(st.integers(0, 3))):
            asked = [call(f"c{n}.{step}.{k}", f"f{k}", draw(VALUES)) for k in range(draw(st.integers(0, 3)))]
            spoken = draw(st.lists(WORDS | THOUGHTS, max_size=2))
            contents.append({"id": f"a{n}.{step}", "role": "assistant", "parts": [*spoken, *asked]})
            if asked:
                outputs = [result(one["toolCallId"], draw(VALUES)) for one in draw(st.permutations(asked))]
                contents.append({"id": f"t{n}.{step}", "role": "tool", "parts": outputs})
    return contents


@pytest.mark.usefixtures("renamed")
@pytest.mark.parametrize("as_", READABLE)
@settings(max_examples=dose(short=25, soak=2000), deadline=None)
@given(contents=conversations())
def test_a_crossing_loses_no_words_no_call_and_no_result(as_: Any, contents: list[Json]) -> None:
    before = said(foreign(contents))
    written = list(plait.messages_as(foreign(contents), as_, session_id="s"))
    assert jsontext.decode(jsontext.encode(written)) == written
    after = said(read(written, FORMAT_OF.get(as_, as_)))
    assert [text for _, text in words(after) if text.strip()] == [text for _, text in words(before) if text.strip()]
    asked, kept = ([id for id, _, _ in calls(found)] for found in (before, after))
    assert sorted(kept) == sorted(asked)
    assert kept == asked or as_ == "langchain"  # which keeps calls with odd arguments after the others
    assert sorted(one.id for one in results(after)) == sorted(one.id for one in results(before))
    assert len(spoken_media(after)) == len(spoken_media(before))
    legal = list(plait.legal_view(read(written, FORMAT_OF.get(as_, as_))))
    assert not any(plait.NO_RESULT in message.to_json() for message in legal)
