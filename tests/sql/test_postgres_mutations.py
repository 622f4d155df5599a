"""The rules of the PostgreSQL statements can fail: each of these small changes to what plait sends is one that a rule refuses."""

from __future__ import annotations

import re

import pytest

from plait.store.postgres import statements as postgres
from plait.store.postgres.statements import Statement
from tests.sql import rules
from tests.sql.test_postgres_statements import ALL, BUILT, CHANGED, HINTS, LOOKING_AFTER, built_in, joined_loosely

CORE = dict(postgres.migrations())[1]

CUT_LOOSE = [
    ("find_session", "WHERE p.home = :home AND p.session", "WHERE p.session"),
    ("find_session", "WHERE l.home = :home AND l.session", "WHERE l.session"),
    ("find_session", "WHERE home = :home AND tenant", "WHERE tenant"),
    ("find_session", "WHERE home = :home AND", "WHERE home = home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE s.home = s.home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE (home = :home OR live = 1) AND"),
    ("find_session", "WHERE home = :home AND", "WHERE NOT home = :home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home <> :home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home >= :home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home = ANY (ARRAY[:home]) AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home = coalesce(:home, home) AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home IS NOT DISTINCT FROM :home AND"),
    ("find_session", "WHERE home = :home AND", "WHERE home = :owner::uuid AND"),
    ("find_session", "WHERE home = :home AND", "WHERE :home = :home AND"),
    ("is_marked", "WHERE s.home = :home AND s.tenant", "WHERE s.tenant"),
    ("is_marked", "WHERE b.home = :home\n                  AND", "WHERE"),
    ("strand_chain", "WHERE home = :home AND strand = :strand", "WHERE strand = :strand"),
    ("strand_chain", "WHERE home = :home AND strand BETWEEN", "WHERE strand BETWEEN"),
    ("strand_chain", "WHERE home = :home AND strand BETWEEN", "WHERE home = :home OR strand BETWEEN"),
    ("strands", "WHERE m.home = :home AND m.key", "WHERE m.key"),
    ("strands", "WHERE s.home = :home AND s.incarnation", "WHERE s.incarnation"),
    ("attachment_refs_of", "LEFT JOIN plait.attachment AS a ON a.scope", "RIGHT JOIN plait.attachment AS a ON a.scope"),
    ("attachment_refs_of", "ON a.scope = :scope AND", "ON"),
    ("attachment_refs_of", "ON a.scope = :scope AND", "ON a.scope = :home AND"),
    ("attachment_refs_of", "WHERE r.home = :home AND", "WHERE"),
    ("chunk", "ON c.scope = :scope AND c.attachment", "ON c.attachment"),
    ("graft_versions", "WHERE m.home = :home AND m.key", "WHERE m.key"),
    ("graft_versions", "AND s.home = :home AND s.inc", "AND s.inc"),
    ("lower_search_progress", "ON m.home = :home AND m.key", "ON m.key"),
    ("lower_search_progress", "WHERE s.home = :home AND s.incarnation", "WHERE s.incarnation"),
    ("lower_search_progress", "WHERE home = :home AND incarnation", "WHERE incarnation"),
    ("drop_message_ids", "WHERE m.home = :home AND m.key", "WHERE m.key"),
    ("drop_message_ids", "WHERE home = :home AND incarnation", "WHERE incarnation"),
    ("free_hidden_id", "ON d.home = :home AND d.removal", "ON d.removal"),
    ("free_hidden_ids", "WHERE s.home = :home AND s.incarnation", "WHERE s.incarnation"),
    ("overlays_over", "ON r.home = :home AND r.strand", "ON r.strand"),
    ("purge_records", "WHERE x.home = :home AND", "WHERE"),
    ("save_sessions", "WHERE s.home = :home AND", "WHERE"),
    ("create_session", "ON CONFLICT (home, tenant, owner, id)", "ON CONFLICT (tenant, owner, id, home)"),
    ("put_record", "(home, incarnation, key, body) VALUES (:home, ", "(incarnation, key, body) VALUES ("),
    ("put_record", "VALUES (:home, :incarnation", "VALUES (:incarnation, :home"),
    ("copy_messages", "SELECT :other_home, key", "SELECT gen_random_uuid(), key"),
    ("copy_messages", "WHERE home = :home AND", "WHERE"),
    ("claim_id", "WHERE b.home = :home AND b.incarnation", "WHERE b.incarnation"),
    ("claim_ids", "WHERE b.home = new.home AND b.incarnation", "WHERE b.incarnation"),
    ("claim_ids", "SELECT new.home,", "SELECT b.home,"),
    ("add_messages", "unnest(:homes::uuid[]", "unnest(:others::uuid[]"),
    ("values_unindexed", "ON p.home = :home AND p.value", "ON p.value"),
    ("values_unindexed", "JOIN plait.value AS v\n      ON v.home = :home AND", "JOIN plait.value AS v\n      ON"),
    ("search_best", "JOIN plait.message AS m ON m.home = :home AND", "JOIN plait.message AS m ON"),
    ("search_best", "WHERE p.home = :home AND", "WHERE"),
    ("search_scope_best", "ON m.home = w.home AND", "ON"),
    ("search_scope_best", "WHERE p.home = w.home AND p.key", "WHERE p.key"),
    ("search_scope_newest", "ON s.home = t.home AND", "ON"),
    ("pulses", "ON s.home = p.home AND", "ON"),
    ("pulses", "WHERE l.home = p.home AND", "WHERE"),
    ("purges", "WHERE s.home = p.home AND", "WHERE"),
    ("mark_all_behind", "SELECT home, tenant", "SELECT NULL::uuid, tenant"),
    ("attachment_in_use", "WHERE scope = :scope AND", "WHERE"),
    ("save_session", "WHERE home = :home AND session = :session", "WHERE home = :home"),
    (
        "save_session",
        "WHERE home = :home AND session = :session",
        "WHERE home = :home AND (session = :session OR live = 0)",
    ),
    ("drop_session", "WHERE home = :home AND session = :session", "WHERE home = :home"),
    ("messages_up", "FROM plait.message", "FROM message"),
    ("messages_up", "FROM plait.message", "FROM public.message"),
    ("messages_up", "FROM plait.message WHERE", "FROM plait.messages WHERE"),
]
"""Where the home, the scope or the session's key is left out, or named so that it holds nothing back."""

