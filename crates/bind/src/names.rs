//! Names of a text as they were resolved when it was bound: so that a definition which is kept as text means the same
//! under every search path.
//!
//! Invariants
//! 1. Only names of the text itself are noted, not those of views, defaults and the like that it uses: those are texts
//!    of their own.
//! 2. What belongs to pg_catalog is noted nowhere: it is found under every search path.

use super::Binder;
use super::ir::*;
use super::object_address::ObjectAddress;
use super::scope::{NsColumn, NsItem, Scope};
use super::variables::Variables;
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::builtin::{FIRST_USER_OID, PG_CATALOG};
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::{PG_CLASS, PG_OPERATOR, PG_PROC, PG_TS_CONFIG, PG_TS_DICT, PG_TYPE};
use kilndb_catalog::value_host::with_context;
use kilndb_catalog::{CatalogView, FunctionInfo, OperatorInfo, Table, TypeInfo};
use kilndb_syntax::Node;
use kilndb_types::{Datum, io, oids};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a place of the text becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TextEdit {
    /// `schema.` before the name.
    Before(String),
    /// So many bytes of the text are replaced by something else.
    Instead(usize, String),
    /// A constant with something else in its place.
    Constant(String),
    /// `*` or `table.*`: the columns that it stood for.
    Star(String),
}

/// What a full name in a text stands for.
#[derive(Clone, Debug)]
pub enum NamedObject {
    /// A relation; by which name columns of it are told, if it is its own.
    Relation(Oid, Option<String>),
    Function(Oid),
    Type(Oid),
    Operator(Oid),
    /// A constant of this reg… type.
    Constant(Oid, Oid),
    Column(ColumnName),
    /// A constant of this type, which has labels of an enum in it.
    Value(Oid, Datum),
}

/// A column's name in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnName {
    pub reference: ObjectAddress,
    pub name: String,
    /// Whether the name is that of a column which a query returns. It stays when the table's column gets another one.
    pub is_output: bool,
}

/// A text and what its full names stand for, from the last one to the first.
pub struct TrackedText {
    text: String,
    names: Vec<(usize, usize, NamedObject)>,
    /// Columns that the text needs without a name of its own for them (USING, a field of a row).
    nameless: BTreeSet<ObjectAddress>,
    /// Outputs of queries that are called after something in them.
    unnamed_outputs: BTreeSet<String>,
}

impl TrackedText {
    /// The text with these objects' names as `current` tells them; None: as they stand.
    pub fn with_names(&self, current: &dyn Fn(&NamedObject) -> Option<String>) -> String {
        let mut text = self.text.clone();
        for (at, length, named) in &self.names {
            if let Some(new) = current(named) {
                text.replace_range(*at..at + length, &new);
            }
        }
        text
    }

    /// Whether this column can get another name in the text. `name` is its present one.
    pub fn can_rename(&self, column: ObjectAddress, name: &str) -> bool {
        let is_named =
            |(_, _, named): &(_, _, NamedObject)| matches!(named, NamedObject::Column(c) if c.reference == column);
        let is_output = self.unnamed_outputs.contains(name) && self.names.iter().any(is_named);
        !self.nameless.contains(&column) && !is_output
    }

    /// The text with `prefix` before it.
    pub fn after(mut self, prefix: &str) -> TrackedText {
        self.text.insert_str(0, prefix);
        self.names.iter_mut().for_each(|(at, ..)| *at += prefix.len());
        self
    }

    /// The text without the bytes that were put before it to be parsed.
    fn stripped(mut self, prefix: usize) -> TrackedText {
        self.text.drain(..prefix);
        self.names.iter_mut().for_each(|(at, ..)| *at -= prefix);
        self
    }
}

