"""plait under OpenAI's Agents SDK: its session protocol, limits, taking back, tools, instructions, usage."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions

agents = pytest.importorskip("agents", reason="needs openai-agents: pip install 'plait[openai]'")

from agents.memory import session as protocol  # noqa: E402  # after the skip
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402  # likewise

from plait.adapters import openai_agents  # noqa: E402  # likewise
from plait.adapters.openai_agents import PlaitSession  # noqa: E402  # likewise

agents.set_tracing_disabled(True)

CALLS = ("c1", "c2", "c3")
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Three things, please."},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA…", "status": None},
    *({"type": "function_call", "id": f"f{id}", "call_id": id, "name": "look", "arguments": "{}"} for id in CALLS),
    *({"type": "function_call_output", "call_id": id, "output": f"result of {id}"} for id in CALLS),
    {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "All there."}]},
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Here they are.", "annotations": [], "logprobs": []}],
    },
]
ODD: list[dict[str, Any]] = [
    {},
    {"type": "no_such_type", "z": 1, "a": [None, True, 1.0, 2**70], "id": ""},
    {"type": "compaction", "encrypted_content": "x", "id": "cmp_1"},
    {"type": "item_reference", "id": "msg_1"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]},
    {"role": "user", "content": "\x00 \ud800 \u202e", "parts": "none of plait's"},
    {"__enc__": 1, "v": 1, "kid": "hkdf-v1", "payload": "gAAAA"},
    {"role": "assistant", "content": "", "id": "__fake_id__"},
    {"type": "function_call_output", "call_id": "absent", "output": [{"type": "input_text", "text": "a"}]},
]


@pytest.fixture
async def sessions(store_at: str) -> AsyncIterator[AsyncSessions]:
    async with plait.open_async(store_at) as opened:
        yield opened


@pytest.fixture
def chat(sessions: AsyncSessions) -> AsyncSession:
    return sessions.session("chat")


@pytest.fixture
def session(chat: AsyncSession) -> PlaitSession:
    return PlaitSession(chat)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def texts(items: list[Any]) -> list[Any]:
    return [item.get("content") for item in items]


# -- the protocol ----------------------------------------------------------------------


async def test_it_is_a_session_that_takes_a_context_on_every_call(session: PlaitSession) -> None:
    assert isinstance(session, agents.memory.Session)
    assert session.session_id == "chat"
    assert protocol._session_accepts_wrapper(session)
    assert protocol.is_openai_responses_compaction_aware_session(session)
    context: Any = agents.RunContextWrapper(None)
    await session.add_items([said("hello")], wrapper=context)
    assert await session.get_items(5, wrapper=context) == [said("hello")]
    assert await session.pop_item(wrapper=context) == said("hello")
    await session.clear_session(wrapper=context)
    await session.run_compaction({"response_id": "resp_1"}, wrapper=context)


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_items_come_back_equal_also_those_that_repeat_an_id(threaded: bool, tmp_path: Path) -> None:
    items: list[Any] = [*ITEMS, *ODD, *ITEMS]
    if threaded:
        with plait.open(tmp_path / "store.db") as opened:
            await keeps(PlaitSession(opened.session("chat")), items)
    else:
        async with plait.open_async(tmp_path / "store.db") as opened_async:
            await keeps(PlaitSession(opened_async.session("chat")), items)
    with plait.open(tmp_path / "store.db") as again:
        assert [
            message.to_dict() for message in again.session("chat").history() if isinstance(message, plait.Message)
        ] == items


async def keeps(session: PlaitSession, items: list[Any]) -> None:
    await session.add_items(items[:7])
    await session.add_items([])
    await session.add_items(items[7:])
    found = await session.get_items()
    assert found == items
    assert [list(item) for item in found] == [list(item) for item in items]  # the order of keys, too
    assert await session.get_items(limit=3) == items[-3:]
    for item in reversed(items):
        assert await session.pop_item() == item
    assert await session.pop_item() is None
    await session.chat.checkout(await newest(session)) if inspect.iscoroutinefunction(session.chat.checkout) else (
        session.chat.checkout(await newest(session))
    )


async def newest(session: PlaitSession) -> str:
    found: Any = session.chat.newest()
    message = await found if inspect.isawaitable(found) else found
    return str(message.id)


async def test_what_json_cannot_say_is_refused_and_nothing_of_the_batch_is_stored(session: PlaitSession) -> None:
    for bad in ({"content": {1, 2}}, {"content": float("nan")}, {1: "one"}):
        with pytest.raises(plait.InvalidMessageError, match=r"messages\[1\]"):
            await session.add_items([said("fine"), bad])  # type: ignore[list-item]
    assert await session.get_items() == []
    await session.add_items([said("fine")])
    assert await session.get_items() == [said("fine")]


async def test_a_closed_store_says_so_even_to_nothing(sessions: AsyncSessions, session: PlaitSession) -> None:
    await sessions.close()
    for call in (lambda: session.add_items([]), session.get_items, session.pop_item, session.clear_session):
        with pytest.raises(plait.ClosedError):
            await call()


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_many_that_add_at_once_lose_nothing(threaded: bool, tmp_path: Path) -> None:
    opened = plait.open(tmp_path / "s.db") if threaded else None
    opened_async = None if threaded else plait.open_async(tmp_path / "s.db")
    chat: Any = (opened or opened_async).session("chat")  # type: ignore[union-attr]
    session = PlaitSession(chat)
    await asyncio.gather(*(session.add_items([said(f"{n}"), said(f"{n}+")]) for n in range(20)))  # type: ignore[list-item]
    found = texts(await session.get_items())
    assert sorted(found) == sorted([f"{n}" for n in range(20)] + [f"{n}+" for n in range(20)])
    assert all(found[at + 1] == f"{text}+" for at, text in enumerate(found) if not text.endswith("+"))
    taken = await asyncio.gather(*(session.pop_item() for _ in range(10)))
    assert len({str(item) for item in taken}) == 10
    assert len(await session.get_items()) == 30
    if opened is not None:
        opened.close()
    if opened_async is not None:
        await opened_async.close()


# -- limits --------------------------------------------------------------------------


@pytest.mark.parametrize("limit", range(12))
async def test_the_sessions_own_limit_parts_nothing_that_belongs_together(chat: AsyncSession, limit: int) -> None:
    session = PlaitSession(chat, session_settings={"limit": limit})
    await session.add_items(ITEMS)  # type: ignore[arg-type]
    found: list[Any] = list(await session.get_items())
    assert found == ITEMS[len(ITEMS) - len(found) :]
    assert len(found) == {0: 0, 1: 0, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 2, 9: 9}.get(limit, len(ITEMS))
    for most in (limit, limit + 1):  # one that somebody names is taken at its word
        assert await session.get_items(most) == (ITEMS[-most:] if most else [])


@pytest.mark.parametrize("limit", range(1, 11))
@pytest.mark.parametrize("streamed", [False, True])
async def test_no_limit_lets_a_model_see_a_piece_of_what_was_cut_off(
    chat: AsyncSession, limit: int, streamed: bool
) -> None:
    whole = {1: 0, 9: 9, 10: 10}.get(limit, 2)  # no item without the reasoning before it, no result without its call
    for settings, config in ((None, limit), ({"limit": limit}, None), ({"limit": 99}, limit), ({"limit": 1}, limit)):
        await chat.clear()
        session = PlaitSession(chat, session_settings=settings)
        await session.add_items(ITEMS)  # type: ignore[arg-type]
        model = ScriptedModel([[assistant_message("Yes.")]])
        own = agents.RunConfig(session_settings=None if config is None else agents.SessionSettings(limit=config))
        await run(agents.Agent(name="a", model=model), "And?", session, streamed, run_config=own)
        seen = [item.get("id", item.get("call_id")) for item in model.calls[0].input[:-1]]
        assert seen == [item.get("id", item.get("call_id")) for item in ITEMS[len(ITEMS) - whole :]]
        assert model.calls[0].input[-1] == said("And?")


async def test_a_limit_passes_over_a_result_whose_call_is_nowhere(chat: AsyncSession) -> None:
    session = PlaitSession(chat, session_settings={"limit": 5})
    await session.add_items([said("a"), ODD[-1], said("b")])  # type: ignore[list-item]
    assert await session.get_items() == [said("a"), said("b")]


async def test_what_a_run_could_not_save_is_saved_once_whatever_the_limit(chat: AsyncSession) -> None:
    """A run that goes on compares the newest items with what it wrote, whether or not they are whole."""

    class Cut(PlaitSession):
        """Loses the answer to a write, once."""

        cut = False

        async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
            await super().add_items(items, wrapper=wrapper)
            if self.cut and items[0].get("type") == "function_call_output":
                self.cut = False
                raise ConnectionError("the line was cut")

    search = {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
    searched = [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        *({**search, "id": f"ws_{n}"} for n in range(3)),
        function_call("look", {}, call_id="c1"),
    ]

    @agents.function_tool(needs_approval=True)
    def look() -> str:
        """Look."""
        return "seen"

    session = Cut(chat, session_settings={"limit": 2})
    model = ScriptedModel([searched, [assistant_message("Yes.")]])
    agent = agents.Agent(name="a", model=model, tools=[look])
    state = (await agents.Runner.run(agent, "Look.", session=session)).to_state()
    state.approve(state.get_interruptions()[0])
    session.cut = True
    with pytest.raises(ConnectionError):
        await agents.Runner.run(agent, state, session=session)
    await agents.Runner.run(agent, state, session=session)
    assert [row.role async for row in chat.transcript()].count("tool") == 1


async def run(agent: Any, given: Any, session: PlaitSession, streamed: bool, **options: Any) -> Any:
    if not streamed:
        return await agents.Runner.run(agent, given, session=session, **options)
    result = agents.Runner.run_streamed(agent, given, session=session, **options)
    async for _ in result.stream_events():
        pass
    return result


async def test_a_limit_counts_what_can_be_read_and_passes_over_the_rest(session: PlaitSession) -> None:
    await session.add_items([said(str(n)) for n in range(4)])  # type: ignore[misc]
    assert texts(await session.get_items(-1)) == ["0", "1", "2", "3"]
    assert texts(await session.get_items(99)) == ["0", "1", "2", "3"]
    assert await session.get_items(0) == []


def test_settings_are_the_sdks_own(chat: AsyncSession) -> None:
    settings = agents.SessionSettings(limit=3)
    assert PlaitSession(chat, session_settings=settings).session_settings == settings
    assert PlaitSession(chat, session_settings={"limit": 3}).session_settings == settings
    assert PlaitSession(chat).session_settings == agents.SessionSettings()
    session = PlaitSession(chat)
    session.session_settings = {"limit": 2}  # type: ignore[assignment]
    assert session.session_settings.limit == 2
    with pytest.raises((TypeError, ValueError)):
        PlaitSession(chat, session_settings={"no_such": 3})


# -- taking back ---------------------------------------------------------------------------


async def test_what_is_taken_back_stays_as_a_branch(chat: AsyncSession, session: PlaitSession) -> None:
    await session.add_items([said("a"), said("b"), said("c")])  # type: ignore[list-item]
    whole = await chat.leaf()
    assert whole is not None
    assert [await session.pop_item(), await session.pop_item()] == [said("c"), said("b")]
    await session.add_items([said("d")])  # type: ignore[list-item]
    assert texts(await session.get_items()) == ["a", "d"]
    assert len(await chat.leaves()) == 2
    await chat.checkout(whole.id)
    assert texts(await session.get_items()) == ["a", "b", "c"]
    await session.clear_session()
    assert (await session.get_items(), await session.pop_item()) == ([], None)
    await session.add_items([said("e")])  # type: ignore[list-item]
    assert texts(await session.get_items()) == ["e"]
    assert (await chat.totals()).messages == 5


async def test_erasing_leaves_nothing(chat: AsyncSession) -> None:
    session = PlaitSession(chat, erase=True)
    await session.add_items([said("a"), said("b"), said("c")])  # type: ignore[list-item]
    assert await session.pop_item() == said("c")
    assert await session.pop_item(erase=False) == said("b")
    assert (await chat.totals()).messages == 2
    await session.clear_session()
    assert (await chat.totals()).messages == 0
    assert await session.pop_item() is None
    await session.add_items([said("d")])  # type: ignore[list-item]
    assert texts(await session.get_items()) == ["d"]


@pytest.mark.parametrize("erase", [False, True])
async def test_a_summary_is_taken_back_in_one_piece(chat: AsyncSession, erase: bool) -> None:
    session = PlaitSession(chat, erase=erase)
    await session.add_items([said(text) for text in "abcd"])  # type: ignore[misc]
    ids = [message.id async for message in chat.transcript()]
    await chat.add_overlay(ids[1], ids[3], summary="b to d")
    assert await session.pop_item() == {"role": "assistant", "content": "b to d"}
    assert texts(await session.get_items()) == ["a"]
    assert (await chat.totals()).messages == (1 if erase else 4)


async def test_rewinding_goes_back_to_before_what_was_said(chat: AsyncSession, session: PlaitSession) -> None:
    assert await session.rewind() is None
    await session.add_items([said("one"), *ITEMS[1:], said("two"), ITEMS[-1]])  # type: ignore[list-item]
    assert await session.rewind(9) is None
    for turns in (0, -1, True, "1", None):
        with pytest.raises(plait.UsageError, match="turns"):
            await session.rewind(turns)  # type: ignore[arg-type]
    assert await session.rewind() == said("two")
    assert await session.get_items() == [said("one"), *ITEMS[1:]]
    assert await session.rewind() == said("one")
    assert await session.get_items() == []
    assert len(await chat.leaves()) == 1


async def test_messages_of_others_are_shown_as_items(chat: AsyncSession, session: PlaitSession) -> None:
    call = {"type": "dynamic-tool", "toolName": "look", "toolCallId": "c1", "state": "output-available", "input": {}}
    await chat.append(plait.user("hello"))
    await chat.append({"role": "assistant", "parts": [{**call, "output": "seen"}, {"type": "text", "text": "I saw."}]})
    await chat.append({"role": "assistant", "content": "Hi."})
    await session.add_items([said("again")])  # type: ignore[list-item]
    found: list[Any] = list(await session.get_items())
    assert [item.get("type", item.get("role")) for item in found] == [
        *("user", "function_call", "function_call_output", "assistant"),
        *("assistant", "user"),
    ]
    assert (found[1]["call_id"], found[2]["call_id"], found[2]["output"]) == ("c1", "c1", "seen")
    for limit in range(1, 7):
        assert await session.get_items(limit) == found[-limit:]
    assert [hit.snippet for hit in await chat.search("again")] == ["again"]
    assert await session.pop_item() == found[-1]
    assert await session.pop_item() == found[-2]
    assert await session.pop_item() == found[-3]  # one message: it goes as a whole
    assert await session.get_items() == found[:1]


# -- what an agent is given -------------------------------------------------------------------


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_an_agent_is_given_the_tools_and_the_frozen_prompt_beside_its_own(threaded: bool, tmp_path: Path) -> None:
    block = plait.BlockSpec("memory", description="Facts", max_tokens=100)
    opened: Any = plait.open(tmp_path / "s.db") if threaded else plait.open_async(tmp_path / "s.db")
    chat = opened.session("chat", context=[block], cached_prompt=True)
    given = {"label": "memory", "content": "The cat is called Schnurr."}
    model = ScriptedModel(
        [
            [function_call("set_context", given, call_id="c1"), function_call("mine", {}, call_id="c2")],
            [assistant_message("Done.")],
        ]
    )

    @agents.function_tool
    def mine() -> str:
        """A tool of the application's own."""
        return "my own"

    agent = agents.Agent(
        name="a",
        model=model,
        tools=[mine, *await openai_agents.tools(chat)],
        instructions=openai_agents.instructions(chat, "Be kind."),
    )
    session = PlaitSession(chat)
    await agents.Runner.run(agent, "Remember my cat.", session=session)
    assert [tool.name for tool in model.calls[0].tools] == ["mine", "set_context"]
    assert model.calls[0].system_instructions.startswith("Be kind.\n\n")
    assert "MEMORY (Facts)" in model.calls[0].system_instructions
    assert model.calls[1].system_instructions == model.calls[0].system_instructions
    outputs = [item["output"] for item in await session.get_items() if item.get("type") == "function_call_output"]
    assert outputs[0].startswith("Written to memory.") and outputs[1] == "my own"
    refreshed: Any = chat.refresh_system_prompt()
    assert "Schnurr" in (await refreshed if inspect.isawaitable(refreshed) else refreshed)
    closed: Any = opened.close()
    await closed if inspect.isawaitable(closed) else None


