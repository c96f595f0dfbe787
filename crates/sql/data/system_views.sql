CREATE VIEW pg_catalog.pg_tables AS
SELECT n.nspname AS schemaname, c.relname AS tablename, pg_get_userbyid(c.relowner) AS tableowner, t.spcname AS tablespace,
       c.relhasindex AS hasindexes, c.relhasrules AS hasrules, c.relhastriggers AS hastriggers, c.relrowsecurity AS rowsecurity
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_tablespace t ON t.oid = c.reltablespace
WHERE c.relkind IN ('r', 'p');

CREATE VIEW pg_catalog.pg_views AS
SELECT n.nspname AS schemaname, c.relname AS viewname, pg_get_userbyid(c.relowner) AS viewowner, pg_get_viewdef(c.oid) AS definition
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v';

CREATE VIEW pg_catalog.pg_matviews AS
SELECT n.nspname AS schemaname, c.relname AS matviewname, pg_get_userbyid(c.relowner) AS matviewowner, t.spcname AS tablespace,
       c.relhasindex AS hasindexes, c.relispopulated AS ispopulated, pg_get_viewdef(c.oid) AS definition
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_tablespace t ON t.oid = c.reltablespace
WHERE c.relkind = 'm';

CREATE VIEW pg_catalog.pg_indexes AS
SELECT n.nspname AS schemaname, c.relname AS tablename, i.relname AS indexname, t.spcname AS tablespace, pg_get_indexdef(i.oid) AS indexdef
FROM pg_catalog.pg_index x
     JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
     JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_tablespace t ON t.oid = i.reltablespace
WHERE c.relkind IN ('r', 'm', 'p') AND i.relkind IN ('i', 'I');

CREATE VIEW pg_catalog.pg_sequences AS
SELECT n.nspname AS schemaname, c.relname AS sequencename, pg_get_userbyid(c.relowner) AS sequenceowner,
       s.seqtypid::regtype AS data_type, s.seqstart AS start_value, s.seqmin AS min_value, s.seqmax AS max_value,
       s.seqincrement AS increment_by, s.seqcycle AS cycle, s.seqcache AS cache_size, pg_sequence_last_value(c.oid::regclass) AS last_value
FROM pg_catalog.pg_sequence s
     JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S';

CREATE VIEW pg_catalog.pg_settings AS
SELECT s.name, s.setting, s.unit, s.category, s.short_desc, s.extra_desc, s.context, s.vartype, s.source, s.min_val, s.max_val,
       s.enumvals, s.boot_val, s.reset_val, s.sourcefile, s.sourceline, s.pending_restart
FROM pg_show_all_settings() s;

CREATE VIEW pg_catalog.pg_roles AS
SELECT a.rolname, a.rolsuper, a.rolinherit, a.rolcreaterole, a.rolcreatedb, a.rolcanlogin, a.rolreplication, a.rolconnlimit,
       '********'::text AS rolpassword, a.rolvaliduntil, a.rolbypassrls, s.setconfig AS rolconfig, a.oid
FROM pg_catalog.pg_authid a LEFT JOIN pg_catalog.pg_db_role_setting s ON s.setrole = a.oid AND s.setdatabase = 0;

CREATE VIEW pg_catalog.pg_shadow AS
SELECT a.rolname AS usename, a.oid AS usesysid, a.rolcreatedb AS usecreatedb, a.rolsuper AS usesuper, a.rolreplication AS userepl,
       a.rolbypassrls AS usebypassrls, a.rolpassword AS passwd, a.rolvaliduntil AS valuntil, s.setconfig AS useconfig
FROM pg_catalog.pg_authid a LEFT JOIN pg_catalog.pg_db_role_setting s ON s.setrole = a.oid AND s.setdatabase = 0
WHERE a.rolcanlogin;

CREATE VIEW pg_catalog.pg_user AS
SELECT s.usename, s.usesysid, s.usecreatedb, s.usesuper, s.userepl, s.usebypassrls, '********'::text AS passwd, s.valuntil, s.useconfig
FROM pg_catalog.pg_shadow s;

CREATE VIEW pg_catalog.pg_group AS
SELECT a.rolname AS groname, a.oid AS grosysid,
       ARRAY(SELECT m.member FROM pg_catalog.pg_auth_members m WHERE m.roleid = a.oid) AS grolist
FROM pg_catalog.pg_authid a WHERE NOT a.rolcanlogin;

CREATE VIEW pg_catalog.pg_stat_activity AS
SELECT a.datid, d.datname, a.pid, a.leader_pid, a.usesysid, u.rolname AS usename, a.application_name, a.client_addr, a.client_hostname,
       a.client_port, a.backend_start, a.xact_start, a.query_start, a.state_change, a.wait_event_type, a.wait_event, a.state,
       a.backend_xid, a.backend_xmin, a.query_id, a.query, a.backend_type
FROM pg_stat_get_activity(NULL) a
     LEFT JOIN pg_catalog.pg_database d ON d.oid = a.datid
     LEFT JOIN pg_catalog.pg_authid u ON u.oid = a.usesysid;

CREATE VIEW pg_catalog.pg_locks AS
SELECT l.locktype, l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid, l.objsubid,
       l.virtualtransaction, l.pid, l.mode, l.granted, l.fastpath, l.waitstart
FROM pg_lock_status() l;

CREATE VIEW pg_catalog.pg_prepared_statements AS
SELECT p.name, p.statement, p.prepare_time, p.parameter_types, p.result_types, p.from_sql, p.generic_plans, p.custom_plans
FROM pg_prepared_statement() p;

CREATE VIEW pg_catalog.pg_stat_plans AS
SELECT p.datid, d.datname, p.statement, p.plan, p.is_used, p.executions, p.total_ms, p.median_ms, p.estimated_cost, p.description
FROM kiln_stat_plans() p
     LEFT JOIN pg_catalog.pg_database d ON d.oid = p.datid;

CREATE VIEW pg_catalog.pg_cursors AS
SELECT c.name, c.statement, c.is_holdable, c.is_binary, c.is_scrollable, c.creation_time
FROM pg_cursor() c;

CREATE VIEW pg_catalog.pg_timezone_names AS
SELECT z.name, z.abbrev, z.utc_offset, z.is_dst FROM pg_timezone_names() z;

CREATE VIEW pg_catalog.pg_rules AS
SELECT n.nspname AS schemaname, c.relname AS tablename, r.rulename, NULL::text AS definition
FROM pg_catalog.pg_rewrite r
     JOIN pg_catalog.pg_class c ON c.oid = r.ev_class
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE r.rulename <> '_RETURN';

CREATE VIEW pg_catalog.pg_policies AS
SELECT n.nspname AS schemaname, c.relname AS tablename, pol.polname AS policyname,
       CASE WHEN pol.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END AS permissive,
       CASE WHEN pol.polroles = '{0}' THEN '{public}'::name[]
            ELSE ARRAY(SELECT a.rolname FROM pg_catalog.pg_authid a WHERE a.oid = ANY (pol.polroles) ORDER BY 1) END AS roles,
       CASE pol.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE' WHEN '*' THEN 'ALL' END AS cmd,
       pg_get_expr(pol.polqual, pol.polrelid) AS qual, pg_get_expr(pol.polwithcheck, pol.polrelid) AS with_check
FROM pg_catalog.pg_policy pol
     JOIN pg_catalog.pg_class c ON c.oid = pol.polrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

