//! What an object needs, as its rows in the system tables say it: the rows that pg_depend has for it.
//!
//! Invariants
//! 1. The answer follows from the object's own rows alone: whoever asks twice gets the same, so that a check can compare.
//! 2. Texts are bound; nothing is read out of their words.
//! 3. What is part of the system for good (PostgreSQL calls it pinned) is never named.
//!
//! Must not know: how the rows are written, and what is done with them.

use super::{Dependency, is_pinned};
use crate::host::StatementHost;
use crate::renaming::bound_parts;
use kilndb_base::hash::HashMap;
use kilndb_base::{Oid, Result};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::trigger::is_of_key;
use kilndb_types::Datum;
use kilndb_types::context::ObjectNames;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The letters of pg_depend.deptype (PostgreSQL 18, section 52.18).
pub(crate) const NORMAL: u8 = b'n';
pub(crate) const AUTO: u8 = b'a';
pub(crate) const INTERNAL: u8 = b'i';
pub(crate) const EXTENSION: u8 = b'e';
pub(crate) const PARTITION_PRIMARY: u8 = b'P';
pub(crate) const PARTITION_SECONDARY: u8 = b'S';

/// The rows of pg_depend that an object has by its definition; None: there is no such object (any more).
pub(crate) fn dependencies_of<'h, 's>(
    read: &'h RowsRead<'h, 's>,
    class: Oid,
    object: Oid,
) -> Result<Option<BTreeSet<Dependency>>> {
    // Definitions may name what whoever changes something below them may not look for.
    let before = kilndb_catalog::CatalogView::trust_names(&read.host.reader, true);
    let found = derived(read, class, object);
    kilndb_catalog::CatalogView::trust_names(&read.host.reader, before);
    found
}

fn derived<'h, 's>(read: &'h RowsRead<'h, 's>, class: Oid, object: Oid) -> Result<Option<BTreeSet<Dependency>>> {
    let own = ObjectAddress::object(class, object);
    let mut derivation = Derivation { host: read.host, read, own, rows: BTreeSet::new() };
    let (index, find): (Oid, fn(&mut Derivation<'h, 's>, &CatalogRow) -> Result<()>) = match class {
        PG_CLASS => (PG_CLASS_OID_INDEX, Derivation::relation),
        PG_TYPE => (PG_TYPE_OID_INDEX, Derivation::data_type),
        PG_CONSTRAINT => (PG_CONSTRAINT_OID_INDEX, Derivation::constraint),
        PG_ATTRDEF => (PG_ATTRDEF_OID_INDEX, Derivation::default_value),
        PG_REWRITE => (PG_REWRITE_OID_INDEX, Derivation::rule),
        PG_TRIGGER => (PG_TRIGGER_OID_INDEX, Derivation::trigger),
        PG_POLICY => (PG_POLICY_OID_INDEX, Derivation::policy),
        PG_PROC => (PG_PROC_OID_INDEX, Derivation::routine),
        PG_OPCLASS => (PG_OPCLASS_OID_INDEX, Derivation::operator_class),
        PG_OPFAMILY => (PG_OPFAMILY_OID_INDEX, Derivation::operator_family),
        PG_EXTENSION => (PG_EXTENSION_OID_INDEX, Derivation::extension),
        PG_COLLATION => (PG_COLLATION_OID_INDEX, Derivation::collation),
        PG_STATISTIC_EXT => (PG_STATISTIC_EXT_OID_INDEX, Derivation::statistics_object),
        PG_TS_CONFIG => (PG_TS_CONFIG_OID_INDEX, Derivation::configuration),
        PG_TS_DICT => (PG_TS_DICT_OID_INDEX, Derivation::dictionary),
        PG_TS_PARSER => (PG_TS_PARSER_OID_INDEX, Derivation::parser),
        PG_TS_TEMPLATE => (PG_TS_TEMPLATE_OID_INDEX, Derivation::template),
        _ => return Ok(None),
    };
    let rows = read.by(class, index, object)?;
    let Some(row) = rows.first() else { return Ok(None) };
    find(&mut derivation, row)?;
    Ok(Some(derivation.rows))
}