OTHERWISE = [
    ("find_session", "AND id = :id", "AND id = :id FOR UPDATE SKIP LOCKED"),
    ("lock_session", "FOR NO KEY UPDATE", "FOR NO KEY UPDATE SKIP LOCKED"),
    ("lock_session", "FOR NO KEY UPDATE", "FOR NO KEY UPDATE NOWAIT"),
    ("search_behind", "<> 'plait:stage:'", "<> 'plait:stage:' FOR UPDATE OF b"),
    ("begin_write", "READ COMMITTED", "SERIALIZABLE"),
    ("begin_read", "REPEATABLE READ READ ONLY", "READ COMMITTED"),
    ("commit", "COMMIT", "COMMIT AND CHAIN"),
    ("rollback", "ROLLBACK", "ROLLBACK TO SAVEPOINT one"),
    (
        "limits",
        "ELSE current_setting('synchronous_commit') END, true",
        "ELSE current_setting('synchronous_commit') END, false",
    ),
    ("limits", "THEN 'on'", "THEN 'local'"),
    ("limits", "set_config('lock_timeout', :lock_ms, true)", "set_config('lock_timeout', :lock_ms, :always)"),
    ("limits", "'statement_timeout'", "'search_path'"),
    ("limits", "'lock_timeout'", "'session_replication_role'"),
    ("read_limits", "true", "false"),
    ("read_limits", "true", "NULL"),
    ("hint", "set_config('synchronous_commit', 'off', true)", "set_config('synchronous_commit', 'off', false)"),
    ("now", "now()", "clock_timestamp()"),
    ("now", "now()", "statement_timestamp()"),
    ("now", "now()", "timeofday()::timestamptz"),
    ("now", "now()", "CURRENT_TIMESTAMP"),
    ("now", "now()", "LOCALTIMESTAMP"),
    ("set_lease", ":until, :token", "nextval('plait.until'), :token"),
    ("last_in_each", "r.value ->> 0", "r.value::json ->> 0"),
    ("add_info", ":metadata", ":metadata::jsonb"),
    ("save_sessions", "WITH new (", "WITH gone AS (DELETE FROM plait.lease WHERE home = :home RETURNING 1), new ("),
]
"""Where a statement does what may not be done, or what only another may do."""

