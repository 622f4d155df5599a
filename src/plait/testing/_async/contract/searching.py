"""The contract of search."""

from __future__ import annotations

from typing import Any, cast

import pytest

from plait.errors import (
    SessionDeletedError,
)
from plait.model import LEAF
from plait.store._async.port import AsyncSearchable, AsyncStore
from plait.store.protocol import (
    Scope,
    Search,
    SessionRef,
)
from plait.testing._async.contract.case import (
    ALICE,
    BOB,
    HOSTILE_TEXTS,
    NEIGHBOURS,
    NEW_YEAR_US,
    AsyncStoreCase,
    now_us,
)


class AsyncSearchTests(AsyncStoreCase):
    """What every store that searches must find."""

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
        days = [NEW_YEAR_US + n * 86_400_000_000 for n in range(30)]
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
        await store.fork(self.ref(), self.ref("copy"), at="b", created_at_us=now_us())
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
