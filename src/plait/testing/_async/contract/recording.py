"""The contract of a store's records, as tests: a part of the tests of a store."""

from __future__ import annotations

from typing import cast

import pytest

from plait.errors import ConflictError, LeafMovedError, NotFoundError, StaleValueError
from plait.model import LEAF, Message
from plait.store._async.port import AsyncRecording, AsyncStore
from plait.store.protocol import Chain, NewMessage, NewRecords, Scope, SessionRef

_NOW_US = 1_767_225_600_000_000
_SCOPE = Scope("acme", "alice")


def _message(id: str) -> NewMessage:
    body = f'{{"id":"{id}","role":"user","parts":[{{"type":"text","text":"of {id}"}}]}}'
    return NewMessage(id, "user", "plait", body, len(body), 3, _NOW_US)


class AsyncRecordTests:
    """What every store that keeps records must do; `AsyncStoreTests` inherits it."""

    def recording(self, store: AsyncStore) -> AsyncRecording:
        """The store as one that keeps records; skips the test if it does not."""
        if not callable(getattr(store, "write_records", None)):
            pytest.skip("this store keeps no records")
        return cast("AsyncRecording", store)

    async def put_records(
        self, store: AsyncStore, new: NewRecords, session: SessionRef | None = None
    ) -> tuple[list[bytes], list[str]]:
        """Write records; the keys that were there already and the ids of the messages."""
        there, written, _ = await self.recording(store).write_records(
            session or SessionRef(_SCOPE, "s"), new, created_at_us=_NOW_US
        )
        return there, [result.id for result in written]

    async def record_keys(
        self, store: AsyncStore, first: bytes = b"", end: bytes = b"\xff" * 9, session: SessionRef | None = None
    ) -> list[bytes]:
        """The keys of the records between two."""
        ref = session or SessionRef(_SCOPE, "s")
        found = await self.recording(store).records(ref, first, end, limit=1000, last_first=False)
        return [key for key, _ in found]

    async def test_a_record_is_the_bytes_that_were_put(self, store: AsyncStore) -> None:
        recording, session = self.recording(store), SessionRef(_SCOPE, "s")
        odd = {
            b"\x00": b"",
            b"\x00\x00": b"\xff\x00'\xfe",
            "é".encode(): "\U0001f600".encode(),
            b"big": b"z" * 3_000_000,
        }
        await self.put_records(store, NewRecords(put=tuple(odd.items())))
        assert await recording.read_records(session, [*odd, b"absent"]) == odd
        await self.put_records(store, NewRecords(put=((b"\x00", b"other"),), drop=(b"big", b"absent")))
        assert await recording.read_records(session, [b"\x00", b"big"]) == {b"\x00": b"other"}

    async def test_records_come_in_the_order_of_their_bytes_between_two_keys(self, store: AsyncStore) -> None:
        keys = [b"\x00", b"A", b"a", b"a\x00", b"ab", b"b", b"\xc3\xa9", b"\xff"]
        await self.put_records(store, NewRecords(put=tuple((key, key) for key in reversed(keys))))
        assert await self.record_keys(store) == keys
        assert await self.record_keys(store, b"a", b"b") == [b"a", b"a\x00", b"ab"]
        assert await self.record_keys(store, b"b", b"b") == []
        recording, session = self.recording(store), SessionRef(_SCOPE, "s")
        last = await recording.records(session, b"", b"b", limit=2, last_first=True)
        assert last == [(b"ab", b"ab"), (b"a\x00", b"a\x00")]

    async def test_a_page_of_records_is_bounded_by_their_sizes(self, store: AsyncStore) -> None:
        await self.put_records(store, NewRecords(put=tuple((bytes([n]), b"x" * (3 << 20)) for n in range(4))))
        page = await self.recording(store).records(SessionRef(_SCOPE, "s"), b"", b"\xff", limit=9, last_first=False)
        assert [key for key, _ in page] == [b"\x00", b"\x01"]

    async def test_a_record_that_is_to_be_kept_is_left_as_it_is(self, store: AsyncStore) -> None:
        await self.put_records(store, NewRecords(put=((b"a", b"1"),)))
        there, _ = await self.put_records(store, NewRecords(keep=((b"a", b"2"), (b"b", b"2"))))
        assert there == [b"a"]
        assert await self.recording(store).read_records(SessionRef(_SCOPE, "s"), [b"a", b"b"]) == {
            b"a": b"1",
            b"b": b"2",
        }

    async def test_messages_are_written_with_their_records_or_neither(self, store: AsyncStore) -> None:
        chain = Chain(None, (_message("m1"), _message("m2")))
        session = SessionRef(_SCOPE, "s")
        assert await self.put_records(store, NewRecords(put=((b"a", b"1"),), chains=(chain,), leaf="m2")) == (
            [],
            ["m1", "m2"],
        )
        branch = Chain("m1", (_message("m3"),))
        await self.put_records(store, NewRecords(put=((b"b", b"1"),), chains=(branch,)))
        leaf = await store.leaf(session)
        assert isinstance(leaf, Message) and leaf.id == "m2", "a chain whose end is not to be the leaf lies beside"
        late = SessionRef(_SCOPE, "s")
        for refused in (chain, Chain("absent", (_message("m9"),))):
            new = NewRecords(put=((b"c", b"1"),), chains=(Chain(None, (_message("m8"),)), refused))
            with pytest.raises((ConflictError, NotFoundError)):
                await self.recording(store).write_records(late, new, created_at_us=_NOW_US)
        assert late.incarnation is None, "what is refused binds nothing"
        assert await self.record_keys(store) == [b"a", b"b"]
        assert await store.get(session, "m8") is None
        await self.put_records(store, NewRecords(leaf="m3"))
        path = await store.path(session, LEAF)
        assert path is not None and path.leaf_id == "m3"

    async def test_a_message_that_is_there_is_a_conflict_whatever_its_parent(self, store: AsyncStore) -> None:
        await self.put_records(store, NewRecords(chains=(Chain(None, (_message("m1"),)),)))
        for parent in (None, "m1", "absent"):
            chains = (Chain(parent, (_message("m1"),)), Chain("absent", (_message("m2"),)))
            with pytest.raises(ConflictError):
                await self.put_records(store, NewRecords(put=((b"a", b"1"),), chains=chains))
        assert await self.record_keys(store) == []

    async def test_the_state_goes_along_with_messages_of_several_chains_or_nothing_does(
        self, store: AsyncStore
    ) -> None:
        recording, session = self.recording(store), SessionRef(_SCOPE, "s")
        chains = (Chain(None, (_message("m1"), _message("m2"))), Chain("m1", (_message("m3"),)))
        first = NewRecords(chains=chains, leaf="m3", state={"a": 1})
        await recording.write_records(session, first, created_at_us=_NOW_US)
        assert await store.state(session) == {"a": 1}
        info = await store.info(session)
        assert info is not None
        more = (Chain("m2", (_message("m4"),)), Chain("absent", (_message("m5"),)))
        for refused in (
            NewRecords(chains=more, state={"a": 2}, expect_version=info.version),
            NewRecords(chains=more[:1], state={"a": 2}, expect_version=info.version - 1),
        ):
            with pytest.raises((LeafMovedError, NotFoundError)):
                await recording.write_records(session, refused, created_at_us=_NOW_US)
        assert await store.state(session) == {"a": 1} and await store.get(session, "m4") is None
        again = NewRecords(chains=more[:1], state={"a": None, "b": 2}, expect_version=info.version)
        await recording.write_records(session, again, created_at_us=_NOW_US)
        assert await store.state(session) == {"b": 2} and await store.get(session, "m4") is not None
        late = NewRecords(state={"c": 3}, expect_version=1)
        with pytest.raises(LeafMovedError):
            await recording.write_records(SessionRef(_SCOPE, "absent"), late, created_at_us=_NOW_US)

    async def test_nothing_is_written_unless_the_records_are_what_is_expected(self, store: AsyncStore) -> None:
        chain = Chain(None, (_message("m1"),))
        new = NewRecords(put=((b"a", b"1"),), chains=(chain,), expect=((b"a", b"0"),))
        for _ in range(2):
            with pytest.raises(StaleValueError):
                await self.put_records(store, new)
            assert await store.info(SessionRef(_SCOPE, "s")) is None, "what is refused makes no session"
        await self.put_records(store, NewRecords(put=((b"a", b"0"),), expect=((b"a", None),)))
        for expect in ((b"a", None), (b"a", b""), (b"b", b"1")):
            stale = NewRecords(put=((b"a", b"1"),), drop=(b"a",), chains=(chain,), expect=(expect,))
            with pytest.raises(StaleValueError):
                await self.put_records(store, stale)
        assert await self.recording(store).read_records(SessionRef(_SCOPE, "s"), [b"a"]) == {b"a": b"0"}
        assert await store.get(SessionRef(_SCOPE, "s"), "m1") is None
        assert await self.put_records(store, new) == ([], ["m1"])
        with pytest.raises(StaleValueError):
            await self.put_records(store, new)

    async def test_messages_are_removed_with_records_or_neither(self, store: AsyncStore) -> None:
        session, recording = SessionRef(_SCOPE, "s"), self.recording(store)
        await self.put_records(store, NewRecords(chains=(Chain(None, (_message("m1"), _message("m2"))),), leaf="m2"))
        gone = NewRecords(
            put=((b"a", b"1"),),
            chains=(Chain("m1", (_message("m3"),)),),
            remove=("m1", "absent"),
            expect=((b"a", None),),
        )
        _, written, removed = await recording.write_records(session, gone, created_at_us=_NOW_US)
        assert ([result.id for result in written], removed) == (["m3"], ["m1"])
        assert await store.get(session, "m1") is None
        assert [message.id for message in await store.children(session, None)] == ["m2", "m3"]
        with pytest.raises(StaleValueError):
            await self.put_records(store, NewRecords(remove=("m2",), expect=((b"a", None),)))
        assert await store.get(session, "m2") is not None
        assert await self.put_records(store, NewRecords(remove=("m2", "m2"))) == ([], [])
        assert await store.get(session, "m2") is None
        leaf = await store.leaf(session)
        assert leaf is not None and leaf.id == "m3"

    async def test_records_belong_to_one_session_of_one_scope(self, store: AsyncStore) -> None:
        others = [SessionRef(_SCOPE, "t"), SessionRef(Scope("acme", "bob"), "s"), SessionRef(Scope(), "s")]
        for n, session in enumerate([SessionRef(_SCOPE, "s"), *others]):
            await self.put_records(store, NewRecords(put=((b"k%d" % n, b"1"),)), session)
        for n, session in enumerate([SessionRef(_SCOPE, "s"), *others]):
            assert await self.record_keys(store, session=session) == [b"k%d" % n]

    async def test_a_clear_and_a_delete_take_the_records_along(self, store: AsyncStore) -> None:
        session = SessionRef(_SCOPE, "s")
        await self.put_records(store, NewRecords(put=((b"a", b"1"),), chains=(Chain(None, (_message("m"),)),)), session)
        assert await store.clear(session)
        assert await self.record_keys(store) == []
        await self.put_records(store, NewRecords(put=((b"b", b"1"),)))
        assert await store.delete_session(SessionRef(_SCOPE, "s"))
        assert await self.record_keys(store) == []
        await self.put_records(store, NewRecords(put=((b"c", b"1"),)))
        assert await self.record_keys(store) == [b"c"]

    async def test_removing_nothing_makes_no_session(self, store: AsyncStore) -> None:
        assert await self.put_records(store, NewRecords(drop=(b"a",))) == ([], [])
        assert await self.record_keys(store) == []
        assert await store.info(SessionRef(_SCOPE, "s")) is None
