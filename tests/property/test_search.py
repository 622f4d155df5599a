"""Search finds what reading every message finds, whatever was done to the data and whatever is asked."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import plait
from plait.interchange.values import ImportEntry, Report, Transcript
from plait.logic.words import fold
from plait.model import LEAF, Hit
from plait.store.plans import indexing
from plait.store.protocol import Scope, Search, SessionRef
from plait.store.tokens import tokenize
from plait.testing import brute
from plait.testing.faults import invariants
from tests.behaviour.search import HOSTILE, candidates, facts
from tests.behaviour.values import note
from tests.dose import dose
from tests.stores import open_sqlite

SESSIONS = ["s", "t", "u"]
IDS = [f"m{n}" for n in range(16)]
PIECES = [
    *["tea", "Tea", "teas", "deploy", "deployed", "café", "CAFE", "naïve", "straße", "Ёлка", "елка", "POL-358"],
    *["悬空", "空", "引用", "テスト", "ﾃｽﾄ", "검색", "검색을", "ไทย", "ไม่มี", "🎉", "👨\u200d👩", "x悬y", "gen后50"],
    *["\x00", "\ud800", '"', "(", "OR", "e\u0301"],
]

ids = st.sampled_from(IDS)
names = st.sampled_from(SESSIONS)
texts = st.lists(st.sampled_from(PIECES), max_size=5).map(" ".join)
queries = st.one_of(
    st.sampled_from(PIECES),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map(" ".join),
    st.lists(st.sampled_from(PIECES), min_size=2, max_size=2).map(lambda found: f'"{" ".join(found)}"'),
)


class SearchMachine(RuleBasedStateMachine):
    """Random changes of a few sessions; now and then somebody searches, and the index has to know."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="plait-search-"))
        self.numbers = itertools.count()
        self.open()

    def open(self) -> None:
        self.store = open_sqlite(self.folder / "s.db")
        self.sessions = plait.Sessions(self.store)

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            for query in ("tea", "空", '"tea deploy"'):
                self.look(query, "s", True)
            assert self.sessions.doctor() == []
        finally:
            self.sessions.close()
            shutil.rmtree(self.folder)

    # -- changes

    @rule(name=names, batch=st.lists(st.tuples(ids, texts), min_size=1, max_size=4))
    def append(self, name: str, batch: list[tuple[str, str]]) -> None:
        self.sessions.session(name).append_many([plait.user(text, id=id) for id, text in batch])

    @rule(name=names, parent=ids, id=ids, text=texts)
    def branch(self, name: str, parent: str, id: str, text: str) -> None:
        chat = self.sessions.session(name)
        chat.append(plait.assistant(text, id=id), parent=parent if chat.get(parent) else None)

    @rule(name=names, id=ids, text=texts)
    def update(self, name: str, id: str, text: str) -> None:
        self.sessions.session(name).update(plait.user(text, id=id))

    @rule(name=names, gone=st.lists(ids, min_size=1, max_size=4))
    def delete(self, name: str, gone: list[str]) -> None:
        self.sessions.session(name).delete(gone)

    @rule(name=names)
    def clear(self, name: str) -> None:
        self.sessions.session(name).clear()

    @rule(name=names)
    def delete_session(self, name: str) -> None:
        self.sessions.delete(name)

    @rule(name=names, copy=names)
    def fork(self, name: str, copy: str) -> None:
        if copy != name and not self.sessions.get(copy):
            self.sessions.session(name).fork(copy)

    @rule(name=names, texts=st.lists(texts, min_size=1, max_size=3))
    def bring_in(self, name: str, texts: list[str]) -> None:
        """A transcript that is merged into the session if there is one."""
        made = [f"i{next(self.numbers)}" for _ in texts]
        entries = [
            ImportEntry(id, made[n - 1] if n else None, note(id, text), None, None, n + 1)
            for n, (id, text) in enumerate(zip(made, texts, strict=True))
        ]
        self.sessions.import_transcript(Transcript(name, "plait", iter(entries), Report(), count=len(entries)))

    @rule(name=names, at=ids)
    def checkout(self, name: str, at: str) -> None:
        if self.sessions.session(name).get(at):
            self.sessions.session(name).checkout(at)

    # -- upkeep

    @rule()
    def purge(self) -> None:
        self.sessions.vacuum(purge=True)

    @rule(rebuild=st.booleans())
    def build(self, rebuild: bool) -> None:
        self.sessions.build_search_index(rebuild=rebuild)

    @rule()
    def reopen(self) -> None:
        self.sessions.close()
        assert invariants(self.folder / "s.db") == []
        self.open()

    # -- searches

    @rule(name=names, query=queries, newest_first=st.booleans())
    def look(self, query: str, name: str, newest_first: bool) -> None:
        """A session, its active path and the whole scope are searched."""
        asked = Search(query, limit=999, newest_first=newest_first)
        found = self.store.search(SessionRef(Scope(), name), asked)
        self.same(found, brute.search(candidates(self.store, name), asked), newest_first)
        everything = [item for info in self.sessions.all() for item in candidates(self.store, info.id)]
        self.same(self.store.search(Scope(), asked), brute.search(everything, asked), newest_first)
        path = {message.id for message in self.sessions.session(name).transcript()}
        on_path = self.store.search(
            SessionRef(Scope(), name), Search(query, limit=999, newest_first=True, branches=False, leaf=LEAF)
        )
        expected = sorted((hit for hit in found if hit.id in path), key=lambda hit: -hit.seq)
        assert facts(on_path) == facts(expected)
        assert {hit.id for hit in found if hit.on_path} == {hit.id for hit in expected}

    def same(self, found: list[Hit], expected: list[Hit], in_order: bool) -> None:
        if in_order:
            assert facts(found) == facts(expected)
        else:
            assert sorted(facts(found)) == sorted(facts(expected))
            assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)


