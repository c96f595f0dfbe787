-- pgbench's own tables, as `pgbench -i -s :scale` makes them.
create table pgbench_branches (bid int not null, bbalance int, filler char(88)) with (fillfactor = 100);
create table pgbench_tellers (tid int not null, bid int, tbalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_accounts (aid int not null, bid int, abalance int, filler char(84)) with (fillfactor = 100);
create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
insert into pgbench_branches (bid, bbalance) select bid, 0 from generate_series(1, :scale) bid;
insert into pgbench_tellers (tid, bid, tbalance) select tid, (tid - 1) / 10 + 1, 0 from generate_series(1, 10 * :scale) tid;
insert into pgbench_accounts (aid, bid, abalance, filler) select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, 100000 * :scale) aid;
alter table pgbench_branches add primary key (bid);
alter table pgbench_tellers add primary key (tid);
alter table pgbench_accounts add primary key (aid);
vacuum analyze pgbench_branches;
vacuum analyze pgbench_tellers;
vacuum analyze pgbench_accounts;
vacuum analyze pgbench_history;
-- How often the accounts had been analyzed by themselves before a run.
create table analyzed_before (times bigint not null);
