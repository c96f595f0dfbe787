\set id random(1, :rows)
update account set amount = amount + 1, version = version + 1 where id = :id;
