"""plait under Pydantic AI: a store of conversations, and a session's context as an agent's tools and instructions."""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime as dt
import inspect
import itertools
import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeGuard, TypeVar, cast

import plait
from plait.adapters.extras import missing
from plait.adapters.tails import NOT_SENT, Piece, covered_by, summarized, tail_at
from plait.formats.crossing import sourced
from plait.logic.ids import check_own_id
from plait.logic.shape import is_list, is_mapping, is_object

try:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_ai import CallToolsNode, ModelRequestNode, RunContext, Tool, UserPromptNode
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.conversation_store import (
        ConversationConflict,
        ConversationEntry,
        ConversationRecord,
    )
    from pydantic_ai.conversation_store import ConversationStore as _ConversationStore
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import BinaryContent, ModelMessage, ModelMessagesTypeAdapter, ModelRequest, UserPromptPart
    from pydantic_ai.models import KnownModelName, Model, ModelRequestContext
    from pydantic_ai.usage import RunUsage
except ImportError as error:
    raise missing("pydantic_ai", error) from error

__all__ = ["Compaction", "ConversationStore", "Saving", "history", "instructions", "summarizer", "tools"]

log = logging.getLogger("plait")
FORMAT: Final = "pydantic-ai"
STATE: Final = "pydantic-ai"
"""Under this key a session's state has what Pydantic AI's record of the conversation says beside the messages."""
TRIES: Final = 20
HOMES: Final = 10_000
SLACK: Final = dt.timedelta(minutes=1)

T = TypeVar("T")
Json = dict[str, Any]
_RECORDS: Final[TypeAdapter[ConversationRecord]] = TypeAdapter(ConversationRecord)
_VIEW: Final[ContextVar[bool]] = ContextVar("plait-pydantic-ai-view", default=False)
_URLS: Final = str.maketrans("-_", "+/")


class _Stood(NamedTuple):
    """How a conversation stands: its record, the version of the session that says so, and whether a save has kept one."""

    record: ConversationRecord | None
    version: int | None
    kept: bool


