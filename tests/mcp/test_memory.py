"""A scope's memory as tools: what is offered, what a call does, and what nothing that is passed can do."""

from __future__ import annotations

from typing import Any

import pytest

import plait
from plait.mcp import Library, Memory
from plait.mcp.library import BLOCK, SESSION
from plait.mcp.wording import quoted, sayable, unquoted
from tests.dose import dose
from tests.mcp.conftest import HOSTILE


def names(memory: Memory) -> list[str]:
    return [tool["name"] for tool in memory.tools()]


def test_the_tools_are_those_of_the_blocks_and_of_the_scope(memory: Memory) -> None:
    assert names(memory) == ["read_context", "set_context", "search_context", "load_context", "session_search"]
    for tool in memory.tools():
        assert set(tool) == {"name", "description", "inputSchema"} and tool["inputSchema"]["type"] == "object"


def test_without_blocks_only_the_search_is_offered(sessions: plait.Sessions) -> None:
    assert names(Memory(sessions, sessions.session("bare"))) == ["session_search"]
    assert Memory(sessions, sessions.session("bare")).call("read_context", {"label": "x"}).failed


def test_what_is_kept_is_read_by_every_other_handle(memory: Memory, sessions: plait.Sessions) -> None:
    assert memory.call("read_context", {"label": "memory"}).text == "(empty)"
    assert not memory.call("set_context", {"label": "memory", "content": "Likes tea."}).failed
    assert not memory.call("set_context", {"label": "memory", "content": "And cake.", "action": "append"}).failed
    assert memory.call("read_context", {"label": "memory"}).text == "Likes tea.\nAnd cake."
    other = sessions.session("other", context=[plait.BlockSpec("memory", shared=True)])
    assert "Likes tea." in other.freeze_system_prompt()


def test_entries_and_documents_are_found_and_loaded(memory: Memory) -> None:
    memory.call(
        "set_context", {"label": "notes", "content": "The server runs on port 80", "metadata": {"title": "Port"}}
    )
    memory.call("set_context", {"label": "manuals", "content": "Press it.", "metadata": {"title": "Button"}})
    assert "port 80" in memory.call("search_context", {"label": "notes", "query": "server"}).text
    assert "button" in memory.call("read_context", {"label": "manuals"}).text
    assert memory.call("load_context", {"label": "manuals", "key": "button"}).text == "Press it."


def test_earlier_conversations_are_searched(memory: Memory) -> None:
    answer = memory.call("session_search", {"query": "deploy production"})
    assert answer.text == "[user] Please deploy to production" and not answer.failed
    assert memory.call("session_search", {"query": "nothing of it"}).text == "No results found."


@pytest.mark.timeout(dose(short=120, soak=1800))
def test_a_query_of_very_many_words_is_answered(memory: Memory, sessions: plait.Sessions) -> None:
    """A client may ask for as many as it likes; the time that takes grows with them, not with their square."""
    many = " ".join(f"w{n}" for n in range(dose(short=30_000, soak=1_000_000)))
    sessions.session("monday").append(plait.user(f"{many} whale"))
    memory.call("set_context", {"label": "notes", "content": f"{many} whale", "metadata": {"title": "Whale"}})
    for asked, answered in ((f"whale {many}", True), (f"walrus {many}", False)):
        found = memory.call("session_search", {"query": asked})
        assert found.text.startswith("[user] ") == answered and not found.failed
        found = memory.call("search_context", {"label": "notes", "query": asked})
        assert ("whale" in found.text) == answered and not found.failed


def test_read_only_offers_nothing_that_writes(sessions: plait.Sessions, memory: Memory) -> None:
    session = sessions.session("reader", context=[plait.BlockSpec("memory", shared=True)])
    reader = Memory(sessions, session, read_only=True)
    assert "set_context" not in names(reader) and "read_context" in names(reader)
    assert reader.call("set_context", {"label": "memory", "content": "x"}).failed
    assert memory.call("read_context", {"label": "memory"}).text == "(empty)"


