-- A report of several questions in one snapshot: the answers must be the same, or the division fails.
begin isolation level repeatable read;
select md5(string_agg(format('%s %s %s', bid, n, total), ',' order by bid)) as first_answer from
  (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) branches \gset
select md5(string_agg(format('%s %s %s', bid, n, total), ',' order by bid)) as second_answer from
  (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) branches \gset
select md5(string_agg(format('%s %s %s', bid, n, total), ',' order by bid)) as third_answer from
  (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) branches \gset
select md5(string_agg(format('%s %s %s', bid, n, total), ',' order by bid)) as fourth_answer from
  (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) branches \gset
select md5(string_agg(format('%s %s %s', bid, n, total), ',' order by bid)) as fifth_answer from
  (select bid, count(*) n, sum(abalance) total from pgbench_accounts group by bid) branches \gset
select 1 / (':first_answer' = ':second_answer' and ':first_answer' = ':third_answer' and ':first_answer' = ':fourth_answer' and ':first_answer' = ':fifth_answer')::int;
commit;
