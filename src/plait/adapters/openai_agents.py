"""A plait session as the `Session` of OpenAI's Agents SDK, its tools and prompt as an agent's, compaction by its model.

async with plait.open_async("agents.db") as sessions:
    session = PlaitSession(sessions.session("support-42"))
    await Runner.run(agent, "Where is my order?", session=session)
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import plait
from plait.adapters.extras import missing
from plait.adapters.tails import NOT_SENT, Piece, Row, covered_by, summarized, tail_at
from plait.logic import arguments
from plait.logic.turns import Unit, UnitsBackward

try:
    from agents import Agent, FunctionTool, Model, ModelSettings, ModelTracing, RunConfig, RunContextWrapper, Usage
    from agents import SessionSettings as Settings
    from agents.memory.session_settings import coerce_session_settings
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise missing("openai_agents", error) from error

if TYPE_CHECKING:
    from agents import OpenAIResponsesCompactionArgs, TResponseInputItem
    from agents.result import RunResultBase

__all__ = ["PlaitSession", "compacting", "instructions", "summarizer", "tools"]

log = logging.getLogger("plait")
FORMAT: Final[Literal["openai"]] = "openai"
WINDOW: Final = 50
"""How many messages of a session of `plait.open` a thread reads at a time."""

M = TypeVar("M")
Item: TypeAlias = "TResponseInputItem"
Run: TypeAlias = "RunContextWrapper[Any] | None"
Chat: TypeAlias = plait.AsyncSession | plait.Session
Instructions: TypeAlias = "str | Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str] | str] | None"


async def _to_its_end(work: Coroutine[Any, Any, M]) -> M:
    """The answer of `work`, which is not left halfway: a cancellation waits for it, and goes out then."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled() and task.exception() is not None:
            log.warning("what was cancelled had failed before: %s", task.exception())
        raise


@dataclasses.dataclass(frozen=True)
class _Tail:
    """The newest messages of a session, oldest first; whether that is all; its leaf and its version then."""

    shown: list[plait.Message]
    whole: bool
    leaf_id: str | None
    version: int


class _ForModel(int):
    """A limit of what a model is to see; others say how much of the stored end somebody is to compare."""


