begin isolation level repeatable read;
select count(*) from report;
