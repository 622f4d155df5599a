-- next_number
-- The next number of a counter, never given twice.
UPDATE counter SET value = value + 1 WHERE name = :name RETURNING value;

-- find_session
-- The session row by its name: the one place where a scope is checked.
SELECT session, incarnation, live, next_seq, leaf, version, epoch, messages, bytes, tokens,
       path_messages, path_bytes, path_tokens, created_at, active_at,
       overlays, hidden_messages, hidden_bytes, hidden_tokens,
       (SELECT tick FROM latest_pulse WHERE session = session.session),
       (SELECT value FROM counter WHERE name = 'tick'), EXISTS (SELECT 1 FROM removal WHERE state = 1),
       (SELECT until FROM lease WHERE session = session.session)
  FROM session WHERE tenant = :tenant AND owner = :owner AND id = :id;

-- create_session
-- A session's row, or a new life in the row of a deleted one, whose counters go on.
INSERT INTO session (incarnation, live, next_seq, leaf, version, epoch, messages, bytes, tokens,
                     path_messages, path_bytes, path_tokens, created_at, active_at, tenant, owner, id)
VALUES (:incarnation, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, :created_at, :active_at, :tenant, :owner, :id)
    ON CONFLICT (tenant, owner, id) DO UPDATE
   SET incarnation = excluded.incarnation, live = 1,
       created_at = excluded.created_at, active_at = excluded.active_at;

-- save_session
-- What a transaction made of a session's row. The columns of its indexes stay, so that no index is written.
UPDATE session
   SET live = :live, next_seq = :next_seq, leaf = :leaf, version = :version, epoch = :epoch,
       messages = :messages, bytes = :bytes, tokens = :tokens, path_messages = :path_messages,
       path_bytes = :path_bytes, path_tokens = :path_tokens, active_at = :active_at, overlays = :overlays,
       hidden_messages = :hidden_messages, hidden_bytes = :hidden_bytes, hidden_tokens = :hidden_tokens
 WHERE session = :session;

-- save_sessions
-- The same for many rows in one statement; for a single one it takes six times as long.
WITH new (live, next_seq, leaf, version, epoch, messages, bytes, tokens,
          path_messages, path_bytes, path_tokens, active_at,
          overlays, hidden_messages, hidden_bytes, hidden_tokens, session) AS (
VALUES (:live, :next_seq, :leaf, :version, :epoch, :messages, :bytes, :tokens,
        :path_messages, :path_bytes, :path_tokens, :active_at,
        :overlays, :hidden_messages, :hidden_bytes, :hidden_tokens, :session))
UPDATE session
   SET live = new.live, next_seq = new.next_seq, leaf = new.leaf, version = new.version, epoch = new.epoch,
       messages = new.messages, bytes = new.bytes, tokens = new.tokens, path_messages = new.path_messages,
       path_bytes = new.path_bytes, path_tokens = new.path_tokens, active_at = new.active_at,
       overlays = new.overlays, hidden_messages = new.hidden_messages, hidden_bytes = new.hidden_bytes,
       hidden_tokens = new.hidden_tokens
  FROM new WHERE session.session = new.session;

-- new_life
-- A session goes on in another incarnation.
UPDATE session SET incarnation = :incarnation WHERE session = :session;

-- rename_session
-- Give a hidden session the number and the name it is published under.
UPDATE session SET session = :session, id = :id WHERE session = :hidden;

-- drop_session
-- Remove a session's row, whose numbers another row goes on with.
DELETE FROM session WHERE session = :session;

-- move_changes
-- Hand the change record of a row over to the row that takes its place.
UPDATE change SET session = :session, version = version + :shift WHERE session = :hidden;

-- drop_changes
-- Forget the changes of a row that leaves no trace.
DELETE FROM change WHERE session = :session;

-- move_info
-- Hand the catalogue entry of a row over to the row that takes its place.
UPDATE info SET session = :session WHERE session = :hidden;

-- stages
-- Hidden sessions begun before a time.
SELECT tenant, owner, id FROM session
 WHERE substr(id, 1, 12) = 'plait:stage:' AND live = 1 AND active_at < :before;

-- find_info
-- A session's catalogue entry and state.
SELECT name, owned_by, parent, pinned, metadata, state FROM info WHERE session = :session;

-- add_info
-- Write a session's catalogue entry and state.
INSERT INTO info (session, name, owned_by, parent, pinned, metadata, state)
VALUES (:session, :name, :owned_by, :parent, :pinned, :metadata, :state);

-- drop_info
-- Remove a session's catalogue entry and state.
DELETE FROM info WHERE session = :session;

-- add_activity
-- Note in which coarse time a session was last active.
INSERT INTO activity (tenant, owner, bucket, session) VALUES (:tenant, :owner, :bucket, :session);

-- drop_activity
-- Forget that a session was last active in a coarse time.
DELETE FROM activity WHERE tenant = :tenant AND owner = :owner AND bucket = :bucket AND session = :session;

-- next_scope
-- The first scope, at or after one by tenant and owner, that has a session.
SELECT tenant, owner FROM session
 WHERE (tenant, owner) >= (:tenant, :owner) AND live = 1 AND substr(id, 1, 12) <> 'plait:stage:'
 ORDER BY tenant, owner LIMIT 1;

-- next_bucket
-- The newest coarse time at or before one in which sessions of a scope were last active.
SELECT max(bucket) FROM activity WHERE tenant = :tenant AND owner = :owner AND bucket <= :bucket;

-- sessions_in_bucket
-- The live sessions of a scope last active in a coarse time.
SELECT s.session, s.incarnation, s.live, s.next_seq, s.leaf, s.version, s.epoch, s.messages, s.bytes, s.tokens,
       s.path_messages, s.path_bytes, s.path_tokens, s.created_at, s.active_at,
       s.overlays, s.hidden_messages, s.hidden_bytes, s.hidden_tokens, s.id
  FROM activity AS a JOIN session AS s ON s.session = a.session
 WHERE a.tenant = :tenant AND a.owner = :owner AND a.bucket = :bucket AND s.live = 1;

-- add_strand
-- A strand and where it forks off.
INSERT INTO strand (strand, incarnation, parent, fork) VALUES (:strand, :incarnation, :parent, :fork);

-- find_strand
-- Where a strand forks off.
SELECT strand, parent, fork FROM strand WHERE strand = :strand;

-- strand_chain
-- A strand and those it forks off from, upwards.
WITH RECURSIVE up (strand, parent, fork) AS (
  SELECT strand, parent, fork FROM strand WHERE strand = :strand
  UNION ALL
  SELECT s.strand, s.parent, s.fork FROM up JOIN strand AS s ON s.strand = up.parent
)
SELECT strand, parent, fork FROM up LIMIT :limit;

-- strands
-- Every strand of a session with its first and last surviving key, 0 where no row is left.
SELECT strand, parent, fork,
       coalesce((SELECT min(key) FROM message WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295), 0),
       coalesce((SELECT max(key) FROM message WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295), 0)
  FROM strand WHERE incarnation = :incarnation;

