-- What a file without search is read with: an index that nobody asked for.
CREATE TEMP TABLE search_on (since INTEGER PRIMARY KEY);
CREATE TEMP TABLE search_progress (incarnation INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TEMP TABLE search_behind (tenant TEXT NOT NULL, owner TEXT NOT NULL, incarnation INTEGER NOT NULL);
CREATE TEMP TABLE search_pending (key INTEGER PRIMARY KEY);
CREATE TEMP TABLE message_words_docsize (id INTEGER PRIMARY KEY, sz, origin);
