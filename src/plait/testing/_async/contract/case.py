"""What the tests of a store write with and read with, and what several of them share."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

import pytest

from plait import jsontext
from plait.model import LEAF, Damaged, Message, OverlayKind, Parent
from plait.store._async.port import AsyncMerging, AsyncOverlaying, AsyncStore
from plait.store.protocol import (
    Media,
    NewMessage,
    NewOverlay,
    Path,
    Scope,
    SessionRef,
    Stat,
    Written,
)

NEW_YEAR_US = 1_767_225_600_000_000  # the first moment of 2026
_latest_us = 0

ALICE, BOB = Scope("acme", "alice"), Scope("acme", "bob")
NEIGHBOURS = [Scope(), Scope("acme", ""), Scope("", "acme"), BOB, Scope("acmealice", ""), Scope("ACME", "alice")]
ODD_IDS = [
    "-rf",
    "a/b",
    "a:b",
    "%",
    "_",
    "*",
    "é",
    "e\u0301",
    "E",
    "e",
    " e",
    "💡" * 128,
    "x" * 512,
    "n\x00ul",
    "n",
    "'; --",
]
HOSTILE_TEXTS = [
    'a" OR 1=1 --',
    '"""',
    'x" NEAR("y", 5) AND col : z*',
    "(((((((",
    "^^ -- + - * / \\ ' `",
    "\x00null\x00",
    "\ud83d half \udc00",
    "NOT AND OR",
    "a" * 10_000,
    '"' + "phrase " * 2_000 + '"',
    "👨\u200d👩\u200d👧 🇦🇹 e\u0301 \u202e",
    "%s {0} $1 :words ?1 @x _",
]


