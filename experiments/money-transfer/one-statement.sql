-- Which of the two is locked first is the plan's choice.
\set payer random(1, :accounts)
\set payee 1 + (:payer + random(0, :accounts - 2)) % :accounts
\set amount random(1, 100)
update account set balance = balance + case id when :payer then -1 else 1 end * :amount where id in (:payer, :payee);
