"""The view that other tools read: what it says is what plait says, beside writers, whatever the messages are."""

from __future__ import annotations

import random
from typing import Any

import psycopg
import pytest

import plait
from plait import Message, Sessions

COLUMNS = "session, seq, id, parent, role, text, tokens, bytes, time"


def text(id: str, words: str = "words") -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": words}]}


def seen(url: str, session: str = "chat") -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        asked = f"SELECT {COLUMNS} FROM plait.messages WHERE session = %s ORDER BY seq"
        return connection.execute(asked.encode(), (session,)).fetchall()


def said(sessions: Sessions, session: str = "chat") -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for m in sessions.session(session).everything():
        assert isinstance(m, Message)
        found.append((session, m.seq, m.id, m.parent_id, m.role, m.text, m.tokens, m.bytes, m.created_at))
    return found


def test_the_view_says_of_a_tree_what_plait_says(sessions: Sessions, url: str) -> None:
    """Branches, and ranges deleted out of them, so that parents are found through strands that are empty."""
    chance = random.Random(7)
    chat = sessions.session("chat")
    ids: list[str] = []
    for n in range(150):
        parent = chance.choice(ids) if ids and n % 3 == 0 else None if n == 80 else plait.LEAF
        ids.append(chat.append(text(f"m{n}", f"word {n}"), parent=parent).id)
    gone = chance.sample(ids, 60)
    chat.delete(gone)
    assert seen(url) == said(sessions)
    assert {parent for _, _, _, parent, *_ in seen(url)} - {None} <= set(ids) - set(gone)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "plain",
        "a \\ b \\\\ c \\u0000 as it is written, not meant",
        'quotes " and \n lines \t and é 注文 😀 \x01 \x7f',
        "x" * 3_000_000,
    ],
    ids=["empty", "plain", "backslashes", "unicode", "three megabytes"],
)
def test_words_come_out_as_they_were_given(sessions: Sessions, url: str, words: str) -> None:
    sessions.session("chat").append(text("a", words))
    assert [row[5] for row in seen(url)] == [words]


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("a\x00b", "a\ufffdb"),
        ("\x00\x00", "\ufffd\ufffd"),
        ("\\\x00", "\\\ufffd"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\ud83d 😀 \ude00 \\ud83d", "\ufffd 😀 \ufffd \\ud83d"),
    ],
)
def test_what_the_server_cannot_hold_is_a_replacement_character(
    sessions: Sessions, url: str, words: str, shown: str
) -> None:
    sessions.session("chat").append(text("a", words))
    assert [row[5] for row in seen(url)] == [shown]


def test_text_parts_alone_are_words_and_messages_of_other_formats_have_some(sessions: Sessions, url: str) -> None:
    chat = sessions.session("chat")
    parts = [{"type": "text", "text": "one"}, {"type": "reasoning", "text": "no"}, {"type": "text", "text": "two"}]
    picture = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,QUJDRA=="}
    chat.append({"id": "a", "role": "user", "parts": [*parts, picture]})
    chat.append({"role": "user", "content": "three"})
    chat.append({"role": "user", "content": [{"type": "text", "text": "four"}, {"type": "text", "text": "five"}]})
    chat.append({"id": "d", "role": "user", "parts": []})
    assert [row[5] for row in seen(url)] == ["one\ntwo", "three", "four\nfive", ""]
    assert seen(url) == said(sessions)


def test_a_damaged_message_has_no_words_and_keeps_no_other_from_being_read(sessions: Sessions, url: str) -> None:
    sessions.session("chat").append_many([text("a", "one"), text("b"), text("c"), text("d", "two")])
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE plait.message SET body = '\\xff' WHERE id = 'b'")
        connection.execute("UPDATE plait.message SET body = '{' WHERE id = 'c'")
    assert [row[5] for row in seen(url)] == ["one", None, None, "two"]


def test_only_sessions_that_are_there_are_seen_each_in_its_scope(sessions: Sessions, url: str) -> None:
    sessions.session("gone").append(text("a"))
    sessions.delete("gone")
    sessions.session("cleared").append(text("a"))
    sessions.session("cleared").clear()
    sessions.session("cleared").append(text("b"))
    with plait.open(url, scope=("acme", "alice")) as others:
        others.session("chat").append(text("c"))
    with psycopg.connect(url) as connection:
        asked = "SELECT tenant, owner, session, id FROM plait.messages ORDER BY id"
        rows = connection.execute(asked).fetchall()
    assert rows == [("", "", "cleared", "b"), ("acme", "alice", "chat", "c")]


def test_a_role_that_may_only_read_the_view_reads_it_and_nothing_else(sessions: Sessions, url: str) -> None:
    sessions.session("chat").append(text("a", "one"))
    with psycopg.connect(url) as connection:
        connection.execute("CREATE ROLE analyst")
        connection.execute("GRANT USAGE ON SCHEMA plait TO analyst")
        connection.execute("GRANT SELECT ON plait.messages TO analyst")
        connection.execute("SET LOCAL ROLE analyst")
        assert connection.execute("SELECT text FROM plait.messages").fetchall() == [("one",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT 1 FROM plait.message")
        connection.rollback()  # and with it the role


def test_a_writer_does_not_wait_for_a_reader_of_the_view(sessions: Sessions, url: str) -> None:
    chat = sessions.session("chat")
    chat.append(text("a"))
    with psycopg.connect(url) as connection, connection.cursor("reading") as cursor:
        cursor.execute("SELECT id FROM plait.messages")
        assert chat.append(text("b")).inserted
        assert cursor.fetchall() == [("a",)]


def test_one_session_is_read_without_looking_at_the_others(sessions: Sessions, url: str) -> None:
    for n in range(3):
        sessions.session(f"s{n}").append(text("a"))
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        asked = "EXPLAIN SELECT text, parent FROM plait.messages WHERE tenant = '' AND owner = '' AND session = 's1'"
        lines = [row[0] for row in connection.execute(asked)]
    assert not [line for line in lines if "Seq Scan" in line], lines
