"""SQLite and the model store, driven side by side through random work: same answers, always."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from plait.errors import PlaitError
from plait.model import LEAF, Message, Parent
from plait.store._sync.port import Feeding, Merging, Overlaying, Searchable, Store
from plait.store.protocol import Expect, Graft, NewOverlay, Scope, Search, SessionRef
from plait.testing import ModelStore
from plait.testing.faults import invariants
from tests.dose import dose
from tests.stores import message, open_sqlite, plain, read_path

IDS = [f"m{n}" for n in range(14)]
SESSIONS = ["s", "t"]
OVERLAYS = [f"o{n}" for n in range(8)]
KINDS = ["compaction", "compaction", "compaction", "archive", "omit", "replace", "unload"]
SCOPE = Scope("tenant", "owner")
PAYLOADS = [b"one picture", b"another picture", b""]

ids = st.sampled_from(IDS)
some_ids = st.lists(ids, min_size=1, max_size=5)
names = st.sampled_from(SESSIONS)
texts = st.sampled_from(["", "a", "ab", "é💡\x00\ud800", "x" * 3000])
parents = st.one_of(st.just(LEAF), st.just(LEAF), st.none(), ids)
payloads = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(PAYLOADS))
patches = st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, 1, 1.0, True, "é", {"x": [1]}]), max_size=2)


def overlaying(store: Store) -> Overlaying:
    return cast("Overlaying", store)


def merging(store: Store) -> Merging:
    return cast("Merging", store)


def told(store: Store, ref: SessionRef) -> list[Any]:
    """What the feed of a session says, a few changes at a time."""
    feeding, after, found = cast("Feeding", store), None, list[Any]()
    while True:
        page = feeding.changes(ref, after=after, limit=7, budget_bytes=1 << 20)
        for change in page.changes:
            about = (change.version, change.kind, tuple(change.ids), change.parent_id, change.removed)
            found.append((*about, change.leaf_moved, change.leaf_id, plain(change.message), change.overlay))
        after = page.cursor
        if not page.more:
            return found


class Pair:
    """The same session, seen through both stores by handles of equal age."""

    def __init__(self, name: str) -> None:
        self.real = SessionRef(SCOPE, name)
        self.model = SessionRef(SCOPE, name)


class TreeMachine(RuleBasedStateMachine):
    """Random operations on a few sessions with few ids, so that they meet each other often."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="plait-machine-"))
        self.generations = itertools.count()
        self.clock = itertools.count(1_700_000_000_000_000, 1_000_000)
        self.kept = {name: Pair(name) for name in SESSIONS}
        self.file = self.folder / "0.db"
        self.real: Store = open_sqlite(self.file)
        self.model: Store = ModelStore()

    def teardown(self) -> None:
        if not hasattr(self, "real"):
            return
        try:
            for name in SESSIONS:
                self.same_session(name)
            self.real.close()
            assert invariants(self.file) == []
        finally:
            self.real.close()
            shutil.rmtree(self.folder)

    # -- comparing

    def both(self, pair: Pair, call: Callable[[Store, SessionRef], Any]) -> Any:
        """Do the same to both stores and hold that they answer the same."""
        real = self.outcome(lambda: call(self.real, pair.real))
        model = self.outcome(lambda: call(self.model, pair.model))
        assert real == model
        assert (pair.real.incarnation is None) == (pair.model.incarnation is None)
        return model

    def outcome(self, call: Callable[[], Any]) -> Any:
        """What a call answers, or plait's own error; any other error passes."""
        try:
            return plain(call())
        except PlaitError as error:
            return self.refusal(error)

    def refusal(self, error: PlaitError) -> Any:
        """What two stores must agree on in an error: the model has words of its own."""
        return type(error)

    def same_session(self, name: str) -> None:
        """Hold that every question about a session has the same answer."""
        self.both(Pair(name), lambda store, ref: store.info(ref))
        self.both(Pair(name), lambda store, ref: store.totals(ref))
        self.both(Pair(name), lambda store, ref: store.state(ref))
        self.both(Pair(name), lambda store, ref: store.newest(ref))
        self.both(Pair(name), lambda store, ref: store.leaves(ref))
        self.both(Pair(name), lambda store, ref: overlaying(store).overlays(ref, everywhere=True))
        self.both(Pair(name), lambda store, ref: overlaying(store).covering(ref, IDS))
        self.both(Pair(name), told)
        for id in [None, *IDS]:
            self.both(Pair(name), lambda store, ref, id=id: store.children(ref, id))
            self.both(Pair(name), lambda store, ref, id=id: id and store.get(ref, id))
        for leaf in [LEAF, *IDS]:
            self.both(Pair(name), lambda store, ref, leaf=leaf: read_path(store, ref, leaf))

    def act(self, name: str, late: bool, call: Callable[[Store, SessionRef], Any]) -> None:
        """One operation, by a new handle or by one that has been around, and its effects."""
        pair = self.kept[name] if late else Pair(name)
        self.both(pair, call)
        if pair.real.incarnation is not None and not late and self.kept[name].real.incarnation is None:
            self.kept[name] = pair
        self.same_session(name)

    def now(self) -> int:
        return next(self.clock)

    # -- operations

    @rule(
        name=names,
        late=st.booleans(),
        batch=some_ids,
        parent=parents,
        text=texts,
        payload=payloads,
        activate=st.booleans(),
    )
    def append(
        self, name: str, late: bool, batch: list[str], parent: Parent, text: str, payload: bytes | None, activate: bool
    ) -> None:
        new = [message(id, text, payload, self.now()) for id in batch]
        self.act(name, late, lambda store, ref: store.append(ref, new, parent=parent, activate=activate))

    @rule(name=names, batch=some_ids)
    def go_on(self, name: str, batch: list[str]) -> None:
        new = [message(id, "on", None, self.now()) for id in batch]
        self.act(name, False, lambda store, ref: store.append(ref, new, parent=LEAF))

    @rule(name=names, batch=some_ids, parent=parents, back=st.integers(0, 10**6))
    def bring_in(self, name: str, batch: list[str], parent: Parent, back: int) -> None:
        new = [message(id, "imported", None, self.now() - back) for id in batch]
        self.act(name, False, lambda store, ref: store.append(ref, new, parent=parent, kind="import"))

    @rule(
        name=names,
        batch=some_ids,
        leaf=st.one_of(st.none(), ids),
        check=st.booleans(),
        older=st.integers(-1, 1),
        branch=st.booleans(),
    )
    def append_expecting(
        self, name: str, batch: list[str], leaf: str | None, check: bool, older: int, branch: bool
    ) -> None:
        info = self.model.info(SessionRef(SCOPE, name))
        version = None if older < 0 else (info.version if info else 0) - older
        expect = Expect(check_leaf=check, leaf_id=leaf if check else None, version=version, branch=branch)
        new = [message(id, "expecting", None, self.now()) for id in batch]
        self.act(name, False, lambda store, ref: store.append(ref, new, parent=LEAF, expect=expect))

    @rule(name=names, late=st.booleans(), batch=some_ids)
    def delete(self, name: str, late: bool, batch: list[str]) -> None:
        self.act(name, late, lambda store, ref: store.delete(ref, batch))

    @rule(name=names, late=st.booleans(), id=ids, text=texts, payload=payloads)
    def update(self, name: str, late: bool, id: str, text: str, payload: bytes | None) -> None:
        new = message(id, text, payload, self.now())
        self.act(name, late, lambda store, ref: store.update(ref, new))

    @rule(name=names, late=st.booleans(), id=ids)
    def checkout(self, name: str, late: bool, id: str) -> None:
        self.act(name, late, lambda store, ref: store.checkout(ref, id))

    @rule(
        name=names,
        id=st.sampled_from(OVERLAYS),
        ends=st.tuples(ids, ids),
        kind=st.sampled_from(KINDS),
        leaf=parents,
        older=st.integers(-1, 3),
    )
    def add_overlay(self, name: str, id: str, ends: tuple[str, str], kind: Any, leaf: Parent, older: int) -> None:
        info = self.model.info(SessionRef(SCOPE, name))
        version = None if older < 0 else max((info.version if info else 0) - older, 0)
        summary = None if kind in ("archive", "omit") else f"instead of {ends}"
        new = NewOverlay(id, kind, ends[0], ends[0] if kind == "omit" else ends[1], summary, 7, self.now())
        self.act(
            name, False, lambda store, ref: overlaying(store).add_overlay(ref, new, leaf=leaf, expect_version=version)
        )

    @rule(name=names, data=st.data(), id=st.sampled_from(OVERLAYS), kind=st.sampled_from(KINDS))
    def add_overlay_on_a_path(self, name: str, data: st.DataObject, id: str, kind: Any) -> None:
        """An overlay whose ends are on one path, so that most are added."""
        leaf: Parent = data.draw(parents)
        path = self.model.path(SessionRef(SCOPE, name), leaf)
        on = [row.id for row in self.model.load(SessionRef(SCOPE, name), path)] if path else []
        if on:
            first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(on) - 1)] * 2)))
            summary = None if kind in ("archive", "omit") else "instead"
            new = NewOverlay(id, kind, on[first], on[last], summary, 7, self.now())
            self.act(name, False, lambda store, ref: overlaying(store).add_overlay(ref, new, leaf=leaf))

    @rule(name=names, late=st.booleans(), id=st.sampled_from(OVERLAYS))
    def remove_overlay(self, name: str, late: bool, id: str) -> None:
        self.act(name, late, lambda store, ref: overlaying(store).remove_overlay(ref, id))

    @rule(name=names)
    def clear(self, name: str) -> None:
        self.act(name, False, lambda store, ref: store.clear(ref))

    @rule(name=names, late=st.booleans())
    def delete_session(self, name: str, late: bool) -> None:
        self.act(name, late, lambda store, ref: store.delete_session(ref))

    @rule(name=names, copy=names, at=st.one_of(st.none(), st.none(), ids))
    def fork(self, name: str, copy: str, at: str | None) -> None:
        now, pair = self.now(), Pair(copy)
        real, model = pair.real, pair.model

        def call(store: Store, ref: SessionRef) -> int:
            return store.fork(ref, real if store is self.real else model, at=at, created_at_us=now)

        self.act(name, False, call)
        self.same_session(copy)

    @rule(name=names, first=some_ids, parent=parents, then=some_ids)
    def import_whole(self, name: str, first: list[str], parent: Parent, then: list[str]) -> None:
        """A staged import: written to a hidden session, then published or dropped."""
        new = [[message(id, "staged", None, self.now()) for id in batch] for batch in (first, then)]

        def call(store: Store, ref: SessionRef) -> Any:
            stage = store.stage(ref)
            try:
                store.append(stage, new[0], parent=None, kind="import")
                store.append(stage, new[1], parent=parent, kind="import", activate=False)
            except PlaitError:
                store.discard(stage)
                raise
            return store.publish(stage, ref)

        self.act(name, False, call)

    @rule(name=names, sizes=st.tuples(*[st.integers(1, 3)] * 2), places=st.tuples(ids, ids), meanwhile=st.booleans())
    def merge(self, name: str, sizes: tuple[int, int], places: tuple[str, str], meanwhile: bool) -> None:
        """Two chains staged and grafted on in two places, something else being written before they are."""
        there = [row.id for row in self.model.everything(SessionRef(SCOPE, name))]
        free = [id for id in IDS if id not in there]
        chains = [free[: sizes[0]], free[sizes[0] : sum(sizes)]]
        new = [[message(id, "merged", None, self.now()) for id in chain] for chain in chains if chain]
        above = [there[IDS.index(place) % len(there)] if there and meanwhile else place for place in places]
        grafts = [Graft(chain[0].id, parent) for chain, parent in zip(new, above, strict=False)]
        other = message(places[0], "meanwhile", None, self.now())

        def call(store: Store, ref: SessionRef) -> Any:
            stage = merging(store).stage_more(ref, 10)
            try:
                for chain in new:
                    store.append(stage, chain, parent=None)
                if meanwhile:
                    store.append(ref, [other], parent=LEAF)
                return merging(store).merge(stage, ref, grafts, chains[0][-1] if chains[0] else None)
            finally:
                store.discard(stage)

        self.act(name, False, call)

    @rule(
        name=names,
        late=st.booleans(),
        create=st.sampled_from(["new", "ensure", "once", "never"]),
        owner=st.sampled_from([None, "o", "p"]),
        metadata=patches,
    )
    def put_session(self, name: str, late: bool, create: Any, owner: str | None, metadata: dict[str, Any]) -> None:
        now = self.now()
        self.act(
            name,
            late,
            lambda store, ref: store.put_session(
                ref, created_at_us=now, create=create, owner=owner, name=owner, metadata=metadata
            ),
        )

    @rule(name=names, late=st.booleans(), patch=patches)
    def update_state(self, name: str, late: bool, patch: dict[str, Any]) -> None:
        now = self.now()
        self.act(name, late, lambda store, ref: store.update_state(ref, patch, created_at_us=now))

    @rule()
    def forget_handles(self) -> None:
        self.kept = {name: Pair(name) for name in SESSIONS}

    @rule(
        name=names,
        late=st.booleans(),
        query=st.sampled_from(["a", "ab", "é 💡", "💡", "on", '"on"', "imported", "staged", "nobody said this", ""]),
        leaf=st.one_of(st.none(), parents),
        newest_first=st.booleans(),
        limit=st.sampled_from([1, 3, 99]),
    )
    def search(self, name: str, late: bool, query: str, leaf: Parent, newest_first: bool, limit: int) -> None:
        """What is found, and what each hit says of its place; in order if that is not a matter of ranking."""
        asked = Search(
            query, limit=limit if newest_first else 999, newest_first=newest_first, leaf=leaf, branches=leaf is None
        )
        pair = self.kept[name] if late else Pair(name)

        def call(store: Store, ref: SessionRef) -> Any:
            hits = [msgspec.structs.replace(hit, score=0.0) for hit in cast("Searchable", store).search(ref, asked)]
            return hits if newest_first else sorted(hits, key=lambda hit: hit.seq)

        self.both(pair, call)

    # -- ends and beginnings

    @rule()
    def reopen(self) -> None:
        self.real.close()
        assert invariants(self.file) == []
        self.real = open_sqlite(self.file)

    @rule()
    def crash(self) -> None:
        """Go on with the files as a killed process leaves them: nothing closed, nothing checkpointed."""
        old = self.file
        self.file = self.folder / f"{next(self.generations) + 1}.db"
        for suffix in ("", "-wal"):
            if Path(f"{old}{suffix}").exists():
                shutil.copyfile(f"{old}{suffix}", f"{self.file}{suffix}")
        self.real.close()
        self.real = open_sqlite(self.file)


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(
    max_examples=dose(short=40, soak=500), stateful_step_count=dose(short=30, soak=60), deadline=None
)