class AsyncStoreCase:
    """What the parts of the contract have in common: making messages, and reading a session."""

    def message(
        self, id: str, text: str = "hello", *, role: str = "user", at_us: int | None = None, tokens: int = 3
    ) -> NewMessage:
        """A native message with one text part."""
        return self.raw(
            id, {"id": id, "role": role, "parts": [{"type": "text", "text": text}]}, at_us=at_us, tokens=tokens
        )

    def raw(self, id: str, content: dict[str, Any], *, at_us: int | None = None, tokens: int = 3) -> NewMessage:
        """A native message of any content."""
        body = jsontext.encode(content)
        return NewMessage(
            id=id,
            role=str(content["role"]),
            format="plait",
            body=body,
            bytes=len(body.encode()),
            tokens=tokens,
            created_at_us=now_us() if at_us is None else at_us,
        )

    def picture(self, id: str, *payloads: bytes, upload: str | None = None) -> NewMessage:
        """A message with one image part for each payload, all taken out of its text as the door does it."""
        body, media, size = f'{{"id":{jsontext.encode(id)},"role":"user","parts":[', list[Media](), 0
        for n, data in enumerate(payloads):
            body += ("," if n else "") + '{"type":"file","mediaType":"image/png","url":"data:image/png;base64,'
            given = None if upload is not None else data
            media.append(Media(len(body), hashlib.sha256(data).digest(), len(data), given, upload))
            size += (len(data) + 2) // 3 * 4
            body += '"}'
        body += "]}"
        return NewMessage(id, "user", "plait", body, len(body.encode()) + size, 1600, now_us(), tuple(media))

    def ref(self, id: str = "s", scope: Scope = ALICE) -> SessionRef:
        """A new handle's hold on a session, bound to no life yet."""
        return SessionRef(scope, id)

    async def payload_count(self, store: AsyncStore) -> int | None:
        """How many attachment payloads the store holds; `None` if it cannot say."""
        return None

    async def add(
        self, store: AsyncStore, *ids: str, parent: Parent = LEAF, session: SessionRef | None = None
    ) -> list[Written]:
        """Append one message for each id, as a chain."""
        return await store.append(
            session or self.ref(), [self.message(id, f"text of {id}") for id in ids], parent=parent
        )

    async def read(
        self,
        store: AsyncStore,
        leaf: Parent = LEAF,
        *,
        session: SessionRef | None = None,
        newest_first: bool = False,
        limit: int = 50,
    ) -> list[Message]:
        """A whole path, read window by window."""
        session = session or self.ref()
        path = await store.path(session, leaf)
        found: list[Message] = []
        seq: int | None = None
        while path is not None:
            after, before = (None, seq) if newest_first else (seq, None)
            rows = await store.load(
                session, path, after_seq=after, before_seq=before, newest_first=newest_first, limit=limit
            )
            if not rows:
                break
            found += messages(rows)
            seq = rows[-1].seq
        return found

    async def history(self, store: AsyncStore, leaf: Parent = LEAF, *, session: SessionRef | None = None) -> list[str]:
        """The ids of a path, root first."""
        return [message.id for message in await self.read(store, leaf, session=session)]

    async def leaf(self, store: AsyncStore, session: SessionRef | None = None) -> str | None:
        """The id of the active leaf."""
        path = await store.path(session or self.ref(), LEAF)
        return path.leaf_id if path else None

    async def version(self, store: AsyncStore, session: SessionRef | None = None) -> int:
        """How many changes the session has seen."""
        info = await store.info(session or self.ref())
        return info.version if info else 0

    async def the_path(self, store: AsyncStore, leaf: Parent = LEAF, session: SessionRef | None = None) -> Path:
        """A path that must be there."""
        path = await store.path(session or self.ref(), leaf)
        assert path is not None
        return path

    def overlaying(self, store: AsyncStore) -> AsyncOverlaying:
        """The store as one that keeps overlays; skips the test if it does not."""
        if not callable(getattr(store, "add_overlay", None)):
            pytest.skip("this store keeps no overlays")
        return cast("AsyncOverlaying", store)

    async def zigzag(self, store: AsyncStore) -> Path:
        """A path through several strands, with messages beside it and holes in it."""
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", "y", "z", parent="c")
        await self.add(store, "p", "q", parent="y")
        await self.add(store, "e", parent="d")
        await self.add(store, "r", "s", parent="q")
        await store.delete(self.ref(), ["b", "p", "x"])
        return await self.the_path(store)

    async def check_tree(self, store: AsyncStore, session: SessionRef | None = None, alive: Sequence[str] = ()) -> None:
        """Hold that children, parents, paths, roots, leaves and totals tell of the same tree."""
        session = session or self.ref()
        parents: dict[str, str | None] = {}
        level: list[str | None] = [None]
        while level:
            found = {id: await store.children(session, id) for id in level}
            for id, below in found.items():
                assert [m.seq for m in below] == sorted(m.seq for m in below)
                assert [m.parent_id for m in below] == [id] * len(below)
                assert parents.keys().isdisjoint(ids(below))
                parents.update(dict.fromkeys(ids(below), id))
            level = [m.id for below in found.values() for m in below]
        assert set(alive) <= parents.keys()
        for id, parent in parents.items():
            assert (await self.must(store, id, session)).parent_id == parent
            assert await self.history(store, id, session=session) == climb(parents, id)
        assert sorted(ids(await store.leaves(session))) == sorted(parents.keys() - set(parents.values()))
        assert (await store.totals(session)).messages == len(parents)
        await self.check_totals(store, session)

    async def change_all(self, store: AsyncStore, session: SessionRef) -> None:
        """One of each change, so that a store records whatever it records of them."""
        await store.put_session(session, created_at_us=now_us(), create="ensure", name="n", metadata={"k": 1})
        await store.update_state(session, {"k": 1}, created_at_us=now_us())
        await self.add(store, "a", "b", session=session)
        await store.update(session, self.message("a", "changed"))
        await store.checkout(session, "a")
        await store.delete(session, ["b"])

    async def check_payloads(self, store: AsyncStore, count: int) -> None:
        """Hold that the store keeps so many payloads, if it can say."""
        assert await self.payload_count(store) in (None, count)

    def merging(self, store: AsyncStore) -> AsyncMerging:
        """The store as one that can merge; skips the test if it cannot."""
        if not callable(getattr(store, "merge", None)):
            pytest.skip("this store cannot merge")
        return cast("AsyncMerging", store)

    async def check_totals(self, store: AsyncStore, session: SessionRef | None = None) -> None:
        """Hold that the totals are the sums over the tree and over the active path."""
        session = session or self.ref()
        path = await self.read(store, session=session)
        totals = await store.totals(session)
        everything: dict[str, Message] = {}
        for leaf in await store.leaves(session):
            everything |= {message.id: message for message in await self.read(store, leaf.id, session=session)}
        assert (totals.messages, totals.bytes, totals.tokens) == sums(everything.values())
        assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == sums(path)

    async def must(self, store: AsyncStore, id: str, session: SessionRef | None = None) -> Message:
        """A message that must be there, undamaged."""
        message = await store.get(session or self.ref(), id)
        assert isinstance(message, Message)
        return message

    def overlay(self, id: str, first: str, last: str, summary: str | None = "in short") -> NewOverlay:
        """A compaction of a range, or an archive if there is no summary."""
        kind: OverlayKind = "archive" if summary is None else "compaction"
        return NewOverlay(id, kind, first, last, summary, 5, now_us())


