"""Runs that go on from older checkpoints, and checkpoints that are removed beside a run: no other branch's state changes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import plait
from tests.dose import dose

pytest.importorskip("langgraph", reason="langgraph is not installed: make adapters")

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph, add_messages

from plait.adapters.langgraph import PlaitSaver

CONFIG: Any = {"configurable": {"thread_id": "thread"}}
LONG = "some text that is long enough to be worth a reference " * 3


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    other: list[Any]
    text: str


def compiled(saver: Any) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("agent", lambda state: {})
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def echoing(saver: Any) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [AIMessage("echo " + state["messages"][-1].content)]})
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def ask(graph: Any, text: str, config: Any = CONFIG) -> Any:
    return graph.invoke({"messages": [("user", text)]}, config)


def contents(graph: Any, config: Any = CONFIG) -> list[str]:
    return [message.content for message in graph.get_state(config).values["messages"]]


def seen(graph: Any) -> list[Any]:
    """All that every checkpoint has, whatever branch it is on, newest first."""

    def plainly(value: Any) -> Any:
        if isinstance(value, BaseMessage):
            return type(value), value.id, value.content
        return [plainly(item) for item in value] if isinstance(value, list) else value

    return [
        [{key: plainly(item) for key, item in state.values.items()}, state.metadata, len(state.tasks)]
        for state in graph.get_state_history(CONFIG)
    ]


def an_input(chance: random.Random, n: int, there: list[BaseMessage]) -> dict[str, Any]:
    """Some new messages, some in the place of others, some removed, or the same ones in another channel."""
    made: dict[str, BaseMessage] = {}
    for k in range(chance.randint(0, 3)):
        id = chance.choice([f"id{chance.randint(0, 5)}", f"{n}.{k}"])
        made[id] = chance.choice([HumanMessage, AIMessage])(chance.choice([LONG, f"m{n}"]), id=id)
    given: dict[str, Any] = {"messages": list(made.values())}
    if there and chance.random() < 0.3:
        gone = {message.id for message in chance.sample(there, chance.randint(1, min(3, len(there))))}
        given["messages"] = [m for m in made.values() if m.id not in gone] + [RemoveMessage(id) for id in sorted(gone)]  # type: ignore[arg-type, type-var]
    if chance.random() < 0.3:
        given["other"] = [*there, *made.values()][: chance.randint(0, 4)]
    if chance.random() < 0.3:
        given["text"] = chance.choice([LONG, "short"])
    return given


@pytest.mark.parametrize("seed", range(dose(short=8, soak=300)))
def test_every_checkpoint_of_random_branches_is_what_another_saver_has(seed: int, sessions: plait.Sessions) -> None:
    """Several processes' savers by turns, forks from any checkpoint; all of them are read after each step."""
    chance = random.Random(seed)
    savers, oracle = [PlaitSaver(sessions) for _ in range(3)], compiled(InMemorySaver())
    for n in range(chance.randint(5, 12)):
        ours = compiled(chance.choice(savers))
        at = [CONFIG, CONFIG]
        history = [list(graph.get_state_history(CONFIG)) for graph in (ours, oracle)]
        if history[0] and chance.random() < 0.4:
            k = chance.randrange(len(history[0]))
            at = [history[0][k].config, history[1][k].config]
        given = an_input(chance, n, oracle.get_state(at[1]).values.get("messages", []))
        is_update = chance.random() < 0.5
        for graph, config in zip((ours, oracle), at, strict=True):
            if is_update:
                graph.update_state(config, copy.deepcopy(given), as_node="agent")
            else:
                graph.invoke(copy.deepcopy(given), config)
        assert seen(compiled(PlaitSaver(sessions))) == seen(oracle)
    assert [finding for finding in sessions.doctor() if finding.kind != "stale overlays"] == []


def test_a_branch_leaves_the_state_of_the_one_that_was_there(sessions: plait.Sessions) -> None:
    graph = echoing(PlaitSaver(sessions))
    ask(graph, "one")
    older = graph.get_state(CONFIG).config
    ask(graph, "two")
    first = graph.get_state(CONFIG).config
    ask(graph, "other", older)
    anew = echoing(PlaitSaver(sessions))
    assert contents(anew, first) == ["one", "echo one", "two", "echo two"]
    assert contents(anew) == ["one", "echo one", "other", "echo other"]


@pytest.mark.parametrize("times", [2, 3])
def test_a_list_may_hold_one_message_several_times(times: int, sessions: plait.Sessions) -> None:
    message = HumanMessage("m", id="m")
    for n in range(3):
        given = {"messages": [message], "other": [AIMessage(f"{n}", id=f"{n}"), *[message] * times, AIMessage("end")]}
        compiled(PlaitSaver(sessions)).invoke(given, CONFIG)
        for saver in (PlaitSaver(sessions), PlaitSaver(sessions)):
            other = compiled(saver).get_state(CONFIG).values["other"]
            assert [found.content for found in other] == [f"{n}", *["m"] * times, "end"]
            compiled(saver).update_state(CONFIG, {"other": [*other, message]}, as_node="agent")
            assert compiled(PlaitSaver(sessions)).get_state(CONFIG).values["other"] == [*other, message]
            compiled(saver).update_state(CONFIG, {"other": other}, as_node="agent")


