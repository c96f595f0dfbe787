-- The payer first: two transfers in opposite directions may wait for each other.
\set payer random(1, :accounts)
\set payee 1 + (:payer + random(0, :accounts - 2)) % :accounts
\set amount random(1, 100)
begin;
update account set balance = balance - :amount where id = :payer;
update account set balance = balance + :amount where id = :payee;
end;
