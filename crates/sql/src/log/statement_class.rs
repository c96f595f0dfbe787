//! Which statements `log_statement` tells of, and what they are called: PostgreSQL's classes.
//!
//! The names of definitions are `crate::ddl::command_name`'s.

use crate::ddl::command_name;
use kilndb_syntax::Node;
use kilndb_syntax::raw::TransactionStmtKind as T;

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

/// The class of a statement. `prepared` answers the class of the prepared statement of that name.
pub fn statement_class(node: &Node<'_>, prepared: &dyn Fn(&str) -> Option<LoggedStatements>) -> LoggedStatements {
    use LoggedStatements::{All, Ddl, Mod};
    match node {
        Node::InsertStmt(_) | Node::UpdateStmt(_) | Node::DeleteStmt(_) | Node::MergeStmt(_) => Mod,
        Node::SelectStmt(s) if s.into_clause().is_some() => Ddl,
        Node::CopyStmt(s) if s.is_from => Mod,
        Node::TruncateStmt(_) => Mod,
        // These are of the class of what they run.
        Node::PrepareStmt(s) => statement_class(&s.query(), prepared),
        Node::ExecuteStmt(s) => prepared(s.name().unwrap_or("")).unwrap_or(All),
        Node::ExplainStmt(s) if is_analyzed(s) => statement_class(&s.query(), prepared),
        Node::SelectStmt(_)
        | Node::CopyStmt(_)
        | Node::ExplainStmt(_)
        | Node::TransactionStmt(_)
        | Node::DeclareCursorStmt(_)
        | Node::FetchStmt(_)
        | Node::ClosePortalStmt(_)
        | Node::DeallocateStmt(_)
        | Node::VariableSetStmt(_)
        | Node::VariableShowStmt(_)
        | Node::DiscardStmt(_)
        | Node::DoStmt(_)
        | Node::CallStmt(_)
        | Node::ListenStmt(_)
        | Node::UnlistenStmt(_)
        | Node::NotifyStmt(_)
        | Node::LoadStmt(_)
        | Node::VacuumStmt(_)
        | Node::LockStmt(_)
        | Node::ConstraintsSetStmt(_)
        | Node::CheckPointStmt(_)
        | Node::ReindexStmt(_) => All,
        // Whatever else the grammar knows defines something.
        _ => Ddl,
    }
}

/// What a statement is called while it runs, as its command tag begins.
pub fn statement_tag(node: &Node<'_>) -> &'static str {
    match node {
        Node::SelectStmt(s) if s.into_clause().is_none() => "SELECT",
        Node::InsertStmt(_) => "INSERT",
        Node::UpdateStmt(_) => "UPDATE",
        Node::DeleteStmt(_) => "DELETE",
        Node::MergeStmt(_) => "MERGE",
        Node::TransactionStmt(t) => match t.kind {
            T::TRANS_STMT_BEGIN => "BEGIN",
            T::TRANS_STMT_START => "START TRANSACTION",
            T::TRANS_STMT_COMMIT => "COMMIT",
            T::TRANS_STMT_SAVEPOINT => "SAVEPOINT",
            T::TRANS_STMT_RELEASE => "RELEASE",
            T::TRANS_STMT_PREPARE => "PREPARE TRANSACTION",
            _ => "ROLLBACK",
        },
        Node::CopyStmt(_) => "COPY",
        Node::ExplainStmt(_) => "EXPLAIN",
        Node::DeclareCursorStmt(_) => "DECLARE CURSOR",
        Node::FetchStmt(s) if s.ismove => "MOVE",
        Node::FetchStmt(_) => "FETCH",
        Node::ClosePortalStmt(_) => "CLOSE CURSOR",
        Node::PrepareStmt(_) => "PREPARE",
        Node::ExecuteStmt(_) => "EXECUTE",
        Node::DeallocateStmt(_) => "DEALLOCATE",
        Node::VariableSetStmt(s) if is_reset(s) => "RESET",
        Node::VariableSetStmt(_) => "SET",
        Node::VariableShowStmt(_) => "SHOW",
        Node::DiscardStmt(_) => "DISCARD",
        Node::DoStmt(_) => "DO",
        Node::CallStmt(_) => "CALL",
        Node::ListenStmt(_) => "LISTEN",
        Node::UnlistenStmt(_) => "UNLISTEN",
        Node::NotifyStmt(_) => "NOTIFY",
        Node::LoadStmt(_) => "LOAD",
        Node::VacuumStmt(s) if s.is_vacuumcmd => "VACUUM",
        Node::VacuumStmt(_) => "ANALYZE",
        Node::LockStmt(_) => "LOCK TABLE",
        Node::ConstraintsSetStmt(_) => "SET CONSTRAINTS",
        Node::CheckPointStmt(_) => "CHECKPOINT",
        Node::ReindexStmt(_) => "REINDEX",
        Node::AlterSystemStmt(_) => "ALTER SYSTEM",
        other => command_name(other).unwrap_or("???"),
    }
}

fn is_reset(s: &kilndb_syntax::nodes::VariableSetStmt) -> bool {
    use kilndb_syntax::raw::VariableSetKind as V;
    matches!(s.kind, V::VAR_RESET | V::VAR_RESET_ALL)
}

/// EXPLAIN ANALYZE runs what it explains. The last of several options counts.
fn is_analyzed(s: &kilndb_syntax::nodes::ExplainStmt) -> bool {
    let mut is_analyzed = false;
    for option in s.options().iter().filter(|o| o.defname() == Some("analyze")) {
        is_analyzed = match option.arg() {
            Node::String(word) => !matches!(word.sval(), Some("off" | "false" | "0")),
            Node::Integer(number) => number.ival != 0,
            Node::Boolean(flag) => flag.boolval,
            _ => true,
        };
    }
    is_analyzed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sql: &str) -> LoggedStatements {
        let script = kilndb_syntax::parse(sql).unwrap();
        let prepared = |name: &str| (name == "writes").then_some(LoggedStatements::Mod);
        statement_class(&script.statements()[0].node(), &prepared)
    }

    #[test]
    fn statements_have_postgres_classes() {
        use LoggedStatements::{All, Ddl, Mod};
        for (sql, expected) in [
            ("select 1", All),
            ("select 1 into t", Ddl),
            ("with w as (delete from t returning 1) select * from w", All),
            ("insert into t values (1)", Mod),
            ("merge into t using u on true when matched then delete", Mod),
            ("copy t from stdin", Mod),
            ("copy t to stdout", All),
            ("truncate t", Mod),
            ("create table t ()", Ddl),
            ("create table t as select 1", Ddl),
            ("drop view v", Ddl),
            ("grant select on t to public", Ddl),
            ("alter system set work_mem = 1", Ddl),
            ("reindex table t", All),
            ("vacuum", All),
            ("begin", All),
            ("explain delete from t", All),
            ("explain (analyze) delete from t", Mod),
            ("explain (analyze off) delete from t", All),
            ("prepare p as delete from t", Mod),
            ("execute writes", Mod),
            ("execute others", All),
        ] {
            assert_eq!(class(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_setting_includes_the_classes_before_it() {
        use LoggedStatements::{All, Ddl, Mod, None};
        assert!(All.includes(Mod) && Mod.includes(Ddl) && !Ddl.includes(Mod) && !None.includes(Ddl));
    }
}
