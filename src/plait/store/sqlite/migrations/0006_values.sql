-- Named values: the texts that a session keeps beside its messages, each with its history.

-- Where a session's values are: under which number they are kept. A clear leaves them there; after a
-- delete there are none, and versions go on after `base`, so that none is used again.
CREATE TABLE shelf (
  session INTEGER PRIMARY KEY,
  shelf   INTEGER,                 -- an incarnation number of its own; NULL: no values
  base    INTEGER NOT NULL,
  next    INTEGER NOT NULL         -- counts up the shelf's values
);

-- A value. What it says is in `value_text`, in one row for each version.
CREATE TABLE value (
  value   INTEGER PRIMARY KEY,     -- shelf << 32 | number in the shelf
  shelf   INTEGER NOT NULL,
  label   TEXT NOT NULL,
  key     TEXT NOT NULL,
  version INTEGER NOT NULL,        -- the newest
  there   INTEGER NOT NULL,        -- 0: that one says it was deleted
  UNIQUE (shelf, label, key)
);
CREATE INDEX value_there ON value (shelf, label, key) WHERE there = 1;

-- One version of a value.
CREATE TABLE value_text (
  value      INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  bytes      INTEGER NOT NULL,     -- UTF-8 size of the content
  tokens     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  flags      INTEGER NOT NULL,     -- 1 escaped, 2 has slices
  operation  TEXT NOT NULL,        -- made before the operation's first query
  about      TEXT NOT NULL,        -- JSON: description, metadata
  body       TEXT,                 -- NULL: deleted; the first slice of a long one
  PRIMARY KEY (value, version)
);

-- The rest of a body that does not fit its row, in order from n = 1.
CREATE TABLE value_slice (
  value   INTEGER NOT NULL,
  version INTEGER NOT NULL,
  n       INTEGER NOT NULL,
  body    TEXT NOT NULL,
  PRIMARY KEY (value, version, n)
);

-- Full-text search in values. Nothing is written here before a shelf is first searched.

-- The words of the newest versions, as `logic/words.py` writes them, by value. It keeps no text of its own.
CREATE VIRTUAL TABLE value_words USING fts5 (
  words, content = '', contentless_delete = 1,
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);

-- How far a shelf is indexed: all values up to this one, except those in `value_pending`.
CREATE TABLE value_progress (
  shelf INTEGER PRIMARY KEY,
  value INTEGER NOT NULL
);

-- Values changed or removed since; what the index says of them is out of date.
CREATE TABLE value_pending (
  value INTEGER PRIMARY KEY
);
