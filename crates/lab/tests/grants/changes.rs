//! Changes that stay: GRANT and REVOKE, default privileges, owners, roles and their members.

use crate::world::World;

impl World {
    fn grantees(&mut self) -> String {
        let mut names = Vec::new();
        for _ in 0..1 + self.random.index(2) {
            let role = match self.random.index(8) {
                0 => "public".to_string(),
                1 => "current_user".to_string(),
                _ => self.role(),
            };
            if !names.contains(&role) {
                names.push(role);
            }
        }
        names.join(", ")
    }

    /// GRANT or REVOKE of `privileges` on `object`.
    fn grant_or_revoke(&mut self, privileges: &str, object: &str) -> String {
        let grantees = self.grantees();
        let by = if self.one_in(8) { format!(" granted by {}", self.role()) } else { String::new() };
        if self.one_in(3) {
            let option = if self.one_in(4) { "grant option for " } else { "" };
            let behavior = self.pick(&["", " cascade", " restrict"]);
            return format!("revoke {option}{privileges} on {object} from {grantees}{by}{behavior}");
        }
        let option = if self.one_in(3) { " with grant option" } else { "" };
        format!("grant {privileges} on {object} to {grantees}{option}{by}")
    }

    fn some_of(&mut self, words: &[&'static str]) -> String {
        let mut chosen = vec![self.pick(words)];
        for _ in 0..2 {
            let word = self.pick(words);
            if self.one_in(2) && !chosen.contains(&word) {
                chosen.push(word);
            }
        }
        chosen.join(", ")
    }

    fn table_privileges(&mut self) -> String {
        const WORDS: [&str; 9] =
            ["select", "select", "insert", "update", "delete", "truncate", "references", "trigger", "maintain"];
        match self.random.index(6) {
            0 => "all".into(),
            1 | 2 => {
                let columns = self.columns().join(", ");
                let word = self.pick(&["select", "insert", "update", "references", "all"]);
                if self.one_in(3) { format!("{word} ({columns}), select (id)") } else { format!("{word} ({columns})") }
            }
            _ => self.some_of(&WORDS),
        }
    }

    pub fn grant(&mut self) -> String {
        match self.random.index(24) {
            0..=9 => {
                let privileges = self.table_privileges();
                let mut relation = self.relation();
                if self.one_in(6) {
                    relation = format!("{relation}, {}", self.table());
                }
                self.grant_or_revoke(&privileges, &relation)
            }
            10 | 11 => {
                let privileges = self.some_of(&["usage", "select", "update", "all"]);
                let privileges = if privileges.contains("all") { "all".into() } else { privileges };
                let object = format!("sequence {}", self.sequence());
                self.grant_or_revoke(&privileges, &object)
            }
            12..=14 => {
                let object = format!("function {}(int)", self.function());
                let privileges = self.pick(&["execute", "all"]);
                self.grant_or_revoke(privileges, &object)
            }
            15 => {
                let object = format!("procedure {}()", self.procedure());
                self.grant_or_revoke("execute", &object)
            }
            16 | 17 => {
                let privileges = self.pick(&["usage", "create", "usage, create", "all"]);
                let schema = self.pick(&["s0", "s1", "s2"]);
                self.grant_or_revoke(privileges, &format!("schema {schema}"))
            }
            18 => {
                let object = format!("{} {}", self.pick(&["type", "domain"]), self.type_name());
                self.grant_or_revoke("usage", &object)
            }
            19 => {
                let privileges = self.pick(&["create", "temporary", "temp, create", "all"]);
                self.grant_or_revoke(privileges, "database grants_world")
            }
            20 => self.grant_or_revoke("usage", "language plpgsql"),
            21 => {
                let (privileges, object) = match self.random.index(4) {
                    0 => (self.pick(&["execute", "all"]), "all functions in schema"),
                    1 => (self.pick(&["usage", "select, update", "all"]), "all sequences in schema"),
                    2 => ("execute", "all routines in schema"),
                    _ => (self.pick(&["select", "insert, update", "all", "maintain"]), "all tables in schema"),
                };
                let object = format!("{object} {}", self.schema());
                self.grant_or_revoke(privileges, &object)
            }
            22 => {
                let parameter = self.pick(&["log_min_messages", "log_statement"]);
                self.grant_or_revoke("set", &format!("parameter {parameter}"))
            }
            _ => self.grant_role(),
        }
    }

    pub fn grant_role(&mut self) -> String {
        let (role, member) = (self.role(), self.role());
        let by = if self.one_in(6) { format!(" granted by {}", self.role()) } else { String::new() };
        if self.one_in(4) {
            let option = self.pick(&["", "", "admin option for ", "inherit option for ", "set option for "]);
            let behavior = self.pick(&["", " cascade"]);
            return format!("revoke {option}{role} from {member}{by}{behavior}");
        }
        let options =
            self.pick(&["", " with admin true", " with inherit false", " with set false", " with admin option"]);
        let more = match options {
            "" | " with admin option" => "",
            _ => self.pick(&["", ", set true", ", inherit true", ", set false, admin false"]),
        };
        let more =
            if more.split_whitespace().any(|w| w.len() > 2 && options.contains(w) && w.starts_with(['s', 'i', 'a'])) {
                ""
            } else {
                more
            };
        format!("grant {role} to {member}{options}{more}{by}")
    }

    fn default_privileges(&mut self) -> String {
        let role = if self.one_in(2) { format!(" for role {}", self.role()) } else { String::new() };
        let schema = if self.one_in(2) { format!(" in schema {}", self.schema()) } else { String::new() };
        let (privileges, kind) = match self.random.index(5) {
            0 => ("execute", "functions"),
            1 => (self.pick(&["usage", "select, update", "all"]), "sequences"),
            2 => ("usage", "types"),
            3 if schema.is_empty() => (self.pick(&["usage", "create", "all"]), "schemas"),
            _ => (self.pick(&["select", "insert, update", "all", "references, trigger"]), "tables"),
        };
        let grantees = self.grantees().replace("current_user", "public");
        let grantees = if grantees == "public, public" { "public".into() } else { grantees };
        let change = if self.one_in(3) {
            format!("revoke {privileges} on {kind} from {grantees}")
        } else {
            let option = if self.one_in(4) { " with grant option" } else { "" };
            format!("grant {privileges} on {kind} to {grantees}{option}")
        };
        format!("alter default privileges{role}{schema} {change}")
    }

    pub fn owner_change(&mut self) -> String {
        let role = if self.one_in(6) { "current_user".to_string() } else { self.role() };
        match self.random.index(9) {
            0..=2 => format!("alter table {} owner to {role}", self.table()),
            3 => format!("alter view {} owner to {role}", self.view()),
            4 => format!("alter function {}(int) owner to {role}", self.function()),
            5 => format!("alter sequence {} owner to {role}", self.sequence()),
            6 => format!("alter schema {} owner to {role}", self.schema()),
            7 => format!("alter domain {} owner to {role}", self.type_name()),
            _ => format!("alter materialized view {} owner to {role}", self.materialized()),
        }
    }

    fn role_change(&mut self) -> String {
        let role = self.role();
        let option = self.pick(&[
            "createrole",
            "nocreaterole",
            "createdb",
            "nocreatedb",
            "inherit",
            "noinherit",
            "bypassrls",
            "nobypassrls",
            "connection limit 10",
            "nosuperuser",
            "superuser",
            "valid until 'infinity'",
        ]);
        format!("alter role {role} {option}")
    }

    pub fn change(&mut self) -> String {
        match self.random.index(16) {
            0..=9 => self.grant(),
            10 | 11 => self.grant_role(),
            12 => self.default_privileges(),
            13 => self.role_change(),
            _ => self.owner_change(),
        }
    }
}
