"""Doctor, vacuum, backup and the command line on a server: damage is named and mended as it is in a file."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
import pytest

import plait
from plait import Sessions
from plait.cli.run import run
from plait.errors import StoreBusyError, StoreUnavailableError, UnsupportedError
from plait.store.postgres import upkeep
from tests.behaviour.values import noise, note, picture
from tests.dose import dose


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


WAYS: dict[str, tuple[str, str, bool]] = {
    "a flipped byte of a payload": (
        "UPDATE plait.chunk SET data = set_byte(data, 9, get_byte(data, 9) # 1) WHERE n = 1",
        "damaged attachment",
        False,
    ),
    "a payload of another hash": ("UPDATE plait.attachment SET hash = '\\x00'", "damaged attachment", False),
    "a piece that is gone": ("DELETE FROM plait.chunk WHERE n = 1", "attachments of wrong size", False),
    "a moved media offset": ("UPDATE plait.attachment_ref SET at = at - 3", "damaged message", False),
    "a body that is no JSON": ("UPDATE plait.message SET body = '\\x7b' WHERE id = 'a'", "damaged message", False),
    "a body that is no text": ("UPDATE plait.message SET body = '\\xff' WHERE id = 'a'", "damaged message", False),
    "a role in the row": ("UPDATE plait.message SET role = 'tool' WHERE id = 'a'", "damaged message", False),
    "an id in the row": ("UPDATE plait.message SET id = 'z' WHERE id = 'a'", "damaged message", False),
    "path totals": (
        "UPDATE plait.session SET path_messages = 1, path_tokens = 3 WHERE id = 'c'",
        "wrong path totals",
        True,
    ),
    "session totals": ("UPDATE plait.session SET tokens = tokens + 1 WHERE id = 'c'", "wrong totals", True),
    "an id that leads nowhere": ("DELETE FROM plait.message_id WHERE id = 'a'", "messages without id", True),
    "an id of nothing": (
        "UPDATE plait.message_id SET key = key + 1000 WHERE id = 'a'",
        "ids without message",
        True,
    ),
    "no listing": ("DELETE FROM plait.activity", "activity missing", True),
    "a listing of another time": ("UPDATE plait.activity SET bucket = bucket - 1", "activity unfounded", True),
    "a strand that is not there": (
        "UPDATE plait.strand SET parent = 99 WHERE parent <> 0",
        "strands that hang nowhere",
        False,
    ),
    "a counter that was set back": ("UPDATE plait.counter SET value = 0", "counters behind", True),
    "a seq to be given again": ("UPDATE plait.session SET next_seq = 2 WHERE id = 'c'", "seqs past the counter", True),
    "a leaf of another session": (
        "UPDATE plait.session SET leaf = 99::bigint << 32 WHERE id = 'c'",
        "leaves elsewhere",
        True,
    ),
    "slices of nobody": ("UPDATE plait.slice SET key = key + 1000", "slices without message", True),
    "an overlay's ranges": ("UPDATE plait.overlay_range SET overlay = 99", "ranges without overlay", True),
    "an overlay's totals": ("UPDATE plait.overlay SET left_tokens = 0", "wrong overlay totals", True),
    "a number of overlays": ("UPDATE plait.session SET overlays = 7 WHERE id = 'c'", "wrong overlay counts", True),
    "words of nothing": ("UPDATE plait.message_words SET key = key + 1000", "index entries without message", True),
    "messages passed by": ("DELETE FROM plait.message_words", "messages not indexed", True),
    "other words of a message": (
        "UPDATE plait.message_words SET words = words || 'ale:9' WHERE key & 4294967295 = 2",
        "stale index entry",
        True,
    ),
    "words of a message without their places": (
        "UPDATE plait.message_words SET words = strip(words) WHERE key & 4294967295 = 2",
        "stale index entry",
        True,
    ),
    "other words of a value": ("UPDATE plait.value_words SET words = words || 'ale:9'", "stale index of values", True),
    "a value cut short": (
        "UPDATE plait.value_text SET body = substr(body, 2) WHERE version = 2",
        "values cut short",
        False,
    ),
    "a value without its slices": ("DELETE FROM plait.value_slice WHERE n = 1", "values cut short", False),
    "a value at another version": ("UPDATE plait.value SET version = version + 1", "values at another version", True),
    "values of nobody": ("DELETE FROM plait.shelf", "values without session", True),
    "a life to be removed that is lived": (
        "INSERT INTO plait.purge SELECT home, home, incarnation FROM plait.session WHERE id = 'c'",
        "purges of living sessions",
        True,
    ),
}
"""How to damage a store, what the doctor calls it, and whether it mends that."""


def fill(sessions: Sessions) -> None:
    """A session with a branch, slices, media in two pieces, an overlay, a value, and words in the index."""
    chat = sessions.session("c").with_context("memory")
    chat.append_many([note("a"), note("b"), note("long", "x" * 2_000_000), picture("pic", noise(1_500_000))])
    chat.append(note("branch"), parent="a")
    chat.checkout("pic")
    chat.add_overlay("a", "b", summary="sum")
    chat.context.replace("memory", "one")
    chat.context.replace("memory", "two")
    chat.context.add("long")
    chat.context.replace("long", "x" * 1_999_999 + "é")  # in pieces
    chat.search("words")
    chat.with_context("facts", kind="collection").context.put("facts", "drinks green tea", key="tea")
    chat.context.search("facts", "tea")


def damage(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute(statement.encode()).rowcount > 0


def test_a_sound_store_has_no_finding(sessions: Sessions) -> None:
    assert sessions.doctor() == []
    fill(sessions)
    sessions.scoped("acme", "al\x00ice").session("o\x00dd").append(note("m"))
    sessions.session("gone").append(picture("p", noise(10_000)))
    sessions.delete("gone")
    sessions.session("c").delete(["b"])
    found = sessions.doctor()
    assert [finding.kind for finding in found] == ["stale overlays"]
    assert sessions.doctor(fix=True) == found


@pytest.mark.parametrize("way", WAYS)
def test_damage_is_named_and_what_can_be_worked_out_is_mended(sessions: Sessions, url: str, way: str) -> None:
    statement, kind, mended = WAYS[way]
    fill(sessions)
    damage(url, statement)
    assert kind in {finding.kind for finding in sessions.doctor()}
    found = sessions.doctor(fix=True)
    assert all(finding.fixed == mended for finding in found if finding.kind == kind)
    if mended:
        assert kind not in {finding.kind for finding in sessions.doctor()}


def test_what_was_mended_reads_and_goes_on_as_before(sessions: Sessions, url: str) -> None:
    fill(sessions)
    for way in ("session totals", "path totals", "an id that leads nowhere", "no listing", "messages passed by"):
        damage(url, WAYS[way][0])
    assert all(finding.fixed for finding in sessions.doctor(fix=True))
    chat = sessions.session("c")
    assert chat.totals().messages == 5
    assert [info.id for info in sessions.all()] == ["c"]
    assert {hit.id for hit in chat.search("words")} == {"a", "b", "branch"}
    assert chat.append(note("a")).inserted is False
    assert chat.append(note("after")).inserted
    assert sessions.doctor() == []


def test_the_words_that_are_indexed_are_compared_with_those_that_are_there(sessions: Sessions, url: str) -> None:
    """A text changed behind plait's back, by a tool that knows nothing of the index."""
    chat = sessions.session("chat")
    texts = {"a": "tea one", "b": "tea two", "c": "悬空 and tea", "d": "", "nul": "tea\x00x \ud800"}
    chat.append_many([plait.user(text, id=id) for id, text in texts.items()])
    assert len(chat.search("tea")) == 4
    assert sessions.doctor() == []
    changed = "convert_to(replace(convert_from(body, 'UTF8'), 'tea one', 'ale one'), 'UTF8')"
    damage(url, f"UPDATE plait.message SET body = {changed} WHERE id = 'a'")
    assert [(finding.kind, finding.detail[0]) for finding in sessions.doctor()] == [("stale index entry", "a")]
    assert all(finding.fixed for finding in sessions.doctor(fix=True))
    assert sessions.doctor() == []
    assert [hit.id for hit in sessions.search("ale")] == ["a"], "in a search of all sessions, too"
    assert [hit.id for hit in chat.search("ale")] == ["a"]
    assert {hit.id for hit in chat.search("tea")} == {"b", "c", "nul"}
    assert sessions.doctor() == []


