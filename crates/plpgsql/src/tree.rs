//! The syntax tree of a routine: statements with line numbers, variables as slots.
//!
//! Invariants
//! 1. Every variable, record field that is named somewhere, and list of INTO targets has a slot; slots are numbered in
//!    the order in which PostgreSQL would number them (its messages tell parameter numbers).
//! 2. An [`Expr`] keeps the place in the namespace that it was written in: names in it are resolved from there.
//!
//! Must not know: plans, values, sessions.

use crate::namespace::NamespacePosition;
use kilndb_base::{Oid, SqlState};
use kilndb_types::collation::Collation;
use std::sync::Arc;

pub type Slot = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Scalar,
    /// RECORD or a composite type.
    Record,
    Pseudo,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TypeInfo {
    pub oid: Oid,
    pub typmod: i32,
    pub kind: TypeKind,
    pub is_array: bool,
    /// As format_type shows it.
    pub name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseMode {
    Statement,
    /// What may follow SELECT.
    Expression,
    /// `target := expression`, the target being more than a variable, which so many names are.
    Assignment {
        names: u8,
    },
}

/// SQL text within a routine. `id` numbers them: what is kept of each between executions is found by it.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub id: usize,
    pub text: Arc<str>,
    pub mode: ParseMode,
    pub place: NamespacePosition,
    /// The whole assignment, if this is its right side.
    pub assignment: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scroll {
    Default,
    Wanted,
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
pub struct BoundCursor {
    pub query: Expr,
    /// A [`Variable::Row`].
    pub args: Option<Slot>,
    pub scroll: Scroll,
}

/// Facts about the call of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerFact {
    Name,
    When,
    Level,
    Op,
    RelId,
    TableName,
    TableSchema,
    ArgumentCount,
    Arguments,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScalarVariable {
    pub name: String,
    pub line: u32,
    pub ty: TypeInfo,
    /// What COLLATE says.
    pub collation: Option<Collation>,
    pub constant: bool,
    pub not_null: bool,
    pub default: Option<Expr>,
    pub cursor: Option<Box<BoundCursor>>,
    pub fact: Option<TriggerFact>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordVariable {
    pub name: String,
    pub line: u32,
    pub ty: TypeInfo,
    pub constant: bool,
    pub not_null: bool,
    pub default: Option<Expr>,
    /// Fields that the routine names, and their slots.
    pub fields: Vec<(String, Slot)>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Variable {
    Scalar(ScalarVariable),
    Record(RecordVariable),
    /// Several variables that take a row together.
    Row {
        names: Vec<String>,
        slots: Vec<Slot>,
    },
    Field {
        record: Slot,
        name: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// 0: not written by the user.
    pub line: u32,
    pub kind: StmtKind,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    pub conditions: Vec<Condition>,
    pub body: Vec<Stmt>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    Others,
    State(SqlState),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Exceptions {
    pub sqlstate: Slot,
    pub sqlerrm: Slot,
    pub handlers: Vec<Handler>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub label: Option<String>,
    /// Variables that start anew each time.
    pub declared: Vec<Slot>,
    pub body: Vec<Stmt>,
    pub exceptions: Option<Exceptions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntoClause {
    pub target: Slot,
    pub strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Exception,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaiseOption {
    Errcode,
    Message,
    Detail,
    Hint,
    Column,
    Constraint,
    Datatype,
    Table,
    Schema,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Raise {
    pub level: Level,
    /// A condition's name or five characters of SQLSTATE.
    pub condition: Option<String>,
    pub message: Option<String>,
    pub params: Vec<Expr>,
    pub options: Vec<(RaiseOption, Expr)>,
}

impl Raise {
    /// `RAISE;` alone: the error that is being handled, again.
    pub fn is_again(&self) -> bool {
        self.condition.is_none() && self.message.is_none() && self.options.is_empty()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticItem {
    RowCount,
    RoutineOid,
    Context,
    ExceptionContext,
    ExceptionDetail,
    ExceptionHint,
    ReturnedSqlstate,
    ColumnName,
    ConstraintName,
    DatatypeName,
    MessageText,
    TableName,
    SchemaName,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OpenSource {
    Query(Expr),
    Dynamic {
        query: Expr,
        params: Vec<Expr>,
    },
    /// A bound cursor's query with these arguments.
    Bound(Option<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
    Absolute,
    Relative,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FetchCount {
    Number(i64),
    All,
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ReturnValue {
    None,
    Slot(Slot),
    Expr(Expr),
}

#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    Block(Box<Block>),
    /// `expr` is the right side, or all of it if the target has subscripts or deeper fields.
    Assign {
        target: Slot,
        expr: Expr,
    },
    If {
        arms: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Vec<Stmt>,
    },
    Case {
        test: Option<(Expr, Slot)>,
        whens: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Option<Vec<Stmt>>,
    },
    Loop {
        label: Option<String>,
        body: Vec<Stmt>,
    },
    While {
        label: Option<String>,
        condition: Expr,
        body: Vec<Stmt>,
    },
    ForInteger {
        label: Option<String>,
        var: Slot,
        lower: Expr,
        upper: Expr,
        step: Option<Expr>,
        reverse: bool,
        body: Vec<Stmt>,
    },
    ForQuery {
        label: Option<String>,
        target: Slot,
        query: Expr,
        body: Vec<Stmt>,
    },
    ForDynamic {
        label: Option<String>,
        target: Slot,
        query: Expr,
        params: Vec<Expr>,
        body: Vec<Stmt>,
    },
    ForCursor {
        label: Option<String>,
        cursor: Slot,
        args: Option<Expr>,
        record: Slot,
        body: Vec<Stmt>,
    },
    ForEach {
        label: Option<String>,
        target: Slot,
        slice: i64,
        array: Expr,
        body: Vec<Stmt>,
    },
    Exit {
        is_exit: bool,
        label: Option<String>,
        condition: Option<Expr>,
    },
    Return(ReturnValue),
    ReturnNext(ReturnValue),
    ReturnQuery(Expr),
    ReturnDynamic {
        query: Expr,
        params: Vec<Expr>,
    },
    Raise(Box<Raise>),
    Assert {
        condition: Expr,
        message: Option<Expr>,
    },
    Sql {
        query: Expr,
        into: Option<IntoClause>,
    },
    Dynamic {
        query: Expr,
        into: Option<IntoClause>,
        params: Vec<Expr>,
    },
    Perform(Expr),
    Call {
        query: Expr,
        is_call: bool,
    },
    Diagnostics {
        stacked: bool,
        items: Vec<(Slot, DiagnosticItem)>,
    },
    Open {
        cursor: Slot,
        scroll: Scroll,
        source: OpenSource,
    },
    Fetch {
        cursor: Slot,
        target: Option<Slot>,
        direction: Direction,
        count: FetchCount,
    },
    Close(Slot),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
}

impl StmtKind {
    /// What CONTEXT lines call it.
    pub fn name(&self) -> &'static str {
        match self {
            StmtKind::Block(_) => "statement block",
            StmtKind::Assign { .. } => "assignment",
            StmtKind::If { .. } => "IF",
            StmtKind::Case { .. } => "CASE",
            StmtKind::Loop { .. } => "LOOP",
            StmtKind::While { .. } => "WHILE",
            StmtKind::ForInteger { .. } => "FOR with integer loop variable",
            StmtKind::ForQuery { .. } => "FOR over SELECT rows",
            StmtKind::ForDynamic { .. } => "FOR over EXECUTE statement",
            StmtKind::ForCursor { .. } => "FOR over cursor",
            StmtKind::ForEach { .. } => "FOREACH over array",
            StmtKind::Exit { is_exit: true, .. } => "EXIT",
            StmtKind::Exit { is_exit: false, .. } => "CONTINUE",
            StmtKind::Return(_) => "RETURN",
            StmtKind::ReturnNext(_) => "RETURN NEXT",
            StmtKind::ReturnQuery(_) | StmtKind::ReturnDynamic { .. } => "RETURN QUERY",
            StmtKind::Raise(_) => "RAISE",
            StmtKind::Assert { .. } => "ASSERT",
            StmtKind::Sql { .. } => "SQL statement",
            StmtKind::Dynamic { .. } => "EXECUTE",
            StmtKind::Perform(_) => "PERFORM",
            StmtKind::Call { is_call: true, .. } => "CALL",
            StmtKind::Call { is_call: false, .. } => "DO",
            StmtKind::Diagnostics { stacked: true, .. } => "GET STACKED DIAGNOSTICS",
            StmtKind::Diagnostics { stacked: false, .. } => "GET DIAGNOSTICS",
            StmtKind::Open { .. } => "OPEN",
            StmtKind::Fetch { target: Some(_), .. } => "FETCH",
            StmtKind::Fetch { target: None, .. } => "MOVE",
            StmtKind::Close(_) => "CLOSE",
            StmtKind::Commit { .. } => "COMMIT",
            StmtKind::Rollback { .. } => "ROLLBACK",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    Error,
    UseVariable,
    UseColumn,
}
