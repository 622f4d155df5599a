"""What is taken off a message when it is written, and what is kept: through append, update and upsert, not import."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions
from tests.behaviour._async.helpers import read_back
from tests.behaviour.values import note

CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "item ids go": (
        [{"type": "text", "text": "hi", "providerMetadata": {"openai": {"itemId": "msg_1"}}}],
        [{"type": "text", "text": "hi"}],
    ),
    "encrypted reasoning goes": (
        [
            {
                "type": "reasoning",
                "text": "so",
                "providerMetadata": {"openai": {"itemId": "rs", "reasoningEncryptedContent": "x", "kept": 1}},
            }
        ],
        [{"type": "reasoning", "text": "so", "providerMetadata": {"openai": {"kept": 1}}}],
    ),
    "empty reasoning goes": (
        [{"type": "reasoning", "text": ""}, {"type": "reasoning", "text": " \n"}, {"type": "text", "text": ""}],
        [{"type": "text", "text": ""}],
    ),
    "redacted thinking stays": (
        [{"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "abc"}}}],
        [{"type": "reasoning", "text": "", "providerMetadata": {"anthropic": {"redactedData": "abc"}}}],
    ),
    "a placeholder emptied by stripping goes": (
        [
            {
                "type": "reasoning",
                "text": "",
                "providerMetadata": {"openai": {"itemId": "rs", "reasoningEncryptedContent": None}},
            }
        ],
        [],
    ),
    "call metadata is stripped": (
        [
            {
                "type": "tool-x",
                "toolCallId": "c",
                "callProviderMetadata": {"openai": {"itemId": "fc"}, "azure": {"itemId": "kept"}},
            }
        ],
        [{"type": "tool-x", "toolCallId": "c", "callProviderMetadata": {"azure": {"itemId": "kept"}}}],
    ),
    "others are unchanged": (
        [
            {
                "type": "text",
                "text": "x",
                "providerMetadata": {"anthropic": {"itemId": "kept"}, "openai": None},
                "resultProviderMetadata": {"openai": {"itemId": "kept"}},
            }
        ],
        [
            {
                "type": "text",
                "text": "x",
                "providerMetadata": {"anthropic": {"itemId": "kept"}, "openai": None},
                "resultProviderMetadata": {"openai": {"itemId": "kept"}},
            }
        ],
    ),
    "reasoning in a field of its own stays": (
        [{"type": "reasoning", "reasoning": "words"}],
        [{"type": "reasoning", "reasoning": "words"}],
    ),
    "large tool output stays whole": (
        [{"type": "tool-x", "providerExecuted": True, "input": "i" * 5000, "output": "o" * 5000}],
        [{"type": "tool-x", "providerExecuted": True, "input": "i" * 5000, "output": "o" * 5000}],
    ),
}


@pytest.mark.parametrize("role", ["assistant", "user"])
@pytest.mark.parametrize("source", ["server", "client"])
@pytest.mark.parametrize(("given", "kept"), CASES.values(), ids=CASES)
async def test_parts_are_sanitized_by_every_write_but_an_import(
    chat: AsyncSession, given: list[dict[str, Any]], kept: list[dict[str, Any]], source: Any, role: str
) -> None:
    for id in ("appended", "updated", "upserted", "many"):
        message = {"id": id, "role": role, "parts": copy.deepcopy(given)}
        if id == "appended":
            result = await chat.append(message, source=source)
            assert result.message.parts == kept
        elif id == "many":
            await chat.append_many([message], source=source)
        else:
            await chat.append(note(id))
            await (chat.update if id == "updated" else chat.upsert)(message, source=source)
        assert message["parts"] == given  # what the caller holds is not changed
        assert await read_back(chat, id) == {"id": id, "role": role, "parts": kept}
    await chat.import_message({"id": "imported", "role": role, "parts": copy.deepcopy(given)}, parent=None)
    assert (await read_back(chat, "imported"))["parts"] == given


async def test_a_message_sanitized_twice_is_the_same(chat: AsyncSession) -> None:
    for given, _ in CASES.values():
        first = (await chat.append({"role": "assistant", "parts": copy.deepcopy(given)})).message
        again = await chat.append(first)
        assert (again.inserted, again.differs) == (False, False)
        assert again.message.to_json() == first.to_json()


@pytest.fixture
async def reserving(tmp_path: Path) -> AsyncIterator[AsyncSessions]:
    async with plait.open_async(
        tmp_path / "r.db", durability="process", reserved_metadata_keys=["secret", "plan"]
    ) as sessions:
        yield sessions


async def test_reserved_metadata_goes_from_client_writes_only(reserving: AsyncSessions) -> None:
    chat = reserving.session("chat")
    metadata = {"secret": 1, "plan": "x", "kept": {"secret": 2}}
    await chat.append(note("server", metadata=dict(metadata)))
    await chat.append(note("client", metadata=dict(metadata)), source="client")
    await chat.append(note("only", metadata={"secret": 1}), source="client")
    await chat.append(note("list", metadata=["secret"]), source="client")
    await chat.append(note("updated"))
    await chat.update(note("updated", metadata=dict(metadata)), source="client")
    await chat.upsert(note("upserted", metadata=dict(metadata)), source="client")
    await chat.import_message(note("imported", metadata=dict(metadata)), parent="server")
    found = {
        id: (await read_back(chat, id)).get("metadata")
        for id in ("server", "client", "only", "list", "updated", "upserted", "imported")
    }
    kept = {"kept": {"secret": 2}}
    assert found == {
        "server": metadata,
        "client": kept,
        "only": None,
        "list": ["secret"],
        "updated": kept,
        "upserted": kept,
        "imported": metadata,
    }
    assert "metadata" not in await read_back(chat, "only")


async def test_without_reserved_keys_a_client_keeps_its_metadata(chat: AsyncSession) -> None:
    await chat.append(note("m", metadata={"secret": 1}), source="client")
    assert (await read_back(chat, "m"))["metadata"] == {"secret": 1}
