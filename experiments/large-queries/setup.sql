create table facts (
  id int not null, a int not null, b int not null, k int not null, v bigint not null, x float8 not null, t text not null);
insert into facts
select i, (i::bigint * 7919 % 1000003)::int, (i::bigint * 104729 % 99991)::int, (i::bigint * 15485863 % (:rows / 10))::int,
  i::bigint * 32452843 % 1000000007, (i % 8191) / 16.0, 'row ' || i::bigint * 48271 % 2147483647 || ' of the table'
from generate_series(1, :rows) i;
create table dims (id int primary key, grp int not null, label text not null);
insert into dims select i, (i::bigint * 7919 % (:rows / 100))::int, 'dimension ' || i from generate_series(0, :rows / 10 - 1) i;
vacuum analyze facts, dims;
checkpoint;
