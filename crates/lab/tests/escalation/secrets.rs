//! What there is to reach, and the statements that reach for it: each kind of object with each of its privileges.

/// Objects, all of them the owner's; roles; what the thief has. Run by a superuser.
pub const WORLD: &str = "
create role esc_owner;
create role esc_thief login;
create schema vault authorization esc_owner;
create schema closed authorization esc_owner;
create schema den authorization esc_thief;
grant usage on schema vault to esc_thief;
set role esc_owner;
create table vault.t (id int primary key, a int not null check (a < 1000), b text default 'x');
insert into vault.t values (1, 10, 'ten'), (2, 20, 'twenty');
create index on vault.t ((a + 1));
create statistics vault.st on a, b from vault.t;
analyze vault.t;
create table vault.parted (id int, a int) partition by range (id);
create table vault.parted1 partition of vault.parted for values from (0) to (10);
insert into vault.parted values (1, 1);
create view vault.v as select id, a from vault.t;
create materialized view vault.m as select id, a from vault.t;
create unique index m_id on vault.m (id);
create sequence vault.s;
create function vault.f(int) returns int language sql as 'select $1 + 1';
create function vault.fp(int) returns int language plpgsql immutable as 'begin return $1; end';
create function vault.rows() returns setof vault.t language sql security definer as 'select * from vault.t';
create procedure vault.p(int) language plpgsql as 'begin end';
create function vault.tf() returns trigger language plpgsql as 'begin return new; end';
create type vault.mood as enum ('sad', 'glad');
create type vault.pair as (x int, y int);
create type vault.span as range (subtype = int);
create domain vault.positive as int check (value > 0);
create table closed.t (id int);
create function closed.f() returns int language sql as 'select 1';
create type closed.mood as enum ('sad');
create sequence closed.s;
grant all on closed.t, closed.s to esc_thief;
revoke all on all functions in schema vault from public;
revoke all on all procedures in schema vault from public;
revoke usage on type vault.mood, vault.pair, vault.span, vault.positive from public;
select lo_create(4242);
select lo_put(4242, 0, 'secret');
reset role;
revoke execute on function bit_xor(int), int4shl(int, int) from public;
create table den.own (id int, a int);
insert into den.own values (1, 1), (2, 2);
create table den.has_default (a int default vault.f(1), b int);
create table den.has_check (a int check (vault.fp(a) > 0));
create table den.has_index (a int);
insert into den.has_index values (1);
alter table den.own owner to esc_thief;
alter table den.has_default owner to esc_thief;
alter table den.has_check owner to esc_thief;
alter table den.has_index owner to esc_thief;
grant usage on type vault.positive to esc_thief;
create function den.trf() returns trigger language plpgsql as 'begin return new; end';
";

/// When it is asked whether a query may have what it reaches for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Before its first row, and so by EXPLAIN.
    AtTheStart,
    /// By a function that is called, or where rows are checked.
    WhileRunning,
    /// When its names are looked up: what has been stored as a view is not asked about again.
    AtParsing,
}

/// A privilege, and who reaches for what it protects.
pub struct Secret {
    pub name: &'static str,
    /// Grants just what is needed, and takes it back.
    pub grant: &'static str,
    pub revoke: &'static str,
    pub asks: Asks,
    /// Queries and changes of rows: refused without the privilege, allowed with it, in every way there is to run one.
    pub queries: &'static [&'static str],
    /// Other statements of which the same holds.
    pub commands: &'static [&'static str],
    /// What the privilege does not allow either.
    pub beyond: &'static [&'static str],
}

