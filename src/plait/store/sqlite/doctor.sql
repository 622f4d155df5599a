-- messages_without_strand
-- Messages in a strand that is not there.
SELECT id, key FROM message WHERE NOT EXISTS (SELECT 1 FROM strand WHERE strand = key >> 32);

-- strands_without_session
-- Strands of a life that no session has and that is not being removed.
SELECT strand FROM strand AS s
 WHERE NOT EXISTS (SELECT 1 FROM session WHERE incarnation = s.incarnation AND live = 1)
   AND NOT EXISTS (SELECT 1 FROM purge WHERE incarnation = s.incarnation);

-- strands_that_hang_nowhere
-- Strands that fork off one that is not there, is another session's, or comes after.
SELECT s.strand, s.parent, s.fork FROM strand AS s LEFT JOIN strand AS p ON p.strand = s.parent
 WHERE s.parent <> 0 AND (p.strand IS NULL OR p.incarnation <> s.incarnation OR p.strand = s.strand
    OR EXISTS (SELECT 1 FROM strand WHERE strand = p.parent AND parent = s.strand)
    OR p.parent = s.strand);

-- leaves_elsewhere
-- Sessions whose active leaf lies in a strand that is not their own.
SELECT s.id, s.leaf FROM session AS s
 WHERE s.live = 1 AND s.leaf <> 0
   AND NOT EXISTS (SELECT 1 FROM strand WHERE strand = s.leaf >> 32 AND incarnation = s.incarnation);

-- counters_behind
-- Counters that would give a number again.
SELECT name, value FROM counter
 WHERE (name = 'strand' AND value < (SELECT coalesce(max(strand), 0) FROM strand))
    OR (name = 'incarnation' AND value < (SELECT coalesce(max(incarnation), 0) FROM session));

-- damaged_catalogue_entries
-- Sessions whose metadata or state is not JSON.
SELECT session FROM info WHERE NOT json_valid(metadata) OR NOT json_valid(state);

-- purges_of_living_sessions
-- Lives to be removed that a session is living; they are not removed.
SELECT p.incarnation FROM purge AS p JOIN session AS s ON s.incarnation = p.incarnation AND s.live = 1;

-- messages_without_id
-- Messages that cannot be found by their id.
SELECT m.id, m.key FROM message AS m JOIN strand AS s ON s.strand = m.key >> 32
 WHERE NOT EXISTS (SELECT 1 FROM message_id WHERE incarnation = s.incarnation AND id = m.id AND key = m.key);

-- ids_without_message
-- Ids of messages that are not there.
SELECT i.id, i.key FROM message_id AS i LEFT JOIN message AS m ON m.key = i.key
 WHERE m.key IS NULL OR m.id <> i.id;

-- slices_without_message
-- Slices of messages that are not there or are not sliced.
SELECT s.key, s.n FROM slice AS s LEFT JOIN message AS m ON m.key = s.key WHERE m.key IS NULL OR NOT m.flags & 2;

-- media_without_message
-- Media of messages that are not there or have none.
SELECT r.key, r.n FROM attachment_ref AS r LEFT JOIN message AS m ON m.key = r.key
 WHERE m.key IS NULL OR NOT m.flags & 4;

-- unused_attachments
-- Payloads that no message uses and no upload claims.
SELECT attachment, bytes FROM attachment AS a
 WHERE NOT EXISTS (SELECT 1 FROM main.attachment_ref WHERE attachment = a.attachment)
   AND NOT EXISTS (SELECT 1 FROM upload WHERE attachment = a.attachment);

-- chunks_without_attachment
-- Pieces of payloads that are not there.
SELECT attachment, n FROM chunk AS c WHERE NOT EXISTS (SELECT 1 FROM attachment WHERE attachment = c.attachment);

-- attachments_of_wrong_size
-- Payloads whose pieces do not add up.
SELECT a.attachment, a.bytes, coalesce(sum(length(c.data)), 0) AS found
  FROM attachment AS a LEFT JOIN chunk AS c ON c.attachment = a.attachment
 WHERE a.hash IS NOT NULL GROUP BY a.attachment HAVING found <> a.bytes;

-- uploads_without_attachment
-- Claims on payloads that are not there.
SELECT upload FROM upload AS u WHERE NOT EXISTS (SELECT 1 FROM attachment WHERE attachment = u.attachment);