NEW = [
    "SELECT pg_notify('plait', 'x')",
    "NOTIFY plait",
    "LISTEN plait",
    "UNLISTEN *",
    "SELECT set_config('synchronous_commit', 'off', false)",
    "SELECT set_config('synchronous_commit', 'local', true)",
    "SELECT pg_catalog.set_config('lock_timeout', '1', true)",
    "SET statement_timeout = 1",
    "SET LOCAL synchronous_commit = off",
    "RESET ALL",
    "SELECT nextval('plait.s')",
    "SELECT setval('plait.s', 1)",
    "SELECT currval('plait.s')",
    "SELECT lastval()",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock(1)",
    "SELECT pg_advisory_xact_lock(1)",
    "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
    "SELECT statement_timestamp()",
    "SELECT transaction_timestamp()",
    "SELECT timeofday()",
    "SELECT CURRENT_DATE",
    "SELECT CURRENT_USER",
    "SELECT random()",
    "SELECT gen_random_uuid()",
    "SELECT pg_sleep(1)",
    "SELECT pg_cancel_backend(1)",
    "SELECT pg_terminate_backend(1)",
    "SELECT pg_backend_pid()",
    "SELECT pg_export_snapshot()",
    "SELECT dblink_exec('', '')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT plait.message_text(:body)",
    "SELECT 1 FROM plait.messages WHERE session = :session",
    "SELECT session FROM pg_temp.session",
    "LOCK TABLE plait.session IN EXCLUSIVE MODE",
    "PREPARE x AS SELECT 1",
    "EXECUTE x",
    "DEALLOCATE ALL",
    "DISCARD ALL",
    "DECLARE c CURSOR FOR SELECT 1",
    "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
    "FETCH 1 FROM c",
    "CLOSE c",
    "SAVEPOINT one",
    "RELEASE SAVEPOINT one",
    "BEGIN",
    "COMMIT",
    "PREPARE TRANSACTION 'x'",
    "TRUNCATE plait.message",
    "COPY plait.message FROM STDIN",
    "VACUUM plait.message",
    "DO $$ BEGIN END $$",
    "CALL plait.work()",
    "CREATE TEMP TABLE t (n bigint)",
    "SELECT 1 AS n INTO TEMP TABLE t",
    "CREATE INDEX ON plait.message (home, id)",
    "ALTER TABLE plait.message ADD COLUMN n bigint",
    "MERGE INTO plait.lease AS l USING plait.session AS s ON l.home = s.home WHEN MATCHED THEN DELETE",
    "UPDATE plait.session SET next_seq = next_seq + 1 WHERE home = :home",
    "DELETE FROM plait.session WHERE home = :home",
    "DELETE FROM plait.message",
    "SELECT id FROM plait.session WHERE tenant = :tenant",
    "SELECT m.id FROM plait.message AS m, plait.slice AS s WHERE m.home = :home AND s.key = m.key",
    "SELECT m.id FROM plait.message AS m NATURAL JOIN plait.slice AS s WHERE m.home = :home",
    "SELECT m.id FROM plait.message AS m JOIN plait.slice AS s USING (key) WHERE m.home = :home",
    "SELECT m.id FROM plait.message AS m FULL JOIN plait.slice AS s ON m.home = :home AND s.home = :home",
    "SELECT (SELECT max(key) FROM plait.message) FROM plait.session AS s WHERE s.home = :home",
    "SELECT 1 FROM plait.session AS s WHERE s.home = :home ORDER BY (SELECT max(m.key) FROM plait.message AS m)",
    "SELECT 1 FROM plait.strand WHERE home = :home UNION ALL SELECT 1 FROM plait.strand",
    "WITH all_of AS (SELECT home, key FROM plait.message) SELECT a.key FROM all_of AS a WHERE a.home = :home",
    "SELECT s.key FROM (SELECT home, key FROM plait.message) AS s WHERE s.home = :home",
    "INSERT INTO plait.counter (name, home, value) VALUES ('a', :home, 1)",
    "INSERT INTO plait.counter VALUES (:home, 'a', 1)",
    "INSERT INTO plait.counter (home, name, value) VALUES (:home, 'a', 1), (:more, 'a', 1)",
    "INSERT INTO plait.counter (home, name, value) SELECT s.home, 'a', 1 FROM plait.session AS s",
    "DELETE FROM plait.lease AS l USING plait.session AS s WHERE s.home = :home AND s.session = l.session",
]
"""Statements that there are not to be at all."""

