-- As PGMQ's queues: whoever reads a message makes it invisible to others for a while, and archives it when it is done with.
create table queue (
  message_id bigint generated always as identity primary key,
  reads int not null default 0,
  put_at timestamptz not null default now(),
  visible_at timestamptz not null,
  message jsonb not null
);
create index queue_visible_at on queue (visible_at);
create table archive (
  message_id bigint primary key,
  reads int not null,
  put_at timestamptz not null,
  archived_at timestamptz not null default now(),
  message jsonb not null
);
insert into queue (visible_at, message) select clock_timestamp(), jsonb_build_object('number', n) from generate_series(1, :rows) n;

create function send_message(message jsonb) returns bigint language sql as $$
  insert into queue (visible_at, message) values (clock_timestamp(), message) returning message_id
$$;
create function read_messages(timeout_s int, quantity int) returns setof queue language sql as $$
  with found as (
    select message_id from queue where visible_at <= clock_timestamp() order by message_id limit quantity for update skip locked
  )
  update queue set visible_at = clock_timestamp() + make_interval(secs => timeout_s), reads = queue.reads + 1
  from found where queue.message_id = found.message_id
  returning queue.*
$$;
create function archive_message(number bigint) returns boolean language sql as $$
  with gone as (delete from queue where message_id = number returning message_id, reads, put_at, message),
    kept as (insert into archive (message_id, reads, put_at, message) select message_id, reads, put_at, message from gone returning message_id)
  select exists (select from kept)
$$;
create function taken() returns bigint language sql as $$ select count(*) from archive $$;
create function is_whole() returns boolean language sql as $$
  select count(*) = :rows and not exists (select from queue join archive using (message_id)) from queue
$$;
vacuum analyze queue;
