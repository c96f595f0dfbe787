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
use super::text_scan::*;
use super::tracked_text::{ColumnName, FromRelation, NamedObject, TrackedText};
use super::variables::Variables;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::builtin::{FIRST_USER_OID, PG_CATALOG};
use kilndb_catalog::collation_read::CollationInfo;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::{PG_CLASS, PG_COLLATION, PG_OPERATOR, PG_PROC, PG_TS_CONFIG, PG_TS_DICT, PG_TYPE};
use kilndb_catalog::value_host::with_context;
use kilndb_catalog::{CatalogView, FunctionInfo, OperatorInfo, Table, TypeInfo};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, io, oids};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a place of the text becomes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TextEdit {
    /// `schema.` before the name.
    Before(String),
    /// A text that is put before what is there.
    Insert(String),
    /// So many bytes of the text are replaced by something else.
    Instead(usize, String),
    /// A constant with something else in its place.
    Constant(String),
    /// `*` or `table.*`: the columns that it stood for.
    Star(String),
}

/// The names that binding a text has found, as changes of the text that make it independent of the search path.
pub struct TextNames {
    text: Arc<str>,
    edits: RefCell<Vec<(usize, TextEdit)>>,
    /// Constants whose text is read under the session's search path or settings, and where they stand.
    constants: RefCell<Vec<(i32, TextConstant)>>,
    references: RefCell<BTreeSet<ObjectAddress>>,
    /// Names that are full already.
    full: RefCell<Vec<(i32, NamedObject)>>,
    /// Constants with labels of enums in them: where, the type, the value.
    values: RefCell<Vec<(i32, Oid, Datum)>>,
    /// Where columns are named, how, and whether a relation in FROM tells them; -1: nowhere.
    columns: RefCell<BTreeSet<(i32, ObjectAddress, String, bool)>>,
    joined: RefCell<BTreeSet<(ObjectAddress, String)>>,
    /// The text is one of queries, not of an expression.
    is_query: bool,
    /// Fields, for whose names the grammar has no place of their own: where what has the field stands, and which it is.
    fields: RefCell<BTreeSet<(i32, ObjectAddress, String)>>,
    from: RefCell<Vec<FromRelation>>,
    written: RefCell<BTreeSet<Oid>>,
    /// Where a column alone is what a query returns, without a name for it.
    bare_outputs: RefCell<BTreeSet<i32>>,
    /// What else queries return without a name for it is called so.
    unnamed_outputs: RefCell<BTreeSet<String>>,
    /// The relation whose row the text is about, if its name may stand before columns, and its table.
    row_table: Cell<Option<(u32, Oid)>>,
}

/// A constant of a text, as it is written there.
#[derive(Clone, Debug)]
pub struct TextConstant {
    pub ty: Oid,
    pub typmod: i32,
    pub text: String,
}

