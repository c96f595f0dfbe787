\set id random(1, :rows)
select abalance from accounts where aid = :id;
