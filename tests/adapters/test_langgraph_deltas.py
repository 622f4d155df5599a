"""Channels of LangGraph that are kept as what was written to them: rebuilt from plait, forked, pruned, copied."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Any, TypedDict

import pytest

import plait

pytest.importorskip("langgraph", reason="langgraph is not installed: make adapters")
pytest.importorskip("langgraph.channels.delta", reason="this langgraph has no delta channels")

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from plait.adapters.langgraph import PlaitSaver

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
CHANNELS = ["notes", "messages"]
EVERY = pytest.mark.parametrize("every", [1, 3, 100])
"""Every how many writes a channel's whole value is stored."""


def joined(state: Any, writes: Sequence[Any]) -> Any:
    return reduce(operator.add, writes, list(state))


def graph_on(saver: Any, every: int) -> Any:
    fields: Any = {
        "notes": Annotated[list[str], DeltaChannel(joined, snapshot_frequency=every)],
        "messages": Annotated[list[AnyMessage], DeltaChannel(joined, snapshot_frequency=every)],
        "turn": int,
    }

    def agent(state: Any) -> Any:
        text = state["messages"][-1].content
        return {"messages": [AIMessage(f"echo {text}", id=f"a {text}")], "notes": [f"noted {text}"], "turn": 1}

    graph: Any = StateGraph(TypedDict("State", fields))  # type: ignore[operator]
    graph.add_node("agent", agent)
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def ask(graph: Any, text: str, config: Any = CONFIG) -> Any:
    return graph.invoke({"messages": [HumanMessage(text, id=f"u {text}")], "notes": [text]}, config)


def states(graph: Any, config: Any = CONFIG) -> list[Any]:
    """What the channels hold at each checkpoint, the newest first."""
    return [
        (state.values.get("notes"), [(m.id, m.content) for m in state.values.get("messages", [])])
        for state in graph.get_state_history(config)
    ]


def by_walking(saver: PlaitSaver, config: Any) -> Any:
    """What LangGraph's own slow way through the checkpoints finds."""
    return BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=CHANNELS)


@EVERY
def test_every_state_is_what_another_saver_gives_back(every: int, sessions: plait.Sessions) -> None:
    graphs = [graph_on(PlaitSaver(sessions), every), graph_on(InMemorySaver(), every)]
    for text in ("one", "two", "three", "four"):
        assert len({str(ask(graph, text)) for graph in graphs}) == 1
    ours, theirs = map(states, graphs)
    assert ours == theirs and len(ours[0][0]) == 8
    assert states(graph_on(PlaitSaver(sessions), every)) == theirs, "read by one who has not written it"


@EVERY
async def test_the_history_of_a_channel_is_what_walking_finds_on_both_faces(
    every: int, sessions: plait.Sessions
) -> None:
    saver = PlaitSaver(sessions)
    graph = graph_on(saver, every)
    for text in ("one", "two", "three"):
        ask(graph, text)
    for state in graph.get_state_history(CONFIG):
        found = saver.get_delta_channel_history(config=state.config, channels=CHANNELS)
        assert str(found) == str(by_walking(saver, state.config))
        assert str(await saver.aget_delta_channel_history(config=state.config, channels=CHANNELS)) == str(found)
    assert saver.get_delta_channel_history(config=CONFIG, channels=[]) == {}
    assert saver.get_delta_channel_history(config=CONFIG, channels=["absent"]) == {"absent": {"writes": []}}
    nowhere: Any = {"configurable": {"thread_id": "nobody"}}
    assert saver.get_delta_channel_history(config=nowhere, channels=["notes"]) == {"notes": {"writes": []}}


@EVERY
def test_only_what_is_on_the_path_of_a_fork_counts(every: int, sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    graph = graph_on(saver, every)
    for text in ("one", "two"):
        ask(graph, text)
    after_one = next(s for s in graph.get_state_history(CONFIG) if s.values["notes"] == ["one", "noted one"])
    ask(graph, "other", after_one.config)
    newest = graph.get_state(CONFIG)
    assert newest.values["notes"] == ["one", "noted one", "other", "noted other"]
    assert str(saver.get_delta_channel_history(config=newest.config, channels=CHANNELS)) == str(
        by_walking(saver, newest.config)
    )


@EVERY
def test_pruned_and_copied_threads_keep_what_their_channels_are_rebuilt_from(
    every: int, sessions: plait.Sessions
) -> None:
    saver = PlaitSaver(sessions)
    graph = graph_on(saver, every)
    for text in ("one", "two", "three"):
        ask(graph, text)
    whole = states(graph)[0]
    saver.copy_thread("thread", "copy")
    saver.prune(["thread"])
    copied: Any = {"configurable": {"thread_id": "copy"}}
    for config in (CONFIG, copied):
        anew = graph_on(PlaitSaver(sessions), every)
        assert states(anew, config)[0] == whole
        assert ask(anew, "four", config)["notes"] == [*whole[0], "four", "noted four"]
    assert sessions.doctor() == []
