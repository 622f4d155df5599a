-- A file from before values, seen by a connection that may not migrate it: it has none.
CREATE TEMP TABLE shelf (session INTEGER PRIMARY KEY, shelf, base, next);
CREATE TEMP TABLE value (value INTEGER PRIMARY KEY, shelf, label, key, version, there);
CREATE TEMP TABLE value_text (value, version, bytes, tokens, created_at, flags, operation, about, body);
CREATE TEMP TABLE value_slice (value, version, n, body);
CREATE TEMP TABLE value_progress (shelf INTEGER PRIMARY KEY, value);
CREATE TEMP TABLE value_pending (value INTEGER PRIMARY KEY);
CREATE TEMP TABLE value_words_docsize (id INTEGER PRIMARY KEY, sz, origin);
