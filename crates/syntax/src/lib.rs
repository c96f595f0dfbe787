//! PostgreSQL's own grammar (libpg_query through `pg_raw_parse`).
//!
//! Invariants
//! 1. Must run on a full-size stack: the C parser recurses and knows the limit of a thread's stack only.
//! 2. An error carries SQLSTATE and the cursor position that the C parser found.
//!
//! Must not know: catalogs, types, plans.

pub mod literals;

use kilndb_base::memory::MemoryClaim;
use kilndb_base::{Error, Result, SqlState, shared, sqlstate, work};
pub use pg_raw_parse::list::{CastNodeList, NodeList};
pub use pg_raw_parse::{ConstValue, Node, Owned, StmtList, nodes, raw};
use std::sync::Arc;

/// The list with whatever is in it: the grammar allows more in some places than a list's type says.
pub fn nodes_of<T>(list: &CastNodeList<T>) -> &NodeList {
    // SAFETY: a CastNodeList is transparent over a NodeList.
    unsafe { &*std::ptr::from_ref(list).cast::<NodeList>() }
}

/// A parsed script: statements with their places in the text. Cheap to clone, shared between threads.
#[derive(Clone)]
pub struct Script {
    tree: Arc<Tree>,
    text: Arc<str>,
}

/// What the C parser has made, in memory of its own.
struct Tree {
    statements: Owned<StmtList>,
    _memory: Option<MemoryClaim>,
}

/// One statement of a script.
#[derive(Clone)]
pub struct Statement {
    script: Script,
    index: usize,
    start: usize,
    end: usize,
}

impl Script {
    pub fn statements(&self) -> Vec<Statement> {
        self.tree
            .statements
            .iter()
            .enumerate()
            .map(|(index, raw)| {
                let start = usize::try_from(raw.stmt_location).unwrap_or(0).min(self.text.len());
                let len = usize::try_from(raw.stmt_len).unwrap_or(0);
                let end = if len == 0 { self.text.len() } else { (start + len).min(self.text.len()) };
                Statement { script: self.clone(), index, start, end }
            })
            .collect()
    }
}

impl Statement {
    pub fn node(&self) -> Node<'_> {
        self.script.tree.statements.get(self.index).map_or(Node::None, |raw| raw.stmt())
    }
    /// The statement's own text, trimmed of leading white space.
    pub fn text(&self) -> &str {
        self.script.text.get(self.start..self.end).unwrap_or("").trim_start()
    }
    /// The whole text that was parsed: locations in nodes are byte offsets in it.
    pub fn source(&self) -> &Arc<str> {
        &self.script.text
    }
}

/// Turns a node's `location` (byte offset, -1 for none) into PostgreSQL's 1-based character position.
pub fn position_of(source: &str, location: i32) -> Option<u32> {
    let offset = usize::try_from(location).ok()?;
    let before = source.get(..offset.min(source.len()))?;
    Some(before.chars().count() as u32 + 1)
}

/// A longer text is parsed apart, and what the parser may need for it is asked for before.
const SHORT_BYTES: usize = 32 << 10;
/// What the parser takes for each token, and for each byte, at most as measured: a list of integers takes 190 bytes a
/// token, a literal four copies of its bytes.
const BYTES_PER_TOKEN: usize = 200;
const COPIES_OF_TEXT: usize = 4;

pub fn parse(sql: &str) -> Result<Script> {
    if sql.len() <= SHORT_BYTES {
        return parse_here(sql, Arc::from(sql), None);
    }
    let memory = MemoryClaim::new(sql.len() * COPIES_OF_TEXT + tokens(sql)? * BYTES_PER_TOKEN)?;
    let text = shared::text(sql)?;
    work::apart(|| parse_here(sql, text, Some(memory)))?
}

fn parse_here(sql: &str, text: Arc<str>, memory: Option<MemoryClaim>) -> Result<Script> {
    match pg_raw_parse::parse(sql) {
        Ok(parsed) => Ok(Script { tree: Arc::new(Tree { statements: parsed.into_inner(), _memory: memory }), text }),
        Err(pg_raw_parse::Error::Parse(e)) => Err(convert(e)),
        Err(e) => Err(Error::new(sqlstate::SYNTAX_ERROR, e.to_string())),
    }
}

