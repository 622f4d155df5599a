"""How stores fail in the field, on a server: what the behaviour tests, which run on both databases, do not provoke by themselves."""

from __future__ import annotations

import datetime as dt
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import psycopg
import pytest

import plait
from plait import Sessions
from plait.cli.run import run as run_command
from plait.errors import PlaitError, StoreBusyError, StoreUnavailableError
from plait.store.postgres._sync.connecting import newest_version
from plait.store.postgres.statements import migrations, own
from tests import postgres_server
from tests.behaviour.programs import run_together, start
from tests.behaviour.values import LONE, TEXTS, VALUES, note
from tests.beside import Beside, Moment, exported, imported
from tests.dose import dose
from tests.postgres_pair import wait_until


@pytest.fixture
def both(tmp_path: Path, url: str) -> Iterator[Beside]:
    """A file and a server that are told the same, at the same moments."""
    moment = Moment()
    sessions = Beside(plait.open(tmp_path / "a.db", durability="process"), plait.open(url), moment)
    try:
        yield sessions
    finally:
        sessions.one.close()
        sessions.other.close()
        moment.end()


def bodies(file: Path, url: str) -> tuple[list[bytes], list[bytes]]:
    """The bytes of all messages and values, as a file and as a server's tables hold them."""
    connection = apsw.Connection(str(file))
    queries = [
        f"SELECT {{}} FROM {table} ORDER BY {order}" for table, order in (("message", "id"), ("value_text", "body"))
    ]
    here = [bytes(row[0]) for query in queries for row in connection.execute(query.format("CAST(body AS BLOB)"))]
    connection.close()
    with psycopg.connect(url, options="-c search_path=plait") as served:
        there = [bytes(row[0]) for query in queries for row in served.execute(query.format("body").encode()).fetchall()]
    return here, there


def attempt(call: Callable[[], object]) -> None:
    """Do it to both; that both may refuse it is told by the comparison."""
    try:
        call()
    except PlaitError:
        return


def test_what_is_written_is_the_same_bytes_in_a_file_and_on_a_server(both: Beside, tmp_path: Path, url: str) -> None:
    """B-001, B-003, B-009, B-011: NUL, lone surrogates, key order and number forms, wherever they may stand."""
    chat = both.session("chat").with_context("memory").with_context("facts", kind="collection")
    call = {"type": "tool-x", "toolCallId": "c", "state": "output-available"}
    for name, text in TEXTS.items():
        part = {**call, "input": {text: text}, "output": [text], "x": text}
        chat.append(note(f"text {name}", text, metadata={"title": text}, parts=[{"type": "text", "text": text}, part]))
        chat.context.append("memory", text or "-")
        chat.context.write_entry("facts", f"k{name}", text, metadata={"t": text})
        attempt(lambda text=text: both.create(f"named {text}", name=text))
        attempt(lambda text=text: both.create(f"named {text}", metadata={text: text}))
        attempt(lambda text=text: chat.update_state({"text": text, text: 1}))
        for query in (text, f'"{text}"'):
            chat.search(query, newest_first=True, limit=1000)
    for name, value in VALUES.items():
        chat.append(
            note(f"value {name}", parts=[{**call, "input": {"v": value}, "output": value}], metadata={"v": value})
        )
        chat.update_state({"value": value})
    for bad in (float("nan"), float("inf"), b"bytes", {1: 2}, LONE.encode("utf-8", "surrogatepass")):
        with pytest.raises(plait.InvalidMessageError, match=r"metadata\.v"):
            chat.append(note("bad", metadata={"v": bad}))
    here, there = bodies(tmp_path / "a.db", url)
    assert here == there and len(here) > 2 * len(TEXTS) + len(VALUES)
    lines = tmp_path / "export.jsonl"
    lines.write_bytes(exported(chat))
    imported(both, lines, session_id="copy")
    assert exported(both.session("copy")).split(b"\n")[1:] == lines.read_bytes().split(b"\n")[1:]


