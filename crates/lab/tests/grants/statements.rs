//! Statements that read and change rows.

use crate::world::World;
use crate::{Compares, Question, Scope};

impl World {
    fn condition(&mut self, of: &str) -> String {
        match self.random.index(6) {
            0 => String::new(),
            1 => format!(" where {of}id = {}", 1 + self.random.index(6)),
            2 => format!(" where {of}a > 0 and {of}b is not null"),
            3 => format!(" where {of}c in (select c from {})", self.relation()),
            4 => format!(" where {of}id in (select id from {} where a > 0)", self.relation()),
            _ => format!(" where {}({of}a) > 0", self.function()),
        }
    }

    pub fn select(&mut self) -> String {
        let (relation, columns) = (self.relation(), self.columns().join(", "));
        match self.random.index(14) {
            0..=2 => format!("select {columns} from {relation}{}", self.condition("")),
            3 => format!("select * from {relation}"),
            4 => format!("select count(*) from {relation}"),
            5 => format!("select x from {relation} x where x.id = 1"),
            6 => {
                let other = self.relation();
                let (left, right) = (self.columns()[0], self.columns()[0]);
                let kind = self.pick(&["join", "left join", "full join"]);
                format!("select x.{left}, y.{right} from {relation} x {kind} {other} y on x.id = y.id")
            }
            7 => format!("select x.id from {relation} x natural join {} y", self.relation()),
            8 => format!("select (select max(y.a) from {} y where y.id = x.id) from {relation} x", self.relation()),
            9 => format!("with w as (select {columns} from {relation}) select count(*) from w"),
            10 => format!("select {columns} from {relation} where exists (select 1 from {})", self.relation()),
            11 => {
                let lock = self.pick(&["for update", "for share", "for no key update", "for key share"]);
                let table = if self.one_in(3) { self.lockable_view() } else { self.table() };
                let inner = self.one_in(3);
                if inner {
                    format!("select id from (select * from {table}) x {lock}")
                } else {
                    format!("select {columns} from {table} {lock}")
                }
            }
            12 => format!("select {columns} from {relation} union select {columns} from {}", self.relation()),
            _ => format!("select {}, count(*) over () from {relation} order by 1", self.columns()[0]),
        }
    }

    fn returning(&mut self) -> String {
        if self.one_in(3) { format!(" returning {}", self.columns().join(", ")) } else { String::new() }
    }

    /// What a statement changes: a table, or a view.
    fn changed(&mut self) -> String {
        if self.one_in(4) { self.view() } else { self.table() }
    }

    fn insert(&mut self) -> String {
        let table = self.changed();
        let id = 100 + self.random.index(50);
        let start = match self.random.index(6) {
            0 => format!("insert into {table} (id, a) values ({id}, 1)"),
            1 => format!("insert into {table} (a) values (1)"),
            2 => format!("insert into {table} (id, a, b) select {id}, a, b from {} where id = 1", self.relation()),
            3 => format!("insert into {table} values ({id}, 2, 'y')"),
            4 => format!("insert into {table} (id, b) values (1, 'z')"),
            _ => format!("insert into {table} (id) values ({}({id}))", self.function()),
        };
        let conflict = match self.random.index(8) {
            0 => " on conflict do nothing",
            1 => " on conflict (id) do nothing",
            2 => " on conflict (id) do update set a = excluded.a",
            3 => " on conflict (id) do update set b = 'n' where excluded.a > 0",
            _ => "",
        };
        format!("{start}{conflict}{}", self.returning())
    }

    fn update(&mut self) -> String {
        let table = self.changed();
        let set = match self.random.index(6) {
            0 => "a = 2".to_string(),
            1 => "a = a".to_string(),
            2 => "b = 'u'".to_string(),
            3 => format!("a = (select min(a) from {})", self.relation()),
            4 => "(a, b) = (1, 'w')".to_string(),
            _ => "b = default".to_string(),
        };
        if self.one_in(4) {
            let from = self.relation();
            return format!("update {table} x set {set} from {from} y where x.id = y.id and y.id = 2");
        }
        let condition = self.condition("");
        format!("update {table} set {set}{condition}{}", self.returning())
    }

    fn delete(&mut self) -> String {
        let table = self.changed();
        if self.one_in(4) {
            return format!("delete from {table} x using {} y where x.id = y.id", self.relation());
        }
        let condition = self.condition("");
        format!("delete from {table}{condition}{}", self.returning())
    }

