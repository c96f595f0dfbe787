\if :is_postgres
-- PostgreSQL 18 refuses a parent that says it is unlogged.
create table test (id int primary key, info text, crt_time timestamp) partition by hash (id);
\else
create unlogged table test (id int primary key, info text, crt_time timestamp) partition by hash (id);
\endif
do language plpgsql $$ declare begin for i in 0..:partitions-1 loop execute format('create unlogged table test_%s partition of test for values WITH (MODULUS :partitions, REMAINDER %s)', i, i); end loop; end; $$;
