create :kind bulk (id int not null, grp int not null, amount numeric(12, 2) not null, note text not null);
insert into bulk select n, n % 1000, n % 10000 / 100.0, 'note ' || n from generate_series(1, :rows) n;
alter table bulk add primary key (id);
\if :indexes
create index bulk_grp on bulk (grp);
create index bulk_amount on bulk (amount);
\endif
analyze bulk;
update bulk set note = note || '!';
update bulk set amount = amount + 1 where grp < 500;
insert into bulk select id, grp, amount, note from bulk where grp < 500 on conflict (id) do update set amount = excluded.amount + 1;
delete from bulk where grp % 2 = 0;
create :kind copied as select * from bulk;
insert into bulk select id + 10 * :rows, grp, amount, note from copied;
alter table bulk add column added int not null default 7;
alter table bulk alter column grp type bigint;
select count(*), sum(amount) from bulk;
truncate bulk;
drop table bulk, copied;
