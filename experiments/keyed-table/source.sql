create table source as
select i as id, (i::bigint * 7919 % 1000003)::int as k, i::bigint * 104729 % 99991 as n, 'some text ' || i % 1000 as t
from generate_series(1, :rows) i;
vacuum analyze source;
checkpoint;
