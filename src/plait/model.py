"""The values that users see: messages, results of writes, windows, sessions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from plait import jsontext, times
from plait.errors import CorruptError, UsageError

Json: TypeAlias = dict[str, Any]
UTF8: TypeAlias = bytes
Source: TypeAlias = Literal["server", "client"]
OverlayKind: TypeAlias = Literal["compaction", "archive", "replace", "omit", "unload"]
OVERLAY_PREFIX: Final = "plait:overlay:"
"""How the id of a message begins that is read where an overlay shows its summary; the overlay's id follows."""


class Leaf:
    """The type of `LEAF`, the default parent."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "LEAF"


LEAF: Final = Leaf()
"""The active leaf, whichever message that is when the write happens."""

Parent: TypeAlias = str | Leaf | None
"""Where a message goes: after `LEAF`, after the message with that id, or `None` for a root."""


class Format(Protocol):
    """How to read one kind of message: plait's own, or a framework's, kept verbatim.

    Every method takes the decoded message and never changes it. A reader answers with what it
    finds and with something empty for what it does not; it raises nothing on odd content.
    """

    name: str

    def recognizes(self, message: Mapping[str, Any]) -> bool:
        """Whether `message` is of this format."""
        ...

    def id(self, message: Mapping[str, Any]) -> str | None:
        """The id the message carries as its own, if it does."""
        ...

    def role(self, message: Mapping[str, Any]) -> str:
        """Who speaks: `user`, `assistant`, `system`, `tool`, or a word of the format's own."""
        ...

    def parts(self, message: Mapping[str, Any]) -> list[Json]:
        """The content as native parts (the message's own list where it has one)."""
        ...

    def metadata(self, message: Mapping[str, Any]) -> Json:
        """What the message says about itself beside its content."""
        ...

    def usage(self, message: Mapping[str, Any]) -> Json | None:
        """What a model reported having used, as the provider spelled it."""
        ...


class Message(Struct, eq=False):
    """One message as it is stored. Its content is decoded when it is first looked at.

    `seq` is its place in the session's order of arrival (it counts up and may have gaps),
    `parent_id` the message it answers, `None` for a root. `bytes` is the UTF-8 size of the whole
    message with its media, `tokens` the estimate stamped when it was written.
    """

    id: str
    role: str
    seq: int
    parent_id: str | None
    _at: int
    bytes: int
    tokens: int
    _format: Format
    _text: str | UTF8
    _content: Json | None = None

    @property
    def overlay(self) -> Overlay | None:
        """The overlay whose summary this is, shown in place of messages; `None` for a message that is stored."""
        return None

    @property
    def created_at(self) -> dt.datetime:
        """When the message was made, as an aware UTC time; never used for order."""
        return times.from_us(self._at)

    @property
    def format(self) -> str:
        """The name of the format the message is kept in; `plait` for native messages."""
        return self._format.name

    @property
    def content(self) -> Json:
        """The stored message, decoded; shared between calls, so copy before changing it."""
        if self._content is None:
            self._content = self.to_dict()
        return self._content

    @property
    def parts(self) -> list[Json]:
        """The content as native parts, each with a `type`; a foreign message's are derived."""
        return self._format.parts(self.content)

    @property
    def metadata(self) -> Json:
        """What the message says about itself, `{}` if nothing."""
        return self._format.metadata(self.content)

    @property
    def usage(self) -> Json | None:
        """What a model reported having used for this message, if the message carries it."""
        return self._format.usage(self.content)

    @property
    def text(self) -> str:
        """The words: all text parts, joined by newlines. Not reasoning, tools or media."""
        texts = [part.get("text") for part in self.parts if part.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))

    def to_dict(self) -> Json:
        """The message exactly as it was given, as a value of the caller's own.

        `CorruptError` if the stored text was damaged in a way that only shows now.
        """
        try:
            content: Json = jsontext.decode(self._text)
        except (ValueError, RecursionError) as error:
            raise self._damaged(error) from error
        return content

    def _damaged(self, error: Exception) -> CorruptError:
        return CorruptError(
            f"message {self.id!r} (seq {self.seq}) is damaged, its text is not JSON: {error}; update it to repair it",
            message_id=self.id,
        )

    def to_json(self) -> str:
        """The message exactly as it is stored, as JSON text; `CorruptError` if its bytes are not UTF-8 any more."""
        if isinstance(self._text, str):
            return self._text
        try:
            return self._text.decode()
        except UnicodeDecodeError as error:
            raise self._damaged(error) from error

    def with_content(
        self, content: Mapping[str, Any], *, tokens: int | None = None, format: Format | None = None
    ) -> Message:
        """A copy with other content and the same place, to show to a model; nothing is stored.

        `tokens` is what the new content costs; without it the copy keeps the stamp of the stored
        one. `format` is named if the content is not of the message's own.
        """
        import copy  # for this alone

        other = copy.copy(self)
        other._format = format or self._format
        other._text = jsontext.encode(content)
        other._content = None
        other.bytes = len(other._text.encode())
        other.tokens = self.tokens if tokens is None else tokens
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        mine, theirs = (self.id, self.seq, self.parent_id), (other.id, other.seq, other.parent_id)
        return mine == theirs and self._utf8() == other._utf8()

    def _utf8(self) -> UTF8:
        return self._text.encode() if isinstance(self._text, str) else self._text

    def __hash__(self) -> int:
        return hash((self.id, self.seq))

    def __repr__(self) -> str:
        return f"<Message {self.id!r} seq={self.seq} role={self.role!r}>"


