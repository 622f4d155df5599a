"""Generated from tests/behaviour/_async/test_search.py by tools/unasync.py: edit that file. Full-text search: what is found, in which order, where, and how a hit is shown and opened."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

import plait
from plait import LEAF, Session, Sessions, Hit, UnsupportedError, UsageError
from plait.testing import ModelStore
from tests.behaviour._sync.helpers import readable
from tests.behaviour.search import HOSTILE, SCRIPTS, rows_in
from tests.behaviour.values import picture


def say(chat: Session, *texts: str) -> list[str]:
    """Append user messages; their ids."""
    return [result.id for result in chat.append_many([plait.user(text) for text in texts])]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# -- what is found ---------------------------------------------------------------


def test_every_word_must_be_there_in_whatever_order(chat: Session) -> None:
    """The source's one phrase misses `deploy to production`; here words are words."""
    both, _ = say(chat, "we deploy to production on Friday", "we deploy to staging")
    assert ids(chat.search("production deploy")) == [both]
    assert len(chat.search("deploy")) == 2


def test_quoted_words_must_stand_together(chat: Session) -> None:
    apart, together = say(chat, "deploy to production", "deploy production now")
    assert ids(chat.search('"deploy production"')) == [together]
    assert set(ids(chat.search("deploy production"))) == {apart, together}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("we deployed it", "deploying"),
        ("the cafe is open", "café"),
        ("das CAFÉ", "cafe"),
        ("ΣΊΣΥΦΟΣ rolls", "σίσυφος"),
        ("новогодняя ёлка", "елка"),
        ("مُحَمَّد", "محمد"),
        ("a \U0001f389 party", "\U0001f389"),
        ("full ＷＩＤＴＨ", "width"),
        ("e\u0301te\u0301", "été"),
    ],
)
def test_endings_accents_and_case_do_not_count(chat: Session, text: str, query: str) -> None:
    (id,) = say(chat, text)
    assert ids(chat.search(query)) == [id]


@pytest.mark.parametrize(
    "query",
    ["POL-358", "don't", "C++", "20.04", '"open quote', "foo(", "a:b", "OR", "NEAR", "x NOT y", "^caret", "col:*"],
)
def test_everyday_text_is_found_as_it_is(chat: Session, query: str) -> None:
    """B-090: no operator, no syntax error; the literal text is found."""
    (id,) = say(chat, f"see {query.strip(chr(34))} for more")
    say(chat, "nothing of the kind")
    assert id in ids(chat.search(query))


@pytest.mark.parametrize("query", ["", " ", "*", "...", '""', '"', "\x00", "\ud800", "\u0301", "()", "\n\t"])
def test_a_query_without_a_word_finds_nothing(chat: Session, query: str) -> None:
    """B-090: blank gives an empty list."""
    say(chat, "some words", '... * "" ()')
    assert chat.search(query) == []
    assert chat.search(query, newest_first=True) == []


@pytest.mark.parametrize("query", HOSTILE)
def test_no_query_raises(chat: Session, query: str) -> None:
    say(chat, "some words", query)
    chat.search(query)
    chat.search(f'"{query}" some', newest_first=True)


@pytest.mark.parametrize(("text", "queries"), SCRIPTS)
def test_scripts_without_spaces_are_found_by_any_piece(chat: Session, text: str, queries: list[str]) -> None:
    """B-092: substrings of one or more characters, and Latin words among them."""
    (id,) = say(chat, text)
    say(chat, "nothing of the kind")
    for query in queries:
        assert ids(chat.search(query)) == [id], query
        assert ids(chat.search(query, newest_first=True)) == [id], query


def test_all_matches_are_found_not_only_the_easy_ones(chat: Session) -> None:
    """B-092: a case where the fast path finds 1 of 5."""
    found = say(chat, "悬空", "有悬空的", "悬空引用", "a悬空b", "x 悬空 y")
    assert set(ids(chat.search("悬空"))) == set(found)


