-- Who alone may write to a session, and until when. The session's epoch goes on each time a lease begins or
-- ends: whoever writes under an older one is refused.
CREATE TABLE plait.lease (
  home    uuid NOT NULL,
  session bigint NOT NULL,
  until   bigint NOT NULL,
  token   text NOT NULL,
  holder  text NOT NULL,
  PRIMARY KEY (home, session)
);