async def test_instructions_may_be_a_function_or_none(sessions: AsyncSessions) -> None:
    chat = sessions.session("chat", context=["memory"])
    agent: Any = agents.Agent(name="a")
    context: Any = agents.RunContextWrapper("me")

    async def own(context: Any, agent: Any) -> str:
        return f"For {context.context} by {agent.name}."

    frozen = await chat.freeze_system_prompt()
    assert await openai_agents.instructions(chat)(context, agent) == frozen
    assert await openai_agents.instructions(chat, own)(context, agent) == f"For me by a.\n\n{frozen}"
    assert await openai_agents.instructions(chat, lambda *_: "Be kind.")(context, agent) == f"Be kind.\n\n{frozen}"
    assert await openai_agents.instructions(sessions.session("bare"))(context, agent) == ""


async def test_the_usage_of_runs_is_added_up(sessions: AsyncSessions, chat: AsyncSession) -> None:
    session = PlaitSession(chat)
    for _ in range(2):
        used = agents.Usage(requests=1, input_tokens=10, output_tokens=3, total_tokens=13)
        model = ScriptedModel([{"output": [assistant_message("Yes.")], "usage": used}])
        await session.store_run_usage(await run(agents.Agent(name="a", model=model), "And?", session, False))
    info = await sessions.get("chat")
    assert info is not None
    assert (info.usage.input_tokens, info.usage.output_tokens) == (20, 6)
