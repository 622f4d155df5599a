"""A shortened result is still one by the types of the framework whose message it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plait import jsontext
from plait.model import Json
from tests.unit.test_shortened_results import IMAGE, SPELLINGS, field, item, pydantic, shortened


def _pydantic_ai(message: Json) -> None:
    messages = pytest.importorskip("pydantic_ai.messages")
    messages.ModelMessagesTypeAdapter.validate_json(jsontext.encode([message]))


def _langchain(message: Json) -> None:
    (read,) = pytest.importorskip("langchain_core.messages").messages_from_dict([message])
    assert read.content == message["data"]["content"]


def _adk(message: Json) -> None:
    event = pytest.importorskip("google.adk.events").Event.model_validate(message)
    assert event.get_function_responses()[0].id == "c"


def _responses(message: Json) -> None:
    params = pytest.importorskip("openai.types.responses.response_input_item_param")
    pytest.importorskip("pydantic").TypeAdapter(params.FunctionCallOutput).validate_python(message, strict=False)


def _anthropic(message: Json) -> None:
    types = pytest.importorskip("anthropic.types")
    adapter = pytest.importorskip("pydantic").TypeAdapter(types.ToolResultBlockParam)
    read = adapter.validate_python(message["content"][0])
    assert isinstance(read["content"], str) or len(list(read["content"])) > 0  # they are looked at one by one


FRAMEWORKS: dict[str, Callable[[Json], None]] = {
    "pydantic-ai": _pydantic_ai,
    "langchain": _langchain,
    "adk": _adk,
    "responses": _responses,
    "anthropic": _anthropic,
}


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("limit", [0, 60, 500, 1000])
def test_a_shortened_result_is_valid_by_the_frameworks_own_types(name: str, limit: int) -> None:
    make, text, files = SPELLINGS[name]
    for content in (
        [text("x" * 900) for _ in range(20)],
        [text("first"), *(file(IMAGE) for file in files), text("y" * 900)],
        [file(IMAGE) for file in files],
    ):
        FRAMEWORKS[name](make(content))
        short = shortened(make(content), limit)
        assert IMAGE[:60] not in jsontext.encode(short)
        FRAMEWORKS[name](short)


def test_failures_and_single_files_are_valid_too() -> None:
    errors: list[Any] = [{"type": "missing", "loc": ["a"], "msg": "m" * 600, "input": None}]
    for message in (pydantic(errors, "retry-prompt"), pydantic(SPELLINGS["pydantic-ai"][2][0](IMAGE))):
        _pydantic_ai(message)
        short = shortened(message)
        assert isinstance(field(short), str)
        _pydantic_ai(short)
    _responses(shortened(item("x" * 900)))
