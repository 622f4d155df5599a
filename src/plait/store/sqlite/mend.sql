-- leaves_elsewhere
-- The newest message of the session becomes its leaf.
UPDATE session SET path_messages = NULL, path_bytes = NULL, path_tokens = NULL,
       hidden_messages = NULL, hidden_bytes = NULL, hidden_tokens = NULL, leaf = coalesce((
       SELECT newest FROM (SELECT (SELECT max(key) FROM message
                                    WHERE key BETWEEN strand << 32 AND (strand << 32) | 4294967295) AS newest
                             FROM strand WHERE incarnation = session.incarnation)
        WHERE newest IS NOT NULL ORDER BY newest & 4294967295 DESC LIMIT 1), 0)
 WHERE live = 1 AND leaf <> 0
   AND NOT EXISTS (SELECT 1 FROM strand WHERE strand = session.leaf >> 32 AND incarnation = session.incarnation);

-- counters_behind
-- Go on after the highest number given.
UPDATE counter SET value = max(value, CASE name
       WHEN 'strand' THEN (SELECT coalesce(max(strand), 0) FROM strand)
       ELSE (SELECT coalesce(max(incarnation), 0) FROM session) END);

-- purges_of_living_sessions
-- Do not remove them.
DELETE FROM purge WHERE incarnation IN (SELECT incarnation FROM session WHERE live = 1);

-- seqs_past_the_counter
-- Go on after the highest seq given.
UPDATE session SET next_seq = 1 + (SELECT max(m.key & 4294967295) FROM strand AS r
         JOIN message AS m ON m.key BETWEEN r.strand << 32 AND (r.strand << 32) | 4294967295
        WHERE r.incarnation = session.incarnation)
 WHERE live = 1 AND next_seq <= (SELECT max(m.key & 4294967295) FROM strand AS r
         JOIN message AS m ON m.key BETWEEN r.strand << 32 AND (r.strand << 32) | 4294967295
        WHERE r.incarnation = session.incarnation);

-- messages_without_id
-- Write the ids anew.
INSERT OR IGNORE INTO main.message_id (incarnation, id, key)
SELECT s.incarnation, m.id, m.key FROM message AS m JOIN strand AS s ON s.strand = m.key >> 32;

-- ids_without_message
-- Remove the ids.
DELETE FROM main.message_id WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = message_id.key AND m.id = message_id.id);

-- slices_without_message
-- Remove the slices.
DELETE FROM main.slice WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = slice.key AND m.flags & 2);

-- media_without_message
-- Remove the references.
DELETE FROM main.attachment_ref WHERE NOT EXISTS (SELECT 1 FROM message AS m WHERE m.key = attachment_ref.key AND m.flags & 4);

-- unused_attachments
-- Remove the payloads; their pieces go next.
DELETE FROM attachment
 WHERE NOT EXISTS (SELECT 1 FROM main.attachment_ref AS r WHERE r.attachment = attachment.attachment)
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
SELECT tenant, owner, active_at / 60000000, session FROM session WHERE live = 1 AND id NOT GLOB 'plait:stage:*' AND id <> 'plait:shared';

-- activity_unfounded
-- Remove the listing.
DELETE FROM activity WHERE NOT EXISTS (SELECT 1 FROM session AS s
 WHERE s.session = activity.session AND s.live = 1 AND s.tenant = activity.tenant AND s.owner = activity.owner
   AND activity.bucket = s.active_at / 60000000);

-- overlays_without_session
-- Remove the overlays; what they cover goes next.
DELETE FROM overlay
 WHERE NOT EXISTS (SELECT 1 FROM session AS s WHERE s.incarnation = overlay.incarnation AND s.live = 1)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = overlay.incarnation);

-- records_without_session
-- Remove the records.
DELETE FROM record
 WHERE NOT EXISTS (SELECT 1 FROM session AS s WHERE s.incarnation = record.incarnation AND s.live = 1)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = record.incarnation);

-- ranges_without_overlay
-- Remove what they cover.
DELETE FROM overlay_range WHERE NOT EXISTS (SELECT 1 FROM overlay AS o WHERE o.overlay = overlay_range.overlay);

