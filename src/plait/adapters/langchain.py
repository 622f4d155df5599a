"""LangChain on plait: a chat history, a compaction that changes only what the model is sent, context tools."""

# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# LangChain declares requests, handlers and tools as `Any`, or not at all.
from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

import plait
from plait.adapters import extras
from plait.errors import UsageError
from plait.logic import pacing
from plait.logic.pacing import Policy, Waiting

try:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage
    from langchain_core.messages.utils import count_tokens_approximately
    from langchain_core.tools import StructuredTool
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.config import get_config

    from plait.adapters.langgraph import layout, overlays, rows
    from plait.adapters.langgraph.steps import Work, all_of, on, run, run_async
except ImportError as error:
    raise extras.missing("langchain", error) from error

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest

__all__ = ["PlaitChatMessageHistory", "PlaitCompaction", "tools", "tools_async"]

log = logging.getLogger("plait")
_SERDE: Final = JsonPlusSerializer()
_WAITING: Final = layout.PREFIX + b"p"
"""Under it a thread's session keeps what the next attempt to compact waits for."""
NO_PLACE: Final = (
    "a summary is not asked for, because it would not be sent: the graph's messages have not both ends of what it would "
    "cover. Begin a run with PlaitSaver.messages(config) if another framework went on"
)


class PlaitChatMessageHistory(BaseChatMessageHistory):
    """The history of one session, for `RunnableWithMessageHistory` and what else takes LangChain's histories.

    `messages` is the conversation as a model is to see it: with the session's overlays laid on, and never a
    tool's result without its call. A message whose id is there already is not added twice.
    """

    def __init__(self, session: plait.Session | plait.AsyncSession) -> None:
        if not isinstance(session, plait.Session | plait.AsyncSession):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise UsageError(f"PlaitChatMessageHistory takes a session of plait's, not a {type(session).__name__}")
        self._session = session

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The conversation, root first."""
        return [_restored(row) for row in self._sync().history(as_="langchain", for_model=True)]

    async def aget_messages(self) -> list[BaseMessage]:
        """See `messages`."""
        if isinstance(self._session, plait.AsyncSession):
            return [_restored(row) async for row in self._session.history(as_="langchain", for_model=True)]
        return await super().aget_messages()

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages at the active leaf, all or none; `ConflictError` for another message under an id in use."""
        self._sync().append_many(_rows(messages), format=rows.FORMAT, on_conflict="raise")

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """See `add_messages`."""
        if isinstance(self._session, plait.AsyncSession):
            await self._session.append_many(_rows(messages), format=rows.FORMAT, on_conflict="raise")
        else:
            await super().aadd_messages(messages)

    def clear(self) -> None:
        """Remove all messages of the session."""
        self._sync().clear()

    async def aclear(self) -> None:
        """See `clear`."""
        if isinstance(self._session, plait.AsyncSession):
            await self._session.clear()
        else:
            await super().aclear()

    def _sync(self) -> plait.Session:
        if isinstance(self._session, plait.AsyncSession):
            raise UsageError("this session is open_async's: use ainvoke, or give a session of plait.open")
        return self._session


def _rows(messages: Sequence[BaseMessage]) -> list[dict[str, Any]]:
    return [rows.row_of(message, _SERDE, plain=True) for message in messages]


def _restored(row: Any) -> BaseMessage:
    return rows.restore(row, _SERDE)


