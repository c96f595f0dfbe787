alter table pgbench_accounts alter bid type bigint;
alter table pgbench_accounts alter bid type int;
