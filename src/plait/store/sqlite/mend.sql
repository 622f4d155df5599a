-- strands_without_session
-- Let them be removed as those of a life that is over.
INSERT OR IGNORE INTO purge (incarnation)
SELECT DISTINCT incarnation FROM strand AS s
 WHERE NOT EXISTS (SELECT 1 FROM session WHERE incarnation = s.incarnation AND live = 1);

-- messages_without_id
-- Write the ids anew.
INSERT OR IGNORE INTO message_id (incarnation, id, key)
SELECT s.incarnation, m.id, m.key FROM message AS m JOIN strand AS s ON s.strand = m.key >> 32;

-- ids_without_message
-- Remove the ids.
DELETE FROM message_id WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = message_id.key AND m.id = message_id.id);

-- slices_without_message
-- Remove the slices.
DELETE FROM slice WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = slice.key AND m.flags & 2);

-- media_without_message
-- Remove the references.
DELETE FROM attachment_ref WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = attachment_ref.key AND m.flags & 4);

-- unused_attachments
-- Remove the payloads; their pieces go next.
DELETE FROM attachment
 WHERE NOT EXISTS (SELECT 1 FROM attachment_ref AS r WHERE r.attachment = attachment.attachment)
   AND NOT EXISTS (SELECT 1 FROM upload AS u WHERE u.attachment = attachment.attachment);

-- chunks_without_attachment
-- Remove the pieces.
DELETE FROM chunk WHERE NOT EXISTS (SELECT 1 FROM attachment AS a WHERE a.attachment = chunk.attachment);

-- uploads_without_attachment
-- Remove the claims.
DELETE FROM upload WHERE NOT EXISTS (SELECT 1 FROM attachment AS a WHERE a.attachment = upload.attachment);

-- wrong_totals
-- Count anew; the path is counted when asked.
UPDATE session SET (messages, bytes, tokens) = (
       SELECT count(m.key), coalesce(sum(m.bytes), 0), coalesce(sum(m.tokens), 0)
         FROM strand AS r JOIN message AS m ON m.key BETWEEN r.strand << 32 AND (r.strand << 32) | 4294967295
        WHERE r.incarnation = session.incarnation AND session.live),
       path_messages = NULL, path_bytes = NULL, path_tokens = NULL;

-- activity_missing
-- Write the listing anew.
INSERT OR IGNORE INTO activity (tenant, owner, bucket, session)
SELECT tenant, owner, active_at / 60000000, session FROM session WHERE live = 1 AND id NOT GLOB 'plait:stage:*';

-- activity_unfounded
-- Remove the listing.
DELETE FROM activity WHERE NOT EXISTS (SELECT 1 FROM session AS s
 WHERE s.session = activity.session AND s.live = 1 AND s.tenant = activity.tenant AND s.owner = activity.owner
   AND activity.bucket = s.active_at / 60000000);