/// The names that binding a text has found, as changes of the text that make it independent of the search path.
pub struct TextNames {
    text: Arc<str>,
    edits: RefCell<Vec<(usize, TextEdit)>>,
    /// Constants of types whose values are names: where, which type, which text.
    constants: RefCell<Vec<(i32, Oid, String)>>,
    references: RefCell<BTreeSet<ObjectAddress>>,
    /// Names that are full already.
    full: RefCell<Vec<(i32, NamedObject)>>,
    /// Constants with labels of enums in them: where, the type, the value.
    values: RefCell<Vec<(i32, Oid, Datum)>>,
    /// Where columns are named, and how; -1: nowhere.
    columns: RefCell<BTreeSet<(i32, ObjectAddress, String)>>,
    /// Where a column alone is what a query returns, without a name for it.
    bare_outputs: RefCell<BTreeSet<i32>>,
    /// What else queries return without a name for it is called so.
    unnamed_outputs: RefCell<BTreeSet<String>>,
}

/// The full name of what text names as a value of a reg… type.
pub type FullName<'f> = &'f dyn Fn(Oid, &str) -> Option<String>;

/// What columns an expression may name.
#[derive(Clone, Copy)]
pub enum VisibleColumns<'a> {
    Nothing,
    Table(&'a Arc<Table>),
    /// A default: a value of this type and modifier, which may name columns of the table (a generated column's).
    Default(Option<&'a Arc<Table>>, (Oid, i32)),
    /// OLD and NEW of a trigger's condition.
    Rows(&'a Table),
    /// VALUE, of this type.
    Domain(Oid),
}

impl TextNames {
    fn new(text: &str) -> TextNames {
        TextNames {
            text: Arc::from(text),
            edits: RefCell::default(),
            constants: RefCell::default(),
            references: RefCell::default(),
            full: RefCell::default(),
            values: RefCell::default(),
            columns: RefCell::default(),
            bare_outputs: RefCell::default(),
            unnamed_outputs: RefCell::default(),
        }
    }

    fn note(&self, loc: i32, edit: TextEdit) {
        if let Ok(at) = usize::try_from(loc)
            && self.text.is_char_boundary(at)
        {
            let mut edits = self.edits.borrow_mut();
            // Some nodes are bound twice.
            if !edits.iter().any(|(known, _)| *known == at) {
                edits.push((at, edit));
            }
        }
    }

    /// What full names there are, and names of columns. `read` reads constants of reg… types.
    fn tracked(self, read: &dyn Fn(Oid, &str) -> Option<Oid>) -> TrackedText {
        let text = self.text.to_string();
        let mut names: Vec<(usize, usize, NamedObject)> = Vec::new();
        let mut nameless = BTreeSet::new();
        for (loc, reference, name) in self.columns.take() {
            let at = usize::try_from(loc).ok();
            match at.and_then(|at| Some((at, last_part(text.get(at..)?)?))) {
                Some((at, (skipped, length, found))) if found == name => {
                    let is_output = self.bare_outputs.borrow().contains(&loc);
                    names.push((at + skipped, length, NamedObject::Column(ColumnName { reference, name, is_output })));
                }
                _ => _ = nameless.insert(reference),
            }
        }
        for (loc, named) in self.full.take() {
            let Ok(at) = usize::try_from(loc) else { continue };
            let Some(rest) = text.get(at..) else { continue };
            let length = match named {
                NamedObject::Operator(_) => rest.find(')').filter(|_| rest.starts_with("OPERATOR(")).map(|end| end + 1),
                _ => dotted_length(rest),
            };
            if let Some(length) = length {
                names.push((at, length, named));
            }
        }
        for (loc, ty, value) in self.constants.take() {
            let Ok(at) = usize::try_from(loc) else { continue };
            if let (Some(length), Some(oid)) =
                (text.get(at..).and_then(|rest| quoted_length(rest, b'\'')), read(ty, &value))
            {
                names.push((at, length, NamedObject::Constant(ty, oid)));
            }
        }
        for (loc, ty, value) in self.values.take() {
            let Ok(at) = usize::try_from(loc) else { continue };
            if let Some(length) = text.get(at..).and_then(literal_length) {
                names.push((at, length, NamedObject::Value(ty, value)));
            }
        }
        names.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        names.dedup_by_key(|(at, ..)| *at);
        TrackedText { text, names, nameless, unnamed_outputs: self.unnamed_outputs.take() }
    }

    /// The text with names in full.
    fn applied(self, full: FullName<'_>) -> String {
        for (loc, ty, text) in self.constants.take() {
            if let Some(shown) = full(ty, &text).filter(|shown| *shown != text) {
                self.note(loc, TextEdit::Constant(format!("'{}'", shown.replace('\'', "''"))));
            }
        }
        let mut edits = self.edits.into_inner();
        edits.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let mut text = self.text.to_string();
        for (at, edit) in edits {
            let rest = &text[at..];
            let (length, new) = match edit {
                TextEdit::Before(schema) => (0, format!("{schema}.")),
                TextEdit::Instead(length, new) => (length, new),
                TextEdit::Constant(new) => match quoted_length(rest, b'\'') {
                    Some(length) => (length, new),
                    None => continue,
                },
                TextEdit::Star(columns) => match rest.find('*') {
                    Some(star) => (star + 1, columns),
                    None => continue,
                },
            };
            if text.is_char_boundary(at + length) {
                text.replace_range(at..at + length, &new);
            }
        }
        text
    }
}

/// Bytes of the name of several parts that a text begins with; None: it begins with no such name.
fn dotted_length(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut parts = 0;
    loop {
        let rest = &text[at..];
        at += match rest.starts_with('"') {
            true => quoted_length(rest, b'"')?,
            false => rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len()),
        };
        parts += 1;
        match text[at..].strip_prefix('.') {
            Some(_) => at += 1,
            None => return (parts > 1).then_some(at),
        }
    }
}

/// Splits the name of one or more parts that a text begins with: the bytes before the last part, that part's bytes, and
/// what it names.
fn last_part(text: &str) -> Option<(usize, usize, String)> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let length = match rest.starts_with('"') {
            true => quoted_length(rest, b'"')?,
            false => rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len()),
        };
        if length == 0 {
            return None;
        }
        if rest[length..].starts_with('.') {
            at += length + 1;
            continue;
        }
        let part = &rest[..length];
        let name = match part.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
            Some(inner) => inner.replace("\"\"", "\""),
            None => part.to_lowercase(),
        };
        return Some((at, length, name));
    }
}

