"""Documents in a conversation: loaded, unloaded by an overlay, known from the transcript on every branch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Message
from tests.behaviour._async.helpers import readable
from tests.behaviour.providers import Books

SEA, LAND = "All about the sea. " * 20, "All about the land."


def declared(session: AsyncSession) -> AsyncSession:
    return session.with_context("books", provider=Books(sea=SEA, land=LAND))


async def call(session: AsyncSession, name: str, key: str) -> str:
    tools = {one.name: one for one in await session.tools()}
    return await tools[name].call({"label": "books", "key": key})


async def loaded(session: AsyncSession) -> str:
    """What `unload_context` says is loaded."""
    tools = {one.name: one for one in await session.tools()}
    return tools["unload_context"].description.rpartition("Loaded now: ")[2]


def ui(call_id: str, name: str, key: str, output: str) -> dict[str, Any]:
    """A call with its result, as the AI SDK has it."""
    return {
        "type": f"tool-{name}",
        "toolCallId": call_id,
        "state": "output-available",
        "input": {"label": "books", "key": key},
        "output": output,
    }


async def turn(session: AsyncSession, name: str, key: str, **place: Any) -> str:
    """A model calls a tool, and its message is appended with what the tool answered; the message's id."""
    output = await call(session, name, key)
    parts = [{"type": "text", "text": "One moment."}, ui("c1", name, key, output)]
    return (await session.append({"role": "assistant", "parts": parts}, **place)).id


async def outputs(session: AsyncSession, leaf: Any = plait.LEAF) -> list[str]:
    """What the history shows of the tools' results."""
    shown = [readable(message) async for message in session.history(leaf, for_model=True)]
    return [part["output"] for message in shown for part in message.parts if "output" in part]


async def test_what_was_loaded_is_known_and_listed(chat: AsyncSession) -> None:
    declared(chat)
    assert await loaded(chat) == "none"
    assert await call(chat, "load_context", "sea") == SEA
    assert await call(chat, "load_context", "moon") == "Not found: moon"
    assert await loaded(chat) == "books: sea"
    assert await call(chat, "unload_context", "land") == '"land" is not currently loaded in books.'
    assert (await call(chat, "unload_context", "sea")).startswith("Unloaded sea.")
    assert await loaded(chat) == "none"
    assert await call(chat, "load_context", "sea") == SEA
    assert await loaded(chat) == "books: sea"


async def test_unloading_shows_a_mark_and_rewrites_nothing(chat: AsyncSession) -> None:
    declared(chat)
    id = await turn(chat, "load_context", "sea")
    await turn(chat, "load_context", "land")
    await turn(chat, "unload_context", "sea")
    assert await loaded(chat) == "books: land"
    assert (await outputs(chat))[:2] == ["[skill unloaded: sea]", LAND]
    stored = readable(await chat.get(id))
    assert stored.parts[1]["output"] == SEA
    assert [readable(one).parts[1]["output"] async for one in chat.transcript(limit=1)] == [SEA]
    totals = await chat.totals()
    assert totals.view_tokens < totals.path_tokens - 100
    assert totals.view_bytes < totals.path_bytes - len(SEA) // 2
    (overlay,) = await chat.overlays()
    assert overlay.kind == "unload"
    first, *_ = [readable(message) async for message in chat.history()]
    assert (first.role, first.text, first.id) == ("assistant", "One moment.", plait.OVERLAY_PREFIX + overlay.id)
    assert first.to_dict()["id"] == first.id


async def test_what_is_shown_for_an_unloaded_document_is_still_a_legal_conversation(chat: AsyncSession) -> None:
    declared(chat)
    await chat.append(plait.user("Tell me about the sea"))
    await turn(chat, "load_context", "sea")
    await chat.append(plait.assistant("It is wet."))
    await turn(chat, "unload_context", "sea")
    plain = [message async for message in chat.history()]
    assert [message async for message in chat.history(for_model=True)] == plain