/// Rows of system tables that have been read while nothing is written: objects that a command defines together ask for
/// the same ones.
pub(crate) struct RowsRead<'h, 's> {
    pub host: &'h StatementHost<'s>,
    /// By system table, index and key.
    known: RefCell<HashMap<(Oid, Oid, Oid), Rc<[CatalogRow]>>>,
}

impl<'h, 's> RowsRead<'h, 's> {
    pub fn new(host: &'h StatementHost<'s>) -> RowsRead<'h, 's> {
        RowsRead { host, known: RefCell::default() }
    }
    pub fn by(&self, table: Oid, index: Oid, key: Oid) -> Result<Rc<[CatalogRow]>> {
        // No object has this number.
        if key == 0 {
            return Ok(Rc::from([]));
        }
        if let Some(known) = self.known.borrow().get(&(table, index, key)) {
            return Ok(known.clone());
        }
        let rows: Rc<[CatalogRow]> = self.host.reader.lookup(table, index, &[Datum::Oid(key)])?.into();
        self.known.borrow_mut().insert((table, index, key), rows.clone());
        Ok(rows)
    }
    /// The letter of pg_class.relkind; None: there is no such relation.
    pub fn relation_kind(&self, relation: Oid) -> Result<Option<u8>> {
        Ok(self.by(PG_CLASS, PG_CLASS_OID_INDEX, relation)?.first().map(|row| row.char("relkind")))
    }
}

struct Derivation<'h, 's> {
    host: &'h StatementHost<'s>,
    read: &'h RowsRead<'h, 's>,
    own: ObjectAddress,
    rows: BTreeSet<Dependency>,
}

impl Derivation<'_, '_> {
    fn needs(&mut self, referenced: ObjectAddress, kind: u8) {
        self.part_needs(0, referenced, kind);
    }

    fn part_needs(&mut self, column: i16, referenced: ObjectAddress, kind: u8) {
        if referenced.object != 0 && !is_pinned(referenced) && referenced != self.own {
            self.rows.insert(Dependency { dependent: ObjectAddress { column, ..self.own }, referenced, kind });
        }
    }

    fn needs_object(&mut self, class: Oid, object: Oid, kind: u8) {
        self.needs(ObjectAddress::object(class, object), kind);
    }

    fn rows_by(&self, table: Oid, index: Oid, key: Oid) -> Result<Rc<[CatalogRow]>> {
        self.read.by(table, index, key)
    }

