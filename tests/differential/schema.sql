-- Small tables with NULLs, duplicates and indexes in several orders, for statements made at random (crates/lab/tests/differential.rs).
create table t (id int primary key, a int, b int, c text);
insert into t select i, nullif((i * 79) % 40, 7), (i*31) % 17, 'x' || i % 9 from generate_series(1, 300) i;
create index t_a on t (a); create index t_ba on t (b desc, a);
create table u (id int primary key, t_id int, v int, w int8);
insert into u select i, nullif((i * 17) % 350, 3), i % 50, (i * 7) % 60 from generate_series(1, 500) i;
create index u_t on u (t_id, v); create index u_w on u (w);
create table d (k int primary key, name text, g int);
insert into d select i, 'n' || i % 5, i % 6 from generate_series(0, 40) i;
create table e (x int, y int2, z int);
insert into e select nullif(i % 30, 0), i % 11, i from generate_series(1, 120) i;
create index e_x on e (x, y);
analyze;
