-- Overlays: what is shown instead of a range of a path.

-- How many overlays a session has, and what they take off its active path (what they cover of it
-- less what they show for it). NULL: count when asked.
ALTER TABLE session ADD COLUMN overlays INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN hidden_messages INTEGER DEFAULT 0;
ALTER TABLE session ADD COLUMN hidden_bytes INTEGER DEFAULT 0;
ALTER TABLE session ADD COLUMN hidden_tokens INTEGER DEFAULT 0;

-- An overlay lies on every path that runs through the place where it ends.
CREATE TABLE overlay (
  overlay      INTEGER PRIMARY KEY,
  incarnation  INTEGER NOT NULL,
  place        INTEGER NOT NULL,  -- strand << 32 | seq: where it ends, whether or not a message is left there
  first        INTEGER NOT NULL,  -- the seq it begins at
  version      INTEGER NOT NULL,  -- of the change that added it
  kind         TEXT NOT NULL,     -- compaction, archive, replace, omit, unload
  role         TEXT NOT NULL,     -- of the message that is shown for it
  tokens       INTEGER NOT NULL,  -- of that message
  bytes        INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  covered_messages INTEGER NOT NULL,  -- when it was added
  covered_bytes    INTEGER NOT NULL,
  covered_tokens   INTEGER NOT NULL,
  left_messages    INTEGER NOT NULL,  -- now
  left_bytes       INTEGER NOT NULL,
  left_tokens      INTEGER NOT NULL,
  stale        INTEGER NOT NULL,  -- whether a message was updated or deleted below it
  id           TEXT NOT NULL,
  from_id      TEXT NOT NULL,
  to_id        TEXT NOT NULL,
  summary      TEXT,              -- NULL: nothing is shown
  UNIQUE (incarnation, id)
);
CREATE INDEX overlay_place ON overlay (place);

-- What an overlay covers: rows of a strand with lo <= seq <= hi, whether or not they survive.
CREATE TABLE overlay_range (
  strand  INTEGER NOT NULL,
  lo      INTEGER NOT NULL,
  overlay INTEGER NOT NULL,
  hi      INTEGER NOT NULL,
  PRIMARY KEY (strand, lo, overlay)
) WITHOUT ROWID;
CREATE INDEX overlay_range_overlay ON overlay_range (overlay);

-- Who is compacting a session, and until when nobody else may.
CREATE TABLE compaction_claim (
  incarnation INTEGER PRIMARY KEY,
  token       TEXT NOT NULL,
  until       INTEGER NOT NULL
);
