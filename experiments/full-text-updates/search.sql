\set first random_zipfian(1, 2000, 1.05)
\set second random(1, 2000)
select count(*) from document where words @@ to_tsquery('simple', 'w' || :first || ' & w' || :second);