def test_a_doctor_beside_writers_finds_nothing(sessions: Sessions, url: str) -> None:
    """What is written and indexed between two of its looks is not taken for damage."""
    fill(sessions)
    done = threading.Event()

    def write() -> None:
        with plait.open(url) as other:
            chat = other.session("c").with_context("facts", kind="collection")
            n = 0
            while not done.is_set():
                n += 1
                chat.update(plait.user(f"words and {n}", id="b"))
                chat.context.put("facts", f"tea and {n}", key="tea")
                chat.search("words")
                chat.context.search("facts", "tea")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = [finding for _ in range(dose(short=5, soak=200)) for finding in sessions.doctor()]
    finally:
        done.set()
        writer.join(60)
    assert {finding.kind for finding in found} <= {"stale overlays"}


@pytest.mark.parametrize("piece", [0, 1])
@pytest.mark.parametrize("end", ["the message", "the session"])
def test_a_payload_that_is_removed_while_the_doctor_reads_it_is_no_damage(
    sessions: Sessions, url: str, monkeypatch: pytest.MonkeyPatch, piece: int, end: str
) -> None:
    fill(sessions)
    asked = upkeep.rows_of
    with plait.open(url) as other:

        def asking(connection: Any, statement: Any, args: Any = (), where: Any = None) -> Any:
            if statement.name == "piece" and args[1] == piece and other.session("c").get("pic") is not None:
                other.session("c").delete("pic") if end == "the message" else other.delete("c")
            return asked(connection, statement, args, where)

        monkeypatch.setattr(upkeep, "rows_of", asking)
        assert sessions.doctor() == []
        assert other.session("c").get("pic") is None


