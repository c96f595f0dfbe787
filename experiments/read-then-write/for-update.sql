\set id random(1, :rows)
begin;
select amount from account where id = :id for update \gset
update account set amount = :amount + 1, version = version + 1 where id = :id;
commit;
