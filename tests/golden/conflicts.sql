create table counter (name text primary key, hits int not null default 1, last int unique);
insert into counter values ('a', 1, 10), ('b', 2, 20);
-- shown from here on
-- The row is there, and stays.
INSERT INTO counter (name) VALUES ('a') ON CONFLICT DO NOTHING;
-- The row is there, and changes.
INSERT INTO counter AS c (name) VALUES ('a') ON CONFLICT (name) DO UPDATE SET hits = c.hits + 1 RETURNING hits;
-- The row is not there.
INSERT INTO counter (name) VALUES ('c') ON CONFLICT (name) DO UPDATE SET hits = excluded.hits;
-- The row is there, but not to be changed.
INSERT INTO counter (name, last) VALUES ('z', 20) ON CONFLICT (last) DO UPDATE SET hits = 0 WHERE counter.hits > 5;
