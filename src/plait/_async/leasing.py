"""Leases as a session's handle sees them: taken for a block, kept alive while it runs, given back at its end."""

from __future__ import annotations

import datetime as dt
import logging
import os
import secrets
import time
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from plait import times
from plait.errors import ClosedError, LeaseHeldError, LeaseLostError, PlaitError, UsageError
from plait.logic import arguments
from plait.pauses import AsyncRepeated, rest_async
from plait.store._async.abilities import leasable
from plait.store.protocol import Fence, SessionRef

if TYPE_CHECKING:
    from plait._async.session import AsyncSession

log = logging.getLogger("plait")
SHORTEST_S, LONGEST_S = 0.1, 86_400.0
POLL_S = 0.05
"""How often a lease that somebody else holds is asked for again, while waiting for it."""


class AsyncLease:
    """The right to write a session's turn alone, for the time of an `async with` block.

    Made by `AsyncSession.lease`; made is not taken. The block is given a handle to the same session: every
    write through it is checked, in its own transaction, to be under this lease still, and keeps it alive;
    so does a heartbeat every third of its time. Once somebody else has taken over, all of that handle's
    writes raise `LeaseLostError`, of whichever kind, and `lost` says so. Reads go on.
    """

    def __init__(self, session: AsyncSession, *, ttl_s: float, wait_s: float, holder: str | None) -> None:
        self._session = session
        self._store = leasable(session._sessions.store)  # pyright: ignore[reportPrivateUsage]
        self._ttl_us = int(_time("ttl_s", ttl_s) * 1_000_000)
        self._wait_s = arguments.seconds("wait_s", wait_s)
        self._holder = f"process {os.getpid()}" if holder is None else arguments.text("holder", holder)
        self._token = secrets.token_hex(16)
        self._ref: SessionRef | None = None
        self._turn: AsyncSession | None = None
        self._heart = AsyncRepeated()
        self._beating = session._sessions._shared.heartbeats  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._session.id!r}>"

    @property
    def holder(self) -> str:
        """What this worker calls itself to others."""
        return self._holder

    @property
    def epoch(self) -> int:
        """The session's epoch under this lease, higher than under any before: a fencing token to hand on. 0: not taken."""
        return self._fence.epoch if self._fence is not None else 0

    @property
    def until(self) -> dt.datetime | None:
        """When it runs out unless it is kept alive, by the database's clock, as far as is known here."""
        return times.from_us(self._fence.until_us) if self._fence is not None else None

    @property
    def lost(self) -> bool:
        """Whether a write or the heartbeat has found that somebody else took over."""
        return self._fence is not None and self._fence.lost

    @property
    def _fence(self) -> Fence | None:
        return self._ref.lease if self._ref is not None else None

    async def __aenter__(self) -> AsyncSession:
        if self._ref is not None:
            raise UsageError("this lease has been used; make another with session.lease()")
        ref = replace(self._session._ref)  # pyright: ignore[reportPrivateUsage]
        self._ref = replace(ref, lease=await self._acquire(ref))
        self._turn = self._session._under(self._ref)  # pyright: ignore[reportPrivateUsage]
        self._heart.start(self._keep, self._ttl_us / 3_000_000)
        self._beating.add(self._heart)  # so that closing the store ends it
        return self._turn

    async def _acquire(self, ref: SessionRef) -> Fence:
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                return await self._store.acquire_lease(ref, self._token, ttl_us=self._ttl_us, holder=self._holder)
            except LeaseHeldError:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise
            await rest_async(min(left_s, POLL_S))

    async def renew(self) -> None:
        """Keep the lease for as long again, as the heartbeat does; `LeaseLostError` if it is over."""
        await self._store.renew_lease(self._taken())

    def _taken(self) -> SessionRef:
        if self._ref is None:
            raise UsageError("this lease is not taken yet; enter it with `async with`")
        return self._ref

    async def _keep(self) -> None:
        try:
            await self.renew()
        except LeaseLostError as error:
            log.warning("the lease on session %r was lost: %s", self._session.id, error)
            raise
        except ClosedError:  # a store closed by itself: for good, unlike a connection
            raise
        except PlaitError as error:
            log.warning("the lease on session %r could not be renewed: %s", self._session.id, error)

    async def release(self) -> bool:
        """Give the right back before the block ends; `False` if it was over. The block's handle writes no more then."""
        await self._stop_heart()
        return await self._store.release_lease(self._taken())

    async def _stop_heart(self) -> None:
        self._beating.discard(self._heart)
        await self._heart.stop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._turn is not None
        try:
            await self._turn.compaction_done()
            await self._turn._release_compaction()  # pyright: ignore[reportPrivateUsage]
            await self.release()
        except PlaitError as failure:  # it runs out by itself; what the block raised is not to be hidden
            log.warning("the lease on session %r could not be given back: %s", self._session.id, failure)
        finally:
            await self._stop_heart()
            self._session._follow(self._turn)  # pyright: ignore[reportPrivateUsage]


def _time(name: str, value: object) -> float:
    seconds = arguments.seconds(name, value)
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise arguments.refusal(name, f"from {SHORTEST_S} to {LONGEST_S:,.0f} seconds", value)
    return seconds
