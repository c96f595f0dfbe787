-- As PgQ's queues: events are put into one of three tables, a consumer takes all that lies between two ticks at once, and a table that
-- is done with is truncated as a whole, so that no event is ever deleted.
create sequence event_numbers;
create table event_0 (number bigint not null default nextval('event_numbers'), put_at timestamptz not null default now(), payload text not null);
create table event_1 (number bigint not null default nextval('event_numbers'), put_at timestamptz not null default now(), payload text not null);
create table event_2 (number bigint not null default nextval('event_numbers'), put_at timestamptz not null default now(), payload text not null);
create index event_0_number on event_0 (number);
create index event_1_number on event_1 (number);
create index event_2_number on event_2 (number);
create table rotation (current_table int not null);
insert into rotation values (0);
create table tick (number bigint generated always as identity primary key, last_event bigint not null, at timestamptz not null default now());
insert into tick (last_event) values (0);
create table consumer (last_tick bigint not null, taken bigint not null);
insert into consumer values (1, 0);
insert into event_0 (payload) select 'job ' || n from generate_series(1, :rows) n;

create function put_event(what text) returns void language plpgsql as $$
declare
  which int := (select current_table from rotation);
begin
  if which = 0 then insert into event_0 (payload) values (what);
  elsif which = 1 then insert into event_1 (payload) values (what);
  else insert into event_2 (payload) values (what);
  end if;
end $$;

-- The lock waits until nobody has put an event that is not committed yet: all numbers up to the last one are there to be read then.
create function make_tick() returns void language plpgsql as $$
declare
  last bigint;
begin
  lock table event_0, event_1, event_2 in share mode;
  last := greatest((select max(number) from event_0), (select max(number) from event_1), (select max(number) from event_2));
  if last > (select last_event from tick order by number desc limit 1) then
    insert into tick (last_event) values (last);
  end if;
end $$;

-- The events between the consumer's tick and the next one.
create function next_batch() returns table (number bigint, payload text) language sql as $$
  with bounds as (
    select tick.last_event as after, next.last_event as upto
    from consumer join tick on tick.number = consumer.last_tick join tick next on next.number = consumer.last_tick + 1
  )
  select e.number, e.payload from bounds, event_0 e where e.number > after and e.number <= upto
  union all
  select e.number, e.payload from bounds, event_1 e where e.number > after and e.number <= upto
  union all
  select e.number, e.payload from bounds, event_2 e where e.number > after and e.number <= upto
$$;
create function finish_batch() returns void language sql as $$
  update consumer set taken = taken + (select count(*) from next_batch()), last_tick = last_tick + 1
  where exists (select from tick where number = last_tick + 1)
$$;

-- The table after the next one becomes free, if the consumer is behind all that is in it.
create function rotate() returns void language plpgsql as $$
declare
  free int := ((select current_table from rotation) + 1) % 3;
  unread boolean;
begin
  execute format('lock table event_%s in access exclusive mode', free);
  execute format('select exists (select from event_%s where number > (select last_event from tick join consumer on tick.number = last_tick))', free) into unread;
  if not unread then
    execute format('truncate event_%s', free);
    update rotation set current_table = free;
    delete from tick where number < (select last_tick from consumer);
  end if;
end $$;

create function taken() returns bigint language sql as $$ select taken from consumer $$;
-- What was put is taken, or lies behind the consumer's tick.
create function is_whole() returns boolean language sql as $$
  with place as (select last_event from tick join consumer on tick.number = last_tick),
    unread as (
      select number from event_0, place where number > last_event
      union all
      select number from event_1, place where number > last_event
      union all
      select number from event_2, place where number > last_event
    )
  select (select taken from consumer) + (select count(*) from unread) = (select last_value from event_numbers)
$$;
vacuum analyze event_0;
