-- payloads
-- Payloads that are whole, with the hash of what they should be.
SELECT attachment, hash FROM attachment WHERE hash IS NOT NULL ORDER BY attachment;

-- pieces
-- The pieces of a payload; what is not bytes is as good as nothing.
SELECT iif(typeof(data) = 'blob', data, zeroblob(0)) FROM chunk WHERE attachment = :attachment ORDER BY n;

-- users_of_payload
-- Messages that use a payload.
SELECT m.id FROM attachment_ref AS r JOIN message AS m ON m.key = r.key WHERE r.attachment = :attachment LIMIT 3;

-- path_totals_kept
-- Sessions that keep the totals of their active path.
SELECT session, id, leaf, path_messages, path_bytes, path_tokens FROM session
 WHERE live = 1 AND path_messages IS NOT NULL;

-- forget_path_totals
-- Let them be counted when asked.
UPDATE session SET path_messages = NULL, path_bytes = NULL, path_tokens = NULL WHERE session = :session;

-- schema
-- The tables and indexes that are there, but for those that SQLite makes itself.
SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL
 AND name NOT LIKE 'sqlite~_%' ESCAPE '~' ORDER BY type DESC, name;

-- index_entry
-- How many words the search index has of a message that it is not known to be out of date about.
SELECT sz FROM message_words_docsize WHERE id = :key AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = id);

-- index_holds
-- Whether the search index has all these words of a message.
SELECT 1 FROM message_words WHERE message_words MATCH :words AND rowid = :key;

-- index_again
-- Let the next search index a message anew.
INSERT OR IGNORE INTO search_pending (key) VALUES (:key);

-- mark_pending_behind
-- Let the next search of whatever these messages are in bring the index up to date first.
INSERT OR IGNORE INTO search_behind (tenant, owner, incarnation)
SELECT s.tenant, s.owner, s.incarnation FROM search_pending AS p
  JOIN strand AS t ON t.strand = p.key >> 32
  JOIN session AS s ON s.incarnation = t.incarnation AND s.live = 1;

-- values_in_index
-- Values that the index is not known to be out of date about, with how many words it has of each; not what is being removed.
SELECT id, sz FROM value_words_docsize
 WHERE NOT EXISTS (SELECT 1 FROM value_pending WHERE value = id)
   AND NOT EXISTS (SELECT 1 FROM purge WHERE incarnation = id >> 32);

-- value_index_holds
-- Whether the index has all these words of a value.
SELECT 1 FROM value_words WHERE value_words MATCH :words AND rowid = :value;

-- value_again
-- Let the next search index a value anew, or take it out.
INSERT OR IGNORE INTO value_pending (value) VALUES (:value);