MIGRATIONS = [
    ("PRIMARY KEY (home, name)", "PRIMARY KEY (name, home)"),
    ("PRIMARY KEY (home, name)", "UNIQUE (home, name)"),
    ("UNIQUE (home, tenant, owner, id)", "UNIQUE (tenant, owner, id)"),
    ("PRIMARY KEY (scope, attachment, n)", "PRIMARY KEY (attachment, n)"),
    ("PRIMARY KEY (home, key, n)", "PRIMARY KEY (home, key, n), FOREIGN KEY (key) REFERENCES plait.message (key)"),
    ("PRIMARY KEY (home, key, n)", "PRIMARY KEY (home, key, n), FOREIGN KEY (home, key) REFERENCES plait.message"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL UNIQUE,"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL REFERENCES plait.message (key),"),
    ("  key  bigint NOT NULL,", "  key  bigserial NOT NULL,"),
    ("  key  bigint NOT NULL,", "  key  serial,"),
    ("  key  bigint NOT NULL,", "  key  integer NOT NULL,"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL GENERATED ALWAYS AS (n + 1) STORED,"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL DEFAULT nextval('plait.s'),"),
    ("  key  bigint NOT NULL,", "  key  bigint NOT NULL DEFAULT extract(epoch FROM CURRENT_TIMESTAMP),"),
    ("  home  uuid NOT NULL,\n  name", "  home  text NOT NULL,\n  name"),
    ("metadata text NOT NULL DEFAULT '{}'", "metadata jsonb NOT NULL DEFAULT '{}'"),
    ("metadata text NOT NULL DEFAULT '{}'", "metadata json NOT NULL DEFAULT '{}'"),
    ("metadata text NOT NULL DEFAULT '{}'", "metadata text[] NOT NULL DEFAULT '{}'"),
    ("created_at bigint NOT NULL", "created_at timestamptz NOT NULL"),
    ("CREATE TABLE plait.info", "CREATE UNLOGGED TABLE plait.info"),
    ("CREATE TABLE plait.info", "CREATE TEMP TABLE info"),
    (
        "CREATE INDEX session_scope ON plait.session (tenant",
        "CREATE UNIQUE INDEX session_scope ON plait.session (tenant",
    ),
    ("CREATE INDEX session_scope", "CREATE INDEX CONCURRENTLY session_scope"),
]
"""Where a migration makes what it may not."""

NEW_MIGRATIONS = [
    "CREATE SEQUENCE plait.s",
    "CREATE TYPE plait.kind AS ENUM ('a')",
    "CREATE TRIGGER t AFTER INSERT ON plait.message FOR EACH ROW EXECUTE FUNCTION plait.f()",
    "CREATE RULE r AS ON INSERT TO plait.message DO ALSO NOTIFY plait",
    "CREATE FUNCTION plait.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'",
    "CREATE PROCEDURE plait.p() LANGUAGE sql AS 'SELECT 1'",
    "CREATE VIEW plait.v AS SELECT 1",
    "CREATE MATERIALIZED VIEW plait.v AS SELECT 1",
    "CREATE EXTENSION pg_trgm",
    "ALTER TABLE plait.message DROP COLUMN body",
    "ALTER TABLE plait.message ALTER COLUMN home TYPE text",
    "ALTER TABLE plait.message RENAME COLUMN home TO session_home",
    "ALTER TABLE plait.message ADD COLUMN data jsonb",
    "ALTER TABLE plait.message ADD COLUMN n bigint GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE plait.message ADD COLUMN at bigint DEFAULT random()",
    "ALTER TABLE plait.message ADD UNIQUE (id)",
    "DROP TABLE plait.message",
    "UPDATE plait.message SET tokens = 0",
    "DELETE FROM plait.message",
    "SELECT pg_sleep(1)",
    "SET search_path = plait",
    "CREATE TABLE plait.more (home uuid NOT NULL, n bigint PRIMARY KEY)",
    "CREATE TABLE plait.more (home uuid NOT NULL, n bigint)",
    "CREATE TABLE plait.more (home uuid NOT NULL, n bigint, PRIMARY KEY (home, n)) INHERITS (plait.message)",
    "CREATE TABLE plait.more AS SELECT * FROM plait.message",
]

FENCE = ["version", "next_seq", "leaf", "active_at", "epoch", "incarnation", "live"]

CURSORS = [
    ("NO SCROLL CURSOR FOR ", "CURSOR WITH HOLD FOR "),
    ("NO SCROLL CURSOR FOR ", "SCROLL CURSOR WITH HOLD FOR "),
    ("DECLARE plait_rows", "DECLARE other_rows"),
    ("DECLARE plait_rows NO SCROLL CURSOR FOR ", "PREPARE plait_rows AS "),
    ("DECLARE plait_rows NO SCROLL CURSOR FOR ", "CREATE TEMP TABLE plait_rows AS "),
    ("CLOSE plait_rows", "CLOSE ALL"),
    ("CLOSE plait_rows", "COMMIT"),
    ("CLOSE plait_rows", "CLOSE plait_rows; DEALLOCATE ALL"),
    ("FETCH %d FROM plait_rows", "SELECT %d FROM plait.message"),
]