-- strands_at
-- The strands of a life that fork off a strand between two seqs, each with its first surviving key, 0 for none.
SELECT strand,
       coalesce((SELECT min(key) FROM message WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295), 0)
  FROM strand WHERE parent = :parent AND fork BETWEEN :lo AND :hi AND incarnation = :incarnation;

-- root_strands
-- The strands of a life that begin at the root, each with its first surviving key, 0 for none.
SELECT strand,
       coalesce((SELECT min(key) FROM message WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295), 0)
  FROM strand WHERE incarnation = :incarnation AND +parent = 0;

-- drop_strands
-- Remove the strands of a life that is over.
DELETE FROM strand WHERE incarnation = :incarnation;

-- add_message
-- A message's row.
INSERT INTO main.message (key, version, bytes, tokens, created_at, flags, format, role, id, body)
VALUES (:key, :version, :bytes, :tokens, :created_at, :flags, :format, :role, :id, :body);

-- add_message_id
-- Which key a message id of a session has; the unique key of ids. FAIL: no journal of its own, the caller undoes.
INSERT OR FAIL INTO main.message_id (incarnation, id, key) VALUES (:incarnation, :id, :key);

-- change_message
-- A message's new content; seq, time and version of insertion stay.
UPDATE main.message SET bytes = :bytes, tokens = :tokens, flags = :flags, format = :format, role = :role, body = :body
 WHERE key = :key;

-- find_message
-- The key of a message id.
SELECT key FROM message_id WHERE incarnation = :incarnation AND id = :id;

-- find_messages
-- The keys of a JSON list of message ids.
SELECT m.id, m.key FROM json_each(:ids) AS asked
 CROSS JOIN message_id AS m ON m.incarnation = :incarnation AND m.id = asked.value;

-- message_by_key
-- One message's row.
SELECT key, id, role, bytes, tokens, created_at, flags, format, CAST(body AS BLOB) FROM message WHERE key = :key;

-- message_body
-- The body of one message's row.
SELECT CAST(body AS BLOB) FROM message WHERE key = :key;

-- messages_up
-- Message rows of a key range, oldest first, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT key, id, role, bytes, tokens, created_at, flags, format,
       CASE WHEN bytes <= :large THEN CAST(body AS BLOB) END
  FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- messages_down
-- Message rows of a key range, newest first, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT key, id, role, bytes, tokens, created_at, flags, format,
       CASE WHEN bytes <= :large THEN CAST(body AS BLOB) END
  FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT :limit;

-- keys_by_seq
-- Keys and sizes of the messages of all strands of a session between two seqs, in seq order.
SELECT m.key, m.bytes
  FROM strand AS s JOIN message AS m ON m.key > (s.strand << 32 | :after) AND m.key <= (s.strand << 32 | :upto)
 WHERE s.incarnation = :incarnation
 ORDER BY m.key & 4294967295;

-- messages_by_keys
-- Message rows of a JSON list of keys, bodies as UTF-8; a large one is left out, to be fetched by itself.
SELECT m.key, m.id, m.role, m.bytes, m.tokens, m.created_at, m.flags, m.format,
       CASE WHEN m.bytes <= :large THEN CAST(m.body AS BLOB) END
  FROM json_each(:keys) AS asked CROSS JOIN message AS m ON m.key = asked.value;

-- message_stats
-- Message rows of a key range without their content, oldest first.
SELECT key, id, role, bytes, tokens, created_at FROM message
 WHERE key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- restamp_message
-- Another count of a message's tokens.
UPDATE main.message SET tokens = :tokens WHERE key = :key;

-- message_sizes
-- Sizes of a JSON list of keys.
SELECT m.key, m.bytes, m.tokens FROM json_each(:keys) AS asked CROSS JOIN message AS m ON m.key = asked.value;

-- sizes_up
-- Keys and sizes of a key range, oldest first.
SELECT key, bytes FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- sizes_down
-- Keys and sizes of a key range, newest first.
SELECT key, bytes FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT :limit;

-- range_totals
-- Messages, bytes and tokens of a key range.
SELECT count(*), coalesce(sum(bytes), 0), coalesce(sum(tokens), 0) FROM message WHERE key BETWEEN :lo AND :hi;

-- first_in_range
-- The first surviving key and id of a key range.
SELECT key, id FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key LIMIT 1;

-- last_in_range
-- The last surviving key and id of a key range.
SELECT key, id FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key DESC LIMIT 1;

-- last_in_each
-- For each (seq, lo, hi) of a JSON list, the id of the last message of a key range, null if there is none.
SELECT json_extract(r.value, '$[0]'),
       (SELECT id FROM message
         WHERE key BETWEEN json_extract(r.value, '$[1]') AND json_extract(r.value, '$[2]') ORDER BY key DESC LIMIT 1)
  FROM json_each(:ranges) AS r;

-- newest_message
-- The key and seq of the message of highest seq in a session.
SELECT newest, max(newest & 4294967295) FROM (
  SELECT (SELECT max(key) FROM message WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295) AS newest
    FROM strand WHERE incarnation = :incarnation)
 WHERE newest IS NOT NULL HAVING newest IS NOT NULL;

-- messages_with_rest
-- Which of a JSON list of keys have slices or media.
SELECT m.key FROM json_each(:keys) AS asked CROSS JOIN message AS m ON m.key = asked.value WHERE m.flags & 6;

-- drop_messages
-- Remove the messages of a JSON list of keys.
DELETE FROM main.message WHERE key IN (SELECT value FROM json_each(:keys));

-- drop_message_ids
-- Free the ids of the messages of a JSON list of keys.
DELETE FROM main.message_id WHERE incarnation = :incarnation
   AND id IN (SELECT m.id FROM json_each(:keys) AS asked CROSS JOIN message AS m ON m.key = asked.value);

-- shared_ids
-- An id that two lives of sessions both have.
SELECT a.id FROM message_id AS a JOIN message_id AS b ON b.incarnation = :into AND b.id = a.id
 WHERE a.incarnation = :source LIMIT 1;

-- graft_strand
-- Hang a strand below a message of another session, which it is to become a part of.
UPDATE strand SET parent = :parent, fork = :fork WHERE strand = :strand;

-- graft_versions
-- Number the insertions of staged messages after a session's changes.
UPDATE main.message SET version = version + :version, flags = flags | :flags
 WHERE key IN (SELECT m.key FROM strand AS s
                 JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32) | 4294967295
                WHERE s.incarnation = :incarnation);

-- graft_message_ids
-- Make the ids of staged messages a session's own.
UPDATE main.message_id SET incarnation = :into WHERE incarnation = :incarnation;

-- graft_strands
-- Make staged strands a session's own.
UPDATE strand SET incarnation = :into WHERE incarnation = :incarnation;

-- copy_messages
-- Copy a key range into another strand; versions go on from the target's.
INSERT INTO main.message (key, version, bytes, tokens, created_at, flags, format, role, id, body)
SELECT key + (:shift << 32), :version + row_number() OVER (ORDER BY key),
       bytes, tokens, created_at, flags & 7, format, role, id, body
  FROM message WHERE key BETWEEN :lo AND :hi;

