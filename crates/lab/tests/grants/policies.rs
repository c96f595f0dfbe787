//! Row security: policies that come and go, and questions whose conditions tell which rows they have seen.

use crate::Question;
use crate::world::World;

/// Warns of every value that it is asked about: its warnings are compared.
pub const WITNESS: &str = "create function public.witness(x int) returns boolean language plpgsql as \
                           'begin raise warning ''saw %'', x; return true; end'";

impl World {
    /// What makes some of the tables hide rows from the start.
    pub fn create_policies(&mut self) -> Vec<String> {
        let mut sql = vec![WITNESS.to_string()];
        for table in self.tables.clone().into_iter().chain(self.partitions.clone()) {
            if self.one_in(2) {
                continue;
            }
            let name = format!("{}.{}", table.schema, table.name);
            sql.push(format!("alter table {name} enable row level security"));
            if self.one_in(3) {
                sql.push(format!("alter table {name} force row level security"));
            }
            for _ in 0..1 + self.random.index(3) {
                sql.push(self.create_policy(&name));
            }
        }
        sql
    }

    fn create_policy(&mut self, table: &str) -> String {
        let number = self.random.index(5);
        let kind = self.pick(&["", "", "", " as restrictive"]);
        let command = self.pick(&["", "", "", " for select", " for insert", " for update", " for delete"]);
        let role = match self.random.index(4) {
            0 => format!(" to {}", self.role()),
            1 => format!(" to {}, pg_monitor", self.role()),
            _ => String::new(),
        };
        let using =
            if command == " for insert" { String::new() } else { format!(" using ({})", self.policy_condition()) };
        let has_check = match command {
            " for insert" => true,
            " for select" | " for delete" => false,
            _ => self.one_in(3),
        };
        let check = if has_check { format!(" with check ({})", self.policy_condition()) } else { String::new() };
        format!("create policy y{number} on {table}{kind}{command}{role}{using}{check}")
    }

    fn policy_condition(&mut self) -> String {
        match self.random.index(9) {
            0 => "true".into(),
            1 => "id % 2 = 1".into(),
            2 => "a > 1".into(),
            3 => "b <> 'b3' and id < 150".into(),
            4 => "current_user in ('r1', 'r2', 'r3')".into(),
            5 => format!("pg_has_role('{}', 'usage') or id = 1", self.role()),
            6 => format!("id in (select y.id from {} y)", self.relation_qualified()),
            7 => format!("exists (select 1 from {} y where y.a = 1)", self.relation_qualified()),
            _ => {
                let function = self.functions[self.random.index(3)].clone();
                format!("{}.{}(id) > 2", function.schema, function.name)
            }
        }
    }

    /// A change of policies, or of whether they count.
    pub fn policy_change(&mut self) -> String {
        let table = self.table();
        match self.random.index(10) {
            0..=3 => self.create_policy(&table),
            4 => format!("drop policy if exists y{} on {table}", self.random.index(5)),
            5 => {
                let condition = self.policy_condition();
                format!("alter policy y{} on {table} using ({condition})", self.random.index(5))
            }
            6 => format!("alter table {table} enable row level security"),
            7 => format!("alter table {table} {} row level security", self.pick(&["force", "no force", "disable"])),
            8 => format!("alter policy y{} on {table} to {}", self.random.index(5), self.role()),
            _ => self.pick(&["set row_security = off", "reset row_security", "reset row_security"]).into(),
        }
    }

    /// A statement that sees one row after the other and tells which.
    pub fn witness_question(&mut self) -> Question {
        let table = if self.one_in(5) { self.view() } else { self.table() };
        let more = self.pick(&["", "", " and id < 4", " and a = 1", " and b like 'b%'"]);
        Question::rolled_back(match self.random.index(6) {
            0 => format!("update {table} set b = 'w' where public.witness(id){more}"),
            1 => format!("delete from {table} where public.witness(id){more}"),
            2 => format!("select id from {table} where public.witness(id){more} for update"),
            3 => format!("select row_security_active('{table}')"),
            _ => format!("select id from {table} where public.witness(id){more}"),
        })
    }
}
