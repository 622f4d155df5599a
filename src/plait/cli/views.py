"""What `--json` prints: each value as one JSON object, stored messages exactly as they are."""

from __future__ import annotations

import datetime as dt
from typing import Any

from plait import jsontext
from plait.model import Damaged, Json, Message, Overlay, SessionInfo, Totals


def message(entry: Message | Damaged) -> str:
    """A message with what the store knows of it; the key `message` holds the stored form."""
    head: Json = {"id": entry.id, "seq": entry.seq, "parent_id": entry.parent_id, "role": entry.role}
    if isinstance(entry, Damaged):
        return jsontext.encode({**head, "damaged": entry.reason})
    head |= {
        "created_at": time(entry.created_at),
        "bytes": entry.bytes,
        "tokens": entry.tokens,
        "format": entry.format,
    }
    if entry.overlay is not None:
        head["overlay"] = overlay(entry.overlay)
    # The stored text is put in as text: number forms and key order stay what they are.
    return f'{jsontext.encode(head)[:-1]},"message":{entry.to_json()}}}'


def session(info: SessionInfo) -> Json:
    """A session as the catalogue knows it."""
    return {
        "id": info.id,
        "name": info.name,
        "owner": info.owner,
        "parent_id": info.parent_id,
        "pinned": info.pinned,
        "metadata": info.metadata,
        "created_at": time(info.created_at),
        "active_at": time(info.active_at),
        "version": info.version,
        **totals(info.totals),
    }


def totals(value: Totals) -> dict[str, Any]:
    """The counts of a session and its active path."""
    return {
        "messages": value.messages,
        "bytes": value.bytes,
        "tokens": value.tokens,
        "path_messages": value.path_messages,
        "path_bytes": value.path_bytes,
        "path_tokens": value.path_tokens,
        "view_messages": value.view_messages,
        "view_bytes": value.view_bytes,
        "view_tokens": value.view_tokens,
    }


def overlay(value: Overlay) -> Json:
    """An overlay, with what it covered when it was added."""
    return {
        "id": value.id,
        "kind": value.kind,
        "summary": value.summary,
        "from_id": value.from_id,
        "to_id": value.to_id,
        "from_seq": value.from_seq,
        "to_seq": value.to_seq,
        "created_at": time(value.created_at),
        "covered_messages": value.covers.messages,
        "covered_bytes": value.covers.bytes,
        "covered_tokens": value.covers.tokens,
        "left_messages": value.left,
        "tokens": value.tokens,
        "stale": value.stale,
    }


def time(at: dt.datetime) -> str:
    """A time in UTC, with microseconds."""
    return at.astimezone(dt.timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
