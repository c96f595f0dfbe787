-- The orders that wait, and those that were taken.
create unlogged table t_order_u (id serial8 primary key, order_id uuid unique, cts timestamp not null, uts timestamp not null, status int not null);
create unlogged table t_order_q (id serial8 primary key, order_id uuid unique, cts timestamp not null);
