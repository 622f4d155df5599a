"""The values that go in and out of a store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from plait.model import Appended, Covered, Damaged, Json, Message, Overlay, OverlayKind, Parent, SessionInfo

Written: TypeAlias = Appended
"""What a store answers for each message of a write."""


class Scope(Struct, frozen=True):
    """Whose sessions these are: a tenant and an owner, compared exactly, both `""` by default."""

    tenant: str = ""
    owner: str = ""


class Fence(Struct):
    """The lease that the writes of a ref are made under.

    The session has to be in its `epoch` still, else they are refused and `lost` is set. A write
    keeps the lease alive: if less than two thirds of `ttl_us` are left, for as long again.
    `until_us` is what is known here of its end, by the database's clock.
    """

    epoch: int
    ttl_us: int
    until_us: int
    lost: bool = False


class SessionRef(Struct):
    """A handle's hold on a session: where it is looked for, and the life of it the handle is bound to.

    The store sets `incarnation` after the first committed call that met the session, and refuses
    a ref bound to another life with `SessionDeletedError`, noting in `over` that this one has ended.
    `None` means not bound yet. With a `lease` every write through it is refused once that is over.
    """

    scope: Scope
    id: str
    incarnation: int | None = None
    over: bool = False
    lease: Fence | None = None


class Media(Struct, frozen=True):
    """A payload taken out of a message's text: canonical base64 of it belongs at character `at`.

    `data` holds the bytes, or is `None` when they were put ahead under the claim `upload`.
    """

    at: int
    hash: bytes
    size: int
    data: bytes | None = None
    upload: str | None = None


class NewMessage(Struct, frozen=True):
    """A message that passed the door: exact JSON text (media taken out) and what was derived from it.

    `bytes` is the UTF-8 size with all media put back. `made_id` says that nobody else can have
    used this id, because it was made for this message. `seq` is the least seq that it is to have: a
    copy keeps those of its source.
    """

    id: str
    role: str
    format: str
    body: str
    bytes: int
    tokens: int
    created_at_us: int
    media: tuple[Media, ...] = ()
    made_id: bool = False
    seq: int = 0


class Expect(Struct, frozen=True):
    """A precondition of an append: the leaf (id, or `None` for an empty session) or the version.

    `check_leaf` tells "expect no leaf" from "no expectation". With `branch` a moved leaf is not
    an error: the messages become a branch at `leaf_id`, and the active leaf stays.
    """

    check_leaf: bool = False
    leaf_id: str | None = None
    version: int | None = None
    branch: bool = False


Creating = Literal["new", "ensure", "once", "never"]
"""Whether `put_session` makes a session: only if it is absent, if need be, the same and otherwise only its owner, not."""


class Described(Struct, frozen=True):
    """A session after a change of its catalogue entry; `changed` is false if it was so already."""

    info: SessionInfo
    changed: bool


class Stated(Struct, frozen=True):
    """A session's state after a patch of it; `changed` is false if it was so already."""

    state: Json
    changed: bool


class Updated(Struct, frozen=True):
    """The stored form after an update; `changed` is false when it was that already."""

    message: Message
    changed: bool


class Range(Struct, frozen=True):
    """A run of a path in one strand: rows with `lo <= seq <= hi`, whether or not they survive."""

    strand: int
    lo: int
    hi: int


class NewOverlay(Struct, frozen=True):
    """An overlay to be added over the messages `from_id` to `to_id` of a path; see `Overlay`.

    `tokens` is what the message will cost that shows its summary. `stale`: it comes from elsewhere,
    where it was stale.
    """

    id: str
    kind: OverlayKind
    from_id: str
    to_id: str
    summary: str | None
    tokens: int
    created_at_us: int
    stale: bool = False


class Laid(Struct, frozen=True):
    """An overlay as it lies on a path, with nothing over it.

    `role` and `bytes` are those of the message that shows its summary, `parent_id` the message
    before the first place covered. `hides` is what the messages below it come to now.
    """

    overlay: Overlay
    role: str
    parent_id: str | None
    bytes: int
    hides: Covered


class Path(Struct, frozen=True):
    """A path fixed in one committed state, root first; empty `ranges` for an absent leaf or session.

    Ranges are disjoint and rise in seq. `leaf_id` is the newest surviving message on it. `laid` are
    the overlays that lie on it with nothing over them, root first; they are disjoint.
    """

    incarnation: int
    version: int
    leaf_id: str | None
    ranges: tuple[Range, ...]
    laid: tuple[Laid, ...] = ()


class Span(Struct, frozen=True):
    """The places from one seq to another on a path fixed before, whether or not messages are left there."""

    path: Path
    from_seq: int
    to_seq: int


class Graft(Struct, frozen=True):
    """Where a root of staged messages goes: below a message of the session they are added to."""

    root: str
    parent: str


class Stat(Struct, frozen=True):
    """A row without its content."""

    id: str
    seq: int
    role: str
    bytes: int
    tokens: int
    created_at_us: int


class ValueStat(Struct, frozen=True):
    """The newest version of a value without its content, whose UTF-8 size is `bytes`."""

    key: str
    version: int
    bytes: int
    tokens: int
    written_at_us: int
    description: str | None


class Suffix(Struct, frozen=True):
    """The end of what a path shows, within bounds: the seq it begins at (0: nothing), and the whole path's totals.

    The totals count every message of the path; `hidden` is what overlays take off them. A store may
    give the suffix itself, `loaded`, where that is little: then no further call is needed.
    """

    start_seq: int
    messages: int
    bytes: int
    tokens: int
    loaded: list[Message | Damaged] | None = None
    hidden: tuple[int, int, int] = (0, 0, 0)


Kind = Literal["append", "import"]


class Search(Struct, frozen=True):
    """What is searched for, and among which messages.

    `leaf` limits to the path to a message (`LEAF`: the active one), `branches` says not to; `since_us`
    is in, `until_us` is out. Empty `roles` are all.
    """

    query: str
    limit: int = 20
    offset: int = 0
    newest_first: bool = False
    roles: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None
    leaf: Parent = None
    branches: bool = True


class Chain(Struct, frozen=True):
    """Messages to be added one after another below `parent`, `None` for a root; at least one."""

    parent: str | None
    messages: tuple[NewMessage, ...]


class NewRecords(Struct, frozen=True):
    """Records to be written in one transaction, and messages with them.

    `put` replaces what is there, `keep` leaves it. The messages of `chains` must all be new to the
    session; those whose last is `leaf` become the active path, and so does another `leaf`. `state` is
    merged into the session's; `remove` are ids of messages that go. Nothing is written if the session has left
    `expect_version`, or unless the records of `expect` are what they are expected to be, `None`: not there.
    """

    put: tuple[tuple[bytes, bytes], ...] = ()
    keep: tuple[tuple[bytes, bytes], ...] = ()
    drop: tuple[bytes, ...] = ()
    chains: tuple[Chain, ...] = ()
    leaf: str | None = None
    state: Mapping[str, Any] | None = None
    expect_version: int | None = None
    expect: tuple[tuple[bytes, bytes | None], ...] = ()
    remove: tuple[str, ...] = ()
