"""Texts that LangGraph's values share with messages: what is another value stays so, whatever becomes of the message."""

from __future__ import annotations

import asyncio
import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import plait

pytest.importorskip("langgraph", reason="langgraph is not installed: make adapters")

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import START, MessagesState, StateGraph, add_messages

from plait.adapters.langgraph import PlaitSaver

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
ASKED = "what was it that the report said of revenue and of costs in the last quarter, please? " * 3
TEXT = "the report says that revenue went up by twelve percent, and costs stayed where they were " * 3
MENDED = TEXT.replace("twelve", "thirteen")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    draft: str
    docs: Annotated[list[str], operator.add]


def writing(saver: Any) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("a", lambda state: {"messages": [AIMessage(TEXT, id="ai")], "draft": TEXT, "docs": [TEXT]})
    graph.add_edge(START, "a")
    return graph.compile(checkpointer=saver)


def mend(session: plait.Session, id: str) -> None:
    message = session.get(id)
    assert isinstance(message, plait.Message)
    row = message.to_dict()
    session.update({**row, "data": row["data"] | {"content": MENDED}})


def bodies(session: plait.Session) -> bytes:
    found, first = b"", b""
    while page := session.records(first):
        found += b"".join(body for _, body in page)
        first = page[-1][0] + b"\x00"
    return found


@pytest.mark.parametrize("change", ["update", "delete"])
def test_other_channels_keep_their_texts_whatever_becomes_of_a_message(change: str, sessions: plait.Sessions) -> None:
    given = {"messages": [HumanMessage(ASKED, id="u")], "draft": ASKED, "docs": [ASKED]}
    writing(PlaitSaver(sessions)).invoke(given, CONFIG)
    session = sessions.session("thread")
    for id in ("u", "ai"):
        _ = mend(session, id) if change == "update" else session.delete(id)
    history = list(writing(PlaitSaver(sessions)).get_state_history(CONFIG))
    newest, task, entry = history[0].values, history[1].tasks[0].result, history[2].tasks[0].result
    assert newest["draft"] == TEXT and newest["docs"] == [ASKED, TEXT]
    assert history[1].values["draft"] == ASKED and history[1].values["docs"] == [ASKED]
    assert (task["draft"], task["docs"]) == (TEXT, [TEXT]) and (entry["draft"], entry["docs"]) == (ASKED, [ASKED])
    said = [message.content for state in (newest, task, entry) for message in state["messages"]]
    assert said == ([MENDED] * 4 if change == "update" else ["." * len(TEXT), "." * len(ASKED)])


def test_an_input_reads_as_its_message_is_now_and_its_other_texts_as_they_were(sessions: plait.Sessions) -> None:
    given = {"draft": ASKED, "messages": [("user", ASKED)], "docs": [ASKED]}
    writing(PlaitSaver(sessions)).invoke(given, CONFIG)
    assert (
        bodies(sessions.session("thread")).count(ASKED.encode()[:80]) <= 6
    )  # the draft, the docs: in, written, stored
    first = next(iter(sessions.session("thread").history()))
    mend(sessions.session("thread"), first.id)
    saver = PlaitSaver(sessions)
    found = [state for state in saver.list(CONFIG) if state.metadata.get("source") == "input"]
    assert found[0].checkpoint["channel_values"]["__start__"] == {
        "draft": ASKED,
        "messages": [["user", MENDED]],
        "docs": [ASKED],
    }


def test_two_messages_of_one_text_change_each_by_itself(sessions: plait.Sessions) -> None:
    """Written at once by two nodes; and a text that is only a part of another is nobody's."""
    graph: Any = StateGraph(MessagesState)
    for id in ("m1", "m2"):
        graph.add_node(id, lambda state, id=id: {"messages": [AIMessage(TEXT, id=id)]})
        graph.add_edge(START, id)
    graph.add_node(
        "m3", lambda state: {"messages": [AIMessage(f"as was said: {TEXT}", id="m3"), AIMessage(TEXT, id="m4")]}
    )
    graph.add_edge("m1", "m3")
    graph.compile(checkpointer=PlaitSaver(sessions)).invoke({"messages": [("user", "say")]}, CONFIG)
    session = sessions.session("thread")
    mend(session, "m1")
    mend(session, "m4")
    history = list(graph.compile(checkpointer=PlaitSaver(sessions)).get_state_history(CONFIG))
    written = {
        m.id: m.content for s in history for task in s.tasks for m in task.result["messages"] if hasattr(m, "id")
    }
    assert written == {"m1": MENDED, "m2": TEXT, "m3": f"as was said: {TEXT}", "m4": MENDED}
    assert {m.id: m.content for m in history[0].values["messages"][1:]} == written


def test_what_waits_to_be_applied_is_no_message_yet(sessions: plait.Sessions) -> None:
    """The same words were said before, by another message, which is changed before they are."""
    saver = PlaitSaver(sessions)
    writing(saver).invoke({"messages": [("user", "say")]}, CONFIG)
    newest = saver.get_tuple(CONFIG)
    assert newest is not None
    saver.put_writes(newest.config, [("messages", [AIMessage(TEXT)])], "waiting")
    mend(sessions.session("thread"), "ai")
    found = PlaitSaver(sessions).get_tuple(CONFIG)
    assert found is not None and found.pending_writes is not None
    assert [value[0].content for _, _, value in found.pending_writes] == [TEXT]


