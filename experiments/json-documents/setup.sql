-- Documents of 1 kB.

create table documents (id int not null, doc jsonb not null);
insert into documents select i, jsonb_build_object(
  'number', i, 'kind', 'kind ' || i % 10, 'amount', i::bigint * 7919 % 100000 / 100.0, 'quantity', i::bigint * 104729 % 100,
  'customer', jsonb_build_object('id', i % 5000, 'name', 'customer ' || i % 5000, 'active', i % 3 = 0),
  'tags', jsonb_build_array('tag ' || i % 7, 'tag ' || i % 11, i % 13), 'first', repeat(md5(i::text), 6),
  'second', repeat(md5((i + 1)::text), 6), 'third', repeat(md5((i + 2)::text), 6), 'fourth', repeat(md5((i + 3)::text), 6))
from generate_series(1, :rows / 5) i;
vacuum analyze documents;
checkpoint;
