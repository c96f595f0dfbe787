drop table if exists updated;
create table updated (id int primary key, n int, k int, t text);
insert into updated select i, 0, i % 1000, 'some text' from generate_series(1, :rows) i;
create index on updated (k);
\if :updates > 0
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 1
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 2
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 3
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 4
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 5
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 6
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 7
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 8
update updated set n = n + 1;
vacuum updated;
\endif
\if :updates > 9
update updated set n = n + 1;
vacuum updated;
\endif
create view measured as select pg_total_relation_size('updated') as bytes;
