"""What a write takes off a native message, and that it takes off nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from plait.logic.sanitize import sanitize

RESERVED = ("tenant", "trace")


def message(*parts: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "m", "role": "assistant", "parts": list(parts), **fields}


def clean(given: dict[str, Any]) -> Any:
    """`given` as stored from the server; the given message must have stayed as it was."""
    before = copy.deepcopy(given)
    stored = sanitize(given, source="server")
    assert given == before
    return stored


def parts(*given: Any) -> Any:
    return clean(message(*given))["parts"]


def text(provider: Any) -> dict[str, Any]:
    return {"type": "text", "text": "Hi", "providerMetadata": provider}


PLAIN = {"type": "text", "text": "Hi"}


def test_strips_openai_item_id() -> None:
    assert parts(text({"openai": {"itemId": "msg_1"}})) == [PLAIN]


def test_strips_reasoning_encrypted_content() -> None:
    part = {
        "type": "reasoning",
        "text": "Hm.",
        "providerMetadata": {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "x"}},
    }
    assert parts(part) == [{"type": "reasoning", "text": "Hm."}]


@pytest.mark.parametrize("key", ["itemId", "reasoningEncryptedContent"])
def test_other_openai_keys_stay(key: str) -> None:
    stored = parts(text({"openai": {"annotations": [1], key: "x", "phase": None}}))
    assert stored == [text({"openai": {"annotations": [1], "phase": None}})]


def test_an_emptied_provider_goes_and_the_others_stay() -> None:
    given = text({"anthropic": {"signature": "s"}, "openai": {"itemId": "x"}, "azure": {"itemId": "y"}})
    assert parts(given) == [text({"anthropic": {"signature": "s"}, "azure": {"itemId": "y"}})]


def test_an_empty_openai_object_goes() -> None:
    assert parts(text({"openai": {}})) == [PLAIN]


@pytest.mark.parametrize("value", [None, "", 0, False, "text", ["itemId"]])
def test_an_openai_value_that_is_no_object_is_left_alone(value: Any) -> None:
    given = message(text({"openai": value}))
    assert clean(given) is given


@pytest.mark.parametrize("value", [None, "itemId", [{"openai": {"itemId": "x"}}], 3])
def test_provider_metadata_that_is_no_object_is_left_alone(value: Any) -> None:
    given = message(text(value))
    assert clean(given) is given


def test_strips_call_provider_metadata_of_tool_parts() -> None:
    tool = {"type": "tool-search", "toolCallId": "c", "state": "output-available", "input": {}, "output": {"n": 1}}
    assert parts({**tool, "callProviderMetadata": {"openai": {"itemId": "fc_1"}}}) == [tool]


def test_result_provider_metadata_is_untouched() -> None:
    given = message({"type": "tool-x", "toolCallId": "c", "resultProviderMetadata": {"openai": {"itemId": "x"}}})
    assert clean(given) is given


@pytest.mark.parametrize("key", ["providerMetadata", "callProviderMetadata"])
def test_both_carriers_are_cleaned_on_any_part_of_any_role(key: str) -> None:
    given = {"id": "m", "role": "user", "parts": [{"type": "brand-new", key: {"openai": {"itemId": "x", "k": 1}}}]}
    assert clean(given)["parts"] == [{"type": "brand-new", key: {"openai": {"k": 1}}}]


@pytest.mark.parametrize("words", ["", "  \n", "\ufeff\u3000", None, 5])
def test_removes_empty_reasoning_parts(words: Any) -> None:
    assert parts({"type": "reasoning", "text": words}, PLAIN) == [PLAIN]


def test_reasoning_without_any_words_goes() -> None:
    assert parts({"type": "reasoning"}) == []


def test_separators_that_javascript_does_not_trim_are_words() -> None:
    given = message({"type": "reasoning", "text": "\x1f"})
    assert clean(given) is given


def test_preserves_anthropic_redacted_thinking_with_empty_text() -> None:
    part = {"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "abc"}}}
    given = message(part)
    assert clean(given) is given


def test_removes_openai_reasoning_placeholders_left_empty() -> None:
    assert parts({"type": "reasoning", "text": "", "providerMetadata": {"openai": {"itemId": "rs_1"}}}) == []


def test_reasoning_kept_in_a_reasoning_field_is_kept() -> None:
    """A deliberate difference from the source, which dropped it."""
    given = message({"type": "reasoning", "reasoning": "Because."})
    assert clean(given) is given
    assert parts({"type": "reasoning", "reasoning": " "}) == []


def test_a_message_without_openai_metadata_comes_back_itself() -> None:
    given = message(PLAIN, {"type": "reasoning", "text": "Hm."}, text({"anthropic": {"signature": "s"}}), metadata={})
    assert clean(given) is given


def test_parts_that_stay_are_the_same_objects_in_the_same_order() -> None:
    first, last = {"type": "text", "text": "a", "z": 1, "a": 2}, {"type": "step-start"}
    stored = parts(first, {"type": "reasoning", "text": ""}, last)
    assert stored[0] is first
    assert stored[1] is last


def test_key_order_survives_cleaning() -> None:
    part = {"type": "text", "providerMetadata": {"a": {}, "openai": {"itemId": "x", "k": 1}, "b": {}}, "text": "t"}
    given = {"role": "assistant", "z": 0, "parts": [part], "id": "m"}
    stored = clean(given)
    assert list(stored) == ["role", "z", "parts", "id"]
    assert list(stored["parts"][0]) == ["type", "providerMetadata", "text"]
    assert list(stored["parts"][0]["providerMetadata"]) == ["a", "openai", "b"]


@pytest.mark.parametrize("odd", [None, "parts", 3, ["text", None, [1]], {"type": "reasoning"}])
def test_odd_parts_are_left_to_the_door(odd: Any) -> None:
    given = {"role": "user", "parts": odd}
    assert clean(given) is given


def from_client(**fields: Any) -> Any:
    given = message(PLAIN, **fields)
    before = copy.deepcopy(given)
    stored = sanitize(given, source="client", reserved_metadata_keys=RESERVED)
    assert given == before
    return stored


def test_reserved_metadata_keys_of_a_client_go() -> None:
    stored = from_client(metadata={"tenant": "evil", "channel": "web", "deep": {"tenant": 1}})
    assert stored == message(PLAIN, metadata={"channel": "web", "deep": {"tenant": 1}})


def test_metadata_left_empty_goes_as_well() -> None:
    assert from_client(metadata={"tenant": 1, "trace": 2}) == message(PLAIN)


def test_metadata_that_was_empty_stays() -> None:
    assert from_client(metadata={}) == message(PLAIN, metadata={})


@pytest.mark.parametrize("metadata", [["tenant"], "tenant", None, 3])
def test_metadata_that_is_no_object_is_untouched(metadata: Any) -> None:
    assert from_client(metadata=metadata) == message(PLAIN, metadata=metadata)


def test_the_server_may_set_reserved_keys() -> None:
    given = message(PLAIN, metadata={"tenant": "acme"})
    assert sanitize(given, source="server", reserved_metadata_keys=RESERVED) is given


def test_without_reserved_keys_a_client_loses_nothing() -> None:
    given = message(PLAIN, metadata={"tenant": "acme"})
    assert sanitize(given, source="client") is given


def test_a_client_message_is_cleaned_of_both() -> None:
    stored = from_client(metadata={"trace": 1, "k": 2}, parts=[text({"openai": {"itemId": "x"}})])
    assert stored == message(PLAIN, metadata={"k": 2})
