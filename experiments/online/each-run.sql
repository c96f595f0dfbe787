-- A change that the end of the load before has cut off is taken back.
drop index if exists online_index;
alter table pgbench_accounts alter bid type int;
alter table pgbench_accounts drop column if exists online_column;
\if :analyzes
alter table pgbench_accounts set (autovacuum_analyze_threshold = 1000, autovacuum_analyze_scale_factor = 0);
\else
alter table pgbench_accounts reset (autovacuum_analyze_threshold, autovacuum_analyze_scale_factor);
\endif
truncate analyzed_before;
insert into analyzed_before
  select coalesce(sum(autoanalyze_count), 0) from pg_stat_all_tables where relid = 'pgbench_accounts'::regclass;
