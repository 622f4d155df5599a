"""Generated from src/plait/testing/_async/contract/searching.py by tools/unasync.py: edit that file. The contract of search."""

from __future__ import annotations

from typing import Any, cast

import pytest

from plait.errors import (
    SessionDeletedError,
)
from plait.model import LEAF
from plait.store._sync.port import Searchable, Store
from plait.store.protocol import (
    Scope,
    Search,
    SessionRef,
)
from plait.testing._sync.contract.case import (
    ALICE,
    BOB,
    HOSTILE_TEXTS,
    NEIGHBOURS,
    NEW_YEAR_US,
    StoreCase,
    now_us,
)


class SearchTests(StoreCase):
    """What every store that searches must find."""

    def searchable(self, store: Store) -> Searchable:
        """The store as one that can be searched; skips the test if it cannot."""
        if not callable(getattr(store, "search", None)):
            pytest.skip("this store has no search")
        return cast("Searchable", store)

    def found(
        self, store: Store, query: str, within: SessionRef | Scope | None = None, **options: Any
    ) -> list[str]:
        """The ids that a search finds, newest first."""
        given: dict[str, Any] = {"newest_first": True, "limit": 99, **options}
        return [hit.id for hit in self.searchable(store).search(within or self.ref(), Search(query, **given))]

    def say(self, store: Store, **texts: str) -> None:
        """Append one message for each text, as a chain."""
        store.append(self.ref(), [self.message(id, text) for id, text in texts.items()], parent=LEAF)

    def test_a_search_finds_the_messages_that_hold_every_word(self, store: Store) -> None:
        self.searchable(store)
        self.say(store, a="deploy it to production", b="production deploys", c="deploy")
        assert self.found(store, "deploy production") == ["b", "a"]
        assert self.found(store, "PRODUCTION") == ["b", "a"]
        assert self.found(store, '"production deploy"') == ["b"]
        assert self.found(store, "production absent") == []

    def test_a_search_finds_any_piece_of_text_without_spaces(self, store: Store) -> None:
        self.searchable(store)
        self.say(
            store,
            zh="重跑gen-itgc后50条悬空引用",
            ja="日本語のテスト",
            ko="한국어 검색을",
            th="ภาษาไทยไม่มี",
            e="a 🎉 party",
        )
        for query, id in [("悬", "zh"), ("itgc", "zh"), ("テス", "ja"), ("색", "ko"), ("ไทย", "th"), ("🎉", "e")]:
            assert self.found(store, query) == [id], query

    def test_any_text_is_searched_for_and_any_text_is_found(self, store: Store) -> None:
        self.searchable(store)
        for n, text in enumerate(HOSTILE_TEXTS):
            store.append(self.ref(), [self.message(f"m{n}", f"{text} tail")], parent=LEAF)
            self.found(store, text)
            self.found(store, f'"{text}"', ALICE, newest_first=False)
        assert len(self.found(store, "tail")) == len(HOSTILE_TEXTS)

    @pytest.mark.parametrize("query", ["", " ", '"', "()", "\x00", "\ud800", "..."])
    def test_a_query_without_a_word_asks_for_nothing(self, store: Store, query: str) -> None:
        self.searchable(store)
        self.say(store, a="words", b=query)
        assert self.found(store, query) == []

    def test_the_better_match_comes_first_and_equal_ones_newest_first(self, store: Store) -> None:
        searchable = self.searchable(store)
        texts = {f"weak{n}": "much is said here, and the lighthouse is named once" for n in range(9)}
        self.say(store, strong="lighthouse lighthouse", **texts)
        hits = searchable.search(self.ref(), Search("lighthouse"))
        assert [hit.id for hit in hits] == ["strong", *reversed(texts)]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        paged = [searchable.search(self.ref(), Search("lighthouse", limit=3, offset=at)) for at in (0, 3, 6, 9)]
        assert [hit.id for page in paged for hit in page] == [hit.id for hit in hits]

    def test_filters_of_a_search_come_before_its_limit(self, store: Store) -> None:
        self.searchable(store)
        days = [NEW_YEAR_US + n * 86_400_000_000 for n in range(30)]
        roles = ["assistant", "system", *["user"] * 28]
        messages = [
            self.message(f"m{n}", "tea", role=role, at_us=at)
            for n, (role, at) in enumerate(zip(roles, days, strict=True))
        ]
        store.append(self.ref(), messages, parent=LEAF, kind="import")
        for newest_first in (True, False):
            options: dict[str, Any] = {"limit": 1, "newest_first": newest_first}
            assert self.found(store, "tea", roles=("assistant",), **options) == ["m0"]
            assert self.found(store, "tea", roles=("assistant", "system"), **options) == ["m1"]
            assert self.found(store, "tea", until_us=days[3], **options) == ["m2"]
            assert self.found(store, "tea", since_us=days[2], until_us=days[3], **options) == ["m2"]
        assert self.found(store, "tea", limit=0) == []
        assert self.found(store, "tea", limit=2, offset=29) == ["m0"]

    def test_a_search_looks_at_all_branches_or_at_one_path(self, store: Store) -> None:
        searchable = self.searchable(store)
        self.say(store, a="tea", b="tea", c="tea")
        store.append(self.ref(), [self.message("d", "tea")], parent="a")
        assert self.found(store, "tea") == ["d", "c", "b", "a"]
        assert self.found(store, "tea", branches=False, leaf=LEAF) == ["d", "a"]
        assert self.found(store, "tea", branches=False, leaf="b") == ["b", "a"]
        assert self.found(store, "tea", branches=False, leaf="nobody") == []
        hits = searchable.search(self.ref(), Search("tea", newest_first=True))
        assert [hit.on_path for hit in hits] == [True, False, False, True]
        assert [hit.leaf_id for hit in hits] == ["d", "c", "c", "d"]

    def test_a_scope_is_searched_and_no_other(self, store: Store) -> None:
        self.searchable(store)
        for n, scope in enumerate([ALICE, *NEIGHBOURS]):
            store.append(self.ref(f"s{n}", scope), [self.message(f"m{n}", "tea")], parent=LEAF)
        store.append(self.ref("t"), [self.message("t", "tea")], parent=LEAF)
        assert sorted(self.found(store, "tea", ALICE)) == ["m0", "t"]
        for n, scope in enumerate(NEIGHBOURS, 1):
            assert self.found(store, "tea", scope, newest_first=n % 2 == 0) == [f"m{n}"]
        assert self.found(store, "tea", self.ref("nobody")) == []

    def test_what_is_searched_follows_every_write(self, store: Store) -> None:
        self.searchable(store)
        self.say(store, a="tea", b="tea", c="tea")
        assert self.found(store, "tea") == ["c", "b", "a"]
        store.update(self.ref(), self.message("b", "coffee"))
        store.delete(self.ref(), ["c"])
        self.say(store, d="tea")
        assert self.found(store, "tea") == ["d", "a"]
        assert self.found(store, "coffee", ALICE) == ["b"]
        store.fork(self.ref(), self.ref("copy"), at="b", created_at_us=now_us())
        assert self.found(store, "coffee", self.ref("copy")) == ["b"]
        stage = store.stage(self.ref("new"))
        store.append(stage, [self.message("s", "tea")], parent=None, kind="import")
        assert "s" not in self.found(store, "tea", ALICE)
        store.publish(stage, self.ref("new"))
        assert self.found(store, "tea", self.ref("new")) == ["s"]
        store.clear(self.ref())
        store.delete_session(self.ref("copy"))
        assert self.found(store, "tea coffee", ALICE) == self.found(store, "coffee", ALICE) == []
        assert self.found(store, "tea", ALICE) == ["s"]

    def test_what_an_overlay_covers_is_found_and_says_so(self, store: Store) -> None:
        searchable, overlaying = self.searchable(store), self.overlaying(store)
        self.say(store, a="tea", b="tea", c="tea")
        overlaying.add_overlay(self.ref(), self.overlay("o", "a", "b"))
        hits = searchable.search(self.ref(), Search("tea", newest_first=True))
        assert [(hit.id, hit.covered) for hit in hits] == [("c", False), ("b", True), ("a", True)]

    def test_what_is_covered_on_another_branch_alone_is_not_said_to_be(self, store: Store) -> None:
        searchable, overlaying = self.searchable(store), self.overlaying(store)
        self.say(store, a="tea", b="tea", c="tea")
        store.append(self.ref(), [self.message("d", "tea")], parent="a")
        overlaying.add_overlay(self.ref(), self.overlay("o", "a", "c"), leaf="c")
        overlaying.add_overlay(self.ref(), self.overlay("p", "b", "b", None), leaf="b")
        hits = searchable.search(self.ref(), Search("tea", newest_first=True))
        where = [(hit.id, hit.on_path, hit.covered) for hit in hits]
        assert where == [("d", True, False), ("c", False, True), ("b", False, True), ("a", True, False)]

    def test_what_others_found_is_shown_if_it_is_there_and_passes_the_filters(self, store: Store) -> None:
        searchable = self.searchable(store)
        self.say(store, a="tea here", b="coffee", c="tea")
        store.append(self.ref(), [self.message("d", "aside", role="assistant")], parent="a")
        store.append(self.ref("t"), [self.message("e", "tea")], parent=LEAF)
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

        def shown(within: SessionRef | Scope, **options: Any) -> list[str]:
            return [hit.id for hit in searchable.hits(within, keys, Search("here", **options))]

        assert shown(ALICE) == ["d", "e", "b", "a"]
        assert shown(self.ref()) == ["d", "b", "a"]
        assert shown(self.ref(), roles=("assistant",)) == ["d"]
        assert shown(self.ref(), branches=False, leaf="c") == ["b", "a"]
        assert shown(BOB) == []
        hit = (searchable.hits(self.ref(), [("s", "a")], Search("here")))[0]
        assert (hit.snippet, hit.highlights, hit.leaf_id, hit.on_path) == ("tea here", ((4, 8),), "d", True)

    def test_a_late_handle_searches_no_other_life(self, store: Store) -> None:
        searchable = self.searchable(store)
        late = self.ref()
        store.append(late, [self.message("a", "tea")], parent=LEAF)
        store.delete_session(self.ref())
        self.say(store, b="tea")
        with pytest.raises(SessionDeletedError):
            searchable.search(late, Search("tea"))

    def test_an_index_built_ahead_changes_no_answer(self, store: Store) -> None:
        searchable = self.searchable(store)
        self.say(store, **{f"m{n}": f"tea {n}" for n in range(30)})
        before = self.found(store, "tea")
        for rebuild in (False, True):
            searchable.build_search_index(rebuild=rebuild, progress=lambda done, left: None)
            assert self.found(store, "tea") == before
        assert len(before) == 30
