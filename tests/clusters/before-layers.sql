-- What the cluster in before-layers.tar.xz was made with, by the build of commit 7365bc1; the database "other" has the table o and the view ov. Its log before
-- the last checkpoint, which nobody needs after a proper stop, is zeros.
create table t (id int primary key, a int check (a > 0), b text default 'x', g int generated always as (a * 2) stored, note text check (note <> 'a'));
create sequence s owned by t.a;
create table ser (id serial primary key, i int generated always as identity, t_id int references t);
create index on t (b) where note = 'a'; create index on t ((a + id)); create unique index on t (lower(b));
create view v as select a, b from t where id > 0; create view w as select a + 1 as x from v; create view grouped as select id, a, b from t group by id;
create type e as enum ('x', 'y'); create domain d as e default 'x' check (value <> 'y'); create type c as (f e, g int); create type r as range (subtype = int4);
create table ty (e e default 'y', d d, c c, r r, arr e[] default '{x}');
create function f(int) returns int language sql immutable as 'select $1 + 1';
create function body(x int) returns bigint language sql begin atomic select count(*) from v where a > x; end;
create procedure pr(x int) language sql begin atomic insert into t (id, a) values (x, x); end;
create function pl() returns trigger language plpgsql as $$ begin new.a := f(new.a); return new; end $$;
create trigger tr before insert or update of a on t for each row when (new.a > 10) execute function pl();
create domain df as int check (f(value) > 0);
create table uses_f (a int default f(1), b int check (f(b) > 1));
create table pt (a int, b text) partition by range (a); create table p1 partition of pt for values from (0) to (10); create table p2 partition of pt for values from (10) to (20);
create table pl_ (k e) partition by list (k); create table pl_x partition of pl_ for values in ('x');
create index on pt (b);
create text search configuration tc (copy = simple); create index ts on t using gin (to_tsvector('tc', b));
create schema sc; create table sc.inner_ (a int); create view sc.iv as select inner_.*, t.b, t.note from sc.inner_ join t on inner_.a = t.id;
create operator class oc for type int4 using btree as operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >, function 1 btint4cmp(int4, int4);
insert into t (id, a, b) values (1, 5, 'one'), (2, 11, 'two'); insert into ser (t_id) values (1), (2); insert into ty (d) values ('x'); insert into pt values (1, 'p'), (11, 'q'); call pr(3);
create unlogged table un (a int); insert into un values (1);
create table gone (a int, b int); create view gv as select a from gone; drop table gone cascade;
create database other;
