\set id random(1, :rows)
select abalance from guarded where aid = :id;
