-- For Citus, once plait has made its schema: everything of a session lies on one node, all of a scope's payloads
-- on one, and four small tables on every node. No statement of plait's changes. Give citus.shard_count (128 to 256)
-- before, and run this before there is much in the tables.

SELECT create_reference_table('plait.meta');
SELECT create_reference_table('plait.tick');
SELECT create_reference_table('plait.pruned_pulse');
SELECT create_reference_table('plait.search_on');

SELECT create_distributed_table('plait.session', 'home', colocate_with => 'none');
SELECT create_distributed_table('plait.counter', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.info', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.activity', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.strand', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.message', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.message_id', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.slice', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.attachment_ref', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.change', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.purge', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.overlay', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.overlay_range', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.compaction_claim', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.pulse', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.latest_pulse', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.pruned', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.message_words', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.search_progress', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.search_behind', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.search_pending', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.removal', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.removal_range', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.shelf', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value_text', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value_slice', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value_words', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value_progress', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.value_pending', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.lease', 'home', colocate_with => 'plait.session');
SELECT create_distributed_table('plait.record', 'home', colocate_with => 'plait.session');

SELECT create_distributed_table('plait.attachment', 'scope', colocate_with => 'none');
SELECT create_distributed_table('plait.chunk', 'scope', colocate_with => 'plait.attachment');
SELECT create_distributed_table('plait.upload', 'scope', colocate_with => 'plait.attachment');
