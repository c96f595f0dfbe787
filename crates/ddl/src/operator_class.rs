//! CREATE OPERATOR CLASS and FAMILY, ALTER OPERATOR FAMILY ADD and DROP. Names, schemas, owners and DROP of classes and
//! families are in `operator_class_objects`; what a partition key does with a user's class is in
//! `catalog::operator_class`.
//!
//! Invariant: a class of users is never a type's default one: sorting, grouping and joins know PostgreSQL's own.

use super::Definitions;
use super::dependency::{Dependency, is_pinned};
use super::operator_class_objects::Kind;
use super::text_search::{FIRST_UNPINNED_OID, split};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::{AccessMethod, BTREE_METHOD, CatalogView, FunctionInfo, HASH_METHOD};
use kilndb_syntax::raw::ObjectType as O;
use kilndb_syntax::{Node, NodeList, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

const ITEM_OPERATOR: i32 = 1;
const ITEM_FUNCTION: i32 = 2;

const INTERNAL: Oid = 2281;

/// An operator or a function of a family.
struct Member {
    is_function: bool,
    /// 0 if it is to go.
    object: Oid,
    number: i32,
    left: Oid,
    right: Oid,
    /// Of an operator that orders.
    sort_family: Oid,
}

impl Member {
    fn word(&self) -> &'static str {
        if self.is_function { "function" } else { "operator" }
    }
}

/// What members are added to. Without a class the family alone.
struct FamilyTarget<'a> {
    method: &'static AccessMethod,
    family: Oid,
    family_names: &'a str,
    /// The class that is being made, and its type.
    class: Option<(Oid, Oid)>,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message.into())
}

fn syntax(message: &str) -> Error {
    Error::new(sqlstate::SYNTAX_ERROR, message)
}

fn superuser_only(what: &str) -> Error {
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("must be superuser to {what}"))
}

fn names_of(list: &kilndb_syntax::CastNodeList<nodes::String>) -> Vec<&str> {
    list.iter().filter_map(|n| n.sval()).collect()
}