-- copy_message_ids
-- Copy the ids of a key range into another session.
INSERT INTO main.message_id (incarnation, id, key)
SELECT :incarnation, id, key + (:shift << 32) FROM message WHERE key BETWEEN :lo AND :hi;

-- copy_slices
-- Copy the slices of a key range into another strand.
INSERT INTO main.slice (key, n, body)
SELECT key + (:shift << 32), n, body FROM slice WHERE key BETWEEN :lo AND :hi;

-- copy_attachment_refs
-- Let the copies of a key range use the same payloads.
INSERT INTO main.attachment_ref (key, n, attachment, at)
SELECT key + (:shift << 32), n, attachment, at FROM attachment_ref WHERE key BETWEEN :lo AND :hi;

-- add_slice
-- A further piece of a long body.
INSERT INTO main.slice (key, n, body) VALUES (:key, :n, :body);

-- slices_of
-- The further pieces of a long body.
SELECT n, CAST(body AS BLOB) FROM slice WHERE key = :key ORDER BY n;

-- drop_slices
-- Remove the further pieces of a body.
DELETE FROM main.slice WHERE key = :key;

-- find_attachment
-- A scope's payload by its hash, and whether all its bytes are there.
SELECT attachment, bytes, bytes = (SELECT coalesce(sum(length(data)), 0) FROM chunk WHERE attachment = a.attachment)
  FROM attachment AS a WHERE tenant = :tenant AND owner = :owner AND hash = :hash;

-- add_attachment
-- A payload of a scope.
INSERT INTO attachment (tenant, owner, hash, bytes) VALUES (:tenant, :owner, :hash, :bytes) RETURNING attachment;

-- finish_attachment
-- The hash and size of a payload that has been put.
UPDATE attachment SET hash = :hash, bytes = :bytes WHERE attachment = :attachment;

-- lock_attachment
-- Let nobody find a payload and use it before this transaction has ended: here nobody can anyway.
SELECT attachment FROM attachment WHERE attachment = :attachment;

-- drop_attachment
-- Remove a payload.
DELETE FROM attachment WHERE attachment = :attachment;

-- add_chunk
-- A piece of a payload.
INSERT INTO chunk (attachment, n, data) VALUES (:attachment, :n, :data);

-- chunks_of
-- All pieces of a payload.
SELECT data FROM chunk WHERE attachment = :attachment ORDER BY n;

-- chunk
-- One piece of a payload, as long as the message uses it.
SELECT c.data FROM attachment_ref AS r JOIN chunk AS c ON c.attachment = r.attachment
 WHERE r.key = :key AND r.attachment = :attachment AND c.n = :n LIMIT 1;

-- move_chunks
-- The pieces of a payload are another's.
UPDATE chunk SET attachment = :new WHERE attachment = :old;

-- drop_chunks
-- Remove the pieces of a payload.
DELETE FROM chunk WHERE attachment = :attachment;

-- add_attachment_ref
-- Note that a message uses a payload, and where.
INSERT INTO main.attachment_ref (key, n, attachment, at) VALUES (:key, :n, :attachment, :at);

-- attachment_refs_of
-- The payloads a message uses, in the order of their places; the size is NULL if the payload is gone.
SELECT r.n, r.attachment, r.at, a.bytes FROM attachment_ref AS r
  LEFT JOIN attachment AS a ON a.attachment = r.attachment WHERE r.key = :key ORDER BY r.n;

-- attachment_hashes_of
-- Places and hashes of the payloads a message uses.
SELECT r.at, a.hash FROM attachment_ref AS r JOIN attachment AS a ON a.attachment = r.attachment
 WHERE r.key = :key ORDER BY r.n;

-- attachments_of
-- Which payloads a message uses, each once.
SELECT DISTINCT attachment FROM main.attachment_ref WHERE key = :key;

-- drop_attachment_refs
-- A message uses no payloads any more.
DELETE FROM main.attachment_ref WHERE key = :key;

-- attachment_in_use
-- Whether a message uses a payload or an upload claims it.
SELECT 1 FROM main.attachment_ref WHERE attachment = :attachment
UNION ALL SELECT 1 FROM upload WHERE attachment = :claimed LIMIT 1;

-- add_upload
-- A claim on a payload.
INSERT INTO upload (upload, attachment, touched_at) VALUES (:upload, :attachment, :touched_at);

-- touch_upload
-- A claim is alive.
UPDATE upload SET touched_at = :touched_at WHERE upload = :upload;

-- move_upload
-- A claim goes over to the payload that the scope had already.
UPDATE upload SET attachment = :attachment, touched_at = :touched_at WHERE upload = :upload;

-- drop_upload
-- A claim is used up or has lapsed.
DELETE FROM upload WHERE upload = :upload;

-- lapsed_uploads
-- Claims not touched since a time, and where they are (here: all in one place).
SELECT upload, attachment, NULL FROM upload WHERE touched_at < :before;

-- add_change
-- A change that is not an append.
INSERT INTO change (session, version, incarnation, kind, operation, at, data)
VALUES (:session, :version, :incarnation, :kind, :operation, :at, :data);

-- numbered_before
-- Whether a message or a change of a life has a version that is not after another one.
SELECT 1 FROM (SELECT m.version FROM strand AS s
                CROSS JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32) | 4294967295
                WHERE s.incarnation = :incarnation LIMIT 1) WHERE version <= :version
 UNION ALL SELECT 1 FROM change WHERE session = :hidden AND version <= :version;

-- changes_after
-- The next changes of a session, over all its lives.
SELECT version, incarnation, kind, at, data, length(data) FROM change
 WHERE session = :session AND version > :version ORDER BY version LIMIT :limit;

-- appends_by_seq
-- Insertions between two seqs, on all strands of a session, in seq order.
SELECT m.key, m.version, m.flags
  FROM strand AS s JOIN message AS m ON m.key > (s.strand << 32 | :after) AND m.key <= (s.strand << 32 | :upto)
 WHERE s.incarnation = :incarnation
 ORDER BY m.key & 4294967295;

-- appends_on_newest
-- Insertions after a seq on the strands of a session that were begun last.
SELECT m.key, m.version, m.flags
  FROM (SELECT strand FROM strand WHERE incarnation = :incarnation ORDER BY strand DESC LIMIT :strands) AS s
  JOIN message AS m ON m.key > (s.strand << 32 | :after) AND m.key <= (s.strand << 32 | 4294967295)
 LIMIT :limit;

-- appends_in_range
-- Insertions of a key range.
SELECT key, version, flags FROM message WHERE key BETWEEN :lo AND :hi ORDER BY key LIMIT :limit;

-- turn_tick
-- Let the tick go on, unless it is in its minute or, where clocks differ, a little ahead.
UPDATE counter SET value = max(value + 1, :minute)
 WHERE name = 'tick' AND value NOT BETWEEN :minute AND :minute + 10 RETURNING value;

