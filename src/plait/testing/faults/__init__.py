"""Breaking things on purpose, and finding out what broke: a failing disk, killed children, invariants."""

from __future__ import annotations

from plait.testing.faults.child import Child, report
from plait.testing.faults.ondisk import invariants
from plait.testing.faults.vfs import FaultVFS, die

__all__ = ["Child", "FaultVFS", "die", "invariants", "report"]
