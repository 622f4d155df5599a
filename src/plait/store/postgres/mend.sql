-- leaves_elsewhere
-- The newest message of the session becomes its leaf.
UPDATE plait.session AS s SET path_messages = NULL, path_bytes = NULL, path_tokens = NULL,
       hidden_messages = NULL, hidden_bytes = NULL, hidden_tokens = NULL, leaf = coalesce((
       SELECT newest FROM (SELECT (SELECT max(m.key) FROM plait.message AS m
                                    WHERE m.home = r.home AND m.key BETWEEN (r.strand << 32) AND ((r.strand << 32) | 4294967295)) AS newest
                             FROM plait.strand AS r WHERE r.home = s.home AND r.incarnation = s.incarnation) AS ends
        WHERE newest IS NOT NULL ORDER BY newest & 4294967295 DESC LIMIT 1), 0)
 WHERE s.live = 1 AND s.leaf <> 0
   AND NOT EXISTS (SELECT 1 FROM plait.strand AS x
                    WHERE x.home = s.home AND x.strand = s.leaf >> 32 AND x.incarnation = s.incarnation);

-- counters_behind
-- Go on after the highest number given.
UPDATE plait.counter AS c SET value = greatest(c.value, CASE c.name
       WHEN 'strand' THEN (SELECT coalesce(max(s.strand), 0) FROM plait.strand AS s WHERE s.home = c.home)
       ELSE (SELECT coalesce(max(s.incarnation), 0) FROM plait.session AS s WHERE s.home = c.home) END)
 WHERE c.name IN ('strand', 'incarnation');

-- purges_of_living_sessions
-- Do not remove them.
DELETE FROM plait.purge AS p USING plait.session AS s
 WHERE s.home = p.home AND s.incarnation = p.incarnation AND s.live = 1;

-- seqs_past_the_counter
-- Go on after the highest seq given.
UPDATE plait.session AS s SET next_seq = t.newest + 1
  FROM (SELECT x.home, x.session, max(m.key & 4294967295) AS newest FROM plait.session AS x
          JOIN plait.strand AS r ON r.home = x.home AND r.incarnation = x.incarnation
          JOIN plait.message AS m
            ON m.home = r.home AND m.key BETWEEN (r.strand << 32) AND ((r.strand << 32) | 4294967295)
         GROUP BY x.home, x.session) AS t
 WHERE s.home = t.home AND s.session = t.session AND s.live = 1 AND s.next_seq <= t.newest;

-- messages_without_id
-- Write the ids anew.
INSERT INTO plait.message_id (home, incarnation, id, key)
SELECT m.home, s.incarnation, m.id, m.key FROM plait.message AS m
  JOIN plait.strand AS s ON s.home = m.home AND s.strand = m.key >> 32
    ON CONFLICT DO NOTHING;

-- ids_without_message
-- Remove the ids.
DELETE FROM plait.message_id AS i
 WHERE NOT EXISTS (SELECT 1 FROM plait.message AS m WHERE m.home = i.home AND m.key = i.key AND m.id = i.id);

-- slices_without_message
-- Remove the slices.
DELETE FROM plait.slice AS s
 WHERE NOT EXISTS (SELECT 1 FROM plait.message AS m WHERE m.home = s.home AND m.key = s.key AND m.flags & 2 <> 0);

-- media_without_message
-- Remove the references.
DELETE FROM plait.attachment_ref AS r
 WHERE NOT EXISTS (SELECT 1 FROM plait.message AS m WHERE m.home = r.home AND m.key = r.key AND m.flags & 4 <> 0);

-- unused_attachments
-- Remove the payloads; their pieces go next.
DELETE FROM plait.attachment AS a
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment_ref AS r WHERE r.attachment = a.attachment)
   AND NOT EXISTS (SELECT 1 FROM plait.upload AS u WHERE u.scope = a.scope AND u.attachment = a.attachment);

-- chunks_without_attachment
-- Remove the pieces.
DELETE FROM plait.chunk AS c
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment AS a WHERE a.scope = c.scope AND a.attachment = c.attachment);