def test_a_list_that_is_handed_on_whole_is_not_stored_again(sessions: plait.Sessions) -> None:
    """As a graph in a graph is given it, and hands it back."""
    inner: Any = StateGraph(MessagesState)
    inner.add_node("answer", lambda state: {"messages": [AIMessage(TEXT)]})
    inner.add_edge(START, "answer")
    outer: Any = StateGraph(MessagesState)
    outer.add_node("inner", inner.compile())
    outer.add_edge(START, "inner")
    graph = outer.compile(checkpointer=PlaitSaver(sessions))
    for _ in range(3):
        graph.invoke({"messages": [("user", ASKED)]}, CONFIG)
    assert TEXT.encode()[:80] not in bodies(sessions.session("thread"))
    history = list(outer.compile(checkpointer=PlaitSaver(sessions)).get_state_history(CONFIG))
    assert [m.content for m in history[1].tasks[0].result["messages"]] == [ASKED, TEXT] * 3


def test_a_channel_of_writes_reads_as_its_messages_are_now(sessions: plait.Sessions) -> None:
    def joined(state: Any, writes: Any) -> Any:
        return [*state, *(message for write in writes for message in write)]

    fields: Any = {"messages": Annotated[list[AnyMessage], DeltaChannel(joined, snapshot_frequency=1)]}
    graph: Any = StateGraph(TypedDict("Kept", fields))  # type: ignore[operator]
    graph.add_node("a", lambda state: {"messages": [AIMessage(TEXT, id="ai")]})
    graph.add_edge(START, "a")
    graph.compile(checkpointer=PlaitSaver(sessions)).invoke({"messages": [HumanMessage("say", id="u")]}, CONFIG)
    mend(sessions.session("thread"), "ai")
    state = graph.compile(checkpointer=PlaitSaver(sessions)).get_state(CONFIG)
    assert [message.content for message in state.values["messages"]] == ["say", MENDED]


@pytest.mark.parametrize("change", ["nothing", "update", "delete"])
def test_what_earlier_versions_stored_of_a_text_is_read(change: str, sessions: plait.Sessions) -> None:
    """They had every channel refer to it: this is such a record, in a channel that holds no messages."""
    from plait.adapters.langgraph import layout, values

    saver = PlaitSaver(sessions)
    checkpoint: Any = empty_checkpoint() | {"channel_versions": {"draft": 1, "messages": 1}}
    checkpoint["channel_values"] = {"draft": {"text": [TEXT, "x"]}, "messages": [AIMessage(TEXT, id="ai")]}
    config: Any = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
    saver.put(config, checkpoint, {}, {"draft": 1, "messages": 1})
    session = sessions.session("thread")
    data = saver.serde.dumps_typed({"text": [TEXT, "x"]})[1]
    at, size = data.index(TEXT.encode()), len(TEXT)
    check = values._check(TEXT.encode())
    cut = ["msgpack", [data[:at], ["ai", 0, size, check], data[at + size :]]]
    session.write_records({layout.value_key("", "draft", 1): layout.pack([0, cut])})
    if change != "nothing":
        _ = mend(session, "ai") if change == "update" else session.delete("ai")
    found = PlaitSaver(sessions).get_tuple(config)
    text = {"nothing": TEXT, "update": MENDED, "delete": "." * size}[change]
    assert found is not None and found.checkpoint["channel_values"]["draft"] == {"text": [text, "x"]}


# -- sync calls under async sessions -----------------------------------------------


def nested(saver: Any) -> Any:
    """A graph whose node is no coroutine, and calls a graph with a checkpointer of its own."""
    inner: Any = StateGraph(MessagesState)
    inner.add_node("i", lambda state: {"messages": [AIMessage("inner")]})
    inner.add_edge(START, "i")
    called = inner.compile(checkpointer=True)
    outer: Any = StateGraph(MessagesState)
    outer.add_node("o", lambda state: {"messages": called.invoke({"messages": state["messages"]})["messages"][-1:]})
    outer.add_edge(START, "o")
    return outer.compile(checkpointer=saver)


async def test_threads_beside_the_loop_may_use_the_sync_methods(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="relaxed") as opened:
        saver = PlaitSaver(opened)
        graph = nested(saver)
        for n in range(2):
            state = await graph.ainvoke({"messages": [("user", f"{n}")]}, CONFIG)
        assert [message.content for message in state["messages"]] == ["0", "inner", "1", "inner"]
        listed = await asyncio.to_thread(lambda: [found.config for found in saver.list(CONFIG)])
        assert listed == [found.config async for found in saver.alist(CONFIG)] and len(listed) >= 6
        assert (await asyncio.to_thread(graph.get_state, CONFIG)).values == state
        for refused in (lambda: saver.get_tuple(CONFIG), lambda: list(saver.list(CONFIG))):
            with pytest.raises(plait.UsageError, match="ainvoke") as raised:
                refused()  # it would wait for itself
            assert isinstance(raised.value, asyncio.InvalidStateError)  # as LangGraph's own
