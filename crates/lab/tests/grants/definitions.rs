//! Definitions, mostly of what belongs to others: all are taken back.

use crate::world::World;
use crate::{Compares, Question, Scope};

impl World {
    fn create(&mut self) -> String {
        let (schema, select) = (self.schema(), self.select());
        match self.random.index(16) {
            0 => format!("create table {schema}.n0 (id int, a int)"),
            1 => format!("create table {schema}.n0 as {select}"),
            2 => format!("create view {schema}.n1 as {select}"),
            3 => format!("create materialized view {schema}.n2 as {select}"),
            4 => format!("create sequence {schema}.n3"),
            5 => format!(
                "create function {schema}.n4(x int) returns int language {}",
                self.pick(&["sql as 'select 1'", "plpgsql as 'begin return 1; end'",])
            ),
            6 => format!("create domain {schema}.n5 as {}", self.type_name()),
            // PostgreSQL looks for the new table by its name then, which USAGE is needed for beside CREATE.
            7 => format!("create table public.n0 (a int references {})", self.table()),
            8 => format!("create table {schema}.n0 (a {})", self.type_name()),
            9 => format!("create table {schema}.n0 (like {} including all)", self.relation()),
            10 => "create temp table n6 (a int)".into(),
            11 => format!("create schema n7 authorization {}", self.role()),
            12 => format!("create type {schema}.n8 as enum ('a')"),
            13 => format!("create table {schema}.n0 (a int default {}(1))", self.function()),
            14 => format!("create temp view n9 as {select}"),
            _ => format!("create table {schema}.n0 (a int check ({}(a) > 0))", self.function()),
        }
    }

    fn alter_table(&mut self) -> String {
        let table = self.table();
        match self.random.index(22) {
            0 => format!("alter table {table} add column n int"),
            1 => format!("alter table {table} drop column b"),
            2 => format!("alter table {table} alter column a set not null"),
            3 => format!("alter table {table} alter column a set default 3"),
            4 => format!("alter table {table} rename column b to n"),
            5 => format!("alter table {table} rename to n"),
            6 => format!("alter table {table} set schema {}", self.schema()),
            7 => format!("alter table {table} add constraint n check (a > -5)"),
            8 => {
                let tables = self.tables.clone();
                let other = self.name_of(&tables);
                format!("alter table {table} add constraint n foreign key (a) references {other}")
            }
            9 => format!("alter table {table} disable trigger user"),
            10 => format!("alter table {table} add column n {}", self.type_name()),
            11 => format!("create index on {table} (a)"),
            12 => format!("create index on {table} ({}(a))", self.function()),
            13 => format!(
                "create trigger n before insert on {table} for each row execute function {}.g0()",
                self.schema()
            ),
            14 => format!("comment on table {table} is 'n'"),
            15 => format!("comment on column {table}.a is 'n'"),
            16 => format!("alter table {table} alter column b type varchar(20)"),
            17 => format!("create statistics {}.n on a, b from {table}", self.schema()),
            18 => format!("alter table {table} set (fillfactor = 70)"),
            19 => format!("alter table {table} rename constraint t1_pkey to n"),
            20 => {
                format!("create table {}.n partition of {table} for values from (2000000) to (3000000)", self.schema())
            }
            _ => {
                let (schema, part) = (self.schema(), self.partitions[0].clone());
                match self.random.index(2) {
                    0 => format!("alter table {table} detach partition {}.{}", part.schema, part.name),
                    _ => format!(
                        "alter table {schema}.t4 attach partition {table} for values from (2000000) to (3000000)"
                    ),
                }
            }
        }
    }

