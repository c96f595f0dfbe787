create table tbl (id int primary key, cnt int, ts timestamp);
insert into tbl values (1, 2000000000, now());
