-- next_number
-- The next number of a home's counter, never given twice.
INSERT INTO plait.counter AS c (home, name, value) VALUES (:home, :name, 1)
    ON CONFLICT (home, name) DO UPDATE SET value = c.value + 1 RETURNING value;

-- find_session
-- The session row by its name: the one place where a scope is checked.
SELECT session, incarnation, live, next_seq, leaf, version, epoch, messages, bytes, tokens,
       path_messages, path_bytes, path_tokens, created_at, active_at,
       overlays, hidden_messages, hidden_bytes, hidden_tokens,
       (SELECT p.tick FROM plait.latest_pulse AS p WHERE p.home = :home AND p.session = s.session),
       (SELECT max(tick) FROM plait.tick), 0,
       (SELECT l.until FROM plait.lease AS l WHERE l.home = :home AND l.session = s.session)
  FROM plait.session AS s WHERE home = :home AND tenant = :tenant AND owner = :owner AND id = :id;

-- create_session
-- A session's row, or a new life in the row of a deleted one, whose counters go on.
INSERT INTO plait.session AS s
       (home, session, incarnation, live, next_seq, leaf, version, epoch, messages, bytes, tokens,
        path_messages, path_bytes, path_tokens, created_at, active_at, tenant, owner, id)
VALUES (:home, :number, :incarnation, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, :created_at, :active_at, :tenant, :owner, :id)
    ON CONFLICT (home, tenant, owner, id) DO UPDATE
   SET incarnation = excluded.incarnation, live = 1,
       created_at = excluded.created_at, active_at = excluded.active_at
 WHERE s.home = :home AND s.live = 0 RETURNING session;

-- save_session
-- What a transaction made of a session's row. The columns of its indexes stay, so that no index is written.
UPDATE plait.session
   SET live = :live, next_seq = :next_seq, leaf = :leaf, version = :version, epoch = :epoch,
       messages = :messages, bytes = :bytes, tokens = :tokens, path_messages = :path_messages,
       path_bytes = :path_bytes, path_tokens = :path_tokens, active_at = :active_at, overlays = :overlays,
       hidden_messages = :hidden_messages, hidden_bytes = :hidden_bytes, hidden_tokens = :hidden_tokens
 WHERE home = :home AND session = :session;

-- save_sessions
-- The same for many rows of a home in one statement.
WITH new (live, next_seq, leaf, version, epoch, messages, bytes, tokens,
          path_messages, path_bytes, path_tokens, active_at,
          overlays, hidden_messages, hidden_bytes, hidden_tokens, session) AS (
VALUES (:live::bigint, :next_seq::bigint, :leaf::bigint, :version::bigint, :epoch::bigint,
        :messages::bigint, :bytes::bigint, :tokens::bigint,
        :path_messages::bigint, :path_bytes::bigint, :path_tokens::bigint, :active_at::bigint,
        :overlays::bigint, :hidden_messages::bigint, :hidden_bytes::bigint, :hidden_tokens::bigint, :session::bigint))
UPDATE plait.session AS s
   SET live = new.live, next_seq = new.next_seq, leaf = new.leaf, version = new.version, epoch = new.epoch,
       messages = new.messages, bytes = new.bytes, tokens = new.tokens, path_messages = new.path_messages,
       path_bytes = new.path_bytes, path_tokens = new.path_tokens, active_at = new.active_at,
       overlays = new.overlays, hidden_messages = new.hidden_messages, hidden_bytes = new.hidden_bytes,
       hidden_tokens = new.hidden_tokens
  FROM new WHERE s.home = :home AND s.session = new.session;

-- new_life
-- A session goes on in another incarnation.
UPDATE plait.session SET incarnation = :incarnation WHERE home = :home AND session = :session;

-- rename_session
-- Give a hidden session the number and the name it is published under.
UPDATE plait.session SET session = :session, id = :id WHERE home = :home AND session = :hidden;

-- drop_session
-- Remove a session's row, whose numbers another row goes on with.
DELETE FROM plait.session WHERE home = :home AND session = :session;

-- move_changes
-- Hand the change record of a row over to the row that takes its place.
UPDATE plait.change SET session = :session, version = version + :shift WHERE home = :home AND session = :hidden;

-- drop_changes
-- Forget the changes of a row that leaves no trace.
DELETE FROM plait.change WHERE home = :home AND session = :session;

-- move_info
-- Hand the catalogue entry of a row over to the row that takes its place.
UPDATE plait.info SET session = :session WHERE home = :home AND session = :hidden;

-- stages
-- Hidden sessions begun before a time.
SELECT tenant, owner, id FROM plait.session
 WHERE substr(id, 1, 12) = 'plait:stage:' AND live = 1 AND active_at < :before;

-- find_info
-- A session's catalogue entry and state.
SELECT name, owned_by, parent, pinned, metadata, state FROM plait.info WHERE home = :home AND session = :session;

-- add_info
-- Write a session's catalogue entry and state.
INSERT INTO plait.info (home, session, name, owned_by, parent, pinned, metadata, state)
VALUES (:home, :session, :name, :owned_by, :parent, :pinned, :metadata, :state);

-- drop_info
-- Remove a session's catalogue entry and state.
DELETE FROM plait.info WHERE home = :home AND session = :session;

-- add_activity
-- Note in which coarse time a session was last active.
INSERT INTO plait.activity (home, tenant, owner, bucket, session) VALUES (:home, :tenant, :owner, :bucket, :session);

-- drop_activity
-- Forget that a session was last active in a coarse time.
DELETE FROM plait.activity
 WHERE home = :home AND tenant = :tenant AND owner = :owner AND bucket = :bucket AND session = :session;

-- next_scope
-- The first scope, at or after one by tenant and owner, that has a session.
SELECT tenant, owner FROM plait.session
 WHERE (tenant, owner) >= (:tenant, :owner) AND live = 1 AND substr(id, 1, 12) <> 'plait:stage:'
 ORDER BY tenant, owner LIMIT 1;

-- next_bucket
-- The newest coarse time at or before one in which sessions of a scope were last active.
SELECT max(bucket) FROM plait.activity WHERE tenant = :tenant AND owner = :owner AND bucket <= :bucket;

-- sessions_in_bucket
-- The live sessions of a scope last active in a coarse time.
SELECT s.session, s.incarnation, s.live, s.next_seq, s.leaf, s.version, s.epoch, s.messages, s.bytes, s.tokens,
       s.path_messages, s.path_bytes, s.path_tokens, s.created_at, s.active_at,
       s.overlays, s.hidden_messages, s.hidden_bytes, s.hidden_tokens, s.id
  FROM plait.activity AS a JOIN plait.session AS s ON s.home = a.home AND s.session = a.session
 WHERE a.tenant = :tenant AND a.owner = :owner AND a.bucket = :bucket AND s.live = 1;

-- add_strand
-- A strand and where it forks off.
INSERT INTO plait.strand (home, strand, incarnation, parent, fork)
VALUES (:home, :strand, :incarnation, :parent, :fork);

-- find_strand
-- Where a strand forks off.
SELECT strand, parent, fork FROM plait.strand WHERE home = :home AND strand = :strand;

-- strand_chain
-- A strand and those it forks off from, upwards. Each is asked for in the order of its key, so that this is what it is
-- looked up by, whatever the server takes the number of strands to be: before it has counted them it would look at all of
-- them for each.
WITH RECURSIVE up (n, strand, parent, fork) AS (
  SELECT 1, strand, parent, fork FROM plait.strand WHERE home = :home AND strand = :strand
  UNION ALL
  SELECT up.n + 1, s.strand, s.parent, s.fork FROM up
   CROSS JOIN LATERAL (SELECT strand, parent, fork FROM plait.strand
                        WHERE home = :home AND strand BETWEEN up.parent AND up.parent ORDER BY strand LIMIT 1) AS s
   WHERE up.n < :limit
)
SELECT strand, parent, fork FROM up ORDER BY n;

-- strands
-- Every strand of a session with its first and last surviving key, 0 where no row is left.
SELECT s.strand, s.parent, s.fork,
       coalesce((SELECT min(m.key) FROM plait.message AS m
                  WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)), 0),
       coalesce((SELECT max(m.key) FROM plait.message AS m
                  WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)), 0)
  FROM plait.strand AS s WHERE s.home = :home AND s.incarnation = :incarnation;

-- strands_at
-- The strands of a life that fork off a strand between two seqs, each with its first surviving key, 0 for none.
SELECT s.strand,
       coalesce((SELECT min(m.key) FROM plait.message AS m
                  WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)), 0)
  FROM plait.strand AS s
 WHERE s.home = :home AND s.parent = :parent AND s.fork BETWEEN :lo AND :hi AND s.incarnation = :incarnation;

