"""The contract of a store as tests: subclass, give a `store` fixture, and pytest does the rest."""

from __future__ import annotations

import base64
import hashlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, cast

import pytest

from plait import jsontext, times
from plait.errors import (
    ConflictError,
    CursorExpiredError,
    LeafMovedError,
    NotFoundError,
    SessionDeletedError,
    StaleValueError,
    UsageError,
)
from plait.model import LEAF, Change, Damaged, Message, OverlayKind, Parent, Totals
from plait.store._async.port import AsyncFeeding, AsyncMerging, AsyncOverlaying, AsyncSearchable, AsyncStore
from plait.store.protocol import (
    Expect,
    Graft,
    Media,
    NewMessage,
    NewOverlay,
    Path,
    Scope,
    Search,
    SessionRef,
    Span,
    Stat,
    Written,
)
from plait.testing._async.lease_tests import AsyncLeaseTests
from plait.testing._async.value_tests import AsyncValueTests

_NEW_YEAR_US = 1_767_225_600_000_000  # the first moment of 2026
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


class AsyncStoreTests(AsyncLeaseTests, AsyncValueTests):
    """What every store must do, as a test class to inherit from.

    A subclass gives a pytest fixture named `store` that yields an opened, empty store and closes
    it afterwards. It may override `payload_count` if the store can say how many attachment
    payloads it holds.
    """

    # -- helpers

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
            created_at_us=_now_us() if at_us is None else at_us,
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
        return NewMessage(id, "user", "plait", body, len(body.encode()) + size, 1600, _now_us(), tuple(media))

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
            found += _messages(rows)
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

    # -- append

    async def test_append_makes_a_chain(self, store: AsyncStore) -> None:
        written = await self.add(store, "a", "b", "c")
        assert [(item.message.id, item.message.parent_id, item.inserted) for item in written] == [
            ("a", None, True),
            ("b", "a", True),
            ("c", "b", True),
        ]
        assert await self.history(store) == ["a", "b", "c"]

    async def test_append_answers_what_is_then_read(self, store: AsyncStore) -> None:
        new = self.message("a", "words", role="assistant", at_us=_NEW_YEAR_US + 1, tokens=17)
        [written] = await store.append(self.ref(), [new], parent=LEAF)
        stored = await store.get(self.ref(), "a")
        assert stored == written.message
        assert isinstance(stored, Message)
        assert (stored.to_json(), stored.role, stored.format, stored.text) == (new.body, "assistant", "plait", "words")
        assert (stored.bytes, stored.tokens, stored.parent_id) == (new.bytes, 17, None)
        assert (stored.created_at.year, stored.created_at.microsecond, stored.created_at.tzname()) == (2026, 1, "UTC")

    async def test_append_goes_on_after_the_leaf_it_left(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        [b] = await self.add(store, "b")
        assert b.message.parent_id == "a"
        assert await self.leaf(store) == "b"

    async def test_append_with_parent_none_makes_another_root(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "r", "s", parent=None)
        assert await self.history(store) == ["r", "s"]
        assert _ids(await store.children(self.ref(), None)) == ["a", "r"]

    async def test_append_with_a_parent_branches(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", "y", parent="a")
        assert await self.history(store) == ["a", "x", "y"]
        assert await self.history(store, "c") == ["a", "b", "c"]
        assert _ids(await store.leaves(self.ref())) == ["c", "y"]

    async def test_append_after_an_older_branch_end_goes_on_there(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await self.add(store, "c", parent="b")
        assert await self.history(store) == ["a", "b", "c"]
        assert await self.history(store, "x") == ["a", "x"]

    async def test_append_twice_writes_once(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        before = await self.version(store)
        [again] = await store.append(self.ref(), [self.message("a", "other words")], parent=LEAF)
        assert not again.inserted
        assert again.message == await store.get(self.ref(), "a")
        assert again.message.text == "text of a"
        assert await self.version(store) == before
        assert await self.history(store) == ["a", "b"]

    async def test_append_again_says_whether_it_differs(self, store: AsyncStore) -> None:
        await store.append(self.ref(), [self.message("a"), self.picture("p", b"pixels")], parent=LEAF)
        same = [self.message("a"), self.picture("p", b"pixels")]
        other = [self.message("a", "other words"), self.picture("p", b"other pixels")]
        for new, differs in ((same, False), (other, True)):
            written = await store.append(self.ref(), new, parent=LEAF)
            assert [(w.inserted, w.differs) for w in written] == [(False, differs)] * 2
        [fresh] = await self.add(store, "b")
        assert not fresh.differs

    async def test_an_id_with_other_content_may_be_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        new = [self.message("b"), self.message("a", "other words"), self.message("c")]
        with pytest.raises(ConflictError):
            await store.append(self.ref(), new, parent=LEAF, refuse_other=True)
        assert (await self.history(store), await self.version(store)) == (["a"], 1)
        new = [self.message("b"), self.message("a", "text of a")]
        written = await store.append(self.ref(), new, parent=LEAF, refuse_other=True)
        assert [w.inserted for w in written] == [True, False]

    async def test_append_again_leaves_the_active_leaf(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "a")
        assert await self.leaf(store) == "c"

    async def test_a_chain_goes_on_from_a_message_that_was_there(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        written = await self.add(store, "x", "b", "y", parent="a")
        assert [(w.message.id, w.message.parent_id, w.inserted) for w in written] == [
            ("x", "a", True),
            ("b", "a", False),
            ("y", "b", True),
        ]
        assert await self.history(store) == ["a", "b", "y"]
        assert await self.version(store) == 5

    async def test_a_batch_that_ends_with_a_message_that_was_there(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", "a", parent="b")
        assert await self.leaf(store) == "x"
        await self.add(store, "a", "b", "x")
        assert await self.leaf(store) == "x"

    async def test_an_id_repeated_in_one_batch_is_written_once(self, store: AsyncStore) -> None:
        written = await self.add(store, "a", "b", "a", "c", "c")
        assert [w.inserted for w in written] == [True, True, False, True, False]
        assert await self.history(store) == ["a", "c"]
        assert await self.history(store, "b") == ["a", "b"]

    async def test_an_empty_batch_does_nothing(self, store: AsyncStore) -> None:
        assert await store.append(self.ref(), [], parent=LEAF) == []
        assert await store.append(self.ref(), [], parent=LEAF, expect=Expect(check_leaf=True)) == []
        assert await store.info(self.ref()) is None

    async def test_an_unknown_parent_is_refused_and_nothing_is_written(self, store: AsyncStore) -> None:
        with pytest.raises(NotFoundError):
            await self.add(store, "a", parent="nobody")
        await self.add(store, "a")
        before = await self.version(store)
        with pytest.raises(NotFoundError):
            await self.add(store, "b", "c", parent="nobody")
        assert await store.get(self.ref(), "b") is None
        assert (await self.version(store), await self.leaf(store)) == (before, "a")

    async def test_a_message_is_not_its_own_parent(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        with pytest.raises(NotFoundError):
            await self.add(store, "b", parent="b")
        with pytest.raises(NotFoundError):
            await self.add(store, "b", "c", parent="c")
        assert await self.history(store) == ["a"]

    async def test_a_parent_in_another_session_is_unknown(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        with pytest.raises(NotFoundError):
            await self.add(store, "b", parent="a", session=self.ref("other"))

    async def test_a_deleted_parent_is_unknown(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.delete(self.ref(), ["b"])
        with pytest.raises(NotFoundError):
            await self.add(store, "c", parent="b")

    async def test_without_activate_the_leaf_stays(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.append(self.ref(), [self.message("x"), self.message("y")], parent="a", activate=False)
        assert await self.leaf(store) == "b"
        assert await self.history(store, "y") == ["a", "x", "y"]

    async def test_without_activate_a_message_after_the_leaf_is_not_on_the_path(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.append(self.ref(), [self.message("b", tokens=100)], parent="a", activate=False)
        assert await self.history(store) == ["a"]
        totals = await store.totals(self.ref())
        assert (totals.messages, totals.path_messages, totals.path_tokens) == (2, 1, 3)
        [c] = await self.add(store, "c")
        assert c.message.parent_id == "a"

    async def test_import_is_an_append_of_another_kind(self, store: AsyncStore) -> None:
        first = self.message("a", at_us=5)
        await store.append(self.ref(), [first], parent=None, kind="import")
        [w] = await store.append(self.ref(), [self.message("b", at_us=3)], parent="a", kind="import")
        assert w.message.created_at.microsecond == 3
        assert await self.history(store) == ["a", "b"]
        with pytest.raises(NotFoundError):
            await store.append(self.ref(), [self.message("c")], parent="nobody", kind="import")

    async def test_seqs_count_up_across_branches(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await self.add(store, "c", parent="b")
        seqs = [m.seq for m in [await self.must(store, id) for id in "abxc"]]
        assert seqs == sorted(set(seqs))

    async def test_seqs_are_not_used_again(self, store: AsyncStore) -> None:
        [*_, c] = await self.add(store, "a", "b", "c")
        await store.delete(self.ref(), ["c"])
        [again] = await self.add(store, "c")
        assert again.inserted
        assert again.message.seq > c.message.seq
        await store.delete(self.ref(), ["a", "b", "c"])
        [d] = await self.add(store, "d")
        assert d.message.seq > again.message.seq
        assert d.message.parent_id is None

    async def test_two_sessions_may_use_the_same_ids(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "b", "a", session=self.ref("other"))
        assert await self.history(store) == ["a", "b"]
        assert await self.history(store, session=self.ref("other")) == ["b", "a"]
        await store.delete(self.ref(), ["a"])
        assert await self.history(store, session=self.ref("other")) == ["b", "a"]

    async def test_ids_are_data(self, store: AsyncStore) -> None:
        for session_id in ODD_IDS:
            await self.add(store, *ODD_IDS, session=self.ref(session_id))
        for session_id in ODD_IDS:
            assert await self.history(store, session=self.ref(session_id)) == ODD_IDS
        assert await store.delete(self.ref("%"), ["%", "e"]) == ["%", "e"]
        assert await self.history(store, session=self.ref("%")) == [id for id in ODD_IDS if id not in ("%", "e")]
        assert await self.history(store, session=self.ref("_")) == ODD_IDS
        page = await store.sessions(ALICE, cursor=None, limit=100)
        assert sorted(info.id for info in page.sessions) == sorted(ODD_IDS)

    # -- expectations

    async def test_an_expected_leaf_that_is_there_lets_the_append_pass(self, store: AsyncStore) -> None:
        await self.expecting(store, "a", Expect(check_leaf=True, leaf_id=None))
        await self.expecting(store, "b", Expect(check_leaf=True, leaf_id="a"))
        await self.expecting(store, "c", Expect(check_leaf=True, leaf_id="b", branch=True))
        assert await self.history(store) == ["a", "b", "c"]

    async def test_a_moved_leaf_is_refused_and_named(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        for expect in (Expect(check_leaf=True, leaf_id="a"), Expect(check_leaf=True, leaf_id=None)):
            with pytest.raises(LeafMovedError) as caught:
                await self.expecting(store, "c", expect)
            assert (caught.value.leaf_id, caught.value.version) == ("b", 2)
        assert await store.get(self.ref(), "c") is None
        assert await self.version(store) == 2

    async def test_a_moved_version_is_refused_and_named(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await self.expecting(store, "b", Expect(version=1))
        with pytest.raises(LeafMovedError) as caught:
            await self.expecting(store, "c", Expect(version=1))
        assert (caught.value.leaf_id, caught.value.version) == ("b", 2)
        assert await self.history(store) == ["a", "b"]

    async def test_a_moved_leaf_may_become_a_branch_beside_the_winner(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        [w] = await self.expecting(store, "x", Expect(check_leaf=True, leaf_id="a", branch=True))
        assert (w.inserted, w.branched, w.message.parent_id) == (True, True, "a")
        assert await self.leaf(store) == "b"
        assert await self.history(store, "x") == ["a", "x"]
        [c] = await self.add(store, "c")
        assert (c.branched, c.message.parent_id) == (False, "b")

    async def test_an_expected_leaf_of_none_may_become_another_root(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        [w] = await self.expecting(store, "x", Expect(check_leaf=True, leaf_id=None, branch=True))
        assert (w.branched, w.message.parent_id) == (True, None)
        assert await self.leaf(store) == "a"

    async def test_a_repeat_of_a_write_that_landed_is_not_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        expect = Expect(check_leaf=True, leaf_id="a", version=1)
        for inserted in (True, False):
            written = await store.append(self.ref(), [self.message("b"), self.message("c")], parent=LEAF, expect=expect)
            assert [(w.message.id, w.inserted, w.branched) for w in written] == [
                ("b", inserted, False),
                ("c", inserted, False),
            ]
        assert await self.version(store) == 3

    async def test_one_message_that_was_there_does_not_lift_the_expectation(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        for messages in ([self.message("a"), self.message("x")], [self.message("x"), self.message("a")]):
            with pytest.raises(LeafMovedError):
                await store.append(self.ref(), messages, parent=LEAF, expect=Expect(check_leaf=True, leaf_id="b"))
        assert await self.history(store) == ["a", "b", "c"]

    async def test_an_expectation_that_holds_does_not_branch(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        [w] = await self.expecting(store, "b", Expect(check_leaf=True, leaf_id="a", branch=True))
        assert not w.branched
        assert await self.leaf(store) == "b"

    async def expecting(self, store: AsyncStore, id: str, expect: Expect) -> list[Written]:
        """Append one message under an expectation."""
        return await store.append(self.ref(), [self.message(id)], parent=LEAF, expect=expect)

    # -- update

    async def test_update_replaces_the_content_alone(self, store: AsyncStore) -> None:
        written = await self.add(store, "a", "b")
        new = self.message("a", "new words", role="system", tokens=99)
        updated = await store.update(self.ref(), new)
        assert updated is not None and updated.changed
        stored = await self.must(store, "a")
        assert stored == updated.message
        assert (stored.to_json(), stored.role, stored.tokens, stored.bytes) == (new.body, "system", 99, new.bytes)
        assert (stored.seq, stored.parent_id) == (written[0].message.seq, None)
        assert stored.created_at == written[0].message.created_at
        assert (await self.version(store), await self.leaf(store)) == (3, "b")

    async def test_update_to_the_same_writes_nothing(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        updated = await store.update(self.ref(), self.message("a", "text of a"))
        assert updated is not None and not updated.changed
        assert updated.message == await store.get(self.ref(), "a")
        assert await self.version(store) == 1

    async def test_update_of_an_absent_message_does_nothing(self, store: AsyncStore) -> None:
        assert await store.update(self.ref(), self.message("a")) is None
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        assert await store.update(self.ref(), self.message("b")) is None
        assert await store.update(self.ref("other"), self.message("a")) is None
        assert await self.version(store) == 1

    async def test_update_between_small_and_huge(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        for text in ("x" * 4_000_000, "é" * 2_000_000, "small", "y" * 1_600_000, ""):
            await store.update(self.ref(), self.message("a", text))
            assert (await self.must(store, "a")).text == text
        assert (await self.must(store, "b")).text == "text of b"

    async def test_update_moves_the_totals(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.update(self.ref(), self.message("b", "beside the path, and longer", tokens=50))
        await self.check_totals(store)
        await store.update(self.ref(), self.message("a", "on the path", tokens=70))
        await self.check_totals(store)
        assert (await store.totals(self.ref())).path_tokens == 73

    # -- delete

    async def test_delete_splices(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c", "d")
        assert await store.delete(self.ref(), ["b", "c"]) == ["b", "c"]
        assert await self.history(store) == ["a", "d"]
        assert (await self.must(store, "d")).parent_id == "a"
        assert await store.get(self.ref(), "b") is None
        assert _ids(await store.children(self.ref(), "a")) == ["d"]

    async def test_delete_splices_branches(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", parent="b")
        await store.delete(self.ref(), ["b"])
        assert _ids(await store.children(self.ref(), "a")) == ["c", "x"]
        assert await self.history(store, "c") == ["a", "c"]
        assert await self.history(store, "x") == ["a", "x"]

    async def test_delete_of_a_root_makes_its_children_roots(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["a"])
        assert _ids(await store.children(self.ref(), None)) == ["b", "x"]
        assert (await self.must(store, "x")).parent_id is None

    async def test_delete_answers_what_was_there_in_the_order_given(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        assert await store.delete(self.ref(), ["c", "nobody", "a", "c", "a"]) == ["c", "a"]
        assert await self.history(store) == ["b"]

    async def test_delete_of_nothing_changes_nothing(self, store: AsyncStore) -> None:
        assert await store.delete(self.ref(), ["a"]) == []
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        assert await store.delete(self.ref(), []) == []
        assert await store.delete(self.ref(), ["nobody"]) == []
        assert await store.delete(self.ref("other"), ["a"]) == []
        assert (await self.version(store), await self.history(store)) == (1, ["a"])

    async def test_deleting_the_leaf_moves_it_to_its_nearest_surviving_ancestor(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="a")
        await store.checkout(self.ref(), "d")
        await store.delete(self.ref(), ["c", "d"])
        assert await self.leaf(store) == "b"
        [e] = await self.add(store, "e")
        assert e.message.parent_id == "b"

    async def test_deleting_a_branch_that_was_the_leaf_returns_to_the_fork(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", parent="b")
        await store.delete(self.ref(), ["x"])
        assert await self.leaf(store) == "b"
        [y] = await self.add(store, "y")
        assert y.message.parent_id == "b"
        assert _ids(await store.children(self.ref(), "b")) == ["c", "y"]

    async def test_deleting_the_whole_path_moves_the_leaf_to_the_newest(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", "y", parent=None)
        await self.add(store, "r", parent=None)
        await store.checkout(self.ref(), "b")
        await store.delete(self.ref(), ["a", "b"])
        assert await self.leaf(store) == "r"
        await store.delete(self.ref(), ["r"])
        assert await self.leaf(store) == "y"

    async def test_deleting_beside_the_leaf_leaves_it(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["b"])
        await store.delete(self.ref(), ["a"])
        assert await self.leaf(store) == "x"

    async def test_deleting_all_leaves_an_empty_session(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.delete(self.ref(), ["b", "a", "x"])
        assert await self.leaf(store) is None
        assert await store.newest(self.ref()) is None
        assert await store.leaves(self.ref()) == []
        assert await store.children(self.ref(), None) == []
        assert await store.totals(self.ref()) == Totals()
        assert await store.info(self.ref()) is not None

    async def test_a_path_runs_through_strands_without_surviving_rows(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        for n in range(6):  # each message a branch of the one before, with a sibling beside it
            await self.add(store, f"in{n}", parent=f"in{n - 1}" if n else "a")
            await self.add(store, f"out{n}", parent=f"in{n - 1}" if n else "a")
        await self.add(store, "end", parent="in5")
        await store.delete(self.ref(), [f"in{n}" for n in range(1, 6)])
        assert await self.history(store, "end") == ["a", "in0", "end"]
        assert await self.history(store, "out5") == ["a", "in0", "out5"]
        await self.check_tree(store)
        await store.delete(self.ref(), ["a", "in0", "b"])
        assert await self.history(store, "end") == ["end"]
        await self.check_tree(store)

    async def test_children_is_the_inverse_of_parent_after_random_deletes(self, store: AsyncStore) -> None:
        for seed in range(6):
            dice, session = random.Random(seed), self.ref(f"s{seed}")
            alive: list[str] = []
            for n in range(60):
                if alive and dice.random() < 0.35:
                    gone = dice.sample(alive, min(len(alive), dice.choice([1, 1, 2, 5])))
                    assert await store.delete(session, gone) == gone
                    alive = [id for id in alive if id not in gone]
                else:
                    parent = dice.choice([LEAF, LEAF, None, *dice.sample(alive, min(2, len(alive)))])
                    await self.add(store, f"m{n}", parent=parent, session=session)
                    alive.append(f"m{n}")
            await self.check_tree(store, session, alive)

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
                assert parents.keys().isdisjoint(_ids(below))
                parents.update(dict.fromkeys(_ids(below), id))
            level = [m.id for below in found.values() for m in below]
        assert set(alive) <= parents.keys()
        for id, parent in parents.items():
            assert (await self.must(store, id, session)).parent_id == parent
            assert await self.history(store, id, session=session) == _climb(parents, id)
        assert sorted(_ids(await store.leaves(session))) == sorted(parents.keys() - set(parents.values()))
        assert (await store.totals(session)).messages == len(parents)
        await self.check_totals(store, session)

    async def check_totals(self, store: AsyncStore, session: SessionRef | None = None) -> None:
        """Hold that the totals are the sums over the tree and over the active path."""
        session = session or self.ref()
        path = await self.read(store, session=session)
        totals = await store.totals(session)
        everything: dict[str, Message] = {}
        for leaf in await store.leaves(session):
            everything |= {message.id: message for message in await self.read(store, leaf.id, session=session)}
        assert (totals.messages, totals.bytes, totals.tokens) == _sums(everything.values())
        assert (totals.path_messages, totals.path_bytes, totals.path_tokens) == _sums(path)

    async def must(self, store: AsyncStore, id: str, session: SessionRef | None = None) -> Message:
        """A message that must be there, undamaged."""
        message = await store.get(session or self.ref(), id)
        assert isinstance(message, Message)
        return message

    # -- checkout

    async def test_checkout_makes_another_message_the_leaf(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        assert await store.checkout(self.ref(), "b")
        assert (await self.leaf(store), await self.version(store)) == ("b", 4)
        assert (await store.totals(self.ref())).path_messages == 2
        [x] = await self.add(store, "x")
        assert x.message.parent_id == "b"
        assert _ids(await store.leaves(self.ref())) == ["c", "x"]

    async def test_checkout_of_the_leaf_does_nothing(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        assert not await store.checkout(self.ref(), "b")
        await store.delete(self.ref(), ["b"])
        assert not await store.checkout(self.ref(), "a")
        assert await self.version(store) == 3

    async def test_checkout_of_an_absent_message_is_refused(self, store: AsyncStore) -> None:
        with pytest.raises(NotFoundError):
            await store.checkout(self.ref(), "a")
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        with pytest.raises(NotFoundError):
            await store.checkout(self.ref(), "b")
        assert await self.leaf(store) == "a"

    # -- reads

    async def test_reads_of_an_absent_session_find_nothing(self, store: AsyncStore) -> None:
        session = self.ref("nobody")
        assert await store.get(session, "a") is None
        assert await store.path(session, LEAF) is None
        assert await store.path(session, "a") is None
        assert await store.newest(session) is None
        assert await store.children(session, None) == []
        assert await store.children(session, "a") == []
        assert await store.leaves(session) == []
        assert await store.totals(session) == Totals()
        assert await store.info(session) is None
        assert await store.state(session) == {}
        assert session.incarnation is None
        assert (await store.sessions(ALICE, cursor=None, limit=10)).sessions == []

    async def test_a_path_to_an_absent_leaf_has_no_ranges(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        path = await self.the_path(store, "nobody")
        assert (path.leaf_id, path.ranges) == (None, ())
        assert await store.load(self.ref(), path) == []
        assert await store.stats(self.ref(), path) == []
        assert await self.suffix(store, path) == 0

    async def test_a_path_tells_version_leaf_and_rising_ranges(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", "y", parent="b")
        await self.add(store, "p", parent="x")
        path = await self.the_path(store)
        assert (path.version, path.leaf_id) == (6, "p")
        ends = [end for range in path.ranges for end in (range.lo, range.hi)]
        assert ends == sorted(ends)
        assert len({(range.strand, range.lo) for range in path.ranges}) == len(path.ranges)
        assert all(mine.hi < next.lo for mine, next in itertools.pairwise(path.ranges))

    async def test_children_of_an_unknown_id_are_none(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        assert await store.children(self.ref(), "nobody") == []
        assert await store.children(self.ref(), "a") == []

    async def test_newest_is_the_row_of_highest_seq_wherever_the_leaf_is(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await self.add(store, "x", parent="a")
        await store.checkout(self.ref(), "b")
        assert await store.newest(self.ref()) == await store.get(self.ref(), "x")
        await store.delete(self.ref(), ["x"])
        assert await store.newest(self.ref()) == await store.get(self.ref(), "b")

    async def test_windows_of_every_size_read_the_same_path(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        whole = await self.read(store)
        for limit in (1, 2, 3, 7, 1000):
            assert await self.read(store, limit=limit) == whole
            assert await self.read(store, limit=limit, newest_first=True) == whole[::-1]

    async def test_a_window_lies_between_two_seqs(self, store: AsyncStore) -> None:
        path = await self.zigzag(store)
        whole = await self.read(store)
        for after, before in itertools.combinations([0, *(m.seq for m in whole), whole[-1].seq + 1], 2):
            expected = [m for m in whole if after < m.seq < before]
            rows = await store.load(self.ref(), path, after_seq=after, before_seq=before)
            assert rows == expected
            rows = await store.load(self.ref(), path, after_seq=after, before_seq=before, newest_first=True, limit=2)
            assert rows == expected[::-1][:2]

    async def zigzag(self, store: AsyncStore) -> Path:
        """A path through several strands, with messages beside it and holes in it."""
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", "y", "z", parent="c")
        await self.add(store, "p", "q", parent="y")
        await self.add(store, "e", parent="d")
        await self.add(store, "r", "s", parent="q")
        await store.delete(self.ref(), ["b", "p", "x"])
        return await self.the_path(store)

    async def test_a_window_ends_once_its_bytes_reach_the_budget(self, store: AsyncStore) -> None:
        sizes = [10, 5000, 10, 10, 2000, 2000, 100_000, 10]
        for n, size in enumerate(sizes):
            await store.append(self.ref(), [self.message(f"m{n}", "x" * size)], parent=LEAF)
        whole, path = await self.read(store), await self.the_path(store)
        for rows, budget in itertools.product((whole, whole[::-1]), (0, 1, 100, 300, 2100, 5200, 10_000, 1_000_000)):
            newest_first = rows is not whole
            seen: list[Message] = []
            while len(seen) < len(rows):
                seq = seen[-1].seq if seen else None
                after, before = (None, seq) if newest_first else (seq, None)
                window = _messages(
                    await store.load(
                        self.ref(),
                        path,
                        after_seq=after,
                        before_seq=before,
                        newest_first=newest_first,
                        budget_bytes=budget,
                    )
                )
                assert window and window == rows[len(seen) : len(seen) + len(window)]
                assert len(window) == 1 or sum(m.bytes for m in window[:-1]) < budget
                seen += window
                following = [m.bytes for m in rows[len(seen) : len(seen) + 1]]
                assert not following or sum(m.bytes for m in window) + sum(following) > budget
            assert seen == rows

    async def test_a_message_larger_than_the_budget_comes_alone(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.append(self.ref(), [self.message("big", "x" * 3_000_000)], parent=LEAF)
        await self.add(store, "c")
        path = await self.the_path(store)
        big = await self.must(store, "big")
        assert await store.load(self.ref(), path, after_seq=big.seq - 1, budget_bytes=1000) == [big]
        assert await store.load(self.ref(), path, before_seq=big.seq + 1, newest_first=True, budget_bytes=1000) == [big]

    async def test_a_path_stays_as_it_was_fixed(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        path = await self.the_path(store)
        await self.add(store, "d")
        await self.add(store, "x", parent="a")
        await store.update(self.ref(), self.message("b", "updated"))
        await store.delete(self.ref(), ["c"])
        rows = _messages(await store.load(self.ref(), path))
        assert [(m.id, m.text) for m in rows] == [("a", "text of a"), ("b", "updated")]
        assert [row.id for row in await store.stats(self.ref(), path)] == ["a", "b"]

    async def test_a_path_does_not_outlive_its_incarnation(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        cleared = await self.the_path(store)
        await store.clear(self.ref())
        await self.add(store, "a")
        deleted = await self.the_path(store)
        await store.delete_session(self.ref())
        for path in (cleared, deleted):
            with pytest.raises(SessionDeletedError):
                await store.load(self.ref(), path)
            with pytest.raises(SessionDeletedError):
                await store.stats(self.ref(), path)
            with pytest.raises(SessionDeletedError):
                await store.suffix(self.ref(), path, count=1, budget_bytes=None)

    async def test_stats_tell_of_rows_without_their_content(self, store: AsyncStore) -> None:
        path = await self.zigzag(store)
        whole = await self.read(store)
        stats = await store.stats(self.ref(), path)
        assert [(s.id, s.seq, s.role, s.bytes, s.tokens) for s in stats] == [
            (m.id, m.seq, m.role, m.bytes, m.tokens) for m in whole
        ]
        times = [(m.created_at.timestamp()) for m in whole]
        assert [s.created_at_us / 1e6 for s in stats] == times
        assert await store.stats(self.ref(), path, limit=2) == stats[:2]
        assert await store.stats(self.ref(), path, after_seq=stats[1].seq) == stats[2:]
        assert await store.stats(self.ref(), path, after_seq=stats[0].seq, limit=2) == stats[1:3]
        assert await store.stats(self.ref(), path, after_seq=stats[-1].seq) == []

    async def suffix(
        self, store: AsyncStore, path: Path, *, count: int | None = None, budget_bytes: int | None = None
    ) -> int:
        """Where a suffix begins; the totals it comes with must be those of the whole path, its messages `load`'s."""
        suffix = await store.suffix(self.ref(), path, count=count, budget_bytes=budget_bytes)
        stats = await store.stats(self.ref(), path)
        assert (suffix.messages, suffix.bytes, suffix.tokens) == _sums(stats)
        if suffix.loaded:
            after = suffix.start_seq - 1
            assert suffix.loaded == await store.load(self.ref(), path, after_seq=after, limit=1000)
        bounds: dict[str, Any] = {"count": count, "budget_bytes": budget_bytes}
        fresh = await store.path(self.ref(), LEAF)
        assert fresh is not None
        assert await store.recent(self.ref(), LEAF, **bounds) == (
            fresh,
            await store.suffix(self.ref(), fresh, **bounds),
        )
        return suffix.start_seq

    async def test_a_suffix_by_count(self, store: AsyncStore) -> None:
        path = await self.zigzag(store)
        seqs = [s.seq for s in await store.stats(self.ref(), path)]
        assert await self.suffix(store, path, count=0) == 0
        for count in range(1, len(seqs) + 1):
            assert await self.suffix(store, path, count=count) == seqs[-count]
        assert await self.suffix(store, path, count=1000) == seqs[0]
        assert await self.suffix(store, path) == seqs[0]

    async def test_a_suffix_by_bytes_always_holds_the_newest(self, store: AsyncStore) -> None:
        path = await self.zigzag(store)
        stats = await store.stats(self.ref(), path)
        for n in range(1, len(stats) + 1):
            exact = sum(s.bytes for s in stats[-n:])
            assert await self.suffix(store, path, budget_bytes=exact) == stats[-n].seq
            assert await self.suffix(store, path, budget_bytes=exact - 1) == stats[-max(n - 1, 1)].seq
        assert await self.suffix(store, path, budget_bytes=0) == stats[-1].seq
        assert await self.suffix(store, path, count=0, budget_bytes=10_000) == 0

    async def test_a_suffix_keeps_both_bounds(self, store: AsyncStore) -> None:
        path = await self.zigzag(store)
        stats = await store.stats(self.ref(), path)
        two = stats[-1].bytes + stats[-2].bytes
        assert await self.suffix(store, path, count=3, budget_bytes=two) == stats[-2].seq
        assert await self.suffix(store, path, count=1, budget_bytes=two) == stats[-1].seq

    async def test_a_suffix_does_not_look_past_a_message_that_is_too_big(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.append(self.ref(), [self.message("big", "x" * 5000)], parent=LEAF)
        [c] = await self.add(store, "c")
        path = await self.the_path(store)
        assert await self.suffix(store, path, budget_bytes=1000) == c.message.seq

    async def test_a_suffix_tells_of_its_own_path_wherever_the_leaf_is(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        for leaf in ("e", "z", "c"):
            path = await self.the_path(store, leaf)
            assert await self.suffix(store, path, count=1) == (await self.must(store, leaf)).seq
        path = await self.the_path(store)
        await self.add(store, "t", "u")
        await store.delete(self.ref(), ["s"])
        assert await self.suffix(store, path, count=1) == (await self.must(store, "r")).seq

    async def test_the_leaf_is_a_message(self, store: AsyncStore) -> None:
        assert await store.leaf(self.ref()) is None
        await self.add(store, "a", "b")
        assert await store.leaf(self.ref()) == await store.get(self.ref(), "b")
        await store.delete(self.ref(), ["b"])
        assert await store.leaf(self.ref()) == await store.get(self.ref(), "a")
        await store.delete(self.ref(), ["a"])
        assert await store.leaf(self.ref()) is None

    async def test_everything_is_read_in_seq_order_with_parents(self, store: AsyncStore) -> None:
        assert await store.everything(self.ref()) == []
        await self.zigzag(store)
        await self.add(store, "root", parent=None, session=self.ref())
        expected = [await self.must(store, id) for id in ["a", "c", "d", "y", "z", "q", "e", "r", "s", "root"]]
        for limit in (1, 2, 3, 100):
            found: list[Message] = []
            while rows := await store.everything(self.ref(), after_seq=found[-1].seq if found else 0, limit=limit):
                assert len(rows) <= limit
                found += _messages(rows)
            assert found == expected
        assert await store.everything(self.ref(), budget_bytes=1) == expected[:1]
        assert await store.everything(self.ref(), budget_bytes=0) == expected[:1]

    async def test_everything_in_bounded_windows_holds_big_messages(self, store: AsyncStore) -> None:
        new = [self.message(f"m{n}", "x" * (3_000_000 if n == 2 else 10)) for n in range(5)]
        await store.append(self.ref(), new, parent=LEAF)
        found: list[Message] = []
        while rows := await store.everything(
            self.ref(), after_seq=found[-1].seq if found else 0, budget_bytes=2_000_000
        ):
            found += _messages(rows)
        assert [m.to_json() for m in found] == [m.body for m in new]

    async def test_a_path_has_changed_once_a_message_of_it_has(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b", "c")
        await self.add(store, "x", "y", parent="b")
        path = await self.the_path(store)
        await self.add(store, "z")
        await store.update(self.ref(), self.message("c", "beside the path"))
        await store.delete(self.ref(), ["c"])
        await store.checkout(self.ref(), "b")
        assert not await store.changed_since(self.ref(), path)
        await store.update(self.ref(), self.message("a", "on the path"))
        assert await store.changed_since(self.ref(), path)
        path = await self.the_path(store, "y")
        assert not await store.changed_since(self.ref(), path)
        await store.delete(self.ref(), ["x"])
        assert await store.changed_since(self.ref(), path)
        path = await self.the_path(store, "y")
        await store.clear(self.ref())
        assert await store.changed_since(self.ref(), path)

    async def test_totals_follow_every_write(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        await self.check_totals(store)
        await store.checkout(self.ref(), "e")
        await self.check_totals(store)
        await self.add(store, "f")
        await self.check_totals(store)
        await store.append(self.ref(), [self.message("g", tokens=1000)], parent="a", activate=False)
        await self.check_totals(store)
        await store.delete(self.ref(), ["e", "f", "z", "a"])
        await self.check_totals(store)
        await store.delete(self.ref(), ["c", "d"])
        await self.check_totals(store)

    # -- incarnations

    async def test_clear_empties_and_counts_on(self, store: AsyncStore) -> None:
        [*_, b] = await self.add(store, "a", "b")
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", name="n", metadata={"k": 1})
        before, session = await self.version(store), self.ref()
        assert await store.clear(session)
        info = await store.info(session)
        assert info is not None and info.version > before
        assert (info.name, info.metadata, info.totals) == ("n", {"k": 1}, Totals())
        assert await store.children(session, None) == []
        assert await self.leaf(store, session) is None
        [a] = await self.add(store, "a", session=session)
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq

    async def test_clear_of_an_absent_session_does_nothing(self, store: AsyncStore) -> None:
        assert not await store.clear(self.ref())
        assert await store.info(self.ref()) is None

    async def test_a_handle_from_before_clear_is_refused(self, store: AsyncStore) -> None:
        late = self.ref()
        await self.add(store, "a", session=late)
        await store.clear(self.ref())
        await self.check_refused(store, late)

    async def test_a_late_writer_of_a_deleted_session_is_refused(self, store: AsyncStore) -> None:
        late = self.ref()
        await self.add(store, "a", session=late)
        assert await store.delete_session(self.ref())
        await self.check_refused(store, late)
        assert late.over
        assert await store.info(self.ref()) is None

    async def test_a_late_writer_does_not_reach_the_new_session_with_its_id(self, store: AsyncStore) -> None:
        late = self.ref()
        [_, b] = await self.add(store, "a", "b", session=late)
        version = await self.version(store)
        await store.delete_session(self.ref())
        fresh = self.ref()
        [a] = await self.add(store, "a", session=fresh)
        assert fresh.incarnation != late.incarnation
        assert (a.inserted, a.message.parent_id) == (True, None)
        assert a.message.seq > b.message.seq
        assert await self.version(store) > version
        await self.check_refused(store, late)
        assert await self.history(store) == ["a"]

    async def check_refused(self, store: AsyncStore, late: SessionRef) -> None:
        """Hold that a ref bound to a life that is over can do nothing."""
        with pytest.raises(SessionDeletedError):
            await self.add(store, "late", session=late)
        with pytest.raises(SessionDeletedError):
            await store.update(late, self.message("a", "late"))
        with pytest.raises(SessionDeletedError):
            await store.delete(late, ["a"])
        with pytest.raises(SessionDeletedError):
            await store.checkout(late, "a")
        with pytest.raises(SessionDeletedError):
            await store.clear(late)
        with pytest.raises(SessionDeletedError):
            await store.update_state(late, {"late": True}, created_at_us=_now_us())
        with pytest.raises(SessionDeletedError):
            await store.fork(late, self.ref("copy"), at=None, created_at_us=_now_us())
        with pytest.raises(SessionDeletedError):
            await store.get(late, "a")
        with pytest.raises(SessionDeletedError):
            await store.path(late, LEAF)
        with pytest.raises(SessionDeletedError):
            await store.leaves(late)

    async def test_a_new_session_with_a_deleted_ones_id_starts_empty(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.put_session(
            self.ref(), created_at_us=_now_us(), create="ensure", name="old", owner="x", pinned=True
        )
        await store.update_state(self.ref(), {"k": 1}, created_at_us=_now_us())
        version = await self.version(store)
        await store.delete_session(self.ref())
        created = _now_us()
        described = await store.put_session(self.ref(), created_at_us=created, create="new")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata, info.totals) == (None, None, False, {}, Totals())
        assert info.created_at.timestamp() == created / 1e6
        assert info.version > version
        assert await store.state(self.ref()) == {}
        assert await store.get(self.ref(), "a") is None
        assert await store.children(self.ref(), None) == []

    async def test_a_session_that_has_left_a_version_is_not_deleted(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        version = await self.version(store)
        await self.add(store, "b")
        for other in (version, version + 2, 0):
            assert not await store.delete_session(self.ref(), version=other)
        assert await self.history(store) == ["a", "b"]
        assert await store.delete_session(self.ref(), version=version + 1)
        assert await store.info(self.ref()) is None
        assert not await store.delete_session(self.ref(), version=version + 1)

    async def test_deleting_a_session_leaves_its_neighbours(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await self.add(store, "a", "b", session=self.ref("other"))
        assert await store.delete_session(self.ref())
        assert not await store.delete_session(self.ref())
        assert not await store.delete_session(self.ref("nobody"))
        assert await self.history(store, session=self.ref("other")) == ["a", "b"]
        assert [i.id for i in (await store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["other"]

    # -- fork

    async def test_fork_copies_a_path_with_ids_seqs_and_times(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us()) == 6
        source, copy = await self.read(store), await self.read(store, session=self.ref("copy"))
        assert copy == source
        assert [m.created_at for m in copy] == [m.created_at for m in source]
        info = await store.info(self.ref("copy"))
        assert info is not None and info.parent_id == "s"
        await self.check_tree(store, self.ref("copy"))

    async def test_fork_at_a_message_copies_the_path_to_it(self, store: AsyncStore) -> None:
        await self.zigzag(store)
        assert await store.fork(self.ref(), self.ref("copy"), at="z", created_at_us=_now_us()) == 4
        assert await self.history(store, session=self.ref("copy")) == ["a", "c", "y", "z"]
        assert _ids(await store.leaves(self.ref("copy"))) == ["z"]

    async def test_a_fork_and_its_source_are_independent(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        await store.update(self.ref("copy"), self.message("a", "of the copy"))
        await store.delete(self.ref(), ["b"])
        await self.add(store, "c")
        [d] = await self.add(store, "d", session=self.ref("copy"))
        assert d.message.parent_id == "b"
        assert await self.history(store) == ["a", "c"]
        assert await self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        assert (await self.must(store, "a")).text == "text of a"
        await store.delete_session(self.ref())
        assert await self.history(store, session=self.ref("copy")) == ["a", "b", "d"]
        await self.check_tree(store, self.ref("copy"))

    async def test_a_fork_goes_on_after_the_seqs_it_copied(self, store: AsyncStore) -> None:
        [*_, c] = await self.add(store, "a", "b", "c")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        [d] = await self.add(store, "d", session=self.ref("copy"))
        assert d.message.seq > c.message.seq

    async def test_fork_into_a_session_that_exists_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await self.add(store, "x", session=self.ref("copy"))
        with pytest.raises(ConflictError):
            await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        with pytest.raises(ConflictError):
            await store.fork(self.ref(), self.ref(), at=None, created_at_us=_now_us())
        assert await self.history(store, session=self.ref("copy")) == ["x"]

    async def test_fork_into_a_deleted_sessions_id_starts_a_new_life(self, store: AsyncStore) -> None:
        await self.add(store, "x", "y", "z", session=self.ref("copy"))
        await store.delete_session(self.ref("copy"))
        await self.add(store, "a")
        target = self.ref("copy")
        assert await store.fork(self.ref(), target, at=None, created_at_us=_now_us()) == 1
        assert await self.history(store, session=target) == ["a"]
        [b] = await self.add(store, "b", session=target)
        assert b.message.seq > 3

    async def test_fork_of_nothing_copies_nothing(self, store: AsyncStore) -> None:
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us()) == 0

    async def test_fork_of_many_messages(self, store: AsyncStore) -> None:
        ids = [f"m{n}" for n in range(2500)]
        await self.add(store, *ids)
        assert await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us()) == 2500
        assert await self.history(store, session=self.ref("copy")) == ids
        await self.check_totals(store, self.ref("copy"))

    # -- stages

    async def test_a_stage_is_invisible_until_it_is_published(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None, kind="import")
        await store.append(stage, [self.message("x")], parent="a", kind="import", activate=False)
        await store.put_session(stage, created_at_us=_now_us(), create="ensure", name="n", metadata={"k": 1})
        assert await store.info(self.ref()) is None
        assert await store.get(self.ref(), "a") is None
        assert (await store.sessions(ALICE, cursor=None, limit=10)).sessions == []
        await store.publish(stage, self.ref())
        assert await self.history(store) == ["a", "p"]
        assert await self.history(store, "x") == ["a", "x"]
        assert (await self.must(store, "p")).parts[0]["url"] == _data_url(b"pixels")
        [info] = (await store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert (info.id, info.name, info.metadata) == ("s", "n", {"k": 1})
        assert info == await store.info(self.ref())
        await self.check_tree(store)

    async def test_a_published_stage_was_last_active_when_it_says(self, store: AsyncStore) -> None:
        before = _now_us()
        for id, at in (("old", 1_000_000), ("older", 1_000), ("future", before + 10**15), ("now", None)):
            stage = await store.stage(self.ref(id))
            await store.append(stage, [self.message("a")], parent=None, kind="import")
            await store.publish(stage, self.ref(id), active_at_us=at)
        found = (await store.sessions(ALICE, cursor=None, limit=10)).sessions
        assert [info.id for info in found] == ["now", "future", "old", "older"]
        active = [times.to_us(info.active_at) for info in found]
        assert active[2:] == [1_000_000, 1_000]
        assert before <= active[1] <= active[0]

    async def test_a_published_stage_is_no_handle_any_more(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None)
        held = SessionRef(stage.scope, stage.id, stage.incarnation)
        await store.publish(stage, self.ref())
        with pytest.raises((SessionDeletedError, NotFoundError)):
            await store.publish(held, self.ref("other"))
        with pytest.raises(SessionDeletedError):
            await store.append(held, [self.message("late")], parent=LEAF)
        assert await self.history(store) == ["a"]

    async def test_a_session_that_exists_is_not_staged_over(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a")], parent=None)
        await self.add(store, "x")
        with pytest.raises(ConflictError):
            await store.publish(stage, self.ref())
        with pytest.raises(ConflictError):
            await store.stage(self.ref())
        assert await self.history(store) == ["x"]
        await store.discard(stage)
        assert await self.history(store) == ["x"]

    async def test_a_discarded_stage_leaves_nothing(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("a"), self.picture("p", b"pixels")], parent=None)
        await store.discard(stage)
        await store.discard(stage)
        await self.check_payloads(store, 0)
        assert await store.info(self.ref()) is None
        with pytest.raises((SessionDeletedError, NotFoundError)):
            await store.publish(stage, self.ref())
        published = await store.stage(self.ref())
        await store.append(published, [self.message("a")], parent=None)
        await store.publish(published, self.ref())
        await store.discard(published)
        assert await self.history(store) == ["a"]

    async def test_a_stage_in_the_place_of_a_deleted_session_uses_no_number_again(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.delete_session(self.ref())
        stage = await store.stage(self.ref())
        await store.append(stage, [self.message("b")], parent=None)
        [*_, d] = await self.add(store, "c", "d", session=self.ref())  # somebody else is faster, and gone again
        version = await self.version(store)
        await store.delete_session(self.ref())
        await store.publish(stage, self.ref())
        assert await self.history(store) == ["b"]
        assert await self.version(store) > version
        [e] = await self.add(store, "e")
        assert e.message.seq > d.message.seq

    async def test_a_discarded_stage_leaves_nothing_for_the_next_session_to_trip_over(self, store: AsyncStore) -> None:
        stage = await store.stage(self.ref())
        await self.change_all(store, stage)
        await store.discard(stage)
        for id in ("s", "t"):
            await self.change_all(store, self.ref(id))
            assert await self.history(store, session=self.ref(id)) == ["a"]

    async def change_all(self, store: AsyncStore, session: SessionRef) -> None:
        """One of each change, so that a store records whatever it records of them."""
        await store.put_session(session, created_at_us=_now_us(), create="ensure", name="n", metadata={"k": 1})
        await store.update_state(session, {"k": 1}, created_at_us=_now_us())
        await self.add(store, "a", "b", session=session)
        await store.update(session, self.message("a", "changed"))
        await store.checkout(session, "a")
        await store.delete(session, ["b"])

    # -- merging: an ability a store may lack

    # -- overlays

    def overlaying(self, store: AsyncStore) -> AsyncOverlaying:
        """The store as one that keeps overlays; skips the test if it does not."""
        if not callable(getattr(store, "add_overlay", None)):
            pytest.skip("this store keeps no overlays")
        return cast("AsyncOverlaying", store)

    def overlay(self, id: str, first: str, last: str, summary: str | None = "in short") -> NewOverlay:
        """A compaction of a range, or an archive if there is no summary."""
        kind: OverlayKind = "archive" if summary is None else "compaction"
        return NewOverlay(id, kind, first, last, summary, 5, _now_us())

    async def laid(self, store: AsyncStore, leaf: Parent = LEAF, session: SessionRef | None = None) -> list[str]:
        """The overlays that a path shows."""
        path = await store.path(session or self.ref(), leaf)
        return [] if path is None else [laid.overlay.id for laid in path.laid]

    async def test_an_overlay_lies_on_the_paths_through_its_end(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="b")
        added = await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        assert (added.inserted, added.covered, added.overlay.left) == (True, False, 2)
        assert [await self.laid(store, leaf) for leaf in ("d", "c", "b", "x")] == [["o"], ["o"], [], []]
        path = await store.path(self.ref(), "d")
        assert path is not None and path.laid[0].parent_id == "a"
        assert [message.id for message in await store.load(self.ref(), path)] == ["a", "b", "c", "d"]
        assert await overlaying.covering(self.ref(), ["a", "c", "x", "?"]) == {"c": ["o"]}
        await store.delete(self.ref(), ["c"])
        assert [await self.laid(store, leaf) for leaf in ("d", "b", "x")] == [["o"], [], []]
        await self.add(store, "y", parent="b")
        assert await self.laid(store, "y") == []
        await store.delete(self.ref(), ["b"])
        assert await self.laid(store, "d") == []

    async def test_a_path_is_read_raw_or_as_its_overlays_leave_it(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e", "f")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        await overlaying.add_overlay(self.ref(), self.overlay("p", "e", "e", None))
        raw, path = await store.path(self.ref(), LEAF, raw=True), await self.the_path(store)
        assert raw is not None and raw.laid == () and raw.ranges == path.ranges
        assert (raw.leaf_id, raw.version, raw.incarnation) == (path.leaf_id, path.version, path.incarnation)
        for newest_first in (False, True):
            for limit in (1, 2, 50):
                options: dict[str, Any] = {"newest_first": newest_first, "limit": limit}
                rows = await store.load(self.ref(), path, shown=True, **options)
                left = ["f", "d", "a"] if newest_first else ["a", "d", "f"]
                assert [(row.id, row.parent_id) for row in rows] == [
                    (id, {"a": None, "d": "c", "f": "e"}[id]) for id in left[:limit]
                ]
                assert await store.load(self.ref(), raw, shown=True, **options) == await store.load(
                    self.ref(), path, **options
                )
        rows = await store.load(self.ref(), path, after_seq=rows[-1].seq, before_seq=rows[0].seq, shown=True)
        assert [row.id for row in rows] == ["d"]

    async def test_the_same_overlay_is_added_once(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c")
        new = self.overlay("o", "a", "b")
        first = await overlaying.add_overlay(self.ref(), new)
        info = await store.info(self.ref())
        again = await overlaying.add_overlay(self.ref(), new)
        assert (again.overlay, again.inserted) == (first.overlay, False)
        assert await store.info(self.ref()) == info
        assert await overlaying.overlay(self.ref(), "o") == first.overlay
        assert await overlaying.overlay(self.ref(), "?") is None

    async def test_overlays_are_disjoint_or_nested(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "d"))
        for first, last in (("a", "b"), ("a", "c"), ("c", "e"), ("d", "e"), ("c", "d"), ("b", "c"), ("c", "c")):
            with pytest.raises(ConflictError):
                await overlaying.add_overlay(self.ref(), self.overlay("p", first, last))
        covered = await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d", None))
        assert (covered.covered, covered.inserted, covered.overlay.id) == (True, False, "o")
        await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"))
        await overlaying.add_overlay(self.ref(), self.overlay("r", "a", "e"))
        assert await self.laid(store) == ["r"]
        for gone, left in (("r", ["q"]), ("q", ["o"]), ("o", [])):
            removed = await overlaying.remove_overlay(self.ref(), gone)
            assert removed is not None and removed.id == gone
            assert await self.laid(store) == left
        assert await overlaying.remove_overlay(self.ref(), "o") is None

    async def test_an_overlay_is_not_added_over_what_has_changed_since(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        info = await store.info(self.ref())
        assert info is not None
        await self.add(store, "e")
        await store.update(self.ref(), self.message("d", "changed"))
        added = await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), expect_version=info.version)
        assert added.inserted
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "d"), expect_version=info.version)
        await store.delete(self.ref(), ["a"])
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"), expect_version=info.version)
        with pytest.raises(NotFoundError):
            await overlaying.add_overlay(self.ref(), self.overlay("p", "a", "c"))

    async def test_a_span_of_a_path_is_covered_whatever_became_of_its_messages(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        await store.delete(self.ref(), ["b", "d"])
        path = await self.the_path(store)
        laid = path.laid[0].overlay
        await store.delete(self.ref(), ["e"])
        span = Span(path, laid.from_seq, laid.to_seq + 1)
        added = await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "d"), span=span)
        assert (added.inserted, added.overlay.from_seq, added.overlay.to_seq) == (True, laid.from_seq, laid.to_seq + 1)
        assert (added.overlay.from_id, added.overlay.to_id, added.overlay.left) == ("b", "d", 1)
        await store.update(self.ref(), self.message("c", "changed"))
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        await store.clear(self.ref())
        await self.add(store, "a", "b", "c", "d", session=self.ref())
        with pytest.raises(StaleValueError):
            await overlaying.add_overlay(self.ref(), self.overlay("q", "b", "d"), span=span)
        assert await overlaying.crossing(self.ref(), span) is None

    async def test_what_a_span_would_cross_is_told_on_whichever_branch(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d", "e")
        await self.add(store, "x", parent="c")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "x"))
        path = await store.path(self.ref(), "e")
        assert path is not None
        seqs = [message.seq for message in await store.load(self.ref(), path) if isinstance(message, Message)]
        for first, last, crosses in (
            (0, 0, False),
            (0, 1, True),
            (0, 2, True),
            (1, 2, False),
            (2, 3, False),
            (0, 4, False),
        ):
            other = await overlaying.crossing(self.ref(), Span(path, seqs[first], seqs[last]))
            assert (other is not None) == crosses, (first, last)
            assert other is None or other.id == "o"

    async def test_changes_below_make_an_overlay_stale_and_totals_follow(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"))
        before = await store.totals(self.ref())
        assert (before.path_messages, before.view_messages) == (4, 3)
        assert before.view_tokens == before.path_tokens - 2 * 3 + 5
        await store.update(self.ref(), self.message("b", "much longer than it was", tokens=30))
        assert [overlay.stale for overlay in await overlaying.overlays(self.ref())] == [True]
        after = await store.totals(self.ref())
        assert after.path_tokens > before.path_tokens
        assert (after.view_messages, after.view_bytes, after.view_tokens) == (
            before.view_messages,
            before.view_bytes,
            before.view_tokens,
        ), "what it shows is the same"
        await store.clear(self.ref())
        assert await overlaying.overlays(self.ref(), everywhere=True) == []

    async def test_a_fork_takes_the_overlays_of_its_path_along(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        await self.add(store, "x", parent="b")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "b", "c"), leaf="d")
        await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "x"))
        for at, laid in (("d", ["o"]), ("x", ["p"]), ("b", [])):
            target = self.ref(f"at {at}")
            await store.fork(self.ref(), target, at=at, created_at_us=_now_us())
            assert await self.laid(store, session=target) == laid
            assert [overlay.id for overlay in await overlaying.overlays(target, everywhere=True)] == laid

    async def test_overlays_of_staged_messages_are_published_with_them(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        stage = await store.stage(self.ref())
        await self.add(store, "a", "b", "c", session=stage)
        await overlaying.add_overlay(stage, self.overlay("o", "a", "b"))
        await store.publish(stage, self.ref())
        assert await self.laid(store) == ["o"]
        totals = await store.totals(self.ref())
        assert (totals.path_messages, totals.view_messages) == (3, 2)

    async def test_a_merge_keeps_the_overlays_of_staged_messages(self, store: AsyncStore) -> None:
        merging, overlaying = self.merging(store), self.overlaying(store)
        await self.add(store, "a", "b")
        stage = await merging.stage_more(self.ref(), 2)
        await self.add(store, "c", "d", session=stage)
        await overlaying.add_overlay(stage, self.overlay("o", "c", "c"))
        await self.add(store, "e")
        await merging.merge(stage, self.ref(), [Graft("c", "b")], None)
        assert [await self.laid(store, leaf) for leaf in ("d", "e")] == [["o"], []]
        assert [overlay.id for overlay in await overlaying.overlays(self.ref(), everywhere=True)] == ["o"]

    async def test_one_at_a_time_may_compact(self, store: AsyncStore) -> None:
        overlaying = self.overlaying(store)
        assert not await overlaying.claim_compaction(self.ref(), "me", until_us=_now_us() + 10**9)
        await self.add(store, "a")
        info = await store.info(self.ref())
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=_now_us() + 10**9)
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=_now_us() + 10**9), "to keep it longer"
        assert not await overlaying.claim_compaction(self.ref(), "you", until_us=_now_us() + 10**9)
        await overlaying.release_compaction(self.ref(), "you")
        assert not await overlaying.claim_compaction(self.ref(), "you", until_us=_now_us() + 10**9)
        await overlaying.release_compaction(self.ref(), "me")
        assert await overlaying.claim_compaction(self.ref(), "you", until_us=_now_us() - 1)
        assert await overlaying.claim_compaction(self.ref(), "me", until_us=_now_us() + 10**9), "that one has lapsed"
        assert await store.info(self.ref()) == info, "it is no change of the session"

    def merging(self, store: AsyncStore) -> AsyncMerging:
        """The store as one that can merge; skips the test if it cannot."""
        if not callable(getattr(store, "merge", None)):
            pytest.skip("this store cannot merge")
        return cast("AsyncMerging", store)

    async def test_a_merge_adds_staged_messages_below_those_that_are_there(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b")
        version = await self.version(store)
        stage = await merging.stage_more(self.ref(), 10)
        await store.append(stage, [self.message("c"), self.picture("p", b"pixels")], parent=None, kind="import")
        await store.append(stage, [self.message("x")], parent=None, kind="import")
        await store.append(stage, [self.message("root")], parent=None, kind="import")
        assert await self.history(store) == ["a", "b"]
        assert await merging.existing(self.ref(), ["a", "c", "b", "nobody"]) == {"a", "b"}
        assert await merging.merge(stage, self.ref(), [Graft("c", "b"), Graft("x", "a")], "p") == 4
        assert await self.history(store) == ["a", "b", "c", "p"]
        assert await self.history(store, "x") == ["a", "x"]
        assert _ids(await store.children(self.ref(), None)) == ["a", "root"]
        assert await self.version(store) == version + 5, "each message, and the record of the merge"
        assert await merging.existing(self.ref(), ["a", "c", "x", "nobody"]) == {"a", "c", "x"}
        await self.check_tree(store)
        await self.add(store, "d")
        assert await self.history(store) == ["a", "b", "c", "p", "d"]

    async def test_a_merge_takes_the_messages_alone(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "x")
        stage = await merging.stage_more(self.ref(), 2)
        await self.change_all(store, stage)
        before = await store.info(self.ref())
        assert await merging.merge(stage, self.ref(), [Graft("a", "x")], "a") == 1
        after = await store.info(self.ref())
        assert before is not None and after is not None
        assert (after.name, after.metadata, await store.state(self.ref())) == (None, {}, {})
        assert after.version > before.version
        await self.change_all(store, self.ref("t"))
        await self.add(store, "y")
        assert await self.history(store) == ["x", "a", "y"]

    async def test_a_merge_leaves_the_leaf_of_another_branch(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b", "c")
        stage = await merging.stage_more(self.ref(), 1)
        await store.append(stage, [self.message("x")], parent=None)
        await merging.merge(stage, self.ref(), [Graft("x", "b")], "x")
        assert await self.leaf(store) == "c"
        await self.check_tree(store)

    async def test_a_merge_meets_what_was_written_meanwhile(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b", "c")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "d")
        await self.add(store, "e", parent="b")
        await store.delete(self.ref(), ["a"])
        assert await merging.merge(stage, self.ref(), [Graft("x", "b")], "y") == 2
        assert await self.history(store, "y") == ["b", "x", "y"]
        assert await self.history(store, "d") == ["b", "c", "d"]
        assert await self.leaf(store) == "e"
        await self.check_tree(store)

    async def test_a_merge_below_a_message_that_came_after_its_stage(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "b")
        try:
            await merging.merge(stage, self.ref(), [Graft("x", "b")], "y")
        except ConflictError:  # the seqs set aside come before the parent's: a store may refuse it
            assert await self.history(store) == ["a", "b"]
        else:
            assert await self.history(store) == ["a", "b", "x", "y"]
        await self.check_tree(store)

    async def test_a_merge_is_refused_whole(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        await self.add(store, "a", "b")
        stage = await merging.stage_more(self.ref(), 2)
        await store.append(stage, [self.message("x"), self.message("y")], parent=None)
        await self.add(store, "y", parent="a")
        with pytest.raises(ConflictError):
            await merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        await store.delete(self.ref(), ["b", "y"])
        with pytest.raises(NotFoundError):
            await merging.merge(stage, self.ref(), [Graft("x", "b")], None)
        assert await self.history(store) == ["a"]
        await self.check_tree(store)
        await store.discard(stage)
        await self.check_tree(store)
        await store.delete_session(self.ref())
        with pytest.raises((NotFoundError, SessionDeletedError)):
            await merging.stage_more(self.ref(), 1)

    # -- the feed: an ability a store may lack

    def feeding(self, store: AsyncStore) -> AsyncFeeding:
        """The store as one that keeps a feed; skips the test if it does not."""
        if not callable(getattr(store, "changes", None)):
            pytest.skip("this store keeps no feed")
        return cast("AsyncFeeding", store)

    async def changes(
        self, store: AsyncStore, after: str | None = None, *, within: SessionRef | Scope | None = None, limit: int = 256
    ) -> list[Change]:
        """All changes after a cursor, page by page."""
        feeding, found, within = self.feeding(store), list[Change](), within or self.ref()
        while True:
            bounds = {"after": after, "limit": limit, "budget_bytes": 1 << 20}
            if isinstance(within, Scope):
                page = await feeding.scope_changes(within, **bounds)  # type: ignore[arg-type]
            else:
                page = await feeding.changes(within, **bounds)  # type: ignore[arg-type]
            assert len(page.changes) <= limit
            found, after = found + page.changes, page.cursor
            if not page.more:
                return found

    async def check_feed(self, store: AsyncStore, session: SessionRef) -> None:
        """Hold that a tree built from the feed alone is the session's."""
        parents: dict[str, str | None] = {}
        leaf: str | None = None
        version = 0
        for change in await self.changes(store, within=session, limit=2):
            assert change.version is not None and change.version > version
            version = change.version
            if change.kind in ("append", "import"):
                parents[change.ids[0]] = change.parent_id
            elif change.kind in ("clear", "delete session"):
                parents = {}
            for id in change.ids if change.kind == "delete" else ():
                above = parents.pop(id, None)
                parents = {child: above if up == id else up for child, up in parents.items()}
            leaf = change.leaf_id if change.leaf_moved else leaf
        rows = await store.everything(session, limit=1000)
        assert parents == {row.id: row.parent_id for row in rows}
        found = await store.leaf(session)
        assert leaf == (found.id if found else None)

    async def test_each_change_comes_once_in_order_with_what_there_is_now(self, store: AsyncStore) -> None:
        self.feeding(store)
        await self.add(store, "a", "b", "c")
        await store.update(self.ref(), self.message("a", "new"))
        await store.delete(self.ref(), ["b", "absent"])
        await store.checkout(self.ref(), "a")
        changes = await self.changes(store)
        assert [(change.version, change.kind, tuple(change.ids)) for change in changes] == [
            (1, "append", ("a",)),
            (3, "append", ("c",)),
            (4, "update", ("a",)),
            (5, "delete", ("b",)),
            (6, "checkout", ("a",)),
        ]
        assert changes[0].message is not None and changes[0].message.text == "new"
        assert [(change.leaf_moved, change.leaf_id) for change in changes[1::3]] == [(True, "c"), (True, "a")]
        assert changes[1].parent_id == "a"
        for limit in (1, 2, 3):
            assert await self.changes(store, limit=limit) == changes
        for n, change in enumerate(changes):
            assert await self.changes(store, change.cursor) == changes[n + 1 :]
        assert await self.changes(store, await self.feeding(store).changes_end(self.ref())) == []

    async def test_a_feed_is_bounded_by_bytes_too(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await store.append(self.ref(), [self.message(id, "x" * 500) for id in "abc"], parent=LEAF)
        page = await feeding.changes(self.ref(), after=None, limit=10, budget_bytes=1)
        assert [change.ids for change in page.changes] == [("a",)] and page.more

    async def test_a_feed_goes_on_over_clear_delete_and_a_new_life(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        assert await self.changes(store) == []
        await self.add(store, "a")
        mark = await feeding.changes_end(self.ref())
        await self.add(store, "gone")
        await store.clear(self.ref())
        await self.add(store, "b")
        await store.delete_session(self.ref())
        assert [change.kind for change in await self.changes(store, mark)] == ["clear", "delete session"]
        await self.add(store, "c")
        assert [change.kind for change in await self.changes(store, mark)] == ["clear", "delete session", "append"]
        late = self.ref()
        await self.changes(store, within=late)
        assert late.incarnation is None, "a feed binds nothing"

    async def test_the_feed_rebuilds_a_session_whatever_was_done(self, store: AsyncStore) -> None:
        self.feeding(store)
        await self.change_all(store, self.ref())
        await self.add(store, "k", "l", "m")
        await store.append(self.ref(), [self.message("n")], parent="k", kind="import", activate=False)
        await self.check_feed(store, self.ref())
        await store.delete(self.ref(), ["m", "l", "k"])
        await self.check_feed(store, self.ref())
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        await self.check_feed(store, self.ref("copy"))
        stage = await store.stage(self.ref("new"))
        await store.append(stage, [self.message("s"), self.message("t")], parent=None, kind="import")
        await store.append(stage, [self.message("u")], parent="s", kind="import")
        await store.publish(stage, self.ref("new"))
        await self.check_feed(store, self.ref("new"))

    async def test_a_merge_is_on_the_feed_wherever_a_reader_stops(self, store: AsyncStore) -> None:
        merging = self.merging(store)
        self.feeding(store)
        await self.add(store, "a", "b")
        first, second = await merging.stage_more(self.ref(), 3), await merging.stage_more(self.ref(), 3)
        await self.add(store, "c", "d", session=first)
        await self.add(store, "e", "f", session=second)
        if callable(getattr(store, "add_overlay", None)):
            await self.overlaying(store).add_overlay(second, self.overlay("o", "e", "e"))
        await self.add(store, "g", session=second)
        await self.add(store, "h")
        mark = (await self.changes(store))[-1].cursor
        await merging.merge(second, self.ref(), [Graft("e", "b")], None)
        await self.add(store, "i")
        await merging.merge(first, self.ref(), [Graft("c", "b")], None)
        await self.check_feed(store, self.ref())
        whole = await self.changes(store, mark)
        told = [id for change in whole if change.message for id in change.ids]
        assert told == ["e", "f", "g", "i", "c", "d"]
        assert await self.changes(store, mark, limit=1) == whole

    async def test_overlays_come_with_their_changes(self, store: AsyncStore) -> None:
        self.feeding(store)
        overlaying = self.overlaying(store)
        await self.add(store, "a", "b", "c", "d")
        mark = (await self.changes(store))[-1].cursor
        await overlaying.add_overlay(self.ref(), self.overlay("o", "a", "b"), change="compact")
        await overlaying.add_overlay(self.ref(), self.overlay("p", "d", "d", None))
        await store.update(self.ref(), self.message("a", "new"))
        await overlaying.remove_overlay(self.ref(), "p")
        changes = await self.changes(store, mark)
        told = [(change.kind, tuple(change.ids), change.overlay and change.overlay.stale) for change in changes]
        assert told == [
            ("compact", ("o",), True),
            ("overlay", ("p",), None),
            ("update", ("a",), None),
            ("overlay", ("o",), True),
            ("overlay", ("p",), None),
        ]
        assert [change.removed for change in changes] == [False, False, False, False, True]

    async def test_cursors_of_anything_else_are_refused(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await self.add(store, "a")
        ends = [
            await feeding.changes_end(self.ref("t")),
            await feeding.changes_end(self.ref("s", BOB)),
            await feeding.scope_changes_end(ALICE),
        ]
        for wrong in ["", "nonsense", "é", *ends]:
            with pytest.raises(UsageError):
                await self.changes(store, wrong)
        for wrong in ["", "nonsense", await feeding.changes_end(self.ref()), await feeding.scope_changes_end(BOB)]:
            with pytest.raises(UsageError):
                await self.changes(store, wrong, within=ALICE)

    async def test_a_cursor_older_than_what_was_pruned_has_expired(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        await self.add(store, "a")
        old = await feeding.changes_end(self.ref())
        for n in range(5):
            await store.update(self.ref(), self.message("a", str(n)))
        late = await feeding.changes_end(self.ref())
        assert await feeding.prune_changes(BOB, before_us=None, keep=0) == 0
        assert await feeding.prune_changes(ALICE, before_us=1, keep=None) == 0
        assert await feeding.prune_changes(ALICE, before_us=None, keep=2) == 3
        with pytest.raises(CursorExpiredError):
            await self.changes(store, old)
        assert await self.changes(store, late) == []
        for limit in (1, 5):
            assert [change.kind for change in await self.changes(store, limit=limit)] == ["append", "update", "update"]

    async def test_a_scope_is_told_of_its_own_sessions_each_in_order(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        for id in ("s", "t", "u"):
            await self.add(store, "a", "b", session=self.ref(id))
            await self.add(store, "theirs", session=self.ref(id, BOB))
        mark = await feeding.scope_changes_end(ALICE)
        await store.delete_session(self.ref("t"))
        await self.add(store, "c", session=self.ref("u"))
        await self.add(store, "a", session=self.ref("v"))
        for limit in (1, 2, 50):
            seen: dict[str, list[int]] = {}
            for change in await self.changes(store, within=ALICE, limit=limit):
                versions = seen.setdefault(change.session_id, [])
                if change.version not in versions:  # one may come again
                    assert not versions or (change.version or 0) > versions[-1]
                    versions.append(change.version or 0)
            assert seen == {"s": [1, 2], "t": [3], "u": [1, 2, 3], "v": [1]}
            later = {(c.session_id, c.kind) for c in await self.changes(store, mark, within=ALICE, limit=limit)}
            assert later >= {("t", "delete session"), ("u", "append"), ("v", "append")}
        assert await self.changes(store, await feeding.scope_changes_end(ALICE), within=ALICE) == []

    async def test_a_write_is_seen_in_the_number_of_commits(self, store: AsyncStore) -> None:
        feeding = self.feeding(store)
        before = await feeding.commits()
        await self.add(store, "a")
        assert before is None or await feeding.commits() != before

    # -- search: an ability a store may lack

    def searchable(self, store: AsyncStore) -> AsyncSearchable:
        """The store as one that can be searched; skips the test if it cannot."""
        if not callable(getattr(store, "search", None)):
            pytest.skip("this store has no search")
        return cast("AsyncSearchable", store)

    async def found(
        self, store: AsyncStore, query: str, within: SessionRef | Scope | None = None, **options: Any
    ) -> list[str]:
        """The ids that a search finds, newest first."""
        given: dict[str, Any] = {"newest_first": True, "limit": 99, **options}
        return [hit.id for hit in await self.searchable(store).search(within or self.ref(), Search(query, **given))]

    async def say(self, store: AsyncStore, **texts: str) -> None:
        """Append one message for each text, as a chain."""
        await store.append(self.ref(), [self.message(id, text) for id, text in texts.items()], parent=LEAF)

    async def test_a_search_finds_the_messages_that_hold_every_word(self, store: AsyncStore) -> None:
        self.searchable(store)
        await self.say(store, a="deploy it to production", b="production deploys", c="deploy")
        assert await self.found(store, "deploy production") == ["b", "a"]
        assert await self.found(store, "PRODUCTION") == ["b", "a"]
        assert await self.found(store, '"production deploy"') == ["b"]
        assert await self.found(store, "production absent") == []

    async def test_a_search_finds_any_piece_of_text_without_spaces(self, store: AsyncStore) -> None:
        self.searchable(store)
        await self.say(
            store,
            zh="重跑gen-itgc后50条悬空引用",
            ja="日本語のテスト",
            ko="한국어 검색을",
            th="ภาษาไทยไม่มี",
            e="a 🎉 party",
        )
        for query, id in [("悬", "zh"), ("itgc", "zh"), ("テス", "ja"), ("색", "ko"), ("ไทย", "th"), ("🎉", "e")]:
            assert await self.found(store, query) == [id], query

    async def test_any_text_is_searched_for_and_any_text_is_found(self, store: AsyncStore) -> None:
        self.searchable(store)
        for n, text in enumerate(HOSTILE_TEXTS):
            await store.append(self.ref(), [self.message(f"m{n}", f"{text} tail")], parent=LEAF)
            await self.found(store, text)
            await self.found(store, f'"{text}"', ALICE, newest_first=False)
        assert len(await self.found(store, "tail")) == len(HOSTILE_TEXTS)

    @pytest.mark.parametrize("query", ["", " ", '"', "()", "\x00", "\ud800", "..."])
    async def test_a_query_without_a_word_asks_for_nothing(self, store: AsyncStore, query: str) -> None:
        self.searchable(store)
        await self.say(store, a="words", b=query)
        assert await self.found(store, query) == []

    async def test_the_better_match_comes_first_and_equal_ones_newest_first(self, store: AsyncStore) -> None:
        searchable = self.searchable(store)
        texts = {f"weak{n}": "much is said here, and the lighthouse is named once" for n in range(9)}
        await self.say(store, strong="lighthouse lighthouse", **texts)
        hits = await searchable.search(self.ref(), Search("lighthouse"))
        assert [hit.id for hit in hits] == ["strong", *reversed(texts)]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        paged = [await searchable.search(self.ref(), Search("lighthouse", limit=3, offset=at)) for at in (0, 3, 6, 9)]
        assert [hit.id for page in paged for hit in page] == [hit.id for hit in hits]

    async def test_filters_of_a_search_come_before_its_limit(self, store: AsyncStore) -> None:
        self.searchable(store)
        days = [_NEW_YEAR_US + n * 86_400_000_000 for n in range(30)]
        roles = ["assistant", "system", *["user"] * 28]
        messages = [
            self.message(f"m{n}", "tea", role=role, at_us=at)
            for n, (role, at) in enumerate(zip(roles, days, strict=True))
        ]
        await store.append(self.ref(), messages, parent=LEAF, kind="import")
        for newest_first in (True, False):
            options: dict[str, Any] = {"limit": 1, "newest_first": newest_first}
            assert await self.found(store, "tea", roles=("assistant",), **options) == ["m0"]
            assert await self.found(store, "tea", roles=("assistant", "system"), **options) == ["m1"]
            assert await self.found(store, "tea", until_us=days[3], **options) == ["m2"]
            assert await self.found(store, "tea", since_us=days[2], until_us=days[3], **options) == ["m2"]
        assert await self.found(store, "tea", limit=0) == []
        assert await self.found(store, "tea", limit=2, offset=29) == ["m0"]

    async def test_a_search_looks_at_all_branches_or_at_one_path(self, store: AsyncStore) -> None:
        searchable = self.searchable(store)
        await self.say(store, a="tea", b="tea", c="tea")
        await store.append(self.ref(), [self.message("d", "tea")], parent="a")
        assert await self.found(store, "tea") == ["d", "c", "b", "a"]
        assert await self.found(store, "tea", branches=False, leaf=LEAF) == ["d", "a"]
        assert await self.found(store, "tea", branches=False, leaf="b") == ["b", "a"]
        assert await self.found(store, "tea", branches=False, leaf="nobody") == []
        hits = await searchable.search(self.ref(), Search("tea", newest_first=True))
        assert [hit.on_path for hit in hits] == [True, False, False, True]
        assert [hit.leaf_id for hit in hits] == ["d", "c", "c", "d"]

    async def test_a_scope_is_searched_and_no_other(self, store: AsyncStore) -> None:
        self.searchable(store)
        for n, scope in enumerate([ALICE, *NEIGHBOURS]):
            await store.append(self.ref(f"s{n}", scope), [self.message(f"m{n}", "tea")], parent=LEAF)
        await store.append(self.ref("t"), [self.message("t", "tea")], parent=LEAF)
        assert sorted(await self.found(store, "tea", ALICE)) == ["m0", "t"]
        for n, scope in enumerate(NEIGHBOURS, 1):
            assert await self.found(store, "tea", scope, newest_first=n % 2 == 0) == [f"m{n}"]
        assert await self.found(store, "tea", self.ref("nobody")) == []

    async def test_what_is_searched_follows_every_write(self, store: AsyncStore) -> None:
        self.searchable(store)
        await self.say(store, a="tea", b="tea", c="tea")
        assert await self.found(store, "tea") == ["c", "b", "a"]
        await store.update(self.ref(), self.message("b", "coffee"))
        await store.delete(self.ref(), ["c"])
        await self.say(store, d="tea")
        assert await self.found(store, "tea") == ["d", "a"]
        assert await self.found(store, "coffee", ALICE) == ["b"]
        await store.fork(self.ref(), self.ref("copy"), at="b", created_at_us=_now_us())
        assert await self.found(store, "coffee", self.ref("copy")) == ["b"]
        stage = await store.stage(self.ref("new"))
        await store.append(stage, [self.message("s", "tea")], parent=None, kind="import")
        assert "s" not in await self.found(store, "tea", ALICE)
        await store.publish(stage, self.ref("new"))
        assert await self.found(store, "tea", self.ref("new")) == ["s"]
        await store.clear(self.ref())
        await store.delete_session(self.ref("copy"))
        assert await self.found(store, "tea coffee", ALICE) == await self.found(store, "coffee", ALICE) == []
        assert await self.found(store, "tea", ALICE) == ["s"]

    async def test_what_an_overlay_covers_is_found_and_says_so(self, store: AsyncStore) -> None:
        searchable, overlaying = self.searchable(store), self.overlaying(store)
        await self.say(store, a="tea", b="tea", c="tea")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "a", "b"))
        hits = await searchable.search(self.ref(), Search("tea", newest_first=True))
        assert [(hit.id, hit.covered) for hit in hits] == [("c", False), ("b", True), ("a", True)]

    async def test_what_is_covered_on_another_branch_alone_is_not_said_to_be(self, store: AsyncStore) -> None:
        searchable, overlaying = self.searchable(store), self.overlaying(store)
        await self.say(store, a="tea", b="tea", c="tea")
        await store.append(self.ref(), [self.message("d", "tea")], parent="a")
        await overlaying.add_overlay(self.ref(), self.overlay("o", "a", "c"), leaf="c")
        await overlaying.add_overlay(self.ref(), self.overlay("p", "b", "b", None), leaf="b")
        hits = await searchable.search(self.ref(), Search("tea", newest_first=True))
        where = [(hit.id, hit.on_path, hit.covered) for hit in hits]
        assert where == [("d", True, False), ("c", False, True), ("b", False, True), ("a", True, False)]

    async def test_what_others_found_is_shown_if_it_is_there_and_passes_the_filters(self, store: AsyncStore) -> None:
        searchable = self.searchable(store)
        await self.say(store, a="tea here", b="coffee", c="tea")
        await store.append(self.ref(), [self.message("d", "aside", role="assistant")], parent="a")
        await store.append(self.ref("t"), [self.message("e", "tea")], parent=LEAF)
        keys = [
            ("s", "d"),
            ("t", "e"),
            ("s", "gone"),
            ("nobody", "a"),
            ("s", "b"),
            ("s", "a"),
            ("s", "b"),
            ("s", "n\x00"),
        ]

        async def shown(within: SessionRef | Scope, **options: Any) -> list[str]:
            return [hit.id for hit in await searchable.hits(within, keys, Search("here", **options))]

        assert await shown(ALICE) == ["d", "e", "b", "a"]
        assert await shown(self.ref()) == ["d", "b", "a"]
        assert await shown(self.ref(), roles=("assistant",)) == ["d"]
        assert await shown(self.ref(), branches=False, leaf="c") == ["b", "a"]
        assert await shown(BOB) == []
        hit = (await searchable.hits(self.ref(), [("s", "a")], Search("here")))[0]
        assert (hit.snippet, hit.highlights, hit.leaf_id, hit.on_path) == ("tea here", ((4, 8),), "d", True)

    async def test_a_late_handle_searches_no_other_life(self, store: AsyncStore) -> None:
        searchable = self.searchable(store)
        late = self.ref()
        await store.append(late, [self.message("a", "tea")], parent=LEAF)
        await store.delete_session(self.ref())
        await self.say(store, b="tea")
        with pytest.raises(SessionDeletedError):
            await searchable.search(late, Search("tea"))

    async def test_an_index_built_ahead_changes_no_answer(self, store: AsyncStore) -> None:
        searchable = self.searchable(store)
        await self.say(store, **{f"m{n}": f"tea {n}" for n in range(30)})
        before = await self.found(store, "tea")
        for rebuild in (False, True):
            await searchable.build_search_index(rebuild=rebuild, progress=lambda done, left: None)
            assert await self.found(store, "tea") == before
        assert len(before) == 30

    # -- scopes

    async def test_no_scope_reads_another(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.append(self.ref(), [self.picture("p", b"pixels")], parent=LEAF)
        await store.update_state(self.ref(), {"secret": 1}, created_at_us=_now_us())
        path = await self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert await store.get(session, "a") is None
            assert await store.path(session, LEAF) is None
            assert await store.path(session, "b") is None
            assert await store.newest(session) is None
            assert await store.children(session, None) == []
            assert await store.children(session, "a") == []
            assert await store.leaves(session) == []
            assert await store.leaf(session) is None
            assert await store.everything(session) == []
            assert await store.totals(session) == Totals()
            assert await store.info(session) is None
            assert await store.state(session) == {}
            assert (await store.sessions(scope, cursor=None, limit=10)).sessions == []
            with pytest.raises(SessionDeletedError):
                await store.load(session, path)
            with pytest.raises(SessionDeletedError):
                await store.stats(session, path)
            with pytest.raises(SessionDeletedError):
                await store.suffix(session, path, count=1, budget_bytes=None)
            with pytest.raises(NotFoundError):
                await _drain(store.read_attachment(session, "p", 0))

    async def test_no_scope_reads_another_through_a_path_of_its_neighbour(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        path = await self.the_path(store)
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            await self.add(store, "mine", session=session)
            try:
                rows: Sequence[Any] = await store.load(session, path)
                rows = [*rows, *await store.stats(session, path)]
            except SessionDeletedError:
                rows = []
            assert {row.id for row in rows} <= {"mine"}

    async def test_no_scope_writes_another(self, store: AsyncStore) -> None:
        await self.add(store, "a", "b")
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", name="n", owner="o")
        before = await store.info(self.ref())
        for scope in NEIGHBOURS:
            session = self.ref(scope=scope)
            assert await store.update(session, self.message("a", "changed")) is None
            assert await store.delete(session, ["a", "b"]) == []
            assert not await store.clear(session)
            assert not await store.delete_session(session)
            with pytest.raises(NotFoundError):
                await store.checkout(session, "a")
            with pytest.raises(NotFoundError):
                await self.add(store, "c", parent="a", session=session)
            assert await store.fork(session, self.ref("copy", scope), at="b", created_at_us=_now_us()) == 0
            absent = await store.put_session(session, created_at_us=_now_us(), create="never", name="m")
            assert absent is None
            await store.put_session(session, created_at_us=_now_us(), create="new", name="theirs", owner="them")
            await store.update_state(session, {"k": "theirs"}, created_at_us=_now_us())
            await self.add(store, "x", session=session)
            assert await self.history(store, session=session) == ["x"]
            await store.delete_session(session)
        assert await store.info(self.ref()) == before
        assert await self.history(store) == ["a", "b"]
        assert await store.state(self.ref()) == {}

    # -- catalogue

    async def test_a_session_is_created_by_its_first_write(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        info = await store.info(self.ref())
        assert info is not None
        assert (info.id, info.name, info.owner, info.parent_id, info.pinned) == ("s", None, None, None, False)
        assert (info.metadata, info.version) == ({}, 1)
        assert info.totals == await store.totals(self.ref())
        assert info.created_at.tzinfo is not None and info.active_at.tzinfo is not None

    async def test_create_new_refuses_one_that_exists(self, store: AsyncStore) -> None:
        at_us = _now_us()
        described = await store.put_session(
            self.ref(),
            created_at_us=at_us,
            create="new",
            name="n",
            owner="o",
            parent_id="p",
            pinned=True,
            metadata={"k": [1]},
        )
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.parent_id, info.pinned, info.metadata) == ("n", "o", "p", True, {"k": [1]})
        assert info.created_at.timestamp() == at_us / 1e6
        assert await store.info(self.ref()) == info
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=_now_us(), create="new", name="other")
        assert await store.info(self.ref()) == info
        assert await self.history(store) == []

    async def test_create_new_refuses_one_made_by_an_append(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=_now_us(), create="new")

    async def test_create_never_answers_none_for_an_absent_one(self, store: AsyncStore) -> None:
        assert await store.put_session(self.ref(), created_at_us=_now_us(), create="never", name="n") is None
        assert await store.info(self.ref()) is None
        await self.add(store, "a")
        described = await store.put_session(self.ref(), created_at_us=_now_us(), create="never", name="n")
        info = described.info if described else None
        assert info is not None and info.name == "n"

    async def test_what_is_not_given_stays(self, store: AsyncStore) -> None:
        await store.put_session(
            self.ref(), created_at_us=_now_us(), create="new", name="n", owner="o", pinned=True, metadata={"k": 1}
        )
        described = await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure")
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("n", "o", True, {"k": 1})
        described = await store.put_session(self.ref(), created_at_us=_now_us(), create="never", name="m", pinned=False)
        info = described.info if described else None
        assert info is not None
        assert (info.name, info.owner, info.pinned, info.metadata) == ("m", "o", False, {"k": 1})

    async def test_put_once_sets_nothing_of_a_session_that_is_there_but_a_missing_owner(
        self, store: AsyncStore
    ) -> None:
        given: dict[str, Any] = {"name": "n", "pinned": True, "metadata": {"k": 1}}
        await store.put_session(self.ref(), created_at_us=_now_us(), create="once", **given)
        for owner, changed in ((None, False), ("o", True), ("o", False)):
            put = await store.put_session(
                self.ref(), created_at_us=_now_us(), create="once", owner=owner, name="m", metadata={"late": 1}
            )
            assert put is not None and put.changed == changed
            info = put.info
            assert (info.name, info.owner, info.pinned, info.metadata) == ("n", owner, True, {"k": 1})
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=_now_us(), create="once", owner="p")

    async def test_putting_says_whether_it_changed_anything(self, store: AsyncStore) -> None:
        for name, pinned, changed in (
            (None, None, True),
            (None, None, False),
            ("n", None, True),
            ("n", None, False),
            (None, True, True),
        ):
            put = await store.put_session(
                self.ref(), created_at_us=_now_us(), create="ensure", name=name, pinned=pinned
            )
            assert put is not None and put.changed == changed
            assert put.info == await store.info(self.ref())

    async def test_putting_what_is_there_changes_nothing(self, store: AsyncStore) -> None:
        given: dict[str, Any] = {"name": "n", "owner": "o", "pinned": True, "metadata": {"k": 1}}
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", **given)
        before = await self.version(store)
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", **given)
        await store.put_session(self.ref(), created_at_us=_now_us(), create="never", metadata={"absent": None})
        assert await self.version(store) == before
        await store.put_session(self.ref(), created_at_us=_now_us(), create="never", name="m")
        assert await self.version(store) == before + 1

    async def test_metadata_is_merged_per_key(self, store: AsyncStore) -> None:
        await self.merge(store, {"a": 1, "b": {"x": 1}})
        await self.merge(store, {"b": {"y": 2}, "c": "é\x00\ud800"})
        info = await self.merge(store, {"a": None, "nobody": None})
        assert info == {"b": {"y": 2}, "c": "é\x00\ud800"}
        assert await self.merge(store, {"n": 2**70, "f": 1.5, "z": False}) == {**info, "n": 2**70, "f": 1.5, "z": False}

    async def merge(self, store: AsyncStore, patch: dict[str, Any]) -> dict[str, Any]:
        """Merge metadata and answer what it is then."""
        described = await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", metadata=patch)
        info = described.info if described else None
        assert info is not None and info == await store.info(self.ref())
        return info.metadata

    async def test_an_owner_is_set_once(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", owner="o")
        await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", owner="o")
        before = await store.info(self.ref())
        with pytest.raises(ConflictError):
            await store.put_session(self.ref(), created_at_us=_now_us(), create="ensure", owner="p", name="n")
        assert await store.info(self.ref()) == before

    async def test_state_is_merged_per_key_and_creates_the_session(self, store: AsyncStore) -> None:
        stated = await store.update_state(self.ref(), {"a": 1, "b": {"x": 1}}, created_at_us=_now_us())
        assert stated.state == {"a": 1, "b": {"x": 1}}
        assert await store.info(self.ref()) is not None
        merged = await store.update_state(self.ref(), {"b": [2], "a": None, "c": 3}, created_at_us=_now_us())
        assert merged.state == {"b": [2], "c": 3} == await store.state(self.ref())
        assert await store.state(self.ref("other")) == {}
        assert await self.history(store) == []

    async def test_a_patch_of_the_state_says_whether_it_changed_anything(self, store: AsyncStore) -> None:
        patches: list[tuple[dict[str, Any], bool]] = [
            ({"k": 1}, True),
            ({"k": 1}, False),
            ({"k": True}, True),
            ({"k": 1.0}, True),
            ({"nobody": None}, False),
            ({"k": None}, True),
            ({}, False),
        ]
        for patch, changed in patches:
            stated = await store.update_state(self.ref(), patch, created_at_us=_now_us())
            assert (stated.changed, stated.state) == (changed, await store.state(self.ref()))

    async def test_state_and_metadata_are_apart(self, store: AsyncStore) -> None:
        await store.update_state(self.ref(), {"k": "state"}, created_at_us=_now_us())
        await self.merge(store, {"k": "metadata"})
        assert await store.state(self.ref()) == {"k": "state"}

    async def test_sessions_are_listed_by_last_activity(self, store: AsyncStore) -> None:
        for id in "abc":
            await self.add(store, "m", session=self.ref(id))
        await self.add(store, "n", session=self.ref("a"))
        page = await store.sessions(ALICE, cursor=None, limit=10)
        assert [info.id for info in page.sessions] == ["a", "c", "b"]
        assert page.cursor is None
        assert page.sessions[0] == await store.info(self.ref("a"))
        await store.update(self.ref("b"), self.message("m", "updated"))
        await store.delete_session(self.ref("c"))
        assert [i.id for i in (await store.sessions(ALICE, cursor=None, limit=10)).sessions] == ["b", "a"]

    async def test_pages_list_every_session_once(self, store: AsyncStore) -> None:
        ids = [f"s{n}" for n in range(23)]
        for id in ids:
            await self.add(store, "m", session=self.ref(id))
        for limit in (1, 2, 7, 22, 23, 24):
            assert [id for page in await self.pages(store, limit) for id in page] == ids[::-1]

    async def test_sessions_of_one_instant_are_listed_once(self, store: AsyncStore) -> None:
        at_us = _now_us()
        for n in range(17):
            await store.append(self.ref(f"s{n}"), [self.message("m", at_us=at_us)], parent=LEAF)
        for limit in (1, 4, 17):
            pages = await self.pages(store, limit)
            assert sorted(id for page in pages for id in page) == sorted(f"s{n}" for n in range(17))

    async def pages(self, store: AsyncStore, limit: int) -> list[list[str]]:
        """The ids of every page of a listing."""
        pages: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await store.sessions(ALICE, cursor=cursor, limit=limit)
            assert 0 < len(page.sessions) <= limit
            pages.append([info.id for info in page.sessions])
            cursor = page.cursor
        return pages

    async def test_a_session_untouched_meanwhile_is_listed_exactly_once(self, store: AsyncStore) -> None:
        ids = [f"s{n:02}" for n in range(20)]
        for id in ids:
            await self.add(store, "m", session=self.ref(id))
        touched, listed = {"s02", "s11", "s19", "new0", "new1", "new2"}, list[str]()
        page = await store.sessions(ALICE, cursor=None, limit=4)
        for n in itertools.count():
            listed += [info.id for info in page.sessions]
            if page.cursor is None:
                break
            if n < 3:
                await self.add(store, f"m{n}", session=self.ref(["s19", "s11", "s02"][n]))
                await self.add(store, "m", session=self.ref(f"new{n}"))
            page = await store.sessions(ALICE, cursor=page.cursor, limit=4)
        untouched = [id for id in listed if id not in touched]
        assert untouched == [id for id in reversed(ids) if id not in touched]

    async def test_a_cursor_survives_the_session_it_ended_on(self, store: AsyncStore) -> None:
        for id in "abcdef":
            await self.add(store, "m", session=self.ref(id))
        page = await store.sessions(ALICE, cursor=None, limit=3)
        await store.delete_session(self.ref("d"))
        rest = await store.sessions(ALICE, cursor=page.cursor, limit=10)
        assert [info.id for info in rest.sessions] == ["c", "b", "a"]

    async def test_a_foreign_cursor_is_refused(self, store: AsyncStore) -> None:
        for id, scope in itertools.product("abc", (ALICE, BOB)):
            await self.add(store, "m", session=self.ref(id, scope))
        page = await store.sessions(BOB, cursor=None, limit=1)
        assert page.cursor is not None
        for cursor in ("", "nonsense", "!!!", "é", "AAAA", page.cursor[:-3], page.cursor):
            with pytest.raises(UsageError):
                await store.sessions(ALICE, cursor=cursor, limit=10)

    # -- content

    async def test_what_is_appended_is_what_is_read(self, store: AsyncStore) -> None:
        contents = list(_odd_contents())
        for n, content in enumerate(contents):
            await store.append(self.ref(), [self.raw(f"m{n}", content)], parent=LEAF)
        stored = await self.read(store)
        assert [message.to_json() for message in stored] == [jsontext.encode(content) for content in contents]
        for message, content in zip(stored, contents, strict=True):
            assert message.to_dict() == content
            assert list(message.to_dict()) == list(content)
            assert message.bytes == len(jsontext.encode(content).encode())
            assert await store.get(self.ref(), message.id) == message

    async def test_json_text_is_kept_to_the_letter(self, store: AsyncStore) -> None:
        body = ' {"role" :"user","parts":[ ],"id":"a","n":1.0,"e":1e2,"E":1E+2,"u":"\\u0041\\/","n":-0.0, "n":2}\n'
        new = NewMessage("a", "user", "plait", body, len(body), 1, _now_us())
        await store.append(self.ref(), [new], parent=LEAF)
        assert (await self.must(store, "a")).to_json() == body
        updated = await store.update(self.ref(), NewMessage("a", "user", "plait", body.strip(), len(body) - 2, 1, 0))
        assert updated is not None and updated.changed
        assert (await self.must(store, "a")).to_json() == body.strip()

    async def test_a_huge_message_comes_back_whole(self, store: AsyncStore) -> None:
        text = "a\x00" + "é漢💡\ud800" * 300_000
        new = self.message("huge", text)
        assert new.bytes > 3_000_000
        await self.add(store, "a")
        await store.append(self.ref(), [new], parent=LEAF)
        await self.add(store, "c")
        message = await self.must(store, "huge")
        assert message.to_json() == new.body
        assert message.text == text
        assert [m.bytes for m in await self.read(store)][1] == new.bytes
        path = await self.the_path(store)
        assert [row.bytes for row in await store.stats(self.ref(), path)][1] == new.bytes
        copied = await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        assert copied == 3
        await store.delete(self.ref(), ["huge"])
        assert await self.history(store) == ["a", "c"]
        assert (await self.must(store, "huge", self.ref("copy"))).to_json() == new.body

    async def test_lengths_around_the_row_budget(self, store: AsyncStore) -> None:
        for budget in (1 << 20, 1_572_864):
            for char in "z", "é", "漢", "💡":
                bare = self.message("m", "")
                count = (budget - bare.bytes) // len(char.encode())
                for n, extra in enumerate((-1, 0, 1, 2)):
                    session = self.ref(f"{budget}{char}{n}")
                    new = self.message("m", char * (count + extra))
                    await store.append(session, [new], parent=LEAF)
                    message = await self.must(store, "m", session)
                    assert (message.to_json() == new.body, message.bytes) == (True, new.bytes)

    async def test_a_long_batch_is_one_chain(self, store: AsyncStore) -> None:
        ids = [f"m{n}" for n in range(3000)]
        written = await self.add(store, *ids)
        assert [w.message.id for w in written] == ids
        assert await self.history(store) == ids
        assert await self.version(store) == 3000
        await self.check_totals(store)
        assert await store.delete(self.ref(), ids[1:-1]) == ids[1:-1]
        assert await self.history(store) == [ids[0], ids[-1]]

    # -- attachments

    async def test_media_come_back_byte_for_byte(self, store: AsyncStore) -> None:
        payloads = [b"", b"\x00", b"pixels", bytes(range(256)) * 9000, b"pixels"]
        new = self.picture("p", *payloads)
        await self.add(store, "a")
        await store.append(self.ref(), [new], parent=LEAF)
        message = await self.must(store, "p")
        assert [part["url"] for part in message.parts] == [_data_url(data) for data in payloads]
        assert message.bytes == len(message.to_json().encode()) == new.bytes
        for n, data in enumerate(payloads):
            pieces = await _pieces(store.read_attachment(self.ref(), "p", n))
            assert b"".join(pieces) == data
            assert all(len(piece) <= 1 << 20 for piece in pieces)
        assert (await self.read(store))[1] == message

    async def test_an_attachment_that_is_not_there_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.append(self.ref(), [self.picture("p", b"pixels")], parent=LEAF)
        for session, id, n in (("s", "p", 1), ("s", "a", 0), ("s", "nobody", 0), ("nobody", "p", 0)):
            with pytest.raises(NotFoundError):
                await _drain(store.read_attachment(self.ref(session), id, n))

    async def test_a_payload_is_kept_once_per_scope_until_its_last_reference_goes(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p", "q")
        await self.pictures(store, "other", "p")
        await store.append(self.ref(scope=BOB), [self.picture("p", b"shared")], parent=LEAF)
        await self.check_payloads(store, 2)
        await store.delete(self.ref(), ["p"])
        await store.update(self.ref(), self.message("q", "no picture any more"))
        await self.check_payloads(store, 2)
        assert await _drain(store.read_attachment(self.ref("other"), "p", 0)) == b"shared"
        await store.delete_session(self.ref("other"))
        await self.check_payloads(store, 1)
        assert await _drain(store.read_attachment(self.ref(scope=BOB), "p", 0)) == b"shared"
        await store.clear(self.ref(scope=BOB))
        await self.check_payloads(store, 0)

    async def test_a_fork_keeps_its_own_references(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=_now_us())
        await store.delete_session(self.ref())
        assert (await self.must(store, "p", self.ref("copy"))).parts[0]["url"] == _data_url(b"shared")
        await self.check_payloads(store, 1)
        await store.delete(self.ref("copy"), ["p"])
        await self.check_payloads(store, 0)

    async def test_an_update_changes_the_payload(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        updated = await store.update(self.ref(), self.picture("p", b"another", b"shared"))
        assert updated is not None and updated.changed
        assert await _drain(store.read_attachment(self.ref(), "p", 0)) == b"another"
        again = await store.update(self.ref(), self.picture("p", b"another", b"shared"))
        assert again is not None and not again.changed
        await self.check_payloads(store, 2)
        await store.update(self.ref(), self.picture("p", b"differs"))  # the same text around another payload
        assert (await self.must(store, "p")).parts[0]["url"] == _data_url(b"differs")
        await self.check_payloads(store, 1)

    async def test_appending_an_id_again_keeps_no_payload(self, store: AsyncStore) -> None:
        await self.add(store, "p")
        [again] = await store.append(self.ref(), [self.picture("p", b"not kept")], parent=LEAF)
        assert not again.inserted
        assert again.message.text == "text of p"
        await self.check_payloads(store, 0)

    async def test_a_pointer_from_outside_is_just_text(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        hash = hashlib.sha256(b"shared").hexdigest()
        forged = [f"attachment:sha256:{hash}", f"plait-media:0:{hash}", f"data:image/png;base64,plait-media:0:{hash}"]
        parts = [{"type": "file", "mediaType": "image/png", "url": url} for url in forged]
        await store.append(self.ref(), [self.raw("f", {"id": "f", "role": "user", "parts": parts})], parent=LEAF)
        assert [part["url"] for part in (await self.must(store, "f")).parts] == forged
        with pytest.raises(NotFoundError):
            await _drain(store.read_attachment(self.ref(), "f", 0))

    async def test_an_attachment_put_ahead_is_used_by_its_message(self, store: AsyncStore) -> None:
        data = bytes(range(256)) * 10_000
        hash, size = await store.put_attachment(ALICE, _stream(data), upload="claim", now_us=_now_us())
        assert (hash, size) == (hashlib.sha256(data).digest(), len(data))
        await store.append(self.ref(), [self.picture("p", data, upload="claim")], parent=LEAF)
        assert (await self.must(store, "p")).parts[0]["url"] == _data_url(data)
        assert await _drain(store.read_attachment(self.ref(), "p", 0)) == data

    async def test_very_many_messages_are_deleted_at_once(self, store: AsyncStore) -> None:
        ids = [f"m{n}" for n in range(1500)]
        await store.append(self.ref(), [self.message(id) for id in ids], parent=LEAF)
        await store.append(self.ref(), [self.message("aside")], parent="m700", activate=False)
        doomed = [*ids[5:600:2], *ids[700:1490]]
        assert await store.delete(self.ref(), [*doomed, "absent"]) == doomed
        left = [id for id in ids if id not in set(doomed)]
        path = await store.path(self.ref(), LEAF)
        assert path is not None
        assert [stat.id for stat in await store.stats(self.ref(), path, limit=2000)] == left
        totals = await store.totals(self.ref())
        assert (totals.messages, totals.path_messages) == (len(left) + 1, len(left))
        aside = await store.get(self.ref(), "aside")
        assert isinstance(aside, Message) and aside.parent_id == "m699"
        assert await store.delete(self.ref(), ids) == left
        assert (await store.totals(self.ref())).messages == 1
        leaf = await store.leaf(self.ref())
        assert isinstance(leaf, Message) and (leaf.id, leaf.parent_id) == ("aside", None)

    async def test_a_claim_that_nobody_made_is_refused(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        await store.put_attachment(BOB, _stream(b"of bob"), upload="claim", now_us=_now_us())
        for data, claim in ((b"unknown", "nobody's"), (b"of bob", "claim"), (b"unknown", "claim")):
            with pytest.raises((NotFoundError, UsageError, ConflictError)):
                await store.append(self.ref(), [self.picture("f", data, upload=claim)], parent=LEAF)
            assert await store.get(self.ref(), "f") is None
        assert await self.history(store) == ["p"]

    async def pictures(self, store: AsyncStore, session: str, *ids: str) -> None:
        """Messages that share one payload."""
        await store.append(self.ref(session), [self.picture(id, b"shared") for id in ids], parent=LEAF)

    async def check_payloads(self, store: AsyncStore, count: int) -> None:
        """Hold that the store keeps so many payloads, if it can say."""
        assert await self.payload_count(store) in (None, count)

    # -- the store itself

    async def test_open_and_flush_may_be_repeated(self, store: AsyncStore) -> None:
        await store.open()
        await self.add(store, "a")
        await store.flush()
        await store.flush()
        await store.open()
        assert await self.history(store) == ["a"]

    async def test_use_after_close_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.close()
        await store.close()
        with pytest.raises(UsageError):
            await self.add(store, "b")
        with pytest.raises(UsageError):
            await store.get(self.ref(), "a")


def _now_us() -> int:
    """The time, never the same twice."""
    global _latest_us
    _latest_us = max(_latest_us + 1, time.time_ns() // 1000)
    return _latest_us


def _messages(rows: Iterable[Message | Damaged]) -> list[Message]:
    """Rows that must not be damaged."""
    messages: list[Message] = []
    for row in rows:
        assert isinstance(row, Message), row
        messages.append(row)
    return messages


def _ids(rows: Iterable[Message | Damaged]) -> list[str]:
    return [row.id for row in rows]


def _climb(parents: dict[str, str | None], id: str | None) -> list[str]:
    """The path to `id` by parent links."""
    path: list[str] = []
    while id is not None:
        path.insert(0, id)
        id = parents[id]
    return path


def _sums(messages: Iterable[Message | Stat]) -> tuple[int, int, int]:
    items = list(messages)
    return len(items), sum(m.bytes for m in items), sum(m.tokens for m in items)


def _data_url(data: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(data).decode()


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 70_001):
        yield data[start : start + 70_001]


async def _pieces(chunks: AsyncIterator[bytes]) -> list[bytes]:
    return [chunk async for chunk in chunks]


async def _drain(chunks: AsyncIterator[bytes]) -> bytes:
    return b"".join(await _pieces(chunks))


def _odd_contents() -> Iterable[dict[str, Any]]:
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
