create table item (id int primary key, stock bigint not null, sold bigint not null);
insert into item select n, 0, 0 from generate_series(1, :parts) n;
create table purchase (id bigint generated always as identity primary key, item int not null, buyer int not null, at timestamptz not null default now());
create table opening (stock bigint not null);
insert into opening values (:stock);
