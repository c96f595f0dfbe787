//! A kept text and what its full names stand for, so that it can be written again when something in it has got another
//! name.
//!
//! Invariants
//! 1. What a name stands for was looked up when the text was bound, by the names of that time; the text is written by
//!    OID.

use super::object_address::ObjectAddress;
use kilndb_base::Oid;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_types::Datum;
use std::collections::BTreeSet;

/// What a full name in a text stands for.
#[derive(Clone, Debug)]
pub enum NamedObject {
    /// A relation; by which name columns of it are told, if it is its own.
    Relation(Oid, Option<String>),
    /// The table whose row the text is about, which no FROM list names.
    RowTable(Oid),
    Function(Oid),
    Type(Oid),
    Operator(Oid),
    Collation(Oid),
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
    /// It is told by a relation in FROM, whose alias may give the column another name.
    pub is_in_from: bool,
}

/// A relation in a FROM list of a text.
#[derive(Clone, Debug)]
pub(super) struct FromRelation {
    pub(super) oid: Oid,
    /// Where its name and its alias end; where the list of its columns ends that the alias has.
    pub(super) end: usize,
    /// The name that an alias is to have, if there is none.
    pub(super) own_name: Option<String>,
    /// How many columns the alias names.
    pub(super) listed: usize,
    /// The columns, with their numbers, as they are called when the text is bound.
    pub(super) columns: Vec<(i16, String)>,
}

impl FromRelation {
    /// What makes the columns be called in the text as they were. None: `renamed` is none of them.
    fn with_old_names(&self, renamed: &dyn Fn(ObjectAddress, &str) -> bool) -> Option<String> {
        let is_renamed = |(attnum, name): &(i16, String)| renamed(ObjectAddress::column(self.oid, *attnum), name);
        let last = self.columns.iter().rposition(is_renamed).filter(|last| *last >= self.listed)?;
        let names: Vec<String> = self.columns[self.listed..=last].iter().map(|(_, name)| quote(name)).collect();
        let names = names.join(", ");
        Some(match &self.own_name {
            _ if self.listed > 0 => format!(", {names}"),
            Some(own) => format!(" AS {}({names})", quote(own)),
            None => format!("({names})"),
        })
    }
}

/// A text and what its full names stand for, from the last one to the first.
pub struct TrackedText {
    pub(super) text: String,
    pub(super) names: Vec<(usize, usize, NamedObject)>,
    /// Columns that the text needs without a name of its own for them.
    pub(super) nameless: BTreeSet<ObjectAddress>,
    /// Columns by whose names relations are joined (USING, NATURAL).
    pub(super) joined: BTreeSet<(ObjectAddress, String)>,
    pub(super) from: Vec<FromRelation>,
    /// Relations that a statement in the text changes: there is no alias list for those.
    pub(super) written: BTreeSet<Oid>,
    /// Outputs of queries that are called after something in them.
    pub(super) unnamed_outputs: BTreeSet<String>,
}

impl TrackedText {
    /// The text with these objects' names as `current` tells them; None: as they stand. `in_from`: where FROM can give
    /// columns their old names, it does, also where nothing in the text asks for that.
    pub fn with_names(&self, current: &dyn Fn(&NamedObject) -> Option<String>, in_from: bool) -> String {
        let is_renamed = |reference: ObjectAddress, name: &str| {
            let column = ColumnName { reference, name: name.to_string(), is_output: false, is_in_from: false };
            current(&NamedObject::Column(column)).is_some()
        };
        // Joins by name go on comparing what they did: FROM gives the columns their old names.
        let joined = self.joined.iter().filter(|(column, name)| is_renamed(*column, name));
        let mut keeps: BTreeSet<Oid> = joined.map(|(column, _)| column.object).collect();
        if in_from {
            keeps.extend(self.from.iter().map(|from| from.oid).filter(|oid| !self.written.contains(oid)));
        }
        let mut edits: Vec<(usize, usize, String)> = Vec::new();
        for from in self.from.iter().filter(|from| keeps.contains(&from.oid)) {
            edits.extend(from.with_old_names(&is_renamed).map(|list| (from.end, 0, list)));
        }
        for (at, length, named) in &self.names {
            let keeps_name =
                matches!(named, NamedObject::Column(c) if c.is_in_from && keeps.contains(&c.reference.object));
            if let Some(new) = current(named).filter(|_| !keeps_name) {
                edits.push((*at, *length, new));
            }
        }
        edits.sort_by_key(|(at, ..)| std::cmp::Reverse(*at));
        let mut text = self.text.clone();
        for (at, length, new) in edits {
            text.replace_range(at..at + length, &new);
        }
        text
    }

    /// Whether this column can get another name in the text. `name` is its present one.
    pub fn can_rename(&self, column: ObjectAddress, name: &str) -> bool {
        let is_named =
            |(_, _, named): &(_, _, NamedObject)| matches!(named, NamedObject::Column(c) if c.reference == column);
        let is_output = self.unnamed_outputs.contains(name) && self.names.iter().any(is_named);
        let is_joined = self.joined.iter().any(|(joined, _)| *joined == column);
        let has_place =
            self.from.iter().any(|from| from.oid == column.object) && !self.written.contains(&column.object);
        !self.nameless.contains(&column) && !is_output && (!is_joined || has_place)
    }

    /// The text with `prefix` before it.
    pub fn after(mut self, prefix: &str) -> TrackedText {
        self.text.insert_str(0, prefix);
        self.names.iter_mut().for_each(|(at, ..)| *at += prefix.len());
        self.from.iter_mut().for_each(|from| from.end += prefix.len());
        self
    }

    /// The text without the bytes that were put before it to be parsed.
    pub(super) fn stripped(mut self, prefix: usize) -> TrackedText {
        self.text.drain(..prefix);
        self.names.iter_mut().for_each(|(at, ..)| *at -= prefix);
        self.from.iter_mut().for_each(|from| from.end -= prefix);
        self
    }
}
