-- Each answer is small, so that the time is the server's and not the client's.

-- name: five arithmetic and two text expressions in WHERE and targets
-- must: 0.5
-- aim: 0.2
select count(*), sum(a * 3 + b), sum((v - id) / 7), sum(x * 0.5 + 1), sum(length(upper(t) || 'x'))
from facts where (a + b) % 10 < 7 and v * 2 > a and substr(t, 5, 2) <> '11';

-- name: five arithmetic expressions alone
select count(*), sum(a * 3 + b), sum((v - id) / 7), sum(x * 0.5 + 1) from facts where (a + b) % 10 < 7 and v * 2 > a;

-- name: two text expressions alone
select count(*), sum(length(upper(t) || 'x')) from facts where substr(t, 5, 2) <> '11';

set work_mem = '64MB';
-- name: join with a tenth of the rows, grouped, sorted, work_mem 64 MB
-- must: 0.5
-- aim: 0.25
select d.grp, count(*), sum(f.v) as total from facts f join dims d on d.id = f.k
group by d.grp order by total desc, d.grp offset :rows / 100 - 100;
reset work_mem;

-- name: count(distinct)
-- must: 0.7
-- aim: 0.3
select count(distinct k) from facts;

-- name: DISTINCT
-- must: 0.7
-- aim: 0.3
select count(*), sum(k) from (select distinct k from facts) x;

-- name: array_agg, ordered
-- must: 0.7
-- aim: 0.3
select count(*), sum(cardinality(l)), sum(l[1]), sum(l[cardinality(l)])
from (select k % (:rows / 100) as g, array_agg(v order by v) as l from facts group by 1) x;

-- name: string_agg
-- must: 0.7
-- aim: 0.3
select count(*), sum(length(l)) from (select k % (:rows / 1000) as g, string_agg(t, ', ') as l from facts group by 1) x;

-- name: window, running sum
-- must: 0.7
-- aim: 0.3
select count(*), sum(s), max(s) from (select sum(a) over (order by id) as s from facts) x;

-- name: window, moving sum over 201 rows
-- must: 0.7
-- aim: 0.3
select count(*), sum(s), max(s)
from (select sum(a) over (order by id rows between 100 preceding and 100 following) as s from facts) x;