-- wrong_totals
-- Sessions whose totals are not what their messages add up to.
SELECT s.id, s.messages, s.bytes, s.tokens, t.messages AS found FROM session AS s
  JOIN (SELECT x.session, count(m.key) AS messages, coalesce(sum(m.bytes), 0) AS bytes, coalesce(sum(m.tokens), 0) AS tokens
          FROM session AS x
          LEFT JOIN strand AS r ON r.incarnation = x.incarnation AND x.live
          LEFT JOIN message AS m ON m.key BETWEEN r.strand << 32 AND (r.strand << 32) | 4294967295
         GROUP BY x.session) AS t ON t.session = s.session
 WHERE (s.messages, s.bytes, s.tokens) <> (t.messages, t.bytes, t.tokens);

-- seqs_past_the_counter
-- Messages whose seq the session has yet to give.
SELECT m.id, m.key FROM session AS s
  JOIN strand AS r ON r.incarnation = s.incarnation
  JOIN message AS m ON m.key >= (r.strand << 32) + s.next_seq AND m.key <= (r.strand << 32 | 4294967295)
 WHERE s.live = 1;

-- activity_missing
-- Sessions that a listing would not find.
SELECT s.id FROM session AS s
 WHERE s.live = 1 AND s.id NOT GLOB 'plait:stage:*' AND s.id <> 'plait:shared'
   AND NOT EXISTS (SELECT 1 FROM activity WHERE tenant = s.tenant AND owner = s.owner
                      AND bucket = s.active_at / 60000000 AND session = s.session);

-- activity_unfounded
-- Listings of sessions that are not there, or were last active at another time.
SELECT a.session, a.bucket FROM activity AS a LEFT JOIN session AS s
    ON s.session = a.session AND s.live = 1 AND s.tenant = a.tenant AND s.owner = a.owner
   AND a.bucket = s.active_at / 60000000
 WHERE s.session IS NULL;

-- messages_before_their_fork
-- Messages that would come before the one their strand forks off.
SELECT m.id, m.key FROM strand AS s
  JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32) | s.fork
 WHERE s.parent <> 0;

-- overlays_without_session
-- Overlays of a life that no session has and that is not being removed.
SELECT id FROM overlay AS o
 WHERE NOT EXISTS (SELECT 1 FROM session WHERE incarnation = o.incarnation AND live = 1)
   AND NOT EXISTS (SELECT 1 FROM purge WHERE incarnation = o.incarnation);

-- records_without_session
-- Records of a life that no session has and that is not being removed.
SELECT r.incarnation, count(*) FROM record AS r
 WHERE NOT EXISTS (SELECT 1 FROM session WHERE incarnation = r.incarnation AND live = 1)
   AND NOT EXISTS (SELECT 1 FROM purge WHERE incarnation = r.incarnation) GROUP BY r.incarnation;

-- ranges_without_overlay
-- What overlays cover that are not there.
SELECT strand, lo, hi FROM overlay_range AS r WHERE NOT EXISTS (SELECT 1 FROM overlay WHERE overlay = r.overlay);

-- overlays_that_lie_nowhere
-- Overlays that cover strands which are not there or are another session's, or end elsewhere than they say.
SELECT o.id, r.strand, r.lo, r.hi FROM overlay AS o
  LEFT JOIN overlay_range AS r ON r.overlay = o.overlay
  LEFT JOIN strand AS s ON s.strand = r.strand
 WHERE r.overlay IS NULL OR s.strand IS NULL OR s.incarnation <> o.incarnation OR r.lo > r.hi
    OR r.lo < o.first OR r.hi > (o.place & 4294967295)
    OR NOT EXISTS (SELECT 1 FROM overlay_range WHERE overlay = o.overlay AND strand = o.place >> 32
                      AND hi = (o.place & 4294967295));