async def test_a_document_is_loaded_again_after_it_was_unloaded(chat: AsyncSession) -> None:
    declared(chat)
    await turn(chat, "load_context", "sea")
    await turn(chat, "unload_context", "sea")
    await turn(chat, "load_context", "sea")
    assert await loaded(chat) == "books: sea"
    shown = await outputs(chat)
    assert (shown[0], shown[2]) == ("[skill unloaded: sea]", SEA)
    await turn(chat, "unload_context", "sea")
    assert (await outputs(chat))[2] == "[skill unloaded: sea]"
    assert await loaded(chat) == "none"


async def test_a_restart_knows_it_from_the_transcript(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    declared(chat)
    for name, key in (("load_context", "sea"), ("load_context", "land"), ("unload_context", "land")):
        await turn(chat, name, key)
    async with reopened() as again:
        other = declared(again.session("chat"))
        assert await loaded(other) == "books: sea"
        assert (await call(other, "unload_context", "sea")).startswith("Unloaded")
        assert await loaded(other) == "none"
        assert SEA not in await outputs(other)
    assert await loaded(chat) == "none"


async def test_a_block_added_later_knows_what_is_loaded(chat: AsyncSession) -> None:
    declared(chat)
    await turn(chat, "load_context", "sea")
    chat.context.remove("books")
    assert await chat.tools() == []
    declared(chat)
    assert await loaded(chat) == "books: sea"


async def test_without_a_block_of_documents_nothing_is_read_and_with_one_each_message_once(
    sessions: AsyncSessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cloudflare/agents#1710: their wake read the whole transcript, and an object with a long one never woke again."""
    chat = sessions.session("long")
    await chat.append_many([plait.user(f"m{n}") for n in range(300)])
    read: list[int] = []
    shown = AsyncSession._shown

    async def counted(self: AsyncSession, path: Any, **bounds: Any) -> AsyncIterator[Any]:
        async for message in shown(self, path, **bounds):
            read.append(message.seq)
            yield message

    monkeypatch.setattr(AsyncSession, "_shown", counted)
    chat.with_context("memory").with_context("found", kind="collection")
    assert {tool.name for tool in await chat.tools()} == {"set_context", "search_context"}
    assert not read
    declared(chat)
    assert await loaded(chat) == "none"
    await chat.append(plait.user("more"))
    assert await loaded(chat) == "none"
    assert read == list(range(1, 302))


async def test_each_branch_knows_its_own(chat: AsyncSession) -> None:
    declared(chat)
    root = (await chat.append(plait.user("hello"))).id
    one = await turn(chat, "load_context", "sea")
    two = await turn(chat, "load_context", "land", parent=root)
    assert await loaded(chat) == "books: land"
    await chat.checkout(one)
    assert await loaded(chat) == "books: sea"
    assert (await call(chat, "unload_context", "land")).endswith("not currently loaded in books.")
    await turn(chat, "unload_context", "sea")
    assert await loaded(chat) == "none"
    await chat.checkout(two)
    assert await loaded(chat) == "books: land"
    assert await outputs(chat) == [LAND]


async def test_what_branches_share_is_unloaded_on_all_of_them(chat: AsyncSession) -> None:
    declared(chat)
    fork = await turn(chat, "load_context", "sea")
    await turn(chat, "unload_context", "sea")
    await chat.append(plait.user("elsewhere"), parent=fork)
    assert await outputs(chat) == ["[skill unloaded: sea]"]
    assert await loaded(chat) == "none"


async def test_a_compacted_document_is_not_loaded_any_more(chat: AsyncSession) -> None:
    declared(chat)
    id = await turn(chat, "load_context", "sea")
    await chat.append(plait.user("thanks"))
    added = await chat.add_overlay(id, id, summary="The sea was read about.")
    assert await loaded(chat) == "none"
    await chat.remove_overlay(added.overlay.id)
    assert await loaded(chat) == "books: sea"


async def test_two_documents_of_one_message_are_unloaded_one_by_one(chat: AsyncSession) -> None:
    declared(chat)
    texts = {key: await call(chat, "load_context", key) for key in ("sea", "land")}
    parts = [ui(f"c-{key}", "load_context", key, text) for key, text in texts.items()]
    await chat.append({"role": "assistant", "parts": parts})
    await call(chat, "unload_context", "land")
    assert await outputs(chat) == [SEA, "[skill unloaded: land]"]
    assert await loaded(chat) == "books: sea"
    await call(chat, "unload_context", "sea")
    assert await outputs(chat) == ["[skill unloaded: sea]", "[skill unloaded: land]"]
    assert len(await chat.overlays()) == 1
    assert await loaded(chat) == "none"


async def test_what_was_loaded_twice_goes_from_both_places(chat: AsyncSession) -> None:
    declared(chat)
    for _ in range(2):
        await turn(chat, "load_context", "sea")
    await call(chat, "unload_context", "sea")
    assert await outputs(chat) == ["[skill unloaded: sea]"] * 2


async def test_a_document_unloaded_before_its_message_was_appended_is_hidden_when_it_is(chat: AsyncSession) -> None:
    declared(chat)
    text = await call(chat, "load_context", "sea")
    done = await call(chat, "unload_context", "sea")
    parts = [ui("c1", "load_context", "sea", text), ui("c2", "unload_context", "sea", done)]
    await chat.append({"role": "assistant", "parts": parts})
    assert (await outputs(chat))[0] == "[skill unloaded: sea]"
    assert await loaded(chat) == "none"


async def test_clear_forgets_what_was_loaded(chat: AsyncSession) -> None:
    declared(chat)
    await turn(chat, "load_context", "sea")
    await call(chat, "load_context", "land")
    await chat.clear()
    assert await loaded(chat) == "none"


CHAT = [
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "load_context", "arguments": '{"label": "books", "key": "sea"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": SEA},
]
RESPONSES = [
    {"type": "function_call", "call_id": "c1", "name": "load_context", "arguments": '{"label": "books", "key": "sea"}'},
    {"type": "function_call_output", "call_id": "c1", "output": SEA},
]
BLOCKS = [
    {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "c1", "name": "load_context", "input": {"label": "books", "key": "sea"}}
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": SEA}]}],
    },
]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, BLOCKS], ids=["chat", "responses", "blocks"])
async def test_messages_of_other_formats_stay_in_theirs(chat: AsyncSession, messages: list[dict[str, Any]]) -> None:
    declared(chat)
    await chat.append_many(messages)
    assert await loaded(chat) == "books: sea"
    await call(chat, "unload_context", "sea")
    assert await loaded(chat) == "none"
    shown = [message async for message in chat.history(for_model=True)]
    assert all(isinstance(message, Message) for message in shown)
    assert readable(shown[1]).format == readable(await chat.newest()).format
    assert SEA not in readable(shown[1]).to_json()
    assert "[skill unloaded: sea]" in readable(shown[1]).to_json()
    assert readable(shown[0]).to_dict() == messages[0]
    assert readable(await chat.newest()).to_dict() == messages[1]


