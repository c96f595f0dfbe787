create table reading (id int primary key, sensor int not null, value int not null);
create index reading_sensor on reading (sensor, id);
insert into reading select i, i % 3, i * i from generate_series(1, 15) i;
analyze reading;
-- shown from here on
SELECT sensor, value, rank() OVER (PARTITION BY sensor ORDER BY value DESC) FROM reading;
-- Two windows with one order.
SELECT id, lag(value) OVER w, sum(value) OVER w FROM reading WINDOW w AS (PARTITION BY sensor ORDER BY id);
-- A frame of rows.
SELECT avg(value) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM reading WHERE id < 6;
-- The first of each group.
SELECT * FROM (SELECT id, row_number() OVER (PARTITION BY sensor ORDER BY id) AS n FROM reading) numbered WHERE n = 1;
