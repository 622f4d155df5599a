-- is_on
-- Whether this connection passes over what big deletes have taken away.
SELECT 1 FROM temp.sqlite_schema WHERE name = 'message';

-- is_wanted
-- Whether a big delete has taken something away that is still there.
SELECT 1 FROM removal WHERE state = 1 LIMIT 1;

-- put_on
-- From now on statements that name these tables see views of them; those that write name `main`.
CREATE TEMP VIEW message AS
SELECT * FROM main.message AS m WHERE NOT EXISTS (
       SELECT 1 FROM main.removal AS r WHERE r.state = 1
          AND m.key <= (SELECT hi FROM main.removal_range WHERE removal = r.removal AND lo <= m.key ORDER BY lo DESC LIMIT 1));
CREATE TEMP VIEW message_id AS
SELECT * FROM main.message_id AS m WHERE NOT EXISTS (
       SELECT 1 FROM main.removal AS r WHERE r.state = 1
          AND m.key <= (SELECT hi FROM main.removal_range WHERE removal = r.removal AND lo <= m.key ORDER BY lo DESC LIMIT 1));
CREATE TEMP VIEW slice AS
SELECT * FROM main.slice AS m WHERE NOT EXISTS (
       SELECT 1 FROM main.removal AS r WHERE r.state = 1
          AND m.key <= (SELECT hi FROM main.removal_range WHERE removal = r.removal AND lo <= m.key ORDER BY lo DESC LIMIT 1));
CREATE TEMP VIEW attachment_ref AS
SELECT * FROM main.attachment_ref AS m WHERE NOT EXISTS (
       SELECT 1 FROM main.removal AS r WHERE r.state = 1
          AND m.key <= (SELECT hi FROM main.removal_range WHERE removal = r.removal AND lo <= m.key ORDER BY lo DESC LIMIT 1));

-- take_off
-- See the tables themselves again.
DROP VIEW temp.message;
DROP VIEW temp.message_id;
DROP VIEW temp.slice;
DROP VIEW temp.attachment_ref;