pub const SECRETS: &[Secret] = &[
    Secret {
        name: "SELECT on a table",
        grant: "grant select on vault.t to esc_thief",
        revoke: "revoke select on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[
            "select * from vault.t",
            "select 1 from vault.t",
            "select count(*) from vault.t",
            "select t from vault.t",
            "select ctid, tableoid from vault.t",
            "table vault.t",
            "select a from only vault.t where id = 1",
            "select a + 1 from vault.t where a + 1 = 11",
            "select min(id) from vault.t",
            "select x.a from den.own x left join vault.t y on x.id = y.id",
            "select a from den.own where exists (select from vault.t)",
            "select a from den.own where a in (select a from vault.t)",
            "select a from den.own union select a from vault.t",
            "select * from den.own, lateral (select a from vault.t where t.id = own.id) l",
            "with recursive w as (select id from vault.t union select id + 1 from w where id < 5) select * from w",
            "insert into den.own select id, a from vault.t",
            "update den.own set a = (select max(a) from vault.t)",
            "update den.own set a = t.a from vault.t where t.id = own.id",
            "delete from den.own using vault.t where t.id = own.id",
            "merge into den.own o using vault.t t on o.id = t.id when matched then update set a = t.a",
        ],
        commands: &[
            "copy vault.t to stdout",
            "copy vault.t (a) to stdout",
            "lock table vault.t in access share mode",
            "create table den.copied as table vault.t",
            "create materialized view den.copied as select * from vault.t",
            "do $$ declare r vault.t; begin for r in select * from vault.t loop null; end loop; end $$",
            "do $$ declare c cursor for select * from vault.t; begin open c; end $$",
        ],
        beyond: &[
            "select a from vault.t for update",
            "select a from vault.t for key share",
            "insert into vault.t select * from vault.t",
            "lock table vault.t in row share mode",
        ],
    },
    Secret {
        name: "SELECT on a column",
        grant: "grant select (id) on vault.t to esc_thief",
        revoke: "revoke select (id) on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[
            "select id from vault.t",
            "select count(*) from vault.t",
            "select 1 from vault.t",
            "select x.id from vault.t x join vault.t y using (id)",
            "select max(id) from vault.t where id = 1",
        ],
        commands: &["copy vault.t (id) to stdout"],
        beyond: &[
            "select a from vault.t",
            "select * from vault.t",
            "select t from vault.t",
            "select t.* from vault.t",
            "select row_to_json(t) from vault.t",
            "select id from vault.t where a = 10",
            "select id from vault.t order by b",
            "select id from vault.t group by id, a",
            "select count(a) from vault.t",
            "select id from vault.t x where exists (select from den.own where own.a = x.a)",
            "select x.id from vault.t x natural join den.own",
            "select id, row_number() over (order by a) from vault.t",
            "select id from vault.t where t is not null",
            "select ctid from vault.t",
            "update den.own set a = t.a from vault.t where t.id = own.id",
            "copy vault.t to stdout",
            "select id from vault.t for update",
        ],
    },
    Secret {
        name: "INSERT on a table",
        grant: "grant insert on vault.t to esc_thief",
        revoke: "revoke insert on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[
            "insert into vault.t values (10, 1)",
            "insert into vault.t (id, a) select id + 10, a from den.own",
            "insert into vault.t (id, a) values (11, 1) on conflict do nothing",
            "merge into vault.t using den.own o on false when not matched then insert values (o.id + 20, o.a)",
        ],
        commands: &["copy vault.t from stdin", "lock table vault.t in row exclusive mode"],
        beyond: &[
            "insert into vault.t values (10, 1) returning id",
            "insert into vault.t values (1, 1) on conflict (id) do nothing",
            "insert into vault.t values (1, 1) on conflict (id) do update set a = 1",
            "merge into vault.t using den.own o on t.id = o.id when not matched then insert values (o.id + 20, o.a)",
            "insert into vault.t table vault.t",
            "lock table vault.t in share mode",
        ],
    },
    Secret {
        name: "INSERT on columns",
        grant: "grant insert (id, a) on vault.t to esc_thief",
        revoke: "revoke insert (id, a) on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["insert into vault.t (id, a) values (10, 1)"],
        commands: &["copy vault.t (id, a) from stdin"],
        beyond: &["insert into vault.t values (10, 1, 'x')", "insert into vault.t (id, a, b) values (10, 1, default)"],
    },
    Secret {
        name: "UPDATE on a table",
        grant: "grant update on vault.t to esc_thief",
        revoke: "revoke update on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["update vault.t set a = 5", "update vault.t set (a, b) = (1, 'y')"],
        commands: &["lock table vault.t in share row exclusive mode"],
        beyond: &[
            "update vault.t set a = a + 1",
            "update vault.t set a = 5 where id = 1",
            "update vault.t set a = 5 returning a",
            "update vault.t set a = o.a from den.own o where o.id = t.id",
            "update vault.t set id = 100 where ctid = '(0,1)'",
        ],
    },
    Secret {
        name: "UPDATE on a column",
        grant: "grant update (b) on vault.t to esc_thief",
        revoke: "revoke update (b) on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["update vault.t set b = 'u'"],
        commands: &[],
        beyond: &["update vault.t set a = 5", "update vault.t set a = 5, b = 'u'", "update vault.t set b = b"],
    },
    Secret {
        name: "DELETE on a table",
        grant: "grant delete on vault.t to esc_thief",
        revoke: "revoke delete on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["delete from vault.t"],
        commands: &["lock table vault.t in share mode"],
        beyond: &[
            "delete from vault.t where id = 1",
            "delete from vault.t returning *",
            "delete from vault.t using den.own o where o.id = t.id",
        ],
    },
    Secret {
        name: "TRUNCATE on a table",
        grant: "grant truncate on vault.t to esc_thief",
        revoke: "revoke truncate on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["truncate vault.t", "truncate den.own, vault.t", "lock table vault.t in access exclusive mode"],
        beyond: &["delete from vault.t"],
    },
    Secret {
        name: "REFERENCES on a column",
        grant: "grant references (id) on vault.t to esc_thief",
        revoke: "revoke references (id) on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &[
            "create table den.child (id int references vault.t)",
            "alter table den.own add foreign key (id) references vault.t (id)",
        ],
        beyond: &["select id from vault.t"],
    },
    Secret {
        name: "TRIGGER on a table",
        grant: "grant trigger on vault.t to esc_thief",
        revoke: "revoke trigger on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create trigger tr before insert on vault.t for each row execute function den.trf()"],
        beyond: &["alter table vault.t disable trigger all"],
    },
    Secret {
        name: "MAINTAIN on a table",
        grant: "grant maintain on vault.t to esc_thief",
        revoke: "revoke maintain on vault.t from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["reindex table vault.t", "cluster vault.t using t_pkey", "lock table vault.t in exclusive mode"],
        beyond: &[
            "alter table vault.t add column c int",
            "select * from vault.t",
            "alter table vault.t cluster on t_pkey",
        ],
    },
    Secret {
        name: "MAINTAIN on a materialized view",
        grant: "grant maintain on vault.m to esc_thief",
        revoke: "revoke maintain on vault.m from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["refresh materialized view vault.m", "refresh materialized view concurrently vault.m"],
        beyond: &["select * from vault.m"],
    },
    Secret {
        name: "SELECT on a view",
        grant: "grant select on vault.v to esc_thief",
        revoke: "revoke select on vault.v from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select * from vault.v", "select count(*) from vault.v where id = 1"],
        commands: &["copy (select a from vault.v) to stdout"],
        beyond: &["select * from vault.t", "update vault.v set a = 1", "delete from vault.v", "select * from vault.m"],
    },
    Secret {
        name: "changes through a view",
        grant: "grant insert, update, delete on vault.v to esc_thief",
        revoke: "revoke insert, update, delete on vault.v from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["insert into vault.v values (10, 1)", "update vault.v set a = 1", "delete from vault.v"],
        commands: &[],
        beyond: &[
            "insert into vault.v values (10, 1) returning a",
            "update vault.v set a = 1 where id = 1",
            "delete from vault.t",
        ],
    },
    Secret {
        name: "SELECT on a materialized view",
        grant: "grant select on vault.m to esc_thief",
        revoke: "revoke select on vault.m from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select * from vault.m", "select a from vault.m where id = 1"],
        commands: &["copy vault.m to stdout"],
        beyond: &["select * from vault.t", "refresh materialized view vault.m"],
    },
    Secret {
        name: "SELECT on a partitioned table",
        grant: "grant select on vault.parted to esc_thief",
        revoke: "revoke select on vault.parted from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select * from vault.parted", "select a from vault.parted where id = 1"],
        commands: &["copy (select * from vault.parted) to stdout"],
        beyond: &["select * from vault.parted1", "copy vault.parted1 to stdout", "update vault.parted set a = 1"],
    },
    Secret {
        name: "USAGE on a sequence",
        grant: "grant usage on sequence vault.s to esc_thief",
        revoke: "revoke usage on sequence vault.s from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["select nextval('vault.s')", "insert into den.own values (nextval('vault.s'), 1)"],
        commands: &[],
        beyond: &["select setval('vault.s', 5)", "select * from vault.s"],
    },
    Secret {
        name: "UPDATE on a sequence",
        grant: "grant update on sequence vault.s to esc_thief",
        revoke: "revoke update on sequence vault.s from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["select nextval('vault.s')", "select setval('vault.s', 5)"],
        commands: &[],
        beyond: &["select last_value from vault.s"],
    },
    Secret {
        name: "SELECT on a sequence",
        grant: "grant select on sequence vault.s to esc_thief",
        revoke: "revoke select on sequence vault.s from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select last_value from vault.s", "select * from vault.s"],
        commands: &[],
        beyond: &["select nextval('vault.s')", "select setval('vault.s', 5)"],
    },
    Secret {
        name: "EXECUTE on a function",
        grant: "grant execute on function vault.f(int) to esc_thief",
        revoke: "revoke execute on function vault.f(int) from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[
            "select vault.f(1)",
            "select * from vault.f(1)",
            "select vault.f(a) from den.own",
            "select a from den.own where vault.f(a) > 0",
            "select a from den.own order by vault.f(a)",
            "select count(*) from den.own group by vault.f(a)",
            "select array_agg(vault.f(a)) from den.own",
            "select sum(a) over (order by vault.f(a)) from den.own",
            "select * from rows from (vault.f(1), generate_series(1, 2)) x",
            "select case when a > 0 then vault.f(a) end from den.own",
            "insert into den.has_default (b) values (1)",
            "insert into den.own values (vault.f(1), 1)",
            "update den.own set a = vault.f(a)",
            "delete from den.own where a = vault.f(0)",
        ],
        commands: &[],
        beyond: &[
            "select vault.fp(1)",
            "create or replace function vault.f(int) returns int language sql as 'select 0'",
        ],
    },
    Secret {
        name: "EXECUTE on a function that indexes and checks call",
        grant: "grant execute on function vault.fp(int) to esc_thief",
        revoke: "revoke execute on function vault.fp(int) from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["insert into den.has_check values (1)"],
        commands: &[
            "create index on den.has_index (vault.fp(a))",
            "alter table den.has_index add check (vault.fp(a) > 0)",
            "alter table den.has_index add column g int generated always as (vault.fp(a)) stored",
        ],
        beyond: &[],
    },
    Secret {
        name: "EXECUTE on a function that runs as its owner",
        grant: "grant execute on function vault.rows() to esc_thief",
        revoke: "revoke execute on function vault.rows() from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select * from vault.rows()", "select (vault.rows()).a"],
        commands: &["copy (select * from vault.rows()) to stdout"],
        beyond: &["select * from vault.t"],
    },
    Secret {
        name: "EXECUTE on an aggregate",
        grant: "grant execute on function bit_xor(int) to esc_thief",
        revoke: "revoke execute on function bit_xor(int) from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select bit_xor(a) from den.own", "select bit_xor(a) over () from den.own"],
        commands: &[],
        beyond: &[],
    },
    Secret {
        name: "EXECUTE on an operator's function",
        grant: "grant execute on function int4shl(int, int) to esc_thief",
        revoke: "revoke execute on function int4shl(int, int) from esc_thief",
        asks: Asks::AtTheStart,
        queries: &["select a << 3 from den.own", "select a from den.own where a << 1 = 2"],
        commands: &[],
        beyond: &[],
    },
    Secret {
        name: "EXECUTE on a procedure",
        grant: "grant execute on procedure vault.p(int) to esc_thief",
        revoke: "revoke execute on procedure vault.p(int) from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["call vault.p(1)", "do $$ begin call vault.p(1); end $$"],
        beyond: &[],
    },
    Secret {
        name: "EXECUTE on a trigger's function",
        grant: "grant execute on function vault.tf() to esc_thief",
        revoke: "revoke execute on function vault.tf() from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create trigger tr before insert on den.own for each row execute function vault.tf()"],
        beyond: &[],
    },
    Secret {
        name: "USAGE on an enum type",
        grant: "grant usage on type vault.mood to esc_thief",
        revoke: "revoke usage on type vault.mood from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &[
            "create table den.x (m vault.mood)",
            "create table den.x (m vault.mood[])",
            "alter table den.own add column m vault.mood",
            "create function den.x(vault.mood) returns int language sql as 'select 1'",
            "create function den.x() returns vault.mood language sql as $$ select 'sad'::vault.mood $$",
            "create domain den.x as vault.mood",
            "create type den.x as (m vault.mood)",
        ],
        beyond: &["alter type vault.mood add value 'mad'", "drop type vault.mood"],
    },
    Secret {
        name: "USAGE on a composite type",
        grant: "grant usage on type vault.pair to esc_thief",
        revoke: "revoke usage on type vault.pair from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create table den.x (p vault.pair)"],
        beyond: &["alter type vault.pair add attribute z int"],
    },
    Secret {
        name: "USAGE on a range type",
        grant: "grant usage on type vault.span to esc_thief",
        revoke: "revoke usage on type vault.span from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create table den.x (p vault.span)"],
        beyond: &["drop type vault.span"],
    },
    Secret {
        name: "USAGE on a language",
        grant: "grant usage on language plpgsql to esc_thief",
        revoke: "revoke usage on language plpgsql from esc_thief; revoke usage on language plpgsql from public",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &[
            "create function den.x() returns int language plpgsql as 'begin return 1; end'",
            "do 'begin end'",
            "do language plpgsql 'begin end'",
        ],
        beyond: &[],
    },
    Secret {
        name: "USAGE on a schema",
        grant: "grant usage on schema closed to esc_thief",
        revoke: "revoke usage on schema closed from esc_thief",
        asks: Asks::AtParsing,
        queries: &[
            "select * from closed.t",
            "insert into closed.t values (1)",
            "select closed.f()",
            "select nextval('closed.s')",
            "select 'sad'::closed.mood",
        ],
        commands: &["create table den.x (m closed.mood)", "copy closed.t to stdout", "truncate closed.t"],
        beyond: &["create table closed.x (a int)", "drop table closed.t"],
    },
    Secret {
        name: "CREATE on a schema",
        grant: "grant create on schema vault to esc_thief",
        revoke: "revoke create on schema vault from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &[
            "create table vault.x (a int)",
            "create table vault.x as select 1",
            "select 1 as a into vault.x",
            "create view vault.x as select 1",
            "create sequence vault.x",
            "create function vault.x() returns int language sql as 'select 1'",
            "create procedure vault.x() language sql as 'select 1'",
            "create type vault.x as (a int)",
            "create type vault.x as enum ('a')",
            "create domain vault.x as int",
            "create text search configuration vault.x (copy = simple)",
            "create collation vault.x from \"C\"",
            "create statistics vault.x on id, a from den.own",
            "alter table den.own set schema vault",
        ],
        beyond: &["drop schema vault cascade", "drop table vault.t", "alter schema vault rename to x"],
    },
    Secret {
        name: "CREATE on a database",
        grant: "grant create on database vault to esc_thief",
        revoke: "revoke create on database vault from esc_thief",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create schema x", "create schema x create table t (a int)", "alter schema den rename to lair"],
        beyond: &["alter database vault rename to x", "alter database vault set work_mem = '1MB'"],
    },
    Secret {
        name: "TEMPORARY on a database",
        grant: "grant temporary on database vault to esc_thief",
        revoke: "revoke temporary on database vault from esc_thief; revoke temporary on database vault from public",
        asks: Asks::AtTheStart,
        queries: &[],
        commands: &["create temp table x (a int)", "create temp sequence x", "create temp view x as select 1"],
        beyond: &[],
    },
    Secret {
        name: "SET on a parameter",
        grant: "grant set on parameter log_min_messages to esc_thief",
        revoke: "revoke set on parameter log_min_messages from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["select set_config('log_min_messages', 'error', true)"],
        commands: &[
            "set log_min_messages = 'error'",
            "set local log_min_messages = 'error'",
            "alter role esc_thief set log_min_messages = 'error'",
        ],
        beyond: &["set session_replication_role = 'replica'", "set log_statement = 'none'"],
    },
    Secret {
        name: "SELECT on a large object",
        grant: "grant select on large object 4242 to esc_thief",
        revoke: "revoke select on large object 4242 from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["select lo_get(4242)", "select lo_get(4242, 0, 3)", "select lo_open(4242, 262144)"],
        commands: &[],
        beyond: &[
            "select lo_put(4242, 0, 'x')",
            "select lo_open(4242, 131072)",
            "select lo_unlink(4242)",
            "select * from pg_largeobject",
        ],
    },
    Secret {
        name: "UPDATE on a large object, which wants SELECT too",
        grant: "grant select, update on large object 4242 to esc_thief",
        revoke: "revoke select, update on large object 4242 from esc_thief",
        asks: Asks::WhileRunning,
        queries: &["select lo_put(4242, 0, 'x')", "select lo_open(4242, 131072)"],
        commands: &[],
        beyond: &[
            "select lo_unlink(4242)",
            "comment on large object 4242 is 'x'",
            "alter large object 4242 owner to esc_thief",
        ],
    },
];
