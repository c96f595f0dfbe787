//! Row security: the policies of a statement's tables become conditions that their rows must meet (PostgreSQL's
//! rewriter, `get_row_security_policies`; docs/decisions/0058).
//!
//! Invariants
//! 1. Every table that a statement names, however deep, gets the policies that count for whoever reads or changes it:
//!    the owner of the view that names it, or whoever runs the statement.
//! 2. It is done when the whole statement is bound, because which policies count depends on whether rows are read and
//!    locked.
//! 3. What the engine itself does to rows (foreign keys, definitions) has no [`RelationAccess`] and no policies.
//! 4. A table whose policies read the table itself, through others or not, is refused (42P17).
//!
//! Must not know: roles, who is whose member ([`CatalogView::row_policies`]), and how conditions are kept from seeing
//! hidden rows, which is the planner's.

use super::Binder;
use super::access::{RelationAccess, columns_read};
use super::ir::*;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::row_security::{Policy, RolePolicies};
use kilndb_types::Datum;

/// Letters of pg_policy.polcmd.
const SELECT: u8 = b'r';
const INSERT: u8 = b'a';
const UPDATE: u8 = b'w';
const DELETE: u8 = b'd';

/// Which of a policy's two expressions is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolicyClause {
    Using,
    /// WITH CHECK, or USING if there is none.
    Check,
}

impl Binder<'_> {
    /// Adds the policies of all tables of a whole statement.
    pub(crate) fn apply_row_security(&self, query: &mut Query) -> Result<()> {
        if !self.accesses.borrow().iter().any(|access| access.table.row_security.is_some()) {
            return Ok(());
        }
        let read = columns_read(query)?;
        RowSecurityRewriter { binder: self, read, under_way: Vec::new() }.query(query)
    }
}

struct RowSecurityRewriter<'r, 'c> {
    binder: &'r Binder<'c>,
    /// The columns that the statement reads, by relation.
    read: HashMap<u32, Vec<i16>>,
    /// Tables whose policies are being looked into.
    under_way: Vec<Oid>,
}

/// A table, as a statement names it, with the policies that count.
struct SecuredTable {
    access: RelationAccess,
    policies: Vec<Policy>,
}

impl RowSecurityRewriter<'_, '_> {
    fn query(&mut self, q: &mut Query) -> Result<()> {
        kilndb_base::stack::check()?;
        let target = match &q.body {
            QueryBody::Dml(d) => d.rel,
            _ => 0,
        };
        // The subqueries that are there already; those of policies are looked into as they are added.
        q.for_exprs_mut(&mut |e| self.subqueries_of(e))?;
        q.for_subqueries_mut(&mut |inner| self.query(inner))?;
        for rel in &mut q.rels {
            if rel.id != target && matches!(rel.kind, RelKind::Table(_)) {
                self.relation(rel)?;
            }
        }
        if let QueryBody::Dml(dml) = &mut q.body {
            self.changed_table(dml, &mut q.rels)?;
        }
        Ok(())
    }

    fn subqueries_of(&mut self, e: &mut Expr) -> Result<()> {
        kilndb_base::stack::check()?;
        e.for_children_mut(&mut |child| self.subqueries_of(child))?;
        match &mut e.kind {
            ExprKind::SubLink(link) => self.query(&mut link.query),
            _ => Ok(()),
        }
    }

    fn secured(&self, rel: u32) -> Result<Option<SecuredTable>> {
        let access = self.binder.accesses.borrow().iter().find(|access| access.rel == rel).cloned();
        let Some(access) = access.filter(|access| access.table.row_security.is_some()) else { return Ok(None) };
        Ok(match self.binder.catalog.row_policies(&access.table, access.check_as)? {
            RolePolicies::Passed => None,
            RolePolicies::Counting(policies) => Some(SecuredTable { access, policies }),
        })
    }

    /// A table that is read, or whose rows are locked.
    fn relation(&mut self, rel: &mut Rel) -> Result<()> {
        let Some(secured) = self.secured(rel.id)? else { return Ok(()) };
        let locks = secured.access.required & privilege::UPDATE != 0;
        let commands: &[u8] = if locks { &[UPDATE, SELECT] } else { &[SELECT] };
        rel.security_quals.extend(self.quals(&secured, commands)?);
        Ok(())
    }

