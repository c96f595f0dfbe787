-- Fills up what earlier runs have taken.
insert into t_order_q (order_id, cts) select gen_random_uuid(), clock_timestamp() from generate_series(1, :rows - (select count(*) from t_order_q));
vacuum analyze t_order_q;