    /// The objects that texts of a row name, by binding: with letter `own` those of the table `of`, else with `others`.
    fn needs_named(
        &mut self,
        row: &CatalogRow,
        texts: &[&'static str],
        (of, own): (Oid, u8),
        others: u8,
    ) -> Result<()> {
        let mut named = BTreeSet::new();
        for column in texts {
            let Some(text) = row.text(column).filter(|text| !text.is_empty()) else { continue };
            for (_, part) in bound_parts(self.host, row.table().oid, row, column, text)? {
                named.extend(part.references_with_constants(&|kind, text| self.host.reg_input(kind, text).ok()));
            }
        }
        // A table of which columns are named is not named as a whole too.
        let whole: Vec<ObjectAddress> = named
            .iter()
            .filter(|r| {
                r.column == 0 && named.iter().any(|other| ObjectAddress { column: 0, ..*other } == **r && other != *r)
            })
            .copied()
            .collect();
        named.retain(|r| !whole.contains(r));
        for referenced in named {
            let is_own = referenced.class == PG_CLASS && referenced.object == of;
            self.needs(referenced, if is_own { own } else { others });
        }
        Ok(())
    }

    /// The parent in pg_inherits.
    fn parent_of(&self, relation: Oid) -> Result<Oid> {
        let rows = self.rows_by(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, relation)?;
        Ok(rows.first().map_or(0, |r| r.oid("inhparent")))
    }

    fn relation(&mut self, row: &CatalogRow) -> Result<()> {
        let relation = row.oid("oid");
        match row.char("relkind") {
            b'i' | b'I' => return self.index(row),
            b'c' => self.needs_object(PG_TYPE, row.oid("reltype"), INTERNAL),
            _ => self.needs_object(PG_NAMESPACE, row.oid("relnamespace"), NORMAL),
        }
        if row.bool("relispartition") {
            self.needs_object(PG_CLASS, self.parent_of(relation)?, AUTO);
        }
        for column in self.rows_by(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, relation)?.iter() {
            if !column.bool("attisdropped") {
                let attnum = column.int("attnum") as i16;
                self.part_needs(attnum, ObjectAddress::object(PG_TYPE, column.oid("atttypid")), NORMAL);
                self.part_needs(attnum, ObjectAddress::object(PG_COLLATION, column.oid("attcollation")), NORMAL);
            }
        }
        match self.rows_by(PG_PARTITIONED_TABLE, PG_PARTITIONED_TABLE_PARTRELID_INDEX, relation)?.first() {
            Some(key) => self.partition_key(key),
            None => Ok(()),
        }
    }

    /// A partitioned table cannot be without the columns of its key: they are part of it.
    fn partition_key(&mut self, row: &CatalogRow) -> Result<()> {
        let relation = row.oid("partrelid");
        for class in row.numbers("partclass") {
            self.needs_object(PG_OPCLASS, class as Oid, NORMAL);
        }
        self.needs_named(row, &["partexprs"], (relation, INTERNAL), NORMAL)?;
        let named: Vec<Dependency> =
            self.rows.iter().filter(|d| d.referenced.object == relation && d.kind == INTERNAL).copied().collect();
        let mut columns: BTreeSet<i16> = named.iter().map(|d| d.referenced.column).collect();
        self.rows.retain(|d| !named.contains(d));
        columns.extend(row.numbers("partattrs").into_iter().map(|n| n as i16));
        for column in columns.into_iter().filter(|n| *n > 0) {
            self.rows.insert(Dependency {
                dependent: ObjectAddress::column(relation, column),
                referenced: self.own,
                kind: INTERNAL,
            });
        }
        Ok(())
    }

    fn index(&mut self, class_row: &CatalogRow) -> Result<()> {
        let index = class_row.oid("oid");
        let rows = self.rows_by(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, index)?;
        let Some(row) = rows.first() else { return Ok(()) };
        let table = row.oid("indrelid");
        let constraints = self.rows_by(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, table)?;
        match constraints.iter().find(|c| c.oid("conindid") == index && c.char("contype") != b'f') {
            Some(constraint) => self.needs_object(PG_CONSTRAINT, constraint.oid("oid"), INTERNAL),
            None => self.needs_columns(table, &row.numbers("indkey"), AUTO),
        }
        if class_row.bool("relispartition") {
            self.needs_object(PG_CLASS, self.parent_of(index)?, PARTITION_PRIMARY);
            self.needs_object(PG_CLASS, table, PARTITION_SECONDARY);
        }
        for (column, class) in [("indclass", PG_OPCLASS), ("indcollation", PG_COLLATION)] {
            for needed in row.numbers(column) {
                self.needs_object(class, needed as Oid, NORMAL);
            }
        }
        self.needs_named(row, &["indexprs", "indpred"], (table, AUTO), NORMAL)
    }

    /// The table's columns of these numbers; the whole table if there is none.
    fn needs_columns(&mut self, table: Oid, columns: &[i64], kind: u8) {
        let mut is_whole = true;
        for column in columns.iter().filter(|n| **n > 0) {
            is_whole = false;
            self.needs(ObjectAddress::column(table, *column as i16), kind);
        }
        if is_whole {
            self.needs_object(PG_CLASS, table, kind);
        }
    }

    fn constraint(&mut self, row: &CatalogRow) -> Result<()> {
        let table = row.oid("conrelid");
        self.needs_named(row, &["conbin"], (table, NORMAL), NORMAL)?;
        match (table, row.char("contype")) {
            (0, _) => self.needs_object(PG_TYPE, row.oid("contypid"), AUTO),
            // Rows of earlier builds do not say which columns a check names.
            (table, b'c') => {
                let of_table = self.rows.iter().filter(|d| d.referenced.object == table);
                let named: Vec<i64> = of_table.map(|d| i64::from(d.referenced.column)).collect();
                self.needs_columns(table, &named, AUTO);
            }
            (table, b'p' | b'u') => {
                // Those that the index includes count as well.
                let indexes = self.rows_by(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, row.oid("conindid"))?;
                self.needs_columns(table, &row.numbers("conkey"), AUTO);
                for index in indexes.iter() {
                    self.needs_columns(table, &index.numbers("indkey"), AUTO);
                }
            }
            (table, _) => self.needs_columns(table, &row.numbers("conkey"), AUTO),
        }
        if row.char("contype") == b'f' {
            self.needs_columns(row.oid("confrelid"), &row.numbers("confkey"), NORMAL);
            self.needs_object(PG_CLASS, row.oid("conindid"), NORMAL);
            for operator in row.numbers("conpfeqop") {
                self.needs_object(PG_OPERATOR, operator as Oid, NORMAL);
            }
        }
        if row.char("contype") == b't' {
            let triggers = self.rows_by(PG_TRIGGER, PG_TRIGGER_TGCONSTRAINT_INDEX, row.oid("oid"))?;
            for trigger in triggers.iter().filter(|t| !is_of_key(t)) {
                self.needs_object(PG_TRIGGER, trigger.oid("oid"), INTERNAL);
            }
        }
        let parents = self.rows_by(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, row.oid("conparentid"))?;
        if let Some(parent) = parents.first() {
            // Of one table: a row for a partition of the referenced table.
            if parent.oid("conrelid") == table {
                self.needs_object(PG_CONSTRAINT, parent.oid("oid"), INTERNAL);
            } else {
                self.needs_object(PG_CONSTRAINT, parent.oid("oid"), PARTITION_PRIMARY);
                self.needs_object(PG_CLASS, table, PARTITION_SECONDARY);
            }
        }
        Ok(())
    }

    fn default_value(&mut self, row: &CatalogRow) -> Result<()> {
        let (table, attnum) = (row.oid("adrelid"), row.int("adnum") as i16);
        let key = [Datum::Oid(table), Datum::Int2(attnum)];
        let columns = self.host.reader.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?;
        let is_generated = columns.first().is_some_and(|c| !matches!(c.char("attgenerated"), 0 | b' '));
        self.needs(ObjectAddress::column(table, attnum), if is_generated { INTERNAL } else { AUTO });
        self.needs_named(row, &["adbin"], (table, NORMAL), NORMAL)
    }

    fn rule(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_CLASS, row.oid("ev_class"), INTERNAL);
        self.needs_named(row, &["ev_action"], (0, NORMAL), NORMAL)
    }

