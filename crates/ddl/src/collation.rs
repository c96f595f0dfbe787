//! COLLATION: CREATE, ALTER, DROP, and which collation a clause names.
//!
//! Must not know: how texts are compared (`kilndb_types::collation`).

use super::Definitions;
use super::text_search::{option_names, split};
use super::text_search_objects::names_of;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::collation::DerivedCollation;
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::CatalogView;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::collation_read::{BUILTIN, ICU, LIBC, UTF8, not_collatable, unknown_collation};
use kilndb_catalog::ids::*;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use kilndb_types::collation::{parse_locale, rules, without_encoding};

/// What CREATE COLLATION says of a new one.
struct NewCollation {
    provider: u8,
    is_deterministic: bool,
    /// LC_COLLATE and LC_CTYPE of a collation of the operating system's.
    collate: Option<String>,
    ctype: Option<String>,
    /// The locale of any other.
    locale: Option<String>,
    version: Option<String>,
}

/// The values of the clause's options, each given once.
#[derive(Default)]
struct CollationOptions<'a> {
    from: Option<Vec<String>>,
    locale: Option<String>,
    collate: Option<String>,
    ctype: Option<String>,
    provider: Option<String>,
    deterministic: Option<&'a nodes::DefElem>,
    rules: Option<String>,
    version: Option<String>,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message)
}

fn redundant() -> Error {
    Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options")
}

fn at(error: Error, source: &str, location: i32) -> Error {
    error.or_position(kilndb_syntax::position_of(source, location))
}

impl<'a> CollationOptions<'a> {
    fn read(s: &'a nodes::DefineStmt, source: &str) -> Result<CollationOptions<'a>> {
        let mut options = CollationOptions::default();
        for d in s.definition().iter() {
            let name = d.defname().unwrap_or("").to_string();
            let values = option_names(d);
            let value = values.join(".");
            let given = match name.as_str() {
                "from" => options.from.replace(values).is_some(),
                "locale" => options.locale.replace(value).is_some(),
                "lc_collate" => options.collate.replace(value).is_some(),
                "lc_ctype" => options.ctype.replace(value).is_some(),
                "provider" => options.provider.replace(value).is_some(),
                "deterministic" => options.deterministic.replace(d).is_some(),
                "rules" => options.rules.replace(value).is_some(),
                "version" => options.version.replace(value).is_some(),
                _ => {
                    let message = format!("collation attribute \"{name}\" not recognized");
                    return Err(at(Error::new(sqlstate::SYNTAX_ERROR, message), source, d.location));
                }
            };
            if given {
                return Err(at(redundant(), source, d.location));
            }
        }
        if options.locale.is_some() && (options.collate.is_some() || options.ctype.is_some()) {
            let detail = "LOCALE cannot be specified together with LC_COLLATE or LC_CTYPE.";
            return Err(redundant().with_detail(detail));
        }
        if options.from.is_some() && s.definition().len() != 1 {
            return Err(redundant().with_detail("FROM cannot be specified together with any other options."));
        }
        Ok(options)
    }

    /// Whether DETERMINISTIC is true, as any word for a truth value may say.
    fn is_deterministic(&self) -> Result<bool> {
        let Some(d) = self.deterministic else { return Ok(true) };
        let value = option_names(d).join(".").to_ascii_lowercase();
        match value.as_str() {
            "" | "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(Error::new(sqlstate::SYNTAX_ERROR, "deterministic requires a Boolean value")),
        }
    }

    fn provider(&self) -> Result<u8> {
        match self.provider.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some("libc") => Ok(LIBC),
            Some("icu") => Ok(ICU),
            Some("builtin") => Ok(BUILTIN),
            Some(_) => {
                let given = self.provider.as_deref().unwrap_or("");
                Err(invalid(format!("unrecognized collation provider: {given}")))
            }
        }
    }
}

/// The operating system's locales that texts are compared by bytes in.
fn is_bytewise(locale: &str) -> bool {
    let known = ["c", "posix", "c.utf-8", "c.utf8", "c.utf_8"];
    known.contains(&locale.to_ascii_lowercase().as_str())
}

