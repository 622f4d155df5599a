"""One scope can never read, count, list, change or delete another's."""

from __future__ import annotations

import datetime as dt
import inspect
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import plait
from plait import AsyncSession, AsyncSessions, Change, PlaitError, UsageError
from plait._async.overlaying import overlaying
from plait.store.protocol import NewOverlay, Scope, SessionRef
from tests.behaviour._async.helpers import facts, ids_of, read_back
from tests.behaviour.values import note, picture

TENANTS = ["", "a_b", "aXb", "%", "a%", "a\\b", "A_B", "a", "b", "a_b ", "\u00e9", "e\u0301", "a\0b", "ab"]
SCOPES = [
    *((tenant, "") for tenant in TENANTS),
    *(("", owner) for owner in TENANTS[1:6]),
    ("a", "b"),
    ("ab", ""),
    ("", "ab"),
    ("b", "a"),
    ("a_b", "a_b"),
]
"""B-100: names that patterns, case folding, joining or trimming would take for one another."""

OVERLAY = "laid"
"""The id of an overlay in all of them."""


async def filled(sessions: AsyncSessions, scope: tuple[str, str]) -> AsyncSessions:
    """A scope with a session, of one id and one message id in all of them, that holds something of everything."""
    view = sessions.scoped(*scope)
    text = f"of {scope!r}"
    await view.create("chat", name=text, metadata={"of": text})
    chat = view.session("chat")
    await chat.append_many([note("m", text), picture("p", text.encode())])
    await chat.append(note("branch", text), parent="m")
    await chat.update_state({"of": text})
    await chat.write_records({b"k": text.encode()})
    laid = NewOverlay(OVERLAY, "replace", "p", "p", text, 3, 1_700_000_000_000_000)
    await overlaying(view.store).add_overlay(SessionRef(Scope(*scope), "chat"), laid, leaf="p")
    return view


async def test_every_scope_sees_its_own_and_nothing_else(sessions: AsyncSessions) -> None:
    """B-100: exact, on letter case, accents, patterns and separators too."""
    scopes = list(dict.fromkeys(SCOPES))
    views = [await filled(sessions, scope) for scope in scopes]
    for scope, view in zip(scopes, views, strict=True):
        text, chat = f"of {scope!r}", view.session("chat")
        assert view.scope == scope
        assert [(info.id, info.name) async for info in view.all()] == [("chat", text)]
        assert [message.id async for message in chat.everything()] == ["m", "p", "branch"]
        assert await read_back(chat, "m") == note("m", text)
        assert b"".join([piece async for piece in chat.read_attachment("p")]) == text.encode()
        assert await chat.state() == {"of": text}
    for scope, view in zip(scopes, views, strict=True):
        await view.session("chat").delete("m")
        await view.delete("chat")
        left = [other.scope for other in views if await other.get("chat") is not None]
        assert left == scopes[scopes.index(scope) + 1 :]


async def nothing(call: Callable[[], Any]) -> None:
    """Hold that a call answers what it answers for something that is not there."""
    try:
        answer = await call()
    except PlaitError:
        return
    assert not answer or answer == plait.Totals() or (isinstance(answer, plait.Window) and not answer.messages), answer


ON_SESSIONS: dict[str, Callable[[AsyncSessions], Any]] = {
    "get": lambda view: view.get("chat"),
    "rename": lambda view: view.rename("chat", "stolen"),
    "merge_metadata": lambda view: view.merge_metadata("chat", {"stolen": 1}),
    "pin": lambda view: view.pin("chat"),
    "add_usage": lambda view: view.add_usage("chat", input_tokens=5),
    "end": lambda view: view.end("chat", "stolen"),
    "reopen": lambda view: view.reopen("chat"),
    "compact_and_split": lambda view: view.compact_and_split("chat", "stolen"),
    "delete": lambda view: view.delete("chat"),
}
"""What the catalogue does to a session that must be there."""

