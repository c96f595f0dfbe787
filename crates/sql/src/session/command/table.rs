//! The table of commands: a row for each kind of statement that the grammar knows.

use super::{Access, BlockRule, Command, Handler, Invocation, Logged, wrong_kind};
use crate::ddl::DefinitionStatement;
use crate::ddl::partition_detach::detaches_concurrently;
use crate::ddl::reindex::is_concurrent;
use crate::ddl::text_search;
use crate::log::LoggedStatements;
use kilndb_storage::LockMode;
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::raw::{DiscardMode, ReindexObjectType, TransactionStmtKind as T, VariableSetKind as V};
use kilndb_syntax::{Node, nodes};

/// The tag of a statement that did not come to its own row, which cannot be.
const NO_TAG: &str = "???";

/// What is bound and planned.
const PLANNED: Command = Command {
    tag: |_| NO_TAG,
    logged: |_| Logged::As(LoggedStatements::Mod),
    access: Access::ByTarget,
    block: |_| BlockRule::Anywhere,
    needs_snapshot: true,
    gives_rows: true,
    lock: None,
    handler: Handler::Planned,
};
/// What a session does with what it has.
const SESSION: Command = Command {
    logged: |_| Logged::As(LoggedStatements::All),
    access: Access::Allowed,
    gives_rows: false,
    handler: Handler::Unsupported("this statement"),
    ..PLANNED
};
/// What changes the catalogs.
const DEFINITION: Command =
    Command { logged: |_| Logged::As(LoggedStatements::Ddl), access: Access::Refused, ..SESSION };
/// A node that is no statement.
const NO_COMMAND: Command = SESSION;

/// A column of a row. What depends on the statement is a function of its node.
macro_rules! column {
    (tag, $kind:ident, $s:pat, $value:expr) => {
        |node| match node {
            Node::$kind($s) => $value,
            _ => NO_TAG,
        }
    };
    (logged, $kind:ident, $s:pat, $value:expr) => {
        |node| match node {
            Node::$kind($s) => $value,
            _ => Logged::As(LoggedStatements::All),
        }
    };
    (block, $kind:ident, $s:pat, $value:expr) => {
        |node| match node {
            Node::$kind($s) => $value,
            _ => BlockRule::Anywhere,
        }
    };
    (handler, $kind:ident, $s:pat, transaction($session:ident, $call:ident) $run:expr) => {
        Handler::Transaction(|$session, $call: &Invocation<'_>| match $call.node {
            Node::$kind($s) => $run,
            _ => Err(wrong_kind()),
        })
    };
    (handler, $kind:ident, $s:pat, session($session:ident, $call:ident, $client:pat) $run:expr) => {
        Handler::Session(|$session, $call: &Invocation<'_>, $client| match $call.node {
            Node::$kind($s) => $run,
            _ => Err(wrong_kind()),
        })
    };
    // The tag is what the row says.
    (handler, $kind:ident, $s:pat, define($definitions:ident, $call:ident) $run:expr) => {
        Handler::Definition(|$definitions, $call: &DefinitionStatement<'_>| match $call.node {
            Node::$kind($s) => {
                let done: kilndb_base::Result<()> = $run;
                done.map(|()| super::tag_of(&$call.node).to_string())
            }
            _ => Err(wrong_kind()),
        })
    };
    // The tag is what the handler says.
    (handler, $kind:ident, $s:pat, define_tagged($definitions:ident, $call:ident) $run:expr) => {
        Handler::Definition(|$definitions, $call: &DefinitionStatement<'_>| match $call.node {
            Node::$kind($s) => $run,
            _ => Err(wrong_kind()),
        })
    };
    (handler, $kind:ident, $s:pat, unsupported($name:expr)) => {
        Handler::Unsupported($name)
    };
    ($column:ident, $kind:ident, $s:pat, $value:expr) => {
        $value
    };
}