-- tick
-- The newest tick such that nobody is still writing who has read an earlier one, and the newest of all: here the same.
SELECT tick, tick FROM (SELECT coalesce((SELECT value FROM counter WHERE name = 'tick'), 1) AS tick);

-- add_pulse
-- Where a session stood before its first change of a tick.
INSERT OR IGNORE INTO pulse (tenant, owner, tick, session, incarnation, version, seq)
SELECT tenant, owner, :tick, session, :incarnation, :version, :seq FROM session WHERE session = :session;

-- set_pulse
-- The tick of a session's newest pulse.
INSERT INTO latest_pulse (session, tick) VALUES (:session, :tick)
    ON CONFLICT (session) DO UPDATE SET tick = excluded.tick;

-- drop_pulse
-- Forget the pulse of a session whose number may be given again.
DELETE FROM latest_pulse WHERE session = :session;

-- pulses
-- The pulses of a scope from a tick on, and where those sessions are by now.
SELECT p.tick, p.session, p.incarnation, p.version, p.seq, s.id, s.version,
       (SELECT tick FROM latest_pulse WHERE session = p.session)
  FROM pulse AS p JOIN session AS s ON s.session = p.session
 WHERE p.tenant = :tenant AND p.owner = :owner AND (p.tick, p.session) > (:tick, :session)
 ORDER BY p.tick, p.session LIMIT :limit;

-- sessions_after
-- The sessions of a scope in the order of their ids, those that are over too, but none that is hidden.
SELECT id FROM session
 WHERE tenant = :tenant AND owner = :owner AND id > :id AND substr(id, 1, 12) <> 'plait:stage:'
 ORDER BY id LIMIT :limit;

-- oldest_changes
-- The first change rows that a session still has.
SELECT version, at FROM change WHERE session = :session ORDER BY version LIMIT :limit;

-- change_from_end
-- The newest change row of a session but so many.
SELECT version FROM change WHERE session = :session ORDER BY version DESC LIMIT 1 OFFSET :keep;

-- prune_changes
-- Remove a session's change rows up to a version.
DELETE FROM change WHERE session = :session AND version <= :version;

-- set_pruned_version
-- Note up to where a session's changes have been pruned.
INSERT INTO pruned (session, version) VALUES (:session, :version)
    ON CONFLICT (session) DO UPDATE SET version = excluded.version;

-- oldest_pulses
-- The first pulses that a scope still has, before a tick.
SELECT tick, session FROM pulse WHERE tenant = :tenant AND owner = :owner AND tick < :tick
 ORDER BY tick, session LIMIT :limit;

-- prune_pulses
-- Remove a scope's pulses up to one.
DELETE FROM pulse WHERE tenant = :tenant AND owner = :owner AND (tick, session) <= (:tick, :session);

-- set_pruned_tick
-- Note up to where a scope's pulses have been pruned.
INSERT INTO pruned_pulse (tenant, owner, tick) VALUES (:tenant, :owner, :tick)
    ON CONFLICT (tenant, owner) DO UPDATE SET tick = excluded.tick;

-- pruned_version
-- Up to where a session's changes have been pruned.
SELECT version FROM pruned WHERE session = :session;

-- pruned_tick
-- Up to where a scope's pulses have been pruned.
SELECT tick FROM pruned_pulse WHERE tenant = :tenant AND owner = :owner;

-- changed_keys
-- What says which messages of a session were updated or deleted after a version, and where overlays changed since end.
SELECT kind, data FROM change
 WHERE session = :session AND version > :version AND kind IN ('update', 'delete', 'overlay', 'compact');

-- add_purge
-- A life that is over and whose rows are to be removed.
INSERT INTO purge (incarnation) VALUES (:incarnation);

-- purges
-- Lives that are over and not yet purged, and where they are (here: all in one place); never one that a session is living.
SELECT incarnation, NULL FROM purge AS p
 WHERE NOT EXISTS (SELECT 1 FROM session WHERE incarnation = p.incarnation AND live = 1);

-- purge_rows
-- Rows of a life that is over.
SELECT m.key, m.flags, m.bytes FROM strand AS s
  JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32) | 4294967295
 WHERE s.incarnation = :incarnation LIMIT :limit;

-- drop_purge
-- A life has been purged.
DELETE FROM purge WHERE incarnation = :incarnation;

-- free_hidden_id
-- Let a message id be used again that a big delete has taken away.
DELETE FROM main.message_id WHERE incarnation = :incarnation AND id = :id
   AND NOT EXISTS (SELECT 1 FROM message_id WHERE incarnation = :incarnation AND id = :id);

-- free_hidden_ids
-- The same for the ids of staged messages, of which the session has none any more.
DELETE FROM main.message_id WHERE incarnation = :into
   AND id IN (SELECT id FROM main.message_id WHERE incarnation = :source);

-- add_removal
-- A big delete is being prepared.
INSERT INTO removal (removal, incarnation, state, begun_at) VALUES (:removal, :incarnation, 0, :begun_at);

-- add_removal_range
-- A run of messages that it is to take away.
INSERT INTO removal_range (removal, lo, hi) VALUES (:removal, :lo, :hi);

-- find_removal
-- A big delete: whose, and how far it is.
SELECT incarnation, state FROM removal WHERE removal = :removal;

-- show_removal
-- A big delete has taken its messages away.
UPDATE removal SET state = 1 WHERE removal = :removal;

-- spoil_removals
-- What is being prepared for a life has to be prepared anew: its stamps have changed.
UPDATE removal SET state = 2 WHERE incarnation = :incarnation AND state = 0;

-- any_removal
-- Whether big deletes have taken something away that is still there.
SELECT 1 FROM removal WHERE state = 1 LIMIT 1;

-- removals
-- Big deletes whose rows are to be removed: done, given up, or left behind before a time.
SELECT removal FROM removal WHERE state <> 0 OR begun_at < :before;

-- removed_rows
-- Rows that a big delete has taken away, in the order of their keys.
SELECT m.key, m.flags, m.bytes FROM removal_range AS r CROSS JOIN main.message AS m ON m.key BETWEEN r.lo AND r.hi
 WHERE r.removal = :removal ORDER BY r.lo, m.key LIMIT :limit;

-- drop_removed_ids
-- Free the ids of rows that a big delete has taken away, unless they are used again.
DELETE FROM main.message_id WHERE incarnation = :incarnation
   AND id IN (SELECT m.id FROM json_each(:keys) AS asked CROSS JOIN main.message AS m ON m.key = asked.value)
   AND key IN (SELECT value FROM json_each(:keys));

-- drop_removed_ranges
-- A big delete's rows are removed up to a key.
DELETE FROM removal_range WHERE removal = :removal AND lo <= :key AND hi <= :key;

-- drop_removal_ranges
-- The first ranges of a big delete whose rows are gone, or that was given up.
DELETE FROM removal_range WHERE removal = :removal AND lo IN (
       SELECT lo FROM removal_range WHERE removal = :removal ORDER BY lo LIMIT :limit)
 RETURNING 1;

-- drop_removal
-- Nothing is left of a big delete.
DELETE FROM removal WHERE removal = :removal;

