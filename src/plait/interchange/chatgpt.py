"""Reading ChatGPT's exports: conversations, each a tree of nodes in its `mapping`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from plait.interchange.common import Ticker, imported, is_legal_id, moment, named, session_id, words
from plait.interchange.index import Index
from plait.interchange.lists import element
from plait.interchange.scanner import Child, Scanner
from plait.interchange.values import ImportEntry, Progress, Report, Transcript
from plait.model import Json

NAME = "chatgpt"


def read(path: Path, progress: Progress | None = None) -> Iterator[Transcript]:
    """The conversations of the file, one at a time; a message is the whole node that holds it.

    Nodes without a message (such as the hidden root) are no entries: their children go to their
    parent, and they are kept in the session's metadata.
    """
    ticker = Ticker(progress, path.stat().st_size)
    pending, last = Report(), None
    with path.open("rb") as file:
        scanner, children = _conversations(file)
        for child in children:
            ticker.at(child.at + child.size)
            record = element(file, child, pending)
            if record is None or record.value is None:
                continue
            if not isinstance(record.value.get("mapping"), dict):
                pending.add(child.line, "is not a conversation: it has no mapping", record.raw, lost=True)
                continue
            report, pending = pending, Report()
            last = report
            mark = hashlib.sha256(record.raw).hexdigest()
            yield _Conversation(record.value, child.line, report).transcript(path, mark)
        if scanner.end is None:
            pending.add(0, "the list is not closed: the file was cut off")
    _hand_over(pending, last)
    ticker.at(ticker.total)


def _hand_over(pending: Report, last: Report | None) -> None:
    """What was found after the last conversation is told with it."""
    if last is not None:
        for problem in pending.problems:
            last.add(problem.line, problem.reason, problem.snippet, lost=problem.lost)


def _conversations(file: IO[bytes]) -> tuple[Scanner, Iterable[Child]]:
    """The conversations in the list, or the one that is the file."""
    head = file.read(1 << 16)
    at = len(head) - len(head.removeprefix(b"\xef\xbb\xbf").lstrip())
    scanner = Scanner(file, at)
    if head[at : at + 1] == b"{":
        scanner.end = file.seek(0, 2)
        return scanner, [Child(b"", at, scanner.end - at, 1)]
    return scanner, scanner.children()


class _Conversation:
    """One conversation, whose tree is put in order."""

    def __init__(self, value: Json, line: int, report: Report) -> None:
        self._value = value
        self._line = line
        self._report = report
        self._index = Index()
        self._nodes = list(cast("dict[str, Any]", value["mapping"]).items())
        self._unused: Json = {}
        for n, (key, node) in enumerate(self._nodes):
            self._put(n, key, node)

    def transcript(self, path: Path, mark: str) -> Transcript:
        self._index.arrange(self._report.add)
        value = self._value
        header = {key: item for key, item in value.items() if key != "mapping"}
        leaf = self._index.visible(named(value.get("current_node")))
        if leaf is None and len(self._index):
            self._report.add(self._line, "current_node names no message; the last message is taken")
        return Transcript(
            id=session_id(value.get("conversation_id") or value.get("id"), path, mark, self._report),
            format=NAME,
            entries=self._entries(),
            report=self._report,
            name=words(value.get("title")),
            metadata=imported(NAME, header, nodes=self._unused),
            created_at=moment(value.get("create_time")),
            leaf=leaf,
            count=len(self._index),
        )

    def _put(self, n: int, key: str, node: object) -> None:
        place = named(key)
        own = key if place is not None and is_legal_id(key) else f"node-{n}"
        if own != key:
            self._report.add(self._line, f"a node's id cannot be used; kept as {own!r}", str(key))
        hidden = not isinstance(node, dict) or not isinstance(cast(Json, node).get("message"), dict)
        if hidden:
            self._unused[key] = node
        parent = cast(Json, node).get("parent") if isinstance(node, dict) else None
        added = self._index.add(place or own, named(parent), id=own, line=self._line, at=n, hidden=hidden)
        if not added and not hidden:
            self._report.add(self._line, f"a node repeats the id {own!r}", str(key), lost=True)

    def _entries(self) -> Iterator[ImportEntry]:
        fallback = moment(self._value.get("create_time"))
        for slot in self._index.slots():
            node = cast(Json, self._nodes[slot.at][1])
            at = moment(cast(Json, node["message"]).get("create_time"))
            yield ImportEntry(slot.id, slot.parent, node, NAME, at or fallback, slot.line)