MAKE: dict[str, Callable[[AsyncSessions], Any]] = {
    "create": lambda view: view.create("chat", name="theirs"),
    "get_or_create": lambda view: view.get_or_create("chat", name="theirs", owner="them"),
    "list": lambda view: view.list(),
    "retain": lambda view: view.retain(max_count=0),
    "put_attachment": lambda view: view.put_attachment(b"of another", media_type="image/png"),
    "prune_changes": lambda view: view.prune_changes(max_count=0),
    "prune_values": lambda view: view.prune_values(max_count=0),
}
"""What the catalogue does in the scope it is asked in."""


async def counted_anew(chat: AsyncSession) -> int:
    chat.compact_after(None, counter=lambda message: 9_999)
    return await chat.restamp_tokens()


ON_SESSION: dict[str, Callable[[AsyncSession], Any]] = {
    "append to a message": lambda chat: chat.append(note("x"), parent="m"),
    "append at an expected leaf": lambda chat: chat.append(note("x"), expect_leaf="branch"),
    "append_many": lambda chat: chat.append_many([note("x")], parent="m"),
    "update": lambda chat: chat.update(note("m", "stolen")),
    "delete": lambda chat: chat.delete(["m", "p", "branch"]),
    "clear": lambda chat: chat.clear(),
    "checkout": lambda chat: chat.checkout("m"),
    "import_message": lambda chat: chat.import_message(note("x"), parent="m"),
    "fork at": lambda chat: chat.fork("theirs", at="m"),
    "get": lambda chat: chat.get("m"),
    "leaf": lambda chat: chat.leaf(),
    "newest": lambda chat: chat.newest(),
    "leaves": lambda chat: chat.leaves(),
    "roots": lambda chat: chat.roots(),
    "children": lambda chat: chat.children("m"),
    "totals": lambda chat: chat.totals(),
    "info": lambda chat: chat.info(),
    "state": lambda chat: chat.state(),
    "recent": lambda chat: chat.recent(),
    "recent of a leaf": lambda chat: chat.recent(leaf="p"),
    "recent for a model": lambda chat: chat.recent(for_model=True),
    "add_overlay": lambda chat: chat.add_overlay("m", "p", summary="stolen", leaf="p"),
    "archive": lambda chat: chat.archive("m", "m"),
    "omit": lambda chat: chat.omit("m"),
    "replace": lambda chat: chat.replace("m", "stolen"),
    "remove_overlay": lambda chat: chat.remove_overlay(OVERLAY),
    "overlays": lambda chat: chat.overlays(),
    "overlays of all branches": lambda chat: chat.overlays(all=True),
    "overlays of a leaf": lambda chat: chat.overlays("p"),
    "search": lambda chat: chat.search("of"),
    "search of a path": lambda chat: chat.search("of", leaf="p"),
    "around": lambda chat: chat.around("m"),
    "lease_info": lambda chat: chat.lease_info(),
    "break_lease": lambda chat: chat.break_lease(),
    "records": lambda chat: chat.records(),
    "read_records": lambda chat: chat.read_records([b"k"]),
    "write_records": lambda chat: chat.write_records({b"k": b"stolen"}, leaf="m"),
    "restamp_tokens with another counter": lambda chat: counted_anew(chat),
}
"""What a handle does to a session that must be there."""

ITERATE: dict[str, Callable[[AsyncSession], Any]] = {
    "history": lambda chat: chat.history(),
    "history of a leaf": lambda chat: chat.history("p"),
    "transcript": lambda chat: chat.transcript("m"),
    "batches": lambda chat: chat.batches(),
    "everything": lambda chat: chat.everything(),
    "value_versions": lambda chat: chat.value_versions(),
    "path_stats": lambda chat: chat.path_stats(),
    "path_stats of a leaf": lambda chat: chat.path_stats("p"),
    "history for a model": lambda chat: chat.history(for_model=True),
    "history for a framework": lambda chat: chat.history(as_="openai"),
    "path_stats of all": lambda chat: chat.path_stats(raw=True),
}