class Damaged(Struct, frozen=True):
    """A message whose stored form cannot be read: what is known of it, and why.

    Reads put it where the message stands, so that one damaged row hides nothing else.
    """

    id: str
    seq: int
    role: str
    parent_id: str | None
    reason: str


class Covered(Struct, frozen=True):
    """How many messages an overlay covered when it was added, their UTF-8 bytes and estimated tokens."""

    messages: int
    bytes: int
    tokens: int


class Overlay(Struct, frozen=True):
    """What a path shows instead of the messages from `from_id` to `to_id`; those stay as they are.

    `summary` is the text that is read in their place, `None` if nothing is. `from_seq` and `to_seq`
    are the places it covers, also when messages there have been deleted since. It lies on every
    path that runs through its last place. `stale` says that a message below it was updated or
    deleted after it was added, or that it was laid over a stale text, of which it was made then.
    `left` is how many of the covered messages are still there.
    """

    id: str
    kind: OverlayKind
    summary: str | None
    from_id: str
    to_id: str
    from_seq: int
    to_seq: int
    created_at: dt.datetime
    covers: Covered
    left: int
    tokens: int
    stale: bool


class OverlayMessage(Message, eq=False):
    """The message that is read where an overlay shows its summary.

    `whole` says that it is the message that was there, with something in it unloaded, and no summary.
    """

    _overlay: Overlay | None = None
    whole: bool = False

    @property
    def overlay(self) -> Overlay:
        """The overlay whose summary this is."""
        assert self._overlay is not None
        return self._overlay


class OverlayAdded(Struct, frozen=True):
    """What adding an overlay did.

    `covered` says that nothing was added, because another overlay covers that place already:
    `overlay` is that one. Adding an overlay with an id that is there answers it, `inserted=False`.
    """

    overlay: Overlay
    inserted: bool = True
    covered: bool = False


class Appended(Struct, frozen=True):
    """What a write of a message did.

    `inserted` is false when the id was there already; `message` is then the stored one, and
    `differs` says whether it is not what was given. `branched` says that the write went beside
    the active leaf because somebody else had moved it (`on_moved="branch"`).
    """

    message: Message
    inserted: bool
    differs: bool = False
    branched: bool = False

    @property
    def id(self) -> str:
        """The message's id, as given or as made."""
        return self.message.id

    @property
    def seq(self) -> int:
        """The message's number in its session: later ones have higher ones, and none is used again."""
        return self.message.seq

    @property
    def parent_id(self) -> str | None:
        """The id of the message that it answers; `None` for a root."""
        return self.message.parent_id


class Recorded(Struct, frozen=True):
    """What a write of records did.

    `kept` are the keys of `keep` that were there already and stay as they are; `appended` is what
    became of each message that came with the records, in the order given; `removed` are the ids of `remove`
    that were there.
    """

    kept: list[bytes]
    appended: list[Appended]
    removed: list[str]


