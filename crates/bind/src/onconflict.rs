//! ON CONFLICT: which indexes arbitrate, and what DO UPDATE does.

use super::Binder;
use super::ir::*;
use super::same::same;
use super::scope::{ClauseKind, NsItem, Scope, TargetName};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::{Node, nodes, raw};

/// The columns and expressions that conflicts are looked for by, and the conditions that rows meet then: over
/// `Dml::new_rel`.
pub(super) struct ConflictInference {
    wanted: Vec<Expr>,
    given: Vec<Expr>,
}

impl ConflictInference {
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.wanted.iter().chain(&self.given)
    }
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        self.wanted.iter_mut().chain(&mut self.given)
    }
}

impl Binder<'_> {
    pub(crate) fn bind_on_conflict(
        &self,
        c: &nodes::OnConflictClause,
        target: TargetName<'_>,
        scope: &Scope<'_>,
        dml: &mut Dml,
    ) -> Result<Option<ConflictInference>> {
        let table = dml.table.clone();
        let mut inference = None;
        let mut arbiters = Vec::new();
        if let Some(infer) = c.infer() {
            if let Some(name) = infer.conname() {
                match table.indexes.iter().find(|i| i.name == name && i.unique) {
                    Some(i) => arbiters.push(i.clone()),
                    None => {
                        return Err(Error::new(
                            sqlstate::UNDEFINED_OBJECT,
                            format!("constraint \"{name}\" for table \"{}\" does not exist", table.name),
                        ));
                    }
                }
            } else {
                inference = Some(self.bind_inference(infer, dml)?);
            }
        }
        let update = if c.action == raw::OnConflictAction::ONCONFLICT_UPDATE {
            if c.infer().is_none() {
                let e = Error::new(
                    sqlstate::SYNTAX_ERROR,
                    "ON CONFLICT DO UPDATE requires inference specification or constraint name",
                )
                .with_hint("For example, ON CONFLICT (column_name).");
                return Err(self.at(e, c.location));
            }
            let mut here =
                Scope { clause: ClauseKind::UpdateSource, ctes: scope.ctes.clone(), ..Scope::new(scope.parent) };
            here.items.push(target.item(dml.rel, &table));
            let mut excluded = NsItem::of_table(dml.excluded_rel, &table, "excluded");
            excluded.cols_visible = false;
            here.items.push(excluded);
            let assignments = self.bind_set(c.target_list().iter(), &table, dml.rel, &here)?;
            here.clause = ClauseKind::Where;
            let filter = self.bind_condition(c.where_clause(), &here, "WHERE")?;
            Some(ConflictUpdate { assignments, filter })
        } else {
            None
        };
        dml.on_conflict = Some(OnConflict { arbiters, update });
        Ok(inference)
    }

    fn bind_inference(&self, infer: &nodes::InferClause, dml: &Dml) -> Result<ConflictInference> {
        let table = &dml.table;
        let mut here = Scope::new(None);
        here.items.push(NsItem::of_table(dml.new_rel, table, &table.name));
        let mut wanted: Vec<Expr> = Vec::new();
        let places = self.list_places(infer.location);
        for (nth, n) in infer.index_elems().iter().enumerate() {
            let Node::IndexElem(e) = n else { continue };
            let expr = match e.name() {
                Some(name) => {
                    let i = table.columns.iter().position(|c| !c.dropped && c.name == name);
                    let Some(i) = i else {
                        return self.err(
                            sqlstate::UNDEFINED_COLUMN,
                            format!("column \"{name}\" does not exist"),
                            infer.location,
                        );
                    };
                    let c = &table.columns[i];
                    let loc = places.get(nth).and_then(|at| i32::try_from(*at).ok()).unwrap_or(-1);
                    self.note_attribute(table.oid, c.attnum, name, loc);
                    Expr::of_column(dml.new_rel, c)
                }
                None => self.bind_expr(e.expr(), &here)?,
            };
            if !wanted.iter().any(|w| same(w, &expr)) {
                wanted.push(expr);
            }
        }
        let predicate = self.bind_condition(infer.where_clause(), &here, "WHERE")?;
        let mut given = Vec::new();
        if let Some(p) = predicate {
            p.conjuncts(&mut given);
        }
        Ok(ConflictInference { wanted, given })
    }

    /// Makes the unique indexes that fit what the statement names arbiters.
    pub(super) fn infer_arbiters(&self, inference: &ConflictInference, dml: &mut Dml) -> Result<()> {
        let (table, ConflictInference { wanted, given }) = (&dml.table, inference);
        let mut arbiters = Vec::new();
        for b in &dml.indexes {
            if !b.index.unique {
                continue;
            }
            let keys: Vec<Expr> = b
                .index
                .keys
                .iter()
                .zip(&b.expressions)
                .map(|(k, e)| match e {
                    Some(e) => e.clone(),
                    None => {
                        let c = table.columns.get(usize::try_from(k.attnum - 1).unwrap_or(0));
                        Expr::column(
                            ColId { rel: dml.new_rel, att: k.attnum },
                            c.map_or(k.type_oid, |c| c.type_oid),
                            -1,
                        )
                    }
                })
                .collect();
            let covers = keys.iter().all(|k| wanted.iter().any(|w| same(w, k)))
                && wanted.iter().all(|w| keys.iter().any(|k| same(w, k)));
            let implied = match &b.predicate {
                None => true,
                Some(p) => super::implies(self.catalog, given, p),
            };
            if covers && implied {
                arbiters.push(b.index.clone());
            }
        }
        if arbiters.is_empty() {
            return self.err(
                sqlstate::INVALID_COLUMN_REFERENCE,
                "there is no unique or exclusion constraint matching the ON CONFLICT specification",
                -1,
            );
        }
        if let Some(on_conflict) = &mut dml.on_conflict {
            on_conflict.arbiters.extend(arbiters);
        }
        Ok(())
    }
}
