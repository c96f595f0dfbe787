\set id random(1, :rows)
select amount, version from account where id = :id \gset
update account set amount = :amount + 1, version = version + 1 where id = :id and version = :version;
