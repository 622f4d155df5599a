-- A file from before records, seen by a connection that may not migrate it: it has none.
CREATE TEMP TABLE record (incarnation, key, body);
