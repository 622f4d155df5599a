"""LangChain on plait: histories, compaction of requests, context tools, and LangGraph's long-term memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import plait
from plait import BlockSpec

pytest.importorskip("langchain", reason="langchain is not installed: make adapters")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory
from langgraph.store.base import GetOp, PutOp, SearchOp

from plait.adapters.langchain import PlaitChatMessageHistory, PlaitCompaction, tools, tools_async
from plait.adapters.langgraph import PlaitSaver, PlaitStore
from plait.adapters.langgraph.memory import _Kept, _key
from plait.adapters.langgraph.steps import run

CONFIG: Any = {"configurable": {"thread_id": "thread", "session_id": "thread"}}


class Scripted(GenericFakeChatModel):
    """Says what it is told to, and remembers what it was sent."""

    seen: list[list[BaseMessage]] = []  # noqa: RUF012
    messages: Any = iter(())
    say: Any = None

    def _generate(self, messages: list[BaseMessage], *given: Any, **options: Any) -> ChatResult:
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.say(messages))])

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def test_the_frozen_prompt_stands_beside_the_words_of_the_app(sessions: plait.Sessions) -> None:
    """As the how-to merges them."""
    chat = sessions.session("c", context=["memory"])
    chat.context.replace("memory", "Likes tea.")
    model = Scripted(say=lambda messages: AIMessage("yes"), seen=[])
    agent = create_agent(model, [], system_prompt=f"Be brief.\n\n{chat.freeze_system_prompt()}")
    agent.invoke({"messages": [HumanMessage("Hi")]})
    ((prompt, _),) = model.seen
    assert prompt.text == f"Be brief.\n\n{chat.freeze_system_prompt()}" and "Likes tea." in prompt.text


@pytest.mark.filterwarnings("ignore:RunnableWithMessageHistory is deprecated")
def test_a_runnable_with_history_goes_on_where_it_stopped(sessions: plait.Sessions) -> None:
    """No duplicate saves over three turns."""
    model = RunnableLambda(lambda messages: AIMessage(f"answer {len(messages)}"))  # type: ignore[arg-type,misc,unused-ignore]
    for n in range(3):
        chain: Any = RunnableWithMessageHistory(
            model, lambda session_id: PlaitChatMessageHistory(sessions.session(session_id))
        )
        assert chain.invoke([HumanMessage(f"question {n}")], CONFIG).content == f"answer {2 * n + 1}"
    texts = [message.text for message in sessions.session("thread").history()]
    assert texts == ["question 0", "answer 1", "question 1", "answer 3", "question 2", "answer 5"]


async def test_a_history_on_the_event_loop(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db") as opened:
        history = PlaitChatMessageHistory(opened.session("s"))
        message = HumanMessage("hi", id="1")
        await history.aadd_messages([message, AIMessage("yo")])
        await history.aadd_messages([message])
        assert [m.content for m in await history.aget_messages()] == ["hi", "yo"]
        with pytest.raises(plait.UsageError, match="ainvoke"):
            _ = history.messages
        await history.aclear()
        assert await history.aget_messages() == []


def test_a_history_never_shows_a_result_without_its_call_nor_loses_another_message(sessions: plait.Sessions) -> None:
    """B-063; and two messages under one id are refused, not merged."""
    session = sessions.session("s")
    history = PlaitChatMessageHistory(session)
    call = {"name": "f", "args": {}, "id": "c", "type": "tool_call"}
    given = [
        HumanMessage("Go.", id="first"),
        AIMessage("", tool_calls=[call], id="call"),
        ToolMessage("r", tool_call_id="c", id="result"),
        AIMessage("Done.", id="last"),
    ]
    history.add_messages(given)
    assert [message.id for message in history.messages] == ["first", "call", "result", "last"]
    with pytest.raises(plait.ConflictError):
        history.add_messages([HumanMessage("other", id="call")])
    session.delete("call")
    assert [message.id for message in history.messages] == ["first", "last"]
    with pytest.raises(plait.UsageError, match="session"):
        PlaitChatMessageHistory("s")  # type: ignore[arg-type]


def test_compaction_changes_what_the_model_is_sent_and_nothing_else(sessions: plait.Sessions) -> None:
    model = Scripted(say=lambda messages: AIMessage(f"answer {len(messages)} " + "word " * 200))
    summary = Scripted(say=lambda messages: AIMessage("They talked about words."), seen=[])
    middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=2000, keep_recent_tokens=600)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(sessions))
    for n in range(12):
        agent.invoke({"messages": [HumanMessage(f"question {n} " + "word " * 200)]}, CONFIG)
    state = agent.get_state(CONFIG).values["messages"]
    assert len(state) == 24 and not [m for m in state if "They talked" in m.content]
    session = sessions.session("thread")
    assert len(list(session.transcript())) == 24
    assert len(model.seen[-1]) < 20 and any("They talked about words." in m.content for m in model.seen[-1])
    assert model.seen[-1][0].content.startswith("question 0") and model.seen[-1][-1].content.startswith("question 11")
    assert 1 <= len(summary.seen) <= 6


def test_a_turn_is_compacted_in_its_middle_and_what_the_summaries_used_is_counted(sessions: plait.Sessions) -> None:
    def read(n: int) -> str:
        """A page."""
        return f"page {n} " + "word " * 200

    def say(messages: list[BaseMessage]) -> AIMessage:
        if len(model.seen) > 6:
            return AIMessage("All read.")
        numbers = (2 * len(model.seen), 2 * len(model.seen) + 1)
        calls: Any = [{"name": "read", "args": {"n": n}, "id": f"c{n}", "type": "tool_call"} for n in numbers]
        return AIMessage("", tool_calls=calls)

    used: Any = {"input_tokens": 70, "output_tokens": 3, "total_tokens": 73}
    model = Scripted(say=say, seen=[])
    summary = Scripted(say=lambda messages: AIMessage("Pages of words.", usage_metadata=used), seen=[])
    middleware = PlaitCompaction(
        sessions, summary_model=summary, trigger_tokens=3500, reserved_tokens=2000, keep_recent_tokens=600
    )
    agent: Any = create_agent(model, [read], middleware=[middleware], checkpointer=PlaitSaver(sessions))
    agent.invoke({"messages": [HumanMessage("Read it all.")]}, CONFIG, durability="sync")
    session = sessions.session("thread")
    assert [message.role for message in session.transcript()] == [
        *("user", *["assistant", "tool", "tool"] * 6, "assistant")
    ]
    for seen in model.seen:
        asked = [call["id"] for message in seen for call in getattr(message, "tool_calls", ())]
        assert asked == [message.tool_call_id for message in seen if isinstance(message, ToolMessage)]
        assert seen[0].content == "Read it all."
    assert len(summary.seen) >= 1 and "Pages of words." in str(model.seen[-1]) and len(model.seen[-1]) < 15
    info = session.info()
    assert info is not None and info.usage.input_tokens == 70 * len(summary.seen)


def question_of_openais(n: int, words: int = 1) -> list[dict[str, Any]]:
    """A turn that LangChain has as two messages: a thought and an answer are one."""
    text = [{"type": "output_text", "text": f"answer {n} " + "word " * words, "annotations": []}]
    return [
        {"role": "user", "content": f"question {n} " + "word " * words},
        {"type": "reasoning", "id": f"rs_{n}", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "id": f"msg{n}", "status": "completed", "content": text},
    ]


@pytest.mark.parametrize("words", [20, 150, 200])
def test_a_thread_of_another_framework_is_summarized_once_and_sent_with_it(
    sessions: plait.Sessions, words: int
) -> None:
    """Wherever the summary ends among the rows that one message was made of."""
    chat = sessions.session("thread")
    for n in range(10):
        chat.append_many(question_of_openais(n, words), own_ids=True)
    model = Scripted(say=lambda messages: AIMessage("word"), seen=[])
    summary = Scripted(say=lambda messages: AIMessage("They talked about words."), seen=[])
    trigger = {"trigger_tokens": 10 * words, "keep_recent_tokens": 4 * words}
    middleware = PlaitCompaction(sessions, summary_model=summary, **trigger)
    saver = PlaitSaver(sessions)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=saver)
    agent.invoke({"messages": [*saver.messages(CONFIG), HumanMessage("Go on.")]}, CONFIG)
    assert len(summary.seen) == len(chat.overlays()) == 1
    assert sum("They talked about words." in str(m.content) for m in model.seen[0]) == 1
    assert len(model.seen[0]) < 15 and model.seen[0][0].content.startswith("question 0")


@pytest.mark.parametrize(("first", "last", "shown"), [
    (0, 5, ["SUMMARY", "question 2", "answer 2", "Go on."]),  # to the end of a reply of two rows
    (0, 4, ["SUMMARY", "answer 1", "question 2", "answer 2", "Go on."]),  # to the middle of one, which stays
    (1, 5, ["question 0", "SUMMARY", "question 2", "answer 2", "Go on."]),
    (2, 5, ["question 0", "answer 0", "SUMMARY", "question 2", "answer 2", "Go on."]),  # from the middle of one
    (4, 4, ["question 0", "answer 0", "question 1", "answer 1", "question 2", "answer 2", "Go on."]),
])  # fmt: skip
def test_a_summary_stands_for_the_messages_that_it_covers_whole(
    sessions: plait.Sessions, first: int, last: int, shown: list[str]
) -> None:
    chat = sessions.session("thread")
    rows = chat.append_many([item for n in range(3) for item in question_of_openais(n)], own_ids=True)
    chat.add_overlay(rows[first].id, rows[last].id, summary="SUMMARY")
    seen = sent(sessions, "Go on.")
    assert [said(message) for message in seen] == shown


def test_no_call_is_sent_without_its_results_whatever_is_covered(sessions: plait.Sessions) -> None:
    chat = sessions.session("thread")
    calls = [{"type": "function_call", "call_id": c, "name": "f", "arguments": "{}"} for c in "ab"]
    results = [{"type": "function_call_output", "call_id": c, "output": f"result {c}"} for c in "ab"]
    rows = chat.append_many([{"role": "user", "content": "question"}, *calls, *results])
    whole = ["question", "", "result a", "result b", "Go on."]
    for first, last, shown in (
        (2, 4, whole),  # one of the calls that are one message stays, so all results stay
        (3, 4, whole),
        (1, 3, ["question", "SUMMARY", "Go on."]),  # a result does not stay without its call
        (1, 4, ["question", "SUMMARY", "Go on."]),
    ):
        overlay = chat.add_overlay(rows[first].id, rows[last].id, summary="SUMMARY").overlay
        assert [said(message) for message in sent(sessions, "Go on.", thread=f"thread {first} {last}")] == shown
        chat.remove_overlay(overlay.id)


def said(message: BaseMessage) -> str:
    """Its last line, without the words that make it long."""
    return message.text.splitlines()[-1].replace(" word ", "") if message.text else ""


def sent(sessions: plait.Sessions, asked: str, thread: str = "thread") -> list[BaseMessage]:
    """What the model of a graph is sent that goes on with a session."""
    model = Scripted(say=lambda messages: AIMessage("word"), seen=[])
    chat = sessions.session("thread")
    config: Any = {"configurable": {"thread_id": thread}}
    if thread != "thread":
        chat.fork(thread)
    middleware = PlaitCompaction(sessions, summary_model=None)
    saver = PlaitSaver(sessions)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=saver)
    agent.invoke({"messages": [*saver.messages(config), HumanMessage(asked)]}, config)
    return model.seen[0]


def test_what_others_said_joins_a_thread_with_a_summary_at_its_end(sessions: plait.Sessions) -> None:
    model = Scripted(say=lambda messages: AIMessage(f"answer {len(model.seen) - 1}"), seen=[])
    middleware, saver = PlaitCompaction(sessions, summary_model=None), PlaitSaver(sessions)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=saver)
    for n in range(3):
        agent.invoke({"messages": [HumanMessage(f"question {n}")]}, CONFIG)
    chat = sessions.session("thread")
    rows = list(chat.transcript())
    chat.add_overlay(rows[2].id, rows[3].id, summary="SUMMARY")
    chat.append_many(question_of_openais(3))
    for fresh in (saver, PlaitSaver(sessions)):
        assert fresh.messages({"configurable": {"thread_id": "absent"}}) == []
        agent = create_agent(model, [], middleware=[middleware], checkpointer=fresh)
        agent.invoke({"messages": [*fresh.messages(CONFIG), HumanMessage("Go on.")]}, CONFIG)
    before = ["question 0", "answer 0", "SUMMARY", "question 2", "answer 2", "question 3", "answer 3", "Go on."]
    assert [[said(message) for message in seen] for seen in model.seen[3:]] == [before, [*before, "answer 3", "Go on."]]
    assert len(agent.get_state(CONFIG).values["messages"]) == 3 * 2 + 2 + 2 * 2
    assert (chat.totals().messages, len(list(chat.leaves()))) == (3 * 2 + 3 + 2 * 2, 1)


def test_a_summary_that_is_given_to_a_graph_as_a_message_is_still_sent_once_and_that_is_said(
    sessions: plait.Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    chat = sessions.session("thread")
    sent(sessions, "question")
    rows = list(chat.transcript())
    chat.add_overlay(rows[0].id, rows[1].id, summary="SUMMARY")
    model = Scripted(say=lambda messages: AIMessage("word"), seen=[])
    middleware = PlaitCompaction(sessions, summary_model=None)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(sessions))
    agent.invoke({"messages": [*PlaitChatMessageHistory(chat).messages, HumanMessage("Go on.")]}, CONFIG)
    assert [said(message) for message in model.seen[0]] == ["SUMMARY", "Go on."]
    assert "PlaitSaver.messages(config)" in caplog.text


def test_what_is_archived_is_neither_sent_nor_given_to_a_graph(sessions: plait.Sessions) -> None:
    chat = sessions.session("thread")
    rows = chat.append_many([item for n in range(2) for item in question_of_openais(n)])
    saver = PlaitSaver(sessions)
    assert [said(message) for message in saver.messages(CONFIG)] == ["question 0", "answer 0", "question 1", "answer 1"]
    sent(sessions, "Go on.")
    chat.archive(rows[0].id, rows[2].id)
    assert [said(message) for message in saver.messages(CONFIG)] == ["question 1", "answer 1", "Go on.", "word"]
    assert [said(message) for message in sent(sessions, "And?")] == ["question 1", "answer 1", "Go on.", "word", "And?"]


def test_a_summary_that_the_graph_has_no_place_for_is_not_made_and_that_is_said(
    sessions: plait.Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    chat = sessions.session("thread")
    chat.append_many([item for n in range(9) for item in question_of_openais(n, 100)])
    model = Scripted(say=lambda messages: AIMessage("word"), seen=[])
    summary = Scripted(say=lambda messages: AIMessage("SUMMARY"), seen=[])
    middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=200, keep_recent_tokens=100)
    saver = PlaitSaver(sessions)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=saver)
    agent.invoke({"messages": [*saver.messages(CONFIG)[-6:], HumanMessage("Go on.")]}, CONFIG)
    assert len(model.seen[0]) == 7 and summary.seen == [] and chat.overlays() == []
    assert "is not asked for" in caplog.text


def test_no_summary_is_paid_for_that_messages_taken_out_of_the_state_leave_no_place_for(
    sessions: plait.Sessions,
) -> None:
    model = Scripted(say=lambda messages: AIMessage("word " * 300), seen=[])
    summary = Scripted(say=lambda messages: AIMessage("SUMMARY"), seen=[])
    saver = PlaitSaver(sessions)
    agent: Any = create_agent(model, [], checkpointer=saver)
    for _ in range(6):
        agent.invoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    state = agent.get_state(CONFIG).values["messages"]
    agent.update_state(CONFIG, {"messages": [RemoveMessage(id=message.id) for message in state[2:7]]})
    middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=900, keep_recent_tokens=200)
    agent = create_agent(model, [], middleware=[middleware], checkpointer=saver)
    for _ in range(8):
        agent.invoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    assert summary.seen == [] and len(model.seen) == 14


def fail(messages: Any) -> Any:
    raise RuntimeError("no summary today")


USELESS = {"fails": fail, "is too long": lambda _: AIMessage("word " * 50_000), "is empty": lambda _: AIMessage("")}


@pytest.mark.parametrize("say", USELESS.values(), ids=list(USELESS))
def test_a_summary_of_no_use_does_not_stop_the_agent_and_is_not_paid_for_at_every_turn(
    sessions: plait.Sessions, say: Any
) -> None:
    """Also where each turn is another process's."""
    model = Scripted(say=lambda messages: AIMessage("word " * 300), seen=[])
    summary = Scripted(say=say, seen=[])
    for _ in range(12):
        middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=500, keep_recent_tokens=100)
        agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(sessions))
        agent.invoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    assert len(model.seen) == 12
    assert 1 < len(summary.seen) < 5  # the wait doubles


