create index online_index on pgbench_accounts (abalance);
drop index online_index;
