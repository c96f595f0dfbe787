-- No row comes back from whoever has had enough in this second.
\set caller random_zipfian(1, :callers, 1.1)
insert into usage (caller, second, requests) values (:caller, date_trunc('second', now()), 1)
on conflict (caller, second) do update set requests = usage.requests + 1 where usage.requests < :limit
returning requests;
