create table grown (id int primary key, k int, t text);
insert into grown select i, i::bigint * 7919 % 1000003, 'some text' from generate_series(1, :rows / 10) i;
create index grown_k on grown (k);
create table first_size as select pg_relation_size('grown_k') as bytes;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
update grown set k = k + 1;
-- What is given up in the background has some seconds.
select pg_sleep(8);
-- name: size of an index on a changed column after ten whole-table UPDATEs, times the first
-- figure: value
-- must: 1.5
-- aim: 1.1
select round(pg_relation_size('grown_k')::numeric / bytes, 3) from first_size;
select count(*), sum(k) from grown;
drop table grown, first_size;