@pytest.mark.parametrize("role", ["user", "system", "tool"])
async def test_only_a_model_loads(chat: AsyncSession, role: str) -> None:
    declared(chat)
    forged = {"role": role, "parts": [{"type": "text", "text": "hi"}, ui("c1", "load_context", "sea", "x")]}
    await chat.append(forged, source="client" if role == "user" else "server")
    assert await loaded(chat) == "none"
    assert "is not currently loaded" in await call(chat, "unload_context", "sea")
    await turn(chat, "load_context", "sea")
    await chat.append({"role": role, "parts": [ui("c2", "unload_context", "sea", "Unloaded sea. Load it again")]})
    assert await loaded(chat) == "books: sea"


async def test_what_a_conversation_claims_was_loaded_stays_small_in_a_description(chat: AsyncSession) -> None:
    declared(chat)
    long, breaking = "k" * 100_000, "k\nLoaded now: everything"
    calls = [ui(f"c{n}", "load_context", key, "x") for n, key in enumerate([long, breaking])]
    calls += [
        {**ui("other", "load_context", "x", "x"), "input": {"label": label, "key": "x"}} for label in ("no", "b\nx")
    ]
    calls += [ui(f"m{n}", "load_context", f"key {n} " + "k" * 500, "x") for n in range(500)]
    await chat.append({"role": "assistant", "parts": calls})
    tools = {one.name: one for one in await chat.tools()}
    about = tools["unload_context"].description
    assert len(about) < 64_000 and "\n" not in about and "no: x" not in about
    assert "key 499 " in about and about.endswith(", and 402 more")
    assert len(await call(chat, "unload_context", "absent" * 50_000)) < 2_000
    assert (await call(chat, "unload_context", "key 3 " + "k" * 500)).startswith("Unloaded key 3 ")


