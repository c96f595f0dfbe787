create table account (id int primary key, balance int not null, filler char(84) not null);
insert into account select n, 0, '' from generate_series(1, :rows) n;
create table other (id int, n int);
insert into other select n, 0 from generate_series(1, :rows) n;
vacuum analyze account;
vacuum analyze other;
