"""Generated from src/plait/store/_async/port.py by tools/unasync.py: edit that file. What any store must do: the port between the faces above and a database below.

A store keeps trees of messages exactly and answers from one committed state per call. Slices,
attachments and index upkeep are its own business; windows, overlays and budgets are laid on above.
`plait.testing.StoreTests` holds an implementation to this contract.
"""

from __future__ import annotations

from collections.abc import Iterator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from plait.model import (
    LEAF,
    Changes,
    Damaged,
    Hit,
    Json,
    LeaseInfo,
    Message,
    Overlay,
    OverlayAdded,
    Parent,
    SessionInfo,
    SessionPage,
    Totals,
    Usage,
    Value,
    ValueHit,
)
from plait.store.protocol import (
    Creating,
    Described,
    Expect,
    Fence,
    Graft,
    Kind,
    NewMessage,
    NewOverlay,
    NewRecords,
    Path,
    Scope,
    Search,
    SessionRef,
    Span,
    Stat,
    Stated,
    Suffix,
    Updated,
    ValueStat,
    Written,
)


class Store(Protocol):
    """The primitives, each one atomic. Absence is an answer: `None`, `[]`, `inserted=False`.

    `session.id` need not exist: writes of messages, state and catalogue create it, reads find
    nothing. Errors are plait's own; nothing of the database's leaks out.
    """

    def open(self) -> None:
        """Make ready; called before anything else, and harmless when called again."""
        ...

    def close(self) -> None:
        """Finish what was accepted and let go; harmless when called again."""
        ...

    def flush(self) -> None:
        """Return when every write acknowledged so far is on disk, at any durability."""
        ...

    def append(
        self,
        session: SessionRef,
        messages: Sequence[NewMessage],
        *,
        parent: Parent,
        expect: Expect | None = None,
        kind: Kind = "append",
        activate: bool = True,
        refuse_other: bool = False,
    ) -> list[Written]:
        """Add a chain of messages after `parent`, all or none; an id that is there is left as it is.

        In a batch the chain goes on from an existing message as if it had just been inserted.
        The last inserted becomes the active leaf if `activate`. An unknown parent raises
        `NotFoundError`; a parent that is itself part of the batch, likewise; it is not looked for if
        the first message is there already. An id that is there with other content is said to
        differ; with `refuse_other` it raises `ConflictError`.
        """
        ...

    def update(self, session: SessionRef, message: NewMessage) -> Updated | None:
        """Replace the content of the message with this id; its seq, parent and time stay."""
        ...

    def delete(self, session: SessionRef, ids: Sequence[str]) -> list[str]:
        """Remove these messages, their children going to the nearest surviving ancestor.

        Answers the ids that were there, in the order given, each once.
        """
        ...

    def clear(self, session: SessionRef) -> bool:
        """Remove every message and begin a new incarnation, to which `session` is then bound."""
        ...

    def checkout(self, session: SessionRef, id: str | None, *, expect: Expect | None = None) -> bool:
        """Make this message the active leaf, or none; `False` if it is so already; `NotFoundError` if absent.

        Without an active leaf the path is empty and the next append makes a root, whatever messages there
        are. `LeafMovedError` if the session does not stand where `expect` says.
        """
        ...

    def fork(
        self, session: SessionRef, target: SessionRef, *, at: str | None, created_at_us: int, name: str | None = None
    ) -> int:
        """Copy the path to `at` (the active leaf by default) into the new session `target`.

        Ids, seqs and times are kept. All or nothing: `ConflictError` if `target` exists,
        `StaleValueError` if the source changed in the copied range meanwhile. Answers how many
        messages were copied; an absent source or empty path copies none.
        """
        ...

    def stage(
        self, target: SessionRef, *, created_at_us: int | None = None, token: str | None = None
    ) -> SessionRef:
        """A hidden, empty session that can be written like any other and published as `target`.

        `created_at_us` is what it says of its own making; now by default. With a `token`, 32 hexadecimal digits, the
        one that was begun with it before is gone on with, if it has not been published, given up or swept.

        `ConflictError` if `target` exists. One that is never published is swept in time.
        """
        ...

    def publish(
        self,
        stage: SessionRef,
        target: SessionRef,
        *,
        active_at_us: int | None = None,
        note: tuple[SessionRef, Mapping[str, Any]] | None = None,
    ) -> None:
        """Make a staged session the session `target`, at once; `ConflictError` if that exists.

        It was last active at `active_at_us`, if that is in the past, else now. A `note` is merged into the
        metadata of another session in the same transaction; `NotFoundError` if there is no such session.
        """
        ...

    def discard(self, stage: SessionRef) -> None:
        """Give up a staged session; harmless when it was published or given up already."""
        ...

    def get(self, session: SessionRef, id: str) -> Message | Damaged | None:
        """One message by id."""
        ...

    def path(self, session: SessionRef, leaf: Parent, *, raw: bool = False) -> Path | None:
        """The path to `leaf`, `LEAF` for the active one; `None` if there is no such session.

        An absent leaf gives a path without ranges. The overlays that lie on the path are fixed
        with it, unless it is to be read `raw`; `load` and `stats` answer rows, whatever lies over them.
        """
        ...

    def load(
        self,
        session: SessionRef,
        path: Path,
        *,
        after_seq: int | None = None,
        before_seq: int | None = None,
        newest_first: bool = False,
        limit: int = 50,
        budget_bytes: int = 4 << 20,
        shown: bool = False,
    ) -> list[Message | Damaged]:
        """The next rows of `path` between two seqs (both excluded), in the order asked for.

        With `shown` those that the overlays of `path` cover are left out.

        At most `limit` rows, and no further row once their sizes reach `budget_bytes`; at least
        one if there is any. Rows come as they are now; rows deleted meanwhile are left out.
        Raises `SessionDeletedError` if the path's incarnation is gone.
        """
        ...

    def stats(
        self, session: SessionRef, path: Path, *, after_seq: int = 0, before_seq: int | None = None, limit: int = 1000
    ) -> list[Stat]:
        """Rows of `path` between two seqs (both excluded) without their content, root first."""
        ...

    def suffix(self, session: SessionRef, path: Path, *, count: int | None, budget_bytes: int | None) -> Suffix:
        """Where the longest suffix of what `path` shows begins, within both bounds, and what the whole path holds.

        An overlay counts as the message that it shows. The newest one is always within, unless
        `count` is 0.
        """
        ...

    def recent(
        self, session: SessionRef, leaf: Parent, *, count: int | None, budget_bytes: int | None
    ) -> tuple[Path, Suffix] | None:
        """The path to `leaf` with its suffix, as `path` and `suffix` answer them, of one committed state.

        Of the overlays on the path those in the suffix suffice.
        """
        ...

    def leaf(self, session: SessionRef) -> Message | Damaged | None:
        """The active leaf."""
        ...

    def everything(
        self, session: SessionRef, *, after_seq: int = 0, limit: int = 50, budget_bytes: int = 4 << 20
    ) -> list[Message | Damaged]:
        """The next messages of all branches after a seq, in seq order, bounded as `load` is."""
        ...

    def changed_since(self, session: SessionRef, path: Path) -> bool:
        """Whether a message of `path` was updated or deleted, or an overlay on it changed, since the path was fixed."""
        ...

    def newest(self, session: SessionRef) -> Message | Damaged | None:
        """The message of highest seq, on whichever branch."""
        ...

    def children(self, session: SessionRef, id: str | None) -> list[Message | Damaged]:
        """The messages whose parent is `id`, in seq order; `None` for the roots."""
        ...

    def leaves(self, session: SessionRef) -> list[Message | Damaged]:
        """The messages without children, in seq order."""
        ...

    def totals(self, session: SessionRef) -> Totals:
        """Counts and sizes of the session and its active path; zeros if absent."""
        ...

    def info(self, session: SessionRef) -> SessionInfo | None:
        """The session as the catalogue knows it."""
        ...

    def put_session(
        self,
        session: SessionRef,
        *,
        created_at_us: int,
        create: Creating,
        name: str | None = None,
        owner: str | None = None,
        parent_id: str | None = None,
        pinned: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Described | None:
        """Create or change a session's catalogue entry.

        `new` raises `ConflictError` if it exists, `never` answers `None` if it does not. `ensure`
        makes it if it is absent and changes it if not; `once` sets nothing but a missing owner then.
        Given metadata is merged per key, a `None` value removing its key. `owner` fills a missing
        owner and raises `ConflictError` on another one.
        """
        ...

    def state(self, session: SessionRef) -> Json:
        """The session's small JSON state; `{}` if absent."""
        ...

    def update_state(
        self, session: SessionRef, patch: Mapping[str, Any], *, created_at_us: int, version: int | None = None
    ) -> Stated:
        """Merge `patch` into the state per key (a `None` value removes its key); answers the result.

        With a `version` that the session does not stand at (an absent one stands at none): `LeafMovedError`.
        """
        ...

    def sessions(self, scope: Scope, *, cursor: str | None, limit: int) -> SessionPage:
        """Sessions of a scope, most recently active first, of one instant the highest id first; a foreign cursor raises
        `UsageError`."""
        ...

    def delete_session(self, session: SessionRef, *, version: int | None = None) -> bool:
        """Remove the session with all it holds; `False` if there is none, or if it has left `version`."""
        ...

    def put_attachment(
        self, scope: Scope, chunks: Iterator[bytes], *, upload: str, now_us: int
    ) -> tuple[bytes, int]:
        """Keep a payload ahead of its message under the claim `upload`; answers its sha256 and size."""
        ...

    def read_attachment(self, session: SessionRef, id: str, n: int) -> Iterator[bytes]:
        """The bytes of the `n`-th payload of a message, in pieces of at most 1 MiB."""
        ...


class Feeding(Store, Protocol):
    """A store that keeps what changed, so that a reader can go on where it stopped."""

    def changes(self, session: SessionRef, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        """The next changes of a session id after a cursor, over all its lives; see `Session.changes`.

        Binds nothing. At most `limit`, and none more once the messages in them reach `budget_bytes`.
        """
        ...

    def changes_end(self, session: SessionRef) -> str:
        """The cursor after the last change of a session."""
        ...

    def scope_changes(self, scope: Scope, *, after: str | None, limit: int, budget_bytes: int) -> Changes:
        """The next changes of a scope's sessions after a cursor, each at least once, in order for each session."""
        ...

    def scope_changes_end(self, scope: Scope) -> str:
        """The cursor after the last change of a scope."""
        ...

    def prune_changes(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget change rows made before a time, or more than `keep` of a session; answers how many."""
        ...

    def commits(self, place: SessionRef | Scope | None = None) -> int | None:
        """A number that is another one once anything has been committed; `None` if the store cannot tell.

        With a `place` it need not count what was committed elsewhere.
        """
        ...


class Rest(Protocol):
    """`Waking.rest` by itself."""

    def __call__(self, place: SessionRef | Scope, seen: int | None, at_most_s: float) -> bool: ...


class Waking(Store, Protocol):
    """A store that is told of commits, so that who waits for one need not ask it again and again."""

    def rest(self, place: SessionRef | Scope, seen: int | None, at_most_s: float) -> bool:
        """Return once `commits(place)` is not `seen` any more, or after so long; `False` at once if it cannot tell."""
        ...


class Scoping(Store, Protocol):
    """A store that can say whose sessions it holds."""

    def scopes(self, *, after: Scope | None = None, limit: int = 100) -> list[Scope]:
        """The next scopes that have sessions, or values that their sessions share, ordered by tenant and owner."""
        ...


class Stating(Store, Protocol):
    """A store that can change a session's state in the transaction that adds messages to it."""

    def append_with_state(
        self,
        session: SessionRef,
        messages: Sequence[NewMessage],
        patch: Mapping[str, Any],
        *,
        parent: Parent,
        expect: Expect | None = None,
        refuse_other: bool = False,
    ) -> tuple[list[Written], bool]:
        """`append`, and `update_state` with `patch`: both or neither. Answers also whether the state changed.

        The state stays as it is if nothing was inserted, or if what was became a branch beside the
        active leaf (`expect`).
        """
        ...


class Merging(Store, Protocol):
    """A store that can add many messages to an existing session at once."""

    def existing(self, session: SessionRef, ids: Sequence[str]) -> set[str]:
        """Which of these message ids the session has."""
        ...

    def stage_more(self, target: SessionRef, count: int) -> SessionRef:
        """A hidden session for up to `count` messages that are to be added to `target`, which exists."""
        ...

    def merge(self, stage: SessionRef, target: SessionRef, grafts: Sequence[Graft], leaf: str | None) -> int:
        """Add the staged messages to `target`, all at once, its roots below the messages that `grafts` say.

        The active leaf moves to `leaf` if the one before is on its path. Answers how many there
        were. `ConflictError` if one of them was added meanwhile, `NotFoundError` if a parent is gone.
        """
        ...


class Overlaying(Store, Protocol):
    """A store that can show something else in place of a range of a path, without touching the range.

    An overlay lies on every path that runs through the place where it ends, whether or not a message
    is left there. On any path overlays are disjoint or one lies inside the other. Deleting or
    updating a message below one marks it stale; a text laid over a stale text is stale from the
    beginning. A fork takes along those that lie on its path.
    """

    def add_overlay(
        self,
        session: SessionRef,
        overlay: NewOverlay,
        *,
        leaf: Parent = LEAF,
        expect_version: int | None = None,
        span: Span | None = None,
        change: Literal["overlay", "compact"] = "overlay",
    ) -> OverlayAdded:
        """Lay an overlay on the messages of the path to `leaf` from `from_id` to `to_id`; `change` is its record's kind.

        An id that is there answers that overlay. A range that another overlay of this path covers
        answers it with `covered=True` and adds nothing, except that a compaction strictly inside
        one raises `ConflictError`, as does any range that crosses an overlay on a path that both
        would lie on. With `expect_version`, `StaleValueError` if a message in the range was
        updated or deleted, or an overlay that ends in it added or removed, after that version, and
        if an end of the range is not there, or not on the path, in a session that has moved on.
        `NotFoundError` for an absent session or message, `UsageError` for one off the path.

        With `span` its places are covered, at the version of its path: then neither `leaf` nor
        the ids are looked for, and `expect_version` is not either. `StaleValueError` if the session
        has been cleared since.
        """
        ...

    def crossing(self, session: SessionRef, span: Span) -> Overlay | None:
        """An overlay on whichever branch that a summary of `span` would cross; `None` if none is in the way."""
        ...

    def overlays(self, session: SessionRef, *, leaf: Parent = LEAF, everywhere: bool = False) -> list[Overlay]:
        """The overlays that lie on the path to `leaf`, or all of the session, in the order they were added."""
        ...

    def overlay(self, session: SessionRef, id: str) -> Overlay | None:
        """One overlay by its id."""
        ...

    def remove_overlay(self, session: SessionRef, id: str) -> Overlay | None:
        """Take an overlay away; answers what it was, `None` if there is none.

        `ConflictError` for one that is no summary and lies inside a newer summary: that was made
        without what it hides, which nothing would cover any more.
        """
        ...

    def covering(self, session: SessionRef, ids: Sequence[str]) -> dict[str, list[str]]:
        """The ids of the overlays that cover each of these messages, in the order asked; those none covers are left out."""
        ...

    def claim_compaction(self, session: SessionRef, token: str, *, until_us: int) -> bool:
        """Take the right to compact this session until a time, for one holder at a time across processes.

        `False` if somebody else holds it; its own holder may take it again to keep it longer.
        """
        ...

    def release_compaction(self, session: SessionRef, token: str) -> None:
        """Give the right back; harmless if it is not held any more."""
        ...


class Leasable(Store, Protocol):
    """A store that can let one worker alone write to a session, and refuses whoever's time is over.

    A lease is fenced: a session has an epoch that goes on whenever a lease begins or ends, and a write
    through a ref with a `lease` is refused with `LeaseLostError`, in the same transaction, unless the session is in that
    epoch still. While a lease is in force every other write of what the session holds is refused with
    `LeaseHeldError`: messages, the leaf, overlays, state, values, compaction, clear and delete, but not the catalogue's entry.
    Once its time is over, whoever writes or takes a lease first ends it. Time is the database's.
    """

    def acquire_lease(self, session: SessionRef, token: str, *, ttl_us: int, holder: str) -> Fence:
        """Begin a lease, creating the session if it is absent; `LeaseHeldError` if another is in force.

        The same token again answers the same lease, kept for as long again.
        """
        ...

    def renew_lease(self, session: SessionRef) -> int:
        """Keep the ref's lease for as long again; answers until when. `LeaseLostError` if it is over."""
        ...

    def release_lease(self, session: SessionRef) -> bool:
        """End the ref's lease; `False` if it was over already."""
        ...

    def end_lease(self, session: SessionRef) -> bool:
        """End whoever's lease; `False` if there is none."""
        ...

    def lease(self, session: SessionRef) -> LeaseInfo | None:
        """Who holds a lease that is in force."""
        ...


class Recording(Store, Protocol):
    """A store that keeps records: opaque bytes of a session's present life, each under a key of bytes.

    Keys are compared byte by byte. No feed tells of records and no version counts them; a clear or
    delete of the session removes them. A fork has none.
    """

    def read_records(self, session: SessionRef, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those of the records under these keys that are there."""
        ...

    def records(
        self, session: SessionRef, first: bytes, end: bytes, *, limit: int, last_first: bool
    ) -> list[tuple[bytes, bytes]]:
        """The next records with `first` <= key < `end`, by key, rising or falling.

        At most `limit`, and no further one once they reach 4 MiB; at least one if there is any.
        """
        ...

    def write_records(
        self, session: SessionRef, new: NewRecords, *, created_at_us: int
    ) -> tuple[list[bytes], list[Written], list[str]]:
        """Write records and messages, all or nothing, creating the session; see `NewRecords`.

        Answers the keys of `keep` that were there, what was appended, and what of `remove` was there. A message that is there
        already raises `ConflictError`, an unknown parent or leaf `NotFoundError`, a record that is not
        the one expected `StaleValueError`. Messages to be removed that are not there are harmless.
        """
        ...


class Restamping(Store, Protocol):
    """A store that can change the tokens which messages and overlays are stamped with."""

    def restamp(
        self,
        session: SessionRef,
        stamps: Sequence[tuple[str, int]],
        *,
        summaries: Sequence[tuple[str, int]] = (),
        since_version: int,
    ) -> int:
        """Stamp messages and overlays, each by its id; answers how many stamps changed.

        All totals follow. Stamps are derived: nothing else changes, the version stays, and no feed
        tells of it. Ids that are not there are passed over. `StaleValueError`, and nothing written,
        if one of the messages was updated or deleted after `since_version`, when it was counted.
        """
        ...


class Contextual(Store, Protocol):
    """A store that keeps named values beside a session's messages: prompt blocks and their entries.

    A value is one text under a label and a key (`""` where a label has one only). It belongs to the
    session: a clear keeps it, a delete takes it, a fork copies what it says then, under its version. Those that the sessions of a scope
    share belong to its hidden session `plait:shared`. Any text of any size is kept exactly. Each
    write is one change of the kind `context`, and every version stays readable until it is pruned.
    """

    def read_value(self, session: SessionRef, label: str, key: str = "") -> Value | None:
        """The newest version; `None` if there is none, or if it says that the value was deleted."""
        ...

    def values(
        self,
        session: SessionRef,
        label: str,
        *,
        after: str | None = None,
        limit: int = 100,
        prefix: str = "",
        budget_bytes: int = 4 << 20,
    ) -> list[Value]:
        """The next values of a label whose keys come after one and begin with `prefix`, in key order.

        Keys are ordered by code points. At most `limit`, and none more once their sizes reach
        `budget_bytes`, at least one if there is any: the next page goes on after the last key, and
        an empty one is the end.
        """
        ...

    def value_stats(
        self, session: SessionRef, label: str, *, after: str | None = None, limit: int = 1000, prefix: str = ""
    ) -> list[ValueStat]:
        """The same values as `values` answers, at most `limit`, without their content, of which none is read."""
        ...

    def write_value(
        self,
        session: SessionRef,
        label: str,
        key: str,
        content: str | None,
        *,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        tokens: int = 0,
        expect: int | None = None,
        operation: str,
        created_at_us: int,
        least_version: int = 0,
    ) -> Value:
        """Write the next version, or (`None`) one that says the value is deleted; answers it.

        `expect` is the version that must stand there: 0 if the value must not exist (never written,
        or deleted), `None` for whatever stands. Else `StaleValueError` with `current`, and nothing is written.
        What says that already, description and metadata too, is left alone: no version, no change; so
        is what this very `operation` wrote last. The version is at least `least_version`: a copy keeps
        the numbers of its source. The first write creates the session; a deletion
        of what is not there does not.
        """
        ...

    def value_history(
        self, session: SessionRef, label: str, key: str = "", *, before: int | None = None, limit: int = 100
    ) -> list[Value]:
        """The versions that are kept, newest first, those before a version only if that is given."""
        ...

    def count_values(self, session: SessionRef, label: str, prefix: str = "") -> int:
        """How many values of a label are there whose keys begin with `prefix`."""
        ...

    def value_names(
        self, session: SessionRef, *, after: tuple[str, str | None] | None = None, limit: int = 100
    ) -> list[tuple[str, str]]:
        """The labels and keys of the session's next values, in order, also of those that were deleted.

        `after` is a label and a key, or a label and `None` to pass over the rest of its keys.
        """
        ...

    def search_values(self, session: SessionRef, label: str, query: str, *, limit: int = 10) -> list[ValueHit]:
        """The values of a label that hold every word of `query`, the best match first.

        The words are those of `Search`: `"quotes"` a phrase, nothing refused. Every value that was
        written when this was called is searched, in what it says now.
        """
        ...

    def prune_values(self, scope: Scope, *, before_us: int | None, keep: int | None) -> int:
        """Forget versions written before a time, or more than `keep` beside the newest; answers how many.

        The newest version of a value stays. Never one that comes after another one that stays.
        """
        ...


class Accounting(Store, Protocol):
    """A store that adds up what sessions used."""

    def add_usage(self, session: SessionRef, usage: Usage, *, created_at_us: int) -> SessionInfo | None:
        """Add to what a session's metadata says under `plait:usage`; `None` if there is no such session.

        Additions that come at once all count.
        """
        ...


class Searchable(Store, Protocol):
    """A store that can search the words of its messages."""

    def search(self, within: SessionRef | Scope, asked: Search) -> list[Hit]:
        """The messages of a session, or of all sessions of a scope, that hold every word asked for.

        All that was committed when this was called is searched; filters are applied before the limit.
        """
        ...

    def hits(self, within: SessionRef | Scope, keys: Sequence[tuple[str, str]], asked: Search) -> list[Hit]:
        """Those of these messages that are there and pass the filters, in the order given, whatever words they hold.

        Each key is a session id and a message id. What is asked for otherwise, its words, limit and
        order, only says what a snippet shows.
        """
        ...

    def build_search_index(self, *, rebuild: bool, progress: Callable[[int, int], None] | None) -> int:
        """Index what is not indexed, or everything anew; answers how many messages that were.

        `progress` is told after each bounded step how many are done and how many may be left.
        """
        ...
