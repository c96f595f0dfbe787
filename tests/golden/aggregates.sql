create table sale (id int primary key, shop text not null, month int not null, amount numeric(10, 2) not null);
insert into sale select i, 'shop ' || i % 3, i % 12, i * 1.5 from generate_series(1, 60) i;
analyze sale;
-- shown from here on
-- Counting looks at blocks alone.
SELECT count(*) FROM sale;
-- Groups, and a condition on them.
SELECT shop, sum(amount), count(DISTINCT month) FROM sale GROUP BY shop HAVING count(*) > 5 ORDER BY shop;
-- A filter of its own for one of the aggregates.
SELECT count(*) FILTER (WHERE month = 1), avg(amount) FROM sale;
-- Several groupings at once.
SELECT shop, month, sum(amount) FROM sale WHERE month < 3 GROUP BY ROLLUP (shop, month);
-- An order within the aggregate.
SELECT string_agg(shop, ',' ORDER BY id DESC) FROM sale WHERE id < 5;
-- Different rows.
SELECT DISTINCT shop FROM sale;
