create table stock (id int primary key, amount int not null);
create table delivery (id int primary key, amount int not null);
insert into stock values (1, 10), (2, 20), (3, 30);
insert into delivery values (2, 5), (3, -30), (4, 7);
analyze stock;
analyze delivery;
-- shown from here on
MERGE INTO stock s USING delivery d ON s.id = d.id
  WHEN MATCHED AND s.amount + d.amount = 0 THEN DELETE
  WHEN MATCHED THEN UPDATE SET amount = s.amount + d.amount
  WHEN NOT MATCHED THEN INSERT VALUES (d.id, d.amount)
  RETURNING merge_action(), s.*;
-- Rows of the target without a partner.
MERGE INTO stock s USING delivery d ON s.id = d.id
  WHEN NOT MATCHED BY SOURCE THEN UPDATE SET amount = 0
  WHEN NOT MATCHED BY TARGET THEN DO NOTHING;