class Counting(PlaitSaver):
    """Versions as plait made them before: 1, 2, 3."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return 1 if current is None else current + 1


class Texts(PlaitSaver):
    """Versions as text, as a thread of LangGraph's own savers has them."""

    def get_next_version(self, current: Any, channel: None) -> Any:
        return f"{1 if current is None else int(current.split('.')[0]) + 1:032}.0.123"


@pytest.mark.parametrize("before", [Counting, Texts])
def test_a_thread_with_versions_of_another_kind_is_read_and_goes_on(
    before: type[PlaitSaver], sessions: plait.Sessions
) -> None:
    old = echoing(before(sessions))
    for text in ("one", "two"):
        ask(old, text)
    states = seen(old)
    graph = echoing(PlaitSaver(sessions))
    assert seen(graph) == states
    newest = graph.get_state(CONFIG)
    middle = next(s for s in graph.get_state_history(CONFIG) if len(s.values["messages"]) == 2 and not s.next)
    assert [m.content for m in ask(graph, "three")["messages"]][-2:] == ["three", "echo three"]
    for text in ("other", "another"):
        ask(graph, text, middle.config)
        assert contents(graph) == ["one", "echo one", text, f"echo {text}"]
    assert contents(graph, newest.config) == ["one", "echo one", "two", "echo two"]
    assert seen(graph)[-len(states) :] == states


def test_versions_grow_and_no_two_of_them_are_equal(sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    for first in (None, 7, 3.0, f"{3:032}.0.5"):
        following = {saver.get_next_version(first, None) for _ in range(100)}
        assert len(following) == 100
        assert all(one > (first or 0) and saver.get_next_version(one, None) > max(following) for one in following)
        assert all(one < 1 << 63 for one in following if isinstance(one, int))


def test_an_id_of_a_version_is_made_anew_in_every_process(sessions: plait.Sessions) -> None:
    """Not by a generator that programs set to the same start."""
    saver = PlaitSaver(sessions)
    random.seed(1)
    one = saver.get_next_version(None, None)
    random.seed(1)
    assert saver.get_next_version(None, None) != one


# -- checkpoints removed beside a run ---------------------------------------------


@pytest.mark.parametrize("what", ["prune", "runs"])
def test_a_run_beside_a_removal_keeps_its_state_whenever_it_comes(
    what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another process's turn comes between any two calls of the removal."""
    k = 0
    while _removed_beside(what, k, monkeypatch, tmp_path / f"{k}.db"):
        k += 1
    assert k > 5


def _removed_beside(what: str, k: int, monkeypatch: pytest.MonkeyPatch, path: Path) -> bool:
    """Whether the removal made so many calls."""
    with plait.open(path, durability="relaxed") as sessions:
        saver = PlaitSaver(sessions)
        graph = echoing(saver)
        for n, text in enumerate(("one", "two")):
            graph.invoke({"messages": [("user", text)]}, CONFIG | {"metadata": {"run_id": f"run {n}"}})
        before, said = stored(saver), list[str]()

        def turn() -> None:
            said.extend(m.content for m in ask(echoing(PlaitSaver(sessions)), "three")["messages"])

        with monkeypatch.context() as patched:
            before_call(patched, k, turn)
            if what == "prune":
                saver.prune(["thread"])
            else:
                saver.delete_for_runs(["run 0"])
        after = stored(PlaitSaver(sessions))
        assert after[max(after)] == (said or ["one", "echo one", "two", "echo two"])
        assert len(said) in (0, 6) and len(after) < len(before) + 3
        assert all(after[id] == before[id] for id in after.keys() & before.keys())
        return bool(said)


def stored(saver: PlaitSaver) -> dict[str, list[str]]:
    """The messages of each checkpoint as they are stored; a graph could find some of them in what was written, too."""
    return {
        found.config["configurable"]["checkpoint_id"]: [
            message.content for message in found.checkpoint["channel_values"].get("messages", [])
        ]
        for found in saver.list(CONFIG)
    }


def before_call(patched: pytest.MonkeyPatch, k: int, do: Callable[[], None]) -> None:
    """Do something once, before the k-th call about records."""
    left = [k]

    def counted(method: Any) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                do()
            return method(*given, **options)

        return call

    for name in ("records", "read_records", "write_records"):
        patched.setattr(plait.Session, name, counted(getattr(plait.Session, name)))
