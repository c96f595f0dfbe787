-- What COPY FROM reads, each server its own.
-- file: text
copy copied to stdout;
-- file: binary
copy copied to stdout (format binary);
-- file: csv
copy copied to stdout (format csv);

-- name: COPY out, text
-- must: 0.5
-- aim: 0.25
copy copied to stdout;
-- name: COPY in, text
-- must: 0.5
-- aim: 0.25
-- file: text
copy copied_back from stdin;
select count(*), sum(id), sum(account), sum(amount), min(placed), max(placed), min(changed), max(changed), sum(ratio),
  count(ratio), sum(length(label)), count(note), sum(length(note)), count(distinct note)
from copied_back;
-- What follows finds the buffers without changed pages of another table.
truncate copied_back;
checkpoint;

-- name: COPY out, binary
-- must: 0.5
-- aim: 0.25
copy copied to stdout (format binary);
-- name: COPY in, binary
-- must: 0.5
-- aim: 0.25
-- file: binary
copy copied_back from stdin (format binary);
select count(*), sum(id), sum(account), sum(amount), min(placed), max(placed), min(changed), max(changed), sum(ratio),
  count(ratio), sum(length(label)), count(note), sum(length(note)), count(distinct note)
from copied_back;
-- What follows finds the buffers without changed pages of another table.
truncate copied_back;
checkpoint;

-- name: COPY out, CSV
copy copied to stdout (format csv);
-- name: COPY in, CSV
-- file: csv
copy copied_back from stdin (format csv);
select count(*), sum(id), sum(account), sum(amount), min(placed), max(placed), min(changed), max(changed), sum(ratio),
  count(ratio), sum(length(label)), count(note), sum(length(note)), count(distinct note)
from copied_back;
-- What follows finds the buffers without changed pages of another table.
truncate copied_back;
checkpoint;
