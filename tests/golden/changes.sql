create table item (id int primary key, code text unique, stock int not null default 0, total int generated always as (stock * 2) stored,
  check (stock >= 0));
create index item_stock on item (stock);
create table other (id int, stock int);
insert into item values (1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, 'd', 40);
insert into other values (1, 11), (2, 22);
create unlogged table scratch (id int primary key);
create temporary table mine (id int primary key);
-- shown from here on
-- A row, and an entry in each index.
INSERT INTO item (id, code) VALUES (5, 'e');
-- Several rows.
INSERT INTO item (id, code, stock) SELECT i, 'x' || i, i FROM generate_series(6, 8) i RETURNING id, total;
-- No key changes: no index is touched.
UPDATE item SET code = code WHERE id = 1;
-- One key changes: an entry is retired in one index, and one is added.
UPDATE item SET stock = stock + 1 WHERE id = 2;
-- From another table.
UPDATE item SET stock = other.stock FROM other WHERE other.id = item.id;
-- A row goes with its entries.
DELETE FROM item WHERE id = 3;
-- By a join.
DELETE FROM item USING other WHERE other.id = item.id AND other.stock > 20;
-- All rows.
UPDATE other SET stock = 0;
DELETE FROM other;
-- Without the log.
INSERT INTO scratch VALUES (1);
-- Without the log, and without anybody else.
INSERT INTO mine VALUES (1);
-- Nobody waits for the log.
SET synchronous_commit = off;
UPDATE item SET code = 'z' WHERE id = 4;