def test_only_text_parts_are_searched_and_media_never(chat: Session, file: Path) -> None:
    """B-098: the documented scope."""
    parts = [
        {"type": "text", "text": "spoken"},
        {"type": "reasoning", "text": "pondered"},
        {"type": "tool-x", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "computed " * 9999},
        picture("p", b"\x89PNG" + b"pixels" * 1000)["parts"][1],
    ]
    chat.append({"id": "m", "role": "assistant", "parts": parts, "metadata": {"note": "annotated"}})
    assert ids(chat.search("spoken")) == ["m"]
    for word in ("pondered", "computed", "annotated", "cGl4ZWxz"):
        assert chat.search(word) == []
    assert rows_in(file, "SELECT sum(length(block)) FROM message_words_data")[0][0] < 2000


def test_a_message_of_many_slices_is_found_by_its_last_word(chat: Session) -> None:
    """The source never indexes a message over 1.5 MiB stored before the first search."""
    (id,) = say(chat, "pad " * 500_000 + "zanzibar")
    (hit,) = chat.search("zanzibar")
    assert hit.id == id and hit.snippet.endswith("zanzibar") and hit.marked().endswith("**zanzibar**")


def test_foreign_messages_are_found_by_their_text(chat: Session) -> None:
    chat.append({"role": "user", "content": "from a chat"}, id="c")
    chat.append(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "responses"}]}, id="r"
    )
    assert ids(chat.search("chat")) == ["c"]
    assert ids(chat.search("responses")) == ["r"]


# -- order -----------------------------------------------------------------------


def test_the_best_match_comes_first(chat: Session) -> None:
    """B-097: a strong match above weak ones; a better one has a higher score."""
    say(
        chat, *(f"message {n} of some length that mentions the lighthouse once, among much else" for n in range(20))
    )
    (strong,) = say(chat, "lighthouse " * 5)
    hits = chat.search("lighthouse", limit=3)
    assert hits[0].id == strong
    assert hits[0].score > hits[1].score >= hits[2].score > 0


def test_equal_matches_come_newest_first_every_time(chat: Session) -> None:
    found = say(chat, *["the same words"] * 30)
    assert ids(chat.search("same words", limit=30)) == found[::-1]
    assert ids(chat.search("same", limit=10, offset=5)) == found[::-1][5:15]


def test_newest_first_goes_by_seq_over_all_branches(chat: Session) -> None:
    a, b = say(chat, "ships once", "ships " * 9)
    c = (chat.append(plait.user("ships on a branch"), parent=a)).id
    d = (chat.append(plait.user("it ships on the first"), parent=b)).id
    assert ids(chat.search("ships", newest_first=True)) == [d, c, b, a]
    assert ids(chat.search("ships", newest_first=True, limit=2, offset=1)) == [c, b]


# -- filters ---------------------------------------------------------------------


def test_filters_come_before_the_limit(chat: Session) -> None:
    chat.append(plait.assistant("tea", id="a"))
    say(chat, *["tea tea tea"] * 50)
    assert ids(chat.search("tea", role="assistant", limit=1)) == ["a"]
    assert ids(chat.search("tea", role=["system", "assistant"], newest_first=True, limit=1)) == ["a"]
    assert len(chat.search("tea", role=["user", "assistant"], limit=99)) == 51


def test_time_bounds_take_in_the_first_and_leave_out_the_last(chat: Session) -> None:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    for n in range(4):
        at = day + dt.timedelta(days=n)
        chat.import_message(plait.user("tea", id=f"m{n}"), parent=f"m{n - 1}" if n else None, created_at=at)
    since, until = day + dt.timedelta(days=1), day + dt.timedelta(days=3)
    assert ids(chat.search("tea", since=since, until=until, newest_first=True)) == ["m2", "m1"]
    assert ids(chat.search("tea", since=since, limit=1, newest_first=True)) == ["m3"]
    (hit,) = chat.search("tea", until=since)
    assert (hit.id, hit.created_at) == ("m0", day)


def test_a_branch_is_searched_by_its_leaf(chat: Session) -> None:
    root, old = say(chat, "tea root", "tea old")
    new = (chat.append(plait.user("tea new"), parent=root)).id
    assert set(ids(chat.search("tea"))) == {root, old, new}
    assert set(ids(chat.search("tea", leaf=LEAF))) == {root, new}
    assert set(ids(chat.search("tea", leaf=old, newest_first=True))) == {root, old}
    assert chat.search("tea", leaf="nobody") == []