    fn changed_table(&mut self, dml: &mut Dml, rels: &mut [Rel]) -> Result<()> {
        let Some(secured) = self.secured(dml.rel)? else { return Ok(()) };
        let mut access = secured.access.clone();
        access.add_selected(&self.read);
        let reads = !access.selected.is_empty();
        let mut commands = match dml.kind {
            DmlKind::Update => vec![UPDATE],
            DmlKind::Delete => vec![DELETE],
            DmlKind::Insert | DmlKind::Merge => Vec::new(),
        };
        commands.extend((dml.kind != DmlKind::Insert && reads).then_some(SELECT));
        if let Some(rel) = rels.iter_mut().find(|rel| rel.id == dml.rel) {
            // Conditions of views come after the policies of the table.
            let quals = self.quals(&secured, &commands)?;
            if dml.kind == DmlKind::Merge {
                // What the policies read there is not read by the statement.
                self.binder.settle_selected(access);
                self.binder.ask_again(dml, &quals)?;
            }
            let of_views = std::mem::replace(&mut rel.security_quals, quals);
            rel.security_quals.extend(of_views);
        }
        let mut checks = CheckList { rewriter: self, secured: &secured, dml, reads, list: Vec::new() };
        match checks.dml.kind {
            DmlKind::Insert => checks.of_insert()?,
            DmlKind::Update => checks.of_update()?,
            DmlKind::Delete => {}
            DmlKind::Merge => checks.of_merge()?,
        }
        let list = checks.list;
        dml.row_checks.splice(0..0, list);
        Ok(())
    }

    /// The conditions by which rows are there for these commands: the restrictive policies' of each, then those of which
    /// one must hold. Without one of the latter no row is there and no policy is asked; what the policies read is asked
    /// about all the same.
    fn quals(&mut self, secured: &SecuredTable, commands: &[u8]) -> Result<Vec<Expr>> {
        let (rel, clause) = (secured.access.rel, PolicyClause::Using);
        let mut quals: Vec<Expr> = Vec::new();
        let mut admits = true;
        for command in commands {
            let Some(permissive) = self.permissive(secured, (*command, clause), rel)? else {
                admits = false;
                continue;
            };
            let restrictive = self.restrictive(secured, (*command, clause), rel)?;
            for e in restrictive.into_iter().map(|(_, e)| e).chain([permissive]) {
                if !is_true(&e) && !quals.iter().any(|known| super::same(known, &e)) {
                    quals.push(e);
                }
            }
        }
        Ok(if admits { quals } else { vec![Expr::bool(false)] })
    }

    /// The OR of the permissive policies; None: there are none. PostgreSQL's order is that of names from the last on.
    fn permissive(
        &mut self,
        secured: &SecuredTable,
        (command, clause): (u8, PolicyClause),
        rel: u32,
    ) -> Result<Option<Expr>> {
        let mut all = Vec::new();
        let known = self.binder.accesses.borrow().len();
        for policy in secured.of_command(command, true).rev() {
            if let Some(sql) = clause_of(policy, clause) {
                all.push(self.condition(secured, (policy, sql), rel)?);
            }
        }
        if all.iter().any(is_true) {
            // The others are never asked.
            self.binder.accesses.borrow_mut().truncate(known);
            return Ok(Some(Expr::bool(true)));
        }
        Ok(match all.len() {
            0 => None,
            1 => all.pop(),
            _ => Some(Expr::new(ExprKind::Or(all), kilndb_types::oids::BOOL)),
        })
    }

    fn restrictive(
        &mut self,
        secured: &SecuredTable,
        (command, clause): (u8, PolicyClause),
        rel: u32,
    ) -> Result<Vec<(String, Expr)>> {
        let mut all = Vec::new();
        for policy in secured.of_command(command, false) {
            if let Some(sql) = clause_of(policy, clause) {
                all.push((policy.name.clone(), self.condition(secured, (policy, sql), rel)?));
            }
        }
        Ok(all)
    }

    /// A policy's expression over the rows of `rel`, for whom the table is read. Its subqueries get the policies of
    /// their own tables.
    fn condition(&mut self, secured: &SecuredTable, (policy, sql): (&Policy, &str), rel: u32) -> Result<Expr> {
        let table = &secured.access.table;
        let mut condition = self.bound(secured, sql, rel)?;
        if rel != secured.access.rel {
            condition.rewrite(&mut |e| {
                place_new_row(e, rel, table.oid);
                Ok(())
            })?;
        }
        if self.under_way.contains(&table.oid) {
            self.refuse_recursion(secured, policy, rel)?;
        }
        if condition.has_sublink() {
            self.under_way.push(table.oid);
            let done = self.subqueries_of(&mut condition);
            self.under_way.pop();
            done?;
        }
        Ok(condition)
    }

    fn bound(&self, secured: &SecuredTable, sql: &str, rel: u32) -> Result<Expr> {
        let before = self.binder.replace_check_as(secured.access.check_as);
        let bound = self.binder.bind_catalog_sql(sql, &secured.access.table, rel);
        self.binder.replace_check_as(before);
        self.binder.coerce_bool(bound?, "POLICY")
    }

