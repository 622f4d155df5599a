"""ADK's events are kept as they are: what comes back is equal, whatever is in it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="needs google-adk: pip install 'plait[adk]'")

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions, EventCompaction
from google.adk.events.ui_widget import UiWidget
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import plait
from plait.adapters.adk import events_of, packed
from tests.dose import dose

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Shrinking an event takes minutes: it is done in a soak."""

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=8)
    | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
objects = st.dictionaries(st.text(st.characters(), max_size=6), values, max_size=3)
parts = st.one_of(
    st.builds(lambda text, thought: types.Part(text=text, thought=thought), st.text(), st.none() | st.booleans()),
    st.builds(
        lambda args, sign: types.Part(
            function_call=types.FunctionCall(id="c", name="f", args=args), thought_signature=sign
        ),
        objects,
        st.none() | st.binary(min_size=1, max_size=20),
    ),
    st.builds(
        lambda response: types.Part(function_response=types.FunctionResponse(id="c", name="f", response=response)),
        objects,
    ),
    st.builds(
        lambda kind, data: types.Part(inline_data=types.Blob(mime_type=kind, data=data)),
        st.sampled_from(["image/png", "text/plain", "application/pdf"]),
        st.binary(min_size=1, max_size=40),
    ),
    st.just(types.Part(file_data=types.FileData(file_uri="gs://b/x", mime_type="video/mp4"))),
)
events = st.builds(
    lambda content, delta, custom, output: Event(
        invocation_id="i",
        author="agent",
        content=types.Content(role="model", parts=content) if content else None,
        actions=EventActions(state_delta=delta, artifact_delta={"a": 3}),
        custom_metadata=custom,
        output=output,
        long_running_tool_ids={"b", "a"},
        timestamp=1700000000.123456,
    ),
    st.lists(parts, max_size=3),
    objects,
    st.none() | objects,
    values,
)


def through_a_store(event: Event, path: str | Path = ":memory:") -> tuple[Event, plait.Message]:
    with plait.open(path, durability="relaxed") as sessions:
        stored = sessions.session("s").append(packed(event)).message
        again = sessions.session("s").get(stored.id)
        assert isinstance(again, plait.Message) and again.format == "adk" and again.id == event.id
        return events_of(again)[0], again


def test_an_event_comes_back_equal() -> None:
    with plait.open(":memory:") as sessions:

        @settings(deadline=None, max_examples=dose(short=40, soak=4_000), phases=dose(short=QUICK, soak=tuple(Phase)))
        @given(events)
        def comes_back(event: Event) -> None:
            before = event.model_copy(deep=True)
            (found,) = events_of(sessions.session("s").append(packed(event)).message)
            assert found == before == event

        comes_back()


def test_what_json_cannot_say_comes_back_from_another_process(tmp_path: Path) -> None:
    response = {"raw": b"\xff\xfe", "nested": [{"more": b""}], "inf": [math.inf, -math.inf], "\ud99c": "ab\ud99c"}
    event = Event(
        invocation_id="i",
        author="tool",
        content=types.Content(
            role="user",
            parts=[types.Part(function_response=types.FunctionResponse(id="c", name="f", response=response))],
        ),
        actions=EventActions(state_delta={"k": {"raw": b"\x00"}, "none": None, "n": 2**70}),
    )
    found, _ = through_a_store(event, tmp_path / "s.db")
    assert found == event
    nan = Event(invocation_id="i", author="a", output={"x": math.nan})
    found, _ = through_a_store(nan, tmp_path / "n.db")
    assert math.isnan(found.output["x"])


@pytest.mark.parametrize(
    "part",
    [
        types.Part(tool_call=types.ToolCall(id="c", args={"raw": b"\xff", "far": math.inf})),
        types.Part(tool_response=types.ToolResponse(id="c", response={"raw": b"\xff"})),
        types.Part(text="Hi", part_metadata={"raw": b"\xff", "deep": [{"far": -math.inf}]}),
        types.Part(function_call=types.FunctionCall(id="c", name="f", args={"raw": b"\xff"})),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\xff\xfe\xfb")),
    ],
    ids=["call", "response", "metadata", "function", "media"],
)
def test_every_place_of_a_part_keeps_its_values(part: types.Part) -> None:
    content = types.Content(role="model", parts=[types.Part(text="First"), part])
    summary = EventCompaction(start_timestamp=1.0, end_timestamp=2.5, compacted_content=content)
    for event in (Event(author="a", content=content), Event(author="a", actions=EventActions(compaction=summary))):
        assert through_a_store(event)[0] == event


