-- Row security by scope, for a schema of plait's that is there: run it again after plait has brought the schema to a newer
-- version. Whoever made the tables is not bound by it. Each other role sees and writes the scopes that `plait.member` gives
-- it, and nothing else, whatever SQL it sends:
--
--     CREATE ROLE acme LOGIN PASSWORD '...' IN ROLE {role};
--     INSERT INTO plait.member (role, tenant, owner) VALUES ('acme', 'acme', 'bob');

BEGIN;

-- What homes.py makes of names, so that nobody can put a session of his own into another's home. Names with the
-- characters NUL and U+0001 have another home there; they are refused.
CREATE OR REPLACE FUNCTION plait.scope_of(tenant text, owner text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $scope$
  SELECT encode(substr(sha256(convert_to('5:scope' || length(tenant) || ':' || tenant || length(owner) || ':' || owner,
                                         'UTF8')), 1, 16), 'hex')::uuid
$scope$;
CREATE OR REPLACE FUNCTION plait.home_of(tenant text, owner text, id text) RETURNS uuid LANGUAGE sql IMMUTABLE AS $home$
  SELECT encode(substr(sha256(convert_to('7:session' || length(tenant) || ':' || tenant || length(owner) || ':' || owner
                                         || length(own.id) || ':' || own.id, 'UTF8')), 1, 16), 'hex')::uuid
    FROM (SELECT CASE WHEN substr(id, 1, 12) = 'plait:stage:' THEN substr(id, 13 + position(':' IN substr(id, 13)))
                      ELSE id END) AS own (id)
$home$;

-- Which scopes a role may see.
CREATE TABLE IF NOT EXISTS plait.member (
  role   name NOT NULL,
  tenant text COLLATE "C" NOT NULL DEFAULT '',
  owner  text COLLATE "C" NOT NULL DEFAULT '',
  scope  uuid NOT NULL GENERATED ALWAYS AS (plait.scope_of(tenant, owner)) STORED,
  PRIMARY KEY (role, tenant, owner)
);

-- Whether nobody has, or had, a session in a home. It sees all sessions, and tells no more of them.
CREATE OR REPLACE FUNCTION plait.is_free(home uuid) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $free$
  SELECT NOT EXISTS (SELECT 1 FROM plait.session AS s WHERE s.home = is_free.home)
     AND NOT EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = is_free.home)
$free$;

-- Whether a tick may be the next: after the newest, and at most a day ahead of the server's clock, for clients' clocks differ; else
-- one role could take all numbers there are, and stop everybody. One at a time may always be taken.
CREATE OR REPLACE FUNCTION plait.is_next(tick bigint) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $next$
  SELECT is_next.tick > t.newest AND is_next.tick <= greatest(t.newest + 1, extract(epoch FROM now())::bigint / 60 + 1440)
    FROM (SELECT max(known.tick) AS newest FROM plait.tick AS known) AS t
$next$;

DO $secure$
DECLARE
  named record;
  mine text := '(tenant, owner) IN (SELECT m.tenant, m.owner FROM plait.member AS m WHERE m.role = current_user)';
  my_scope text := 'scope IN (SELECT m.scope FROM plait.member AS m WHERE m.role = current_user)';
  my_session text;
  my_home text;
  reads text;
  writes text;
  grants text;
BEGIN
  FOR named IN
    SELECT c.relname AS name, bool_or(a.attname = 'home') AS home, bool_or(a.attname = 'tenant') AS tenant,
           bool_or(a.attname = 'scope') AS scope
      FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'plait'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
     GROUP BY c.relname
  LOOP
    my_session := format('EXISTS (SELECT 1 FROM plait.session AS s WHERE s.home = %I.home)', named.name);
    my_home := format('(%s OR EXISTS (SELECT 1 FROM plait.purge AS p WHERE p.home = %I.home))', my_session, named.name);
    reads := CASE WHEN named.name = 'member' THEN 'role = current_user'
                  WHEN named.name IN ('meta', 'tick', 'search_on') THEN 'true'
                  WHEN named.name = 'purge' THEN my_scope
                  WHEN named.name = 'counter' THEN my_home || ' OR plait.is_free(home)'
                  WHEN named.tenant THEN mine
                  WHEN named.home THEN my_home
                  WHEN named.scope THEN my_scope
                  ELSE 'false' END;
    writes := CASE WHEN named.name IN ('member', 'meta') THEN 'false'
                   WHEN named.name = 'tick' THEN 'upto = pg_snapshot_xmin(pg_current_snapshot()) AND plait.is_next(tick)'
                   WHEN named.name = 'session' THEN mine || ' AND home = plait.home_of(tenant, owner, id)'
                   WHEN named.name = 'purge' THEN my_scope || ' AND ' || my_session
                   WHEN named.name = 'counter' THEN my_home || ' OR (value < 1000 AND plait.is_free(home))'
                   WHEN named.tenant AND named.scope THEN mine || ' AND scope = plait.scope_of(tenant, owner)'
                   WHEN named.tenant AND named.home THEN mine || ' AND ' || my_home
                   ELSE reads END;
    EXECUTE format('ALTER TABLE plait.%I ENABLE ROW LEVEL SECURITY', named.name);
    EXECUTE format('DROP POLICY IF EXISTS reads ON plait.%I', named.name);
    EXECUTE format('DROP POLICY IF EXISTS adds ON plait.%I', named.name);
    EXECUTE format('DROP POLICY IF EXISTS changes ON plait.%I', named.name);
    EXECUTE format('DROP POLICY IF EXISTS removes ON plait.%I', named.name);
    EXECUTE format('CREATE POLICY reads ON plait.%I FOR SELECT USING (%s)', named.name, reads);
    EXECUTE format('CREATE POLICY adds ON plait.%I FOR INSERT WITH CHECK (%s)', named.name, writes);
    IF named.name NOT IN ('member', 'meta', 'tick', 'search_on') THEN
      EXECUTE format('CREATE POLICY changes ON plait.%I FOR UPDATE USING (%s) WITH CHECK (%s)', named.name, reads, writes);
      EXECUTE format('CREATE POLICY removes ON plait.%I FOR DELETE USING (%s)', named.name, reads);
    END IF;
    grants := CASE WHEN named.name = 'meta' THEN 'SELECT' WHEN named.name = 'tick' THEN 'SELECT, INSERT'
                   ELSE 'SELECT, INSERT, UPDATE, DELETE' END;
    EXECUTE format('GRANT %s ON plait.%I TO {role}', grants, named.name);
  END LOOP;
  IF current_setting('server_version_num')::int >= 150000 THEN
    ALTER VIEW plait.messages SET (security_invoker = true);
    GRANT SELECT ON plait.messages TO {role};
  END IF;
END
$secure$;

GRANT USAGE ON SCHEMA plait TO {role};

COMMIT;
