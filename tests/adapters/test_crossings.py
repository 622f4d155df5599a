"""What a crossing writes is what the framework itself takes: random conversations, given to its own validators."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

import plait
from plait import formats
from plait.model import Json
from tests.dose import dose
from tests.unit import test_crossing as crossing
from tests.unit import test_crossing_between as between
from tests.unit.test_crossing import conversations, foreign

MANY = settings(max_examples=dose(short=15, soak=1000), deadline=None)


@pytest.fixture(autouse=True)
def renamed() -> Iterator[None]:
    cancel = formats.register(crossing.Renamed())  # type: ignore[arg-type]
    yield
    cancel()


def written(contents: list[Json], as_: Any) -> list[Json]:
    return list(plait.messages_as(foreign(contents), as_, session_id="s"))


def encodable(contents: list[Json]) -> list[Json]:
    """Without halves of characters and zeros, which no framework's reader of JSON takes."""
    text = re.sub(r"\\ud99c(?!\\ud[c-f])", "?", json.dumps(contents))
    found: list[Json] = json.loads(text)
    return found


@MANY
@given(conversations())
def test_openai_takes_the_items(contents: list[Json]) -> None:
    pytest.importorskip("openai", reason="needs openai: pip install 'plait[openai]'")
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    adapter: Any = _ADAPTERS.setdefault("openai", TypeAdapter(ResponseInputItemParam))
    for item in written(contents, "openai"):
        adapter.validate_python(item)


_ADAPTERS: dict[str, Any] = {}


@MANY
@given(conversations())
def test_pydantic_ai_takes_the_messages_and_says_the_same(contents: list[Json]) -> None:
    messages = pytest.importorskip("pydantic_ai.messages", reason="needs it: pip install 'plait[pydantic-ai]'")
    contents = encodable(contents)
    found = messages.ModelMessagesTypeAdapter.validate_json(json.dumps(written(contents, "pydantic-ai")))
    again = json.loads(messages.ModelMessagesTypeAdapter.dump_json(found))
    before, after = crossing.said(foreign(contents)), crossing.said(crossing.read(again, "pydantic-ai"))
    assert crossing.words(after) == crossing.words(before)
    assert crossing.calls(after) == crossing.calls(before)
    assert [one.output for one in crossing.results(after)] == [one.output for one in crossing.results(before)]
    assert crossing.spoken_media(after) == [(kind, url, None) for kind, url, _ in crossing.spoken_media(before)]


@MANY
@given(conversations())
def test_anthropic_takes_the_messages_of_the_entries(contents: list[Json]) -> None:
    types = pytest.importorskip("anthropic.types", reason="needs anthropic: pip install anthropic")
    from pydantic import TypeAdapter

    adapter = _ADAPTERS.setdefault("anthropic", TypeAdapter(types.MessageParam))
    for entry in written(contents, "claude"):
        adapter.validate_python(entry["message"])
        assert entry["message"]["content"]  # the API refuses a message without content


@MANY
@given(conversations())
def test_interfaces_take_the_messages(contents: list[Json]) -> None:
    types = pytest.importorskip("pydantic_ai.ui.vercel_ai.request_types", reason="needs pydantic-ai-slim")
    from pydantic import TypeAdapter

    adapter = _ADAPTERS.setdefault("ui", TypeAdapter(types.UIMessage))
    for message in written(contents, "ui"):
        adapter.validate_python(message)
        assert message["parts"]


@MANY
@given(conversations())
def test_langchain_takes_the_messages(contents: list[Json]) -> None:
    messages = pytest.importorskip("langchain_core.messages", reason="needs it: pip install 'plait[langgraph]'")
    found = written(contents, "langchain")
    objects = messages.messages_from_dict(json.loads(json.dumps(found)))
    assert [one.content for one in objects] == [item["data"]["content"] for item in found]
    assert [one.id for one in objects] == [item["data"]["id"] for item in found]
    for message in objects:
        assert message.content_blocks is not None  # LangChain's own reading of them