CREATE VIEW pg_catalog.pg_prepared_xacts AS
SELECT NULL::xid AS transaction, NULL::text AS gid, NULL::timestamptz AS prepared, NULL::name AS owner, NULL::name AS database
WHERE false;

CREATE VIEW pg_catalog.pg_stats AS
SELECT n.nspname AS schemaname, c.relname AS tablename, a.attname, s.stainherit AS inherited, s.stanullfrac AS null_frac,
       s.stawidth AS avg_width, s.stadistinct AS n_distinct,
       CASE WHEN s.stakind1 = 1 THEN s.stavalues1 WHEN s.stakind2 = 1 THEN s.stavalues2 WHEN s.stakind3 = 1 THEN s.stavalues3
            WHEN s.stakind4 = 1 THEN s.stavalues4 WHEN s.stakind5 = 1 THEN s.stavalues5 END AS most_common_vals,
       CASE WHEN s.stakind1 = 1 THEN s.stanumbers1 WHEN s.stakind2 = 1 THEN s.stanumbers2 WHEN s.stakind3 = 1 THEN s.stanumbers3
            WHEN s.stakind4 = 1 THEN s.stanumbers4 WHEN s.stakind5 = 1 THEN s.stanumbers5 END AS most_common_freqs,
       CASE WHEN s.stakind1 = 2 THEN s.stavalues1 WHEN s.stakind2 = 2 THEN s.stavalues2 WHEN s.stakind3 = 2 THEN s.stavalues3
            WHEN s.stakind4 = 2 THEN s.stavalues4 WHEN s.stakind5 = 2 THEN s.stavalues5 END AS histogram_bounds,
       CASE WHEN s.stakind1 = 3 THEN s.stanumbers1[1] WHEN s.stakind2 = 3 THEN s.stanumbers2[1] WHEN s.stakind3 = 3 THEN s.stanumbers3[1]
            WHEN s.stakind4 = 3 THEN s.stanumbers4[1] WHEN s.stakind5 = 3 THEN s.stanumbers5[1] END AS correlation,
       CASE WHEN s.stakind1 = 4 THEN s.stavalues1 WHEN s.stakind2 = 4 THEN s.stavalues2 WHEN s.stakind3 = 4 THEN s.stavalues3
            WHEN s.stakind4 = 4 THEN s.stavalues4 WHEN s.stakind5 = 4 THEN s.stavalues5 END AS most_common_elems,
       CASE WHEN s.stakind1 = 4 THEN s.stanumbers1 WHEN s.stakind2 = 4 THEN s.stanumbers2 WHEN s.stakind3 = 4 THEN s.stanumbers3
            WHEN s.stakind4 = 4 THEN s.stanumbers4 WHEN s.stakind5 = 4 THEN s.stanumbers5 END AS most_common_elem_freqs,
       CASE WHEN s.stakind1 = 5 THEN s.stanumbers1 WHEN s.stakind2 = 5 THEN s.stanumbers2 WHEN s.stakind3 = 5 THEN s.stanumbers3
            WHEN s.stakind4 = 5 THEN s.stanumbers4 WHEN s.stakind5 = 5 THEN s.stanumbers5 END AS elem_count_histogram,
       CASE WHEN s.stakind1 = 6 THEN s.stavalues1 WHEN s.stakind2 = 6 THEN s.stavalues2 WHEN s.stakind3 = 6 THEN s.stavalues3
            WHEN s.stakind4 = 6 THEN s.stavalues4 WHEN s.stakind5 = 6 THEN s.stavalues5 END AS range_length_histogram,
       CASE WHEN s.stakind1 = 6 THEN s.stanumbers1[1] WHEN s.stakind2 = 6 THEN s.stanumbers2[1] WHEN s.stakind3 = 6 THEN s.stanumbers3[1]
            WHEN s.stakind4 = 6 THEN s.stanumbers4[1] WHEN s.stakind5 = 6 THEN s.stanumbers5[1] END AS range_empty_frac,
       CASE WHEN s.stakind1 = 7 THEN s.stavalues1 WHEN s.stakind2 = 7 THEN s.stavalues2 WHEN s.stakind3 = 7 THEN s.stavalues3
            WHEN s.stakind4 = 7 THEN s.stavalues4 WHEN s.stakind5 = 7 THEN s.stavalues5 END AS range_bounds_histogram
FROM pg_catalog.pg_statistic s
     JOIN pg_catalog.pg_class c ON c.oid = s.starelid
     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = s.staattnum
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE NOT a.attisdropped AND has_column_privilege(c.oid, a.attnum, 'select')
      AND (c.relrowsecurity = false OR NOT row_security_active(c.oid));

CREATE VIEW pg_catalog.pg_stat_all_tables AS
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname,
       pg_stat_get_numscans(c.oid) AS seq_scan, pg_stat_get_lastscan(c.oid) AS last_seq_scan,
       pg_stat_get_tuples_returned(c.oid) AS seq_tup_read,
       sum(pg_stat_get_numscans(x.indexrelid))::bigint AS idx_scan, max(pg_stat_get_lastscan(x.indexrelid)) AS last_idx_scan,
       sum(pg_stat_get_tuples_fetched(x.indexrelid))::bigint + pg_stat_get_tuples_fetched(c.oid) AS idx_tup_fetch,
       pg_stat_get_tuples_inserted(c.oid) AS n_tup_ins, pg_stat_get_tuples_updated(c.oid) AS n_tup_upd,
       pg_stat_get_tuples_deleted(c.oid) AS n_tup_del, pg_stat_get_tuples_hot_updated(c.oid) AS n_tup_hot_upd,
       pg_stat_get_tuples_newpage_updated(c.oid) AS n_tup_newpage_upd, pg_stat_get_live_tuples(c.oid) AS n_live_tup,
       pg_stat_get_dead_tuples(c.oid) AS n_dead_tup, pg_stat_get_mod_since_analyze(c.oid) AS n_mod_since_analyze,
       pg_stat_get_ins_since_vacuum(c.oid) AS n_ins_since_vacuum,
       pg_stat_get_last_vacuum_time(c.oid) AS last_vacuum, pg_stat_get_last_autovacuum_time(c.oid) AS last_autovacuum,
       pg_stat_get_last_analyze_time(c.oid) AS last_analyze, pg_stat_get_last_autoanalyze_time(c.oid) AS last_autoanalyze,
       pg_stat_get_vacuum_count(c.oid) AS vacuum_count, pg_stat_get_autovacuum_count(c.oid) AS autovacuum_count,
       pg_stat_get_analyze_count(c.oid) AS analyze_count, pg_stat_get_autoanalyze_count(c.oid) AS autoanalyze_count,
       pg_stat_get_total_vacuum_time(c.oid) AS total_vacuum_time, pg_stat_get_total_autovacuum_time(c.oid) AS total_autovacuum_time,
       pg_stat_get_total_analyze_time(c.oid) AS total_analyze_time, pg_stat_get_total_autoanalyze_time(c.oid) AS total_autoanalyze_time
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_index x ON x.indrelid = c.oid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 't', 'm', 'p')
GROUP BY c.oid, n.nspname, c.relname;

CREATE VIEW pg_catalog.pg_stat_sys_tables AS
SELECT * FROM pg_catalog.pg_stat_all_tables s
WHERE s.schemaname IN ('pg_catalog', 'information_schema') OR s.schemaname ~ '^pg_toast';

