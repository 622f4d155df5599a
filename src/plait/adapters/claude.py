"""plait under the Claude Agent SDK: a session store for what Claude Code writes, and plait's tools for it.

    async with plait.open_async("agents.db") as sessions:
        options = ClaudeAgentOptions(session_store=ClaudeSessionStore(sessions), resume=session_id)

See docs/howto/claude-agent-sdk.md.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from plait import LEAF, AsyncSession, AsyncSessions, ConflictError, Damaged, Message, SessionInfo, UsageError
from plait.adapters.extras import missing
from plait.formats.crossing import sourced
from plait.logic.shape import is_object, list_of
from plait.model import Json

try:
    _sdk: Any = importlib.import_module("claude_agent_sdk")  # its types are its own: it need not be there to check ours
except ImportError as error:
    raise missing("claude", error) from None

__all__ = ["ClaudeSessionStore", "tools"]

log = logging.getLogger("plait")
FORMAT: Final = "claude-code"
SUMMARY: Final = "claude.summary"
"""Under this key of a session's state is what the SDK made of its entries, and up to which seq."""

Key = Mapping[str, Any]
"""`project_key`, `session_id`, and for what a subagent wrote `subpath`."""


class ClaudeSessionStore:
    """The SDK's `SessionStore`, all of it, in `sessions`, which the caller has opened and closes.

    A project is an owner in the scope of `sessions`, and each transcript a session: its entries come back as
    they were, in the order in which they were stored. What a subagent wrote is a session of its own, deleted
    with the one it belongs to. An entry whose `uuid` is there is not stored again.

    A project is the folder that Claude Code runs in. With `by_project=False` it does not matter: transcripts
    are the sessions of the scope itself, which other frameworks have them in, too, and are found from any folder.

    Claude Code compacts by itself: its own entries say so, are kept like others, and hide what they
    summarize from `history`, not from `load`. The store takes no policy of compaction; one that a session's own handle is
    given shortens `history`, for others that go on with it, and nothing that Claude Code is told.
    """

    def __init__(self, sessions: AsyncSessions, *, by_project: bool = True, compaction: None = None) -> None:
        if compaction is not None:
            raise UsageError("Claude Code compacts its sessions itself, and a store for it takes no compaction")
        self.sessions = sessions
        self.by_project = by_project

    def handle(self, key: Key) -> AsyncSession:
        """plait's session that a transcript is: its branches, search and everything else."""
        scope = self._scope(key["project_key"])
        subpath = key.get("subpath")
        return scope.session(key["session_id"]) if subpath is None else self._below(key).session(subpath)

    async def append(self, key: Key, entries: list[Any]) -> None:
        """Store entries in their order, those whose `uuid` is there already left out."""
        handle = self.handle(key)
        for own_ids, run in _runs(entries):
            parent = await _rewound(handle, run[0])
            place = LEAF if parent is None else parent
            stored = await handle.append_many(run, parent=place, format=FORMAT, own_ids=own_ids)
            for entry, written in zip(run, stored, strict=True):
                if entry.get("subtype") == "compact_boundary":
                    await _hide(handle, entry, written.parent_id)
                elif entry.get("isCompactSummary") is True:
                    await _lead(handle, written.id)

    async def load(self, key: Key) -> list[Any] | None:
        """All entries of a transcript, `None` if there never was one.

        What another framework said on the active branch stands among them as entries, so that Claude Code goes on with it.
        """
        return [entry for _, entry in await _entries(self.handle(key))] or None

    async def list_sessions(self, project_key: str) -> list[Any]:
        """The sessions of a project and when each was last written to, in ms since 1970."""
        return [
            {"session_id": info.id, "mtime": _mtime(info)}
            async for info in self._scope(project_key).all()
            if info.totals.messages
        ]

    async def list_session_summaries(self, project_key: str) -> list[Any]:
        """What the SDK lists of each session without loading it; only entries that are new since are looked at."""
        scope = self._scope(project_key)
        return [await self._summary(scope, project_key, info) async for info in scope.all() if info.totals.messages]

    async def _summary(self, scope: AsyncSessions, project_key: str, info: SessionInfo) -> Any:
        handle, key = scope.session(info.id), {"project_key": project_key, "session_id": info.id}
        noted = (await handle.state()).get(SUMMARY)
        known: Json = noted if is_object(noted) else {}
        upto, found = known.get("upto", 0), known.get("data")
        summary = None if found is None else {"session_id": info.id, "mtime": 0, "data": found}
        new = await _entries(handle, upto)
        if new or summary is None:
            summary = _sdk.fold_session_summary(summary, key, [entry for _, entry in new])
            if new:
                await handle.update_state({SUMMARY: {"upto": new[-1][0], "data": summary["data"]}})
        return {**summary, "mtime": _mtime(info)}

    async def delete(self, key: Key) -> None:
        """Delete a transcript, and with a session what its subagents wrote; nothing if there is none."""
        if (subpath := key.get("subpath")) is not None:
            await self._below(key).delete(subpath)
            return
        below = self._below(key)
        async for info in below.all():
            await below.delete(info.id)
        await self._scope(key["project_key"]).delete(key["session_id"])

    async def list_subkeys(self, key: Key) -> list[str]:
        """The subpaths of a session's subagents, sorted."""
        return sorted([info.id async for info in self._below(key).all() if info.totals.messages])

    def _scope(self, project: str) -> AsyncSessions:
        tenant, owner = self.sessions.scope
        if not self.by_project:
            return self.sessions
        plain = not owner and not project.startswith("[")
        return self.sessions.scoped(tenant, project if plain else _spelled(owner, project))

    def _below(self, key: Key) -> AsyncSessions:
        tenant, owner = self.sessions.scope
        project = key["project_key"] if self.by_project else ""
        return self.sessions.scoped(tenant, _spelled(owner, project, key["session_id"]))


