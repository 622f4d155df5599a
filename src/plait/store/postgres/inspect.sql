-- all_sessions
-- The names of the sessions that are there, those that their scopes share too.
SELECT tenant, owner, id FROM plait.session
 WHERE live = 1 AND substr(id, 1, 12) <> 'plait:stage:' ORDER BY tenant, owner, id;

-- payloads
-- Payloads that are whole, with the hash of what they should be.
SELECT scope, attachment, hash FROM plait.attachment WHERE hash IS NOT NULL ORDER BY scope, attachment;

-- piece
-- One piece of a payload.
SELECT data FROM plait.chunk WHERE scope = :scope AND attachment = :attachment AND n = :n;

-- payload_is_there
-- Whether a payload has not been removed meanwhile.
SELECT 1 FROM plait.attachment WHERE scope = :scope AND attachment = :attachment;

-- users_of_payload
-- Messages that use a payload.
SELECT m.id FROM plait.attachment_ref AS r JOIN plait.message AS m ON m.home = r.home AND m.key = r.key
 WHERE r.attachment = :attachment LIMIT 3;

-- forget_path_totals
-- Let a session's totals of its path be counted when asked.
UPDATE plait.session SET path_messages = NULL, path_bytes = NULL, path_tokens = NULL
 WHERE home = :home AND session = :session;

-- vacuum
-- What gives the room of deleted rows back to each of plait's tables, and whether this user may do it.
SELECT format('VACUUM (ANALYZE) %I.%I', n.nspname, c.relname), pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'plait' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1;

-- vacuum_all
-- What writes each of them anew.
SELECT format('VACUUM (FULL, ANALYZE) %I.%I', n.nspname, c.relname), pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'plait' AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1;

-- invalid_indexes
-- Indexes that are not there or that the server does not use, as a failed making of one leaves them.
SELECT c.relname FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'plait' AND NOT (i.indisvalid AND i.indisready);

-- lock_sessions
-- Let nobody write, but everybody read, until this transaction has ended.
LOCK TABLE plait.session IN EXCLUSIVE MODE;

-- values_in_index
-- Values of a session that the index is not known to be out of date about; not what is being removed.
SELECT w.value FROM plait.value_words AS w
 WHERE w.home = :home
   AND NOT EXISTS (SELECT 1 FROM plait.value_pending AS x WHERE x.home = w.home AND x.value = w.value)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = w.home AND p.incarnation = w.value >> 32)
 ORDER BY w.value;

-- messages_indexed_otherwise
-- Messages that are indexed with other words than these, if the index is not known to be out of date about them.
SELECT w.key FROM unnest(:keys::bigint[], :words::text[]) AS t (key, words)
  JOIN plait.message_words AS w ON w.home = :home AND w.key = t.key
 WHERE w.words <> t.words::tsvector
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS x WHERE x.home = w.home AND x.key = w.key)
 ORDER BY w.key;

-- mark_pending_behind
-- Let the next search of whatever these messages are in bring the index up to date first.
INSERT INTO plait.search_behind (home, tenant, owner, incarnation)
SELECT DISTINCT s.home, s.tenant, s.owner, s.incarnation FROM plait.search_pending AS p
  JOIN plait.strand AS t ON t.home = p.home AND t.strand = p.key >> 32
  JOIN plait.session AS s ON s.home = t.home AND s.incarnation = t.incarnation AND s.live = 1
    ON CONFLICT DO NOTHING;

-- values_indexed_otherwise
-- The same of values.
SELECT w.value FROM unnest(:values::bigint[], :words::text[]) AS t (value, words)
  JOIN plait.value_words AS w ON w.home = :home AND w.value = t.value
 WHERE w.words <> t.words::tsvector
   AND NOT EXISTS (SELECT 1 FROM plait.value_pending AS x WHERE x.home = w.home AND x.value = w.value)
 ORDER BY w.value;