async def bystanders(sessions: AsyncSessions) -> list[Any]:
    """All that the other scopes hold."""
    views = [sessions.scoped(*scope) for scope in (("a_b", ""), ("", "a_b"), ("aXb", ""))]
    return [
        [await facts(view.session("chat")) for view in views],
        [[info async for info in view.all()] for view in views],
        [await view.session("chat").overlays(all=True) for view in views],
        [(await view.changes()).changes for view in views],
    ]


@pytest.fixture
async def outside(sessions: AsyncSessions) -> AsyncSessions:
    """A scope that holds nothing, beside others that do."""
    for scope in (("a_b", ""), ("", "a_b"), ("aXb", "")):
        await filled(sessions, scope)
    return sessions.scoped("A_B")


@pytest.mark.parametrize("call", ON_SESSIONS.values(), ids=ON_SESSIONS)
async def test_the_catalogue_treats_anothers_session_as_absent(
    sessions: AsyncSessions, outside: AsyncSessions, call: Callable[[AsyncSessions], Any]
) -> None:
    """B-103: the same answer as for an id that does not exist."""
    before = await bystanders(sessions)
    await nothing(lambda: call(outside))
    assert await bystanders(sessions) == before
    assert [info async for info in outside.all()] == []


@pytest.mark.parametrize("call", MAKE.values(), ids=MAKE)
async def test_the_catalogue_works_in_its_own_scope_alone(
    sessions: AsyncSessions, outside: AsyncSessions, call: Callable[[AsyncSessions], Any]
) -> None:
    before = await bystanders(sessions)
    await call(outside)
    assert await bystanders(sessions) == before
    assert await ids_of(outside.session("chat").everything()) == []


@pytest.mark.parametrize("call", ON_SESSION.values(), ids=ON_SESSION)
async def test_a_handle_treats_anothers_messages_as_absent(
    sessions: AsyncSessions, outside: AsyncSessions, call: Callable[[AsyncSession], Any]
) -> None:
    """B-103"""
    before = await bystanders(sessions)
    await nothing(lambda: call(outside.session("chat")))
    assert await bystanders(sessions) == before
    assert await outside.session("chat").get("m") is None


@pytest.mark.parametrize("call", ITERATE.values(), ids=ITERATE)
async def test_an_iterator_of_a_scope_finds_nothing_of_another(
    outside: AsyncSessions, call: Callable[[AsyncSession], Any]
) -> None:
    """B-103"""
    assert [item async for item in call(outside.session("chat"))] == []


async def test_an_attachment_of_another_scope_is_not_read(outside: AsyncSessions) -> None:
    """B-103"""
    for _ in range(2):  # absent, and then there without media
        with pytest.raises(plait.NotFoundError):
            [piece async for piece in outside.session("chat").read_attachment("p")]
        await outside.session("chat").append(note("p"))


async def test_writes_that_create_make_a_session_of_their_own(sessions: AsyncSessions, outside: AsyncSessions) -> None:
    """The rest of the handle's calls: they make what is absent, and only here."""
    before = await bystanders(sessions)
    chat = outside.session("chat")
    await chat.append(note("m", "of the outside"))
    await chat.upsert(note("p", "of the outside"))
    await chat.update_state({"of": "the outside"})
    await chat.fork("fork")
    assert await ids_of(chat.everything()) == ["m", "p"]
    assert await bystanders(sessions) == before


