-- All of plait in PostgreSQL: sessions, messages, overlays, the feed, search.
--
-- `home` is where a session lives: a number made of its scope and id, so that no directory has to be
-- asked. A session, what it was in earlier lives and the hidden sessions that are to become it share
-- a home. It comes first in every key and stands in every condition, so that a database which spreads
-- its tables by it needs no other schema. Payloads, which sessions share, have their scope's instead.

-- A tick is about a minute, but counts up in the order of commits whatever the clocks say. Who read an
-- earlier tick than this one and is still writing has a transaction number below `upto` of the next.
CREATE TABLE plait.tick (
  tick bigint PRIMARY KEY,
  upto xid8 NOT NULL
);
INSERT INTO plait.tick VALUES (1, '0');

-- Numbers that are never given twice in a home: of lives and of strands.
CREATE TABLE plait.counter (
  home  uuid NOT NULL,
  name  text NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (home, name)
);

-- The hot row: the lock and the counter of a session. A deleted session's row stays as its
-- tombstone (live = 0), so that no seq and no version is used again when the id is. No index has
-- a column that an append changes, and pages have room for the next version of a row.
CREATE TABLE plait.session (
  home            uuid NOT NULL,
  session         bigint NOT NULL,
  incarnation     bigint NOT NULL,
  live            bigint NOT NULL,
  next_seq        bigint NOT NULL,
  leaf            bigint NOT NULL,  -- strand << 32 | seq of the active leaf's place, 0: none
  version         bigint NOT NULL,
  epoch           bigint NOT NULL,
  messages        bigint NOT NULL,
  bytes           bigint NOT NULL,
  tokens          bigint NOT NULL,
  path_messages   bigint,           -- NULL: count when asked
  path_bytes      bigint,
  path_tokens     bigint,
  created_at      bigint NOT NULL,  -- microseconds UTC, as all times
  active_at       bigint NOT NULL,
  overlays        bigint NOT NULL DEFAULT 0,
  hidden_messages bigint DEFAULT 0,
  hidden_bytes    bigint DEFAULT 0,
  hidden_tokens   bigint DEFAULT 0,
  tenant          text COLLATE "C" NOT NULL,
  owner           text COLLATE "C" NOT NULL,
  id              text COLLATE "C" NOT NULL,
  PRIMARY KEY (home, session),
  UNIQUE (home, tenant, owner, id)
) WITH (fillfactor = 50);
CREATE INDEX session_scope ON plait.session (tenant, owner, id);
CREATE INDEX session_stage ON plait.session (session) WHERE substr(id, 1, 12) = 'plait:stage:';

-- What a session is called and says of itself; made when there is something to say.
CREATE TABLE plait.info (
  home     uuid NOT NULL,
  session  bigint NOT NULL,
  name     text,
  owned_by text,
  parent   text,
  pinned   bigint NOT NULL DEFAULT 0,
  metadata text NOT NULL DEFAULT '{}',
  state    text NOT NULL DEFAULT '{}',
  PRIMARY KEY (home, session)
);

-- Last activity by coarse time: moved when the coarse time changes, not on every append.
CREATE TABLE plait.activity (
  home    uuid NOT NULL,
  tenant  text COLLATE "C" NOT NULL,
  owner   text COLLATE "C" NOT NULL,
  bucket  bigint NOT NULL,
  session bigint NOT NULL,
  PRIMARY KEY (home, session, bucket)
);
CREATE INDEX activity_scope ON plait.activity (tenant, owner, bucket);

-- A straight run of messages; it forks off `parent` after seq `fork` (parent 0: it begins at the root).
CREATE TABLE plait.strand (
  home        uuid NOT NULL,
  strand      bigint NOT NULL,
  incarnation bigint NOT NULL,
  parent      bigint NOT NULL,
  fork        bigint NOT NULL,
  PRIMARY KEY (home, strand)
);
CREATE INDEX strand_parent ON plait.strand (home, parent, fork);