/// About how many tokens a text has: beginnings of words and numbers, and marks, outside of what is in single quotes.
fn tokens(sql: &str) -> Result<usize> {
    let (mut count, mut is_quoted, mut in_word) = (0, false, false);
    for mut rest in sql.as_bytes().chunks(work::PIECE_BYTES) {
        work::step(rest.len())?;
        while let [byte, behind @ ..] = rest {
            if is_quoted {
                let end = memchr::memchr(b'\'', rest);
                is_quoted = end.is_none();
                rest = end.map_or(&[], |at| &rest[at + 1..]);
                continue;
            }
            let is_word = byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
            let begins = !byte.is_ascii_whitespace() && !(is_word && in_word);
            count += usize::from(begins);
            is_quoted = *byte == b'\'';
            in_word = is_word;
            rest = behind;
        }
    }
    Ok(count)
}

/// An expression's text, as the deparser writes it. Needs a full-size stack too.
pub fn expression_sql(node: Node<'_>) -> Result<String> {
    let select = pg_raw_parse::make::owned(|mem| {
        let copy = mem.make_unique(node);
        let target = mem.make_res_target(None, mem.empty(), copy);
        let mut select = mem.make_node::<nodes::SelectStmt>();
        select.as_mut().set_target_list(mem.make_list(&[target]));
        select
    });
    let text =
        pg_raw_parse::deparse(&*select).map_err(|e| Error::internal(format!("could not write an expression: {e}")))?;
    Ok(text.as_str().strip_prefix("SELECT ").unwrap_or(text.as_str()).to_string())
}

/// A query's text with these names for all of its columns. None: something else in the query may go by their names, or
/// it is not a plain SELECT.
pub fn select_with_names(sql: &str, names: &[&str]) -> Result<Option<String>> {
    let script = parse(sql)?;
    let statements = script.statements();
    let Some(Node::SelectStmt(select)) = statements.first().map(Statement::node) else { return Ok(None) };
    let is_plain = select.op == raw::SetOperation::SETOP_NONE && select.target_list().len() == names.len();
    if !is_plain || goes_by_output_names(select, names) {
        return Ok(None);
    }
    let copy = pg_raw_parse::make::owned(|mem| {
        let mut copy = mem.make_unique(select);
        let targets: Vec<_> = select
            .target_list()
            .iter()
            .zip(names)
            .map(|(target, name)| mem.make_res_target(Some(name), mem.empty(), mem.make_unique(target.val())))
            .collect();
        copy.as_mut().set_target_list(mem.make_list(&targets));
        copy
    });
    let text =
        pg_raw_parse::deparse(&*copy).map_err(|e| Error::internal(format!("could not write a statement: {e}")))?;
    Ok(Some(text.as_str().to_string()))
}

/// Whether ORDER BY, GROUP BY or DISTINCT ON mean, or might mean, a column by the name that it has in the result, under
/// its own name or one of `names`.
fn goes_by_output_names(select: &nodes::SelectStmt, names: &[&str]) -> bool {
    let from = select.from_clause();
    let is_of_one_table = from.len() == 1 && matches!(from.first(), Some(Node::RangeVar(_)));
    let is_output = |node: Node<'_>| match node {
        Node::ColumnRef(c) if c.fields().len() == 1 => {
            let name = c.fields().first().and_then(|f| f.as_str()).unwrap_or_default();
            let renamed = select.target_list().iter().any(|target| target.name() == Some(name));
            !is_of_one_table || renamed || names.contains(&name)
        }
        Node::ColumnRef(_) | Node::A_Const(_) => false,
        // Grouping sets have lists of their own.
        Node::GroupingSet(_) => true,
        _ => false,
    };
    let sorted = select.sort_clause().iter().any(|sort| is_output(sort.node()));
    sorted || select.group_clause().iter().chain(select.distinct_clause().iter()).any(is_output)
}

/// A statement's text, as the deparser writes it.
pub fn statement_sql(node: Node<'_>) -> Result<String> {
    let text = pg_raw_parse::deparse(node).map_err(|e| Error::internal(format!("could not write a statement: {e}")))?;
    Ok(text.as_str().to_string())
}

