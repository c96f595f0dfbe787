-- name: CREATE TABLE AS
-- must: 0.4
-- aim: 0.2
create table keyed as select * from source;
-- name: CREATE INDEX
-- must: 0.4
-- aim: 0.2
create index keyed_k on keyed (k);
vacuum analyze keyed;
checkpoint;
-- name: UPDATE of a key column with an index
-- must: 0.4
-- aim: 0.2
update keyed set k = k + 1;
select count(*), sum(k), sum(n) from keyed;
select count(*) from keyed where k between 500000 and 500100;
drop table keyed;
