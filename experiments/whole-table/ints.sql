create table tab (c1 integer);
checkpoint;
-- name: INSERT ... SELECT of ints
-- must: 0.15
-- aim: 0.1
insert into tab select generate_series(1, :rows);
vacuum analyze tab;
-- name: count of ints
-- must: 0.15
-- aim: 0.1
select count(*) from tab;
-- name: UPDATE of ints
-- must: 0.06
-- aim: 0.04
update tab set c1 = c1 + 1;
vacuum analyze tab;
select count(*), sum(c1) from tab;
-- name: DELETE of ints
-- must: 0.06
-- aim: 0.04
delete from tab;
select count(*) from tab;
drop table tab;