class Summarizer:
    """A summarizer that keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, messages: list[plait.Message]) -> plait.Summary | None:
        self.shown += [message.text for message in messages]
        return plait.Summary("short", messages[0].id, messages[0].id) if messages else None


async def test_a_compaction_reads_and_covers_its_own_scope_alone(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    """The calls that belong to compaction: what one scope sets on a handle, no other's handle of that id has."""
    before, summarizer, failed = await bystanders(sessions), Summarizer(), list[Exception]()
    chat = outside.session("chat")
    chat.on_compaction(summarizer)
    chat.compact_after(1)
    chat.on_compaction_error(failed.append)
    assert not (await chat.compact()).done
    assert not (await chat.compact_if_needed()).done
    await sessions.scoped("a_b").session("chat").append(note("y"), parent="m")
    before = await bystanders(sessions)
    await chat.append(note("m", "a text of the outside, long enough to be worth a summary"))
    await chat.compaction_done()
    assert summarizer.shown and not [text for text in summarizer.shown if text.startswith("of (")]
    assert failed == [] and await chat.overlays(all=True) != []
    assert await bystanders(sessions) == before
    other = sessions.scoped("a_b").session("chat")
    assert other.compaction_state() == plait.CompactionState()
    with pytest.raises(UsageError, match="on_compaction"):
        await other.compact()