-- A message. Its parent is not stored: it is the row before it in its strand, or at the fork.
CREATE TABLE plait.message (
  home       uuid NOT NULL,
  key        bigint NOT NULL,  -- strand << 32 | seq
  version    bigint NOT NULL,  -- of its insertion: an append is its own change record
  bytes      bigint NOT NULL,  -- UTF-8 size with its media
  tokens     bigint NOT NULL,
  created_at bigint NOT NULL,
  flags      bigint NOT NULL,  -- 1 imported, 2 has slices, 4 has media, 8 beside the active leaf
  format     text NOT NULL,    -- '' for plait's own
  role       text NOT NULL,
  id         text COLLATE "C" NOT NULL,
  body       bytea NOT NULL,   -- exact JSON text in UTF-8, media cut out; the first slice of a long one
  PRIMARY KEY (home, key)
);

CREATE TABLE plait.message_id (
  home        uuid NOT NULL,
  incarnation bigint NOT NULL,
  id          text COLLATE "C" NOT NULL,
  key         bigint NOT NULL,
  PRIMARY KEY (home, incarnation, id)
);

-- The rest of a body that does not fit its row, in order from n = 1.
CREATE TABLE plait.slice (
  home uuid NOT NULL,
  key  bigint NOT NULL,
  n    bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (home, key, n)
);

-- A payload, once per scope. Rows of `chunk` hold its bytes in order from n = 0.
CREATE TABLE plait.attachment (
  scope      uuid NOT NULL,
  attachment bigint GENERATED ALWAYS AS IDENTITY,  -- names it, and says nothing of order
  tenant     text COLLATE "C" NOT NULL,
  owner      text COLLATE "C" NOT NULL,
  hash       bytea,                                -- sha256; NULL while it is still being put
  bytes      bigint NOT NULL,
  PRIMARY KEY (scope, attachment),
  UNIQUE (scope, tenant, owner, hash)
);
CREATE TABLE plait.chunk (
  scope      uuid NOT NULL,
  attachment bigint NOT NULL,
  n          bigint NOT NULL,
  data       bytea NOT NULL,
  PRIMARY KEY (scope, attachment, n)
);

-- Which message uses which payload, and at which character of its body.
CREATE TABLE plait.attachment_ref (
  home       uuid NOT NULL,
  key        bigint NOT NULL,
  n          bigint NOT NULL,
  attachment bigint NOT NULL,
  at         bigint NOT NULL,
  PRIMARY KEY (home, key, n)
);
CREATE INDEX attachment_ref_attachment ON plait.attachment_ref (attachment);

-- A claim on a payload put ahead of its message, until the grace time has passed.
CREATE TABLE plait.upload (
  scope      uuid NOT NULL,
  upload     text NOT NULL,
  attachment bigint NOT NULL,
  touched_at bigint NOT NULL,
  PRIMARY KEY (scope, upload)
);
CREATE INDEX upload_attachment ON plait.upload (scope, attachment);

-- Changes other than appends and imports, whose own rows are their record.
CREATE TABLE plait.change (
  home        uuid NOT NULL,
  session     bigint NOT NULL,
  version     bigint NOT NULL,
  incarnation bigint NOT NULL,
  kind        text NOT NULL,
  operation   text NOT NULL,       -- made before the operation's first query
  at          bigint NOT NULL,
  data        text NOT NULL,       -- JSON: ids and keys
  PRIMARY KEY (home, session, version)
);

-- Lives of sessions that are over and whose rows are still to be removed.
CREATE TABLE plait.purge (
  home        uuid NOT NULL,
  scope       uuid NOT NULL,
  incarnation bigint NOT NULL,
  PRIMARY KEY (home, incarnation)
);

