-- Four searches, then a document gets another text.
\set first random_zipfian(1, 2000, 1.05)
\set second random(1, 2000)
\set id random(1, :rows)
\if random(1, 5) < 5
select count(*) from document where words @@ to_tsquery('simple', 'w' || :first || ' & w' || :second);
\else
with made as (select some_words(:id::int, 30) as body)
update document set body = made.body, words = to_tsvector('simple', made.body) from made where id = :id;
\endif