@pytest.fixture(autouse=True, scope="module")
def _small_steps() -> object:
    """Few messages a transaction, so that a session is met half indexed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "STEP_ROWS", 3)
        patch.setattr(indexing, "DRAIN_ROWS", 2)
        yield


TestSearchMachine = SearchMachine.TestCase
TestSearchMachine.settings = settings(
    max_examples=dose(short=30, soak=300), stateful_step_count=dose(short=25, soak=60), deadline=None
)


# -- recall against the raw text ---------------------------------------------------

SYLLABLES = {
    "Latin": ["ka", "çé", "ñu", "ör", "ßi", "lo"],
    "Cyrillic": ["ёл", "ка", "Мо", "сч", "ёт", "ги"],
    "Greek": ["σί", "φο", "κα", "Ώρ", "έλ", "μα"],
    "Chinese": list("悬空引用清零重跑后条的一"),
    "Japanese": list("日本語のテストを検索ーが"),
    "Korean": list("한국어검색을했다는이가나"),
    "Thai": list("กขคงจฉชไใโดต"),
    "emoji": ["🎉", "💡", "→", "🚀"],
    "mixed": ["gen", "悬", "空", "후", "50", "ไ", "ó", "🎉", "ка", "έλ"],
}
GAPS = [" ", " ", ". ", "-", ", "]
KINDS = ["word", "piece", "several", "quoted"]

ALONE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e01-\u0e4e\u2190-\u21ff\U0001f000-\U0001faff"
"""What of `SYLLABLES` needs no spaces around it to be found."""

PARTS = re.compile(rf"[{ALONE}]|[^\W{ALONE}]+")


def plain(text: str) -> str:
    """Text without accents and case."""
    parts = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(char for char in parts if not "\u0300" <= char <= "\u036f"))


def spelt(text: str) -> str:
    """Its words and lone characters with one space around each, so that one phrase in another is a substring."""
    return f" {' '.join(PARTS.findall(plain(text)))} "


def holds(text: str, query: str) -> bool:
    """Whether a text has every piece of a query, by what the raw text says; plait's own words have no part in it."""
    pieces = [spelt(quoted or bare) for quoted, bare in re.findall(r'"([^"]*)"|(\S+)', query)]
    return all(piece in spelt(text) for piece in pieces if piece.strip())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("script", SYLLABLES)
@given(data=st.data())
@settings(deadline=None, max_examples=dose(short=8, soak=300))
def test_search_finds_what_brute_force_finds_in_the_raw_text_and_nothing_else(
    script: str, kind: str, data: st.DataObject
) -> None:
    """B-092: recall and precision, in either order, of messages the index knows."""
    made = st.lists(st.sampled_from(SYLLABLES[script]), min_size=1, max_size=6).map("".join)
    sentence = st.lists(st.tuples(made, st.sampled_from(GAPS)), min_size=1, max_size=4).map(
        lambda parts: "".join(word + gap for word, gap in parts)
    )
    said = data.draw(st.lists(sentence, min_size=1, max_size=10))
    query = drawn(kind, said, data)
    expected = [f"m{n}" for n, text in enumerate(said) if holds(text, query)] if spelt(query).strip() else []
    with plait.open(":memory:") as sessions:
        chat = sessions.session("s")
        chat.append_many([plait.user(text, id=f"m{n}") for n, text in enumerate(said)])
        for searched in (chat, sessions):
            assert [hit.id for hit in searched.search(query, limit=99, newest_first=True)] == expected[::-1]
            assert sorted(hit.id for hit in searched.search(query, limit=99)) == sorted(expected)


def drawn(kind: str, said: list[str], data: st.DataObject) -> str:
    """A query of a kind, taken from what was said."""
    texts = st.sampled_from(said)
    if kind == "word":
        return data.draw(st.sampled_from(data.draw(texts).split()))
    if kind == "several":
        return " ".join(piece_of(data.draw(texts), data) for _ in range(data.draw(st.integers(2, 3))))
    piece = piece_of(data.draw(texts), data)
    return f'"{piece}"' if kind == "quoted" else piece


def piece_of(whole: str, data: st.DataObject) -> str:
    first = data.draw(st.integers(0, len(whole) - 1))
    return whole[first : data.draw(st.integers(first + 1, len(whole)))]


# -- no input whatever -----------------------------------------------------------------

anything = st.text(st.characters(), max_size=60) | st.text(
    st.sampled_from('"()*^:-+{} \x00\ud800\udc00aé空🎉\u200d\u0301')
)


def joined(text: str) -> str:
    """The same without a character in two halves, which no message may hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(text=anything.map(joined), query=anything)
@example(text="💡", query="\ud83d\udca1")
@example(text="x" * 100_000, query=HOSTILE[0])
@settings(deadline=None, max_examples=dose(short=150, soak=5_000))
def test_no_text_and_no_query_raises(text: str, query: str) -> None:
    """B-090: NUL, lone surrogates, quotes, operators; and a text with a word in it is found by itself."""
    with plait.open(":memory:") as sessions:
        chat = sessions.session("s")
        chat.append(plait.user(text, id="m"))
        for newest_first in (True, False):
            for hit in [*chat.search(query, newest_first=newest_first), *sessions.search(f'"{query}"')]:
                assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.highlights)
                hit.marked().encode()
        has_words = bool(tokenize(fold(text.replace('"', " "))))
        assert [hit.id for hit in chat.search(text)] == (["m"] if has_words else [])
