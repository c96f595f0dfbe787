create table job (id int primary key, state text not null default 'new', payload text);
create index job_new on job (id) where state = 'new';
insert into job select i, 'new', 'payload ' || i from generate_series(1, 10) i;
analyze job;
set enable_seqscan = off;
-- shown from here on
-- The next job that nobody has.
SELECT id, payload FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED;
-- The same, taken at once.
UPDATE job SET state = 'taken' WHERE id = (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING id;
-- The job is done.
DELETE FROM job WHERE id = 1;
-- Taken and gone in one statement.
DELETE FROM job WHERE id IN (SELECT id FROM job WHERE state = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) RETURNING payload;
-- Refused rather than waited for, if somebody had it.
SELECT id FROM job WHERE id = 5 FOR NO KEY UPDATE NOWAIT;
SELECT id FROM job WHERE id = 6 FOR SHARE;