class RowStat(Struct, frozen=True):
    """One message of a path without its content: size in UTF-8 bytes, estimated tokens, time."""

    id: str
    seq: int
    role: str
    bytes: int
    tokens: int
    created_at: dt.datetime


class Totals(Struct, frozen=True):
    """Messages, UTF-8 bytes and estimated tokens: of the whole session, of its active path, and of its view.

    `path_*` counts every message of the active path, `view_*` what `history` shows of it.
    """

    messages: int = 0
    bytes: int = 0
    tokens: int = 0
    path_messages: int = 0
    path_bytes: int = 0
    path_tokens: int = 0
    view_messages: int = 0
    view_bytes: int = 0
    view_tokens: int = 0


class Window(Struct, frozen=True):
    """The newest messages of a path that fit a budget, oldest first.

    `truncated` says that older ones were left out; `total_*` are those of the whole path, with
    nothing hidden, `view_*` those of all that `history` shows of it.
    """

    messages: list[Message | Damaged]
    truncated: bool
    total_messages: int
    total_bytes: int
    total_tokens: int
    view_messages: int = 0
    view_bytes: int = 0
    view_tokens: int = 0


USAGE_KEY: Final = "plait:usage"
ENDED_KEY: Final = "plait:ended"
COMPACTION_KEY: Final = "plait:compaction"
"""Under these keys a session's metadata has what it used, how it ended, and what its compaction waits for."""


class Usage(Struct, frozen=True):
    """What a session has used, added up: tokens in and out, and what they cost in the caller's currency."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0


def _noted(metadata: Json, key: str) -> Json:
    """The object under a key of plait's own; what is no object is as good as none."""
    found: object = metadata.get(key)
    return cast("Json", found) if isinstance(found, dict) else {}


def usage_of(metadata: Json) -> Usage:
    """What a session's metadata says it used; what somebody else wrote there counts as nothing."""
    found = _noted(metadata, USAGE_KEY)
    tokens_in, tokens_out, cost = (found.get(name) for name in ("input_tokens", "output_tokens", "cost"))
    return Usage(
        tokens_in if type(tokens_in) is int else 0,
        tokens_out if type(tokens_out) is int else 0,
        float(cost) if isinstance(cost, int | float) else 0.0,
    )


class SessionInfo(Struct, frozen=True):
    """A session as the catalogue knows it.

    `owner` is whom the application says it belongs to (set once), `parent_id` the session it was
    forked from, `version` the number of changes it has seen.
    """

    id: str
    name: str | None
    owner: str | None
    parent_id: str | None
    pinned: bool
    metadata: Json
    created_at: dt.datetime
    active_at: dt.datetime
    version: int
    totals: Totals

    @property
    def usage(self) -> Usage:
        """What `add_usage` has added up."""
        return usage_of(self.metadata)

    @property
    def status(self) -> Literal["active", "ended"]:
        """`ended` from `end` until `reopen`. It keeps nobody from writing."""
        return "active" if self.end_reason is None else "ended"

    @property
    def end_reason(self) -> str | None:
        """Why the session was ended, such as `compaction`; `None` if it was not."""
        reason = _noted(self.metadata, ENDED_KEY).get("reason")
        return reason if isinstance(reason, str) else None


class Hit(Struct, frozen=True):
    """A message that a search found.

    `snippet` is the piece of its text that shows why, on one line; `highlights` are the ranges of
    `snippet` that hold the words asked for. A better match has a higher `score`. `on_path` says
    whether the message is on the active path, `leaf_id` where its branch ends, `covered` whether an
    overlay hides it on the path to there; read on with `session.around(hit.id)`, or the whole branch
    with `session.transcript(hit.leaf_id)`.
    """

    session_id: str
    id: str
    seq: int
    role: str
    created_at: dt.datetime
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float
    on_path: bool
    covered: bool
    leaf_id: str

    def marked(self, before: str = "**", after: str = "**") -> str:
        """The snippet with `before` and `after` around each highlight."""
        pieces: list[str] = []
        at = 0
        for start, end in self.highlights:
            pieces += [self.snippet[at:start], before, self.snippet[start:end], after]
            at = end
        return "".join(pieces) + self.snippet[at:]


