//! PL/pgSQL's words. Reserved ones are never names; the others are words with a meaning where the grammar looks for them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyword {
    Absolute, Alias, All, And, Array, Assert, Backward, Begin, By, Call, Case, Chain, Close, Collate, Column, ColumnName, Commit, Constant,
    Constraint, ConstraintName, Continue, Current, Cursor, Datatype, Debug, Declare, Default, Detail, Diagnostics, Do, Dump, Else, Elsif,
    End, Errcode, Error, Exception, Execute, Exit, Fetch, First, For, Foreach, Forward, From, Get, Hint, If, Import, In, Info, Insert, Into,
    Is, Last, Log, Loop, Merge, Message, MessageText, Move, Next, No, Not, Notice, Null, Open, Option, Or, Perform, PgContext,
    PgDatatypeName, PgExceptionContext, PgExceptionDetail, PgExceptionHint, PgRoutineOid, PrintStrictParams, Prior, Query, Raise, Relative,
    Return, ReturnedSqlstate, Reverse, Rollback, RowCount, Rowtype, Schema, SchemaName, Scroll, Slice, Sqlstate, Stacked, Strict, Table,
    TableName, Then, To, Type, UseColumn, UseVariable, Using, VariableConflict, Warning, When, While,
}

/// In the order of the alphabet.
const RESERVED: &[(&str, Keyword)] = &[
    ("all", Keyword::All), ("begin", Keyword::Begin), ("by", Keyword::By), ("case", Keyword::Case), ("declare", Keyword::Declare),
    ("else", Keyword::Else), ("end", Keyword::End), ("execute", Keyword::Execute), ("for", Keyword::For), ("foreach", Keyword::Foreach),
    ("from", Keyword::From), ("if", Keyword::If), ("in", Keyword::In), ("into", Keyword::Into), ("loop", Keyword::Loop),
    ("not", Keyword::Not), ("null", Keyword::Null), ("or", Keyword::Or), ("strict", Keyword::Strict), ("then", Keyword::Then),
    ("to", Keyword::To), ("using", Keyword::Using), ("when", Keyword::When), ("while", Keyword::While),
];

/// In the order of the alphabet. ELSEIF is another spelling of ELSIF.
const UNRESERVED: &[(&str, Keyword)] = &[
    ("absolute", Keyword::Absolute), ("alias", Keyword::Alias), ("and", Keyword::And), ("array", Keyword::Array),
    ("assert", Keyword::Assert), ("backward", Keyword::Backward), ("call", Keyword::Call), ("chain", Keyword::Chain),
    ("close", Keyword::Close), ("collate", Keyword::Collate), ("column", Keyword::Column), ("column_name", Keyword::ColumnName),
    ("commit", Keyword::Commit), ("constant", Keyword::Constant), ("constraint", Keyword::Constraint),
    ("constraint_name", Keyword::ConstraintName), ("continue", Keyword::Continue), ("current", Keyword::Current),
    ("cursor", Keyword::Cursor), ("datatype", Keyword::Datatype), ("debug", Keyword::Debug), ("default", Keyword::Default),
    ("detail", Keyword::Detail), ("diagnostics", Keyword::Diagnostics), ("do", Keyword::Do), ("dump", Keyword::Dump),
    ("elseif", Keyword::Elsif), ("elsif", Keyword::Elsif), ("errcode", Keyword::Errcode), ("error", Keyword::Error),
    ("exception", Keyword::Exception), ("exit", Keyword::Exit), ("fetch", Keyword::Fetch), ("first", Keyword::First),
    ("forward", Keyword::Forward), ("get", Keyword::Get), ("hint", Keyword::Hint), ("import", Keyword::Import), ("info", Keyword::Info),
    ("insert", Keyword::Insert), ("is", Keyword::Is), ("last", Keyword::Last), ("log", Keyword::Log), ("merge", Keyword::Merge),
    ("message", Keyword::Message), ("message_text", Keyword::MessageText), ("move", Keyword::Move), ("next", Keyword::Next),
    ("no", Keyword::No), ("notice", Keyword::Notice), ("open", Keyword::Open), ("option", Keyword::Option), ("perform", Keyword::Perform),
    ("pg_context", Keyword::PgContext), ("pg_datatype_name", Keyword::PgDatatypeName),
    ("pg_exception_context", Keyword::PgExceptionContext), ("pg_exception_detail", Keyword::PgExceptionDetail),
    ("pg_exception_hint", Keyword::PgExceptionHint), ("pg_routine_oid", Keyword::PgRoutineOid),
    ("print_strict_params", Keyword::PrintStrictParams), ("prior", Keyword::Prior), ("query", Keyword::Query), ("raise", Keyword::Raise),
    ("relative", Keyword::Relative), ("return", Keyword::Return), ("returned_sqlstate", Keyword::ReturnedSqlstate),
    ("reverse", Keyword::Reverse), ("rollback", Keyword::Rollback), ("row_count", Keyword::RowCount), ("rowtype", Keyword::Rowtype),
    ("schema", Keyword::Schema), ("schema_name", Keyword::SchemaName), ("scroll", Keyword::Scroll), ("slice", Keyword::Slice),
    ("sqlstate", Keyword::Sqlstate), ("stacked", Keyword::Stacked), ("table", Keyword::Table), ("table_name", Keyword::TableName),
    ("type", Keyword::Type), ("use_column", Keyword::UseColumn), ("use_variable", Keyword::UseVariable),
    ("variable_conflict", Keyword::VariableConflict), ("warning", Keyword::Warning),
];

fn find(list: &[(&str, Keyword)], word: &str) -> Option<Keyword> {
    list.binary_search_by(|(name, _)| (*name).cmp(word)).ok().and_then(|i| list.get(i)).map(|(_, k)| *k)
}

pub fn reserved(word: &str) -> Option<Keyword> {
    find(RESERVED, word)
}

pub fn unreserved(word: &str) -> Option<Keyword> {
    find(UNRESERVED, word)
}

/// How an unreserved word is written.
pub fn word_of(keyword: Keyword) -> Option<&'static str> {
    UNRESERVED.iter().rev().find(|(_, k)| *k == keyword).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_found() {
        assert!(RESERVED.iter().all(|(name, k)| reserved(name) == Some(*k)));
        assert!(UNRESERVED.iter().all(|(name, k)| unreserved(name) == Some(*k)));
        assert_eq!(word_of(Keyword::Elsif), Some("elsif"));
        assert_eq!(reserved("raise"), None);
    }
}