-- root_strands
-- The strands of a life that begin at the root, each with its first surviving key, 0 for none.
SELECT s.strand,
       coalesce((SELECT min(m.key) FROM plait.message AS m
                  WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)), 0)
  FROM plait.strand AS s WHERE s.home = :home AND s.incarnation = :incarnation AND s.parent = 0;

-- drop_strands
-- Remove the strands of a life that is over.
DELETE FROM plait.strand WHERE home = :home AND incarnation = :incarnation;

-- add_message
-- A message's row.
INSERT INTO plait.message (home, key, version, bytes, tokens, created_at, flags, format, role, id, body)
VALUES (:home, :key, :version, :bytes, :tokens, :created_at, :flags, :format, :role, :id, :body);

-- add_message_id
-- Which key a message id of a session has; the unique key of ids.
INSERT INTO plait.message_id (home, incarnation, id, key) VALUES (:home, :incarnation, :id, :key);

-- change_message
-- A message's new content; seq, time and version of insertion stay.
UPDATE plait.message
   SET bytes = :bytes, tokens = :tokens, flags = :flags, format = :format, role = :role, body = :body
 WHERE home = :home AND key = :key;

-- find_message
-- The key of a message id.
SELECT key FROM plait.message_id WHERE home = :home AND incarnation = :incarnation AND id = :id;

-- find_messages
-- The keys of a JSON list of message ids.
SELECT m.id, m.key FROM unnest(:ids::text[]) AS asked (value)
  JOIN plait.message_id AS m ON m.home = :home AND m.incarnation = :incarnation AND m.id = asked.value;

-- message_by_key
-- One message's row.
SELECT key, id, role, bytes, tokens, created_at, flags, format, body AS body_text
  FROM plait.message WHERE home = :home AND key = :key;

-- message_body
-- The body of one message's row.
SELECT body AS body_text FROM plait.message WHERE home = :home AND key = :key;

-- messages_up
-- Message rows of a key range, oldest first, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT key, id, role, bytes, tokens, created_at, flags, format, CASE WHEN bytes <= :large THEN body END
  FROM (SELECT key, id, role, bytes, tokens, created_at, flags, format, body,
               sum(bytes) OVER (ORDER BY key ROWS UNBOUNDED PRECEDING) - bytes AS before
          FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit) AS m
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key;

-- messages_down
-- Message rows of a key range, newest first, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT key, id, role, bytes, tokens, created_at, flags, format, CASE WHEN bytes <= :large THEN body END
  FROM (SELECT key, id, role, bytes, tokens, created_at, flags, format, body,
               sum(bytes) OVER (ORDER BY key DESC ROWS UNBOUNDED PRECEDING) - bytes AS before
          FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT :limit) AS m
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key DESC;

-- keys_by_seq
-- Keys and sizes of the messages of all strands of a session between two seqs, in seq order.
SELECT m.key, m.bytes
  FROM plait.strand AS s JOIN plait.message AS m
    ON m.home = :home AND m.key > ((s.strand << 32) | :after::bigint) AND m.key <= ((s.strand << 32) | :upto::bigint)
 WHERE s.home = :home AND s.incarnation = :incarnation
 ORDER BY (m.key & 4294967295);

-- messages_by_keys
-- Message rows of a JSON list of keys, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT key, id, role, bytes, tokens, created_at, flags, format, CASE WHEN bytes <= :large THEN body END
  FROM (SELECT m.key, m.id, m.role, m.bytes, m.tokens, m.created_at, m.flags, m.format, m.body, asked.n,
               sum(m.bytes) OVER (ORDER BY asked.n ROWS UNBOUNDED PRECEDING) - m.bytes AS before
          FROM unnest(:keys::bigint[]) WITH ORDINALITY AS asked (value, n)
          JOIN plait.message AS m ON m.home = :home AND m.key = asked.value) AS m
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY n;

-- message_stats
-- Message rows of a key range without their content, oldest first.
SELECT key, id, role, bytes, tokens, created_at FROM plait.message
 WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- restamp_message
-- Another count of a message's tokens.
UPDATE plait.message SET tokens = :tokens WHERE home = :home AND key = :key;

-- message_sizes
-- Sizes of a JSON list of keys.
SELECT m.key, m.bytes, m.tokens FROM unnest(:keys::bigint[]) WITH ORDINALITY AS asked (value, n)
  JOIN plait.message AS m ON m.home = :home AND m.key = asked.value ORDER BY asked.n;

-- sizes_up
-- Keys and sizes of a key range, oldest first.
SELECT key, bytes FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- sizes_down
-- Keys and sizes of a key range, newest first.
SELECT key, bytes FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT :limit;

-- range_totals
-- Messages, bytes and tokens of a key range.
SELECT count(*), coalesce(sum(bytes), 0)::bigint, coalesce(sum(tokens), 0)::bigint
  FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi;

-- first_in_range
-- The first surviving key and id of a key range.
SELECT key, id FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key LIMIT 1;

-- last_in_range
-- The last surviving key and id of a key range.
SELECT key, id FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT 1;

-- last_in_each
-- For each (seq, lo, hi) of a JSON list, the id of the last message of a key range, null if there is none.
SELECT (r.value ->> 0)::bigint,
       (SELECT m.id FROM plait.message AS m
         WHERE m.home = :home AND m.key BETWEEN (r.value ->> 1)::bigint AND (r.value ->> 2)::bigint
         ORDER BY m.key DESC LIMIT 1)
  FROM jsonb_array_elements(:ranges::jsonb) AS r (value);

-- newest_message
-- The key and seq of the message of highest seq in a session.
SELECT newest, newest & 4294967295 FROM (
  SELECT (SELECT max(m.key) FROM plait.message AS m
           WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)) AS newest
    FROM plait.strand AS s WHERE s.home = :home AND s.incarnation = :incarnation) AS ends
 WHERE newest IS NOT NULL ORDER BY (newest & 4294967295) DESC LIMIT 1;

-- messages_with_rest
-- Which of a JSON list of keys have slices or media.
SELECT m.key FROM unnest(:keys::bigint[]) AS asked (value)
  JOIN plait.message AS m ON m.home = :home AND m.key = asked.value WHERE (m.flags & 6) <> 0;

-- drop_messages
-- Remove the messages of a JSON list of keys.
DELETE FROM plait.message WHERE home = :home AND key = ANY (:keys::bigint[]);

-- drop_message_ids
-- Free the ids of the messages of a JSON list of keys.
DELETE FROM plait.message_id WHERE home = :home AND incarnation = :incarnation
   AND id = ANY (ARRAY(SELECT m.id FROM plait.message AS m WHERE m.home = :home AND m.key = ANY (:keys::bigint[])));

-- shared_ids
-- An id that two lives of sessions both have.
SELECT a.id FROM plait.message_id AS a
  JOIN plait.message_id AS b ON b.home = :home AND b.incarnation = :into AND b.id = a.id
 WHERE a.home = :home AND a.incarnation = :source LIMIT 1;

-- graft_strand
-- Hang a strand below a message of another session, which it is to become a part of.
UPDATE plait.strand SET parent = :parent, fork = :fork WHERE home = :home AND strand = :strand;

-- graft_versions
-- Number the insertions of staged messages after a session's changes.
UPDATE plait.message AS m SET version = m.version + :version::bigint, flags = m.flags | :flags::bigint
  FROM plait.strand AS s
 WHERE m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
   AND s.home = :home AND s.incarnation = :incarnation;

-- graft_message_ids
-- Make the ids of staged messages a session's own.
UPDATE plait.message_id SET incarnation = :into WHERE home = :home AND incarnation = :incarnation;

-- graft_strands
-- Make staged strands a session's own.
UPDATE plait.strand SET incarnation = :into WHERE home = :home AND incarnation = :incarnation;

-- copy_messages
-- Copy a key range into another strand; versions go on from the target's.
INSERT INTO plait.message (home, key, version, bytes, tokens, created_at, flags, format, role, id, body)
SELECT :other_home, key + (:shift::bigint << 32), :version::bigint + row_number() OVER (ORDER BY key),
       bytes, tokens, created_at, flags & 7, format, role, id, body
  FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi;

-- copy_message_ids
-- Copy the ids of a key range into another session.
INSERT INTO plait.message_id (home, incarnation, id, key)
SELECT :other_home, :incarnation, id, key + (:shift::bigint << 32)
  FROM plait.message WHERE home = :home AND key BETWEEN :lo AND :hi;

