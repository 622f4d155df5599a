-- begin_write
-- Each statement of a write sees what is committed when it begins; what it reads first it has locked.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- begin_read
-- All that a plan reads is one committed state.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- commit
-- Make a write durable and seen.
COMMIT;

-- rollback
-- Undo a write, or end a read.
ROLLBACK;

-- limits
-- How long to wait for others, for a statement and for the client and, at the least, for whom a commit waits; only in this
-- transaction, whose connection others use too.
SELECT set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true),
       set_config('idle_in_transaction_session_timeout', :idle_ms, true),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, true);

-- read_limits
-- How long a statement that reads may wait for whoever has locked a table, and take, and how long the client may leave its
-- snapshot open.
SELECT set_config('lock_timeout', :lock_ms, true), set_config('statement_timeout', :statement_ms, true),
       set_config('idle_in_transaction_session_timeout', :idle_ms, true);

-- begin_turn
-- What is written from here on has a number of its own, given after what the statement that writes it has looked at.
SAVEPOINT plait_turn;

-- end_turn
-- Whatever follows has the transaction's number again.
RELEASE SAVEPOINT plait_turn;

-- lock_session
-- Let nobody else write to a session before this transaction has ended.
SELECT 1 FROM plait.session
 WHERE home = :home AND tenant = :tenant AND owner = :owner AND id = :id FOR NO KEY UPDATE;

-- is_marked
-- Whether the search index knows that a session, by its name, was written to.
SELECT EXISTS (SELECT 1 FROM plait.search_behind AS b
                WHERE b.home = :home
                  AND b.incarnation = (SELECT s.incarnation FROM plait.session AS s
                                        WHERE s.home = :home AND s.tenant = :tenant AND s.owner = :owner AND s.id = :id));

-- advance_session
-- Move a session's row on by appended messages. It fails (23502) if anything that it sets is not what the writer believes.
UPDATE plait.session
   SET version = CASE WHEN version = :version_was AND next_seq = :next_was AND leaf = :leaf_was AND active_at = :active_was
                       AND epoch = :epoch AND incarnation = :incarnation AND live = 1
                      THEN :version::bigint END,
       next_seq = :next_seq, leaf = :leaf, active_at = :active_at,
       messages = messages + :messages, bytes = bytes + :bytes, tokens = tokens + :tokens,
       path_messages = path_messages + :messages, path_bytes = path_bytes + :bytes, path_tokens = path_tokens + :tokens
 WHERE home = :home AND session = :session;

-- claim_id
-- A new message's id. It fails (23502) if the search index does not know that the session was written to, or the tick is over.
INSERT INTO plait.message_id (home, incarnation, id, key)
VALUES (:home, (SELECT b.incarnation FROM plait.search_behind AS b
                 WHERE b.home = :home AND b.incarnation = :incarnation
                   AND :tick = (SELECT max(t.tick) FROM plait.tick AS t)), :id, :key);

-- claim_ids
-- The same for messages of many sessions.
INSERT INTO plait.message_id (home, incarnation, id, key)
SELECT new.home, (SELECT b.incarnation FROM plait.search_behind AS b
                   WHERE b.home = new.home AND b.incarnation = new.incarnation
                     AND :tick = (SELECT max(t.tick) FROM plait.tick AS t)), new.id, new.key
  FROM unnest(:homes::uuid[], :incarnations::bigint[], :ids::text[], :keys::bigint[]) AS new (home, incarnation, id, key);

-- add_messages
-- Messages of many sessions.
INSERT INTO plait.message (home, key, version, bytes, tokens, created_at, flags, format, role, id, body)
SELECT new.home, new.key, new.version, new.bytes, new.tokens, new.created_at, new.flags, new.format, new.role, new.id, new.body
  FROM unnest(:homes::uuid[], :keys::bigint[], :versions::bigint[], :sizes::bigint[], :tokens::bigint[],
              :created::bigint[], :flags::bigint[], :formats::text[], :roles::text[], :ids::text[], :bodies::bytea[])
    AS new (home, key, version, bytes, tokens, created_at, flags, format, role, id, body);

-- server
-- What kind of server this is, and whether the connection goes straight to it.
SELECT pg_backend_pid(), current_setting('server_version_num')::int,
       (SELECT pg_encoding_to_char(encoding) FROM pg_catalog.pg_database WHERE datname = current_database()),
       pg_is_in_recovery(), to_regclass('plait.meta') IS NOT NULL,
       to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL;

