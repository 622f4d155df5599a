"""The Claude Agent SDK's session store on plait."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="needs claude-agent-sdk: pip install 'plait[claude]' (384 MB)")

import plait
from plait.adapters.claude import ClaudeSessionStore, tools

sdk: Any = importlib.import_module("claude_agent_sdk")
KEY: dict[str, str] = {"project_key": "-home-ann", "session_id": "s"}
SUB = {**KEY, "subpath": "subagents/agent-1"}


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[plait.AsyncSessions]:
    async with plait.open_async(store_at, durability="process") as opened:
        yield opened


@pytest.fixture
def store(sessions: plait.AsyncSessions) -> ClaudeSessionStore:
    return ClaudeSessionStore(sessions)


def line(uuid: str, kind: str, content: Any, parent: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"role": kind, "content": content}
    return {"uuid": uuid, "parentUuid": parent, "type": kind, "sessionId": "s", "message": said, **more}


def result(uuid: str, call: str, parent: str) -> dict[str, Any]:
    return line(uuid, "user", [{"type": "tool_result", "tool_use_id": call, "content": "sun"}], parent)


def call(uuid: str, id: str, parent: str) -> dict[str, Any]:
    return line(uuid, "assistant", [{"type": "tool_use", "id": id, "name": "weather", "input": {"n": 2**70}}], parent)


async def test_the_sdks_own_contract_holds(sessions: plait.AsyncSessions) -> None:
    numbers = itertools.count()
    testing = importlib.import_module("claude_agent_sdk.testing")
    await testing.run_session_store_conformance(lambda: ClaudeSessionStore(sessions.scoped("test", f"{next(numbers)}")))


async def test_entries_come_back_as_they_were(store: ClaudeSessionStore, tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAECAw=="}}
    entries = [
        {"type": "mode", "value": "x\x00", "\ud99c": "half \ud83d"},
        line("u1", "user", [image, {"type": "text", "text": ""}], zebra=1, alpha=1.0),
        line("a1", "assistant", [{"type": "thinking", "thinking": "", "signature": "s" * 500}], "u1"),
        {"type": "summary", "summary": "Of it", "leafUuid": "a1"},
    ]
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries
    assert [list(entry) for entry in await store.load(KEY) or []] == [list(entry) for entry in entries]
    async with plait.open_async(tmp_path / "store.db") as again:
        assert await ClaudeSessionStore(again).load(KEY) == entries


async def test_a_repeat_is_stored_once(store: ClaudeSessionStore) -> None:
    entries = [line("u1", "user", "Hi"), line("a1", "assistant", "Hello", "u1"), line("u2", "user", "Well?", "a1")]
    await store.append(KEY, entries[:2])
    await store.append(KEY, entries)
    await asyncio.gather(*(store.append(KEY, entries[1:]) for _ in range(4)))
    assert await store.load(KEY) == entries
    await store.append(SUB, entries)
    await store.append({**KEY, "session_id": "other"}, entries)
    assert await store.load(KEY) == entries == await store.load(SUB)
    bare = {"type": "tag", "tag": "x"}
    for uuid in (None, "", " ", 7):
        await store.append(KEY, [{**bare, "uuid": uuid}])
    await store.append(KEY, [bare, bare])
    assert len(await store.load(KEY) or []) == 9, "without a uuid nothing is known to be a repeat"


async def test_results_of_tools_that_ran_at_once_are_one_turn(store: ClaudeSessionStore) -> None:
    turn = [
        line("u1", "user", "Weather?"),
        call("a1", "c1", "u1"),
        call("a2", "c2", "a1"),
        result("r1", "c1", "a1"),
        result("r2", "c2", "a2"),
        line("a3", "assistant", "Sun.", "r2"),
    ]
    for entry in turn:
        await store.append(KEY, [entry])
    chat = store.handle(KEY)
    assert [message.role async for message in chat.history(for_model=True)] == [
        "user", "assistant", "assistant", "tool", "tool", "assistant",
    ]  # fmt: skip
    assert len(await chat.leaves()) == 1 and [hit.id for hit in await chat.search("sun")] == ["a3"]


async def test_a_prompt_from_an_earlier_point_is_a_branch(store: ClaudeSessionStore) -> None:
    await store.append(
        KEY,
        [
            line("u1", "user", "One"),
            line("a1", "assistant", "1", "u1"),
            {"type": "file-history-snapshot", "messageId": "a1"},
            line("u2", "user", "Two", "a1"),
            line("a2", "assistant", "2", "u2"),
            line("u3", "user", "Other", "a1"),
            line("a3", "assistant", "3", "u3"),
        ],
    )
    chat = store.handle(KEY)
    assert [message.text async for message in chat.history() if message.role != "meta"] == ["One", "1", "Other", "3"]  # type: ignore[union-attr]
    assert [leaf.id for leaf in await chat.leaves()][-1] == "a3"
    assert [entry.get("uuid") for entry in await store.load(KEY) or []] == ["u1", "a1", None, "u2", "a2", "u3", "a3"]


async def test_claudes_own_compaction_hides_what_it_summarized(store: ClaudeSessionStore) -> None:
    chat, last, total = store.handle(KEY), None, 0
    for n in range(3):
        boundary = {"uuid": f"b{n}", "parentUuid": None, "logicalParentUuid": last, "type": "system"}
        batch = [
            line(f"u{n}", "user", f"Ask {n}", last),
            line(f"a{n}", "assistant", f"Answer {n}", f"u{n}"),
            {**boundary, "subtype": "compact_boundary", "content": "Conversation compacted"},
            line(f"s{n}", "user", f"Summary {n}", f"b{n}", isCompactSummary=True),
        ]
        await store.append(KEY, batch)
        await store.append(KEY, batch)
        last, total = f"s{n}", total + 4
        assert [message.id async for message in chat.history()] == [f"b{n}", f"s{n}"]
        assert len(await store.load(KEY) or []) == total == len([m async for m in chat.transcript()])
    assert [message.role async for message in chat.history()] == ["meta", "summary"]


async def test_a_kept_segment_is_not_hidden(store: ClaudeSessionStore) -> None:
    kept = {"preservedSegment": {"headUuid": "u2", "tailUuid": "a2"}}
    boundary = {"uuid": "b", "parentUuid": None, "type": "system", "subtype": "compact_boundary", "content": "c"}
    await store.append(
        KEY,
        [
            line("u1", "user", "One"),
            line("a1", "assistant", "1", "u1"),
            line("u2", "user", "Two", "a1"),
            line("a2", "assistant", "2", "u2"),
            {**boundary, "compactMetadata": kept},
        ],
    )
    assert [message.id async for message in store.handle(KEY).history()] == ["u2", "a2", "b"]


async def test_a_summary_comes_before_what_is_kept_beside_it(store: ClaudeSessionStore) -> None:
    last, total = None, 0
    for n in range(3):
        kept = {"preservedSegment": {"headUuid": f"v{n}", "tailUuid": f"b{n}"}}
        boundary = {"uuid": f"c{n}", "parentUuid": None, "type": "system", "subtype": "compact_boundary"}
        batch = [
            line(f"u{n}", "user", f"One {n}", last),
            line(f"a{n}", "assistant", "1", f"u{n}"),
            line(f"v{n}", "user", f"Two {n}", f"a{n}"),
            line(f"b{n}", "assistant", "2", f"v{n}"),
            {**boundary, "content": "c", "compactMetadata": kept},
            line(f"s{n}", "user", f"Of it {n}", f"c{n}", isCompactSummary=True),
        ]
        for _ in range(2):
            for part in (batch[:4], batch[4:5], batch[5:]):
                await store.append(KEY, part)
        last, total = f"b{n}", total + 6
        shown = [m.text async for m in store.handle(KEY).history(for_model=True) if isinstance(m, plait.Message)]
        assert shown == [f"Of it {n}", f"Two {n}", "2"]
        assert len(await store.load(KEY) or []) == total == len([m async for m in store.handle(KEY).transcript()])
        assert len(await store.handle(KEY).leaves()) == 1


async def test_a_branch_begins_where_a_prompt_goes_on_from_whatever_is_noted_between(store: ClaudeSessionStore) -> None:
    """Claude Code notes a change of model, or of files, between the two."""
    note = {"type": "system", "subtype": "informational", "content": "The model changed"}
    begun = [line("u1", "user", "One"), line("a1", "assistant", "1", "u1")]
    first = [
        {**note, "uuid": "n1", "parentUuid": "a1"},
        line("u2", "user", "Two", "n1"),
        line("a2", "assistant", "2", "u2"),
    ]
    second = [
        {**note, "uuid": "n2", "parentUuid": "a1"},
        line("u3", "user", "Three", "n2"),
        line("a3", "assistant", "3", "u3"),
    ]
    entries = [*begun, *first, *second]
    for n, sizes in enumerate(([8], [1] * 8, [2, 3, 3], [5, 1, 2])):
        key, rest = {**KEY, "session_id": f"s{n}"}, iter(entries)
        for size in sizes:
            await store.append(key, list(itertools.islice(rest, size)))
        chat = store.handle(key)
        shown = [m.id async for m in chat.history(for_model=True) if isinstance(m, plait.Message)]
        assert shown == ["u1", "a1", "u3", "a3"], sizes
        assert await store.load(key) == entries and len(await chat.leaves()) == 2
    ring = [
        {**note, "uuid": "x", "parentUuid": "y"},
        {**note, "uuid": "y", "parentUuid": "x"},
        line("z", "user", "Z", "y"),
    ]
    await store.append({**KEY, "session_id": "ring"}, ring)
    await store.append({**KEY, "session_id": "ring"}, [line("zz", "user", "Z", "x")])


async def test_a_prompt_in_the_queue_is_found_once(store: ClaudeSessionStore) -> None:
    queued = {"type": "queue-operation", "operation": "enqueue", "content": "Where is it?", "sessionId": "s"}
    await store.append(KEY, [queued, line("u1", "user", "Where is it?")])
    assert [hit.id for hit in await store.handle(KEY).search("where")] == ["u1"]


def test_a_policy_is_refused() -> None:
    with plait.open(":memory:") as sessions, pytest.raises(plait.UsageError, match="compacts its sessions itself"):
        ClaudeSessionStore(sessions, compaction=1000)  # type: ignore[arg-type]


async def test_a_policy_of_a_sessions_own_hides_nothing_from_claude_code(store: ClaudeSessionStore) -> None:
    """It shortens the history for others that go on with the session, before and after Claude Code compacts."""
    asked: list[str] = []

    def summarize(prompt: str) -> str:
        asked.append(prompt)
        return "They spoke at length."

    handle = store.handle(KEY)
    handle.on_compaction(plait.compact_function(summarize, keep_recent_tokens=50, protect_head=1))
    handle.compact_after(200)
    entries = [line("u0", "user", "Begin")]
    for n in range(12):
        kind = "assistant" if n % 2 == 0 else "user"
        entries.append(line(f"m{n}", kind, f"{n}: " + "so much to say " * 10, entries[-1]["uuid"]))
    for entry in entries:
        await store.append(KEY, [entry])
    assert asked and await store.load(KEY) == entries
    shown = [message.text async for message in handle.history() if isinstance(message, plait.Message)]
    assert "They spoke at length." in shown and len(shown) < len(entries)
    boundary = {"uuid": "b", "parentUuid": None, "type": "system", "subtype": "compact_boundary", "content": "c"}
    summary = line("sum", "user", "This session is being continued...", "b", isCompactSummary=True)
    await store.append(KEY, [boundary, summary])
    assert await store.load(KEY) == [*entries, boundary, summary]
    said = [message.text async for message in handle.history(for_model=True)]
    assert said == ["This session is being continued..."]


async def test_summaries_are_folded_from_what_is_new(store: ClaudeSessionStore) -> None:
    assert await store.list_session_summaries("-home-ann") == []
    for n in range(3):
        await store.append(KEY, [line(f"u{n}", "user", f"Ask {n}", timestamp=f"2026-01-01T00:00:0{n}.000Z")])
        (summary,), (listed,) = await store.list_session_summaries("-home-ann"), await store.list_sessions("-home-ann")
        assert summary["mtime"] == listed["mtime"] > 1e12
        whole = sdk.fold_session_summary(None, KEY, await store.load(KEY))
        assert summary["data"] == whole["data"]
    assert await store.list_session_summaries("-home-ann") == [summary], "looking makes nothing newer"


async def test_projects_and_paths_are_data(store: ClaudeSessionStore, sessions: plait.AsyncSessions) -> None:
    names = ["a_b", "aXb", "%", "../../etc/x", '["","a_b"]', "[", "日本", "a/b"]
    for project in names:
        for id in names[:3]:
            key = {"project_key": project, "session_id": id}
            await store.append(key, [line("u", "user", f"{project} {id}")])
            await store.append({**key, "subpath": project}, [line("u", "user", "sub")])
    for project in names:
        assert sorted(found["session_id"] for found in await store.list_sessions(project)) == sorted(names[:3])
        key = {"project_key": project, "session_id": "%"}
        (entry,) = await store.load(key) or []
        assert entry["message"]["content"] == f"{project} %"
        assert await store.list_subkeys(key) == [project]
        await store.delete(key)
        assert await store.load({**key, "subpath": project}) is None
    other = ClaudeSessionStore(sessions.scoped("", "a_b"))
    assert await other.list_sessions("a_b") == []


async def test_plaits_tools_are_the_sdks(sessions: plait.AsyncSessions) -> None:
    chat = sessions.session("chat", context=["memory"])
    (tool,) = await tools(chat)
    assert tool.name == "set_context" and tool.input_schema["type"] == "object"
    answer = await tool.handler({"label": "memory", "content": "Likes tea."})
    assert answer["content"][0]["text"].startswith("Written to memory.")
    assert sdk.create_sdk_mcp_server("plait", tools=[tool])["name"] == "plait"
    assert "Likes tea." in await chat.freeze_system_prompt()


async def test_the_frozen_prompt_is_appended_to_claude_codes_own(sessions: plait.AsyncSessions) -> None:
    """As the how-to merges them: by the arguments that the SDK starts Claude Code with."""
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

    chat = sessions.session("chat", context=["memory"])
    await chat.context.replace("memory", "Likes tea.")
    prompt = await chat.freeze_system_prompt()
    merged: Any = {"type": "preset", "preset": "claude_code", "append": f"Be brief.\n\n{prompt}"}
    for given, flag, text in (
        (merged, "--append-system-prompt", merged["append"]),
        (prompt, "--system-prompt", prompt),
    ):
        options = sdk.ClaudeAgentOptions(system_prompt=given, cli_path="claude")
        command = SubprocessCLITransport(prompt="Hi", options=options)._build_command()
        assert "Likes tea." in text and command[command.index(flag) + 1] == text


async def test_what_another_framework_said_is_loaded_as_entries_and_listed(store: ClaudeSessionStore) -> None:
    chat = store.handle(KEY)
    await chat.append({"role": "user", "content": "Weather in Lyon?"})
    await chat.append({"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"})
    await chat.append({"type": "function_call_output", "call_id": "c1", "output": "sun"})
    entries = await store.load(KEY) or []
    assert [entry["type"] for entry in entries] == ["user", "assistant", "user"]
    assert [entry["parentUuid"] for entry in entries] == [None, entries[0]["uuid"], entries[1]["uuid"]]
    await store.append(KEY, [line("a1", "assistant", "Sun.", entries[-1]["uuid"])])
    assert await store.load(KEY) == [*entries, line("a1", "assistant", "Sun.", entries[-1]["uuid"])]
    assert [message.role async for message in chat.history()] == ["user", "assistant", "tool", "assistant"]
    (listed,) = await sdk.list_sessions_from_store(store, directory="/home/ann")
    assert (listed.session_id, listed.first_prompt) == ("s", "Weather in Lyon?")


async def test_claude_code_goes_on_after_what_another_framework_said(store: ClaudeSessionStore) -> None:
    """It does from where its newest note of a prompt says: its own last entry, if nobody has gone on since."""
    entries = [
        line("u1", "user", "Hi"),
        line("a1", "assistant", "Hello.", "u1"),
        {"type": "attachment", "uuid": "n1", "parentUuid": "a1", "attachment": {"type": "prompt_snapshot"}},
        {"type": "last-prompt", "lastPrompt": "Hi", "leafUuid": "n1", "sessionId": "s"},
    ]
    await store.append(KEY, entries)
    assert await store.load(KEY) == entries
    await store.handle(KEY).append({"role": "user", "content": "Weather in Lyon?"}, parent="a1")
    *before, note, other = await store.load(KEY) or []
    assert before == entries[:3] and other["message"]["content"] == "Weather in Lyon?"
    assert other["parentUuid"] == "a1" and note == {**entries[3], "leafUuid": other["uuid"]}
    await store.append(KEY, [line("a2", "assistant", "Sun.", other["uuid"]), {**entries[3], "leafUuid": "a2"}])
    assert (await store.load(KEY) or [])[-1]["leafUuid"] == "a2"
