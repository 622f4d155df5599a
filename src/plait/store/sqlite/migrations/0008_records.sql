-- Records: what a framework keeps beside a session's messages, opaque, each under a key of bytes.

-- They belong to a life of the session, and go with it.
CREATE TABLE record (
  incarnation INTEGER NOT NULL,
  key         BLOB NOT NULL,
  body        BLOB NOT NULL,
  PRIMARY KEY (incarnation, key)
);