class PlaitCompaction(AgentMiddleware[Any, Any]):
    """Keeps an agent's requests within bounds: older messages are summarized, in what the model is sent alone.

    The agent's state keeps every message, and so does the thread's session (`PlaitSaver` on the same
    sessions): the summary is an overlay there, made once, seen by every process, and removable. Before a
    call of the model whose messages would have more than `trigger_tokens`, the middle of the thread is
    summarized by `summary_model`, a chat model that is called without tools; what it used is added to the usage
    of the session. If that fails or wins too little, or the state has no place for the summary, which is not asked for
    then, the request goes out as it is, that is logged, and the next attempt waits until the messages have grown, in
    every process: as `session.compact_if_needed` waits. `reserved_tokens` stand
    for what is sent beside the messages: the system's prompt, tools.
    """

    def __init__(
        self,
        sessions: plait.Sessions | plait.AsyncSessions,
        *,
        summary_model: Any,
        trigger_tokens: int = 100_000,
        keep_recent_tokens: int = 20_000,
        reserved_tokens: int = 0,
        token_counter: Callable[[Sequence[BaseMessage]], int] = count_tokens_approximately,
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._model = summary_model
        self._policy = _policy(trigger_tokens - reserved_tokens)
        self._count = token_counter
        self._keep = keep_recent_tokens

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Any]) -> Any:
        """Send the model the messages with the thread's summaries in their places."""
        if isinstance(self._sessions, plait.AsyncSessions):
            raise UsageError("these sessions are open_async's: use ainvoke, or give sessions of plait.open")
        thread_id = _thread()
        if thread_id is None:
            return handler(request)
        session = self._sessions.session(thread_id)
        function = self._function(lambda prompt: self._summarize(session, prompt))
        shown = run(_Apart.of(session, function), self._shown(thread_id, request.messages))
        return handler(request.override(messages=shown))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """See `wrap_model_call`."""
        if not isinstance(self._sessions, plait.AsyncSessions):
            raise UsageError("these sessions are open's: use invoke, or give sessions of plait.open_async")
        thread_id = _thread()
        if thread_id is None:
            return await handler(request)
        session = self._sessions.session(thread_id)
        function = self._function(lambda prompt: self._asummarize(session, prompt))
        shown = await run_async(_Apart.of(session, function), self._shown(thread_id, request.messages))
        return await handler(request.override(messages=shown))

    def _shown(self, thread_id: str, messages: list[Any]) -> Work[list[Any]]:
        """The messages with the summaries in their places, and one more made if they are too many."""
        shown = yield from _laid(thread_id, messages)
        if not self._policy.is_due(self._count(shown)):
            return shown
        try:
            return (yield from self._compacted(thread_id, messages, shown))
        except plait.PlaitError as error:
            log.warning("thread %r is not compacted: %s", thread_id, error)
            return shown

    def _compacted(self, thread_id: str, messages: list[Any], shown: list[Any]) -> Work[list[Any]]:
        """The same after an attempt to compact, unless the last one is still to be waited with."""
        waiting = yield from self._waiting(thread_id, shown)
        if not waiting.is_over(self._count(shown), len(shown)):
            return shown
        done = yield from _attempt(thread_id, messages)
        if pacing.is_passing(done):
            return shown
        shown = yield from _laid(thread_id, messages)
        size = self._count(shown)
        why = pacing.hindrance(done, self._policy, size)
        if why is not None:
            log.warning("thread %r is not compacted enough, and the next attempt waits: %s", thread_id, why)
            longer = waiting.longer(why, self._policy, size, 0, len(shown))
            yield on(thread_id, "write_records", {_WAITING: msgspec.json.encode(longer)})
        elif waiting.paused is not None:
            yield on(thread_id, "write_records", delete=[_WAITING])
        return shown

    def _waiting(self, thread_id: str, shown: list[Any]) -> Work[Waiting]:
        """What the next attempt waits for: nothing any more if the messages have become far fewer since."""
        body = (yield on(thread_id, "read_records", [_WAITING])).get(_WAITING)
        try:
            waiting = Waiting() if body is None else msgspec.json.decode(body, type=Waiting)
        except msgspec.MsgspecError:  # of another version
            return Waiting()
        shrank = self._count(shown) + self._policy.limit // pacing.ROOM <= waiting.stood
        return Waiting() if shrank else waiting

    def _summarize(self, session: plait.Session, prompt: str) -> str:
        answer = self._model.invoke(prompt)
        if used := _used(answer):
            session.sessions.add_usage(session.id, **used)
        return _text(answer)

    async def _asummarize(self, session: plait.AsyncSession, prompt: str) -> str:
        answer = await self._model.ainvoke(prompt)
        if used := _used(answer):
            await session.sessions.add_usage(session.id, **used)
        return _text(answer)

    def _function(self, summarize: Callable[[str], Any]) -> plait.CompactFunction:
        return plait.compact_function(summarize, keep_recent_tokens=self._keep)


