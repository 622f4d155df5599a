"""A process killed while it indexes leaves an index that the next search brings up to date."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import plait
from plait.store.plans import indexing
from plait.store.protocol import Scope, Search
from plait.testing import brute
from plait.testing.faults import Child, invariants
from tests.behaviour.search import candidates, facts, rows_in
from tests.dose import dose
from tests.stores import open_sqlite

MESSAGES = 400
KILLS = dose(short=4, soak=200)

BACKFILL = """
import os, sys
import plait
from plait.store.plans import indexing

indexing.STEP_ROWS = 10
with plait.open(sys.argv[1]) as sessions:
    sessions.build_search_index(progress=lambda done, left: os.write(1, b"%d %d\\n" % (done, left)))
"""

# Appends, updates, deletes and searches in turns; a line after each search.
CATCH_UP = """
import os, random, sys
import plait
from plait.store.plans import indexing

indexing.STEP_ROWS = 3
dice = random.Random(int(sys.argv[2]))
with plait.open(sys.argv[1]) as sessions:
    for n in range(1_000_000):
        chat = sessions.session(dice.choice(["s0", "s1"]))
        made = [plait.user(f"tea {n} {k} " + "悬空" * dice.randrange(3)) for k in range(dice.randrange(1, 12))]
        ids = [result.id for result in chat.append_many(made)]
        chat.update(plait.user("coffee now", id=dice.choice(ids)))
        if dice.random() < 0.3:
            chat.delete(ids[:2])
        (chat if dice.random() < 0.5 else sessions).search("tea")
        os.write(1, b"%d\\n" % n)
"""


def same_as_read(file: Path) -> None:
    """Hold that the file is sound, and that every search finds what reading finds."""
    assert invariants(file) == []
    store = open_sqlite(file)
    with plait.Sessions(store) as sessions:
        assert sessions.doctor() == [], "half an index is no damage"
        everything = [item for info in sessions.all() for item in candidates(store, info.id)]
        for query in ("tea", "coffee", "空", '"tea 3"'):
            asked = Search(query, limit=100_000, newest_first=True)
            assert facts(store.search(Scope(), asked)) == facts(brute.search(everything, asked)), query
        assert sessions.doctor() == []


@pytest.mark.parametrize("round", range(KILLS))
def test_a_backfill_killed_at_any_step_goes_on_where_it_was(round: int, tmp_path: Path) -> None:
    file = tmp_path / "killed.db"
    with plait.open(file) as sessions:
        for n in range(2):
            texts = [f"tea {k} 悬空" if k % 3 else "coffee" for k in range(MESSAGES // 2)]
            sessions.session(f"s{n}").append_many([plait.user(text) for text in texts])
    with Child(BACKFILL, str(file)) as child:
        child.wait_for(random.Random(round).choice([1, 2, 7, 20, 30]))
        told = child.kill()
    indexed = rows_in(file, "SELECT count(*) FROM message_words_docsize")[0][0]
    assert int(told[-1].split()[0]) <= indexed <= MESSAGES, "what was told was committed"
    assert child.exit_code in (-9, 0), child.errors
    with plait.open(file) as sessions:
        assert sessions.build_search_index() == MESSAGES - indexed, "nothing is indexed twice"
    same_as_read(file)


@pytest.mark.parametrize("round", range(KILLS))
def test_a_search_killed_while_it_catches_up_loses_nothing(round: int, tmp_path: Path) -> None:
    file = tmp_path / "killed.db"
    with Child(CATCH_UP, str(file), str(round)) as child:
        child.wait_for(random.Random(round).choice([1, 3, 10, 25]))
        child.kill()
    assert child.exit_code == -9, child.errors
    same_as_read(file)


def test_an_index_emptied_and_not_filled_again_is_filled_by_the_next_search(tmp_path: Path) -> None:
    """Killed right after a rebuild began: the index is empty and knows it."""
    file = tmp_path / "anew.db"
    store = open_sqlite(file)
    with plait.Sessions(store) as sessions:
        sessions.session("s").append_many([plait.user(f"tea {n}") for n in range(20)])
        sessions.build_search_index()
        store.driver.write(lambda: indexing.start_anew(1))
    assert rows_in(file, "SELECT count(*) FROM message_words_docsize") == [(0,)]
    same_as_read(file)
