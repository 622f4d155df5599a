"""Reading the tables in which Cloudflare's Agents SDK keeps sessions, from a SQLite file left untouched."""

from __future__ import annotations

import base64
import hashlib
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from plait import formats
from plait.errors import PlaitError, UsageError
from plait.interchange import cloudflare_context, lines
from plait.interchange.common import (
    Ticker,
    imported,
    is_legal_id,
    made_id,
    moment,
    named,
    session_id,
    with_own_id,
    words,
)
from plait.interchange.index import Index
from plait.interchange.values import ImportEntry, ImportOverlay, ImportValue, Progress, Report, Transcript
from plait.logic.shape import is_list
from plait.model import Json

NAME = "cloudflare"
_POINTER = "attachment:sha256:"
_POINTER_SIZE = len(_POINTER) + 64
_MEDIA_DEPTH = 8
_COPY_TRIES = 3


@dataclass(frozen=True, slots=True)
class _Family:
    """One of the sets of tables: where its messages are, and how they are ordered and read."""

    table: str
    columns: frozenset[str]
    sessions: str
    rows: str
    content: str
    compactions: str = ""
    config: str = ""
    suffix: str = ""


_SESSIONS = _Family(
    table="cf_agents_session_messages",
    columns=frozenset({"session_id", "id", "seq", "parent_id", "content", "content_chunks", "created_at"}),
    sessions="SELECT DISTINCT session_id FROM cf_agents_session_messages ORDER BY session_id",
    rows="SELECT id, parent_id, content_chunks FROM cf_agents_session_messages WHERE session_id = ? ORDER BY seq, id",
    content="SELECT content, created_at FROM cf_agents_session_messages WHERE session_id = ? AND id = ?",
    compactions="cf_agents_session_compactions",
    config="cf_agents_session_config",
)
_ASSISTANT = _Family(
    table="assistant_messages",
    columns=frozenset({"session_id", "id", "parent_id", "content", "created_at"}),
    sessions="SELECT DISTINCT session_id FROM assistant_messages ORDER BY session_id",
    rows="SELECT id, parent_id, 0 FROM assistant_messages WHERE session_id = ? ORDER BY created_at, rowid",
    content="SELECT content, created_at FROM assistant_messages WHERE session_id = ? AND id = ?",
    compactions="assistant_compactions",
    config="assistant_config",
    suffix="-assistant",
)
_CHAT = _Family(
    table="cf_ai_chat_agent_messages",
    columns=frozenset({"id", "message", "created_at"}),
    sessions="SELECT DISTINCT '' FROM cf_ai_chat_agent_messages",
    rows="SELECT id, lag(id) OVER (ORDER BY created_at, rowid), 0 FROM cf_ai_chat_agent_messages WHERE '' = ?"
    " ORDER BY created_at, rowid",
    content="SELECT message, created_at FROM cf_ai_chat_agent_messages WHERE '' = ? AND id = ?",
    suffix="-chat",
)
_FAMILIES = (_SESSIONS, _ASSISTANT, _CHAT)
_CHUNKS = "SELECT content FROM cf_agents_session_message_chunks WHERE session_id = ? AND id = ? ORDER BY idx"
_REFS = "SELECT hash FROM cf_agents_session_attachment_refs WHERE session_id = ? AND message_id = ?"
_META = "SELECT bytes, media_type FROM cf_agents_session_attachment_meta WHERE hash = ?"
_PAYLOAD = "SELECT data FROM cf_agents_session_attachment_chunks WHERE hash = ? ORDER BY idx"


def holds_sessions(path: Path) -> bool:
    """Whether the SQLite file has one of the sets of tables."""
    with _Copy(path).reading() as db:
        return any(_has(db, family) for family in _FAMILIES)


