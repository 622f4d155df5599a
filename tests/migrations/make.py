"""Writes the file of the current schema version that later versions must go on opening.

    python -m tests.migrations.make

Run it once for each new version, before the release; a file that is there is never written again.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any, cast

import plait
from plait.logic.ids import SHARED_SESSION
from plait.store._sync.port import Contextual
from plait.store.protocol import Scope, SessionRef
from plait.store.sqlite.connection import newest_version

FILES = Path(__file__).parent / "files"
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def fill(sessions: plait.Sessions) -> None:
    """One of everything a file can hold."""
    chat = sessions.session("chat")
    chat.append(plait.user("Where is my order? 你好 \U0001f600 \ud83d", id="u1"))
    chat.append(plait.assistant("It ships Friday.", id="a1"))
    chat.append(plait.assistant("It ships today.", id="a2"), parent="u1")
    chat.append({"id": "p1", "role": "user", "parts": [{"type": "file", "mediaType": "image/png", "url": PIXEL}]})
    chat.append(plait.assistant("long " * 400_000, id="long"))
    chat.append({"role": "assistant", "content": "kept as it is"}, id="foreign")
    chat.append(plait.user("to be deleted", id="gone"))
    chat.delete("gone")
    chat.update(plait.assistant("It ships on Friday.", id="a1"))
    chat.update_state({"step": 3})
    sessions.get_or_create("chat", owner="ann")
    sessions.rename("chat", "An order")
    sessions.pin("chat")
    chat.fork("fork", at="a1")
    sessions.scoped("acme", "bob").session("chat").append(plait.user("another scope", id="u1"))
    long = sessions.session("long")
    long.append_many([plait.user(f"m{n}", id=f"m{n}") for n in range(1, 7)])
    long.add_overlay("m2", "m4", summary="in short")
    long.omit("m6")
    write_values(sessions)
    chat.write_records({b"k\x00\xff": b"\x00 a record", b"other": b""})
    sessions.session("deleted").append(plait.user("nothing left"))
    sessions.delete("deleted")


def write_values(sessions: plait.Sessions) -> None:
    """Values of a session and of a scope, with a history, a long one, one that was searched."""
    store, chat = cast("Contextual", sessions.store), SessionRef(Scope(), "chat")
    given: dict[str, Any] = {"created_at_us": 1_800_000_000_000_000}
    store.write_value(chat, "memory", "", "likes tea", operation="1", **given)
    store.write_value(chat, "memory", "", "likes green tea\x00\ud83d", operation="2", description="facts", **given)
    store.write_value(chat, "notes", "gate", "The gate code is 4711", operation="3", metadata={"k": 1}, **given)
    store.write_value(chat, "notes", "long", "long " * 400_000, operation="4", **given)
    store.write_value(chat, "notes", "gone", "gone", operation="5", **given)
    store.write_value(chat, "notes", "gone", None, operation="6", **given)
    store.write_value(SessionRef(Scope(), SHARED_SESSION), "team", "", "for all", operation="7", **given)
    store.search_values(chat, "notes", "gate")
    store.write_value(chat, "notes", "gate", "The gate code is 4712", operation="8", **given)


def main() -> None:
    target = FILES / f"version-{newest_version()}.db.gz"
    if target.exists():
        raise SystemExit(f"{target} is there already, and files of a version never change")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.db"
        with plait.open(path) as sessions:
            fill(sessions)
        target.write_bytes(gzip.compress(path.read_bytes(), mtime=0))


if __name__ == "__main__":
    main()