class _Settings(Settings):
    """The SDK's settings, whose limit is known again where the runner hands it to `get_items`, also with a run's own."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return _ForModel(value) if name == "limit" and value is not None else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.to_dict() == other.to_dict()

    def resolve(self, override: Settings | dict[str, Any] | None) -> Settings:
        return super().resolve(override.to_dict() if isinstance(override, Settings) else override)


class PlaitSession:
    """What `Runner.run(…, session=…)` takes, over one session of plait that the caller has opened.

    Items are kept verbatim and come back equal, those that repeat an id too. What is taken back
    (`pop_item`, `clear_session`, `rewind`) stays in the session as a branch that the conversation left;
    with `erase` it is deleted. Everything else that a session of plait can do is at `chat`.
    """

    session_id: str
    """The id of the plait session."""

    chat: Chat
    """The session of plait: its branches, overlays, search, feed, context."""

    def __init__(
        self, chat: Chat, *, session_settings: Settings | Mapping[str, Any] | None = None, erase: bool = False
    ) -> None:
        """`chat` is a session of `plait.open_async`, or of `plait.open`, whose calls are then made in threads.

        `session_settings` is the SDK's object or a dict of its fields. `erase` is the default of
        `pop_item` and `clear_session`.
        """
        self.chat = chat
        self.session_id = chat.id
        self.session_settings = session_settings
        self._erase = erase
        self._chat = _awaitable(chat)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session_id!r}>"

    @property
    def session_settings(self) -> Settings:
        """The SDK's settings; `limit` says how many items a model is shown at most."""
        return self._settings

    @session_settings.setter
    def session_settings(self, given: Settings | Mapping[str, Any] | None) -> None:
        settings = coerce_session_settings(dict(given) if isinstance(given, Mapping) else given or Settings())
        self._settings = _Settings(**settings.to_dict())

    # -- the protocol ------------------------------------------------------------

    async def get_items(self, limit: int | None = None, *, wrapper: Run = None) -> list[Item]:
        """The conversation as `chat.history()` shows it, oldest first; with a limit its newest items.

        The limit of `session_settings`, or that of a run's own, is for what a model sees: what belongs together is
        answered together or not at all (a call with its results, reasoning with what follows it), so it can be fewer
        items. Any other `limit` is taken at its word, for with such the runner compares what is stored. A
        negative one is none. Damaged messages are left out.
        """
        most = self.session_settings.limit if limit is None else limit
        if most is None or most < 0:
            return [item async for message in self._chat.history() for item in _items(message)]
        return await (self._newest_units(most) if isinstance(most, _ForModel) else self._newest(most))

    async def add_items(self, items: list[Item], *, wrapper: Run = None) -> None:
        """Append the items after one another, all or none.

        Each is a message of the format `openai`, with an id of its own making: the SDK's own ids repeat. Raises
        `plait.InvalidMessageError` for what JSON cannot say exactly.
        """
        if not items:
            await self._chat.leaf()  # says whether the store is open
        await self._chat.append_many(cast("list[dict[str, Any]]", items), format=FORMAT, own_ids=False)

    async def pop_item(self, *, erase: bool | None = None, wrapper: Run = None) -> Item | None:
        """Take back the newest item and answer it; `None` if there is none.

        The active leaf moves to the message before it; with `erase` the message is deleted. Damaged messages
        that are in the way are taken back, too, and so is a summary in one piece.
        """
        while True:
            leaf, message = await self._chat.leaf(), await self._newest_message()
            if leaf is None or message is None:
                return None
            items = _items(message)
            if await self._taken_back(message, leaf.id, self._erase if erase is None else erase) and items:
                return items[-1]

    async def clear_session(self, *, erase: bool | None = None, wrapper: Run = None) -> None:
        """Begin anew: what was said stays as a branch. With `erase` all messages of the session are deleted."""
        if self._erase if erase is None else erase:
            await self._chat.clear()
        else:
            await self._chat.checkout(None)

    async def rewind(self, turns: int = 1) -> Item | None:
        """Go back to before what the user said `turns` times ago, and answer that; `None` if there is less.

        What came after it stays as a branch: `chat.leaves()` has its end, `chat.checkout` goes back to it.
        `plait.UsageError` for fewer turns than one.
        """
        turns = arguments.number("turns", turns, least=1)
        async with _closing(self._chat.history(newest_first=True)) as messages:
            async for message in messages:
                if isinstance(message, plait.Message) and message.role == "user" and (items := _items(message)):
                    turns -= 1
                    if turns <= 0:
                        await self._chat.checkout(message.parent_id)
                        return items[0]
        return None

    async def store_run_usage(self, result: RunResultBase) -> None:
        """Add what a run used to what the session has used, which `chat.info()` says. Call it once for a run."""
        await _add_usage(self.chat, result.context_wrapper.usage)

    # -- compaction ----------------------------------------------------------------

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None, *, wrapper: Run = None) -> None:
        """Compact the session if it is due, as `chat.on_compaction` and `chat.compact_after` say; the runner calls it.

        With `force` it is compacted now. Without those two nothing is done, or, forced, `plait.UsageError` raised.
        """
        forced = bool(args and args.get("force"))
        try:
            await (self._chat.compact() if forced else self._chat.compact_if_needed())
        except plait.UsageError:
            if forced:
                raise

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Item], bool] | None = None
    ) -> object | None:
        """What `OpenAIResponsesCompactionSession` compacts: the newest items, and how to replace the end of them.

        Replacing hides: an overlay is laid over what the compaction covers, and its output goes after it.
        """
        from agents.memory import session as theirs

        snapshot: Any = getattr(theirs, "_CompactionSnapshot", None)
        tail = None if snapshot is None or self._is_changed() else await self._tail(limit)
        if snapshot is None or tail is None or any(len(found) != 1 for found in map(_items, tail.shown)):
            return None  # a message that is several items, or unreadable, cannot be replaced in part

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            replaced = start < len(tail.shown) and await self._replace(tail, start, output)
            if replaced and prune_prefix is not None:
                await self._prune(prune_prefix)
            return replaced

        found: object = snapshot([item for (item,) in map(_items, tail.shown)], tail.whole, replace_suffix)
        return found

    async def _atomic_replace_items(self, items: list[Item]) -> bool:
        """Have these items in the place of all that is shown; what was there is hidden by an overlay."""
        tail = None if self._is_changed() else await self._tail(None)
        return tail is not None and await self._replace(tail, 0, items)

    async def _tail(self, most: int | None) -> _Tail | None:
        """The newest messages that the history shows, and where the session stood then; `None` if it is absent."""
        info, leaf = await self._chat.info(), await self._chat.leaf()
        shown: list[plait.Message] = []
        whole = True
        async with _closing(self._chat.history(newest_first=True)) as messages:
            async for message in messages:
                whole = len(shown) != most
                if not whole:
                    break
                if isinstance(message, plait.Message):
                    shown.append(message)
        return None if info is None else _Tail(shown[::-1], whole, None if leaf is None else leaf.id, info.version)

    async def _replace(self, tail: _Tail, start: int, output: list[Item]) -> bool:
        """Append `output` and hide what was shown from `start` on, if nothing was written since it was read.

        Between the two both are shown, so what is begun is done before a cancellation goes out.
        """
        return await _to_its_end(self._append_and_hide(tail, start, output))

    async def _append_and_hide(self, tail: _Tail, start: int, output: list[Item]) -> bool:
        items = cast("list[dict[str, Any]]", output)
        try:
            await self._chat.append_many(items, format=FORMAT, own_ids=False, expect_version=tail.version)
        except plait.LeafMovedError:
            return False
        info = None if items else await self._chat.info()
        if info is not None and info.version != tail.version:
            return False  # nothing was to be appended, so nothing was compared
        if tail.shown and tail.leaf_id is not None:
            first = tail.shown[start]
            await self._chat.archive(first.id if first.overlay is None else first.overlay.from_id, tail.leaf_id)
        return True

    async def _prune(self, is_over: Callable[[Item], bool]) -> None:
        """Hide the oldest items as long as a store on top of this one says that their time is over."""
        over: list[str] = []
        async with _closing(self._chat.history()) as messages:
            async for message in messages:
                if not all(map(is_over, _items(message))) or getattr(message, "overlay", None) is not None:
                    break
                over.append(message.id)
        if over and self._erase:
            await self._chat.delete(over)
        elif over:
            await self._chat.archive(over[0], over[-1])

    def _is_changed(self) -> bool:
        """Whether a subclass reads or writes items in another way than they are stored."""
        kept = (PlaitSession.get_items, PlaitSession.add_items)
        return (type(self).get_items, type(self).add_items) != kept

    # -- reading -------------------------------------------------------------------

    async def _newest_message(self) -> plait.Message | plait.Damaged | None:
        async with _closing(self._chat.history(newest_first=True)) as messages:
            async for message in messages:
                return message
        return None

    async def _newest(self, most: int) -> list[Item]:
        newest: list[Item] = []
        async with _closing(self._chat.history(newest_first=True)) as messages:
            while len(newest) < most and (message := await anext(messages, None)) is not None:
                newest += _items(message)[::-1]
        return newest[:most][::-1]

    async def _newest_units(self, most: int) -> list[Item]:
        """The newest items, cut where nothing belongs together."""
        newest: list[Item] = []
        async with _closing(self._units()) as units:
            async for unit in units:
                said = [entry.message for entry in unit.entries if entry.says or not entry.orphans]
                items = [item for message in said for item in _items(message)]
                if len(newest) + len(items) > most:
                    break
                newest = items + newest
        return newest

    async def _units(self) -> AsyncIterator[Unit]:
        """What belongs together of the conversation, newest first."""
        reader = UnitsBackward()
        async with _closing(self._chat.history(newest_first=True)) as messages:
            async for message in messages:
                for unit in reader.feed(message):
                    yield unit
        for unit in reader.end():
            yield unit

    async def _taken_back(self, message: plait.Message | plait.Damaged, leaf: str, erase: bool) -> bool:
        """Take a message that is shown last off the path; `False` if somebody else moved the leaf meanwhile."""
        overlay = message.overlay if isinstance(message, plait.Message) else None
        if not erase:
            try:
                return await self._chat.checkout(message.parent_id, expect_leaf=leaf)
            except plait.LeafMovedError:
                return False
        if overlay is None:
            return bool(await self._chat.delete(message.id))
        covered = [below.id async for below in self._chat.transcript(after_seq=overlay.from_seq - 1)]
        return bool(await self._chat.delete(covered))


