-- As many are put as are read, so that the queue is as long at the end as at the beginning.
insert into message (body) select 'message ' || n from generate_series(1, :batch) n;
delete from message where id = any (array(select id from message order by id limit :batch for update skip locked)) returning id, body;