-- copy_slices
-- Copy the slices of a key range into another strand.
INSERT INTO plait.slice (home, key, n, body)
SELECT :other_home, key + (:shift::bigint << 32), n, body FROM plait.slice WHERE home = :home AND key BETWEEN :lo AND :hi;

-- copy_attachment_refs
-- Let the copies of a key range use the same payloads.
INSERT INTO plait.attachment_ref (home, key, n, attachment, at)
SELECT :other_home, key + (:shift::bigint << 32), n, attachment, at
  FROM plait.attachment_ref WHERE home = :home AND key BETWEEN :lo AND :hi;

-- add_slice
-- A further piece of a long body.
INSERT INTO plait.slice (home, key, n, body) VALUES (:home, :key, :n, :body);

-- slices_of
-- The further pieces of a long body.
SELECT n, body AS body_text FROM plait.slice WHERE home = :home AND key = :key ORDER BY n;

-- drop_slices
-- Remove the further pieces of a body.
DELETE FROM plait.slice WHERE home = :home AND key = :key;

-- find_attachment
-- A scope's payload by its hash, and whether all its bytes are there; nobody removes it until this transaction has ended.
SELECT a.attachment, a.bytes,
       a.bytes = (SELECT coalesce(sum(length(c.data)), 0) FROM plait.chunk AS c
                   WHERE c.scope = :scope AND c.attachment = a.attachment)
  FROM plait.attachment AS a WHERE scope = :scope AND tenant = :tenant AND owner = :owner AND hash = :hash FOR KEY SHARE;

-- add_attachment
-- A payload of a scope.
INSERT INTO plait.attachment (scope, tenant, owner, hash, bytes)
VALUES (:scope, :tenant, :owner, :hash, :bytes) RETURNING attachment;

-- finish_attachment
-- The hash and size of a payload that has been put.
UPDATE plait.attachment SET hash = :hash, bytes = :bytes WHERE scope = :scope AND attachment = :attachment;

-- lock_attachment
-- Let nobody find a payload and use it before this transaction has ended.
SELECT attachment FROM plait.attachment WHERE scope = :scope AND attachment = :attachment FOR UPDATE;

-- drop_attachment
-- Remove a payload.
DELETE FROM plait.attachment WHERE scope = :scope AND attachment = :attachment;

-- add_chunk
-- A piece of a payload.
INSERT INTO plait.chunk (scope, attachment, n, data) VALUES (:scope, :attachment, :n, :data);

-- chunks_of
-- All pieces of a payload.
SELECT data FROM plait.chunk WHERE scope = :scope AND attachment = :attachment ORDER BY n;

-- chunk
-- One piece of a payload, as long as the message uses it.
SELECT c.data FROM plait.attachment_ref AS r
  JOIN plait.chunk AS c ON c.scope = :scope AND c.attachment = r.attachment
 WHERE r.home = :home AND r.key = :key AND r.attachment = :attachment AND c.n = :n LIMIT 1;

-- move_chunks
-- The pieces of a payload are another's.
UPDATE plait.chunk SET attachment = :new WHERE scope = :scope AND attachment = :old;

-- drop_chunks
-- Remove the pieces of a payload.
DELETE FROM plait.chunk WHERE scope = :scope AND attachment = :attachment;

-- add_attachment_ref
-- Note that a message uses a payload, and where.
INSERT INTO plait.attachment_ref (home, key, n, attachment, at) VALUES (:home, :key, :n, :attachment, :at);

-- attachment_refs_of
-- The payloads a message uses, in the order of their places; the size is NULL if the payload is gone.
SELECT r.n, r.attachment, r.at, a.bytes FROM plait.attachment_ref AS r
  LEFT JOIN plait.attachment AS a ON a.scope = :scope AND a.attachment = r.attachment
 WHERE r.home = :home AND r.key = :key ORDER BY r.n;

-- attachment_hashes_of
-- Places and hashes of the payloads a message uses.
SELECT r.at, a.hash FROM plait.attachment_ref AS r
  JOIN plait.attachment AS a ON a.scope = :scope AND a.attachment = r.attachment
 WHERE r.home = :home AND r.key = :key ORDER BY r.n;

-- attachments_of
-- Which payloads a message uses, each once.
SELECT DISTINCT attachment FROM plait.attachment_ref WHERE home = :home AND key = :key;

-- drop_attachment_refs
-- A message uses no payloads any more.
DELETE FROM plait.attachment_ref WHERE home = :home AND key = :key;

-- attachment_in_use
-- Whether a message uses a payload or an upload claims it.
SELECT 1 FROM plait.attachment_ref WHERE attachment = :attachment
UNION ALL SELECT 1 FROM plait.upload WHERE scope = :scope AND attachment = :claimed LIMIT 1;

-- add_upload
-- A claim on a payload.
INSERT INTO plait.upload (scope, upload, attachment, touched_at) VALUES (:scope, :upload, :attachment, :touched_at);

-- touch_upload
-- A claim is alive.
UPDATE plait.upload SET touched_at = :touched_at WHERE scope = :scope AND upload = :upload;

-- move_upload
-- A claim goes over to the payload that the scope had already.
UPDATE plait.upload SET attachment = :attachment, touched_at = :touched_at WHERE scope = :scope AND upload = :upload;

-- drop_upload
-- A claim is used up or has lapsed.
DELETE FROM plait.upload WHERE scope = :scope AND upload = :upload;

-- lapsed_uploads
-- Claims not touched since a time, and where they are.
SELECT upload, attachment, ARRAY[NULL::uuid, scope] FROM plait.upload WHERE touched_at < :before;

-- add_change
-- A change that is not an append.
INSERT INTO plait.change (home, session, version, incarnation, kind, operation, at, data)
VALUES (:home, :session, :version, :incarnation, :kind, :operation, :at, :data);

-- numbered_before
-- Whether a message or a change of a life has a version that is not after another one.
SELECT 1 FROM (SELECT m.version FROM plait.strand AS s
                 JOIN plait.message AS m
                   ON m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
                WHERE s.home = :home AND s.incarnation = :incarnation LIMIT 1) AS one WHERE version <= :version
 UNION ALL SELECT 1 FROM plait.change WHERE home = :home AND session = :hidden AND version <= :version;

-- changes_after
-- The next changes of a session, over all its lives.
SELECT version, incarnation, kind, at, data, size
  FROM (SELECT version, incarnation, kind, at, data, length(data)::bigint AS size,
               sum(length(data)) OVER (ORDER BY version ROWS UNBOUNDED PRECEDING) - length(data) AS before
          FROM plait.change WHERE home = :home AND session = :session AND version > :version
         ORDER BY version LIMIT :limit) AS c
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY version;

-- appends_by_seq
-- Insertions between two seqs, on all strands of a session, in seq order.
SELECT m.key, m.version, m.flags
  FROM plait.strand AS s JOIN plait.message AS m
    ON m.home = :home AND m.key > ((s.strand << 32) | :after::bigint) AND m.key <= ((s.strand << 32) | :upto::bigint)
 WHERE s.home = :home AND s.incarnation = :incarnation
 ORDER BY (m.key & 4294967295);

-- appends_on_newest
-- Insertions after a seq on the strands of a session that were begun last.
SELECT m.key, m.version, m.flags
  FROM (SELECT strand FROM plait.strand
         WHERE home = :home AND incarnation = :incarnation ORDER BY strand DESC LIMIT :strands) AS s
  JOIN plait.message AS m
    ON m.home = :home AND m.key > ((s.strand << 32) | :after::bigint) AND m.key <= ((s.strand << 32) | 4294967295)
 LIMIT :limit;

-- appends_in_range
-- Insertions of a key range.
SELECT key, version, flags FROM plait.message
 WHERE home = :home AND key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- turn_tick
-- Let the tick go on, unless it is in its minute or, where clocks differ, a little ahead; what is below `upto` has ended.
INSERT INTO plait.tick (tick, upto)
SELECT greatest(now.tick + 1, :minute::bigint), pg_snapshot_xmin(pg_current_snapshot())
  FROM (SELECT max(tick) AS tick FROM plait.tick) AS now
 WHERE now.tick NOT BETWEEN :minute::bigint AND :minute::bigint + 10
    ON CONFLICT DO NOTHING RETURNING tick;

-- tick
-- The newest tick such that nobody is still writing who has read an earlier one, and the newest of all.
WITH ended (tick, upto, own) AS (
  SELECT n.tick, n.upto, n.xmin FROM plait.tick AS n
   WHERE pg_snapshot_xmax(pg_current_snapshot())::text::bigint
         - ((pg_snapshot_xmax(pg_current_snapshot())::text::bigint - n.xmin::text::bigint) & 4294967295)
         < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
   ORDER BY n.tick DESC LIMIT 1)