fn convert(e: pg_raw_parse::error::CError) -> Error {
    let message = e.to_string();
    let state = state_of(&message);
    let position = cursor_position(&e);
    let hint = hint_of(&message);
    let error = Error::new(state, message).or_position(position);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// libpg_query loses hints, too.
fn hint_of(message: &str) -> Option<&'static str> {
    message
        .starts_with("unrecognized row security option")
        .then_some("Only PERMISSIVE or RESTRICTIVE policies are supported currently.")
}

const _: () = assert!(size_of::<pg_raw_parse::error::CError>() == size_of::<*const raw::PgQueryError>());

/// The crate keeps the C struct private; its error type is that one pointer (asserted above; the version is pinned).
fn cursor_position(e: &pg_raw_parse::error::CError) -> Option<u32> {
    let pointer: *const *const raw::PgQueryError = std::ptr::from_ref(e).cast();
    // SAFETY: CError holds exactly one non-null pointer to a live PgQueryError that it frees on drop.
    let position = unsafe { (**pointer).cursorpos };
    u32::try_from(position).ok().filter(|p| *p > 0)
}

/// libpg_query loses the SQLSTATE; the scanner and grammar raise few that are not 42601.
fn state_of(message: &str) -> SqlState {
    const RULES: &[(&str, SqlState)] = &[
        ("not supported", sqlstate::FEATURE_NOT_SUPPORTED),
        ("not yet supported", sqlstate::FEATURE_NOT_SUPPORTED),
        ("not implemented", sqlstate::FEATURE_NOT_SUPPORTED),
        ("invalid byte sequence", sqlstate::CHARACTER_NOT_IN_REPERTOIRE),
        ("invalid Unicode escape", sqlstate::INVALID_ESCAPE_SEQUENCE),
        ("unsafe use of \\'", SqlState::new("22P06")),
        ("stack depth limit exceeded", sqlstate::STATEMENT_TOO_COMPLEX),
        ("memory exhausted", sqlstate::PROGRAM_LIMIT_EXCEEDED),
        ("out of memory", sqlstate::OUT_OF_MEMORY),
        ("frame starting from", sqlstate::WINDOWING_ERROR),
        ("frame start cannot be", sqlstate::WINDOWING_ERROR),
        ("frame end cannot be", sqlstate::WINDOWING_ERROR),
        ("interval precision specified twice", sqlstate::SYNTAX_ERROR),
    ];
    RULES.iter().find(|(part, _)| message.contains(part)).map_or(sqlstate::SYNTAX_ERROR, |(_, state)| *state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_position() {
        let e = parse("select 1 from from").err();
        let fields = e.map(|e| e.0);
        assert_eq!(fields.as_ref().and_then(|f| f.position), Some(15));
        assert_eq!(fields.map(|f| f.message), Some("syntax error at or near \"from\"".to_string()));
    }

    #[test]
    fn expressions_are_written_back() {
        let script = parse("select a + 1, nextval('x'::regclass)").unwrap();
        let statements = script.statements();
        let Node::SelectStmt(select) = statements[0].node() else { panic!() };
        let texts: Vec<String> = select.target_list().iter().filter_map(|t| expression_sql(t.val()).ok()).collect();
        assert_eq!(texts, ["a + 1", "nextval('x'::regclass)"]);
    }

    #[test]
    fn statements_know_their_text() {
        let script = parse("select 1;  select 2 ").unwrap();
        let texts: Vec<String> = script.statements().iter().map(|s| s.text().to_string()).collect();
        assert_eq!(texts, ["select 1", "select 2 "]);
    }

    #[test]
    fn tokens_are_counted_outside_of_quotes() {
        for (sql, count) in
            [("", 0), ("select 12,  a_b", 4), ("x = 'many words, 1, 2' or y", 5), ("'it''s'", 2), ("f(1)", 4)]
        {
            assert_eq!(tokens(sql).unwrap(), count, "{sql}");
        }
        let literal = format!("select '{}', 1", "a ".repeat(100_000));
        assert_eq!(tokens(&literal).unwrap(), 4);
    }

    #[test]
    fn a_long_text_is_the_same_statement() {
        let list = vec!["1"; 40_000].join(", ");
        let script = parse(&format!("select {list}; select 2")).unwrap();
        let statements = script.statements();
        assert_eq!(statements.len(), 2);
        assert_eq!(statements[1].text(), "select 2");
        assert!(parse(&format!("select {list} from where")).is_err());
    }
}