-- overlay_ranges_of
-- What the overlays of a session cover.
SELECT r.overlay, r.strand, r.lo, r.hi
  FROM overlay AS o CROSS JOIN overlay_range AS r ON r.overlay = o.overlay WHERE o.incarnation = :incarnation;

-- add_overlay
-- An overlay.
INSERT INTO overlay (incarnation, place, first, version, kind, role, tokens, bytes, created_at,
                     covered_messages, covered_bytes, covered_tokens, left_messages, left_bytes, left_tokens,
                     stale, id, from_id, to_id, summary)
VALUES (:incarnation, :place, :first, :version, :kind, :role, :tokens, :bytes, :created_at,
        :covered_messages, :covered_bytes, :covered_tokens, :left_messages, :left_bytes, :left_tokens,
        :stale, :id, :from_id, :to_id, :summary) RETURNING overlay;

-- add_overlay_range
-- A run of one strand that an overlay covers.
INSERT INTO overlay_range (strand, lo, overlay, hi) VALUES (:strand, :lo, :overlay, :hi);

-- find_overlay
-- An overlay by its id.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id,
       o.from_id, o.to_id, o.summary
  FROM overlay AS o WHERE o.incarnation = :incarnation AND o.id = :id;

-- overlays_of
-- The overlays of a session.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id,
       o.from_id, o.to_id, o.summary
  FROM overlay AS o WHERE o.incarnation = :incarnation;

-- overlays_ending
-- The overlays that end in a JSON list of key ranges, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM json_each(:ranges) AS r
 CROSS JOIN overlay AS o ON o.place BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]');

-- overlays_down
-- The overlays that end in a key range, the last first, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM overlay AS o WHERE o.place BETWEEN :lo AND :hi ORDER BY o.place DESC LIMIT :limit;

-- overlay_texts
-- What the overlays of a JSON list of numbers say, and of what.
SELECT o.overlay, o.from_id, o.to_id, o.summary
  FROM json_each(:overlays) AS asked CROSS JOIN overlay AS o ON o.overlay = asked.value;

-- sessions_with_stale_texts
-- Sessions with overlays whose text may say what was deleted or changed below them.
SELECT DISTINCT s.tenant, s.owner, s.id FROM overlay AS o JOIN session AS s ON s.incarnation = o.incarnation
 WHERE o.stale AND o.summary IS NOT NULL AND s.live;

-- overlays_over
-- Which overlays cover the places of a JSON list of keys.
SELECT asked.value, r.overlay
  FROM json_each(:keys) AS asked
 CROSS JOIN overlay_range AS r
    ON r.strand = asked.value >> 32 AND r.lo <= (asked.value & 4294967295) AND r.hi >= (asked.value & 4294967295);

-- overlays_by_number
-- The overlays of a JSON list of numbers, without what they say.
SELECT o.overlay, o.place, o.first, o.version, o.kind, o.role, o.tokens, o.bytes, o.created_at,
       o.covered_messages, o.covered_bytes, o.covered_tokens, o.left_messages, o.left_bytes, o.left_tokens, o.stale, o.id
  FROM json_each(:overlays) AS asked CROSS JOIN overlay AS o ON o.overlay = asked.value;

-- change_overlay
-- What is left below an overlay has changed.
UPDATE overlay SET left_messages = left_messages + :messages, left_bytes = left_bytes + :bytes,
                   left_tokens = left_tokens + :tokens, stale = 1
 WHERE overlay = :overlay;

-- restamp_below
-- What is left below an overlay has been counted anew.
UPDATE overlay SET left_tokens = left_tokens + :tokens WHERE overlay = :overlay;

-- restamp_overlay
-- Another count of the tokens of what an overlay shows.
UPDATE overlay SET tokens = :tokens WHERE incarnation = :incarnation AND id = :id RETURNING overlay;

-- drop_overlay
-- Remove an overlay.
DELETE FROM overlay WHERE overlay = :overlay;

-- drop_overlay_ranges
-- Remove what an overlay covers.
DELETE FROM overlay_range WHERE overlay = :overlay;

-- graft_overlays
-- Make the overlays of staged messages a session's own, numbered after its changes.
UPDATE overlay SET incarnation = :into, version = version + :version WHERE incarnation = :incarnation;

-- shared_overlays
-- The id of an overlay that two lives of sessions both have.
SELECT a.id FROM overlay AS a JOIN overlay AS b ON b.incarnation = :into AND b.id = a.id
 WHERE a.incarnation = :source LIMIT 1;

-- graft_changes
-- Hand the record of staged overlays over to the session they are added to.
UPDATE change SET session = :session, version = version + :version, incarnation = :incarnation
 WHERE session = :hidden AND kind IN ('overlay', 'compact');

-- purge_overlays
-- Remove the overlays of a life that is over; their ranges go first.
DELETE FROM overlay WHERE incarnation = :incarnation;

-- purge_overlay_ranges
-- Remove what the overlays of a life that is over cover.
DELETE FROM overlay_range WHERE overlay IN (SELECT overlay FROM overlay WHERE incarnation = :incarnation);

-- now
-- The time by the clock of the database's machine, in microseconds.
SELECT CAST(unixepoch('subsec') * 1000000 AS INTEGER);

-- find_lease
-- Who alone may write to a session.
SELECT until, token, holder FROM lease WHERE session = :session;

-- set_lease
-- Somebody alone may write to a session until a time.
INSERT INTO lease (session, until, token, holder) VALUES (:session, :until, :token, :holder)
    ON CONFLICT (session) DO UPDATE SET until = excluded.until, token = excluded.token, holder = excluded.holder;

-- renew_lease
-- For longer.
UPDATE lease SET until = :until WHERE session = :session;

-- drop_lease
-- Anybody may write to a session.
DELETE FROM lease WHERE session = :session;

-- find_claim
-- Who is compacting a session.
SELECT token, until FROM compaction_claim WHERE incarnation = :incarnation;

-- put_claim
-- Somebody is compacting a session.
INSERT INTO compaction_claim (incarnation, token, until) VALUES (:incarnation, :token, :until)
    ON CONFLICT (incarnation) DO UPDATE SET token = excluded.token, until = excluded.until;

-- drop_claim
-- Nobody is compacting a session any more.
DELETE FROM compaction_claim WHERE incarnation = :incarnation;

-- search_is_on
-- Whether the index has been asked for.
SELECT since FROM search_on LIMIT 1;

-- switch_search_on
-- From now on the index follows the data.
INSERT OR IGNORE INTO search_on (since) VALUES (:since);

-- switch_search_anew
-- The index is made anew; who brings it up to date as it was is waited for, and waits.
UPDATE search_on SET since = :since;

-- keep_search_on
-- The index follows the data, and is not emptied before this is over: there is one writer.
SELECT since FROM search_on LIMIT 1;

-- search_mark
-- A row if the index follows the data: whether it knows that a session was written to.
SELECT EXISTS (SELECT 1 FROM search_behind WHERE tenant = :tenant AND owner = :owner AND incarnation = :incarnation)
  FROM search_on LIMIT 1;