def now_us() -> int:
    """The time, never the same twice."""
    global _latest_us
    _latest_us = max(_latest_us + 1, time.time_ns() // 1000)
    return _latest_us


def messages(rows: Iterable[Message | Damaged]) -> list[Message]:
    """Rows that must not be damaged."""
    messages: list[Message] = []
    for row in rows:
        assert isinstance(row, Message), row
        messages.append(row)
    return messages


def ids(rows: Iterable[Message | Damaged]) -> list[str]:
    return [row.id for row in rows]


def climb(parents: dict[str, str | None], id: str | None) -> list[str]:
    """The path to `id` by parent links."""
    path: list[str] = []
    while id is not None:
        path.insert(0, id)
        id = parents[id]
    return path


def sums(messages: Iterable[Message | Stat]) -> tuple[int, int, int]:
    items = list(messages)
    return len(items), sum(m.bytes for m in items), sum(m.tokens for m in items)


def data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


async def stream(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 70_001):
        yield data[start : start + 70_001]


async def all_of(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]


async def drain(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join(await all_of(chunks))


def odd_contents() -> Iterable[dict[str, Any]]:
    """Message contents that some store has lost something of."""
    texts = ["", " ", "\x00", "W\x00s\x00l", r"the escape \u0000 and \\u0000", "ab\ud99ccd", "\udc00"]
    texts += [
        "💡",
        "👩\u200d👩\u200d👧",
        "e\u0301é",
        "\u202e\ufeff\u2028\u2029\x85",
        '"\\/\b\f\n\r\t\x7f',
        "'; DROP TABLE message; --",
        "漢字",
    ]
    for n, text in enumerate(texts):
        part = {"type": "text", "text": text, text or "key": [text, {text: None}]}
        yield {"id": f"m{n}", "role": "user", "parts": [part], "metadata": {"title": text}}
    yield {"parts": [], "role": "", "id": "last"}
    yield {
        "id": "numbers",
        "role": "x",
        "parts": [{"type": "n", "v": [2**53 + 1, 2**63, -(2**70), 2**256, 1.0, 1e100, -0.0]}],
    }
    yield {
        "zebra": 1,
        "alpha": {"z": 1, "a": 2},
        "id": "order",
        "role": "tool",
        "parts": [{"v": 1, "type": "brand-new"}],
    }
    deep: Any = "bottom"
    for _ in range(190):
        deep = [deep]
    yield {"id": "deep", "role": "assistant", "parts": [{"type": "tool-x", "output": deep}]}