def test_a_refusal_says_what_it_would_take(memory: Memory) -> None:
    answer = memory.call("set_context", {"label": "memory", "content": "word " * 500})
    assert answer.failed and "50" in answer.text
    assert memory.call("read_context", {"label": "memory"}).text == "(empty)"


@pytest.mark.parametrize("name", ["", "nope", "unload_context", "__class__", "read_context\0", "\ud800", None, 3])
def test_an_unknown_tool_is_an_answer(memory: Memory, name: Any) -> None:
    assert memory.call(name, {}).failed


@pytest.mark.parametrize(
    "arguments",
    [
        None, {}, {"label": None}, {"label": 3}, {"label": ["memory"]}, {"label": "absent"}, {"label": "memory "},
        {"label": "memory", "content": None, "query": {}, "key": []}, {"label": {"a": "b"}, "content": "x", "query": "x"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["read_context", "set_context", "search_context", "load_context"])
def test_arguments_that_are_none_are_an_answer(memory: Memory, name: str, arguments: Any) -> None:
    answer = memory.call(name, arguments)
    assert answer.text and (answer.failed or (name == "read_context" and (arguments or {}).get("label") == "memory"))


def test_what_a_provider_raises_is_an_answer(sessions: plait.Sessions) -> None:
    class Broken:
        def get(self) -> str:
            raise OSError("away \ud800")

    broken = Memory(sessions, sessions.session("broken", context=[plait.BlockSpec("soul", provider=Broken())]))
    answer = broken.call("read_context", {"label": "soul"})
    assert answer.failed and "OSError: away \ufffd" in answer.text


def test_hostile_text_is_kept_and_said_without_what_cannot_be_said(memory: Memory) -> None:
    memory.call("set_context", {"label": "memory", "content": HOSTILE})
    said = memory.call("read_context", {"label": "memory"}).text
    assert said == HOSTILE.replace("\ud800", "\ufffd") and said.encode()


# -- what can be read ------------------------------------------------------------


def test_blocks_and_sessions_are_listed_and_read(memory: Memory, library: Library) -> None:
    memory.call("set_context", {"label": "memory", "content": "Likes tea."})
    page = library.page()
    assert [item.uri for item in page.items] == [
        BLOCK + "memory", BLOCK + "notes", BLOCK + "manuals", SESSION + "monday",
    ]  # fmt: skip
    assert library.read(BLOCK + "memory") == ("Likes tea.", "text/plain")
    text, media_type = library.read(SESSION + "monday")
    assert media_type == "text/markdown" and text.startswith("# monday\n") and "The deploy is done." in text


def test_every_page_is_reached_once(sessions: plait.Sessions) -> None:
    for n in range(120):
        sessions.create(f"s{n}")
    library, seen, cursor = Library(sessions), list[str](), None
    while True:
        page = library.page(cursor)
        seen += [item.uri for item in page.items]
        cursor = page.cursor
        if cursor is None:
            break
    assert len(seen) == 121 == len(set(seen))


@pytest.mark.parametrize("id", ["a/b", "a%2Fb", "..", ".", "é 用", "x?y#z", "line\nbreak", "\\", "x" * 500])
def test_any_id_is_an_address(sessions: plait.Sessions, id: str) -> None:
    sessions.session(id).append(plait.user("here I am"))
    item = next(item for item in Library(sessions).page().items if unquoted(item.uri.removeprefix(SESSION)) == id)
    assert item.uri.isascii() and "here I am" in Library(sessions).read(item.uri)[0]


@pytest.mark.parametrize(
    "uri",
    ["", "x", "plait://", SESSION, SESSION + "absent", SESSION + "%ff", SESSION + "plait%3Ashared", BLOCK, BLOCK + "absent",
     "file:///etc/passwd", SESSION + "monday/../x", "http://a/b", "\ud800", SESSION + "a\0", BLOCK + "x" * 10_000],
    ids=lambda uri: ascii(uri[:40]),
)  # fmt: skip
def test_what_is_not_there_is_not_found(library: Library, uri: str) -> None:
    with pytest.raises(plait.NotFoundError, match="there is nothing at"):
        library.read(uri)


def test_a_scope_does_not_see_anothers(sessions: plait.Sessions, memory: Memory) -> None:
    memory.call("set_context", {"label": "memory", "content": "secret"})
    away = sessions.scoped("acme")
    other = Memory(away, away.session("x", context=[plait.BlockSpec("memory", shared=True)]))
    assert other.call("read_context", {"label": "memory"}).text == "(empty)"
    assert other.call("session_search", {"query": "deploy"}).text == "No results found."
    assert Library(away).page().items == []
    with pytest.raises(plait.NotFoundError):
        Library(away).read(SESSION + "monday")


def test_a_long_session_is_its_newest_part(sessions: plait.Sessions) -> None:
    sessions.session("long").append_many([plait.user(f"message {n} " + "x" * 1000) for n in range(100)])
    text, _ = Library(sessions, window_bytes=20_000).read(SESSION + "long")
    assert len(text) < 25_000 and "message 99 " in text and "message 1 " not in text
    assert text.startswith("*") and "older messages are left out" in text.splitlines()[0]


@pytest.mark.parametrize("text", ["", "plain", "é用😀", "\ud800", "a\udfffb", "\ud83d\ude00", "\0"], ids=ascii)
def test_what_is_sayable_is_utf_8_and_sound_text_stays(text: str) -> None:
    assert len(sayable(text).encode("utf-8")) >= len(text.replace("\ud83d\ude00", "x"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    assert sayable(text) == text and unquoted(quoted(text)) == text


class Broken:
    """A block of which nothing can be read, and skills that cannot be listed."""

    def get(self) -> str:
        raise RuntimeError("gone")

    def skill_names(self) -> list[str]:
        raise RuntimeError("gone")

    activate = read_resource = load = lambda self, *given: "Error: a manual of errors"


def test_a_provider_that_fails_takes_nothing_from_the_others(sessions: plait.Sessions) -> None:
    session = sessions.session("s").with_context("broken", provider=Broken()).with_context("memory")
    memory = Memory(sessions, session)
    assert names(memory) == ["read_context", "set_context", "load_context", "session_search"]
    assert not memory.call("set_context", {"label": "memory", "content": "x"}).failed
    assert memory.call("read_context", {"label": "broken"}).failed
    loaded = memory.call("load_context", {"label": "broken", "key": "k"})
    assert loaded.text == "\nError: a manual of errors" and not loaded.failed


def test_a_provider_that_fails_hides_no_resource(sessions: plait.Sessions) -> None:
    session = sessions.session("s").with_context("broken", provider=Broken(), description="Gone").with_context("memory")
    library = Library(sessions, Memory(sessions, session))
    assert [item.uri for item in library.page().items] == [BLOCK + "broken", BLOCK + "memory", SESSION + "monday"]
    assert library.page().items[0].description == "Gone"
    assert library.read(BLOCK + "memory") == ("", "text/plain")
    with pytest.raises(plait.StoreUnavailableError, match="'broken' cannot be read now: RuntimeError: gone"):
        library.read(BLOCK + "broken")


class Counting:
    """A block that notes how often it is read."""

    reads = 0

    def get(self) -> str:
        self.reads += 1
        return "x"


def test_listing_tools_and_resources_asks_no_provider(sessions: plait.Sessions) -> None:
    provider = Counting()
    memory = Memory(sessions, sessions.session("s").with_context("counted", provider=provider))
    assert names(memory) and Library(sessions, memory).page().items
    assert provider.reads == 0
    memory.call("read_context", {"label": "counted"})
    assert provider.reads == 1


@pytest.mark.parametrize("given", ["text", 5, ["label"]])
def test_arguments_of_no_object_are_an_answer(memory: Memory, given: Any) -> None:
    for name in names(memory):
        assert memory.call(name, given).failed