-- add_search_behind
-- A session has messages that are to be indexed.
INSERT OR IGNORE INTO search_behind (tenant, owner, incarnation) VALUES (:tenant, :owner, :incarnation);

-- mark_all_behind
-- Every session has messages that are to be indexed.
INSERT OR IGNORE INTO search_behind (tenant, owner, incarnation)
SELECT tenant, owner, incarnation FROM session WHERE live = 1;

-- drop_search_marks
-- A life has nothing to be indexed any more.
DELETE FROM search_behind WHERE incarnation = :incarnation;

-- search_behind
-- A scope's sessions that were written to since they were indexed, not those hidden.
SELECT s.tenant, s.owner, s.id FROM search_behind AS b
 CROSS JOIN session AS s ON s.incarnation = b.incarnation AND s.live = 1
 WHERE b.tenant = :tenant AND b.owner = :owner AND substr(s.id, 1, 12) <> 'plait:stage:';

-- search_all_behind
-- All sessions that were written to since they were indexed, not those hidden.
SELECT s.tenant, s.owner, s.id FROM search_behind AS b
 CROSS JOIN session AS s ON s.incarnation = b.incarnation AND s.live = 1
 WHERE substr(s.id, 1, 12) <> 'plait:stage:';

-- search_left
-- How many messages may be waiting to be indexed.
SELECT coalesce(sum(max(s.next_seq - 1 - coalesce(p.seq, 0), 0)), 0) FROM search_behind AS b
 CROSS JOIN session AS s ON s.incarnation = b.incarnation AND s.live = 1
  LEFT JOIN search_progress AS p ON p.incarnation = b.incarnation;

-- search_progress
-- Up to which seq a session's messages are indexed.
SELECT seq FROM search_progress WHERE incarnation = :incarnation;

-- save_search_progress
-- A session's messages are indexed up to a seq.
INSERT OR REPLACE INTO search_progress (incarnation, seq) VALUES (:incarnation, :seq);

-- lower_search_progress
-- Messages are added to a session whose seqs may have been passed.
UPDATE search_progress SET seq = min(seq, coalesce((
       SELECT min(m.key & 4294967295) - 1 FROM strand AS s
         JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32) | 4294967295
        WHERE s.incarnation = :source), seq))
 WHERE incarnation = :into;

-- drop_search_progress
-- A life has no messages any more.
DELETE FROM search_progress WHERE incarnation = :incarnation;

-- add_search_pending
-- What the index says of these messages, if it has them, is out of date.
INSERT OR IGNORE INTO search_pending (key)
SELECT asked.value FROM json_each(:keys) AS asked
 WHERE EXISTS (SELECT 1 FROM message_words_docsize WHERE id = asked.value);

-- search_pending
-- Some messages of whatever session that the index is out of date about, and where they are (here: all in one place).
SELECT key, NULL FROM search_pending ORDER BY key LIMIT :limit;

-- search_pending_of
-- A session's messages that the index is out of date about.
SELECT p.key FROM strand AS s
 CROSS JOIN search_pending AS p ON p.key BETWEEN s.strand << 32 AND (s.strand << 32) | 4294967295
 WHERE s.incarnation = :incarnation LIMIT :limit;

-- drop_search_pending
-- The index is up to date about these messages.
DELETE FROM search_pending WHERE key IN (SELECT value FROM json_each(:keys));

-- add_words
-- Index a message, anew if it was indexed.
INSERT OR REPLACE INTO message_words (rowid, words) VALUES (:key, :words);

-- drop_words
-- Take messages out of the index.
DELETE FROM message_words WHERE rowid IN (SELECT value FROM json_each(:keys));

-- clear_words
-- Empty the index.
INSERT INTO message_words (message_words) VALUES ('delete-all');

-- merge_words
-- Write the index anew without what was taken out of it.
INSERT INTO message_words (message_words) VALUES ('optimize');

-- clear_search_progress
-- Nothing is indexed.
DELETE FROM search_progress;

-- clear_search_behind
-- Nothing is to be indexed.
DELETE FROM search_behind;

-- clear_search_pending
-- Nothing is out of date.
DELETE FROM search_pending;

-- strand_numbers
-- The strands of a session.
SELECT strand FROM strand WHERE incarnation = :incarnation;

-- count_words
-- In how many messages some words are, and how many are indexed.
SELECT (SELECT count(*) FROM message_words WHERE message_words MATCH :words),
       (SELECT count(*) FROM message_words_docsize);

-- search_any_best
-- Messages of a key range that hold the words, whoever said them and whenever, best first.
SELECT w.rowid AS key, -w.rank FROM message_words AS w
 WHERE w.message_words MATCH :words AND w.rowid BETWEEN :lo AND :hi
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rank, w.rowid DESC LIMIT :limit;

-- search_any_newest
-- Messages of a key range that hold the words, whoever said them and whenever, newest first.
SELECT w.rowid AS key, 0.0 FROM message_words AS w
 WHERE w.message_words MATCH :words AND w.rowid BETWEEN :lo AND :hi
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rowid DESC LIMIT :limit;

-- search_best
-- Messages of a key range that hold the words, best first.
SELECT m.key, -w.rank, m.created_at, m.role FROM message_words AS w CROSS JOIN message AS m ON m.key = w.rowid
 WHERE w.message_words MATCH :words AND w.rowid BETWEEN :lo AND :hi
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role OR m.role IN (SELECT value FROM json_each(:roles)))
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rank, w.rowid DESC LIMIT :limit;

-- search_newest
-- Messages of a key range that hold the words, newest first.
SELECT m.key, 0.0, m.created_at, m.role FROM message_words AS w CROSS JOIN message AS m ON m.key = w.rowid
 WHERE w.message_words MATCH :words AND w.rowid BETWEEN :lo AND :hi
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role OR m.role IN (SELECT value FROM json_each(:roles)))
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rowid DESC LIMIT :limit;

-- search_scope_best
-- Messages of a scope's sessions that hold the words, best first.
SELECT m.key, -w.rank, m.created_at, m.role, s.id
  FROM message_words AS w CROSS JOIN message AS m ON m.key = w.rowid
 CROSS JOIN strand AS t ON t.strand = w.rowid >> 32
 CROSS JOIN session AS s ON s.incarnation = t.incarnation
 WHERE w.message_words MATCH :words AND s.tenant = :tenant AND s.owner = :owner AND s.live = 1
   AND substr(s.id, 1, 12) <> 'plait:stage:'
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role OR m.role IN (SELECT value FROM json_each(:roles)))
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rank, m.created_at DESC, w.rowid DESC LIMIT :limit;

-- search_scope_newest
-- Messages of a scope's sessions that hold the words, in no order that means anything.
SELECT m.key, 0.0, min(m.created_at, s.active_at), m.role, s.id
  FROM message_words AS w CROSS JOIN message AS m ON m.key = w.rowid
 CROSS JOIN strand AS t ON t.strand = w.rowid >> 32
 CROSS JOIN session AS s ON s.incarnation = t.incarnation
 WHERE w.message_words MATCH :words AND s.tenant = :tenant AND s.owner = :owner AND s.live = 1
   AND substr(s.id, 1, 12) <> 'plait:stage:'
   AND m.created_at >= :since AND m.created_at < :until
   AND (:any_role OR m.role IN (SELECT value FROM json_each(:roles)))
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = w.rowid)
 ORDER BY w.rowid DESC LIMIT :limit;