SELECT coalesce((SELECT t.tick FROM plait.tick AS t JOIN ended ON t.tick < ended.tick
                  WHERE pg_snapshot_xmax(pg_current_snapshot())::text::bigint
                        - ((pg_snapshot_xmax(pg_current_snapshot())::text::bigint - t.xmin::text::bigint) & 4294967295)
                        < ended.upto::text::bigint
                     OR t.xmin = ended.own
                  ORDER BY t.tick DESC LIMIT 1), 1),
       (SELECT max(t.tick) FROM plait.tick AS t);

-- add_pulse
-- Where a session stood before its first change of a tick.
INSERT INTO plait.pulse (home, tick, session, tenant, owner, incarnation, version, seq)
SELECT home, :tick::bigint, session, tenant, owner, :incarnation::bigint, :version::bigint, :seq::bigint
  FROM plait.session WHERE home = :home AND session = :session
    ON CONFLICT DO NOTHING;

-- set_pulse
-- The tick of a session's newest pulse.
INSERT INTO plait.latest_pulse (home, session, tick) VALUES (:home, :session, :tick)
    ON CONFLICT (home, session) DO UPDATE SET tick = excluded.tick;

-- drop_pulse
-- Forget the pulse of a session whose number may be given again.
DELETE FROM plait.latest_pulse WHERE home = :home AND session = :session;

-- pulses
-- The pulses of a scope from a tick on, and where those sessions are by now.
SELECT p.tick, p.session, p.incarnation, p.version, p.seq, s.id, s.version,
       (SELECT l.tick FROM plait.latest_pulse AS l WHERE l.home = p.home AND l.session = p.session)
  FROM plait.pulse AS p JOIN plait.session AS s ON s.home = p.home AND s.session = p.session
 WHERE p.tenant = :tenant AND p.owner = :owner AND (p.tick, p.session) > (:tick, :session)
 ORDER BY p.tick, p.session LIMIT :limit;

-- sessions_after
-- The sessions of a scope in the order of their ids, those that are over too, but none that is hidden.
SELECT id FROM plait.session
 WHERE tenant = :tenant AND owner = :owner AND id > :id AND substr(id, 1, 12) <> 'plait:stage:'
 ORDER BY id LIMIT :limit;

-- oldest_changes
-- The first change rows that a session still has.
SELECT version, at FROM plait.change WHERE home = :home AND session = :session ORDER BY version LIMIT :limit;

-- change_from_end
-- The newest change row of a session but so many.
SELECT version FROM plait.change WHERE home = :home AND session = :session
 ORDER BY version DESC LIMIT 1 OFFSET :keep;

-- prune_changes
-- Remove a session's change rows up to a version.
DELETE FROM plait.change WHERE home = :home AND session = :session AND version <= :version;

-- set_pruned_version
-- Note up to where a session's changes have been pruned.
INSERT INTO plait.pruned (home, session, version) VALUES (:home, :session, :version)
    ON CONFLICT (home, session) DO UPDATE SET version = excluded.version;

-- oldest_pulses
-- The first pulses that a scope still has, before a tick.
SELECT tick, session FROM plait.pulse WHERE tenant = :tenant AND owner = :owner AND tick < :tick
 ORDER BY tick, session LIMIT :limit;

-- prune_pulses
-- Remove a scope's pulses up to one.
DELETE FROM plait.pulse WHERE tenant = :tenant AND owner = :owner AND (tick, session) <= (:tick, :session);

-- set_pruned_tick
-- Note up to where a scope's pulses have been pruned.
INSERT INTO plait.pruned_pulse (tenant, owner, tick) VALUES (:tenant, :owner, :tick)
    ON CONFLICT (tenant, owner) DO UPDATE SET tick = excluded.tick;

-- pruned_version
-- Up to where a session's changes have been pruned.
SELECT version FROM plait.pruned WHERE home = :home AND session = :session;

-- pruned_tick
-- Up to where a scope's pulses have been pruned.
SELECT tick FROM plait.pruned_pulse WHERE tenant = :tenant AND owner = :owner;

-- changed_keys
-- What says which messages of a session were updated or deleted after a version, and where overlays changed since end.
SELECT kind, data FROM plait.change
 WHERE home = :home AND session = :session AND version > :version AND kind IN ('update', 'delete', 'overlay', 'compact');

-- add_purge
-- A life that is over and whose rows are to be removed.
INSERT INTO plait.purge (home, scope, incarnation) VALUES (:home, :scope, :incarnation);

-- purges
-- Lives that are over and not yet purged, and where they are; never one that a session is living.
SELECT incarnation, ARRAY[home, scope] FROM plait.purge AS p
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS s
                    WHERE s.home = p.home AND s.incarnation = p.incarnation AND s.live = 1);

-- purge_rows
-- Rows of a life that is over.
SELECT m.key, m.flags, m.bytes FROM plait.strand AS s
  JOIN plait.message AS m ON m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
 WHERE s.home = :home AND s.incarnation = :incarnation LIMIT :limit;

-- drop_purge
-- A life has been purged.
DELETE FROM plait.purge WHERE home = :home AND incarnation = :incarnation;

-- free_hidden_id
-- Let a message id be used again that a big delete has taken away.
DELETE FROM plait.message_id AS i WHERE i.home = :home AND i.incarnation = :incarnation AND i.id = :id
   AND EXISTS (SELECT 1 FROM plait.removal_range AS r JOIN plait.removal AS d
                   ON d.home = :home AND d.removal = r.removal AND d.state = 1
                WHERE r.home = :home AND i.key BETWEEN r.lo AND r.hi);

-- free_hidden_ids
-- The same for the ids of staged messages, of which the session has none any more.
DELETE FROM plait.message_id AS i WHERE i.home = :home AND i.incarnation = :into
   AND i.id = ANY (ARRAY(SELECT s.id FROM plait.message_id AS s WHERE s.home = :home AND s.incarnation = :source));

-- add_removal
-- A big delete is being prepared.
INSERT INTO plait.removal (home, removal, incarnation, state, begun_at)
VALUES (:home, :removal, :incarnation, 0, :begun_at);

-- add_removal_range
-- A run of messages that it is to take away.
INSERT INTO plait.removal_range (home, removal, lo, hi) VALUES (:home, :removal, :lo, :hi);

-- find_removal
-- A big delete: whose, and how far it is.
SELECT incarnation, state FROM plait.removal WHERE home = :home AND removal = :removal;

-- show_removal
-- A big delete has taken its messages away.
UPDATE plait.removal SET state = 1 WHERE home = :home AND removal = :removal;

-- spoil_removals
-- What is being prepared for a life has to be prepared anew: its stamps have changed.
UPDATE plait.removal SET state = 2 WHERE home = :home AND incarnation = :incarnation AND state = 0;

-- any_removal
-- Whether big deletes have taken something away that is still there.
SELECT 1 FROM plait.removal WHERE state = 1 LIMIT 1;

-- removals
-- Big deletes whose rows are to be removed: done, given up, or left behind before a time.
SELECT removal FROM plait.removal WHERE state <> 0 OR begun_at < :before;

-- removed_rows
-- Rows that a big delete has taken away, in the order of their keys.
SELECT m.key, m.flags, m.bytes FROM plait.removal_range AS r
  JOIN plait.message AS m ON m.home = :home AND m.key BETWEEN r.lo AND r.hi
 WHERE r.home = :home AND r.removal = :removal ORDER BY r.lo, m.key LIMIT :limit;

-- drop_removed_ids
-- Free the ids of rows that a big delete has taken away, unless they are used again.
DELETE FROM plait.message_id WHERE home = :home AND incarnation = :incarnation AND key = ANY (:keys::bigint[])
   AND id = ANY (ARRAY(SELECT m.id FROM plait.message AS m WHERE m.home = :home AND m.key = ANY (:keys::bigint[])));

-- drop_removed_ranges
-- A big delete's rows are removed up to a key.
DELETE FROM plait.removal_range WHERE home = :home AND removal = :removal AND lo <= :key AND hi <= :key;

-- drop_removal_ranges
-- The first ranges of a big delete whose rows are gone, or that was given up.
DELETE FROM plait.removal_range WHERE home = :home AND removal = :removal AND lo IN (
       SELECT r.lo FROM plait.removal_range AS r WHERE r.home = :home AND r.removal = :removal ORDER BY r.lo LIMIT :limit)
 RETURNING 1;

-- drop_removal
-- Nothing is left of a big delete.
DELETE FROM plait.removal WHERE home = :home AND removal = :removal;