-- uploads_without_attachment
-- Remove the claims.
DELETE FROM plait.upload AS u
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment AS a WHERE a.scope = u.scope AND a.attachment = u.attachment);

-- wrong_totals
-- Count anew; the path is counted when asked.
UPDATE plait.session AS s SET messages = t.messages, bytes = t.bytes, tokens = t.tokens,
       path_messages = NULL, path_bytes = NULL, path_tokens = NULL
  FROM (SELECT x.home, x.session, count(m.key) AS messages, coalesce(sum(m.bytes), 0)::bigint AS bytes,
               coalesce(sum(m.tokens), 0)::bigint AS tokens
          FROM plait.session AS x
          LEFT JOIN plait.strand AS r ON r.home = x.home AND r.incarnation = x.incarnation AND x.live = 1
          LEFT JOIN plait.message AS m
            ON m.home = r.home AND m.key BETWEEN (r.strand << 32) AND ((r.strand << 32) | 4294967295)
         GROUP BY x.home, x.session) AS t
 WHERE s.home = t.home AND s.session = t.session
   AND (s.messages, s.bytes, s.tokens) <> (t.messages, t.bytes, t.tokens);

-- activity_missing
-- Write the listing anew.
INSERT INTO plait.activity (home, tenant, owner, bucket, session)
SELECT s.home, s.tenant, s.owner, s.active_at / 60000000, s.session FROM plait.session AS s
 WHERE s.live = 1 AND substr(s.id, 1, 12) <> 'plait:stage:' AND s.id <> 'plait:shared'
    ON CONFLICT DO NOTHING;

-- activity_unfounded
-- Remove the listing.
DELETE FROM plait.activity AS a WHERE NOT EXISTS (SELECT 1 FROM plait.session AS s
 WHERE s.home = a.home AND s.session = a.session AND s.live = 1 AND s.tenant = a.tenant AND s.owner = a.owner
   AND a.bucket = s.active_at / 60000000);

-- overlays_without_session
-- Remove the overlays; what they cover goes next.
DELETE FROM plait.overlay AS o
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x
                    WHERE x.home = o.home AND x.incarnation = o.incarnation AND x.live = 1)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = o.home AND p.incarnation = o.incarnation);

-- records_without_session
-- Remove the records.
DELETE FROM plait.record AS r
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x
                    WHERE x.home = r.home AND x.incarnation = r.incarnation AND x.live = 1)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = r.home AND p.incarnation = r.incarnation);

-- ranges_without_overlay
-- Remove what they cover.
DELETE FROM plait.overlay_range AS r
 WHERE NOT EXISTS (SELECT 1 FROM plait.overlay AS o WHERE o.home = r.home AND o.overlay = r.overlay);

-- overlays_that_lie_nowhere
-- Remove the overlays: what they covered is seen again. Their ranges and counts are mended with those rules.
DELETE FROM plait.overlay AS d WHERE (d.home, d.overlay) IN (
SELECT o.home, o.overlay FROM plait.overlay AS o
  LEFT JOIN plait.overlay_range AS r ON r.home = o.home AND r.overlay = o.overlay
  LEFT JOIN plait.strand AS s ON s.home = o.home AND s.strand = r.strand
 WHERE r.overlay IS NULL OR s.strand IS NULL OR s.incarnation <> o.incarnation OR r.lo > r.hi
    OR r.lo < o.first OR r.hi > (o.place & 4294967295)
    OR NOT EXISTS (SELECT 1 FROM plait.overlay_range AS x
                    WHERE x.home = o.home AND x.overlay = o.overlay AND x.strand = o.place >> 32
                      AND x.hi = (o.place & 4294967295)));

-- wrong_overlay_totals
-- Count anew; what paths show is counted when asked.
UPDATE plait.overlay AS o SET left_messages = t.messages, left_bytes = t.bytes, left_tokens = t.tokens
  FROM (SELECT r.home, r.overlay, count(m.key) AS messages, coalesce(sum(m.bytes), 0)::bigint AS bytes,
               coalesce(sum(m.tokens), 0)::bigint AS tokens
          FROM plait.overlay_range AS r
          LEFT JOIN plait.message AS m
            ON m.home = r.home AND m.key BETWEEN ((r.strand << 32) | r.lo) AND ((r.strand << 32) | r.hi)
         GROUP BY r.home, r.overlay) AS t
 WHERE t.home = o.home AND t.overlay = o.overlay;

