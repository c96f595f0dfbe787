\set sensor random(1, 1000)
\set value random(1, 1000000)
insert into metric (at, sensor, value) values (clock_timestamp(), :sensor, :value);