async def test_a_summary_of_no_use_is_waited_with_on_the_event_loop(tmp_path: Path) -> None:
    summary = Scripted(say=fail, seen=[])
    async with plait.open_async(tmp_path / "a.db") as opened:
        middleware = PlaitCompaction(opened, summary_model=summary, trigger_tokens=500, keep_recent_tokens=100)
        model = Scripted(say=lambda messages: AIMessage("word " * 300), seen=[])
        agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(opened))
        for _ in range(12):
            await agent.ainvoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    assert len(model.seen) == 12 and 1 < len(summary.seen) < 5


def test_a_thread_is_compacted_again_when_its_summary_is_of_use_again(sessions: plait.Sessions) -> None:
    says = [fail, lambda _: AIMessage("SUMMARY")]
    model = Scripted(say=lambda messages: AIMessage("word " * 300), seen=[])
    summary = Scripted(say=lambda messages: says[len(summary.seen) > 1](messages), seen=[])
    middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=2000, keep_recent_tokens=300)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(sessions))
    before = len(sessions.session("thread").records())
    for _ in range(12):
        agent.invoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    assert before == 0 and "SUMMARY" in str(model.seen[-1]) and len(model.seen[-1]) < 12
    assert [key for key, _ in sessions.session("thread").records(b"lgp", b"lgq")] == []


