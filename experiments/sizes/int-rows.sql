drop table if exists tab;
create table tab (c1 int);
insert into tab select generate_series(1, :rows);
vacuum analyze tab;
create view measured as select pg_relation_size('tab') as bytes;
