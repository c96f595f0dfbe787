//! Partition keys, bounds and what they demand of a row, as SQL text in PostgreSQL's form.

use super::StatementHost;
use super::expression_text::{canonical, shown_constant};
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_catalog::partition::{self, PartitionBound, PartitionKey, PartitionKeyPart, PartitionStrategy, RangeEdge};
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::{Datum, key};
use std::sync::Arc;

impl StatementHost<'_> {
    pub fn shown_edges(&self, key: &PartitionKey, edges: &[RangeEdge]) -> Result<String> {
        let text = |(i, e): (usize, &RangeEdge)| match e {
            RangeEdge::Min => "MINVALUE".to_string(),
            RangeEdge::Max => "MAXVALUE".to_string(),
            RangeEdge::Value(d) => {
                key.parts.get(i).map_or(String::new(), |p| shown_constant(self, d, p.base_type, false))
            }
        };
        Ok(edges.iter().enumerate().map(text).collect::<Vec<_>>().join(", "))
    }

    /// FOR VALUES … as a stored bound says.
    pub(crate) fn shown_bound(&self, table: &Table, stored: &str) -> Result<String> {
        let parent = self.reader.table_by_oid(table.partition_of)?;
        let Some(key) = parent.and_then(|p| p.partition_key.clone()) else { return Ok(stored.to_string()) };
        Ok(match partition::read_bound(&key, stored, &self.reader)? {
            PartitionBound::List(list) => {
                let ty = key.parts[0].base_type;
                let shown =
                    |d: &Datum| if d.is_null() { "NULL".to_string() } else { shown_constant(self, d, ty, false) };
                format!("FOR VALUES IN ({})", list.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            PartitionBound::Range { lower, upper } => {
                format!(
                    "FOR VALUES FROM ({}) TO ({})",
                    self.shown_edges(&key, &lower)?,
                    self.shown_edges(&key, &upper)?
                )
            }
            _ => stored.to_string(),
        })
    }

    /// What pg_get_partkeydef tells.
    pub(crate) fn partition_key_text(&self, table: &Arc<Table>) -> Result<Option<String>> {
        let Some(key) = &table.partition_key else { return Ok(None) };
        let mut parts = Vec::new();
        for part in &key.parts {
            let mut text = self.key_part_text(table, part.attnum, part.expression_sql.as_deref(), true);
            let natural = match part.attnum {
                0 => self.reader.type_by_oid(part.type_oid)?.map_or(0, |t| t.collation),
                n => table.columns[n as usize - 1].collation.oid,
            };
            if part.collation != 0 && part.collation != natural {
                let name = super::describe::collation_name(self, part.collation)?.unwrap_or_default();
                text.push_str(&format!(" COLLATE {name}"));
            }
            if let Some(class) =
                partition::operator_classes().find(|class| class.oid == part.opclass && !class.is_default)
            {
                text.push_str(&format!(" {}", quote(class.name)));
            }
            if part.class.is_some()
                && let Some(row) =
                    self.reader.lookup(PG_OPCLASS, PG_OPCLASS_OID_INDEX, &[Datum::Oid(part.opclass)])?.first()
            {
                text.push_str(&format!(
                    " {}",
                    super::describe::qualified(self, row.oid("opcnamespace"), row.text("opcname").unwrap_or(""))?
                ));
            }
            parts.push(text);
        }
        let word = key.strategy.word().to_uppercase();
        Ok(Some(format!("{word} ({})", parts.join(", "))))
    }

    fn key_part_text(&self, table: &Arc<Table>, attnum: i16, sql: Option<&str>, in_list: bool) -> String {
        match sql {
            None => quote(table.columns.get((attnum - 1).max(0) as usize).map_or("", |c| c.name.as_str())),
            Some(sql) => {
                let text = canonical(self, sql, table, None, false);
                let is_call = super::definitions::is_call(&text);
                if in_list && !is_call { format!("({text})") } else { text }
            }
        }
    }

    /// The condition on rows of a partition with that bound, over the parent's columns.
    pub fn bound_condition(&self, parent: &Arc<Table>, key: &PartitionKey, bound: &PartitionBound) -> Result<String> {
        Ok(all(self.bound_quals(parent, key, bound)?))
    }

    fn bound_quals(&self, parent: &Arc<Table>, key: &PartitionKey, bound: &PartitionBound) -> Result<Vec<String>> {
        let names: Vec<String> = key
            .parts
            .iter()
            .map(|p| self.key_part_text(parent, p.attnum, p.expression_sql.as_deref(), false))
            .collect();
        match bound {
            PartitionBound::Hash { modulus, remainder } => Ok(vec![format!(
                "satisfies_hash_partition('{}'::oid, {modulus}, {remainder}, {})",
                parent.oid,
                names.join(", ")
            )]),
            PartitionBound::List(list) => self.list_quals(key, &names[0], list),
            PartitionBound::Range { lower, upper } => {
                let mut quals: Vec<String> = names.iter().map(|n| format!("({n} IS NOT NULL)")).collect();
                quals.extend(self.range_quals(key, &names, lower, upper)?);
                Ok(quals)
            }
            PartitionBound::Default => self.default_quals(parent, key, &names),
        }
    }

    fn default_quals(&self, parent: &Arc<Table>, key: &PartitionKey, names: &[String]) -> Result<Vec<String>> {
        let map = self.reader.partition_map(parent.oid)?;
        let bounds: Vec<&PartitionBound> =
            map.partitions.iter().map(|p| &*p.bound).filter(|b| !matches!(b, PartitionBound::Default)).collect();
        if bounds.is_empty() {
            return Ok(Vec::new());
        }
        let inner = match key.strategy {
            PartitionStrategy::List => {
                let values: Vec<Datum> = bounds
                    .iter()
                    .flat_map(|b| if let PartitionBound::List(l) = b { l.clone() } else { Vec::new() })
                    .collect();
                all(self.list_quals(key, &names[0], &values)?)
            }
            _ => {
                let mut arms = Vec::new();
                for bound in bounds {
                    if let PartitionBound::Range { lower, upper } = bound {
                        arms.push(all(self.range_quals(key, names, lower, upper)?));
                    }
                }
                let mut quals: Vec<String> = names.iter().map(|n| format!("({n} IS NOT NULL)")).collect();
                quals.push(any(arms));
                all(quals)
            }
        };
        Ok(vec![format!("(NOT {inner})")])
    }

    /// The operator of a strategy (1 <, 2 <=, 3 =, 4 >=, 5 >), as the class of the column has it.
    fn key_operator(&self, part: &PartitionKeyPart, strategy: u8) -> Result<String> {
        let Some(class) = &part.class else {
            return Ok(["<", "<=", "=", ">=", ">"][usize::from(strategy.clamp(1, 5)) - 1].to_string());
        };
        let operator = match class.operator(strategy) {
            Some(oid) => self.reader.operator_by_oid(oid)?,
            None => None,
        };
        let ty = class.input_type;
        let operator = operator.ok_or_else(|| {
            Error::internal(format!(
                "missing operator {strategy}({ty},{ty}) in the family of operator class {}",
                class.oid
            ))
        })?;
        match self.reader.schema_name(operator.schema_oid)? {
            Some(schema) if schema != "pg_catalog" => Ok(format!("OPERATOR({}.{})", quote(&schema), operator.name)),
            _ => Ok(operator.name.clone()),
        }
    }

    fn list_quals(&self, key: &PartitionKey, name: &str, list: &[Datum]) -> Result<Vec<String>> {
        let ty = key.parts[0].base_type;
        let is = self.key_operator(&key.parts[0], EQUAL)?;
        let values: Vec<String> =
            list.iter().filter(|d| !d.is_null()).map(|d| shown_constant(self, d, ty, true)).collect();
        let has_null = list.iter().any(Datum::is_null);
        let equal = match values.as_slice() {
            [] => None,
            [one] => Some(format!("({name} {is} {one})")),
            many => Some(format!("({name} {is} ANY (ARRAY[{}]))", many.join(", "))),
        };
        Ok(match (has_null, equal) {
            (true, None) => vec![format!("({name} IS NULL)")],
            (true, Some(equal)) => vec![format!("(({name} IS NULL) OR {equal})")],
            (false, equal) => std::iter::once(format!("({name} IS NOT NULL)")).chain(equal).collect(),
        })
    }

    fn range_quals(
        &self,
        key: &PartitionKey,
        names: &[String],
        lower: &[RangeEdge],
        upper: &[RangeEdge],
    ) -> Result<Vec<String>> {
        let operators = |part: &PartitionKeyPart| {
            (1..=5).map(|strategy| self.key_operator(part, strategy)).collect::<Result<Vec<String>>>()
        };
        let operators = key.parts.iter().map(operators).collect::<Result<Vec<_>>>()?;
        let operator = |at: usize, strategy: u8| operators[at][usize::from(strategy) - 1].as_str();
        let shown = |i: usize, d: &Datum| shown_constant(self, d, key.parts[i].base_type, true);
        let value = |e: Option<&RangeEdge>| if let Some(RangeEdge::Value(d)) = e { Some(d.clone()) } else { None };
        let mut quals = Vec::new();
        let mut first = 0;
        while let (Some(a), Some(b)) = (value(lower.get(first)), value(upper.get(first))) {
            if key::compare(key.parts[first].base_type, &a, &b).is_ne() {
                break;
            }
            quals.push(format!("({} {} {})", names[first], operator(first, EQUAL), shown(first, &a)));
            first += 1;
        }
        let arms = |edges: &[RangeEdge], is_lower: bool| -> Vec<String> {
            let mut arms = Vec::new();
            for end in first..edges.len() {
                let Some(last) = value(edges.get(end)) else { break };
                let mut parts: Vec<String> = (first..end)
                    .filter_map(|i| {
                        value(edges.get(i)).map(|d| format!("({} {} {})", names[i], operator(i, EQUAL), shown(i, &d)))
                    })
                    .collect();
                let inclusive = matches!(
                    (is_lower, edges.get(end + 1)),
                    (true, None | Some(RangeEdge::Min)) | (false, Some(RangeEdge::Max))
                );
                let strategy = match (is_lower, inclusive) {
                    (true, true) => 4,
                    (true, false) => 5,
                    (false, true) => 2,
                    (false, false) => 1,
                };
                parts.push(format!("({} {} {})", names[end], operator(end, strategy), shown(end, &last)));
                arms.push(all(parts));
                if value(edges.get(end + 1)).is_none() {
                    break;
                }
            }
            arms
        };
        for list in [arms(lower, true), arms(upper, false)] {
            if !list.is_empty() {
                quals.push(any(list));
            }
        }
        Ok(quals)
    }

    /// All that its partition bounds, and those of what it is a part of, demand of a table's rows; None: nothing.
    pub fn partition_condition(&self, table: &Table) -> Result<Option<String>> {
        let mut levels = Vec::new();
        let mut at = (table.oid, table.partition_of);
        while at.1 != 0 {
            let parent =
                self.reader.table_by_oid(at.1)?.ok_or_else(|| Error::internal("a partition without a parent"))?;
            let map = self.reader.partition_map(parent.oid)?;
            if let Some(bound) = map.bound_of(at.0) {
                levels.push(self.bound_quals(&parent, &map.key, bound)?);
            }
            at = (parent.oid, parent.partition_of);
        }
        let quals: Vec<String> = levels.into_iter().rev().flatten().collect();
        Ok(if quals.is_empty() { None } else { Some(all(quals)) })
    }

    /// pg_partition_tree, pg_partition_ancestors.
    pub(crate) fn partition_tree_rows(&self, root: Oid) -> Result<Vec<Vec<Datum>>> {
        let Some(class) = self.reader.class_row(root)? else { return Ok(Vec::new()) };
        if !class.bool("relispartition") && !b"pI".contains(&class.char("relkind")) {
            return Ok(Vec::new());
        }
        let mut rows = Vec::new();
        let mut levels = vec![(root, 0)];
        let mut at = 0;
        while let Some((oid, level)) = levels.get(at).copied() {
            at += 1;
            let mut below: Vec<Oid> = self
                .reader
                .lookup(PG_INHERITS, PG_INHERITS_PARENT_INDEX, &[Datum::Oid(oid)])?
                .iter()
                .map(|r| r.oid("inhrelid"))
                .collect();
            below.sort_unstable();
            levels.extend(below.iter().map(|o| (*o, level + 1)));
            let class = self.reader.class_row(oid)?;
            let parent = match self.reader.partition_parent(oid)? {
                0 => Datum::Null,
                parent => Datum::Oid(parent),
            };
            let is_leaf = class.is_none_or(|c| !b"pI".contains(&c.char("relkind")));
            rows.push(vec![Datum::Oid(oid), parent, Datum::Bool(is_leaf), Datum::Int4(level)]);
        }
        Ok(rows)
    }

    pub(crate) fn partition_ancestors(&self, oid: Oid) -> Result<Vec<Oid>> {
        let Some(class) = self.reader.class_row(oid)? else { return Ok(Vec::new()) };
        if !class.bool("relispartition") && !b"pI".contains(&class.char("relkind")) {
            return Ok(Vec::new());
        }
        let mut all = vec![oid];
        let mut at = oid;
        loop {
            at = self.reader.partition_parent(at)?;
            if at == 0 {
                return Ok(all);
            }
            all.push(at);
        }
    }
}

fn all(mut quals: Vec<String>) -> String {
    match quals.len() {
        0 => "true".into(),
        1 => quals.swap_remove(0),
        _ => format!("({})", quals.join(" AND ")),
    }
}

fn any(mut arms: Vec<String>) -> String {
    if arms.len() == 1 { arms.swap_remove(0) } else { format!("({})", arms.join(" OR ")) }
}
