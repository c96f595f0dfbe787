\set n random(1, :rows)
insert into test select 0, to_tsvector(t), now() from texts where n = :n;