class ConversationStore(_ConversationStore):
    """Pydantic AI's conversations in plait: one session each, of the conversation's id, an entry being a message.

    Give it the sessions that you opened with `plait.open_async`. Entries keep their ids and come back
    equal; branches are branches of the session; a fork is a session of its own that holds a copy of
    the path, so deleting one conversation leaves every other whole, and deletes all that is its own.
    Entries and record are written in one transaction: a conflict leaves neither behind. The path of a fork is
    copied before; one that was stopped between the two is made by repeating it.

    A session that others wrote is a conversation too. What another framework appended is read as
    Pydantic AI's messages, and belongs to the history from then on; a copy loaded before conflicts.
    `load` shows overlays, so after a compaction a run begins with the summary; `load_entries` and
    whatever a save compares with have every entry.

    Conversations of all of Pydantic AI's scopes are in the one scope of plait's that `sessions` is of.
    """

    def __init__(self, sessions: plait.AsyncSessions) -> None:
        self._sessions = sessions
        self._homes: OrderedDict[str, str] = OrderedDict()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._sessions!r})"

    async def load(self, conversation_id: str, *, limit: int | None = None, scope: str | None = None) -> Any:
        """The conversation with its overlays laid on, or `None`; see `ConversationStore.load`."""
        token = _VIEW.set(True)
        try:
            return await super().load(conversation_id, limit=limit, scope=scope)
        finally:
            _VIEW.reset(token)

    # -- records ---------------------------------------------------------------

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """The conversation's record, `None` for a session that is absent or has never held anything."""
        return (await self._stood(conversation_id)).record

    async def read_records(self, *, scope: str | None = None, limit: int | None = None) -> Sequence[ConversationRecord]:
        """The records, or those with the given `scope`, the latest saved first, at most `limit`.

        Sessions are looked through in the order of their last activity, and no further than needed.
        """
        found: list[ConversationRecord] = []
        async for info in self._sessions.all():
            if limit is not None and len(found) >= limit and info.active_at + SLACK < found[limit - 1].updated_at:
                break
            record = await self.read_record(info.id)
            if record is not None and (scope is None or record.scope == scope):
                found.append(record)
                found.sort(key=lambda one: one.updated_at, reverse=True)
        return found[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and the entries its history adds, all or nothing; `ConversationConflict` as documented there."""
        begun = False
        for _ in range(TRIES):
            stood = await self._stood(record.conversation_id)
            begun = begun or (not stood.kept and await self._is_begun(record, new_entries))
            found = None if begun and not stood.kept else stood.record
            if (found.revision if found is not None else None) != expected_revision:
                break
            if stood.version is None:
                begun = await self._begin(record, new_entries)
                continue
            try:
                await self._write(record, new_entries, stood.version)
            except plait.LeafMovedError:
                continue
            except (plait.NotFoundError, plait.ConflictError):
                break
            return
        raise ConversationConflict(record.conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Delete the conversation's session with all its entries; forks have their own copies and stay whole."""
        for _ in range(TRIES):
            stood = await self._stood(conversation_id)
            if stood.record is None or stood.record.revision != expected_revision:
                raise ConversationConflict(conversation_id)
            if await self._sessions.delete(conversation_id, expect_version=stood.version):
                return
        raise ConversationConflict(conversation_id)

    async def _stood(self, conversation_id: str) -> _Stood:
        if not _can_exist(conversation_id):
            return _Stood(None, None, False)
        return await _afresh(lambda: self._read_stood(conversation_id))

    async def _read_stood(self, conversation_id: str) -> _Stood:
        session = self._sessions.session(conversation_id)
        info = await session.info()
        if info is None:
            return _Stood(None, None, False)
        # The version is read first: should the session change meanwhile, what is read is newer than it says,
        # and a write that expects this version is refused.
        kept = _kept(await session.state())
        leaf = await session.leaf()
        if kept is None and leaf is None:
            return _Stood(None, info.version, False)
        record = _as_it_is(info, kept, None if leaf is None else leaf.id)
        if kept is not None and (left := _RECORDS.validate_python(kept["record"]).head_id) != record.head_id:
            await _note_branch(session, record, left)
        self._note(conversation_id, *(id for id in (record.head_id, *record.branches) if id is not None))
        return _Stood(record, info.version, kept is not None)

    async def _begin(self, record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> bool:
        """Make the session: empty, or with the path that a fork begins with; `False` if somebody else has."""
        first = _first(record, new_entries)
        home = None if first is None else await self._home(first)
        try:
            if first is None:
                await self._sessions.create(record.conversation_id)
            elif home is None:
                raise ConversationConflict(record.conversation_id)
            else:
                await self._sessions.session(home).fork(record.conversation_id, at=first)
        except (plait.NotFoundError, plait.StaleValueError, plait.SessionDeletedError):
            raise ConversationConflict(record.conversation_id) from None
        except plait.ConflictError:
            return False
        return True

    async def _is_begun(self, record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> bool:
        """Whether the session is what `_begin` made of this, by somebody who was stopped before the record was written."""
        session = self._sessions.session(record.conversation_id)
        info, leaf = await session.info(), await session.leaf()
        if info is None or info.parent_id is None or leaf is None:
            return False
        untouched = info.totals.messages == info.totals.path_messages
        return untouched and leaf.id == _first(record, new_entries)

    async def _write(self, record: ConversationRecord, new_entries: Sequence[ConversationEntry], version: int) -> None:
        session = self._sessions.session(record.conversation_id)
        if record.head_id not in (None, *(entry.id for entry in new_entries)):
            await self._check_there(session, record)
        leaf = await session.leaf()
        state = {STATE: _saved(record, new_entries[-1].id if new_entries else None if leaf is None else leaf.id)}
        chains = _chains(new_entries)
        if len(chains) == 1:
            ids = [entry.id for entry in new_entries]
            place: dict[str, Any] = {"parent": new_entries[0].parent_id, "ids": ids, "expect_version": version}
            await session.append_many(_stored(new_entries), format=FORMAT, state=state, **place)
        elif chains:
            pairs = [(c[0].parent_id, list(zip([e.id for e in c], _stored(c), strict=True))) for c in chains]
            await session.write_records(
                append=pairs, leaf=new_entries[-1].id, state=state, expect_version=version, format=FORMAT
            )
        else:
            await session.update_state(state, expect_version=version)
            await self._follow(session, record, leaf)
        self._note(record.conversation_id, *(entry.id for entry in new_entries))

    async def _check_there(self, session: plait.AsyncSession, record: ConversationRecord) -> None:
        assert record.head_id is not None
        if await session.get(record.head_id) is None:
            raise ConversationConflict(record.conversation_id)

    async def _follow(self, session: plait.AsyncSession, record: ConversationRecord, leaf: Any) -> None:
        """Let the session's active leaf be the head, so that whoever else reads it sees the branch."""
        try:
            if record.head_id != (None if leaf is None else leaf.id):
                await session.checkout(record.head_id, expect_leaf=None if leaf is None else leaf.id)
        except (plait.LeafMovedError, plait.NotFoundError):
            pass  # somebody went on already: the head follows them

    # -- entries ---------------------------------------------------------------

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """The entry of this id; `LookupError` if there is none.

        One of a conversation that this object has not read yet is looked for in all sessions.
        """
        return (await self._found(entry_id, limit=1, view=False))[-1]

    async def read_history(self, head_id: str | None, *, limit: int | None = None) -> list[ConversationEntry]:
        """The entries from the first one up to `head_id`, in order, or only the last `limit` of them."""
        if head_id is None or limit == 0:
            return []
        return await self._found(head_id, limit=limit, view=_VIEW.get())

    async def _found(self, head_id: str, *, limit: int | None, view: bool) -> list[ConversationEntry]:
        async def read(home: str) -> list[ConversationEntry]:
            return await _afresh(lambda: self._history(home, head_id, limit=limit, view=view))

        noted = self._homes.get(head_id)
        entries = [] if noted is None else await read(noted)
        if not entries and (home := await self._home(head_id)) is not None:
            entries = await read(home)
        if not entries:
            raise LookupError(f"there is no entry {head_id!r}")
        return entries

    async def _history(self, home: str, head_id: str, *, limit: int | None, view: bool) -> list[ConversationEntry]:
        session = self._sessions.session(home)
        rows: list[plait.Message] = []
        own = 0
        foreign = False
        path = (session.history if view else session.transcript)(head_id, newest_first=True)
        async for row in path:
            # What others wrote may be one message of Pydantic AI's together: read on to where it begins.
            mine = isinstance(row, plait.Damaged) or row.format == FORMAT
            if limit is not None and own >= limit and (mine or not foreign):
                break
            own, foreign = own + mine, not mine
            if not isinstance(row, plait.Damaged):
                rows.append(row)
        rows.reverse()
        entries = _entries(rows)
        self._note(home, *(entry.id for entry in entries))
        return entries if limit is None else entries[max(0, len(entries) - limit) :]

    # -- where entries are -----------------------------------------------------

    def _note(self, conversation_id: str, *entry_ids: str) -> None:
        for id in entry_ids:
            self._homes.pop(id, None)
            self._homes[id] = conversation_id
        while len(self._homes) > HOMES:
            self._homes.popitem(last=False)

    async def _home(self, entry_id: str) -> str | None:
        """The conversation that an entry is in: of several that have it, the one last active."""
        noted = self._homes.get(entry_id)
        if noted is not None and await self._has(noted, entry_id):
            return noted
        async for info in self._sessions.all():
            if await self._has(info.id, entry_id):
                self._note(info.id, entry_id)
                return info.id
        return None

    async def _has(self, conversation_id: str, entry_id: str) -> bool:
        return await _afresh(lambda: self._sessions.session(conversation_id).get(entry_id)) is not None


async def _afresh(read: Callable[[], Awaitable[T]]) -> T:
    """What is read of a session anew as long as others delete it meanwhile: its next handle is of what is there now."""
    while True:
        try:
            return await read()
        except plait.SessionDeletedError:
            continue


def _can_exist(conversation_id: str) -> bool:
    try:
        return bool(check_own_id(conversation_id))
    except plait.UsageError:
        return False


async def _note_branch(session: plait.AsyncSession, record: ConversationRecord, left: str | None) -> None:
    """Where somebody else has gone to another branch, the one that was left is one of the record's."""
    last = None if left is None else await session.get(left)
    if last is None or left in record.branches:
        return
    async for message in session.transcript(record.head_id, after_seq=last.seq - 1, limit=1):
        if message.id == left:
            return  # it is on the way to the new head
    record.branches = [*record.branches, last.id]


# -- what is stored, and back ---------------------------------------------------


def _kept(state: Json) -> Json | None:
    """What a session's state has of the record; what somebody else wrote there counts as nothing."""
    found = state.get(STATE)
    return found if is_object(found) and "record" in found else None


def _saved(record: ConversationRecord, leaf_id: str | None) -> Json:
    """What the state is to have: the record, and the active leaf as it is once this is written."""
    saved = _RECORDS.dump_python(record, mode="json")
    return {"record": saved, "leaf": leaf_id}


def _as_it_is(info: plait.SessionInfo, kept: Json | None, leaf_id: str | None) -> ConversationRecord:
    """The record as the session has it now: where somebody else moved the leaf, the conversation went along."""
    here = f"plait:{info.version}"
    if kept is None:
        return ConversationRecord(
            conversation_id=info.id, head_id=leaf_id, usage=RunUsage(), revision=here, updated_at=info.active_at
        )
    record = _RECORDS.validate_python(kept["record"])
    record.conversation_id = info.id  # a fork that was made elsewhere has brought its source's along
    if leaf_id in (record.head_id, kept.get("leaf")):
        return record
    record.head_id, record.revision, record.updated_at = leaf_id, here, info.active_at
    record.deferred_tool_requests = None
    return record


def _first(record: ConversationRecord, new_entries: Sequence[ConversationEntry]) -> str | None:
    """The entry that a new conversation goes on from."""
    return new_entries[0].parent_id if new_entries else record.head_id


def _chains(entries: Sequence[ConversationEntry]) -> list[list[ConversationEntry]]:
    """The entries as runs in which each follows the one before."""
    chains: list[list[ConversationEntry]] = []
    for entry in entries:
        if chains and entry.parent_id == chains[-1][-1].id:
            chains[-1].append(entry)
        else:
            chains.append([entry])
    return chains


def _stored(entries: Sequence[ConversationEntry]) -> list[Json]:
    return _dumped([entry.message for entry in entries])


def _dumped(messages: list[ModelMessage]) -> list[Json]:
    dumped = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
    return [_standard(item, message) for item, message in zip(dumped, messages, strict=True)]


def _standard(dumped: Any, said: object) -> Any:
    """The bytes of files in the usual alphabet of base64, in which plait keeps them beside the messages, once.

    A file is what is one in the message: what an argument or a result only looks like is the tool's own.
    """
    if isinstance(said, BinaryContent) and is_object(dumped):
        return {**dumped, "data": dumped["data"].translate(_URLS)}
    if is_list(dumped) and isinstance(said, list | tuple):
        pairs = zip(dumped, cast("Sequence[object]", said), strict=True)
        return [_standard(item, one) for item, one in pairs]
    if is_object(dumped):
        inside = said.get if is_mapping(said) else partial(_field, said)
        return {key: _standard(item, inside(key)) for key, item in dumped.items()}
    return dumped


def _field(said: object, name: str) -> object:
    return getattr(said, name, None)


def _entries(rows: Sequence[plait.Message]) -> list[ConversationEntry]:
    """The entries of a path; the last of those that one foreign message became has its id."""
    ids: list[str] = []
    texts: list[str] = []
    for content, source in sourced(rows, FORMAT):
        if ids and ids[-1] == source.id:
            ids[-1] = f"{source.id}:{len(ids)}"
        ids.append(source.id)
        texts.append(source.to_json() if source.format == FORMAT else json.dumps(content))
    entries: list[ConversationEntry] = []
    parent = rows[0].parent_id if rows else None
    for id, message in zip(ids, _messages(ids, texts), strict=True):
        if message is not None:
            entries.append(ConversationEntry(id=id, parent_id=parent, message=message))
            parent = id
    return entries


def _messages(ids: Sequence[str], texts: Sequence[str]) -> list[ModelMessage | None]:
    """The messages of JSON texts; `None` for one that this version of Pydantic AI cannot read, with a warning."""
    try:
        return list(ModelMessagesTypeAdapter.validate_json(f"[{','.join(texts)}]"))
    except ValidationError:
        return [_message(id, text) for id, text in zip(ids, texts, strict=True)]


def _message(id: str, text: str) -> ModelMessage | None:
    for read in (ModelMessagesTypeAdapter.validate_json, _from_python):
        try:
            return read(f"[{text}]")[0]
        except ValidationError as error:
            fault = error
    log.warning("message %s is left out, Pydantic AI cannot read it; it stays as it is: %s", id, fault)
    return None


def _from_python(text: str) -> list[ModelMessage]:
    """The messages of a text with halves of characters in it, which Pydantic's reader of JSON does not take."""
    return ModelMessagesTypeAdapter.validate_python(_with_bytes(json.loads(text)))


def _with_bytes(value: Any) -> Any:
    """The same with the bytes of its files; a tool's arguments have none."""
    if is_list(value):
        return [_with_bytes(item) for item in value]
    if not is_object(value):
        return value
    if value.get("kind") == "binary" and isinstance(value.get("data"), str) and "media_type" in value:
        with contextlib.suppress(binascii.Error):
            return {**value, "data": base64.b64decode(value["data"], validate=True)}
    return {key: item if key == "args" else _with_bytes(item) for key, item in value.items()}


# -- a session's context ---------------------------------------------------------


async def tools(session: plait.AsyncSession | plait.Session) -> list[Tool[Any]]:
    """The tools with which a model uses the session's blocks, as Pydantic AI's own: for `Agent(tools=...)`.

    They are those of `session.tools()`, declared as the blocks are now, and go together with any others.
    """
    found = session.tools()
    return [_tool(tool) for tool in (await found if inspect.isawaitable(found) else found)]


def _tool(tool: plait.AsyncTool | plait.Tool) -> Tool[Any]:
    async def run(**given: Any) -> str:
        answer = tool.call(given)
        return await answer if inspect.isawaitable(answer) else answer

    return Tool.from_schema(run, name=tool.name, description=tool.description, json_schema=tool.schema)


def instructions(session: plait.AsyncSession | plait.Session) -> Callable[[], Awaitable[str]]:
    """The session's frozen prompt, for `Agent(instructions=...)`, alone or in a list with others.

    It is asked for at each request of a model and stays the same bytes until the session's prompt is
    refreshed, so that what a provider caches of it holds.
    """

    async def plait_prompt() -> str:
        frozen = session.freeze_system_prompt()
        return await frozen if inspect.isawaitable(frozen) else frozen

    return plait_prompt


def summarizer(
    model: Model | KnownModelName | str, *, session: plait.AsyncSession | None = None
) -> Callable[[str], Awaitable[str]]:
    """What asks a model of Pydantic AI's for a summary, for `plait.compact_function`: the agent's, or a cheaper one.

    It is asked with the text alone, without tools, history or instructions. What that used is added to the
    usage of `session`, if one is given.
    """

    async def summarize(text: str) -> str:
        response = await model_request(model, [ModelRequest(parts=[UserPromptPart(content=text)])])
        if session is not None:
            used = response.usage
            await session.sessions.add_usage(
                session.id, input_tokens=used.input_tokens, output_tokens=used.output_tokens
            )
        return response.text or ""

    return summarize


# -- a run's messages as they come -------------------------------------------------


async def history(session: plait.AsyncSession, *, for_model: bool = True) -> list[ModelMessage]:
    """The session's path as Pydantic AI's messages, for `agent.run(message_history=...)`, whoever wrote it.

    Overlays are laid on. Calls that nobody has answered are closed; with `for_model=False` they stay
    open, and a run without a prompt goes on by calling the tools.
    """
    rows = [row async for row in session.history(for_model=for_model)]
    return [entry.message for entry in _entries([row for row in rows if not isinstance(row, plait.Damaged)])]


def _results(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """What stands after the last response."""
    after = itertools.takewhile(lambda message: isinstance(message, ModelRequest), reversed(messages))
    return list(after)[::-1]


class _Key(NamedTuple):
    """A part: the message and the place in it that it is stored at, if that is known, and what it says."""

    stored: tuple[str, int] | None
    said: Any


def _is_same(one: _Key, other: _Key) -> bool:
    return (one.stored is not None and one.stored == other.stored) or one.said == other.said


def _pieces(message: ModelMessage, id: str | None) -> list[Piece]:
    return [_piece(part, None if id is None else (id, n)) for n, part in enumerate(message.parts)]


def _stored_pieces(rows: Sequence[plait.Message]) -> list[Piece]:
    return [piece for entry in _entries(rows) for piece in _pieces(entry.message, entry.id)]


def _from(messages: Sequence[ModelMessage], at: int) -> list[ModelMessage]:
    """The messages from a part on, counted over all of them."""
    for n, message in enumerate(messages):
        if at < len(message.parts):
            cut: ModelMessage = replace(message, parts=message.parts[at:]) if at else message  # type: ignore[arg-type]
            return [cut, *messages[n + 1 :]]
        at -= len(message.parts)
    return []


def _piece(part: Any, stored: tuple[str, int] | None) -> Piece:
    """A part without its time, which one that is stored without one gets anew whenever it is read."""
    call = getattr(part, "tool_call_id", None)
    if part.part_kind == "tool-call":
        return Piece(_Key(stored, ("call", call)), "call", call)
    if part.part_kind == "tool-return" or (part.part_kind == "retry-prompt" and part.tool_name is not None):
        return Piece(_Key(stored, ("result", call)), "result", call)
    said = {field.name: getattr(part, field.name) for field in fields(part) if field.name != "timestamp"}
    return Piece(_Key(stored, said), "thought" if part.part_kind == "thinking" else "words")


def _asking(node: Any) -> ModelRequestNode[Any, Any] | None:
    """The node, if it asks something new: not the end of the history once more."""
    if not _is_asking(node):
        return None
    again = getattr(node, "is_resuming_without_prompt", False) or getattr(node, "_resume_suspended", None)
    return None if again else node


def _is_asking(node: object) -> TypeGuard[ModelRequestNode[Any, Any]]:
    return isinstance(node, ModelRequestNode)


@dataclass(frozen=True)
class Compaction:
    """When and how `Saving` has a session compacted: once more than `tokens` would go to the model.

    `summary_model` makes the summaries; without one the model of the run does. Neither is given any tools, and what
    they use is added to the session's usage. `reserved_tokens` stand for what plait cannot see beside messages,
    instructions and function tools, such as native tools. The rest are `plait.compact_function`'s.
    """

    tokens: int
    summary_model: Model | KnownModelName | str | None = None
    reserved_tokens: int = 0
    keep_recent_tokens: int = 20_000
    protect_head: int = 3
    min_tail: int = 2


class Saving(AbstractCapability[Any]):
    """Writes a run's messages to a session as they come, so that a killed process leaves all but its last step.

    For `agent.run(..., message_history=await history(session), capabilities=[Saving(session)])`, and for
    streamed runs alike. A reply is written before its tools run, their results before the model is
    asked again, each request or response once and at the active leaf. What a run was given as its
    history is taken to be stored. Do not save the result with a `ConversationStore` as well.

    With a `compaction` the session is compacted before a call of the model if it is due, also in the middle of
    a run, and the model is sent the summaries in the place of what they cover. Nothing of the run's own
    messages, or of what is stored, changes.
    """

    def __init__(self, session: plait.AsyncSession, *, compaction: Compaction | None = None) -> None:
        self._session = session
        self._compaction = compaction
        self._seen: dict[int, ModelMessage] = {}
        self._ids: dict[int, str] = {}
        self._model: Model | KnownModelName | str | None = None
        self._next: ModelRequestNode[Any, Any] | None = None

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """One for each run: it knows what of that run is stored."""
        mine = Saving(self._session, compaction=self._compaction)
        mine._know(ctx.messages)
        return mine

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> Any:
        """Write also what came last: a streamed run ends without saying so."""
        result = await handler()
        await self._save(result.all_messages())
        return result

    async def before_node_run(self, ctx: RunContext[Any], *, node: Any) -> Any:
        """Note which request comes next."""
        self._next = _asking(node)
        return node

    async def after_node_run(self, ctx: RunContext[Any], *, node: Any, result: Any) -> Any:
        """Write what this step added: what a node makes copies of is stored already."""
        if not isinstance(node, UserPromptNode):  # which takes over the history
            await self._save(_results(ctx.messages) if isinstance(node, CallToolsNode) else ctx.messages)
        self._know(ctx.messages)
        return result

    async def prepare_model_request(self, ctx: RunContext[Any], request_context: ModelRequestContext) -> Any:
        """Write what the model is about to be asked; compact before that, if it is due."""
        # What is in the history now may be what a processor has made of it: the request alone is sure to be new.
        await self._save([] if self._next is None else [self._next.request])
        self._know(ctx.messages)
        asked = self._compaction
        if asked is None:
            return request_context
        if self._model is None:
            self._session.on_compaction(
                plait.compact_function(
                    self._summarize,
                    keep_recent_tokens=asked.keep_recent_tokens,
                    protect_head=asked.protect_head,
                    min_tail=asked.min_tail,
                )
            )
            self._session.compact_after(asked.tokens, prompt_tokens=asked.reserved_tokens)
        self._model = asked.summary_model or request_context.model
        parameters = request_context.model_request_parameters
        done = await self._session.compact_if_needed(
            instructions="\n\n".join(part.content for part in parameters.instruction_parts or ()),
            tools=[
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
                for tool in parameters.function_tools
            ],
            reserved_tokens=asked.reserved_tokens,
        )
        laid = await self._laid(request_context.messages)
        if laid is None and done.done:
            log.warning(NOT_SENT, self._session.id)
        return request_context if laid is None else replace(request_context, messages=laid)

    async def _summarize(self, text: str) -> str:
        assert self._model is not None
        return await summarizer(self._model, session=self._session)(text)

    async def _laid(self, given: list[ModelMessage]) -> list[ModelMessage] | None:
        """The messages with the session's summaries in their places; `None` if the session's are not found in them."""
        rows = [row async for row in self._session.history() if not isinstance(row, plait.Damaged)]
        end = summarized(rows)
        if not end:
            return given
        covered = [row for row in await covered_by(self._session, rows[end - 1]) if not isinstance(row, plait.Damaged)]
        head = _entries(list(plait.legal_view(rows[:end])))
        sent = [piece for message in given for piece in _pieces(message, self._ids.get(id(message)))]
        summary = _pieces(head[-1].message, None)[-1]
        for tail in (rows[end:], list(plait.legal_view(rows[end:]))):
            at = tail_at(sent, _stored_pieces(covered), summary, _stored_pieces(tail), same=_is_same)
            if at is not None:
                rest = _from(given, at)
                return [*(entry.message for entry in head), *rest] if len(head) + len(rest) < len(given) else given
        return None

    def _know(self, messages: Sequence[ModelMessage]) -> None:
        """These are stored, or are not to be."""
        self._seen.update((id(message), message) for message in messages)

    async def _save(self, messages: Sequence[ModelMessage]) -> None:
        new: list[ModelMessage] = []
        for message in reversed(messages):
            if id(message) in self._seen:
                break
            new.append(message)
        if new:
            new.reverse()
            stored = await self._session.append_many(_dumped(new), format=FORMAT)
            for message, written in zip(new, stored, strict=True):
                self._seen[id(message)], self._ids[id(message)] = message, written.id
