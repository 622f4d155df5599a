"""The benchmarks of a server run whole, and the rows that they make are as good as plait's own."""

from __future__ import annotations

import asyncio
import warnings
from uuid import uuid4

import pytest

import plait
from benchmarks.workload import conversation
from tests import postgres_server

pytest.importorskip("psycopg", reason="psycopg is not installed")

from benchmarks import postgres, postgres_rows

pytestmark = pytest.mark.xdist_group("benchmarks")


def test_the_benchmark_of_a_server_runs_whole() -> None:
    with postgres_server.database() as url, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what LangGraph says of its own
        postgres.version(url)
        ledger = asyncio.run(postgres.measure(url, 1, 4))
    told = list(postgres.lines(ledger))
    assert {line[0] for line in told} >= {
        "load, a message",
        "last 20",
        *(f"time an append, {n} callers" for n in postgres.CALLERS),
    }
    assert {len(line) for line in told} == {len(postgres.HEADINGS)}
    assert all(len(row.values) == 1 for row in postgres.goals(ledger))


def test_the_rows_that_a_server_makes_are_messages_like_others() -> None:
    name = f"long {uuid4()}"
    with postgres_server.database(fresh=True) as url:
        with plait.open(url) as sessions:
            chat = sessions.session(name)
            chat.append_many([item.native() for item in conversation(postgres_rows.SEEDS, seed=4, size=300)])
        postgres_rows.fill(url, name, 1_300)
        with plait.open(url) as sessions:
            assert sessions.doctor() == []
            chat = sessions.session(name)
            chat.append(plait.user("and on"))
            found = list(chat.history())
            assert len(found) == chat.totals().messages == 1_301
            assert len({message.id for message in found}) == 1_301
            assert chat.get(found[900].id) == found[900]
            assert [message.seq for message in found] == list(range(1, 1_302))


def test_many_rows_are_measured_beside_few() -> None:
    with postgres_server.database() as url:
        ledger = postgres_rows.measure(url, 600, 2, search=True)
    told = list(postgres_rows.lines(ledger))
    assert {len(line) for line in told} == {len(postgres_rows.HEADINGS)}
    assert {"append", "last 20", "the first last 20 after it", "search, newest first"} <= {line[0] for line in told}