impl Definitions<'_> {
    pub(super) fn method_named(&mut self, name: &str) -> Result<&'static AccessMethod> {
        if let Some(found) = self.known_method(name)? {
            return Ok(found);
        }
        if name == "heap" {
            let message = format!("access method \"{name}\" is not of type INDEX");
            return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("access method \"{name}\" does not exist")))
    }

    pub fn create_operator_family(&mut self, s: &nodes::CreateOpFamilyStmt, runtime: &dyn Runtime) -> Result<()> {
        let names = names_of(s.opfamilyname());
        let (schema, _) = self.creation_schema(split(&names).0, false, runtime)?;
        let method = self.method_named(s.amname().unwrap_or(""))?;
        if !self.context().is_superuser() {
            return Err(superuser_only("create an operator family"));
        }
        self.insert_operator_family(split(&names).1, schema, method, runtime).map(|_| ())
    }

    fn insert_operator_family(
        &mut self,
        name: &str,
        schema: Oid,
        method: &AccessMethod,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        self.refuse_same_operator_object(Kind::Family, method, schema, name, false)?;
        let (oid, owner) = (self.new_oid(schema)?, self.context().identity.current_role);
        let row = [
            ("oid", Datum::Oid(oid)),
            ("opfmethod", Datum::Oid(method.oid)),
            ("opfname", Datum::text(name)),
            ("opfnamespace", Datum::Oid(schema)),
            ("opfowner", Datum::Oid(owner)),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_OPFAMILY, &row).map(|_| ()))?;
        Ok(oid)
    }

    /// A row of pg_depend for a member of a family, if what it needs could go.
    fn need(&mut self, dependent: (Oid, Oid), on: (Oid, Oid), kind: u8, runtime: &dyn Runtime) -> Result<()> {
        let (dependent, referenced) =
            (ObjectAddress::object(dependent.0, dependent.1), ObjectAddress::object(on.0, on.1));
        match is_pinned(referenced) {
            true => Ok(()),
            false => self.declare_dependency(Dependency { dependent, referenced, kind }, runtime),
        }
    }

    pub fn create_operator_class(
        &mut self,
        s: &nodes::CreateOpClassStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let names = names_of(s.opclassname());
        let name = split(&names).1;
        let (schema, _) = self.creation_schema(split(&names).0, false, runtime)?;
        let method = self.method_named(s.amname().unwrap_or(""))?;
        if !self.context().is_superuser() {
            return Err(superuser_only("create an operator class"));
        }
        let type_name = s.datatype().ok_or_else(|| Error::internal("an operator class without a type"))?;
        let (type_oid, _) = self.context_mut().resolve_type(type_name, source, runtime)?;
        let given = super::strings(s.opfamilyname());
        let family = match given.as_slice() {
            [] => match self.operator_object_in(Kind::Family, method, schema, name)? {
                Some(known) => known,
                None => self.insert_operator_family(name, schema, method, runtime)?,
            },
            _ => self.operator_object(Kind::Family, method, &given, runtime)?,
        };
        let place = FamilyTarget { method, family, family_names: &given.join("."), class: None };
        let (mut members, mut stored) = (Vec::new(), 0);
        for item in s.items() {
            match item.itemtype {
                ITEM_OPERATOR => members.push(self.operator_member(item, &place, type_oid, source, runtime)?),
                ITEM_FUNCTION => members.push(self.function_member(item, &place, type_oid, source, runtime)?),
                _ if stored != 0 => return Err(invalid("storage type specified more than once")),
                _ => {
                    let ty = item.storedtype().ok_or_else(|| Error::internal("STORAGE without a type"))?;
                    stored = self.context_mut().resolve_type(ty, source, runtime)?.0;
                }
            }
            self.refuse_twice(&members, runtime)?;
        }
        // Kept in indexes as another type.
        if stored != 0 && stored != type_oid && !method.can_store_other_type {
            return Err(invalid(format!(
                "storage type cannot be different from data type for access method \"{}\"",
                method.name
            )));
        }
        self.refuse_same_operator_object(Kind::Class, method, schema, name, false)?;
        if s.is_default {
            self.refuse_default(name, method, (type_name, type_oid))?;
        }
        if !matches!(method.oid, BTREE_METHOD | HASH_METHOD) {
            return Err(Error::unsupported(format!(
                "operator classes of users for access method \"{}\" are not supported",
                method.name
            )));
        }
        let (oid, owner) = (self.new_oid(schema)?, self.context().identity.current_role);
        let row = [
            ("oid", Datum::Oid(oid)),
            ("opcmethod", Datum::Oid(method.oid)),
            ("opcname", Datum::text(name)),
            ("opcnamespace", Datum::Oid(schema)),
            ("opcowner", Datum::Oid(owner)),
            ("opcfamily", Datum::Oid(family)),
            ("opcintype", Datum::Oid(type_oid)),
            ("opcdefault", Datum::Bool(false)),
            ("opckeytype", Datum::Oid(0)),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_OPCLASS, &row).map(|_| ()))?;
        self.insert_members(&members, &FamilyTarget { class: Some((oid, type_oid)), ..place }, runtime)
    }

    /// A class of users cannot be a type's default.
    fn refuse_default(
        &mut self,
        name: &str,
        method: &AccessMethod,
        (type_name, type_oid): (&nodes::TypeName, Oid),
    ) -> Result<()> {
        let rows = self.context_mut().catalog_scan(PG_OPCLASS)?;
        // As it was written.
        let shown = names_of(type_name.names()).join(".")
            + if type_name.array_bounds().iter().next().is_some() { "[]" } else { "" };
        let is_default = |r: &&kilndb_catalog::catalog_row::CatalogRow| {
            r.oid("opcmethod") == method.oid && r.oid("opcintype") == type_oid && r.bool("opcdefault")
        };
        if let Some(known) = rows.iter().find(is_default) {
            let message = format!("could not make operator class \"{name}\" be default for type {shown}");
            let detail = format!("Operator class \"{}\" already is the default.", known.text("opcname").unwrap_or(""));
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message).with_detail(detail));
        }
        Err(Error::unsupported(format!(
            "operator classes of users that are the default for type {shown} are not supported"
        )))
    }

    pub fn alter_operator_family(
        &mut self,
        s: &nodes::AlterOpFamilyStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let method = self.method_named(s.amname().unwrap_or(""))?;
        let names = names_of(s.opfamilyname());
        let family = self.operator_object(Kind::Family, method, &names, runtime)?;
        if !self.context().is_superuser() {
            return Err(superuser_only("alter an operator family"));
        }
        let family_names = names.join(".");
        let place = FamilyTarget { method, family, family_names: &family_names, class: None };
        let mut members = Vec::new();
        for item in s.items() {
            members.push(match item.itemtype {
                ITEM_OPERATOR | ITEM_FUNCTION if s.is_drop => self.dropped_member(item, &place, source, runtime)?,
                ITEM_OPERATOR => self.operator_member(item, &place, 0, source, runtime)?,
                ITEM_FUNCTION => self.function_member(item, &place, 0, source, runtime)?,
                _ => return Err(syntax("STORAGE cannot be specified in ALTER OPERATOR FAMILY")),
            });
            self.refuse_twice(&members, runtime)?;
        }
        if family < FIRST_UNPINNED_OID {
            return Err(Error::unsupported(format!(
                "changing operator family {family_names}, which is built in, is not supported"
            )));
        }
        if s.is_drop {
            self.delete_members(&members, &place, runtime)
        } else {
            self.insert_members(&members, &place, runtime)
        }
    }

    fn check_number(&self, item: &nodes::CreateOpClassItem, method: &AccessMethod) -> Result<()> {
        let (word, most) = match item.itemtype {
            ITEM_OPERATOR if method.strategies == 0 => ("operator", i32::from(i16::MAX)),
            ITEM_OPERATOR => ("operator", method.strategies),
            _ => ("function", method.functions),
        };
        if item.number <= 0 || item.number > most {
            return Err(invalid(format!("invalid {word} number {}, must be between 1 and {most}", item.number)));
        }
        Ok(())
    }

    /// One or two types in parentheses.
    fn member_types(&mut self, list: &NodeList, source: &Arc<str>, runtime: &dyn Runtime) -> Result<(Oid, Oid)> {
        let mut types = Vec::new();
        for node in list {
            let Node::TypeName(t) = node else { continue };
            if types.len() < 2 {
                types.push(self.context_mut().resolve_type(t, source, runtime)?.0);
            } else {
                return Err(syntax("one or two argument types must be specified"));
            }
        }
        Ok(match types.as_slice() {
            [left, right] => (*left, *right),
            [one] => (*one, *one),
            _ => (0, 0),
        })
    }

    fn dropped_member(
        &mut self,
        item: &nodes::CreateOpClassItem,
        place: &FamilyTarget<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Member> {
        self.check_number(item, place.method)?;
        let (left, right) = self.member_types(item.class_args(), source, runtime)?;
        Ok(Member {
            is_function: item.itemtype == ITEM_FUNCTION,
            object: 0,
            number: item.number,
            left,
            right,
            sort_family: 0,
        })
    }

    /// `type_oid`: of the class; 0 for a family alone.
    fn operator_member(
        &mut self,
        item: &nodes::CreateOpClassItem,
        place: &FamilyTarget<'_>,
        type_oid: Oid,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Member> {
        self.check_number(item, place.method)?;
        let named = item.name().ok_or_else(|| Error::internal("an operator without a name"))?;
        let mut types = Vec::new();
        for argument in named.objargs() {
            types.push(match argument {
                Node::TypeName(t) => self.context_mut().resolve_type(t, source, runtime)?.0,
                _ => 0,
            });
        }
        let (left, right) = match types.as_slice() {
            [left, right] => (*left, *right),
            _ if type_oid == 0 => {
                return Err(syntax("operator argument types must be specified in ALTER OPERATOR FAMILY"));
            }
            _ => (type_oid, type_oid),
        };
        let names = super::strings(named.objname());
        let (schema, name) = split(&names);
        let all = self.context_mut().with_catalog(runtime, |host| host.reader.operators(schema, name))?;
        let Some(operator) = all.iter().find(|o| o.left == left && o.right == right) else {
            let shown = |t: Oid, host: &crate::host::StatementHost<'_>| {
                if t == 0 { String::new() } else { host.reader.format_type(t, -1) }
            };
            let types = self.context_mut().with_catalog(runtime, |host| Ok((shown(left, host), shown(right, host))))?;
            let message = format!("operator does not exist: {} {} {}", types.0, names.join("."), types.1);
            return Err(Error::new(sqlstate::UNDEFINED_FUNCTION, message.replace(":  ", ": ")));
        };
        let order_family = super::strings(item.order_family());
        let sort_family = match order_family.as_slice() {
            [] => 0,
            names => {
                let method = AccessMethod::of(BTREE_METHOD);
                self.operator_object(Kind::Family, method, names, runtime)?
            }
        };
        if operator.left == 0 || operator.right == 0 {
            return Err(invalid("index operators must be binary"));
        }
        if sort_family != 0 && !place.method.orders_by_operator {
            return Err(invalid(format!(
                "access method \"{}\" does not support ordering operators",
                place.method.name
            )));
        }
        if sort_family == 0 && operator.result != oids::BOOL {
            return Err(invalid("index search operators must return boolean"));
        }
        Ok(Member { is_function: false, object: operator.oid, number: item.number, left, right, sort_family })
    }

    fn function_member(
        &mut self,
        item: &nodes::CreateOpClassItem,
        place: &FamilyTarget<'_>,
        type_oid: Oid,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Member> {
        self.check_number(item, place.method)?;
        let named = item.name().ok_or_else(|| Error::internal("a function without a name"))?;
        let found = self.routine_named(named, O::OBJECT_FUNCTION, false, runtime)?;
        let f = found.ok_or_else(|| Error::internal("a function was not looked for"))?;
        let given = self.member_types(item.class_args(), source, runtime)?;
        let (left, right) = member_types_of(place.method, item.number, &f, given, type_oid)?;
        let or_class = |ty: Oid| if ty == 0 { type_oid } else { ty };
        let (left, right) = (or_class(left), or_class(right));
        if left == 0 || right == 0 {
            return Err(invalid("associated data types must be specified for index support function"));
        }
        Ok(Member { is_function: true, object: f.oid, number: item.number, left, right, sort_family: 0 })
    }

    fn types_shown(&mut self, m: &Member, runtime: &dyn Runtime) -> Result<String> {
        self.context_mut().with_catalog(runtime, |host| {
            Ok(format!("{},{}", host.reader.format_type(m.left, -1), host.reader.format_type(m.right, -1)))
        })
    }

    /// Is the last one there before?
    fn refuse_twice(&mut self, members: &[Member], runtime: &dyn Runtime) -> Result<()> {
        let Some((last, before)) = members.split_last() else { return Ok(()) };
        let is_same = |m: &Member| {
            (m.is_function, m.number, m.left, m.right) == (last.is_function, last.number, last.left, last.right)
        };
        if !before.iter().any(is_same) {
            return Ok(());
        }
        let types = self.types_shown(last, runtime)?;
        Err(invalid(format!("{} number {} for ({types}) appears more than once", last.word(), last.number)))
    }

    fn insert_members(&mut self, members: &[Member], place: &FamilyTarget<'_>, runtime: &dyn Runtime) -> Result<()> {
        for m in members {
            // The name is that of an existing family only.
            if !place.family_names.is_empty() && self.member_row(m, place.family)?.is_some() {
                let types = self.types_shown(m, runtime)?;
                let message = format!(
                    "{} {}({types}) already exists in operator family \"{}\"",
                    m.word(),
                    m.number,
                    place.family_names
                );
                return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            let oid = self.context().cluster.next_oid()?;
            let purpose = if m.sort_family == 0 { b's' } else { b'o' };
            let table = if m.is_function { PG_AMPROC } else { PG_AMOP };
            self.write_catalog(runtime, |w| {
                let row: &[(&str, Datum)] = if m.is_function {
                    &[
                        ("oid", Datum::Oid(oid)),
                        ("amprocfamily", Datum::Oid(place.family)),
                        ("amproclefttype", Datum::Oid(m.left)),
                        ("amprocrighttype", Datum::Oid(m.right)),
                        ("amprocnum", Datum::Int2(m.number as i16)),
                        ("amproc", Datum::Oid(m.object)),
                    ]
                } else {
                    &[
                        ("oid", Datum::Oid(oid)),
                        ("amopfamily", Datum::Oid(place.family)),
                        ("amoplefttype", Datum::Oid(m.left)),
                        ("amoprighttype", Datum::Oid(m.right)),
                        ("amopstrategy", Datum::Int2(m.number as i16)),
                        ("amoppurpose", Datum::Char(purpose)),
                        ("amopopr", Datum::Oid(m.object)),
                        ("amopmethod", Datum::Oid(place.method.oid)),
                        ("amopsortfamily", Datum::Oid(m.sort_family)),
                    ]
                };
                w.insert(table, row).map(|_| ())
            })?;
            self.bind_member((table, oid), m, place, runtime)?;
        }
        Ok(())
    }

    /// A member goes with its class, if that could not be without it; else it is the family's, and goes with what it is
    /// made of.
    fn bind_member(
        &mut self,
        row: (Oid, Oid),
        m: &Member,
        place: &FamilyTarget<'_>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let class = match place.class {
            _ if m.left != m.right || (m.is_function && m.number != 1) => None,
            Some((class, ty)) if ty == m.left => Some(class),
            _ => self.class_of_family(place.family, m.left)?,
        };
        let (kind, of) = match class {
            Some(class) => (b'n', ((PG_OPCLASS, class), b'i')),
            None => (b'a', ((PG_OPFAMILY, place.family), b'a')),
        };
        let object = if m.is_function { PG_PROC } else { PG_OPERATOR };
        self.need(row, (object, m.object), kind, runtime)?;
        self.need(row, of.0, of.1, runtime)?;
        for ty in [m.left, m.right].into_iter().take(if m.left == m.right { 1 } else { 2 }) {
            self.need(row, (PG_TYPE, ty), kind, runtime)?;
        }
        if m.sort_family != 0 {
            self.need(row, (PG_OPFAMILY, m.sort_family), kind, runtime)?;
        }
        Ok(())
    }

    fn class_of_family(&mut self, family: Oid, type_oid: Oid) -> Result<Option<Oid>> {
        let rows = self.context_mut().catalog_scan(PG_OPCLASS)?;
        Ok(rows.iter().find(|r| r.oid("opcfamily") == family && r.oid("opcintype") == type_oid).map(|r| r.oid("oid")))
    }

    fn member_row(&mut self, m: &Member, family: Oid) -> Result<Option<kilndb_catalog::catalog_row::CatalogRow>> {
        let (table, index) =
            if m.is_function { (PG_AMPROC, PG_AMPROC_FAM_PROC_INDEX) } else { (PG_AMOP, PG_AMOP_FAM_STRAT_INDEX) };
        let key = [Datum::Oid(family), Datum::Oid(m.left), Datum::Oid(m.right), Datum::Int2(m.number as i16)];
        Ok(self.context_mut().catalog_lookup(table, index, &key)?.into_iter().next())
    }

    fn delete_members(&mut self, members: &[Member], place: &FamilyTarget<'_>, runtime: &dyn Runtime) -> Result<()> {
        for m in members {
            let types = self.types_shown(m, runtime)?;
            let Some(row) = self.member_row(m, place.family)? else {
                let message = format!(
                    "{} {}({types}) does not exist in operator family \"{}\"",
                    m.word(),
                    m.number,
                    place.family_names
                );
                return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
            };
            let table = if m.is_function { PG_AMPROC } else { PG_AMOP };
            if let Some(class) = self.class_of_member(table, row.oid("oid"))? {
                let class = self.operator_object_shown(Kind::Class, class, runtime)?;
                let family = self.operator_object_shown(Kind::Family, place.family, runtime)?;
                let shown = format!("{} {} ({}) of {family}", m.word(), m.number, types.replace(',', ", "));
                let object = match m.is_function {
                    true => (PG_PROC, row.oid("amproc")),
                    false => (PG_OPERATOR, row.oid("amopopr")),
                };
                let made_of = self
                    .context_mut()
                    .with_catalog(runtime, |host| crate::host::describe::shown(host, object.0, object.1, 0))?
                    .unwrap_or_default();
                let made_of = made_of.split_once(' ').map_or("", |(_, name)| name);
                let message = format!("cannot drop {shown}: {made_of} because {class} requires it");
                return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .with_hint(format!("You can drop {class} instead.")));
            }
            self.remove_dependencies((table, row.oid("oid")), None, runtime)?;
            self.write_catalog(runtime, |w| w.delete(&row))?;
        }
        Ok(())
    }
}

