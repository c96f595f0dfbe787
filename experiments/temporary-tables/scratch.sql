create temp table scratch (a int, b text);
insert into scratch values (1, 'x');
drop table scratch;
