-- What the other session has read when the load begins. Its snapshot is of the whole database, whatever it looks at.
create table report (id int primary key);
insert into report values (1);
