-- A file from before the feed, seen by a connection that may not migrate it: no pulse was ever noted.
CREATE TEMP TABLE pulse (tenant, owner, tick, session, incarnation, version, seq);
CREATE TEMP TABLE latest_pulse (session INTEGER PRIMARY KEY, tick);
CREATE TEMP TABLE pruned (session INTEGER PRIMARY KEY, version);
CREATE TEMP TABLE pruned_pulse (tenant, owner, tick);
