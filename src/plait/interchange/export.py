"""Writing a session as plait's own JSON lines: every message of every branch, in the order of arrival."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Protocol, runtime_checkable

from plait import jsontext
from plait.errors import CorruptError, UnsupportedError, no_session
from plait.interchange.plait_jsonl import VERSION
from plait.logic import arguments
from plait.logic.values import packed
from plait.model import LEAF, Damaged, Json, Message, Overlay, Parent, SessionInfo, Value


class Readable(Protocol):
    """What an export needs of a session."""

    @property
    def id(self) -> str: ...

    def info(self) -> SessionInfo | None: ...

    def leaf(self) -> Message | Damaged | None: ...

    def state(self) -> Json: ...

    def everything(self, *, after_seq: int | None = None) -> Iterator[Message | Damaged]: ...


@runtime_checkable
class Overlaid(Protocol):
    """A session that may have overlays."""

    def overlays(self, *, all: bool = False) -> list[Overlay]: ...
    def get(self, id: str) -> Message | None: ...
    def transcript(
        self, leaf: Parent = LEAF, *, after_seq: int | None = None, before_seq: int | None = None
    ) -> Iterator[Message | Damaged]: ...


@runtime_checkable
class Valued(Protocol):
    """A session that may have named values."""

    def value_versions(self) -> Iterator[Value]: ...


@runtime_checkable
class Recorded(Protocol):
    """A session that may have records."""

    def records(self, first: bytes = b"") -> list[tuple[bytes, bytes]]: ...


@dataclass(slots=True)
class Exported:
    """What an export wrote: how many messages, overlays, versions of values and records, up to which seq, the
    damaged messages it could not write, and the damaged values of which it wrote what can be read."""

    messages: int = 0
    overlays: int = 0
    last_seq: int = 0
    damaged: list[Damaged] = field(default_factory=list[Damaged])
    values: int = 0
    records: int = 0
    damaged_values: list[Value] = field(default_factory=list[Value])


def write_jsonl(session: Readable, file: IO[bytes], *, after_seq: int | None = None) -> Exported:
    """Write the session to a binary file, message by message; `after_seq` continues an earlier copy.

    Importing what was written gives the same tree with the same ids, order, times and content.
    `NotFoundError` if there is no such session.
    """
    arguments.refuse_async("session", session, "info")
    after_seq = arguments.maybe(arguments.seq, "after_seq", after_seq)
    info = session.info()
    if info is None:
        raise no_session(session.id, " to export")
    exported = Exported(last_seq=after_seq or 0)
    leaf = session.leaf()
    overlays = session.overlays(all=True) if isinstance(session, Overlaid) else []
    kept = session.value_versions() if isinstance(session, Valued) else iter(())
    first = next(kept, None)
    recorded = _records(session)
    record = next(recorded, None)
    version = VERSION if record else 3 if first is not None else 2 if overlays else 1
    _write(file, _header(info, session.state(), exported.last_seq, version))
    for message in session.everything(after_seq=after_seq):
        _write(file, _line(message, exported))
        exported.last_seq = message.seq
    for overlay in overlays:  # after their messages, and older ones first, which newer ones may contain
        _write(file, _overlay(overlay, _ends(session, overlay)))
        exported.overlays += 1
    for value in () if first is None else chain((first,), kept):
        _write(file, _value(value))
        exported.values += 1
        if value.damaged:
            exported.damaged_values.append(value)
    for key, body in chain((record,), recorded) if record else ():
        _write(file, _record(key, body))
        exported.records += 1
    end = {"type": "end", "leaf": leaf.id if leaf is not None else None, "count": exported.messages}
    _write(file, jsontext.encode(end))
    return exported


def _ends(session: Readable, overlay: Overlay) -> tuple[str, str]:
    """The ends of an overlay, or the nearest messages inside it for ends that were deleted since, if it can be told."""
    ends = (overlay.from_id, overlay.to_id)
    if not isinstance(session, Overlaid) or not overlay.left:
        return ends
    first, last = _stands(session, ends[0], overlay.from_seq), _stands(session, ends[1], overlay.to_seq)
    on_active_path = not last and any(item.id == overlay.id for item in session.overlays())
    if (first and last) or not (last or on_active_path):  # of a branch that is cut off, the way to it is not known
        return ends
    path = session.transcript(ends[1] if last else LEAF, after_seq=overlay.from_seq - 1, before_seq=overlay.to_seq + 1)
    left = [message.id for message in path if isinstance(message, Message)]
    return (left[0], left[-1]) if left else ends


def _stands(session: Overlaid, id: str, seq: int) -> bool:
    try:
        message = session.get(id)
    except CorruptError:  # what is damaged is not written
        return False
    return message is not None and message.seq == seq


def _overlay(overlay: Overlay, ends: tuple[str, str]) -> str:
    stale = {"stale": True} if overlay.stale else {}
    return jsontext.encode(
        {
            "type": "overlay",
            "id": overlay.id,
            "kind": overlay.kind,
            "from": ends[0],
            "to": ends[1],
            "createdAt": _time(overlay.created_at),
            "tokens": overlay.tokens,
            "summary": overlay.summary,
            **stale,
        }
    )


def _value(value: Value) -> str:
    content, escaped = (None, False) if value.content is None else packed(value.content)
    return jsontext.encode(
        {
            "type": "value",
            "label": value.label,
            "key": value.key,
            "version": value.version,
            "writtenAt": _time(value.written_at),
            "tokens": value.tokens,
            "description": value.description,
            "metadata": value.metadata,
            "content": content,
            **({"escaped": True} if escaped else {}),
        }
    )


def _records(session: Readable) -> Iterator[tuple[bytes, bytes]]:
    """All records of a session, a page at a time; none where its store keeps none."""
    after = b""
    try:
        while isinstance(session, Recorded) and (page := session.records(after)):
            yield from page
            after = page[-1][0] + b"\0"
    except UnsupportedError:
        return


def _record(key: bytes, body: bytes) -> str:
    return jsontext.encode({"type": "record", "key": _base64(key), "body": _base64(body)})


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _header(info: SessionInfo, state: Json, after_seq: int, version: int) -> str:
    return jsontext.encode(
        {
            "plait": version,
            "type": "session",
            "id": info.id,
            "name": info.name,
            "owner": info.owner,
            "parentId": info.parent_id,
            "pinned": info.pinned,
            "createdAt": _time(info.created_at),
            "activeAt": _time(info.active_at),
            "metadata": info.metadata,
            "state": state,
            "afterSeq": after_seq,
        }
    )


def _line(message: Message | Damaged, exported: Exported) -> str:
    place: Json = {"id": message.id, "parent": message.parent_id, "seq": message.seq}
    if isinstance(message, Damaged):
        exported.damaged.append(message)
        return jsontext.encode({"type": "damaged", **place, "role": message.role, "reason": message.reason})
    exported.messages += 1
    head: Json = {"type": "message", **place, "createdAt": _time(message.created_at), "format": message.format}
    # The message's own text, as it is stored, in the place of one that was decoded and encoded.
    return f'{jsontext.encode(head)[:-1]},"message":{message.to_json()}}}'


def _time(at: dt.datetime) -> str:
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _write(file: IO[bytes], line: str) -> None:
    file.write(line.encode() + b"\n")
