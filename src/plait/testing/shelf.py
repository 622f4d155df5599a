"""The named values of a session in the model store: every version of each, in a list."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from msgspec import structs

from plait import times
from plait.errors import StaleValueError
from plait.logic import snippets
from plait.logic.values import NewValue
from plait.logic.words import fold, occurrences, parse
from plait.model import Value, ValueHit
from plait.store.protocol import ValueStat

Name = tuple[str, str]


def _size(value: Value) -> int:
    return len((value.content or "").encode("utf-8", "surrogatepass"))


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
            size += _size(value)
        return found

    def stats(self, label: str, after: str | None, limit: int, prefix: str) -> list[ValueStat]:
        """The same without their content."""
        return [
            ValueStat(v.key, v.version, _size(v), v.tokens, times.to_us(v.written_at), v.description)
            for v in self.listing(label, after, limit, prefix, 1 << 62)
        ]

    def history(self, label: str, key: str, before: int | None, limit: int) -> list[Value]:
        """The versions before one, newest first."""
        kept = [item.value for item in self.values.get((label, key), ())]
        return [_out(value) for value in reversed(kept) if before is None or value.version < before][:limit]

    def write(
        self, new: NewValue, expect: int | None, operation: str, at_us: int, least_version: int = 0
    ) -> tuple[Value, bool]:
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
        version = max(old.version + 1 if kept else self.base + 1, least_version)
        value = Value(new.label, new.key, new.content, new.description, new.tokens, version, at, new.metadata)
        self.values[new.label, new.key] = [*kept, Kept(value, operation)]
        return _out(value), True

    def count(self, label: str, prefix: str) -> int:
        """How many values of a label are there whose keys begin with a prefix."""
        return sum(name[0] == label and name[1].startswith(prefix) and self._is_there(name) for name in self.values)

    def _is_there(self, name: Name) -> bool:
        return self.values[name][-1].value.content is not None

    def names(self, after: tuple[str, str | None] | None, limit: int) -> list[Name]:
        """The next names after one, or after all those of a label."""
        label, key = after or ("", "")
        left = [name for name in sorted(self.values) if (name[0] > label if key is None else name > (label, key))]
        return left[:limit]

    def search(self, label: str, query: str, limit: int) -> list[ValueHit]:
        """The values that hold the words, by looking at each of them."""
        from plait.store.tokens import tokenize  # what a word is, is not what this is an oracle for

        words = parse(query, tokenize)
        there = [name for name in self.values if name[0] == label and self._is_there(name)] if words else []
        tokens = {name: tokenize(fold(self.values[name][-1].value.content or "")) for name in there}
        mean = sum(map(len, tokens.values())) / (len(tokens) or 1) or 1.0
        finder = snippets.Finder(words, tokenize)
        hits: list[ValueHit] = []
        for name in reversed(there):  # of equal ones the last made comes first
            spots = occurrences(words, tokens[name])
            if spots is not None:
                score = sum(_frequency(len(spot), len(tokens[name]) / mean) for spot in spots)
                value = _out(self.values[name][-1].value)
                snippet = snippets.make((value.content or "")[:100_000], finder)
                hits.append(ValueHit(value, snippet.text, snippet.highlights, score))
        return sorted(hits, key=lambda hit: -hit.score)[:limit]

    def prune(self, before_us: int | None, keep: int | None) -> int:
        """Forget the first versions that are old, or more than are to be kept beside the newest."""
        count = 0
        for name, kept in self.values.items():
            earlier = kept[:-1]
            beyond = len(earlier) - keep if keep is not None else 0
            gone = 0
            while gone < len(earlier) and (gone < beyond or _older(earlier[gone], before_us)):
                gone += 1
            self.values[name] = kept[gone:]
            count += gone
        return count

    def copied(self, base: int) -> Shelf:
        """What the values say now, under their versions if those come after `base`."""
        copies = {
            name: [
                Kept(structs.replace(kept[-1].value, version=max(base + 1, kept[-1].value.version)), kept[-1].operation)
            ]
            for name, kept in self.values.items()
            if kept[-1].value.content is not None
        }
        return Shelf(base, copies)

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


def _older(item: Kept, before_us: int | None) -> bool:
    return before_us is not None and times.to_us(item.value.written_at) < before_us


def _frequency(count: int, length: float) -> float:
    """How well a phrase suits a text: BM25's part that is not about how rare it is."""
    return count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length))


def _out(value: Value) -> Value:
    """A copy that the caller may do with as they like."""
    return copy.deepcopy(value)