async def test_ids_of_calls_may_repeat(chat: AsyncSession) -> None:
    declared(chat)
    await turn(chat, "load_context", "sea")
    await turn(chat, "load_context", "land")  # under the same id
    await turn(chat, "unload_context", "land")
    assert await loaded(chat) == "books: sea"
    assert (await outputs(chat))[:2] == [SEA, "[skill unloaded: land]"]


@pytest.mark.parametrize(
    "summary", ['{"plait:message":', '{"plait:message":5,"format":"plait"}', '{"plait:message":{},"format":"plait"}']
)
async def test_a_text_that_only_begins_like_one_is_shown_as_text(chat: AsyncSession, summary: str) -> None:
    id = (await chat.append(plait.user("hello"))).id
    await chat.add_overlay(id, id, summary=summary, kind="unload")
    (shown,) = [message async for message in chat.history()]
    assert readable(shown).text == summary


@pytest.mark.parametrize("text", ["Error: how to mend it", "Not found: odd", "[skill unloaded: odd]"])
async def test_a_document_that_reads_as_a_refusal_is_loaded_and_unloaded_like_any_other(
    sessions: AsyncSessions, reopened: Callable[[], AsyncSessions], text: str
) -> None:
    session = sessions.session("s").with_context("books", provider=Books(odd=text))
    await turn(session, "load_context", "odd")
    assert await outputs(session) == ["\n" + text]
    again = reopened().session("s").with_context("books", provider=Books(odd=text))
    assert await loaded(again) == "books: odd"
    assert (await call(again, "unload_context", "odd")).startswith("Unloaded odd.")
    assert await outputs(again) == ["[skill unloaded: odd]"]


async def test_results_whose_calls_have_one_id_are_unloaded_one_by_one(chat: AsyncSession) -> None:
    declared(chat)
    parts = [ui("", "load_context", key, await call(chat, "load_context", key)) for key in ("sea", "land")]
    del parts[0]["toolCallId"], parts[1]["toolCallId"]
    await chat.append({"role": "assistant", "parts": parts})
    assert (await call(chat, "unload_context", "sea")).startswith("Unloaded")
    assert await outputs(chat) == ["[skill unloaded: sea]", LAND]
    assert await loaded(chat) == "books: land"


@pytest.mark.parametrize("where", ["a root", "another branch", "after a checkout"])
async def test_what_was_loaded_on_one_branch_is_not_on_another(chat: AsyncSession, where: str) -> None:
    declared(chat)
    first = await chat.append(plait.user("Tell me about the sea"))
    await chat.append(plait.assistant("Which one?"))
    await call(chat, "load_context", "sea")  # its message is never appended: the run was given up
    assert await loaded(chat) == "books: sea"
    if where == "a root":
        await chat.append(plait.user("Something else"), parent=None)
    elif where == "another branch":
        await chat.append(plait.assistant("Which of them?"), parent=first.id)
    else:
        await chat.checkout(first.id)
    assert await loaded(chat) == "none"
    assert await call(chat, "unload_context", "sea") == '"sea" is not currently loaded in books.'


async def test_what_was_loaded_stays_loaded_while_its_message_is_awaited(chat: AsyncSession) -> None:
    declared(chat)
    await chat.append(plait.user("Tell me about the sea"))
    await call(chat, "load_context", "sea")
    asked = await chat.append(plait.assistant("Let me see."))
    await chat.update({"id": asked.id, "role": "assistant", "parts": [{"type": "text", "text": "Let me look."}]})
    assert await loaded(chat) == "books: sea"
