-- The change feed: which sessions of a scope changed when, and how far the record was pruned.

-- A tick is about a minute, but counts up in the order of commits whatever the clocks say.
INSERT INTO counter VALUES ('tick', 1);

-- Where a session stood before its first change of a tick.
CREATE TABLE pulse (
  tenant      TEXT NOT NULL,
  owner       TEXT NOT NULL,
  tick        INTEGER NOT NULL,
  session     INTEGER NOT NULL,
  incarnation INTEGER NOT NULL,
  version     INTEGER NOT NULL,
  seq         INTEGER NOT NULL,
  PRIMARY KEY (tenant, owner, tick, session)
) WITHOUT ROWID;

-- The tick of a session's newest pulse.
CREATE TABLE latest_pulse (
  session INTEGER PRIMARY KEY,
  tick    INTEGER NOT NULL
);

-- Up to which version the changes of a session are gone.
CREATE TABLE pruned (
  session INTEGER PRIMARY KEY,
  version INTEGER NOT NULL
);

-- Up to which tick the pulses of a scope are gone.
CREATE TABLE pruned_pulse (
  tenant TEXT NOT NULL,
  owner  TEXT NOT NULL,
  tick   INTEGER NOT NULL,
  PRIMARY KEY (tenant, owner)
) WITHOUT ROWID;