fn libc_locale(value: Option<String>, parameter: &str) -> Result<String> {
    let Some(locale) = value else { return Err(invalid(format!("parameter \"{parameter}\" must be specified"))) };
    if is_bytewise(&locale) {
        return Ok(locale);
    }
    let message = format!("could not create locale \"{locale}\": No such file or directory");
    let detail = format!("The operating system could not find any locale data for the locale name \"{locale}\".");
    Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message).with_detail(detail))
}

fn builtin_locale(locale: &str) -> Result<String> {
    match locale {
        "C" | "PG_UNICODE_FAST" => Ok(locale.to_string()),
        "C.UTF-8" | "C.UTF8" => Ok("C.UTF-8".to_string()),
        _ => {
            let message = format!("invalid locale name \"{locale}\" for builtin provider");
            Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message))
        }
    }
}

/// The language tag that stands for a locale.
fn standard_form(locale: &str) -> Result<String> {
    if matches!(without_encoding(locale).to_ascii_lowercase().as_str(), "c" | "posix") {
        return Ok("en-US-u-va-posix".to_string());
    }
    let standard = parse_locale(locale)?.to_string();
    // Options that are true may say so or not.
    let is_same = locale.replace("-true", "") == standard;
    Ok(if is_same { locale.to_string() } else { standard })
}

