create table account (id int primary key, amount bigint not null, version bigint not null);
insert into account select g, 0, 0 from generate_series(1, :rows) g;
