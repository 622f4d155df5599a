"""Full-text search: what is found, in which order, where, and how a hit is shown and opened."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

import plait
from plait import LEAF, AsyncSession, AsyncSessions, Hit, UnsupportedError, UsageError
from plait.testing import AsyncModelStore
from tests.behaviour._async.helpers import readable
from tests.behaviour.search import HOSTILE, SCRIPTS, rows_in
from tests.behaviour.values import picture


async def say(chat: AsyncSession, *texts: str) -> list[str]:
    """Append user messages; their ids."""
    return [result.id for result in await chat.append_many([plait.user(text) for text in texts])]


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


# -- what is found ---------------------------------------------------------------


async def test_every_word_must_be_there_in_whatever_order(chat: AsyncSession) -> None:
    """The source's one phrase misses `deploy to production`; here words are words."""
    both, _ = await say(chat, "we deploy to production on Friday", "we deploy to staging")
    assert ids(await chat.search("production deploy")) == [both]
    assert len(await chat.search("deploy")) == 2


async def test_quoted_words_must_stand_together(chat: AsyncSession) -> None:
    apart, together = await say(chat, "deploy to production", "deploy production now")
    assert ids(await chat.search('"deploy production"')) == [together]
    assert set(ids(await chat.search("deploy production"))) == {apart, together}


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
async def test_endings_accents_and_case_do_not_count(chat: AsyncSession, text: str, query: str) -> None:
    (id,) = await say(chat, text)
    assert ids(await chat.search(query)) == [id]


@pytest.mark.parametrize(
    "query",
    ["POL-358", "don't", "C++", "20.04", '"open quote', "foo(", "a:b", "OR", "NEAR", "x NOT y", "^caret", "col:*"],
)
async def test_everyday_text_is_found_as_it_is(chat: AsyncSession, query: str) -> None:
    """B-090: no operator, no syntax error; the literal text is found."""
    (id,) = await say(chat, f"see {query.strip(chr(34))} for more")
    await say(chat, "nothing of the kind")
    assert id in ids(await chat.search(query))


@pytest.mark.parametrize("query", ["", " ", "*", "...", '""', '"', "\x00", "\ud800", "\u0301", "()", "\n\t"])
async def test_a_query_without_a_word_finds_nothing(chat: AsyncSession, query: str) -> None:
    """B-090: blank gives an empty list."""
    await say(chat, "some words", '... * "" ()')
    assert await chat.search(query) == []
    assert await chat.search(query, newest_first=True) == []


@pytest.mark.parametrize("query", HOSTILE)
async def test_no_query_raises(chat: AsyncSession, query: str) -> None:
    await say(chat, "some words", query)
    await chat.search(query)
    await chat.search(f'"{query}" some', newest_first=True)


@pytest.mark.parametrize(("text", "queries"), SCRIPTS)
async def test_scripts_without_spaces_are_found_by_any_piece(chat: AsyncSession, text: str, queries: list[str]) -> None:
    """B-092: substrings of one or more characters, and Latin words among them."""
    (id,) = await say(chat, text)
    await say(chat, "nothing of the kind")
    for query in queries:
        assert ids(await chat.search(query)) == [id], query
        assert ids(await chat.search(query, newest_first=True)) == [id], query


async def test_all_matches_are_found_not_only_the_easy_ones(chat: AsyncSession) -> None:
    """B-092: a case where the fast path finds 1 of 5."""
    found = await say(chat, "悬空", "有悬空的", "悬空引用", "a悬空b", "x 悬空 y")
    assert set(ids(await chat.search("悬空"))) == set(found)


async def test_only_text_parts_are_searched_and_media_never(chat: AsyncSession, file: Path) -> None:
    """B-098: the documented scope."""
    parts = [
        {"type": "text", "text": "spoken"},
        {"type": "reasoning", "text": "pondered"},
        {"type": "tool-x", "toolCallId": "c1", "state": "output-available", "input": {}, "output": "computed " * 9999},
        picture("p", b"\x89PNG" + b"pixels" * 1000)["parts"][1],
    ]
    await chat.append({"id": "m", "role": "assistant", "parts": parts, "metadata": {"note": "annotated"}})
    assert ids(await chat.search("spoken")) == ["m"]
    for word in ("pondered", "computed", "annotated", "cGl4ZWxz"):
        assert await chat.search(word) == []
    assert rows_in(file, "SELECT sum(length(block)) FROM message_words_data")[0][0] < 2000


