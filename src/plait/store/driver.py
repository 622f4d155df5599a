"""What the store needs of a driver: to run plans, in both faces."""

from __future__ import annotations

from typing import Protocol, TypeVar

from plait.store.plan import PlanFactory

T = TypeVar("T")


class Driver(Protocol):
    """Runs plans on a database. Reads see one committed state; a write returns once it is committed.

    Either may run a plan again from its first step. Refs a plan binds are bound once it is done.
    """

    def open(self) -> None:
        """Make ready; harmless when called again."""
        ...

    def close(self) -> None:
        """Finish what was accepted and let go; harmless when called again."""
        ...

    def flush(self) -> None:
        """Put on disk what was committed, at any durability."""
        ...

    def read(self, plan: PlanFactory[T]) -> T:
        """Run a plan that only reads."""
        ...

    def write(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """Run a plan that writes about `weight` bytes; a `light` one takes few steps, or says `heavy`."""
        ...

    async def read_async(self, plan: PlanFactory[T]) -> T:
        """The same as `read`, on an event loop."""
        ...

    async def write_async(self, plan: PlanFactory[T], weight: int = 0, *, light: bool = False) -> T:
        """The same as `write`, on an event loop."""
        ...