    fn trigger(&mut self, row: &CatalogRow) -> Result<()> {
        let table = row.oid("tgrelid");
        if is_of_key(row) {
            self.needs_object(PG_CONSTRAINT, row.oid("tgconstraint"), INTERNAL);
            return Ok(());
        }
        self.needs_object(PG_PROC, row.oid("tgfoid"), NORMAL);
        self.needs_object(PG_CLASS, table, AUTO);
        self.needs_object(PG_CLASS, row.oid("tgconstrrelid"), AUTO);
        if row.oid("tgparentid") != 0 {
            self.needs_object(PG_TRIGGER, row.oid("tgparentid"), PARTITION_PRIMARY);
            self.needs_object(PG_CLASS, table, PARTITION_SECONDARY);
        }
        for column in row.numbers("tgattr") {
            self.needs(ObjectAddress::column(table, column as i16), NORMAL);
        }
        self.needs_named(row, &["tgqual"], (table, NORMAL), NORMAL)
    }

    fn policy(&mut self, row: &CatalogRow) -> Result<()> {
        let table = row.oid("polrelid");
        self.needs_object(PG_CLASS, table, AUTO);
        self.needs_named(row, &["polqual", "polwithcheck"], (table, NORMAL), NORMAL)
    }

    fn routine(&mut self, row: &CatalogRow) -> Result<()> {
        /// Of functions that the server has built in; those of users are the constructors of range types.
        const INTERNAL_LANGUAGE: Oid = 12;
        self.needs_object(PG_NAMESPACE, row.oid("pronamespace"), NORMAL);
        self.needs_object(PG_LANGUAGE, row.oid("prolang"), NORMAL);
        if row.oid("prolang") == INTERNAL_LANGUAGE {
            self.needs_object(PG_TYPE, row.oid("prorettype"), INTERNAL);
        }
        let all = row.numbers("proallargtypes");
        let types = if all.is_empty() { row.numbers("proargtypes") } else { all };
        for ty in types.into_iter().map(|ty| ty as Oid).chain([row.oid("prorettype")]) {
            self.needs_object(PG_TYPE, ty, NORMAL);
        }
        self.needs_object(PG_PROC, row.oid("prosupport"), NORMAL);
        self.needs_named(row, &["proargdefaults", "prosqlbody"], (0, NORMAL), NORMAL)
    }

