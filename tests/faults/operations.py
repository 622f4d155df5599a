"""One of each operation of a store, a database to try them on, and all that can be asked afterwards."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from msgspec.structs import replace

from plait.model import LEAF, Json, Usage
from plait.store._sync.abilities import merging, stating
from plait.store._sync.port import Accounting, Contextual, Leasable, Overlaying, Recording, Restamping, Store
from plait.store._sync.store import PlanStore
from plait.store.plans import removal
from plait.store.protocol import Chain, Fence, Graft, NewMessage, NewOverlay, NewRecords, Scope, SessionRef
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from tests.stores import message, open_sqlite, plain, read_path

SCOPE = Scope("tenant", "owner")
NOW = 1_800_000_000_000_000
DAY_US = 24 * 3600 * 1_000_000
PICTURE, OTHER = b"a picture" * 9000, b"another"
SLICE_BYTES = 20_000
"""Short slices, so that a message of several is not a slow one."""


def ref(id: str = "s") -> SessionRef:
    return SessionRef(SCOPE, id)


def new(id: str, text: str = "text", payload: bytes | None = None) -> NewMessage:
    return message(id, text, payload, NOW)


def put(store: Store) -> Any:
    return store.put_attachment(SCOPE, iter([b"x" * 100_000] * 3), upload="claim", now_us=NOW)


def overlaying(store: Store) -> Overlaying:
    return cast("Overlaying", store)


def overlay(id: str, first: str, last: str, summary: str | None = "in short") -> NewOverlay:
    return NewOverlay(id, "archive" if summary is None else "compaction", first, last, summary, 7, NOW)


def claim(store: Store) -> bool:
    claimed = overlaying(store).claim_compaction(ref(), "me", until_us=NOW * 2)
    store.update_state(ref(), {"claimed": claimed}, created_at_us=NOW)
    return claimed


def restamp(store: Store) -> int:
    path = store.path(ref(), LEAF)
    assert path is not None
    stamps = [("a", 70), ("b", 50), ("big", 9), ("d", 1000)]
    return cast("Restamping", store).restamp(ref(), stamps, summaries=[("o", 3)], since_version=path.version)


def big_delete(store: Store, ids: list[str]) -> list[str]:
    """A delete that is prepared, done and cleared away in transactions of one message each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(removal, "ROWS", 0)
        patch.setattr(removal, "PART", 1)
        return store.delete(ref(), ids)


def lease(store: Store, id: str = "s") -> Fence:
    return cast("Leasable", store).acquire_lease(ref(id), "token", ttl_us=1 << 50, holder="me")