CREATE VIEW pg_catalog.pg_stat_user_tables AS
SELECT * FROM pg_catalog.pg_stat_all_tables s
WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast';

CREATE VIEW pg_catalog.pg_stat_all_indexes AS
SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname, i.relname AS indexrelname,
       pg_stat_get_numscans(i.oid) AS idx_scan, pg_stat_get_lastscan(i.oid) AS last_idx_scan,
       pg_stat_get_tuples_returned(i.oid) AS idx_tup_read, pg_stat_get_tuples_fetched(i.oid) AS idx_tup_fetch
FROM pg_catalog.pg_index x
     JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
     JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 't', 'm');

CREATE VIEW pg_catalog.pg_stat_sys_indexes AS
SELECT * FROM pg_catalog.pg_stat_all_indexes s
WHERE s.schemaname IN ('pg_catalog', 'information_schema') OR s.schemaname ~ '^pg_toast';

CREATE VIEW pg_catalog.pg_stat_user_indexes AS
SELECT * FROM pg_catalog.pg_stat_all_indexes s
WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_all_tables AS
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname,
       pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) AS heap_blks_read, pg_stat_get_blocks_hit(c.oid) AS heap_blks_hit,
       sum(pg_stat_get_blocks_fetched(x.indexrelid) - pg_stat_get_blocks_hit(x.indexrelid))::bigint AS idx_blks_read,
       sum(pg_stat_get_blocks_hit(x.indexrelid))::bigint AS idx_blks_hit,
       NULL::bigint AS toast_blks_read, NULL::bigint AS toast_blks_hit, NULL::bigint AS tidx_blks_read, NULL::bigint AS tidx_blks_hit
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_index x ON x.indrelid = c.oid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 't', 'm')
GROUP BY c.oid, n.nspname, c.relname;

CREATE VIEW pg_catalog.pg_statio_sys_tables AS
SELECT * FROM pg_catalog.pg_statio_all_tables s
WHERE s.schemaname IN ('pg_catalog', 'information_schema') OR s.schemaname ~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_user_tables AS
SELECT * FROM pg_catalog.pg_statio_all_tables s
WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_all_indexes AS
SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname, i.relname AS indexrelname,
       pg_stat_get_blocks_fetched(i.oid) - pg_stat_get_blocks_hit(i.oid) AS idx_blks_read, pg_stat_get_blocks_hit(i.oid) AS idx_blks_hit
FROM pg_catalog.pg_index x
     JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
     JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 't', 'm');

CREATE VIEW pg_catalog.pg_statio_sys_indexes AS
SELECT * FROM pg_catalog.pg_statio_all_indexes s
WHERE s.schemaname IN ('pg_catalog', 'information_schema') OR s.schemaname ~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_user_indexes AS
SELECT * FROM pg_catalog.pg_statio_all_indexes s
WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_all_sequences AS
SELECT c.oid AS relid, n.nspname AS schemaname, c.relname,
       pg_stat_get_blocks_fetched(c.oid) - pg_stat_get_blocks_hit(c.oid) AS blks_read, pg_stat_get_blocks_hit(c.oid) AS blks_hit
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S';

CREATE VIEW pg_catalog.pg_statio_sys_sequences AS
SELECT * FROM pg_catalog.pg_statio_all_sequences s
WHERE s.schemaname IN ('pg_catalog', 'information_schema') OR s.schemaname ~ '^pg_toast';

CREATE VIEW pg_catalog.pg_statio_user_sequences AS
SELECT * FROM pg_catalog.pg_statio_all_sequences s
WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema') AND s.schemaname !~ '^pg_toast';

CREATE VIEW pg_catalog.pg_stat_database AS
SELECT d.oid AS datid, d.datname, CASE WHEN d.oid = 0::oid THEN 0 ELSE pg_stat_get_db_numbackends(d.oid) END AS numbackends,
       pg_stat_get_db_xact_commit(d.oid) AS xact_commit, pg_stat_get_db_xact_rollback(d.oid) AS xact_rollback,
       pg_stat_get_db_blocks_fetched(d.oid) - pg_stat_get_db_blocks_hit(d.oid) AS blks_read, pg_stat_get_db_blocks_hit(d.oid) AS blks_hit,
       pg_stat_get_db_tuples_returned(d.oid) AS tup_returned, pg_stat_get_db_tuples_fetched(d.oid) AS tup_fetched,
       pg_stat_get_db_tuples_inserted(d.oid) AS tup_inserted, pg_stat_get_db_tuples_updated(d.oid) AS tup_updated,
       pg_stat_get_db_tuples_deleted(d.oid) AS tup_deleted, pg_stat_get_db_conflict_all(d.oid) AS conflicts,
       pg_stat_get_db_temp_files(d.oid) AS temp_files, pg_stat_get_db_temp_bytes(d.oid) AS temp_bytes,
       pg_stat_get_db_deadlocks(d.oid) AS deadlocks, pg_stat_get_db_checksum_failures(d.oid) AS checksum_failures,
       pg_stat_get_db_checksum_last_failure(d.oid) AS checksum_last_failure, pg_stat_get_db_blk_read_time(d.oid) AS blk_read_time,
       pg_stat_get_db_blk_write_time(d.oid) AS blk_write_time, pg_stat_get_db_session_time(d.oid) AS session_time,
       pg_stat_get_db_active_time(d.oid) AS active_time, pg_stat_get_db_idle_in_transaction_time(d.oid) AS idle_in_transaction_time,
       pg_stat_get_db_sessions(d.oid) AS sessions, pg_stat_get_db_sessions_abandoned(d.oid) AS sessions_abandoned,
       pg_stat_get_db_sessions_fatal(d.oid) AS sessions_fatal, pg_stat_get_db_sessions_killed(d.oid) AS sessions_killed,
       pg_stat_get_db_parallel_workers_to_launch(d.oid) AS parallel_workers_to_launch,
       pg_stat_get_db_parallel_workers_launched(d.oid) AS parallel_workers_launched, pg_stat_get_db_stat_reset_time(d.oid) AS stats_reset
FROM (SELECT 0::oid AS oid, NULL::name AS datname UNION ALL SELECT b.oid, b.datname FROM pg_catalog.pg_database b) d;

CREATE VIEW pg_catalog.pg_stat_database_conflicts AS
SELECT d.oid AS datid, d.datname, pg_stat_get_db_conflict_tablespace(d.oid) AS confl_tablespace,
       pg_stat_get_db_conflict_lock(d.oid) AS confl_lock, pg_stat_get_db_conflict_snapshot(d.oid) AS confl_snapshot,
       pg_stat_get_db_conflict_bufferpin(d.oid) AS confl_bufferpin, pg_stat_get_db_conflict_startup_deadlock(d.oid) AS confl_deadlock,
       pg_stat_get_db_conflict_logicalslot(d.oid) AS confl_active_logicalslot
FROM pg_catalog.pg_database d;

CREATE VIEW pg_catalog.pg_stat_bgwriter AS
SELECT pg_stat_get_bgwriter_buf_written_clean() AS buffers_clean, pg_stat_get_bgwriter_maxwritten_clean() AS maxwritten_clean,
       pg_stat_get_buf_alloc() AS buffers_alloc, pg_stat_get_bgwriter_stat_reset_time() AS stats_reset;