/// Bytes of what a text has between quotes at its beginning, which stand double within, with these; None: it does not
/// begin so.
fn quoted_length(text: &str, quote: u8) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().peekable();
    bytes.next_if(|(_, first)| *first == quote)?;
    loop {
        let (at, b) = bytes.next()?;
        if b == quote && bytes.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at + 1);
        }
    }
}

/// The length of a string constant: `'…'`, or `E'…'` with backslashes.
fn literal_length(text: &str) -> Option<usize> {
    let Some(escaped) = text.strip_prefix(['E', 'e']) else { return quoted_length(text, b'\'') };
    let mut bytes = escaped.bytes().enumerate().skip(1).peekable();
    loop {
        match bytes.next()? {
            (_, b'\\') => drop(bytes.next()),
            (at, b'\'') if bytes.next_if(|(_, next)| *next == b'\'').is_none() => return Some(at + 2),
            _ => {}
        }
    }
}

/// A type's values have labels of an enum in them, by themselves, in elements, fields or bounds.
pub fn has_labels(ty: Oid, catalog: &dyn CatalogView) -> bool {
    has_labels_within(ty, catalog, 0)
}

fn has_labels_within(ty: Oid, catalog: &dyn CatalogView, depth: usize) -> bool {
    // A type is made of types that were there before it: the limit only guards against damage.
    if ty < FIRST_USER_OID || depth > 64 {
        return false;
    }
    let Ok(Some(info)) = catalog.type_by_oid(ty) else { return false };
    let within = |ty: Oid| has_labels_within(ty, catalog, depth + 1);
    let fields = || catalog.table_by_oid(info.table_oid).ok().flatten();
    !info.labels.is_empty()
        || within(info.base_type)
        || within(info.element)
        || info.range.as_ref().is_some_and(|range| within(range.subtype))
        || info.table_oid != 0 && fields().is_some_and(|t| t.columns.iter().any(|c| !c.dropped && within(c.type_oid)))
}

