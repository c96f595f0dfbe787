//! Statements that mutations start from.

pub const STATEMENTS: &[&str] = &[
    "select id, name from people where id = 12 and name = 'it''s' order by age desc nulls last limit 3 offset - 1;",
    "select p.name, count(*) filter (where x.weight > 1.5e3) from people p left join pets x on x.owner = p.id group by p.name having count(*) > 3000000000",
    "insert into people (id, name) values (1, default), (2, $1) on conflict (id) do update set name = excluded.name || 'x' returning *",
    "update people set age = age + - 5, name = upper(name) from pets where pets.owner = people.id and pets.id in (select 1 union all values (2))",
    "delete from pets using people where owner = people.id and not exists (select from people p where p.id = pets.id)",
    "with recursive t(n) as (values (1) union all select n + 1 from t where n < 4) select n, sum(n) over (partition by n % 2 order by n rows between 1 preceding and current row) from t",
    "merge into pets using people p on p.id = owner when matched and p.age > 3 then update set weight = 2 when not matched then insert (id, owner) values (p.id, 1)",
    "select case when age is null then 'a' else coalesce(name, 'b') end, (array[1, 2, 3])[2:3], (row(1, 'x')).f1, cast('2024-01-01' as date) + interval '1 day 2 hours' from people",
    "select x'1f', b'101', e'\\n\\u0041', U&'\\0041', $tag$ body $$ $tag$, 0x1f, 1_000, .5, 1e10 -- comment\n/* another /* nested */ */",
    "select distinct on (owner) owner, names[1], weight::int4 from pets where names @> array['a'] and weight between symmetric 3 and 1 order by owner, id",
    "select * from pets where id <> all (array[1, null]) order by weight using > for no key update of pets skip locked",
    "create table t (id int4 generated always as identity primary key, name varchar(10) not null check (name <> ''), other int references people on delete cascade)",
    "select grouping(a), a, b from (values (1, 2), (3, 4)) v(a, b) group by grouping sets ((a), (b), rollup (a, b))",
    "explain (analyze, costs off) select * from people, lateral (select generate_series(1, id)) g(x) where x = any ('{1,2}')",
    "select extract(year from born), position('a' in name), substring(name from 2 for 3), name ~ '^a.*$', name like 'x\\_%' escape '\\', overlay(name placing 'b' from 1) from people",
];