-- scope_sessions
-- The sessions of a scope, not those hidden.
SELECT tenant, owner, id FROM session
 WHERE tenant = :tenant AND owner = :owner AND live = 1 AND substr(id, 1, 12) <> 'plait:stage:';

-- find_shelf
-- Where a session's values stand.
SELECT shelf FROM shelf WHERE session = :session AND shelf IS NOT NULL;

-- add_shelf
-- A place for a session's values, or a new one for those of a session whose earlier ones are gone.
INSERT INTO shelf (session, shelf, base, next) VALUES (:session, :shelf, 0, 1)
    ON CONFLICT (session) DO UPDATE SET shelf = excluded.shelf, next = 1;

-- next_value
-- A number for a session's next value, with its shelf and where versions begin there.
UPDATE shelf SET next = next + 1 WHERE session = :session RETURNING shelf, base, next - 1;

-- leave_shelf
-- A session has no values any more; versions of later ones come after this one.
UPDATE shelf SET shelf = NULL, base = :base WHERE session = :session;

-- inherit_shelf
-- Versions of a hidden session's values come after those of the life before.
INSERT INTO shelf (session, shelf, base, next)
SELECT :hidden, NULL, base, 1 FROM shelf WHERE session = :session;

-- shelf_behind
-- By how much the versions of a hidden session's values fall short of those that are in use.
SELECT coalesce((SELECT base FROM shelf WHERE session = :session), 0) - base FROM shelf WHERE session = :hidden;

-- move_shelf
-- Hand the values of a row over to the row that takes its place.
UPDATE shelf SET session = :session, base = base + :behind WHERE session = :hidden;

-- raise_values
-- Number the values of a shelf after versions that are in use.
UPDATE value SET version = version + :behind WHERE value BETWEEN :lo AND :hi;

-- raise_value_texts
-- The same of what they say.
UPDATE value_text SET version = version + :behind WHERE value BETWEEN :lo AND :hi;

-- raise_value_slices
-- The same of its further pieces.
UPDATE value_slice SET version = version + :behind WHERE value BETWEEN :lo AND :hi;

-- drop_shelf
-- Forget where the values of a session stood that leaves no trace.
DELETE FROM shelf WHERE session = :session;

-- add_value
-- A value.
INSERT INTO value (value, shelf, label, key, version, there) VALUES (:value, :shelf, :label, :key, :version, :there);

-- set_value
-- Which version of a value is the newest, and whether that says something.
UPDATE value SET version = :version, there = :there WHERE value = :value;

-- add_value_text
-- What one version of a value says.
INSERT INTO value_text (value, version, bytes, tokens, created_at, flags, operation, about, body)
VALUES (:value, :version, :bytes, :tokens, :created_at, :flags, :operation, :about, :body);

-- add_value_slice
-- A further piece of a long value.
INSERT INTO value_slice (value, version, n, body) VALUES (:value, :version, :n, :body);

-- find_value
-- The newest version of a session's value; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.key = :key
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE s.session = :session;

-- value_versions
-- Versions of a session's value before one, newest first; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.key = :key
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version < :before
 WHERE s.session = :session ORDER BY t.version DESC LIMIT :limit;

-- values_from
-- A session's values of a label from a key on, in key order; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE s.session = :session ORDER BY v.key LIMIT :limit;

-- values_between
-- The same from a key on and before another.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1
   AND v.key >= :lo AND v.key < :hi
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE s.session = :session ORDER BY v.key LIMIT :limit;

-- value_stats_from
-- A session's values of a label from a key on without their content, in key order.
SELECT v.key, t.version, t.bytes, t.tokens, t.created_at, t.about
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE s.session = :session ORDER BY v.key LIMIT :limit;

-- value_stats_between
-- The same from a key on and before another.
SELECT v.key, t.version, t.bytes, t.tokens, t.created_at, t.about
  FROM shelf AS s CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1
   AND v.key >= :lo AND v.key < :hi
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE s.session = :session ORDER BY v.key LIMIT :limit;

-- values_by_number
-- The newest versions of a JSON list of values; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM json_each(:values) AS asked CROSS JOIN value AS v ON v.value = asked.value
 CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version;

-- value_by_number
-- The newest version of a value if it is of a label and there; a large one's body is left out, to be fetched by itself.
SELECT v.value, v.label, v.key, t.version, t.bytes, t.tokens, t.created_at, t.flags, t.operation, t.about,
       CASE WHEN t.bytes <= :large THEN CAST(t.body AS BLOB) END
  FROM value AS v CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE v.label = :label AND v.there = 1 AND v.value = :value;

-- count_values_from
-- How many values of a label a session has from a key on.
SELECT count(*) FROM shelf AS s
 CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo
 WHERE s.session = :session;

-- count_values_between
-- How many values of a label a session has from a key on and before another.
SELECT count(*) FROM shelf AS s
 CROSS JOIN value AS v ON v.shelf = s.shelf AND v.label = :label AND v.there = 1 AND v.key >= :lo AND v.key < :hi
 WHERE s.session = :session;

-- value_names
-- The labels and keys of a session's values after one, in order, those deleted too.
SELECT v.label, v.key FROM shelf AS s
 CROSS JOIN value AS v ON v.shelf = s.shelf AND (v.label, v.key) > (:label, :key)
 WHERE s.session = :session ORDER BY v.label, v.key LIMIT :limit;

-- value_body
-- The body of one version's row.
SELECT CAST(body AS BLOB) FROM value_text WHERE value = :value AND version = :version;

-- value_slices
-- The further pieces of one version.
SELECT CAST(body AS BLOB) FROM value_slice WHERE value = :value AND version = :version ORDER BY n;

-- add_value_pending
-- What the index says of a value, if it has it, is out of date.
INSERT OR IGNORE INTO value_pending (value)
SELECT :value FROM value_progress WHERE shelf = :value >> 32 AND value >= :value;

-- add_values_pending
-- What the index says of a JSON list of values, if it has them, is out of date.
INSERT OR IGNORE INTO value_pending (value)
SELECT asked.value FROM json_each(:values) AS asked
 WHERE EXISTS (SELECT 1 FROM value_words_docsize WHERE id = asked.value);

-- values_to_copy
-- The values that are there in a range of numbers, with the sizes of what they say.
SELECT v.value, v.label, v.key, v.version, t.bytes
  FROM value AS v CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
 WHERE v.value BETWEEN :lo AND :hi AND v.there = 1 ORDER BY v.value LIMIT :limit;

-- value_is_there
-- Whether a version says something.
SELECT body IS NOT NULL FROM value_text WHERE value = :value AND version = :version;

