-- Eight columns of the usual types, a NULL now and then, and a text that needs an escape in one row of a thousand.

create table copied (
  id bigint not null, account int not null, amount numeric(12,2) not null, placed date not null, changed timestamp not null,
  ratio float8, label text not null, note text);
insert into copied
select i, (i::bigint * 7919 % 1000003)::int, (i::bigint * 104729 % 10000019 - 5000000) / 100.0, date '2020-01-01' + i % 2000,
  timestamp '2024-01-01' + i * interval '1.000037 s', case when i % 50 <> 0 then (i % 8191) / 16.0 end, 'label ' || i % 1000,
  case when i % 1000 = 0 then E'two\nlines, "one" with a \\' when i % 10 <> 0 then 'a note of row ' || i end
from generate_series(1, :rows) i;
create table copied_back (like copied);
vacuum analyze copied;
checkpoint;