-- overlays_that_lie_nowhere
-- Remove the overlays: what they covered is seen again.
DELETE FROM overlay WHERE overlay IN (
SELECT o.overlay FROM overlay AS o
  LEFT JOIN overlay_range AS r ON r.overlay = o.overlay
  LEFT JOIN strand AS s ON s.strand = r.strand
 WHERE r.overlay IS NULL OR s.strand IS NULL OR s.incarnation <> o.incarnation OR r.lo > r.hi
    OR r.lo < o.first OR r.hi > (o.place & 4294967295)
    OR NOT EXISTS (SELECT 1 FROM overlay_range AS x WHERE x.overlay = o.overlay AND x.strand = o.place >> 32
                      AND x.hi = (o.place & 4294967295)));
DELETE FROM overlay_range WHERE NOT EXISTS (SELECT 1 FROM overlay AS o WHERE o.overlay = overlay_range.overlay);
UPDATE session SET hidden_messages = NULL, hidden_bytes = NULL, hidden_tokens = NULL;

-- wrong_overlay_totals
-- Count anew, and what the path shows is counted when asked.
UPDATE overlay SET (left_messages, left_bytes, left_tokens) = (
       SELECT count(m.key), coalesce(sum(m.bytes), 0), coalesce(sum(m.tokens), 0)
         FROM overlay_range AS r
         LEFT JOIN message AS m ON m.key BETWEEN (r.strand << 32 | r.lo) AND (r.strand << 32 | r.hi)
        WHERE r.overlay = overlay.overlay);
UPDATE session SET hidden_messages = NULL, hidden_bytes = NULL, hidden_tokens = NULL;

-- wrong_overlay_counts
-- Count anew.
UPDATE session SET overlays = (SELECT count(*) FROM overlay AS o WHERE o.incarnation = session.incarnation AND session.live),
       hidden_messages = NULL, hidden_bytes = NULL, hidden_tokens = NULL;

-- messages_not_indexed
-- The next search indexes them.
INSERT OR IGNORE INTO search_pending (key)
SELECT m.key FROM search_progress AS p
  JOIN strand AS s ON s.incarnation = p.incarnation
  JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32 | p.seq)
 WHERE NOT EXISTS (SELECT 1 FROM message_words_docsize WHERE id = m.key);

-- index_entries_without_message
-- The next search takes them out.
INSERT OR IGNORE INTO search_pending (key)
SELECT d.id FROM message_words_docsize AS d WHERE NOT EXISTS (SELECT 1 FROM main.message WHERE key = d.id);

-- values_without_session
-- Leave them to the purge, which removes them with all they say.
INSERT OR IGNORE INTO purge (incarnation) SELECT DISTINCT v.shelf FROM value AS v
 WHERE NOT EXISTS (SELECT 1 FROM shelf AS s WHERE s.shelf = v.shelf);

-- shelves_without_session
-- Nobody has them; what stands there is removed next.
DELETE FROM shelf WHERE NOT EXISTS (SELECT 1 FROM session AS x WHERE x.session = shelf.session AND x.live = 1)
   AND (shelf IS NOT NULL OR NOT EXISTS (SELECT 1 FROM session AS x WHERE x.session = shelf.session));

-- versions_without_value
-- Remove them.
DELETE FROM value_text WHERE NOT EXISTS (SELECT 1 FROM value AS v WHERE v.value = value_text.value)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = value_text.value >> 32);

-- slices_without_version
-- Remove them.
DELETE FROM value_slice
 WHERE NOT EXISTS (SELECT 1 FROM value_text AS t
                    WHERE t.value = value_slice.value AND t.version = value_slice.version AND t.flags & 2)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = value_slice.value >> 32);

-- values_at_another_version
-- The newest version that there is counts; a value without any is left as it is.
UPDATE value SET (version, there) = (
       SELECT t.version, t.body IS NOT NULL FROM value_text AS t
        WHERE t.value = value.value ORDER BY t.version DESC LIMIT 1)
 WHERE EXISTS (SELECT 1 FROM value_text AS t WHERE t.value = value.value);

-- values_past_the_counter
-- The counter goes on after them.
UPDATE shelf SET next = 1 + coalesce((SELECT max(v.value & 4294967295) FROM value AS v WHERE v.shelf = shelf.shelf), 0)
 WHERE shelf IS NOT NULL;