    /// 42P17 for a policy with a subquery in either of its expressions, of a table whose policies are under way.
    fn refuse_recursion(&self, secured: &SecuredTable, policy: &Policy, rel: u32) -> Result<()> {
        for sql in policy.using_sql.iter().chain(&policy.check_sql) {
            if self.bound(secured, sql, rel)?.has_sublink() {
                let name = &secured.access.table.name;
                let message = format!("infinite recursion detected in policy for relation \"{name}\"");
                return Err(Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message));
            }
        }
        Ok(())
    }
}

fn is_true(e: &Expr) -> bool {
    matches!(e.as_const(), Some(Datum::Bool(true)))
}

/// A new row is checked before it has a place: its ctid is PostgreSQL's invalid one.
fn place_new_row(e: &mut Expr, rel: u32, table: Oid) {
    let ExprKind::Column(column) = &e.kind else { return };
    match (column.rel == rel, column.att) {
        (true, ATT_CTID) => e.kind = ExprKind::Const(Datum::Tid(u32::MAX, 0)),
        (true, ATT_TABLEOID) => e.kind = ExprKind::Const(Datum::Oid(table)),
        _ => {}
    }
}

impl SecuredTable {
    fn of_command(&self, command: u8, is_permissive: bool) -> impl DoubleEndedIterator<Item = &Policy> {
        self.policies
            .iter()
            .filter(move |p| p.is_permissive == is_permissive && (p.command == command || p.command == b'*'))
    }
}

fn clause_of(policy: &Policy, clause: PolicyClause) -> Option<&str> {
    let check = policy.check_sql.as_deref().filter(|_| clause == PolicyClause::Check);
    check.or(policy.using_sql.as_deref())
}

/// The checks of rows that one statement writes or is about to change.
struct CheckList<'l, 'r, 'c> {
    rewriter: &'l mut RowSecurityRewriter<'r, 'c>,
    secured: &'l SecuredTable,
    dml: &'l Dml,
    /// The statement reads rows of the table.
    reads: bool,
    list: Vec<RowCheck>,
}

impl CheckList<'_, '_, '_> {
    fn of_insert(&mut self) -> Result<()> {
        use PolicyClause::{Check, Using};
        self.add(RowCheckKind::Insert, INSERT, Check)?;
        if self.reads {
            self.add(RowCheckKind::Insert, SELECT, Using)?;
        }
        if self.dml.on_conflict.as_ref().is_none_or(|on_conflict| on_conflict.update.is_none()) {
            return Ok(());
        }
        self.add(RowCheckKind::Conflict, UPDATE, Using)?;
        if self.reads {
            self.add(RowCheckKind::Conflict, SELECT, Using)?;
        }
        self.of_update()
    }

    fn of_update(&mut self) -> Result<()> {
        self.add(RowCheckKind::Update, UPDATE, PolicyClause::Check)?;
        if self.reads {
            self.add(RowCheckKind::Update, SELECT, PolicyClause::Using)?;
        }
        Ok(())
    }

    fn of_merge(&mut self) -> Result<()> {
        use PolicyClause::{Check, Using};
        self.add(RowCheckKind::MergeUpdate, UPDATE, Using)?;
        self.of_update()?;
        self.add(RowCheckKind::MergeDelete, DELETE, Using)?;
        self.add(RowCheckKind::Insert, INSERT, Check)?;
        if self.reads && !self.dml.returning.is_empty() {
            self.add(RowCheckKind::Insert, SELECT, Using)?;
        }
        Ok(())
    }

    /// The check of all permissive policies of a command, then one for each that is restrictive.
    fn add(&mut self, kind: RowCheckKind, command: u8, clause: PolicyClause) -> Result<()> {
        let rel = match kind {
            RowCheckKind::Insert | RowCheckKind::Update | RowCheckKind::View => self.dml.new_rel,
            _ => self.dml.rel,
        };
        let Some(permissive) = self.rewriter.permissive(self.secured, (command, clause), rel)? else {
            self.list.push(RowCheck { kind, policy: None, condition: Expr::bool(false) });
            return Ok(());
        };
        let mut found = vec![(None, permissive)];
        for (name, condition) in self.rewriter.restrictive(self.secured, (command, clause), rel)? {
            found.push((Some(name), condition));
        }
        for (policy, condition) in found {
            let is_known = |c: &RowCheck| c.kind == kind && c.policy == policy && super::same(&c.condition, &condition);
            if !is_true(&condition) && !self.list.iter().any(is_known) {
                self.list.push(RowCheck { kind, policy, condition });
            }
        }
        Ok(())
    }
}
