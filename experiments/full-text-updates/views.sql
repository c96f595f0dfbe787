-- Four searches, then a counter goes up that the index does not concern.
\set first random_zipfian(1, 2000, 1.05)
\set second random(1, 2000)
\set id random(1, :rows)
\if random(1, 5) < 5
select count(*) from document where words @@ to_tsquery('simple', 'w' || :first || ' & w' || :second);
\else
update document set views = views + 1 where id = :id;
\endif
