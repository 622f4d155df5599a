"""Generated from src/plait/testing/_async/contract/leasing.py by tools/unasync.py: edit that file. The contract of a store's leases, as tests: a part of the tests of a store."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from plait.errors import LeaseHeldError, LeaseLostError, SessionDeletedError
from plait.model import LEAF, Usage
from plait.store._sync.port import (
    Accounting,
    Contextual,
    Leasable,
    Merging,
    Overlaying,
    Restamping,
    Stating,
    Store,
)
from plait.store.protocol import NewMessage, NewOverlay, Scope, SessionRef

_NOW_US = 1_767_225_600_000_000
_SCOPE = Scope("acme", "alice")
_HOUR_US = 3_600_000_000
_numbers: Iterator[int] = itertools.count()

Write = Callable[[Store, SessionRef], Any]


def _message(id: str) -> NewMessage:
    body = f'{{"id":"{id}","role":"user","parts":[]}}'
    return NewMessage(id, "user", "plait", body, len(body), 3, _NOW_US)


def _overlay(id: str) -> NewOverlay:
    return NewOverlay(id, "compaction", "m0", "m1", "in short", 3, _NOW_US)


# Every kind of write to what a session holds, by name, with the method that a store needs for it.
WRITES: dict[str, tuple[str, Write]] = {
    "append": ("append", lambda store, ref: store.append(ref, [_message(f"x{next(_numbers)}")], parent=LEAF)),
    "branch": ("append", lambda store, ref: store.append(ref, [_message(f"x{next(_numbers)}")], parent="m0")),
    "import": ("append", lambda store, ref: store.append(ref, [_message("x")], parent=None, kind="import")),
    "repeat": ("append", lambda store, ref: store.append(ref, [_message("m0")], parent=LEAF)),
    "update": ("update", lambda store, ref: store.update(ref, _message("m1"))),
    "delete": ("delete", lambda store, ref: store.delete(ref, ["m2"])),
    "checkout": ("checkout", lambda store, ref: store.checkout(ref, "m1")),
    "state": ("update_state", lambda store, ref: store.update_state(ref, {"k": 1}, created_at_us=_NOW_US)),
    "add an overlay": (
        "add_overlay",
        lambda store, ref: cast("Overlaying", store).add_overlay(ref, _overlay("new")),
    ),
    "remove an overlay": (
        "remove_overlay",
        lambda store, ref: cast("Overlaying", store).remove_overlay(ref, "o"),
    ),
    "claim a compaction": (
        "claim_compaction",
        lambda store, ref: cast("Overlaying", store).claim_compaction(ref, "me", until_us=1 << 60),
    ),
    "count anew": (
        "restamp",
        lambda store, ref: cast("Restamping", store).restamp(ref, [("m0", 9)], since_version=1 << 40),
    ),
    "write a value": (
        "write_value",
        lambda store, ref: cast("Contextual", store).write_value(
            ref, "memory", "", "text", operation="op", created_at_us=_NOW_US
        ),
    ),
    "append with state": (
        "append_with_state",
        lambda store, ref: cast("Stating", store).append_with_state(ref, [_message("x")], {"k": 1}, parent=LEAF),
    ),
    "begin to add many": ("stage_more", lambda store, ref: cast("Merging", store).stage_more(ref, 1)),
    "clear": ("clear", lambda store, ref: store.clear(ref)),
    "delete the session": ("delete_session", lambda store, ref: store.delete_session(ref)),
}


class LeaseTests:
    """What every store that has leases must do; `StoreTests` inherits it."""

    def leasable(self, store: Store) -> Leasable:
        """The store as one that has leases; skips the test if it has none."""
        if not callable(getattr(store, "acquire_lease", None)):
            pytest.skip("this store has no leases")
        return cast("Leasable", store)

    def anybody(self) -> SessionRef:
        """A hold on the session of somebody who has no lease."""
        return SessionRef(_SCOPE, "s")

    def holding(
        self, store: Store, token: str = "mine", ttl_us: int = _HOUR_US, holder: str = "me"
    ) -> SessionRef:
        """A hold on the session by a lease that is taken for it."""
        ref = self.anybody()
        return replace(ref, lease=self.leasable(store).acquire_lease(ref, token, ttl_us=ttl_us, holder=holder))

    def talk(self, store: Store) -> None:
        """Three messages, and an overlay where the store has them."""
        store.append(self.anybody(), [_message(f"m{n}") for n in range(3)], parent=LEAF)
        if callable(getattr(store, "add_overlay", None)):
            cast("Overlaying", store).add_overlay(self.anybody(), _overlay("o"))

    def taken_over(self, store: Store) -> SessionRef:
        """The hold of a holder whose lease was over after a moment and was taken by another, who holds it."""
        late = self.holding(store, "late", ttl_us=1)
        while True:
            try:
                self.holding(store, "next")
                return late
            except LeaseHeldError:  # the moment is not over
                continue

    def told(self, store: Store) -> Any:
        """What the session is like, to see that nothing was written."""
        ref = self.anybody()
        info = store.info(ref)
        leaf = store.leaf(ref)
        return None if info is None else (info.version, info.totals), getattr(leaf, "id", None), store.state(ref)

    def needs(self, store: Store, name: str) -> Write:
        """The write of that name; skips the test if the store has not what it needs."""
        method, write = WRITES[name]
        if not callable(getattr(store, method, None)):
            pytest.skip(f"this store has no {method}")
        return write

    @pytest.mark.parametrize("name", WRITES)
    def test_only_the_holder_writes(self, store: Store, name: str) -> None:
        write = self.needs(store, name)
        self.talk(store)
        mine = self.holding(store)
        before = self.told(store)
        with pytest.raises(LeaseHeldError) as refused:
            write(store, self.anybody())
        assert refused.value.holder == "me" and refused.value.until is not None
        assert self.told(store) == before
        write(store, mine)

    @pytest.mark.parametrize("name", WRITES)
    def test_a_holder_that_comes_too_late_writes_nothing(self, store: Store, name: str) -> None:
        write = self.needs(store, name)
        self.talk(store)
        late = self.taken_over(store)
        before = self.told(store)
        with pytest.raises(LeaseLostError):
            write(store, late)
        assert late.lease is not None and late.lease.lost
        assert self.told(store) == before

    def test_a_holder_that_comes_too_late_still_reads(self, store: Store) -> None:
        self.talk(store)
        late = self.taken_over(store)
        assert (store.totals(late)).messages == 3
        assert store.leaf(late) is not None and store.get(late, "m1") is not None
        assert store.path(late, LEAF) is not None

    def test_everybody_reads_and_forks_and_keeps_the_catalogue(self, store: Store) -> None:
        self.talk(store)
        if callable(getattr(store, "write_value", None)):
            WRITES["write a value"][1](store, self.anybody())
        mine = self.holding(store)
        assert (store.totals(self.anybody())).messages == 3
        assert store.fork(self.anybody(), SessionRef(_SCOPE, "copy"), at=None, created_at_us=_NOW_US) == 3
        described = store.put_session(self.anybody(), created_at_us=_NOW_US, create="never", name="a name")
        assert described is not None and described.info.name == "a name"
        if callable(getattr(store, "add_usage", None)):
            used = cast("Accounting", store).add_usage(
                self.anybody(), Usage(1, 2, 0.5), created_at_us=_NOW_US
            )
            assert used is not None and used.usage == Usage(1, 2, 0.5)
        store.append(SessionRef(_SCOPE, "copy"), [_message("free")], parent=LEAF)
        store.append(SessionRef(Scope(), "s"), [_message("another scope's")], parent=LEAF)
        store.append(mine, [_message("mine")], parent=LEAF)

    def test_one_holds_it_at_a_time(self, store: Store) -> None:
        leases = self.leasable(store)
        assert leases.lease(self.anybody()) is None
        mine = self.holding(store)
        assert mine.lease is not None and mine.lease.epoch == 1
        with pytest.raises(LeaseHeldError):
            self.holding(store, "yours")
        info = leases.lease(self.anybody())
        assert info is not None and (info.holder, info.epoch) == ("me", 1)
        assert leases.release_lease(mine) and not leases.release_lease(mine)
        assert leases.lease(self.anybody()) is None
        with pytest.raises(LeaseLostError):
            store.append(mine, [_message("x")], parent=LEAF)
        yours = self.holding(store, "yours")
        assert yours.lease is not None and yours.lease.epoch > 1

    def test_a_session_that_is_not_there_is_made(self, store: Store) -> None:
        mine = self.holding(store)
        assert store.info(self.anybody()) is not None
        store.append(mine, [_message("first")], parent=LEAF)
        with pytest.raises(LeaseHeldError):
            store.append(self.anybody(), [_message("x")], parent=LEAF)

    def test_the_same_token_again_is_the_same_lease(self, store: Store) -> None:
        mine = self.holding(store)
        again = self.holding(store)
        assert mine.lease is not None and again.lease is not None and again.lease.epoch == mine.lease.epoch
        store.append(mine, [_message("a")], parent=LEAF)
        store.append(again, [_message("b")], parent=LEAF)

    def test_a_lease_is_kept_by_renewing_and_by_writing(self, store: Store) -> None:
        leases = self.leasable(store)
        mine = self.holding(store)
        assert mine.lease is not None
        first = mine.lease.until_us
        assert leases.renew_lease(mine) >= first
        mine.lease.ttl_us *= 2
        store.append(mine, [_message("a")], parent=LEAF)
        assert mine.lease.until_us > first + _HOUR_US // 2, "less than two thirds of that were left"

    def test_whoever_writes_after_its_time_ends_it(self, store: Store) -> None:
        late = self.holding(store, ttl_us=1)
        while True:
            try:
                store.append(self.anybody(), [_message("x")], parent=LEAF)
                break
            except LeaseHeldError:  # the moment is not over
                continue
        with pytest.raises(LeaseLostError):
            store.append(late, [_message("y")], parent=LEAF)
        with pytest.raises(LeaseLostError):
            self.leasable(store).renew_lease(late)

    def test_a_holder_whom_nobody_followed_goes_on(self, store: Store) -> None:
        mine = self.holding(store, ttl_us=1)
        while self.leasable(store).lease(self.anybody()) is not None:
            pass
        store.append(mine, [_message("a")], parent=LEAF)

    def test_a_lease_can_be_broken(self, store: Store) -> None:
        leases = self.leasable(store)
        assert not leases.end_lease(self.anybody())
        mine = self.holding(store)
        assert leases.end_lease(self.anybody()) and not leases.end_lease(self.anybody())
        with pytest.raises(LeaseLostError):
            store.append(mine, [_message("a")], parent=LEAF)
        store.append(self.anybody(), [_message("b")], parent=LEAF)

    def test_the_lease_is_of_the_id_and_outlives_a_clear(self, store: Store) -> None:
        self.talk(store)
        mine = self.holding(store)
        assert store.clear(mine)
        with pytest.raises(LeaseHeldError):
            store.append(self.anybody(), [_message("x")], parent=LEAF)
        store.append(mine, [_message("a")], parent=LEAF)

    def test_deleting_the_session_ends_the_lease_and_no_epoch_comes_again(self, store: Store) -> None:
        self.talk(store)
        mine = self.holding(store)
        assert store.delete_session(mine)
        with pytest.raises(SessionDeletedError):
            store.append(mine, [_message("x")], parent=LEAF)
        store.append(self.anybody(), [_message("new")], parent=LEAF)
        assert mine.lease is not None
        with pytest.raises(LeaseLostError):
            store.append(SessionRef(_SCOPE, "s", lease=mine.lease), [_message("y")], parent=LEAF)
        yours = self.holding(store, "yours")
        assert yours.lease is not None and yours.lease.epoch > mine.lease.epoch

    def test_a_session_that_takes_a_deleted_ones_place_has_a_later_epoch(self, store: Store) -> None:
        self.talk(store)
        mine = self.holding(store)
        store.delete_session(mine)
        store.append(SessionRef(_SCOPE, "other"), [_message("z")], parent=LEAF)
        store.fork(SessionRef(_SCOPE, "other"), self.anybody(), at=None, created_at_us=_NOW_US)
        yours = self.holding(store, "yours")
        assert mine.lease is not None and yours.lease is not None and yours.lease.epoch > mine.lease.epoch

    def test_taking_a_lease_is_no_change(self, store: Store) -> None:
        self.talk(store)
        before = self.told(store)
        mine = self.holding(store)
        self.leasable(store).renew_lease(mine)
        self.leasable(store).release_lease(mine)
        assert self.told(store) == before
