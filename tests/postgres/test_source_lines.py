"""What Cloudflare's own tests of its providers on PostgreSQL assert, line by line, on a server."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

import plait
from plait import Message, Session, Sessions
from plait.errors import NotFoundError, UsageError
from tests.behaviour.values import note


@pytest.fixture
def chat(sessions: Sessions) -> Session:
    return sessions.session("chat")


def ids(session: Session) -> list[str]:
    return [message.id for message in session.history()]


def test_a_session_keeps_a_tree_of_messages(chat: Session) -> None:
    """Eleven lines: empty, append, chain, twice, null and omitted parent, update, delete, clear, leaf, length."""
    assert ids(chat) == [] and chat.leaf() is None and chat.totals().path_messages == 0
    assert chat.append(note("m1")).parent_id is None
    assert chat.append(note("m2")).parent_id == "m1"
    stored = chat.get("m1")
    assert isinstance(stored, Message) and stored.to_dict() == note("m1")
    again = chat.append(note("m1", "other words"))
    assert not again.inserted and again.differs and again.message.to_dict() == note("m1")
    assert chat.append(note("root"), parent=None).parent_id is None
    chat.checkout("m2")
    assert chat.append(note("m3")).parent_id == "m2"
    assert ids(chat) == ["m1", "m2", "m3"] and chat.totals().path_messages == 3
    leaf = chat.leaf()
    assert leaf is not None and leaf.id == "m3"
    chat.update(note("m2", "new words"))
    assert [message.text for message in chat.history()] == ["words", "new words", "words"]
    assert chat.delete(["m2"]) == ["m2"] and ids(chat) == ["m1", "m3"]
    chat.add_overlay("m1", "m3", summary="sum")
    chat.clear()
    assert ids(chat) == [] and chat.overlays() == [] and chat.leaf() is None


def test_sessions_do_not_see_one_another(sessions: Sessions, chat: Session) -> None:
    """Three lines; a parent that is another session's is refused (a deliberate difference)."""
    other = sessions.session("other")
    chat.append_many([note("same"), note("only here")])
    other.append(note("same", "of the other"))
    assert ids(chat) == ["same", "only here"] and ids(other) == ["same"]
    with pytest.raises(NotFoundError):
        other.append(note("x"), parent="only here")
    assert ids(other) == ["same"]


def test_overlays_are_kept_each_on_its_branch_and_their_times_are_times(chat: Session) -> None:
    """Three lines."""
    chat.append_many([note(f"m{n}") for n in range(4)])
    chat.append(note("b2"), parent="m1")
    first = chat.add_overlay("m1", "b2", summary="of the branch").overlay
    chat.checkout("m3")
    second = chat.add_overlay("m1", "m2", summary="of the trunk").overlay
    assert [o.summary for o in chat.overlays()] == ["of the trunk"]
    assert [o.summary for o in chat.overlays("b2")] == ["of the branch"]
    assert first.created_at.tzinfo is not None and first.created_at <= second.created_at


def test_a_block_of_context_is_a_text_by_its_label(sessions: Sessions, chat: Session) -> None:
    """Four lines."""
    chat.with_context("memory").with_context("soul")
    assert sessions.store.read_value(chat._ref, "memory") is None  # type: ignore[attr-defined]
    chat.context.replace("memory", "one")
    chat.context.replace("memory", "two")
    chat.context.replace("soul", "kind")
    blocks = {block.label: block.content for block in chat.context.blocks()}
    assert blocks == {"memory": "two", "soul": "kind"}


def test_entries_are_found_by_their_words_in_their_block(chat: Session) -> None:
    """Five lines: count, found, not found in words, written anew under a key, apart by label."""
    chat.with_context("notes", kind="collection").with_context("more", kind="collection")
    empty = chat.context.block("notes")
    assert empty is not None and not empty.content
    chat.context.put("notes", "the cat sat on the mat", key="k")
    chat.context.put("more", "a dog", key="k")
    assert "mat" in (chat.context.search("notes", "cat") or "")
    assert not chat.context.search("notes", "dog")
    chat.context.put("notes", "a bird flew", key="k")
    assert not chat.context.search("notes", "cat")
    assert "bird" in (chat.context.search("notes", "bird") or "")
    block = chat.context.block("notes")
    assert block is not None and "1" in (block.content or "")


class Soul:
    """A provider of one's own that can only be read."""

    def get(self) -> str:
        return "You are kind."


def test_a_prompt_is_frozen_until_it_is_refreshed(sessions: Sessions) -> None:
    """Nine lines: blocks in it, kept, the same value twice and at once, refreshed, with the tool for a search provider."""

    def handle() -> Session:
        session = sessions.scoped().session("chat")
        session.with_context("soul", provider=Soul()).with_context("memory")
        return session.with_context("notes", kind="collection").with_cached_prompt()

    chat = handle()
    chat.context.replace("memory", "likes tea")
    first = chat.freeze_system_prompt()
    assert "You are kind." in first and "likes tea" in first
    chat.context.replace("memory", "likes coffee")
    assert chat.freeze_system_prompt() == first
    second = chat.refresh_system_prompt()
    assert "likes coffee" in second and "likes tea" not in second
    assert chat.freeze_system_prompt() == second
    assert "search_context" in {tool.name for tool in chat.tools()}


def test_first_calls_of_a_prompt_at_once_give_one_text(url: str) -> None:
    texts: list[str] = []

    def freeze(n: int) -> None:
        with plait.open(url) as sessions:
            chat = sessions.session("chat", context=["memory"]).with_cached_prompt()
            chat.context.replace("memory", f"written by {n}")
            texts.append(chat.freeze_system_prompt())

    threads = [threading.Thread(target=freeze, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 4 and len(set(texts)) == 1


def test_parts_of_tools_come_back_as_they_were_and_are_shown_as_a_legal_conversation(chat: Session) -> None:
    """Eight lines: dynamic tools kept; calls with results, without, several in a message, over several turns."""

    def call(id: str, **fields: Any) -> dict[str, Any]:
        part = {"type": "dynamic-tool", "toolName": "look", "toolCallId": id, "input": {"z": 1, "a": [1.0, None]}}
        return {**part, "state": "input-available", **fields}

    done = {"state": "output-available", "output": {"b": 2, "a": "x\x00"}}
    turn = {"id": "a1", "role": "assistant", "parts": [call("1", **done), call("2", **done)]}
    chat.append_many([note("u1"), turn, note("u2"), {"id": "a2", "role": "assistant", "parts": [call("3")]}])
    assert [m.to_dict() for m in chat.history()] == [  # type: ignore[union-attr]
        note("u1"),
        turn,
        note("u2"),
        {"id": "a2", "role": "assistant", "parts": [call("3")]},
    ]
    shown = list(chat.history(for_model=True))
    assert shown[-1].parts[0]["state"] == "output-error"  # an open call is closed in the view alone
    kinds = [item.get("type") for item in plait.messages_as(shown, "openai")]
    assert kinds.count("function_call") == kinds.count("function_call_output") == 3


def test_a_connection_of_ones_own_is_no_store(url: str) -> None:
    """Two lines, and a deliberate difference: plait takes a URL and makes its connections itself."""
    with psycopg.connect(url) as connection, pytest.raises(UsageError):
        plait.Sessions(connection)  # type: ignore[arg-type]