macro_rules! commands {
    ($($kind:ident($s:pat) $(if $guard:expr)? => $base:ident { $($column:ident: [$($value:tt)*]),* $(,)? })*) => {
        /// The row of a statement.
        // A row whose columns are the same for all statements of its kind does not look at the statement.
        #[allow(unused_variables)]
        pub(crate) fn command_of(node: &Node<'_>) -> &'static Command {
            match node {
                $(Node::$kind($s) $(if $guard)? => {
                    const ROW: Command = Command {
                        $($column: column!($column, $kind, $s, $($value)*),)*
                        ..$base
                    };
                    &ROW
                })*
                _ => &NO_COMMAND,
            }
        }
    };
}

commands! {
    // Queries and changes of rows.
    SelectStmt(s) if s.into_clause().is_some() => DEFINITION {
        tag: ["SELECT INTO"],
        handler: [define_tagged(d, call) d.select_into(s, call.node, call.source, call.runtime)],
    }
    SelectStmt(_) => PLANNED { tag: ["SELECT"], logged: [Logged::As(LoggedStatements::All)] }
    InsertStmt(_) => PLANNED { tag: ["INSERT"] }
    UpdateStmt(_) => PLANNED { tag: ["UPDATE"] }
    DeleteStmt(_) => PLANNED { tag: ["DELETE"] }
    MergeStmt(_) => PLANNED { tag: ["MERGE"] }

    // Transactions.
    TransactionStmt(t) => SESSION {
        tag: [transaction_tag(t.kind)],
        block: [if may_end_failed(t.kind) { BlockRule::EvenFailed } else { BlockRule::Anywhere }],
        handler: [transaction(session, call) session.transaction_command(t, call.runtime)],
    }
    LockStmt(s) => SESSION {
        tag: ["LOCK TABLE"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.lock_command(s, call.runtime)],
    }
    ConstraintsSetStmt(s) => SESSION {
        tag: ["SET CONSTRAINTS"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.set_constraints(s, call.runtime)],
    }

    // Settings.
    VariableSetStmt(s) => SESSION {
        tag: [if matches!(s.kind, V::VAR_RESET | V::VAR_RESET_ALL) { "RESET" } else { "SET" }],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.set_command(s, call.runtime)],
    }
    VariableShowStmt(s) => SESSION {
        tag: ["SHOW"],
        access: [Access::Reads],
        needs_snapshot: [false],
        gives_rows: [true],
        handler: [session(session, call, client) session.show_command(s, client)],
    }
    DiscardStmt(s) => SESSION {
        tag: ["DISCARD"],
        block: [match s.target {
            DiscardMode::DISCARD_ALL => BlockRule::Alone("DISCARD ALL"),
            _ => BlockRule::Anywhere,
        }],
        handler: [session(session, call, _) session.discard_command(s, call.runtime)],
    }
    AlterSystemStmt(s) => SESSION {
        tag: ["ALTER SYSTEM"],
        logged: [Logged::As(LoggedStatements::Ddl)],
        block: [BlockRule::Alone("ALTER SYSTEM")],
        handler: [session(session, call, _) session.alter_system(s)],
    }

    // Prepared statements, cursors, routines, what is told of plans.
    PrepareStmt(s) => SESSION {
        tag: ["PREPARE"],
        logged: [Logged::AsInner(s.query())],
        handler: [session(session, call, _) session.prepare_command(s, call.statement, call.runtime)],
    }
    ExecuteStmt(s) => SESSION {
        tag: ["EXECUTE"],
        logged: [Logged::AsPrepared(s.name().unwrap_or(""))],
        access: [Access::ByTarget],
        gives_rows: [true],
        handler: [session(session, call, client) session.execute_command(s, call.statement.source(), call.runtime, client)],
    }
    DeallocateStmt(s) => SESSION {
        tag: ["DEALLOCATE"],
        handler: [session(session, call, _) session.deallocate_command(s)],
    }
    DeclareCursorStmt(s) => SESSION {
        tag: ["DECLARE CURSOR"],
        handler: [session(session, call, _) session.declare_cursor(s, call.statement, call.runtime)],
    }
    FetchStmt(s) => SESSION {
        tag: [if s.ismove { "MOVE" } else { "FETCH" }],
        access: [Access::Reads],
        needs_snapshot: [false],
        gives_rows: [true],
        handler: [session(session, call, client) session.fetch_command(s, call.runtime, client)],
    }
    ClosePortalStmt(s) => SESSION {
        tag: ["CLOSE CURSOR"],
        handler: [session(session, call, _) session.close_cursor(s.portalname())],
    }
    ExplainStmt(s) => SESSION {
        tag: ["EXPLAIN"],
        logged: [match is_analyzed(s) {
            true => Logged::AsInner(s.query()),
            false => Logged::As(LoggedStatements::All),
        }],
        access: [Access::Reads],
        gives_rows: [true],
        handler: [session(session, call, client) session.explain_command(s, call.statement, call.runtime, client)],
    }
    DoStmt(s) => SESSION {
        tag: ["DO"],
        access: [Access::ByTarget],
        handler: [session(session, call, _) session.do_command(s, call.statement.source(), call.runtime)],
    }
    CallStmt(s) => SESSION {
        tag: ["CALL"],
        access: [Access::ByTarget],
        gives_rows: [true],
        handler: [session(session, call, client) {
            session.call_command(s, call.statement.source(), call.runtime, client)
        }],
    }
    CopyStmt(s) => SESSION {
        tag: ["COPY"],
        logged: [Logged::As(if s.is_from { LoggedStatements::Mod } else { LoggedStatements::All })],
        access: [Access::ByTarget],
        handler: [session(session, call, client) crate::copy::run(session, s, call.statement, call.runtime, client)],
    }
    LoadStmt(_) => SESSION { tag: ["LOAD"], handler: [unsupported("LOAD")] }

    // Notifications.
    ListenStmt(s) => SESSION {
        tag: ["LISTEN"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.context.listen_command(s, call.runtime)],
    }
    UnlistenStmt(s) => SESSION {
        tag: ["UNLISTEN"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.context.unlisten_command(s, call.runtime)],
    }
    NotifyStmt(s) => SESSION {
        tag: ["NOTIFY"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.context.notify_command(s, call.runtime)],
    }

    // Maintenance.
    CheckPointStmt(_) => SESSION {
        tag: ["CHECKPOINT"],
        needs_snapshot: [false],
        handler: [session(session, call, _) session.checkpoint_command(call.runtime)],
    }
    VacuumStmt(s) => SESSION {
        tag: [if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" }],
        block: [if s.is_vacuumcmd { BlockRule::Alone("VACUUM") } else { BlockRule::Anywhere }],
        handler: [session(session, call, _) {
            let tag = super::tag_of(&call.node);
            session.definitions(tag).vacuum(s, call.alone, call.statement.source(), call.runtime)
        }],
    }
    ReindexStmt(s) => DEFINITION {
        tag: ["REINDEX"],
        logged: [Logged::As(LoggedStatements::All)],
        access: [Access::Allowed],
        block: [match s.kind {
            _ if is_concurrent(s) => BlockRule::Alone("REINDEX CONCURRENTLY"),
            ReindexObjectType::REINDEX_OBJECT_SCHEMA => BlockRule::Alone("REINDEX SCHEMA"),
            ReindexObjectType::REINDEX_OBJECT_DATABASE => BlockRule::Alone("REINDEX DATABASE"),
            _ => BlockRule::Anywhere,
        }],
        lock: [Some(LockMode::AccessExclusive)],
        handler: [define(d, call) d.reindex(s, call.runtime)],
    }
    ClusterStmt(s) => DEFINITION {
        tag: ["CLUSTER"],
        block: [if s.relation().is_none() { BlockRule::Alone("CLUSTER") } else { BlockRule::Anywhere }],
        logged: [Logged::As(LoggedStatements::Ddl)],
        access: [Access::Allowed],
        handler: [define(d, call) d.cluster(s, call.runtime)],
    }

    // Tables, indexes, sequences, views.
    CreateStmt(s) => DEFINITION {
        tag: ["CREATE TABLE"],
        handler: [define(d, call) d.create_table(s, call.source, call.runtime)],
    }
    CreateTableAsStmt(s) => DEFINITION {
        tag: ["CREATE TABLE AS"],
        handler: [define_tagged(d, call) d.create_table_as(s, call.source, call.runtime)],
    }
    AlterTableStmt(s) => DEFINITION {
        tag: [altered(s.objtype)],
        block: [match detaches_concurrently(s) {
            true => BlockRule::Alone("ALTER TABLE ... DETACH CONCURRENTLY"),
            false => BlockRule::Anywhere,
        }],
        handler: [define_tagged(d, call) d.alter_table(s, call.source, call.runtime)],
    }
    TruncateStmt(s) => DEFINITION {
        tag: ["TRUNCATE TABLE"],
        logged: [Logged::As(LoggedStatements::Mod)],
        lock: [Some(LockMode::AccessExclusive)],
        handler: [define(d, call) d.truncate(s, call.runtime)],
    }
    IndexStmt(s) => DEFINITION {
        tag: ["CREATE INDEX"],
        block: [match s.concurrent {
            true => BlockRule::Alone("CREATE INDEX CONCURRENTLY"),
            false => BlockRule::Anywhere,
        }],
        lock: [Some(LockMode::Share)],
        handler: [define(d, call) d.create_index(s, call.runtime)],
    }
    CreateSeqStmt(s) => DEFINITION {
        tag: ["CREATE SEQUENCE"],
        handler: [define(d, call) d.create_sequence(s, call.source, call.runtime)],
    }
    AlterSeqStmt(s) => DEFINITION {
        tag: ["ALTER SEQUENCE"],
        handler: [define(d, call) d.alter_sequence(s, call.source, call.runtime)],
    }
    ViewStmt(s) => DEFINITION {
        tag: ["CREATE VIEW"],
        handler: [define(d, call) d.create_view(s, call.source, call.runtime)],
    }
    RefreshMatViewStmt(s) => DEFINITION {
        tag: ["REFRESH MATERIALIZED VIEW"],
        handler: [define(d, call) d.refresh_materialized_view(s, call.runtime)],
    }
    ReplicaIdentityStmt(_) => DEFINITION { tag: ["ALTER TABLE"], handler: [unsupported("REPLICA IDENTITY")] }
    AlterTableMoveAllStmt(_) => DEFINITION {
        tag: ["ALTER TABLE"],
        handler: [unsupported("ALTER TABLE ALL IN TABLESPACE")],
    }
    CreateStatsStmt(s) => DEFINITION {
        tag: ["CREATE STATISTICS"],
        handler: [define(d, call) d.create_statistics(s, call.runtime)],
    }
    AlterStatsStmt(s) => DEFINITION {
        tag: ["ALTER STATISTICS"],
        handler: [define(d, call) d.alter_statistics(s, call.runtime)],
    }

    // Triggers, rules, policies.
    CreateTrigStmt(s) => DEFINITION {
        tag: ["CREATE TRIGGER"],
        lock: [Some(LockMode::ShareRowExclusive)],
        handler: [define(d, call) d.create_trigger(s, call.source, call.runtime)],
    }
    CreateEventTrigStmt(_) => DEFINITION {
        tag: ["CREATE EVENT TRIGGER"],
        handler: [unsupported("CREATE EVENT TRIGGER")],
    }
    AlterEventTrigStmt(_) => DEFINITION {
        tag: ["ALTER EVENT TRIGGER"],
        handler: [unsupported("ALTER EVENT TRIGGER")],
    }
    RuleStmt(_) => DEFINITION { tag: ["CREATE RULE"], handler: [unsupported("CREATE RULE")] }
    CreatePolicyStmt(s) => DEFINITION {
        tag: ["CREATE POLICY"],
        handler: [define(d, call) d.create_policy(s, call.runtime)],
    }
    AlterPolicyStmt(s) => DEFINITION {
        tag: ["ALTER POLICY"],
        handler: [define(d, call) d.alter_policy(s, call.runtime)],
    }

    // Objects of any kind.
    RenameStmt(s) => DEFINITION {
        tag: [match s.rename_type {
            O::OBJECT_COLUMN | O::OBJECT_ATTRIBUTE => altered(s.relation_type),
            kind => altered(kind),
        }],
        lock: [Some(LockMode::AccessExclusive)],
        handler: [define_tagged(d, call) d.rename(s, call.runtime)],
    }
    AlterObjectSchemaStmt(s) => DEFINITION {
        tag: [altered(s.object_type)],
        handler: [define_tagged(d, call) d.set_schema(s, call.runtime)],
    }
    AlterOwnerStmt(s) => DEFINITION {
        tag: [altered(s.object_type)],
        handler: [define_tagged(d, call) d.set_owner(s, call.runtime)],
    }
    AlterObjectDependsStmt(_) => DEFINITION {
        tag: ["ALTER"],
        handler: [unsupported("ALTER ... DEPENDS ON EXTENSION")],
    }
    DropStmt(s) => DEFINITION {
        tag: [dropped(s.remove_type)],
        lock: [Some(LockMode::AccessExclusive)],
        handler: [define_tagged(d, call) d.drop_objects(s, call.runtime)],
    }
    CommentStmt(s) => DEFINITION {
        tag: ["COMMENT"],
        lock: [Some(LockMode::ShareUpdateExclusive)],
        handler: [define(d, call) d.comment(s, call.runtime)],
    }
    SecLabelStmt(s) => DEFINITION {
        tag: ["SECURITY LABEL"],
        handler: [define(d, call) Err(kilndb_ddl::refuse_security_label(s))],
    }

    // Schemas, databases, tablespaces, extensions.
    CreateSchemaStmt(s) => DEFINITION {
        tag: ["CREATE SCHEMA"],
        handler: [define(d, call) d.create_schema(s, call.source, call.runtime)],
    }
    CreatedbStmt(s) => DEFINITION {
        tag: ["CREATE DATABASE"],
        block: [BlockRule::Alone("CREATE DATABASE")],
        handler: [define(d, call) d.create_database(s, call.runtime)],
    }
    DropdbStmt(s) => DEFINITION {
        tag: ["DROP DATABASE"],
        block: [BlockRule::Alone("DROP DATABASE")],
        handler: [define(d, call) d.drop_database(s, call.runtime)],
    }
    AlterDatabaseStmt(s) => DEFINITION {
        tag: ["ALTER DATABASE"],
        handler: [define(d, call) d.alter_database(s, call.source, call.runtime)],
    }
    AlterDatabaseSetStmt(s) => DEFINITION {
        tag: ["ALTER DATABASE"],
        handler: [define(d, call) d.alter_database_set(s, call.runtime)],
    }
    AlterDatabaseRefreshCollStmt(_) => DEFINITION {
        tag: ["ALTER DATABASE"],
        handler: [unsupported("ALTER DATABASE ... REFRESH COLLATION VERSION")],
    }
    CreateTableSpaceStmt(_) => DEFINITION { tag: ["CREATE TABLESPACE"], handler: [unsupported("CREATE TABLESPACE")] }
    DropTableSpaceStmt(_) => DEFINITION { tag: ["DROP TABLESPACE"], handler: [unsupported("DROP TABLESPACE")] }
    AlterTableSpaceOptionsStmt(_) => DEFINITION {
        tag: ["ALTER TABLESPACE"],
        handler: [unsupported("ALTER TABLESPACE")],
    }
    CreateExtensionStmt(s) => DEFINITION {
        tag: ["CREATE EXTENSION"],
        handler: [define(d, call) d.create_extension(s, call.source, call.runtime)],
    }
    AlterExtensionStmt(s) => DEFINITION {
        tag: ["ALTER EXTENSION"],
        handler: [define(d, call) d.alter_extension(s)],
    }
    AlterExtensionContentsStmt(_) => DEFINITION {
        tag: ["ALTER EXTENSION"],
        handler: [unsupported("ALTER EXTENSION ... ADD and DROP")],
    }

    // Roles and privileges.
    CreateRoleStmt(s) => DEFINITION {
        tag: ["CREATE ROLE"],
        handler: [define(d, call) d.create_role(s, call.source, call.runtime)],
    }
    AlterRoleStmt(s) => DEFINITION {
        tag: ["ALTER ROLE"],
        handler: [define(d, call) d.alter_role(s, call.source, call.runtime)],
    }
    AlterRoleSetStmt(s) => DEFINITION {
        tag: ["ALTER ROLE"],
        handler: [define(d, call) d.alter_role_set(s, call.runtime)],
    }
    DropRoleStmt(s) => DEFINITION {
        tag: ["DROP ROLE"],
        handler: [define(d, call) d.drop_role(s, call.runtime)],
    }
    GrantStmt(s) => DEFINITION {
        tag: [if s.is_grant { "GRANT" } else { "REVOKE" }],
        handler: [define(d, call) d.grant(s, call.runtime)],
    }
    GrantRoleStmt(s) => DEFINITION {
        tag: [if s.is_grant { "GRANT ROLE" } else { "REVOKE ROLE" }],
        handler: [define(d, call) d.grant_role(s, call.source, call.runtime)],
    }
    AlterDefaultPrivilegesStmt(s) => DEFINITION {
        tag: ["ALTER DEFAULT PRIVILEGES"],
        handler: [define(d, call) d.alter_default_privileges(s, call.runtime)],
    }
    ReassignOwnedStmt(s) => DEFINITION {
        tag: ["REASSIGN OWNED"],
        handler: [define(d, call) d.reassign_owned(s, call.runtime)],
    }
    DropOwnedStmt(s) => DEFINITION { tag: ["DROP OWNED"], handler: [define(d, call) d.drop_owned(s, call.runtime)] }

    // Routines, types, operators.
    CreateFunctionStmt(s) => DEFINITION {
        tag: [if s.is_procedure { "CREATE PROCEDURE" } else { "CREATE FUNCTION" }],
        handler: [define(d, call) d.create_function(s, call.source, call.runtime)],
    }
    AlterFunctionStmt(s) => DEFINITION {
        tag: ["ALTER FUNCTION"],
        handler: [define_tagged(d, call) d.alter_function(s, call.source, call.runtime)],
    }
    CreatePLangStmt(_) => DEFINITION { tag: ["CREATE LANGUAGE"], handler: [unsupported("CREATE LANGUAGE")] }
    CreateTransformStmt(_) => DEFINITION { tag: ["CREATE TRANSFORM"], handler: [unsupported("CREATE TRANSFORM")] }
    CreateCastStmt(_) => DEFINITION { tag: ["CREATE CAST"], handler: [unsupported("CREATE CAST")] }
    CreateConversionStmt(_) => DEFINITION { tag: ["CREATE CONVERSION"], handler: [unsupported("CREATE CONVERSION")] }
    CompositeTypeStmt(s) => DEFINITION {
        tag: ["CREATE TYPE"],
        handler: [define(d, call) d.create_composite_type(s, call.source, call.runtime)],
    }
    CreateEnumStmt(s) => DEFINITION {
        tag: ["CREATE TYPE"],
        handler: [define(d, call) d.create_enum(s, call.runtime)],
    }
    CreateRangeStmt(s) => DEFINITION {
        tag: ["CREATE TYPE"],
        handler: [define(d, call) d.create_range_type(s, call.source, call.runtime)],
    }
    AlterEnumStmt(s) => DEFINITION {
        tag: ["ALTER TYPE"],
        handler: [define(d, call) d.alter_enum(s, call.runtime)],
    }
    AlterTypeStmt(_) => DEFINITION { tag: ["ALTER TYPE"], handler: [unsupported("ALTER TYPE")] }
    CreateDomainStmt(s) => DEFINITION {
        tag: ["CREATE DOMAIN"],
        handler: [define(d, call) d.create_domain(s, call.source, call.runtime)],
    }
    AlterDomainStmt(s) => DEFINITION {
        tag: ["ALTER DOMAIN"],
        handler: [define(d, call) d.alter_domain(s, call.source, call.runtime)],
    }
    CreateOpClassStmt(s) => DEFINITION {
        tag: ["CREATE OPERATOR CLASS"],
        handler: [define(d, call) d.create_operator_class(s, call.source, call.runtime)],
    }
    CreateOpFamilyStmt(s) => DEFINITION {
        tag: ["CREATE OPERATOR FAMILY"],
        handler: [define(d, call) d.create_operator_family(s, call.runtime)],
    }
    AlterOpFamilyStmt(s) => DEFINITION {
        tag: ["ALTER OPERATOR FAMILY"],
        handler: [define(d, call) d.alter_operator_family(s, call.source, call.runtime)],
    }
    AlterOperatorStmt(_) => DEFINITION { tag: ["ALTER OPERATOR"], handler: [unsupported("ALTER OPERATOR")] }
    AlterCollationStmt(s) => DEFINITION {
        tag: ["ALTER COLLATION"],
        handler: [define(d, call) d.refresh_collation(s, call.runtime)],
    }
    CreateAmStmt(_) => DEFINITION { tag: ["CREATE ACCESS METHOD"], handler: [unsupported("CREATE ACCESS METHOD")] }

    // Text search, and whatever else goes by CREATE … (name = value, …).
    DefineStmt(s) if text_search::kind_of(s.kind).is_some() => DEFINITION {
        tag: [defined(s.kind)],
        handler: [define_tagged(d, call) d.define_text_search(s, call.runtime)],
    }
    DefineStmt(s) if s.kind == O::OBJECT_COLLATION => DEFINITION {
        tag: [defined(s.kind)],
        handler: [define(d, call) d.create_collation(s, call.source, call.runtime)],
    }
    DefineStmt(s) => DEFINITION {
        tag: [defined(s.kind)],
        handler: [unsupported("CREATE AGGREGATE, OPERATOR or TYPE")],
    }
    AlterTSConfigurationStmt(s) => DEFINITION {
        tag: ["ALTER TEXT SEARCH CONFIGURATION"],
        handler: [define_tagged(d, call) d.alter_config(s, call.runtime)],
    }
    AlterTSDictionaryStmt(s) => DEFINITION {
        tag: ["ALTER TEXT SEARCH DICTIONARY"],
        handler: [define_tagged(d, call) d.alter_dictionary(s, call.runtime)],
    }

    // Other servers' data, and copies of this one's.
    CreateFdwStmt(_) => DEFINITION {
        tag: ["CREATE FOREIGN DATA WRAPPER"],
        handler: [unsupported("CREATE FOREIGN DATA WRAPPER")],
    }
    AlterFdwStmt(_) => DEFINITION {
        tag: ["ALTER FOREIGN DATA WRAPPER"],
        handler: [unsupported("ALTER FOREIGN DATA WRAPPER")],
    }
    CreateForeignServerStmt(_) => DEFINITION { tag: ["CREATE SERVER"], handler: [unsupported("CREATE SERVER")] }
    AlterForeignServerStmt(_) => DEFINITION { tag: ["ALTER SERVER"], handler: [unsupported("ALTER SERVER")] }
    CreateUserMappingStmt(_) => DEFINITION {
        tag: ["CREATE USER MAPPING"],
        handler: [unsupported("CREATE USER MAPPING")],
    }
    AlterUserMappingStmt(_) => DEFINITION {
        tag: ["ALTER USER MAPPING"],
        handler: [unsupported("ALTER USER MAPPING")],
    }
    DropUserMappingStmt(_) => DEFINITION { tag: ["DROP USER MAPPING"], handler: [unsupported("DROP USER MAPPING")] }
    ImportForeignSchemaStmt(_) => DEFINITION {
        tag: ["IMPORT FOREIGN SCHEMA"],
        handler: [unsupported("IMPORT FOREIGN SCHEMA")],
    }
    CreatePublicationStmt(_) => DEFINITION { tag: ["CREATE PUBLICATION"], handler: [unsupported("CREATE PUBLICATION")] }
    AlterPublicationStmt(_) => DEFINITION { tag: ["ALTER PUBLICATION"], handler: [unsupported("ALTER PUBLICATION")] }
    CreateSubscriptionStmt(_) => DEFINITION {
        tag: ["CREATE SUBSCRIPTION"],
        handler: [unsupported("CREATE SUBSCRIPTION")],
    }
    AlterSubscriptionStmt(_) => DEFINITION {
        tag: ["ALTER SUBSCRIPTION"],
        handler: [unsupported("ALTER SUBSCRIPTION")],
    }
    DropSubscriptionStmt(_) => DEFINITION { tag: ["DROP SUBSCRIPTION"], handler: [unsupported("DROP SUBSCRIPTION")] }
}

fn transaction_tag(kind: T::Type) -> &'static str {
    match kind {
        T::TRANS_STMT_BEGIN => "BEGIN",
        T::TRANS_STMT_START => "START TRANSACTION",
        T::TRANS_STMT_COMMIT => "COMMIT",
        T::TRANS_STMT_SAVEPOINT => "SAVEPOINT",
        T::TRANS_STMT_RELEASE => "RELEASE",
        T::TRANS_STMT_PREPARE => "PREPARE TRANSACTION",
        _ => "ROLLBACK",
    }
}

