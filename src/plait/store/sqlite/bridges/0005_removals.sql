-- A file from before big deletes were staged, seen by a connection that may not migrate it: none is going on.
CREATE TEMP TABLE removal (removal INTEGER PRIMARY KEY, incarnation, state, begun_at);
CREATE TEMP TABLE removal_range (removal, lo, hi);
