-- Leases: who alone may write to a session, and until when.

-- A session's epoch goes on each time its lease begins or ends: whoever writes under an older one is refused.
CREATE TABLE lease (
  session INTEGER PRIMARY KEY,
  until   INTEGER NOT NULL,  -- by the clock of the database's machine
  token   TEXT NOT NULL,     -- made by the holder before it asked
  holder  TEXT NOT NULL      -- what it calls itself
);
