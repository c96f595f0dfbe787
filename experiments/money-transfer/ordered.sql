-- The account with the lower number first, so that nobody waits in a circle.
\set payer random(1, :accounts)
\set payee 1 + (:payer + random(0, :accounts - 2)) % :accounts
\set amount random(1, 100)
begin;
\if :payer < :payee
update account set balance = balance - :amount where id = :payer;
update account set balance = balance + :amount where id = :payee;
\else
update account set balance = balance + :amount where id = :payee;
update account set balance = balance - :amount where id = :payer;
\endif
end;