@pytest.mark.parametrize(
    "id", ["a\0b", "\0", LONE, "%", "_", "a\\b", "A", "a", "\u0001", "\u0001\u0001", "é", "e\u0301"]
)
def test_an_id_is_taken_or_refused_in_the_same_words(both: Beside, id: str) -> None:
    """B-003, B-100: also as a role, a session's name and a key; what is not the same id finds nothing."""
    for make in (
        lambda: both.session(id).append(note("m")),
        lambda: both.session("chat").append(note(id)),
        lambda: both.session("chat").append(note("role", role=id)),
        lambda: both.session("chat").with_context("c", kind="collection").context.put("c", "text", key=id),
        lambda: both.scoped(id, id).session(id).append(note("m")),
    ):
        attempt(make)
    for other in ("a", "A", "ab", "aXb", "e", "%"):
        both.get(other)
        both.session("chat").get(other)
        both.scoped(other, other).list()
    both.list()


def test_order_is_that_of_appends_however_the_rows_lie(sessions: Sessions, url: str) -> None:
    """B-017: all at one time, a middle one updated, the tables written anew in another order."""
    chat = sessions.session("chat")
    at = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
    count = dose(short=60, soak=500)
    wanted = [f"{n * 7919 % count:03}" for n in range(count)]
    for above, id in zip([None, *wanted], wanted, strict=False):
        chat.import_message(note(id), parent=above, created_at=at)
    chat.update(note(wanted[count // 2], "longer " * 500))
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in ("VACUUM FULL plait.message", "CLUSTER plait.message_id USING message_id_pkey"):
            connection.execute(statement.encode())
        connection.execute(b"CREATE INDEX by_body ON plait.message (body)")
        connection.execute(b"CLUSTER plait.message USING by_body")
        connection.execute(b"DROP INDEX plait.by_body")
    for _ in range(3):
        assert [row.id for row in chat.history()] == wanted
        assert [row.id for row in chat.everything()] == wanted
        assert [row.id for row in chat.recent(count=7).messages] == wanted[-7:]
    assert sessions.doctor() == []


def test_sessions_of_one_instant_are_listed_in_one_order(both: Beside) -> None:
    """B-022, B-023: by their ids, page after page, whatever the databases number them by."""
    names = [f"{n * 7 % 10}{end}" for n in range(10) for end in ("", "A", "a", "\0", "é", "💡")]

    def begin(sessions: Sessions, _: object) -> None:
        for name in names:
            sessions.session(f"s{name}").append(note("m"))

    both.ask(begin)
    for size in (1, 7, 100):
        listed: list[str] = []
        cursor = None
        while True:
            page = both.list(limit=size, cursor=cursor)
            listed += [info.id for info in page.sessions]
            cursor = page.cursor
            if cursor is None:
                break
        assert listed == sorted([f"s{name}" for name in names], reverse=True)
    both.retain(max_count=9)
    assert len(list(both.all())) == 9


# -- opening


@contextmanager
def older_database(version: int) -> Iterator[str]:
    """A database with plait's tables of an older version, without any for 0."""
    with postgres_server.bare_database() as url:
        if version:
            with psycopg.connect(url) as connection:
                for step in ("make_schema", "make_meta", "start_schema"):
                    connection.execute(own()[step].query)
                for _, script in migrations()[:version]:
                    connection.execute(script.encode())
                connection.execute(own()["note_schema"].query.replace(b"$1", b"%d" % version))
        yield url


OPEN = """
ready()
with plait.open(sys.argv[2]) as sessions:
    sessions.session("chat").append(note(f"m{sys.argv[1]}"))
"""


@pytest.mark.parametrize("version", dose(short=[0, 1], soak=[*range(newest_version())]))
def test_a_database_opened_by_many_programs_at_once_is_prepared_once(version: int) -> None:
    """B-029, B-030: empty, or of an older version; nobody fails for it."""
    with older_database(version) as url:
        count = dose(short=4, soak=12)
        run_together(OPEN, count, url)
        sound(url, {f"m{n}" for n in range(count)})


KILLED = """
from plait.store.postgres._sync import connecting
connecting.migrations = lambda steps=connecting.migrations(): [(n, script + "; SELECT pg_sleep(600);") for n, script in steps]
plait.open(sys.argv[1]).open()
"""


def test_a_database_whose_transactions_are_serializable_is_prepared_by_many_at_once_too() -> None:
    with older_database(1) as url:
        postgres_server.set_for_all(url, "default_transaction_isolation = 'serializable'")
        run_together(OPEN, 4, url)
        sound(url, {f"m{n}" for n in range(4)})


@pytest.mark.parametrize(
    ("version", "held"),
    [
        (1, "SELECT 1 FROM plait.meta FOR UPDATE"),
        (1, "LOCK TABLE plait.session"),
        (1, "LOCK TABLE plait.meta"),
        (newest_version(), "LOCK TABLE plait.meta"),
    ],
)
def test_who_opens_a_store_waits_for_others_only_so_long(version: int, held: str) -> None:
    """A program that has stopped in the middle of a migration, say."""
    with older_database(version) as url, psycopg.connect(url) as holder:
        holder.execute(held.encode())
        with pytest.raises((StoreBusyError, StoreUnavailableError)):
            plait.open(url, busy_timeout_s=1).open()
        holder.rollback()
        with plait.open(url) as sessions:
            assert sessions.session("chat").append(note("m")).inserted


@pytest.mark.parametrize("version", dose(short=[0], soak=[*range(newest_version())]))
def test_a_program_killed_in_the_middle_of_a_migration_leaves_none_of_it(version: int) -> None:
    """B-030, B-123: the next one does it."""
    with older_database(version) as url, psycopg.connect(url, autocommit=True) as watch:
        process = start(KILLED, url)
        sleeping = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        while not watch.execute(sleeping.encode()).fetchall():
            assert process.poll() is None, process.communicate()
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        watch.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM ({sleeping}) AS sleeping".encode())
        run_together(OPEN, 2, url)
        sound(url, {"m0", "m1"})


def sound(url: str, ids: set[str]) -> None:
    with psycopg.connect(url) as connection:
        assert connection.execute(own()["schema_version"].query).fetchall() == [(newest_version(),)]
    with plait.open(url) as sessions:
        chat = sessions.session("chat")
        assert {message.id for message in chat.history()} == ids and len(chat.leaves()) == 1
        assert sessions.doctor() == []


# -- connections and secrets


@pytest.mark.skipif(bool(os.environ.get(postgres_server.POOLED)), reason="a pooler keeps connections of its own")
def test_handles_and_stores_leave_no_connection(url: str) -> None:
    """B-041: a thousand handles of one store share its few; a store that is closed leaves none."""
    with psycopg.connect(url, autocommit=True) as watch:
        mine = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

        def connections() -> int:
            ((count,),) = watch.execute(mine.encode()).fetchall()
            return int(count)

        with plait.open(url) as sessions:
            for n in range(dose(short=100, soak=1000)):
                sessions.session(f"chat {n}").append(note("m"))
            assert connections() <= 2
        for _ in range(dose(short=5, soak=200)):
            store = plait.open(url)
            store.session("chat 1").leaf()
            store.close()
            store.close()
        wait_until(lambda: connections() == 0, "the server has noticed that its clients are gone")
        with pytest.raises(plait.ClosedError):
            store.session("chat 1").leaf()


URLS = [
    "postgresql://u:s3cret@127.0.0.1:1/db",
    "postgresql://u:s3cret@no-such-host.invalid/db",
    "postgresql://u:s3cret%@127.0.0.1:1/db",
    "postgresql://u:s3cret#@127.0.0.1:1/db",
    "postgresql://u:s3@cret@127.0.0.1:1/db",
    "postgresql://u:s3cret/x@127.0.0.1:1/db",
    "postgresql://u:s3cret?x@127.0.0.1:1/db",
    "postgresql://u:12/s3cret@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=u&password=s3cret",
    "postgresql://u:s3cret@127.0.0.1:99999/db",
    "postgresql://u:s3cret@127.0.0.1:1/db?no_such_option=1",
    "postgres//u:s3cret@127.0.0.1:1/db",
]


@pytest.mark.parametrize("url", URLS)
def test_no_password_is_told(
    url: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """B-108: in errors, on the command line, in the log and in what a store says it is."""
    told: list[str] = []
    try:
        sessions = plait.open(url, busy_timeout_s=1)
        told += [repr(sessions), repr(sessions.store), repr(sessions.session("chat"))]
        sessions.open()
    except PlaitError as error:
        told += traceback.format_exception(error)
    else:
        raise AssertionError("it was opened")
    if url.startswith("postgresql:"):
        assert run_command(["ls", "--db", url]) != 0
        captured = capsys.readouterr()
        told += [captured.out, captured.err]
    assert all(secret not in text for secret in ("s3cret", "s3@", "cret") for text in [*told, caplog.text])
