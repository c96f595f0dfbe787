//! Index methods and operator classes: which there are, which a column gets, and what a method refuses.

use super::Definitions;
use crate::client::Runtime;
use crate::host::default_class;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::extension::is_member;
use kilndb_catalog::ids::{PG_AM, PG_AM_NAME_INDEX, PG_OPCLASS};
use kilndb_catalog::inverted::inverted_class;
use kilndb_catalog::{AccessMethod, BTREE_METHOD, CatalogView, OptionValue};
use kilndb_syntax::nodes;
use kilndb_syntax::raw::{SortByDir, SortByNulls};
use kilndb_types::inverted::InvertedClass;
use kilndb_types::types::folding;
use kilndb_types::{Datum, key, oids};

/// What an index of this method cannot be.
pub(super) fn check_method(s: &nodes::IndexStmt, method: Oid) -> Result<()> {
    let method = AccessMethod::of(method);
    let refused =
        |what: &str| Err(Error::unsupported(format!("access method \"{}\" does not support {what}", method.name)));
    if s.unique && !method.can_be_unique {
        return refused("unique indexes");
    }
    if s.index_including_params().into_iter().next().is_some() && !method.can_include {
        return refused("included columns");
    }
    if s.index_params().into_iter().count() > 1 && !method.can_have_several_columns {
        return refused("multicolumn indexes");
    }
    Ok(())
}

pub(super) fn check_order(e: &nodes::IndexElem, method: Oid) -> Result<()> {
    let method = AccessMethod::of(method);
    let refused = |what: &str| {
        Err(Error::unsupported(format!("access method \"{}\" does not support {what} options", method.name)))
    };
    if !method.is_ordered && e.ordering != SortByDir::SORTBY_DEFAULT {
        return refused("ASC/DESC");
    }
    if !method.is_ordered && e.nulls_ordering != SortByNulls::SORTBY_NULLS_DEFAULT {
        return refused("NULLS FIRST/LAST");
    }
    Ok(())
}