CREATE VIEW pg_catalog.pg_stat_checkpointer AS
SELECT pg_stat_get_checkpointer_num_timed() AS num_timed, pg_stat_get_checkpointer_num_requested() AS num_requested,
       pg_stat_get_checkpointer_num_performed() AS num_done, pg_stat_get_checkpointer_restartpoints_timed() AS restartpoints_timed,
       pg_stat_get_checkpointer_restartpoints_requested() AS restartpoints_req,
       pg_stat_get_checkpointer_restartpoints_performed() AS restartpoints_done, pg_stat_get_checkpointer_write_time() AS write_time,
       pg_stat_get_checkpointer_sync_time() AS sync_time, pg_stat_get_checkpointer_buffers_written() AS buffers_written,
       pg_stat_get_checkpointer_slru_written() AS slru_written, pg_stat_get_checkpointer_stat_reset_time() AS stats_reset;

CREATE VIEW pg_catalog.pg_stat_wal AS
SELECT w.wal_records, w.wal_fpi, w.wal_bytes, w.wal_buffers_full, w.stats_reset FROM pg_stat_get_wal() w;

CREATE VIEW pg_catalog.pg_stat_io AS
SELECT b.backend_type, b.object, b.context, b.reads, b.read_bytes, b.read_time, b.writes, b.write_bytes, b.write_time, b.writebacks,
       b.writeback_time, b.extends, b.extend_bytes, b.extend_time, b.hits, b.evictions, b.reuses, b.fsyncs, b.fsync_time, b.stats_reset
FROM pg_stat_get_io() b;

CREATE VIEW pg_catalog.pg_stat_progress_copy AS
SELECT s.pid, s.datid, d.datname, s.relid, CASE s.param5 WHEN 1 THEN 'COPY FROM' WHEN 2 THEN 'COPY TO' END AS command,
       CASE s.param6 WHEN 1 THEN 'FILE' WHEN 2 THEN 'PROGRAM' WHEN 3 THEN 'PIPE' WHEN 4 THEN 'CALLBACK' END AS type,
       s.param1 AS bytes_processed, s.param2 AS bytes_total, s.param3 AS tuples_processed, s.param4 AS tuples_excluded,
       s.param7 AS tuples_skipped
FROM pg_stat_get_progress_info('COPY') s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid;

CREATE VIEW pg_catalog.pg_stat_progress_create_index AS
SELECT s.pid, s.datid, d.datname, s.relid, s.param7::oid AS index_relid,
       CASE s.param1 WHEN 1 THEN 'CREATE INDEX' WHEN 2 THEN 'CREATE INDEX CONCURRENTLY' WHEN 3 THEN 'REINDEX'
            WHEN 4 THEN 'REINDEX CONCURRENTLY' END AS command,
       CASE s.param10 WHEN 0 THEN 'initializing' WHEN 1 THEN 'waiting for writers before build'
            WHEN 2 THEN 'building index' || COALESCE(': ' || pg_indexam_progress_phasename(s.param9::oid, s.param11), '')
            WHEN 3 THEN 'waiting for writers before validation' WHEN 4 THEN 'index validation: scanning index'
            WHEN 5 THEN 'index validation: sorting tuples' WHEN 6 THEN 'index validation: scanning table'
            WHEN 7 THEN 'waiting for old snapshots' WHEN 8 THEN 'waiting for readers before marking dead'
            WHEN 9 THEN 'waiting for readers before dropping' END AS phase,
       s.param4 AS lockers_total, s.param5 AS lockers_done, s.param6 AS current_locker_pid, s.param16 AS blocks_total,
       s.param17 AS blocks_done, s.param12 AS tuples_total, s.param13 AS tuples_done, s.param14 AS partitions_total,
       s.param15 AS partitions_done
FROM pg_stat_get_progress_info('CREATE INDEX') s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid;

CREATE VIEW pg_catalog.pg_stat_progress_analyze AS
SELECT s.pid, s.datid, d.datname, s.relid,
       CASE s.param1 WHEN 0 THEN 'initializing' WHEN 1 THEN 'acquiring sample rows' WHEN 2 THEN 'acquiring inherited sample rows'
            WHEN 3 THEN 'computing statistics' WHEN 4 THEN 'computing extended statistics' WHEN 5 THEN 'finalizing analyze' END AS phase,
       s.param2 AS sample_blks_total, s.param3 AS sample_blks_scanned, s.param4 AS ext_stats_total, s.param5 AS ext_stats_computed,
       s.param6 AS child_tables_total, s.param7 AS child_tables_done, s.param8::oid AS current_child_table_relid,
       s.param9 / 1000000::double precision AS delay_time
FROM pg_stat_get_progress_info('ANALYZE') s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid;

CREATE VIEW pg_catalog.pg_stat_progress_vacuum AS
SELECT s.pid, s.datid, d.datname, s.relid,
       CASE s.param1 WHEN 0 THEN 'initializing' WHEN 1 THEN 'scanning heap' WHEN 2 THEN 'vacuuming indexes' WHEN 3 THEN 'vacuuming heap'
            WHEN 4 THEN 'cleaning up indexes' WHEN 5 THEN 'truncating heap' WHEN 6 THEN 'performing final cleanup' END AS phase,
       s.param2 AS heap_blks_total, s.param3 AS heap_blks_scanned, s.param4 AS heap_blks_vacuumed, s.param5 AS index_vacuum_count,
       s.param6 AS max_dead_tuple_bytes, s.param7 AS dead_tuple_bytes, s.param8 AS num_dead_item_ids, s.param9 AS indexes_total,
       s.param10 AS indexes_processed, s.param11 / 1000000::double precision AS delay_time
FROM pg_stat_get_progress_info('VACUUM') s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid;

CREATE VIEW pg_catalog.pg_stat_progress_cluster AS
SELECT s.pid, s.datid, d.datname, s.relid, CASE s.param1 WHEN 1 THEN 'CLUSTER' WHEN 2 THEN 'VACUUM FULL' WHEN 3 THEN 'ALTER TABLE' WHEN 4 THEN 'CALL' END AS command,
       CASE s.param2 WHEN 0 THEN 'initializing' WHEN 1 THEN 'seq scanning heap' WHEN 2 THEN 'index scanning heap' WHEN 3 THEN 'sorting tuples'
            WHEN 4 THEN 'writing new heap' WHEN 5 THEN 'swapping relation files' WHEN 6 THEN 'rebuilding index'
            WHEN 7 THEN 'performing final cleanup' END AS phase,
       s.param3::oid AS cluster_index_relid, s.param4 AS heap_tuples_scanned, s.param5 AS heap_tuples_written, s.param6 AS heap_blks_total,
       s.param7 AS heap_blks_scanned, s.param8 AS index_rebuild_count
FROM pg_stat_get_progress_info('CLUSTER') s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid;

CREATE VIEW pg_catalog.pg_stat_progress_basebackup AS
SELECT s.pid,
       CASE s.param1 WHEN 0 THEN 'initializing' WHEN 1 THEN 'waiting for checkpoint to finish' WHEN 2 THEN 'estimating backup size'
            WHEN 3 THEN 'streaming database files' WHEN 4 THEN 'waiting for wal archiving to finish'
            WHEN 5 THEN 'transferring wal files' END AS phase,
       CASE s.param2 WHEN -1 THEN NULL ELSE s.param2 END AS backup_total, s.param3 AS backup_streamed, s.param4 AS tablespaces_total,
       s.param5 AS tablespaces_streamed
FROM pg_stat_get_progress_info('BASEBACKUP') s;

