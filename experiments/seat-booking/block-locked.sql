\set block random_zipfian(1, :blocks, 1.2)
\set seat random(1, 20)
begin isolation level read committed;
select id from block where id = :block for update;
select count(*) as taken, coalesce(sum((number = :seat)::int), 0) as is_this from seat where block = :block and holder is not null \gset
\if :is_this = 1
update seat set holder = null where block = :block and number = :seat;
\elif :taken < 10
update seat set holder = :client_id where block = :block and number = :seat;
\endif
end;
