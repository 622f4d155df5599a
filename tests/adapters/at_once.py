"""One process of several that write through an adapter at the same time: `python -m tests.adapters.at_once NAME FILE WHO N`.

It says `ready` when all is imported, and begins when a line comes in.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import plait
from plait import AsyncSessions

Writing = Callable[[AsyncSessions, str, int], Awaitable[None]]
APP, USER, ID = "shop", "ann", "chat"
KEY: Any = {"project_key": "work", "session_id": ID}


def openai() -> Writing:
    from plait.adapters.openai_agents import PlaitSession

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        session = PlaitSession(sessions.session(ID))
        for k in range(n):
            call = {"type": "function_call", "call_id": f"{who}{k}", "name": "f", "arguments": "{}"}
            result = {"type": "function_call_output", "call_id": f"{who}{k}", "output": "r"}
            items: Any = [{"role": "user", "content": f"{who}-{k}"}, call, result]
            await session.add_items(items)

    return write


def langchain() -> Writing:
    from langchain_core.messages import AIMessage, HumanMessage

    from plait.adapters.langchain import PlaitChatMessageHistory

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        history = PlaitChatMessageHistory(sessions.session(ID))
        for k in range(n):
            await history.aadd_messages([HumanMessage(f"{who}-{k}"), AIMessage("yes")])

    return write


def langgraph() -> Writing:
    from langgraph.graph import START, MessagesState, StateGraph

    from plait.adapters.langgraph import PlaitSaver, PlaitStore

    async def answer(state: Any) -> Any:
        return {"messages": [("ai", "yes")]}

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("answer", answer)
        graph.add_edge(START, "answer")
        app, store = graph.compile(checkpointer=PlaitSaver(sessions)), PlaitStore(sessions)
        for k in range(n):
            await app.ainvoke({"messages": [("user", f"{who}-{k}")]}, {"configurable": {"thread_id": f"{ID}-{who}"}})
            await store.aput(("all",), f"{who}-{k}", {"text": f"{who}-{k}"})
        kept = {item.key for item in await store.asearch(("all",), limit=1000)}
        assert kept >= {f"{who}-{k}" for k in range(n)}

    return write


def pydantic_ai() -> Writing:
    from pydantic_ai.conversation_store import Conversation
    from pydantic_ai.messages import ModelMessage, ModelRequest, UserPromptPart

    from plait.adapters.pydantic_ai import ConversationStore

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        store = ConversationStore(sessions)
        messages: list[ModelMessage] = []
        for k in range(n):
            messages.append(ModelRequest(parts=[UserPromptPart(f"{who}-{k}")]))
            loaded = await store.load(f"{ID}-{who}") or Conversation(conversation_id=f"{ID}-{who}", messages=[])
            loaded.messages = list(messages)
            await store.save(loaded)

    return write


def adk() -> Writing:
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events.event import Event
    from google.genai import types

    from plait.adapters.adk import PlaitSessionService

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        service, named = PlaitSessionService(sessions, on_stale="merge"), {"app_name": APP, "user_id": USER}
        try:
            session = await service.create_session(**named, session_id=ID)
        except AlreadyExistsError:
            found = await service.get_session(**named, session_id=ID)
            assert found is not None
            session = found
        for k in range(n):
            content = types.Content(role="user", parts=[types.Part(text=f"{who}-{k}")])
            await service.append_event(session, Event(author="user", content=content, invocation_id=f"{who}{k}"))

    return write


def claude() -> Writing:
    from plait.adapters.claude import ClaudeSessionStore

    async def write(sessions: AsyncSessions, who: str, n: int) -> None:
        store = ClaudeSessionStore(sessions)
        for k in range(n):
            message = {"role": "user", "content": f"{who}-{k}"}
            entry = {"type": "user", "uuid": str(uuid.uuid4()), "parentUuid": None, "sessionId": ID, "message": message}
            await store.append(KEY, [entry])  # type: ignore[list-item]

    return write


ADAPTERS: dict[str, Callable[[], Writing]] = {
    "openai_agents": openai,
    "langchain": langchain,
    "langgraph": langgraph,
    "pydantic_ai": pydantic_ai,
    "adk": adk,
    "claude": claude,
}


async def main(name: str, path: str, who: str, n: int) -> None:
    write = ADAPTERS[name]()
    print("ready", flush=True)
    sys.stdin.readline()
    async with plait.open_async(path) as sessions:
        await write(sessions, who, n)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