CREATE VIEW information_schema.schemata AS
SELECT current_database()::name AS catalog_name, n.nspname AS schema_name, u.rolname AS schema_owner,
       NULL::name AS default_character_set_catalog, NULL::name AS default_character_set_schema,
       NULL::name AS default_character_set_name, NULL::varchar AS sql_path
FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_authid u ON u.oid = n.nspowner
WHERE pg_has_role(n.nspowner, 'USAGE') OR has_schema_privilege(n.oid, 'CREATE, USAGE');

CREATE VIEW information_schema.tables AS
SELECT current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       (CASE WHEN c.relpersistence = 't' THEN 'LOCAL TEMPORARY' WHEN c.relkind = 'v' THEN 'VIEW' ELSE 'BASE TABLE' END)::varchar AS table_type,
       NULL::name AS self_referencing_column_name, NULL::varchar AS reference_generation, NULL::name AS user_defined_type_catalog,
       NULL::name AS user_defined_type_schema, NULL::name AS user_defined_type_name,
       (CASE WHEN c.relkind IN ('r', 'p') OR c.relkind = 'v' AND pg_relation_is_updatable(c.oid, false) & 8 = 8
             THEN 'YES' ELSE 'NO' END)::varchar AS is_insertable_into,
       'NO'::varchar AS is_typed, NULL::varchar AS commit_action
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'p')
      AND (pg_has_role(c.relowner, 'USAGE')
           OR has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
           OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'));

CREATE VIEW information_schema.views AS
SELECT current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       (CASE WHEN pg_has_role(c.relowner, 'USAGE') THEN pg_get_viewdef(c.oid) END)::varchar AS view_definition,
       (CASE WHEN 'check_option=cascaded' = ANY (c.reloptions) THEN 'CASCADED' WHEN 'check_option=local' = ANY (c.reloptions) THEN 'LOCAL'
             ELSE 'NONE' END)::varchar AS check_option,
       (CASE WHEN pg_relation_is_updatable(c.oid, false) & 20 = 20 THEN 'YES' ELSE 'NO' END)::varchar AS is_updatable,
       (CASE WHEN pg_relation_is_updatable(c.oid, false) & 8 = 8 THEN 'YES' ELSE 'NO' END)::varchar AS is_insertable_into,
       (CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND tgtype & 81 = 81)
             THEN 'YES' ELSE 'NO' END)::varchar AS is_trigger_updatable,
       (CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND tgtype & 73 = 73)
             THEN 'YES' ELSE 'NO' END)::varchar AS is_trigger_deletable,
       (CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_trigger WHERE tgrelid = c.oid AND tgtype & 69 = 69)
             THEN 'YES' ELSE 'NO' END)::varchar AS is_trigger_insertable_into
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'
      AND (pg_has_role(c.relowner, 'USAGE')
           OR has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
           OR has_any_column_privilege(c.oid, 'SELECT, INSERT, UPDATE, REFERENCES'));

CREATE VIEW information_schema.columns AS
SELECT current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       a.attnum::int AS ordinal_position,
       (CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END)::varchar AS column_default,
       (CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END)::varchar AS is_nullable,
       (CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN 'ARRAY' WHEN tn.nspname <> 'pg_catalog' AND t.typtype <> 'd' THEN 'USER-DEFINED'
             ELSE format_type(a.atttypid, NULL) END)::varchar AS data_type,
       CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 4 THEN a.atttypmod - 4
            WHEN a.atttypid IN (1560, 1562) AND a.atttypmod > 0 THEN a.atttypmod END AS character_maximum_length,
       CASE WHEN a.atttypid IN (1042, 1043) AND a.atttypmod > 4 THEN (a.atttypmod - 4) * 4
            WHEN a.atttypid IN (25, 1042, 1043) THEN 1073741824 END AS character_octet_length,
       CASE a.atttypid WHEN 21 THEN 16 WHEN 23 THEN 32 WHEN 20 THEN 64 WHEN 700 THEN 24 WHEN 701 THEN 53
            WHEN 1700 THEN CASE WHEN a.atttypmod > 4 THEN ((a.atttypmod - 4) >> 16) & 65535 END END AS numeric_precision,
       CASE WHEN a.atttypid IN (21, 23, 20, 700, 701) THEN 2 WHEN a.atttypid = 1700 THEN 10 END AS numeric_precision_radix,
       CASE WHEN a.atttypid IN (21, 23, 20) THEN 0
            WHEN a.atttypid = 1700 AND a.atttypmod > 4 THEN (a.atttypmod - 4) & 2047 END AS numeric_scale,
       CASE WHEN a.atttypid = 1082 THEN 0
            WHEN a.atttypid IN (1083, 1114, 1184, 1266) THEN CASE WHEN a.atttypmod < 0 THEN 6 ELSE a.atttypmod END
            WHEN a.atttypid = 1186 THEN CASE WHEN a.atttypmod < 0 OR a.atttypmod & 65535 = 65535 THEN 6 ELSE a.atttypmod & 65535 END
            END AS datetime_precision,
       NULL::varchar AS interval_type, NULL::int AS interval_precision, NULL::name AS character_set_catalog,
       NULL::name AS character_set_schema, NULL::name AS character_set_name,
       CASE WHEN co.collname <> 'default' THEN current_database()::name END AS collation_catalog,
       CASE WHEN co.collname <> 'default' THEN cn.nspname END AS collation_schema,
       CASE WHEN co.collname <> 'default' THEN co.collname END AS collation_name,
       CASE WHEN t.typtype = 'd' THEN current_database()::name END AS domain_catalog,
       CASE WHEN t.typtype = 'd' THEN tn.nspname END AS domain_schema,
       CASE WHEN t.typtype = 'd' THEN t.typname END AS domain_name,
       current_database()::name AS udt_catalog, tn.nspname AS udt_schema, t.typname AS udt_name, NULL::name AS scope_catalog,
       NULL::name AS scope_schema, NULL::name AS scope_name, NULL::int AS maximum_cardinality, a.attnum::text::name AS dtd_identifier,
       'NO'::varchar AS is_self_referencing, (CASE WHEN a.attidentity IN ('a', 'd') THEN 'YES' ELSE 'NO' END)::varchar AS is_identity,
       (CASE a.attidentity WHEN 'a' THEN 'ALWAYS' WHEN 'd' THEN 'BY DEFAULT' END)::varchar AS identity_generation,
       s.seqstart::varchar AS identity_start, s.seqincrement::varchar AS identity_increment, s.seqmax::varchar AS identity_maximum,
       s.seqmin::varchar AS identity_minimum, (CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END)::varchar AS identity_cycle,
       (CASE WHEN a.attgenerated IN ('s', 'v') THEN 'ALWAYS' ELSE 'NEVER' END)::varchar AS is_generated,
       (CASE WHEN a.attgenerated IN ('s', 'v') THEN pg_get_expr(d.adbin, d.adrelid) END)::varchar AS generation_expression,
       (CASE WHEN c.relkind IN ('r', 'p') OR c.relkind = 'v' AND pg_column_is_updatable(c.oid, a.attnum, false)
             THEN 'YES' ELSE 'NO' END)::varchar AS is_updatable
