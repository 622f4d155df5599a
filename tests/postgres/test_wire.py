"""Statements on the wire: parameters of every kind come through as they are; what is prepared stays so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest

from plait.store.postgres import settings as given
from plait.store.postgres._sync.connecting import Line, connect
from plait.store.postgres.wire import Bodies

HOSTILE = ["", "plain", '"', "\\", '\\"{},', "NULL", "null", " a ", "é\U0001f600", "\n\t", "{}", "a,b"]
PREPARED = b"SELECT count(*) FROM pg_prepared_statements"


@pytest.fixture
def line(url: str) -> Iterator[Line]:
    line = connect(given.Settings(url))
    yield line
    line.close()


def ask(line: Line, query: str, *values: Any) -> Any:
    (result,) = line.talk([(query.encode(), values)])
    ((answer,),) = line.rows(result)
    return answer


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_comes_through_alone_and_in_a_list(line: Line, text: str) -> None:
    assert ask(line, "SELECT $1::text", text) == text
    assert ask(line, "SELECT $1::text[]", [text, "x", text]) == [text, "x", text]


@pytest.mark.parametrize("bodies", [[], [b""], [b"\x00\xff", b"", b"'\\{}"], [b"x" * 100_000] * 3])
def test_bodies_come_through_in_one_parameter(line: Line, bodies: list[bytes]) -> None:
    assert ask(line, "SELECT $1::bytea[]", Bodies(bodies)) == bodies


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", -(1 << 63)),
        ("bigint", None),
        ("boolean", True),
        ("bytea", b"\x00'\\"),
        ("uuid", UUID(int=7)),
        ("bigint[]", [1, -2]),
        ("bigint[]", []),
        ("text[]", [None, "a"]),
        ("double precision", 0.1),
    ],
)
def test_a_value_comes_back_as_it_was_given(line: Line, kind: str, value: Any) -> None:
    assert ask(line, f"SELECT $1::{kind}", value) == value


@pytest.mark.parametrize("value", ["a\x00b", ["a\x00b"]])
def test_what_a_text_cannot_hold_is_refused_before_anything_is_sent(line: Line, value: Any) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        line.talk([(b"CREATE TABLE plait.never (x int)", ()), (b"SELECT $1", (value,))])
    assert ask(line, "SELECT count(*) FROM pg_tables WHERE tablename = 'never'") == 0


def test_an_error_ends_a_round_trip_and_the_line_can_be_used_on(line: Line) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        line.talk([(b"SELECT 1", ()), (b"SELECT 1 / $1::int", (0,)), (b"CREATE TABLE plait.never (x int)", ())])
    assert ask(line, "SELECT count(*) FROM pg_tables WHERE tablename = 'never'") == 0


def test_what_is_prepared_is_so_after_a_rollback(line: Line) -> None:
    for _ in range(3):
        line.talk([(b"BEGIN", ()), (b"SELECT $1::int", (1,)), (b"ROLLBACK", ())])
        assert ask(line, PREPARED.decode()) == len(line.names or ()) == 4


def test_more_is_sent_and_answered_at_once_than_buffers_hold(line: Line) -> None:
    text = "x" * 300_000
    results = line.talk([(b"SELECT $1::text", (text,))] * 40)
    assert [line.rows(result) for result in results] == [[(text,)]] * 40


def test_a_line_that_the_server_ends_says_so(line: Line) -> None:
    with pytest.raises(psycopg.OperationalError):
        line.talk([(b"SELECT pg_terminate_backend(pg_backend_pid())", ()), (b"SELECT 1", ())])
    assert line.closed


def test_what_an_error_kept_from_being_prepared_is_prepared_the_next_time(line: Line) -> None:
    """The server skips all that comes after the statement that failed, also the preparing of it."""
    good, bad = [(f"SELECT {n} + $1::int".encode(), (n,)) for n in range(4)], (b"SELECT 1 / $1::int", (0,))
    for items in ([good[0], bad, good[1], good[2]], [bad, good[3]], [good[2], bad, good[0], good[3]]):
        with pytest.raises(psycopg.errors.DivisionByZero):
            line.talk(items)
        assert ask(line, PREPARED.decode()) == len(line.names or ())
    results = line.talk(good)
    assert [line.rows(result) for result in results] == [[(0,)], [(2,)], [(4,)], [(6,)]]
