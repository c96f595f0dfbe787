-- name: loop of text and numeric work
-- must: 0.7
-- aim: 0.5
select texts_and_numerics(:rows / 10);
