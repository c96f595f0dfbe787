\set clients 256
select dyn_pre_orders(:clients, :client_id);