# -- items -------------------------------------------------------------------------


def _items(message: plait.Message | plait.Damaged) -> list[Item]:
    """A stored message as items: its own, verbatim, or what another format's says."""
    if isinstance(message, plait.Damaged):
        return []
    try:
        own = message.format == FORMAT
        return cast("list[Item]", [message.to_dict()] if own else list(plait.messages_as([message], FORMAT)))
    except plait.CorruptError:
        return []


def _is_output(item: Mapping[str, Any]) -> bool:
    return str(item.get("type")).endswith("_output")


def _call_of(item: Mapping[str, Any]) -> object:
    return item.get("call_id") or item.get("id")


# -- sessions of both faces ------------------------------------------------------------


class _InThreads:
    """A session of `plait.open` whose calls are made in threads, as they hold whoever makes them."""

    def __init__(self, chat: plait.Session) -> None:
        self._chat = chat

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._chat, name)
        return _calling(value) if callable(value) else value

    def history(self, **given: Any) -> AsyncIterator[plait.Message | plait.Damaged]:
        return self._each(partial(self._chat.history, **given))

    def transcript(self, **given: Any) -> AsyncIterator[plait.Message | plait.Damaged]:
        return self._each(partial(self._chat.transcript, **given))

    async def _each(self, read: Callable[[], Iterator[M]]) -> AsyncIterator[M]:
        messages = read()
        while window := await asyncio.to_thread(_window, messages):
            for message in window:
                yield message


