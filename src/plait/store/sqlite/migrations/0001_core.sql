-- The core: sessions, strands, messages, attachments, changes.

-- Numbers that are never given twice.
CREATE TABLE counter (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO counter VALUES ('incarnation', 0), ('strand', 0);

-- The hot row: the lock and the counter of a session. A deleted session's row stays as its
-- tombstone (live = 0), so that no seq and no version is used again when the id is.
CREATE TABLE session (
  session       INTEGER PRIMARY KEY,
  incarnation   INTEGER NOT NULL,
  live          INTEGER NOT NULL,
  next_seq      INTEGER NOT NULL,
  leaf          INTEGER NOT NULL,  -- strand << 32 | seq of the active leaf's place, 0: none
  version       INTEGER NOT NULL,
  epoch         INTEGER NOT NULL,
  messages      INTEGER NOT NULL,
  bytes         INTEGER NOT NULL,
  tokens        INTEGER NOT NULL,
  path_messages INTEGER,           -- NULL: count when asked
  path_bytes    INTEGER,
  path_tokens   INTEGER,
  created_at    INTEGER NOT NULL,  -- microseconds UTC, as all times
  active_at     INTEGER NOT NULL,
  tenant        TEXT NOT NULL,
  owner         TEXT NOT NULL,
  id            TEXT NOT NULL,
  UNIQUE (tenant, owner, id)
);
CREATE INDEX session_stage ON session (active_at) WHERE substr(id, 1, 12) = 'plait:stage:';
CREATE UNIQUE INDEX session_incarnation ON session (incarnation);

-- What a session is called and says of itself; made when there is something to say.
CREATE TABLE info (
  session  INTEGER PRIMARY KEY,
  name     TEXT,
  owned_by TEXT,
  parent   TEXT,
  pinned   INTEGER NOT NULL DEFAULT 0,
  metadata TEXT NOT NULL DEFAULT '{}',
  state    TEXT NOT NULL DEFAULT '{}'
);

-- Last activity by coarse time: moved when the coarse time changes, not on every append.
CREATE TABLE activity (
  tenant  TEXT NOT NULL,
  owner   TEXT NOT NULL,
  bucket  INTEGER NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (tenant, owner, bucket, session)
) WITHOUT ROWID;

-- A straight run of messages; it forks off `parent` after seq `fork` (parent 0: it begins at the root).
CREATE TABLE strand (
  strand      INTEGER PRIMARY KEY,
  incarnation INTEGER NOT NULL,
  parent      INTEGER NOT NULL,
  fork        INTEGER NOT NULL
);
CREATE INDEX strand_incarnation ON strand (incarnation, strand);
CREATE INDEX strand_parent ON strand (parent, fork);

-- A message. Its parent is not stored: it is the row before it in its strand, or at the fork.
CREATE TABLE message (
  key        INTEGER PRIMARY KEY,  -- strand << 32 | seq
  version    INTEGER NOT NULL,     -- of its insertion: an append is its own change record
  bytes      INTEGER NOT NULL,     -- UTF-8 size with its media
  tokens     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  flags      INTEGER NOT NULL,     -- 1 imported, 2 has slices, 4 has media
  format     TEXT NOT NULL,        -- '' for plait's own
  role       TEXT NOT NULL,
  id         TEXT NOT NULL,
  body       TEXT NOT NULL         -- exact JSON text, media cut out; the first slice of a long one
);

CREATE TABLE message_id (
  incarnation INTEGER NOT NULL,
  id          TEXT NOT NULL,
  key         INTEGER NOT NULL,
  PRIMARY KEY (incarnation, id)
) WITHOUT ROWID;

-- The rest of a body that does not fit its row, in order from n = 1.
CREATE TABLE slice (
  key  INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (key, n)
);

-- A payload, once per scope. Rows of `chunk` hold its bytes in order from n = 0.
CREATE TABLE attachment (
  attachment INTEGER PRIMARY KEY,
  tenant     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  hash       BLOB,                 -- sha256; NULL while it is still being put
  bytes      INTEGER NOT NULL,
  UNIQUE (tenant, owner, hash)
);
CREATE TABLE chunk (
  attachment INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  data       BLOB NOT NULL,
  PRIMARY KEY (attachment, n)
);

-- Which message uses which payload, and at which character of its body.
CREATE TABLE attachment_ref (
  key        INTEGER NOT NULL,
  n          INTEGER NOT NULL,
  attachment INTEGER NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (key, n)
) WITHOUT ROWID;
CREATE INDEX attachment_ref_attachment ON attachment_ref (attachment);

-- A claim on a payload put ahead of its message, until the grace time has passed.
CREATE TABLE upload (
  upload     TEXT PRIMARY KEY,
  attachment INTEGER NOT NULL,
  touched_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX upload_attachment ON upload (attachment);

-- Changes other than appends and imports, whose own rows are their record.
CREATE TABLE change (
  session     INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  operation   TEXT NOT NULL,       -- made before the operation's first query
  at          INTEGER NOT NULL,
  data        TEXT NOT NULL,       -- JSON: ids and keys
  PRIMARY KEY (session, version)
);

-- Lives of sessions that are over and whose rows are still to be removed.
CREATE TABLE purge (
  incarnation INTEGER PRIMARY KEY
);