impl Definitions<'_> {
    /// The collation that a clause names.
    pub(super) fn collation_oid(&mut self, names: &[String], runtime: &dyn Runtime) -> Result<Oid> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (schema, name) = split(&names);
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.collation_named(schema, name))?;
        found.map(|info| info.oid).ok_or_else(|| unknown_collation(&names.join(".")))
    }

    /// The collation that a clause names for values of a type. Errors: 42804 for types without collations.
    pub(super) fn collation_for(&mut self, type_oid: Oid, names: &[&str], runtime: &dyn Runtime) -> Result<Oid> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let found = self.collation_oid(&names, runtime)?;
        if self.type_info(type_oid, runtime)?.collation == 0 {
            let shown = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
            return Err(not_collatable(&shown));
        }
        Ok(found)
    }

    /// The collation of an index's expression.
    pub(super) fn collation_of_expression(
        &mut self,
        type_oid: Oid,
        derived: DerivedCollation,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        match self.type_info(type_oid, runtime)?.collation {
            0 => Ok(0),
            own if derived.collation.oid == 0 => Ok(own),
            _ => derived.check_known("index expression").map(|()| derived.collation.oid),
        }
    }

    pub fn create_collation(&mut self, s: &nodes::DefineStmt, source: &str, runtime: &dyn Runtime) -> Result<()> {
        let names: Vec<&str> = s.defnames().iter().filter_map(|n| n.sval()).collect();
        let (schema, name) = split(&names);
        let (schema, _) = self.creation_schema(schema, false, runtime)?;
        let options = CollationOptions::read(s, source)?;
        let new = match &options.from {
            Some(from) => self.copied_collation(from, runtime)?,
            None => self.new_collation(&options)?,
        };
        let rows =
            self.context_mut().catalog_lookup(PG_COLLATION, PG_COLLATION_NAME_ENC_NSP_INDEX, &[Datum::text(name)])?;
        if rows.iter().any(|row| row.oid("collnamespace") == schema) {
            let message = format!("collation \"{name}\" already exists");
            if s.if_not_exists {
                let notice =
                    Error::notice(sqlstate::DUPLICATE_OBJECT, Severity::Notice, format!("{message}, skipping"));
                self.context().send_notice(notice);
                return Ok(());
            }
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        let oid = self.new_oid(schema)?;
        let owner = self.context().identity.current_role;
        let text = |value: &Option<String>| value.as_ref().map_or(Datum::Null, Datum::text);
        let row = [
            ("oid", Datum::Oid(oid)),
            ("collname", Datum::text(name)),
            ("collnamespace", Datum::Oid(schema)),
            ("collowner", Datum::Oid(owner)),
            ("collprovider", Datum::Char(new.provider)),
            ("collisdeterministic", Datum::Bool(new.is_deterministic)),
            ("collencoding", Datum::Int4(if new.provider == ICU { -1 } else { UTF8 })),
            ("collcollate", text(&new.collate)),
            ("collctype", text(&new.ctype)),
            ("colllocale", text(&new.locale)),
            ("collicurules", Datum::Null),
            ("collversion", text(&new.version)),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_COLLATION, &row).map(|_| ()))
    }

    fn new_collation(&mut self, options: &CollationOptions<'_>) -> Result<NewCollation> {
        let provider = options.provider()?;
        let is_deterministic = options.is_deterministic()?;
        let (mut collate, mut ctype, mut locale) = (None, None, None);
        if provider == LIBC {
            let of = |own: &Option<String>| own.clone().or_else(|| options.locale.clone());
            collate = Some(libc_locale(of(&options.collate), "lc_collate")?);
            ctype = Some(libc_locale(of(&options.ctype), "lc_ctype")?);
        } else {
            let Some(given) = &options.locale else { return Err(invalid("parameter \"locale\" must be specified")) };
            locale = Some(if provider == ICU { self.icu_locale(given)? } else { builtin_locale(given)? });
        }
        if !is_deterministic && provider != ICU {
            return Err(Error::unsupported("nondeterministic collations not supported with this provider"));
        }
        if options.rules.is_some() && provider != ICU {
            return Err(invalid("ICU rules cannot be specified unless locale provider is ICU"));
        }
        if options.rules.is_some() {
            return Err(Error::unsupported("ICU collation rules of one's own (RULES) are not supported"));
        }
        if let (ICU, Some(locale)) = (provider, &locale) {
            rules(locale, is_deterministic)?;
        }
        let version = options.version.clone();
        Ok(NewCollation { provider, is_deterministic, collate, ctype, locale, version })
    }

    /// A locale of ICU's in its standard form, with what there is to be said of it.
    fn icu_locale(&mut self, given: &str) -> Result<String> {
        let standard = standard_form(given)?;
        if standard != given {
            let message = format!("using standard form \"{standard}\" for ICU locale \"{given}\"");
            self.context().notice(Severity::Notice, message);
        }
        let language = standard.split('-').next().unwrap_or("");
        let is_known = matches!(language, "und" | "root" | "en")
            || self.context_mut().catalog_scan(PG_COLLATION)?.iter().any(|row| {
                row.oid("oid") < kilndb_catalog::builtin::FIRST_USER_OID
                    && row.text("colllocale").is_some_and(|locale| locale.split('-').next() == Some(language))
            });
        if !is_known {
            let warning = Error::notice(
                sqlstate::INVALID_PARAMETER_VALUE,
                Severity::Warning,
                format!("ICU locale \"{standard}\" has unknown language \"{language}\""),
            )
            .with_hint("To disable ICU locale validation, set the parameter \"icu_validation_level\" to \"disabled\".");
            self.context().send_notice(warning);
        }
        Ok(standard)
    }

    fn copied_collation(&mut self, from: &[String], runtime: &dyn Runtime) -> Result<NewCollation> {
        let row = self.collation_row(&from.iter().map(String::as_str).collect::<Vec<_>>(), runtime)?;
        if row.char("collprovider") == b'd' {
            return Err(invalid("collation \"default\" cannot be copied"));
        }
        let text = |column: &str| row.text(column).map(str::to_string);
        Ok(NewCollation {
            provider: row.char("collprovider"),
            is_deterministic: row.bool("collisdeterministic"),
            collate: text("collcollate"),
            ctype: text("collctype"),
            locale: text("colllocale"),
            version: text("collversion"),
        })
    }

    fn collation_row(&mut self, names: &[&str], runtime: &dyn Runtime) -> Result<CatalogRow> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let oid = self.collation_oid(&names, runtime)?;
        let rows = self.context_mut().catalog_lookup(PG_COLLATION, PG_COLLATION_OID_INDEX, &[Datum::Oid(oid)])?;
        rows.into_iter().next().ok_or_else(|| unknown_collation(&names.join(".")))
    }

    /// The row of a collation that the session's role may change.
    fn owned_collation(&mut self, names: &[&str], runtime: &dyn Runtime) -> Result<CatalogRow> {
        let row = self.collation_row(names, runtime)?;
        if self.context().owns(row.oid("collowner")) || self.context().is_superuser() {
            return Ok(row);
        }
        let message = format!("must be owner of collation {}", names.join("."));
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    fn refuse_same_collation(&mut self, name: &str, schema: Oid) -> Result<()> {
        let key = [Datum::text(name)];
        let rows = self.context_mut().catalog_lookup(PG_COLLATION, PG_COLLATION_NAME_ENC_NSP_INDEX, &key)?;
        if !rows.iter().any(|row| row.oid("collnamespace") == schema) {
            return Ok(());
        }
        let rows = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(schema)])?;
        let schema = rows.first().and_then(|r| r.text("nspname")).unwrap_or("");
        let message = format!("collation \"{name}\" already exists in schema \"{schema}\"");
        Err(Error::new(sqlstate::DUPLICATE_OBJECT, message))
    }

    pub(super) fn rename_collation(
        &mut self,
        object: Node<'_>,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.owned_collation(&names_of(object), runtime)?;
        self.refuse_same_collation(new_name, row.oid("collnamespace"))?;
        self.update_collation(&row, ("collname", Datum::text(new_name)), runtime)
    }

    pub(super) fn move_collation(
        &mut self,
        object: Node<'_>,
        schema: Option<&str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.owned_collation(&names_of(object), runtime)?;
        let (schema, _) = self.creation_schema(schema, false, runtime)?;
        if schema == row.oid("collnamespace") {
            return Ok("ALTER COLLATION".into());
        }
        self.refuse_same_collation(row.text("collname").unwrap_or(""), schema)?;
        self.update_collation(&row, ("collnamespace", Datum::Oid(schema)), runtime)
    }

    pub(super) fn give_collation(&mut self, object: Node<'_>, owner: Oid, runtime: &dyn Runtime) -> Result<String> {
        let row = self.owned_collation(&names_of(object), runtime)?;
        self.require_new_owner(owner, Some(row.oid("collnamespace")), runtime)?;
        self.update_collation(&row, ("collowner", Datum::Oid(owner)), runtime)
    }

    fn update_collation(
        &mut self,
        row: &CatalogRow,
        (column, value): (&'static str, Datum),
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let oid = row.oid("oid");
        self.update_row(PG_COLLATION, PG_COLLATION_OID_INDEX, oid, runtime, |row| row.set(column, value))?;
        Ok("ALTER COLLATION".into())
    }

    /// ALTER COLLATION … REFRESH VERSION: there is one version of the data, the program's own.
    pub fn refresh_collation(&mut self, s: &nodes::AlterCollationStmt, runtime: &dyn Runtime) -> Result<()> {
        let row = self.owned_collation(&super::strings(s.collname()), runtime)?;
        if row.char("collprovider") == b'd' {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, "cannot refresh version of default collation")
                .with_hint("Use ALTER DATABASE ... REFRESH COLLATION VERSION instead."));
        }
        self.context().notice(Severity::Notice, "version has not changed");
        Ok(())
    }

    pub(super) fn commented_collation(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<Oid> {
        Ok(self.owned_collation(&names_of(object), runtime)?.oid("oid"))
    }

    pub(super) fn drop_collations(
        &mut self,
        s: &nodes::DropStmt,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let mut named = Vec::new();
        for object in s.objects() {
            let names = names_of(object);
            let (schema, name) = split(&names);
            let found = self.context_mut().with_catalog(runtime, |host| host.reader.collation_named(schema, name))?;
            if found.is_none() {
                if !s.missing_ok {
                    return Err(unknown_collation(&names.join(".")));
                }
                let message = format!("collation \"{}\" does not exist, skipping", names.join("."));
                self.context().notice(Severity::Notice, message);
                continue;
            }
            let object = ObjectAddress::object(PG_COLLATION, self.owned_collation(&names, runtime)?.oid("oid"));
            if !named.contains(&object) {
                named.push(object);
            }
        }
        self.delete_objects(&named, cascade, runtime)?;
        Ok("DROP COLLATION".into())
    }
}