FROM pg_catalog.pg_attribute a
     JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     JOIN pg_catalog.pg_namespace tn ON tn.oid = t.typnamespace
     LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     LEFT JOIN pg_catalog.pg_collation co ON co.oid = a.attcollation
     LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = co.collnamespace
     LEFT JOIN pg_catalog.pg_depend dep ON a.attidentity IN ('a', 'd') AND dep.refclassid = 1259 AND dep.refobjid = a.attrelid
               AND dep.refobjsubid = a.attnum AND dep.classid = 1259 AND dep.deptype = 'i'
     LEFT JOIN pg_catalog.pg_sequence s ON s.seqrelid = dep.objid
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'v', 'p')
      AND (pg_has_role(c.relowner, 'USAGE') OR has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

CREATE VIEW information_schema.enabled_roles AS
SELECT a.rolname AS role_name FROM pg_catalog.pg_authid a WHERE pg_has_role(a.oid, 'USAGE');

CREATE VIEW information_schema.applicable_roles AS
SELECT a.rolname AS grantee, b.rolname AS role_name, (CASE WHEN m.admin_option THEN 'YES' ELSE 'NO' END)::varchar AS is_grantable
FROM (SELECT member, roleid, admin_option FROM pg_catalog.pg_auth_members
      UNION
      SELECT d.datdba, o.oid, false FROM pg_catalog.pg_database d, pg_catalog.pg_authid o
      WHERE d.datname = current_database() AND o.rolname = 'pg_database_owner') m
     JOIN pg_catalog.pg_authid a ON m.member = a.oid
     JOIN pg_catalog.pg_authid b ON m.roleid = b.oid
WHERE pg_has_role(a.oid, 'USAGE');

CREATE VIEW information_schema.administrable_role_authorizations AS
SELECT grantee, role_name, is_grantable FROM information_schema.applicable_roles WHERE is_grantable = 'YES';

CREATE VIEW information_schema.table_privileges AS
SELECT g.rolname AS grantor, e.rolname AS grantee, current_database()::name AS table_catalog, n.nspname AS table_schema,
       c.relname AS table_name, p.privilege_type::varchar AS privilege_type,
       (CASE WHEN p.is_grantable OR pg_has_role(e.oid, c.relowner, 'USAGE') THEN 'YES' ELSE 'NO' END)::varchar AS is_grantable,
       (CASE WHEN p.privilege_type = 'SELECT' THEN 'YES' ELSE 'NO' END)::varchar AS with_hierarchy
FROM pg_catalog.pg_class c
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) p
     JOIN pg_catalog.pg_authid g ON g.oid = p.grantor
     JOIN (SELECT oid, rolname FROM pg_catalog.pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') e (oid, rolname) ON e.oid = p.grantee
WHERE c.relkind IN ('r', 'v', 'p')
      AND p.privilege_type IN ('INSERT', 'SELECT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER')
      AND (pg_has_role(g.oid, 'USAGE') OR pg_has_role(e.oid, 'USAGE') OR e.rolname = 'PUBLIC');

CREATE VIEW information_schema.role_table_grants AS
SELECT grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable, with_hierarchy
FROM information_schema.table_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles);

CREATE VIEW information_schema.column_privileges AS
SELECT g.rolname AS grantor, e.rolname AS grantee, current_database()::name AS table_catalog, n.nspname AS table_schema,
       x.relname AS table_name, x.attname AS column_name, x.privilege_type::varchar AS privilege_type,
       (CASE WHEN x.is_grantable OR pg_has_role(e.oid, x.relowner, 'USAGE') THEN 'YES' ELSE 'NO' END)::varchar AS is_grantable
FROM (SELECT c.relname, c.relnamespace, c.relowner, a.attname, p.grantor, p.grantee, p.privilege_type, p.is_grantable
      FROM pg_catalog.pg_class c
           CROSS JOIN LATERAL aclexplode(coalesce(c.relacl, acldefault('r', c.relowner))) p
           JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
      WHERE c.relkind IN ('r', 'v', 'p') AND a.attnum > 0 AND NOT a.attisdropped
      UNION
      SELECT c.relname, c.relnamespace, c.relowner, a.attname, p.grantor, p.grantee, p.privilege_type, p.is_grantable
      FROM pg_catalog.pg_class c
           JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
           CROSS JOIN LATERAL aclexplode(coalesce(a.attacl, acldefault('c', c.relowner))) p
      WHERE c.relkind IN ('r', 'v', 'p') AND a.attnum > 0 AND NOT a.attisdropped) x
     JOIN pg_catalog.pg_namespace n ON n.oid = x.relnamespace
     JOIN pg_catalog.pg_authid g ON g.oid = x.grantor
     JOIN (SELECT oid, rolname FROM pg_catalog.pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') e (oid, rolname) ON e.oid = x.grantee
WHERE x.privilege_type IN ('INSERT', 'SELECT', 'UPDATE', 'REFERENCES')
      AND (pg_has_role(g.oid, 'USAGE') OR pg_has_role(e.oid, 'USAGE') OR e.rolname = 'PUBLIC');

CREATE VIEW information_schema.role_column_grants AS
SELECT grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type, is_grantable
FROM information_schema.column_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles);

CREATE VIEW information_schema.routine_privileges AS
SELECT g.rolname AS grantor, e.rolname AS grantee, current_database()::name AS specific_catalog, n.nspname AS specific_schema,
       (f.proname || '_' || f.oid)::name AS specific_name, current_database()::name AS routine_catalog,
       n.nspname AS routine_schema, f.proname AS routine_name, 'EXECUTE'::varchar AS privilege_type,
       (CASE WHEN p.is_grantable OR pg_has_role(e.oid, f.proowner, 'USAGE') THEN 'YES' ELSE 'NO' END)::varchar AS is_grantable
FROM pg_catalog.pg_proc f
     JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
     CROSS JOIN LATERAL aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) p
     JOIN pg_catalog.pg_authid g ON g.oid = p.grantor
     JOIN (SELECT oid, rolname FROM pg_catalog.pg_authid UNION ALL SELECT 0::oid, 'PUBLIC') e (oid, rolname) ON e.oid = p.grantee
WHERE p.privilege_type = 'EXECUTE'
      AND (pg_has_role(g.oid, 'USAGE') OR pg_has_role(e.oid, 'USAGE') OR e.rolname = 'PUBLIC');

CREATE VIEW information_schema.role_routine_grants AS
SELECT grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name,
       privilege_type, is_grantable
FROM information_schema.routine_privileges
WHERE grantor IN (SELECT role_name FROM information_schema.enabled_roles)
      OR grantee IN (SELECT role_name FROM information_schema.enabled_roles);

CREATE VIEW information_schema.sequences AS
SELECT current_database()::name AS sequence_catalog, n.nspname AS sequence_schema, c.relname AS sequence_name,
       format_type(s.seqtypid, NULL)::varchar AS data_type,
       CASE s.seqtypid WHEN 21 THEN 16 WHEN 23 THEN 32 ELSE 64 END AS numeric_precision, 2 AS numeric_precision_radix, 0 AS numeric_scale,
       s.seqstart::varchar AS start_value, s.seqmin::varchar AS minimum_value, s.seqmax::varchar AS maximum_value,
       s.seqincrement::varchar AS increment, (CASE WHEN s.seqcycle THEN 'YES' ELSE 'NO' END)::varchar AS cycle_option
FROM pg_catalog.pg_sequence s
     JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'S'
      AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_depend d WHERE d.classid = 1259 AND d.objid = c.oid AND d.deptype = 'i')
      AND (pg_has_role(c.relowner, 'USAGE') OR has_sequence_privilege(c.oid, 'SELECT, UPDATE, USAGE'));