-- wrong_overlay_counts
-- Count anew.
UPDATE plait.session AS s SET overlays = (
       SELECT count(*) FROM plait.overlay AS o
        WHERE o.home = s.home AND o.incarnation = s.incarnation AND s.live = 1)
 WHERE s.overlays <> (SELECT count(*) FROM plait.overlay AS o
                       WHERE o.home = s.home AND o.incarnation = s.incarnation AND s.live = 1);

-- messages_not_indexed
-- The next search goes on before them.
INSERT INTO plait.search_behind (home, tenant, owner, incarnation)
SELECT x.home, x.tenant, x.owner, x.incarnation FROM plait.session AS x
  JOIN plait.search_progress AS p ON p.home = x.home AND p.incarnation = x.incarnation
 WHERE x.live = 1 ON CONFLICT DO NOTHING;
UPDATE plait.search_progress AS p SET seq = t.first - 1
  FROM (SELECT s.home, s.incarnation, min(m.key & 4294967295) AS first FROM plait.strand AS s
          JOIN plait.message AS m ON m.home = s.home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | 4294967295)
         WHERE NOT EXISTS (SELECT 1 FROM plait.message_words AS w WHERE w.home = m.home AND w.key = m.key)
         GROUP BY s.home, s.incarnation) AS t
 WHERE t.home = p.home AND t.incarnation = p.incarnation AND t.first <= p.seq;

-- values_without_session
-- Remove them; what they say is removed next.
DELETE FROM plait.value_words AS w USING plait.value AS v
 WHERE v.home = w.home AND v.value = w.value
   AND NOT EXISTS (SELECT 1 FROM plait.shelf AS s WHERE s.home = v.home AND s.shelf = v.shelf)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = v.home AND p.incarnation = v.shelf);
DELETE FROM plait.value AS v
 WHERE NOT EXISTS (SELECT 1 FROM plait.shelf AS s WHERE s.home = v.home AND s.shelf = v.shelf)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = v.home AND p.incarnation = v.shelf);

-- index_entries_without_message
-- Take them out.
DELETE FROM plait.message_words AS w
 WHERE NOT EXISTS (SELECT 1 FROM plait.message AS m WHERE m.home = w.home AND m.key = w.key);

-- shelves_without_session
-- Nobody has them; what stands there is removed next.
DELETE FROM plait.shelf AS s
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x WHERE x.home = s.home AND x.session = s.session AND x.live = 1)
   AND (s.shelf IS NOT NULL
    OR NOT EXISTS (SELECT 1 FROM plait.session AS x WHERE x.home = s.home AND x.session = s.session));

-- versions_without_value
-- Remove them.
DELETE FROM plait.value_text AS t
 WHERE NOT EXISTS (SELECT 1 FROM plait.value AS v WHERE v.home = t.home AND v.value = t.value)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = t.home AND p.incarnation = t.value >> 32);

-- slices_without_version
-- Remove them.
DELETE FROM plait.value_slice AS s
 WHERE NOT EXISTS (SELECT 1 FROM plait.value_text AS t
                    WHERE t.home = s.home AND t.value = s.value AND t.version = s.version AND t.flags & 2 <> 0)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = s.home AND p.incarnation = s.value >> 32);

-- values_at_another_version
-- The newest version that there is counts; a value without any is left as it is.
UPDATE plait.value AS v SET version = t.version, there = (t.body IS NOT NULL)::int
  FROM plait.value_text AS t
 WHERE t.home = v.home AND t.value = v.value
   AND t.version = (SELECT max(x.version) FROM plait.value_text AS x WHERE x.home = v.home AND x.value = v.value);

-- values_past_the_counter
-- The counter goes on after them.
UPDATE plait.shelf AS s
   SET next = 1 + coalesce((SELECT max(v.value & 4294967295) FROM plait.value AS v
                             WHERE v.home = s.home AND v.shelf = s.shelf), 0)
 WHERE s.shelf IS NOT NULL;