-- schema_version
-- Which version of the schema there is.
SELECT value FROM plait.meta WHERE name = 'schema';

-- lock_schema
-- The same, and nobody else changes it before this transaction has ended.
SELECT value FROM plait.meta WHERE name = 'schema' FOR UPDATE;

-- make_schema
-- A place of its own for everything.
CREATE SCHEMA IF NOT EXISTS plait;

-- make_meta
-- What says which version of the schema there is.
CREATE TABLE IF NOT EXISTS plait.meta (name text PRIMARY KEY, value bigint NOT NULL);

-- start_schema
-- There is nothing yet.
INSERT INTO plait.meta (name, value) VALUES ('schema', 0) ON CONFLICT DO NOTHING;

-- note_schema
-- The schema has been brought to a version.
UPDATE plait.meta SET value = :version WHERE name = 'schema';

-- find_written
-- Of the message with a key: whether a write put it there, and whether it says what that did; asked for after a commit
-- whose outcome is not known.
SELECT version = :version AND created_at = :created_at AND id = :id,
       bytes = :bytes AND format = :format AND role = :role AND body = :body
  FROM plait.message WHERE home = :home AND key = :key;

-- find_version
-- At which version a session stands, asked for likewise.
SELECT version FROM plait.session WHERE home = :home AND session = :session;

-- changes_from
-- The changes of a session from a version on, asked for likewise.
SELECT version, kind, data FROM plait.change
 WHERE home = :home AND session = :session AND version >= :version ORDER BY version;

-- pruned_upto
-- Up to which version the changes of a session are gone, asked for likewise.
SELECT version FROM plait.pruned WHERE home = :home AND session = :session;

-- find_seq
-- Whether a message has a seq, in whichever strand of a life, asked for likewise.
SELECT 1 FROM plait.strand AS s JOIN plait.message AS m ON m.home = :home AND m.key = ((s.strand << 32) | :seq::bigint)
 WHERE s.home = :home AND s.incarnation = :incarnation LIMIT 1;

-- change_by_operation
-- Whether an operation has made the change of a version in a home, asked for likewise.
SELECT 1 FROM plait.change WHERE home = :home AND operation = :operation AND version = :version LIMIT 1;

-- find_kept
-- Whether a transaction made the record with a key, asked for likewise.
SELECT xmin = :transaction::xid8::xid AND body = :body
  FROM plait.record WHERE home = :home AND incarnation = :incarnation AND key = :key;

-- how_ended
-- How a transaction ended, if the server knows, asked for likewise.
SELECT CASE WHEN :transaction::xid8 < pg_snapshot_xmax(pg_current_snapshot()) THEN pg_xact_status(:transaction::xid8) END;

-- find_epoch
-- The epoch of a session, and whether somebody has a lease on it, asked for likewise.
SELECT s.epoch, EXISTS (SELECT 1 FROM plait.lease AS l WHERE l.home = :home AND l.session = :session)
  FROM plait.session AS s WHERE s.home = :home AND s.session = :session;

-- find_life
-- Which life a session is in, and since when, asked for likewise.
SELECT incarnation, created_at FROM plait.session WHERE home = :home AND tenant = :tenant AND owner = :owner AND id = :id;

-- find_stand
-- Where a session stands, asked for likewise.
SELECT incarnation, version, next_seq, leaf FROM plait.session WHERE home = :home AND session = :session;

-- find_upload
-- Which payload a claim is on, asked for likewise.
SELECT attachment FROM plait.upload WHERE scope = :scope AND upload = :upload;

-- find_chunk
-- Whether a piece of a payload is there, asked for likewise.
SELECT 1 FROM plait.chunk WHERE scope = :scope AND attachment = :attachment AND n = :n;

-- lock_home
-- Wait until nobody writes to the sessions of a home any more.
SELECT 1 FROM plait.session WHERE home = :home FOR NO KEY UPDATE;

-- wait_home
-- Wait until nobody begins a life in a home any more: each of them has this number. To be undone.
INSERT INTO plait.counter AS c (home, name, value) VALUES (:home, 'incarnation', 0)
    ON CONFLICT (home, name) DO UPDATE SET value = c.value;

-- take_number
-- Let the standby be waited for at the commit that follows, and so for all that was committed before.
SELECT pg_current_xact_id();
