//! Questions to the functions that say who may do what.

use crate::world::{COLUMNS, World};

impl World {
    pub fn permission_question(&mut self) -> String {
        let subject = match self.random.index(6) {
            0 => String::new(),
            1 => "'public', ".into(),
            _ => format!("'{}', ", self.role()),
        };
        let option = if self.one_in(4) { " with grant option" } else { "" };
        const TABLE: [&str; 9] =
            ["select", "insert", "update", "delete", "truncate", "references", "trigger", "maintain", "select, delete"];
        match self.random.index(14) {
            0..=3 => {
                let (relation, privilege) = (self.relation(), self.pick(&TABLE));
                format!("select has_table_privilege({subject}'{relation}', '{privilege}{option}')")
            }
            4 | 5 => {
                let (relation, column) = (self.relation(), self.pick(&COLUMNS));
                let privilege = self.pick(&["select", "insert", "update", "references"]);
                format!("select has_column_privilege({subject}'{relation}', '{column}', '{privilege}{option}')")
            }
            6 => {
                let relation = self.relation();
                let privilege = self.pick(&["select", "insert", "update", "references"]);
                format!("select has_any_column_privilege({subject}'{relation}', '{privilege}{option}')")
            }
            7 => {
                let privilege = self.pick(&["usage", "select", "update"]);
                format!("select has_sequence_privilege({subject}'{}', '{privilege}{option}')", self.sequence())
            }
            8 => format!("select has_function_privilege({subject}'{}(int)', 'execute{option}')", self.function()),
            9 => {
                let privilege = self.pick(&["usage", "create"]);
                format!("select has_schema_privilege({subject}'{}', '{privilege}{option}')", self.schema())
            }
            10 => match self.random.index(3) {
                0 => format!("select has_type_privilege({subject}'{}', 'usage{option}')", self.type_name()),
                1 => format!("select has_language_privilege({subject}'plpgsql', 'usage{option}')"),
                _ => {
                    let privilege = self.pick(&["create", "temp", "connect"]);
                    format!("select has_database_privilege({subject}'grants_world', '{privilege}{option}')")
                }
            },
            11 => format!("select has_parameter_privilege({subject}'log_statement', 'set{option}')"),
            _ => {
                let option = self.pick(&["", " with admin option", " with grant option"]);
                let subject = subject.replace("'public', ", "");
                let group = if self.one_in(4) { "pg_read_all_data".to_string() } else { self.role() };
                let word = self.pick(&["member", "usage", "set"]);
                format!("select pg_has_role({subject}'{group}', '{word}{option}')")
            }
        }
    }
}
