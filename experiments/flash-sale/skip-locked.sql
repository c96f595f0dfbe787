\set item random(1, :parts)
with free as (
  select id from item where id = :item and stock > 0 for update skip locked
), taken as (
  update item set stock = stock - 1, sold = sold + 1 from free where item.id = free.id returning item.id
)
insert into purchase (item, buyer) select id, :client_id::int from taken;
