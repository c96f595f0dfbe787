\set id random(1, :rows)
select balance from account where id = :id;
