create unlogged table test (id int primary key, info text);
insert into test select n, md5(n::text) from generate_series(1, :rows) n;
vacuum analyze test;
