-- A file from before overlays, seen by a connection that may not migrate it: it has none.
CREATE TEMP VIEW session AS
SELECT *, 0 AS overlays, 0 AS hidden_messages, 0 AS hidden_bytes, 0 AS hidden_tokens FROM main.session;
CREATE TEMP TABLE overlay (
  overlay INTEGER PRIMARY KEY, incarnation, place, first, version, kind, role, tokens, bytes, created_at,
  covered_messages, covered_bytes, covered_tokens, left_messages, left_bytes, left_tokens,
  stale, id, from_id, to_id, summary);
CREATE TEMP TABLE overlay_range (strand, lo, overlay, hi);
CREATE TEMP TABLE compaction_claim (incarnation INTEGER PRIMARY KEY, token, until);
