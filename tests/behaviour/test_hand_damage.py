"""Damage made by hand in the file: nothing hangs, nothing foreign is shown, and the doctor names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import plait
from plait.store.sqlite.executor import Executor


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two sessions; `c` has a branch, so two strands (1 and 2), `other` has strand 3."""
    path = tmp_path / "a.db"
    with plait.open(path) as sessions:
        chat = sessions.session("c")
        for id in ("a", "b"):
            chat.append(plait.user(id, id=id))
        chat.append(plait.user("d", id="d"), parent="a")
        sessions.session("other").append(plait.user("not yours", id="x"))
        sessions.merge_metadata("other", {"k": 1})
    return path


def damage(path: Path, sql: str) -> None:
    database = apsw.Connection(str(path))
    database.execute(sql)
    database.close()


@pytest.fixture
def broken(path: Path, request: pytest.FixtureRequest) -> Iterator[plait.Sessions]:
    damage(path, request.param)
    with plait.open(path) as sessions:
        yield sessions


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "broken",
    [
        "UPDATE strand SET parent = 2, fork = 5 WHERE strand = 1",
        "UPDATE strand SET parent = 1, fork = 5 WHERE strand = 1",
        "UPDATE strand SET parent = 99 WHERE strand = 2",
        "UPDATE strand SET parent = 3 WHERE strand = 2",
    ],
    indirect=True,
)
def test_strands_that_hang_nowhere_end_every_read_and_are_found(broken: plait.Sessions) -> None:
    chat = broken.session("c")
    for read in (chat.history, chat.everything):
        assert len(list(read())) <= 4
    chat.leaves(), chat.roots(), chat.totals()
    assert "strands that hang nowhere" in {finding.kind for finding in broken.doctor()}


@pytest.mark.parametrize("broken", [f"UPDATE session SET leaf = {(3 << 32) + 1} WHERE id = 'c'"], indirect=True)
def test_a_leaf_in_another_sessions_strand_is_found_and_mended(broken: plait.Sessions) -> None:
    assert [finding.kind for finding in broken.doctor(fix=True)] == ["leaves elsewhere"]
    assert broken.doctor() == []
    broken_again = broken.session("c")
    leaf = broken_again.leaf()
    assert leaf is not None and leaf.id == "d"


@pytest.mark.parametrize(
    "broken",
    ["UPDATE message SET body = CAST(replace(CAST(body AS BLOB), 'd', x'ff') AS TEXT) WHERE id = 'd'"],
    indirect=True,
)
def test_a_text_that_is_not_utf_8_any_more_hides_nothing_else_and_says_so(broken: plait.Sessions) -> None:
    chat = broken.session("c")
    root, damaged = chat.history()
    assert isinstance(root, plait.Message) and root.text == "a"
    assert isinstance(damaged, plait.Message) and damaged.id == "d"
    for look in (damaged.to_json, damaged.to_dict):
        with pytest.raises(plait.CorruptError, match=r"'d' .* is damaged"):
            look()
    assert [finding.kind for finding in broken.doctor()] == ["damaged message"]


@pytest.mark.parametrize("broken", ["UPDATE counter SET value = 0"], indirect=True)
def test_a_counter_that_fell_behind_is_found_and_mended(broken: plait.Sessions) -> None:
    assert {finding.kind for finding in broken.doctor(fix=True)} == {"counters behind"}
    broken.session("new").append(plait.user("fits"))
    assert broken.doctor() == []


@pytest.mark.parametrize("broken", ["UPDATE session SET next_seq = 1 WHERE id = 'c'"], indirect=True)
def test_a_seq_is_not_given_again_once_the_doctor_was_there(broken: plait.Sessions) -> None:
    assert "seqs past the counter" in {finding.kind for finding in broken.doctor(fix=True)}
    assert broken.doctor() == []
    assert broken.session("c").append(plait.user("next")).seq == 4


@pytest.mark.parametrize("broken", ["UPDATE info SET metadata = '{'"], indirect=True)
def test_one_damaged_catalogue_entry_hides_no_other_session(broken: plait.Sessions) -> None:
    assert {info.id for info in broken.all()} == {"c", "other"}
    assert [finding.kind for finding in broken.doctor()] == ["damaged catalogue entries"]


@pytest.mark.parametrize("broken", ["UPDATE message SET body = x'ff00fe' WHERE id = 'a'"], indirect=True)
def test_a_body_that_is_no_text_is_one_damaged_message(broken: plait.Sessions) -> None:
    first, second = broken.session("c").history()
    assert isinstance(first, plait.Damaged) and isinstance(second, plait.Message)
    assert [finding.kind for finding in broken.doctor()] == ["damaged message"]


