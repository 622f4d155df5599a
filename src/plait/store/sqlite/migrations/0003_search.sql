-- Full-text search. Nothing is written to these tables before the first search.

-- The words of messages, as `logic/words.py` writes them, by message key. It keeps no text of its own.
CREATE VIRTUAL TABLE message_words USING fts5 (
  words, content = '', contentless_delete = 1,
  tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'"
);

-- A row once the index has been asked for: from then on it follows the data.
CREATE TABLE search_on (
  since INTEGER PRIMARY KEY
);

-- How far a session's messages are indexed: all up to this seq, except those in `search_pending`.
CREATE TABLE search_progress (
  incarnation INTEGER PRIMARY KEY,
  seq         INTEGER NOT NULL
);

-- Sessions that were written to since their messages were indexed.
CREATE TABLE search_behind (
  tenant      TEXT NOT NULL,
  owner       TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  PRIMARY KEY (tenant, owner, incarnation)
) WITHOUT ROWID;
CREATE INDEX search_behind_incarnation ON search_behind (incarnation);

-- Messages changed or removed since; what the index says of them is out of date.
CREATE TABLE search_pending (
  key INTEGER PRIMARY KEY
);
