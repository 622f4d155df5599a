"""LangGraph's checkpointer on plait: its own conformance suite on both faces, and what plait adds to it."""

from __future__ import annotations

import asyncio
import itertools
import operator
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import plait
from tests.dose import dose

pytest.importorskip("langgraph", reason="langgraph is not installed: make adapters")
conformance: Any = pytest.importorskip("langgraph.checkpoint.conformance", reason="its suite is not installed")

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, RemoveMessage, ToolMessage  # noqa: E402
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer  # noqa: E402
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer  # noqa: E402
from langgraph.graph import START, MessagesState, StateGraph, add_messages  # noqa: E402
from langgraph.types import Command, interrupt  # noqa: E402

from plait.adapters.langgraph import PlaitSaver  # noqa: E402

CONFIG: Any = {"configurable": {"thread_id": "thread"}}


class SyncFace(BaseCheckpointSaver[Any]):
    """Calls the methods of the sync face wherever the suite, which knows only the async one, calls those."""

    def __init__(self, saver: PlaitSaver) -> None:
        super().__init__(serde=saver.serde)
        self.saver = saver

    async def aget_tuple(self, config: Any) -> Any:
        return self.saver.get_tuple(config)

    async def alist(self, config: Any, **options: Any) -> AsyncIterator[Any]:
        for found in self.saver.list(config, **options):
            yield found

    async def aput(self, *given: Any) -> Any:
        return self.saver.put(*given)

    async def aput_writes(self, *given: Any, **options: Any) -> None:
        self.saver.put_writes(*given, **options)

    async def adelete_thread(self, thread_id: str) -> None:
        self.saver.delete_thread(thread_id)

    async def adelete_for_runs(self, run_ids: Any) -> None:
        self.saver.delete_for_runs(run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self.saver.copy_thread(source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        self.saver.prune(thread_ids, strategy=strategy)

    async def aget_delta_channel_history(self, **options: Any) -> Any:
        return self.saver.get_delta_channel_history(**options)


@asynccontextmanager
async def on_async(folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    async with plait.open_async(folder / "a.db", durability="relaxed") as sessions:
        yield PlaitSaver(sessions)


@asynccontextmanager
async def on_sync(folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    with plait.open(folder / "s.db", durability="relaxed") as sessions:
        yield SyncFace(PlaitSaver(sessions))


@asynccontextmanager
async def on_sync_from_a_loop(folder: Path) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    with plait.open(folder / "t.db", durability="relaxed") as sessions:
        yield PlaitSaver(sessions)


@pytest.mark.parametrize("make", [on_async, on_sync, on_sync_from_a_loop], ids=["async", "sync", "sync from a loop"])
async def test_every_base_and_extended_test_of_langgraphs_suite_passes(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    @conformance.checkpointer_test(name="plait")
    async def saver() -> AsyncIterator[Any]:
        async with make(tmp_path) as made:
            yield made

    report = await conformance.validate(saver)
    assert {name: result.failures for name, result in report.results.items() if not result.passed} == {}
    assert report.passed_all() and len(report.results) >= 8


# -- what a thread is ------------------------------------------------------------


def echo(state: Any) -> Any:
    return {"messages": [AIMessage(f"echo {state['messages'][-1].content}")]}


def chat(saver: Any, node: Callable[[Any], Any] = echo) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", node)
    graph.add_edge(START, "agent")
    return graph.compile(checkpointer=saver)


def said(session: plait.Session, leaf: Any = plait.LEAF) -> list[str]:
    return [message.text for message in session.history(leaf)]


def test_a_thread_is_a_session_that_plait_reads(sessions: plait.Sessions) -> None:
    graph = chat(PlaitSaver(sessions))
    for text in ("one", "two"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    session = sessions.session("thread")
    assert said(session) == ["one", "echo one", "two", "echo two"]
    assert [message.role for message in session.history()] == ["user", "assistant"] * 2
    assert [hit.snippet for hit in session.search("two", role="user")] == ["two"]
    assert [info.id for info in sessions.all()] == ["thread"]
    assert sessions.doctor() == []


def test_state_is_what_another_saver_gives_back(sessions: plait.Sessions) -> None:
    ours, theirs = chat(PlaitSaver(sessions)), chat(InMemorySaver())
    for text in ("one", "two", "three"):
        message = HumanMessage(text, id=text, additional_kwargs={"n": [1, {"x": None}], "t": (1, 2)})
        ours.invoke({"messages": [message.model_copy(deep=True)]}, CONFIG)
        theirs.invoke({"messages": [message.model_copy(deep=True)]}, CONFIG)

    def seen(graph: Any) -> Any:
        return [
            (
                [(type(m), m.content, m.additional_kwargs) for m in state.values.get("messages", [])],
                state.next,
                state.metadata,
            )
            for state in graph.get_state_history(CONFIG)
        ]

    assert seen(ours) == seen(theirs)


def test_a_message_is_stored_once_whatever_the_graph_does_with_its_list(sessions: plait.Sessions) -> None:
    """B-086, and no duplicate saves over three turns."""
    graph = chat(PlaitSaver(sessions))
    for n in range(3):
        graph.invoke({"messages": [("user", f"question {n}")]}, CONFIG)
    assert sessions.session("thread").totals().messages == 6
    again = chat(PlaitSaver(sessions))  # another process, which knows nothing
    again.invoke({"messages": [("user", "question 3")]}, CONFIG)
    assert sessions.session("thread").totals().messages == 8


def test_removed_messages_leave_the_state_and_stay_in_the_session(sessions: plait.Sessions) -> None:
    graph = chat(PlaitSaver(sessions))
    for text in ("one", "two", "three"):
        graph.invoke({"messages": [HumanMessage(text, id=text)]}, CONFIG)
    messages = graph.get_state(CONFIG).values["messages"]
    graph.update_state(CONFIG, {"messages": [RemoveMessage(id=m.id) for m in messages[:4]]})
    fresh = chat(PlaitSaver(sessions))
    assert [m.content for m in fresh.get_state(CONFIG).values["messages"]] == ["three", "echo three"]
    fresh.invoke({"messages": [("user", "four")]}, CONFIG)
    assert [m.content for m in fresh.get_state(CONFIG).values["messages"]] == [
        "three",
        "echo three",
        "four",
        "echo four",
    ]
    assert said(sessions.session("thread")) == [
        f"{e}{t}" for t in ("one", "two", "three", "four") for e in ("", "echo ")
    ]
    assert sessions.session("thread").totals().messages == 8


def test_a_message_that_is_replaced_is_a_branch_and_the_old_checkpoint_has_the_old_one(
    sessions: plait.Sessions,
) -> None:
    graph = chat(PlaitSaver(sessions))
    graph.invoke({"messages": [HumanMessage("one", id="q")]}, CONFIG)
    before = graph.get_state(CONFIG)
    last = before.values["messages"][-1]
    graph.update_state(CONFIG, {"messages": [AIMessage("better", id=last.id)]})
    fresh = chat(PlaitSaver(sessions))
    assert [m.content for m in fresh.get_state(CONFIG).values["messages"]] == ["one", "better"]
    assert [m.content for m in fresh.get_state(before.config).values["messages"]] == ["one", "echo one"]
    session = sessions.session("thread")
    assert said(session) == ["one", "better"]
    assert sorted(leaf.text for leaf in session.leaves() if isinstance(leaf, plait.Message)) == ["better", "echo one"]


def test_going_on_from_an_older_checkpoint_is_a_branch(sessions: plait.Sessions) -> None:
    graph = chat(PlaitSaver(sessions))
    for text in ("one", "two"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    older = next(s for s in graph.get_state_history(CONFIG) if len(s.values.get("messages", [])) == 2 and not s.next)
    graph.invoke({"messages": [("user", "other")]}, older.config)
    assert said(sessions.session("thread")) == ["one", "echo one", "other", "echo other"]
    assert sessions.session("thread").totals().messages == 6
    assert [m.content for m in chat(PlaitSaver(sessions)).get_state(CONFIG).values["messages"]] == said(
        sessions.session("thread")
    )


def test_a_message_changed_in_place_is_stored_as_it_is_now(sessions: plait.Sessions) -> None:
    def spoil(state: Any) -> Any:
        if state["messages"][-1].content == "two":
            state["messages"][0].additional_kwargs["seen"] = True
        return echo(state)

    graph = chat(PlaitSaver(sessions), spoil)
    for text in ("one", "two"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    state = chat(PlaitSaver(sessions)).get_state(CONFIG)
    assert state.values["messages"][0].additional_kwargs == {"seen": True}
    history = chat(PlaitSaver(sessions)).get_state_history(CONFIG)
    first = next(s for s in history if len(s.values.get("messages", [])) == 2 and not s.next)
    assert first.values["messages"][0].additional_kwargs == {}


def test_two_lists_lie_side_by_side_and_neither_is_stored_twice(sessions: plait.Sessions) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]
        notes: Annotated[list[AnyMessage], add_messages]

    def node(state: State) -> Any:
        n = len(state["messages"])
        return {"messages": [AIMessage(f"answer {n}")], "notes": [AIMessage(f"note {n}"), HumanMessage(f"reply {n}")]}

    graph: Any = StateGraph(State)
    graph.add_node("agent", node)
    graph.add_edge(START, "agent")
    compiled = graph.compile(checkpointer=PlaitSaver(sessions))
    for n in range(3):
        compiled.invoke({"messages": [("user", f"ask {n}")]}, CONFIG)
    state = graph.compile(checkpointer=PlaitSaver(sessions)).get_state(CONFIG).values
    assert [m.content for m in state["notes"]] == [f"{w} {n}" for n in (1, 3, 5) for w in ("note", "reply")]
    assert said(sessions.session("thread")) == [m.content for m in state["messages"]]
    assert sessions.session("thread").totals().messages == 12


def test_messages_without_ids_in_a_list_that_only_grows_are_stored_once(sessions: plait.Sessions) -> None:
    class State(TypedDict):
        messages: Annotated[list[AnyMessage], operator.add]

    graph: Any = StateGraph(State)
    graph.add_node("agent", lambda state: {"messages": [AIMessage("yes")]})
    graph.add_edge(START, "agent")
    for n in range(3):
        compiled = graph.compile(checkpointer=PlaitSaver(sessions))
        compiled.invoke({"messages": [HumanMessage("really?")]}, CONFIG)
        assert len(compiled.get_state(CONFIG).values["messages"]) == 2 * (n + 1)
    assert said(sessions.session("thread")) == ["really?", "yes"] * 3
    assert sessions.session("thread").totals().messages == 6


def test_a_message_deleted_from_the_session_is_gone_from_the_state(sessions: plait.Sessions) -> None:
    graph = chat(PlaitSaver(sessions))
    for text in ("one", "a secret " * 40, "three"):
        graph.invoke({"messages": [HumanMessage(text, id=text[:5])]}, CONFIG)
    session = sessions.session("thread")
    session.delete("a sec")
    graph = chat(PlaitSaver(sessions))
    shown = [m.content for m in graph.get_state(CONFIG).values["messages"]]
    assert shown[0] == "one" and len(shown) == 5
    for state in graph.get_state_history(CONFIG):
        assert "a sec" not in [m.id for m in state.values.get("messages", [])]
    graph.invoke({"messages": [("user", "four")]}, CONFIG)
    assert len(graph.get_state(CONFIG).values["messages"]) == 7
    last = session.leaf()
    assert last is not None
    session.delete(last.id)
    assert len(chat(PlaitSaver(sessions)).get_state(CONFIG).values["messages"]) == 6


def test_the_last_message_deleted_under_a_running_process_does_not_stop_it(sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    chat(saver).invoke({"messages": [("user", "one")]}, CONFIG)
    state = saver.get_tuple(CONFIG)
    assert state is not None
    messages = state.checkpoint["channel_values"]["messages"]
    sessions.session("thread").delete(messages[-1].id)
    checkpoint: Any = empty_checkpoint() | {"channel_versions": {"messages": 9}}
    checkpoint["channel_values"] = {"messages": [*messages, HumanMessage("next", id="next")]}
    saver.put(state.config | {"configurable": state.config["configurable"]}, checkpoint, {}, {"messages": 9})
    newest = PlaitSaver(sessions).get_tuple(CONFIG)
    assert newest is not None
    assert [m.content for m in newest.checkpoint["channel_values"]["messages"]] == ["one", "echo one", "next"]


# -- values come back equal --------------------------------------------------------


class Custom(HumanMessage):
    """A class of the application's own."""


ODD: dict[str, Any] = {
    "big numbers": {"n": 2**63, "m": -(2**70), "h": 2**256},
    "halves": {"t": "\ud800 and \udc00", "k\udfff": ["?", "\ud83d\ude00"]},
    "sets and numbers": {"s": {1, 2}, "f": 1.0, "i": 1, "b": True},
    "keys": {1: "a", (1, 2): "b"},
    "nothing": None,
    "bytes": b"\x00\xff",
    "an envelope": {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"], "kwargs": {}},
    "our own markers": {"type": "plait", "data": ["x", "msgpack", "00"], "sealed": [0, 1]},
    "lists of ours": ["d", [["i", "0x1"]], ["m", "human", {}]],
    "message-like": [{"type": "human", "data": {"content": "hi"}}],
    "empty": [],
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
def test_any_value_of_a_channel_or_a_write_comes_back_equal(sessions: plait.Sessions, value: Any) -> None:
    """B-008, B-106: exactly, of the same types, and never as something that runs."""
    checkpoint: Any = empty_checkpoint() | {"channel_versions": {"x": 1}, "channel_values": {"x": value}}
    saver = PlaitSaver(sessions)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    stored = saver.put(config, checkpoint, {}, {"x": 1})
    saver.put_writes(stored, [("x", value)], "task")
    found = PlaitSaver(sessions).get_tuple(config)
    assert found is not None and found.pending_writes is not None
    assert repr(found.checkpoint["channel_values"]["x"]) == repr(value)
    assert repr(found.pending_writes[0][2]) == repr(value)


MESSAGES: dict[str, BaseMessage] = {
    "odd text": HumanMessage("\ud800 \x00 é 你好 \U0001f600", id="1"),
    "blocks": HumanMessage(
        [{"type": "text", "text": "a", "x": None}, {"type": "text", "text": "", "sig": "s"}, "plain"]
    ),
    "image": HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]),
    "big number": AIMessage("", tool_calls=[{"name": "f", "args": {"n": 2**80}, "id": "c", "type": "tool_call"}]),
    "signed": AIMessage("", additional_kwargs={"signature": "s", "k": [1, 1.0, True, None]}),
    "artifact": ToolMessage("r", tool_call_id="c", artifact={"t": {1, 2}, "b": b"\x00"}),
    "own class": Custom("of my own", id="c"),
    "unknown keys": AIMessage("x", brand_new={"v": 1}),  # type: ignore[call-arg]
    "response": AIMessage(
        "x",
        response_metadata={"tokens": {"n": 1.0}},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
}


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_any_message_comes_back_equal(sessions: plait.Sessions, message: BaseMessage) -> None:
    """B-014: unknown keys, empty parts, signatures, in order."""
    checkpoint: Any = empty_checkpoint() | {"channel_versions": {"m": 1}, "channel_values": {"m": [message]}}
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    PlaitSaver(sessions).put(config, checkpoint, {}, {"m": 1})
    found = PlaitSaver(sessions).get_tuple(config)
    assert found is not None
    (again,) = found.checkpoint["channel_values"]["m"]
    assert type(again) is type(message) and again == message
    assert repr(again.__dict__) == repr(message.__dict__)


def test_encrypted_values_and_messages_are_nowhere_in_the_clear(sessions: plait.Sessions, tmp_path: Path) -> None:
    class Cipher:
        def encrypt(self, data: bytes) -> tuple[str, bytes]:
            return "turned", bytes(255 - byte for byte in data)

        def decrypt(self, name: str, data: bytes) -> bytes:
            return bytes(255 - byte for byte in data)

    saver = PlaitSaver(sessions, serde=EncryptedSerializer(Cipher(), JsonPlusSerializer()))
    graph = chat(saver)
    for _ in range(2):
        graph.invoke({"messages": [("user", "the word is xyzzy")]}, CONFIG)
    state = chat(PlaitSaver(sessions, serde=saver.serde)).get_state(CONFIG)
    assert [m.content for m in state.values["messages"]] == ["the word is xyzzy", "echo the word is xyzzy"] * 2
    sessions.flush()
    assert not [path.name for path in tmp_path.iterdir() if b"xyzzy" in path.read_bytes()]
    assert sessions.session("thread").totals().messages == 4


def test_a_text_that_a_message_holds_is_not_stored_again(sessions: plait.Sessions) -> None:
    graph = chat(PlaitSaver(sessions), lambda state: {"messages": [AIMessage("an answer " * 40)]})
    graph.invoke({"messages": [("user", "a question " * 40)]}, CONFIG)
    bodies = b"".join(body for _, body in sessions.session("thread").records())
    assert b"question a question" not in bodies and b"answer an answer" not in bodies
    history = list(chat(PlaitSaver(sessions)).get_state_history(CONFIG))
    assert history[-1].tasks[0].result == {"messages": [["user", "a question " * 40]]}
    assert [m.content for m in history[1].tasks[0].result["messages"]] == ["an answer " * 40]


# -- how it grows -------------------------------------------------------------------


def test_what_a_put_writes_does_not_grow_with_the_thread(sessions: plait.Sessions) -> None:
    """B-086: bytes of the records and messages of each turn, not the clock."""
    graph = chat(PlaitSaver(sessions), lambda state: {"messages": [AIMessage("a" * 1000)]})
    sizes: list[int] = []
    for n in range(dose(short=40, soak=400)):
        graph.invoke({"messages": [("user", f"{n:04} " + "q" * 1000)]}, CONFIG)
        records = sum(len(key) + len(body) for key, body in _records(sessions.session("thread")))
        sizes.append(records + sessions.session("thread").totals().bytes)
    steps = [after - before for before, after in itertools.pairwise(sizes[5:])]
    assert max(steps) <= 3.0 * 2000 and max(steps) - min(steps) <= 400


def _records(session: plait.Session) -> Iterator[tuple[bytes, bytes]]:
    first = b""
    while page := session.records(first):
        yield from page
        first = page[-1][0] + b"\x00"


def test_nothing_is_left_of_a_deleted_thread(sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    chat(saver).invoke({"messages": [("user", "one")]}, CONFIG)
    saver.delete_thread("thread")
    assert sessions.get("thread") is None and sessions.session("thread").records() == []
    assert saver.get_tuple(CONFIG) is None
    chat(saver).invoke({"messages": [("user", "anew")]}, CONFIG)
    assert said(sessions.session("thread")) == ["anew", "echo anew"]


def test_pruning_keeps_the_state_and_every_message(sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    graph = chat(saver)
    for text in ("one", "two", "three"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    before, session = graph.get_state(CONFIG), sessions.session("thread")
    saver.prune(["thread"])
    assert [s.values for s in chat(PlaitSaver(sessions)).get_state_history(CONFIG)] == [before.values]
    assert len(session.records()) < 8 and len(said(session)) == 6
    graph.invoke({"messages": [("user", "four")]}, CONFIG)
    assert len(said(session)) == 8
    saver.prune(["thread"], strategy="delete")
    assert session.records() == [] and len(said(session)) == 8
    with pytest.raises(plait.UsageError, match="keep_latest"):
        saver.prune(["thread"], strategy="oldest")


def test_a_copy_has_all_branches_and_goes_its_own_way(sessions: plait.Sessions) -> None:
    saver = PlaitSaver(sessions)
    graph = chat(saver)
    for text in ("one", "two"):
        graph.invoke({"messages": [("user", text)]}, CONFIG)
    older = next(s for s in graph.get_state_history(CONFIG) if len(s.values.get("messages", [])) == 2 and not s.next)
    graph.invoke({"messages": [("user", "other")]}, older.config)
    saver.copy_thread("thread", "copy")
    there: Any = {"configurable": {"thread_id": "copy"}}

    def seen(config: Any) -> Any:
        return [
            [m.content for m in s.values.get("messages", [])]
            for s in chat(PlaitSaver(sessions)).get_state_history(config)
        ]

    assert seen(there) == seen(CONFIG)
    graph.invoke({"messages": [("user", "only here")]}, there)
    assert len(said(sessions.session("copy"))) == len(said(sessions.session("thread"))) + 2
    with pytest.raises(plait.ConflictError):
        saver.copy_thread("thread", "copy")


def test_ids_and_namespaces_are_data(sessions: plait.Sessions) -> None:
    """B-099, B-100: no id is a path or a pattern."""
    saver = PlaitSaver(sessions)
    odd = ["../../etc/x", "a_b", "aXb", "%", "a%", "A_B", "C:\\x", "a\x00b"]
    for thread_id in odd:
        for namespace in ("", "a\x00", "a", "a\x00\x01", "a|b:1"):
            config: Any = {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace}}
            checkpoint: Any = empty_checkpoint() | {
                "channel_versions": {"x": 1},
                "channel_values": {"x": [thread_id, namespace]},
            }
            saver.put(config, checkpoint, {}, {"x": 1})
    for thread_id in odd:
        found = [
            (t.config["configurable"]["checkpoint_ns"], t.checkpoint["channel_values"]["x"])
            for t in saver.list({"configurable": {"thread_id": thread_id}})
        ]
        assert sorted(found) == sorted((ns, [thread_id, ns]) for ns in ("", "a\x00", "a", "a\x00\x01", "a|b:1"))
        saver.delete_thread(thread_id)
    assert list(saver.list(None)) == []


def test_the_wrong_face_says_which_to_open(sessions: plait.Sessions) -> None:
    with pytest.raises(plait.UsageError, match=r"plait\.open"):
        PlaitSaver("agents.db")  # type: ignore[arg-type]
    with pytest.raises(plait.UsageError, match="ainvoke"):
        PlaitSaver(plait.open_async(":memory:")).get_tuple(CONFIG)


def test_one_saver_serves_several_event_loops(sessions: plait.Sessions) -> None:
    """B-035"""
    graph = chat(PlaitSaver(sessions))
    for n in range(3):
        asyncio.run(graph.ainvoke({"messages": [("user", f"{n}")]}, CONFIG))
    assert len(said(sessions.session("thread"))) == 6


async def test_many_threads_at_once_do_not_mix(tmp_path: Path) -> None:
    async with plait.open_async(tmp_path / "a.db", durability="relaxed") as opened:
        graph = chat(PlaitSaver(opened))
        configs: list[Any] = [{"configurable": {"thread_id": f"t{n}"}} for n in range(8)]
        for turn in range(3):
            await asyncio.gather(
                *(graph.ainvoke({"messages": [("user", f"{n}.{turn}")]}, c) for n, c in enumerate(configs))
            )
        for n in range(8):
            texts = [message.text async for message in opened.session(f"t{n}").history()]
            assert texts == [f"{e}{n}.{turn}" for turn in range(3) for e in ("", "echo ")]


# -- what others wrote to the thread ---------------------------------------------


@pytest.fixture
def begun(sessions: plait.Sessions) -> plait.Session:
    """A conversation of another framework's in the thread's session: of its six messages five are a graph's."""
    session = sessions.session("thread")
    calls = [{"type": "function_call", "call_id": id, "name": "weather", "arguments": "{}"} for id in ("c1", "c2")]
    results = [{"type": "function_call_output", "call_id": id, "output": f"of {id}"} for id in ("c1", "c2")]
    session.append_many([{"role": "user", "content": "one"}, *calls, *results, {"role": "assistant", "content": "two"}])
    return session


def given(session: plait.Session, *more: BaseMessage) -> Any:
    from plait.adapters.langchain import PlaitChatMessageHistory

    return {"messages": [*PlaitChatMessageHistory(session).messages, *more]}


def test_a_graph_goes_on_with_what_others_wrote_and_stores_nothing_of_it_again(
    sessions: plait.Sessions, begun: plait.Session
) -> None:
    before = [message.to_json() for message in begun.transcript()]
    result = chat(PlaitSaver(sessions)).invoke(given(begun, HumanMessage("three")), CONFIG)
    assert [message.type for message in result["messages"]] == ["human", "ai", "tool", "tool", "ai", "human", "ai"]
    assert [message.to_json() for message in begun.transcript()][:6] == before
    assert begun.totals().messages == 8 and len(begun.leaves()) == 1
    again = chat(PlaitSaver(sessions)).get_state(CONFIG).values["messages"]  # read by one who has not written it
    assert again == result["messages"] and [call["id"] for call in again[1].tool_calls] == ["c1", "c2"]
    begun.append({"role": "user", "content": "aside"})
    chat(PlaitSaver(sessions)).invoke(given(begun, HumanMessage("four")), CONFIG)
    assert begun.totals().messages == 11
    assert said(begun)[-3:] == ["aside", "four", "echo four"]


@pytest.mark.parametrize("gone", [2, 3, 1, 0])
def test_a_graph_may_drop_any_message_that_others_wrote(
    gone: int, sessions: plait.Sessions, begun: plait.Session
) -> None:
    """Two results are one place: what is left of it is stored as the graph's own."""
    graph = chat(PlaitSaver(sessions))
    messages = graph.invoke(given(begun, HumanMessage("three")), CONFIG)["messages"]
    graph.update_state(CONFIG, {"messages": [RemoveMessage(messages[gone].id)]})
    del messages[gone]
    for saver in (graph.checkpointer, PlaitSaver(sessions)):
        assert chat(saver).get_state(CONFIG).values["messages"] == messages
    assert sessions.doctor() == []


def test_a_summary_of_what_others_wrote_is_a_message_of_the_graphs(
    sessions: plait.Sessions, begun: plait.Session
) -> None:
    first, *_, last = begun.transcript()
    begun.add_overlay(first.id, last.id, summary="They spoke of the weather.")
    result = chat(PlaitSaver(sessions)).invoke(given(begun, HumanMessage("three")), CONFIG)
    assert [message.content for message in result["messages"]] == [
        *("They spoke of the weather.", "three", "echo three")
    ]
    assert chat(PlaitSaver(sessions)).get_state(CONFIG).values["messages"] == result["messages"]


@pytest.mark.parametrize("word", ["approved", "refused"])
def test_a_pause_for_approval_stores_one_call_and_one_result(word: str, sessions: plait.Sessions) -> None:
    """B-048: asked by one saver, answered to another, as in another process."""

    def model(state: Any) -> Any:
        if isinstance(state["messages"][-1], ToolMessage):
            return {"messages": [AIMessage(f"It was {word}.")]}
        call: Any = {"name": "pay", "args": {}, "id": "c1", "type": "tool_call"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def pay(state: Any) -> Any:
        return {"messages": [ToolMessage(interrupt("May I?"), tool_call_id="c1")]}

    def paying() -> Any:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("model", model).add_node("pay", pay)
        graph.add_edge(START, "model").add_edge("pay", "model")
        graph.add_conditional_edges("model", lambda s: "pay" if s["messages"][-1].tool_calls else "__end__")
        return graph.compile(checkpointer=PlaitSaver(sessions))

    assert paying().invoke({"messages": [HumanMessage("Pay!")]}, CONFIG)["__interrupt__"][0].value == "May I?"
    paying().invoke(Command(resume=word), CONFIG)
    session = sessions.session("thread")
    assert [message.role for message in session.history()] == ["user", "assistant", "tool", "assistant"]
    assert said(session)[-1] == f"It was {word}." and session.totals().messages == 4
