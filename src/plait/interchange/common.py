"""What all readers of foreign files share: ids made from content and place, times, session ids."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from plait.errors import UsageError
from plait.formats import NATIVE
from plait.interchange import lines
from plait.interchange.index import Index
from plait.interchange.values import ImportEntry, Progress, Report
from plait.logic.ids import check_message_id, check_session_id
from plait.model import Json

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECONDS_FROM = 1e11
"""Bare numbers from here on are milliseconds since 1970, not seconds."""


def made_id(line: int, raw: bytes) -> str:
    """An id for an entry that has none: the same for the same content at the same place."""
    return f"line-{line}-{hashlib.sha256(raw).hexdigest()[:12]}"


def named(value: object) -> str | None:
    """How an entry names another: its key, or `None` if it names none."""
    if value is None or value == "":
        return None
    return value if isinstance(value, str) and value.isascii() else _key(value)


def _key(value: object) -> str:
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair: a key no legal id can be
        return "\0" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return text


def is_legal_id(key: str) -> bool:
    """Whether a message can be called so."""
    try:
        check_message_id(key)
    except UsageError:
        return False
    return not key.startswith("\0")


def moment(value: object) -> dt.datetime | None:
    """The aware time that `value` says: ISO text, or seconds or milliseconds since 1970."""
    try:
        if isinstance(value, str):
            at = dt.datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=dt.UTC)).astimezone(dt.UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return _EPOCH + dt.timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        pass
    return None


def session_id(given: object, path: Path, mark: str, report: Report) -> str:
    """The id the file gives its session, or one made of the file's name and `mark`."""
    if isinstance(given, str) and given:
        try:
            return check_session_id(given)
        except UsageError as error:
            report.add(0, f"the session's own id cannot be used: {error}", given)
    stem = path.stem.encode("utf-8", "replace").decode()[:100].replace(":", "-").strip()
    return f"{stem or 'import'}-{mark[:8]}"


def words(value: object) -> str | None:
    """`value` if it is text that says something."""
    return value if isinstance(value, str) and value.strip() else None


def imported(origin: str, header: Json, **more: Any) -> Json:
    """The session metadata that keeps what a file says beside its messages."""
    kept = {key: item for key, item in more.items() if item or item == ""}
    return {"imported": {"from": origin, "header": header, **kept}}


@dataclass(slots=True)
class Ticker:
    """Tells a progress listener how far two passes over a file have come."""

    progress: Progress | None
    total: int
    done: int = 0
    _told: int = field(default=0)

    def at(self, done: int) -> None:
        """The work done so far; the listener hears of each full percent."""
        self.done = done
        if self.progress is not None and (done - self._told >= self.total // 100 or done >= self.total):
            self._told = done
            self.progress(done, self.total)


class Places:
    """Puts the records of one file into an index under keys of their own or made ones."""

    def __init__(self, index: Index, report: Report) -> None:
        self._index = index
        self._report = report
        self._hash = hashlib.sha256()
        self._repeats: dict[str, int] = {}
        self.last: str | None = None

    @property
    def mark(self) -> str:
        """A hash of all content placed so far."""
        return self._hash.hexdigest()

    def put(self, record: lines.Record, key: str | None, parent: str | None, *, apart: bool = False) -> str:
        """Place a record; the answer is the key that its children name, or that the next can."""
        self._hash.update(record.raw)
        place: dict[str, Any] = {"line": record.line, "at": record.at, "size": record.size, "apart": apart}
        legal = key is not None and is_legal_id(key)
        if key is not None and legal and self._index.add(key, parent, **place):
            self.last = key
            return key
        own = made_id(record.line, record.raw)
        if legal:
            self._report.add(record.line, f"has the id {key!r:.80} of an earlier entry; kept as {own!r}", record.raw)
            key = None
        elif key is not None:
            self._report.add(record.line, f"has an id that cannot be used; kept as {own!r}", record.raw)
        return self._under(own, key, parent, place)

    def _under(self, own: str, key: str | None, parent: str | None, place: dict[str, Any]) -> str:
        """Place a record under the made id; where others say the same on one line, with the next free number."""
        n = self._repeats.get(own, 0)
        id = _numbered(own, n)
        while not self._index.add(id if key is None else key, parent, id=id, **place):
            key, n = None, n + 1
            id = _numbered(own, n)
        if n:
            self._repeats[own] = n + 1  # not looked for from the start again: thousands may say the same
        self.last = id if key is None else key
        return self.last


def _numbered(id: str, n: int) -> str:
    return f"{id}-{n}" if n else id


def with_own_id(entry: ImportEntry) -> ImportEntry:
    """A native message says its own id; where that could not be used, the message keeps it as `importedId`."""
    message = entry.message
    if entry.format not in (None, NATIVE.name) or not NATIVE.recognizes(message):
        return entry
    if message.get("id") in (None, entry.id):
        return entry
    return replace(entry, message={**message, "id": entry.id, "importedId": message["id"]})


def tree_entries(
    path: Path, index: Index, ticker: Ticker, entry: Callable[[Json], tuple[str | None, dt.datetime | None]]
) -> Iterator[ImportEntry]:
    """The entries of an arranged index, read from the file in order.

    `entry` tells the format and the time of a message.
    """
    start, done = ticker.done, 0
    with path.open("rb") as file:
        for slot in index.slots():
            file.seek(slot.at)
            message = _again(file.read(slot.size), path, slot.line)
            format, at = entry(message)
            yield ImportEntry(slot.id, slot.parent, message, format, at, slot.line)
            del message  # else a long one is held while the next is read
            done += slot.size
            ticker.at(start + done)
    ticker.at(ticker.total)


def _again(raw: bytes, path: Path, line: int) -> Json:
    try:
        return lines.decode(raw)
    except ValueError:
        raise UsageError(f"{path}: line {line} changed while the file was read; try again", line=line) from None
