"""The leases of the model store: who alone may write to which session, and the epoch of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from plait import times
from plait.errors import LeaseHeldError, LeaseLostError
from plait.model import LeaseInfo
from plait.store.protocol import Fence, Scope, SessionRef

Key = tuple[Scope, str]


@dataclass
class Held:
    """A lease that has not been ended, whether or not its time is over."""

    token: str
    holder: str
    until_us: int


@dataclass
class Turns:
    """All leases of a store."""

    held: dict[Key, Held] = field(default_factory=dict[Key, Held])
    epochs: dict[Key, int] = field(default_factory=dict[Key, int])

    def check(self, key: Key, session: SessionRef, now_us: int) -> None:
        """Refuse a write that may not be made now; one that comes after a lease's time ends it."""
        held, fence = self.held.get(key), session.lease
        if fence is not None:
            if held is None or self.epochs[key] != fence.epoch:
                fence.lost = True
                raise LeaseLostError(f"the lease on session {key[1]!r} is over", session_id=key[1])
            if held.until_us - now_us < fence.ttl_us * 2 // 3:
                held.until_us = now_us + fence.ttl_us
            fence.until_us = held.until_us
        elif held is not None:
            self.refuse_held(key, now_us)
            self.end(key)

    def refuse_held(self, key: Key, now_us: int) -> None:
        held = self.held[key]
        if held.until_us > now_us:
            until = times.from_us(held.until_us)
            text = f"session {key[1]!r} is leased until {until.isoformat()}"
            raise LeaseHeldError(text, session_id=key[1], until=until, holder=held.holder)

    def acquire(self, key: Key, token: str, ttl_us: int, holder: str, now_us: int) -> Fence:
        held = self.held.get(key)
        if held is None or held.token != token:
            if held is not None:
                self.refuse_held(key, now_us)
            self.epochs[key] = self.epochs.get(key, 0) + 1
        self.held[key] = Held(token, holder, now_us + ttl_us)
        return Fence(self.epochs[key], ttl_us, now_us + ttl_us)

    def renew(self, key: Key, session: SessionRef, now_us: int) -> int:
        self.check(key, session, now_us)
        assert session.lease is not None
        until_us = self.held[key].until_us = session.lease.until_us = now_us + session.lease.ttl_us
        return until_us

    def release(self, key: Key, session: SessionRef) -> bool:
        fence = session.lease
        return fence is not None and self.epochs.get(key) == fence.epoch and self.end(key)

    def end(self, key: Key) -> bool:
        """End whoever's lease; whether there was one."""
        if self.held.pop(key, None) is None:
            return False
        self.epochs[key] += 1
        return True

    def info(self, key: Key, now_us: int) -> LeaseInfo | None:
        held = self.held.get(key)
        if held is None or held.until_us <= now_us:
            return None
        return LeaseInfo(held.holder, times.from_us(held.until_us), self.epochs[key])
