create table account (id int primary key, branch int not null, balance int not null default 0, note text);
create index account_branch on account (branch);
insert into account select i, i % 3, i * 10, 'note ' || i from generate_series(1, 20) i;
analyze account;
set enable_seqscan = off;
-- shown from here on
-- One row by its key: one entry, one row.
SELECT balance FROM account WHERE id = 7;
-- No such row.
SELECT balance FROM account WHERE id = 70;
-- Several keys are one scan each.
SELECT id, note FROM account WHERE id IN (3, 9, 12);
-- An index that is not unique, and a condition that is checked on the row.
SELECT id FROM account WHERE branch = 1 AND balance > 100;
-- NULL equals nothing: nothing is read.
SELECT id FROM account WHERE id = NULL;