@MANY
@given(conversations())
def test_adk_takes_the_events(contents: list[Json]) -> None:
    events = pytest.importorskip("google.adk.events", reason="needs Google ADK: pip install 'plait[adk]'")
    for event in written(encodable(contents), "adk"):
        assert events.Event.model_validate(event).content.parts


@pytest.mark.parametrize(("source", "feature"), between.CASES)
def test_what_another_framework_wrote_is_taken_too(source: str, feature: str) -> None:
    """The same validators, for messages as frameworks themselves write them."""
    contents = between.SOURCES[source][feature]
    checks = {as_: check for as_, made in VALIDATORS.items() if as_ != source and (check := made()) is not None}
    if not checks:
        pytest.skip("needs a framework: pip install 'plait[openai]', say")
    for as_, check in checks.items():
        for item in plait.messages_as(crossing.read(contents), as_, session_id="s"):  # type: ignore[arg-type]
            check(item)


def adapter_of(kind: str, module: str, name: str) -> Any:
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError:
        return None
    from pydantic import TypeAdapter

    return _ADAPTERS.setdefault(kind, found if isinstance(found, TypeAdapter) else TypeAdapter(found))


def of_openai() -> Any:
    adapter = adapter_of("openai", "openai.types.responses", "ResponseInputItemParam")
    return adapter and adapter.validate_python


def of_pydantic_ai() -> Any:
    adapter = adapter_of("pydantic-ai", "pydantic_ai.messages", "ModelMessagesTypeAdapter")
    return adapter and (lambda item: adapter.validate_json(json.dumps([item])))


def of_anthropic() -> Any:
    adapter = adapter_of("claude", "anthropic.types", "MessageParam")
    return adapter and (lambda item: adapter.validate_python(item["message"]))


def of_interfaces() -> Any:
    adapter = adapter_of("ui", "pydantic_ai.ui.vercel_ai.request_types", "UIMessage")
    return adapter and adapter.validate_python


def of_langchain() -> Any:
    try:
        from langchain_core.messages import messages_from_dict
    except ImportError:
        return None
    return lambda item: messages_from_dict([item])[0].content_blocks


def of_adk() -> Any:
    try:
        from google.adk.events import Event
    except ImportError:
        return None
    return Event.model_validate


VALIDATORS = {
    "openai": of_openai,
    "pydantic-ai": of_pydantic_ai,
    "claude": of_anthropic,
    "ui": of_interfaces,
    "langchain": of_langchain,
    "adk": of_adk,
}


def test_a_langchain_agents_calls_and_results_are_its_own_objects() -> None:
    messages = pytest.importorskip("langchain_core.messages", reason="needs it: pip install 'plait[langgraph]'")
    contents = crossing.FEATURES["calls in parallel, each with its result"][0]
    _, ai, *answers = messages.messages_from_dict(written(contents, "langchain"))
    assert isinstance(ai, messages.AIMessage) and [call["id"] for call in ai.tool_calls] == ["c1", "c2"]
    assert all(isinstance(one, messages.ToolMessage) for one in answers)
    assert {one.tool_call_id: one.content for one in answers} == {"c1": "one", "c2": "two"}


def test_entries_are_a_transcript_that_the_claude_agent_sdk_reads() -> None:
    sdk = pytest.importorskip("claude_agent_sdk", reason="needs it: pip install 'plait[claude]'")
    contents = [*crossing.FEATURES["calls in parallel, each with its result"][0], plait.assistant("Done.", id="a2")]
    entries = written(contents, "claude")

    class Store:
        async def append(self, key: Any, entries: Any) -> None: ...

        async def load(self, key: Any) -> Any:
            return entries

    import asyncio

    reading = sdk.get_session_messages_from_store(Store(), entries[0]["sessionId"], directory=".")
    found = asyncio.run(reading)
    assert [one.uuid for one in found] == [entry["uuid"] for entry in entries]
