-- Queries of one large table: expressions, a join, groups, windows. Each answer is small, so that the time is the
-- server's and not the client's.

-- script: queries
-- warm
-- once
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

-- turn
-- row: five arithmetic and two text expressions in WHERE and targets
-- must: 0.5
-- aim: 0.2
select count(*), sum(a * 3 + b), sum((v - id) / 7), sum(x * 0.5 + 1), sum(length(upper(t) || 'x'))
from facts where (a + b) % 10 < 7 and v * 2 > a and substr(t, 5, 2) <> '11';

-- row: five arithmetic expressions alone
select count(*), sum(a * 3 + b), sum((v - id) / 7), sum(x * 0.5 + 1) from facts where (a + b) % 10 < 7 and v * 2 > a;

-- row: two text expressions alone
select count(*), sum(length(upper(t) || 'x')) from facts where substr(t, 5, 2) <> '11';

set work_mem = '64MB';
-- row: join with a tenth of the rows, grouped, sorted, work_mem 64 MB
-- must: 0.5
-- aim: 0.25
select d.grp, count(*), sum(f.v) as total from facts f join dims d on d.id = f.k
group by d.grp order by total desc, d.grp offset :rows / 100 - 100;
reset work_mem;

-- row: count(distinct)
-- must: 0.7
-- aim: 0.3
select count(distinct k) from facts;

-- row: DISTINCT
-- must: 0.7
-- aim: 0.3
select count(*), sum(k) from (select distinct k from facts) x;

-- row: array_agg, ordered
-- must: 0.7
-- aim: 0.3
select count(*), sum(cardinality(l)), sum(l[1]), sum(l[cardinality(l)])
from (select k % (:rows / 100) as g, array_agg(v order by v) as l from facts group by 1) x;

-- row: string_agg
-- must: 0.7
-- aim: 0.3
select count(*), sum(length(l)) from (select k % (:rows / 1000) as g, string_agg(t, ', ') as l from facts group by 1) x;

-- row: window, running sum
-- must: 0.7
-- aim: 0.3
select count(*), sum(s), max(s) from (select sum(a) over (order by id) as s from facts) x;

-- row: window, moving sum over 201 rows
-- must: 0.7
-- aim: 0.3
select count(*), sum(s), max(s)
from (select sum(a) over (order by id rows between 100 preceding and 100 following) as s from facts) x;
-- end
drop table facts, dims;