@pytest.mark.parametrize(
    "broken",
    ["INSERT INTO purge SELECT incarnation FROM session WHERE id = 'c'", "DELETE FROM session WHERE id = 'c'"],
    indirect=True,
)
def test_the_doctor_removes_no_message(broken: plait.Sessions, path: Path) -> None:
    assert broken.doctor(fix=True)
    broken.delete("other")  # which also purges what is to be purged
    database = apsw.Connection(str(path))
    left = {row[0] for row in database.execute("SELECT id FROM message")}
    database.close()
    assert left == {"a", "b", "d"}


def test_a_read_that_was_interrupted_leaves_no_transaction_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come between any two steps: the next read works, and so does a fork."""
    with plait.open(path) as sessions:
        chat = sessions.session("c")
        assert chat.leaf() is not None
        run = Executor.run

        def interrupted(self: Executor, factory: object) -> object:
            self.connection.execute("SELECT 1").fetchall()
            raise KeyboardInterrupt

        monkeypatch.setattr(Executor, "run", interrupted)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                chat.leaf()
        monkeypatch.setattr(Executor, "run", run)

        driver = sessions.store.driver  # type: ignore[attr-defined]
        executor = driver._idle[-1]
        executor.connection.execute("BEGIN")  # as if the interrupt had come before the rollback
        with pytest.raises(plait.StoreError):
            chat.leaf()
        leaf = chat.leaf()
        assert leaf is not None and leaf.id == "d"


def test_doctor_compares_the_search_index_both_ways(tmp_path: Path) -> None:
    """B-094: what the index lacks and what it has too much is found, and mended."""
    path = tmp_path / "store.db"
    with plait.open(path) as sessions:
        chat = sessions.session("chat")
        chat.append_many([plait.user("tea one", id="a"), plait.user("tea two", id="b")])
        assert len(chat.search("tea")) == 2
    with closing(apsw.Connection(str(path))) as database:
        database.execute("DELETE FROM message_words WHERE rowid = (SELECT key FROM message WHERE id = 'a')")
        database.execute("INSERT INTO message_words (rowid, words) VALUES (99 << 32, 'tea nowhere')")
    with plait.open(path) as sessions:
        kinds = ["messages not indexed", "index entries without message"]
        assert [finding.kind for finding in sessions.doctor()] == kinds
        assert [(finding.kind, finding.fixed) for finding in sessions.doctor(fix=True)] == [
            (kind, True) for kind in kinds
        ]
        assert sessions.doctor() == []
        assert {hit.id for hit in sessions.search("tea")} == {"a", "b"}, "in a search of all sessions, too"
        assert {hit.id for hit in sessions.session("chat").search("tea")} == {"a", "b"}


def test_doctor_finds_other_words_under_a_right_key(tmp_path: Path) -> None:
    """A text changed behind plait's back, by a tool that knows nothing of the index: by one word, or by their number."""
    path = tmp_path / "store.db"
    long = "word " * 300_000 + "zebra"
    with plait.open(path) as sessions:
        chat = sessions.session("chat")
        texts = {"a": "tea one", "b": "tea two", "c": "悬空 and tea", "d": "", "big": long}
        chat.append_many([plait.user(text, id=id) for id, text in texts.items()])
        assert len(chat.search("tea")) == 3
        assert sessions.doctor() == []
    with closing(apsw.Connection(str(path))) as database:
        database.execute("UPDATE message SET body = replace(body, 'tea one', 'ale one') WHERE id = 'a'")
        database.execute("DELETE FROM message_words WHERE rowid = (SELECT key FROM message WHERE id = 'c')")
        database.execute(
            "INSERT INTO message_words (rowid, words) SELECT key, '悬 and tea' FROM message WHERE id = 'c'"
        )
    with plait.open(path) as sessions:
        found = sessions.doctor()
        assert [(finding.kind, finding.detail[0]) for finding in found] == [
            ("stale index entry", "a"),
            ("stale index entry", "c"),
        ]
        assert all(finding.fixed for finding in sessions.doctor(fix=True))
        assert sessions.doctor() == []
        chat = sessions.session("chat")
        assert [hit.id for hit in sessions.search("ale")] == ["a"], "in a search of all sessions, too"
        assert [hit.id for hit in chat.search("ale")] == ["a"]
        assert {hit.id for hit in chat.search("tea")} == {"b", "c"}
        assert [hit.id for hit in chat.search("空")] == ["c"]
        assert [hit.id for hit in chat.search("zebra")] == ["big"]
        assert sessions.doctor() == []