    fn data_type(&mut self, row: &CatalogRow) -> Result<()> {
        let oid = row.oid("oid");
        let relation = row.oid("typrelid");
        if row.char("typcategory") == b'A' && row.oid("typelem") != 0 {
            self.needs_object(PG_TYPE, row.oid("typelem"), INTERNAL);
            return Ok(());
        }
        if relation != 0 && self.read.relation_kind(relation)?.is_some_and(|kind| kind != b'c') {
            self.needs_object(PG_CLASS, relation, INTERNAL);
            return Ok(());
        }
        self.needs_object(PG_NAMESPACE, row.oid("typnamespace"), NORMAL);
        match row.char("typtype") {
            b'd' => {
                self.needs_object(PG_TYPE, row.oid("typbasetype"), NORMAL);
                self.needs_object(PG_COLLATION, row.oid("typcollation"), NORMAL);
                self.needs_named(row, &["typdefaultbin"], (0, NORMAL), NORMAL)?;
            }
            b'r' => {
                for range in self.rows_by(PG_RANGE, PG_RANGE_RNGTYPID_INDEX, oid)?.iter() {
                    self.needs_object(PG_TYPE, range.oid("rngsubtype"), NORMAL);
                    self.needs_object(PG_OPCLASS, range.oid("rngsubopc"), NORMAL);
                    self.needs_object(PG_COLLATION, range.oid("rngcollation"), NORMAL);
                    self.needs_object(PG_PROC, range.oid("rngcanonical"), NORMAL);
                    self.needs_object(PG_PROC, range.oid("rngsubdiff"), NORMAL);
                }
            }
            b'm' => {
                for range in self.rows_by(PG_RANGE, PG_RANGE_RNGMULTITYPID_INDEX, oid)?.iter() {
                    self.needs_object(PG_TYPE, range.oid("rngtypid"), INTERNAL);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn operator_class(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("opcnamespace"), NORMAL);
        self.needs_object(PG_OPFAMILY, row.oid("opcfamily"), AUTO);
        self.needs_object(PG_TYPE, row.oid("opcintype"), NORMAL);
        Ok(())
    }

    fn collation(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("collnamespace"), NORMAL);
        Ok(())
    }

    fn operator_family(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("opfnamespace"), NORMAL);
        Ok(())
    }

    fn statistics_object(&mut self, row: &CatalogRow) -> Result<()> {
        let table = row.oid("stxrelid");
        self.needs_object(PG_NAMESPACE, row.oid("stxnamespace"), NORMAL);
        self.needs_columns(table, &row.numbers("stxkeys"), AUTO);
        self.needs_named(row, &["stxexprs"], (table, AUTO), NORMAL)
    }

    fn extension(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("extnamespace"), NORMAL);
        Ok(())
    }

    fn configuration(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("cfgnamespace"), NORMAL);
        self.needs_object(PG_TS_PARSER, row.oid("cfgparser"), NORMAL);
        for map in self.rows_by(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, row.oid("oid"))?.iter() {
            self.needs_object(PG_TS_DICT, map.oid("mapdict"), NORMAL);
        }
        Ok(())
    }

    fn dictionary(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("dictnamespace"), NORMAL);
        self.needs_object(PG_TS_TEMPLATE, row.oid("dicttemplate"), NORMAL);
        Ok(())
    }

    fn parser(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("prsnamespace"), NORMAL);
        Ok(())
    }

    fn template(&mut self, row: &CatalogRow) -> Result<()> {
        self.needs_object(PG_NAMESPACE, row.oid("tmplnamespace"), NORMAL);
        Ok(())
    }
}
