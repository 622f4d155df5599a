-- Big deletes: which messages they have taken away, whose rows are still to be removed.

-- A big delete. While one has state 1, readers and writers pass over what it has taken away.
CREATE TABLE removal (
  removal     INTEGER PRIMARY KEY,
  incarnation INTEGER NOT NULL,
  state       INTEGER NOT NULL,  -- 0: being prepared, nothing is gone; 1: all of it is gone; 2: given up
  begun_at    INTEGER NOT NULL
);
CREATE INDEX removal_done ON removal (removal) WHERE state = 1;

-- What it takes away: the messages with lo <= key <= hi. No message comes into such a range any more.
CREATE TABLE removal_range (
  removal INTEGER NOT NULL,
  lo      INTEGER NOT NULL,
  hi      INTEGER NOT NULL,
  PRIMARY KEY (removal, lo)
) WITHOUT ROWID;

INSERT INTO counter VALUES ('removal', 0);