async def test_a_search_of_a_scope_finds_its_own_sessions_alone(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    """B-103: before and after their words are in the index that all share."""
    assert await outside.search("of") == []
    assert await sessions.build_search_index() > 0
    assert await outside.search("of") == [] == await outside.session("chat").search("of")
    await outside.session("chat").append(note("m", "of the outside"))
    assert [(hit.session_id, hit.snippet) for hit in await outside.search("of")] == [("chat", "of the outside")]


async def test_the_feed_of_a_scope_tells_of_its_own_sessions_alone(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    """B-103: `changes`, `cursor`, `watch` and those who subscribe, of a scope and of a session."""
    chat, told = outside.session("chat"), list[Change]()
    outside.subscribe(told.append)
    outside.subscribe_to(told.append, "chat")
    chat.subscribe(told.append)
    start = await outside.cursor(), await chat.cursor()
    await sessions.scoped("a_b").session("chat").append(note("theirs"))
    await sessions.scoped("a_b").publish(Change("session", "chat"))
    assert (await outside.changes()).changes == [] == (await chat.changes()).changes
    assert (await outside.cursor(), await chat.cursor()) == start and told == []
    await chat.append(note("ours"))
    async for change in outside.watch():
        assert change.ids == ("ours",)
        break
    async for change in chat.watch():
        assert change.ids == ("ours",)
        break
    assert [change.ids for change in told] == [("ours",)] * 2
    theirs = await sessions.scoped("a_b").session("chat").cursor()
    with pytest.raises(UsageError, match="another session"):
        await chat.changes(after=theirs)


async def test_a_transcript_is_imported_into_its_own_scope_alone(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    before = await bystanders(sessions)
    item = SimpleNamespace(id="m", message=note("m", "imported"), parent=None, format=None, created_at=None)
    fields = {"name": None, "owner": None, "pinned": False, "parent_id": None, "metadata": {}, "state": {}}
    moments = {"created_at": None, "active_at": None}
    brought = SimpleNamespace(id="chat", leaf="m", count=1, entries=[item], **fields, **moments)
    done = await outside.import_transcript(brought)
    assert (done.created, done.inserted, await ids_of(outside.session("chat").everything())) == (True, 1, ["m"])
    assert await bystanders(sessions) == before


async def test_tools_prompt_and_report_of_a_scope_know_of_no_other(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    """Blocks that the store keeps are in tests/behaviour/_async/test_context.py."""
    before = await bystanders(sessions)
    (search,) = await outside.tools()
    assert await search(query="of") == "No results found."
    chat = outside.session("chat").with_context("soul", provider=SimpleNamespace(get=lambda: "Be kind."))
    assert await chat.tools() == [] and await chat.reminder() is None
    assert (await chat.prefix_report()).total_bytes == 0
    text = await chat.freeze_system_prompt()
    assert text == await chat.refresh_system_prompt()
    other = sessions.scoped("a_b").session("chat")
    assert other.context.labels() == [] and await other.freeze_system_prompt() == ""
    assert await bystanders(sessions) == before


async def test_a_lease_keeps_nobody_of_another_scope_from_writing(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    async with outside.session("chat").lease() as turn:
        await turn.append(note("theirs"))
        assert (await sessions.scoped("a_b").session("chat").append(note("ours"))).inserted
        assert not await sessions.scoped("a_b").session("chat").break_lease()
    assert await sessions.scoped("a_b").session("chat").lease_info() is None


async def test_a_copy_touches_the_two_scopes_that_it_is_between(
    sessions: AsyncSessions, outside: AsyncSessions
) -> None:
    await outside.session("chat").append(note("theirs"))
    before = await bystanders(sessions)
    ours = sessions.scoped("copies", "ours")
    assert [copied.same async for copied in ours.copy_all_from(outside)].count(False) == 0
    assert (await ours.copy_from(outside, "chat")).same
    assert {info.id async for info in ours.all()} == {info.id async for info in outside.all()}
    assert await bystanders(sessions) == before


def test_every_method_of_both_faces_is_held_to_its_scope() -> None:
    """A method added later fails here until it is named above, or in the list of those that touch no session."""
    named = {name.split()[0] for name in itertools.chain(ON_SESSIONS, MAKE, ON_SESSION, ITERATE)}
    written = {"upsert", "append", "update_state", "fork", "read_attachment"}  # in the tests just above, as these:
    written |= {"on_compaction", "on_compaction_error", "compact_after", "compact", "compact_if_needed"}
    written |= {"compaction_state", "compaction_done", "search", "build_search_index", "import_transcript"}
    written |= {"changes", "cursor", "watch", "subscribe", "subscribe_to", "publish", "all"}
    written |= {"tools", "reminder", "prefix_report", "freeze_system_prompt", "refresh_system_prompt"}
    written |= {"with_context", "with_cached_prompt", "lease", "copy_from", "copy_all_from"}
    elsewhere = {"open", "close", "flush", "session", "scoped", "check_json"}  # touch no session
    whole_store = {"backup", "doctor", "vacuum", "scopes"}
    for face in (AsyncSessions, AsyncSession):
        public = {name for name, _ in inspect.getmembers(face, inspect.isfunction) if not name.startswith("_")}
        assert public - named - written - elsewhere - whole_store == set(), face


async def test_a_listing_counts_and_pages_its_own_scope(sessions: AsyncSessions) -> None:
    for n in range(10):
        await sessions.scoped("a_b").create(f"s{n}")
        await sessions.scoped("aXb").create(f"t{n}")
    page = await sessions.scoped("a_b").list(limit=10)
    assert sorted(info.id for info in page.sessions) == sorted(f"s{n}" for n in range(10))
    assert page.cursor is None
    await sessions.scoped("a_b").retain(max_age=dt.timedelta(days=1), max_count=4)
    assert len((await sessions.scoped("a_b").list()).sessions) == 4
    assert len((await sessions.scoped("aXb").list()).sessions) == 10


@pytest.mark.parametrize("bad", ["  ", "x" * 513, "\ud99c", 7, None])
async def test_a_scope_is_two_strings_under_the_id_rules(sessions: AsyncSessions, bad: Any) -> None:
    with pytest.raises(UsageError):
        sessions.scoped(bad)
    with pytest.raises(UsageError):
        sessions.scoped("a", bad)
    with pytest.raises(UsageError):
        plait.open_async(":memory:", scope=("a", bad))


async def test_the_same_bytes_in_two_scopes_are_two_payloads(sessions: AsyncSessions, file: Any) -> None:
    """B-121: so that the end of one says nothing about the other."""
    import apsw

    for tenant in ("a", "b"):
        await sessions.scoped(tenant).session("s").append(picture("p", b"same"))
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    assert connection.execute("SELECT count(*) FROM attachment").fetchall() == [(2,)]
    connection.close()
    await sessions.scoped("a").delete("s")
    assert await read_back(sessions.scoped("b").session("s"), "p") == picture("p", b"same")