impl Binder<'_> {
    /// Where names of the text that is being bound are noted, if they are wanted.
    pub(super) fn wanted_names(&self) -> Option<&TextNames> {
        self.names.filter(|names| Arc::ptr_eq(&self.source.borrow(), &names.text))
    }

    /// Where names are noted, and what the schema is called; None if its objects are noted without it.
    fn noted_schema(&self, schema: Oid) -> Option<(&TextNames, String)> {
        let names = self.wanted_names()?;
        // A name of the session's own schema means the same to whoever can use it.
        if schema == PG_CATALOG || kilndb_catalog::temporary::is_temporary(schema) {
            return None;
        }
        Some((names, quote(&self.catalog.schema_name_of(schema)?)))
    }

    fn note_name(&self, given: Option<&str>, schema: Oid, loc: i32, named: NamedObject) {
        let Some((names, schema)) = self.noted_schema(schema) else { return };
        match given {
            None => names.note(loc, TextEdit::Before(schema)),
            Some(_) => names.full.borrow_mut().push((loc, named)),
        }
    }

    /// `own_name`: columns are told by the relation's name.
    pub(super) fn note_table(&self, given: Option<&str>, table: &Table, own_name: bool, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_CLASS, table.oid));
        self.note_name(
            given,
            table.schema_oid,
            loc,
            NamedObject::Relation(table.oid, own_name.then(|| table.name.clone())),
        );
    }

    pub(super) fn note_reference(&self, reference: ObjectAddress) {
        if let Some(names) = self.wanted_names() {
            names.references.borrow_mut().insert(reference);
        }
    }

    pub(super) fn note_column_name(&self, reference: ObjectAddress, name: &str, loc: i32) {
        if let Some(names) = self.wanted_names() {
            names.columns.borrow_mut().insert((loc, reference, name.to_string()));
        }
    }

    /// A query returns this, and calls it so because nobody gives it a name.
    pub(super) fn note_unnamed_output(&self, node: Node<'_>, name: &str) {
        let Some(names) = self.wanted_names() else { return };
        match node {
            Node::ColumnRef(c) => _ = names.bare_outputs.borrow_mut().insert(c.location),
            _ => _ = names.unnamed_outputs.borrow_mut().insert(name.to_string()),
        }
    }

    pub(super) fn note_type(&self, given: Option<&str>, info: &TypeInfo, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_TYPE, info.oid));
        self.note_name(given, info.schema_oid, loc, NamedObject::Type(info.oid));
    }

    pub(super) fn note_function(&self, given: Option<&str>, info: &FunctionInfo, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_PROC, info.oid));
        self.note_name(given, info.schema_oid, loc, NamedObject::Function(info.oid));
    }

    pub(super) fn note_operator(&self, given: Option<&str>, info: &OperatorInfo, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_OPERATOR, info.oid));
        if given.is_some() {
            return self.note_name(given, info.schema_oid, loc, NamedObject::Operator(info.oid));
        }
        if let Some((names, schema)) = self.noted_schema(info.schema_oid)
            && usize::try_from(loc)
                .is_ok_and(|at| names.text.get(at..).is_some_and(|rest| rest.starts_with(&info.name)))
        {
            names.note(loc, TextEdit::Instead(info.name.len(), format!("OPERATOR({schema}.{})", info.name)));
        }
    }

    pub(super) fn note_literal(&self, ty: Oid, text: &str, loc: i32) {
        if matches!(
            ty,
            oids::REGCLASS | oids::REGTYPE | oids::REGPROC | oids::REGPROCEDURE | oids::REGCONFIG | oids::REGDICTIONARY
        ) && let Some(names) = self.wanted_names()
        {
            names.constants.borrow_mut().push((loc, ty, text.to_string()));
        }
    }

    /// A constant of a user's type, if it has labels of an enum in it: they may get other names.
    pub(super) fn note_value(&self, ty: Oid, text: &str, loc: i32) {
        let Some(names) = self.wanted_names().filter(|_| has_labels(ty, self.catalog)) else { return };
        // What cannot be read is an error, which whoever binds the constant tells.
        if let Ok(value) = with_context(self.catalog, |cx| io::input(ty, text, -1, cx)) {
            names.values.borrow_mut().push((loc, ty, value));
        }
    }

    /// The columns of `items` instead of a star.
    pub(super) fn note_star(&self, items: &[&NsItem], scope: &Scope<'_>, loc: i32) {
        let Some(names) = self.wanted_names() else { return };
        self.note_columns(items);
        let alone = scope.items.len() == 1;
        let mut columns = Vec::new();
        for item in items {
            for column in &item.columns {
                columns.push(match &item.alias {
                    _ if alone => quote(&column.name),
                    Some(alias) => format!("{}.{}", quote(alias), quote(&column.name)),
                    None => joined_column(column, scope),
                });
            }
        }
        if !columns.is_empty() {
            names.note(loc, TextEdit::Star(columns.join(", ")));
        }
    }
}