    fn drop_or_alter(&mut self) -> String {
        let cascade = self.pick(&["", " cascade"]);
        match self.random.index(20) {
            0 => format!("drop table {}{cascade}", self.table()),
            1 => format!("drop view {}{cascade}", self.view()),
            2 => format!("drop materialized view {}", self.materialized()),
            3 => format!("drop sequence {}", self.sequence()),
            4 => format!("drop function {}(int)", self.function()),
            5 => format!("drop schema {}{cascade}", self.schema()),
            6 => format!("drop domain {}", self.type_name()),
            7 => format!("alter sequence {} restart", self.sequence()),
            8 => format!("alter function {}(int) rename to n", self.function()),
            9 => format!("alter function {}(int) {}", self.function(), self.pick(&["strict", "security definer"])),
            10 => format!("alter view {} rename to n", self.view()),
            11 => format!("alter schema {} rename to n", self.schema()),
            12 => format!(
                "alter domain {} {}",
                self.type_name(),
                self.pick(&["set default 1", "rename to n", "set not null"])
            ),
            13 => format!("alter sequence {} owned by {}.a", self.sequence(), self.table()),
            14 => format!("create or replace view {} as {}", self.view(), self.select()),
            15 => format!("alter view {} alter column a set default 1", self.view()),
            16 => format!("alter function {}(int) set schema {}", self.function(), self.schema()),
            17 => format!("drop procedure {}()", self.procedure()),
            18 => format!("alter materialized view {} rename to n", self.materialized()),
            _ => {
                format!("create or replace function {}(x int) returns int language sql as 'select 5'", self.function())
            }
        }
    }

    fn maintain(&mut self) -> String {
        match self.random.index(6) {
            0 => format!("refresh materialized view {}", self.materialized()),
            1 => format!("refresh materialized view concurrently {}", self.materialized()),
            2 => format!("reindex table {}", self.table()),
            3 => format!("analyze {}", self.relation()),
            4 => format!("analyze {} (a)", self.table()),
            _ => format!("reindex table {}", self.table()),
        }
    }

    fn role_definition(&mut self) -> String {
        let (role, other) = (self.role(), self.role());
        match self.random.index(16) {
            0 => "create role n".into(),
            1 => format!("create role n in role {role}"),
            2 => format!("create role n role {role} admin {other}"),
            3 => {
                format!("create role n {}", self.pick(&["createdb", "superuser", "bypassrls", "replication", "login"]))
            }
            4 => format!("drop role {role}"),
            5 => format!("alter role {role} rename to n"),
            6 => format!("alter role {role} set work_mem = '1MB'"),
            7 => format!("drop owned by {role}"),
            8 => format!("reassign owned by {role} to {other}"),
            9 => format!("alter role {role} password null"),
            10 => format!("create role n in role {role}, {other}"),
            11 => format!("set session authorization {role}"),
            12 => "alter database grants_world set work_mem = '1MB'".into(),
            13 => format!("alter database grants_world owner to {role}"),
            14 => format!("set log_statement = '{}'", self.pick(&["none", "ddl"])),
            _ => format!("alter role {role} nologin replication"),
        }
    }

    pub fn definition_question(&mut self) -> Question {
        let statement = match self.random.index(12) {
            0..=2 => self.create(),
            3..=5 => self.alter_table(),
            6 | 7 => self.drop_or_alter(),
            8 => self.maintain(),
            9 => {
                let (change, check) = (self.change(), self.permission_question());
                let select = self.select();
                return Question {
                    statements: vec![change, check, select],
                    scope: Scope::RolledBack,
                    compares: Compares::Rows,
                };
            }
            _ => self.role_definition(),
        };
        let mut statements = vec![statement.clone()];
        // What new objects begin with, and what is left of those of a role.
        if statement.starts_with("create") || statement.contains("owned by") {
            statements.push(
                "select relname, relowner::regrole, relacl from pg_class where relname ~ '^[tvmnq][0-9]' and relkind in ('r', 'p', 'v', 'm', 'S')".into(),
            );
            statements
                .push("select proname, proowner::regrole, proacl from pg_proc where proname ~ '^[fpn][0-9]$'".into());
        }
        Question { statements, scope: Scope::RolledBack, compares: Compares::Rows }
    }
}
