"""The docs' table of what a crossing keeps, measured from messages as each framework itself writes them."""

from __future__ import annotations

from typing import Any

import pytest

import plait
from plait.logic.usage import tokens_used
from plait.model import Json
from tests.unit.test_crossing import FEATURES, FORMAT_OF, READABLE, read, said, table

Contents = dict[str, list[Json]]
PNG, PDF = "iVBORw0KGgo=", "JVBERi0="
SEARCHED = [{"type": "web_search_result", "url": "https://x", "title": "Sun"}]


def chat_openai(*items: Json) -> list[Json]:
    return [{"role": "user", "content": "What is the weather?"}, *items]


def asked_openai(arguments: str = '{"city":"Lyon"}', id: str = "c1") -> Json:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": "weather", "arguments": arguments}


def got_openai(output: Any, id: str = "c1") -> Json:
    return {"type": "function_call_output", "call_id": id, "output": output}


def said_openai(text: str) -> Json:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": content}


IMAGE_OPENAI = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}
OPENAI: Contents = {
    "what a user and a model say": [*chat_openai(said_openai("Sun.")), {"role": "user", "content": "Thanks."}],
    "that a system says it": [{"role": "system", "content": "Be brief."}, *chat_openai()],
    "calls: id, name, arguments": chat_openai(asked_openai(), got_openai("sun"), said_openai("x")),
    "arguments that are no object": chat_openai(asked_openai("[1,2]"), got_openai("sun")),
    "calls in parallel, each with its result": chat_openai(
        asked_openai(), asked_openai(id="c2"), got_openai("two", "c2"), got_openai("one")
    ),
    "a user's images": [{"role": "user", "content": [{"type": "input_text", "text": "Look"}, IMAGE_OPENAI]}],
    "a user's files, with their names": [
        {
            "role": "user",
            "content": [
                {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}", "filename": "a.pdf"},
            ],
        }
    ],
    "images in results": chat_openai(
        asked_openai(), got_openai([{"type": "input_text", "text": "here"}, IMAGE_OPENAI])
    ),
    "reasoning of OpenAI": chat_openai(
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        said_openai("x"),
    ),
    "calls that the provider ran": chat_openai(
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "sun"},
        },
        said_openai("Sun."),
    ),
    "the messages' ids": [{**said_openai("x")}],
}


def lc(kind: str, content: Any, id: str = "m1", **more: Any) -> Json:
    return {"type": kind, "data": {"content": content, "type": kind, "id": id, **more}}


ASK_LC = lc("human", "What is the weather?", "h1")


def called_lc(*ids: str, invalid: bool = False, **more: Any) -> Json:
    calls = [{"name": "weather", "args": {"city": "Lyon"}, "id": id, "type": "tool_call"} for id in ids]
    odd = [{"name": "weather", "args": "[1, 2]", "id": id, "error": "e", "type": "invalid_tool_call"} for id in ids]
    key, made = ("invalid_tool_calls", odd) if invalid else ("tool_calls", calls)
    return lc("ai", "", "a1", **{key: made}, **more)


def got_lc(content: Any, id: str = "c1", **more: Any) -> Json:
    return lc("tool", content, f"t-{id}", tool_call_id=id, name="weather", **{"status": "success", **more})


