"""The values that go in and out of a store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from plait.model import Damaged, Message, SessionInfo


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose sessions these are: a tenant and an owner, compared exactly, both `""` by default."""

    tenant: str = ""
    owner: str = ""


@dataclass(slots=True)
class SessionRef:
    """A handle's hold on a session: where it is looked for, and the life of it the handle is bound to.

    The store sets `incarnation` after the first committed call that met the session, and refuses
    a ref bound to another life with `SessionDeletedError`, noting in `over` that this one has ended.
    `None` means not bound yet.
    """

    scope: Scope
    id: str
    incarnation: int | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """A payload taken out of a message's text: canonical base64 of it belongs at character `at`.

    `data` holds the bytes, or is `None` when they were put ahead under the claim `upload`.
    """

    at: int
    hash: bytes
    size: int
    data: bytes | None = None
    upload: str | None = None


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message that passed the door: exact JSON text (media taken out) and what was derived from it.

    `bytes` is the UTF-8 size with all media put back. `made_id` says that nobody else can have
    used this id, because it was made for this message.
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


@dataclass(frozen=True, slots=True)
class Expect:
    """A precondition of an append: the leaf (id, or `None` for an empty session) or the version.

    `check_leaf` tells "expect no leaf" from "no expectation". With `branch` a moved leaf is not
    an error: the messages become a branch at `leaf_id`, and the active leaf stays.
    """

    check_leaf: bool = False
    leaf_id: str | None = None
    version: int | None = None
    branch: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The stored form of one message of a write.

    `inserted` is false if its id was there already; `differs` then says whether with other content.
    """

    message: Message
    inserted: bool
    branched: bool = False
    differs: bool = False


@dataclass(frozen=True, slots=True)
class Described:
    """A session after a change of its catalogue entry; `changed` is false if it was so already."""

    info: SessionInfo
    changed: bool


@dataclass(frozen=True, slots=True)
class Updated:
    """The stored form after an update; `changed` is false when it was that already."""

    message: Message
    changed: bool


@dataclass(frozen=True, slots=True)
class Range:
    """A run of a path in one strand: rows with `lo <= seq <= hi`, whether or not they survive."""

    strand: int
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Path:
    """A path fixed in one committed state, root first; empty `ranges` for an absent leaf or session.

    Ranges are disjoint and rise in seq. `leaf_id` is the newest surviving message on it.
    """

    incarnation: int
    version: int
    leaf_id: str | None
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Graft:
    """Where a root of staged messages goes: below a message of the session they are added to."""

    root: str
    parent: str


@dataclass(frozen=True, slots=True)
class Stat:
    """A row without its content."""

    id: str
    seq: int
    role: str
    bytes: int
    tokens: int
    created_at_us: int


@dataclass(frozen=True, slots=True)
class Suffix:
    """The end of a path within bounds: the seq it begins at (0: nothing), and the whole path's totals.

    A store may give the suffix itself, `loaded`, where that is little: then no further call is needed.
    """

    start_seq: int
    messages: int
    bytes: int
    tokens: int
    loaded: list[Message | Damaged] | None = field(default=None, compare=False)


Kind = Literal["append", "import"]
