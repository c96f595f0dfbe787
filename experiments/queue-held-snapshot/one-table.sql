-- A queue as most write it: one table, whose first row is the next job.
create table jobs (id bigint generated always as identity primary key, payload text not null, put_at timestamptz not null default now());
insert into jobs (payload) select 'job ' || n from generate_series(1, :rows) n;
create function taken() returns bigint language sql as $$ select (select last_value from jobs_id_seq) - (select count(*) from jobs) $$;
-- Each transaction puts one job and takes one.
create function is_whole() returns boolean language sql as $$ select count(*) = :rows from jobs $$;
vacuum analyze jobs;
