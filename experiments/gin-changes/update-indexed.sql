\set id random(1, :rows)
\set n random(1, :rows)
update test set info = (select to_tsvector(t) from texts where n = :n) where id = :id;