-- overlay_ranges_of
-- What the overlays of a session cover.
SELECT r.overlay, r.strand, r.lo, r.hi
  FROM plait.overlay AS o JOIN plait.overlay_range AS r ON r.home = :home AND r.overlay = o.overlay
 WHERE o.home = :home AND o.incarnation = :incarnation;

-- add_overlay
-- An overlay.
INSERT INTO plait.overlay
       (home, overlay, incarnation, place, first, version, kind, role, tokens, bytes, created_at,
        covered_messages, covered_bytes, covered_tokens, left_messages, left_bytes, left_tokens,
        stale, id, from_id, to_id, summary)
VALUES (:home, (SELECT coalesce(max(o.overlay), 0) + 1 FROM plait.overlay AS o WHERE o.home = :home),
        :incarnation, :place, :first, :version, :kind, :role, :tokens, :bytes, :created_at,
        :covered_messages, :covered_bytes, :covered_tokens, :left_messages, :left_bytes, :left_tokens,
        :stale, :id, :from_id, :to_id, :summary) RETURNING overlay;

-- add_overlay_range
-- A run of one strand that an overlay covers.
INSERT INTO plait.overlay_range (home, strand, lo, overlay, hi) VALUES (:home, :strand, :lo, :overlay, :hi);

-- find_overlay
-- An overlay by its id.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id,
       o.from_id, o.to_id, o.summary
  FROM plait.overlay AS o WHERE o.home = :home AND o.incarnation = :incarnation AND o.id = :id;

-- overlays_of
-- The overlays of a session.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id,
       o.from_id, o.to_id, o.summary
  FROM plait.overlay AS o WHERE o.home = :home AND o.incarnation = :incarnation;

-- overlays_ending
-- The overlays that end in a JSON list of key ranges, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM jsonb_array_elements(:ranges::jsonb) AS r (value)
  JOIN plait.overlay AS o ON o.home = :home AND o.place BETWEEN (r.value ->> 0)::bigint AND (r.value ->> 1)::bigint;

-- overlays_down
-- The overlays that end in a key range, the last first, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM plait.overlay AS o WHERE o.home = :home AND o.place BETWEEN :lo AND :hi ORDER BY o.place DESC LIMIT :limit;

-- overlay_texts
-- What the overlays of a JSON list of numbers say, and of what.
SELECT o.overlay, o.from_id, o.to_id, o.summary
  FROM plait.overlay AS o WHERE o.home = :home AND o.overlay = ANY (:overlays::bigint[]);

-- sessions_with_stale_texts
-- Sessions with overlays whose text may say what was deleted or changed below them.
SELECT DISTINCT s.tenant, s.owner, s.id FROM plait.overlay AS o
  JOIN plait.session AS s ON s.home = o.home AND s.incarnation = o.incarnation
 WHERE o.stale = 1 AND o.summary IS NOT NULL AND s.live = 1;

-- overlays_over
-- Which overlays cover the places of a JSON list of keys.
SELECT asked.value, r.overlay
  FROM unnest(:keys::bigint[]) AS asked (value)
  JOIN plait.overlay_range AS r
    ON r.home = :home AND r.strand = asked.value >> 32
   AND r.lo <= (asked.value & 4294967295) AND r.hi >= (asked.value & 4294967295);

-- overlays_by_number
-- The overlays of a JSON list of numbers, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM plait.overlay AS o WHERE o.home = :home AND o.overlay = ANY (:overlays::bigint[]);

-- change_overlay
-- What is left below an overlay has changed.
UPDATE plait.overlay SET left_messages = left_messages + :messages, left_bytes = left_bytes + :bytes,
                         left_tokens = left_tokens + :tokens, stale = 1
 WHERE home = :home AND overlay = :overlay;

-- restamp_below
-- What is left below an overlay has been counted anew.
UPDATE plait.overlay SET left_tokens = left_tokens + :tokens WHERE home = :home AND overlay = :overlay;

-- restamp_overlay
-- Another count of the tokens of what an overlay shows.
UPDATE plait.overlay SET tokens = :tokens
 WHERE home = :home AND incarnation = :incarnation AND id = :id RETURNING overlay;

-- drop_overlay
-- Remove an overlay.
DELETE FROM plait.overlay WHERE home = :home AND overlay = :overlay;

-- drop_overlay_ranges
-- Remove what an overlay covers.
DELETE FROM plait.overlay_range WHERE home = :home AND overlay = :overlay;

-- graft_overlays
-- Make the overlays of staged messages a session's own, numbered after its changes.
UPDATE plait.overlay SET incarnation = :into, version = version + :version
 WHERE home = :home AND incarnation = :incarnation;

-- shared_overlays
-- The id of an overlay that two lives of sessions both have.
SELECT a.id FROM plait.overlay AS a
  JOIN plait.overlay AS b ON b.home = :home AND b.incarnation = :into AND b.id = a.id
 WHERE a.home = :home AND a.incarnation = :source LIMIT 1;

-- graft_changes
-- Hand the record of staged overlays over to the session they are added to.
UPDATE plait.change SET session = :session, version = version + :version, incarnation = :incarnation
 WHERE home = :home AND session = :hidden AND kind IN ('overlay', 'compact');

-- purge_overlays
-- Remove the overlays of a life that is over; their ranges go first.
DELETE FROM plait.overlay WHERE home = :home AND incarnation = :incarnation;

-- purge_overlay_ranges
-- Remove what the overlays of a life that is over cover.
DELETE FROM plait.overlay_range WHERE home = :home
   AND overlay IN (SELECT o.overlay FROM plait.overlay AS o WHERE o.home = :home AND o.incarnation = :incarnation);

-- now
-- The time by the clock of the database, in microseconds.
SELECT (extract(epoch FROM now()) * 1000000)::bigint;

-- find_lease
-- Who alone may write to a session.
SELECT until, token, holder FROM plait.lease WHERE home = :home AND session = :session;

-- set_lease
-- Somebody alone may write to a session until a time.
INSERT INTO plait.lease (home, session, until, token, holder) VALUES (:home, :session, :until, :token, :holder)
    ON CONFLICT (home, session) DO UPDATE
   SET until = excluded.until, token = excluded.token, holder = excluded.holder;

-- renew_lease
-- For longer.
UPDATE plait.lease SET until = :until WHERE home = :home AND session = :session;

-- drop_lease
-- Anybody may write to a session.
DELETE FROM plait.lease WHERE home = :home AND session = :session;

-- find_claim
-- Who is compacting a session.
SELECT token, until FROM plait.compaction_claim WHERE home = :home AND incarnation = :incarnation;

-- put_claim
-- Somebody is compacting a session.
INSERT INTO plait.compaction_claim (home, incarnation, token, until) VALUES (:home, :incarnation, :token, :until)
    ON CONFLICT (home, incarnation) DO UPDATE SET token = excluded.token, until = excluded.until;

-- drop_claim
-- Nobody is compacting a session any more.
DELETE FROM plait.compaction_claim WHERE home = :home AND incarnation = :incarnation;

-- search_is_on
-- Whether the index has been asked for.
SELECT since FROM plait.search_on LIMIT 1;

-- switch_search_on
-- From now on the index follows the data.
INSERT INTO plait.search_on (one, since) VALUES (1, :since) ON CONFLICT DO NOTHING;

-- switch_search_anew
-- The index is made anew; who brings it up to date as it was is waited for, and waits.
UPDATE plait.search_on SET since = :since;

-- keep_search_on
-- The index follows the data, and is not emptied before this is over.
SELECT since FROM plait.search_on FOR SHARE;

-- search_mark
-- Whether the index knows that a session was written to; marks are kept before the first search too.
SELECT (EXISTS (SELECT 1 FROM plait.search_behind
                 WHERE home = :home AND tenant = :tenant AND owner = :owner AND incarnation = :incarnation))::int;

-- add_search_behind
-- A session has messages that are to be indexed.
INSERT INTO plait.search_behind (home, tenant, owner, incarnation) VALUES (:home, :tenant, :owner, :incarnation)
    ON CONFLICT DO NOTHING;

-- mark_all_behind
-- Every session has messages that are to be indexed.
INSERT INTO plait.search_behind (home, tenant, owner, incarnation)
SELECT home, tenant, owner, incarnation FROM plait.session WHERE live = 1
    ON CONFLICT DO NOTHING;

-- drop_search_marks
-- A life has nothing to be indexed any more.
DELETE FROM plait.search_behind WHERE home = :home AND incarnation = :incarnation;