async def tools(session: AsyncSession) -> list[Any]:
    """A session's tools as the SDK takes them, for `create_sdk_mcp_server(name, tools=...)`.

    The frozen prompt is `await session.freeze_system_prompt()`, for `ClaudeAgentOptions(system_prompt=...)`.
    """
    return [_sdk.SdkMcpTool(tool.name, tool.description, tool.schema, _handler(tool)) for tool in await session.tools()]


def _handler(tool: Any) -> Any:
    async def handle(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": await tool.call(arguments)}]}

    return handle


async def _entries(handle: AsyncSession, after_seq: int = 0) -> list[tuple[int, Json]]:
    """The entries of all branches in the order they came, and what others said on the active one, each with its seq.

    A damaged one is reported and left out.
    """
    entries: list[tuple[int, Json]] = []
    others = False
    async for message in handle.everything(after_seq=after_seq):
        if isinstance(message, Damaged):
            log.error("entry %r of session %r is damaged: %s", message.id, handle.id, message.reason)
        elif message.format == FORMAT:
            entries.append((message.seq, message.to_dict()))
        else:
            others = True
    if others:
        path = [message async for message in handle.transcript(after_seq=after_seq)]
        shown = [(source, entry) for entry, source in sourced(path, "claude")]
        entries += [(source.seq, entry) for source, entry in shown if source.format != FORMAT]
        entries.sort(key=lambda one: one[0])
        _lead_on(entries, [str(entry["uuid"]) for _, entry in shown if "uuid" in entry])
    return entries


def _lead_on(entries: list[tuple[int, Json]], path: list[str]) -> None:
    """Let Claude Code go on from the end of the active branch: it does from where its newest note of a prompt says."""
    for n in range(len(entries) - 1, -1, -1):
        seq, entry = entries[n]
        if entry.get("type") == "last-prompt":
            if path and "leafUuid" in entry:
                entries[n] = (seq, {**entry, "leafUuid": path[-1]})
            return


def _runs(entries: Iterable[Json]) -> Iterator[tuple[bool, list[Json]]]:
    """The entries in pieces that are appended at once, with whether their ids are their own; most often one piece."""
    run: list[Json] = []
    said: dict[str, object] = {}  # by each entry's uuid, what was said last by then on its branch
    owned, last = False, None
    for entry in entries:
        uuid, parent = entry.get("uuid"), entry.get("parentUuid")
        own = isinstance(uuid, str) and bool(uuid.strip())
        before = said.get(parent, parent) if isinstance(parent, str) else None
        if run and (own != owned or (_is_prompt(entry) and before != last)):
            yield owned, run
            run = []
        run.append(entry)
        owned = own
        if own:
            last = uuid if _is_said(entry) else last
            said[str(uuid)] = uuid if _is_said(entry) else before
    if run:
        yield owned, run


def _is_said(entry: Json) -> bool:
    return entry.get("type") in ("user", "assistant")


def _is_prompt(entry: Json) -> bool:
    """Whether somebody says this in answer to an entry that it names: no result of a tool, nothing of the interface's own."""
    if entry.get("type") != "user" or not isinstance(entry.get("parentUuid"), str) or entry.get("isMeta"):
        return False
    message = entry.get("message")
    content = message.get("content") if is_object(message) else None
    return not any(is_object(block) and block.get("type") == "tool_result" for block in list_of(content))


async def _rewound(handle: AsyncSession, entry: Json) -> str | None:
    """The message that a prompt goes on from, if that is an earlier one than the last that was said.

    Only prompts begin branches: results of tools that ran at once name different parents, and are one turn.
    Between a prompt and what it goes on from there may be notes (of a model that changed, of files): those
    stay where they came.
    """
    if not _is_prompt(entry):
        return None
    found = await _said_before(handle, entry)
    if found is None:
        return None
    async for later in handle.transcript(after_seq=found.seq):
        if later.role in ("user", "assistant", "tool"):
            return found.id
    return None


async def _said_before(handle: AsyncSession, entry: Json) -> Message | None:
    """What was said last before an entry, by its own account."""
    seen: set[str] = set()
    while isinstance(parent := entry.get("parentUuid"), str) and parent.strip() and parent not in seen:
        seen.add(parent)  # a ring is nobody's ancestor
        found = await handle.get(parent)
        if not isinstance(found, Message):
            return None
        if found.role != "meta":
            return found
        entry = found.to_dict()
    return None


async def _hide(handle: AsyncSession, boundary: Json, last: str | None) -> None:
    """Hide what Claude Code has summarized, but for what it says it keeps, from `history`."""
    kept = await _kept(handle, boundary)
    last = kept.parent_id if kept is not None else last
    if last is None:
        return
    async for first in handle.transcript(last, limit=1):
        try:
            await handle.archive(first.id, last, leaf=last)
        except ConflictError as error:
            log.warning("what Claude Code summarized in session %r is shown beside its summary: %s", handle.id, error)


async def _lead(handle: AsyncSession, id: str) -> None:
    """Show a summary before what was kept beside it, as Claude Code shows it to the model, though it was written after."""
    summary = await handle.get(id)
    parent = summary.parent_id if isinstance(summary, Message) else None
    boundary = await handle.get(parent) if parent is not None else None
    if not isinstance(boundary, Message) or not isinstance(summary, Message):
        return
    kept = await _kept(handle, boundary.to_dict())
    if kept is None or kept.parent_id is None:
        return
    until = kept.parent_id
    if any(overlay.kind == "compaction" and overlay.to_id == until for overlay in await handle.overlays(until)):
        return  # the entry came a second time
    async for first in handle.transcript(until, limit=1):
        try:
            await handle.add_overlay(first.id, until, summary=summary.text, leaf=until)
        except ConflictError as error:
            log.warning("a summary of Claude Code's in session %r comes after what it kept: %s", handle.id, error)
            return
        await handle.omit(id, leaf=id)


async def _kept(handle: AsyncSession, boundary: Json) -> Message | None:
    """The first message of those that Claude Code keeps beside its summary."""
    about = boundary.get("compactMetadata")
    segment = about.get("preservedSegment") if is_object(about) else None
    head = segment.get("headUuid") if is_object(segment) else None
    found = await handle.get(head) if isinstance(head, str) and head.strip() else None
    return found if isinstance(found, Message) else None


def _mtime(info: SessionInfo) -> int:
    return int(info.active_at.timestamp() * 1000)


def _spelled(*names: str) -> str:
    return json.dumps(names, ensure_ascii=False, separators=(",", ":"))