INDEXED = [
    "CREATE INDEX ON plait.session (home, active_at)",
    "CREATE INDEX ON plait.session (home, leaf, version)",
    "CREATE INDEX ON plait.session (home) INCLUDE (next_seq)",
    "CREATE INDEX ON plait.session (home) WHERE messages > 0",
    "CREATE INDEX ON plait.session (home, (bytes / 1024))",
    "CREATE INDEX ON plait.latest_pulse (tick)",
    "CREATE TABLE plait.lease (home uuid, session bigint, until bigint, PRIMARY KEY (home, until))",
    "CREATE TABLE plait.counter (home uuid, name text, value bigint, PRIMARY KEY (home, name), UNIQUE (home, value))",
]


def mutated(text: str, was: str, now: str) -> str:
    assert was in text, f"{was!r} is not there any more: take another place"
    return text.replace(was, now, 1)


@pytest.mark.parametrize(("name", "was", "now"), [*CUT_LOOSE, *OTHERWISE])
def test_a_changed_statement_is_refused(name: str, was: str, now: str) -> None:
    statement = {**ALL, **HINTS}[name]
    assert rules.faults(statement) == []
    assert rules.faults(Statement(name, mutated(statement.text, was, now)))


@pytest.mark.parametrize("text", NEW)
def test_a_statement_that_may_not_be_is_refused(text: str) -> None:
    assert rules.faults(Statement("new", text))


@pytest.mark.parametrize(("was", "now"), MIGRATIONS)
def test_a_changed_migration_is_refused(was: str, now: str) -> None:
    assert rules.schema_faults(mutated(CORE, was, now))


@pytest.mark.parametrize("script", NEW_MIGRATIONS)
def test_a_migration_that_may_not_be_is_refused(script: str) -> None:
    assert rules.schema_faults(script)


@pytest.mark.parametrize("column", FENCE)
def test_an_append_that_does_not_check_its_fence_is_refused(column: str) -> None:
    compared = rf"{column} = (?::\w+|\d)"
    text, cut = re.subn(
        rf"\b{compared}\s+AND\s+|\s+AND\s+{compared}(?=\s+THEN)", "", ALL["advance_session"].text, count=1
    )
    assert cut == 1
    assert rules.fence_faults(Statement("advance_session", text)) == [f"does not check the {column}"]


def test_an_append_that_asks_for_its_fence_and_goes_on_is_refused() -> None:
    text = mutated(ALL["advance_session"].text, "THEN :version::bigint END", "THEN :version::bigint ELSE version END")
    assert rules.fence_faults(Statement("advance_session", text))


@pytest.mark.parametrize(("was", "now"), CURSORS)
def test_a_changed_cursor_is_refused(was: str, now: str) -> None:
    built = [text.decode() for text in BUILT["executor.py"] if isinstance(text, bytes)]
    (text,) = [text for text in built if was in text]
    assert rules.built_faults(text) == []
    assert rules.built_faults(mutated(text, was, now))


@pytest.mark.parametrize("text", ["SET x = 1", "SELECT 1", "PREPARE x AS ", "LISTEN plait", "DECLARE c CURSOR FOR "])
@pytest.mark.parametrize("quoted", ["b'{}'", "'{}'", "f'{} {{x}}'", "b'%s {}'.strip() + b'{}'"])
def test_a_statement_that_python_builds_is_seen(text: str, quoted: str) -> None:
    assert list(built_in(f"x = 1\nconnection.execute({quoted.format(text, text)})\n"))


@pytest.mark.parametrize("script", INDEXED)
def test_an_index_on_what_a_write_changes_is_seen(script: str) -> None:
    ((table, _, indexed),) = list(rules.indexes(script))[-1:]
    assert any(table == on and columns & indexed for on, columns in CHANGED.values())


@pytest.mark.parametrize("file", LOOKING_AFTER)
def test_a_doctor_that_joins_without_a_home_is_refused(file: str) -> None:
    """Every join of every rule by itself, its home left out."""
    missed: list[str] = []
    for name, statement in postgres.parse(postgres.read(file)).items():
        for was in re.findall(r"\b[a-z]\.home = [a-z]\.home AND |\b[a-z]\.scope = [a-z]\.scope AND ", statement.text):
            changed = Statement(name, statement.text.replace(was, "", 1))
            missed += [] if joined_loosely(changed) else [f"{name}: {was}"]
    assert missed == []
