create table account (id int primary key, balance bigint not null);
insert into account select n, 1000000 from generate_series(1, :accounts) n;
vacuum analyze account;
create table opening (total bigint not null);
insert into opening select sum(balance) from account;