-- An overlay lies on every path that runs through the place where it ends.
CREATE TABLE plait.overlay (
  home         uuid NOT NULL,
  overlay      bigint NOT NULL,
  incarnation  bigint NOT NULL,
  place        bigint NOT NULL,  -- strand << 32 | seq: where it ends, whether or not a message is left there
  first        bigint NOT NULL,  -- the seq it begins at
  version      bigint NOT NULL,  -- of the change that added it
  kind         text NOT NULL,    -- compaction, archive, replace, omit, unload
  role         text NOT NULL,    -- of the message that is shown for it
  tokens       bigint NOT NULL,  -- of that message
  bytes        bigint NOT NULL,
  created_at   bigint NOT NULL,
  covered_messages bigint NOT NULL,  -- when it was added
  covered_bytes    bigint NOT NULL,
  covered_tokens   bigint NOT NULL,
  left_messages    bigint NOT NULL,  -- now
  left_bytes       bigint NOT NULL,
  left_tokens      bigint NOT NULL,
  stale        bigint NOT NULL,  -- whether a message was updated or deleted below it
  id           text COLLATE "C" NOT NULL,
  from_id      text NOT NULL,
  to_id        text NOT NULL,
  summary      text,             -- NULL: nothing is shown
  PRIMARY KEY (home, overlay),
  UNIQUE (home, incarnation, id)
);
CREATE INDEX overlay_place ON plait.overlay (home, place);

-- What an overlay covers: rows of a strand with lo <= seq <= hi, whether or not they survive.
CREATE TABLE plait.overlay_range (
  home    uuid NOT NULL,
  strand  bigint NOT NULL,
  lo      bigint NOT NULL,
  overlay bigint NOT NULL,
  hi      bigint NOT NULL,
  PRIMARY KEY (home, strand, lo, overlay)
);
CREATE INDEX overlay_range_overlay ON plait.overlay_range (home, overlay);

-- Who is compacting a session, and until when nobody else may.
CREATE TABLE plait.compaction_claim (
  home        uuid NOT NULL,
  incarnation bigint NOT NULL,
  token       text NOT NULL,
  until       bigint NOT NULL,
  PRIMARY KEY (home, incarnation)
);

-- Where a session stood before its first change of a tick.
CREATE TABLE plait.pulse (
  home        uuid NOT NULL,
  tick        bigint NOT NULL,
  session     bigint NOT NULL,
  tenant      text COLLATE "C" NOT NULL,
  owner       text COLLATE "C" NOT NULL,
  incarnation bigint NOT NULL,
  version     bigint NOT NULL,
  seq         bigint NOT NULL,
  PRIMARY KEY (home, tick, session)
);
CREATE INDEX pulse_scope ON plait.pulse (tenant, owner, tick, session);

-- The tick of a session's newest pulse.
CREATE TABLE plait.latest_pulse (
  home    uuid NOT NULL,
  session bigint NOT NULL,
  tick    bigint NOT NULL,
  PRIMARY KEY (home, session)
);

-- Up to which version the changes of a session are gone.
CREATE TABLE plait.pruned (
  home    uuid NOT NULL,
  session bigint NOT NULL,
  version bigint NOT NULL,
  PRIMARY KEY (home, session)
);

-- Up to which tick the pulses of a scope are gone.
CREATE TABLE plait.pruned_pulse (
  tenant text COLLATE "C" NOT NULL,
  owner  text COLLATE "C" NOT NULL,
  tick   bigint NOT NULL,
  PRIMARY KEY (tenant, owner)
);

-- The words of messages, as `logic/words.py` writes them, and among them the message's home and scope,
-- so that one look into the index finds the words of a session or of a scope.
CREATE TABLE plait.message_words (
  home  uuid NOT NULL,
  key   bigint NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (home, key)
);
CREATE INDEX message_words_words ON plait.message_words USING gin (words);

-- A row once the index has been asked for: from then on it follows the data.
CREATE TABLE plait.search_on (
  one   bigint PRIMARY KEY CHECK (one = 1),
  since bigint NOT NULL
);

-- How far a session's messages are indexed: all up to this seq, except those in `search_pending`.
CREATE TABLE plait.search_progress (
  home        uuid NOT NULL,
  incarnation bigint NOT NULL,
  seq         bigint NOT NULL,
  PRIMARY KEY (home, incarnation)
);

