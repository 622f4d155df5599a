-- A file from before leases, seen by a connection that may not migrate it: nobody holds one.
CREATE TEMP TABLE lease (session INTEGER PRIMARY KEY, until, token, holder);
