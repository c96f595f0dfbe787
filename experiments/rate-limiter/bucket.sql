-- Each caller has one row, whose tokens come back with time.
\set caller random_zipfian(1, :callers, 1.1)
insert into usage (caller, tokens, at) values (:caller, :limit - 1, now())
on conflict (caller) do update set
  tokens = least(:limit, usage.tokens + :limit * greatest(extract(epoch from now() - usage.at)::float8, 0)) - 1,
  at = greatest(now(), usage.at)
where least(:limit, usage.tokens + :limit * greatest(extract(epoch from now() - usage.at)::float8, 0)) >= 1
returning tokens;
