-- A seat that is taken is given back, so that there are always some.
\set block random_zipfian(1, :blocks, 1.2)
\set seat random(1, 20)
begin isolation level serializable;
select count(*) as taken, coalesce(sum((number = :seat)::int), 0) as is_this from seat where block = :block and holder is not null \gset
\if :is_this = 1
update seat set holder = null where block = :block and number = :seat;
\elif :taken < 10
update seat set holder = :client_id where block = :block and number = :seat;
\endif
end;
