create table measure (id int, region text, at int, value int, primary key (id, at)) partition by range (at);
create table measure_1 partition of measure for values from (0) to (100);
create table measure_2 partition of measure for values from (100) to (200);
create table measure_rest partition of measure default;
create index measure_region on measure (region);
create table spread (id int primary key, value int) partition by hash (id);
create table spread_0 partition of spread for values with (modulus 2, remainder 0);
create table spread_1 partition of spread for values with (modulus 2, remainder 1);
insert into measure select i, 'region ' || i % 2, i * 20, i from generate_series(1, 12) i;
insert into spread select i, i from generate_series(1, 8) i;
analyze measure;
analyze spread;
-- shown from here on
-- One partition is left.
SELECT value FROM measure WHERE id = 3 AND at = 60;
-- Two are.
SELECT count(*) FROM measure WHERE at BETWEEN 60 AND 120;
-- All are, with a limit that needs the first alone.
SELECT id FROM measure ORDER BY at LIMIT 2;
-- A row finds its partition.
INSERT INTO measure VALUES (20, 'region 1', 150, 20);
-- A row goes to another partition.
UPDATE measure SET at = 50 WHERE id = 20 AND at = 150;
-- By the hash of the key.
UPDATE spread SET value = 0 WHERE id = 5;
