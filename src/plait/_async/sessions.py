"""A store's sessions: handles, the catalogue, attachments, upkeep."""

from __future__ import annotations

import builtins
import datetime as dt
import os
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from plait._async import managing, searching
from plait._async.compacting import Compaction
from plait._async.feeding import FEED_BYTES, FEED_ROWS, Listener, Listeners, follow, read_page
from plait._async.importing import check_transcript, import_transcript
from plait._async.session import AsyncSession, composed, new_id, now_us
from plait.diagnostics import Telemetry, telemetry
from plait.errors import (
    ConflictError,
    LeaseHeldError,
    NotFoundError,
    SessionDeletedError,
    UnsupportedError,
    UsageError,
    no_session,
)
from plait.logic import arguments, ids
from plait.logic.blocks import BlockLike, all_declared
from plait.logic.chains import Transcript
from plait.logic.prepare import Rules
from plait.logic.providers import WritableProvider
from plait.model import (
    Attachment,
    Change,
    Changes,
    Copied,
    Finding,
    Hit,
    Imported,
    RetentionPlan,
    SessionInfo,
    SessionPage,
    Usage,
)
from plait.pauses import AsyncRepeated, Payload, may_listen_async, pause_async, pieces_async
from plait.store._async.abilities import accounting, contextual, feeding, leasable, scoping, searchable
from plait.store._async.port import AsyncStore
from plait.store.forks import LOCK
from plait.store.protocol import Scope, SessionRef

if TYPE_CHECKING:
    from plait._async.copying import AsyncSide
    from plait._async.hybrid import AsyncSearchProvider
    from plait._async.tools import AsyncTool

T = TypeVar("T")
PAGE = 100
MAX_PAGE = 1000
CHECKS: dict[str, Callable[[str, object], object]] = {
    "name": arguments.text,
    "owner": arguments.text,
    "pinned": arguments.flag,
}
"""What the catalogue keeps of a session, and what each field must be; of metadata the doors look at the keys, too."""


class Shared:
    """What all views of one store share, in whichever thread: the store, its rules, its listeners, its handles."""

    def __init__(self, store: AsyncStore, rules: Rules) -> None:
        self.store = store
        self.rules = rules
        self.telemetry = telemetry()
        self.listeners = Listeners()
        self.handles: weakref.WeakValueDictionary[tuple[Scope, str], AsyncSession] = weakref.WeakValueDictionary()
        self.heartbeats: set[AsyncRepeated] = set()

    def handle(self, sessions: AsyncSessions, scope: Scope, id: str) -> AsyncSession:
        """The handle of a session: the one that is alive, or a new one."""
        with LOCK:
            handle = self.handles.get((scope, id))
            if handle is None or handle.is_over:
                handle = self.handles[scope, id] = AsyncSession(sessions, SessionRef(scope, id))
            return handle

    def let_go(self, ref: SessionRef) -> None:
        """Hand out no longer a handle bound to a life that is over; one that met a later life by now stays."""
        with LOCK:
            handle = self.handles.get((ref.scope, ref.id))
            bound = None if handle is None else handle._ref.incarnation  # pyright: ignore[reportPrivateUsage]
            if bound is not None and (ref.incarnation is None or bound <= ref.incarnation):
                del self.handles[ref.scope, ref.id]

    def alive(self) -> list[AsyncSession]:
        """The handles that are in use now."""
        with LOCK:
            return list(self.handles.values())