def test_scores_and_what_tools_are_asked_keep_their_values() -> None:
    asked = {"c": ToolConfirmation(hint="Sure?", payload={"raw": b"\xff"}), "d": ToolConfirmation(hint="Sure?")}
    widget = UiWidget(id="w", provider="p", payload={"raw": b"\xff"})
    event = Event(
        author="a",
        avg_logprobs=-math.inf,
        logprobs_result=types.LogprobsResult(log_probability_sum=-math.inf),
        grounding_metadata=types.GroundingMetadata(
            grounding_supports=[types.GroundingSupport(confidence_scores=[math.inf, 0.5])]
        ),
        actions=EventActions(requested_tool_confirmations=asked, render_ui_widgets=[widget]),
    )
    assert through_a_store(event)[0] == event


def test_media_lies_beside_the_message(tmp_path: Path) -> None:
    pixels = b"\xff\xfe\xfb" * 500_000  # its base64 has what the two alphabets spell differently
    event = Event(
        invocation_id="i",
        author="user",
        content=types.Content(
            role="user",
            parts=[
                types.Part(inline_data=types.Blob(mime_type="image/png", data=pixels, display_name="a.png")),
                types.Part(text="What is this?"),
            ],
        ),
    )
    with plait.open(tmp_path / "s.db") as sessions:
        for n in range(20):
            sessions.session("s").append(packed(event.model_copy(update={"id": f"e{n}"})))
        message = sessions.session("s").leaf()
        assert isinstance(message, plait.Message)
        assert b"".join(sessions.session("s").read_attachment("e19")) == pixels
        assert message.parts[0]["mediaType"] == "image/png" and message.text == "What is this?"
        assert events_of(message)[0] == event.model_copy(update={"id": "e19"})
    assert (tmp_path / "s.db").stat().st_size < 2 * len(pixels)


@pytest.mark.parametrize(
    ("event", "role", "kinds"),
    [
        (Event(author="user", content=types.Content(role="user", parts=[types.Part(text="Hi")])), "user", ["text"]),
        (Event(author="a", content=types.Content(role="model", parts=[types.Part(text="Hi")])), "assistant", ["text"]),
        (Event(author="a", actions=EventActions(state_delta={"k": 1})), "meta", []),
        (
            Event(
                author="user",
                actions=EventActions(
                    compaction=EventCompaction(
                        start_timestamp=1,
                        end_timestamp=2,
                        compacted_content=types.Content(role="model", parts=[types.Part(text="Short.")]),
                    )
                ),
            ),
            "summary",
            ["text"],
        ),
        (
            Event(
                author="a",
                content=types.Content(
                    role="user",
                    parts=[
                        types.Part(function_response=types.FunctionResponse(id="c", name="f", response={"result": 1})),
                        types.Part(function_response=types.FunctionResponse(id="d", name="f", response={"error": "x"})),
                    ],
                ),
            ),
            "tool",
            ["dynamic-tool", "dynamic-tool"],
        ),
    ],
    ids=["user", "model", "state", "compaction", "tools"],
)
def test_a_reader_finds_role_and_parts(event: Event, role: str, kinds: list[str]) -> None:
    _, message = through_a_store(event)
    assert (message.role, [part["type"] for part in message.parts]) == (role, kinds)


def test_an_event_of_a_later_adk_shows_its_parts(caplog: pytest.LogCaptureFixture) -> None:
    with plait.open(":memory:") as sessions:
        later = {
            **packed(
                Event(author="a", invocation_id="i", content=types.Content(role="model", parts=[types.Part(text="Hi")]))
            ),
            "timestamp": 1.5,
        }
        later["actions"] = {"skipSummarization": "in some new way"}
        chat = sessions.session("s")
        (found,) = events_of(chat.append(later).message)
        assert found.content == types.Content(role="model", parts=[types.Part(text="Hi")]) and found.author == "model"
        assert "none that this version of ADK knows" in caplog.text
        chat.append(plait.user("Next."))
        assert [events_of(message)[0].author for message in chat.history()] == ["model", "user"]  # type: ignore[arg-type]


def test_a_message_that_looks_like_notes_changes_nothing() -> None:
    hostile: Any = [[["content"], "bytes"], [["author", "x"], "nan"], "x", [1, 2, 3], [[], "pickle"], [["no"], "inf"]]
    with plait.open(":memory:") as sessions:
        event = packed(
            Event(author="a", invocation_id="i", content=types.Content(role="model", parts=[types.Part(text="Hi")]))
        )
        (found,) = events_of(sessions.session("s").append({**event, "plaitNotes": hostile}).message)
    assert found.content == types.Content(role="model", parts=[types.Part(text="Hi")]) and found.author == "a"