OPERATIONS: dict[str, Callable[[Store], Any]] = {
    "append": lambda store: store.append(ref(), [new("x")], parent=LEAF),
    "append a picture": lambda store: store.append(ref(), [new("x", "", OTHER)], parent=LEAF),
    "append many": lambda store: store.append(ref(), [new(f"x{n}", "é" * 3000) for n in range(20)], parent=LEAF),
    "append slices": lambda store: store.append(ref(), [new("x", "y" * 70_000)], parent=LEAF),
    "branch": lambda store: store.append(ref(), [new("x")], parent="a"),
    "root of a new session": lambda store: store.append(ref("new"), [new("x")], parent=None),
    "update": lambda store: store.update(ref(), new("b", "new text")),
    "update a picture": lambda store: store.update(ref(), new("p", "no picture")),
    "update slices": lambda store: store.update(ref(), new("big", "small")),
    "delete": lambda store: store.delete(ref(), ["b", "p", "big", "d"]),
    "big delete": lambda store: big_delete(store, ["b", "p", "big", "d"]),
    "big delete of everything": lambda store: big_delete(store, ["a", "b", "c", "p", "big", "d"]),
    "checkout": lambda store: store.checkout(ref(), "b"),
    "clear": lambda store: store.clear(ref()),
    "fork": lambda store: store.fork(ref(), ref("copy"), at=None, created_at_us=NOW),
    "import into a session": lambda store: merge(store, [new("x"), new("y", "", OTHER), new("z", "é" * 30_000)]),
    "import a branch that others had begun": lambda store: merge(store, [new("x")], parent="d"),
    "publish a stage and note it elsewhere": lambda store: publish(store, note=(ref(), {"went on": "in new"})),
    "delete session": lambda store: store.delete_session(ref()),
    "put session": lambda store: store.put_session(
        ref(), created_at_us=NOW, create="ensure", name="n", metadata={"k": 1}
    ),
    "create session": lambda store: store.put_session(ref("new"), created_at_us=NOW, create="new"),
    "state": lambda store: store.update_state(ref(), {"k": 1}, created_at_us=NOW),
    "append with state": lambda store: stating(store).append_with_state(ref(), [new("x")], {"k": 1}, parent=LEAF),
    "put attachment": put,
    "add an overlay": lambda store: overlaying(store).add_overlay(ref(), overlay("new", "a", "big")),
    "add an archive": lambda store: overlaying(store).add_overlay(ref(), overlay("new", "big", "big", None)),
    "remove an overlay": lambda store: overlaying(store).remove_overlay(ref(), "o"),
    "delete below an overlay": lambda store: store.delete(ref(), ["b", "a"]),
    "branch off before an overlay": lambda store: store.append(ref(), [new("x")], parent="a"),
    "claim a compaction": claim,
    "take a lease": lambda store: lease(store),
    "write under a lease": lambda store: store.append(
        replace(ref("other"), lease=Fence(1, 1 << 51, 0)), [new("x")], parent=LEAF
    ),
    "end a lease": lambda store: cast("Leasable", store).end_lease(ref("other")),
    "count anew": restamp,
    "write a value": lambda store: write_value(store, "new", "new text"),
    "write a value of a new session": lambda store: write_value(store, "", "text", session=ref("new")),
    "write another version": lambda store: write_value(store, "", "changed", expect=2),
    "write a long value": lambda store: write_value(store, "long", "y" * 70_000),
    "write an indexed value": lambda store: write_value(store, "found", "other words"),
    "delete a value": lambda store: write_value(store, "long", None),
    "add usage": lambda store: cast("Accounting", store).add_usage(ref(), Usage(5, 1, 0.5), created_at_us=NOW),
    "prune values": lambda store: contextual(store).prune_values(SCOPE, before_us=None, keep=0),
    "write records": lambda store: write_records(
        store, put=((b"k", b"changed"), (b"n", b"new")), keep=((b"k", b"kept"), (b"m", b"kept")), drop=(b"gone",)
    ),
    "write records with messages": lambda store: write_records(
        store, put=((b"n", b"new"),), chains=(Chain("b", (new("x"), new("y"))), Chain(None, (new("z"),))), leaf="y"
    ),
    "write records with the state": lambda store: write_records(
        store, chains=(Chain("b", (new("x"),)), Chain(None, (new("z"),))), leaf="z", state={"of": "x"}
    ),
    "write records and remove messages": lambda store: write_records(
        store, put=((b"k", b"changed"),), expect=((b"k", b"body"),), chains=(Chain(None, (new("x"),)),), remove=("b",)
    ),
    "write records of a new session": lambda store: write_records(
        store, put=((b"n", b"new"),), chains=(Chain(None, (new("x"),)),), leaf="x", session=ref("new")
    ),
    "search values": lambda store: contextual(store).search_values(ref(), "memory", "words"),
}


def publish(store: Store, note: tuple[SessionRef, Json]) -> None:
    stage = store.stage(ref("new"), created_at_us=NOW)
    store.append(stage, [new("x")], parent=None)
    store.publish(stage, ref("new"), note=note)


def merge(store: Store, messages: list[NewMessage], parent: str = "b") -> int:
    stage = merging(store).stage_more(ref(), len(messages))
    store.append(stage, messages, parent=None, kind="import")
    if len(messages) > 1:
        overlaying(store).add_overlay(stage, overlay("brought", messages[0].id, messages[1].id))
    return merging(store).merge(stage, ref(), [Graft(messages[0].id, parent)], messages[-1].id)


def write_records(store: Store, *, session: SessionRef | None = None, **what: Any) -> Any:
    return cast("Recording", store).write_records(session or ref(), NewRecords(**what), created_at_us=NOW)