-- copy_value_text
-- Let a version of a value say what another one says.
INSERT INTO value_text (value, version, bytes, tokens, created_at, flags, operation, about, body)
SELECT :into, :as_version, bytes, tokens, created_at, flags, operation, about, body
  FROM value_text WHERE value = :value AND version = :version;

-- copy_value_slices
-- The same of its further pieces.
INSERT INTO value_slice (value, version, n, body)
SELECT :into, :as_version, n, body FROM value_slice WHERE value = :value AND version = :version;

-- values_written_since
-- What says which values were written in a session after a version.
SELECT data FROM change WHERE session = :session AND version > :version AND kind = 'context';

-- values_with_history
-- The next values of a shelf that have earlier versions.
SELECT v.value, v.version FROM value AS v
 WHERE v.value > :after AND v.value <= :hi
   AND EXISTS (SELECT 1 FROM value_text AS t WHERE t.value = v.value AND t.version < v.version)
 ORDER BY v.value LIMIT :limit;

-- version_from_end
-- The version of a value after which as many earlier ones are left as are to be kept beside the newest.
SELECT version FROM value_text WHERE value = :value AND version < :newest
 ORDER BY version DESC LIMIT 1 OFFSET :keep;

-- oldest_versions
-- The first versions of a value before the newest.
SELECT version, created_at FROM value_text WHERE value = :value AND version < :newest ORDER BY version LIMIT :limit;

-- prune_value_texts
-- Forget what the first versions of a value said.
DELETE FROM value_text WHERE value = :value AND version <= :upto;

-- prune_value_slices
-- The same of its further pieces.
DELETE FROM value_slice WHERE value = :value AND version <= :upto;

-- values_unindexed
-- A session's values that the index does not know as they are now, with their sizes: first those it was told of.
SELECT * FROM (
  SELECT p.value, t.bytes FROM shelf AS s
   CROSS JOIN value_pending AS p ON p.value BETWEEN s.shelf << 32 AND (s.shelf << 32) | 4294967295
   CROSS JOIN value AS v ON v.value = p.value
   CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
   WHERE s.session = :session LIMIT :limit)
 UNION ALL
SELECT * FROM (
  SELECT v.value, t.bytes FROM shelf AS s
    LEFT JOIN value_progress AS p ON p.shelf = s.shelf
   CROSS JOIN value AS v ON v.value > coalesce(p.value, s.shelf << 32) AND v.value <= (s.shelf << 32) | 4294967295
   CROSS JOIN value_text AS t ON t.value = v.value AND t.version = v.version
   WHERE s.session = :session ORDER BY v.value LIMIT :more);

-- values_gone
-- Values that the index is out of date about and that are not there any more, and where (here: all in one place).
SELECT p.value, NULL FROM value_pending AS p WHERE NOT EXISTS (SELECT 1 FROM value WHERE value = p.value) LIMIT :limit;

-- sessions_with_pending_values
-- Sessions with values that the index is out of date about.
SELECT DISTINCT x.tenant, x.owner, x.id FROM value_progress AS g
 CROSS JOIN shelf AS s ON s.shelf = g.shelf CROSS JOIN session AS x ON x.session = s.session
 WHERE EXISTS (SELECT 1 FROM value_pending AS p
                WHERE p.value BETWEEN s.shelf << 32 AND (s.shelf << 32) | 4294967295);

-- values_were_indexed
-- Whether the index has pages, also such as hold only what was taken out of it.
SELECT 1 FROM value_words_idx LIMIT 1;

-- add_value_words
-- Index a value.
INSERT INTO value_words (rowid, words) VALUES (:value, :words);

-- drop_value_words
-- Take values out of the index.
DELETE FROM value_words WHERE rowid IN (SELECT value FROM json_each(:values));

-- drop_value_pending
-- The index is up to date about these values.
DELETE FROM value_pending WHERE value IN (SELECT value FROM json_each(:values));

-- save_value_progress
-- A shelf is indexed up to a value.
INSERT INTO value_progress (shelf, value) VALUES (:shelf, :value)
    ON CONFLICT (shelf) DO UPDATE SET value = max(value, excluded.value);

-- merge_value_words
-- Write the index anew without what was taken out of it.
INSERT INTO value_words (value_words) VALUES ('optimize');

-- count_value_words
-- In how many values some words are, and how many are indexed.
SELECT (SELECT count(*) FROM value_words WHERE value_words MATCH :words), (SELECT count(*) FROM value_words_docsize);

-- search_values
-- Values of a shelf and a label that hold the words, best first.
SELECT w.rowid, -w.rank FROM value_words AS w CROSS JOIN value AS v ON v.value = w.rowid
 WHERE w.value_words MATCH :words AND w.rowid BETWEEN :lo AND :hi AND v.label = :label AND v.there = 1
   AND NOT EXISTS (SELECT 1 FROM value_pending WHERE value = w.rowid)
 ORDER BY w.rank, w.rowid DESC LIMIT :limit;

-- purge_value_slices
-- Remove some slices of a shelf that nobody has any more.
DELETE FROM value_slice
 WHERE rowid IN (SELECT rowid FROM value_slice WHERE value BETWEEN :lo AND :hi LIMIT :limit) RETURNING 1;

-- purge_value_texts
-- Remove some versions of a shelf that nobody has any more.
DELETE FROM value_text
 WHERE rowid IN (SELECT rowid FROM value_text WHERE value BETWEEN :lo AND :hi LIMIT :limit) RETURNING 1;

-- purge_values
-- Remove some values of a shelf that nobody has any more.
DELETE FROM value
 WHERE value IN (SELECT value FROM value WHERE value BETWEEN :lo AND :hi LIMIT :limit) RETURNING value;

-- drop_value_progress
-- A shelf has no values any more.
DELETE FROM value_progress WHERE shelf = :shelf;

-- find_record
-- One record of a life.
SELECT body FROM record WHERE incarnation = :incarnation AND key = :key;

-- records_up
-- The next records between two keys, in their order.
SELECT key, body, length(body) FROM record
 WHERE incarnation = :incarnation AND key >= :first AND key < :end ORDER BY key LIMIT :limit;

-- records_down
-- The same the other way round.
SELECT key, body, length(body) FROM record
 WHERE incarnation = :incarnation AND key >= :first AND key < :end ORDER BY key DESC LIMIT :limit;

-- put_record
-- Write a record, over the one that is there.
INSERT INTO record (incarnation, key, body) VALUES (:incarnation, :key, :body)
    ON CONFLICT (incarnation, key) DO UPDATE SET body = excluded.body;

-- keep_record
-- Write a record unless there is one; answers a row if there was none.
INSERT INTO record (incarnation, key, body) VALUES (:incarnation, :key, :body)
    ON CONFLICT (incarnation, key) DO NOTHING RETURNING 1;

-- drop_record
-- Remove a record.
DELETE FROM record WHERE incarnation = :incarnation AND key = :key;

-- purge_records
-- Remove some records of a life that is over.
DELETE FROM record
 WHERE rowid IN (SELECT rowid FROM record WHERE incarnation = :incarnation LIMIT :limit) RETURNING 1;
