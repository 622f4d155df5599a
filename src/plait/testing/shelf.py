"""The named values of a session in the model store: every version of each, in a list."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from msgspec import structs

from plait import times
from plait.errors import StaleValueError
from plait.logic.values import NewValue
from plait.model import Value

Name = tuple[str, str]


@dataclass
class Kept:
    """One version, and the operation that wrote it."""

    value: Value
    operation: str


@dataclass
class Shelf:
    """The versions of each value, oldest first; those of a first write come after `base`."""

    base: int = 0
    values: dict[Name, list[Kept]] = field(default_factory=dict[Name, list[Kept]])

    def current(self, label: str, key: str) -> Value | None:
        """The newest version, unless that says the value was deleted."""
        kept = self.values.get((label, key))
        return _out(kept[-1].value) if kept and kept[-1].value.content is not None else None

    def listing(self, label: str, after: str | None, limit: int, prefix: str, budget_bytes: int) -> list[Value]:
        """The next values of a label, by key."""
        found: list[Value] = []
        size = 0
        for name in sorted(self.values):
            value = self.current(*name) if name[0] == label and name[1].startswith(prefix) else None
            if value is None or (after is not None and name[1] <= after):
                continue
            if len(found) >= limit or size >= budget_bytes:
                break
            found.append(value)
            size += len((value.content or "").encode("utf-8", "surrogatepass"))
        return found

    def history(self, label: str, key: str, before: int | None, limit: int) -> list[Value]:
        """The versions before one, newest first."""
        kept = [item.value for item in self.values.get((label, key), ())]
        return [_out(value) for value in reversed(kept) if before is None or value.version < before][:limit]

    def write(self, new: NewValue, expect: int | None, operation: str, at_us: int) -> tuple[Value, bool]:
        """The value after the write, and whether that made a version."""
        kept = self.values.get((new.label, new.key), [])
        at = times.from_us(at_us)
        old = kept[-1].value if kept else Value(new.label, new.key, None, None, 0, 0, at, {})
        if kept and kept[-1].operation == operation:
            return _out(old), False
        if expect is not None and expect != old.version and not (expect == 0 and old.content is None):
            raise StaleValueError(f"{new.label!r} {new.key!r} is at version {old.version}", current=_out(old))
        if (old.content, old.description, old.metadata) == (new.content, new.description, new.metadata):
            return _out(old), False
        version = old.version + 1 if kept else self.base + 1
        value = Value(new.label, new.key, new.content, new.description, new.tokens, version, at, new.metadata)
        self.values[new.label, new.key] = [*kept, Kept(value, operation)]
        return _out(value), True

    def raised(self, base: int) -> Shelf:
        """The same with versions that come after `base`."""
        shift = max(base - self.base, 0)
        values = {
            name: [
                Kept(structs.replace(item.value, version=item.value.version + shift), item.operation) for item in kept
            ]
            for name, kept in self.values.items()
        }
        return Shelf(self.base + shift, values)


def _out(value: Value) -> Value:
    """A copy that the caller may do with as they like."""
    return copy.deepcopy(value)