class AsyncSessions:
    """The sessions of one scope of a store.

    Made by `plait.open_async`, or from any `AsyncStore`. Use it as a context manager, or call
    `close`; it is opened by its first use.
    """

    def __init__(
        self,
        store: AsyncStore,
        *,
        scope: tuple[str, str] = ("", ""),
        counter: Callable[[Mapping[str, Any]], float] | None = None,
        reserved_metadata_keys: Iterable[str] = (),
    ) -> None:
        """`counter` replaces the token estimate; `reserved_metadata_keys` are stripped from client messages."""
        if not callable(getattr(store, "append", None)):
            raise arguments.refusal("store", "a store; plait.open makes one", store)
        keys = arguments.words("reserved_metadata_keys", reserved_metadata_keys)
        self._shared = Shared(store, Rules(keys, None if counter is None else arguments.function("counter", counter)))
        self._scope = arguments.scope(scope)

    @property
    def store(self) -> AsyncStore:
        """The store below."""
        return self._shared.store

    @property
    def rules(self) -> Rules:
        """What holds for all messages of this store."""
        return self._shared.rules

    @property
    def telemetry(self) -> Telemetry:
        """Where operations are reported."""
        return self._shared.telemetry

    @property
    def scope(self) -> tuple[str, str]:
        """The tenant and the owner whose sessions these are."""
        return self._scope.tenant, self._scope.owner

    def scoped(self, tenant: str = "", owner: str = "") -> AsyncSessions:
        """The same store seen as another scope, which shares nothing with this one but the file."""
        view = object.__new__(type(self))
        view._shared = self._shared
        view._scope = arguments.scope((tenant, owner))
        return view

    # -- life ------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store; harmless when called again."""
        await self.store.open()

    async def close(self) -> None:
        """Finish what was accepted and close the store; harmless when called again."""
        for session in self._shared.alive():
            await session.compaction_done()
            await session._release_compaction()  # pyright: ignore[reportPrivateUsage]
        for heartbeat in list(self._shared.heartbeats):
            await heartbeat.stop()
        await self.store.close()

    async def flush(self) -> None:
        """Return when every write acknowledged so far is on disk, at any durability."""
        await self.store.flush()

    async def __aenter__(self) -> AsyncSessions:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- sessions --------------------------------------------------------------

    def session(
        self,
        id: str | None = None,
        *,
        context: Iterable[BlockLike] = (),
        cached_prompt: bool | WritableProvider = False,
        on_compaction: Compaction | None = None,
        compact_after: int | None = None,
    ) -> AsyncSession:
        """The handle of a session, which need not exist yet; reads and writes nothing.

        Without an id: the store's default session. The same handle comes back as long as one is
        alive. The other arguments are short for the handle's methods: blocks for `with_context`, each
        a label, a `BlockSpec` or a dict of its fields, and `with_cached_prompt`, `on_compaction`
        and `compact_after`. What is left out stays as it is.
        """
        name = ids.DEFAULT_SESSION if id is None else ids.check_own_id(id)
        specs = all_declared(context) if context else []
        handle = self._shared.handle(self, self._scope, name)
        if specs or cached_prompt is not False or on_compaction is not None or compact_after is not None:
            composed(handle, specs, cached_prompt, on_compaction, compact_after)
        return handle

    async def tools(self) -> builtins.list[AsyncTool]:
        """The tools with which a model uses these sessions: `session_search`, over all of the scope."""
        from plait._async.tools import session_tools  # what few use is loaded by the first who does

        return session_tools(self)

    def _ref(self, id: str) -> SessionRef:
        ids.check_text(id, "session id")
        return SessionRef(self._scope, id)

    async def create(
        self,
        id: str | None = None,
        *,
        name: str | None = None,
        owner: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        pinned: bool = False,
    ) -> SessionInfo:
        """Make a session without messages; `ConflictError` if it exists. Without an id one is made."""
        arguments.flag("pinned", pinned)
        arguments.maybe(arguments.metadata, "metadata", metadata)
        info = await self._put(
            new_id() if id is None else id, create="new", name=name, owner=owner, metadata=metadata, pinned=pinned
        )
        assert info is not None
        return info

    async def get_or_create(
        self,
        id: str,
        *,
        name: str | None = None,
        owner: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> SessionInfo:
        """The session, made if it is absent; writes no messages.

        A missing owner is filled in once; another owner raises `ConflictError`. Name and metadata
        are set only when the session is made here.
        """
        arguments.maybe(arguments.metadata, "metadata", metadata)
        info = await self._put(id, create="once", name=name, owner=owner, metadata=metadata)
        assert info is not None
        return info

    async def get(self, id: str) -> SessionInfo | None:
        """The session as the catalogue knows it, or `None`."""
        ref = self._ref(id)
        return None if ids.is_hidden(id) else await self.store.info(ref)

    async def rename(self, id: str, name: str) -> SessionInfo:
        """Give a session another name; `NotFoundError` if it is absent."""
        return await self._change(id, name=arguments.text("name", name))

    async def merge_metadata(self, id: str, patch: Mapping[str, Any]) -> SessionInfo:
        """Merge `patch` into a session's metadata, key by key; a `None` removes its key.

        `UsageError` for a key that begins with `plait:`: what plait notes there has methods of its own
        (`add_usage`, `end`, `reopen`).
        """
        return await self._change(id, metadata=arguments.metadata("patch", patch))

    async def pin(self, id: str, pinned: bool = True) -> SessionInfo:
        """Keep a session from retention, or no longer."""
        return await self._change(id, pinned=arguments.flag("pinned", pinned))

    async def add_usage(
        self, id: str, *, input_tokens: int = 0, output_tokens: int = 0, cost: float = 0.0
    ) -> SessionInfo:
        """Add to what a session has used, which `SessionInfo.usage` says; `NotFoundError` if it is absent.

        What one message used is in the message, as the provider said it: `Message.usage`. Additions made
        at once all count. `cost` is in whichever currency the caller reckons.
        """
        more = Usage(
            arguments.number("input_tokens", input_tokens),
            arguments.number("output_tokens", output_tokens),
            arguments.amount("cost", cost),
        )
        ids.check_own_id(id)
        info = await accounting(self.store).add_usage(self._ref(id), more, created_at_us=now_us())
        if info is None:
            raise no_session(id)
        if more != Usage():
            await self.publish(Change("session", id))
        return info

    async def end(self, id: str, reason: str = "done") -> SessionInfo:
        """Note that a session has ended, and why (`SessionInfo.status`, `end_reason`); it can still be written to."""
        at = dt.datetime.now(dt.timezone.utc).isoformat()
        return await self._change(id, metadata=managing.ended(arguments.text("reason", reason), at))

    async def reopen(self, id: str) -> SessionInfo:
        """Take back that a session has ended."""
        return await self._change(id, metadata=managing.ended(None, ""))

    async def compact_and_split(
        self, id: str, summary: str, *, name: str | None = None, new_session_id: str | None = None
    ) -> AsyncSession:
        """End a session with the reason `compaction`, and go on in a new one that begins with a summary of it.

        The new one is called `name`, or as the old one, and has its owner, its metadata, the old
        one as its parent, and what its values (blocks, frozen prompt) say now. Its first message is an
        assistant's: a line that says what it is, an empty one, and `summary`. The old one keeps all it has.
        Both happen or neither.
        `NotFoundError` if it is absent, `ConflictError` if the new id is taken.
        """
        summary = arguments.text("summary", summary)
        name = arguments.maybe(arguments.text, "name", name)
        info = await self.get(ids.check_own_id(id))
        if info is None:
            raise no_session(id, " to go on from")
        target = self.session(new_id() if new_session_id is None else new_session_id)
        given: dict[str, Any] = {"rules": self.rules, "now_us": now_us, "new_id": new_id}
        await managing.go_on(self.store, self._ref(id), info, self._ref(target.id), summary, name, **given)
        await self.publish(Change("session", target.id))
        await self.publish(Change("session", id))
        return target

    async def prune_values(self, *, max_age: dt.timedelta | None = None, max_count: int | None = None) -> int:
        """Forget what named values said longer ago than `max_age`, and all but `max_count` versions beside the newest.

        Answers how many versions. Every version stays until this is called. What a value says now stays.
        """
        if max_age is None and max_count is None:
            raise UsageError("give max_age or max_count: without a rule nothing is pruned")
        max_age = arguments.maybe(arguments.age, "max_age", max_age)
        max_count = arguments.maybe(arguments.number, "max_count", max_count)
        before_us = None if max_age is None else now_us() - max_age // dt.timedelta(microseconds=1)
        return await contextual(self.store).prune_values(self._scope, before_us=before_us, keep=max_count)

    async def _change(self, id: str, **fields: Any) -> SessionInfo:
        info = await self._put(id, create="never", **fields)
        if info is None:
            raise no_session(id)
        return info

    async def _put(self, id: str, **fields: Any) -> SessionInfo | None:
        ids.check_own_id(id)
        _check_fields(fields)
        described = await self.store.put_session(self._ref(id), created_at_us=now_us(), **fields)
        if described is not None and described.changed:
            await self.publish(Change("session", id))
        return None if described is None else described.info

    def check_json(self, value: Mapping[str, Any], what: str) -> None:
        """Raise `InvalidMessageError` unless `value` is a JSON object that reads back the same."""
        arguments.mapping(arguments.text("what", what), value)

    async def list(self, *, limit: int = PAGE, cursor: str | None = None) -> SessionPage:
        """A page of the scope's sessions, most recently active first; of one instant the highest id first.

        Pass the page's `cursor` to go on. A session that nobody touches meanwhile is listed
        exactly once. `UsageError` for a cursor of something else.
        """
        limit = arguments.between("limit", limit, 1, MAX_PAGE)
        cursor = arguments.maybe(arguments.text, "cursor", cursor)
        return await self.store.sessions(self._scope, cursor=cursor, limit=limit)

    async def all(self) -> AsyncIterator[SessionInfo]:
        """All sessions of the scope, most recently active first, a page at a time."""
        cursor: str | None = None
        while True:
            page = await self.list(cursor=cursor)
            for info in page.sessions:
                yield info
            cursor = page.cursor
            if cursor is None:
                return
            await pause_async()

    async def delete(self, id: str, *, expect_version: int | None = None) -> bool:
        """Remove a session with all it holds; `False` if there is none, or if it has left `expect_version`.

        Handles bound to it raise `SessionDeletedError` from then on; a session made later with
        the same id starts empty.
        """
        return await self._delete(id, version=arguments.maybe(arguments.number, "expect_version", expect_version))

    async def _delete(self, id: str, *, version: int | None = None) -> bool:
        ids.refuse_hidden(id)
        ref = self._ref(id)
        with self.telemetry.operation("delete_session", id):
            deleted = await self.store.delete_session(ref, version=version)
        if deleted:
            self._shared.let_go(ref)
            await self.publish(Change("delete session", id, leaf_moved=True))
        return deleted

    async def retain(
        self, *, max_age: dt.timedelta | None = None, max_count: int | None = None, dry_run: bool = False
    ) -> RetentionPlan:
        """Delete sessions not active for `max_age`, and the least active ones beyond `max_count`.

        Pinned sessions stay and do not count. Reading does not make a session active. A session
        that becomes active while this runs, or that somebody has a lease on, is kept. `dry_run` answers what would
        be deleted if nothing changed, and deletes nothing.
        """
        if max_age is None and max_count is None:
            raise UsageError("give max_age or max_count: without a rule nothing expires")
        max_age, max_count = (
            arguments.maybe(arguments.age, "max_age", max_age),
            arguments.maybe(arguments.number, "max_count", max_count),
        )
        dry_run = arguments.flag("dry_run", dry_run)
        expired = [(info, reason) async for info, reason in self._expired(max_age, max_count)]
        goes = self._is_idle if dry_run else self._delete_if_idle
        return RetentionPlan([(info.id, reason) for info, reason in expired if await goes(info)], dry_run)

    async def _expired(
        self, max_age: dt.timedelta | None, max_count: int | None
    ) -> AsyncIterator[tuple[SessionInfo, str]]:
        now = dt.datetime.fromtimestamp(time.time(), dt.timezone.utc)
        kept = 0
        async for info in self.all():
            if info.pinned:
                continue
            kept += 1
            if max_count is not None and kept > max_count:
                yield info, "count"
            elif max_age is not None and now - info.active_at > max_age:
                yield info, "age"

    async def _is_idle(self, info: SessionInfo) -> bool:
        if not callable(getattr(self.store, "lease", None)):
            return True
        return await leasable(self.store).lease(self._ref(info.id)) is None

    async def _delete_if_idle(self, info: SessionInfo) -> bool:
        try:
            return await self._delete(info.id, version=info.version)
        except LeaseHeldError:  # a worker is at it, though it has not written for long
            return False

    # -- searching -------------------------------------------------------------

    async def search(
        self,
        query: str,
        *,
        limit: int = 20,
        offset: int = 0,
        newest_first: bool = False,
        role: str | Iterable[str] | None = None,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        provider: AsyncSearchProvider | None = None,
    ) -> builtins.list[Hit]:
        """The messages of all sessions of this scope that hold all the words; see `AsyncSession.search`.

        Newest first goes by seq within a session, and between sessions by time.
        """
        asked = searching.question(
            query, limit=limit, offset=offset, newest_first=newest_first, role=role, since=since, until=until
        )
        with self.telemetry.operation("search", ""):
            return await searching.search(self.store, self._scope, asked, provider)

    async def build_search_index(
        self, *, rebuild: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> int:
        """Index what is not indexed yet, of all scopes, or everything anew; answers how many messages.

        A search does this for the sessions it looks at. It works in short transactions, between which
        others write; one that is broken off goes on where it was. `progress` is told after each how many
        are done and how many may be left.
        """
        rebuild = arguments.flag("rebuild", rebuild)
        if progress is not None:
            arguments.function("progress", progress)
        return await searchable(self.store).build_search_index(rebuild=rebuild, progress=progress)

    # -- importing -------------------------------------------------------------

    async def import_transcript(self, transcript: Transcript, *, id: str | None = None) -> Imported:
        """Write a transcript read by `plait.interchange` into the session it names, or into `id`.

        It appears whole or not at all. A session that exists already gets the messages it lacks,
        and its leaf moves on with them; its name and metadata stay. Importing the same transcript
        again changes nothing. An entry whose parent is missing raises `NotFoundError`.
        """
        check_transcript(transcript)
        target = self._ref(ids.check_own_id(transcript.id if id is None else id))
        with self.telemetry.operation("import", target.id):
            result = await import_transcript(self.store, target, transcript, self.rules, now_us())
        if result.created or result.inserted:
            await self.publish(Change("session", target.id))
        return result

    # -- copying ---------------------------------------------------------------

    async def scopes(self) -> AsyncIterator[tuple[str, str]]:
        """Every tenant and owner of this store that has sessions, whatever the scope of this view, in order."""
        after: Scope | None = None
        while page := await scoping(self.store).scopes(after=after):
            for after in page:
                yield after.tenant, after.owner
            await pause_async()

    async def copy_from(
        self, source: AsyncSessions, id: str, *, progress: Callable[[int, int], None] | None = None
    ) -> Copied:
        """Copy a session of another store, or of another scope, into this one: on SQLite and PostgreSQL, either way.

        Every message of every branch goes along with its seq, time and stamps, overlays, attachments, versions of
        values, records, name, metadata and state; leases and the record of changes do not. It is read back and compared, and
        appears only if it says what was read, to the letter. What is appended to the source meanwhile is left for the next
        copy. Broken off, it is gone on with by the next call, within an hour. A session that is here already gets
        what it lacks; nothing of it is removed, and `same` says whether it is the same then. `progress` is told how many messages
        were read, and of how many. `NotFoundError` for an absent session; `StaleValueError`, and nothing left, if the
        source was updated meanwhile.
        """
        from plait._async.copying import AsyncCopying

        arguments.instance("source", source, AsyncSessions, "the sessions of another store")
        progress = None if progress is None else arguments.function("progress", progress)
        if ids.is_hidden(arguments.text("id", id)):
            raise no_session(id, " to copy")
        with self.telemetry.operation("copy", id):
            copied = await AsyncCopying(source._side(id), self._side(id), now_us(), progress).run()
        if copied.created or copied.inserted:
            await self.publish(Change("session", id))
        return copied

    async def copy_all_from(
        self, source: AsyncSessions, *, progress: Callable[[int, int], None] | None = None
    ) -> AsyncIterator[Copied]:
        """Copy every session of the source's scope into this one, and the values they share; see `copy_from`.

        Each is told of once it is there; one that could not be copied because it changed, or because somebody has a
        lease on what is here, says so in `lost` and is not the `same`. Sessions that are deleted meanwhile are passed
        over. Called again, it brings what has come since.
        """
        from plait._async.copying import copy_shared

        arguments.instance("source", source, AsyncSessions, "the sessions of another store")
        shared = await copy_shared(source._side(ids.SHARED_SESSION), self._side(ids.SHARED_SESSION), now_us())
        if shared is not None:
            yield shared
        async for info in source.all():
            try:
                yield await self.copy_from(source, info.id, progress=progress)
            except (NotFoundError, SessionDeletedError):
                continue
            except ConflictError as error:
                yield Copied(info.id, False, 0, 0, (str(error),), False)

    def _side(self, id: str) -> AsyncSide:
        from plait._async.copying import AsyncSide

        return AsyncSide(self.store, self._ref(id))

    # -- attachments -----------------------------------------------------------

    async def put_attachment(self, data: Payload | AsyncIterable[bytes], *, media_type: str) -> Attachment:
        """Store media ahead of the message that will use it, from bytes, a stream or an iterable.

        Put the answer into a part where inline data would stand: `{"type": "file", "mediaType":
        "image/png", "url": attachment}`. Unused, it is removed after a day.
        """
        media_type = arguments.media_type("media_type", media_type)
        upload = new_id()
        hash, size = await self.store.put_attachment(self._scope, pieces_async(data), upload=upload, now_us=now_us())
        return Attachment(hash.hex(), media_type, size, upload)

    # -- changes ---------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change of the scope's sessions made through this store object.

        Answers what ends that. Listeners are awaited one after another in the order they subscribed,
        after the commit and before the call that made the change returns; one that is subscribed
        already is not told twice. One that fails is logged, and the others are told of it by a change
        of the kind error; the write stands.
        """
        return self._shared.listeners.add(_listener(listener), self._scope, None)

    def subscribe_to(self, listener: Listener, id: str) -> Callable[[], None]:
        """The same for one session; see `AsyncSession.subscribe`."""
        return self._shared.listeners.add(_listener(listener), self._scope, id)

    async def publish(self, change: Change) -> None:
        """Tell the listeners of a committed change of one of this scope's sessions."""
        arguments.instance("change", change, Change, "a Change")
        await self._shared.listeners.tell(change, self._scope)

    async def cursor(self) -> str:
        """The cursor after the last change of the scope: where `changes` or `watch` goes on from now."""
        return await feeding(self.store).scope_changes_end(self._scope)

    async def changes(self, *, after: str | None = None, limit: int = FEED_ROWS, wait_s: float = 0) -> Changes:
        """The next changes of all sessions of the scope after a cursor; from the start without one.

        Each comes at least once: `(session_id, version)` tells a repetition. The changes of a session
        come in their order, those of different sessions in none. A change's `cursor` is one that loses
        nothing; only that of a page's last repeats nothing either. Otherwise as `AsyncSession.changes`.
        """
        return await read_page(feeding(self.store), self._scope, self._read_changes, after, limit, wait_s)

    async def watch(self, *, after: str | None = None) -> AsyncIterator[Change]:
        """All changes of the scope after a cursor and, without end, those that come; see `changes`."""
        async for change in follow(feeding(self.store), self._scope, self._read_changes, after):
            yield change

    async def _read_changes(self, after: str | None, limit: int) -> Changes:
        store = feeding(self.store)
        return await store.scope_changes(self._scope, after=after, limit=limit, budget_bytes=FEED_BYTES)

    async def prune_changes(self, *, max_age: dt.timedelta | None = None, max_count: int | None = None) -> int:
        """Forget the changes made longer ago than `max_age`, and all but the newest `max_count` of a session.

        Answers how many. Messages stay, and with them the record of their insertion. A reader whose
        cursor is older gets `CursorExpiredError`.
        """
        if max_age is None and max_count is None:
            raise UsageError("give max_age or max_count: without a rule nothing is pruned")
        max_age = arguments.maybe(arguments.age, "max_age", max_age)
        max_count = arguments.maybe(arguments.number, "max_count", max_count)
        before_us = None if max_age is None else now_us() - max_age // dt.timedelta(microseconds=1)
        return await feeding(self.store).prune_changes(self._scope, before_us=before_us, keep=max_count)

    # -- upkeep ----------------------------------------------------------------

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent, self-contained copy to a new file, while others go on writing.

        `UsageError` if the file exists. A copy that fails leaves nothing behind.
        """
        await self._ability("backup")(arguments.file("path", path))

    async def doctor(self, *, fix: bool = False) -> builtins.list[Finding]:
        """Check the database and all that is derived in it; with `fix` mend what can be mended.

        Answers what was found, nothing if all is well.
        """
        found: builtins.list[Finding] = await self._ability("doctor")(arguments.flag("fix", fix))
        return found

    async def vacuum(self, *, purge: bool = False) -> None:
        """Give space back to the file system; `purge` also makes deleted words unfindable in the files.

        Summaries that cover what was deleted or updated may say it again: a purge takes these overlays away.
        """
        await self._ability("vacuum")(arguments.flag("purge", purge))

    def _ability(self, name: str) -> Any:
        ability = getattr(self.store, name, None)
        if ability is None:
            raise UnsupportedError(f"this store has no {name}")
        return ability


def _check_fields(fields: Mapping[str, object]) -> None:
    """Raise `UsageError` for a field of the catalogue that cannot be kept."""
    for name, check in CHECKS.items():
        arguments.maybe(check, name, fields.get(name))


def _listener(listener: Listener) -> Listener:
    return may_listen_async(arguments.function("listener", listener))