/// ROLLBACK, COMMIT and ROLLBACK TO are all that a failed transaction takes.
fn may_end_failed(kind: T::Type) -> bool {
    matches!(kind, T::TRANS_STMT_COMMIT | T::TRANS_STMT_ROLLBACK | T::TRANS_STMT_ROLLBACK_TO | T::TRANS_STMT_PREPARE)
}

/// EXPLAIN ANALYZE runs what it explains. The last of several options counts.
fn is_analyzed(s: &nodes::ExplainStmt) -> bool {
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

/// ALTER of an object of some kind.
fn altered(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_INDEX => "ALTER INDEX",
        O::OBJECT_VIEW => "ALTER VIEW",
        O::OBJECT_MATVIEW => "ALTER MATERIALIZED VIEW",
        O::OBJECT_SEQUENCE => "ALTER SEQUENCE",
        O::OBJECT_SCHEMA => "ALTER SCHEMA",
        O::OBJECT_TRIGGER => "ALTER TRIGGER",
        O::OBJECT_POLICY => "ALTER POLICY",
        O::OBJECT_TYPE | O::OBJECT_ATTRIBUTE => "ALTER TYPE",
        O::OBJECT_DOMAIN | O::OBJECT_DOMCONSTRAINT => "ALTER DOMAIN",
        O::OBJECT_DATABASE => "ALTER DATABASE",
        O::OBJECT_ROLE => "ALTER ROLE",
        O::OBJECT_TSCONFIGURATION => "ALTER TEXT SEARCH CONFIGURATION",
        O::OBJECT_TSDICTIONARY => "ALTER TEXT SEARCH DICTIONARY",
        O::OBJECT_TSPARSER => "ALTER TEXT SEARCH PARSER",
        O::OBJECT_TSTEMPLATE => "ALTER TEXT SEARCH TEMPLATE",
        O::OBJECT_EXTENSION => "ALTER EXTENSION",
        O::OBJECT_LARGEOBJECT => "ALTER LARGE OBJECT",
        O::OBJECT_STATISTIC_EXT => "ALTER STATISTICS",
        O::OBJECT_OPCLASS => "ALTER OPERATOR CLASS",
        O::OBJECT_OPFAMILY => "ALTER OPERATOR FAMILY",
        _ => "ALTER TABLE",
    }
}

