//! What the server knows of each kind of statement: [`command_of`] finds a statement's row in the table of commands.
//!
//! Invariants
//! 1. Whatever is a property of a kind of statement (its tag, its class for the log, where it may run, who runs it) is
//!    in its row and nowhere else: to add a command is to write its handler and one row (docs/decisions/0039).
//! 2. A row is a constant: to look at one costs a jump by the node's kind.

mod table;

pub(crate) use table::command_of;

use super::Session;
use crate::client::{Client, Runtime};
use crate::ddl::{DefinitionStatement, Definitions};
use crate::log::LoggedStatements;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, Statement};

/// A kind of statement.
pub(crate) struct Command {
    /// What the statement is called in messages and in the log, as its command tag begins.
    pub tag: fn(Node<'_>) -> &'static str,
    /// What `log_statement` takes it for.
    pub logged: for<'n> fn(Node<'n>) -> Logged<'n>,
    pub access: Access,
    pub block: fn(Node<'_>) -> BlockRule,
    /// False: it leaves it open what the later statements of its transaction see.
    pub needs_snapshot: bool,
    /// It may answer with rows.
    pub gives_rows: bool,
    /// The lock on the table that it is about, where all statements of the kind take the same.
    pub lock: Option<LockMode>,
    pub handler: Handler,
}

/// The class of a statement for `log_statement`.
pub(crate) enum Logged<'n> {
    As(LoggedStatements),
    /// As the statement that it has in it.
    AsInner(Node<'n>),
    /// As the prepared statement of that name.
    AsPrepared(&'n str),
}

/// What a statement may change, for read-only transactions and routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Nothing at all.
    Reads,
    /// Something, but nothing that a read-only transaction is about.
    Allowed,
    /// A read-only transaction refuses it.
    Refused,
    /// It depends on the plan, or on the table: whoever runs the statement asks.
    ByTarget,
}

/// Where a statement may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockRule {
    Anywhere,
    /// Not in a transaction block, nor in a routine, nor beside other statements of its message. By this name it is refused
    /// there.
    Alone(&'static str),
    /// Transaction control: it decides itself, and does not wait for a transaction that has failed to end.
    EvenFailed,
}

/// Who runs a statement.
pub(crate) enum Handler {
    /// It is bound and planned.
    Planned,
    /// It begins, ends or changes the transaction: nothing is to be done before it or after it.
    Transaction(fn(&mut Session, &Invocation<'_>) -> Result<String>),
    /// It is about what a session has: settings, prepared statements, cursors, the client.
    Session(fn(&mut Session, &Invocation<'_>, &mut dyn Client) -> Result<String>),
    /// It changes the catalogs.
    Definition(fn(&mut Definitions<'_>, &DefinitionStatement<'_>) -> Result<String>),
    /// The grammar knows it, nobody else does. By this name it is refused.
    Unsupported(&'static str),
}

/// A statement that a session runs.
pub(crate) struct Invocation<'a> {
    pub statement: &'a Statement,
    pub node: Node<'a>,
    /// No other statement shares its message.
    pub alone: bool,
    pub runtime: &'a dyn Runtime,
}

impl Command {
    pub fn is_planned(&self) -> bool {
        matches!(self.handler, Handler::Planned)
    }
}

/// Statements that are bound and planned.
pub(crate) fn is_plannable(node: &Node<'_>) -> bool {
    command_of(node).is_planned()
}

/// ROLLBACK, COMMIT and ROLLBACK TO are all that a failed transaction takes.
pub(crate) fn may_run_when_failed(node: &Node<'_>) -> bool {
    (command_of(node).block)(*node) == BlockRule::EvenFailed
}

/// What a statement is called while it runs, as its command tag begins.
pub(crate) fn tag_of(node: &Node<'_>) -> &'static str {
    (command_of(node).tag)(*node)
}

/// The class of a statement for `log_statement`. `prepared` answers the class of the prepared statement of that name.
pub(crate) fn logged_class(node: &Node<'_>, prepared: &dyn Fn(&str) -> Option<LoggedStatements>) -> LoggedStatements {
    match (command_of(node).logged)(*node) {
        Logged::As(class) => class,
        Logged::AsInner(inner) => logged_class(&inner, prepared),
        Logged::AsPrepared(name) => prepared(name).unwrap_or(LoggedStatements::All),
    }
}

fn wrong_kind() -> Error {
    Error::internal("a statement came to the handler of another kind")
}

impl Session {
    /// Refuses what may not run where the session is.
    fn refuse_misplaced(&self, rule: BlockRule, alone: bool) -> Result<()> {
        match rule {
            BlockRule::Anywhere | BlockRule::EvenFailed => Ok(()),
            BlockRule::Alone(what) => {
                self.context.refuse_in_block(what)?;
                if alone {
                    return Ok(());
                }
                let message = format!("{what} cannot run inside a transaction block");
                Err(Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, message))
            }
        }
    }

    /// Runs a command that is not planned, and returns its tag. `alone`: no other statement shares its message.
    pub(crate) fn run_utility(
        &mut self,
        statement: &Statement,
        alone: bool,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        let node = statement.node();
        let command = command_of(&node);
        self.note_command((command.tag)(node), runtime);
        let call = Invocation { statement, node, alone, runtime };
        if let Handler::Transaction(run) = command.handler {
            return run(self, &call);
        }
        self.context.refuse_if_failed()?;
        if !command.gives_rows {
            // What it runs within is not what the client has bound.
            self.utility_formats = None;
        }
        self.refuse_misplaced((command.block)(node), alone)?;
        if self.context.in_explicit_block() && command.needs_snapshot {
            self.context.begin_statement(runtime)?;
            self.context.fix_snapshot(runtime)?;
        }
        let Handler::Session(run) = command.handler else {
            return self.run_definition(command, &DefinitionStatement { node, source: statement.source(), runtime });
        };
        if matches!(
            node,
            Node::PrepareStmt(_)
                | Node::DeallocateStmt(_)
                | Node::ListenStmt(_)
                | Node::UnlistenStmt(_)
                | Node::DiscardStmt(_)
                | Node::ClosePortalStmt(_)
        ) {
            // What it leaves is there for whoever comes after the owner that this runs as.
            let word = (command.tag)(node).split(' ').next().unwrap_or("");
            self.context.refuse_in_restricted_operation(&format!("execute {word}"))?;
        }
        let tag = run(self, &call, client)?;
        if let Some(txn) = &mut self.context.transaction.txn {
            txn.next_command();
        }
        Ok(tag)
    }

    /// Makes a definition, and settles what depends on what.
    pub(super) fn run_definition(
        &mut self,
        command: &'static Command,
        definition: &DefinitionStatement<'_>,
    ) -> Result<String> {
        self.context.begin_statement(definition.runtime)?;
        let tag = (command.tag)(definition.node);
        if command.access == Access::Refused {
            self.context.refuse_if_read_only(tag)?;
        }
        let run = match command.handler {
            Handler::Definition(run) => run,
            Handler::Unsupported(name) => return Err(Error::unsupported(format!("{name} is not supported"))),
            _ => return Err(wrong_kind()),
        };
        let mut definitions = Definitions::new(self, tag, command.lock);
        let done = definitions.refuse_unless_allowed(definition).and_then(|()| run(&mut definitions, definition));
        definitions.finish_command(done, definition.runtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sql: &str) -> LoggedStatements {
        let script = kilndb_syntax::parse(sql).unwrap();
        let prepared = |name: &str| (name == "writes").then_some(LoggedStatements::Mod);
        logged_class(&script.statements()[0].node(), &prepared)
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

    fn rule(sql: &str) -> BlockRule {
        let script = kilndb_syntax::parse(sql).unwrap();
        let statements = script.statements();
        let node = statements[0].node();
        (command_of(&node).block)(node)
    }

    #[test]
    fn statements_know_where_they_may_run() {
        for (sql, expected) in [
            ("commit", BlockRule::EvenFailed),
            ("rollback to s", BlockRule::EvenFailed),
            ("begin", BlockRule::Anywhere),
            ("vacuum", BlockRule::Alone("VACUUM")),
            ("analyze", BlockRule::Anywhere),
            ("discard all", BlockRule::Alone("DISCARD ALL")),
            ("discard plans", BlockRule::Anywhere),
            ("create index on t (a)", BlockRule::Anywhere),
            ("create index concurrently on t (a)", BlockRule::Alone("CREATE INDEX CONCURRENTLY")),
            ("alter table t detach partition p", BlockRule::Anywhere),
            ("alter table t detach partition p concurrently", BlockRule::Alone("ALTER TABLE ... DETACH CONCURRENTLY")),
            ("create database d", BlockRule::Alone("CREATE DATABASE")),
            ("reindex schema s", BlockRule::Alone("REINDEX SCHEMA")),
        ] {
            assert_eq!(rule(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_is_not_planned_has_a_tag_of_its_own() {
        for (sql, expected) in [
            ("select 1", "SELECT"),
            ("select 1 into t", "SELECT INTO"),
            ("reset work_mem", "RESET"),
            ("move 1 from c", "MOVE"),
            ("alter view v rename to w", "ALTER VIEW"),
            ("alter table t rename column a to b", "ALTER TABLE"),
            ("drop text search parser p", "DROP TEXT SEARCH PARSER"),
            ("revoke select on t from public", "REVOKE"),
        ] {
            let script = kilndb_syntax::parse(sql).unwrap();
            assert_eq!(tag_of(&script.statements()[0].node()), expected, "{sql}");
        }
    }
}