/// A column of a join without a name, as a query names it beside all others that it sees.
fn joined_column(column: &NsColumn, scope: &Scope<'_>) -> String {
    let name = quote(&column.name);
    if let Some((relation, owned)) = owner(&column.expr, scope) {
        let renamed = if owned == column.name { String::new() } else { format!(" AS {name}") };
        return format!("{}.{}{renamed}", quote(relation), quote(owned));
    }
    // What USING has merged has its name as long as nothing else has it.
    let seen = scope.items.iter().filter(|i| i.cols_visible).flat_map(|i| &i.columns);
    if seen.filter(|c| c.name == column.name).count() == 1 {
        return name;
    }
    match merged(&column.expr, scope) {
        Some(text) => format!("{text} AS {name}"),
        None => name,
    }
}

/// The relation that can be named of which `expr` is a column, and the column's name in it.
fn owner<'s>(expr: &Expr, scope: &'s Scope<'_>) -> Option<(&'s str, &'s str)> {
    scope.items.iter().filter(|i| i.rel_visible).find_map(|i| {
        let column = i.columns.iter().find(|c| super::same::same(&c.expr, expr))?;
        Some((i.alias.as_deref()?, column.name.as_str()))
    })
}

/// What USING has made of columns that can be named.
fn merged(expr: &Expr, scope: &Scope<'_>) -> Option<String> {
    if let Some((relation, column)) = owner(expr, scope) {
        return Some(format!("{}.{}", quote(relation), quote(column)));
    }
    match &expr.kind {
        ExprKind::Cast { arg, .. } => merged(arg, scope),
        ExprKind::Coalesce(list) => {
            let texts = list.iter().map(|e| merged(e, scope)).collect::<Option<Vec<_>>>()?;
            Some(format!("COALESCE({})", texts.join(", ")))
        }
        _ => None,
    }
}

/// The system table with the objects that values of a reg… type name.
fn class_of_constant(ty: Oid) -> Option<Oid> {
    match ty {
        oids::REGCLASS => Some(PG_CLASS),
        oids::REGTYPE => Some(PG_TYPE),
        oids::REGPROC | oids::REGPROCEDURE => Some(PG_PROC),
        oids::REGCONFIG => Some(PG_TS_CONFIG),
        oids::REGDICTIONARY => Some(PG_TS_DICT),
        _ => None,
    }
}

fn binder_with<'a>(catalog: &'a dyn CatalogView, names: &'a TextNames) -> Binder<'a> {
    Binder { names: Some(names), ..Binder::new(catalog, names.text.clone(), Vec::new()) }
}