class Value(Struct, frozen=True):
    """One version of a named text that a session keeps beside its messages: a prompt block, or an entry of one.

    `label` and `key` name it; `key` is `""` where a label has one value only. `content` is `None` in a
    version that says the value was deleted. `version` counts its writes: 1, 2, 3 …, never used again,
    also after a deletion; 0 says that it was never written. `tokens` is the count it was stamped with.
    `damaged` says that the content is only what can still be read of a longer one.
    """

    label: str
    key: str
    content: str | None
    description: str | None
    tokens: int
    version: int
    written_at: dt.datetime
    metadata: Mapping[str, Any]
    damaged: bool = False


class ValueHit(Struct, frozen=True):
    """A value that a search found.

    `snippet`, `highlights` and `score` are as those of a `Hit`.
    """

    value: Value
    snippet: str
    highlights: tuple[tuple[int, int], ...]
    score: float


class SearchText(Struct, frozen=True):
    """What a search provider is told: the text of a message, new or changed.

    Without `text` the message is gone; without `id` all of the session is.
    """

    session_id: str
    id: str | None = None
    text: str | None = None


class LeaseInfo(Struct, frozen=True):
    """Who alone may write to a session: what the holder calls itself, until when, and the session's epoch."""

    holder: str
    until: dt.datetime
    epoch: int


class SessionPage(Struct, frozen=True):
    """One page of a listing, the most recently active first; `cursor` continues it, `None` ends it."""

    sessions: list[SessionInfo]
    cursor: str | None


class Attachment(Struct, frozen=True):
    """Media put into the store ahead of the message that will use it.

    Place it in a part where the media's inline data would stand (`url` or `data`). `upload` is
    the claim that keeps the bytes until then; it lapses after the store's grace time.
    """

    hash: str
    media_type: str
    size: int
    upload: str

    def __post_init__(self) -> None:
        if len(self.hash) != 64 or set(self.hash) - set("0123456789abcdef"):
            raise UsageError(
                "an attachment's hash is 64 lowercase hexadecimal digits; use what put_attachment answered"
            )

    def __repr__(self) -> str:  # without the claim: it is nobody else's to use
        return f"Attachment(hash={self.hash!r}, media_type={self.media_type!r}, size={self.size})"


class Change(Struct, frozen=True):
    """One committed change of a session, as a subscriber is told of it or a feed delivers it.

    `kind` is one of append, import, update, delete, clear, checkout, compact, overlay, context, session
    and delete session, or error, which only subscribers hear of. `ids` names the messages (or the
    overlay) it is about. `message` comes with append, import and update, `parent_id` with the first two,
    `overlay` with compact and overlay; `removed` says that it was taken away. Context comes with the
    `label` and `key` of the value that was written, or (`removed`) deleted, and the `value_version` that made.
    With `leaf_moved` the active leaf is now `leaf_id`, `None` if no message is left.

    A feed reads message and overlay as they are when the change is delivered: `None` if that is gone,
    and then there is no `parent_id`; `damaged` if a message cannot be read. `version` counts a session's changes,
    `at` is when it was made (of a message: its own time), and `cursor` is where a feed goes on
    after it. With error, `error` is what failed on a change of the kind `during`.
    """

    kind: str
    session_id: str
    message: Message | None = None
    parent_id: str | None = None
    inserted: bool = True
    ids: Sequence[str] = ()
    overlay: Overlay | None = None
    removed: bool = False
    leaf_moved: bool = False
    leaf_id: str | None = None
    damaged: Damaged | None = None
    version: int | None = None
    at: dt.datetime | None = None
    cursor: str | None = None
    error: BaseException | None = None
    during: str | None = None
    label: str | None = None
    key: str | None = None
    value_version: int | None = None


class Changes(Struct, frozen=True):
    """The next changes after a cursor, and the cursor after them; with `more` there are more already."""

    changes: list[Change]
    cursor: str
    more: bool


class Summary(Struct, frozen=True):
    """What a function given to `on_compaction` answers: the text that takes the place of some messages."""

    text: str
    from_id: str
    to_id: str


