\if :is_postgres
-- PostgreSQL 18 refuses a parent that says it is unlogged.
create table t_order_q ( id serial8 primary key, order_id uuid , cts timestamp not null ) PARTITION BY hash (id) ;
\else
create unlogged table t_order_q ( id serial8 primary key, order_id uuid , cts timestamp not null ) PARTITION BY hash (id) ;
\endif
do language plpgsql $$ declare x int := 256; begin for i in 0..x-1 loop execute format ($_$create unlogged table t_order_q_%s PARTITION OF t_order_q FOR VALUES WITH (MODULUS %s, REMAINDER %s);$_$, i, x, i ); end loop; end $$;
create or replace function dyn_pre_orders(partitions int, client_id int) returns int8 as $$ declare suffix int := mod(client_id, partitions); begin execute format('execute p%s(%s)', suffix, client_id); return 0; exception when others then execute format('prepare p%s(int) as with tmp as (delete from t_order_q_%s where ctid = (select ctid from t_order_q_%s where pg_try_advisory_xact_lock(id) order by id limit 1) returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;', suffix, suffix, suffix); execute format('execute p%s(%s)', suffix, client_id); return 0; end; $$ language plpgsql strict;
