create table event (id int primary key, kind text not null, at int not null, size int);
create index event_kind_at on event (kind, at);
create index event_large on event (size) where size > 90;
insert into event select i, (array['start', 'stop', 'error'])[1 + i % 3], 1000 + i, i from generate_series(1, 100) i;
analyze event;
set enable_seqscan = off;
-- shown from here on
-- A range of the key.
SELECT id, size FROM event WHERE id BETWEEN 10 AND 14;
-- A prefix of the key and a range of the next column.
SELECT id FROM event WHERE kind = 'error' AND at > 1090;
-- The order is the index's, and the scan ends with the limit.
SELECT id, at FROM event WHERE kind = 'start' ORDER BY at LIMIT 2;
-- The same from the other end.
SELECT id FROM event ORDER BY id DESC LIMIT 3;
-- The smallest and the largest are one entry each.
SELECT min(id), max(id) FROM event;
-- A partial index.
SELECT id FROM event WHERE size > 95;
-- Two conditions whose rows are united.
SELECT id FROM event WHERE id = 4 OR size = 97 AND size > 90;