moves = st.lists(
    st.tuples(st.sampled_from(["leaf", "leaf", "branch", "root", "delete", "delete"]), st.integers(0, 10**6)),
    max_size=40,
)


@given(moves=moves)
@settings(deadline=None, max_examples=dose(short=60, soak=1000))
def test_children_is_the_inverse_of_parent(moves: Sequence[tuple[str, int]]) -> None:
    store = open_sqlite(":memory:")
    try:
        alive = grow(store, moves)
        session = SessionRef(SCOPE, "s")
        parents = {id: row.parent_id for id in alive if isinstance(row := store.get(session, id), Message)}
        assert list(parents) == alive
        below = {id: [row.id for row in store.children(session, id)] for id in [None, *alive]}
        assert {(id, child) for id, found in below.items() for child in found} == {
            (up, id) for id, up in parents.items()
        }
        assert sum(len(found) for found in below.values()) == len(alive)
        assert [row.id for row in store.leaves(session)] == [id for id in alive if id not in parents.values()]
    finally:
        store.close()


def grow(store: Store, moves: Sequence[tuple[str, int]]) -> list[str]:
    """A tree made by random moves; the ids that survive, in seq order."""
    session, alive = SessionRef(SCOPE, "s"), list[str]()
    for n, (move, pick) in enumerate(moves):
        if move == "delete" and alive:
            store.delete(session, [alive.pop(pick % len(alive))])
        elif move != "delete":
            parent: Parent = {"leaf": LEAF, "root": None}.get(move, alive[pick % len(alive)] if alive else None)
            store.append(session, [message(f"m{n}", "x", None, n)], parent=parent)
            alive.append(f"m{n}")
    return alive