-- search_behind
-- A scope's sessions that were written to since they were indexed, not those hidden.
SELECT s.tenant, s.owner, s.id FROM plait.search_behind AS b
  JOIN plait.session AS s ON s.home = b.home AND s.incarnation = b.incarnation AND s.live = 1
 WHERE b.tenant = :tenant AND b.owner = :owner AND substr(s.id, 1, 12) <> 'plait:stage:';

-- search_all_behind
-- All sessions that were written to since they were indexed, not those hidden.
SELECT s.tenant, s.owner, s.id FROM plait.search_behind AS b
  JOIN plait.session AS s ON s.home = b.home AND s.incarnation = b.incarnation AND s.live = 1
 WHERE substr(s.id, 1, 12) <> 'plait:stage:';

-- search_left
-- How many messages may be waiting to be indexed.
SELECT coalesce(sum(greatest(s.next_seq - 1 - coalesce(p.seq, 0), 0)), 0)::bigint FROM plait.search_behind AS b
  JOIN plait.session AS s ON s.home = b.home AND s.incarnation = b.incarnation AND s.live = 1
  LEFT JOIN plait.search_progress AS p ON p.home = b.home AND p.incarnation = b.incarnation;

-- search_progress
-- Up to which seq a session's messages are indexed.
SELECT seq FROM plait.search_progress WHERE home = :home AND incarnation = :incarnation;

-- save_search_progress
-- A session's messages are indexed up to a seq.
INSERT INTO plait.search_progress (home, incarnation, seq) VALUES (:home, :incarnation, :seq)
    ON CONFLICT (home, incarnation) DO UPDATE SET seq = excluded.seq;

-- lower_search_progress
-- Messages are added to a session whose seqs may have been passed.
UPDATE plait.search_progress SET seq = least(seq, coalesce((
       SELECT min(m.key & 4294967295) - 1 FROM plait.strand AS s
         JOIN plait.message AS m
           ON m.home = :home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
        WHERE s.home = :home AND s.incarnation = :source), seq))
 WHERE home = :home AND incarnation = :into;

-- drop_search_progress
-- A life has no messages any more.
DELETE FROM plait.search_progress WHERE home = :home AND incarnation = :incarnation;

-- add_search_pending
-- What the index says of these messages, if it has them, is out of date.
INSERT INTO plait.search_pending (home, scope, key)
SELECT w.home, :scope, w.key FROM plait.message_words AS w WHERE w.home = :home AND w.key = ANY (:keys::bigint[])
    ON CONFLICT DO NOTHING;

-- search_pending
-- Some messages of whatever session that the index is out of date about and that are gone for good, and where they were.
SELECT p.key, ARRAY[p.home, p.scope] FROM plait.search_pending AS p
 WHERE (SELECT m.key FROM plait.message AS m WHERE m.home = p.home AND m.key = p.key) IS NULL
 ORDER BY p.home, p.key LIMIT :limit;

-- search_pending_of
-- A session's messages that the index is out of date about.
SELECT p.key FROM plait.strand AS s
  JOIN plait.search_pending AS p
    ON p.home = :home AND p.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
 WHERE s.home = :home AND s.incarnation = :incarnation LIMIT nullif(:limit::bigint, -1);

-- drop_search_pending
-- The index is up to date about these messages.
DELETE FROM plait.search_pending WHERE home = :home AND key = ANY (:keys::bigint[]);

-- add_words
-- Index a message, anew if it was indexed.
INSERT INTO plait.message_words (home, key, words) VALUES (:home, :key, :words::tsvector)
    ON CONFLICT (home, key) DO UPDATE SET words = excluded.words;

-- drop_words
-- Take messages out of the index.
DELETE FROM plait.message_words WHERE home = :home AND key = ANY (:keys::bigint[]);

-- clear_words
-- Empty the index.
DELETE FROM plait.message_words;

-- merge_words
-- Write the index anew without what was taken out of it: the server's own upkeep does that.
SELECT 1;

-- clear_search_progress
-- Nothing is indexed.
DELETE FROM plait.search_progress;

-- clear_search_behind
-- Nothing is to be indexed.
DELETE FROM plait.search_behind;

-- clear_search_pending
-- Nothing is out of date.
DELETE FROM plait.search_pending;

-- strand_numbers
-- The strands of a session.
SELECT strand FROM plait.strand WHERE home = :home AND incarnation = :incarnation;

-- count_words
-- In how many messages some words are, and how many are indexed, as the server last estimated.
SELECT (SELECT count(*) FROM plait.message_words WHERE words @@ :words::tsquery),
       (SELECT greatest(reltuples, 0)::bigint FROM pg_catalog.pg_class WHERE oid = 'plait.message_words'::regclass);

-- search_any_best
-- Messages of a key range that hold the words, whoever said them and whenever, best first.
SELECT w.key, ts_rank(w.words, :words::tsquery, 1)::float8 AS score FROM plait.message_words AS w
 WHERE w.words @@ (:here::tsquery && :words::tsquery) AND w.home = :home AND w.key BETWEEN :lo AND :hi
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = :home AND p.key = w.key)
 ORDER BY score DESC, w.key DESC LIMIT nullif(:limit::bigint, -1);

-- search_any_newest
-- Messages of a key range that hold the words, whoever said them and whenever, newest first.
SELECT w.key, 0.0::float8 FROM plait.message_words AS w
 WHERE w.words @@ (:here::tsquery && :words::tsquery) AND w.home = :home AND w.key BETWEEN :lo AND :hi
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = :home AND p.key = w.key)
 ORDER BY w.key DESC LIMIT nullif(:limit::bigint, -1);

-- search_best
-- Messages of a key range that hold the words, best first.
SELECT m.key, ts_rank(w.words, :words::tsquery, 1)::float8 AS score, m.created_at, m.role
  FROM plait.message_words AS w JOIN plait.message AS m ON m.home = :home AND m.key = w.key
 WHERE w.words @@ (:here::tsquery && :words::tsquery) AND w.home = :home AND w.key BETWEEN :lo AND :hi
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role::bigint = 1 OR m.role = ANY (:roles::text[]))
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = :home AND p.key = w.key)
 ORDER BY score DESC, w.key DESC LIMIT nullif(:limit::bigint, -1);

-- search_newest
-- Messages of a key range that hold the words, newest first.
SELECT m.key, 0.0::float8, m.created_at, m.role
  FROM plait.message_words AS w JOIN plait.message AS m ON m.home = :home AND m.key = w.key
 WHERE w.words @@ (:here::tsquery && :words::tsquery) AND w.home = :home AND w.key BETWEEN :lo AND :hi
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role::bigint = 1 OR m.role = ANY (:roles::text[]))
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = :home AND p.key = w.key)
 ORDER BY w.key DESC LIMIT nullif(:limit::bigint, -1);

-- search_scope_best
-- Messages of a scope's sessions that hold the words, best first.
SELECT m.key, ts_rank(w.words, :words::tsquery, 1)::float8 AS score, m.created_at, m.role, s.id
  FROM plait.message_words AS w
  JOIN plait.message AS m ON m.home = w.home AND m.key = w.key
  JOIN plait.strand AS t ON t.home = w.home AND t.strand = w.key >> 32
  JOIN plait.session AS s ON s.home = t.home AND s.incarnation = t.incarnation
 WHERE w.words @@ (:around::tsquery && :words::tsquery)
   AND s.tenant = :tenant AND s.owner = :owner AND s.live = 1 AND substr(s.id, 1, 12) <> 'plait:stage:'
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role::bigint = 1 OR m.role = ANY (:roles::text[]))
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = w.home AND p.key = w.key)
 ORDER BY score DESC, m.created_at DESC, s.id, w.key DESC LIMIT nullif(:limit::bigint, -1);

-- search_scope_newest
-- Messages of a scope's sessions that hold the words, in no order that means anything.
SELECT m.key, 0.0::float8, least(m.created_at, s.active_at), m.role, s.id
  FROM plait.message_words AS w
  JOIN plait.message AS m ON m.home = w.home AND m.key = w.key
  JOIN plait.strand AS t ON t.home = w.home AND t.strand = w.key >> 32
  JOIN plait.session AS s ON s.home = t.home AND s.incarnation = t.incarnation
 WHERE w.words @@ (:around::tsquery && :words::tsquery)
   AND s.tenant = :tenant AND s.owner = :owner AND s.live = 1 AND substr(s.id, 1, 12) <> 'plait:stage:'
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role::bigint = 1 OR m.role = ANY (:roles::text[]))
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS p WHERE p.home = w.home AND p.key = w.key)
 LIMIT nullif(:limit::bigint, -1);

