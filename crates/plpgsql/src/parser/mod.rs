//! Text to tree, after PostgreSQL's grammar of PL/pgSQL.
//!
//! Invariants
//! 1. Texts of errors are PostgreSQL's. A position is in characters of the body's text ([`Failure::is_inside`]).
//! 2. Which words are variables is decided as they are read: a name in front of `:=` is one where the same name alone
//!    begins a statement.
//! 3. Recursion is bounded (54001).
//!
//! Must not know: values, plans, sessions; of types and SQL what [`Names`] answers.

mod block;
mod cursor;
mod declare;
mod raise;
mod sql;
mod statement;
mod words;

use crate::keywords::Keyword;
use crate::namespace::Namespace;
use crate::scanner::{Lexeme, Scanner, Token};
use crate::tree::*;
use kilndb_base::{Error, Oid, Result, SqlState, sqlstate};
use kilndb_types::collation::Collation;
use std::sync::Arc;

/// What the parser asks of the catalogs and of SQL's grammar.
pub trait Names {
    /// A type as it is written. Positions of errors are in `text`.
    fn type_of_text(&mut self, text: &str) -> Result<TypeInfo>;
    fn type_of_column(&mut self, parts: &[String]) -> Result<TypeInfo>;
    fn type_of_rows(&mut self, parts: &[String]) -> Result<TypeInfo>;
    fn type_of_oid(&mut self, oid: Oid, typmod: i32) -> Result<TypeInfo>;
    fn array_of(&mut self, element: &TypeInfo) -> Result<TypeInfo>;
    fn collation(&mut self, parts: &[String]) -> Result<Collation>;
    /// An error's position is in `text`.
    fn check_syntax(&mut self, text: &str, mode: ParseMode) -> Result<()>;
    /// A warning at compile time.
    fn warn(&mut self, warning: Error);
}

/// What is checked beyond what is an error anyway: `plpgsql.extra_warnings`, `plpgsql.extra_errors`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraChecks {
    pub shadowed_variables: bool,
    pub too_many_rows: bool,
    pub strict_multi_assignment: bool,
}

/// What statements may be depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    Value,
    Void { procedure: bool },
    Set,
}

/// A routine's variables and options, while it is parsed and afterwards.
#[derive(Debug)]
pub struct Frame {
    pub variables: Vec<Variable>,
    pub namespace: Namespace,
    pub conflict: Conflict,
    pub print_strict_params: bool,
    pub extra_warnings: ExtraChecks,
    pub extra_errors: ExtraChecks,
    pub returns: Returns,
    /// What RETURN without a value returns.
    pub output: Option<Slot>,
    pub exprs: usize,
    pub statements: usize,
    pub has_exceptions: bool,
}

