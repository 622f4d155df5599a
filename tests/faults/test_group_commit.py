"""Many writers in one transaction that the disk breaks: what was acknowledged is kept, the rest is not there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from plait.errors import StoreError
from plait.model import LEAF
from plait.store._async.store import AsyncPlanStore
from plait.store.protocol import Written
from plait.store.sqlite.connection import Settings
from plait.store.sqlite.driver import SQLiteDriver
from plait.testing.faults import FaultVFS, invariants
from plait.testing.faults.vfs import Call, Error
from tests.dose import dose
from tests.faults.operations import OTHER, new, ref
from tests.stores import open_sqlite

WRITERS = 48


@pytest.mark.parametrize(("call", "error"), [("xWrite", "FULL"), ("xWrite", "IOERR"), ("xSync", "IOERR")])
@pytest.mark.parametrize("times", [1, 3, 1_000_000])
async def test_a_broken_batch_acknowledges_only_what_it_kept(
    call: Call, error: Error, times: int, vfs: FaultVFS, tmp_path: Path
) -> None:
    fired = 0
    for nth in [*range(1, dose(short=4, soak=60)), 100, 300]:
        file = tmp_path / f"{nth}.db"
        store = AsyncPlanStore(SQLiteDriver(Settings(str(file))))
        await store.open()
        await store.append(ref("s0"), [new("first")], parent=LEAF)
        vfs.reset()
        vfs.fail(call, error=error, nth=nth, times=times)
        outcomes = await asyncio.gather(*(write(store, n) for n in range(WRITERS)))
        fired += vfs.fired
        vfs.reset()
        await hold(store, outcomes)
        await store.append(ref("s0"), [new("last")], parent=LEAF)
        await store.close()
        assert invariants(file) == []
        reopened = open_sqlite(file)
        for n, acknowledged in enumerate(outcomes):
            assert (reopened.get(ref(f"s{n % 4}"), f"m{n}") is not None) == acknowledged
        reopened.close()
    assert fired


async def write(store: AsyncPlanStore, n: int) -> bool:
    """One of many writers: small messages, large ones that spill out of the page cache, and pictures."""
    message = new(f"m{n}", "x" * (300_000 if n % 5 == 0 else 50), OTHER if n % 7 == 0 else None)
    try:
        [written] = await store.append(ref(f"s{n % 4}"), [message], parent=LEAF)
    except StoreError:
        return False
    assert isinstance(written, Written) and written.inserted
    return True


async def hold(store: AsyncPlanStore, outcomes: list[bool]) -> None:
    """Hold that the open store tells the same, and that each session is one chain."""
    for n, acknowledged in enumerate(outcomes):
        assert (await store.get(ref(f"s{n % 4}"), f"m{n}") is not None) == acknowledged, n
    for name in ("s0", "s1", "s2", "s3"):
        assert len(await store.leaves(ref(name))) <= 1
        totals = await store.totals(ref(name))
        assert totals.messages == totals.path_messages
