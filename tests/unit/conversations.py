"""Conversations for tests: messages of several formats in any order, and what makes a view of them legal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from plait import formats, jsontext
from plait.logic import estimate
from plait.model import Json, Message


def stored(*contents: Json, first: int = 1) -> list[Message]:
    """Messages as they would be read back, one after another."""
    messages: list[Message] = []
    for seq, content in enumerate(contents, first):
        format = formats.recognize(content)
        text = jsontext.encode(content)
        parent = messages[-1].id if messages else None
        id, tokens = f"m{seq}", estimate.estimate_message(content, format)
        messages.append(Message(id, format.role(content), seq, parent, seq, len(text), tokens, format, text))
    return messages


def call(*ids: str, **fields: Any) -> Json:
    return said(
        *({"type": "dynamic-tool", "toolName": "f", "toolCallId": id, "input": {"n": 1}} for id in ids), **fields
    )


def result(*ids: str, role: str = "tool") -> Json:
    return said(
        *({"type": "dynamic-tool", "toolCallId": id, "state": "output-available", "output": "done"} for id in ids),
        role=role,
    )


def said(*parts: Json, role: str = "assistant", **fields: Any) -> Json:
    return {"role": role, "parts": list(parts), **fields}


def text(words: str = "words", role: str = "assistant") -> Json:
    return said({"type": "text", "text": words}, role=role)


def user(words: str = "hello") -> Json:
    return text(words, "user")


THOUGHT: Json = {"type": "reasoning", "text": "hm", "providerMetadata": {"anthropic": {"signature": "sig"}}}
PENDING: Json = {
    "type": "tool-f",
    "toolCallId": "a",
    "state": "approval-requested",
    "input": {},
    "approval": {"id": "ap"},
}


def chat_call(*ids: str) -> Json:
    calls = [{"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(id: str) -> Json:
    return {"role": "tool", "tool_call_id": id, "content": "done"}


def item_call(id: str) -> Json:
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}


def item_result(id: str) -> Json:
    return {"type": "function_call_output", "call_id": id, "output": "done"}


def item_text(words: str = "words") -> Json:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}


def tool_call(id: str) -> Json:
    return {"type": "tool-call", "toolCallId": id, "toolName": "f", "input": {}}


def block(id: str) -> Json:
    return {"type": "tool_use", "id": id, "name": "f", "input": {}}


def block_result(id: str) -> Json:
    return {"type": "tool_result", "tool_use_id": id, "content": "x"}


def line(role: str, *blocks: Json) -> Json:
    """A line of a Claude Code transcript: one piece of what was said."""
    envelope = {"type": role, "uuid": "u", "parentUuid": None, "sessionId": "s", "timestamp": "t"}
    return {**envelope, "message": {"role": role, "content": list(blocks)}}


def entry(role: str, **fields: Any) -> Json:
    """An entry of a Pi session."""
    return {"type": "message", "timestamp": "2025-11-20T23:33:01.550Z", "message": {"role": role, **fields}}


ITEM_THOUGHT: Json = {"type": "reasoning", "id": "rs", "summary": []}
META: Json = {"role": "meta", "parts": [{"type": "data-x", "data": 1}]}

ANY: list[Json] = [
    user(),
    user(" "),
    text(),
    call("a"),
    call("b"),
    call("a", "b"),
    result("a"),
    result("b"),
    result("a", "b"),
    result("a", role="assistant"),
    said(THOUGHT),
    said(THOUGHT, *call("a")["parts"]),
    said(*result("a")["parts"], {"type": "text", "text": "so"}),
    said(*result("a")["parts"], *call("b")["parts"]),
    said({**PENDING, "state": "output-available", "output": 1}),
    said(PENDING),
    META,
    said(),
    chat_call("a"),
    chat_call("a", "b"),
    chat_result("a"),
    chat_result("b"),
    {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}, {"type": "text", "text": "y"}],
    },
    ITEM_THOUGHT,
    item_call("a"),
    item_call("b"),
    item_result("a"),
    item_text(),
    {"type": "computer_call", "id": "cu", "call_id": "a", "action": {"type": "screenshot"}},
    {"type": "web_search_call", "id": "ws", "status": "completed"},
    said(*result("a")["parts"], {"type": "text", "text": "so"}, role="user"),
    said(*result("a", "b")["parts"], {"type": "text", "text": "so"}),
    said(*result("b")["parts"], *call("a")["parts"]),
    said(*call("b")["parts"], *result("a")["parts"]),
    said(tool_call("a"), tool_call("b")),
    said({"type": "tool-result", "toolCallId": "a", "toolName": "f", "output": "x"}, role="tool"),
    {"role": "assistant", "content": "so", "reasoning_content": "hm", "tool_calls": chat_call("b")["tool_calls"]},
    {"role": "assistant", "content": None, "function_call": {"name": "a", "arguments": "{}"}},
    {"role": "function", "name": "a", "content": "done"},
    {"role": "assistant", "content": [block("a"), {"type": "text", "text": "t"}, block("b")]},
    {"role": "user", "content": [block_result("a"), block_result("b")]},
    {"role": "user", "content": [block_result("b"), {"type": "text", "text": "y"}, block_result("a")]},
    line("assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}),
    line("assistant", block("a")),
    line("assistant", block("b"), {"type": "text", "text": "t"}),
    line("user", block_result("a")),
    line("user", block_result("a"), block_result("b")),
    line("user", block_result("b"), {"type": "text", "text": "y"}),
    line("user", {"type": "text", "text": "y"}, block_result("b")),
    {"type": "system", "uuid": "u", "parentUuid": None, "sessionId": "s", "content": "a hook succeeded"},
    {"role": "user", "content": [{"type": "text", "text": "y"}, block_result("a"), {"type": "text", "text": "z"}]},
    said({"type": "text", "text": "y"}, *result("b")["parts"], role="user"),
    entry("assistant", content=[{"type": "toolCall", "id": "a", "name": "f", "arguments": {}}]),
    entry("toolResult", toolCallId="a", toolName="f", content=[{"type": "text", "text": "x"}], isError=False),
]
conversations = st.lists(st.sampled_from(ANY), max_size=14).map(lambda contents: stored(*contents))


def _tools(message: Message) -> tuple[list[str], list[str], list[str]]:
    """Ids of the calls, of those that wait for an approval, and of the results whose call is elsewhere."""
    calls: list[str] = []
    waiting: list[str] = []
    results: list[str] = []
    for part in message.parts:
        kind, id = str(part["type"]), str(part.get("toolCallId", ""))
        if kind != "dynamic-tool" and not kind.startswith("tool-"):
            continue
        done = str(part.get("state", "")).startswith("output-") or "output" in part
        if is_result(part):
            if id in calls:
                calls.remove(id)
            else:
                results.append(id)
        elif not done:
            (waiting if str(part.get("state", "")).startswith("approval-") else calls).append(id)
    return calls, waiting, results


def faults(view: Iterable[Message]) -> list[str]:
    """What a provider would refuse about a conversation, found in a way of its own.

    All results of what was said at once have to come right after it, and before any words: chat APIs want the
    `tool` messages directly behind the message that calls, Anthropic's wants them first in the next turn.
    """
    found: list[str] = []
    open: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    thinking: str | None = None
    continues = False  # whether the last message was a piece of what a model said
    ids: Counter[str] = Counter()
    for message in view:
        ids[message.id] += 1
        calls, pending, results = _tools(message)
        kinds = {str(part["type"]) for part in message.parts if part.get("type") != "text" or str(part["text"]).strip()}
        kinds = {kind for kind in kinds if not kind.startswith("data-")}
        if not kinds:
            found.append(f"{message.id} is empty")
        if message.role == "meta":
            found.append(f"{message.id} was said by nobody")
        if results and message.role != "assistant" and not is_result(message.parts[0]):
            found.append(f"{message.id} has something before its results")
        if thinking is not None and (message.role != "assistant" or (results and not calls)):
            found.append(f"{thinking} is reasoning that nothing follows")
        thinking = message.id if kinds == {"reasoning"} else None
        for id in results:
            held = open if open[id] > 0 else waiting
            if held[id] <= 0:
                found.append(f"{message.id} has a result without its call {id}")
            held[id] -= 1
        words = bool(calls or pending) or any(not is_result(part) for part in message.parts)
        piece = words and formats.is_piecewise(message.format) and message.role == "assistant"
        if words and +open and not (piece and continues):
            found.append(f"{message.id} comes before the results of {sorted(+open)}")
        continues = piece
        open.update(calls)
        waiting.update(pending)
    if +open:
        found.append(f"the calls {sorted(+open)} have no result")
    if thinking is not None:
        found.append(f"{thinking} is reasoning at the end")
    return found + [f"there are {count} messages {id}" for id, count in ids.items() if count > 1]


def is_result(part: Json) -> bool:
    """Whether a part is a result whose call stands elsewhere."""
    kind = str(part["type"])
    done = str(part.get("state", "")).startswith("output-") or "output" in part
    return (kind == "dynamic-tool" or kind.startswith("tool-")) and done and "input" not in part