class Compacted(Struct, frozen=True):
    """What a compaction did, or would do.

    `overlay` is what was added, `None` if nothing was; `reason` says why in words then. `from_id`
    and `to_id` are the ends of what is covered, `messages` how many the view shows there,
    `covered_tokens` what they cost. `calls` is how often the summarizer was asked.
    """

    overlay: Overlay | None
    reason: str
    from_id: str | None = None
    to_id: str | None = None
    messages: int = 0
    covered_tokens: int = 0
    calls: int = 0

    @property
    def done(self) -> bool:
        """Whether something was compacted."""
        return self.overlay is not None


class CompactionState(Struct, frozen=True):
    """How a session's automatic compaction stands: `paused` says why it waits, `None` if it does not.

    It goes on when the view has more than `resumes_above_tokens` and, if that is given, more than
    `resumes_above_messages`, when it has become small again, or after a `compact()` that worked.
    `attempts` counts those in a row that failed or won too little.
    """

    paused: str | None = None
    resumes_above_tokens: int | None = None
    attempts: int = 0
    resumes_above_messages: int | None = None


class Finding(Struct, frozen=True):
    """Something the doctor found: its kind, where, and whether it has been mended."""

    kind: str
    detail: str
    fixed: bool = False


class Block(Struct, frozen=True):
    """A block of context as it was read: a labelled text of the system prompt.

    `content` is `""` if there is none, `tokens` what it costs, `max_tokens` what a write may make of
    it. `writable`, `is_searchable` and `is_skill` say what a model may do with it, by what its provider
    can do. `version` counts the writes of a stored block, 0 for one never written; `None` if its
    provider keeps no versions.
    """

    label: str
    content: str
    tokens: int
    description: str | None = None
    max_tokens: int | None = None
    writable: bool = False
    is_skill: bool = False
    is_searchable: bool = False
    version: int | None = None


class PrefixReport(Struct, frozen=True):
    """What of a model's input stayed the same since the call before: `Session.prefix_report`.

    `identical_bytes` at the front are as they were, of the `previous_bytes` of that input and the
    `total_bytes` of this one. `broken_by` says what made the first difference: `tools`, `prompt`,
    `update`, `insert`, `delete`, `overlay`, `compaction`, `branch` or, in the view for a model, `result`
    (a call that had no result has one now, or the other way round); `None` if all of the earlier
    input stands at the front of this one. `message_id` is the message or overlay it is about, and
    `detail` says it in words. `mark` is for a report that another process makes later.
    """

    identical_bytes: int
    previous_bytes: int
    total_bytes: int
    broken_by: str | None
    message_id: str | None
    detail: str
    mark: str

    @property
    def intact(self) -> bool:
        """Whether a provider that kept the earlier input can use all of it."""
        return self.broken_by is None


class Imported(Struct, frozen=True):
    """What an import did: into which session, how many messages were new, how many were there already."""

    session_id: str
    created: bool
    inserted: int
    existing: int


class Copied(Struct, frozen=True):
    """What a copy of a session from one store into another did.

    `created` says that it was not there before; then it has been compared with what was read before it appeared.
    `inserted` of its `messages` are new there. `lost` names what could not be copied: damaged messages, and overlays
    on which no message is left. `same` says that both sides said the same in the end; if not, the copy has something
    of its own, or its source has updated or deleted something since it was copied before.
    """

    session_id: str
    created: bool
    inserted: int
    messages: int
    lost: tuple[str, ...]
    same: bool


class RetentionPlan(Struct, frozen=True):
    """What a retention run removes (or would, on a dry run), and why each session is on the list."""

    sessions: list[tuple[str, str]]
    dry_run: bool


def user(text: str, /, **fields: Any) -> Json:
    """A user's message with one text part; `fields` (such as `id` or `metadata`) are added as they are.

    >>> user("Where is my order?")["parts"]
    [{'type': 'text', 'text': 'Where is my order?'}]
    """
    return _text_message("user", text, fields)


def assistant(text: str, /, **fields: Any) -> Json:
    """An assistant's message with one text part; see `user`."""
    return _text_message("assistant", text, fields)


def system(text: str, /, **fields: Any) -> Json:
    """A system message with one text part; see `user`."""
    return _text_message("system", text, fields)


def _text_message(role: str, text: str, fields: Json) -> Json:
    return {**fields, "role": role, "parts": [{"type": "text", "text": text}]}
