-- messages_without_strand
-- Messages in a strand that is not there.
SELECT m.id, m.key FROM plait.message AS m
 WHERE NOT EXISTS (SELECT 1 FROM plait.strand AS s WHERE s.home = m.home AND s.strand = m.key >> 32);

-- strands_without_session
-- Strands of a life that no session has and that is not being removed.
SELECT s.home, s.strand FROM plait.strand AS s
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x
                    WHERE x.home = s.home AND x.incarnation = s.incarnation AND x.live = 1)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = s.home AND p.incarnation = s.incarnation);

-- strands_that_hang_nowhere
-- Strands that fork off one that is not there, is another session's, or comes after.
SELECT s.home, s.strand, s.parent, s.fork
  FROM plait.strand AS s LEFT JOIN plait.strand AS p ON p.home = s.home AND p.strand = s.parent
 WHERE s.parent <> 0 AND (p.strand IS NULL OR p.incarnation <> s.incarnation OR p.strand = s.strand
    OR EXISTS (SELECT 1 FROM plait.strand AS x WHERE x.home = s.home AND x.strand = p.parent AND x.parent = s.strand)
    OR p.parent = s.strand);

-- leaves_elsewhere
-- Sessions whose active leaf lies in a strand that is not their own.
SELECT s.id, s.leaf FROM plait.session AS s
 WHERE s.live = 1 AND s.leaf <> 0
   AND NOT EXISTS (SELECT 1 FROM plait.strand AS x
                    WHERE x.home = s.home AND x.strand = s.leaf >> 32 AND x.incarnation = s.incarnation);

-- counters_behind
-- Counters that would give a number again.
SELECT c.home, c.name, c.value FROM plait.counter AS c
 WHERE (c.name = 'strand'
        AND c.value < (SELECT coalesce(max(s.strand), 0) FROM plait.strand AS s WHERE s.home = c.home))
    OR (c.name = 'incarnation'
        AND c.value < (SELECT coalesce(max(s.incarnation), 0) FROM plait.session AS s WHERE s.home = c.home));

-- damaged_catalogue_entries
-- Sessions whose metadata or state does not even begin and end as an object does; the rest is seen when it is read.
SELECT i.home, i.session FROM plait.info AS i
 WHERE i.metadata NOT LIKE '{%}' OR i.state NOT LIKE '{%}';

-- purges_of_living_sessions
-- Lives to be removed that a session is living; they are not removed.
SELECT p.home, p.incarnation FROM plait.purge AS p
  JOIN plait.session AS s ON s.home = p.home AND s.incarnation = p.incarnation AND s.live = 1;

-- messages_without_id
-- Messages that cannot be found by their id.
SELECT m.id, m.key FROM plait.message AS m JOIN plait.strand AS s ON s.home = m.home AND s.strand = m.key >> 32
 WHERE NOT EXISTS (SELECT 1 FROM plait.message_id AS i
                    WHERE i.home = m.home AND i.incarnation = s.incarnation AND i.id = m.id AND i.key = m.key);

-- ids_without_message
-- Ids of messages that are not there.
SELECT i.id, i.key FROM plait.message_id AS i LEFT JOIN plait.message AS m ON m.home = i.home AND m.key = i.key
 WHERE m.key IS NULL OR m.id <> i.id;

-- slices_without_message
-- Slices of messages that are not there or are not sliced.
SELECT s.home, s.key, s.n FROM plait.slice AS s LEFT JOIN plait.message AS m ON m.home = s.home AND m.key = s.key
 WHERE m.key IS NULL OR m.flags & 2 = 0;

-- media_without_message
-- Media of messages that are not there or have none.
SELECT r.home, r.key, r.n FROM plait.attachment_ref AS r
  LEFT JOIN plait.message AS m ON m.home = r.home AND m.key = r.key
 WHERE m.key IS NULL OR m.flags & 4 = 0;

-- unused_attachments
-- Payloads that no message uses and no upload claims.
SELECT a.attachment, a.bytes FROM plait.attachment AS a
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment_ref AS r WHERE r.attachment = a.attachment)
   AND NOT EXISTS (SELECT 1 FROM plait.upload AS u WHERE u.scope = a.scope AND u.attachment = a.attachment);

-- chunks_without_attachment
-- Pieces of payloads that are not there.
SELECT c.attachment, c.n FROM plait.chunk AS c
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment AS a WHERE a.scope = c.scope AND a.attachment = c.attachment);

-- attachments_of_wrong_size
-- Payloads whose pieces do not add up.
SELECT a.attachment, a.bytes, coalesce(sum(length(c.data)), 0)::bigint AS found
  FROM plait.attachment AS a LEFT JOIN plait.chunk AS c ON c.scope = a.scope AND c.attachment = a.attachment
 WHERE a.hash IS NOT NULL GROUP BY a.scope, a.attachment, a.bytes
HAVING coalesce(sum(length(c.data)), 0) <> a.bytes;

-- uploads_without_attachment
-- Claims on payloads that are not there.
SELECT u.upload FROM plait.upload AS u
 WHERE NOT EXISTS (SELECT 1 FROM plait.attachment AS a WHERE a.scope = u.scope AND a.attachment = u.attachment);