    fn merge(&mut self) -> String {
        let (table, source) = (self.changed(), self.relation());
        let mut actions = String::new();
        if self.one_in(2) {
            actions += self.pick(&[
                " when matched and y.a > 0 then update set a = y.a",
                " when matched then delete",
                " when matched then update set b = 'm'",
                " when matched and x.c = 1 then do nothing",
            ]);
        }
        if actions.is_empty() || self.one_in(3) {
            actions += self.pick(&[
                " when not matched then insert (id, a) values (y.id + 200, y.a)",
                " when not matched then do nothing",
                " when not matched then insert (id) values (y.id)",
            ]);
        }
        let returning = if self.one_in(4) { format!(" returning x.{}", self.columns()[0]) } else { String::new() };
        format!("merge into {table} x using {source} y on x.id = y.id{actions}{returning}")
    }

    fn copy(&mut self) -> String {
        let columns = self.columns().join(", ");
        match self.random.index(4) {
            0 => format!("copy {} to stdout", self.table()),
            1 => format!("copy {} ({columns}) to stdout", self.table()),
            2 => format!("copy ({}) to stdout", self.select()),
            _ => format!("copy {} to '/nowhere/x'", self.table()),
        }
    }

    fn sequence_question(&mut self) -> Question {
        let sequence = self.sequence();
        match self.random.index(5) {
            0 | 1 => Question::alone(format!("select nextval('{sequence}')")),
            2 => Question::alone(format!("select currval('{sequence}')")),
            3 => Question::alone(format!("select setval('{sequence}', 20)")),
            _ => Question::alone("select lastval()".into()),
        }
    }

    fn call(&mut self) -> Question {
        let function = self.function();
        match self.random.index(6) {
            0 => Question::rolled_back(format!("call {}()", self.procedure())),
            1 => Question::rolled_back(format!("select * from {function}(1)")),
            2 => Question::rolled_back(format!("do 'begin perform {function}(1); end'")),
            3 => Question::rolled_back(format!("select {function}(a) from {}", self.relation())),
            _ => Question::rolled_back(format!("select {function}({})", self.random.index(4))),
        }
    }

    /// Statements prepared, and cursors opened, by whoever was at work then.
    fn kept(&mut self) -> Question {
        let n = self.random.index(6);
        match self.random.index(6) {
            0 => {
                let select = self.select();
                Question {
                    statements: vec![format!("deallocate p{n}"), format!("prepare p{n} as {select}")],
                    scope: Scope::Alone,
                    compares: Compares::Allowed,
                }
            }
            1 => {
                let select = self.select();
                Question::alone(format!("prepare p{n} as {select}"))
            }
            2 => {
                let (select, role) = (self.select(), self.role());
                let hold = if self.one_in(2) { "" } else { " with hold" };
                let hold = if select.contains(" for ") { "" } else { hold };
                Question {
                    statements: vec![
                        format!("declare k{n} cursor{hold} for {select}"),
                        format!("set local role {role}"),
                        format!("fetch all from k{n}"),
                        format!("close k{n}"),
                    ],
                    scope: Scope::RolledBack,
                    compares: Compares::Rows,
                }
            }
            _ => Question::rolled_back(format!("execute p{n}")),
        }
    }

    pub fn statement_question(&mut self) -> Question {
        match self.random.index(24) {
            0..=6 => {
                let select = self.select();
                self.read_only(select)
            }
            7..=9 => Question::rolled_back(self.insert()),
            10..=12 => Question::rolled_back(self.update()),
            13 => Question::rolled_back(self.delete()),
            14 => Question::rolled_back(self.merge()),
            15 => Question::rolled_back(self.copy()),
            16 => self.sequence_question(),
            17 | 18 => self.call(),
            19 => {
                let analyze = if self.one_in(3) { "analyze, " } else { "" };
                let statement = match self.random.index(4) {
                    0 => self.insert(),
                    1 => self.update(),
                    _ => self.select(),
                };
                Question::allowed(format!("explain ({analyze}costs off) {statement}"))
            }
            20 => {
                let only = if self.one_in(3) { "only " } else { "" };
                let mode = self.pick(&["access share", "row share", "row exclusive", "share", "access exclusive"]);
                Question::rolled_back(format!("lock table {only}{} in {mode} mode", self.table()))
            }
            21 => {
                let cascade = self.pick(&["", " cascade", " restart identity cascade"]);
                Question::rolled_back(format!("truncate {}{cascade}", self.table()))
            }
            _ => self.kept(),
        }
    }
}