async def test_a_message_of_many_slices_is_found_by_its_last_word(chat: AsyncSession) -> None:
    """The source never indexes a message over 1.5 MiB stored before the first search."""
    (id,) = await say(chat, "pad " * 500_000 + "zanzibar")
    (hit,) = await chat.search("zanzibar")
    assert hit.id == id and hit.snippet.endswith("zanzibar") and hit.marked().endswith("**zanzibar**")


async def test_foreign_messages_are_found_by_their_text(chat: AsyncSession) -> None:
    await chat.append({"role": "user", "content": "from a chat"}, id="c")
    await chat.append(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "responses"}]}, id="r"
    )
    assert ids(await chat.search("chat")) == ["c"]
    assert ids(await chat.search("responses")) == ["r"]


# -- order -----------------------------------------------------------------------


async def test_the_best_match_comes_first(chat: AsyncSession) -> None:
    """B-097: a strong match above weak ones; a better one has a higher score."""
    await say(
        chat, *(f"message {n} of some length that mentions the lighthouse once, among much else" for n in range(20))
    )
    (strong,) = await say(chat, "lighthouse " * 5)
    hits = await chat.search("lighthouse", limit=3)
    assert hits[0].id == strong
    assert hits[0].score > hits[1].score >= hits[2].score > 0


async def test_equal_matches_come_newest_first_every_time(chat: AsyncSession) -> None:
    found = await say(chat, *["the same words"] * 30)
    assert ids(await chat.search("same words", limit=30)) == found[::-1]
    assert ids(await chat.search("same", limit=10, offset=5)) == found[::-1][5:15]


async def test_newest_first_goes_by_seq_over_all_branches(chat: AsyncSession) -> None:
    a, b = await say(chat, "ships once", "ships " * 9)
    c = (await chat.append(plait.user("ships on a branch"), parent=a)).id
    d = (await chat.append(plait.user("it ships on the first"), parent=b)).id
    assert ids(await chat.search("ships", newest_first=True)) == [d, c, b, a]
    assert ids(await chat.search("ships", newest_first=True, limit=2, offset=1)) == [c, b]


# -- filters ---------------------------------------------------------------------


async def test_filters_come_before_the_limit(chat: AsyncSession) -> None:
    await chat.append(plait.assistant("tea", id="a"))
    await say(chat, *["tea tea tea"] * 50)
    assert ids(await chat.search("tea", role="assistant", limit=1)) == ["a"]
    assert ids(await chat.search("tea", role=["system", "assistant"], newest_first=True, limit=1)) == ["a"]
    assert len(await chat.search("tea", role=["user", "assistant"], limit=99)) == 51


async def test_time_bounds_take_in_the_first_and_leave_out_the_last(chat: AsyncSession) -> None:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    for n in range(4):
        at = day + dt.timedelta(days=n)
        await chat.import_message(plait.user("tea", id=f"m{n}"), parent=f"m{n - 1}" if n else None, created_at=at)
    since, until = day + dt.timedelta(days=1), day + dt.timedelta(days=3)
    assert ids(await chat.search("tea", since=since, until=until, newest_first=True)) == ["m2", "m1"]
    assert ids(await chat.search("tea", since=since, limit=1, newest_first=True)) == ["m3"]
    (hit,) = await chat.search("tea", until=since)
    assert (hit.id, hit.created_at) == ("m0", day)


async def test_a_branch_is_searched_by_its_leaf(chat: AsyncSession) -> None:
    root, old = await say(chat, "tea root", "tea old")
    new = (await chat.append(plait.user("tea new"), parent=root)).id
    assert set(ids(await chat.search("tea"))) == {root, old, new}
    assert set(ids(await chat.search("tea", leaf=LEAF))) == {root, new}
    assert set(ids(await chat.search("tea", leaf=old, newest_first=True))) == {root, old}
    assert await chat.search("tea", leaf="nobody") == []


async def test_a_session_of_very_many_branches_is_searched_alike(chat: AsyncSession) -> None:
    (root,) = await say(chat, "tea root")
    found = [root]
    for n in range(80):
        found.append((await chat.append(plait.user(f"tea {n}"), parent=root)).id)
    assert ids(await chat.search("tea", newest_first=True, limit=99)) == found[::-1]
    assert set(ids(await chat.search("tea", limit=99))) == set(found)
    assert set(ids(await chat.search("tea", leaf=found[5]))) == {root, found[5]}