-- wrong_totals
-- Sessions whose totals are not what their messages add up to.
SELECT s.id, s.messages, s.bytes, s.tokens, t.messages AS found FROM plait.session AS s
  JOIN (SELECT x.home, x.session, count(m.key) AS messages, coalesce(sum(m.bytes), 0) AS bytes,
               coalesce(sum(m.tokens), 0) AS tokens
          FROM plait.session AS x
          LEFT JOIN plait.strand AS r ON r.home = x.home AND r.incarnation = x.incarnation AND x.live = 1
          LEFT JOIN plait.message AS m
            ON m.home = r.home AND m.key BETWEEN (r.strand << 32) AND ((r.strand << 32) | 4294967295)
         GROUP BY x.home, x.session) AS t ON t.home = s.home AND t.session = s.session
 WHERE (s.messages, s.bytes, s.tokens) <> (t.messages, t.bytes, t.tokens);

-- seqs_past_the_counter
-- Messages whose seq the session has yet to give.
SELECT m.id, m.key FROM plait.session AS s
  JOIN plait.strand AS r ON r.home = s.home AND r.incarnation = s.incarnation
  JOIN plait.message AS m
    ON m.home = r.home AND m.key >= (r.strand << 32) + s.next_seq AND m.key <= ((r.strand << 32) | 4294967295)
 WHERE s.live = 1;

-- activity_missing
-- Sessions that a listing would not find.
SELECT s.id FROM plait.session AS s
 WHERE s.live = 1 AND substr(s.id, 1, 12) <> 'plait:stage:' AND s.id <> 'plait:shared'
   AND NOT EXISTS (SELECT 1 FROM plait.activity AS a
                    WHERE a.home = s.home AND a.tenant = s.tenant AND a.owner = s.owner
                      AND a.bucket = s.active_at / 60000000 AND a.session = s.session);

-- activity_unfounded
-- Listings of sessions that are not there, or were last active at another time.
SELECT a.session, a.bucket FROM plait.activity AS a LEFT JOIN plait.session AS s
    ON s.home = a.home AND s.session = a.session AND s.live = 1 AND s.tenant = a.tenant AND s.owner = a.owner
   AND a.bucket = s.active_at / 60000000
 WHERE s.session IS NULL;

-- messages_before_their_fork
-- Messages that would come before the one their strand forks off.
SELECT m.id, m.key FROM plait.strand AS s
  JOIN plait.message AS m ON m.home = s.home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | s.fork)
 WHERE s.parent <> 0;

-- overlays_without_session
-- Overlays of a life that no session has and that is not being removed.
SELECT o.id FROM plait.overlay AS o
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x
                    WHERE x.home = o.home AND x.incarnation = o.incarnation AND x.live = 1)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = o.home AND p.incarnation = o.incarnation);

-- records_without_session
-- Records of a life that no session has and that is not being removed.
SELECT r.home, r.incarnation, count(*) FROM plait.record AS r
 WHERE NOT EXISTS (SELECT 1 FROM plait.session AS x
                    WHERE x.home = r.home AND x.incarnation = r.incarnation AND x.live = 1)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = r.home AND p.incarnation = r.incarnation)
 GROUP BY r.home, r.incarnation;

-- ranges_without_overlay
-- What overlays cover that are not there.
SELECT r.home, r.strand, r.lo, r.hi FROM plait.overlay_range AS r
 WHERE NOT EXISTS (SELECT 1 FROM plait.overlay AS o WHERE o.home = r.home AND o.overlay = r.overlay);

-- overlays_that_lie_nowhere
-- Overlays that cover strands which are not there or are another session's, or end elsewhere than they say.
SELECT o.id, r.strand, r.lo, r.hi FROM plait.overlay AS o
  LEFT JOIN plait.overlay_range AS r ON r.home = o.home AND r.overlay = o.overlay
  LEFT JOIN plait.strand AS s ON s.home = o.home AND s.strand = r.strand
 WHERE r.overlay IS NULL OR s.strand IS NULL OR s.incarnation <> o.incarnation OR r.lo > r.hi
    OR r.lo < o.first OR r.hi > (o.place & 4294967295)
    OR NOT EXISTS (SELECT 1 FROM plait.overlay_range AS x
                    WHERE x.home = o.home AND x.overlay = o.overlay AND x.strand = o.place >> 32
                      AND x.hi = (o.place & 4294967295));

-- wrong_overlay_totals
-- Overlays that say something else of what is left below them than is there, unless they are being removed.
SELECT o.id, o.left_messages, t.messages AS found FROM plait.overlay AS o
  JOIN (SELECT r.home, r.overlay, count(m.key) AS messages, coalesce(sum(m.bytes), 0) AS bytes,
               coalesce(sum(m.tokens), 0) AS tokens
          FROM plait.overlay_range AS r
          LEFT JOIN plait.message AS m
            ON m.home = r.home AND m.key BETWEEN ((r.strand << 32) | r.lo) AND ((r.strand << 32) | r.hi)
         GROUP BY r.home, r.overlay) AS t ON t.home = o.home AND t.overlay = o.overlay
 WHERE (o.left_messages, o.left_bytes, o.left_tokens) <> (t.messages, t.bytes, t.tokens)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = o.home AND p.incarnation = o.incarnation);