LANGCHAIN: Contents = {
    "what a user and a model say": [ASK_LC, lc("ai", "Sun."), lc("human", "Thanks.", "h2")],
    "that a system says it": [lc("system", "Be brief.", "s1"), ASK_LC],
    "calls: id, name, arguments": [ASK_LC, called_lc("c1"), got_lc("sun"), lc("ai", "x", "a2")],
    "arguments that are no object": [ASK_LC, called_lc("c1", invalid=True), got_lc("sun")],
    "calls in parallel, each with its result": [ASK_LC, called_lc("c1", "c2"), got_lc("two", "c2"), got_lc("one")],
    "the tool's name on its result": [ASK_LC, called_lc("c1"), got_lc("sun")],
    "that a call failed": [ASK_LC, called_lc("c1"), got_lc("no", status="error")],
    "a user's images": [
        lc(
            "human",
            [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                {"type": "image", "base64": PNG, "mime_type": "image/png"},
                {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
                {"type": "media", "data": PNG, "mime_type": "image/png"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                {"image": {"format": "png", "source": {"bytes": PNG}}},
            ],
        )
    ],
    "a user's files, with their names": [
        lc(
            "human",
            [
                {"type": "file", "base64": PDF, "mime_type": "application/pdf", "extras": {"filename": "a.pdf"}},
                {"type": "file", "source_type": "base64", "data": PDF, "mime_type": "application/pdf", "filename": "b"},
                {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}", "filename": "c.pdf"}},
                {
                    "type": "document",
                    "title": "d.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                },
                {"document": {"format": "pdf", "name": "e", "source": {"bytes": PDF}}},
            ],
        )
    ],
    "images in results": [
        ASK_LC,
        called_lc("c1"),
        got_lc([{"type": "text", "text": "here"}, {"type": "image", "base64": PNG, "mime_type": "image/png"}]),
    ],
    "images that a model made": [
        ASK_LC,
        lc("ai", [{"type": "text", "text": "Here."}, {"type": "image", "base64": PNG, "mime_type": "image/png"}]),
    ],
    "reasoning that is not signed": [
        ASK_LC,
        lc("ai", [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "x"}]),
    ],
    "reasoning of OpenAI": [
        ASK_LC,
        lc(
            "ai",
            [
                {"type": "reasoning", "id": "rs_1", "reasoning": "Hm.", "extras": {"encrypted_content": "gAAA"}},
                {"type": "text", "text": "x"},
            ],
        ),
    ],
    "reasoning signed by Anthropic": [
        ASK_LC,
        lc("ai", [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}, {"type": "text", "text": "x"}]),
    ],
    "Google's signatures on calls": [
        ASK_LC,
        called_lc("c1", additional_kwargs={"__gemini_function_call_thought_signatures__": {"c1": "U0lH"}}),
        got_lc("sun"),
    ],
    "Google's signatures on thoughts and words": [
        ASK_LC,
        lc(
            "ai",
            [
                {"type": "thinking", "thinking": "Hm.", "signature": "U0lH"},
                {"type": "text", "text": "x", "extras": {"signature": "U0lH"}},
            ],
            response_metadata={"model_provider": "google_genai"},
        ),
    ],
    "calls that the provider ran": [
        ASK_LC,
        lc(
            "ai",
            [
                {"type": "server_tool_call", "id": "w1", "name": "web_search", "args": {"query": "sun"}},
                {"type": "server_tool_result", "tool_call_id": "w1", "status": "success", "output": SEARCHED},
                {"type": "server_tool_use", "id": "w2", "name": "web_search", "input": {"query": "rain"}},
                {"type": "web_search_tool_result", "tool_use_id": "w2", "content": SEARCHED},
                {"type": "text", "text": "Sun."},
            ],
        ),
    ],
    "usage": [
        ASK_LC,
        lc(
            "ai",
            "x",
            usage_metadata={
                "input_tokens": 50703,
                "output_tokens": 9,
                "total_tokens": 50712,
                "input_token_details": {"cache_read": 50000},
            },
        ),
    ],
    "the messages' ids": [ASK_LC, lc("ai", "x", "a1")],
}


def request(*parts: Json) -> Json:
    return {"kind": "request", "parts": list(parts)}


def response(*parts: Json, **more: Any) -> Json:
    return {"kind": "response", "parts": list(parts), **more}


def asked(content: Any = "What is the weather?") -> Json:
    return {"part_kind": "user-prompt", "content": content, "timestamp": "2026-01-02T03:04:05Z"}


def called_pa(id: str = "c1", args: Any = '{"city":"Lyon"}', **more: Any) -> Json:
    return {"part_kind": "tool-call", "tool_name": "weather", "args": args, "tool_call_id": id, **more}


def got_pa(content: Any, id: str = "c1", **more: Any) -> Json:
    part = {"part_kind": "tool-return", "tool_name": "weather", "content": content, "tool_call_id": id}
    return {**part, "outcome": "success", "timestamp": "2026-01-02T03:04:05Z", **more}


X_PA = {"part_kind": "text", "content": "x"}
BINARY = {"kind": "binary", "data": PNG, "media_type": "image/png"}
SIGNED_PA = {"provider_name": "google", "provider_details": {"thought_signature": "U0lH"}}
PYDANTIC_AI: Contents = {
    "what a user and a model say": [
        request(asked()),
        response({"part_kind": "text", "content": "Sun."}),
        request(asked("Thanks.")),
    ],
    "that a system says it": [request({"part_kind": "system-prompt", "content": "Be brief."}, asked())],
    "calls: id, name, arguments": [request(asked()), response(called_pa()), request(got_pa("sun")), response(X_PA)],
    "arguments that are no object": [request(asked()), response(called_pa(args="[1,2]")), request(got_pa("sun"))],
    "calls in parallel, each with its result": [
        request(asked()),
        response(called_pa(), called_pa("c2")),
        request(got_pa("two", "c2"), got_pa("one")),
    ],
    "the tool's name on its result": [request(asked()), response(called_pa()), request(got_pa("sun"))],
    "results that are JSON, as values": [request(asked()), response(called_pa()), request(got_pa([{"n": 1.5}]))],
    "that a call failed": [request(asked()), response(called_pa()), request(got_pa("no", outcome="failed"))],
    "a user's images": [request(asked(["Look", BINARY]))],
    "images in results": [request(asked()), response(called_pa()), request(got_pa(["here", BINARY]))],
    "images that a model made": [
        request(asked()),
        response({"part_kind": "text", "content": "Here."}, {"part_kind": "file", "content": BINARY}),
    ],
    "reasoning that is not signed": [request(asked()), response({"part_kind": "thinking", "content": "Hm."}, X_PA)],
    "reasoning of OpenAI": [
        request(asked()),
        response(
            {
                "part_kind": "thinking",
                "content": "Hm.",
                "id": "rs_1",
                "signature": "gAAA",
                "provider_name": "openai",
            },
            X_PA,
        ),
    ],
    "reasoning signed by Anthropic": [
        request(asked()),
        response({"part_kind": "thinking", "content": "Hm.", "signature": "EqQB", "provider_name": "anthropic"}, X_PA),
    ],
    "Google's signatures on calls": [request(asked()), response(called_pa(**SIGNED_PA)), request(got_pa("sun"))],
    "Google's signatures on thoughts and words": [
        request(asked()),
        response({"part_kind": "thinking", "content": "Hm.", **SIGNED_PA}, {**X_PA, **SIGNED_PA}),
    ],
    "calls that the provider ran": [
        request(asked()),
        response(
            {
                "part_kind": "builtin-tool-call",
                "tool_name": "web_search",
                "args": {"query": "sun"},
                "tool_call_id": "w1",
                "provider_name": "anthropic",
            },
            {
                "part_kind": "builtin-tool-return",
                "tool_name": "web_search",
                "content": SEARCHED,
                "tool_call_id": "w1",
                "provider_name": "anthropic",
            },
            X_PA,
        ),
    ],
    "usage": [
        request(asked()),
        response(X_PA, usage={"input_tokens": 50703, "cache_read_tokens": 50000, "output_tokens": 9}),
    ],
}


def event(*parts: Json, author: str = "helper", id: str = "e1", **more: Any) -> Json:
    role = "user" if author == "user" or "functionResponse" in parts[0] else "model"
    head = {"id": id, "author": author, "invocationId": "i1", "timestamp": 1.5}
    return {**head, "content": {"role": role, "parts": list(parts)}, **more}


ASK_ADK = event({"text": "What is the weather?"}, author="user", id="u1")


def called_adk(id: str = "c1", **more: Any) -> Json:
    return {"functionCall": {"id": id, "name": "weather", "args": {"city": "Lyon"}}, **more}


def got_adk(response: Json, id: str = "c1", **more: Any) -> Json:
    return {"functionResponse": {"id": id, "name": "weather", "response": response, **more}}


BLOB = {"inlineData": {"mimeType": "image/png", "data": PNG}}
ADK: Contents = {
    "what a user and a model say": [
        ASK_ADK,
        event({"text": "Sun."}),
        event({"text": "Thanks."}, author="user", id="u2"),
    ],
    "calls: id, name, arguments": [
        ASK_ADK,
        event(called_adk()),
        event(got_adk({"result": "sun"}), id="e2"),
        event({"text": "x"}, id="e3"),
    ],
    "calls in parallel, each with its result": [
        ASK_ADK,
        event(called_adk(), called_adk("c2")),
        event(got_adk({"result": "two"}, "c2"), got_adk({"result": "one"}), id="e2"),
    ],
    "the tool's name on its result": [ASK_ADK, event(called_adk()), event(got_adk({"result": "sun"}), id="e2")],
    "results that are JSON, as values": [
        ASK_ADK,
        event(called_adk()),
        event(got_adk({"n": 1.5, "list": [{}]}), id="e2"),
    ],
    "that a call failed": [ASK_ADK, event(called_adk()), event(got_adk({"error": "no"}), id="e2")],
    "a user's images": [event({"text": "Look"}, BLOB, author="user")],
    "a user's files, with their names": [
        event({"inlineData": {"mimeType": "application/pdf", "data": PDF, "displayName": "a.pdf"}}, author="user")
    ],
    "images in results": [ASK_ADK, event(called_adk()), event(got_adk({"result": "here"}, parts=[BLOB]), id="e2")],
    "images that a model made": [ASK_ADK, event({"text": "Here."}, BLOB)],
    "reasoning that is not signed": [ASK_ADK, event({"text": "Hm.", "thought": True}, {"text": "x"})],
    "Google's signatures on calls": [
        ASK_ADK,
        event(called_adk(thoughtSignature="U0lH")),
        event(got_adk({"result": "sun"}), id="e2"),
    ],
    "Google's signatures on thoughts and words": [
        ASK_ADK,
        event(
            {"text": "Hm.", "thought": True, "thoughtSignature": "U0-_"},
            {"text": "x", "thoughtSignature": "U0lH"},
        ),
    ],
    "calls that the provider ran": [
        ASK_ADK,
        event(
            {"executableCode": {"code": "print(1)", "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            {"executableCode": {"code": "print(2)", "language": "PYTHON"}, "thoughtSignature": "U0lH"},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "no"}},
            {"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["sun"]}}},
            {"toolResponse": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"found": 1}}},
            {"text": "One."},
        ),
    ],
    "usage": [
        ASK_ADK,
        event(
            {"text": "x"},
            usageMetadata={
                "promptTokenCount": 700,
                "cachedContentTokenCount": 500,
                "candidatesTokenCount": 9,
                "thoughtsTokenCount": 20,
                "totalTokenCount": 729,
            },
        ),
    ],
    "the messages' ids": [ASK_ADK, event({"text": "x"})],
}


def entry(role: str, content: Any, id: str, **more: Any) -> Json:
    head = {"type": role, "uuid": id, "parentUuid": None, "sessionId": "s"}
    return {**head, "message": {"role": role, "content": content, **more}}


ASK_CLAUDE = entry("user", "What is the weather?", "u1")


def called_claude(*ids: str) -> Json:
    return entry(
        "assistant",
        [{"type": "tool_use", "id": id, "name": "weather", "input": {"city": "Lyon"}} for id in ids],
        "a1",
    )


def got_claude(content: Any, id: str = "c1", failed: bool = False) -> Json:
    return entry(
        "user", [{"type": "tool_result", "tool_use_id": id, "content": content, "is_error": failed}], f"t-{id}"
    )


def said_claude(text: str, id: str = "a2", **more: Any) -> Json:
    return entry("assistant", [{"type": "text", "text": text}], id, **more)


IMAGE_CLAUDE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
CLAUDE: Contents = {
    "what a user and a model say": [ASK_CLAUDE, said_claude("Sun."), entry("user", "Thanks.", "u2")],
    "calls: id, name, arguments": [ASK_CLAUDE, called_claude("c1"), got_claude("sun"), said_claude("x")],
    "calls in parallel, each with its result": [
        ASK_CLAUDE,
        called_claude("c1", "c2"),
        got_claude("two", "c2"),
        got_claude("one"),
    ],
    "that a call failed": [ASK_CLAUDE, called_claude("c1"), got_claude("no", failed=True)],
    "a user's images": [entry("user", [{"type": "text", "text": "Look"}, IMAGE_CLAUDE], "u1")],
    "a user's files, with their names": [
        entry(
            "user",
            [
                {
                    "type": "document",
                    "title": "a.pdf",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
                }
            ],
            "u1",
        )
    ],
    "images in results": [
        ASK_CLAUDE,
        called_claude("c1"),
        got_claude([{"type": "text", "text": "here"}, IMAGE_CLAUDE]),
    ],
    "reasoning signed by Anthropic": [
        ASK_CLAUDE,
        entry("assistant", [{"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}], "a1"),
        said_claude("x"),
    ],
    "calls that the provider ran": [
        ASK_CLAUDE,
        entry("assistant", [{"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {}}], "a1"),
        entry("assistant", [{"type": "web_search_tool_result", "tool_use_id": "w1", "content": SEARCHED}], "a2"),
        entry(
            "assistant",
            [
                {"type": "mcp_tool_use", "id": "w2", "name": "ask", "server_name": "x", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "w2", "content": [{"type": "text", "text": "sun"}]},
            ],
            "a3",
        ),
        said_claude("Sun.", "a4"),
    ],
    "usage": [
        ASK_CLAUDE,
        said_claude(
            "x",
            usage={
                "input_tokens": 3,
                "cache_read_input_tokens": 50000,
                "cache_creation_input_tokens": 700,
                "output_tokens": 9,
            },
        ),
    ],
    "the messages' ids": [ASK_CLAUDE, said_claude("x")],
}

SOURCES: dict[str, Contents] = {
    "openai": OPENAI,
    "langchain": LANGCHAIN,
    "pydantic-ai": PYDANTIC_AI,
    "adk": ADK,
    "claude": CLAUDE,
}
CASES = [(source, feature) for source, contents in SOURCES.items() for feature in contents]


@pytest.mark.parametrize("as_", READABLE)
@pytest.mark.parametrize(("source", "feature"), CASES)
def test_a_crossing_from_every_format_keeps_what_the_docs_say(source: str, feature: str, as_: Any) -> None:
    contents, look = SOURCES[source][feature], FEATURES[feature][1]
    before = look(said(read(contents)))
    assert before, "the feature must be there to be kept"
    written = list(plait.messages_as(read(contents), as_, session_id="s"))
    after = look(said(read(written, FORMAT_OF.get(as_, as_))))
    kept = as_ == source or table()[feature][as_].startswith("yes")
    assert (after == before) == kept, (before, after)


def test_every_feature_is_measured_from_some_framework() -> None:
    measured = {feature for _, feature in CASES}
    assert set(FEATURES) - measured == {"parts of an interface's own (`data-…`)"}, "an interface's are plait's own"


# --- the shapes of LangChain's media, of today, before its version 1, and of each provider


def file(media_type: str, **more: Any) -> Json:
    return {"type": "file", "mediaType": media_type, **more}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image", "base64": PNG, "mime_type": "image/png"}, file("image/png", data=PNG)),
        ({"type": "image", "url": "https://x/a"}, file("image/*", url="https://x/a")),
        ({"type": "audio", "file_id": "f1", "mime_type": "audio/wav"}, file("audio/wav", fileId="f1")),
        ({"type": "video", "url": "https://x/a", "mime_type": "video/mp4"}, file("video/mp4", url="https://x/a")),
        ({"type": "text-plain", "text": "Hi", "mime_type": "text/plain"}, {"type": "text", "text": "Hi"}),
        ({"type": "text-plain", "url": "https://x/a.txt"}, file("text/plain", url="https://x/a.txt")),
        (
            {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
            file("image/png", data=PNG),
        ),
        (
            {"type": "image", "source_type": "url", "url": "https://x/a.png", "mime_type": "image/png"},
            file("image/png", url="https://x/a.png"),
        ),
        ({"type": "audio", "source_type": "id", "id": "f1"}, file("audio/*", fileId="f1")),
        ({"type": "file", "source_type": "id", "id": "f1"}, file("application/octet-stream", fileId="f1")),
        (
            {"type": "file", "source_type": "base64", "data": PDF, "mime_type": "application/pdf", "filename": "a"},
            file("application/pdf", data=PDF, filename="a"),
        ),
        (
            {"type": "file", "source_type": "base64", "data": PDF, "mime_type": "a/b", "metadata": {"name": "a"}},
            file("a/b", data=PDF, filename="a"),
        ),
        ({"type": "file", "source_type": "text", "text": "Hi"}, {"type": "text", "text": "Hi"}),
        ({"type": "file", "source_type": "text", "url": "Hi"}, {"type": "text", "text": "Hi"}),
        ({"type": "media", "mime_type": "image/png", "data": PNG}, file("image/png", data=PNG)),
        (
            {"type": "media", "mime_type": "video/mp4", "file_uri": "gs://x/a"},
            file("video/mp4", url="gs://x/a"),
        ),
        ({"type": "file_data", "file_uri": "gs://x/a"}, file("application/octet-stream", url="gs://x/a")),
        ({"type": "image_url", "image_url": "https://x/a.png"}, file("image/*", url="https://x/a.png")),
        (
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
            file("image/png", url=f"data:image/png;base64,{PNG}"),
        ),
        ({"type": "input_file", "file_id": "f1"}, file("application/octet-stream", fileId="f1")),
        ({"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}}, file("audio/wav", data=PNG)),
        ({"type": "image", "source": {"type": "file", "file_id": "f1"}}, file("image/*", fileId="f1")),
        ({"type": "document", "source": {"type": "text", "data": "Hi"}}, {"type": "text", "text": "Hi"}),
        ({"type": "document", "source": {"type": "content", "content": "Hi"}}, {"type": "text", "text": "Hi"}),
        ({"image": {"format": "png", "source": {"bytes": PNG}}}, file("image/png", data=PNG)),
        ({"type": "image", "image": {"format": "png", "source": {"bytes": PNG}}}, file("image/png", data=PNG)),
        (
            {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}},
            file("application/pdf", data=PDF, filename="a"),
        ),
        ({"document": {"format": "txt", "source": {"text": "Hi"}}}, {"type": "text", "text": "Hi"}),
        (
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://x/a"}}}},
            file("video/mp4", url="s3://x/a"),
        ),
        (
            {"type": "non_standard", "value": {"type": "media", "mime_type": "image/png", "data": PNG}},
            file("image/png", data=PNG),
        ),
        ({"type": "image", "base64": "-_8=", "mime_type": "image/png"}, file("image/png", data="+/8=")),
    ],
)
def test_every_shape_of_langchains_media_is_read(block: Json, part: Json) -> None:
    (message,) = read([lc("human", [block])])
    assert message.parts == [part]


@pytest.mark.parametrize("kind", ["image", "document", "media", "file", "video", "text-plain", "non_standard"])
@pytest.mark.parametrize(
    "key", ["source", "data", "file_uri", "mime_type", "value", "image", "document", "source_type"]
)
def test_odd_media_of_langchain_raise_nothing(kind: str, key: str) -> None:
    for odd in (None, 3, "", [], {}, [{}], {"source": 3}, {"source": {"type": "file"}}, {"type": []}):
        (message,) = read([lc("human", [{"type": kind, key: odd}])])
        assert len(message.parts) == 1
        assert isinstance(list(plait.messages_as([message], "openai")), list)


# --- what a provider ran


def test_a_call_that_the_provider_did_not_finish_is_left_out_for_a_model() -> None:
    half = entry("assistant", [{"type": "server_tool_use", "id": "w1", "name": "web_search", "input": {}}], "a1")
    shown = list(plait.legal_view(read([ASK_CLAUDE, half, said_claude("Sorry."), entry("user", "Go on.", "u2")])))
    assert [message.id for message in shown] == ["u1", "a2", "u2"]


def test_a_providers_result_in_a_message_of_its_own_is_put_to_its_call() -> None:
    ran = event({"executableCode": {"code": "1", "language": "PYTHON"}})
    got = event({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, id="e2")
    (_, reply) = plait.messages_as(read([ASK_ADK, ran, got]), "ui")
    (part,) = [part for part in reply["parts"] if part["type"] == "dynamic-tool"]
    assert (part["providerExecuted"], part["output"]) == (True, {"outcome": "OUTCOME_OK", "output": "1"})
    responses = list(plait.messages_as(read([ASK_ADK, ran, got]), "pydantic-ai"))[1:]
    (call,), (answer,) = (response["parts"] for response in responses)
    assert call["tool_call_id"] == answer["tool_call_id"] != ""


def test_a_search_that_failed_says_so() -> None:
    error = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    block = {"type": "web_search_tool_result", "tool_use_id": "w1", "content": error}
    (message,) = read([entry("assistant", [block], "a1")])
    assert message.parts[0]["state"] == "output-error"
    assert "max_uses_exceeded" in message.parts[0]["errorText"]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (
            {"input_tokens": 3, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 7, "output_tokens": 9},
            (60, 9),
        ),
        ({"prompt_tokens": 60, "cache_read_input_tokens": 50, "completion_tokens": 9}, (60, 9)),
        ({"input_tokens": 60, "input_tokens_details": {"cached_tokens": 50}, "output_tokens": 9}, (60, 9)),
        ({"inputTokens": 60, "cachedInputTokens": 50, "outputTokens": 9}, (60, 9)),
        ({"inputTokens": 3, "cacheReadInputTokens": 50, "cacheWriteInputTokens": 7, "outputTokens": 9}, (60, 9)),
        ({"input": 3, "cacheRead": 50, "cacheWrite": 7, "output": 9}, (60, 9)),
        ({"promptTokenCount": 60, "candidatesTokenCount": 4, "thoughtsTokenCount": 5}, (60, 9)),
        ({"prompt_token_count": 50, "tool_use_prompt_token_count": 10, "candidates_token_count": 9}, (60, 9)),
        ({"input_tokens": True, "output_tokens": 9, "cache_read_input_tokens": "x"}, (0, 9)),
        ({"input_tokens": None}, None),
        (None, None),
    ],
)
def test_tokens_are_counted_as_each_provider_means_them(usage: Json | None, tokens: tuple[int, int] | None) -> None:
    assert tokens_used(usage) == tokens