/// A constant's text that says the same under every search path and every setting; None: its text does. Err: the text
/// is none of the type's.
pub type LastingText<'f> = &'f dyn Fn(&TextConstant) -> Result<Option<String>>;

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
    /// The row that a policy's condition is about.
    Policy(&'a Table),
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
            joined: RefCell::default(),
            is_query: false,
            fields: RefCell::default(),
            from: RefCell::default(),
            written: RefCell::default(),
            bare_outputs: RefCell::default(),
            unnamed_outputs: RefCell::default(),
            row_table: Cell::default(),
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

    /// What a column is replaced by, where it is what a query returns, goes on being called so.
    fn keep_output_name(&self, loc: i32, name: &str) {
        let name = quote(name);
        for (at, edit) in self.edits.borrow_mut().iter_mut() {
            if let TextEdit::Instead(_, text) = edit
                && i32::try_from(*at) == Ok(loc)
                && !text.ends_with(&format!(".{name}"))
                && !text.ends_with(&format!(" AS {name}"))
            {
                *text = format!("{text} AS {name}");
            }
        }
    }

    /// Where a relation of a FROM list and its alias end; before the parenthesis that closes the alias's columns, if it
    /// has any.
    fn end_in_from(&self, v: &nodes::RangeVar) -> Option<usize> {
        let at = usize::try_from(v.location).ok()?;
        let rest = self.text.get(at..)?;
        let end = at + dotted_length(rest).or_else(|| last_part(rest).map(|(_, length, _)| length))?;
        let Some(alias) = v.alias() else { return Some(end) };
        let end = alias_end(&self.text, end, alias.aliasname().unwrap_or(""))?;
        if alias.colnames().is_empty() { Some(end) } else { closing_parenthesis(&self.text, end) }
    }

    /// What full names there are, and names of columns. `read` reads constants of reg… types.
    fn tracked(self, read: &dyn Fn(Oid, &str) -> Option<Oid>) -> TrackedText {
        let text = self.text.to_string();
        let mut names: Vec<(usize, usize, NamedObject)> = Vec::new();
        let mut nameless = BTreeSet::new();
        for (loc, reference, name, is_in_from) in self.columns.take() {
            let at = usize::try_from(loc).ok();
            match at.and_then(|at| Some((at, last_part(text.get(at..)?)?))) {
                Some((at, (skipped, length, found))) if found == name => {
                    let is_output = self.bare_outputs.borrow().contains(&loc);
                    let column = ColumnName { reference, name, is_output, is_in_from };
                    names.push((at + skipped, length, NamedObject::Column(column)));
                }
                _ => _ = nameless.insert(reference),
            }
        }
        self.place_fields(&mut names, &mut nameless);
        for (loc, named) in self.full.take() {
            let Ok(at) = usize::try_from(loc) else { continue };
            let Some(rest) = text.get(at..) else { continue };
            let length = match named {
                NamedObject::Operator(_) => rest.find(')').filter(|_| rest.starts_with("OPERATOR(")).map(|end| end + 1),
                NamedObject::RowTable(_) => first_part_length(rest),
                _ => dotted_length(rest),
            };
            if let Some(length) = length {
                names.push((at, length, named));
            }
        }
        for (loc, TextConstant { ty, text: value, .. }) in self.constants.take() {
            let Ok(at) = usize::try_from(loc) else { continue };
            let length = text.get(at..).and_then(literal_length).filter(|_| class_of_constant(ty).is_some());
            if let (Some(length), Some(oid)) = (length, read(ty, &value)) {
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
        TrackedText {
            text,
            names,
            nameless,
            joined: self.joined.take(),
            from: self.from.take(),
            written: self.written.take(),
            unnamed_outputs: self.unnamed_outputs.take(),
        }
    }

    /// Fields have a place if every field of that name in the text is one of the same column.
    fn place_fields(&self, names: &mut Vec<(usize, usize, NamedObject)>, nameless: &mut BTreeSet<ObjectAddress>) {
        let fields = self.fields.take();
        for (_, reference, name) in &fields {
            let alike = fields.iter().filter(|(_, other, alike)| other == reference && alike == name).count();
            let places = fields_named(&self.text, name);
            if places.len() != alike {
                nameless.insert(*reference);
                continue;
            }
            names.extend(places.into_iter().map(|(at, length)| {
                let (reference, name) = (*reference, name.clone());
                (at, length, NamedObject::Column(ColumnName { reference, name, is_output: false, is_in_from: false }))
            }));
        }
    }

    /// The text with names in full.
    fn applied(self, lasting: LastingText<'_>) -> Result<String> {
        for (loc, constant) in self.constants.take() {
            if let Some(shown) = lasting(&constant)?.filter(|shown| *shown != constant.text) {
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
                TextEdit::Insert(text) => (0, text),
                TextEdit::Instead(length, new) => (length, new),
                TextEdit::Constant(new) => match literal_length(rest) {
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
        Ok(text)
    }
}

/// A type's values have labels of an enum in them, by themselves, in elements, fields or bounds.
pub fn has_labels(ty: Oid, catalog: &dyn CatalogView) -> bool {
    ty >= FIRST_USER_OID && is_made_of(ty, &|info| !info.labels.is_empty(), catalog, 0)
}

/// A type's values have dates or times in them, which are read and shown as the session's settings say.
pub fn has_times(ty: Oid, catalog: &dyn CatalogView) -> bool {
    let is_time = |info: &TypeInfo| {
        matches!(
            info.oid,
            oids::DATE | oids::TIME | oids::TIMETZ | oids::TIMESTAMP | oids::TIMESTAMPTZ | oids::INTERVAL
        )
    };
    is_made_of(ty, &is_time, catalog, 0)
}

/// Whether a type is one of `those`, or one of its elements, fields or bounds is.
fn is_made_of(ty: Oid, those: &dyn Fn(&TypeInfo) -> bool, catalog: &dyn CatalogView, depth: usize) -> bool {
    // A type is made of types that were there before it: the limit only guards against damage.
    if ty == 0 || depth > 64 {
        return false;
    }
    let Ok(Some(info)) = catalog.type_by_oid(ty) else { return false };
    let within = |ty: Oid| is_made_of(ty, those, catalog, depth + 1);
    let fields = || catalog.table_by_oid(info.table_oid).ok().flatten();
    those(&info)
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

    /// What stands at `loc` begins with a relation's name; if it is that of the text's own row, it follows the table's.
    /// `is_whole`: nothing of the relation stands behind it.
    pub(super) fn note_row_table(&self, item: &NsItem, is_whole: bool, loc: i32) {
        let Some(names) = self.wanted_names() else { return };
        let Some((_, table)) = names.row_table.get().filter(|(rel, _)| *rel == item.rel) else { return };
        let Some(rest) = usize::try_from(loc).ok().and_then(|at| names.text.get(at..)) else { return };
        // With its schema before it the name stays as it is.
        let Some((skipped, ..)) = last_part(rest) else { return };
        let qualifiers = if is_whole { 0 } else { first_part_length(rest).map_or(0, |length| length + 1) };
        if skipped == qualifiers {
            names.full.borrow_mut().push((loc, NamedObject::RowTable(table)));
        }
    }

    /// A column of the text's own row has a schema and a relation before it, of which the relation alone tells it.
    pub(super) fn note_row_schema(&self, item: &NsItem, loc: i32) {
        let Some(names) = self.wanted_names() else { return };
        let is_own = names.row_table.get().is_some_and(|(rel, _)| rel == item.rel);
        let rest = usize::try_from(loc).ok().and_then(|at| names.text.get(at..)).filter(|_| is_own);
        if let Some(length) = rest.and_then(first_part_length) {
            names.note(loc, TextEdit::Instead(length + 1, String::new()));
        }
    }

    pub(super) fn note_reference(&self, reference: ObjectAddress) {
        if let Some(names) = self.wanted_names() {
            names.references.borrow_mut().insert(reference);
        }
    }

    pub(super) fn note_column_name(&self, reference: ObjectAddress, name: &str, loc: i32, is_in_from: bool) {
        if let Some(names) = self.wanted_names() {
            names.columns.borrow_mut().insert((loc, reference, name.to_string(), is_in_from));
        }
    }

    /// Relations are joined by the column's name.
    pub(super) fn note_joined_column(&self, column: &NsColumn) {
        if let Some(names) = self.wanted_names()
            && column.table_oid != 0
            && column.attnum > 0
        {
            let reference = ObjectAddress::column(column.table_oid, column.attnum);
            self.note_reference(reference);
            if !column.is_named_here {
                names.joined.borrow_mut().insert((reference, column.name.clone()));
            }
        }
    }

    /// `loc`: where what has the field stands, which tells fields apart.
    pub(super) fn note_field_name(&self, reference: ObjectAddress, name: &str, loc: i32) {
        if let Some(names) = self.wanted_names() {
            self.note_reference(reference);
            names.fields.borrow_mut().insert((loc, reference, name.to_string()));
        }
    }

    /// A statement of the text changes the relation.
    pub(super) fn note_written(&self, table: &Table) {
        if let Some(names) = self.wanted_names() {
            names.written.borrow_mut().insert(table.oid);
        }
    }

    /// Where the elements of a list in parentheses begin, if somebody wants to know where names stand.
    pub(super) fn list_places(&self, loc: i32) -> Vec<usize> {
        let names = self.wanted_names();
        names.zip(usize::try_from(loc).ok()).map_or_else(Vec::new, |(names, at)| list_elements(&names.text, at))
    }

    /// A column's name without a relation's: it gets one, as in PostgreSQL where a query has several relations or stands
    /// within another, so that columns which relations get later do not make it mean something else. `scopes`: where the
    /// name stands, and where it has been found.
    pub(super) fn note_unqualified(
        &self,
        column: &NsColumn,
        item: &NsItem,
        (inner, outer): (&Scope<'_>, &Scope<'_>),
        loc: i32,
    ) {
        let Some(names) = self.wanted_names().filter(|names| names.is_query) else { return };
        let is_alone = outer.items.iter().filter(|i| i.cols_visible).count() == 1 && outer.parent.is_none();
        if is_alone && std::ptr::eq(inner, outer) {
            return;
        }
        let Some((at, length)) = usize::try_from(loc).ok().and_then(|at| {
            let (skipped, length, found) = last_part(names.text.get(at..)?)?;
            (skipped == 0 && found == column.name).then_some((at, length))
        }) else {
            return;
        };
        let (qualified, relations) = match &item.alias {
            Some(alias) if item.rel_visible => {
                (format!("{}.{}", quote(alias), quote(&column.name)), vec![alias.as_str()])
            }
            Some(_) => return,
            None => match merged(&column.expr, outer) {
                Some(found) => found,
                None => return,
            },
        };
        if outer.is_told_by(&relations, inner) {
            names.note(at as i32, TextEdit::Instead(length, qualified));
        }
    }

    /// An argument of a routine, by name. It is told by number where a relation may get a column of that name later.
    pub(super) fn note_argument(&self, number: u32, name: &str, scope: &Scope<'_>, loc: i32) {
        let Some(names) = self.wanted_names().filter(|names| names.is_query && scope.has_relations()) else { return };
        if let Some(at) = usize::try_from(loc).ok()
            && let Some((0, length, found)) = names.text.get(at..).and_then(last_part)
            && found == name
        {
            names.note(at as i32, TextEdit::Instead(length, format!("${}", number + 1)));
        }
    }

    /// A relation in FROM.
    pub(super) fn note_from(&self, v: &nodes::RangeVar, table: &Table) {
        let Some(names) = self.wanted_names() else { return };
        let Some(end) = names.end_in_from(v) else { return };
        let listed = v.alias().map_or(0, |alias| alias.colnames().len());
        let columns = table.columns.iter().filter(|c| !c.dropped).map(|c| (c.attnum, c.name.clone())).collect();
        let own_name = v.alias().is_none().then(|| table.name.clone());
        let mut from = names.from.borrow_mut();
        // Some nodes are bound twice.
        if !from.iter().any(|known| known.end == end) {
            from.push(FromRelation { oid: table.oid, end, own_name, listed, columns });
        }
    }

    /// NATURAL before a relation of a kept query: the columns that it joins by are told, as in PostgreSQL, so that
    /// columns which relations get later are not joined by too.
    pub(super) fn note_natural(&self, right: Node<'_>, columns: &[String]) {
        let (Some(names), Node::RangeVar(right)) = (self.wanted_names().filter(|names| names.is_query), right) else {
            return;
        };
        let place = usize::try_from(right.location).ok().and_then(|at| natural_before(&names.text, at));
        let (Some((at, length)), Some(end)) = (place, names.end_in_from(right)) else { return };
        let listed = right.alias().map_or(0, |alias| alias.colnames().len());
        let end = if listed > 0 { end + 1 } else { end };
        let columns: Vec<String> = columns.iter().map(|column| quote(column)).collect();
        let condition = match columns.is_empty() {
            true => " ON true".to_string(),
            false => format!(" USING ({})", columns.join(", ")),
        };
        names.note(at as i32, TextEdit::Instead(length, String::new()));
        names.note(end as i32, TextEdit::Insert(condition));
    }

    /// A query returns this, and calls it so because nobody gives it a name.
    pub(super) fn note_unnamed_output(&self, node: Node<'_>, name: &str, loc: i32) {
        let Some(names) = self.wanted_names() else { return };
        match node {
            Node::ColumnRef(c) => {
                names.bare_outputs.borrow_mut().insert(c.location);
                names.keep_output_name(c.location, name);
            }
            _ if name == "?column?" => {}
            _ => {
                names.unnamed_outputs.borrow_mut().insert(name.to_string());
                if let Ok(at) = usize::try_from(loc) {
                    let end = output_end(&names.text, at);
                    names.note(end as i32, TextEdit::Insert(format!(" AS {}", quote(name))));
                }
            }
        }
    }

    pub(super) fn note_type(&self, given: Option<&str>, info: &TypeInfo, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_TYPE, info.oid));
        self.note_name(given, info.schema_oid, loc, NamedObject::Type(info.oid));
    }

    /// `loc`: where COLLATE stands, before the name.
    pub(super) fn note_collation(&self, given: Option<&str>, info: &CollationInfo, loc: i32) {
        self.note_reference(ObjectAddress::object(PG_COLLATION, info.oid));
        let Some(names) = self.wanted_names() else { return };
        let Some(rest) = usize::try_from(loc).ok().and_then(|at| names.text.get(at..)) else { return };
        let Some(keyword) = rest.get(..7).filter(|word| word.eq_ignore_ascii_case("collate")) else { return };
        let blanks = rest[keyword.len()..].len() - rest[keyword.len()..].trim_start().len();
        let at = loc + (keyword.len() + blanks) as i32;
        self.note_name(given, info.schema_oid, at, NamedObject::Collation(info.oid));
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

    pub(super) fn note_literal(&self, (ty, typmod): (Oid, i32), text: &str, loc: i32) {
        if let Some(names) = self.wanted_names()
            && (class_of_constant(ty).is_some() || has_times(ty, self.catalog))
        {
            names.constants.borrow_mut().push((loc, TextConstant { ty, typmod, text: text.to_string() }));
        }
    }

    /// A constant of a user's type, if it has labels of an enum in it: they may get other names. 22P02 if it is no value of
    /// the type, as a row with another number of fields: nobody could use the definition.
    pub(super) fn note_value(&self, ty: Oid, text: &str, loc: i32) -> Result<()> {
        let Some(names) = self.wanted_names().filter(|_| ty >= FIRST_USER_OID) else { return Ok(()) };
        match with_context(self.catalog, |cx| io::input(ty, text, -1, cx)) {
            Ok(value) if has_labels(ty, self.catalog) => names.values.borrow_mut().push((loc, ty, value)),
            Err(e) if e.sqlstate() == sqlstate::INVALID_TEXT_REPRESENTATION => return Err(self.at(e, loc)),
            // Settings may decide how a constant is read: whoever uses it is told of other errors.
            Ok(_) | Err(_) => {}
        }
        Ok(())
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
        Some((text, _)) => format!("{text} AS {name}"),
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

/// What USING has made of columns that can be named, and the relations that name them.
fn merged<'s>(expr: &Expr, scope: &'s Scope<'_>) -> Option<(String, Vec<&'s str>)> {
    if let Some((relation, column)) = owner(expr, scope) {
        return Some((format!("{}.{}", quote(relation), quote(column)), vec![relation]));
    }
    match &expr.kind {
        ExprKind::Cast { arg, .. } => merged(arg, scope),
        ExprKind::Coalesce(list) => {
            let parts = list.iter().map(|e| merged(e, scope)).collect::<Option<Vec<_>>>()?;
            let (texts, relations): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            Some((format!("COALESCE({})", texts.join(", ")), relations.concat()))
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
    let is_query = matches!(over, VisibleColumns::Policy(_));
    let names = TextNames { is_query, ..TextNames::new(&format!("{SELECT}{sql}")) };
    let script = kilndb_syntax::parse(&names.text)?;
    let statements = script.statements();
    let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else {
        return Err(Error::internal("expression text is not an expression"));
    };
    let Some(first) = select.target_list().first() else { return Err(Error::internal("expression text is empty")) };
    {
        let binder = Binder { allow_params: !is_query, ..binder_with(catalog, &names) };
        match over {
            VisibleColumns::Nothing => super::bind_expression_node(&binder, first.val(), None, None)?.expr,
            VisibleColumns::Table(table) => super::bind_expression_node(&binder, first.val(), Some(table), None)?.expr,
            VisibleColumns::Default(table, target) => {
                super::bind_expression_node(&binder, first.val(), table, Some(target))?.expr
            }
            VisibleColumns::Rows(table) => binder.bind_when(first.val(), table, binder.new_rel(), binder.new_rel())?,
            VisibleColumns::Domain(base) => binder.bind_expr(first.val(), &super::domain::scope_of(base))?,
            VisibleColumns::Policy(table) => {
                let rel = binder.new_rel();
                names.row_table.set(Some((rel, table.oid)));
                binder.bind_policy_condition(first.val(), table, rel)?
            }
        };
    }
    Ok(names)
}

/// The names in a text of queries; with `variables` the text is a routine's body.
fn names_of_queries(sql: &str, catalog: &dyn CatalogView, variables: Option<&Variables<'_>>) -> Result<TextNames> {
    let names = TextNames { is_query: true, ..TextNames::new(sql) };
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
    lasting: LastingText<'_>,
) -> Result<String> {
    let text = names_of_expression(sql, over, catalog)?.applied(lasting)?;
    Ok(text.strip_prefix(SELECT).unwrap_or(&text).to_string())
}

/// The text of queries with all names in full, and columns for stars.
pub fn qualified_queries(
    sql: &str,
    catalog: &dyn CatalogView,
    variables: Option<&Variables<'_>>,
    lasting: LastingText<'_>,
) -> Result<String> {
    names_of_queries(sql, catalog, variables)?.applied(lasting)
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
        for (_, TextConstant { ty, text, .. }) in self.names.constants.take() {
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