/// Binds an expression's text, noting its names.
fn names_of_expression(sql: &str, over: VisibleColumns<'_>, catalog: &dyn CatalogView) -> Result<TextNames> {
    let names = TextNames::new(&format!("{SELECT}{sql}"));
    let script = kilndb_syntax::parse(&names.text)?;
    let statements = script.statements();
    let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else {
        return Err(Error::internal("expression text is not an expression"));
    };
    let Some(first) = select.target_list().first() else { return Err(Error::internal("expression text is empty")) };
    {
        let binder = binder_with(catalog, &names);
        match over {
            VisibleColumns::Nothing => super::bind_expression_node(&binder, first.val(), None, None)?.expr,
            VisibleColumns::Table(table) => super::bind_expression_node(&binder, first.val(), Some(table), None)?.expr,
            VisibleColumns::Default(table, target) => {
                super::bind_expression_node(&binder, first.val(), table, Some(target))?.expr
            }
            VisibleColumns::Rows(table) => binder.bind_when(first.val(), table, binder.new_rel(), binder.new_rel())?,
            VisibleColumns::Domain(base) => binder.bind_expr(first.val(), &super::domain::scope_of(base))?,
        };
    }
    Ok(names)
}

/// The names in a text of queries; with `variables` the text is a routine's body.
fn names_of_queries(sql: &str, catalog: &dyn CatalogView, variables: Option<&Variables<'_>>) -> Result<TextNames> {
    let names = TextNames::new(sql);
    let script = kilndb_syntax::parse(sql)?;
    for statement in script.statements() {
        let binder = Binder { variables, ..binder_with(catalog, &names) };
        binder.bind_statement(statement.node(), None)?;
    }
    Ok(names)
}

const SELECT: &str = "SELECT ";

/// An expression's text with all names in full.
pub fn qualified_expression(
    sql: &str,
    over: VisibleColumns<'_>,
    catalog: &dyn CatalogView,
    full: FullName<'_>,
) -> Result<String> {
    let text = names_of_expression(sql, over, catalog)?.applied(full);
    Ok(text.strip_prefix(SELECT).unwrap_or(&text).to_string())
}

/// The text of queries with all names in full, and columns for stars.
pub fn qualified_queries(
    sql: &str,
    catalog: &dyn CatalogView,
    variables: Option<&Variables<'_>>,
    full: FullName<'_>,
) -> Result<String> {
    Ok(names_of_queries(sql, catalog, variables)?.applied(full))
}

/// A kept text that has been bound, and with it what its names stand for.
pub struct BoundText {
    names: TextNames,
    /// What was put before the text to be parsed.
    prefix_bytes: usize,
}

impl BoundText {
    pub fn expression(sql: &str, over: VisibleColumns<'_>, catalog: &dyn CatalogView) -> Result<BoundText> {
        Ok(BoundText { names: names_of_expression(sql, over, catalog)?, prefix_bytes: SELECT.len() })
    }
    pub fn queries(sql: &str, catalog: &dyn CatalogView, variables: Option<&Variables<'_>>) -> Result<BoundText> {
        Ok(BoundText { names: names_of_queries(sql, catalog, variables)?, prefix_bytes: 0 })
    }
    pub fn references(&self) -> Vec<ObjectAddress> {
        self.names.references.borrow().iter().copied().collect()
    }
    /// The objects that the text refers to, with those that its constants of reg… types name as `read` reads them.
    pub fn references_with_constants(self, read: &dyn Fn(Oid, &str) -> Option<Oid>) -> BTreeSet<ObjectAddress> {
        let mut references = self.names.references.take();
        for (_, ty, text) in self.names.constants.take() {
            if let (Some(class), Some(oid)) = (class_of_constant(ty), read(ty, &text)) {
                references.insert(ObjectAddress::object(class, oid));
            }
        }
        references
    }
    pub fn refers_to(&self, reference: ObjectAddress) -> bool {
        self.names.references.borrow().contains(&reference)
    }
    /// What its full names stand for. `read` reads constants of reg… types.
    pub fn tracked(self, read: &dyn Fn(Oid, &str) -> Option<Oid>) -> TrackedText {
        self.names.tracked(read).stripped(self.prefix_bytes)
    }
}