def _closing(messages: AsyncIterator[M]) -> aclosing[AsyncGenerator[M, None]]:
    """Messages to be read as far as is wanted, and then left."""
    return aclosing(cast("AsyncGenerator[M, None]", messages))


def _window(messages: Iterator[M]) -> list[M]:
    return list(islice(messages, WINDOW))


def _awaitable(chat: Chat) -> plait.AsyncSession:
    return chat if isinstance(chat, plait.AsyncSession) else cast(plait.AsyncSession, _InThreads(chat))


def _calling(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    """A function to be awaited: itself if it is a coroutine function, else its call in a thread."""
    return function if inspect.iscoroutinefunction(function) else partial(asyncio.to_thread, function)


# -- what an agent is given ------------------------------------------------------------


async def tools(chat: Chat) -> list[FunctionTool]:
    """The session's context tools, and those of sessions, as the SDK's own: `Agent(tools=[*mine, *await tools(chat)])`.

    They are those for the blocks as they are declared now; see `Session.tools`.
    """
    found = await _awaitable(chat).tools()
    return [
        FunctionTool(
            name=tool.name,
            description=tool.description,
            params_json_schema=tool.schema,
            on_invoke_tool=partial(_invoked, _calling(tool.call)),
            strict_json_schema=False,
        )
        for tool in found
    ]


async def _invoked(call: Callable[[str], Awaitable[str]], context: object, arguments: str) -> str:
    return await call(arguments)


def instructions(
    chat: Chat, own: Instructions = None
) -> Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str]]:
    """The session's frozen prompt for `Agent(instructions=…)`, after instructions of your own.

    `own` is what `Agent` takes: a text, or a function of the run's context and the agent. The frozen prompt is the same
    until it is refreshed, so the model's cache holds; what is empty is left out.
    """

    async def prompt(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        mine = own(context, agent) if callable(own) else own
        mine = await mine if inspect.isawaitable(mine) else mine
        frozen = await _awaitable(chat).freeze_system_prompt()
        return "\n\n".join(text for text in (mine, frozen) if text)

    return prompt


# -- compaction by the agent's model ---------------------------------------------------------


def summarizer(
    agent: Agent[Any],
    *,
    summary_model: str | Model | None = None,
    run_config: RunConfig | None = None,
    chat: Chat | None = None,
) -> Callable[[str], Awaitable[str]]:
    """What writes the summaries, for `plait.compact_function`: the agent's own model, without tools.

    `summary_model` is another one, by name or as an object. Names are looked up as the runner does, by the
    provider of `run_config`, whose model comes before the agent's. For sessions of `plait.open_async`. What
    the summaries use is added to the usage of `chat`, if that is given.
    """
    config = run_config or RunConfig()

    async def summarize(prompt: str) -> str:
        chosen = summary_model or config.model or agent.model
        response = await (
            chosen if isinstance(chosen, Model) else config.model_provider.get_model(chosen)
        ).get_response(
            system_instructions=None,
            input=prompt,
            model_settings=ModelSettings() if summary_model else _settings(agent, config),
            tools=[],
            output_schema=None,
            handoffs=[],
            tracing=ModelTracing.DISABLED,
            previous_response_id=None,
            conversation_id=None,
            prompt=None,
        )
        if chat is not None:
            await _add_usage(chat, response.usage)
        said = [part for item in response.output if item.type == "message" for part in item.content]
        return "".join(part.text for part in said if part.type == "output_text")

    return summarize


async def _add_usage(chat: Chat, used: Usage) -> None:
    add = _calling(_awaitable(chat).sessions.add_usage)
    await add(chat.id, input_tokens=used.input_tokens, output_tokens=used.output_tokens)


def _settings(agent: Agent[Any], config: RunConfig) -> ModelSettings:
    """The settings of the agent's calls, without what only calls with tools may have."""
    settings = agent.model_settings.resolve(config.model_settings)
    return dataclasses.replace(settings, tool_choice=None, parallel_tool_calls=None)


def compacting(session: PlaitSession, run_config: RunConfig | None = None, *, reserved_tokens: int = 0) -> RunConfig:
    """A copy of `run_config` with which a run compacts the session also between its calls of the model.

    How and when is said by `chat.on_compaction` and `chat.compact_after`. Before each call the input's size is looked at,
    with the agent's instructions and function tools; `reserved_tokens` is for what cannot be seen there, such as
    tools of MCP servers. A filter of the config's own runs after.
    """
    config = run_config or RunConfig()
    after = config.call_model_input_filter

    async def before_call(data: CallModelData[Any]) -> ModelInputData:
        model_data = await _compacted(session, data, reserved_tokens)
        if after is None:
            return model_data
        filtered = after(dataclasses.replace(data, model_data=model_data))
        return await filtered if inspect.isawaitable(filtered) else filtered

    return dataclasses.replace(config, call_model_input_filter=before_call)


async def _compacted(session: PlaitSession, data: CallModelData[Any], reserved_tokens: int) -> ModelInputData:
    """The model's input, with summaries in the place of what they cover."""
    chat, given = _awaitable(session.chat), data.model_data
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
        for tool in data.agent.tools
        if isinstance(tool, FunctionTool)
    ]
    done = await chat.compact_if_needed(instructions=given.instructions, tools=schemas, reserved_tokens=reserved_tokens)
    rows = [row async for row in chat.history()]
    end = summarized(rows)
    if not end:
        return given
    covered = await covered_by(chat, rows[end - 1])
    shortened = _shortened(rows, end, covered, given.input)
    if shortened is None and done.done:
        log.warning(NOT_SENT, session.session_id)
    return given if shortened is None else ModelInputData(input=shortened, instructions=given.instructions)