-- wrong_overlay_totals
-- Overlays that say something else of what is left below them than is there, unless they are being removed.
SELECT o.id, o.left_messages, t.messages AS found FROM overlay AS o
  JOIN (SELECT r.overlay, count(m.key) AS messages, coalesce(sum(m.bytes), 0) AS bytes,
               coalesce(sum(m.tokens), 0) AS tokens
          FROM overlay_range AS r
          LEFT JOIN message AS m ON m.key BETWEEN (r.strand << 32 | r.lo) AND (r.strand << 32 | r.hi)
         GROUP BY r.overlay) AS t ON t.overlay = o.overlay
 WHERE (o.left_messages, o.left_bytes, o.left_tokens) <> (t.messages, t.bytes, t.tokens)
   AND NOT EXISTS (SELECT 1 FROM purge WHERE incarnation = o.incarnation);

-- wrong_overlay_counts
-- Sessions that say they have another number of overlays than they have.
SELECT s.id, s.overlays FROM session AS s
 WHERE s.overlays <> (SELECT count(*) FROM overlay WHERE incarnation = s.incarnation AND s.live);

-- stale_overlays
-- Overlays below which messages were updated or deleted: what they show may not be true any more.
SELECT s.id, o.id FROM overlay AS o JOIN session AS s ON s.incarnation = o.incarnation AND s.live
 WHERE o.stale;

-- messages_not_indexed
-- Messages that the search index passed by.
SELECT m.id, m.key FROM search_progress AS p
  JOIN strand AS s ON s.incarnation = p.incarnation
  JOIN message AS m ON m.key BETWEEN s.strand << 32 AND (s.strand << 32 | p.seq)
 WHERE NOT EXISTS (SELECT 1 FROM message_words_docsize WHERE id = m.key)
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = m.key);

-- index_entries_without_message
-- Messages that are in the search index only.
SELECT d.id FROM message_words_docsize AS d
 WHERE NOT EXISTS (SELECT 1 FROM main.message WHERE key = d.id)
   AND NOT EXISTS (SELECT 1 FROM search_pending WHERE key = d.id);

-- values_without_session
-- Values on a shelf that no session has and that is not being removed.
SELECT v.label, v.key FROM value AS v
 WHERE NOT EXISTS (SELECT 1 FROM shelf AS s WHERE s.shelf = v.shelf)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = v.shelf);

-- shelves_without_session
-- Places for the values of a session that is not there.
SELECT s.session FROM shelf AS s LEFT JOIN session AS x ON x.session = s.session
 WHERE x.session IS NULL OR (x.live = 0 AND s.shelf IS NOT NULL);

-- versions_without_value
-- What versions of a value say that is not there.
SELECT t.value, t.version FROM value_text AS t
 WHERE NOT EXISTS (SELECT 1 FROM value AS v WHERE v.value = t.value)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = t.value >> 32);

-- slices_without_version
-- Pieces of a version that is not there, or that says it has none.
SELECT s.value, s.version, s.n FROM value_slice AS s
 WHERE NOT EXISTS (SELECT 1 FROM value_text AS t WHERE t.value = s.value AND t.version = s.version AND t.flags & 2)
   AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = s.value >> 32);

-- values_cut_short
-- Versions of which a piece is gone, by their size; of an escaped one the size is not known here, only that pieces are
-- missing before the last.
SELECT v.label, v.key, t.version FROM value_text AS t JOIN value AS v ON v.value = t.value
 WHERE t.body IS NOT NULL AND NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = t.value >> 32)
   AND iif(t.flags & 1,
           (SELECT count(*) <> coalesce(max(s.n), 0) OR (t.flags & 2 AND count(*) = 0)
              FROM value_slice AS s WHERE s.value = t.value AND s.version = t.version),
           t.bytes <> octet_length(t.body) + (SELECT coalesce(sum(octet_length(s.body)), 0)
                                                FROM value_slice AS s WHERE s.value = t.value AND s.version = t.version));

-- values_at_another_version
-- Values whose newest version is not the one they name, or that are not there as it says.
SELECT v.label, v.key, v.version FROM value AS v
 WHERE NOT EXISTS (SELECT 1 FROM purge AS p WHERE p.incarnation = v.shelf)
   AND (SELECT max(t.version) FROM value_text AS t WHERE t.value = v.value) IS NOT v.version
    OR v.there <> (SELECT t.body IS NOT NULL FROM value_text AS t WHERE t.value = v.value AND t.version = v.version);

-- values_past_the_counter
-- Values whose number their shelf has yet to give.
SELECT v.label, v.key FROM value AS v JOIN shelf AS s ON s.shelf = v.shelf WHERE v.value & 4294967295 >= s.next;