-- Sessions that were written to since their messages were indexed.
CREATE TABLE plait.search_behind (
  home        uuid NOT NULL,
  tenant      text COLLATE "C" NOT NULL,
  owner       text COLLATE "C" NOT NULL,
  incarnation bigint NOT NULL,
  PRIMARY KEY (home, incarnation)
);
CREATE INDEX search_behind_scope ON plait.search_behind (tenant, owner);

-- Messages changed or removed since; what the index says of them is out of date.
CREATE TABLE plait.search_pending (
  home  uuid NOT NULL,
  scope uuid NOT NULL,
  key   bigint NOT NULL,
  PRIMARY KEY (home, key)
);

-- A big delete that is being prepared (state 0), has taken away its messages (1) or was given up (2).
CREATE TABLE plait.removal (
  home        uuid NOT NULL,
  removal     bigint NOT NULL,
  incarnation bigint NOT NULL,
  state       bigint NOT NULL,
  begun_at    bigint NOT NULL,
  PRIMARY KEY (home, removal)
);
CREATE INDEX removal_done ON plait.removal (removal) WHERE state = 1;

-- What it takes away: the messages with lo <= key <= hi. No message comes into such a range any more.
CREATE TABLE plait.removal_range (
  home    uuid NOT NULL,
  removal bigint NOT NULL,
  lo      bigint NOT NULL,
  hi      bigint NOT NULL,
  PRIMARY KEY (home, removal, lo)
);

-- Where a session's values are: under which number they are kept. A clear leaves them there; after a
-- delete there are none, and versions go on after `base`, so that none is used again.
CREATE TABLE plait.shelf (
  home    uuid NOT NULL,
  session bigint NOT NULL,
  shelf   bigint,                 -- an incarnation number of its own; NULL: no values
  base    bigint NOT NULL,
  next    bigint NOT NULL,        -- counts up the shelf's values
  PRIMARY KEY (home, session)
);

-- A value. What it says is in `value_text`, in one row for each version.
CREATE TABLE plait.value (
  home    uuid NOT NULL,
  value   bigint NOT NULL,        -- shelf << 32 | number in the shelf
  shelf   bigint NOT NULL,
  label   text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  version bigint NOT NULL,        -- the newest
  there   bigint NOT NULL,        -- 0: that one says it was deleted
  PRIMARY KEY (home, value),
  UNIQUE (home, shelf, label, key)
);

-- One version of a value.
CREATE TABLE plait.value_text (
  home       uuid NOT NULL,
  value      bigint NOT NULL,
  version    bigint NOT NULL,
  bytes      bigint NOT NULL,     -- UTF-8 size of the content
  tokens     bigint NOT NULL,
  created_at bigint NOT NULL,
  flags      bigint NOT NULL,     -- 1 escaped, 2 has slices
  operation  text NOT NULL,       -- made before the operation's first query
  about      text NOT NULL,       -- JSON: description, metadata
  body       bytea,               -- NULL: deleted; the first slice of a long one
  PRIMARY KEY (home, value, version)
);

-- The rest of a body that does not fit its row, in order from n = 1.
CREATE TABLE plait.value_slice (
  home    uuid NOT NULL,
  value   bigint NOT NULL,
  version bigint NOT NULL,
  n       bigint NOT NULL,
  body    bytea NOT NULL,
  PRIMARY KEY (home, value, version, n)
);

-- The words of the newest versions, as those of messages are.
CREATE TABLE plait.value_words (
  home  uuid NOT NULL,
  value bigint NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (home, value)
);
CREATE INDEX value_words_words ON plait.value_words USING gin (words);

-- How far a shelf is indexed: all values up to this one, except those in `value_pending`.
CREATE TABLE plait.value_progress (
  home  uuid NOT NULL,
  shelf bigint NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (home, shelf)
);

-- Values changed or removed since; what the index says of them is out of date.
CREATE TABLE plait.value_pending (
  home  uuid NOT NULL,
  value bigint NOT NULL,
  PRIMARY KEY (home, value)
);
