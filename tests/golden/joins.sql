create table customer (id int primary key, name text not null);
create table purchase (id int primary key, customer int not null, price int not null);
create index purchase_customer on purchase (customer);
insert into customer select i, 'name ' || i from generate_series(1, 10) i;
insert into purchase select i, 1 + i % 10, i from generate_series(1, 40) i;
analyze customer;
analyze purchase;
-- shown from here on
-- One row leads to several.
SELECT c.name, p.price FROM customer c JOIN purchase p ON p.customer = c.id WHERE c.id = 3;
-- All rows of both sides.
SELECT c.name, sum(p.price) FROM customer c JOIN purchase p ON p.customer = c.id GROUP BY c.name;
-- Rows without a partner.
SELECT c.id FROM customer c LEFT JOIN purchase p ON p.customer = c.id AND p.price > 35 WHERE p.id IS NULL;
-- The side that is looked into for each row of the other.
SELECT c.id, last.price FROM customer c,
  LATERAL (SELECT price FROM purchase p WHERE p.customer = c.id ORDER BY id DESC LIMIT 1) last WHERE c.id < 3;
-- Nothing that can be hashed.
SELECT count(*) FROM customer a JOIN customer b ON a.id < b.id;
-- A full join.
SELECT a.id, b.id FROM customer a FULL JOIN purchase b ON a.id = b.id WHERE a.id = 2 OR b.id = 40;
-- A table with itself by its key.
SELECT a.id, b.name FROM customer a JOIN customer b ON a.id = b.id JOIN purchase p ON p.customer = a.id WHERE p.price = 7;
-- An inner join before an outer one.
SELECT c.id, p.id, o.id FROM customer c LEFT JOIN purchase p ON p.customer = c.id JOIN purchase o ON o.id = c.id WHERE o.price = 4;