CREATE VIEW information_schema.table_constraints AS
SELECT current_database()::name AS constraint_catalog, cn.nspname AS constraint_schema, k.conname AS constraint_name,
       current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name,
       (CASE k.contype WHEN 'c' THEN 'CHECK' WHEN 'n' THEN 'CHECK' WHEN 'f' THEN 'FOREIGN KEY' WHEN 'p' THEN 'PRIMARY KEY'
             WHEN 'u' THEN 'UNIQUE' END)::varchar AS constraint_type,
       (CASE WHEN k.condeferrable THEN 'YES' ELSE 'NO' END)::varchar AS is_deferrable,
       (CASE WHEN k.condeferred THEN 'YES' ELSE 'NO' END)::varchar AS initially_deferred, (CASE WHEN k.conenforced THEN 'YES' ELSE 'NO' END)::varchar AS enforced,
       (CASE WHEN k.contype = 'u' THEN (SELECT CASE WHEN x.indnullsnotdistinct THEN 'NO' ELSE 'YES' END
             FROM pg_catalog.pg_index x WHERE x.indexrelid = k.conindid) END)::varchar AS nulls_distinct
FROM pg_catalog.pg_constraint k
     JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_namespace cn ON cn.oid = k.connamespace
WHERE k.contype IN ('c', 'n', 'f', 'p', 'u') AND c.relkind IN ('r', 'p')
      AND (pg_has_role(c.relowner, 'USAGE')
           OR has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
           OR has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'));

CREATE VIEW information_schema.key_column_usage AS
SELECT current_database()::name AS constraint_catalog, cn.nspname AS constraint_schema, k.conname AS constraint_name,
       current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       p.i AS ordinal_position, CASE WHEN k.contype = 'f' THEN array_position(x.indkey::int2[], k.confkey[p.i]) + 1 END AS position_in_unique_constraint
FROM pg_catalog.pg_constraint k
     CROSS JOIN LATERAL generate_series(1, array_length(k.conkey, 1)) p(i)
     JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_namespace cn ON cn.oid = k.connamespace
     JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[p.i]
     LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = k.conindid
WHERE k.contype IN ('p', 'u', 'f') AND c.relkind IN ('r', 'p')
      AND (pg_has_role(c.relowner, 'USAGE') OR has_column_privilege(c.oid, a.attnum, 'SELECT, INSERT, UPDATE, REFERENCES'));

CREATE VIEW information_schema.constraint_column_usage AS
SELECT current_database()::name AS table_catalog, n.nspname AS table_schema, c.relname AS table_name, a.attname AS column_name,
       current_database()::name AS constraint_catalog, cn.nspname AS constraint_schema, k.conname AS constraint_name
FROM pg_catalog.pg_constraint k
     JOIN pg_catalog.pg_namespace cn ON cn.oid = k.connamespace
     JOIN pg_catalog.pg_class c ON c.oid = CASE WHEN k.contype = 'f' THEN k.confrelid ELSE k.conrelid END
     JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (CASE WHEN k.contype = 'f' THEN k.confkey ELSE k.conkey END)
WHERE k.contype IN ('c', 'n', 'p', 'u', 'f') AND NOT a.attisdropped AND pg_has_role(c.relowner, 'USAGE');

CREATE VIEW information_schema.referential_constraints AS
SELECT current_database()::name AS constraint_catalog, cn.nspname AS constraint_schema, k.conname AS constraint_name,
       CASE WHEN u.oid IS NOT NULL THEN current_database()::name END AS unique_constraint_catalog,
       un.nspname AS unique_constraint_schema, u.conname AS unique_constraint_name,
       (CASE k.confmatchtype WHEN 'f' THEN 'FULL' WHEN 'p' THEN 'PARTIAL' ELSE 'NONE' END)::varchar AS match_option,
       (CASE k.confupdtype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT'
             ELSE 'NO ACTION' END)::varchar AS update_rule,
       (CASE k.confdeltype WHEN 'c' THEN 'CASCADE' WHEN 'n' THEN 'SET NULL' WHEN 'd' THEN 'SET DEFAULT' WHEN 'r' THEN 'RESTRICT'
             ELSE 'NO ACTION' END)::varchar AS delete_rule
FROM pg_catalog.pg_constraint k
     JOIN pg_catalog.pg_namespace cn ON cn.oid = k.connamespace
     LEFT JOIN pg_catalog.pg_constraint u ON u.conrelid = k.confrelid AND u.conindid = k.conindid AND u.contype IN ('p', 'u')
     LEFT JOIN pg_catalog.pg_namespace un ON un.oid = u.connamespace
     JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
WHERE k.contype = 'f'
      AND (pg_has_role(c.relowner, 'USAGE')
           OR has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
           OR has_any_column_privilege(c.oid, 'INSERT, UPDATE, REFERENCES'));

CREATE VIEW pg_catalog.pg_available_extensions AS
SELECT e.name, e.default_version, x.extversion AS installed_version, e.comment
FROM pg_available_extensions() e LEFT JOIN pg_catalog.pg_extension x ON e.name = x.extname;

CREATE VIEW pg_catalog.pg_available_extension_versions AS
SELECT e.name, e.version, x.extname IS NOT NULL AS installed, e.superuser, e.trusted, e.relocatable, e.schema, e.requires, e.comment
FROM pg_available_extension_versions() e LEFT JOIN pg_catalog.pg_extension x ON e.name = x.extname AND e.version = x.extversion;

CREATE VIEW pg_catalog.kiln_stat_index_writes AS
SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname, i.relname AS indexrelname,
       pg_stat_get_tuples_inserted(i.oid) AS rows_written
FROM pg_catalog.pg_index x
     JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
     JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast';

CREATE VIEW pg_catalog.kiln_stat_hot_rows AS
SELECT h.relid, n.nspname AS schemaname, c.relname, h.row_tid, h.updates_per_second, h.waiters, h.holder_pid
FROM kiln_hot_rows() h
     JOIN pg_catalog.pg_class c ON c.oid = h.relid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_toast';

CREATE VIEW pg_catalog.kiln_stat_commits AS
SELECT t.from_us, t.to_us, t.samples, t.total_us
FROM kiln_commit_times() t;

CREATE VIEW pg_catalog.kiln_stat_undo AS
SELECT u.bytes, u.transactions_bytes, u.snapshots_bytes
FROM kiln_undo() u;

CREATE VIEW pg_catalog.kiln_stat_snapshots AS
SELECT s.pid, s.transactions_since, s.undo_bytes
FROM kiln_snapshots() s;

CREATE VIEW pg_catalog.kiln_stat_inverted_indexes AS
SELECT c.oid AS relid, i.oid AS indexrelid, n.nspname AS schemaname, c.relname, i.relname AS indexrelname, p.pending_rows, p.pending_bytes
FROM kiln_pending_merges() p
     JOIN pg_catalog.pg_index x ON x.indexrelid = p.indexrelid
     JOIN pg_catalog.pg_class c ON c.oid = x.indrelid
     JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;

CREATE VIEW pg_catalog.kiln_stat_slow_statements AS
SELECT s.datid, d.datname, s.usesysid, r.rolname AS usename, s.statement, s.executions, s.total_ms, s.longest_ms, s.last_at, s.plan
FROM kiln_slow_statements() s
     LEFT JOIN pg_catalog.pg_database d ON d.oid = s.datid
     LEFT JOIN pg_catalog.pg_authid r ON r.oid = s.usesysid;

CREATE VIEW pg_catalog.pg_seclabels AS
SELECT NULL::oid AS objoid, NULL::oid AS classoid, NULL::integer AS objsubid, NULL::text AS objtype, NULL::oid AS objnamespace,
       NULL::text AS objname, NULL::text AS provider, NULL::text AS label
WHERE false;

CREATE VIEW pg_catalog.pg_user_mappings AS
SELECT u.oid AS umid, s.oid AS srvid, s.srvname, u.umuser, CASE WHEN u.umuser = 0 THEN 'public'::name ELSE a.rolname END AS usename,
       NULL::text[] AS umoptions
FROM pg_catalog.pg_user_mapping u
     JOIN pg_catalog.pg_foreign_server s ON u.umserver = s.oid
     LEFT JOIN pg_catalog.pg_authid a ON a.oid = u.umuser;

CREATE VIEW pg_catalog.pg_stats_ext AS
SELECT cn.nspname AS schemaname, c.relname AS tablename, sn.nspname AS statistics_schemaname, s.stxname AS statistics_name,
       pg_get_userbyid(s.stxowner) AS statistics_owner,
       (SELECT array_agg(a.attname ORDER BY a.attnum)
        FROM unnest(s.stxkeys) k(attnum) JOIN pg_catalog.pg_attribute a ON a.attrelid = s.stxrelid AND a.attnum = k.attnum) AS attnames,
       pg_get_statisticsobjdef_expressions(s.oid) AS exprs, s.stxkind AS kinds, sd.stxdinherit AS inherited,
       sd.stxdndistinct AS n_distinct, sd.stxddependencies AS dependencies,
       m.most_common_vals, m.most_common_val_nulls, m.most_common_freqs, m.most_common_base_freqs
FROM pg_catalog.pg_statistic_ext s
     JOIN pg_catalog.pg_class c ON c.oid = s.stxrelid
     JOIN pg_catalog.pg_statistic_ext_data sd ON s.oid = sd.stxoid
     LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_namespace sn ON sn.oid = s.stxnamespace
     LEFT JOIN LATERAL (SELECT array_agg(i.values) AS most_common_vals, array_agg(i.nulls) AS most_common_val_nulls,
                               array_agg(i.frequency) AS most_common_freqs, array_agg(i.base_frequency) AS most_common_base_freqs
                        FROM pg_mcv_list_items(sd.stxdmcv) i) m ON sd.stxdmcv IS NOT NULL
WHERE pg_has_role(c.relowner, 'USAGE')
      AND (c.relrowsecurity = false OR NOT row_security_active(c.oid));

CREATE VIEW pg_catalog.pg_stats_ext_exprs AS
SELECT cn.nspname AS schemaname, c.relname AS tablename, sn.nspname AS statistics_schemaname, s.stxname AS statistics_name,
       pg_get_userbyid(s.stxowner) AS statistics_owner, e.expr, sd.stxdinherit AS inherited, a.stanullfrac AS null_frac,
       a.stawidth AS avg_width, a.stadistinct AS n_distinct,
       CASE WHEN a.stakind1 = 1 THEN a.stavalues1
            WHEN a.stakind2 = 1 THEN a.stavalues2
            WHEN a.stakind3 = 1 THEN a.stavalues3
            WHEN a.stakind4 = 1 THEN a.stavalues4
            WHEN a.stakind5 = 1 THEN a.stavalues5 END AS most_common_vals,
       CASE WHEN a.stakind1 = 1 THEN a.stanumbers1
            WHEN a.stakind2 = 1 THEN a.stanumbers2
            WHEN a.stakind3 = 1 THEN a.stanumbers3
            WHEN a.stakind4 = 1 THEN a.stanumbers4
            WHEN a.stakind5 = 1 THEN a.stanumbers5 END AS most_common_freqs,
       CASE WHEN a.stakind1 = 2 THEN a.stavalues1
            WHEN a.stakind2 = 2 THEN a.stavalues2
            WHEN a.stakind3 = 2 THEN a.stavalues3
            WHEN a.stakind4 = 2 THEN a.stavalues4
            WHEN a.stakind5 = 2 THEN a.stavalues5 END AS histogram_bounds,
       CASE WHEN a.stakind1 = 3 THEN a.stanumbers1[1]
            WHEN a.stakind2 = 3 THEN a.stanumbers2[1]
            WHEN a.stakind3 = 3 THEN a.stanumbers3[1]
            WHEN a.stakind4 = 3 THEN a.stanumbers4[1]
            WHEN a.stakind5 = 3 THEN a.stanumbers5[1] END AS correlation,
       CASE WHEN a.stakind1 = 4 THEN a.stavalues1
            WHEN a.stakind2 = 4 THEN a.stavalues2
            WHEN a.stakind3 = 4 THEN a.stavalues3
            WHEN a.stakind4 = 4 THEN a.stavalues4
            WHEN a.stakind5 = 4 THEN a.stavalues5 END AS most_common_elems,
       CASE WHEN a.stakind1 = 4 THEN a.stanumbers1
            WHEN a.stakind2 = 4 THEN a.stanumbers2
            WHEN a.stakind3 = 4 THEN a.stanumbers3
            WHEN a.stakind4 = 4 THEN a.stanumbers4
            WHEN a.stakind5 = 4 THEN a.stanumbers5 END AS most_common_elem_freqs,
       CASE WHEN a.stakind1 = 5 THEN a.stanumbers1
            WHEN a.stakind2 = 5 THEN a.stanumbers2
            WHEN a.stakind3 = 5 THEN a.stanumbers3
            WHEN a.stakind4 = 5 THEN a.stanumbers4
            WHEN a.stakind5 = 5 THEN a.stanumbers5 END AS elem_count_histogram
FROM pg_catalog.pg_statistic_ext s
     JOIN pg_catalog.pg_class c ON c.oid = s.stxrelid
     LEFT JOIN pg_catalog.pg_statistic_ext_data sd ON s.oid = sd.stxoid
     LEFT JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
     LEFT JOIN pg_catalog.pg_namespace sn ON sn.oid = s.stxnamespace
     CROSS JOIN LATERAL unnest(pg_get_statisticsobjdef_expressions(s.oid)) WITH ORDINALITY AS e(expr, n)
     LEFT JOIN pg_catalog.pg_statistic a ON a.starelid = s.oid AND a.staattnum = e.n
WHERE pg_has_role(c.relowner, 'USAGE')
      AND (c.relrowsecurity = false OR NOT row_security_active(c.oid));

CREATE VIEW pg_catalog.pg_hba_file_rules AS
SELECT a.rule_number, a.file_name, a.line_number, a.type, a.database, a.user_name, a.address, a.netmask, a.auth_method,
       a.options, a.error
FROM pg_hba_file_rules() a;

CREATE VIEW pg_catalog.pg_ident_file_mappings AS
SELECT a.map_number, a.file_name, a.line_number, a.map_name, a.sys_name, a.pg_username, a.error
FROM pg_ident_file_mappings() a;

CREATE VIEW pg_catalog.pg_stat_ssl AS
SELECT a.pid, a.ssl, a.sslversion AS version, a.sslcipher AS cipher, a.sslbits AS bits, a.ssl_client_dn AS client_dn,
       a.ssl_client_serial AS client_serial, a.ssl_issuer_dn AS issuer_dn
FROM pg_stat_get_activity(NULL) a
WHERE a.client_port IS NOT NULL;
