begin isolation level repeatable read;
select count(*) from t_order_q;
