alter table pgbench_accounts add online_column uuid default gen_random_uuid();
alter table pgbench_accounts drop online_column;
