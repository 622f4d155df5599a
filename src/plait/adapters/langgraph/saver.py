"""LangGraph's checkpointer on sessions: a thread is a session, its messages are the session's messages."""

from __future__ import annotations

import builtins
import heapq
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot

import plait
from plait.adapters.langgraph import layout, rows, values
from plait.adapters.langgraph.steps import BothFaces, Out, Stream, Work, all_of, on
from plait.adapters.langgraph.thread import Laid, Listed, Recent, Thread, Threads, pack_segments, unpack_segments
from plait.adapters.tails import without_archived
from plait.errors import ConflictError, NotFoundError, UsageError

log = logging.getLogger("plait")
PAGE: Final = 200
DROP_KEYS: Final = 500
TRIES: Final = 20
_VALUE, _LIST, _DELTA_LIST = 0, 1, 2
_INPUT: Final = "__start__"
"""The channel of a graph's input."""
RANDOM_BITS: Final = 36
"""Of a version: what tells two branches apart that have counted equally far."""


class PlaitSaver(BothFaces, BaseCheckpointSaver[Any]):
    """Keeps a graph's checkpoints in plait sessions that you have opened: each thread is the session of its id.

    Every message of a list of messages is a message of the session, stored once, whatever the graph
    does with the list; the other values are stored once for each version. Growth is linear. What the
    graph says can be read, searched, branched and compacted like any conversation.

    `sessions` is a `plait.Sessions`, for `invoke` and `stream` (and for `ainvoke`, in a thread), or a
    `plait.AsyncSessions`, for `ainvoke` and `astream`. With the latter the sync methods work in threads beside the
    loop that the saver was made or used in, such as those of a graph's sync nodes under `ainvoke`; elsewhere
    they raise `UsageError`. It stays yours to close.
    """

    def __init__(self, sessions: plait.Sessions | plait.AsyncSessions, *, serde: Any = None) -> None:
        BaseCheckpointSaver.__init__(self, serde=serde)  # pyright: ignore[reportUnknownMemberType]
        self._work_on(sessions)
        self._threads = Threads()

    # -- both faces

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest of its thread and namespace."""
        return self._run(self._get(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._arun(self._get(config))

    def messages(self, config: RunnableConfig) -> builtins.list[BaseMessage]:
        """What the thread's session holds, for the input of a run that goes on with what other frameworks said.

        All messages of the active path as a model may be sent them, root first; none if there is no such thread. Those that
        the graph's state has already keep their ids, so they are not added to it again. Summaries are no messages of it:
        what they cover comes as it was, and `PlaitCompaction` lays them on each request. What is archived is left out.
        """
        return self._run(self._messages(config))

    async def amessages(self, config: RunnableConfig) -> builtins.list[BaseMessage]:
        """See `messages`."""
        return await self._arun(self._messages(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; of all threads without a config. Metadata must equal all of `filter`."""
        return self._stream(self._list(config, filter, before, limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        async for found in self._astream(self._list(config, filter, before, limit)):
            yield found

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, the values that are new in it and the messages that are new in those, in one transaction."""
        return self._run(self._put(config, checkpoint, metadata, new_versions))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await self._arun(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store what a task wrote, once for each task and index; interrupts, errors and resumes replace one another."""
        self._run(self._put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._arun(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Delete the thread's session, with its messages and all else."""
        self._run(self._delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._arun(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints whose metadata name one of these runs, of all threads; messages stay in their sessions."""
        self._run(self._delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._arun(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its branches and checkpoints to a new one; `ConflictError` if that exists."""
        self._run(self._copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._arun(self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete checkpoints: all but the newest of each namespace, or all; messages stay in their sessions.

        What a `DeltaChannel` of a newest checkpoint is rebuilt from stays too.
        """
        self._run(self._prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._arun(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What each channel was written on the way to a checkpoint, from the newest value that was stored."""
        return self._run(self._delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._arun(self._delta_history(config, channels))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The next version of a channel: a greater one, which no other branch of the thread has.

        A number: what it counts, above bits by chance. One that only counts, as plait made them before, goes on so; one that
        another saver made as text goes on as text.
        """
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}.{secrets.randbits(53):016}"
        counted = 0 if current is None else int(current) >> RANDOM_BITS
        return (counted + 1 << RANDOM_BITS) + secrets.randbits(RANDOM_BITS)

    # -- writing

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Work[RunnableConfig]:
        thread_id, namespace = _place(config)
        parent = config["configurable"].get("checkpoint_id")
        thread = self._threads.of(thread_id)
        body = self._checkpoint_body(config, checkpoint, metadata, parent)
        key = layout.checkpoint_key(namespace, checkpoint["id"])
        for last in range(TRIES):
            laid, put, others = self._new_values(thread, namespace, checkpoint, new_versions)
            put[key] = body
            again = thread.again((namespace, parent), self._texts(laid))
            chains = [chain for one in laid.values() for chain in one.chains]
            leaf = self._leaf(thread, namespace, laid)
            options = {"append": chains, "leaf": leaf, "format": rows.FORMAT}
            try:
                done = yield on(thread_id, "write_records", {**again, **put}, **options)
            except (ConflictError, NotFoundError) as error:
                thread = yield from self._look_again(thread_id, thread, chains, error)
                if last == TRIES - 1:
                    raise
                continue
            seqs = {result.id: (result.seq, result.parent_id) for result in done.appended}
            for channel, one in laid.items():
                thread.settle(namespace, channel, one, seqs)
            thread.leaf = leaf or thread.leaf
            thread.forget(again)
            for other, said in others.items():
                thread.note(other, Recent((namespace, checkpoint["id"]), "", _value_body, [said]))
            break
        return _config(thread_id, namespace, checkpoint["id"])

    def _checkpoint_body(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, parent: str | None
    ) -> bytes:
        rest = {key: item for key, item in checkpoint.items() if key not in _OWN and (key != "pending_sends" or item)}
        said = [checkpoint["v"], checkpoint["ts"], checkpoint["channel_versions"], checkpoint["versions_seen"], rest]
        about = values.dump(self.serde, get_checkpoint_metadata(config, metadata))
        return layout.pack([layout.short(parent) if parent else b"", list(about), list(values.dump(self.serde, said))])

    def _new_values(
        self, thread: Thread, namespace: str, checkpoint: Checkpoint, new_versions: ChannelVersions
    ) -> tuple[dict[str, Laid], dict[bytes, bytes], dict[bytes, values.Said]]:
        """The records of the values that are new: lists of messages by where they are, others by what they say."""
        laid: dict[str, Laid] = {}
        put: dict[bytes, bytes] = {}
        others: dict[bytes, values.Said] = {}
        plain = values.is_plain(self.serde)
        thread.taken.clear()
        for channel, version in new_versions.items():
            if channel not in checkpoint["channel_values"]:
                continue
            key, value = layout.value_key(namespace, channel, version), checkpoint["channel_values"][channel]
            delta = isinstance(value, _DeltaSnapshot)
            messages = value.value if delta else value
            if _is_messages(messages):
                one = laid[channel] = thread.lay(namespace, channel, messages, self.serde, plain=plain)
                put[key] = layout.pack([_DELTA_LIST if delta else _LIST, pack_segments(one.listed.segments)])
            else:
                said = others[key] = self._said(thread, value, _INPUT if channel == _INPUT else None)
                put[key] = _value_body([said.record()])
        return laid, put, others

    def _texts(self, laid: dict[str, Laid]) -> dict[str, builtins.list[values.Text]]:
        """The texts of the messages that come to the session, by their list; none if nobody may read them."""
        if not values.is_plain(self.serde):
            return {}
        return {
            channel: [
                text
                for _, chain in one.chains
                for id, row in chain
                for text in values.texts_of(id, row["data"].get("content"))
            ]
            for channel, one in laid.items()
        }

    def _said(self, thread: Thread, value: Any, channel: str | None) -> values.Said:
        """What is written to a channel, as bytes, with where in them messages stand; in a graph's input each list is by itself."""
        typed = values.dump(self.serde, value)
        if channel is None or typed[0] != values.PACKED or not values.is_plain(self.serde):
            return values.Said(typed, {}, ())
        parts, spans = {channel: value}, {channel: (0, len(typed[1]))}
        if channel == _INPUT:
            parts = value if type(value) is dict else {}
            spans = values.fields(self.serde, parts, typed[1])
        found: builtins.list[values.Found] = []
        for name, span in spans.items():
            messages = parts[name]
            texts = [thread.texts(message) for message in messages] if _is_messages(messages) else []
            if any(texts):
                found += values.inside(self.serde, messages, typed[1], span, texts)
        return values.Said(typed, spans, found)

    def _leaf(self, thread: Thread, namespace: str, laid: dict[str, Laid]) -> str | None:
        """Which message is to be the active leaf: the last of the graph's own list, if it is another than before."""
        if namespace or not laid:
            return None
        if thread.main not in laid:
            if thread.main is not None:
                return None
            thread.main = "messages" if "messages" in laid else next(iter(laid))
        leaf = laid[thread.main].leaf
        return leaf if leaf != thread.leaf else None

    def _look_again(self, thread_id: str, thread: Thread, chains: Sequence[Any], error: Exception) -> Work[Thread]:
        """A message is there already, or its parent is not: find out which are where."""
        if isinstance(error, NotFoundError):  # somebody deleted from the session what this process knew
            self._threads.forget(thread_id)
            return self._threads.of(thread_id)
        adopted = False
        for _, chain in chains:
            for id, row in chain:
                found = yield on(thread_id, "get", id)
                if found is not None:
                    thread.learn(id, row, found, self.serde)
                if isinstance(found, plait.Message) and found.format != rows.FORMAT and not adopted:
                    thread.adopt((yield from self._written_by_others(thread_id)))
                    adopted = True
        return thread

    def _written_by_others(self, thread_id: str) -> Work[builtins.list[tuple[BaseMessage, rows.Place]]]:
        """The active path as the graph's messages: what it is given of a conversation begun under another framework."""
        reading = rows.Found(self.serde)
        path = yield all_of(thread_id, "transcript")
        found = [one for row in path if isinstance(row, plait.Message) for one in reading.take(row)]
        return found + reading.end()

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Work[None]:
        thread_id, namespace = _place(config)
        thread, checkpoint_id = self._threads.of(thread_id), config["configurable"]["checkpoint_id"]
        usual: builtins.list[tuple[int, str, Any]] = []
        put: dict[bytes, bytes] = {}
        for n, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, n)
            if index >= 0:
                usual.append((index, channel, value))
            else:
                key = layout.writes_key(namespace, checkpoint_id, task_id, str(-index))
                put[key] = _Writes(task_path, [(index, channel)])([self._said(thread, value, None).record()])
        keep: dict[bytes, bytes] = {}
        key = layout.writes_key(namespace, checkpoint_id, task_id, "")
        entry = _Writes(task_path, [(index, channel) for index, channel, _ in usual])
        said = [self._said(thread, value, channel) for _, channel, value in usual]
        if usual:
            # Before it is there: the next checkpoint may come in another thread.
            thread.note(key, Recent((namespace, checkpoint_id), task_path, entry, said))
            keep[key] = entry([one.record() for one in said])
        done = yield on(thread_id, "write_records", put, keep=keep)
        if done.kept:
            thread.forget(done.kept)
            yield from self._add_writes(thread_id, key, keep[key])

    def _add_writes(self, thread_id: str, key: bytes, body: bytes) -> Work[None]:
        """What a task wrote under an index before stays; what it wrote under another is added."""
        found = yield on(thread_id, "read_records", [key])
        path, there = layout.unpack(found[key])
        known = {index for index, *_ in there}
        more = [write for write in layout.unpack(body)[1] if write[0] not in known]
        if more:
            yield on(thread_id, "write_records", {key: layout.pack([path, there + more])})

    # -- reading

    def _get(self, config: RunnableConfig) -> Work[CheckpointTuple | None]:
        thread_id, namespace = _place(config)
        id = get_checkpoint_id(config)
        if id:
            key = layout.checkpoint_key(namespace, id)
            found = yield on(thread_id, "read_records", [key])
            body = found.get(key)
        else:
            first, end = layout.namespaced(b"c", namespace)
            id, body = "", None
            bounds = ((first + b"\x01", first + b"\x02"), (first + b"\x02", end))
            for lo, hi in bounds:
                newest = yield on(thread_id, "records", lo, hi, limit=1, last_first=True)
                if newest and layout.parse_checkpoint(newest[0][0])[1] > id:
                    id, body = layout.parse_checkpoint(newest[0][0])[1], newest[0][1]
        if body is None:
            return None
        return (yield from self._tuple(thread_id, namespace, id, body, remember=True))

    def _messages(self, config: RunnableConfig) -> Work[builtins.list[BaseMessage]]:
        thread_id, _ = _place(config)
        overlays = yield on(thread_id, "overlays")
        shown = without_archived((yield all_of(thread_id, "transcript")), overlays)
        return [rows.restore(item, self.serde) for item in plait.messages_as(plait.legal_view(shown), "langchain")]

    def _tuple(
        self, thread_id: str, namespace: str, id: str, body: bytes, *, remember: bool = False
    ) -> Work[CheckpointTuple]:
        parent, about, said = layout.unpack(body)
        v, ts, versions, seen, rest = values.load(self.serde, (said[0], said[1]))
        keys = {layout.value_key(namespace, channel, version): channel for channel, version in versions.items()}
        found = yield on(thread_id, "read_records", list(keys))
        texts = _Texts(thread_id)
        channels: dict[str, Any] = {}
        for key, channel in keys.items():
            if key in found:
                channels[channel] = yield from self._value(thread_id, namespace, channel, found[key], texts, remember)
        writes = yield from self._writes(thread_id, namespace, id, texts)
        checkpoint: Any = {"v": v, "ts": ts, "id": id, "channel_values": channels, "channel_versions": versions}
        checkpoint |= {"versions_seen": seen, "updated_channels": None, **rest}
        return CheckpointTuple(
            config=_config(thread_id, namespace, id),
            checkpoint=checkpoint,
            metadata=values.load(self.serde, (about[0], about[1])),
            parent_config=_config(thread_id, namespace, layout.long(parent)) if parent else None,
            pending_writes=writes,
        )

    def _value(
        self, thread_id: str, namespace: str, channel: str, body: bytes, texts: _Texts, remember: bool
    ) -> Work[Any]:
        kind, stored = layout.unpack(body)
        if kind == _VALUE:
            yield from texts.look_for(values.referred(stored))
            return values.recall(self.serde, stored, texts.get)
        listed = Listed()
        messages: builtins.list[BaseMessage] = []
        reading = rows.Found(self.serde)
        for segment in unpack_segments(stored):
            made: builtins.list[tuple[BaseMessage, rows.Place]] = []
            for found in (yield from _segment(thread_id, segment)):
                if isinstance(found, plait.Damaged):
                    log.error("message %r of thread %r is damaged and left out: %s", found.id, thread_id, found.reason)
                else:
                    made += reading.take(found)
            for message, place in made + reading.end():
                messages.append(message)
                listed.add(message, place)
        if remember:
            thread = self._threads.of(thread_id)
            thread.remember(namespace, channel, listed)
            if not namespace and thread.main is None and channel == "messages":
                thread.main = channel
        return _DeltaSnapshot(messages) if kind == _DELTA_LIST else messages

    def _writes(
        self, thread_id: str, namespace: str, id: str, texts: _Texts, channels: Sequence[str] | None = None
    ) -> Work[builtins.list[PendingWrite]]:
        """What tasks wrote at a checkpoint, in the order in which it is applied."""
        prefix = layout.writes_prefix(namespace, id)
        found: builtins.list[tuple[str, str, int, str, Any]] = []
        for key, body in (yield from all_records(thread_id, prefix, layout.after(prefix))):
            path, writes = layout.unpack(body)
            task = layout.parse_task(key, prefix)
            found += [(path, task, index, channel, stored) for index, channel, stored in writes]
        pending: builtins.list[PendingWrite] = []
        for _, task, _, channel, stored in sorted(found, key=lambda write: write[:3]):
            if channels is None or channel in channels:
                yield from texts.look_for(values.referred(stored))
                pending.append((task, channel, values.recall(self.serde, stored, texts.get)))
        return pending

    def _list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Stream:
        threads = [_place(config)[0]] if config else [info.id for info in (yield all_of(None, "all"))]
        one = config["configurable"].get("checkpoint_ns") if config else None
        wanted = get_checkpoint_id(config) if config else None
        until = get_checkpoint_id(before) if before else None
        heads: builtins.list[_Newest] = []
        for thread_id in threads:
            namespaces = [one] if one is not None else (yield from _namespaces(thread_id))
            for namespace in namespaces:
                for head in _Newest.both(thread_id, namespace, until):
                    if (yield from head.move()):
                        heads.append(head)
        heapq.heapify(heads)
        left = limit
        while heads and (left is None or left > 0):
            head = heads[0]
            if wanted in (None, head.id) and self._matches(head.body, filter):
                found = yield from self._tuple(head.thread_id, head.namespace, head.id, head.body)
                yield Out(found)
                left = None if left is None else left - 1
            if (yield from head.move()):
                heapq.heapreplace(heads, head)
            else:
                heapq.heappop(heads)

    def _matches(self, body: bytes, filter: dict[str, Any] | None) -> bool:
        if not filter:
            return True
        metadata = self._metadata(body)
        return all(key in metadata and metadata[key] == item for key, item in filter.items())

    def _metadata(self, body: bytes) -> dict[str, Any]:
        about = layout.unpack(body)[1]
        return values.load(self.serde, (about[0], about[1]))  # type: ignore[no-any-return]

    def _delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Work[Mapping[str, DeltaChannelHistory]]:
        """Walk up from a checkpoint, reading of each only what these channels need."""
        thread_id, namespace = _place(config)
        collected: dict[str, builtins.list[builtins.list[PendingWrite]]] = {channel: [] for channel in channels}
        seeds: dict[str, Any] = {}
        texts = _Texts(thread_id)
        target = get_checkpoint_id(config)
        if not target:
            newest = yield from self._get(config)
            target = newest.config["configurable"]["checkpoint_id"] if newest is not None else ""
        id = (yield from self._parent(thread_id, namespace, target)) if channels and target else ""
        while id and len(seeds) < len(collected):
            key = layout.checkpoint_key(namespace, id)
            body = (yield on(thread_id, "read_records", [key])).get(key)
            if body is None:
                break
            parent, _, said = layout.unpack(body)
            versions = values.load(self.serde, (said[0], said[1]))[2]
            open_ = [channel for channel in collected if channel not in seeds]
            writes = yield from self._writes(thread_id, namespace, id, texts, open_)
            for channel in open_:
                collected[channel].append([write for write in writes if write[1] == channel])
            keys = {layout.value_key(namespace, c, versions[c]): c for c in open_ if c in versions}
            for key, stored in (yield on(thread_id, "read_records", list(keys))).items():
                seeds[keys[key]] = yield from self._value(thread_id, namespace, keys[key], stored, texts, False)
            id = layout.long(parent) if parent else ""
        result: dict[str, DeltaChannelHistory] = {}
        for channel, steps in collected.items():
            result[channel] = {"writes": [write for step in reversed(steps) for write in step]}
            if channel in seeds:
                result[channel]["seed"] = seeds[channel]
        return result

    def _parent(self, thread_id: str, namespace: str, id: str) -> Work[str]:
        key = layout.checkpoint_key(namespace, id)
        body = (yield on(thread_id, "read_records", [key])).get(key)
        parent = layout.unpack(body)[0] if body is not None else b""
        return layout.long(parent) if parent else ""

    # -- removing and copying

    def _delete_thread(self, thread_id: str) -> Work[None]:
        self._threads.forget(str(thread_id))
        yield on(None, "delete", str(thread_id))

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Work[None]:
        wanted = {str(id) for id in run_ids}
        for info in (yield all_of(None, "all")) if wanted else []:
            gone: builtins.list[tuple[str, str]] = []
            prefix = layout.PREFIX + b"c"
            for key, body in (yield from all_records(info.id, prefix, layout.after(prefix))):
                if str(self._metadata(body).get("run_id")) in wanted:
                    gone.append(layout.parse_checkpoint(key))
            if gone:
                yield from self._remove(info.id, gone)

    def _prune(self, thread_ids: Sequence[str], strategy: str) -> Work[None]:
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        for thread_id in map(str, thread_ids):
            there: dict[str, dict[str, bytes]] = {}
            prefix = layout.PREFIX + b"c"
            for key, body in (yield from all_records(thread_id, prefix, layout.after(prefix))):
                namespace, id = layout.parse_checkpoint(key)
                there.setdefault(namespace, {})[id] = body
            gone: builtins.list[tuple[str, str]] = []
            for namespace, bodies in there.items():
                kept = (
                    (yield from self._latest(thread_id, namespace, bodies)) if strategy == "keep_latest" else set[str]()
                )
                gone += [(namespace, id) for id in bodies if id not in kept]
            yield from self._remove(thread_id, gone)

    def _latest(self, thread_id: str, namespace: str, bodies: dict[str, bytes]) -> Work[set[str]]:
        """The newest checkpoint, and those above it that its delta channels are rebuilt from."""
        id = max(bodies)
        kept = {id}
        open_ = set(self._metadata(bodies[id]).get("counters_since_delta_snapshot") or ())
        while open_ and id in bodies:
            kept.add(id)
            parent, _, said = layout.unpack(bodies[id])
            versions = values.load(self.serde, (said[0], said[1]))[2]
            keys = {layout.value_key(namespace, c, versions[c]): c for c in open_ if c in versions}
            open_ -= {keys[key] for key in (yield on(thread_id, "read_records", list(keys)))}
            id = layout.long(parent) if parent else ""
        return kept

    def _remove(self, thread_id: str, gone: Sequence[tuple[str, str]]) -> Work[None]:
        """Remove checkpoints with their writes, then the values that no checkpoint has any more.

        Only values that are there before any of it may go, and only if no checkpoint that is there after the removal has
        them: a checkpoint that is put meanwhile has values of its own, or those of one that stays.
        """
        self._threads.of(thread_id).forget()
        namespaces = list(dict.fromkeys(namespace for namespace, _ in gone))
        unused: dict[bytes, None] = {}
        for namespace in namespaces:
            found = yield from all_records(thread_id, *layout.namespaced(b"b", namespace))
            unused |= dict.fromkeys(key for key, _ in found)
        for namespace, id in gone:
            prefix = layout.writes_prefix(namespace, id)
            writes = [key for key, _ in (yield from all_records(thread_id, prefix, layout.after(prefix)))]
            yield on(thread_id, "write_records", delete=[layout.checkpoint_key(namespace, id), *writes])
        for namespace in namespaces:
            for _, body in (yield from all_records(thread_id, *layout.namespaced(b"c", namespace))):
                versions = values.load(self.serde, tuple(layout.unpack(body)[2]))[2]
                for channel, version in versions.items():
                    unused.pop(layout.value_key(namespace, channel, version), None)
        keys = list(unused)
        for at in range(0, len(keys), DROP_KEYS):
            yield on(thread_id, "write_records", delete=keys[at : at + DROP_KEYS])

    def _copy_thread(self, source: str, target: str) -> Work[None]:
        source, target = str(source), str(target)
        records = yield from all_records(source, layout.PREFIX, layout.after(layout.PREFIX))
        if not records:
            return
        if (yield on(target, "info")) is not None:
            raise ConflictError(
                f"thread {target!r} exists already; copy to another, or delete it first", session_id=target
            )
        yield on(source, "fork", target)
        seqs: dict[int, int] = {}
        there = {found.id: found.seq for found in (yield all_of(target, "everything"))}
        missing: builtins.list[tuple[str | None, builtins.list[tuple[str, Any]]]] = []
        for found in (yield all_of(source, "everything")):
            if isinstance(found, plait.Damaged):
                continue
            if found.id in there:
                seqs[found.seq] = there[found.id]
            else:
                missing.append((found.parent_id, [(found.id, found.to_dict())]))
                seqs[found.seq] = -1 - len(missing)
        got: builtins.list[int] = []
        for at in range(0, len(missing), PAGE):
            done = yield on(target, "write_records", append=missing[at : at + PAGE], format=rows.FORMAT)
            got += [result.seq for result in done.appended]
        seqs = {old: new if new >= 0 else got[-2 - new] for old, new in seqs.items()}
        copies = [(key, _moved(key, body, seqs)) for key, body in records]
        checkpoints = [copy for copy in copies if copy[0][2:3] == b"c"]
        for part in (copy for copy in copies if copy[0][2:3] != b"c"), checkpoints:
            items = list(part)
            for at in range(0, len(items), PAGE):
                yield on(target, "write_records", dict(items[at : at + PAGE]))


_OWN: Final = {"v", "ts", "id", "channel_values", "channel_versions", "versions_seen"}


class _Writes:
    """Makes the record of a task's writes of what stands for each value."""

    def __init__(self, path: str, about: Sequence[tuple[int, str]]) -> None:
        self.path = path
        self.about = about

    def __call__(self, stored: Sequence[Any]) -> bytes:
        return layout.pack([self.path, [[*about, one] for about, one in zip(self.about, stored, strict=True)]])


def _value_body(stored: Sequence[Any]) -> bytes:
    return layout.pack([_VALUE, stored[0]])


class _Texts:
    """The texts of messages that values refer to, each message read once."""

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        self.found: dict[str, list[str]] = {}

    def look_for(self, ids: set[str]) -> Work[None]:
        for id in ids - self.found.keys():
            message = yield on(self.thread_id, "get", id)
            self.found[id] = _texts_of(message) if isinstance(message, plait.Message) else []

    def get(self, id: str, n: int) -> str | None:
        found = self.found.get(id, [])
        return found[n] if n < len(found) else None


def _texts_of(message: plait.Message) -> list[str]:
    return rows.texts(message.to_dict()["data"].get("content")) if message.format == rows.FORMAT else [message.text]


class _Newest:
    """The checkpoints of a namespace whose ids are of one kind, newest first; in a heap the newest of all comes first."""

    def __init__(self, thread_id: str, namespace: str, first: bytes, end: bytes, until: str | None) -> None:
        self.thread_id = thread_id
        self.namespace = namespace
        self.id = ""
        self.body = b""
        self._first, self._end = first, end
        self._page: list[tuple[bytes, bytes]] = []
        self._size = 1
        self._until = until

    @classmethod
    def both(cls, thread_id: str, namespace: str, until: str | None) -> list[_Newest]:
        """Those whose ids are UUIDs, and the others."""
        first, end = layout.namespaced(b"c", namespace)
        bounds = ((first + b"\x01", first + b"\x02"), (first + b"\x02", end))
        return [cls(thread_id, namespace, lo, hi, until) for lo, hi in bounds]

    def move(self) -> Work[bool]:
        """Go to the next one; whether there is one."""
        while True:
            if not self._page:
                options = {"limit": self._size, "last_first": True}
                self._page = yield on(self.thread_id, "records", self._first, self._end, **options)
                self._size = min(self._size * 4, PAGE)
                if not self._page:
                    return False
                self._page.reverse()
            key, self.body = self._page.pop()
            self._end = key
            self.id = layout.parse_checkpoint(key)[1]
            if self._until is None or self.id < self._until:
                return True

    def __lt__(self, other: _Newest) -> bool:
        return self.id > other.id


def _place(config: RunnableConfig) -> tuple[str, str]:
    """The thread and the namespace that a config names."""
    configurable = config["configurable"]
    return str(configurable["thread_id"]), configurable.get("checkpoint_ns") or ""


def _config(thread_id: str, namespace: str, id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": id}}


def _is_messages(value: Any) -> bool:
    # By their types, which are few: a graph's list comes whole at every step.
    return type(value) is list and bool(value) and all(issubclass(kind, BaseMessage) for kind in set(map(type, value)))


def all_records(thread_id: str, first: bytes, end: bytes) -> Work[list[tuple[bytes, bytes]]]:
    """All records of a session between two keys."""
    found: list[tuple[bytes, bytes]] = []
    while True:
        page = yield on(thread_id, "records", first, end)
        if not page:
            return found
        found += page
        first = page[-1][0] + b"\x00"


def _namespaces(thread_id: str) -> Work[list[str]]:
    """The namespaces that a thread has checkpoints in, each found by one look."""
    found: list[str] = []
    first = layout.PREFIX + b"c"
    end = layout.after(first)
    while page := (yield on(thread_id, "records", first, end, limit=1)):
        found.append(layout.parse_checkpoint(page[0][0])[0])
        first = layout.namespaced(b"c", found[-1])[1]
    return found


def _segment(thread_id: str, segment: Sequence[Any]) -> Work[list[plait.Message | plait.Damaged]]:
    """The messages of a segment; if its last one was deleted, up to the one before."""
    first, last, before = segment
    options = {"after_seq": first - 1} if first else {}
    for leaf in (last, before):
        found = (yield all_of(thread_id, "transcript", leaf, **options)) if leaf else []
        if found:
            return found
    log.warning("the last messages of a list in thread %r were deleted: it is read without them", thread_id)
    return []


def _moved(key: bytes, body: bytes, seqs: dict[int, int]) -> bytes:
    """A record of a copied thread, where messages have other seqs."""
    if key[2:3] != b"b":
        return body
    kind, stored = layout.unpack(body)
    if kind == _VALUE:
        return body
    return layout.pack([kind, [[seqs.get(first, first) if first else 0, *ids] for first, *ids in stored]])
