"""What the tests of stores share: opening one, messages for it, and answers that can be compared."""

from __future__ import annotations

import hashlib
from os import PathLike, fspath
from typing import Any, cast

from plait import jsontext
from plait.logic import view
from plait.model import Damaged, Message, OverlayAdded, Parent, SessionInfo
from plait.store._sync.port import Overlaying, Store
from plait.store._sync.store import PlanStore
from plait.store.protocol import Described, Media, NewMessage, Path, SessionRef, Stated, Updated, Written
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver


def open_sqlite(path: str | PathLike[str], **options: Any) -> PlanStore:
    """A store on a SQLite file, opened; `options` are those of the driver's `Settings`."""
    store = PlanStore(SQLiteDriver(Settings(fspath(path), **{"durability": "process", **options})))
    store.open()
    return store


def message(id: str, text: str, payload: bytes | None, at_us: int) -> NewMessage:
    """A native message, with a picture beside its text if a payload is given."""
    body = jsontext.encode({"id": id, "role": "user", "parts": [{"type": "text", "text": text}]})
    if payload is None:
        return NewMessage(id, "user", "plait", body, len(body.encode()), len(text), at_us)
    body = body[:-2] + ',{"type":"file","mediaType":"image/png","data":"'
    media = Media(len(body), hashlib.sha256(payload).digest(), len(payload), payload)
    body += '"}]}'
    return NewMessage(id, "user", "plait", body, len(body.encode()) + (len(payload) + 2) // 3 * 4, 9, at_us, (media,))


def plain(answer: Any) -> Any:
    """An answer as values that two stores must agree on: no incarnation, strand or time of activity."""
    if isinstance(answer, Message):
        facts = (answer.id, answer.seq, answer.parent_id, answer.role, answer.bytes, answer.tokens, answer.created_at)
        return (*facts, answer.to_json())
    if isinstance(answer, Damaged):
        return ("damaged", answer.reason)
    if isinstance(answer, Written):
        return plain(answer.message), answer.inserted, answer.branched, answer.differs
    if isinstance(answer, Updated):
        return plain(answer.message), answer.changed
    if isinstance(answer, Described):
        return plain(answer.info), answer.changed
    if isinstance(answer, Stated):
        return plain(answer.state), answer.changed
    if isinstance(answer, OverlayAdded):
        return answer.overlay, answer.inserted, answer.covered
    if isinstance(answer, SessionInfo):
        catalogue = (
            answer.id,
            answer.name,
            answer.owner,
            answer.parent_id,
            answer.pinned,
            answer.version,
            answer.totals,
        )
        return (*catalogue, jsontext.encode(answer.metadata))
    if isinstance(answer, dict):
        return jsontext.encode(answer)  # as text: 1, 1.0 and true differ
    if isinstance(answer, list):
        return [plain(item) for item in answer]
    return answer


def read_path(store: Store, ref: SessionRef, leaf: Parent) -> list[Any] | None:
    """A path in both directions, its sizes, and where its suffixes begin."""
    path = store.path(ref, leaf)
    if path is None:
        return None
    up = store.load(ref, path)
    assert [row.id for row in store.load(ref, path, newest_first=True)] == [row.id for row in reversed(up)]
    stats = store.stats(ref, path)
    suffixes = [
        suffix_of(store, ref, path, count=2, budget_bytes=None),
        suffix_of(store, ref, path, count=None, budget_bytes=300),
    ]
    return [
        path.version,
        path.leaf_id,
        *up,
        *[(s.id, s.seq, s.bytes, s.tokens, s.role, s.created_at_us) for s in stats],
        suffixes,
        path.laid,
        cast("Overlaying", store).overlays(ref, leaf=leaf),
        shown(store, ref, path),
    ]


def suffix_of(store: Store, ref: SessionRef, path: Path, *, count: int | None, budget_bytes: int | None) -> Any:
    """A suffix's facts; what a store has loaded of it is what it shows from its start on."""
    suffix = store.suffix(ref, path, count=count, budget_bytes=budget_bytes)
    if suffix.loaded is not None:
        whole = shown(store, ref, path, after_seq=suffix.start_seq - 1) if suffix.start_seq else []
        assert plain(suffix.loaded) == whole
    return (suffix.start_seq, suffix.messages, suffix.bytes, suffix.tokens, suffix.hidden)


def shown(store: Store, ref: SessionRef, path: Path, *, after_seq: int | None = None) -> list[Any]:
    """What a path shows after a seq, root first."""
    found: list[Any] = []
    for item in view.plan(path, after_seq=after_seq):
        if isinstance(item, view.Run):
            found += plain(store.load(ref, path, after_seq=item.lo - 1, before_seq=item.hi + 1, limit=1000))
        else:
            found.append(plain(item))
    return found
