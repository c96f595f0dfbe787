create table parent (id int primary key, name text);
create table child (id int primary key, parent int references parent on delete cascade on update cascade);
create index child_parent on child (parent);
create table strict (id int primary key, parent int references parent deferrable initially deferred);
insert into parent values (1, 'one'), (2, 'two'), (3, 'three');
insert into child values (10, 1), (11, 1), (12, 2);
-- shown from here on
-- The row that is referred to is looked for, and locked.
INSERT INTO child VALUES (13, 2);
-- Nobody can refer to the column: nothing is looked for.
UPDATE parent SET name = 'ONE' WHERE id = 1;
-- The rows that refer to it go with it.
DELETE FROM parent WHERE id = 1;
-- They follow.
UPDATE parent SET id = 20 WHERE id = 2;
-- The check waits for the commit.
INSERT INTO strict VALUES (1, 3);
-- NULL refers to nothing.
INSERT INTO strict VALUES (2, NULL);
