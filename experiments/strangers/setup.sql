create table accounts (aid int primary key, bid int not null, abalance int not null, filler char(84) not null);
insert into accounts select aid, 1 + aid / 100000, 0, '' from generate_series(1, :rows) aid;
vacuum analyze accounts;
