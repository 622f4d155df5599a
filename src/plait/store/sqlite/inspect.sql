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
