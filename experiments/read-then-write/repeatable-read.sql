\set id random(1, :rows)
begin isolation level repeatable read;
select amount from account where id = :id \gset
update account set amount = :amount + 1, version = version + 1 where id = :id;
commit;