def test_a_session_of_very_many_branches_is_searched_alike(chat: Session) -> None:
    (root,) = say(chat, "tea root")
    found = [root]
    for n in range(80):
        found.append((chat.append(plait.user(f"tea {n}"), parent=root)).id)
    assert ids(chat.search("tea", newest_first=True, limit=99)) == found[::-1]
    assert set(ids(chat.search("tea", limit=99))) == set(found)
    assert set(ids(chat.search("tea", leaf=found[5]))) == {root, found[5]}


@pytest.mark.parametrize(
    "wrong", [{"limit": -1}, {"offset": -1}, {"role": []}, {"role": [1]}, {"since": dt.datetime(2026, 1, 1)}]
)
def test_what_cannot_be_asked_is_refused(chat: Session, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        chat.search("tea", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        chat.search(b"tea")  # type: ignore[arg-type]


def test_a_limit_of_nothing_finds_nothing(chat: Session) -> None:
    say(chat, "tea")
    assert chat.search("tea", limit=0) == []


def test_an_absent_session_has_no_hits_and_is_not_made(sessions: Sessions) -> None:
    assert sessions.session("nobody").search("tea") == []
    assert sessions.search("tea") == []
    assert sessions.get("nobody") is None


# -- scopes ----------------------------------------------------------------------


def test_a_scope_is_searched_whole_and_no_other(sessions: Sessions) -> None:
    other = sessions.scoped("acme", "bob")
    mine = [*say(sessions.session("a"), "tea one"), *say(sessions.session("b"), "tea two")]
    theirs = say(other.session("a"), "tea three", "tea four")
    assert set(ids(sessions.search("tea"))) == set(mine)
    assert set(ids(other.search("tea"))) == set(theirs)
    assert set(ids(other.search("tea", newest_first=True))) == set(theirs)
    assert sessions.scoped("acme", "BOB").search("tea") == []
    assert {hit.session_id for hit in sessions.search("tea")} == {"a", "b"}


def test_newest_first_over_sessions_keeps_each_in_its_order(sessions: Sessions) -> None:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    a, b = sessions.session("a"), sessions.session("b")
    for n, chat in enumerate([a, b, a, b]):
        at = day + dt.timedelta(days=n)
        leaf = chat.leaf()
        chat.import_message(plait.user("tea", id=f"m{n}"), parent=leaf.id if leaf else None, created_at=at)
    assert ids(sessions.search("tea", newest_first=True)) == ["m3", "m2", "m1", "m0"]
    b.import_message(plait.user("tea", id="past"), parent=None, created_at=day)
    assert ids(sessions.search("tea", newest_first=True)) == ["m2", "m0", "past", "m3", "m1"], "b goes by seq"


def test_a_word_that_is_everywhere_is_found_newest_first(sessions: Sessions) -> None:
    """More hits than are put in order at once: the sessions are gone through, the last active ones first."""
    for n in range(6):
        say(sessions.session(f"s{n}"), *[f"tea {n}"] * 400)
    expected = sessions.session("s5").search("tea", newest_first=True)
    hits = sessions.search("tea", newest_first=True)
    assert ids(hits) == ids(expected) and len(hits) == 20


# -- following the data ----------------------------------------------------------


def test_a_store_that_never_searches_writes_nothing_of_it(chat: Session, file: Path) -> None:
    """The source: the index is built on the first search, never on append."""
    (id,) = say(chat, "tea")
    chat.update(plait.user("coffee", id=id))
    chat.delete(id)
    chat.clear()
    for table in ("search_on", "search_progress", "search_behind", "search_pending", "message_words_docsize"):
        assert rows_in(file, f"SELECT * FROM {table}") == [], table
    assert chat.search("tea") == []
    assert len(rows_in(file, "SELECT * FROM search_on")) == 1


def test_an_append_marks_its_session_once_and_writes_no_words(chat: Session, file: Path) -> None:
    say(chat, "tea")
    chat.search("tea")
    say(chat, "tea", "tea")
    say(chat, "tea")
    assert len(rows_in(file, "SELECT * FROM search_behind")) == 1
    assert len(rows_in(file, "SELECT * FROM message_words_docsize")) == 1
    assert len(chat.search("tea")) == 4
    assert rows_in(file, "SELECT * FROM search_behind") == []


def test_the_index_follows_every_change(chat: Session, sessions: Sessions) -> None:
    """B-094: append, update, delete, delete of a branch, import, fork, clear, delete of the session."""
    a, b, _ = say(chat, "tea one", "tea two", "coffee")
    assert len(chat.search("tea")) == 2
    chat.update(plait.user("coffee one", id=a))
    assert ids(chat.search("tea")) == [b]
    assert len(chat.search("coffee")) == 2
    chat.update({"id": a, "role": "user", "parts": []})
    assert len(chat.search("coffee")) == 1
    chat.delete(b)
    assert chat.search("tea") == []
    chat.import_message(plait.user("tea imported", id="i"), parent=None)
    fork = chat.fork("copy")
    assert ids(fork.search("tea")) == ["i"]
    assert sorted(hit.session_id for hit in sessions.search("tea")) == ["chat", "copy"], "B-057: each once"
    chat.clear()
    assert chat.search("tea") == []
    say(chat, "tea again")
    assert len(chat.search("tea")) == 1
    sessions.delete("chat")
    assert [hit.session_id for hit in sessions.search("tea")] == ["copy"]
    assert sessions.session("chat").search("tea") == []


def test_a_search_beside_a_writer_sees_what_was_committed(
    chat: Session, reopened: Callable[[], Sessions]
) -> None:
    with reopened() as elsewhere:
        other = elsewhere.session("chat")
        for n in range(20):
            chat.append(plait.user(f"tea {n}", id=f"m{n}"))
            assert len(other.search("tea", limit=99)) == n + 1
        other.update(plait.user("coffee", id="m3"))
        chat.delete("m4")
        assert len(other.search("tea", limit=99)) == len(chat.search("tea", limit=99)) == 18
        assert ids(chat.search("coffee")) == ["m3"]


@pytest.mark.parametrize("searched", [False, True])
def test_a_search_behind_a_held_write_lock_reads_what_it_cannot_index(
    chat: Session, file: Path, searched: bool
) -> None:
    """It waits as a write does, and then answers all the same; values likewise."""
    chat.with_context("pile", kind="collection")
    say(chat, "tea one", "coffee")
    chat.context.put("pile", "tea one", key="a")
    if searched:
        chat.search("tea")
        chat.context.search("pile", "tea")
    say(chat, "tea two")
    chat.context.put("pile", "tea two", key="b")
    with plait.open(file, busy_timeout_s=0.05) as hasty:
        other = hasty.session("chat").with_context("pile", kind="collection")
        with held(file):
            assert [hit.snippet for hit in other.search("tea", newest_first=True)] == ["tea two", "tea one"]
            assert len(hasty.search("tea")) == 2
            found = other.context.search("pile", "tea") or ""
            assert "tea one" in found and "tea two" in found
        assert len(other.search("tea")) == 2


def test_a_search_with_nothing_to_index_does_not_wait_for_the_write_lock(chat: Session, file: Path) -> None:
    """Nor does one of a file that was opened to be read, whatever the index lacks."""
    chat.with_context("pile", kind="collection")
    say(chat, "tea")
    chat.context.put("pile", "tea", key="a")
    chat.search("tea")
    chat.context.search("pile", "tea")
    began = time.monotonic()
    with held(file):
        assert len(chat.search("tea")) == 1
        assert "tea" in (chat.context.search("pile", "tea") or "")
    say(chat, "tea")
    with plait.open(file, read_only=True) as reading:
        with held(file):
            assert len(reading.session("chat").search("tea")) == 2
    assert time.monotonic() - began < 25, "a write would have waited 30 s"


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Another program in the middle of a write."""
    with closing(apsw.Connection(str(file))) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


@pytest.mark.parametrize("searched", [False, True])
def test_a_read_only_file_is_searched_to_its_last_message(chat: Session, file: Path, searched: bool) -> None:
    found = say(chat, "tea one", "tea 悬空", "tea three", "tea four")
    if searched:
        chat.search("tea")
    found += say(chat, "tea five tea", "coffee")
    chat.update(plait.user("coffee", id=found[0]))
    chat.delete(found[2])
    expected = [found[4], found[3], found[1]]
    with plait.open(file, read_only=True) as reading:
        other = reading.session("chat")
        assert ids(other.search("tea", newest_first=True)) == expected
        assert ids(reading.search("tea", newest_first=True)) == expected
        assert set(ids(other.search("tea"))) == set(expected)
        assert (reading.search("tea"))[0].id == found[4], "the strong one first"
        assert ids(other.search("空")) == [found[1]]
        assert len(other.search("coffee")) == 2
        assert len(other.search("tea", limit=1, offset=1)) == 1
    assert ids(chat.search("tea", newest_first=True)) == expected


def test_a_backfill_is_told_how_far_it_is_and_is_done_once(sessions: Sessions) -> None:
    for n in range(3):
        say(sessions.session(f"s{n}"), *["tea"] * 700)
    say(sessions.scoped("acme").session("s"), "tea")
    told: list[tuple[int, int]] = []
    assert sessions.build_search_index(progress=lambda *step: told.append(step)) == 2101
    assert told[-1] == (2101, 0) and len(told) >= 4
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert sessions.build_search_index() == 0
    assert sessions.build_search_index(rebuild=True) == 2101
    assert len(sessions.search("tea", limit=9999)) == 2100


# -- hits ------------------------------------------------------------------------


def test_a_hit_says_where_it_is_and_how_to_read_on(chat: Session) -> None:
    """B-096: a hit is opened with its context."""
    asked = chat.append(plait.user("Where is my order?", id="q"))
    chat.append(plait.assistant("It ships Friday.", id="old"))
    chat.append(plait.user("Really?", id="old2"))
    chat.append(plait.assistant("It shipped today.", id="new"), parent=asked.id)
    new, old = chat.search("ships", newest_first=True)
    assert (old.session_id, old.id, old.seq, old.role) == ("chat", "old", 2, "assistant")
    assert (old.on_path, old.leaf_id, old.covered) == (False, "old2", False)
    assert (new.on_path, new.leaf_id) == (True, "new")
    assert (old.snippet, old.highlights, old.marked("[", "]")) == ("It ships Friday.", ((3, 8),), "It [ships] Friday.")
    assert [m.id for m in chat.transcript(old.leaf_id)] == ["q", "old", "old2"]
    assert [m.id for m in chat.around(old.id)] == ["q", "old", "old2"]
    assert [m.id for m in chat.around("q")] == ["q", "new"]
    assert [m.id for m in chat.around("old2", before=1)] == ["old", "old2"]
    assert [m.id for m in chat.around("new", before=0, after=0)] == ["new"]
    assert chat.around("nobody") == []
    assert readable(chat.get(old.id)).text == "It ships Friday."
    with pytest.raises(UsageError):
        chat.around("q", before=-1)


def test_around_a_message_in_a_long_conversation(chat: Session) -> None:
    found = say(chat, *(f"message {n}" for n in range(300)))
    assert [m.id for m in chat.around(found[150], before=120, after=120)] == found[30:271]


def test_a_store_without_search_says_so() -> None:
    class Plain(ModelStore):
        search = None

    with Sessions(Plain()) as sessions:
        with pytest.raises(UnsupportedError, match="no search"):
            sessions.session("s").search("tea")
        with pytest.raises(UnsupportedError, match="no search"):
            sessions.search("tea")


# -- purging ---------------------------------------------------------------------


def test_deleted_words_are_nowhere_in_the_files_after_a_purge(
    chat: Session, sessions: Sessions, file: Path
) -> None:
    secret, twin, changed = say(chat, "the passphrase is xylophonequartz", "悬空秘密", "old zyzzyvagarble here")
    say(chat, *(f"other words {n}" for n in range(100)))
    say(sessions.session("gone"), "wholesession krakatoabyte")
    assert len(sessions.search("xylophonequartz")) == 1
    chat.delete([secret, twin])
    chat.update(plait.user("new words", id=changed))
    sessions.delete("gone")
    sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    for word in ("xylophonequ", "zyzzyvagarbl", "krakatoabyt", "秘", "密"):
        assert word.encode() not in raw, word
    assert b"\\u79d8" not in raw
    assert len(chat.search("other words", limit=999)) == 100
    assert sessions.search("xylophonequartz") == []
    assert sessions.doctor() == []


def test_a_purge_takes_summaries_of_erased_messages_away(
    chat: Session, sessions: Sessions, file: Path
) -> None:
    """An archive says nothing and stays, and so does a summary of what is still there."""
    ids = say(chat, *(f"words {n}" for n in range(12)))
    for first, summary in (
        (0, "quotes krakatoabyte"),
        (3, "quotes zyzzyvagarble"),
        (6, "quotes what is there"),
        (9, None),
    ):
        chat.add_overlay(ids[first], ids[first + 2], summary=summary)
    chat.delete([ids[0], ids[9]])
    chat.update(plait.user("new words", id=ids[4]))
    sessions.vacuum()
    assert len(chat.overlays()) == 4
    sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"krakatoabyte" not in raw and b"zyzzyvagarble" not in raw
    assert [(overlay.kind, overlay.from_id) for overlay in chat.overlays()] == [
        ("compaction", ids[6]),
        ("archive", ids[9]),
    ]
    shown = [message.id for message in chat.history()]
    assert shown[:5] == ids[1:6] and len(shown) == 6
    assert (chat.totals()).view_messages == 6
    assert len([change for change in (chat.changes()).changes if change.removed]) == 2
    assert [finding.kind for finding in sessions.doctor()] == ["stale overlays"]  # the archive


@pytest.mark.parametrize("first_away", [False, True], ids=["as it is", "the stale one taken away before"])
def test_a_purge_takes_summaries_made_of_stale_ones_away(
    chat: Session, sessions: Sessions, file: Path, first_away: bool
) -> None:
    said = say(chat, *(f"words {n}" for n in range(12)))
    below = chat.add_overlay(said[1], said[5], summary="quotes krakatoabyte")
    chat.delete(said[3])
    chat.add_overlay(said[0], said[7], summary="also quotes krakatoabyte")
    chat.add_overlay(said[0], said[9], summary="and quotes krakatoabyte")
    chat.add_overlay(said[10], said[11], summary="quotes what is there")
    if first_away:
        chat.remove_overlay(below.overlay.id)
    sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"krakatoabyte" not in raw and b"quotes what is there" in raw
    assert [message.id for message in chat.history()][:-1] == said[:3] + said[4:10]
    assert sessions.doctor() == []


def test_a_purge_takes_a_text_in_place_of_a_message_and_the_summary_over_it_away(
    chat: Session, sessions: Sessions
) -> None:
    """Neither is left alone: the summary was made without what the text hid."""
    said = say(chat, *(f"words {n}" for n in range(6)))
    chat.replace(said[2], "what it said")
    chat.update(plait.user("new words", id=said[2]))
    chat.add_overlay(said[1], said[4], summary="of what it said")
    sessions.vacuum(purge=True)
    assert chat.overlays(all=True) == []
    assert [message.id for message in chat.history()] == said


def test_a_window_of_any_size_may_be_asked_for(chat: Session, sessions: Sessions) -> None:
    (said,) = say(chat, "tea")
    for huge in (2**62, 2**63, 10**30):
        for newest in (False, True):
            assert ids(chat.search("tea", limit=huge, newest_first=newest)) == [said]
            assert ids(sessions.search("tea", limit=huge, newest_first=newest)) == [said]
            assert chat.search("tea", offset=huge, limit=huge, newest_first=newest) == []
            assert sessions.search("tea", offset=huge, limit=huge, newest_first=newest) == []


def test_a_long_phrase_is_found_whole_and_in_order(chat: Session) -> None:
    words = [f"w{n}" for n in range(200)]
    forward, _ = say(chat, " ".join(words), " ".join(words[100:] + words[:100]))
    assert ids(chat.search(f'"{" ".join(words)}"')) == [forward]
    assert ids(chat.search(f'"{" ".join(words)}"', newest_first=True)) == [forward]
    assert len(chat.search(" ".join(words))) == 2


def test_what_an_overlay_covers_is_found_and_says_so(chat: Session) -> None:
    """B-096: compacted text is found, marked, and readable in full."""
    first, middle, _, last = say(chat, "tea one", "tea two", "tea three", "tea four")
    chat.add_overlay(first, middle, summary="They spoke of biscuits.")
    hits = chat.search("tea", newest_first=True)
    assert [hit.covered for hit in hits] == [False, False, True, True]
    assert [m.id for m in chat.around(first, after=1)] == [first, middle]
    assert chat.search("biscuits") == [], "a summary is not a message"
    chat.append(plait.user("tea aside"), parent=None)
    assert [hit.covered for hit in chat.search("tea", newest_first=True)] == [False, False, False, True, True]
    assert last in ids(chat.search("tea"))
