-- hint
-- Tell who listens that something was committed, and where. It waits for no disk, no standby and for nobody else's hint for long.
SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '1000', true),
       pg_notify('plait', :places);

-- listen
-- Be told from now on; on a connection that nobody else uses.
LISTEN plait;

-- unlisten
-- Be told no more.
UNLISTEN plait;