/// The types that a function is for, as it was said, or as its arguments are: 0 where neither tells. Checks what the
/// method calls it with.
fn member_types_of(
    method: &AccessMethod,
    number: i32,
    f: &Arc<FunctionInfo>,
    given: (Oid, Oid),
    class_type: Oid,
) -> Result<(Oid, Oid)> {
    let argument = |i: usize| f.arg_types.get(i).copied().unwrap_or(0);
    let or = |given: Oid, own: Oid| if given == 0 { own } else { given };
    let count = f.arg_types.len();
    let must = |holds: bool, message: &str| if holds { Ok(()) } else { Err(invalid(message)) };
    if number == method.options_function {
        match class_type {
            0 => must(
                given.0 == given.1,
                "left and right associated data types for operator class options parsing functions must match",
            )?,
            ty => must(
                [given.0, given.1].iter().all(|t| *t == 0 || *t == ty),
                "associated data types for operator class options parsing functions must match opclass input type",
            )?,
        }
        if f.return_type != oids::VOID || f.arg_types != [INTERNAL] {
            return Err(invalid("invalid operator class options parsing function")
                .with_hint("Valid signature of operator class options parsing function is (internal) RETURNS void."));
        }
        return Ok(given);
    }
    match (method.oid, number) {
        (BTREE_METHOD, 1) => {
            must(count == 2, "ordering comparison functions must have two arguments")?;
            must(f.return_type == oids::INT4, "ordering comparison functions must return integer")?;
            Ok((or(given.0, argument(0)), or(given.1, argument(1))))
        }
        (BTREE_METHOD, 2) => {
            must(f.arg_types == [INTERNAL], "ordering sort support functions must accept type \"internal\"")?;
            must(f.return_type == oids::VOID, "ordering sort support functions must return void")?;
            Ok(given)
        }
        (BTREE_METHOD, 3) => {
            must(count == 5, "ordering in_range functions must have five arguments")?;
            must(f.return_type == oids::BOOL, "ordering in_range functions must return boolean")?;
            Ok((or(given.0, argument(0)), or(given.1, argument(2))))
        }
        (BTREE_METHOD, 4) => {
            must(count == 1, "ordering equal image functions must have one argument")?;
            must(f.return_type == oids::BOOL, "ordering equal image functions must return boolean")?;
            must(given.0 == given.1, "ordering equal image functions must not be cross-type")?;
            Ok(given)
        }
        (BTREE_METHOD, 6) => {
            must(f.arg_types == [INTERNAL], "btree skip support functions must accept type \"internal\"")?;
            must(f.return_type == oids::VOID, "btree skip support functions must return void")?;
            must(given.0 == given.1, "btree skip support functions must not be cross-type")?;
            Ok(given)
        }
        (HASH_METHOD, number) => {
            if number == 1 {
                must(count == 1, "hash function 1 must have one argument")?;
                must(f.return_type == oids::INT4, "hash function 1 must return integer")?;
            } else {
                must(count == 2, "hash function 2 must have two arguments")?;
                must(f.return_type == oids::INT8, "hash function 2 must return bigint")?;
            }
            Ok((or(given.0, argument(0)), or(given.1, argument(0))))
        }
        _ => Ok(given),
    }
}
