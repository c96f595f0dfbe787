//! A bound query as an indented tree, with names in place of numbers.

use crate::context::SessionContext;
use kilndb_base::Result;
use kilndb_bind::ir::*;
use kilndb_catalog::{CatalogView, Table};
use kilndb_context::client::Runtime;
use kilndb_plan::shown_text::{ShownNames, ValueNames};
use kilndb_syntax::Statement;
use std::collections::BTreeMap;

/// Binds the statement and shows what became of it. Needs a transaction.
pub fn of_statement(context: &mut SessionContext, statement: &Statement, runtime: &dyn Runtime) -> Result<String> {
    let environment = context.environment(runtime)?;
    let host = environment.host();
    let (node, source) = (statement.node(), statement.source().clone());
    let bound = kilndb_bind::bind_node(node, source, &host.reader, &mut Vec::new(), None, Some(&host.eval()))?;
    let (BoundStatement::Query(query) | BoundStatement::Explain { inner: query, .. }) = bound;
    let mut tree = BoundTree {
        names: ShownNames::of_query(&query),
        catalog: &host.reader,
        pseudo: BTreeMap::new(),
        ctes: BTreeMap::new(),
        subqueries: 0,
        text: String::new(),
        depth: 0,
    };
    tree.query(&query);
    Ok(tree.text)
}

struct BoundTree<'a> {
    names: ShownNames,
    catalog: &'a dyn CatalogView,
    /// Columns of relations that a statement makes of its rows (EXCLUDED, OLD, NEW), by how unknown columns are shown.
    pseudo: BTreeMap<String, String>,
    ctes: BTreeMap<u32, String>,
    subqueries: u32,
    text: String,
    depth: usize,
}