def _shortened(rows: Sequence[Row], end: int, covered: Sequence[Row], given: list[Item]) -> list[Item] | None:
    """The input with what the session shows up to its last summary, in the place of that; `None` if it is not found."""
    head = [item for row in plait.legal_view(rows[:end]) for item in _items(row)]
    for tail in (rows[end:], list(plait.legal_view(rows[end:]))):
        at = tail_at(_pieces(given), _pieces_of(covered), _piece(head[-1]), _pieces_of(tail))
        if at is not None:
            return [*head, *given[at:]] if at > len(head) else given
    return None


def _pieces_of(rows: Sequence[Row]) -> list[Piece]:
    return _pieces([item for row in rows for item in _items(row)])


def _pieces(items: Sequence[Item]) -> list[Piece]:
    return [_piece(item) for item in items]


def _piece(item: Mapping[str, Any]) -> Piece:
    bare = _bare(item)
    if item.get("type") == "reasoning":
        return Piece(bare, "thought")
    if _is_output(item):
        return Piece(bare, "result", _call_of(item))
    return Piece(bare, "call", item["call_id"]) if item.get("call_id") else Piece(bare)


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item without what the runner adds to it or takes off it on the way to a model."""
    bare = {key: value for key, value in item.items() if key not in ("id", "status", "provider_data")}
    if bare.get("type") == "message":
        del bare["type"]
    return bare
