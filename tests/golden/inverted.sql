create table document (id int primary key, body text, tags text[], words tsvector);
create index document_words on document using gin (words);
create index document_tags on document using gin (tags);
insert into document select i, 'body ' || i, array['tag ' || i % 4, 'all'], to_tsvector('simple', 'word' || i || ' common') from generate_series(1, 12) i;
select gin_clean_pending_list('document_words'), gin_clean_pending_list('document_tags');
analyze document;
set enable_seqscan = off;
-- shown from here on
SELECT id FROM document WHERE words @@ to_tsquery('simple', 'word3 | word5');
SELECT id FROM document WHERE tags @> array['tag 1', 'all'] AND id > 6;
-- Another column changes: the index is not touched.
UPDATE document SET body = 'new' WHERE id = 4;
-- The terms of a row change: they wait for the background.
UPDATE document SET tags = array['other'] WHERE id = 4;
INSERT INTO document VALUES (13, 'more', array['all'], to_tsvector('simple', 'common'));
