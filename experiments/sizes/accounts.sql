drop table if exists accounts;
create table accounts (aid int not null, bid int, abalance int, filler char(84));
insert into accounts select aid, (aid - 1) / 100000 + 1, 0, '' from generate_series(1, :rows) aid;
alter table accounts add primary key (aid);
vacuum analyze accounts;
create view measured as select pg_total_relation_size('accounts') as bytes;
