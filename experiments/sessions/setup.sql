create table account (id int primary key, balance bigint not null, owner text not null);
insert into account select n, 0, 'owner ' || n from generate_series(1, :rows) n;
vacuum analyze account;
