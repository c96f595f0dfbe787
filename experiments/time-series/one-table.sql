create table metric (at timestamptz not null, sensor int not null, value float8 not null);
create index metric_sensor_at on metric (sensor, at);
create index metric_at on metric (at);
create function add_piece(which int) returns void language plpgsql as $$ begin end $$;
create function retire_piece(which int) returns void language sql as $$
  delete from metric where at >= (select begins from piece where number = which) and at < (select ends from piece where number = which)
$$;