impl Definitions<'_> {
    /// The access method of that name, if the database has it: an extension may have to bring it.
    pub(super) fn known_method(&mut self, name: &str) -> Result<Option<&'static AccessMethod>> {
        let Some(method) = AccessMethod::named(name) else { return Ok(None) };
        let is_there = !is_member(method.oid)
            || !self.context_mut().catalog_lookup(PG_AM, PG_AM_NAME_INDEX, &[Datum::text(name)])?.is_empty();
        Ok(is_there.then_some(method))
    }
    pub(super) fn index_method(&mut self, name: Option<&str>) -> Result<Oid> {
        let Some(name) = name else { return Ok(BTREE_METHOD) };
        match self.known_method(name)? {
            Some(method) if method.kind.is_some() => Ok(method.oid),
            Some(_) => Err(Error::unsupported(format!("access method \"{name}\" is not supported"))),
            None => Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("access method \"{name}\" does not exist"))),
        }
    }

    /// The class of an index column: that of the name, or the default one.
    pub(super) fn index_class(
        &mut self,
        e: &nodes::IndexElem,
        method: Oid,
        type_oid: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let names = super::strings(e.opclass());
        let class = match names.as_slice() {
            [.., schema, class] => self.named_class(Some(schema), class, method, type_oid, runtime)?,
            [class] => self.named_class(None, class, method, type_oid, runtime)?,
            [] => {
                let found =
                    self.context_mut().with_catalog(runtime, |host| default_class(method, type_oid, &host.reader))?;
                let is_known = AccessMethod::of(method).has_terms() || key::is_indexable(type_oid) || type_oid > 16384;
                let shown =
                    self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
                found.filter(|_| is_known).ok_or_else(|| {
                    let method = AccessMethod::of(method).name;
                    Error::new(sqlstate::UNDEFINED_OBJECT, format!("data type {shown} has no default operator class for access method \"{method}\""))
                        .with_hint("You must specify an operator class for the index or define a default operator class for the data type.")
                })?
            }
        };
        if super::is_user_object(class) {
            return Err(Error::unsupported(format!(
                "indexes with operator class \"{}\", which users have made, are not supported",
                names.join(".")
            )));
        }
        if AccessMethod::of(method).has_terms()
            && let InvertedClass::Array(element) =
                self.context_mut().with_catalog(runtime, |host| inverted_class(class, type_oid, &host.reader))?
        {
            self.check_elements(element, runtime)?;
        }
        Ok(class)
    }

    fn check_elements(&mut self, element: Oid, runtime: &dyn Runtime) -> Result<()> {
        let found =
            self.context_mut().with_catalog(runtime, |host| default_class(BTREE_METHOD, element, &host.reader))?;
        if found.is_some() && (key::is_indexable(element) || element > 16384) {
            return Ok(());
        }
        let shown = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(element, -1)))?;
        Err(Error::new(
            sqlstate::UNDEFINED_FUNCTION,
            format!("could not identify a comparison function for type {shown}"),
        ))
    }

    pub(super) fn named_class(
        &mut self,
        schema: Option<&str>,
        name: &str,
        method: Oid,
        type_oid: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let mut rows = self.context_mut().catalog_scan(PG_OPCLASS)?;
        let schemas = self.context_mut().with_catalog(runtime, |host| host.reader.schemas_to_search(schema, false))?;
        rows.retain(|r| schemas.contains(&r.oid("opcnamespace")));
        let base = self.context_mut().with_catalog(runtime, |host| {
            let mut oid = type_oid;
            while let Some(info) = host.reader.type_by_oid(oid)?.filter(|i| i.kind == b'd') {
                oid = info.base_type;
            }
            Ok(oid)
        })?;
        let info = self.type_info(base, runtime)?;
        let mut of_name =
            rows.iter().filter(|r| r.text("opcname") == Some(name) && r.oid("opcmethod") == method).peekable();
        if of_name.peek().is_none() {
            let method = AccessMethod::of(method).name;
            let name = schema.map_or(name.to_string(), |schema| format!("{schema}.{name}"));
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("operator class \"{name}\" does not exist for access method \"{method}\""),
            ));
        }
        let fits = |input: Oid| match input {
            oids::TEXT => matches!(base, oids::TEXT | oids::VARCHAR | oids::NAME),
            oids::INET => matches!(base, oids::INET | oids::CIDR),
            oids::ANYARRAY => info.element != 0,
            oids::ANYENUM => info.kind == b'e',
            oids::ANYRANGE => info.kind == b'r',
            oids::ANYMULTIRANGE => info.kind == b'm',
            oids::RECORD => info.kind == b'c' || base == oids::RECORD,
            input => input == base,
        };
        let is_text = of_name.clone().any(|r| r.oid("opcintype") == oids::TEXT);
        let found = of_name.find(|r| fits(r.oid("opcintype"))).map(|r| r.oid("oid"));
        let shown = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
        found.ok_or_else(|| {
            // The values would have to be compared as other values of their type are not.
            if is_text && base != oids::BPCHAR && folding(base).is_some() {
                return Error::unsupported(format!(
                    "operator class \"{name}\" of type text is not supported for data type {shown}"
                ));
            }
            Error::new(
                sqlstate::DATATYPE_MISMATCH,
                format!("operator class \"{name}\" does not accept data type {shown}"),
            )
        })
    }

    /// The type that an index column has in pg_attribute.
    pub(super) fn stored_type(
        &mut self,
        method: Oid,
        opclass: Oid,
        type_oid: Oid,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        if !AccessMethod::of(method).has_terms() {
            return Ok(type_oid);
        }
        Ok(match self.context_mut().with_catalog(runtime, |host| inverted_class(opclass, type_oid, &host.reader))? {
            InvertedClass::Array(element) => element,
            InvertedClass::TsVector | InvertedClass::Jsonb | InvertedClass::Hstore => oids::TEXT,
            InvertedClass::JsonbPath | InvertedClass::Trigram => oids::INT4,
            InvertedClass::Ordered(_) | InvertedClass::Hashed(_) => type_oid,
        })
    }
}

/// Storage parameters (`name=value`) of an index of this method.
pub(super) fn check_options(method: Oid, options: &[String]) -> Result<()> {
    for option in options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let invalid = |message: String| Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        let known = AccessMethod::of(method).options.iter().find(|(option, _)| *option == name);
        match known.map(|(_, value)| *value) {
            Some(OptionValue::Any) => {}
            Some(OptionValue::Boolean) if is_boolean(value) => {}
            Some(OptionValue::Boolean) => {
                return invalid(format!("invalid value for boolean option \"{name}\": {value}"));
            }
            Some(OptionValue::Between(least, most)) => check_number(name, value, least, most)?,
            None => return invalid(format!("unrecognized parameter \"{name}\"")),
        }
    }
    Ok(())
}

fn check_number(name: &str, value: &str, least: i64, most: i64) -> Result<()> {
    match value.parse::<i64>() {
        Ok(n) if (least..=most).contains(&n) => Ok(()),
        Ok(_) => Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("value {value} out of bounds for option \"{name}\""),
        )
        .with_detail(format!("Valid values are between \"{least}\" and \"{most}\"."))),
        Err(_) => Err(Error::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("invalid value for integer option \"{name}\": {value}"),
        )),
    }
}

/// As PostgreSQL reads one: a beginning of a word will do.
fn is_boolean(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    begins("true", 1)
        || begins("false", 1)
        || begins("yes", 1)
        || begins("no", 1)
        || begins("on", 2)
        || begins("off", 2)
        || value == "1"
        || value == "0"
}
