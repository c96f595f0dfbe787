//! What is done to the rows of one table that have a key: foreign keys look for such rows, change them or delete them.

use super::*;

/// What is done to the rows that have the key.
#[derive(Clone, Debug)]
pub enum KeyAction {
    /// Looks for one row. With `locks`, the row that is found is locked FOR KEY SHARE.
    Find {
        locks: bool,
    },
    Delete,
    /// Columns, by their places in `Table::columns`, get these values.
    Set(Vec<(usize, NewKeyValue)>),
}

#[derive(Clone, Copy, Debug)]
pub enum NewKeyValue {
    /// The value of the parameter of this number.
    Parameter(usize),
    Null,
    Default,
}

/// A statement on the rows whose columns equal the first parameters.
#[derive(Clone, Debug)]
pub struct KeyQuery<'a> {
    pub table: &'a Arc<Table>,
    /// The key's columns, by their places in `Table::columns`.
    pub columns: &'a [usize],
    /// The types of all parameters: the key's, then those of new values.
    pub parameters: Vec<Oid>,
    pub action: KeyAction,
}

impl EngineQuery for KeyQuery<'_> {
    fn parameter_types(&self) -> Vec<Oid> {
        self.parameters.clone()
    }

    fn bind(&self, catalog: &dyn CatalogView) -> Result<BoundStatement> {
        let binder = binder_of(catalog);
        let kind = match self.action {
            KeyAction::Find { locks } => return self.bind_find(&binder, locks),
            KeyAction::Delete => DmlKind::Delete,
            KeyAction::Set(_) => DmlKind::Update,
        };
        let mut dml = binder.new_dml(kind, self.table.clone());
        dml.is_of_key = true;
        if let KeyAction::Set(values) = &self.action {
            for (place, value) in values {
                dml.assignments
                    .push(Assignment { column: *place, expr: self.new_value(&binder, *place, *value, dml.rel)? });
            }
        }
        match kind {
            DmlKind::Delete => dml.indexes = binder.bind_indexes(self.table, dml.new_rel)?,
            _ => binder.row_rules(self.table, dml.new_rel, &mut dml)?,
        }
        binder.bind_triggers(&mut dml)?;
        let filter = self.has_key(&binder, dml.rel)?;
        Ok(change_of(dml, filter))
    }
}

impl KeyQuery<'_> {
    fn bind_find(&self, binder: &Binder<'_>, locks: bool) -> Result<BoundStatement> {
        let rel = binder.new_rel();
        let one = Expr::new(ExprKind::Const(Datum::Int4(1)), oids::INT4);
        let (strength, wait) = (LockStrength::KeyShare, LockWait::Wait);
        let lock = RowLock { rel, strength, wait, is_inherited: false };
        Ok(statement(Query {
            rels: vec![table_rel(rel, self.table)],
            from: vec![JoinTree::Rel(rel)],
            filter: self.has_key(binder, rel)?,
            targets: vec![target(one, "?column?")],
            limit: one_row(),
            locks: locks.then_some(lock).into_iter().collect(),
            ..Query::default()
        }))
    }

    fn column(&self, place: usize) -> Result<&Column> {
        self.table
            .columns
            .get(place)
            .ok_or_else(|| Error::internal(format!("{} has no column {place}", self.table.name)))
    }

    /// The parameter of this number. One of a domain is the value under it: it has been checked where it came from.
    fn parameter(&self, binder: &Binder<'_>, number: usize) -> Result<Expr> {
        let ty = self.parameters.get(number).ok_or_else(|| Error::internal(format!("no parameter {number}")))?;
        Ok(Expr::new(ExprKind::Param(number as u32), binder.base_type(*ty)))
    }

    fn has_key(&self, binder: &Binder<'_>, rel: u32) -> Result<Option<Expr>> {
        let mut conditions = Vec::with_capacity(self.columns.len());
        for (number, place) in self.columns.iter().enumerate() {
            let key = Expr::of_column(rel, self.column(*place)?);
            let wanted = self.parameter(binder, number)?;
            conditions.push(equality(binder, key, wanted)?);
        }
        Ok(Expr::and_all(conditions))
    }

    fn new_value(&self, binder: &Binder<'_>, place: usize, value: NewKeyValue, rel: u32) -> Result<Expr> {
        let column = self.column(place)?;
        match value {
            NewKeyValue::Parameter(number) => binder.assign(self.parameter(binder, number)?, column, self.table),
            NewKeyValue::Null => binder.assign(Expr::null(oids::UNKNOWN), column, self.table),
            NewKeyValue::Default => binder.default_of(self.table, column, rel),
        }
    }
}
