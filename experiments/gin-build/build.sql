create index idx_test_info on test using gin (info);
-- A rare word, two words, a phrase, a prefix.
select count(*) from test where info @@ to_tsquery('fbcad');
select count(*) from test where info @@ to_tsquery('fb & dc');
select count(*) from test where info @@ to_tsquery('fb <-> dc');
select count(*) from test where info @@ to_tsquery('fbcad:*');
-- The same with as much pending as there is room for.
alter index idx_test_info set (gin_pending_list_limit = 131072);
insert into test select 0, to_tsvector(t), now() from texts where n <= :rows / 20;
-- A rare word, two words, a phrase, a prefix.
select count(*) from test where info @@ to_tsquery('fbcad');
select count(*) from test where info @@ to_tsquery('fb & dc');
select count(*) from test where info @@ to_tsquery('fb <-> dc');
select count(*) from test where info @@ to_tsquery('fbcad:*');
drop index idx_test_info;
delete from test where id = 0;
vacuum test;