impl Frame {
    pub fn new(conflict: Conflict, returns: Returns) -> Frame {
        Frame {
            variables: Vec::new(),
            namespace: Namespace::default(),
            conflict,
            print_strict_params: false,
            extra_warnings: ExtraChecks::default(),
            extra_errors: ExtraChecks::default(),
            returns,
            output: None,
            exprs: 0,
            statements: 0,
            has_exceptions: false,
        }
    }
    pub fn add(&mut self, variable: Variable) -> Slot {
        self.variables.push(variable);
        self.variables.len() - 1
    }
    /// A variable of that type; pseudo-types have none.
    pub fn declare(&mut self, name: &str, line: u32, ty: TypeInfo, named: bool) -> Result<Slot> {
        let name = name.to_string();
        let slot = match ty.kind {
            TypeKind::Pseudo => {
                return Err(Error::unsupported(format!("variable \"{name}\" has pseudo-type {}", ty.name)));
            }
            TypeKind::Scalar => {
                let slot = self.add(Variable::Scalar(ScalarVariable {
                    name: name.clone(),
                    line,
                    ty,
                    collation: None,
                    constant: false,
                    not_null: false,
                    default: None,
                    cursor: None,
                    fact: None,
                }));
                if named {
                    self.namespace.add_scalar(slot, &name);
                }
                slot
            }
            TypeKind::Record => {
                let fields = Vec::new();
                let record = RecordVariable {
                    name: name.clone(),
                    line,
                    ty,
                    constant: false,
                    not_null: false,
                    default: None,
                    fields,
                };
                let slot = self.add(Variable::Record(record));
                if named {
                    self.namespace.add_record(slot, &name);
                }
                slot
            }
        };
        Ok(slot)
    }
    /// The slot of a record's field, whether the record has such a field or not.
    pub fn field(&mut self, record: Slot, field: &str) -> Slot {
        let next = self.variables.len();
        if let Some(Variable::Record(r)) = self.variables.get_mut(record) {
            if let Some((_, slot)) = r.fields.iter().find(|(name, _)| name == field) {
                return *slot;
            }
            r.fields.push((field.to_string(), next));
        }
        self.add(Variable::Field { record, name: field.to_string() })
    }
    pub fn is_row(&self, slot: Slot) -> bool {
        matches!(self.variables.get(slot), Some(Variable::Row { .. } | Variable::Record(_)))
    }
}

/// A token with names looked up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tok {
    Plain(Token),
    /// A simple name that is no variable.
    Word {
        name: String,
        quoted: bool,
    },
    /// A qualified one.
    Words(Vec<String>),
    Variable(VariableToken),
    Keyword(Keyword),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VariableToken {
    pub slot: Slot,
    /// One to three names.
    pub names: Vec<String>,
    pub quoted: bool,
}

impl VariableToken {
    fn shown(&self) -> String {
        self.names.join(".")
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    Normal,
    /// Declarations: no name is a variable.
    Declare,
    /// Within SQL: fields of records get their slots, nothing more.
    Sql,
}

/// Why a body is not what it should be.
#[derive(Debug)]
pub struct Failure {
    /// Its position, if it has one, is in characters of the body.
    pub error: Error,
    /// The line the parser had come to.
    pub line: u32,
}

pub(crate) struct Parser<'a> {
    text: &'a str,
    scanner: Scanner<'a>,
    pushed: Vec<Lexeme<Tok>>,
    lookup: Lookup,
    /// The token returned last.
    current: (usize, usize),
    after_statement: bool,
    names: &'a mut dyn Names,
    frame: &'a mut Frame,
    check_syntax: bool,
    latest_line: u32,
    /// Offsets of the text's ends of lines.
    line_ends: Vec<usize>,
}

/// Parses a body into `frame`, which has the arguments already. `check_syntax`: of the SQL in it too.
pub fn parse(text: &str, frame: &mut Frame, names: &mut dyn Names, check_syntax: bool) -> Result<Stmt, Failure> {
    let mut parser = Parser {
        text,
        scanner: Scanner::new(text),
        pushed: Vec::new(),
        lookup: Lookup::Normal,
        current: (0, 0),
        after_statement: false,
        names,
        frame,
        check_syntax,
        latest_line: 1,
        line_ends: text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at).collect(),
    };
    parser.function().map_err(|error| Failure { error, line: parser.latest_line })
}

impl<'a> Parser<'a> {
    fn function(&mut self) -> Result<Stmt> {
        self.options()?;
        let label = self.label()?;
        let (block, begin) = self.block(label)?;
        let block = self.statement(begin, StmtKind::Block(Box::new(block)));
        let mut tok = self.next()?;
        if tok == sign(';') {
            tok = self.next()?;
        }
        match tok {
            Tok::Plain(Token::End) => Ok(block),
            _ => self.syntax_error(),
        }
    }