impl BoundTree<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        self.text += &format!("{}{}\n", "  ".repeat(self.depth), text.as_ref());
    }
    fn deeper(&mut self, show: impl FnOnce(&mut Self)) {
        self.depth += 1;
        show(self);
        self.depth -= 1;
    }

    /// An expression as EXPLAIN shows it, and the subqueries in it by number; the trees of these are to follow.
    fn expression(&self, e: &Expr) -> String {
        let mut shown = match &e.kind {
            ExprKind::Window(w) => {
                let args = if w.star { "*".to_string() } else { self.list(&w.args) };
                format!("{}({args}) over window {}", w.name, w.window + 1)
            }
            ExprKind::MergeAction => "merge_action()".to_string(),
            _ => self.names.qualified_text(e, ValueNames { catalog: self.catalog, eval: None }),
        };
        // The longest first: r1.c10 begins as r1.c1 does.
        for (unknown, name) in self.pseudo.iter().rev() {
            shown = shown.replace(unknown.as_str(), name);
        }
        shown
    }
    fn list(&self, expressions: &[Expr]) -> String {
        expressions.iter().map(|e| self.expression(e)).collect::<Vec<_>>().join(", ")
    }
    fn with_type(&self, e: &Expr) -> String {
        format!("{} {}", self.expression(e), self.catalog.format_type(e.ty, e.typmod))
    }
    fn sort_keys(&self, keys: &[SortKey]) -> String {
        let key = |key: &SortKey| {
            let direction = if key.descending { " descending" } else { "" };
            let nulls = if key.nulls_first { ", nulls first" } else { "" };
            format!("{}{direction}{nulls}", self.expression(&key.expr))
        };
        keys.iter().map(key).collect::<Vec<_>>().join("; ")
    }

    /// Gives the subqueries of the level's expressions names before anything of it is shown.
    fn name_subqueries<'q>(&mut self, q: &'q Query) -> Vec<(u32, &'q SubLink)> {
        let mut found: Vec<&SubLink> = Vec::new();
        q.for_exprs(&mut |e| sublinks(e, &mut found));
        let mut named: Vec<(u32, &SubLink)> = Vec::new();
        for link in found {
            if named.iter().all(|(_, other)| other.id != link.id) {
                self.subqueries += 1;
                named.push((self.subqueries, link));
                self.names.name_subplan(link.id, format!("subquery {}", self.subqueries));
            }
        }
        named
    }

    fn query(&mut self, q: &Query) {
        let subqueries = self.name_subqueries(q);
        for cte in &q.ctes {
            self.ctes.insert(cte.id, cte.name.clone());
            let recursive = if cte.recursive { ", recursive" } else { "" };
            self.line(format!("with {}, referred to {} times{recursive}", cte.name, cte.references));
            self.deeper(|tree| tree.query(&cte.query));
        }
        match &q.body {
            QueryBody::Select => self.line("select"),
            QueryBody::Values(rows) => self.line(format!("values of {} rows", rows.len())),
            QueryBody::SetOp { op, all, left, right, rel } => {
                for (at, target) in left.targets.iter().enumerate() {
                    self.pseudo.insert(format!("r{rel}.c{}", at + 1), format!("result.{}", target.name));
                }
                self.line(format!("{op:?}{}", if *all { " all" } else { "" }).to_lowercase());
                self.deeper(|tree| {
                    tree.query(left);
                    tree.query(right);
                });
            }
            QueryBody::Dml(dml) => self.line(format!("{:?} {}", dml.kind, dml.table.name).to_lowercase()),
        }
        self.deeper(|tree| {
            tree.clauses(q);
            for (number, link) in subqueries {
                tree.line(format!("subquery {number}, {:?}", link.kind).to_lowercase());
                tree.deeper(|tree| tree.query(&link.query));
            }
        });
    }

    fn clauses(&mut self, q: &Query) {
        if let QueryBody::Dml(dml) = &q.body {
            self.name_pseudo_relations(dml);
        }
        for target in q.targets.iter().filter(|t| !t.junk) {
            self.line(format!("{}: {}", target.name, self.with_type(&target.expr)));
        }
        for tree in &q.from {
            self.join_tree(q, tree, "from");
        }
        if let Some(filter) = &q.filter {
            self.line(format!("where {}", self.expression(filter)));
        }
        if let QueryBody::Dml(dml) = &q.body {
            self.dml(dml);
        }
        self.grouping(q);
        if !q.order_by.is_empty() {
            self.line(format!("order by {}", self.sort_keys(&q.order_by)));
        }
        match &q.distinct {
            Distinct::No => {}
            Distinct::All => self.line("distinct"),
            Distinct::On(keys) => self.line(format!("distinct on {}", self.list(keys))),
        }
        for (word, bound) in [("limit", &q.limit), ("offset", &q.offset)] {
            if let Some(bound) = bound {
                self.line(format!("{word} {}", self.expression(bound)));
            }
        }
        for lock in &q.locks {
            let relation = self.names.relation(lock.rel).unwrap_or("?").to_string();
            self.line(format!("lock rows of {relation}: {:?}, {:?}", lock.strength, lock.wait).to_lowercase());
        }
    }

    fn grouping(&mut self, q: &Query) {
        if !q.group_by.is_empty() {
            self.line(format!("group by {}", self.list(&q.group_by)));
        }
        if let Some(sets) = &q.grouping_sets {
            self.line(format!("grouping sets of these: {sets:?}"));
        }
        if let Some(having) = &q.having {
            self.line(format!("having {}", self.expression(having)));
        }
        for (number, window) in q.windows.iter().enumerate() {
            let (partition, order) = (self.list(&window.partition), self.sort_keys(&window.order));
            let frame = if window.default_frame { String::new() } else { format!(", frame of {:?}", window.mode) };
            let number = number + 1;
            self.line(format!("window {number}: partition by ({partition}), order by ({order}){frame}").to_lowercase());
        }
    }

    fn join_tree(&mut self, q: &Query, tree: &JoinTree, word: &str) {
        match tree {
            JoinTree::Rel(id) => {
                let Some(rel) = q.rels.iter().find(|rel| rel.id == *id) else { return };
                self.relation(rel, word);
            }
            JoinTree::Join { kind, left, right, on } => {
                let on = on.as_ref().map_or(String::new(), |on| format!(" on {}", self.expression(on)));
                self.line(format!("{word} {} join{on}", format!("{kind:?}").to_lowercase()));
                self.deeper(|inner| {
                    inner.join_tree(q, left, "left");
                    inner.join_tree(q, right, "right");
                });
            }
        }
    }

    fn relation(&mut self, rel: &Rel, word: &str) {
        let alias = self.names.relation(rel.id).unwrap_or(&rel.alias).to_string();
        let lateral = if rel.lateral { "lateral " } else { "" };
        match &rel.kind {
            RelKind::Table(table) if table.name == alias => self.line(format!("{word} table {alias}")),
            RelKind::Table(table) => self.line(format!("{word} table {} as {alias}", table.name)),
            RelKind::Subquery(query) => {
                self.line(format!("{word} {lateral}subquery as {alias}"));
                self.deeper(|tree| tree.query(query));
            }
            RelKind::Function { calls, ordinality } => {
                let calls: Vec<String> = calls.iter().map(|call| self.expression(&call.expr)).collect();
                let ordinality = if *ordinality { " with ordinality" } else { "" };
                self.line(format!("{word} {lateral}function {}{ordinality} as {alias}", calls.join(", ")));
            }
            RelKind::Values(rows) => self.line(format!("{word} values of {} rows as {alias}", rows.len())),
            RelKind::Cte { cte, recursive_self } => {
                let name = self.ctes.get(cte).cloned().unwrap_or_default();
                let itself = if *recursive_self { ", itself" } else { "" };
                self.line(format!("{word} with query {name}{itself} as {alias}"));
            }
            RelKind::Pseudo => self.line(format!("{word} {alias}")),
        }
    }

    /// The relations that ShownNames does not know.
    fn name_pseudo_relations(&mut self, dml: &Dml) {
        // In RETURNING of MERGE, this is the row that is left.
        let excluded = if dml.kind == DmlKind::Merge { "merged" } else { "excluded" };
        let relations = [
            (dml.excluded_rel, excluded),
            (dml.old_values_rel, "old"),
            (dml.old_rel, "old"),
            (dml.new_rel, "new"),
            (dml.rel, dml.table.name.as_str()),
        ];
        for (rel, name) in relations {
            for (at, column) in dml.table.columns.iter().enumerate() {
                self.pseudo.insert(format!("r{rel}.c{}", at + 1), format!("{name}.{}", column.name));
            }
        }
        if let Some(source) = &dml.source {
            for (at, target) in source.targets.iter().enumerate() {
                self.pseudo.insert(format!("r{}.c{}", dml.source_rel, at + 1), format!("source.{}", target.name));
            }
        }
    }

    fn assignments(&mut self, table: &Table, assignments: &[Assignment]) {
        for assignment in assignments {
            let name = table.columns.get(assignment.column).map_or("?", |column| column.name.as_str());
            self.line(format!("{name} := {}", self.with_type(&assignment.expr)));
        }
    }

    fn dml(&mut self, dml: &Dml) {
        if let Some(source) = &dml.source {
            self.line("source");
            self.deeper(|tree| tree.query(source));
        }
        self.assignments(&dml.table, &dml.assignments);
        if !dml.generated.is_empty() {
            self.line("then");
            self.deeper(|tree| tree.assignments(&dml.table, &dml.generated));
        }
        for (name, check) in &dml.checks {
            self.line(format!("check {name}: {}", self.expression(check)));
        }
        if let Some(conflict) = &dml.on_conflict {
            self.on_conflict(dml, conflict);
        }
        if let Some(on) = &dml.merge_on {
            self.line(format!("rows match if {}", self.expression(on)));
        }
        for action in &dml.merge {
            self.merge_action(dml, action);
        }
        for target in &dml.returning {
            self.line(format!("returning {}: {}", target.name, self.with_type(&target.expr)));
        }
    }

    fn on_conflict(&mut self, dml: &Dml, conflict: &OnConflict) {
        let arbiters: Vec<&str> = conflict.arbiters.iter().map(|index| index.name.as_str()).collect();
        let arbiters = if arbiters.is_empty() { "any unique index".into() } else { arbiters.join(", ") };
        self.line(format!("on conflict in {arbiters}"));
        self.deeper(|tree| match &conflict.update {
            None => tree.line("do nothing"),
            Some(update) => {
                tree.assignments(&dml.table, &update.assignments);
                if let Some(filter) = &update.filter {
                    tree.line(format!("where {}", tree.expression(filter)));
                }
            }
        });
    }

    fn merge_action(&mut self, dml: &Dml, action: &MergeAction) {
        let when = match action.when {
            MergeWhen::Matched => "matched",
            MergeWhen::NotMatchedBySource => "not matched by source",
            MergeWhen::NotMatchedByTarget => "not matched by target",
        };
        let condition = action.condition.as_ref().map_or(String::new(), |c| format!(" and {}", self.expression(c)));
        self.line(format!("when {when}{condition}"));
        self.deeper(|tree| match &action.action {
            MergeCommand::Nothing => tree.line("do nothing"),
            MergeCommand::Delete => tree.line("delete"),
            MergeCommand::Update(assignments) => {
                tree.line("update");
                tree.assignments(&dml.table, assignments);
            }
            MergeCommand::Insert(assignments) => {
                tree.line("insert");
                tree.assignments(&dml.table, assignments);
            }
        });
    }
}

fn sublinks<'q>(e: &'q Expr, found: &mut Vec<&'q SubLink>) {
    if let ExprKind::SubLink(link) = &e.kind {
        found.push(link);
    }
    e.for_children(&mut |child| sublinks(child, found));
}
