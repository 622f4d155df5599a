from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait.interchange  # noqa: F401 - registers the formats
from plait import formats
from plait.formats.transcripts import FORMATS

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
STAMP = {"timestamp": "2025-01-01T00:00:00Z"}


def pi(**message: Any) -> dict[str, Any]:
    return {"type": "message", **STAMP, "message": message}


def claude(*blocks: Any, kind: str = "assistant", **envelope: Any) -> dict[str, Any]:
    message = {"role": kind, "content": list(blocks)}
    return {"type": kind, "uuid": "u", "parentUuid": None, "message": message, **envelope}


def node(role: str, content: dict[str, Any], **message: Any) -> dict[str, Any]:
    inner = {"author": {"role": role, "name": "python"}, "content": content, **message}
    return {"id": "n", "parent": "p", "message": inner}


TEXT = {"type": "text", "text": "x"}
READINGS: list[tuple[dict[str, Any], str, str, list[dict[str, Any]]]] = [
    (pi(role="user", content="x"), "pi", "user", [TEXT]),
    (
        pi(role="assistant", content=[{"type": "thinking", "thinking": "hm", "thinkingSignature": "s"}, TEXT]),
        "pi",
        "assistant",
        [{"type": "reasoning", "text": "hm", "providerMetadata": {"pi": {"thinkingSignature": "s"}}}, TEXT],
    ),
    (
        pi(role="assistant", content=[{"type": "toolCall", "id": "c", "name": "ls", "arguments": {"p": "."}}]),
        "pi",
        "assistant",
        [
            {
                "type": "dynamic-tool",
                "toolName": "ls",
                "toolCallId": "c",
                "state": "input-available",
                "input": {"p": "."},
            }
        ],
    ),
    (
        pi(role="toolResult", toolCallId="c", toolName="ls", content=[TEXT], isError=True),
        "pi",
        "tool",
        [{"type": "dynamic-tool", "toolCallId": "c", "toolName": "ls", "state": "output-error", "errorText": "x"}],
    ),
    (
        pi(role="user", content=[{"type": "image", "data": "AAAA", "mimeType": "image/png"}]),
        "pi",
        "user",
        [{"type": "file", "mediaType": "image/png", "data": "AAAA"}],
    ),
    (pi(role="bashExecution", command="ls", output="a"), "pi", "user", [{"type": "text", "text": "$ ls\na"}]),
    ({"type": "compaction", **STAMP, "summary": "x"}, "pi", "summary", [TEXT]),
    ({"type": "custom_message", **STAMP, "content": [TEXT]}, "pi", "user", [TEXT]),
    (
        {"type": "model_change", **STAMP, "modelId": "m"},
        "pi",
        "meta",
        [{"type": "data-model_change", "data": {"modelId": "m"}}],
    ),
    (claude(TEXT, kind="user"), "claude-code", "user", [TEXT]),
    (
        claude(
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "c", "name": "Bash", "input": {}},
        ),
        "claude-code",
        "assistant",
        [
            {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "s"}}},
            {"type": "dynamic-tool", "toolName": "Bash", "toolCallId": "c", "state": "input-available", "input": {}},
        ],
    ),
    (
        claude({"type": "tool_result", "tool_use_id": "c", "content": [TEXT]}, kind="user"),
        "claude-code",
        "tool",
        [{"type": "dynamic-tool", "toolCallId": "c", "state": "output-available", "output": "x"}],
    ),
    (
        claude({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, kind="user"),
        "claude-code",
        "user",
        [{"type": "file", "mediaType": "image/png", "data": "AAAA"}],
    ),
    (claude(TEXT, kind="user", isCompactSummary=True), "claude-code", "summary", [TEXT]),
    ({"type": "summary", "summary": "x", "leafUuid": "l"}, "claude-code", "meta", [TEXT]),
    ({"type": "system", "uuid": "u", "parentUuid": None, "content": "x"}, "claude-code", "meta", [TEXT]),
    (node("user", {"content_type": "text", "parts": ["x", ""]}), "chatgpt", "user", [TEXT]),
    (
        node("assistant", {"content_type": "code", "text": "1+1"}, recipient="python"),
        "chatgpt",
        "assistant",
        [{"type": "dynamic-tool", "toolName": "python", "toolCallId": "n", "state": "input-available", "input": "1+1"}],
    ),
    (
        node("tool", {"content_type": "execution_output", "text": "2"}),
        "chatgpt",
        "tool",
        [{"type": "dynamic-tool", "toolCallId": "p", "toolName": "python", "state": "output-available", "output": "2"}],
    ),
    (
        node(
            "user",
            {
                "content_type": "multimodal_text",
                "parts": [{"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1"}],
            },
            metadata={"attachments": [{"id": "f1", "mime_type": "image/jpeg"}]},
        ),
        "chatgpt",
        "user",
        [{"type": "file", "mediaType": "image/jpeg", "url": "file-service://f1"}],
    ),
    (
        node(
            "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "hm"}]}, recipient="all"
        ),
        "chatgpt",
        "assistant",
        [{"type": "reasoning", "text": "hm", "providerMetadata": {"openai": {"summary": "s"}}}],
    ),
]


@pytest.mark.parametrize(("message", "name", "role", "parts"), READINGS)
def test_a_message_is_recognized_and_read(
    message: dict[str, Any], name: str, role: str, parts: list[dict[str, Any]]
) -> None:
    before = json.dumps(message)
    reader = formats.recognize(message)
    assert (reader.name, reader.role(message), reader.parts(message)) == (name, role, parts)
    assert json.dumps(message) == before


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["message", "text", "tool_result", "image", "thoughts"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "message",
                    "content",
                    "role",
                    "parts",
                    "author",
                    "summary",
                    "source",
                    "thoughts",
                    "text",
                    "metadata",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["type", "message", "content", "summary", "uuid"]), ANYTHING))
def test_odd_content_never_raises(message: dict[str, Any]) -> None:
    for reader in FORMATS:
        reader.recognizes(message)
        reader.id(message)
        assert isinstance(reader.role(message), str)
        assert all(isinstance(part["type"], str) for part in reader.parts(message))
        assert isinstance(reader.metadata(message), dict)
        reader.usage(message)


def test_usage_is_what_the_provider_reported() -> None:
    message = claude(TEXT)
    message["message"]["usage"] = {"input_tokens": 3}
    assert formats.named("claude-code").usage(message) == {"input_tokens": 3}
    assert formats.named("pi").usage(pi(role="assistant", content=[], usage={"input": 3})) == {"input": 3}


def test_a_real_session_is_readable() -> None:
    path = DATA / "pi-session-v1.jsonl"
    if not path.exists():
        pytest.skip("the sample transcripts are not here")
    reader, roles, calls = formats.named("pi"), dict[str, int](), 0
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        message = json.loads(line)
        assert reader.recognizes(message)
        roles[reader.role(message)] = roles.get(reader.role(message), 0) + 1
        calls += sum(part.get("state") == "input-available" for part in reader.parts(message))
    assert roles == {"user": 88, "assistant": 453, "tool": 373, "meta": 104}
    assert calls == 391
