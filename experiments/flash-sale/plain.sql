\set item random(1, :parts)
with taken as (
  update item set stock = stock - 1, sold = sold + 1 where id = :item and stock > 0 returning id
)
insert into purchase (item, buyer) select id, :client_id::int from taken;
