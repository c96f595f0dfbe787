-- A role that is named after the schema: it is of this run alone.
create role :schema;
create table accounts (aid int primary key, bid int not null, abalance int not null, filler char(84) not null);
insert into accounts select aid, 1 + aid / 100000, 0, '' from generate_series(1, :rows) aid;
create table guarded (like accounts including all);
insert into guarded select * from accounts;
alter table guarded enable row level security;
create policy positive on guarded for select to :schema using (bid > 0);
grant usage on schema :schema to :schema;
grant select on accounts, guarded to :schema;
vacuum analyze accounts;
vacuum analyze guarded;
