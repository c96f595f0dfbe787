//! Deleting objects, with all that goes with them.
//!
//! Invariants
//! 1. Objects are deleted in the order of the walk: when one goes, nothing is left that needs it.
//! 2. What a relation has (indexes, constraints, triggers, its row type) goes in one step with it, when the relation
//!    itself goes.
//! 3. Deleting what is gone already does nothing.

use super::walk::DeletionPlan;
use crate::Definitions;
use crate::client::Runtime;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::CatalogView;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::extension::{MEMBER_TABLES, is_member};
use kilndb_catalog::ids::*;
use kilndb_catalog::text_search::TextSearchKind;
use kilndb_types::Datum;

/// Objects that a command deletes as a whole.
struct WholeObjects(HashSet<(Oid, Oid)>);

impl WholeObjects {
    fn of(plan: &DeletionPlan) -> WholeObjects {
        WholeObjects(plan.objects().filter(|o| o.column == 0).map(|o| (o.class, o.object)).collect())
    }
    fn has_relation(&self, oid: Oid) -> bool {
        self.0.contains(&(PG_CLASS, oid))
    }
    fn has_type(&self, oid: Oid) -> bool {
        self.0.contains(&(PG_TYPE, oid))
    }
}

impl Definitions<'_> {
    /// Deletes what a command names, and what goes with it. Without `cascade`: 2BP01 if something else needs it.
    pub(crate) fn delete_objects(
        &mut self,
        named: &[ObjectAddress],
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.settle_dependencies(runtime)?;
        let plan = self.plan_deletion(named, cascade, runtime)?;
        let wholes = WholeObjects::of(&plan);
        for object in plan.objects() {
            self.delete_object_alone(object, &wholes, runtime)?;
        }
        self.settle_dependencies(runtime)?;
        // Not before: indexes that would be built anew may have gone, too.
        std::mem::take(&mut self.narrowed).into_iter().try_for_each(|relation| self.follow_row_type(relation, runtime))
    }

    fn delete_object_alone(
        &mut self,
        object: ObjectAddress,
        wholes: &WholeObjects,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let oid = object.object;
        match object.class {
            PG_CLASS if object.column != 0 => match wholes.has_relation(oid) {
                true => Ok(()),
                false => self.delete_column(oid, object.column, runtime),
            },
            PG_CLASS => self.delete_relation_or_index(oid, wholes, runtime),
            PG_CONSTRAINT => match self.part_of_relation(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, oid, "conrelid")? {
                Some((_, relation)) if wholes.has_relation(relation) => Ok(()),
                Some((row, _)) => self.delete_constraint_of(&row, runtime),
                None => Ok(()),
            },
            PG_ATTRDEF => match self.part_of_relation(PG_ATTRDEF, PG_ATTRDEF_OID_INDEX, oid, "adrelid")? {
                Some((_, relation)) if wholes.has_relation(relation) => Ok(()),
                Some((row, relation)) => self.drop_default(relation, row.int("adnum") as i16, runtime),
                None => Ok(()),
            },
            PG_TRIGGER => match self.part_of_relation(PG_TRIGGER, PG_TRIGGER_OID_INDEX, oid, "tgrelid")? {
                Some((_, relation)) if wholes.has_relation(relation) => Ok(()),
                Some((row, _)) if kilndb_catalog::trigger::is_of_key(&row) => self.delete_key_trigger(&row, runtime),
                Some((row, _)) => self.delete_trigger(&row, runtime),
                None => Ok(()),
            },
            PG_POLICY => self.delete_policy(oid, runtime),
            // A view goes with its rule.
            PG_REWRITE => Ok(()),
            PG_TYPE => self.delete_type(oid, wholes, runtime),
            PG_NAMESPACE => self.delete_object(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, oid, runtime),
            PG_COLLATION => self.delete_object(PG_COLLATION, PG_COLLATION_OID_INDEX, oid, runtime),
            PG_EXTENSION => self.delete_object(PG_EXTENSION, PG_EXTENSION_OID_INDEX, oid, runtime),
            PG_PROC => {
                // There is such a row if it is an aggregate.
                self.delete_rows(PG_AGGREGATE, PG_AGGREGATE_FNOID_INDEX, &[Datum::Oid(oid)], runtime)?;
                self.delete_object(PG_PROC, PG_PROC_OID_INDEX, oid, runtime)
            }
            PG_OPFAMILY => self.delete_family(oid, runtime),
            PG_STATISTIC_EXT => self.delete_statistics_object(oid, runtime),
            PG_TS_CONFIG => self.delete_text_search(TextSearchKind::Config, oid, runtime),
            PG_TS_DICT => self.delete_text_search(TextSearchKind::Dictionary, oid, runtime),
            PG_TS_PARSER => self.delete_text_search(TextSearchKind::Parser, oid, runtime),
            PG_TS_TEMPLATE => self.delete_text_search(TextSearchKind::Template, oid, runtime),
            PG_LARGEOBJECT => self.write_catalog(runtime, |w| kilndb_catalog::large_object::drop(w, oid)),
            PG_DEFAULT_ACL => self.delete_object(PG_DEFAULT_ACL, PG_DEFAULT_ACL_OID_INDEX, oid, runtime),
            PG_AMOP => self.delete_object(PG_AMOP, PG_AMOP_OID_INDEX, oid, runtime),
            PG_AMPROC => self.delete_object(PG_AMPROC, PG_AMPROC_OID_INDEX, oid, runtime),
            class => match MEMBER_TABLES.iter().find(|(known, _)| *known == class) {
                Some((_, index)) => self.delete_object(class, *index, oid, runtime),
                None => Err(Error::internal(format!("objects of catalog {class} cannot be deleted"))),
            },
        }
    }

    /// The row of an object that belongs to a relation, and the relation.
    fn part_of_relation(
        &mut self,
        class: Oid,
        index: Oid,
        oid: Oid,
        relation: &str,
    ) -> Result<Option<(CatalogRow, Oid)>> {
        let row = self.context_mut().catalog_lookup(class, index, &[Datum::Oid(oid)])?.pop();
        Ok(row.map(|row| {
            let relation = row.oid(relation);
            (row, relation)
        }))
    }

    fn delete_relation_or_index(&mut self, oid: Oid, wholes: &WholeObjects, runtime: &dyn Runtime) -> Result<()> {
        let index = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(oid)])?.pop();
        let Some(index) = index else {
            let table = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(oid))?;
            return match table {
                Some(table) => self.delete_relation(&table, wholes.has_relation(table.partition_of), runtime),
                None => Ok(()),
            };
        };
        if wholes.has_relation(index.oid("indrelid")) {
            return Ok(());
        }
        let table = self.context_mut().table_by_oid(index.oid("indrelid"), runtime)?;
        let table = self.lock_for_ddl(&table, kilndb_storage::LockMode::AccessExclusive, runtime)?;
        let own = table.indexes.iter().find(|i| i.oid == oid).cloned();
        let own = own.ok_or_else(|| Error::internal("an index that its table does not have"))?;
        self.remove_index(&own, table.storage, runtime)
    }

    fn delete_constraint_of(&mut self, row: &CatalogRow, runtime: &dyn Runtime) -> Result<()> {
        if row.oid("conrelid") != 0 {
            let table = self.context_mut().table_by_oid(row.oid("conrelid"), runtime)?;
            self.lock_for_ddl(&table, kilndb_storage::LockMode::AccessExclusive, runtime)?;
        }
        self.delete_constraint(row.oid("oid"), runtime)
    }

    /// A family of operators, with the members that no other object is needed for.
    fn delete_family(&mut self, family: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.delete_rows(PG_AMOP, PG_AMOP_FAM_STRAT_INDEX, &[Datum::Oid(family)], runtime)?;
        self.delete_rows(PG_AMPROC, PG_AMPROC_FAM_PROC_INDEX, &[Datum::Oid(family)], runtime)?;
        self.delete_object(PG_OPFAMILY, PG_OPFAMILY_OID_INDEX, family, runtime)
    }

    fn delete_type(&mut self, oid: Oid, wholes: &WholeObjects, runtime: &dyn Runtime) -> Result<()> {
        let Some(row) = self.type_row(oid)? else { return Ok(()) };
        if wholes.has_relation(row.oid("typrelid")) {
            return Ok(());
        }
        if is_member(oid) {
            return self.delete_object(PG_TYPE, PG_TYPE_OID_INDEX, oid, runtime);
        }
        // Arrays of a relation's row type go with the relation, like the row type.
        let element = row.oid("typelem");
        if wholes.has_type(element)
            && self
                .type_row(element)?
                .is_some_and(|element| element.oid("typarray") == oid && wholes.has_relation(element.oid("typrelid")))
        {
            return Ok(());
        }
        self.delete_type_row(&row, runtime)
    }

    fn type_row(&mut self, oid: Oid) -> Result<Option<CatalogRow>> {
        Ok(self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(oid)])?.pop())
    }
}