/// DROP of an object of some kind.
fn dropped(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_INDEX => "DROP INDEX",
        O::OBJECT_VIEW => "DROP VIEW",
        O::OBJECT_MATVIEW => "DROP MATERIALIZED VIEW",
        O::OBJECT_SEQUENCE => "DROP SEQUENCE",
        O::OBJECT_SCHEMA => "DROP SCHEMA",
        O::OBJECT_TABLE => "DROP TABLE",
        O::OBJECT_TRIGGER => "DROP TRIGGER",
        O::OBJECT_POLICY => "DROP POLICY",
        O::OBJECT_FUNCTION => "DROP FUNCTION",
        O::OBJECT_PROCEDURE => "DROP PROCEDURE",
        O::OBJECT_ROUTINE => "DROP ROUTINE",
        O::OBJECT_TYPE => "DROP TYPE",
        O::OBJECT_DOMAIN => "DROP DOMAIN",
        O::OBJECT_TSCONFIGURATION => "DROP TEXT SEARCH CONFIGURATION",
        O::OBJECT_TSDICTIONARY => "DROP TEXT SEARCH DICTIONARY",
        O::OBJECT_TSPARSER => "DROP TEXT SEARCH PARSER",
        O::OBJECT_TSTEMPLATE => "DROP TEXT SEARCH TEMPLATE",
        O::OBJECT_EXTENSION => "DROP EXTENSION",
        O::OBJECT_STATISTIC_EXT => "DROP STATISTICS",
        O::OBJECT_OPCLASS => "DROP OPERATOR CLASS",
        O::OBJECT_OPFAMILY => "DROP OPERATOR FAMILY",
        _ => "DROP",
    }
}

/// CREATE … (name = value, …).
fn defined(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_TSCONFIGURATION => "CREATE TEXT SEARCH CONFIGURATION",
        O::OBJECT_TSDICTIONARY => "CREATE TEXT SEARCH DICTIONARY",
        O::OBJECT_TSPARSER => "CREATE TEXT SEARCH PARSER",
        O::OBJECT_TSTEMPLATE => "CREATE TEXT SEARCH TEMPLATE",
        O::OBJECT_AGGREGATE => "CREATE AGGREGATE",
        O::OBJECT_OPERATOR => "CREATE OPERATOR",
        O::OBJECT_COLLATION => "CREATE COLLATION",
        _ => "CREATE TYPE",
    }
}
