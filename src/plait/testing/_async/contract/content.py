"""The contract of content: kept exactly, whatever it is, with its attachments."""

from __future__ import annotations

import hashlib

import pytest

from plait import jsontext
from plait.errors import (
    ConflictError,
    NotFoundError,
    UsageError,
)
from plait.model import LEAF, Message
from plait.store._async.port import AsyncStore
from plait.store.protocol import (
    NewMessage,
)
from plait.testing._async.contract.case import (
    ALICE,
    BOB,
    AsyncStoreCase,
    all_of,
    data_url,
    drain,
    now_us,
    odd_contents,
    stream,
)


class AsyncContentTests(AsyncStoreCase):
    """What every store must keep exactly."""

    async def test_what_is_appended_is_what_is_read(self, store: AsyncStore) -> None:
        contents = list(odd_contents())
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
        new = NewMessage("a", "user", "plait", body, len(body), 1, now_us())
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
        copied = await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
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

    async def test_media_come_back_byte_for_byte(self, store: AsyncStore) -> None:
        payloads = [b"", b"\x00", b"pixels", bytes(range(256)) * 9000, b"pixels"]
        new = self.picture("p", *payloads)
        await self.add(store, "a")
        await store.append(self.ref(), [new], parent=LEAF)
        message = await self.must(store, "p")
        assert [part["url"] for part in message.parts] == [data_url(data) for data in payloads]
        assert message.bytes == len(message.to_json().encode()) == new.bytes
        for n, data in enumerate(payloads):
            pieces = await all_of(store.read_attachment(self.ref(), "p", n))
            assert b"".join(pieces) == data
            assert all(len(piece) <= 1 << 20 for piece in pieces)
        assert (await self.read(store))[1] == message

    async def test_an_attachment_that_is_not_there_is_refused(self, store: AsyncStore) -> None:
        await self.add(store, "a")
        await store.append(self.ref(), [self.picture("p", b"pixels")], parent=LEAF)
        for session, id, n in (("s", "p", 1), ("s", "a", 0), ("s", "nobody", 0), ("nobody", "p", 0)):
            with pytest.raises(NotFoundError):
                await drain(store.read_attachment(self.ref(session), id, n))

    async def test_a_payload_is_kept_once_per_scope_until_its_last_reference_goes(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p", "q")
        await self.pictures(store, "other", "p")
        await store.append(self.ref(scope=BOB), [self.picture("p", b"shared")], parent=LEAF)
        await self.check_payloads(store, 2)
        await store.delete(self.ref(), ["p"])
        await store.update(self.ref(), self.message("q", "no picture any more"))
        await self.check_payloads(store, 2)
        assert await drain(store.read_attachment(self.ref("other"), "p", 0)) == b"shared"
        await store.delete_session(self.ref("other"))
        await self.check_payloads(store, 1)
        assert await drain(store.read_attachment(self.ref(scope=BOB), "p", 0)) == b"shared"
        await store.clear(self.ref(scope=BOB))
        await self.check_payloads(store, 0)

    async def test_a_fork_keeps_its_own_references(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        await store.fork(self.ref(), self.ref("copy"), at=None, created_at_us=now_us())
        await store.delete_session(self.ref())
        assert (await self.must(store, "p", self.ref("copy"))).parts[0]["url"] == data_url(b"shared")
        await self.check_payloads(store, 1)
        await store.delete(self.ref("copy"), ["p"])
        await self.check_payloads(store, 0)

    async def test_an_update_changes_the_payload(self, store: AsyncStore) -> None:
        await self.pictures(store, "s", "p")
        updated = await store.update(self.ref(), self.picture("p", b"another", b"shared"))
        assert updated is not None and updated.changed
        assert await drain(store.read_attachment(self.ref(), "p", 0)) == b"another"
        again = await store.update(self.ref(), self.picture("p", b"another", b"shared"))
        assert again is not None and not again.changed
        await self.check_payloads(store, 2)
        await store.update(self.ref(), self.picture("p", b"differs"))  # the same text around another payload
        assert (await self.must(store, "p")).parts[0]["url"] == data_url(b"differs")
        await self.check_payloads(store, 1)

    async def test_a_message_whose_media_were_left_inline_says_the_same(self, store: AsyncStore) -> None:
        """As an earlier version left some of them: it is read, and it is the same message when it comes again."""
        apart = self.picture("p", b"one", b"other")
        content = jsontext.decode(apart.body)
        for part, data in zip(content["parts"], (b"one", b"other"), strict=True):
            part["url"] = data_url(data)
        inline = self.raw("p", content)
        await store.append(self.ref(), [inline], parent=LEAF)
        stored, before = await self.must(store, "p"), await self.version(store)
        assert stored.to_json() == inline.body
        [again] = await store.append(self.ref(), [apart], parent=LEAF, refuse_other=True)
        assert (again.inserted, again.differs) == (False, False)
        updated = await store.update(self.ref(), apart)
        assert updated is not None and (updated.changed, updated.message) == (False, stored)
        await self.check_payloads(store, 0)
        updated = await store.update(self.ref(), self.picture("p", b"one", b"another"))
        assert updated is not None and updated.changed
        assert (await self.version(store), (await self.must(store, "p")).parts[1]["url"]) == (
            before + 1,
            data_url(b"another"),
        )
        await self.check_payloads(store, 2)

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
            await drain(store.read_attachment(self.ref(), "f", 0))

    async def test_an_attachment_put_ahead_is_used_by_its_message(self, store: AsyncStore) -> None:
        data = bytes(range(256)) * 10_000
        hash, size = await store.put_attachment(ALICE, stream(data), upload="claim", now_us=now_us())
        assert (hash, size) == (hashlib.sha256(data).digest(), len(data))
        await store.append(self.ref(), [self.picture("p", data, upload="claim")], parent=LEAF)
        assert (await self.must(store, "p")).parts[0]["url"] == data_url(data)
        assert await drain(store.read_attachment(self.ref(), "p", 0)) == data

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
        await store.put_attachment(BOB, stream(b"of bob"), upload="claim", now_us=now_us())
        for data, claim in ((b"unknown", "nobody's"), (b"of bob", "claim"), (b"unknown", "claim")):
            with pytest.raises((NotFoundError, UsageError, ConflictError)):
                await store.append(self.ref(), [self.picture("f", data, upload=claim)], parent=LEAF)
            assert await store.get(self.ref(), "f") is None
        assert await self.history(store) == ["p"]

    async def pictures(self, store: AsyncStore, session: str, *ids: str) -> None:
        """Messages that share one payload."""
        await store.append(self.ref(session), [self.picture(id, b"shared") for id in ids], parent=LEAF)
