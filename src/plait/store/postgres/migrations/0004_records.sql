-- Records: what a framework keeps beside a session's messages, opaque, each under a key of bytes. They
-- belong to a life of the session, and go with it.
CREATE TABLE plait.record (
  home        uuid NOT NULL,
  incarnation bigint NOT NULL,
  key         bytea NOT NULL,
  body        bytea NOT NULL,
  PRIMARY KEY (home, incarnation, key)
);
