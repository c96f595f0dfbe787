-- A row for each request, counted over the last second.
\set caller random_zipfian(1, :callers, 1.1)
insert into request (caller, at)
select :caller::int, now()
where (select count(*) from request where caller = :caller and at > now() - interval '1 second') < :limit
returning at;
