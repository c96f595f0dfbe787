begin;
select id as vid from t_order_q order by id for update skip locked limit 1 \gset
with tmp as (delete from t_order_q where id = :vid returning order_id, cts) insert into t_order_u (order_id,cts,uts,status) select tmp.order_id, tmp.cts, now(), 1 from tmp;
end;
