create table metric (at timestamptz not null, sensor int not null, value float8 not null) partition by range (at);
create index metric_sensor_at on metric (sensor, at);
do $$ begin
  execute format('create table metric_now partition of metric for values from (%L) to (maxvalue)', (select at from start));
end $$;
create function add_piece(which int) returns void language plpgsql as $$
begin
  execute format('create table metric_%s partition of metric for values from (%L) to (%L)', which,
    (select begins from piece where number = which), (select ends from piece where number = which));
end $$;
