//! The classes of statements that `log_statement` tells of: PostgreSQL's. Which class a statement has is in the table of
//! commands.

/// log_statement, and the least of its values that tells of a statement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LoggedStatements {
    None,
    Ddl,
    Mod,
    All,
}

impl LoggedStatements {
    pub fn of_setting(word: &str) -> LoggedStatements {
        match word {
            "ddl" => LoggedStatements::Ddl,
            "mod" => LoggedStatements::Mod,
            "all" => LoggedStatements::All,
            _ => LoggedStatements::None,
        }
    }
    /// Does the setting tell of a statement of this class?
    pub fn includes(self, class: LoggedStatements) -> bool {
        class <= self
    }
    /// The class of a planned statement, by [`kilndb_plan::Plan::command`].
    pub fn of_command(command: &str) -> LoggedStatements {
        match command {
            "INSERT" | "UPDATE" | "DELETE" | "MERGE" => LoggedStatements::Mod,
            _ => LoggedStatements::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoggedStatements;

    #[test]
    fn a_setting_includes_the_classes_before_it() {
        use LoggedStatements::{All, Ddl, Mod, None};
        assert!(All.includes(Mod) && Mod.includes(Ddl) && !Ddl.includes(Mod) && !None.includes(Ddl));
    }
}