def test_the_compaction_of_a_handle_stays_its_own(sessions: plait.Sessions) -> None:
    chat = sessions.session("thread").on_compaction(plait.compact_function(lambda _: "MINE", keep_recent_tokens=100))
    model = Scripted(say=lambda messages: AIMessage("word " * 300), seen=[])
    summary = Scripted(say=lambda messages: AIMessage("ITS"), seen=[])
    middleware = PlaitCompaction(sessions, summary_model=summary, trigger_tokens=2000, keep_recent_tokens=300)
    agent: Any = create_agent(model, [], middleware=[middleware], checkpointer=PlaitSaver(sessions))
    for _ in range(8):
        agent.invoke({"messages": [HumanMessage("word " * 200)]}, CONFIG)
    assert "ITS" in str(model.seen[-1])
    assert chat.compact().overlay is not None and chat.overlays()[-1].summary == "MINE"


async def test_context_tools_are_langchains(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db") as opened:
        (tool,) = await tools_async(
            opened.session("s", context=[BlockSpec("memory", description="Facts", max_tokens=99)])
        )
        assert tool.name == "set_context"
        assert "Written" in await tool.ainvoke({"label": "memory", "content": "tea"})
    with plait.open(tmp_path / "b.db") as sync:
        (tool,) = tools(sync.session("s", context=[BlockSpec("memory", description="Facts", max_tokens=99)]))
        assert "Written" in tool.invoke({"label": "memory", "content": "tea"})


# -- the store -----------------------------------------------------------------------


def between(store: PlaitStore, work: Any, method: str, then: Callable[[], object]) -> Any:
    """Do a store's work on its sessions, and something else once, before its first call of a method."""
    done: list[object] = []

    class Between:
        def session(self, id: str) -> Any:
            return self

        def __getattr__(self, name: str) -> Any:
            if name == method and not done:
                done.append(then())
            return getattr(store._sessions.session(store._session), name)

    return run(Between(), work)  # type: ignore[arg-type]


def get_op(key: str = "k") -> GetOp:
    return GetOp(("a",), key, refresh_ttl=True)


def test_reading_an_item_undoes_no_put_and_brings_nothing_back(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions, ttl={"default_ttl": 60})
    search = SearchOp(("a",), query="tea", refresh_ttl=True)
    for work in (lambda: store._get(get_op()), lambda: store._search(search)):
        for key in ("k", "other"):
            store.put(("a",), key, {"text": "tea"})
        between(store, work(), "write_records", lambda: store.put(("a",), "k", {"text": "coffee"}))
        item = store.get(("a",), "k")
        assert item is not None and item.value == {"text": "coffee"}
        store.put(("a",), "k", {"text": "tea"})
        between(store, work(), "write_records", lambda: store.delete(("a",), "k"))
        assert store.get(("a",), "k") is None
    assert sessions.session("langgraph-memory").totals().messages == 1


def until(store: PlaitStore, key: str) -> int:
    """When an item's time is over."""
    (body,) = store._sessions.session(store._session).read_records([_key(("a",), key)]).values()  # type: ignore[union-attr]
    return _Kept.of(body).until or 0


def test_a_search_refreshes_what_nobody_else_wrote(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions, ttl={"default_ttl": 60})
    for key in ("k", "other"):
        store.put(("a",), key, {"text": "tea"})
    before = until(store, "other")
    work = store._search(SearchOp(("a",), query="tea", refresh_ttl=True))
    between(store, work, "write_records", lambda: store.put(("a",), "k", {"text": "coffee"}, ttl=None))
    assert until(store, "other") > before


def test_a_sweep_leaves_what_was_put_meanwhile(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions, ttl={"refresh_on_read": False})
    for key in ("k", "other"):
        store.put(("a",), key, {"text": "tea"}, ttl=-1)
    count = between(store, store._sweep(), "write_records", lambda: store.put(("a",), "k", {"text": "new tea"}))
    assert count == 1
    assert [item.value for item in store.search(("a",), query="tea")] == [{"text": "new tea"}]
    assert sessions.session("langgraph-memory").totals().messages == 1


def test_puts_at_once_leave_no_words_of_those_that_they_overwrite(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions)
    for first in (None, {"text": "before"}):
        if first is not None:
            store.put(("a",), "k", first)
        mine = {_key(("a",), "k"): PutOp(("a",), "k", {"text": "mine"})}
        between(store, store._put(mine), "write_records", lambda: store.put(("a",), "k", {"text": "theirs"}))
        item = store.get(("a",), "k")
        assert item is not None and item.value == {"text": "mine"}
        assert [len(store.search(("a",), query=word)) for word in ("before", "theirs", "mine")] == [0, 0, 1]
        assert sessions.session("langgraph-memory").totals().messages == 1
    store.delete(("a",), "k")
    assert sessions.session("langgraph-memory").totals().messages == 0
    assert sessions.session("langgraph-memory").records() == []


def test_a_put_and_what_it_overwrites_are_one_write(sessions: plait.Sessions) -> None:
    store, chat = PlaitStore(sessions), sessions.session("langgraph-memory")
    store.put(("a",), "k", {"text": "before"})

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # after the write there is nothing left to do
        between(store, store._put({_key(("a",), "k"): PutOp(("a",), "k", {"text": "now"})}), "delete", stop)
        raise KeyboardInterrupt
    assert chat.totals().messages == 1 and len(chat.records()) == 2


def test_a_query_finds_every_item_whatever_others_there_are(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions)
    store.put(("zoe",), "mine", {"text": "my tea is green and long words follow to weaken the rank " * 3})
    store.batch([PutOp((f"u{n}",), "k", {"text": "tea"}) for n in range(1200)])
    assert [item.key for item in store.search(("zoe",), query="tea")] == ["mine"]
    assert [item.key for item in store.search(("zoe",), query="where is my tea")] == ["mine"]
    assert len(store.search((), query="tea", limit=2000)) == 1201


def test_limit_offset_and_filter_count_among_all_that_a_query_finds(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions)
    store.batch([PutOp(("a",), f"k{n}", {"text": "green tea" if n < 200 else "tea", "n": n}) for n in range(300)])
    for query in ("tea", "green tea", "oolong tea"):
        everything = [item.key for item in store.search(("a",), query=query, limit=300)]
        assert len(set(everything)) == 300
        pages = [store.search(("a",), query=query, limit=70, offset=at) for at in range(0, 301, 70)]
        assert [item.key for page in pages for item in page] == everything
        for n in (0, 150, 299):
            assert [item.key for item in store.search(("a",), query=query, filter={"n": n})] == [f"k{n}"]
    assert {item.value["n"] < 200 for item in store.search(("a",), query="green tea", limit=200)} == {True}


def test_every_word_of_a_query_counts(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions)
    store.put(("a",), "k", {"text": "oolong"})
    store.put(("a",), "c", {"text": "他喜欢绿茶"})
    asked = " ".join(f"word{n}" for n in range(40))
    assert [item.key for item in store.search(("a",), query=f"{asked} oolong")] == ["k"]
    assert [item.key for item in store.search(("a",), query="I 茶")] == ["c"]


def test_a_query_finds_items_by_their_words_best_first(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions)
    texts = {"a": "She likes green tea", "b": "Tea at five", "c": "Coffee", "d": "他喜欢绿茶"}
    for key, text in texts.items():
        store.put(("ann", "facts"), key, {"text": text, "n": len(key)})
    store.put(("ann", "facts2"), "x", {"text": "green tea elsewhere"})
    found = store.search(("ann", "facts"), query="green tea please")
    assert [item.key for item in found] == ["a", "b"] and found[0].score > found[1].score  # type: ignore[operator]
    assert [item.key for item in store.search(("ann",), query="绿茶")] == ["d"]
    assert [item.key for item in store.search(("ann", "facts"), query='"; DROP (((', limit=5)] == []
    store.put(("ann", "facts"), "a", {"text": "She likes milk"})
    store.delete(("ann", "facts"), "b")
    assert store.search(("ann", "facts"), query="tea") == []
    assert sessions.doctor() == []


def test_filters_namespaces_and_order(sessions: plait.Sessions) -> None:
    """B-100: labels are data."""
    store = PlaitStore(sessions)
    odd = ["a_b", "aXb", "%", "a%", "A_B", "a\\b"]
    for n, label in enumerate(odd):
        store.put((label, "x"), "k", {"n": n, "deep": {"tags": ["t", n]}})
    for n, label in enumerate(odd):
        assert [item.value["n"] for item in store.search((label,))] == [n]
    assert [item.value["n"] for item in store.search((), filter={"n": {"$gte": 2, "$lt": 4}})] == [3, 2]
    assert [item.value["n"] for item in store.search((), filter={"deep": {"tags": ["t", 1]}})] == [1]
    store.put(("dotted",), "k", {"a.b": 1, "c": {"d-e": {"f.g": 2}}, "h": 3})
    for wanted, found in (({"a.b": 1}, 1), ({"c.d-e.f.g": 2}, 1), ({"c.f.g": 2}, 0), ({"h.i": 3}, 0), ({"": 3}, 0)):
        assert len(store.search(("dotted",), filter=wanted)) == found, wanted
    assert store.list_namespaces(prefix=("a_b",)) == [("a_b", "x")]
    assert len(store.list_namespaces(suffix=("x",), max_depth=1)) == 6
    with pytest.raises(ValueError, match="period"):
        store.put(("a.b",), "k", {})
    assert store.get(("a_b", "x"), "absent") is None


def test_items_end_with_their_time_unless_they_are_read(sessions: plait.Sessions) -> None:
    store = PlaitStore(sessions, ttl={"default_ttl": 0.0005, "refresh_on_read": False})
    store.put(("a",), "short", {"text": "tea"})
    store.put(("a",), "long", {"text": "tea"}, ttl=60)
    deadline = time.monotonic() + 20
    while store.get(("a",), "short") is not None and time.monotonic() < deadline:
        time.sleep(0.005)
    assert [item.key for item in store.search(("a",), query="tea")] == ["long"]
    assert store.sweep_ttl() == 1 and store.sweep_ttl() == 0
    assert sessions.session("langgraph-memory").totals().messages == 1


@pytest.mark.parametrize(
    "query",
    [
        *("POL-358", "don't", "C++", "20.04", '"open quote', "foo(", "a:b", "OR", "NEAR", "x NOT y", "^caret", "col:*"),
        *("'; DROP TABLE message; --", "100%", "a_b", "日本語", "half \ud99c way", "NUL \x00 in it", "word " * 200),
    ],
)
def test_any_query_of_the_store_is_text(sessions: plait.Sessions, query: str) -> None:
    """B-090: no operator, no syntax error; an item that says it is found, and first."""
    store = PlaitStore(sessions)
    store.put(("a",), "other", {"text": "nothing of the kind"})
    store.put(("a",), "this", {"text": f"see {query} for more"})
    assert [item.key for item in store.search(("a",), query=query)][:1] == ["this"]


@pytest.mark.parametrize("query", [" ", "*", "...", '""', '"', "\x00", "\ud800", "()", "\n\t"])
def test_a_query_of_the_store_without_a_word_finds_nothing(sessions: plait.Sessions, query: str) -> None:
    store = PlaitStore(sessions)
    store.put(("a",), "k", {"text": 'some words ... * "" ()'})
    assert store.search(("a",), query=query) == []


class Told(PlaitStore):
    """A store that says when it has swept something."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.swept, self.swept_async = threading.Event(), asyncio.Event()

    def sweep_ttl(self) -> int:
        count = super().sweep_ttl()
        if count:
            self.swept.set()
        return count

    async def asweep_ttl(self) -> int:
        count = await super().asweep_ttl()
        if count:
            self.swept_async.set()
        return count


SHORT: Any = {"default_ttl": 0.0001, "refresh_on_read": False, "sweep_interval_minutes": 0.0002}


def test_a_sweeper_removes_what_is_over_until_it_is_stopped(sessions: plait.Sessions) -> None:
    store = Told(sessions, ttl=SHORT)
    store.put(("a",), "short", {"text": "tea"})
    future = store.start_ttl_sweeper()
    again = store.start_ttl_sweeper(60)
    assert store.swept.wait(20) and not future.done()
    assert sessions.session("langgraph-memory").totals().messages == 0
    assert store.stop_ttl_sweeper() and store.stop_ttl_sweeper(0) and future.result(20) is None
    again.cancel()
    store.swept.clear()
    store.put(("a",), "short", {"text": "tea"})
    assert store.start_ttl_sweeper(60).cancel() and not store.swept.is_set()
    store.start_ttl_sweeper()
    assert store.swept.wait(20) and store.stop_ttl_sweeper()
    assert PlaitStore(sessions).start_ttl_sweeper().done()  # nothing ends in a store without times


def test_a_sweeper_ends_with_the_sessions_and_with_its_store(tmp_path: Path) -> None:
    with plait.open(tmp_path / "a.db") as opened:
        closed = PlaitStore(opened, ttl=SHORT).start_ttl_sweeper()
        assert closed.result(20) is None  # nobody holds that store
        kept = PlaitStore(opened, ttl=SHORT)
        future = kept.start_ttl_sweeper()
    assert future.result(20) is None and kept.stop_ttl_sweeper()


async def test_a_sweeper_is_a_task_on_the_async_face(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db") as opened:
        store = Told(opened, ttl=SHORT)
        await store.aput(("a",), "short", {"text": "tea"})
        task = await store.astart_ttl_sweeper()
        assert await store.astart_ttl_sweeper(60) is task
        await asyncio.wait_for(store.swept_async.wait(), 20)
        assert (await opened.session("langgraph-memory").totals()).messages == 0
        assert await store.astop_ttl_sweeper() and task.done() and await store.astop_ttl_sweeper(0)
        await (await PlaitStore(opened).astart_ttl_sweeper())
        last = await store.astart_ttl_sweeper()
    await asyncio.wait_for(last, 20)  # the sessions are closed


async def test_a_batch_reads_before_it_writes_and_the_last_put_counts(tmp_path: Path) -> None:
    from langgraph.store.base import GetOp, PutOp

    async with plait.open_async(tmp_path / "a.db") as opened:
        store = PlaitStore(opened)
        ops: Any = [PutOp(("a",), "k", {"n": 1}), GetOp(("a",), "k"), PutOp(("a",), "k", {"n": 2**80})]
        assert await store.abatch(ops) == [None, None, None]
        item = await store.aget(("a",), "k")
        assert item is not None and item.value == {"n": 2**80}
        with pytest.raises(plait.UsageError, match="async methods") as refused:
            store.get(("a",), "k")
        assert isinstance(refused.value, asyncio.InvalidStateError)  # as LangGraph's own


async def test_a_thread_beside_the_loop_may_use_the_sync_methods_of_an_async_store(tmp_path: Path) -> None:
    """A graph's sync nodes run in threads, also under `ainvoke`."""
    async with plait.open_async(tmp_path / "a.db") as opened:
        store = PlaitStore(opened)
        await asyncio.gather(*(asyncio.to_thread(store.put, ("a",), f"k{n}", {"text": f"tea {n}"}) for n in range(8)))
        assert len(await asyncio.to_thread(store.search, ("a",), query="tea")) == 8
        with pytest.raises(ValueError, match="period"):
            await asyncio.to_thread(store.put, ("a.b",), "k", {})
        assert await store.aget(("a",), "k7") is not None
    with plait.open(tmp_path / "a.db") as sessions:
        assert len(PlaitStore(sessions).search(("a",))) == 8


def test_sync_methods_without_a_running_loop_say_so_and_wait_for_nothing(tmp_path: Path) -> None:
    async def made() -> PlaitStore:
        return PlaitStore(plait.open_async(tmp_path / "a.db"))

    for store in (PlaitStore(plait.open_async(tmp_path / "a.db")), asyncio.run(made())):
        with pytest.raises(plait.UsageError, match="running loop"):
            store.get(("a",), "k")