-- scope_sessions
-- The sessions of a scope, not those hidden.
SELECT tenant, owner, id FROM plait.session
 WHERE tenant = :tenant AND owner = :owner AND live = 1 AND substr(id, 1, 12) <> 'plait:stage:';

-- find_shelf
-- Where a session's values stand.
SELECT shelf FROM plait.shelf WHERE home = :home AND session = :session AND shelf IS NOT NULL;

-- add_shelf
-- A place for a session's values, or a new one for those of a session whose earlier ones are gone.
INSERT INTO plait.shelf (home, session, shelf, base, next) VALUES (:home, :session, :shelf, 0, 1)
    ON CONFLICT (home, session) DO UPDATE SET shelf = excluded.shelf, next = 1;

-- next_value
-- A number for a session's next value, with its shelf and where versions begin there.
UPDATE plait.shelf SET next = next + 1 WHERE home = :home AND session = :session RETURNING shelf, base, next - 1;

-- leave_shelf
-- A session has no values any more; versions of later ones come after this one.
UPDATE plait.shelf SET shelf = NULL, base = :base WHERE home = :home AND session = :session;

-- inherit_shelf
-- Versions of a hidden session's values come after those of the life before.
INSERT INTO plait.shelf (home, session, shelf, base, next)
SELECT home, :hidden, NULL, base, 1 FROM plait.shelf WHERE home = :home AND session = :session;

-- shelf_behind
-- By how much the versions of a hidden session's values fall short of those that are in use.
SELECT coalesce((SELECT o.base FROM plait.shelf AS o WHERE o.home = :home AND o.session = :session), 0) - h.base
  FROM plait.shelf AS h WHERE h.home = :home AND h.session = :hidden;

-- move_shelf
-- Hand the values of a row over to the row that takes its place.
UPDATE plait.shelf SET session = :session, base = base + :behind WHERE home = :home AND session = :hidden;

-- raise_values
-- Number the values of a shelf after versions that are in use.
UPDATE plait.value SET version = version + :behind WHERE home = :home AND value BETWEEN :lo AND :hi;

-- raise_value_texts
-- The same of what they say.
UPDATE plait.value_text SET version = version + :behind WHERE home = :home AND value BETWEEN :lo AND :hi;

-- raise_value_slices
-- The same of its further pieces.
UPDATE plait.value_slice SET version = version + :behind WHERE home = :home AND value BETWEEN :lo AND :hi;

-- drop_shelf
-- Forget where the values of a session stood that leaves no trace.
DELETE FROM plait.shelf WHERE home = :home AND session = :session;

-- add_value
-- A value.
INSERT INTO plait.value (home, value, shelf, label, key, version, there)
VALUES (:home, :value, :shelf, :label, :key, :version, :there);

-- set_value
-- Which version of a value is the newest, and whether that says something.
UPDATE plait.value SET version = :version, there = :there WHERE home = :home AND value = :value;

-- add_value_text
-- What one version of a value says.
INSERT INTO plait.value_text (home, value, version, bytes, tokens, created_at, flags, operation, about, body)
VALUES (:home, :value, :version, :bytes, :tokens, :created_at, :flags, :operation, :about, :body);

-- add_value_slice
-- A further piece of a long value.
INSERT INTO plait.value_slice (home, value, version, n, body) VALUES (:home, :value, :version, :n, :body);

-- find_value
-- The newest version of a session's value; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN t.body END AS body_text
  FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.key = :key
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE s.home = :home AND s.session = :session;

-- value_versions
-- Versions of a session's value before one, newest first; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN t.body END AS body_text
  FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.key = :key
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version < :before
 WHERE s.home = :home AND s.session = :session ORDER BY t.version DESC LIMIT :limit;

-- values_from
-- A session's values of a label from a key on, in key order; a large one's body is left out, to be fetched by itself.
SELECT value, label, key, version, bytes, tokens, created_at, flags, operation, about,
       CASE WHEN bytes <= :large THEN body END AS body_text
  FROM (SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about, t.body,
               sum(t.bytes) OVER (ORDER BY v.key ROWS UNBOUNDED PRECEDING) - t.bytes AS before
          FROM plait.shelf AS s
          JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
          JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
         WHERE s.home = :home AND s.session = :session ORDER BY v.key LIMIT :limit) AS v
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key;

-- values_between
-- The same from a key on and before another.
SELECT value, label, key, version, bytes, tokens, created_at, flags, operation, about,
       CASE WHEN bytes <= :large THEN body END AS body_text
  FROM (SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about, t.body,
               sum(t.bytes) OVER (ORDER BY v.key ROWS UNBOUNDED PRECEDING) - t.bytes AS before
          FROM plait.shelf AS s
          JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1
           AND v.key >= :lo AND v.key < :hi
          JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
         WHERE s.home = :home AND s.session = :session ORDER BY v.key LIMIT :limit) AS v
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key;

-- value_stats_from
-- A session's values of a label from a key on without their content, in key order.
SELECT v.key, t.version, t.bytes, t.tokens, t.created_at, t.about
  FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE s.home = :home AND s.session = :session ORDER BY v.key LIMIT :limit;

-- value_stats_between
-- The same from a key on and before another.
SELECT v.key, t.version, t.bytes, t.tokens, t.created_at, t.about
  FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1
   AND v.key >= :lo AND v.key < :hi
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE s.home = :home AND s.session = :session ORDER BY v.key LIMIT :limit;

-- values_by_number
-- The newest versions of a JSON list of values; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN t.body END AS body_text
  FROM plait.value AS v
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE v.home = :home AND v.value = ANY (:values::bigint[]) ORDER BY v.value;

-- value_by_number
-- The newest version of a value if it is of a label and there; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN t.body END AS body_text
  FROM plait.value AS v
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE v.home = :home AND v.label = :label AND v.there = 1 AND v.value = :value;

-- count_values_from
-- How many values of a label a session has from a key on.
SELECT count(*) FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
 WHERE s.home = :home AND s.session = :session;

-- count_values_between
-- How many values of a label a session has from a key on and before another.
SELECT count(*) FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND v.label = :label AND v.there = 1
   AND v.key >= :lo AND v.key < :hi
 WHERE s.home = :home AND s.session = :session;

-- value_names
-- The labels and keys of a session's values after one, in order, those deleted too.
SELECT v.label, v.key FROM plait.shelf AS s
  JOIN plait.value AS v ON v.home = :home AND v.shelf = s.shelf AND (v.label, v.key) > (:label, :key)
 WHERE s.home = :home AND s.session = :session ORDER BY v.label, v.key LIMIT :limit;

-- value_body
-- The body of one version's row.
SELECT body AS body_text FROM plait.value_text WHERE home = :home AND value = :value AND version = :version;

-- value_slices
-- The further pieces of one version.
SELECT body AS body_text FROM plait.value_slice
 WHERE home = :home AND value = :value AND version = :version ORDER BY n;

-- add_value_pending
-- What the index says of a value, if it has it, is out of date.
INSERT INTO plait.value_pending (home, value)
SELECT p.home, :value::bigint FROM plait.value_progress AS p
 WHERE p.home = :home AND p.shelf = (:value::bigint >> 32) AND p.value >= :value::bigint
    ON CONFLICT DO NOTHING;

-- add_values_pending
-- What the index says of a JSON list of values, if it has them, is out of date.
INSERT INTO plait.value_pending (home, value)
SELECT w.home, w.value FROM plait.value_words AS w WHERE w.home = :home AND w.value = ANY (:values::bigint[])
    ON CONFLICT DO NOTHING;

-- values_to_copy
-- The values that are there in a range of numbers, with the sizes of what they say.
SELECT v.value, v.label, v.key, v.version, t.bytes
  FROM plait.value AS v
  JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
 WHERE v.home = :home AND v.value BETWEEN :lo AND :hi AND v.there = 1 ORDER BY v.value LIMIT :limit;

-- value_is_there
-- Whether a version says something.
SELECT (body IS NOT NULL)::int FROM plait.value_text WHERE home = :home AND value = :value AND version = :version;

-- copy_value_text
-- Let a version of a value say what another one says.
INSERT INTO plait.value_text (home, value, version, bytes, tokens, created_at, flags, operation, about, body)
SELECT :other_home, :into, :as_version, bytes, tokens, created_at, flags, operation, about, body
  FROM plait.value_text WHERE home = :home AND value = :value AND version = :version;

-- copy_value_slices
-- The same of its further pieces.
INSERT INTO plait.value_slice (home, value, version, n, body)
SELECT :other_home, :into, :as_version, n, body
  FROM plait.value_slice WHERE home = :home AND value = :value AND version = :version;

