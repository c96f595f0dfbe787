//! Plans of INSERT, UPDATE and DELETE.

use super::expression::{CExpr, Expression};
use super::*;
use kilndb_base::Error;
use kilndb_bind::access::restricted_rules;
use kilndb_catalog::inverted::inverted_class;
use kilndb_catalog::{Table, TableKind, column_places};
use kilndb_types::functions;

impl Planner<'_> {
    pub(super) fn row_layout(table: &Table, rel: u32) -> Layout {
        Layout(table.columns.iter().map(|c| ColId { rel, att: c.attnum }).collect())
    }

    pub(crate) fn plan_dml(&self, q: &Query, d: &Dml, out_rel: u32) -> Result<PlannedNode> {
        let table = &d.table;
        self.read_only.set(false);
        self.note_change(table);
        self.lock_table(table.oid, LockMode::RowExclusive);
        let (input, rows, cost) = if d.kind == DmlKind::Insert {
            let source = match &d.source {
                Some(s) => self.plan_query(s, d.source_rel)?,
                None => {
                    let node = self.node(Op::Result { filter: None }, 0, 1.0, 0.0, "Result");
                    PlannedNode { node, layout: Layout::default() }
                }
            };
            let (rows, cost) = (source.node.rows, source.node.cost);
            (source, rows, cost)
        } else {
            self.handed_on.borrow_mut().extend(self.columns_handed_on(q, d));
            let p = self.plan_from(q, super::scan::WantedRows::ALL)?;
            let p = super::join::FromPlan { planned: self.by_partition(p.planned), ..p };
            (p.planned, p.rows, p.cost)
        };
        let recheck = if matches!(d.kind, DmlKind::Update | DmlKind::Delete) {
            self.recheck(q, &input.layout)?
        } else {
            RowRecheck::default()
        };
        let triggers = self.trigger_plan(d, Self::assigned(d).into())?;
        let plan = match d.kind {
            DmlKind::Merge => self.merge_plan(d, &input, triggers)?,
            _ => self.change_plan(d, &input, recheck, triggers)?,
        };
        let width = plan.statement.returning.as_ref().map_or(0, |list| list.len());
        let verb = match d.kind {
            DmlKind::Insert => "Insert",
            DmlKind::Update => "Update",
            DmlKind::Delete => "Delete",
            DmlKind::Merge => "Merge",
        };
        let alias = self.names.as_ref().map(|names| names.relation(d.rel).unwrap_or(&d.alias));
        let alias = alias.filter(|alias| *alias != table.name);
        let label = match alias {
            Some(alias) => format!("{verb} on {} {alias}", table.name),
            None => format!("{verb} on {}", table.name),
        };
        let node = self.node(Op::Modify(Box::new(plan)), width, rows, cost, label);
        let layout = Layout((0..width).map(|i| ColId { rel: out_rel, att: i as i16 + 1 }).collect());
        Ok(PlannedNode { node, layout })
    }

    /// Columns of no fixed width that go from one version of an updated row to the next, and into nothing else.
    fn columns_handed_on(&self, q: &Query, d: &Dml) -> Vec<ColId> {
        let table = &d.table;
        let is_plain = d.kind == DmlKind::Update
            && table.kind.has_rows()
            && !table.is_catalog
            && table.partition_key.is_none()
            && table.partition_of == 0;
        // In this case the scan that finds the rows hands on the columns that are needed.
        let is_alone = q.rels.len() == 1 && !q.filter.iter().any(Expr::has_sublink);
        if !is_plain || !is_alone || !d.triggers.is_empty() || !d.returning.is_empty() {
            return Vec::new();
        }
        let assigned = Self::assigned(d);
        let mut used: Vec<ColId> = Vec::new();
        d.generated.iter().map(|a| &a.expr).chain(d.checks.iter().map(|(_, e)| e)).for_each(|e| e.columns(&mut used));
        d.row_checks.iter().for_each(|check| check.condition.columns(&mut used));
        let mut attnums: Vec<i16> = used.iter().map(|c| c.att).collect();
        for index in &d.indexes {
            let columns = index.columns();
            let is_assigned = |attnum: &i16| {
                assigned.iter().zip(&table.columns).any(|(assigned, c)| *assigned && c.attnum == *attnum)
            };
            let is_computed = index.predicate.is_some() || index.expressions.iter().any(Option::is_some);
            if is_computed || columns.iter().any(is_assigned) {
                attnums.extend(columns);
            }
        }
        attnums.extend(table.foreign_keys.iter().flat_map(|key| &key.columns));
        attnums.extend(table.referenced_by.iter().flat_map(|key| &key.referenced_columns));
        let columns = table.columns.iter().zip(&table.descriptor.columns).zip(&assigned);
        columns
            .filter(|((c, stored), assigned)| {
                !**assigned && !c.dropped && stored.storage.width().is_none() && !attnums.contains(&c.attnum)
            })
            .map(|((c, _), _)| ColId { rel: d.rel, att: c.attnum })
            .filter(|c| !self.uses.contains_key(c))
            .collect()
    }

    /// The columns that an UPDATE sets, for triggers: MERGE's are those of all its actions.
    fn assigned(d: &Dml) -> Vec<bool> {
        let conflict = d.on_conflict.as_ref().and_then(|c| c.update.as_ref()).map(|u| u.assignments.as_slice());
        let mut assigned =
            vec![conflict.is_none() && matches!(d.kind, DmlKind::Insert | DmlKind::Delete); d.table.columns.len()];
        let merged = d
            .merge
            .iter()
            .filter_map(|a| if let MergeCommand::Update(list) = &a.action { Some(list) } else { None })
            .flatten();
        for a in conflict.unwrap_or(&d.assignments).iter().chain(merged).chain(&d.generated) {
            assigned[a.column] = true;
        }
        assigned
    }

    /// The plan of one kind of change for each row of the input.
    pub(super) fn change_plan(
        &self,
        d: &Dml,
        input: &PlannedNode,
        recheck: RowRecheck,
        triggers: Option<Arc<TriggerPlan>>,
    ) -> Result<ModifyPlan> {
        let (table, layout) = (&d.table, &input.layout);
        let (count, is_view) = (table.columns.len(), table.kind == TableKind::View);
        let row = Self::row_layout(table, d.new_rel);
        let input_width = layout.0.len();
        let old_columns = table.columns.iter().map(|c| layout.find(ColId { rel: d.rel, att: c.attnum })).collect();
        let old_ctid = layout.find(ColId { rel: d.rel, att: if is_view { count as i16 + 1 } else { ATT_CTID } });
        if d.kind != DmlKind::Insert && old_ctid.is_none() && !is_view {
            return Err(Error::unsupported("UPDATE or DELETE of rows that cannot be identified in this plan"));
        }
        // The wider row has the layout that [`ModifyPlan`] describes.
        let mut wide = layout.clone();
        if d.kind == DmlKind::Insert {
            wide.0.extend(Self::row_layout(table, d.rel).0);
            wide.0.push(ColId { rel: d.rel, att: ATT_CTID });
            wide.0.extend(Self::row_layout(table, d.excluded_rel).0);
        }
        let assign = |list: &[Assignment], layout: &Layout| -> Result<Vec<(usize, Expression)>> {
            list.iter().map(|a| Ok((a.column, self.expression(&a.expr, layout)?))).collect()
        };
        let assignments = assign(&d.assignments, layout)?;
        let generated = assign(&d.generated, &row)?;
        let checks =
            d.checks.iter().map(|(n, e)| Ok((n.clone(), self.expression(e, &row)?))).collect::<Result<Vec<_>>>()?;
        let row_filter = d.row_filter.as_ref().map(|e| self.expression(e, &row)).transpose()?;
        let mut changed = vec![d.kind != DmlKind::Update; count];
        for a in d.assignments.iter().chain(&d.generated) {
            changed[a.column] = true;
        }
        let indexes =
            if table.partition_key.is_some() { Vec::new() } else { self.index_plans(&d.table, &d.indexes, &row)? };
        let key_update = d.kind == DmlKind::Update
            && indexes
                .iter()
                .any(|i| i.index.unique && i.shape.depends.iter().any(|c| changed.get(*c).copied().unwrap_or(true)));
        if triggers.as_ref().is_some_and(|t| t.may_change_row) {
            changed.fill(true);
        }
        let outside = |e: &Expr| {
            e.any(
                &|e| matches!(&e.kind, ExprKind::Func(f) if f.volatility == b'v' && functions::lookup(f.oid).is_none()),
            )
        };
        let computed = d.assignments.iter().chain(&d.generated).map(|a| &a.expr).chain(d.checks.iter().map(|(_, e)| e));
        let computed = computed.chain(d.row_checks.iter().map(|check| &check.condition));
        let ahead = d.kind == DmlKind::Update
            && !computed.into_iter().any(|e| outside(e) || (e.has_sublink() && e.is_volatile()));
        let at_once = ahead && indexes.iter().all(|i| i.lets_store_at_once(&changed, recheck.is_volatile));
        let conflict = match &d.on_conflict {
            None => None,
            Some(c) => {
                let arbiters = c.arbiters.iter().map(|a| a.oid).collect();
                let update = match &c.update {
                    None => None,
                    Some(u) => Some(ConflictUpdatePlan {
                        may_move: self.may_move(table, &u.assignments)?,
                        assignments: assign(&u.assignments, &wide)?,
                        filter: u.filter.as_ref().map(|f| self.expression(f, &wide)).transpose()?,
                    }),
                };
                Some(ConflictPlan { arbiters, update })
            }
        };
        let row_checks = self.row_check_plans(d, (&row, &wide))?;
        let returning = self.returning_plan(d, wide, &row)?;
        let not_null =
            table.columns.iter().enumerate().filter(|(_, c)| c.not_null && !c.dropped).map(|(i, _)| i).collect();
        let arbiters = match &conflict {
            Some(c) => ConflictPlan::positions(&c.arbiters, &indexes).into(),
            None => Arc::default(),
        };
        let changed: Arc<[bool]> = changed.into();
        let statement = ModifyStatement {
            kind: d.kind,
            input: input.node.clone(),
            input_width,
            old_ctid: old_ctid.unwrap_or(0),
            assignments: assignments.into(),
            program: Default::default(),
            assigned: Self::assigned(d).into(),
            recheck: Arc::new(recheck),
            row_filter: row_filter.map(Arc::new),
            moves_rows: d.moves_rows,
            is_of_key: d.is_of_key,
            conflict: conflict.map(Arc::new),
            row_checks,
            returning,
            key_update,
            ahead,
            routing: self.routing(d, layout, &changed)?,
            merge: None,
        };
        let rules = TargetRules {
            is_named: true,
            old_columns,
            generated: generated.into(),
            checks: checks.into(),
            functions: restricted_rules(&d.rule_functions, self.catalog)?,
            not_null,
            foreign_keys: match d.kind {
                _ if d.moves_rows => Vec::new(),
                DmlKind::Delete => Vec::new(),
                _ => self.foreign_key_plans(table, &changed)?,
            }
            .into(),
            referenced_by: if d.moves_rows { Vec::new() } else { self.referenced_plans(d, &changed)? }.into(),
            changed,
            at_once,
            arbiters,
            must_belong: table.partition_of != 0,
            columns: None,
            triggers,
            locks: Arc::default(),
        };
        let target = ModifyTarget {
            table: table.clone(),
            stored_as: table.clone(),
            heap: if is_view { None } else { self.heap_of(table)? },
            indexes: indexes.into_iter().collect(),
            rules: Arc::new(rules),
        };
        Ok(ModifyPlan { statement: Arc::new(statement), target: Arc::new(target) })
    }

    /// What row security and views want of rows. `layouts`: of a new row, and of what assignments are made of.
    fn row_check_plans(&self, d: &Dml, (new, found): (&Layout, &Layout)) -> Result<Arc<[PlannedRowCheck]>> {
        let table: Arc<str> = Arc::from(d.table.name.as_str());
        let plan = |check: &RowCheck| {
            let layout = match check.kind {
                RowCheckKind::Insert | RowCheckKind::Update | RowCheckKind::View => new,
                RowCheckKind::Conflict | RowCheckKind::MergeUpdate | RowCheckKind::MergeDelete => found,
            };
            let condition = self.expression(&check.condition, layout)?;
            Ok(PlannedRowCheck { kind: check.kind, policy: check.policy.clone(), table: table.clone(), condition })
        };
        d.row_checks.iter().map(plan).collect()
    }

    /// RETURNING, over the wider row and behind it the new one.
    fn returning_plan(&self, d: &Dml, mut wide: Layout, row: &Layout) -> Result<Option<Arc<[Expression]>>> {
        let visible: Vec<&Target> = d.returning.iter().filter(|t| !t.junk).collect();
        if visible.is_empty() {
            return Ok(None);
        }
        let table = &d.table;
        wide.0.extend(row.0.iter().copied());
        wide.0.push(ColId { rel: d.new_rel, att: ATT_CTID });
        wide.0.push(ColId { rel: d.new_rel, att: ATT_TABLEOID });
        // A row that there is not is NULL, not a row of NULLs.
        let absent = match d.kind {
            DmlKind::Insert if d.on_conflict.is_none() => d.rel,
            DmlKind::Delete => d.new_rel,
            _ => 0,
        };
        let is_absent = |e: &Expr| matches!(&e.kind, ExprKind::Column(c) if c.rel == absent);
        let mut list = Vec::new();
        for t in visible {
            let mut e = t.expr.clone();
            e.rewrite(&mut |x| {
                if let ExprKind::Row { fields, .. } = &x.kind
                    && x.ty == table.type_oid
                    && !fields.is_empty()
                    && fields.iter().all(is_absent)
                {
                    x.kind = ExprKind::Const(kilndb_types::Datum::Null);
                }
                // Nothing takes the place of a row that is deleted.
                if d.kind == DmlKind::Delete && matches!(x.kind, ExprKind::Column(c) if c.rel == d.new_rel && c.att < 0) {
                    x.kind = ExprKind::Const(kilndb_types::Datum::Null);
                }
                if table.partition_key.is_none() && matches!(x.kind, ExprKind::Column(c) if c.att == ATT_TABLEOID && (c.rel == d.new_rel || c.rel == d.rel)) {
                    x.kind = ExprKind::Const(kilndb_types::Datum::Oid(table.oid));
                }
                Ok(())
            })?;
            list.push(self.expression(&e, &wide)?);
        }
        Ok(Some(list.into()))
    }

    pub(super) fn index_plans(&self, table: &Table, bound: &[BoundIndex], row: &Layout) -> Result<Vec<IndexPlan>> {
        let mut out = Vec::new();
        for b in bound {
            let mut keys = Vec::new();
            let mut depends: Vec<usize> = Vec::new();
            let note = |e: &Expr, depends: &mut Vec<usize>| {
                let mut used = Vec::new();
                e.columns(&mut used);
                depends.extend(used.iter().filter(|c| c.att > 0).map(|c| c.att as usize - 1));
            };
            for (k, e) in b.index.keys.iter().zip(&b.expressions) {
                keys.push(match e {
                    Some(e) => {
                        note(e, &mut depends);
                        self.expression(e, row)?
                    }
                    None => {
                        let i = usize::try_from(k.attnum - 1).unwrap_or(0);
                        depends.push(i);
                        CExpr::Slot(i).into()
                    }
                });
            }
            let predicate = match &b.predicate {
                Some(p) => {
                    note(p, &mut depends);
                    Some(Arc::new(self.expression(p, row)?))
                }
                None => None,
            };
            let relation = self.relation(b.index.storage)?;
            let index = &b.index;
            let suffix = index.is_global.then(|| Relation::heap_name(table.storage));
            let (unique, nulls_not_distinct, deferrable) = (index.unique, index.nulls_not_distinct, index.deferrable);
            let of_class = index.keys.iter().filter(|_| index.has_terms());
            let classes =
                of_class.map(|k| inverted_class(k.opclass, k.type_oid, self.catalog)).collect::<Result<_>>()?;
            let shape = Arc::new(IndexShape {
                unique,
                nulls_not_distinct,
                deferrable,
                keys: index.keys.clone(),
                values: keys,
                depends,
                classes,
            });
            out.push(IndexPlan { oid: index.oid, index: index.clone(), relation, shape, predicate, suffix });
        }
        Ok(out)
    }

    pub(super) fn foreign_key_plans(&self, table: &Table, changed: &[bool]) -> Result<Vec<ForeignKeyPlan>> {
        let mut out = Vec::new();
        for key in table.foreign_keys.iter().filter(|key| key.enforced) {
            let columns = column_places(&key.columns);
            if !columns.iter().any(|c| changed.get(*c).copied().unwrap_or(true)) {
                continue;
            }
            let Some(parent) = self.catalog.table_by_oid(key.referenced_table)? else { continue };
            self.lock_table(parent.oid, LockMode::RowShare);
            let Some(index) = parent.indexes.iter().find(|i| i.oid == key.referenced_index) else { continue };
            let mut index_keys = Vec::new();
            for k in &index.keys {
                let Some(position) = key.referenced_columns.iter().position(|c| *c == k.attnum) else {
                    return Err(Error::internal("foreign key does not cover its index"));
                };
                index_keys.push((position, self.base_type(k.type_oid), k.descending, k.nulls_first));
            }
            out.push(ForeignKeyPlan {
                key: key.clone(),
                columns,
                target: if parent.partition_key.is_some() {
                    None
                } else {
                    Some((self.relation(parent.storage)?, self.relation(index.storage)?))
                },
                parent: parent.clone(),
                index_keys,
            });
        }
        Ok(out)
    }

    fn referenced_plans(&self, d: &Dml, changed: &[bool]) -> Result<Vec<ReferencedPlan>> {
        let may_update = d.on_conflict.as_ref().is_some_and(|c| c.update.is_some());
        if d.kind == DmlKind::Insert && !may_update {
            return Ok(Vec::new());
        }
        // For a partitioned table it is not known what the partitions' triggers change.
        let is_partitioned = d.table.partition_key.is_some();
        let changes = |c: &usize| changed.get(*c).copied().unwrap_or(true);
        self.references_to(&d.table, &|columns| {
            d.kind != DmlKind::Update || is_partitioned || columns.iter().any(changes)
        })
    }

    /// The foreign keys that point at a table. `wanted`: by the referenced columns.
    pub(super) fn references_to(
        &self,
        table: &Table,
        wanted: &dyn Fn(&[usize]) -> bool,
    ) -> Result<Vec<ReferencedPlan>> {
        let mut out = Vec::new();
        for key in table.referenced_by.iter().filter(|key| key.enforced) {
            let columns = column_places(&key.referenced_columns);
            if !wanted(&columns) {
                continue;
            }
            let Some(child) = self.catalog.table_by_oid(key.table)? else { continue };
            self.lock_table(child.oid, LockMode::RowShare);
            out.push(ReferencedPlan { child_columns: column_places(&key.columns), key: key.clone(), columns, child });
        }
        Ok(out)
    }
}