    /// `#option dump` and the like.
    fn options(&mut self) -> Result<()> {
        loop {
            let (tok, place) = self.next_at()?;
            if tok != sign('#') {
                self.push_back(tok, place);
                return Ok(());
            }
            match self.next()? {
                Tok::Keyword(Keyword::Option) => {
                    if self.next()? != Tok::Keyword(Keyword::Dump) {
                        return self.syntax_error();
                    }
                }
                Tok::Keyword(Keyword::PrintStrictParams) => {
                    let value = match self.next()? {
                        Tok::Word { name, .. } => name,
                        Tok::Keyword(k) => crate::keywords::word_of(k).unwrap_or("").to_string(),
                        _ => return self.syntax_error(),
                    };
                    self.frame.print_strict_params = match value.as_str() {
                        "on" => true,
                        "off" => false,
                        _ => {
                            return Err(Error::new(
                                sqlstate::SYNTAX_ERROR,
                                format!("unrecognized print_strict_params option {value}"),
                            ));
                        }
                    };
                }
                Tok::Keyword(Keyword::VariableConflict) => {
                    self.frame.conflict = match self.next()? {
                        Tok::Keyword(Keyword::Error) => Conflict::Error,
                        Tok::Keyword(Keyword::UseVariable) => Conflict::UseVariable,
                        Tok::Keyword(Keyword::UseColumn) => Conflict::UseColumn,
                        _ => return self.syntax_error(),
                    };
                }
                _ => return self.syntax_error(),
            }
        }
    }

    // Errors.

    fn position(&self, offset: usize) -> u32 {
        self.text.get(..offset).unwrap_or(self.text).chars().count() as u32 + 1
    }
    pub(crate) fn fail<T>(&self, state: SqlState, message: impl Into<String>, offset: usize) -> Result<T> {
        Err(Error::new(state, message).with_position(self.position(offset)))
    }
    pub(crate) fn syntax<T>(&self, message: impl Into<String>, offset: usize) -> Result<T> {
        self.fail(sqlstate::SYNTAX_ERROR, message, offset)
    }
    /// At the token that was read last.
    pub(crate) fn error_here<T>(&self, message: &str) -> Result<T> {
        let (start, end) = self.current;
        let near = self.text.get(start..end).unwrap_or("");
        let message = if start >= self.text.len() {
            format!("{message} at end of input")
        } else {
            format!("{message} at or near \"{near}\"")
        };
        self.syntax(message, start)
    }
    pub(crate) fn syntax_error<T>(&self) -> Result<T> {
        self.error_here("syntax error")
    }

    pub(crate) fn line_of(&mut self, offset: usize) -> u32 {
        self.latest_line = self.line_ends.partition_point(|end| *end < offset) as u32 + 1;
        self.latest_line
    }

    // Trees.

    pub(crate) fn statement(&mut self, start: usize, kind: StmtKind) -> Stmt {
        self.frame.statements += 1;
        Stmt { line: self.line_of(start), kind }
    }
    pub(crate) fn expr(&mut self, text: &str, mode: ParseMode) -> Expr {
        self.frame.exprs += 1;
        Expr {
            id: self.frame.exprs - 1,
            text: Arc::from(text),
            mode,
            place: self.frame.namespace.place(),
            assignment: None,
        }
    }
    /// Checks SQL that stands at `offset`. Without a position of its own the error is there.
    pub(crate) fn check(&mut self, text: &str, mode: ParseMode, offset: usize) -> Result<()> {
        if !self.check_syntax {
            return Ok(());
        }
        self.names.check_syntax(text, mode).map_err(|mut e| {
            let start = self.position(offset);
            e.0.position = Some(start + e.0.position.map_or(0, |p| p.saturating_sub(1)));
            e
        })
    }
    /// What stands around a level of nesting.
    pub(crate) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        kilndb_base::stack::check()?;
        kilndb_base::work::step(200)?;
        parse(self)
    }
}

pub(crate) fn sign(c: char) -> Tok {
    Tok::Plain(Token::Sign(c))
}

#[cfg(test)]
mod tests;
