"""What a store can do beyond the primitives: each ability is looked for here, by one of its methods."""

from __future__ import annotations

from typing import cast

from plait.errors import UnsupportedError
from plait.store._async.port import (
    AsyncAccounting,
    AsyncContextual,
    AsyncFeeding,
    AsyncLeasable,
    AsyncMerging,
    AsyncOverlaying,
    AsyncRecording,
    AsyncRestamping,
    AsyncScoping,
    AsyncSearchable,
    AsyncStating,
    AsyncStore,
)


def accounting(store: AsyncStore) -> AsyncAccounting:
    """The store as one that adds up usage; `UnsupportedError` if it does not, as of all of these."""
    return cast("AsyncAccounting", _able(store, "add_usage", "does not add up usage"))


def contextual(store: AsyncStore) -> AsyncContextual:
    """The store as one that keeps named values."""
    return cast(
        "AsyncContextual", _able(store, "write_value", "keeps no named values, such as blocks of context or documents")
    )


def feeding(store: AsyncStore) -> AsyncFeeding:
    """The store as one that keeps a feed."""
    return cast("AsyncFeeding", _able(store, "changes", "keeps no feed of changes"))


def leasable(store: AsyncStore) -> AsyncLeasable:
    """The store as one that has leases."""
    return cast("AsyncLeasable", _able(store, "acquire_lease", "has no leases"))


def merging(store: AsyncStore) -> AsyncMerging:
    """The store as one that imports into sessions that exist."""
    return cast("AsyncMerging", _able(store, "merge", "cannot import into a session that exists; give another id"))


def overlaying(store: AsyncStore) -> AsyncOverlaying:
    """The store as one that keeps overlays."""
    return cast("AsyncOverlaying", _able(store, "add_overlay", "has no overlays"))


def recording(store: AsyncStore) -> AsyncRecording:
    """The store as one that keeps records."""
    return cast("AsyncRecording", _able(store, "write_records", "keeps no records beside messages"))


def restamping(store: AsyncStore) -> AsyncRestamping:
    """The store as one whose stamps can be changed."""
    return cast("AsyncRestamping", _able(store, "restamp", "cannot change the tokens that messages are stamped with"))


def scoping(store: AsyncStore) -> AsyncScoping:
    """The store as one that can say whose sessions it holds."""
    return cast("AsyncScoping", _able(store, "scopes", "cannot say whose sessions it holds; name the scope"))


def searchable(store: AsyncStore) -> AsyncSearchable:
    """The store as one that can search."""
    return cast("AsyncSearchable", _able(store, "search", "has no search"))


def stating(store: AsyncStore) -> AsyncStating:
    """The store as one that changes a session's state together with its messages."""
    return cast("AsyncStating", _able(store, "append_with_state", "cannot change the state together with an append"))


def _able(store: AsyncStore, method: str, lack: str) -> AsyncStore:
    if not callable(getattr(store, method, None)):
        raise UnsupportedError(f"this store {lack}")
    return store