def read(path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """The sessions in the file's tables.

    The newer tables come first; of the older ones that a file still has beside them, sessions
    whose rows are all in the newer are left out.
    """
    copy = _Copy(path)
    with copy.reading() as db:
        families = [family for family in _FAMILIES if _has(db, family)]
        plan = [(family, session) for family in families for session in _sessions(db, family, families[0])]
        total = sum(_count(db, family) for family in families)
    ticker = Ticker(progress, 2 * total)
    for family, session in plan:
        yield _Session(copy, family, session, families[0], ticker).transcript()


class _Copy:
    """Read-only connections to a file that is not touched: not even a lock or a log beside it.

    A file with a log of changes that are not in it yet is copied with its log, and the copy read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = [path, *(Path(f"{path}{end}") for end in ("-wal", "-journal") if _size(f"{path}{end}"))]
        self._from = path
        if len(self._parts) > 1:
            folder = tempfile.mkdtemp(prefix="plait-import-")
            weakref.finalize(self, shutil.rmtree, folder, True)
            self._from = Path(folder) / "copy"
            self._copy_whole()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """A connection of its own; what SQLite finds wrong with the file is a `UsageError`."""
        mode = "mode=ro&immutable=1" if self._from is self.path else "mode=rw"
        uri = f"file:{quote(str(self._from.resolve()))}?{mode}"
        try:
            db = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
            db.text_factory = _text
            try:
                yield db
            finally:
                db.close()
        except sqlite3.Error as error:
            raise UsageError(f"{self.path} cannot be read as a SQLite file: {error}") from error

    def _copy_whole(self) -> None:
        for _ in range(_COPY_TRIES):
            before = self._state()
            for part in self._parts:
                shutil.copyfile(part, f"{self._from}{str(part)[len(str(self.path)) :]}")
            if before == self._state():
                return
        raise UsageError(f"{self.path} is being written to; import it when nothing has it open, or import a backup")

    def _state(self) -> list[tuple[int, int]]:
        return [(stat.st_size, stat.st_mtime_ns) for stat in (part.stat() for part in self._parts)]


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _columns(db: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[0]) for row in db.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _has(db: sqlite3.Connection, family: _Family) -> bool:
    return family.columns <= _columns(db, family.table)


def _count(db: sqlite3.Connection, family: _Family) -> int:
    return int(db.execute(f"SELECT count(*) FROM {family.table}").fetchone()[0])


def _sessions(db: sqlite3.Connection, family: _Family, newest: _Family) -> list[str]:
    found = [str(row[0]) for row in db.execute(family.sessions)]
    if family is _ASSISTANT:
        known = set(found)
        rows = _table(db, "assistant_sessions", "id", None)
        found += [str(row["id"]) for row in rows if str(row["id"]) not in known]
    if family is newest or newest is not _SESSIONS:
        return found
    return [session for session in found if not _is_copied(db, family, session)]


def _is_copied(db: sqlite3.Connection, family: _Family, session: str) -> bool:
    """Whether each row of an older table is in the newer one with the same content (the first slice of it)."""
    for id, *_ in db.execute(family.rows, (session,)).fetchall():
        old, new = (db.execute(source.content, (session, id)).fetchone() for source in (family, _SESSIONS))
        if new is None or not str(old[0]).startswith(str(new[0])):
            return False
    return True


def _table(db: sqlite3.Connection, table: str, key: str, value: str | None) -> list[Json]:
    """Rows of a small table as objects, those with this key or all; none if there is no such table."""
    columns = _columns(db, table)
    if key not in columns:
        return []
    where, params = (f" WHERE {key} = ?", (value,)) if value is not None else ("", ())
    cursor = db.execute(f"SELECT * FROM {table}{where}", params)
    names = [str(column[0]) for column in cursor.description]
    return [dict(zip(names, map(_plain, row), strict=True)) for row in cursor]


def _plain(value: object) -> object:
    """A column's value as JSON can say it."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


@dataclass(slots=True)
class _Session:
    """One session of one set of tables: checked row by row first, then read in order."""

    copy: _Copy
    family: _Family
    session: str
    newest: _Family
    ticker: Ticker
    report: Report = field(default_factory=Report)
    index: Index = field(default_factory=Index)
    odd: dict[str, object] = field(default_factory=dict[str, object])
    first: str = ""
    last: str | None = None
    rows: int = 0
    compactions: list[Json] = field(default_factory=list[Json])
    echoed: int = 0
    left_out: int = 0

    def transcript(self) -> Transcript:
        with self.copy.reading() as db:
            if self.family.compactions:
                self.compactions = _table(db, self.family.compactions, "session_id", self.session)
            for row in db.execute(self.family.rows, (self.session,)):
                self._put(db, *row)
            header = self._about(db)
        self.index.arrange(self.report.add)
        mark = hashlib.sha256(self.first.encode("utf-8", "replace")).hexdigest()
        id = session_id(self.session, self.copy.path, mark, self.report)
        return Transcript(
            id=id if self.family is self.newest else f"{id}{self.family.suffix}",
            format=NAME,
            entries=self._entries(),
            report=self.report,
            name=words(header.get("name")),
            metadata=self._metadata(header),
            created_at=moment(header.get("created_at")),
            leaf=self.index.visible(self.last),
            count=len(self.index),
            overlays=tuple(self._overlays()),
            values=self._values(),
        )

    def _overlays(self) -> Iterator[ImportOverlay]:
        """The compactions, older ones first; whether their ranges can be had shows when they are laid on."""
        for row in sorted(self.compactions, key=lambda row: (row.get("seq") or 0, str(row.get("created_at")))):
            ends = (named(row.get("from_message_id")) or "", named(row.get("to_message_id")) or "")
            summary = row.get("summary")
            yield ImportOverlay(
                id=str(row.get("id")),
                kind="compaction",
                from_id=ends[0],
                to_id=ends[1],
                summary=summary if isinstance(summary, str) else None,
                tokens=None,
                created_at=_created(row.get("created_at")),
            )

    def _values(self) -> Iterator[ImportValue]:
        with self.copy.reading() as db:
            known = [session for family in _FAMILIES if _has(db, family) for session in _sessions(db, family, family)]
            yield from cloudflare_context.values(db, self.session, known, self.report)

    def _about(self, db: sqlite3.Connection) -> Json:
        family, about = self.family, Json()
        if family is _ASSISTANT:
            about = next(iter(_table(db, "assistant_sessions", "id", self.session)), about)
        if family.compactions:
            about["compactions"] = self.compactions
            about["config"] = _table(db, family.config, "session_id", self.session)
        return about

    def _metadata(self, header: Json) -> Json:
        more = {key: header.pop(key, None) for key in ("compactions", "config")}
        origin = {"table": self.family.table, "session_id": _plain(self.session)}
        return imported(NAME, header, **origin, **more)

    def _put(self, db: sqlite3.Connection, id: object, parent: object, chunks: object) -> None:
        self.rows += 1
        self.ticker.at(self.ticker.done + 1)
        key, fault, raw = named(id), None, b""
        try:
            raw = self._content(db, id, chunks)
            formats.recognize(lines.checked(raw, self.rows, self.report))
        except (ValueError, PlaitError) as error:
            fault = str(error)
            self._leave_out(f"row {id!r:.80}: {fault}", raw)
        own = key if key is not None and is_legal_id(key) else made_id(self.rows, raw)
        if own != key:
            self.odd[own] = id
            self.report.add(self.rows, f"row {id!r:.80} has an id that cannot be used; kept as {own!r}")
        self.first = self.first or own
        echo = key is not None and any(key == f"compaction_{row.get('id')}" for row in self.compactions)
        self.echoed += echo and fault is None
        if not self.index.add(key or own, named(parent), id=own, line=self.rows, hidden=echo or fault is not None):
            self._leave_out(f"row {id!r:.80} repeats the id of an earlier row", raw)
        elif fault is None and not echo:
            self.last = key or own

    def _leave_out(self, reason: str, raw: bytes) -> None:
        self.left_out += 1
        self.report.add(self.rows, reason, raw, lost=True)

    def _content(self, db: sqlite3.Connection, id: object, chunks: object) -> bytes:
        head = db.execute(self.family.content, (self.session, id)).fetchone()
        pieces = [head[0]]
        if chunks:
            pieces += [row[0] for row in db.execute(_CHUNKS, (self.session, id))]
        if len(pieces) - 1 != chunks:
            raise ValueError(f"has {len(pieces) - 1} of its {chunks} continuation rows")
        return b"".join(
            piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "surrogateescape") for piece in pieces
        )

    def _entries(self) -> Iterator[ImportEntry]:
        count = 0
        with self.copy.reading() as db:
            chunks = {str(row[0]): row[2] for row in db.execute(self.family.rows, (self.session,)) if row[2]}
            for slot in self.index.slots():
                id = self.odd.get(slot.id, slot.id)
                message = lines.decode(self._content(db, id, chunks.get(str(id), 0)))
                message = self._with_media(db, id, message, slot.line)
                at = _created(db.execute(self.family.content, (self.session, id)).fetchone()[1])
                yield with_own_id(ImportEntry(slot.id, slot.parent, message, None, at, slot.line))
                count += 1
                self.ticker.at(self.ticker.done + 1)
        if count + self.left_out + self.echoed != self.rows:
            self.report.add(0, f"{self.family.table} has {self.rows} rows of this session, but {count} were read")

    def _with_media(self, db: sqlite3.Connection, id: object, message: Json, line: int) -> Json:
        if self.family is not _SESSIONS or not isinstance(message.get("parts"), list):
            return message
        media = _Media(db, self.report, line, frozenset[str]())
        if "hash" in _columns(db, "cf_agents_session_attachment_refs"):
            media.held = frozenset(str(row[0]) for row in db.execute(_REFS, (self.session, id)))
        return {**message, "parts": media.restored(message["parts"], 0)}


