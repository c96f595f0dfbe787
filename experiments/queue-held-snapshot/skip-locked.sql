insert into jobs (payload) values ('job');
delete from jobs where id = (select id from jobs order by id limit 1 for update skip locked) returning id, payload;
