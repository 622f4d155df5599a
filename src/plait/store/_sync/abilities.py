"""Generated from src/plait/store/_async/abilities.py by tools/unasync.py: edit that file. What a store can do beyond the primitives: each ability is looked for here, by one of its methods."""

from __future__ import annotations

from typing import cast

from plait.errors import UnsupportedError
from plait.store._sync.port import (
    Accounting,
    Contextual,
    Feeding,
    Leasable,
    Merging,
    Overlaying,
    Recording,
    Restamping,
    Scoping,
    Searchable,
    Stating,
    Store,
)


def accounting(store: Store) -> Accounting:
    """The store as one that adds up usage; `UnsupportedError` if it does not, as of all of these."""
    return cast("Accounting", _able(store, "add_usage", "does not add up usage"))


def contextual(store: Store) -> Contextual:
    """The store as one that keeps named values."""
    return cast(
        "Contextual", _able(store, "write_value", "keeps no named values, such as blocks of context or documents")
    )


def feeding(store: Store) -> Feeding:
    """The store as one that keeps a feed."""
    return cast("Feeding", _able(store, "changes", "keeps no feed of changes"))


def leasable(store: Store) -> Leasable:
    """The store as one that has leases."""
    return cast("Leasable", _able(store, "acquire_lease", "has no leases"))


def merging(store: Store) -> Merging:
    """The store as one that imports into sessions that exist."""
    return cast("Merging", _able(store, "merge", "cannot import into a session that exists; give another id"))


def overlaying(store: Store) -> Overlaying:
    """The store as one that keeps overlays."""
    return cast("Overlaying", _able(store, "add_overlay", "has no overlays"))


def recording(store: Store) -> Recording:
    """The store as one that keeps records."""
    return cast("Recording", _able(store, "write_records", "keeps no records beside messages"))


def restamping(store: Store) -> Restamping:
    """The store as one whose stamps can be changed."""
    return cast("Restamping", _able(store, "restamp", "cannot change the tokens that messages are stamped with"))


def scoping(store: Store) -> Scoping:
    """The store as one that can say whose sessions it holds."""
    return cast("Scoping", _able(store, "scopes", "cannot say whose sessions it holds; name the scope"))


def searchable(store: Store) -> Searchable:
    """The store as one that can search."""
    return cast("Searchable", _able(store, "search", "has no search"))


def stating(store: Store) -> Stating:
    """The store as one that changes a session's state together with its messages."""
    return cast("Stating", _able(store, "append_with_state", "cannot change the state together with an append"))


def _able(store: Store, method: str, lack: str) -> Store:
    if not callable(getattr(store, method, None)):
        raise UnsupportedError(f"this store {lack}")
    return store
