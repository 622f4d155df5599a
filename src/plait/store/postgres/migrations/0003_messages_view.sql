-- What other tools may read beside live writers: every message of every session that is there, with its words.
--
-- plait itself uses none of this. The function answers NULL for a text that is damaged, so that one row does
-- not keep the others from being read; what PostgreSQL's text cannot hold, NUL and halves of surrogate pairs, is U+FFFD.

CREATE FUNCTION plait.message_text(body bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL UNSAFE
  SET standard_conforming_strings = on AS $text$
DECLARE
  said text;
  parts json;
BEGIN
  said := convert_from(body, 'UTF8');
  IF position('\u' IN said) > 0 THEN
    said := regexp_replace(said, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g');
    said := regexp_replace(said, '(?<!\\)((?:\\\\)*)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])', '\1\\ufffd', 'g');
    said := regexp_replace(said, '(?<!\\u[dD][89abAB][0-9a-fA-F]{2})(?<!\\)((?:\\\\)*)\\u[dD][c-fC-F][0-9a-fA-F]{2}',
                           '\1\\ufffd', 'g');
  END IF;
  parts := said::json -> 'parts';
  IF json_typeof(parts) = 'array' THEN
    RETURN coalesce((SELECT string_agg(p.part ->> 'text', E'\n' ORDER BY p.n)
                       FROM json_array_elements(parts) WITH ORDINALITY AS p (part, n)
                      WHERE p.part ->> 'type' = 'text' AND json_typeof(p.part -> 'text') = 'string'), '');
  END IF;
  parts := said::json -> 'content';
  IF json_typeof(parts) = 'array' THEN
    RETURN coalesce((SELECT string_agg(p.part ->> 'text', E'\n' ORDER BY p.n)
                       FROM json_array_elements(parts) WITH ORDINALITY AS p (part, n)
                      WHERE p.part ->> 'type' IN ('text', 'input_text', 'output_text')
                        AND json_typeof(p.part -> 'text') = 'string'), '');
  END IF;
  RETURN coalesce(CASE json_typeof(parts) WHEN 'string' THEN said::json ->> 'content' END, '');
EXCEPTION WHEN others THEN
  RETURN NULL;
END
$text$;

CREATE VIEW plait.messages AS
SELECT s.tenant, s.owner, s.id AS session, m.key & 4294967295 AS seq, m.id,
       (SELECT p.id FROM plait.message AS p
         WHERE p.home = m.home AND p.key = coalesce(
               (SELECT max(b.key) FROM plait.message AS b
                 WHERE b.home = m.home AND b.key >= (t.strand << 32) AND b.key < m.key),
               (WITH RECURSIVE up (strand, fork, key) AS (
                  SELECT t.parent, t.fork,
                         (SELECT max(b.key) FROM plait.message AS b
                           WHERE b.home = m.home AND b.key BETWEEN (t.parent << 32) AND ((t.parent << 32) | t.fork))
                   UNION ALL
                  SELECT u.parent, u.fork,
                         (SELECT max(b.key) FROM plait.message AS b
                           WHERE b.home = m.home AND b.key BETWEEN (u.parent << 32) AND ((u.parent << 32) | u.fork))
                    FROM up JOIN plait.strand AS u ON u.home = m.home AND u.strand = up.strand
                   WHERE up.key IS NULL)
                SELECT up.key FROM up WHERE up.key IS NOT NULL))) AS parent,
       m.role, m.format,
       plait.message_text(CASE WHEN m.flags & 2 = 0 THEN m.body ELSE m.body || coalesce(
           (SELECT string_agg(c.body, ''::bytea ORDER BY c.n) FROM plait.slice AS c
             WHERE c.home = m.home AND c.key = m.key), ''::bytea) END) AS text,
       m.tokens, m.bytes,
       timestamptz 'epoch' + (m.created_at / 1000000) * interval '1 second'
                           + (m.created_at % 1000000) * interval '1 microsecond' AS time
  FROM plait.session AS s
  JOIN plait.strand AS t ON t.home = s.home AND t.incarnation = s.incarnation
  JOIN plait.message AS m ON m.home = t.home AND m.key BETWEEN (t.strand << 32) AND ((t.strand << 32) | 4294967295)
 WHERE s.live = 1 AND substr(s.id, 1, 12) <> 'plait:stage:';