def _thread() -> str | None:
    """The thread that runs here; `None` for an agent without a checkpointer's config."""
    try:
        thread_id = get_config().get("configurable", {}).get("thread_id")
    except RuntimeError:
        return None
    return None if thread_id is None else str(thread_id)


class _Apart(NamedTuple):
    """A handle of a session beside the one that everybody has, whose own compaction stays as it is."""

    handle: Any

    @classmethod
    def of(cls, session: Any, function: plait.CompactFunction) -> Any:
        return cls(session._under(session._ref).on_compaction(function))

    def session(self, id: str) -> Any:
        return self.handle


def _policy(tokens: int) -> Policy:
    policy = pacing.policy(max(0, tokens), None, 1, 0, 0, False)
    assert policy is not None
    return policy


def _laid(thread_id: str, messages: list[Any]) -> Work[list[Any]]:
    on_path = yield on(thread_id, "overlays")
    path = (yield all_of(thread_id, "transcript")) if on_path else []
    return overlays.laid(messages, on_path, overlays.spans_of(path))


def _attempt(thread_id: str, messages: list[Any]) -> Work[plait.Compacted]:
    """Compact the thread, if its summary would be sent."""
    try:
        plan = yield on(thread_id, "compact", dry_run=True)
        if plan.from_id is not None and not (yield from _has_place(thread_id, messages, plan)):
            return plait.Compacted(None, NO_PLACE)
        return (yield on(thread_id, "compact"))  # type: ignore[no-any-return]
    except plait.CompactionError as error:
        return plait.Compacted(None, f"it failed: {error}")


def _has_place(thread_id: str, messages: list[Any], plan: plait.Compacted) -> Work[bool]:
    """Whether messages have both ends of what would be covered, so that a summary could be sent in the place of it."""
    on_path = yield on(thread_id, "overlays")
    path = yield all_of(thread_id, "transcript")
    seqs = {row.id: row.seq for row in path}
    for one in on_path:
        seqs |= {one.from_id: one.from_seq, one.to_id: one.to_seq}
    if plan.from_id not in seqs or plan.to_id not in seqs:  # deleted meanwhile
        return False
    covered = overlays.Span(seqs[plan.from_id], seqs[plan.to_id])
    return overlays.has_place(messages, covered, on_path, overlays.spans_of(path))


def _text(answer: Any) -> str:
    """What a model said."""
    return str(answer.text) if isinstance(answer, BaseMessage) else str(answer)


def _used(answer: Any) -> dict[str, int]:
    """The tokens that a summary used, as `add_usage` takes them."""
    usage = getattr(answer, "usage_metadata", None) or {}
    return {key: usage[key] for key in ("input_tokens", "output_tokens") if key in usage}


def tools(session: plait.Session) -> list[StructuredTool]:
    """The session's context tools as LangChain's, to be given to an agent beside its own."""
    return [_tool(tool, func=_calling(tool)) for tool in session.tools()]


async def tools_async(session: plait.AsyncSession) -> list[StructuredTool]:
    """See `tools`; for `ainvoke`."""
    return [_tool(tool, coroutine=_calling(tool)) for tool in await session.tools()]


def _calling(tool: Any) -> Callable[..., Any]:
    def call(**given: Any) -> Any:
        return tool.call(given)

    async def call_async(**given: Any) -> Any:
        return await tool.call(given)

    return call_async if isinstance(tool, plait.AsyncTool) else call


def _tool(tool: Any, **how: Any) -> StructuredTool:
    return StructuredTool(name=tool.name, description=tool.description, args_schema=tool.schema, **how)
