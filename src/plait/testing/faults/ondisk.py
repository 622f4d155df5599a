"""The truth about a database file: what must hold between its rows, whatever was done to it."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import apsw

from plait import jsontext

_SEQ = 0xFFFFFFFF
_SLICED, _WITH_MEDIA = 2, 4
_BUCKET_US = 60_000_000

Rows = Iterator[tuple[Any, ...]]


def invariants(path: str | os.PathLike[str]) -> list[str]:
    """What is wrong with the plait database at `path`: one sentence each, `[]` if nothing.

    The file is opened on its own, read in one transaction and not changed. This is written apart
    from plait's own code on purpose, so that one does not repeat the mistakes of the other; it
    reads every row and keeps an entry for each, which is fine for tests and not for large files.
    """
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN")
        return list(_File(connection).problems())
    finally:
        connection.close()


class _File:
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.purged = {incarnation for (incarnation,) in self.rows("SELECT incarnation FROM purge")}
        self.strands = {
            strand: (incarnation, parent, fork)
            for strand, incarnation, parent, fork in self.rows("SELECT strand, incarnation, parent, fork FROM strand")
        }
        self.lives = {
            row[1]: row for row in self.rows("SELECT session, incarnation, live, tenant, owner, id FROM session")
        }
        # What a big delete has taken away counts as gone, though its rows are still being removed.
        self.gone: set[int] = {
            key
            for (key,) in self.rows(
                "SELECT key FROM removal JOIN removal_range USING (removal) JOIN message ON key BETWEEN lo AND hi"
                " WHERE state = 1"
            )
        }
        # key -> (id, flags, bytes, tokens, version)
        self.messages = {
            row[0]: row[1:]
            for row in self.rows("SELECT key, id, flags, bytes, tokens, version FROM message ORDER BY key")
            if row[0] not in self.gone
        }
        self.keys: defaultdict[int, list[int]] = defaultdict(list)
        for key in self.messages:
            self.keys[key >> 32].append(key)

    def rows(self, sql: str, *args: object) -> Rows:
        return iter(self._connection.execute(sql, args))

    def incarnation(self, key: int) -> int | None:
        strand = self.strands.get(key >> 32)
        return strand[0] if strand else None

    def problems(self) -> Iterator[str]:
        yield from self.database()
        yield from self.numbers()
        yield from self.forks()
        yield from self.ids()
        yield from self.sessions()
        yield from self.versions()
        yield from self.bodies()
        yield from self.slices()
        yield from self.references()
        yield from self.payloads()
        yield from self.catalogue()
        yield from self.overlays()
        yield from self.values()

    def database(self) -> Iterator[str]:
        for (text,) in self.rows("PRAGMA integrity_check"):
            if text != "ok":
                yield f"SQLite: {text}"

    def numbers(self) -> Iterator[str]:
        counters: dict[str, int] = dict(self.rows("SELECT name, value FROM counter"))
        if max(self.strands, default=0) > counters["strand"]:
            yield f"strand {max(self.strands)} is past the counter {counters['strand']}"
        incarnation = max([*self.lives, *self.purged], default=0)
        if incarnation > counters["incarnation"]:
            yield f"incarnation {incarnation} is past the counter {counters['incarnation']}"

    def forks(self) -> Iterator[str]:
        for strand, (incarnation, parent, fork) in self.strands.items():
            first = min(self.keys[strand], default=0) & _SEQ
            if incarnation not in self.purged and not self.is_live(incarnation):
                yield f"strand {strand} is of incarnation {incarnation}, which is no life of a session"
            if parent and self.strands.get(parent, (None,))[0] != incarnation and incarnation not in self.purged:
                yield f"strand {strand} forks off strand {parent}, which is not of its incarnation"
            if parent >= strand or (parent == 0) != (fork == 0):
                yield f"strand {strand} forks off strand {parent} at seq {fork}"
            if first and first <= fork:
                yield f"strand {strand} forks at seq {fork}, but holds seq {first}"

    def is_live(self, incarnation: int) -> bool:
        return incarnation in self.lives and bool(self.lives[incarnation][2])

    def ids(self) -> Iterator[str]:
        seen: set[int] = set()
        for incarnation, id, key in self.rows("SELECT incarnation, id, key FROM message_id"):
            if key in self.gone:
                continue
            seen.add(key)
            if key not in self.messages:
                yield f"id {id!r} of incarnation {incarnation} names key {key}, where there is no message"
            elif (self.messages[key][0], self.incarnation(key)) != (id, incarnation):
                yield f"id {id!r} of incarnation {incarnation} names key {key}, which is another message"
        for key in self.messages.keys() - seen:
            yield f"message {self.messages[key][0]!r} at key {key} has no id row"
        for key in self.messages:
            if self.incarnation(key) is None:
                yield f"message {self.messages[key][0]!r} at key {key} is in no strand"

    def sessions(self) -> Iterator[str]:
        held: defaultdict[int | None, list[int]] = defaultdict(list)
        for key in self.messages:
            held[self.incarnation(key)].append(key)
        sql = (
            "SELECT incarnation, live, next_seq, leaf, version, messages, bytes, tokens,"
            " path_messages, path_bytes, path_tokens, id FROM session"
        )
        for incarnation, live, next_seq, leaf, version, *aggregates, id in self.rows(sql):
            keys = held[incarnation] if live else []
            name = f"session {id!r}"
            if live:
                yield from self.aggregates(name, keys, leaf, aggregates)
                yield from self.leaf(name, incarnation, keys, leaf)
            elif held[incarnation] and incarnation not in self.purged:
                yield f"{name} was deleted, but {len(held[incarnation])} messages are left and not to be purged"
            yield from self.seqs(name, keys, next_seq, version)

    def aggregates(self, name: str, keys: list[int], leaf: int, told: list[int | None]) -> Iterator[str]:
        if told[:3] != self.sums(keys):
            yield f"{name} says {told[:3]} of its messages, bytes and tokens; they are {self.sums(keys)}"
        path = self.sums(self.path(leaf))
        if told[3] is not None and told[3:] != path:
            yield f"{name} says {told[3:]} of its path's messages, bytes and tokens; they are {path}"

    def sums(self, keys: list[int]) -> list[int | None]:
        return [len(keys), sum(self.messages[key][2] for key in keys), sum(self.messages[key][3] for key in keys)]

    def path(self, place: int) -> list[int]:
        """The keys of the surviving messages on the path that ends at a place."""
        strand, seq = place >> 32, place & _SEQ
        found: list[int] = []
        while strand in self.strands:
            found += [key for key in self.keys[strand] if key & _SEQ <= seq]
            _, parent, fork = self.strands[strand]
            strand, seq = (parent if parent < strand else 0), min(seq, fork)  # a damaged file may go in circles
        return found

    def leaf(self, name: str, incarnation: int, keys: list[int], leaf: int) -> Iterator[str]:
        if leaf and self.incarnation(leaf) != incarnation:
            yield f"{name} has its leaf at key {leaf}, which is not in a strand of its own"
        elif leaf and keys and not self.path(leaf):
            yield f"{name} has its leaf at key {leaf}, with no surviving message up its path"
        elif leaf and not keys:
            yield f"{name} has its leaf at key {leaf}, but no messages"

    def seqs(self, name: str, keys: list[int], next_seq: int, version: int) -> Iterator[str]:
        for seq, count in Counter(key & _SEQ for key in keys).items():
            if count > 1:
                yield f"{name} has {count} messages of seq {seq}"
            if seq >= next_seq:
                yield f"{name} has seq {seq}, but says that {next_seq} comes next"
        for key in keys:
            if not 0 < self.messages[key][4] <= version:
                yield f"{name} at version {version} has a message of version {self.messages[key][4]}"

    def versions(self) -> Iterator[str]:
        """Every version of a life is of one change: an append, which its row records, or a change row."""
        used: Counter[tuple[int, int]] = Counter()
        for key in self.messages:
            incarnation = self.incarnation(key)
            if incarnation is not None and self.is_live(incarnation):
                used[self.lives[incarnation][0], self.messages[key][4]] += 1
        for session, version in self.rows("SELECT session, version FROM change"):
            used[session, version] += 1
        for (session, version), count in used.items():
            if count > 1:
                yield f"session row {session} has {count} changes of version {version}"
        known: dict[int, int] = dict(self.rows("SELECT session, version FROM session"))
        for session, version in self.rows("SELECT session, max(version) FROM change GROUP BY session"):
            if version > known.get(session, -1):
                yield f"session row {session} has a change of version {version}, past its own"

    def bodies(self) -> Iterator[str]:
        media: defaultdict[int, int] = defaultdict(int)
        sql = "SELECT r.key, a.bytes FROM attachment_ref r JOIN attachment a USING (attachment)"
        for key, size in self.rows(sql):
            media[key] += (size + 2) // 3 * 4
        for key, id, size, body in self.rows("SELECT key, id, bytes, body FROM message"):
            rest = self.rows("SELECT body FROM slice WHERE key = ? ORDER BY n", key)
            text = body + "".join(piece for (piece,) in rest)
            if len(text.encode()) + media[key] != size:
                yield f"message {id!r} at key {key} says {size} bytes; they are {len(text.encode()) + media[key]}"
            try:
                jsontext.decode(text)
            except ValueError as error:
                yield f"message {id!r} at key {key} is not JSON: {error}"

    def slices(self) -> Iterator[str]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for key, n in self.rows("SELECT key, n FROM slice ORDER BY key, n"):
            found[key].append(n)
        yield from self.belongings("slices", found, _SLICED, first=1)

    def references(self) -> Iterator[str]:
        found: defaultdict[int, list[int]] = defaultdict(list)
        scopes = {row[0]: row[1:] for row in self.rows("SELECT attachment, tenant, owner FROM attachment")}
        for key, n, attachment in self.rows("SELECT key, n, attachment FROM attachment_ref ORDER BY key, n"):
            found[key].append(n)
            incarnation = self.incarnation(key)
            if attachment not in scopes:
                yield f"key {key} refers to attachment {attachment}, which is not there"
            elif incarnation in self.lives and scopes[attachment] != self.lives[incarnation][3:5]:
                yield f"key {key} refers to attachment {attachment} of another scope"
        yield from self.belongings("attachment references", found, _WITH_MEDIA, first=0)

    def belongings(self, what: str, found: dict[int, list[int]], flag: int, *, first: int) -> Iterator[str]:
        """Rows kept beside messages: all of them there, and none without a message that says so."""
        for key in found.keys() - self.messages.keys() - self.gone:
            yield f"{what} at key {key} belong to no message"
        for key, (id, flags, *_) in self.messages.items():
            numbers = found.get(key, [])
            if numbers != list(range(first, first + len(numbers))) or bool(numbers) != bool(flags & flag):
                yield f"message {id!r} at key {key} has the flags {flags} and {what} {numbers}"

    def payloads(self) -> Iterator[str]:
        referred = {row[0] for row in self.rows("SELECT attachment FROM attachment_ref")}
        claimed = {row[0] for row in self.rows("SELECT attachment FROM upload")}
        known = set[int]()
        for attachment, hash, size in self.rows("SELECT attachment, hash, bytes FROM attachment"):
            known.add(attachment)
            if attachment not in referred | claimed:
                yield f"attachment {attachment} is used by no message and claimed by no upload"
            if hash is None and attachment in referred:
                yield f"attachment {attachment} is used, but was not put to its end"
            if hash is not None:
                yield from self.payload(attachment, hash, size)
        for attachment in claimed - known:
            yield f"an upload claims attachment {attachment}, which is not there"
        for (attachment,) in self.rows("SELECT DISTINCT attachment FROM chunk"):
            if attachment not in known:
                yield f"chunks of attachment {attachment} belong to nothing"

    def payload(self, attachment: int, hash: bytes, size: int) -> Iterator[str]:
        pieces = list(self.rows("SELECT n, data FROM chunk WHERE attachment = ? ORDER BY n", attachment))
        data = b"".join(piece for _, piece in pieces)
        if [n for n, _ in pieces] != list(range(len(pieces))) or len(data) != size:
            yield f"attachment {attachment} says {size} bytes; it holds {len(data)} in {len(pieces)} chunks"
        elif hashlib.sha256(data).digest() != hash:
            yield f"attachment {attachment} does not hold what its hash says"

    def catalogue(self) -> Iterator[str]:
        listed: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for session, *place in self.rows("SELECT session, tenant, owner, bucket FROM activity"):
            listed[session].append(tuple(place))
        hidden = ("plait:stage:", "plait:shared")
        for session, live, active_at, tenant, owner, id in self.rows(
            "SELECT session, live, active_at, tenant, owner, id FROM session"
        ):
            expected = [(tenant, owner, active_at // _BUCKET_US)] if live and not id.startswith(hidden) else []
            if listed.pop(session, []) != expected:
                yield f"session {id!r} is not listed as it should be, at {expected}"
        for session in listed:
            yield f"session row {session} is listed, but not there"
        live = {row[0] for row in self.lives.values() if row[2]}
        for session, metadata, state in self.rows("SELECT session, metadata, state FROM info"):
            if session not in live:
                yield f"session row {session} has catalogue facts, but is not live"
            for text in (metadata, state):
                if not isinstance(jsontext.decode(text), dict):
                    yield f"session row {session} has metadata or state that is no JSON object"

    def values(self) -> Iterator[str]:
        """Each value stands on a shelf that somebody has, and its newest version says whether it is there."""
        shelves = {shelf: (session, n) for session, shelf, n in self.rows("SELECT session, shelf, next FROM shelf")}
        rows: dict[int, int] = dict(self.rows("SELECT session, live FROM session"))
        for shelf, (session, _) in shelves.items():
            if session not in rows:
                yield f"a shelf of session row {session}, which is not there"
            elif shelf is not None and not rows[session]:
                yield f"session row {session} was deleted, but has the shelf {shelf}"
        texts = {
            (value, version): (size, flags, body)
            for value, version, size, flags, body in self.rows(
                "SELECT value, version, bytes, flags, body FROM value_text"
            )
        }
        newest: dict[int, int] = {}
        for value, shelf, label, key, version, there in self.rows("SELECT * FROM value"):
            newest[value] = version
            if value >> 32 != shelf or (shelf not in shelves and shelf not in self.purged):
                yield f"value {label!r} {key!r} is on no shelf of a session"
            if shelf in shelves and value & 0xFFFFFFFF >= shelves[shelf][1]:
                yield f"value {label!r} {key!r} has a number that is yet to be given"
            if shelf not in self.purged and (
                (value, version) not in texts or there != (texts[value, version][2] is not None)
            ):
                yield f"value {label!r} {key!r} is not what its version {version} says"
        for (value, version), (size, flags, body) in texts.items():
            if value >> 32 in self.purged:
                continue
            if version > newest.get(value, 0):
                yield f"value {value} has a version {version} past its newest"
            pieces = [
                text
                for (text,) in self.rows(
                    "SELECT body FROM value_slice WHERE value = ? AND version = ? ORDER BY n", value, version
                )
            ]
            whole = (body or "") + "".join(pieces)
            if flags & 1:
                whole = whole.encode("ascii").decode("unicode_escape")
            if len(whole.encode("utf-8", "surrogatepass")) != size or bool(pieces) != bool(flags & 2):
                yield f"version {version} of value {value} is not of {size} bytes"
        for value, version in self.rows("SELECT DISTINCT value, version FROM value_slice"):
            if (value, version) not in texts and value >> 32 not in self.purged:
                yield f"slices of version {version} of value {value}, which is not there"

    def overlays(self) -> Iterator[str]:
        """What overlays say of themselves, and what they take off each active path."""
        ranges: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for overlay, strand, lo, hi in self.rows("SELECT overlay, strand, lo, hi FROM overlay_range ORDER BY lo"):
            ranges[overlay].append((strand, lo, hi))
        sql = (
            "SELECT overlay, incarnation, id, place, first, version, summary IS NOT NULL, bytes, tokens, stale,"
            " covered_messages, left_messages, left_bytes, left_tokens FROM overlay"
        )
        found: defaultdict[int, list[tuple[Any, ...]]] = defaultdict(list)
        for overlay, incarnation, id, *rest in self.rows(sql):
            parts = ranges.pop(overlay, [])
            if incarnation not in self.purged:
                yield from self.overlay(f"overlay {id!r}", incarnation, parts, rest)
            found[incarnation].append((parts, *rest))
        for overlay in ranges:
            yield f"ranges of overlay {overlay} belong to nothing"
        sql = "SELECT incarnation, id, leaf, overlays, hidden_messages, hidden_bytes, hidden_tokens FROM session WHERE live"
        for incarnation, id, leaf, count, *hidden in self.rows(sql):
            if count != len(found[incarnation]):
                yield f"session {id!r} says it has {count} overlays; it has {len(found[incarnation])}"
            told = self.hidden(leaf, found[incarnation])
            if hidden[0] is not None and hidden != told:
                yield f"session {id!r} says its overlays take {hidden} off its path; they take {told}"

    def overlay(self, name: str, incarnation: int, parts: list[tuple[int, int, int]], row: list[Any]) -> Iterator[str]:
        place, first, _, _, _, _, stale, covered, *left = row
        if not self.is_live(incarnation):
            yield f"{name} is of incarnation {incarnation}, which is no life of a session"
        if not parts or (parts[0][1], parts[-1][0] << 32 | parts[-1][2]) != (first, place):
            yield f"{name} says it goes from seq {first} to key {place}, but covers {parts}"
        for strand, lo, hi in parts:
            if self.incarnation(strand << 32) != incarnation or lo > hi:
                yield f"{name} covers {lo} to {hi} of strand {strand}, which it cannot"
        below = [key for strand, lo, hi in parts for key in self.keys[strand] if lo <= key & _SEQ <= hi]
        if left != self.sums(below):
            yield f"{name} says that {left} is left below it; it is {self.sums(below)}"
        if not stale and len(below) != covered:
            yield f"{name} covered {covered} messages, {len(below)} are left, and it does not say that it is stale"

    def hidden(self, leaf: int, overlays: list[tuple[Any, ...]]) -> list[int | None]:
        """What the outermost overlays on the path to a place take off it."""
        ends = self.places(leaf)
        lying = [row for row in overlays if row[9] and any(s == row[1] >> 32 and row[1] & _SEQ <= hi for s, hi in ends)]
        totals = [0, 0, 0]
        shown_to = 0
        for _, place, first, _version, shows, size, tokens, _stale, _covered, *left in sorted(
            lying, key=lambda row: (row[2], -(row[1] & _SEQ), -row[3])
        ):
            if first > shown_to:
                shown_to = place & _SEQ
                less = (1, size, tokens) if shows else (0, 0, 0)
                totals = [total + gone - back for total, gone, back in zip(totals, left, less, strict=True)]
        return list(totals)

    def places(self, place: int) -> list[tuple[int, int]]:
        """The strands that the path to a place runs through, and up to which seq."""
        strand, seq = place >> 32, place & _SEQ
        found: list[tuple[int, int]] = []
        while strand in self.strands:
            found.append((strand, seq))
            _, parent, fork = self.strands[strand]
            strand, seq = (parent if parent < strand else 0), min(seq, fork)
        return found