-- wrong_overlay_counts
-- Sessions that say they have another number of overlays than they have.
SELECT s.id, s.overlays FROM plait.session AS s
 WHERE s.overlays <> (SELECT count(*) FROM plait.overlay AS o
                       WHERE o.home = s.home AND o.incarnation = s.incarnation AND s.live = 1);

-- stale_overlays
-- Overlays below which messages were updated or deleted: what they show may not be true any more.
SELECT s.id, o.id FROM plait.overlay AS o
  JOIN plait.session AS s ON s.home = o.home AND s.incarnation = o.incarnation AND s.live = 1
 WHERE o.stale <> 0;

-- messages_not_indexed
-- Messages that the search index passed by.
SELECT m.id, m.key FROM plait.search_progress AS p
  JOIN plait.strand AS s ON s.home = p.home AND s.incarnation = p.incarnation
  JOIN plait.message AS m ON m.home = s.home AND m.key BETWEEN (s.strand << 32) AND ((s.strand << 32) | p.seq)
 WHERE NOT EXISTS (SELECT 1 FROM plait.message_words AS w WHERE w.home = m.home AND w.key = m.key)
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS x WHERE x.home = m.home AND x.key = m.key);

-- index_entries_without_message
-- Messages that are in the search index only.
SELECT w.home, w.key FROM plait.message_words AS w
 WHERE NOT EXISTS (SELECT 1 FROM plait.message AS m WHERE m.home = w.home AND m.key = w.key)
   AND NOT EXISTS (SELECT 1 FROM plait.search_pending AS x WHERE x.home = w.home AND x.key = w.key);

-- values_without_session
-- Values on a shelf that no session has and that is not being removed.
SELECT v.label, v.key FROM plait.value AS v
 WHERE NOT EXISTS (SELECT 1 FROM plait.shelf AS s WHERE s.home = v.home AND s.shelf = v.shelf)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = v.home AND p.incarnation = v.shelf);

-- shelves_without_session
-- Places for the values of a session that is not there.
SELECT s.home, s.session FROM plait.shelf AS s
  LEFT JOIN plait.session AS x ON x.home = s.home AND x.session = s.session
 WHERE x.session IS NULL OR (x.live = 0 AND s.shelf IS NOT NULL);

-- versions_without_value
-- What versions of a value say that is not there.
SELECT t.home, t.value, t.version FROM plait.value_text AS t
 WHERE NOT EXISTS (SELECT 1 FROM plait.value AS v WHERE v.home = t.home AND v.value = t.value)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = t.home AND p.incarnation = t.value >> 32);

-- slices_without_version
-- Pieces of a version that is not there, or that says it has none.
SELECT s.home, s.value, s.version, s.n FROM plait.value_slice AS s
 WHERE NOT EXISTS (SELECT 1 FROM plait.value_text AS t
                    WHERE t.home = s.home AND t.value = s.value AND t.version = s.version AND t.flags & 2 <> 0)
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = s.home AND p.incarnation = s.value >> 32);

-- values_cut_short
-- Versions of which a piece is gone, by their size; of an escaped one the size is not known here, only that pieces are
-- missing before the last.
SELECT v.label, v.key, t.version
  FROM plait.value_text AS t JOIN plait.value AS v ON v.home = t.home AND v.value = t.value
  CROSS JOIN LATERAL (SELECT count(*) AS slices, coalesce(max(s.n), 0) AS last, coalesce(sum(octet_length(s.body)), 0) AS bytes
                        FROM plait.value_slice AS s
                       WHERE s.home = t.home AND s.value = t.value AND s.version = t.version) AS kept
 WHERE t.body IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = t.home AND p.incarnation = t.value >> 32)
   AND CASE WHEN t.flags & 1 <> 0 THEN kept.slices <> kept.last OR (t.flags & 2 <> 0 AND kept.slices = 0)
            ELSE t.bytes <> octet_length(t.body) + kept.bytes END;

-- values_at_another_version
-- Values whose newest version is not the one they name, or that are not there as it says.
SELECT v.label, v.key, v.version FROM plait.value AS v
  LEFT JOIN plait.value_text AS t ON t.home = v.home AND t.value = v.value AND t.version = v.version
 WHERE NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = v.home AND p.incarnation = v.shelf)
   AND ((SELECT max(x.version) FROM plait.value_text AS x WHERE x.home = v.home AND x.value = v.value)
        IS DISTINCT FROM v.version
    OR v.there <> (t.body IS NOT NULL)::int);

-- values_past_the_counter
-- Values whose number their shelf has yet to give.
SELECT v.label, v.key FROM plait.value AS v JOIN plait.shelf AS s ON s.home = v.home AND s.shelf = v.shelf
 WHERE (v.value & 4294967295) >= s.next;
