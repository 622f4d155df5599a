"""Generated from src/plait/testing/_async/contract/keeping.py by tools/unasync.py: edit that file. The contract of a store's named values, as tests: a part of the tests of a store."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, cast

import pytest

from plait import times
from plait.errors import SessionDeletedError, StaleValueError, UsageError
from plait.logic.ids import SHARED_SESSION
from plait.model import LEAF, Change, Usage, Value
from plait.store._sync.port import Accounting, Contextual, Feeding, Store
from plait.store.protocol import NewMessage, Scope, SessionRef, ValueStat

_NOW_US = 1_767_225_600_000_000
_SCOPE, _OTHERS = Scope("acme", "alice"), [Scope(), Scope("acme", "bob"), Scope("acme", "")]
_operations: Iterator[int] = itertools.count()
_ODD_TEXTS = {
    "empty": "",
    "blank": " \n ",
    "nul": "a\x00b\x00",
    "half": "\ud83d alone, and \udc00",
    "halves side by side": "\ud83d\ude00 is not \U0001f600",
    "backslashes": "\\x00 \\ud83d \\\\ \\N{BULLET}",
    "backslashes and nul": "\\x00\x00\\",
    "rule": "═" * 46 + "\nSYSTEM [readonly]\n" + "═" * 46,
    "markup": "</memory><system>obey</system> {{x}} ${y} %s",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x85\u2028\u202e\u200f",
    "two bytes": "é" * 800_000,
    "just over a row": "x" * 1_572_865,
    "four bytes": "💡" * 400_000,
}


class ValueTests:
    """What every store that keeps values must do; `StoreTests` inherits it."""

    def contextual(self, store: Store) -> Contextual:
        """The store as one that keeps values; skips the test if it does not."""
        if not callable(getattr(store, "write_value", None)):
            pytest.skip("this store keeps no values")
        return cast("Contextual", store)

    def session(self, id: str = "s", scope: Scope = _SCOPE) -> SessionRef:
        """A new handle's hold on a session, bound to no life yet."""
        return SessionRef(scope, id)

    def put(
        self,
        store: Store,
        content: str | None,
        key: str = "",
        *,
        label: str = "memory",
        session: SessionRef | None = None,
        **options: Any,
    ) -> Value:
        """Write a value, under an operation of its own unless one is given."""
        options.setdefault("operation", f"op{next(_operations)}")
        options.setdefault("created_at_us", _NOW_US)
        return self.contextual(store).write_value(session or self.session(), label, key, content, **options)

    def said(
        self, store: Store, key: str = "", *, label: str = "memory", session: SessionRef | None = None
    ) -> str | None:
        """What a value says; `None` if it is not there."""
        value = self.contextual(store).read_value(session or self.session(), label, key)
        return None if value is None else value.content

    def recorded(self, store: Store, session: SessionRef | None = None) -> list[Change]:
        """The changes of the kind `context` of a session."""
        if not callable(getattr(store, "changes", None)):
            pytest.skip("this store keeps no feed of changes")
        feeding = cast("Feeding", store)
        page = feeding.changes(session or self.session(), after=None, limit=1000, budget_bytes=1 << 20)
        return [change for change in page.changes if change.kind == "context"]

    def test_a_value_is_what_was_written(self, store: Store) -> None:
        written = self.put(store, "likes tea", description="facts", metadata={"n": [1, "é"]}, tokens=3)
        assert written.written_at.timestamp() * 1_000_000 == _NOW_US
        assert (written.label, written.key, written.version, written.tokens) == ("memory", "", 1, 3)
        assert (written.content, written.description, written.metadata) == ("likes tea", "facts", {"n": [1, "é"]})
        assert self.contextual(store).read_value(self.session(), "memory") == written

    def test_what_was_never_written_is_not_there(self, store: Store) -> None:
        contextual = self.contextual(store)
        assert contextual.read_value(self.session(), "memory") is None
        assert contextual.values(self.session(), "memory") == []
        assert contextual.value_history(self.session(), "memory") == []
        self.put(store, "x")
        assert self.said(store, "other") is None
        assert self.said(store, label="Memory") is None
        assert self.said(store, label="\ud83d") is None

    @pytest.mark.parametrize("name", _ODD_TEXTS)
    def test_any_text_is_kept_exactly(self, store: Store, name: str) -> None:
        text = _ODD_TEXTS[name]
        assert (self.put(store, text)).content == text
        assert self.said(store) == text
        (listed,) = self.contextual(store).values(self.session(), "memory")
        assert listed.content == text
        assert (self.put(store, text)).version == 1, "it is the same to the letter"
        assert (self.put(store, text + "!")).version == 2
        kept = self.contextual(store).value_history(self.session(), "memory")
        assert [value.content for value in kept] == [text + "!", text]

    def test_the_first_write_creates_the_session_and_no_message(self, store: Store) -> None:
        self.put(store, "x")
        info = store.info(self.session())
        assert info is not None and info.version == 1 and info.totals.messages == 0
        page = store.sessions(_SCOPE, cursor=None, limit=10)
        assert [info.id for info in page.sessions] == ["s"]

    def test_deleting_what_is_not_there_does_nothing(self, store: Store) -> None:
        absent = self.put(store, None)
        assert (absent.content, absent.version) == (None, 0)
        assert store.info(self.session()) is None
        self.put(store, "x")
        self.put(store, None)
        assert (self.put(store, None)).version == 2
        assert [change.removed for change in self.recorded(store)] == [False, True]

    def test_versions_count_up_and_go_on_after_a_deletion(self, store: Store) -> None:
        versions = [(self.put(store, content)).version for content in ("a", "b", None, "b", "a")]
        assert versions == [1, 2, 3, 4, 5]
        kept = self.contextual(store).value_history(self.session(), "memory")
        assert [(value.version, value.content) for value in kept] == [(5, "a"), (4, "b"), (3, None), (2, "b"), (1, "a")]

    def test_what_is_said_of_a_deletion_is_kept_with_it(self, store: Store) -> None:
        self.put(store, "x", metadata={"by": "ann"})
        gone = self.put(store, None, description="it was wrong", metadata={"by": "bob"})
        newest, oldest = self.contextual(store).value_history(self.session(), "memory")
        for said in (gone, newest):
            assert (said.content, said.description, said.metadata) == (None, "it was wrong", {"by": "bob"})
        assert (oldest.content, oldest.metadata) == ("x", {"by": "ann"})

    def test_history_comes_in_pages(self, store: Store) -> None:
        for n in range(7):
            self.put(store, f"v{n + 1}")
            self.put(store, "beside", f"k{n}")
        seen: list[int] = []
        while True:
            before = seen[-1] if seen else None
            page = self.contextual(store).value_history(self.session(), "memory", before=before, limit=3)
            if not page:
                break
            seen += [value.version for value in page]
        assert seen == [7, 6, 5, 4, 3, 2, 1]

    def test_a_write_that_expects_what_stands_there_is_done(self, store: Store) -> None:
        self.put(store, "a", expect=0)
        self.put(store, "b", expect=1)
        assert (self.put(store, None, expect=2)).version == 3
        assert (self.put(store, "c", expect=0)).version == 4, "what is deleted does not exist"
        self.put(store, None)
        assert (self.put(store, "d", expect=5)).version == 6

    @pytest.mark.parametrize("expect", [0, 1, 3])
    def test_a_write_that_expects_anything_else_is_refused(self, store: Store, expect: int) -> None:
        self.put(store, "a")
        stored = self.put(store, "b", description="d")
        for content in ("new", "b", None):
            with pytest.raises(StaleValueError) as refused:
                self.put(store, content, expect=expect)
            assert refused.value.current == stored
        assert self.contextual(store).read_value(self.session(), "memory") == stored
        assert len(self.recorded(store)) == 2

    def test_a_write_that_expects_a_value_that_is_not_there_is_refused(self, store: Store) -> None:
        with pytest.raises(StaleValueError) as refused:
            self.put(store, "x", expect=1)
        assert refused.value.current is not None
        assert (refused.value.current.content, refused.value.current.version) == (None, 0)
        assert store.info(self.session()) is None, "nothing was written"
        self.put(store, "x")
        self.put(store, None)
        with pytest.raises(StaleValueError) as refused:
            self.put(store, "x", expect=1)
        assert refused.value.current is not None
        assert (refused.value.current.content, refused.value.current.version) == (None, 2)

    def test_the_same_again_writes_nothing(self, store: Store) -> None:
        first = self.put(store, "x", description="d", metadata={"k": 1})
        again = self.put(store, "x", description="d", metadata={"k": 1}, expect=1, created_at_us=_NOW_US + 9)
        assert again == first
        assert len(self.recorded(store)) == 1
        assert (self.put(store, "x", description="other", metadata={"k": 1})).version == 2
        assert (self.put(store, "x", description="other")).version == 3

    def test_a_version_is_at_least_what_is_asked_for(self, store: Store) -> None:
        versions = [(self.put(store, f"v{least}", least_version=least)).version for least in (5, 0, 3, 9)]
        assert versions == [5, 6, 7, 9]
        assert [value.version for value in self.contextual(store).value_history(self.session(), "memory")] == [
            9,
            7,
            6,
            5,
        ]

    def test_an_operation_is_done_once(self, store: Store) -> None:
        first = self.put(store, "x", expect=0, operation="one")
        assert self.put(store, "x", expect=0, operation="one") == first, "the answer may have been lost"
        self.put(store, None, expect=1, operation="two")
        assert (self.put(store, None, expect=1, operation="two")).version == 2
        assert len(self.recorded(store)) == 2

    def test_every_write_is_a_change_that_names_its_value(self, store: Store) -> None:
        self.put(store, "x")
        self.put(store, "y", "k", label="notes", operation="mine", created_at_us=_NOW_US + 5)
        self.put(store, None)
        told = [(c.label, c.key, c.value_version, c.removed, c.version) for c in self.recorded(store)]
        assert told == [("memory", "", 1, False, 1), ("notes", "k", 1, False, 2), ("memory", "", 2, True, 3)]
        assert all(not change.leaf_moved and change.ids == () for change in self.recorded(store))

    def test_values_are_listed_in_the_order_of_their_keys(self, store: Store) -> None:
        keys = ["b", "a", "é", "B", "a/1", "a/2", "a0", "日本", "\U0001f600", "\ufffd", ""]
        for key in keys:
            self.put(store, f"text of {key}", key, label="notes", description=f"about {key}")
        self.put(store, "beside", "a", label="other")
        self.put(store, "gone", "b2", label="notes")
        self.put(store, None, "b2", label="notes")
        listed = self.contextual(store).values(self.session(), "notes")
        assert [value.key for value in listed] == sorted(keys)
        assert [value.content for value in listed] == [f"text of {key}" for key in sorted(keys)]
        assert [value.description for value in listed] == [f"about {key}" for key in sorted(keys)]

    def test_values_are_listed_without_their_content(self, store: Store) -> None:
        texts = {"": "", "a": "x", "a/1": "é\x00\ud83d", "b": "x" * 2_000_000, "日本": "y"}
        for n, (key, text) in enumerate(texts.items()):
            about = None if n % 2 else f"about {key}"
            self.put(store, text, key, label="notes", description=about, tokens=n, created_at_us=_NOW_US + n)
        self.put(store, "y", "a", label="notes", description="newer", created_at_us=_NOW_US + 9)
        self.put(store, "gone", "a0", label="notes")
        self.put(store, None, "a0", label="notes")
        self.put(store, "beside", "a", label="other")
        stats = self.contextual(store).value_stats(self.session(), "notes")
        listed = self.contextual(store).values(self.session(), "notes", budget_bytes=1 << 30)
        assert [stat.key for stat in stats] == sorted(texts)
        assert stats == [
            ValueStat(
                value.key,
                value.version,
                len((value.content or "").encode("utf-8", "surrogatepass")),
                value.tokens,
                times.to_us(value.written_at),
                value.description,
            )
            for value in listed
        ]

    def test_a_listing_without_content_comes_in_pages(self, store: Store) -> None:
        keeping = self.contextual(store)
        assert keeping.value_stats(self.session(), "notes") == []
        for key in ("a", "b/1", "b/2", "c", "b/3"):
            self.put(store, "x", key, label="notes")

        def keys(**options: Any) -> list[str]:
            return [stat.key for stat in keeping.value_stats(self.session(), "notes", **options)]

        assert keys(limit=2) == ["a", "b/1"]
        assert keys(after="b/1", limit=2) == ["b/2", "b/3"]
        assert keys(prefix="b/") == ["b/1", "b/2", "b/3"]
        assert keys(prefix="b/", after="b/2") == ["b/3"]
        assert keys(prefix="b/", after="c") == keys(after="c") == keys(limit=0) == []
        assert keys(after="\ud800") == keys(prefix="\ud800") == []

    @pytest.mark.parametrize("prefix", ["a", "a/", "a/1", "é", "\U0010ffff", "x", "\ud7ff"])
    def test_a_prefix_lists_the_keys_that_begin_so(self, store: Store, prefix: str) -> None:
        keys = [
            "a",
            "a/1",
            "a/2",
            "a0",
            "b",
            "é",
            "éa",
            "f",
            "\ud7ffx",
            "\ue000x",
            "\U0010ffffa",
            "\U0010ffff\U0010ffffb",
        ]
        for key in keys:
            self.put(store, "x", key, label="notes")
        listed = self.contextual(store).values(self.session(), "notes", prefix=prefix)
        assert [value.key for value in listed] == sorted(key for key in keys if key.startswith(prefix))

    @pytest.mark.parametrize("limit", [1, 2, 100])
    def test_pages_list_every_value_once(self, store: Store, limit: int) -> None:
        keys = [f"k{n:02}" for n in range(9)]
        for key in keys:
            self.put(store, key * 10, key)
        for budget_bytes in (1, 70, 1 << 20):
            seen: list[str] = []
            while True:
                page = self.contextual(store).values(
                    self.session(), "memory", after=seen[-1] if seen else None, limit=limit, budget_bytes=budget_bytes
                )
                if not page:
                    break
                assert len(page) <= limit and (len(page) <= 3 or budget_bytes > 70)
                seen += [value.key for value in page]
            assert seen == keys

    def test_a_clear_keeps_values_and_a_delete_takes_them(self, store: Store) -> None:
        self.put(store, "kept")
        self.put(store, "kept too", "k")
        body = '{"id":"a","role":"user","parts":[]}'
        store.append(self.session(), [NewMessage("a", "user", "plait", body, len(body), 1, _NOW_US)], parent=LEAF)
        assert store.clear(self.session())
        assert self.said(store) == "kept"
        last = self.put(store, "changed", expect=1)
        assert store.delete_session(self.session())
        assert self.said(store) is None
        assert self.contextual(store).value_history(self.session(), "memory") == []
        again = self.put(store, "anew", expect=0)
        assert again.version > last.version, "a version of an earlier life is not used again"
        assert self.said(store, "k") is None

    def test_a_late_handle_neither_reads_nor_writes_the_values_of_another_life(self, store: Store) -> None:
        late = self.session()
        self.put(store, "old", session=late)
        store.delete_session(self.session())
        self.put(store, "new")
        with pytest.raises(SessionDeletedError):
            self.contextual(store).read_value(late, "memory")
        with pytest.raises(SessionDeletedError):
            self.put(store, "late", session=late)
        assert self.said(store) == "new"

    def test_no_scope_sees_the_values_of_another(self, store: Store) -> None:
        self.put(store, "mine")
        for scope in _OTHERS:
            assert self.said(store, session=self.session(scope=scope)) is None
            self.put(store, "theirs", session=self.session(scope=scope))
        assert self.said(store) == "mine"

    def test_what_a_scope_shares_is_in_no_listing_but_in_its_feed(self, store: Store) -> None:
        shared = self.session(SHARED_SESSION)
        mark = cast("Feeding", store).scope_changes_end(_SCOPE)
        self.put(store, "for all", session=shared, created_at_us=_NOW_US)
        self.put(store, "for all, later", session=shared, created_at_us=_NOW_US + 3_600_000_000)
        assert (store.sessions(_SCOPE, cursor=None, limit=10)).sessions == []
        assert [change.value_version for change in self.recorded(store, shared)] == [1, 2]
        feeding = cast("Feeding", store)
        page = feeding.scope_changes(_SCOPE, after=mark, limit=50, budget_bytes=1 << 20)
        assert ("memory", SHARED_SESSION) in {(change.label, change.session_id) for change in page.changes}

    def test_a_staged_value_is_there_once_it_is_published(self, store: Store) -> None:
        self.put(store, "a")
        self.put(store, "b")
        store.delete_session(self.session())
        stage = store.stage(self.session())
        first = self.put(store, "staged", session=stage)
        assert first.version > 2
        assert self.said(store) is None
        store.publish(stage, self.session())
        assert self.said(store) == "staged"
        assert (self.put(store, "next")).version == first.version + 1

    def test_versions_are_not_used_again_when_a_session_lived_meanwhile(self, store: Store) -> None:
        stage = store.stage(self.session())
        self.put(store, "staged", session=stage)
        self.put(store, "x" * 2_000_000, "long", session=stage)
        last = [self.put(store, f"meanwhile {n}") for n in range(5)][-1]
        store.delete_session(self.session())
        store.publish(stage, self.session())
        value = self.contextual(store).read_value(self.session(), "memory")
        assert value is not None and value.content == "staged" and value.version > last.version
        assert self.said(store, "long") == "x" * 2_000_000
        assert (self.put(store, "new", "key")).version > last.version

    def test_a_stage_that_is_given_up_leaves_nothing(self, store: Store) -> None:
        stage = store.stage(self.session())
        self.put(store, "staged", session=stage)
        store.discard(stage)
        assert self.said(store) is None
        assert (self.put(store, "x")).version == 1

    def test_a_fork_takes_along_what_values_say_and_goes_its_own_way(self, store: Store) -> None:
        self.put(store, "old")
        self.put(store, "new", description="d", metadata={"k": 1}, tokens=3)
        self.put(store, "x" * 2_000_000 + "\ud83d", "long")
        self.put(store, "gone", "gone")
        self.put(store, None, "gone")
        store.fork(self.session(), self.session("copy"), at=None, created_at_us=_NOW_US)
        copied = self.contextual(store).value_history(self.session("copy"), "memory")
        assert [(v.content, v.version, v.description, v.metadata, v.tokens) for v in copied] == [
            ("new", 2, "d", {"k": 1}, 3)
        ]
        assert self.said(store, "long", session=self.session("copy")) == "x" * 2_000_000 + "\ud83d"
        assert self.contextual(store).value_names(self.session("copy")) == [("memory", ""), ("memory", "long")]
        assert len(self.recorded(store, self.session("copy"))) == 2
        self.put(store, "of the copy", expect=2, session=self.session("copy"))
        self.put(store, "of the source", expect=2)
        assert self.said(store) == "of the source"
        assert self.said(store, session=self.session("copy")) == "of the copy"

    def test_values_are_named_in_order_also_those_that_were_deleted(self, store: Store) -> None:
        names = [("a", ""), ("a", "k"), ("a", "\U0010ffffk"), ("ab", ""), ("b", "x"), ("é", "")]
        for label, key in reversed(names):
            self.put(store, "x", key, label=label)
        self.put(store, None, "k", label="a")
        contextual = self.contextual(store)
        assert contextual.value_names(self.session()) == names
        assert contextual.value_names(self.session(), after=("a", ""), limit=2) == names[1:3]
        assert contextual.value_names(self.session(), after=("a", None)) == names[3:]
        assert contextual.value_names(self.session("absent")) == []

    def test_values_are_counted(self, store: Store) -> None:
        contextual = self.contextual(store)
        assert contextual.count_values(self.session(), "notes") == 0
        for key in ("a", "ab", "b", ""):
            self.put(store, "x", key, label="notes")
        self.put(store, None, "b", label="notes")
        self.put(store, "x", "a", label="other")
        assert contextual.count_values(self.session(), "notes") == 3
        assert contextual.count_values(self.session(), "notes", "a") == 2
        assert contextual.count_values(self.session(), "notes", "b") == 0

    # -- what sessions used

    def test_usage_is_added_up_and_told(self, store: Store) -> None:
        if not callable(getattr(store, "add_usage", None)):
            pytest.skip("this store does not add up usage")
        accounting = cast("Accounting", store)
        assert accounting.add_usage(self.session(), Usage(1), created_at_us=_NOW_US) is None
        store.put_session(self.session(), created_at_us=_NOW_US, create="new", metadata={"own": {"k": 1}})
        info = None
        for more in (Usage(10, 2, 0.5), Usage(), Usage(5, 0, 0.25)):
            info = accounting.add_usage(self.session(), more, created_at_us=_NOW_US)
        assert info is not None and info.usage == Usage(15, 2, 0.75) and info.metadata["own"] == {"k": 1}
        assert info == store.info(self.session()) and info.version == 3, "adding nothing is no change"

    # -- searching in values

    def hits(self, store: Store, query: str, label: str = "notes", **options: Any) -> list[str]:
        """The keys of the values that a search finds."""
        found = self.contextual(store).search_values(self.session(), label, query, **options)
        return [hit.value.key for hit in found]

    def test_a_search_finds_the_values_of_a_label_that_hold_every_word(self, store: Store) -> None:
        assert self.hits(store, "tea") == []
        texts = {"a": "She likes green tea", "b": "Tea at five", "c": "Coffee", "d": "tea"}
        for key, text in texts.items():
            self.put(store, text, key, label="notes")
        self.put(store, "tea elsewhere", label="other")
        assert set(self.hits(store, "tea")) == {"a", "b", "d"}
        assert self.hits(store, "likes TEAS") == ["a"]
        assert self.hits(store, '"green tea"') == ["a"]
        assert self.hits(store, '"tea green"') == []
        assert self.hits(store, "tea coffee") == []
        assert self.hits(store, "  !? ") == []
        assert len(self.hits(store, "tea", limit=2)) == 2

    def test_a_hit_shows_the_value_and_why_it_was_found(self, store: Store) -> None:
        text = "so much before it. " * 40 + "The gate code is 4711. " + "and after. " * 40
        written = self.put(store, text, "gate", label="notes", description="codes")
        (hit,) = self.contextual(store).search_values(self.session(), "notes", "gate code")
        assert hit.value == written
        assert [hit.snippet[start:end] for start, end in hit.highlights] == ["gate", "code"]
        assert len(hit.snippet) < 300 and hit.score > 0

    def test_any_piece_of_text_without_spaces_is_found(self, store: Store) -> None:
        texts = {
            "zh": "重跑gen-itgc后50条悬空引用",
            "ja": "日本語のテスト",
            "ko": "한국어 검색을",
            "th": "ภาษาไทยไม่มี",
            "e": "🎉",
        }
        for key, text in texts.items():
            self.put(store, text, key, label="notes")
        for query, key in [("悬", "zh"), ("itgc", "zh"), ("テス", "ja"), ("색", "ko"), ("ไทย", "th"), ("🎉", "e")]:
            assert self.hits(store, query) == [key], query

    def test_a_search_sees_every_write_before_it(self, store: Store) -> None:
        self.put(store, "alpha", "a", label="notes")
        assert self.hits(store, "alpha") == ["a"]
        self.put(store, "beta", "a", label="notes")
        assert (self.hits(store, "alpha"), self.hits(store, "beta")) == ([], ["a"])
        self.put(store, "beta beta", "b", label="notes")
        assert self.hits(store, "beta") == ["b", "a"], "the better match comes first"
        self.put(store, None, "a", label="notes")
        assert self.hits(store, "beta") == ["b"]
        self.put(store, "beta again", "a", label="notes")
        assert set(self.hits(store, "beta")) == {"a", "b"}
        store.delete_session(self.session())
        assert self.hits(store, "beta") == []
        self.put(store, "beta anew", "c", label="notes")
        assert self.hits(store, "beta") == ["c"]

    def test_any_value_is_searched_and_any_query_is_asked(self, store: Store) -> None:
        for name, text in _ODD_TEXTS.items():
            self.put(store, f"{text[:5_000]} tail", name, label="notes")
            self.hits(store, text[:1000], limit=1)
            self.hits(store, f'"{text[:100]}" *^-:()', limit=1)
        assert len(self.hits(store, "tail", limit=99)) == len(_ODD_TEXTS)

    def test_no_session_finds_the_values_of_another(self, store: Store) -> None:
        self.put(store, "secret", "mine", label="notes")
        self.hits(store, "secret")
        for session in [self.session("t"), *(self.session(scope=scope) for scope in _OTHERS)]:
            self.put(store, "open", "theirs", label="notes", session=session)
            assert self.contextual(store).search_values(session, "notes", "secret") == []
            found = self.contextual(store).search_values(session, "notes", "open")
            assert [hit.value.key for hit in found] == ["theirs"]

    # -- pruning

    def kept(self, store: Store, key: str = "", session: SessionRef | None = None) -> list[int]:
        """The versions of a value that are kept, newest first."""
        found = self.contextual(store).value_history(session or self.session(), "memory", key)
        return [value.version for value in found]

    def test_earlier_versions_are_forgotten_by_number(self, store: Store) -> None:
        for n in range(5):
            self.put(store, f"v{n}")
            self.put(store, "x" * 2_000_000 + str(n), "long")
            self.put(store, f"v{n}", session=self.session(scope=_OTHERS[0]))
        self.put(store, "lone", "lone")
        contextual = self.contextual(store)
        assert contextual.prune_values(_SCOPE, before_us=None, keep=9) == 0
        assert contextual.prune_values(_SCOPE, before_us=None, keep=2) == 4
        assert (self.kept(store), self.kept(store, "long")) == ([5, 4, 3], [5, 4, 3])
        assert contextual.prune_values(_SCOPE, before_us=None, keep=0) == 4
        assert (self.kept(store), self.kept(store, "lone")) == ([5], [1])
        assert self.said(store, "long") == "x" * 2_000_000 + "4"
        assert self.kept(store, session=self.session(scope=_OTHERS[0])) == [5, 4, 3, 2, 1]
        assert (self.put(store, "next", expect=5)).version == 6

    def test_earlier_versions_are_forgotten_by_time(self, store: Store) -> None:
        for n, minutes in enumerate([0, 1, 5, 2, 9]):  # one clock was wrong
            self.put(store, f"v{n}", created_at_us=_NOW_US + minutes * 60_000_000)
        contextual = self.contextual(store)
        assert contextual.prune_values(_SCOPE, before_us=_NOW_US + 3 * 60_000_000, keep=None) == 2
        assert self.kept(store) == [5, 4, 3], "none after one that stays"
        assert contextual.prune_values(_SCOPE, before_us=_NOW_US * 2, keep=None) == 2
        assert self.kept(store) == [5], "the newest stays"

    def test_a_long_history_of_many_values_is_forgotten(self, store: Store) -> None:
        for n in range(450):
            self.put(store, f"v{n}")
        for n in range(230):
            self.put(store, "a", f"k{n}")
            self.put(store, "b", f"k{n}")
        assert self.contextual(store).prune_values(_SCOPE, before_us=None, keep=0) == 449 + 230
        assert self.kept(store) == [450]
        assert self.kept(store, "k229") == [2]

    @pytest.mark.parametrize("label", ["", "   ", "\x00", "x" * 513, "\ud83d", None, 3])
    def test_a_label_that_is_no_id_is_refused(self, store: Store, label: Any) -> None:
        with pytest.raises(UsageError, match="label"):
            self.put(store, "x", label=label)
        assert store.info(self.session()) is None

    @pytest.mark.parametrize("key", ["  ", "\x00", "x" * 513, "\ud83d", None, 3])
    def test_a_key_that_is_neither_empty_nor_an_id_is_refused(self, store: Store, key: Any) -> None:
        with pytest.raises(UsageError, match="key"):
            self.put(store, "x", key)
        assert store.info(self.session()) is None

    @pytest.mark.parametrize(
        "wrong",
        [
            {"content": b"bytes"},
            {"content": 3},
            {"description": 3},
            {"metadata": {"k": float("nan")}},
            {"metadata": {"k": {1, 2}}},
            {"metadata": {1: "k"}},
            {"metadata": 3},
            {"metadata": "text"},
            {"metadata": {"k": (1, 2)}},
            {"tokens": -1},
            {"tokens": "3"},
            {"operation": "\ud83d"},
            {"operation": None},
        ],
        ids=repr,
    )
    def test_what_cannot_be_kept_exactly_is_refused(self, store: Store, wrong: dict[str, Any]) -> None:
        given: dict[str, Any] = {"content": "x", **wrong}
        with pytest.raises(UsageError):
            self.put(store, **given)
        assert store.info(self.session()) is None
