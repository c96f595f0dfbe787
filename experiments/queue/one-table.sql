create unlogged table t_order_q (id serial8 primary key, order_id uuid unique, cts timestamp not null);
