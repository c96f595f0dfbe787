create table before (id int primary key);
-- shown from here on
-- What one table writes into the catalogs.
CREATE TABLE room (id int PRIMARY KEY, name text NOT NULL);
-- An index over rows that are there.
CREATE INDEX room_name ON room (name);
-- A column whose value no row has to be told of.
ALTER TABLE room ADD COLUMN floor int DEFAULT 0;
ALTER TABLE room RENAME COLUMN floor TO storey;
TRUNCATE room;
DROP TABLE room;