def contextual(store: Store) -> Contextual:
    return cast("Contextual", store)


def write_value(
    store: Store, key: str, content: str | None, *, session: SessionRef | None = None, expect: int | None = None
) -> Any:
    return contextual(store).write_value(
        session or ref(), "memory", key, content, expect=expect, operation=repr((key, content)), created_at_us=NOW
    )


def prepare(file: Path) -> None:
    """Make a small database with something of everything."""
    store = open_sqlite(file)
    store.append(ref(), [new("a"), new("b"), new("c")], parent=LEAF)
    store.append(ref(), [new("p", "", PICTURE), new("big", "z" * 50_000)], parent="b")
    overlaying(store).add_overlay(ref(), overlay("o", "b", "p"))
    store.append(ref(), [new("d")], parent="a", activate=False)
    store.append(ref("other"), [new("p", "", PICTURE)], parent=None)
    lease(store, "other")
    for content in ("first", "second"):
        write_value(store, "", content)
    write_value(store, "long", "\ud83d" * 9_000)
    write_value(store, "found", "some words")
    contextual(store).search_values(ref(), "memory", "words")
    write_value(store, "behind", "more words")
    write_records(store, put=((b"k", b"body"), (b"gone", b"to be removed")))
    store.close()


def everything(store: Store) -> Any:
    """All that can be asked of a store, as values to compare."""
    told: list[Any] = []
    for name in ("s", "other", "new", "copy"):
        held = cast("Leasable", store).lease(ref(name))
        told.append(held and (held.holder, held.epoch))
        told += [plain(store.info(ref(name))), plain(store.totals(ref(name))), plain(store.state(ref(name)))]
        leaves = store.leaves(ref(name))
        told += [plain(leaves), plain(store.newest(ref(name)))]
        told.append(overlaying(store).overlays(ref(name), everywhere=True))
        told += [
            contextual(store).value_history(ref(name), *place) for place in contextual(store).value_names(ref(name))
        ]
        told += cast("Recording", store).records(ref(name), b"", b"\xff", limit=100, last_first=False)
        told += [read_path(store, ref(name), leaf) for leaf in [LEAF, *(leaf.id for leaf in leaves)]]
    told.append(sorted(info.id for info in store.sessions(SCOPE, cursor=None, limit=100).sessions))
    return told


def outcomes(operation: Callable[[Store], Any], prepared: Path, folder: Path) -> tuple[Any, Any]:
    """What the store holds before and after an operation on which nothing fails."""
    shutil.copyfile(prepared, folder / "fine.db")
    store = open_sqlite(folder / "fine.db")
    before = everything(store)
    operation(store)
    after = everything(store)
    store.close()
    return before, after


def sweep(file: Path) -> None:
    """Clear away what operations that failed, or a dead process, left behind, two days later."""
    later = max(NOW, time.time_ns() // 1000) + 2 * DAY_US
    store = PlanStore(SQLiteDriver(Settings(str(file))), clock=lambda: later)
    store.open()
    store.sweep()
    store.close()
    for question in LEFTOVERS:
        assert counted(file, question) == 0, question


def counted(file: Path, question: str) -> int:
    """What a question of the file itself is answered: a number."""
    connection = apsw.Connection(str(file))
    try:
        return cast("int", connection.execute(question).fetchall()[0][0])
    finally:
        connection.close()


LEFTOVERS = [
    "SELECT count(*) FROM purge",
    "SELECT count(*) FROM removal",
    "SELECT count(*) FROM removal_range",
    "SELECT count(*) FROM session WHERE live AND id GLOB 'plait:stage:*'",
    "SELECT count(*) FROM upload",
    "SELECT count(*) FROM strand WHERE incarnation NOT IN (SELECT incarnation FROM session WHERE live)",
    "SELECT count(*) FROM overlay WHERE incarnation NOT IN (SELECT incarnation FROM session WHERE live)",
    "SELECT count(*) FROM overlay_range WHERE overlay NOT IN (SELECT overlay FROM overlay)",
    "SELECT count(*) FROM compaction_claim WHERE incarnation NOT IN (SELECT incarnation FROM session WHERE live)",
]
