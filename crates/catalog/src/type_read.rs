//! Types that users have made, with what pg_type alone does not tell: domains' conditions, enums' labels, ranges'
//! subtypes.

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::{CastContext, CastInfo, CastMethod, Domain, DomainCheck, EnumLabel, TypeInfo};
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use kilndb_types::range::RangeType;
use std::sync::Arc;

impl CatalogReader<'_> {
    pub(super) fn load_type(&self, row: &CatalogRow) -> Result<TypeInfo> {
        let element = row.oid("typelem");
        Ok(TypeInfo {
            oid: row.oid("oid"),
            name: row.text("typname").unwrap_or("").to_string(),
            schema_oid: row.oid("typnamespace"),
            len: row.int("typlen") as i16,
            storage: row.char("typstorage"),
            kind: row.char("typtype"),
            category: row.char("typcategory"),
            preferred: row.bool("typispreferred"),
            element,
            array: row.oid("typarray"),
            table_oid: row.oid("typrelid"),
            collation: row.oid("typcollation"),
            base_type: row.oid("typbasetype"),
            typmod: row.int("typtypmod") as i32,
            domain: if row.char("typtype") == b'd' { Some(Arc::new(self.load_domain(row)?)) } else { None },
            range: if matches!(row.char("typtype"), b'r' | b'm') { self.load_range(row.oid("oid"))? } else { None },
            labels: if row.char("typtype") == b'e' { self.load_labels(row.oid("oid"))? } else { Arc::from([]) },
        })
    }

    pub(super) fn load_domain(&self, row: &CatalogRow) -> Result<Domain> {
        let rows = self.lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONTYPID_INDEX, &[Datum::Oid(row.oid("oid"))])?;
        let text = |r: &CatalogRow, column: &str| r.text(column).unwrap_or("").to_string();
        let checks = rows.iter().filter(|r| r.char("contype") == b'c');
        let mut checks: Vec<DomainCheck> =
            checks.map(|r| DomainCheck { name: text(r, "conname"), sql: text(r, "conbin") }).collect();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Domain {
            not_null: row.bool("typnotnull"),
            default_sql: row.text("typdefaultbin").map(str::to_string),
            checks,
        })
    }

    pub(super) fn load_range(&self, oid: Oid) -> Result<Option<RangeType>> {
        let mut rows = self.lookup(PG_RANGE, PG_RANGE_RNGTYPID_INDEX, &[Datum::Oid(oid)])?;
        if rows.is_empty() {
            rows = self.lookup(PG_RANGE, PG_RANGE_RNGMULTITYPID_INDEX, &[Datum::Oid(oid)])?;
        }
        Ok(rows.first().map(|r| RangeType {
            oid: r.oid("rngtypid"),
            multirange: r.oid("rngmultitypid"),
            subtype: r.oid("rngsubtype"),
        }))
    }

    /// The cast that pg_cast has for the pair.
    pub(super) fn load_cast(&self, source: Oid, target: Oid) -> Result<Option<CastInfo>> {
        let rows = self.lookup(PG_CAST, PG_CAST_SOURCE_TARGET_INDEX, &[Datum::Oid(source), Datum::Oid(target)])?;
        Ok(rows.first().map(|r| CastInfo {
            context: CastContext::of(r.char("castcontext")),
            method: CastMethod::of(r.char("castmethod"), r.oid("castfunc")),
        }))
    }

    pub(super) fn load_labels(&self, enum_type: Oid) -> Result<Arc<[EnumLabel]>> {
        let rows = self.lookup(PG_ENUM, PG_ENUM_TYPID_LABEL_INDEX, &[Datum::Oid(enum_type)])?;
        let label = |r: &CatalogRow| EnumLabel {
            oid: r.oid("oid"),
            order: r.float4("enumsortorder"),
            label: r.text("enumlabel").unwrap_or("").to_string(),
        };
        let mut labels: Vec<EnumLabel> = rows.iter().map(label).collect();
        labels.sort_by(|a, b| a.order.total_cmp(&b.order));
        Ok(labels.into())
    }
}
