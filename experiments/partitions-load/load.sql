\if :is_postgres
-- PostgreSQL 18 refuses a parent that says it is unlogged.
create table loaded (id int primary key, info text, crt_time timestamp) partition by hash (id);
\else
create unlogged table loaded (id int primary key, info text, crt_time timestamp) partition by hash (id);
\endif
do language plpgsql $$ declare begin for i in 0..:partitions-1 loop execute format('create unlogged table loaded_%s partition of loaded for values WITH (MODULUS :partitions, REMAINDER %s)', i, i); end loop; end; $$;
insert into loaded select generate_series(1, :rows), md5(random()::text), clock_timestamp();
drop table loaded;
