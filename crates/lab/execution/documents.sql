-- Documents of 1 kB, of which a fifth of ROWS.

-- script: documents
-- warm
-- once
create table documents (id int not null, doc jsonb not null);
insert into documents select i, jsonb_build_object(
  'number', i, 'kind', 'kind ' || i % 10, 'amount', i::bigint * 7919 % 100000 / 100.0, 'quantity', i::bigint * 104729 % 100,
  'customer', jsonb_build_object('id', i % 5000, 'name', 'customer ' || i % 5000, 'active', i % 3 = 0),
  'tags', jsonb_build_array('tag ' || i % 7, 'tag ' || i % 11, i % 13), 'first', repeat(md5(i::text), 6),
  'second', repeat(md5((i + 1)::text), 6), 'third', repeat(md5((i + 2)::text), 6), 'fourth', repeat(md5((i + 3)::text), 6))
from generate_series(1, :rows / 5) i;
vacuum analyze documents;
checkpoint;

-- turn
-- row: jsonb, filter and aggregate over two fields of documents of 1 kB
-- must: 0.7
-- aim: 0.4
select doc ->> 'kind', count(*), sum((doc ->> 'amount')::numeric) from documents
where doc ->> 'kind' <> 'kind 3' and (doc ->> 'amount')::numeric > 100 group by 1 order by 1;
-- end
drop table documents;