@pytest.mark.parametrize(
    "wrong", [{"limit": -1}, {"offset": -1}, {"role": []}, {"role": [1]}, {"since": dt.datetime(2026, 1, 1)}]
)
async def test_what_cannot_be_asked_is_refused(chat: AsyncSession, wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        await chat.search("tea", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        await chat.search(b"tea")  # type: ignore[arg-type]


async def test_a_limit_of_nothing_finds_nothing(chat: AsyncSession) -> None:
    await say(chat, "tea")
    assert await chat.search("tea", limit=0) == []


async def test_an_absent_session_has_no_hits_and_is_not_made(sessions: AsyncSessions) -> None:
    assert await sessions.session("nobody").search("tea") == []
    assert await sessions.search("tea") == []
    assert await sessions.get("nobody") is None


# -- scopes ----------------------------------------------------------------------


async def test_a_scope_is_searched_whole_and_no_other(sessions: AsyncSessions) -> None:
    other = sessions.scoped("acme", "bob")
    mine = [*await say(sessions.session("a"), "tea one"), *await say(sessions.session("b"), "tea two")]
    theirs = await say(other.session("a"), "tea three", "tea four")
    assert set(ids(await sessions.search("tea"))) == set(mine)
    assert set(ids(await other.search("tea"))) == set(theirs)
    assert set(ids(await other.search("tea", newest_first=True))) == set(theirs)
    assert await sessions.scoped("acme", "BOB").search("tea") == []
    assert {hit.session_id for hit in await sessions.search("tea")} == {"a", "b"}


async def test_newest_first_over_sessions_keeps_each_in_its_order(sessions: AsyncSessions) -> None:
    day = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    a, b = sessions.session("a"), sessions.session("b")
    for n, chat in enumerate([a, b, a, b]):
        at = day + dt.timedelta(days=n)
        leaf = await chat.leaf()
        await chat.import_message(plait.user("tea", id=f"m{n}"), parent=leaf.id if leaf else None, created_at=at)
    assert ids(await sessions.search("tea", newest_first=True)) == ["m3", "m2", "m1", "m0"]
    await b.import_message(plait.user("tea", id="past"), parent=None, created_at=day)
    assert ids(await sessions.search("tea", newest_first=True)) == ["m2", "m0", "past", "m3", "m1"], "b goes by seq"


async def test_a_word_that_is_everywhere_is_found_newest_first(sessions: AsyncSessions) -> None:
    """More hits than are put in order at once: the sessions are gone through, the last active ones first."""
    for n in range(6):
        await say(sessions.session(f"s{n}"), *[f"tea {n}"] * 400)
    expected = await sessions.session("s5").search("tea", newest_first=True)
    hits = await sessions.search("tea", newest_first=True)
    assert ids(hits) == ids(expected) and len(hits) == 20


# -- following the data ----------------------------------------------------------


async def test_a_store_that_never_searches_writes_nothing_of_it(chat: AsyncSession, file: Path) -> None:
    """The source: the index is built on the first search, never on append."""
    (id,) = await say(chat, "tea")
    await chat.update(plait.user("coffee", id=id))
    await chat.delete(id)
    await chat.clear()
    for table in ("search_on", "search_progress", "search_behind", "search_pending", "message_words_docsize"):
        assert rows_in(file, f"SELECT * FROM {table}") == [], table
    assert await chat.search("tea") == []
    assert len(rows_in(file, "SELECT * FROM search_on")) == 1


async def test_an_append_marks_its_session_once_and_writes_no_words(chat: AsyncSession, file: Path) -> None:
    await say(chat, "tea")
    await chat.search("tea")
    await say(chat, "tea", "tea")
    await say(chat, "tea")
    assert len(rows_in(file, "SELECT * FROM search_behind")) == 1
    assert len(rows_in(file, "SELECT * FROM message_words_docsize")) == 1
    assert len(await chat.search("tea")) == 4
    assert rows_in(file, "SELECT * FROM search_behind") == []


async def test_the_index_follows_every_change(chat: AsyncSession, sessions: AsyncSessions) -> None:
    """B-094: append, update, delete, delete of a branch, import, fork, clear, delete of the session."""
    a, b, _ = await say(chat, "tea one", "tea two", "coffee")
    assert len(await chat.search("tea")) == 2
    await chat.update(plait.user("coffee one", id=a))
    assert ids(await chat.search("tea")) == [b]
    assert len(await chat.search("coffee")) == 2
    await chat.update({"id": a, "role": "user", "parts": []})
    assert len(await chat.search("coffee")) == 1
    await chat.delete(b)
    assert await chat.search("tea") == []
    await chat.import_message(plait.user("tea imported", id="i"), parent=None)
    fork = await chat.fork("copy")
    assert ids(await fork.search("tea")) == ["i"]
    assert sorted(hit.session_id for hit in await sessions.search("tea")) == ["chat", "copy"], "B-057: each once"
    await chat.clear()
    assert await chat.search("tea") == []
    await say(chat, "tea again")
    assert len(await chat.search("tea")) == 1
    await sessions.delete("chat")
    assert [hit.session_id for hit in await sessions.search("tea")] == ["copy"]
    assert await sessions.session("chat").search("tea") == []


async def test_a_search_beside_a_writer_sees_what_was_committed(
    chat: AsyncSession, reopened: Callable[[], AsyncSessions]
) -> None:
    async with reopened() as elsewhere:
        other = elsewhere.session("chat")
        for n in range(20):
            await chat.append(plait.user(f"tea {n}", id=f"m{n}"))
            assert len(await other.search("tea", limit=99)) == n + 1
        await other.update(plait.user("coffee", id="m3"))
        await chat.delete("m4")
        assert len(await other.search("tea", limit=99)) == len(await chat.search("tea", limit=99)) == 18
        assert ids(await chat.search("coffee")) == ["m3"]


@pytest.mark.parametrize("searched", [False, True])
async def test_a_search_behind_a_held_write_lock_reads_what_it_cannot_index(
    chat: AsyncSession, file: Path, searched: bool
) -> None:
    """It waits as a write does, and then answers all the same; values likewise."""
    chat.with_context("pile", kind="collection")
    await say(chat, "tea one", "coffee")
    await chat.context.put("pile", "tea one", key="a")
    if searched:
        await chat.search("tea")
        await chat.context.search("pile", "tea")
    await say(chat, "tea two")
    await chat.context.put("pile", "tea two", key="b")
    async with plait.open_async(file, busy_timeout_s=0.05) as hasty:
        other = hasty.session("chat").with_context("pile", kind="collection")
        with held(file):
            assert [hit.snippet for hit in await other.search("tea", newest_first=True)] == ["tea two", "tea one"]
            assert len(await hasty.search("tea")) == 2
            found = await other.context.search("pile", "tea") or ""
            assert "tea one" in found and "tea two" in found
        assert len(await other.search("tea")) == 2


async def test_a_search_with_nothing_to_index_does_not_wait_for_the_write_lock(chat: AsyncSession, file: Path) -> None:
    """Nor does one of a file that was opened to be read, whatever the index lacks."""
    chat.with_context("pile", kind="collection")
    await say(chat, "tea")
    await chat.context.put("pile", "tea", key="a")
    await chat.search("tea")
    await chat.context.search("pile", "tea")
    began = time.monotonic()
    with held(file):
        assert len(await chat.search("tea")) == 1
        assert "tea" in (await chat.context.search("pile", "tea") or "")
    await say(chat, "tea")
    async with plait.open_async(file, read_only=True) as reading:
        with held(file):
            assert len(await reading.session("chat").search("tea")) == 2
    assert time.monotonic() - began < 25, "a write would have waited 30 s"


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Another program in the middle of a write."""
    with closing(apsw.Connection(str(file))) as database:
        database.execute("BEGIN IMMEDIATE")
        yield
        database.execute("ROLLBACK")


@pytest.mark.parametrize("searched", [False, True])
async def test_a_read_only_file_is_searched_to_its_last_message(chat: AsyncSession, file: Path, searched: bool) -> None:
    found = await say(chat, "tea one", "tea 悬空", "tea three", "tea four")
    if searched:
        await chat.search("tea")
    found += await say(chat, "tea five tea", "coffee")
    await chat.update(plait.user("coffee", id=found[0]))
    await chat.delete(found[2])
    expected = [found[4], found[3], found[1]]
    async with plait.open_async(file, read_only=True) as reading:
        other = reading.session("chat")
        assert ids(await other.search("tea", newest_first=True)) == expected
        assert ids(await reading.search("tea", newest_first=True)) == expected
        assert set(ids(await other.search("tea"))) == set(expected)
        assert (await reading.search("tea"))[0].id == found[4], "the strong one first"
        assert ids(await other.search("空")) == [found[1]]
        assert len(await other.search("coffee")) == 2
        assert len(await other.search("tea", limit=1, offset=1)) == 1
    assert ids(await chat.search("tea", newest_first=True)) == expected


async def test_a_backfill_is_told_how_far_it_is_and_is_done_once(sessions: AsyncSessions) -> None:
    for n in range(3):
        await say(sessions.session(f"s{n}"), *["tea"] * 700)
    await say(sessions.scoped("acme").session("s"), "tea")
    told: list[tuple[int, int]] = []
    assert await sessions.build_search_index(progress=lambda *step: told.append(step)) == 2101
    assert told[-1] == (2101, 0) and len(told) >= 4
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert await sessions.build_search_index() == 0
    assert await sessions.build_search_index(rebuild=True) == 2101
    assert len(await sessions.search("tea", limit=9999)) == 2100


# -- hits ------------------------------------------------------------------------


async def test_a_hit_says_where_it_is_and_how_to_read_on(chat: AsyncSession) -> None:
    """B-096: a hit is opened with its context."""
    asked = await chat.append(plait.user("Where is my order?", id="q"))
    await chat.append(plait.assistant("It ships Friday.", id="old"))
    await chat.append(plait.user("Really?", id="old2"))
    await chat.append(plait.assistant("It shipped today.", id="new"), parent=asked.id)
    new, old = await chat.search("ships", newest_first=True)
    assert (old.session_id, old.id, old.seq, old.role) == ("chat", "old", 2, "assistant")
    assert (old.on_path, old.leaf_id, old.covered) == (False, "old2", False)
    assert (new.on_path, new.leaf_id) == (True, "new")
    assert (old.snippet, old.highlights, old.marked("[", "]")) == ("It ships Friday.", ((3, 8),), "It [ships] Friday.")
    assert [m.id async for m in chat.transcript(old.leaf_id)] == ["q", "old", "old2"]
    assert [m.id for m in await chat.around(old.id)] == ["q", "old", "old2"]
    assert [m.id for m in await chat.around("q")] == ["q", "new"]
    assert [m.id for m in await chat.around("old2", before=1)] == ["old", "old2"]
    assert [m.id for m in await chat.around("new", before=0, after=0)] == ["new"]
    assert await chat.around("nobody") == []
    assert readable(await chat.get(old.id)).text == "It ships Friday."
    with pytest.raises(UsageError):
        await chat.around("q", before=-1)


async def test_around_a_message_in_a_long_conversation(chat: AsyncSession) -> None:
    found = await say(chat, *(f"message {n}" for n in range(300)))
    assert [m.id for m in await chat.around(found[150], before=120, after=120)] == found[30:271]


async def test_a_store_without_search_says_so() -> None:
    class Plain(AsyncModelStore):
        search = None

    async with AsyncSessions(Plain()) as sessions:
        with pytest.raises(UnsupportedError, match="no search"):
            await sessions.session("s").search("tea")
        with pytest.raises(UnsupportedError, match="no search"):
            await sessions.search("tea")


# -- purging ---------------------------------------------------------------------


async def test_deleted_words_are_nowhere_in_the_files_after_a_purge(
    chat: AsyncSession, sessions: AsyncSessions, file: Path
) -> None:
    secret, twin, changed = await say(chat, "the passphrase is xylophonequartz", "悬空秘密", "old zyzzyvagarble here")
    await say(chat, *(f"other words {n}" for n in range(100)))
    await say(sessions.session("gone"), "wholesession krakatoabyte")
    assert len(await sessions.search("xylophonequartz")) == 1
    await chat.delete([secret, twin])
    await chat.update(plait.user("new words", id=changed))
    await sessions.delete("gone")
    await sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    for word in ("xylophonequ", "zyzzyvagarbl", "krakatoabyt", "秘", "密"):
        assert word.encode() not in raw, word
    assert b"\\u79d8" not in raw
    assert len(await chat.search("other words", limit=999)) == 100
    assert await sessions.search("xylophonequartz") == []
    assert await sessions.doctor() == []


async def test_a_purge_takes_summaries_of_erased_messages_away(
    chat: AsyncSession, sessions: AsyncSessions, file: Path
) -> None:
    """An archive says nothing and stays, and so does a summary of what is still there."""
    ids = await say(chat, *(f"words {n}" for n in range(12)))
    for first, summary in (
        (0, "quotes krakatoabyte"),
        (3, "quotes zyzzyvagarble"),
        (6, "quotes what is there"),
        (9, None),
    ):
        await chat.add_overlay(ids[first], ids[first + 2], summary=summary)
    await chat.delete([ids[0], ids[9]])
    await chat.update(plait.user("new words", id=ids[4]))
    await sessions.vacuum()
    assert len(await chat.overlays()) == 4
    await sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"krakatoabyte" not in raw and b"zyzzyvagarble" not in raw
    assert [(overlay.kind, overlay.from_id) for overlay in await chat.overlays()] == [
        ("compaction", ids[6]),
        ("archive", ids[9]),
    ]
    shown = [message.id async for message in chat.history()]
    assert shown[:5] == ids[1:6] and len(shown) == 6
    assert (await chat.totals()).view_messages == 6
    assert len([change for change in (await chat.changes()).changes if change.removed]) == 2
    assert [finding.kind for finding in await sessions.doctor()] == ["stale overlays"]  # the archive


@pytest.mark.parametrize("first_away", [False, True], ids=["as it is", "the stale one taken away before"])
async def test_a_purge_takes_summaries_made_of_stale_ones_away(
    chat: AsyncSession, sessions: AsyncSessions, file: Path, first_away: bool
) -> None:
    said = await say(chat, *(f"words {n}" for n in range(12)))
    below = await chat.add_overlay(said[1], said[5], summary="quotes krakatoabyte")
    await chat.delete(said[3])
    await chat.add_overlay(said[0], said[7], summary="also quotes krakatoabyte")
    await chat.add_overlay(said[0], said[9], summary="and quotes krakatoabyte")
    await chat.add_overlay(said[10], said[11], summary="quotes what is there")
    if first_away:
        await chat.remove_overlay(below.overlay.id)
    await sessions.vacuum(purge=True)
    raw = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"krakatoabyte" not in raw and b"quotes what is there" in raw
    assert [message.id async for message in chat.history()][:-1] == said[:3] + said[4:10]
    assert await sessions.doctor() == []


async def test_a_purge_takes_a_text_in_place_of_a_message_and_the_summary_over_it_away(
    chat: AsyncSession, sessions: AsyncSessions
) -> None:
    """Neither is left alone: the summary was made without what the text hid."""
    said = await say(chat, *(f"words {n}" for n in range(6)))
    await chat.replace(said[2], "what it said")
    await chat.update(plait.user("new words", id=said[2]))
    await chat.add_overlay(said[1], said[4], summary="of what it said")
    await sessions.vacuum(purge=True)
    assert await chat.overlays(all=True) == []
    assert [message.id async for message in chat.history()] == said


async def test_a_window_of_any_size_may_be_asked_for(chat: AsyncSession, sessions: AsyncSessions) -> None:
    (said,) = await say(chat, "tea")
    for huge in (2**62, 2**63, 10**30):
        for newest in (False, True):
            assert ids(await chat.search("tea", limit=huge, newest_first=newest)) == [said]
            assert ids(await sessions.search("tea", limit=huge, newest_first=newest)) == [said]
            assert await chat.search("tea", offset=huge, limit=huge, newest_first=newest) == []
            assert await sessions.search("tea", offset=huge, limit=huge, newest_first=newest) == []


async def test_a_long_phrase_is_found_whole_and_in_order(chat: AsyncSession) -> None:
    words = [f"w{n}" for n in range(200)]
    forward, _ = await say(chat, " ".join(words), " ".join(words[100:] + words[:100]))
    assert ids(await chat.search(f'"{" ".join(words)}"')) == [forward]
    assert ids(await chat.search(f'"{" ".join(words)}"', newest_first=True)) == [forward]
    assert len(await chat.search(" ".join(words))) == 2


async def test_what_an_overlay_covers_is_found_and_says_so(chat: AsyncSession) -> None:
    """B-096: compacted text is found, marked, and readable in full."""
    first, middle, _, last = await say(chat, "tea one", "tea two", "tea three", "tea four")
    await chat.add_overlay(first, middle, summary="They spoke of biscuits.")
    hits = await chat.search("tea", newest_first=True)
    assert [hit.covered for hit in hits] == [False, False, True, True]
    assert [m.id for m in await chat.around(first, after=1)] == [first, middle]
    assert await chat.search("biscuits") == [], "a summary is not a message"
    await chat.append(plait.user("tea aside"), parent=None)
    assert [hit.covered for hit in await chat.search("tea", newest_first=True)] == [False, False, False, True, True]
    assert last in ids(await chat.search("tea"))