def _created(value: object) -> Any:
    """The new tables count milliseconds, the old ones hold SQLite's UTC text."""
    return moment(value / 1000 if isinstance(value, int | float) else value)


@dataclass(slots=True)
class _Media:
    """Puts a message's attachments back where their pointers are, if the message holds them."""

    db: sqlite3.Connection
    report: Report
    line: int
    held: frozenset[str]

    def restored(self, value: Any, depth: int) -> Any:
        if depth > _MEDIA_DEPTH:
            return value
        if is_list(value):
            return [self.restored(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        part = cast(Json, value)
        for field_name in ("url", "data"):
            if _is_pointer(part.get(field_name)):
                return {**part, field_name: self._payload(part[field_name], field_name == "url")}
        return {key: self.restored(item, depth + 1) for key, item in part.items()}

    def _payload(self, pointer: str, as_url: bool) -> str:
        hash = pointer.removeprefix(_POINTER)
        if hash not in self.held:
            self.report.add(self.line, "points to an attachment it does not hold; the pointer is kept as text", pointer)
            return pointer
        meta = self.db.execute(_META, (hash,)).fetchone()
        data = b"".join(bytes(row[0]) for row in self.db.execute(_PAYLOAD, (hash,)))
        if meta is None or len(data) != meta[0] or hashlib.sha256(data).hexdigest() != hash:
            self.report.add(self.line, "its attachment is damaged or gone; the pointer is kept as text", pointer)
            return pointer
        text = base64.b64encode(data).decode()
        return f"data:{meta[1]};base64,{text}" if as_url else text


def _is_pointer(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) == _POINTER_SIZE
        and value.startswith(_POINTER)
        and set(value[len(_POINTER) :]) <= set("0123456789abcdef")
    )
