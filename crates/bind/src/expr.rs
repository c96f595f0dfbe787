//! Expressions of the grammar to bound expressions.

use super::Binder;
use super::ir::*;
use super::object_address::ObjectAddress;
use super::scope::Scope;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_syntax::{ConstValue, Node, nodes, raw};
use kilndb_types::types::{KeySubscript, descriptor};
use kilndb_types::{Datum, oids};

impl Binder<'_> {
    pub(crate) fn bind_expr(&self, node: Node<'_>, scope: &Scope<'_>) -> Result<Expr> {
        kilndb_base::stack::check()?;
        let e = self.bind_node(node, scope)?;
        self.check_collation(&e)?;
        Ok(e)
    }

    fn bind_node(&self, node: Node<'_>, scope: &Scope<'_>) -> Result<Expr> {
        match node {
            Node::ColumnRef(c) => self.bind_column_ref(c, scope),
            Node::A_Const(c) => self.bind_const(c),
            Node::ParamRef(p) => self.bind_param(p),
            Node::A_Expr(x) => self.bind_a_expr(x, scope),
            Node::BoolExpr(x) => self.bind_bool(x, scope),
            Node::FuncCall(f) => self.bind_func_call(f, scope),
            Node::TypeCast(c) => self.bind_type_cast(c, scope),
            Node::CaseExpr(c) => self.bind_case(c, scope),
            Node::CoalesceExpr(c) => self.bind_coalesce(c, scope),
            Node::MinMaxExpr(m) => self.bind_minmax(m, scope),
            Node::SubLink(s) => self.bind_sublink(s, scope),
            Node::NullTest(t) => self.bind_null_test(t, scope),
            Node::BooleanTest(t) => self.bind_bool_test(t, scope),
            Node::SQLValueFunction(f) => self.bind_sql_value(f),
            Node::A_ArrayExpr(a) => self.bind_array(a, scope, None),
            Node::A_Indirection(i) => self.bind_indirection(i, scope),
            Node::RowExpr(r) => self.bind_row(r, scope),
            Node::CollateClause(c) => self.bind_collate(c, scope),
            Node::GroupingFunc(g) => self.bind_grouping(g, scope),
            Node::SetToDefault(d) => Ok(Expr::new(ExprKind::Default, oids::UNKNOWN).at(d.location)),
            Node::CurrentOfExpr(c) => {
                Ok(Expr::new(ExprKind::CurrentOf(c.cursor_name().unwrap_or("").to_string()), oids::BOOL))
            }
            Node::MergeSupportFunc(m) => self.bind_merge_action(m, scope),
            Node::JsonObjectConstructor(o) => self.bind_json_object(o, scope),
            Node::JsonArrayConstructor(a) => self.bind_json_array(a, scope),
            other => {
                let text = format!("{other:?}");
                let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                Err(Error::unsupported(format!("expression {name} is not supported")))
            }
        }
    }

    pub(crate) fn bind_exprs(&self, list: &kilndb_syntax::NodeList, scope: &Scope<'_>) -> Result<Vec<Expr>> {
        list.iter().map(|n| self.bind_expr(n, scope)).collect()
    }

    #[inline(never)]
    fn bind_const(&self, c: &nodes::A_Const) -> Result<Expr> {
        let loc = c.location;
        if c.isnull {
            return Ok(Expr::null(oids::UNKNOWN).at(loc));
        }
        let e = match c.val() {
            Some(ConstValue::Integer(i)) => Expr::new(ExprKind::Const(Datum::Int4(i)), oids::INT4),
            Some(ConstValue::Float(f)) => {
                if let Ok(i) = f.parse::<i64>() {
                    // The least one is written with a sign before a number that is too large.
                    match i32::try_from(i) {
                        Ok(i) => Expr::new(ExprKind::Const(Datum::Int4(i)), oids::INT4),
                        Err(_) => Expr::new(ExprKind::Const(Datum::Int8(i)), oids::INT8),
                    }
                } else if let Some(i) = radix_integer(f) {
                    match i32::try_from(i) {
                        Ok(i) => Expr::new(ExprKind::Const(Datum::Int4(i)), oids::INT4),
                        Err(_) => Expr::new(ExprKind::Const(Datum::Int8(i)), oids::INT8),
                    }
                } else {
                    self.literal(f, oids::NUMERIC, loc)?
                }
            }
            Some(ConstValue::Boolean(b)) => Expr::bool(b),
            Some(ConstValue::String(s)) => Expr::new(ExprKind::Const(Datum::text(s)), oids::UNKNOWN),
            Some(ConstValue::BitString(s)) => self.literal(s, oids::BIT, loc)?,
            _ => return Err(Error::internal("unknown constant")),
        };
        Ok(e.at(loc))
    }

    #[inline(never)]
    fn bind_param(&self, p: &nodes::ParamRef) -> Result<Expr> {
        let number = p.number;
        if let Some(variables) = self.variables {
            return self.numbered_variable(variables, number, p.location);
        }
        if number <= 0 || number > 65535 || !self.allow_params {
            return self.err(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"), p.location);
        }
        let index = number as usize - 1;
        let mut params = self.params.borrow_mut();
        if params.len() <= index {
            params.resize(index + 1, 0);
        }
        let ty = if params[index] == 0 { oids::UNKNOWN } else { params[index] };
        drop(params);
        if self.under_domain(ty).is_some() {
            // Read as the type under it, and looked at here.
            let value = Expr::new(ExprKind::Param(index as u32), self.base_type(ty)).at(p.location);
            return Ok(self.to_domain(value, ty, false));
        }
        Ok(Expr::new(ExprKind::Param(index as u32), ty).at(p.location))
    }

    fn bind_column_ref(&self, c: &nodes::ColumnRef, scope: &Scope<'_>) -> Result<Expr> {
        match self.variables.filter(|_| !self.hides_variables.get()) {
            Some(variables) => self.column_or_variable(variables, c, scope),
            None => self.bind_plain_column_ref(c, scope),
        }
    }

    /// An error for a column's name with more in front of it than the session's database, a schema and a table.
    /// `star`: it stands for all columns.
    pub(super) fn refuse_other_database(&self, names: &[&str], star: bool, loc: i32) -> Result<()> {
        let shown = || names.iter().copied().chain(star.then_some("*")).collect::<Vec<_>>().join(".");
        match (names.len() + usize::from(star), names) {
            (..=3, _) => Ok(()),
            (4, [database, ..]) if *database == self.catalog.database_name() => Ok(()),
            (4, _) => Err(self.at(kilndb_catalog::qualified_name::other_database(&shown()), loc)),
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", shown());
                self.err(sqlstate::SYNTAX_ERROR, message, loc)
            }
        }
    }

    #[inline(never)]
    pub(super) fn bind_plain_column_ref(&self, c: &nodes::ColumnRef, scope: &Scope<'_>) -> Result<Expr> {
        let loc = c.location;
        let mut names: Vec<&str> = Vec::new();
        let mut star = false;
        for f in c.fields() {
            match f {
                Node::String(s) => names.push(s.sval().unwrap_or("")),
                Node::A_Star(_) => star = true,
                _ => {}
            }
        }
        self.refuse_other_database(&names, star, loc)?;
        if star {
            // A whole row, where a row may stand (count(t.*), ROW(t.*) is expanded elsewhere).
            let item = match names.as_slice() {
                [t] => self.resolve_item(scope, None, t, loc)?,
                [.., s, t] => self.resolve_item(scope, Some(s), t, loc)?,
                [] => return self.err(sqlstate::SYNTAX_ERROR, "row expansion via \"*\" is not supported here", loc),
            };
            return match item {
                Some(i) => {
                    self.note_row_table(i, false, loc);
                    self.refuse_sequence_row(i)?;
                    Ok(self.whole_row(i, loc))
                }
                None => Err(self.missing_table(scope, None, names.last().copied().unwrap_or(""), loc)),
            };
        }
        match names.as_slice() {
            [name] => {
                if let Some(e) = self.resolve_column(scope, name, loc)? {
                    return Ok(e);
                }
                if let Some(item) = self.resolve_item(scope, None, name, loc)? {
                    self.note_row_table(item, true, loc);
                    self.refuse_sequence_row(item)?;
                    return Ok(self.whole_row(item, loc));
                }
                Err(self.missing_column(scope, None, name, loc))
            }
            [table, name] => {
                let Some(item) = self.resolve_item(scope, None, table, loc)? else {
                    // A composite column's field needs parentheses in SQL; report the missing table.
                    return Err(self.missing_table(scope, None, table, loc));
                };
                self.note_row_table(item, false, loc);
                if let Some(e) = self.item_column(item, name, loc)? {
                    return Ok(e);
                }
                let row = self.whole_row(item, loc);
                if item.row_type != oids::RECORD
                    && let Some(e) = self.function_of_row(row, name, loc)?
                {
                    return Ok(e);
                }
                Err(self.missing_column(scope, Some(table), name, loc))
            }
            [.., schema, table, name] => {
                let Some(item) = self.resolve_item(scope, Some(schema), table, loc)? else {
                    return Err(self.missing_table(scope, Some(schema), table, loc));
                };
                if self.resolve_item(scope, None, table, loc).is_ok_and(|i| i.is_some_and(|i| i.rel == item.rel)) {
                    self.note_row_schema(item, loc);
                }
                match self.item_column(item, name, loc)? {
                    Some(e) => Ok(e),
                    None => Err(self.missing_column(scope, Some(table), name, loc)),
                }
            }
            [] => Err(Error::internal("a column without a name")),
        }
    }

    /// `row.f` meaning `f(row)`.
    fn function_of_row(&self, row: Expr, name: &str, loc: i32) -> Result<Option<Expr>> {
        let list = self.candidates(None, name, 1, &[None], false)?;
        match self.choose_function(&[row.ty], list)? {
            super::resolve::CandidateChoice::One(c) if c.info.kind == b'f' && c.args.first() == Some(&row.ty) => {
                let (args, ty) = self.call_arguments(&c, vec![row], loc)?;
                let f = FuncExpr {
                    oid: c.info.oid,
                    name: c.info.name.as_str().into(),
                    args,
                    strict: c.info.strict,
                    volatility: c.info.volatility,
                    returns_set: c.info.returns_set,
                    form: FuncForm::Call,
                    operator: 0,
                    variadic: false,
                    internal: c.info.language == "internal",
                    expected: None,
                };
                Ok(Some(Expr::new(ExprKind::Func(Box::new(f)), ty).at(loc)))
            }
            _ => Ok(None),
        }
    }

    /// Fields of a row-valued expression: (name, type, typmod).
    pub(crate) fn fields_of(&self, e: &Expr) -> Result<Option<Vec<(String, Oid, i32)>>> {
        let composite = if e.ty == oids::RECORD { None } else { self.relation_of_type(e.ty)? };
        if let ExprKind::Row { fields, names } = &e.kind
            && composite.is_none()
        {
            let list = fields
                .iter()
                .enumerate()
                .map(|(i, f)| (names.get(i).cloned().unwrap_or_else(|| format!("f{}", i + 1)), f.ty, f.typmod))
                .collect();
            return Ok(Some(list));
        }
        if let (ExprKind::Param(p), Some(variables)) = (&e.kind, self.variables)
            && let Some(v) = variables.variable(*p)
            && let Some(row) = variables.scope.row_of(v.number)?
        {
            return Ok(Some(row.columns.iter().map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect()));
        }
        if let Some(table) = composite {
            let list =
                table.columns.iter().filter(|c| !c.dropped).map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect();
            return Ok(Some(list));
        }
        if let ExprKind::Func(f) = &e.kind
            && let Some(info) = self.catalog.function_by_oid(f.oid)?
        {
            let out: Vec<(String, Oid, i32)> = info
                .arg_modes
                .iter()
                .zip(&info.all_arg_types)
                .enumerate()
                .filter(|(_, (m, _))| matches!(m, b'o' | b'b' | b't'))
                .map(|(i, (_, t))| (info.arg_names.get(i).cloned().unwrap_or_default(), *t, -1))
                .collect();
            if out.len() > 1 {
                return Ok(Some(out));
            }
        }
        if let ExprKind::SubLink(s) = &e.kind
            && let Some(t) = s.query.targets.iter().find(|t| !t.junk)
        {
            return self.fields_of(&t.expr);
        }
        Ok(None)
    }

    pub(crate) fn field_of(&self, e: Expr, name: &str, loc: i32) -> Result<Option<Expr>> {
        let Some(fields) = self.fields_of(&e)? else { return Ok(None) };
        let Some(index) = fields.iter().position(|f| f.0 == name) else { return Ok(None) };
        self.note_field(e.ty, name, loc)?;
        if let ExprKind::Row { fields, .. } = &e.kind
            && let Some(f) = fields.get(index)
        {
            return Ok(Some(f.clone().at(loc)));
        }
        let (name, ty, typmod) = fields[index].clone();
        Ok(Some(Expr::new(ExprKind::Field { arg: Box::new(e), index, name }, ty).with_typmod(typmod).at(loc)))
    }

    /// The relation whose columns are a composite type's fields.
    fn relation_of_type(&self, ty: Oid) -> Result<Option<std::sync::Arc<kilndb_catalog::Table>>> {
        match self.catalog.type_by_oid(self.base_type(ty))? {
            Some(info) if info.kind == b'c' => self.catalog.table_by_oid(info.table_oid),
            _ => Ok(None),
        }
    }

    /// A field of a named composite type is a column of its relation.
    fn note_field(&self, row_type: Oid, name: &str, loc: i32) -> Result<()> {
        if self.wanted_names().is_none() {
            return Ok(());
        }
        if let Some(table) = self.relation_of_type(row_type)?
            && let Some(column) = table.columns.iter().find(|c| !c.dropped && c.name == name)
        {
            self.note_field_name(ObjectAddress::column(table.oid, column.attnum), name, loc);
        }
        Ok(())
    }

    #[inline(never)]
    fn bind_type_cast(&self, c: &nodes::TypeCast, scope: &Scope<'_>) -> Result<Expr> {
        let Some(name) = c.type_name() else { return Err(Error::internal("a cast without a type")) };
        let (ty, typmod) = self.resolve_type(name)?;
        let loc = if c.location < 0 { name.location } else { c.location };
        if let Node::A_ArrayExpr(a) = c.arg() {
            let element = self.element_of(ty);
            if element != 0 {
                let array = self.base_type(ty);
                let e = self.bind_array(a, scope, Some((array, element)))?;
                return self.explicit_cast(e, ty, typmod, loc);
            }
        }
        let mut e = self.bind_expr(c.arg(), scope)?;
        if e.loc < 0 {
            e.loc = loc;
        }
        self.explicit_cast(e, ty, typmod, loc)
    }

    #[inline(never)]
    fn bind_bool(&self, x: &nodes::BoolExpr, scope: &Scope<'_>) -> Result<Expr> {
        let (name, loc) = match x.boolop {
            raw::BoolExprType::AND_EXPR => ("AND", x.location),
            raw::BoolExprType::OR_EXPR => ("OR", x.location),
            _ => ("NOT", x.location),
        };
        let mut args = Vec::with_capacity(x.args().len());
        for a in x.args() {
            let e = self.bind_expr(a, scope)?;
            args.push(self.coerce_bool(e, name)?);
        }
        let kind = match name {
            "AND" => ExprKind::And(args),
            "OR" => ExprKind::Or(args),
            _ => ExprKind::Not(Box::new(args.pop().ok_or_else(|| Error::internal("NOT of nothing"))?)),
        };
        Ok(Expr::new(kind, oids::BOOL).at(loc))
    }

    #[inline(never)]
    fn bind_case(&self, c: &nodes::CaseExpr, scope: &Scope<'_>) -> Result<Expr> {
        let arg = match c.arg() {
            Node::None => None,
            node => {
                let e = self.bind_expr(node, scope)?;
                Some(self.resolve_unknown(e)?)
            }
        };
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for w in c.args() {
            let Node::CaseWhen(w) = w else { continue };
            let condition = self.bind_expr(w.expr(), scope)?;
            let condition = match &arg {
                Some(a) => {
                    let test = Expr::new(ExprKind::CaseArg, a.ty).with_typmod(a.typmod).at(a.loc).collated(a.collation);
                    self.make_operator(None, "=", Some(test), condition, w.location)?
                }
                None => condition,
            };
            conditions.push(self.coerce_bool(condition, "CASE/WHEN")?);
            results.push(self.bind_expr(w.result(), scope)?);
        }
        let has_else = !matches!(c.defresult(), Node::None);
        let otherwise = if has_else { self.bind_expr(c.defresult(), scope)? } else { Expr::null(oids::UNKNOWN) };
        // PostgreSQL lets the ELSE come first when it looks for the common type.
        let mut all: Vec<&Expr> = vec![&otherwise];
        all.extend(results.iter());
        let ty = self.common_type(&all, "CASE")?;
        let otherwise = self.coerce_to_common(otherwise, ty, "CASE/ELSE")?;
        let results =
            results.into_iter().map(|r| self.coerce_to_common(r, ty, "CASE/WHEN")).collect::<Result<Vec<_>>>()?;
        let mut typed = results.clone();
        if has_else {
            typed.push(otherwise.clone());
        }
        let typmod = Self::common_typmod(&typed, ty);
        let whens = conditions.into_iter().zip(results).collect();
        let kind = ExprKind::Case { arg: arg.map(Box::new), whens, otherwise: Some(Box::new(otherwise)) };
        Ok(Expr::new(kind, ty).with_typmod(typmod).at(c.location))
    }

    pub(crate) fn to_common(&self, exprs: Vec<Expr>, name: &str) -> Result<(Vec<Expr>, Oid)> {
        let ty = self.common_type(&exprs.iter().collect::<Vec<_>>(), name)?;
        let exprs = exprs.into_iter().map(|e| self.coerce_to_common(e, ty, name)).collect::<Result<Vec<_>>>()?;
        Ok((exprs, ty))
    }

    #[inline(never)]
    fn bind_coalesce(&self, c: &nodes::CoalesceExpr, scope: &Scope<'_>) -> Result<Expr> {
        let (args, ty) = self.to_common(self.bind_exprs(c.args(), scope)?, "COALESCE")?;
        let typmod = Self::common_typmod(&args, ty);
        Ok(Expr::new(ExprKind::Coalesce(args), ty).with_typmod(typmod).at(c.location))
    }

    #[inline(never)]
    fn bind_minmax(&self, m: &nodes::MinMaxExpr, scope: &Scope<'_>) -> Result<Expr> {
        let greatest = m.op == raw::MinMaxOp::IS_GREATEST;
        let name = if greatest { "GREATEST" } else { "LEAST" };
        let (args, ty) = self.to_common(self.bind_exprs(m.args(), scope)?, name)?;
        let typmod = Self::common_typmod(&args, ty);
        if self.catalog.ordering_operators(ty)?.is_none() {
            return self.err(
                sqlstate::UNDEFINED_FUNCTION,
                format!("could not identify a comparison function for type {}", self.type_name(ty)),
                m.location,
            );
        }
        Ok(Expr::new(ExprKind::MinMax { greatest, args }, ty).with_typmod(typmod).at(m.location))
    }

    #[inline(never)]
    fn bind_null_test(&self, t: &nodes::NullTest, scope: &Scope<'_>) -> Result<Expr> {
        let arg = self.bind_expr(t.arg(), scope)?;
        let arg = if arg.ty == oids::UNKNOWN && matches!(arg.kind, ExprKind::Param(_)) {
            self.resolve_unknown(arg)?
        } else {
            arg
        };
        let negated = t.nulltesttype == raw::NullTestType::IS_NOT_NULL;
        Ok(Expr::new(ExprKind::IsNull { arg: Box::new(arg), negated }, oids::BOOL).at(t.location))
    }

    #[inline(never)]
    fn bind_bool_test(&self, t: &nodes::BooleanTest, scope: &Scope<'_>) -> Result<Expr> {
        use raw::BoolTestType as B;
        let (test, name) = match t.booltesttype {
            B::IS_TRUE => (BoolTestKind::True, "IS TRUE"),
            B::IS_NOT_TRUE => (BoolTestKind::NotTrue, "IS NOT TRUE"),
            B::IS_FALSE => (BoolTestKind::False, "IS FALSE"),
            B::IS_NOT_FALSE => (BoolTestKind::NotFalse, "IS NOT FALSE"),
            B::IS_UNKNOWN => (BoolTestKind::Unknown, "IS UNKNOWN"),
            _ => (BoolTestKind::NotUnknown, "IS NOT UNKNOWN"),
        };
        let arg = self.bind_expr(t.arg(), scope)?;
        let arg = self.coerce_bool(arg, name)?;
        Ok(Expr::new(ExprKind::BoolTest { arg: Box::new(arg), test }, oids::BOOL).at(t.location))
    }

    #[inline(never)]
    fn bind_sql_value(&self, f: &nodes::SQLValueFunction) -> Result<Expr> {
        use raw::SQLValueFunctionOp as S;
        let (value, ty, precision) = match f.op {
            S::SVFOP_CURRENT_DATE => (SqlValue::CurrentDate, oids::DATE, false),
            S::SVFOP_CURRENT_TIME => (SqlValue::CurrentTime, oids::TIMETZ, false),
            S::SVFOP_CURRENT_TIME_N => (SqlValue::CurrentTime, oids::TIMETZ, true),
            S::SVFOP_CURRENT_TIMESTAMP => (SqlValue::CurrentTimestamp, oids::TIMESTAMPTZ, false),
            S::SVFOP_CURRENT_TIMESTAMP_N => (SqlValue::CurrentTimestamp, oids::TIMESTAMPTZ, true),
            S::SVFOP_LOCALTIME => (SqlValue::LocalTime, oids::TIME, false),
            S::SVFOP_LOCALTIME_N => (SqlValue::LocalTime, oids::TIME, true),
            S::SVFOP_LOCALTIMESTAMP => (SqlValue::LocalTimestamp, oids::TIMESTAMP, false),
            S::SVFOP_LOCALTIMESTAMP_N => (SqlValue::LocalTimestamp, oids::TIMESTAMP, true),
            S::SVFOP_CURRENT_ROLE | S::SVFOP_CURRENT_USER | S::SVFOP_USER => (SqlValue::CurrentUser, oids::NAME, false),
            S::SVFOP_SESSION_USER => (SqlValue::SessionUser, oids::NAME, false),
            S::SVFOP_CURRENT_CATALOG => (SqlValue::CurrentCatalog, oids::NAME, false),
            _ => (SqlValue::CurrentSchema, oids::NAME, false),
        };
        let e = Expr::new(ExprKind::SqlValue(value), ty).at(f.location);
        if !precision {
            return Ok(e);
        }
        let typmod = f.typmod.clamp(0, 6);
        let kind = ExprKind::Cast { arg: Box::new(e), kind: CastKind::Typmod, explicit: true };
        Ok(Expr::new(kind, ty).with_typmod(typmod).at(f.location))
    }

    #[inline(never)]
    pub(crate) fn bind_array(
        &self,
        a: &nodes::A_ArrayExpr,
        scope: &Scope<'_>,
        target: Option<(Oid, Oid)>,
    ) -> Result<Expr> {
        let mut elements = Vec::new();
        let mut multidim = false;
        for e in a.elements() {
            if let Node::A_ArrayExpr(inner) = e {
                multidim = true;
                elements.push(self.bind_array(inner, scope, target)?);
            } else {
                let bound = self.bind_expr(e, scope)?;
                multidim |= self.element_of(bound.ty) != 0;
                elements.push(bound);
            }
        }
        if let Some((array, element)) = target {
            let to = if multidim { array } else { element };
            let elements = elements
                .into_iter()
                .map(|e| {
                    let loc = e.loc;
                    self.explicit_cast(e, to, -1, loc)
                })
                .collect::<Result<Vec<_>>>()?;
            return Ok(Expr::new(ExprKind::Array { elements, element_type: element, multidim }, array).at(a.location));
        }
        if elements.is_empty() {
            let e = Error::new(sqlstate::INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].");
            return Err(self.at(e, a.location));
        }
        let (elements, ty) = self.to_common(elements, "ARRAY")?;
        let (array, element) = if multidim { (ty, self.element_of(ty)) } else { (self.array_of(ty), ty) };
        if array == 0 || element == 0 {
            return self.err(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", self.type_name(ty)),
                a.location,
            );
        }
        Ok(Expr::new(ExprKind::Array { elements, element_type: element, multidim }, array).at(a.location))
    }

    #[inline(never)]
    fn bind_indirection(&self, i: &nodes::A_Indirection, scope: &Scope<'_>) -> Result<Expr> {
        let base = self.bind_expr(i.arg(), scope)?;
        self.apply_indirection(base, i.indirection(), scope)
    }

    pub(crate) fn apply_indirection(
        &self,
        base: Expr,
        list: &kilndb_syntax::NodeList,
        scope: &Scope<'_>,
    ) -> Result<Expr> {
        let mut e = base;
        let mut pending: Vec<(Option<Expr>, Option<Expr>, bool)> = Vec::new();
        for step in list {
            match step {
                Node::A_Indices(ix) => pending.push(self.bind_indices(ix, scope, e.ty)?),
                Node::String(s) => {
                    e = self.subscript(e, std::mem::take(&mut pending))?;
                    let name = s.sval().unwrap_or("");
                    let loc = e.loc;
                    let ty = e.ty;
                    let row = e.clone();
                    e = match self.field_of(e, name, loc)? {
                        Some(f) => f,
                        None => match self.function_of_row(row, name, loc)? {
                            Some(f) => f,
                            None if self.is_composite(ty) => {
                                return self.err(
                                    sqlstate::UNDEFINED_COLUMN,
                                    format!("column \"{name}\" not found in data type {}", self.type_name(ty)),
                                    loc,
                                );
                            }
                            None if ty == oids::RECORD => {
                                return self.err(
                                    sqlstate::UNDEFINED_COLUMN,
                                    format!("could not identify column \"{name}\" in record data type"),
                                    loc,
                                );
                            }
                            None => {
                                return self.err(
                                    sqlstate::WRONG_OBJECT_TYPE,
                                    format!(
                                        "column notation .{name} applied to type {}, which is not a composite type",
                                        self.type_name(ty)
                                    ),
                                    loc,
                                );
                            }
                        },
                    };
                }
                _ => {
                    return self.err(
                        sqlstate::FEATURE_NOT_SUPPORTED,
                        "row expansion via \"*\" is not supported here",
                        e.loc,
                    );
                }
            }
        }
        self.subscript(e, pending)
    }

    pub(crate) fn bind_indices(
        &self,
        ix: &nodes::A_Indices,
        scope: &Scope<'_>,
        container: Oid,
    ) -> Result<(Option<Expr>, Option<Expr>, bool)> {
        let one = |n: Node<'_>| -> Result<Option<Expr>> {
            if matches!(n, Node::None) {
                return Ok(None);
            }
            let e = self.bind_expr(n, scope)?;
            if let Some(by) = self.key_subscript(container) {
                let loc = e.loc;
                return match self.coerce_to_target(e, by.key, -1, kilndb_catalog::CastContext::Assignment, false)? {
                    Ok(key) => Ok(Some(key)),
                    Err(_) => {
                        let message = format!("{} subscript must have type {}", by.type_name, self.type_name(by.key));
                        self.err(sqlstate::DATATYPE_MISMATCH, message, loc)
                    }
                };
            }
            if self.base_type(container) == oids::JSONB {
                let to = match self.base_type(e.ty) {
                    oids::INT2 | oids::INT4 => oids::INT4,
                    _ if e.ty == oids::UNKNOWN || self.category(e.ty).0 == b'S' => oids::TEXT,
                    ty => {
                        let error = Error::new(
                            sqlstate::DATATYPE_MISMATCH,
                            format!("subscript type {} is not supported", self.type_name(ty)),
                        )
                        .with_hint("jsonb subscript must be coercible to either integer or text.");
                        return Err(self.at(error, e.loc));
                    }
                };
                return Ok(Some(self.coerce(e, to, kilndb_catalog::CastContext::Assignment)?));
            }
            match self.coerce_to_target(e, oids::INT4, -1, kilndb_catalog::CastContext::Assignment, false)? {
                Ok(e) => Ok(Some(e)),
                Err(e) => self.err(sqlstate::DATATYPE_MISMATCH, "array subscript must have type integer", e.loc),
            }
        };
        Ok((one(ix.lidx())?, one(ix.uidx())?, ix.is_slice))
    }

    /// How values of the type are subscripted by keys.
    pub(crate) fn key_subscript(&self, container: Oid) -> Option<&'static KeySubscript> {
        descriptor(self.base_type(container)).and_then(|ty| ty.subscript)
    }

    /// The type of the part that subscripts by key lead to; there must be one subscript.
    pub(crate) fn part_by_key(&self, by: &KeySubscript, count: usize, slice: bool) -> Result<Oid> {
        if slice || count != 1 {
            return Err(Error::unsupported(format!("{} allows only one subscript", by.type_name)));
        }
        Ok(by.element)
    }

    fn subscript(&self, e: Expr, steps: Vec<(Option<Expr>, Option<Expr>, bool)>) -> Result<Expr> {
        if steps.is_empty() {
            return Ok(e);
        }
        let loc = e.loc;
        let base = self.base_type(e.ty);
        let slice = steps.iter().any(|s| s.2);
        if base == oids::JSONB && slice {
            return self.err(sqlstate::DATATYPE_MISMATCH, "jsonb subscript does not support slices", loc);
        }
        let by_key = self.key_subscript(base).map(|by| self.part_by_key(by, steps.len(), slice)).transpose()?;
        let ty = match base {
            _ if by_key.is_some() => by_key.unwrap_or_default(),
            oids::JSONB => oids::JSONB,
            oids::INT2VECTOR => oids::INT2,
            oids::OIDVECTOR => oids::OID,
            oids::NAME if slice => return Err(Error::unsupported("slices of fixed-length arrays not implemented")),
            oids::NAME => oids::CHAR,
            _ => {
                let element = self.element_of(base);
                if element == 0 {
                    return self.err(
                        sqlstate::DATATYPE_MISMATCH,
                        format!(
                            "cannot subscript type {} because it does not support subscripting",
                            self.type_name(e.ty)
                        ),
                        loc,
                    );
                }
                if slice { base } else { element }
            }
        };
        let typmod = e.typmod;
        let subscripts = steps
            .into_iter()
            .map(|(lower, upper, is_slice)| {
                // In a slice a plain subscript n means 1:n.
                if slice && !is_slice {
                    Subscript { lower: Some(Expr::new(ExprKind::Const(Datum::Int4(1)), oids::INT4)), upper }
                } else {
                    Subscript { lower, upper }
                }
            })
            .collect();
        Ok(Expr::new(ExprKind::Subscript { arg: Box::new(e), subscripts, slice }, ty).with_typmod(typmod).at(loc))
    }

    #[inline(never)]
    fn bind_row(&self, r: &nodes::RowExpr, scope: &Scope<'_>) -> Result<Expr> {
        let fields = self.bind_row_fields(r, scope)?;
        // A literal waits for the composite type that the row may become one of.
        let settle = |f: Expr| if matches!(f.kind, ExprKind::Const(_)) { Ok(f) } else { self.resolve_unknown(f) };
        let fields = fields.into_iter().map(settle).collect::<Result<Vec<_>>>()?;
        let names = (1..=fields.len()).map(|i| format!("f{i}")).collect();
        Ok(Expr::new(ExprKind::Row { fields, names }, oids::RECORD).at(r.location))
    }

    /// The fields, `t.*` expanded, unknown ones left unknown.
    pub(crate) fn bind_row_fields(&self, r: &nodes::RowExpr, scope: &Scope<'_>) -> Result<Vec<Expr>> {
        let mut fields = Vec::new();
        for a in r.args() {
            if let Node::ColumnRef(c) = a
                && c.fields().iter().any(|f| matches!(f, Node::A_Star(_)))
            {
                fields.extend(self.expand_star(c, scope)?.into_iter().map(|t| t.expr));
            } else {
                fields.push(self.bind_expr(a, scope)?);
            }
        }
        Ok(fields)
    }

    #[inline(never)]
    fn bind_collate(&self, c: &nodes::CollateClause, scope: &Scope<'_>) -> Result<Expr> {
        let arg = self.bind_expr(c.arg(), scope)?;
        // A literal is of the type that its surroundings want.
        if !super::collation::is_collatable(self.base_type(arg.ty)) {
            let e = kilndb_catalog::collation_read::not_collatable(&self.type_name(arg.ty));
            return Err(self.at(e, c.location));
        }
        let (collation, name) = self.collation_written(c)?;
        let (ty, typmod) = (arg.ty, arg.typmod);
        let arg = Box::new(arg);
        let e = Expr::new(ExprKind::Collate { arg, collation, name }, ty).with_typmod(typmod).at(c.location);
        Ok(Expr { collation: super::collation::DerivedCollation::explicit(collation, c.location), ..e })
    }
}

/// 0x…, 0o…, 0b… and digits with underscores.
fn radix_integer(text: &str) -> Option<i64> {
    let clean: String = text.chars().filter(|c| *c != '_').collect();
    let lower = clean.to_ascii_lowercase();
    if let Some(d) = lower.strip_prefix("0x") {
        i64::from_str_radix(d, 16).ok()
    } else if let Some(d) = lower.strip_prefix("0o") {
        i64::from_str_radix(d, 8).ok()
    } else if let Some(d) = lower.strip_prefix("0b") {
        i64::from_str_radix(d, 2).ok()
    } else {
        clean.parse().ok()
    }
}