def test_a_payload_that_is_mended_while_the_doctor_reads_it_is_no_damage(
    sessions: Sessions, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sessions)
    damage(url, "DELETE FROM plait.chunk WHERE n = 1")
    digest = upkeep._digest
    looks: list[bytes] = []

    def reading(connection: Any, scope: Any, attachment: int) -> bytes:
        looks.append(digest(connection, scope, attachment))
        sessions.session("other").append(picture("again", noise(1_500_000)))
        return looks[-1]

    monkeypatch.setattr(upkeep, "_digest", reading)
    assert [finding.kind for finding in sessions.doctor()] == ["attachments of wrong size"]
    assert len(looks) == len(set(looks)) == 2


def test_mending_waits_for_writers_only_so_long(sessions: Sessions, url: str) -> None:
    sessions.session("c").append(note("a"))
    with psycopg.connect(url) as writer, plait.open(url, busy_timeout_s=0.2) as other:
        writer.execute("SELECT 1 FROM plait.session FOR UPDATE")
        with pytest.raises(StoreBusyError):
            other.doctor(fix=True)
        assert other.doctor() == []


def test_a_store_opened_to_read_is_checked_and_not_mended(sessions: Sessions, url: str) -> None:
    fill(sessions)
    damage(url, WAYS["session totals"][0])
    with plait.open(url, read_only=True) as reader:
        assert [(f.kind, f.fixed) for f in reader.doctor()] == [("wrong totals", False)]


def test_vacuum_leaves_what_is_there_and_purges_what_is_not(sessions: Sessions, url: str) -> None:
    chat = sessions.session("c")
    chat.append_many([note(f"m{n}", f"word{n} " * 200) for n in range(500)])
    chat.search("word1")
    chat.delete([f"m{n}" for n in range(1, 500)])
    sessions.vacuum()
    with psycopg.connect(url) as connection:
        (before,) = connection.execute("SELECT pg_total_relation_size('plait.message')").fetchone() or (0,)
    sessions.vacuum(purge=True)
    with psycopg.connect(url) as connection:
        (after,) = connection.execute("SELECT pg_total_relation_size('plait.message')").fetchone() or (0,)
        assert connection.execute("SELECT count(*) FROM plait.message_words").fetchone() == (1,)
    assert after < before
    assert [m.id for m in chat.history()] == ["m0"] and sessions.doctor() == []


@pytest.mark.parametrize("purge", [False, True])
def test_a_vacuum_that_the_server_does_not_let_this_user_do_is_no_success(
    sessions: Sessions, url: str, purge: bool
) -> None:
    """Else deleted words would be thought to be gone that are there."""
    sessions.session("c").append(note("a"))
    role = f"app_{uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"GRANT USAGE ON SCHEMA plait TO {role}".encode())
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA plait TO {role}".encode())
        try:
            with plait.open(url.replace("postgres@", f"{role}@")) as others:
                assert others.session("c").append(note("b")).inserted
                with pytest.raises(StoreUnavailableError, match=r"belong to another role: open the store as that role"):
                    others.vacuum(purge=purge)
        finally:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def test_a_backup_is_refused_with_what_to_do_instead(sessions: Sessions) -> None:
    with pytest.raises(UnsupportedError, match=r"pg_dump.*plait copy"):
        sessions.backup("copy.db")


def test_the_command_line_does_on_a_server_what_it_does_on_a_file(
    capfd: pytest.CaptureFixture[str], url: str, sessions: Sessions
) -> None:
    def cli(*arguments: str) -> Ran:
        capfd.readouterr()
        code = run(list(arguments))
        return Ran(code, *capfd.readouterr())

    fill(sessions)
    assert cli("doctor", "--db", url).code == 0
    assert cli("vacuum", "--db", url).code == 0
    assert cli("vacuum", "--purge", "--db", url).code == 0
    assert cli("stats", "c", "--db", url).out.count("\n") > 5
    ran = cli("backup", "copy.db", "--db", url)
    assert ran.code == 1 and "pg_dump" in ran.err and ran.err.count("\n") == 1
    for command in (["ls"], ["show", "c"], ["tree", "c"], ["search", "words"], ["overlays", "c"], ["export", "c"]):
        ran = cli(*command, "--db", url)
        assert (ran.code, ran.err) == (0, ""), command
        assert ran.out
    damage(url, WAYS["session totals"][0])
    assert cli("doctor", "--db", url).code == 3
    assert cli("doctor", "--fix", "--db", url).code == 0
    assert cli("rm", "c", "--yes", "--db", url).code == 0