-- values_written_since
-- What says which values were written in a session after a version.
SELECT data FROM plait.change
 WHERE home = :home AND session = :session AND version > :version AND kind = 'context';

-- values_with_history
-- The next values of a shelf that have earlier versions.
SELECT v.value, v.version FROM plait.value AS v
 WHERE v.home = :home AND v.value > :after AND v.value <= :hi
   AND EXISTS (SELECT 1 FROM plait.value_text AS t WHERE t.home = :home AND t.value = v.value AND t.version < v.version)
 ORDER BY v.value LIMIT :limit;

-- version_from_end
-- The version of a value after which as many earlier ones are left as are to be kept beside the newest.
SELECT version FROM plait.value_text WHERE home = :home AND value = :value AND version < :newest
 ORDER BY version DESC LIMIT 1 OFFSET :keep;

-- oldest_versions
-- The first versions of a value before the newest.
SELECT version, created_at FROM plait.value_text
 WHERE home = :home AND value = :value AND version < :newest ORDER BY version LIMIT :limit;

-- prune_value_texts
-- Forget what the first versions of a value said.
DELETE FROM plait.value_text WHERE home = :home AND value = :value AND version <= :upto;

-- prune_value_slices
-- The same of its further pieces.
DELETE FROM plait.value_slice WHERE home = :home AND value = :value AND version <= :upto;

-- values_unindexed
-- A session's values that the index does not know as they are now, with their sizes: first those it was told of.
SELECT * FROM (
  SELECT p.value, t.bytes FROM plait.shelf AS s
    JOIN plait.value_pending AS p
      ON p.home = :home AND p.value BETWEEN (s.shelf << 32) AND ((s.shelf << 32) | 4294967295)
    JOIN plait.value AS v ON v.home = :home AND v.value = p.value
    JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
   WHERE s.home = :home AND s.session = :session LIMIT nullif(:limit::bigint, -1)) AS told
 UNION ALL
SELECT * FROM (
  SELECT v.value, t.bytes FROM plait.shelf AS s
    LEFT JOIN plait.value_progress AS p ON p.home = :home AND p.shelf = s.shelf
    JOIN plait.value AS v
      ON v.home = :home AND v.value > coalesce(p.value, s.shelf << 32) AND v.value <= ((s.shelf << 32) | 4294967295)
    JOIN plait.value_text AS t ON t.home = :home AND t.value = v.value AND t.version = v.version
   WHERE s.home = :home AND s.session = :session ORDER BY v.value LIMIT nullif(:more::bigint, -1)) AS beyond;

-- values_gone
-- Values that the index is out of date about and that are not there any more, and where.
SELECT p.value, ARRAY[p.home, NULL::uuid] FROM plait.value_pending AS p
 WHERE NOT EXISTS (SELECT 1 FROM plait.value AS v WHERE v.home = p.home AND v.value = p.value) LIMIT :limit;

-- sessions_with_pending_values
-- Sessions with values that the index is out of date about.
SELECT DISTINCT x.tenant, x.owner, x.id FROM plait.value_progress AS g
  JOIN plait.shelf AS s ON s.home = g.home AND s.shelf = g.shelf
  JOIN plait.session AS x ON x.home = s.home AND x.session = s.session
 WHERE EXISTS (SELECT 1 FROM plait.value_pending AS p
                WHERE p.home = s.home AND p.value BETWEEN (s.shelf << 32) AND ((s.shelf << 32) | 4294967295));

-- values_were_indexed
-- Whether the index has pages, also such as hold only what was taken out of it: the server sees to those.
SELECT 1 WHERE false;

-- add_value_words
-- Index a value.
INSERT INTO plait.value_words (home, value, words) VALUES (:home, :value, :words::tsvector)
    ON CONFLICT (home, value) DO UPDATE SET words = excluded.words;

-- drop_value_words
-- Take values out of the index.
DELETE FROM plait.value_words WHERE home = :home AND value = ANY (:values::bigint[]);

-- drop_value_pending
-- The index is up to date about these values.
DELETE FROM plait.value_pending WHERE home = :home AND value = ANY (:values::bigint[]);

-- save_value_progress
-- A shelf is indexed up to a value.
INSERT INTO plait.value_progress AS p (home, shelf, value) VALUES (:home, :shelf, :value)
    ON CONFLICT (home, shelf) DO UPDATE SET value = greatest(p.value, excluded.value);

-- merge_value_words
-- Write the index anew without what was taken out of it: the server's own upkeep does that.
SELECT 1;

-- count_value_words
-- In how many values some words are, and how many are indexed, as the server last estimated.
SELECT (SELECT count(*) FROM plait.value_words WHERE words @@ :words::tsquery),
       (SELECT greatest(reltuples, 0)::bigint FROM pg_catalog.pg_class WHERE oid = 'plait.value_words'::regclass);

-- search_values
-- Values of a shelf and a label that hold the words, best first.
SELECT w.value, ts_rank(w.words, :words::tsquery, 1)::float8 AS score
  FROM plait.value_words AS w JOIN plait.value AS v ON v.home = :home AND v.value = w.value
 WHERE w.words @@ (:here::tsquery && :words::tsquery) AND w.home = :home AND w.value BETWEEN :lo AND :hi
   AND v.label = :label AND v.there = 1
   AND NOT EXISTS (SELECT 1 FROM plait.value_pending AS p WHERE p.home = :home AND p.value = w.value)
 ORDER BY score DESC, w.value DESC LIMIT nullif(:limit::bigint, -1);

-- purge_value_slices
-- Remove some slices of a shelf that nobody has any more.
DELETE FROM plait.value_slice WHERE home = :home AND (value, version, n) IN (
       SELECT x.value, x.version, x.n FROM plait.value_slice AS x
        WHERE x.home = :home AND x.value BETWEEN :lo AND :hi LIMIT :limit) RETURNING 1;

-- purge_value_texts
-- Remove some versions of a shelf that nobody has any more.
DELETE FROM plait.value_text WHERE home = :home AND (value, version) IN (
       SELECT x.value, x.version FROM plait.value_text AS x
        WHERE x.home = :home AND x.value BETWEEN :lo AND :hi LIMIT :limit) RETURNING 1;

-- purge_values
-- Remove some values of a shelf that nobody has any more.
DELETE FROM plait.value WHERE home = :home AND (value) IN (
       SELECT x.value FROM plait.value AS x
        WHERE x.home = :home AND x.value BETWEEN :lo AND :hi LIMIT :limit) RETURNING value;

-- drop_value_progress
-- A shelf has no values any more.
DELETE FROM plait.value_progress WHERE home = :home AND shelf = :shelf;

-- find_record
-- One record of a life.
SELECT body FROM plait.record WHERE home = :home AND incarnation = :incarnation AND key = :key;

-- records_up
-- The next records between two keys, in their order.
SELECT key, body, length(body)
  FROM (SELECT key, body, sum(length(body)) OVER (ORDER BY key ROWS UNBOUNDED PRECEDING) - length(body) AS before
          FROM plait.record
         WHERE home = :home AND incarnation = :incarnation AND key >= :first AND key < :end
         ORDER BY key LIMIT :limit) AS r
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key;

-- records_down
-- The same the other way round.
SELECT key, body, length(body)
  FROM (SELECT key, body, sum(length(body)) OVER (ORDER BY key DESC ROWS UNBOUNDED PRECEDING) - length(body) AS before
          FROM plait.record
         WHERE home = :home AND incarnation = :incarnation AND key >= :first AND key < :end
         ORDER BY key DESC LIMIT :limit) AS r
 WHERE :budget::bigint IS NULL OR before < greatest(:budget::bigint, 1) ORDER BY key DESC;

-- put_record
-- Write a record, over the one that is there.
INSERT INTO plait.record (home, incarnation, key, body) VALUES (:home, :incarnation, :key, :body)
    ON CONFLICT (home, incarnation, key) DO UPDATE SET body = excluded.body;

-- keep_record
-- Write a record unless there is one; answers a row if there was none: the transaction's number.
INSERT INTO plait.record (home, incarnation, key, body) VALUES (:home, :incarnation, :key, :body)
    ON CONFLICT (home, incarnation, key) DO NOTHING RETURNING pg_current_xact_id()::text;

-- drop_record
-- Remove a record.
DELETE FROM plait.record WHERE home = :home AND incarnation = :incarnation AND key = :key;

-- purge_records
-- Remove some records of a life that is over.
DELETE FROM plait.record WHERE home = :home AND (incarnation, key) IN (
       SELECT x.incarnation, x.key FROM plait.record AS x
        WHERE x.home = :home AND x.incarnation = :incarnation LIMIT :limit) RETURNING 1;
